//! A key on its way to a socket and back: the caller's types, and the kernel's structs.

use std::ffi::c_char;
use std::io;
use std::net::IpAddr;

use cidr::IpCidr;
use linux_raw_sys::net::{
    TCP_AO_KEYF_EXCLUDE_OPT, TCP_AO_KEYF_IFINDEX, tcp_ao_add, tcp_ao_del, tcp_ao_getsockopt,
};
use subtle::ConstantTimeEq;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_mac::MacKey;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage, canonical_network};
use zeroize::Zeroizing;

use crate::sys::{Secret, from_kernel, to_kernel, zeroed};
use crate::{Error, KeyName};

/// How many keys the first `TCP_AO_GET_KEYS` has room for; a connection rarely has more than two.
const FIRST_ROOM: usize = 8;

const IFINDEX: u8 = TCP_AO_KEYF_IFINDEX as u8;
const EXCLUDE_OPT: u8 = TCP_AO_KEYF_EXCLUDE_OPT as u8;

/// A key and the peers it is for (`struct tcp_ao_add` in `linux/tcp.h`).
#[derive(Clone, Copy, Debug)]
pub struct SocketKey<'a> {
    /// The peers it is for. A network of IPv4-mapped IPv6 addresses means the IPv4 network.
    pub remote: IpCidr,
    /// Only for connections in this VRF: the interface index of the VRF device, or 0 for connections in no VRF. `None` is for all
    /// connections. Linux 6.18 does not delete a key for a VRF ([`Error::KeyStays`]): on a socket that is bound to the VRF, use `None`.
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
        KeyName { remote: canonical_network(self.remote), vrf: self.vrf, send_id, recv_id }
    }

    /// The struct for `TCP_AO_ADD_KEY`, with the kernel's name of the algorithm. It is on the heap, so that no move leaves a copy of the
    /// secret behind.
    ///
    /// # Errors
    /// [`Error::UnusableNetwork`].
    pub(crate) fn to_kernel(self, algorithm: &str, family: Family) -> Result<Box<Secret<tcp_ao_add>>, Error> {
        let parameters = self.mkt.parameters();
        let secret = self.mkt.master_key().expose_secret();
        let (address, prefix) = for_ao_key(self.remote, family)?;
        let mut add: Box<Secret<tcp_ao_add>> = Box::new(zeroed());
        add.addr = to_kernel(address);
        add.prefix = prefix;
        for (place, octet) in add.alg_name.iter_mut().zip(algorithm.bytes()) {
            *place = octet as c_char;
        }
        add.ifindex = self.vrf.unwrap_or(0).cast_signed();
        add.keyflags |= if self.vrf.is_some() { IFINDEX } else { 0 };
        add.keyflags |= if parameters.options == OptionCoverage::Excluded { EXCLUDE_OPT } else { 0 };
        add.set_set_current(self.set_current.into());
        add.set_set_rnext(self.set_rnext.into());
        add.sndid = parameters.send_id.0;
        add.rcvid = parameters.recv_id.0;
        add.maclen = parameters.mac_length() as u8;
        add.keylen = secret.len() as u8;
        add.key[..secret.len()].copy_from_slice(secret);
        Ok(add)
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

/// The struct for `TCP_AO_DEL_KEY`. On a listening socket, `del_async` permits deleting a key that became current or rnext key before the
/// socket listened.
pub(crate) fn delete_key(
    key: &KeyName,
    successor: Successor,
    family: Family,
    del_async: bool,
) -> Result<tcp_ao_del, Error> {
    let (address, prefix) = for_ao_key(key.remote, family)?;
    let mut delete: tcp_ao_del = zeroed();
    delete.addr = to_kernel(address);
    delete.prefix = prefix;
    delete.ifindex = key.vrf.unwrap_or(0).cast_signed();
    delete.keyflags = if key.vrf.is_some() { IFINDEX } else { 0 };
    delete.sndid = key.send_id.0;
    delete.rcvid = key.recv_id.0;
    delete.set_set_current(successor.current.is_some().into());
    delete.set_set_rnext(successor.rnext.is_some().into());
    delete.set_del_async(del_async.into());
    delete.current_key = successor.current.map_or(0, |id| id.0);
    delete.rnext = successor.rnext.map_or(0, |id| id.0);
    Ok(delete)
}

/// A key as the kernel reports it (`struct tcp_ao_getsockopt` in `linux/tcp.h`). It holds the secret; Debug does not show it.
#[derive(Clone, Debug)]
pub struct InstalledKey {
    /// Identifies the key, also for deleting it.
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

#[cfg(test)]
thread_local! {
    /// Calls of [`InstalledKey::is`] on this thread.
    pub(crate) static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl InstalledKey {
    /// Whether it is this MKT: same ids, algorithm, MAC length, option coverage and secret.
    ///
    /// Secrets are compared in constant time. For AES-128-CMAC the compressed secret is compared, because that is what the
    /// kernel keeps (RFC 5926 §3.1.1.2).
    #[must_use]
    pub fn is(&self, mkt: &Mkt) -> bool {
        #[cfg(test)]
        COMPARISONS.set(COMPARISONS.get() + 1);
        let parameters = mkt.parameters();
        let Self { name, algorithm, mac_length, options, master_key, .. } = self;
        (name.send_id, name.recv_id) == (parameters.send_id, parameters.recv_id)
            && (*algorithm, *mac_length, *options)
                == (parameters.algorithm, parameters.mac_length(), parameters.options)
            && master_key.as_ref().is_some_and(|ours| {
                ours.expose_secret().ct_eq(&as_kept_by_kernel(*algorithm, mkt.master_key())).into()
            })
    }

    /// This MKT as the kernel would report it on a socket that has not used it.
    #[cfg(feature = "simulation")]
    #[must_use]
    pub fn simulated(name: KeyName, mkt: &Mkt) -> Self {
        Self::of(name, mkt)
    }

    /// This MKT as the kernel would report it.
    pub(crate) fn of(name: KeyName, mkt: &Mkt) -> Self {
        let parameters = mkt.parameters();
        let (algorithm, mac_length, options) =
            (parameters.algorithm, parameters.mac_length(), parameters.options);
        let (is_current, is_rnext, good, bad) = (false, false, 0, 0);
        let master_key = MasterKey::new(&as_kept_by_kernel(algorithm, mkt.master_key())).ok();
        Self { name, algorithm, mac_length, options, is_current, is_rnext, good, bad, master_key }
    }

    /// A key from `TCP_AO_GET_KEYS`.
    ///
    /// # Errors
    /// [`Error::ForeignAlgorithm`], and [`Error::Io`] if no kernel writes such a key.
    fn from_kernel(key: &tcp_ao_getsockopt) -> Result<Self, Error> {
        let SeenKey { name, algorithm, mac_length, options, is_current, is_rnext, good, bad } =
            SeenKey::from_kernel(key)?;
        let Ok(algorithm) = algorithm.parse() else {
            return Err(Error::ForeignAlgorithm { name, algorithm });
        };
        let secret = key.key.get(..usize::from(key.keylen));
        let secret = secret.ok_or_else(|| invalid("the kernel returned a key longer than 80 octets"))?;
        Ok(Self {
            name,
            algorithm,
            mac_length,
            options,
            is_current,
            is_rnext,
            good,
            bad,
            master_key: MasterKey::new(secret).ok(),
        })
    }
}

/// A key on a socket, of whatever program, without its secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenKey {
    /// Identifies the key.
    pub name: KeyName,
    /// Its algorithm by the kernel's name, such as `cmac(aes)`: also one that Wireseal does not have.
    pub algorithm: String,
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
}

impl SeenKey {
    /// A key from `TCP_AO_GET_KEYS`.
    ///
    /// # Errors
    /// [`Error::Io`] if no kernel writes such a key.
    pub(crate) fn from_kernel(key: &tcp_ao_getsockopt) -> Result<Self, Error> {
        let network = from_kernel(key.addr).and_then(|address| IpCidr::new(address, key.prefix).ok());
        let network = network.ok_or_else(|| invalid("the kernel returned a key without a network"))?;
        let algorithm: Vec<u8> = key.alg_name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
        Ok(Self {
            name: KeyName {
                remote: canonical_network(network),
                vrf: (key.keyflags & IFINDEX != 0).then_some(key.ifindex.cast_unsigned()),
                send_id: KeyId(key.sndid),
                recv_id: KeyId(key.rcvid),
            },
            algorithm: String::from_utf8_lossy(&algorithm).into_owned(),
            mac_length: usize::from(key.maclen),
            options: match key.keyflags & EXCLUDE_OPT {
                0 => OptionCoverage::Covered,
                _ => OptionCoverage::Excluded,
            },
            is_current: key.is_current() != 0,
            is_rnext: key.is_rnext() != 0,
            good: key.pkt_good,
            bad: key.pkt_bad,
        })
    }
}

fn invalid(what: &'static str) -> Error {
    Error::Io(io::Error::new(io::ErrorKind::InvalidData, what))
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

/// All keys of a socket. `get` fills a buffer and returns how many keys there are; it is called again with more room until all fit.
pub(crate) fn all_keys(
    mut get: impl FnMut(&mut [Secret<tcp_ao_getsockopt>]) -> io::Result<usize>,
) -> io::Result<Vec<Secret<tcp_ao_getsockopt>>> {
    let mut room = FIRST_ROOM;
    loop {
        // A new buffer each time, because what was read holds secrets and is wiped on drop.
        let mut keys: Vec<Secret<tcp_ao_getsockopt>> = std::iter::repeat_with(zeroed).take(room).collect();
        keys[0].set_get_all(1);
        let found = get(&mut keys)?;
        if found <= keys.len() {
            keys.truncate(found);
            return Ok(keys);
        }
        room = found;
    }
}

/// The keys from `TCP_AO_GET_KEYS`, in a list with room for all from the start: one that grew would leave secrets behind.
///
/// # Errors
/// [`Error::ForeignAlgorithm`], and [`Error::Io`] if no kernel writes such a key.
pub(crate) fn installed_keys(keys: &[Secret<tcp_ao_getsockopt>]) -> Result<Vec<InstalledKey>, Error> {
    let mut installed = Vec::with_capacity(keys.len());
    for key in keys {
        installed.push(InstalledKey::from_kernel(key)?);
    }
    Ok(installed)
}

/// The address family of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Ipv4,
    /// Also has IPv4 peers, under IPv4-mapped addresses.
    Ipv6,
}

/// Address and prefix length for a TCP-AO key. An IPv4 network keeps its own prefix length when its address is mapped.
///
/// # Errors
/// [`Error::UnusableNetwork`] for networks that no kernel accepts.
fn for_ao_key(remote: IpCidr, family: Family) -> Result<(IpAddr, u8), Error> {
    let remote = canonical_network(remote);
    let is_unspecified = remote.first_address().is_unspecified();
    if is_unspecified && remote.network_length() != 0 {
        let advice = "choose a network that does not start at address zero, or all addresses";
        return Err(Error::UnusableNetwork { remote, advice });
    }
    if is_unspecified && remote.is_ipv4() && family == Family::Ipv6 {
        let advice = "use an IPv4 socket, or give the peers' networks";
        return Err(Error::UnusableNetwork { remote, advice });
    }
    for_md5_key(remote, family)
}

/// Address and prefix length for a TCP-MD5 key, which may be for any network.
///
/// # Errors
/// [`Error::UnusableNetwork`] for IPv6 on an IPv4 socket.
pub(crate) fn for_md5_key(remote: IpCidr, family: Family) -> Result<(IpAddr, u8), Error> {
    let remote = canonical_network(remote);
    let address = match (family, remote.first_address()) {
        (Family::Ipv4, IpAddr::V6(_)) => {
            return Err(Error::UnusableNetwork { remote, advice: "use an IPv6 socket" });
        }
        (Family::Ipv6, IpAddr::V4(address)) => address.to_ipv6_mapped().into(),
        (_, address) => address,
    };
    Ok((address, remote.network_length()))
}

#[cfg(test)]
mod tests;
