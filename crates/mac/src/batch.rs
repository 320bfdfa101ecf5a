//! Many messages at once.

use wireseal_kernels::{cmac, sha1, sha256};

use crate::key::{MacKey, State};
use crate::output::Mac;

/// Computes the MACs of many messages, each under its own key, in less time than one after the other.
///
/// The first MAC becomes that of the first job, and so on; the shorter of the two decides how many. Keys may be of any algorithms
/// and messages of any lengths, but those of one algorithm and of about the same length gain most: they are computed side by
/// side. The jobs are gone through several times.
pub fn mac_batch<'a>(
    jobs: impl IntoIterator<Item = (&'a MacKey, &'a [&'a [u8]]), IntoIter: Clone>,
    macs: &mut [Mac],
) {
    let jobs = jobs.into_iter().take(macs.len()).enumerate();
    let (mut cmacs, mut sha1s, mut sha256s, mut others) = (false, false, false, false);
    for (number, (key, _)) in jobs.clone() {
        macs[number].clear();
        match &key.0 {
            State::Aes128Cmac(_) => cmacs = true,
            State::HmacSha1(_) => sha1s = true,
            State::HmacSha256(_) => sha256s = true,
            State::PortableAes128Cmac(_) | State::Kmac256(..) => others = true,
        }
    }
    if cmacs {
        let jobs = jobs.clone().filter_map(|(number, (key, message))| match &key.0 {
            State::Aes128Cmac(key) => Some((number, key, message)),
            _ => None,
        });
        cmac::mac_many(jobs, |number, octets| macs[number].set(octets));
    }
    if sha1s {
        let jobs = jobs.clone().filter_map(|(number, (key, message))| match &key.0 {
            State::HmacSha1(key) => Some((number, key.chaining_values(), message)),
            _ => None,
        });
        sha1::hmac_many(jobs, |number, octets| match octets {
            Some(octets) => macs[number].set(octets),
            None => others = true,
        });
    }
    if sha256s {
        let jobs = jobs.clone().filter_map(|(number, (key, message))| match &key.0 {
            State::HmacSha256(key) => Some((number, key.chaining_values(), message)),
            _ => None,
        });
        sha256::hmac_many(jobs, |number, octets| match octets {
            Some(octets) => macs[number].set(octets),
            None => others = true,
        });
    }
    // What is as soon computed alone.
    if others {
        for (number, (key, message)) in jobs {
            if macs[number].is_empty() {
                macs[number] = key.mac(message);
            }
        }
    }
}
