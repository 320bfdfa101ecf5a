//! Keys between this crate's types and the kernel's structs.

use std::ffi::c_char;
use std::io;

use linux_raw_sys::net::{
    TCP_AO_KEYF_EXCLUDE_OPT, TCP_AO_KEYF_IFINDEX, tcp_ao_add, tcp_ao_del, tcp_ao_getsockopt,
};
use wireseal_tcp_ao::{KeyId, MasterKey, OptionCoverage};

use crate::error::Error;
use crate::key::{InstalledKey, SocketKey, Successor};
use crate::key_name::KeyName;
use crate::network::{Family, canonical, for_ao_key};
use crate::sys::{Secret, from_kernel, to_kernel, zeroed};

/// Keys that the first `TCP_AO_GET_KEYS` has room for; a connection rarely has more than two.
const FIRST_ROOM: usize = 8;

const IFINDEX: u8 = TCP_AO_KEYF_IFINDEX as u8;
const EXCLUDE_OPT: u8 = TCP_AO_KEYF_EXCLUDE_OPT as u8;

/// For `TCP_AO_ADD_KEY`, with the kernel's name of the algorithm. On the heap, so that no move leaves a copy of the secret behind.
pub(crate) fn add_key(
    key: &SocketKey<'_>,
    algorithm: &str,
    family: Family,
) -> Result<Box<Secret<tcp_ao_add>>, Error> {
    let parameters = key.mkt.parameters();
    let secret = key.mkt.master_key().expose_secret();
    let (address, prefix) = for_ao_key(key.remote, family)?;
    let mut add: Box<Secret<tcp_ao_add>> = Box::new(zeroed());
    add.addr = to_kernel(address);
    add.prefix = prefix;
    for (place, octet) in add.alg_name.iter_mut().zip(algorithm.bytes()) {
        *place = octet as c_char;
    }
    add.ifindex = key.vrf.unwrap_or(0).cast_signed();
    add.keyflags |= if key.vrf.is_some() { IFINDEX } else { 0 };
    add.keyflags |= if parameters.options == OptionCoverage::Excluded { EXCLUDE_OPT } else { 0 };
    add.set_set_current(key.set_current.into());
    add.set_set_rnext(key.set_rnext.into());
    add.sndid = parameters.send_id.0;
    add.rcvid = parameters.recv_id.0;
    add.maclen = parameters.mac_length() as u8;
    add.keylen = secret.len() as u8;
    add.key[..secret.len()].copy_from_slice(secret);
    Ok(add)
}

/// For `TCP_AO_DEL_KEY`. On a listening socket `del_async` lets it delete a key that became current or rnext key before the
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

/// All keys of a socket. `get` fills a buffer and returns how many keys there are; it is called again with more room until
/// all fit.
pub(crate) fn all_keys(
    mut get: impl FnMut(&mut [Secret<tcp_ao_getsockopt>]) -> io::Result<usize>,
) -> io::Result<Vec<Secret<tcp_ao_getsockopt>>> {
    let mut room = FIRST_ROOM;
    loop {
        // A new buffer each time: what was read holds secrets, and is wiped on drop.
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

/// Keys as `TCP_AO_GET_KEYS` returned them, in a list that has room for all from the start: one that grew would leave secrets behind.
///
/// # Errors
/// Those of [`installed_key`].
pub(crate) fn installed_keys(keys: &[Secret<tcp_ao_getsockopt>]) -> Result<Vec<InstalledKey>, Error> {
    let mut installed = Vec::with_capacity(keys.len());
    for key in keys {
        installed.push(installed_key(key)?);
    }
    Ok(installed)
}

/// A key as `TCP_AO_GET_KEYS` returned it.
///
/// # Errors
/// [`Error::ForeignAlgorithm`], and [`Error::Io`] if no kernel writes such a key.
pub(crate) fn installed_key(key: &tcp_ao_getsockopt) -> Result<InstalledKey, Error> {
    let invalid = |what| Error::Io(io::Error::new(io::ErrorKind::InvalidData, what));
    let network = from_kernel(key.addr).and_then(|address| cidr::IpCidr::new(address, key.prefix).ok());
    let name = KeyName {
        remote: canonical(network.ok_or_else(|| invalid("the kernel returned a key without a network"))?),
        vrf: (key.keyflags & IFINDEX != 0).then_some(key.ifindex.cast_unsigned()),
        send_id: KeyId(key.sndid),
        recv_id: KeyId(key.rcvid),
    };
    let algorithm: Vec<u8> = key.alg_name.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    let algorithm = String::from_utf8_lossy(&algorithm);
    let Ok(algorithm) = algorithm.parse() else {
        return Err(Error::ForeignAlgorithm { name, algorithm: algorithm.into_owned() });
    };
    let secret = key.key.get(..usize::from(key.keylen));
    let secret = secret.ok_or_else(|| invalid("the kernel returned a key longer than 80 octets"))?;
    Ok(InstalledKey {
        name,
        algorithm,
        mac_length: usize::from(key.maclen),
        options: match key.keyflags & EXCLUDE_OPT {
            0 => OptionCoverage::Covered,
            _ => OptionCoverage::Excluded,
        },
        is_current: key.is_current() != 0,
        is_rnext: key.is_rnext() != 0,
        good: key.pkt_good,
        bad: key.pkt_bad,
        master_key: MasterKey::new(secret).ok(),
    })
}

#[cfg(test)]
mod tests;
