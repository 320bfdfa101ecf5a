//! Network devices: their indices, and the VRFs that they belong to, asked of the kernel (rtnetlink); peers on a device, as text.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::str::FromStr;

use cidr::errors::NetworkParseError;
use libc::{
    AF_NETLINK, IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER, NETLINK_ROUTE, NLM_F_REQUEST,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Error, PeerName};

/// The kind of a device's master (`linux/if_link.h`), which some versions of libc lack.
const IFLA_INFO_SLAVE_KIND: u16 = 4;

/// Octets before the attributes: `struct nlmsghdr` and `struct ifinfomsg`.
const HEADERS: usize = 32;
/// The kernel's answer about one device is shorter.
const ANSWER: usize = 1 << 16;

/// The index of the VRF device that the device with this name is, or belongs to (`linux/if_link.h`); 0 for none. It looks in the calling
/// thread's network namespace.
///
/// # Errors
/// The kernel's: ENODEV if no device has this name.
pub fn vrf_of_device(device: &[u8]) -> io::Result<u32> {
    Ok(Device::named(device)?.vrf)
}

/// A network device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Device {
    /// Its interface index.
    pub(crate) index: u32,
    /// The index of the VRF device that it is, or belongs to; 0 for none.
    pub(crate) vrf: u32,
}

impl Device {
    /// The device with this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's: ENODEV if no device has this name.
    pub(crate) fn named(device: &[u8]) -> io::Result<Self> {
        let kernel = Socket::new(Domain::from(AF_NETLINK), Type::DGRAM, Some(Protocol::from(NETLINK_ROUTE)))?;
        kernel.send(&question(device))?;
        let mut answer = vec![0; ANSWER];
        let length = (&kernel).read(&mut answer)?;
        device_in(answer.get(..length).unwrap_or_default())
    }
}

/// `RTM_GETLINK` for the device with this name.
fn question(device: &[u8]) -> Vec<u8> {
    let attribute = 4 + device.len() + 1;
    let length = HEADERS + attribute.next_multiple_of(4);
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(libc::RTM_GETLINK.to_ne_bytes());
    message.extend((NLM_F_REQUEST as u16).to_ne_bytes());
    message.resize(HEADERS, 0);
    message.extend((attribute as u16).to_ne_bytes());
    message.extend(IFLA_IFNAME.to_ne_bytes());
    message.extend(device);
    message.resize(length, 0);
    message
}

/// The device in the kernel's answer.
fn device_in(answer: &[u8]) -> io::Result<Device> {
    let number = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    let invalid = || io::Error::from(ErrorKind::InvalidData);
    let kind = answer.get(4..6).ok_or_else(invalid)?;
    if kind == (libc::NLMSG_ERROR as u16).to_ne_bytes() {
        let errno = number(16).ok_or_else(invalid)?.cast_signed();
        return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
    }
    let (own, attributes) = number(20).zip(answer.get(HEADERS..)).ok_or_else(invalid)?;
    let described = find(attributes, IFLA_LINKINFO).unwrap_or_default();
    let is_vrf = |kind| find(described, kind).is_some_and(|text| text.starts_with(b"vrf\0"));
    let master = || find(attributes, IFLA_MASTER).and_then(|index| index.try_into().ok());
    let vrf = if is_vrf(IFLA_INFO_KIND) {
        own
    } else if is_vrf(IFLA_INFO_SLAVE_KIND) {
        u32::from_ne_bytes(master().ok_or_else(invalid)?)
    } else {
        0
    };
    Ok(Device { index: own, vrf })
}

/// The contents of the first attribute of this type; `None` if one before it is damaged.
fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (header, _) = attributes.split_at_checked(4)?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let contents = attributes.get(4..length)?;
        // The two highest bits are flags.
        if u16::from_ne_bytes([header[2], header[3]]) & 0x3fff == wanted {
            return Some(contents);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// For the fuzz targets: the device's index and its VRF, from the kernel's answer.
///
/// # Errors
/// An error that the kernel reports, or that the answer cannot be read.
#[cfg(fuzzing)]
pub fn device_of_answer(answer: &[u8]) -> io::Result<(u32, u32)> {
    device_in(answer).map(|Device { index, vrf }| (index, vrf))
}

/// Reads what Display writes: an address or a network, after a `%` the name or the index of an interface, and after ` in VRF ` the name or the
/// index of a VRF device, or 0 for no VRF. Names are looked up in the calling thread's network namespace.
impl FromStr for PeerName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |because: &dyn fmt::Display| Error::NotAPeer {
            text: text.to_owned(),
            because: because.to_string(),
        };
        let (address, vrf) =
            text.split_once(" in VRF ").map_or((text, None), |(address, of)| (address, Some(of)));
        let (network, interface) =
            address.split_once('%').map_or((address, None), |(network, of)| (network, Some(of)));
        let remote = network.parse().map_err(|error: NetworkParseError| refused(&error))?;
        let index = |what: &str, device: &str| {
            if let Ok(index) = device.parse() {
                return Ok(index);
            }
            if device.is_empty() {
                return Err(refused(&format_args!("the {what} is missing")));
            }
            let named = Device::named(device.as_bytes());
            Ok(named.map_err(|error| refused(&format_args!("{what} {device:?}: {error}")))?.index)
        };
        let interface = interface.map(|interface| index("interface", interface)).transpose()?;
        if interface == Some(0) {
            return Err(refused(&"no interface has the index 0"));
        }
        let vrf = vrf.map(|vrf| index("VRF", vrf)).transpose()?;
        Ok(Self { vrf, interface, ..Self::new(remote) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, contents: &[u8]) -> Vec<u8> {
        let mut octets = (4 + contents.len() as u16).to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend(contents);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    /// The kernel's answer about device 7, whose master is device 9.
    fn answer(kind: &[u8], slave_kind: &[u8]) -> Vec<u8> {
        let mut octets = vec![0; HEADERS];
        octets[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        octets[20..24].copy_from_slice(&7u32.to_ne_bytes());
        octets.extend(attribute(IFLA_IFNAME, b"blue\0"));
        octets.extend(attribute(IFLA_MASTER, &9u32.to_ne_bytes()));
        let kinds = [attribute(IFLA_INFO_KIND, kind), attribute(IFLA_INFO_SLAVE_KIND, slave_kind)];
        octets.extend(attribute(IFLA_LINKINFO, &kinds.concat()));
        octets
    }

    #[test]
    fn a_vrf_is_its_own_and_what_belongs_to_one_has_its_index() {
        for (kind, slave_kind, expected) in [
            (&b"vrf\0"[..], &b""[..], 7),
            (b"veth\0", b"vrf\0", 9),
            (b"veth\0", b"bridge\0", 0),
            (b"vrfx\0", b"", 0),
        ] {
            assert_eq!(
                device_in(&answer(kind, slave_kind)).unwrap(),
                Device { index: 7, vrf: expected },
                "{kind:?} {slave_kind:?}"
            );
        }
        assert_eq!(device_in(&answer(b"", b"")[..HEADERS]).unwrap().vrf, 0, "a device without a kind");
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_an_error() {
        let whole = answer(b"veth\0", b"vrf\0");
        for length in 0..HEADERS {
            assert!(device_in(&whole[..length]).is_err());
        }
        for length in HEADERS..whole.len() {
            let _ = device_in(&whole[..length]);
        }
        assert!(find(&[0; 7], 1).is_none());
        assert_eq!(find(&[0, 0, 2, 0, 4, 0, 1, 0], 1), None, "behind an attribute shorter than its header");
    }

    #[test]
    fn the_kernel_answers() {
        let lo = Device::named(b"lo").unwrap();
        assert_eq!((vrf_of_device(b"lo").unwrap(), lo.vrf), (0, 0));
        assert!(lo.index > 0);
        assert_eq!(vrf_of_device(b"no-such-device").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        // Longer than the name of any device.
        assert!(Device::named(&[b'x'; 4000]).is_err());
    }

    #[test]
    fn an_interface_is_read_by_name_and_index_and_written_by_index() {
        let lo = Device::named(b"lo").unwrap().index;
        for (text, network, interface) in [
            ("fe80::1%lo".to_owned(), "fe80::1", Some(lo)),
            (format!("fe80::1%{lo}"), "fe80::1", Some(lo)),
            ("fe80::/10%4294967295".to_owned(), "fe80::/10", Some(u32::MAX)),
            ("192.0.2.7%7".to_owned(), "192.0.2.7", Some(7)),
            ("fe80::1".to_owned(), "fe80::1", None),
        ] {
            let peer: PeerName = text.parse().unwrap();
            assert_eq!(peer, PeerName { interface, ..network.parse().unwrap() }, "{text}");
            for peer in [peer, PeerName { vrf: Some(0), ..peer }, PeerName { vrf: Some(u32::MAX), ..peer }] {
                let shown = peer.to_string();
                assert_eq!(shown.parse::<PeerName>().unwrap(), peer, "{shown}");
            }
            assert_eq!(format!("{peer} in VRF lo").parse::<PeerName>().unwrap().vrf, Some(lo));
        }
        for (text, expected) in [
            ("fe80::1%", "\"fe80::1%\" is no peer: the interface is missing; write"),
            ("fe80::1%0", "\"fe80::1%0\" is no peer: no interface has the index 0; write"),
            ("fe80::1%no-such", "\"fe80::1%no-such\" is no peer: interface \"no-such\": No such device"),
            ("fe80::1%lo%lo", "\"fe80::1%lo%lo\" is no peer: interface \"lo%lo\": "),
            ("fe80::1%4294967296", "\"fe80::1%4294967296\" is no peer: interface "),
            ("192.0.2.7 in VRF ", "\"192.0.2.7 in VRF \" is no peer: the VRF is missing; write"),
            ("192.0.2.7 in VRF no-such", "\"192.0.2.7 in VRF no-such\" is no peer: VRF \"no-such\": No such"),
            ("fe80::g", "\"fe80::g\" is no peer: "),
            ("", "\"\" is no peer: "),
        ] {
            let error = text.parse::<PeerName>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
