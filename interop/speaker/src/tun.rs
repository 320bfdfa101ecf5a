//! IP packets over a Linux tun device.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use smoltcp::phy::Medium;
use tokio::task::JoinSet;
use tracing::debug;
use tun_rs::{AsyncDevice, DeviceBuilder, Layer};

use crate::link::Link;

/// Opens the device `name`, or creates one with this MTU in octets. It is closed when the link is dropped.
/// Fails without `/dev/net/tun` or the privilege, and when the device is no tun device.
/// Panics when called outside a tokio runtime.
pub fn open(ip_mtu: u16, name: &str) -> Result<Link> {
    let builder = DeviceBuilder::new().name(name).layer(Layer::L3);
    // A device that was created for this user can be opened without privilege, but not configured.
    let exists = Path::new("/sys/class/net").join(name).exists();
    let builder = if exists { builder.inherit_enable_state() } else { builder.mtu(ip_mtu) };
    let device = builder.build_async().with_context(|| {
        format!(
            "{name}: cannot open this device (it needs /dev/net/tun, and CAP_NET_ADMIN or a device that `ip tuntap add` \
             has given to this user)"
        )
    })?;
    let link = Link::new(Medium::Ip, ip_mtu.into());
    let tasks = pump(&link, device);
    Ok(link.with_mover(tasks))
}

/// Tasks that move packets until they are dropped. What does not fit or cannot be sent is counted as dropped.
fn pump(link: &Link, device: AsyncDevice) -> JoinSet<()> {
    let device = Arc::new(device);
    let mut tasks = JoinSet::new();
    let (inward, outward, mtu) = (Arc::clone(&link.to_stack), Arc::clone(&link.from_stack), link.mtu);
    let from = Arc::clone(&device);
    tasks.spawn(async move {
        // One octet more than a packet may have, to detect longer ones.
        let mut buffer = vec![0; mtu + 1];
        loop {
            match from.recv(&mut buffer).await {
                Ok(octets) if octets <= mtu => inward.push(buffer[..octets].to_vec()),
                Ok(octets) => {
                    debug!(octets, "packet too long for this link");
                    inward.note_dropped();
                }
                Err(error) => return debug!(%error, "cannot receive packets any more"),
            }
        }
    });
    tasks.spawn(async move {
        loop {
            if let Err(error) = device.send(&outward.pop().await).await {
                debug!(%error, "cannot send a packet");
                outward.note_dropped();
            }
        }
    });
    tasks
}
