//! A key on a socket: where it goes, what names it, and what the kernel says of it.

use std::fmt;

use cidr::IpCidr;
use subtle::ConstantTimeEq;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::MacKey;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage};
use zeroize::Zeroizing;

/// A key and where it goes (`struct tcp_ao_add` in `linux/tcp.h`).
#[derive(Clone, Copy, Debug)]
pub struct SocketKey<'a> {
    /// The peers it is for. A network of IPv4-mapped IPv6 addresses is the IPv4 network it stands for.
    pub remote: IpCidr,
    /// The interface index of the VRF device whose connections it is for, 0 for those outside of any VRF; `None` for
    /// all of them.
    pub vrf: Option<u32>,
    /// The key itself.
    pub mkt: &'a Mkt,
    /// Makes it the current key at once: what this end signs with. Not on a listening socket, which has none.
    pub set_current: bool,
    /// Makes it the rnext key at once: what this end asks the peer to sign with. Not on a listening socket.
    pub set_rnext: bool,
}

impl<'a> SocketKey<'a> {
    /// A key for these peers in any VRF, which becomes neither current nor rnext key by itself.
    #[must_use]
    pub const fn new(remote: IpCidr, mkt: &'a Mkt) -> Self {
        Self { remote, vrf: None, mkt, set_current: false, set_rnext: false }
    }

    /// What names the key once it is on a socket.
    #[must_use]
    pub fn name(&self) -> KeyName {
        let (send_id, recv_id) = (self.mkt.send_id(), self.mkt.recv_id());
        KeyName { remote: crate::address::canonical(self.remote), vrf: self.vrf, send_id, recv_id }
    }
}

/// What names a key on a socket: all that `TCP_AO_DEL_KEY` compares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyName {
    /// The peers the key is for.
    pub remote: IpCidr,
    /// The VRF it is for, as in [`SocketKey::vrf`].
    pub vrf: Option<u32>,
    /// The KeyID of what this end sends under it.
    pub send_id: KeyId,
    /// The KeyID of what this end accepts under it.
    pub recv_id: KeyId,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remote, vrf, send_id, recv_id } = self;
        write!(f, "key with SendID {send_id} and RecvID {recv_id} for {remote}")?;
        match vrf {
            Some(index) => write!(f, " in VRF {index}"),
            None => Ok(()),
        }
    }
}

/// What takes over from a key that is deleted while it is in use. By default nothing does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Successor {
    /// The SendID of the next current key.
    pub current: Option<KeyId>,
    /// The RecvID of the next rnext key.
    pub rnext: Option<KeyId>,
}

/// A key as the kernel has it (`struct tcp_ao_getsockopt` in `linux/tcp.h`). The secret is in it, and in no Debug.
#[derive(Clone, Debug)]
pub struct InstalledKey {
    /// What to delete it by.
    pub name: KeyName,
    /// KDF and MAC.
    pub algorithm: TcpAoAlgorithm,
    /// Octets of the MAC in the option.
    pub mac_length: usize,
    /// Whether the MAC covers the other options.
    pub options: OptionCoverage,
    /// Whether it is what this end signs with.
    pub is_current: bool,
    /// Whether it is what this end asks the peer to sign with.
    pub is_rnext: bool,
    /// Segments verified under it on this socket.
    pub good: u64,
    /// Segments that failed under it on this socket.
    pub bad: u64,
    /// The secret as the kernel keeps it; `None` when another program gave an empty one.
    pub(crate) master_key: Option<MasterKey>,
}

impl InstalledKey {
    /// Whether it is this MKT: same ids, algorithm, MAC length, coverage and secret. Secrets are compared in constant
    /// time; that of AES-128-CMAC as RFC 5926 §3.1.1.2 compresses it, which is how the kernel keeps it.
    #[must_use]
    pub fn is(&self, mkt: &Mkt) -> bool {
        let parameters = mkt.parameters();
        let Self { name, algorithm, mac_length, options, master_key, .. } = self;
        (name.send_id, name.recv_id) == (parameters.send_id, parameters.recv_id)
            && (*algorithm, *mac_length, *options)
                == (parameters.algorithm, parameters.mac_length, parameters.options)
            && master_key.as_ref().is_some_and(|ours| {
                ours.expose_secret().ct_eq(&as_the_kernel_keeps_it(*algorithm, mkt.master_key())).into()
            })
    }
}

/// The master key after `TCP_AO_ADD_KEY`: an AES-128-CMAC key not of 16 octets is compressed (RFC 5926 §3.1.1.2).
pub(crate) fn as_the_kernel_keeps_it(
    algorithm: TcpAoAlgorithm,
    master_key: &MasterKey,
) -> Zeroizing<Vec<u8>> {
    let secret = master_key.expose_secret();
    Zeroizing::new(match algorithm {
        TcpAoAlgorithm::Aes128Cmac if secret.len() != 16 => {
            MacKey::aes_128_cmac(&[0; 16]).mac(&[secret]).as_bytes().to_vec()
        }
        _ => secret.to_vec(),
    })
}
