//! A key to put on a socket, and a key that is on one.

use cidr::IpCidr;
use subtle::ConstantTimeEq;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::MacKey;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};
use zeroize::Zeroizing;

use crate::key_name::KeyName;
use crate::network::canonical;

/// A key and the peers it is for (`struct tcp_ao_add` in `linux/tcp.h`).
#[derive(Clone, Copy, Debug)]
pub struct SocketKey<'a> {
    /// The peers it is for. A network of IPv4-mapped IPv6 addresses means the IPv4 network.
    pub remote: IpCidr,
    /// Only for connections in this VRF: the interface index of the VRF device, or 0 for connections in no VRF. `None` is
    /// for all connections. Linux 6.18 does not delete a key for a VRF ([`Error::KeyStays`](crate::Error::KeyStays)): on a socket that is
    /// bound to the VRF, `None` does.
    pub vrf: Option<u32>,
    /// The key itself.
    pub mkt: &'a Mkt,
    /// Makes it the current key at once: this end signs with it. Not on a listening socket, which has none.
    pub set_current: bool,
    /// Makes it the rnext key at once: this end asks the peer to sign with it. Not on a listening socket.
    pub set_rnext: bool,
}

impl<'a> SocketKey<'a> {
    /// A key for these peers in any VRF, made neither current nor rnext key.
    #[must_use]
    pub const fn new(remote: IpCidr, mkt: &'a Mkt) -> Self {
        Self { remote, vrf: None, mkt, set_current: false, set_rnext: false }
    }

    /// What identifies the key once it is on a socket.
    #[must_use]
    pub fn name(&self) -> KeyName {
        let (send_id, recv_id) = (self.mkt.send_id(), self.mkt.recv_id());
        KeyName { remote: canonical(self.remote), vrf: self.vrf, send_id, recv_id }
    }
}

/// The keys that take over when a key in use is deleted. By default there are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Successor {
    /// The SendID of the next current key.
    pub current: Option<KeyId>,
    /// The RecvID of the next rnext key.
    pub rnext: Option<KeyId>,
}

/// A key as the kernel reports it (`struct tcp_ao_getsockopt` in `linux/tcp.h`). It holds the secret; Debug does not show it.
#[derive(Clone, Debug)]
pub struct InstalledKey {
    /// What identifies it, and what to delete it by.
    pub name: KeyName,
    /// KDF and MAC.
    pub algorithm: TcpAoAlgorithm,
    /// Octets of the MAC in the option.
    pub mac_length: usize,
    /// Whether the MAC covers the other options.
    pub options: OptionCoverage,
    /// Whether this end signs with it.
    pub is_current: bool,
    /// Whether this end asks the peer to sign with it.
    pub is_rnext: bool,
    /// Segments that verified under it on this socket.
    pub good: u64,
    /// Segments that failed under it on this socket.
    pub bad: u64,
    /// The secret as the kernel keeps it; `None` if another program set an empty one.
    pub(crate) master_key: Option<MasterKey>,
}

impl InstalledKey {
    /// Whether it is this MKT: same ids, algorithm, MAC length, option coverage and secret.
    ///
    /// Secrets are compared in constant time. For AES-128-CMAC the compressed secret is compared, because that is what the
    /// kernel keeps (RFC 5926 §3.1.1.2).
    #[must_use]
    pub fn is(&self, mkt: &Mkt) -> bool {
        let parameters = mkt.parameters();
        let Self { name, algorithm, mac_length, options, master_key, .. } = self;
        (name.send_id, name.recv_id) == (parameters.send_id, parameters.recv_id)
            && (*algorithm, *mac_length, *options)
                == (parameters.algorithm, parameters.mac_length(), parameters.options)
            && master_key.as_ref().is_some_and(|ours| {
                ours.expose_secret().ct_eq(&as_kept_by_kernel(*algorithm, mkt.master_key())).into()
            })
    }
}

/// The master key as the kernel keeps it: for AES-128-CMAC compressed unless it has 16 octets (RFC 5926 §3.1.1.2).
pub(crate) fn as_kept_by_kernel(algorithm: TcpAoAlgorithm, master_key: &MasterKey) -> Zeroizing<Vec<u8>> {
    let secret = master_key.expose_secret();
    Zeroizing::new(match algorithm {
        TcpAoAlgorithm::Aes128Cmac if secret.len() != 16 => {
            MacKey::aes_128_cmac(&[0; 16]).mac(&[secret]).as_bytes().to_vec()
        }
        _ => secret.to_vec(),
    })
}
