mod handshake;
mod keys;
mod provider;
mod quinn;
mod support;
