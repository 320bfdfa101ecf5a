//! Frames over a Linux tun (IP packets) or tap (Ethernet frames) device.

use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use smoltcp::phy::Medium;
use tun_rs::{AsyncDevice, DeviceBuilder, Layer};

use super::device::Link;
use super::pump::{FrameIo, pump};

/// Opens the device `name`, or creates one with this MTU for IP packets. It is closed when the link is dropped.
///
/// # Errors
/// Without `/dev/net/tun` or the privilege, and when the device is of another kind.
///
/// # Panics
/// When called outside a tokio runtime.
pub fn open(medium: Medium, ip_mtu: u16, name: &str) -> Result<Link> {
    let layer = if medium == Medium::Ethernet { Layer::L2 } else { Layer::L3 };
    let builder = DeviceBuilder::new().name(name).layer(layer);
    // A device made for this user beforehand can be attached to without privilege, but not set up.
    let exists = Path::new("/sys/class/net").join(name).exists();
    let builder = if exists { builder.inherit_enable_state() } else { builder.mtu(ip_mtu) };
    let device = builder.build_async().with_context(|| {
        format!(
            "{name}: cannot open this device (it needs /dev/net/tun, and CAP_NET_ADMIN or a device that `ip tuntap add` \
             has given to this user)"
        )
    })?;
    let link = Link::new(medium, ip_mtu.into());
    let tasks = pump(&link, device);
    Ok(link.with_mover(tasks))
}

impl FrameIo for AsyncDevice {
    async fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.recv(buffer).await
    }

    async fn send(&self, frame: &[u8]) -> io::Result<()> {
        AsyncDevice::send(self, frame).await.map(drop)
    }
}
