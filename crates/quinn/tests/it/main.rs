//! quinn and noq on Wireseal against quinn and noq on ring, over loopback.

mod handshakes;
mod noq;
mod quinn;
mod support;
