//! Many messages at once.

use wireseal_kernels::{cmac, sha1, sha256};

use crate::key::{MacKey, State};
use crate::output::Mac;

/// Computes the MACs of many messages, each under its own key, in less time than one after the other.
pub fn mac_batch<'a>(
    jobs: impl IntoIterator<Item = (&'a MacKey, &'a [&'a [u8]]), IntoIter: Clone>,
    macs: &mut [Mac],
) {
    let jobs = jobs.into_iter().take(macs.len());
    let mut left = 0;
    let (mut has_cmac, mut has_sha1, mut has_sha256) = (false, false, false);
    for ((key, _), mac) in jobs.clone().zip(&mut *macs) {
        mac.clear();
        left += 1;
        match &key.0 {
            State::Aes128Cmac(_) => has_cmac = true,
            State::HmacSha1(_) => has_sha1 = true,
            State::HmacSha256(_) => has_sha256 = true,
            State::PortableAes128Cmac(_) | State::Kmac256(..) => {}
        }
    }
    macro_rules! side_by_side {
        ($mac_many:path, $kind:ident, $key:ident => $of_kernels:expr) => {
            $mac_many(
                jobs.clone().enumerate().filter_map(|(number, (key, message))| match &key.0 {
                    State::$kind($key) => Some((number, $of_kernels, message)),
                    _ => None,
                }),
                |number, octets| {
                    macs[number].set(octets);
                    left -= 1;
                },
            );
        };
    }
    if has_cmac {
        side_by_side!(cmac::mac_many, Aes128Cmac, key => key);
    }
    if has_sha1 {
        side_by_side!(sha1::hmac_many, HmacSha1, key => key.chaining_values());
    }
    if has_sha256 {
        side_by_side!(sha256::hmac_many, HmacSha256, key => key.chaining_values());
    }
    if left > 0 {
        for ((key, message), mac) in jobs.zip(macs).filter(|(_, mac)| mac.is_empty()) {
            *mac = key.mac(message);
        }
    }
}
