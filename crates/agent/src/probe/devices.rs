//! The devices that sockets are bound to, asked of the kernel by netlink (`linux/if_link.h`).

use std::io::{self, ErrorKind};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkBuffer, NlasIterator};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// Octets of `struct nlmsghdr`, and of `struct ifinfomsg`.
const HEADERS: [usize; 2] = [16, 16];
/// Octets of the longest answer: a device has many attributes, but no long ones.
const LONGEST: usize = 64 << 10;

/// A device of the network namespace that was looked at.
pub(super) struct Device {
    pub(super) name: String,
    /// Whether it is a VRF, or belongs to one, or whether that is not known.
    pub(super) may_be_in_vrf: bool,
}

/// The device with this index in the calling thread's network namespace.
pub(super) fn device(index: u32) -> Device {
    let name = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| netdevice::index_to_name(socket, index));
    Device {
        // It may have been removed; its sockets stay bound to its number.
        name: name.unwrap_or_else(|_| format!("device {index}")),
        may_be_in_vrf: is_in_vrf(index).unwrap_or(true),
    }
}

fn is_in_vrf(index: u32) -> io::Result<bool> {
    let mut asker = Socket::new(NETLINK_ROUTE)?;
    asker.bind_auto()?;
    // Then only the kernel's messages are received.
    asker.connect(&SocketAddr::new(0, 0))?;
    let mut request = Vec::new();
    request.extend((HEADERS.iter().sum::<usize>() as u32).to_ne_bytes());
    request.extend(libc::RTM_GETLINK.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence and port; then family, type, index, flags, changes.
    request.extend([0; 8 + 4]);
    request.extend(index.to_ne_bytes());
    request.extend([0; 8]);
    asker.send(&request, 0)?;
    let mut answer = Vec::with_capacity(LONGEST);
    asker.recv(&mut answer, 0)?;
    is_of_vrf(&answer).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Whether a device is a VRF or belongs to one; `None` if the answer does not describe a device.
fn is_of_vrf(answer: &[u8]) -> Option<bool> {
    let message = NetlinkBuffer::new_checked(answer).ok()?;
    if message.message_type() != libc::RTM_NEWLINK {
        return None;
    }
    for attribute in NlasIterator::new(message.payload().get(HEADERS[1]..)?) {
        let attribute = attribute.ok()?;
        if attribute.kind() == libc::IFLA_LINKINFO {
            for part in NlasIterator::new(attribute.value()) {
                let part = part.ok()?;
                let is_kind = [libc::IFLA_INFO_KIND, libc::IFLA_INFO_SLAVE_KIND].contains(&part.kind());
                if is_kind && part.value().strip_suffix(b"\0").unwrap_or(part.value()) == b"vrf" {
                    return Some(true);
                }
            }
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attribute, padded.
    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = 4 + value.len();
        let mut octets = [&(length as u16).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        octets.resize(length.next_multiple_of(4), 0);
        octets
    }

    #[test]
    fn a_vrf_and_the_devices_in_it_are_told_from_others() {
        let answer = |kind: u16, attributes: &[u8]| {
            let length = (32 + attributes.len()) as u32;
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 26], attributes].concat()
        };
        let described = |parts: &[Vec<u8>]| {
            let information = attribute(libc::IFLA_LINKINFO, &parts.concat());
            is_of_vrf(&answer(
                libc::RTM_NEWLINK,
                &[attribute(libc::IFLA_IFNAME, b"red\0"), information].concat(),
            ))
        };
        let kind = |text: &[u8]| attribute(libc::IFLA_INFO_KIND, text);
        let of = |text: &[u8]| attribute(libc::IFLA_INFO_SLAVE_KIND, text);
        assert_eq!(described(&[kind(b"vrf\0")]), Some(true));
        assert_eq!(described(&[kind(b"veth\0"), of(b"vrf")]), Some(true));
        assert_eq!(described(&[kind(b"veth\0"), of(b"bridge\0")]), Some(false));
        assert_eq!(is_of_vrf(&answer(libc::RTM_NEWLINK, &[])), Some(false));
        // An error, and what is cut off.
        assert_eq!(is_of_vrf(&answer(2, &[])), None);
        assert_eq!(is_of_vrf(&answer(libc::RTM_NEWLINK, &[])[..20]), None);
        // The loopback device is the first of each network namespace.
        assert!(!is_in_vrf(1).unwrap());
        // One that is not there may have been a VRF.
        assert!(device(u32::MAX >> 1).may_be_in_vrf);
    }
}
