//! An end whose connection the other has reset.

use std::io::ErrorKind;

use agent::{Amount, TIME_LIMIT, Transfer};
use speaker::stack::TcpStream;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

use crate::prelude::*;

/// Waits until the userspace end finds its connection reset.
pub async fn userspace_was_reset(stream: &mut TcpStream) -> Result<()> {
    let read = timeout(TIME_LIMIT, stream.read(&mut [0])).await;
    let read = read.context("userspace still waits")?;
    let is_reset = matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset);
    ensure!(is_reset, "userspace has read {read:?}");
    Ok(())
}

/// Waits until the kernel's socket finds its connection reset.
pub async fn kernel_was_reset(lab: &Lab, socket: u64) -> Result<()> {
    let read = lab.north.call(Transfer { socket, send: Amount::NONE, receive: Amount::of(1) }).await;
    let is_reset = matches!(&read, Err(error) if error.to_string().contains("Connection reset by peer"));
    ensure!(is_reset, "the kernel has read {read:?}");
    Ok(())
}
