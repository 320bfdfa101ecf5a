//! TCP-MD5 keys (RFC 2385) that the program sets.

use std::net::IpAddr;

use cidr::IpInet;
use wireseal_linux::PeerName;

/// Octets of `struct tcp_md5sig` (`linux/tcp.h`), and those of them before the secret.
pub(super) const WHOLE: u32 = 216;
pub(super) const BEFORE_THE_SECRET: usize = 136;
/// The option whose flags count.
pub(super) const TCP_MD5SIG_EXT: u32 = 32;
/// `TCP_MD5SIG_FLAG_PREFIX` and `TCP_MD5SIG_FLAG_IFINDEX`.
const HAS_PREFIX: u8 = 1;
const HAS_VRF: u8 = 2;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Whom a key is for; `None` if the kernel does not take it.
pub(super) fn peer_of(octets: &[u8; BEFORE_THE_SECRET], option: u32) -> Option<PeerName> {
    let [family @ .., _, _] = *octets.first_chunk::<4>()?;
    let address: IpAddr = match u16::from_ne_bytes(family) {
        AF_INET => <[u8; 4]>::try_from(&octets[4..8]).ok()?.into(),
        AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(&octets[8..24]).ok()?).to_canonical(),
        _ => return None,
    };
    let flags = if option == TCP_MD5SIG_EXT { octets[128] } else { 0 };
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let length = if flags & HAS_PREFIX == 0 { whole } else { octets[129] };
    let vrf = u32::from_ne_bytes(*octets.last_chunk()?);
    let remote = IpInet::new(address, length).ok()?.network();
    Some(PeerName { remote, vrf: (flags & HAS_VRF != 0 && vrf != 0).then_some(vrf) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP_MD5SIG: u32 = 14;

    fn octets(address: &[u8], flags: u8, length: u8, vrf: u32) -> [u8; BEFORE_THE_SECRET] {
        let (family, at) = if address.len() == 4 { (AF_INET, 4) } else { (AF_INET6, 8) };
        let mut octets = [0; BEFORE_THE_SECRET];
        octets[..2].copy_from_slice(&family.to_ne_bytes());
        octets[at..at + address.len()].copy_from_slice(address);
        (octets[128], octets[129]) = (flags, length);
        octets[132..].copy_from_slice(&vrf.to_ne_bytes());
        octets
    }

    #[test]
    fn whom_a_key_is_for_is_read_as_the_kernel_reads_it() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1];
        let ipv6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        for (octets, option, peer) in [
            (octets(&[192, 0, 2, 1], 3, 24, 7), TCP_MD5SIG, Some("192.0.2.1")),
            (octets(&[192, 0, 2, 1], 0, 24, 7), TCP_MD5SIG_EXT, Some("192.0.2.1")),
            (octets(&[192, 0, 2, 1], HAS_PREFIX, 24, 0), TCP_MD5SIG_EXT, Some("192.0.2.0/24")),
            (octets(&[192, 0, 2, 1], HAS_PREFIX, 33, 0), TCP_MD5SIG_EXT, None),
            (octets(&mapped, 0, 0, 0), TCP_MD5SIG, Some("192.0.2.1")),
            (octets(&mapped, HAS_PREFIX, 33, 0), TCP_MD5SIG_EXT, None),
            (octets(&ipv6, HAS_PREFIX, 64, 0), TCP_MD5SIG_EXT, Some("2001:db8::/64")),
            ([0; BEFORE_THE_SECRET], TCP_MD5SIG, None),
        ] {
            assert_eq!(peer_of(&octets, option), peer.map(|peer| peer.parse().unwrap()), "{peer:?}");
        }
        let in_vrf = peer_of(&octets(&[192, 0, 2, 1], HAS_VRF, 0, 7), TCP_MD5SIG_EXT).unwrap();
        assert_eq!(in_vrf.vrf, Some(7));
    }
}
