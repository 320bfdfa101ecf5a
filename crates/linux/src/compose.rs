//! What is asked of the kernel, and what it answers, between this crate's types and the kernel's structs.

use std::ffi::CStr;
use std::io;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, OptionCoverage};

use crate::address::{Family, Network};
use crate::error::Error;
use crate::key::{InstalledKey, KeyName, SocketKey, Successor};
use crate::layout::{Add, Del, GetKeys, KEYF_EXCLUDE_OPT, KEYF_IFINDEX};

/// Keys that the first `TCP_AO_GET_KEYS` has room for; a connection rarely has more than two.
const FIRST_ROOM: usize = 8;

/// The kernel's name of an algorithm.
///
/// # Errors
/// [`Error::AlgorithmNotInLinux`].
pub(crate) const fn algorithm_name(algorithm: TcpAoAlgorithm) -> Result<&'static str, Error> {
    match algorithm.linux_name() {
        Some(name) => Ok(name),
        None => Err(Error::AlgorithmNotInLinux(algorithm)),
    }
}

/// For `TCP_AO_ADD_KEY`. On the heap, so that no move leaves a copy of the secret behind.
pub(crate) fn add(key: &SocketKey<'_>, algorithm: &str, family: Family) -> Result<Box<Add>, Error> {
    let parameters = key.mkt.parameters();
    let secret = key.mkt.master_key().expose_secret();
    let network = Network::for_ao_key(key.remote, family)?;
    let mut add = Box::new(Add::ZERO);
    add.addr = network.addr;
    add.prefix = network.prefix;
    add.alg_name[..algorithm.len()].copy_from_slice(algorithm.as_bytes());
    add.ifindex = key.vrf.unwrap_or(0);
    add.keyflags |= if key.vrf.is_some() { KEYF_IFINDEX } else { 0 };
    add.keyflags |= if parameters.options == OptionCoverage::Excluded { KEYF_EXCLUDE_OPT } else { 0 };
    add.bits |= if key.set_current { Add::SET_CURRENT } else { 0 };
    add.bits |= if key.set_rnext { Add::SET_RNEXT } else { 0 };
    add.sndid = parameters.send_id.0;
    add.rcvid = parameters.recv_id.0;
    add.maclen = parameters.mac_length as u8;
    add.keylen = secret.len() as u8;
    add.key[..secret.len()].copy_from_slice(secret);
    Ok(add)
}

/// For `TCP_AO_DEL_KEY`.
pub(crate) fn delete(key: &KeyName, successor: Successor, family: Family) -> Result<Del, Error> {
    let network = Network::for_ao_key(key.remote, family)?;
    let flag = |id: Option<KeyId>, bit| if id.is_some() { bit } else { 0 };
    Ok(Del {
        addr: network.addr,
        ifindex: key.vrf.unwrap_or(0),
        bits: flag(successor.current, Del::SET_CURRENT) | flag(successor.rnext, Del::SET_RNEXT),
        reserved2: 0,
        prefix: network.prefix,
        sndid: key.send_id.0,
        rcvid: key.recv_id.0,
        current_key: successor.current.map_or(0, |id| id.0),
        rnext: successor.rnext.map_or(0, |id| id.0),
        keyflags: if key.vrf.is_some() { KEYF_IFINDEX } else { 0 },
    })
}

/// All keys of a socket, asked for again with more room until all fit. `get` fills a buffer and says how many there are.
pub(crate) fn all_keys(mut get: impl FnMut(&mut [GetKeys]) -> io::Result<usize>) -> io::Result<Vec<GetKeys>> {
    let mut room = FIRST_ROOM;
    loop {
        // A new buffer each time: what was read holds secrets, and is wiped as it is dropped.
        let mut keys: Vec<GetKeys> = std::iter::repeat_with(|| GetKeys::ZERO).take(room).collect();
        keys[0].bits = GetKeys::GET_ALL;
        let found = get(&mut keys)?;
        if found <= keys.len() {
            keys.truncate(found);
            return Ok(keys);
        }
        room = found;
    }
}

/// A key as `TCP_AO_GET_KEYS` gave it.
///
/// # Errors
/// [`Error::ForeignAlgorithm`], and [`Error::Io`] when it is not what any kernel writes.
pub(crate) fn installed(key: &GetKeys) -> Result<InstalledKey, Error> {
    let network = Network { addr: key.addr, prefix: key.prefix };
    let invalid = |what| Error::Io(io::Error::new(io::ErrorKind::InvalidData, what));
    let name = KeyName {
        remote: network.read().ok_or_else(|| invalid("the kernel gave a key without a network"))?,
        vrf: (key.keyflags & KEYF_IFINDEX != 0).then_some(key.ifindex),
        send_id: KeyId(key.sndid),
        recv_id: KeyId(key.rcvid),
    };
    let algorithm = CStr::from_bytes_until_nul(&key.alg_name).map_or("".into(), CStr::to_string_lossy);
    let Ok(algorithm) = algorithm.parse() else {
        return Err(Error::ForeignAlgorithm { name, algorithm: algorithm.into_owned() });
    };
    let secret = key.key.get(..usize::from(key.keylen));
    let secret = secret.ok_or_else(|| invalid("the kernel gave a key longer than 80 octets"))?;
    Ok(InstalledKey {
        name,
        algorithm,
        mac_length: usize::from(key.maclen),
        options: if key.keyflags & KEYF_EXCLUDE_OPT == 0 {
            OptionCoverage::Covered
        } else {
            OptionCoverage::Excluded
        },
        is_current: key.bits & GetKeys::IS_CURRENT != 0,
        is_rnext: key.bits & GetKeys::IS_RNEXT != 0,
        good: key.pkt_good,
        bad: key.pkt_bad,
        master_key: MasterKey::new(secret).ok(),
    })
}

#[cfg(test)]
mod tests;
