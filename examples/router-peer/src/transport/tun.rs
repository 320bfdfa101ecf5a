//! Frames over a Linux tun (IP packets) or tap (Ethernet frames) device.

use std::path::Path;
use std::sync::Arc;

use smoltcp::phy::Medium;
use tracing::debug;
use tun_rs::{AsyncDevice, DeviceBuilder, Layer};

use super::{OpenError, Pumps, frame_mtu};
use crate::link::LinkPort;

/// An open device and its tasks. Dropping it stops them; a device made here goes with it.
#[derive(Debug)]
pub struct TunTransport {
    _pumps: Pumps,
}

impl TunTransport {
    /// Opens the device `name`, making it and setting its MTU when it is not there: a tun device for [`Medium::Ip`], a tap device for
    /// [`Medium::Ethernet`]. `ip_mtu` is the largest IP packet in octets.
    ///
    /// # Errors
    /// [`OpenError::Device`] without /dev/net/tun, without the privilege, or with a name that belongs to another kind of
    /// device.
    pub fn open(port: LinkPort, medium: Medium, ip_mtu: u16, name: &str) -> Result<Self, OpenError> {
        let layer = if medium == Medium::Ethernet { Layer::L2 } else { Layer::L3 };
        let builder = DeviceBuilder::new().name(name).layer(layer);
        // A device made for this user beforehand can be attached to without privilege, but not set up.
        let there = Path::new("/sys/class/net").join(name).exists();
        let builder = if there { builder.inherit_enable_state() } else { builder.mtu(ip_mtu) };
        let device =
            builder.build_async().map_err(|error| OpenError::Device { name: name.to_owned(), error })?;
        let device = Arc::new(device);
        let mut pumps = Pumps::default();
        pumps.spawn(receive(Arc::clone(&device), port.clone(), frame_mtu(medium, ip_mtu.into())));
        pumps.spawn(send(device, port));
        Ok(Self { _pumps: pumps })
    }
}

async fn receive(device: Arc<AsyncDevice>, port: LinkPort, mtu: usize) {
    let mut buffer = vec![0; mtu];
    loop {
        match device.recv(&mut buffer).await {
            Ok(octets) => port.to_stack.push(buffer[..octets].to_vec()),
            Err(error) => {
                debug!(%error, "the device is gone");
                return;
            }
        }
    }
}

async fn send(device: Arc<AsyncDevice>, port: LinkPort) {
    loop {
        let frame = port.from_stack.pop().await;
        if let Err(error) = device.send(&frame).await {
            debug!(%error, "cannot send a frame");
        }
    }
}
