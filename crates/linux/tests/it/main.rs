//! Tests on this machine's kernel, which may or may not have TCP-AO. The lab in `interop/linux` shows what a kernel with TCP-AO
//! does.
#![cfg(target_os = "linux")]

mod isn;
mod manager;
mod net;
mod probe;
mod sockets;
