//! Signing and verifying one segment, for stacks that keep keys and SNEs themselves.

use core::net::IpAddr;

use wireseal_mac::{Mac, MessageHead};

use crate::error::{SignError, VerifyError};
use crate::kdf::TrafficKey;
use crate::mac_input::MacInput;
use crate::mkt::MktParameters;
use crate::option::{AoOption, AoPlace};
use crate::segment::Segment;
use crate::tcp::Tcp;
use crate::types::{KeyId, Sne};

/// Checks a segment's MAC in constant time against the key that its KeyID named.
///
/// # Errors
/// [`VerifyError::Unsigned`], [`VerifyError::Options`] and [`VerifyError::MacLength`] before any MAC is computed, and
/// [`VerifyError::BadMac`].
#[inline]
pub fn verify_segment(
    key: &TrafficKey,
    sne: Sne,
    parameters: &MktParameters,
    segment: &Segment<'_>,
) -> Result<(), VerifyError> {
    let ao = segment.ao_option()?.ok_or(VerifyError::Unsigned)?;
    check_mac_length(&ao, parameters)?;
    check_mac(&ao, segment.mac_input_with(sne, &ao, parameters.options), key)
}

/// Signs the TCP segment `tcp` in place: fills the ids and the MAC into the AO option that its header holds, which
/// [`append_ao`](crate::append_ao) puts there.
///
/// Compute the checksum afterwards, over the signed segment ([`checksum::tcp_to_send`]).
///
/// # Errors
/// [`SignError::NoOption`] and [`SignError::MacLength`] when the header has no AO option of the right size, and the
/// errors of parsing; `tcp` is then unchanged.
///
/// [`checksum::tcp_to_send`]: crate::checksum::tcp_to_send
#[inline]
pub fn sign_segment(
    key: &TrafficKey,
    sne: Sne,
    parameters: &MktParameters,
    rnext_key_id: KeyId,
    (source, destination): (IpAddr, IpAddr),
    tcp: &mut [u8],
) -> Result<(), SignError> {
    let ao = place_to_sign(Tcp::parse(&source, tcp)?, parameters)?;
    ao.write_ids(tcp, parameters.send_id, rnext_key_id).ok_or(SignError::NoOption)?;
    let addresses = (&source.to_canonical(), &destination.to_canonical());
    let input = MacInput::new(sne, addresses, tcp, ao, parameters.options);
    let mut head = MessageHead::new();
    let mac = key.mac_key().mac(&input.try_message(&mut head).ok_or(SignError::NoOption)?);
    ao.write_mac(tcp, &mac).ok_or(SignError::NoOption)
}

/// A checked segment has the option, but the compiler does not see that. Cold, to keep it out of the way.
#[cold]
pub(crate) fn no_option() -> SignError {
    SignError::NoOption
}

/// As [`no_option`], for a received segment.
#[cold]
fn bad_mac(key_id: KeyId) -> VerifyError {
    VerifyError::BadMac { key_id }
}

/// The place of the AO option, if it has room for a MAC of this MKT.
#[inline]
pub(crate) fn place_to_sign(tcp: Tcp<'_>, parameters: &MktParameters) -> Result<AoPlace, SignError> {
    let ao = tcp.ao_option()?.ok_or(SignError::NoOption)?;
    let (expected, got) = (parameters.mac_length(), ao.mac.len());
    if got != expected {
        return Err(SignError::MacLength { expected, got });
    }
    Ok(ao.place())
}

/// Refuses a received MAC that does not have the MKT's length, before a MAC is computed.
#[inline]
pub(crate) fn check_mac_length(ao: &AoOption<'_>, parameters: &MktParameters) -> Result<(), VerifyError> {
    let (expected, got) = (parameters.mac_length(), ao.mac.len());
    if got != expected {
        return Err(VerifyError::MacLength { expected, got });
    }
    Ok(())
}

/// Computes the MAC of a received segment and compares. If the input cannot be formed, reports `BadMac`.
// Compares the MAC where it was computed: returning it would cost a copy.
#[inline(always)]
pub(crate) fn check_mac(ao: &AoOption<'_>, input: MacInput<'_>, key: &TrafficKey) -> Result<(), VerifyError> {
    let mut head = MessageHead::new();
    let [start, rest] = input.try_message(&mut head).ok_or_else(|| bad_mac(ao.key_id))?;
    compare(ao, &key.mac_key().mac(&[start, rest]))
}

/// Compares a received MAC with the right one, in constant time.
#[inline]
pub(crate) fn compare(ao: &AoOption<'_>, mac: &Mac) -> Result<(), VerifyError> {
    mac.verify(ao.mac).map_err(|_| VerifyError::BadMac { key_id: ao.key_id })
}
