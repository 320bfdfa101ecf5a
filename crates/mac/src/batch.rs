//! MACs of many messages.

use crate::key::MacKey;
use crate::output::Mac;

/// Computes the MACs of many messages, each under its own key, side by side where that is faster than one by one.
///
/// `macs` gets the MAC of each job in order. If there are more jobs than places, the rest of the jobs is ignored; places without a
/// job stay as they are. Keys may be of any algorithms. Side by side go AES-128-CMAC and, with SHA-NI, AVX-512 or on AArch64, HMAC, in
/// groups of messages that have one slice, or two of which the first has the same length and is whole blocks: 16 octets for CMAC, 64
/// for HMAC. Messages of similar lengths gain most. The jobs are iterated several times.
pub fn mac_batch<'a>(
    jobs: impl IntoIterator<Item = (&'a MacKey, &'a [&'a [u8]]), IntoIter: Clone>,
    macs: &mut [Mac],
) {
    let jobs = jobs.into_iter().take(macs.len());
    let count = jobs.clone().zip(&mut *macs).map(|(_, mac)| mac.clear()).count();
    let mut done = 0;
    #[cfg(feature = "aes-128-cmac")]
    if done < count {
        let cmacs = jobs.clone().enumerate().filter_map(|(number, (key, message))| match &key.0 {
            crate::key::State::Aes128Cmac(key) => Some((number, key, message)),
            _ => None,
        });
        done += wireseal_kernels::cmac::mac_many(cmacs, |number, mac| macs[number].set(mac));
    }
    #[cfg(feature = "hmac-sha1")]
    if done < count {
        let sha1s = jobs.clone().enumerate().filter_map(|(number, (key, message))| match &key.0 {
            crate::key::State::HmacSha1(_, key) => Some((number, key.chaining_values(), message)),
            _ => None,
        });
        done += wireseal_kernels::sha1::hmac_many(sha1s, |number, mac| macs[number].set(mac));
    }
    #[cfg(feature = "hmac-sha256")]
    if done < count {
        let sha256s = jobs.clone().enumerate().filter_map(|(number, (key, message))| match &key.0 {
            crate::key::State::HmacSha256(_, key) => Some((number, key.chaining_values(), message)),
            _ => None,
        });
        done += wireseal_kernels::sha256::hmac_many(sha256s, |number, mac| macs[number].set(mac));
    }
    if done < count {
        for ((key, message), mac) in jobs.zip(macs).filter(|(_, mac)| mac.is_empty()) {
            *mac = key.mac(message);
        }
    }
}
