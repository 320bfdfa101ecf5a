//! Single segments, for stacks and tools that keep keys and numbers themselves: pure functions, which derive the traffic key in each call.

use core::net::IpAddr;

use wireseal_tcp_ao::{
    Endpoint, Isn, KdfContext, KeyId, Mkt, ParseError, Segment, SignError, Sne, TrafficKey, TrafficKeyOctets,
    VerifyError, append_ao, sign_segment, verify_segment,
};

use crate::address::wireseal_endpoint;
use crate::border::{given, guarded, octets, octets_mut, octets_place, place, place_if_wanted};
use crate::mkt::{mkts, wireseal_mkt};
use crate::status::{wireseal_status, wireseal_status as Status};

/// The most octets that TCP-AO adds to a segment: its longest option, padded to a multiple of four.
pub const WIRESEAL_OPTION_ROOM: usize = 20;
const _: () = assert!(WIRESEAL_OPTION_ROOM == wireseal_tcp_ao::shim::OPTION_ROOM);

/// The longest traffic key, in octets.
pub const WIRESEAL_TRAFFIC_KEY_MAX: usize = 32;

/// What a traffic key is derived from besides the master key (RFC 5925 §5.2), in the direction of the segments that it protects.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct wireseal_kdf_context {
    /// The sender of the segments.
    pub source: wireseal_endpoint,
    /// Their receiver.
    pub destination: wireseal_endpoint,
    /// The sender's initial sequence number.
    pub source_isn: u32,
    /// The receiver's; 0 for a SYN without ACK.
    pub destination_isn: u32,
}

impl TryFrom<&wireseal_kdf_context> for KdfContext {
    type Error = Status;

    fn try_from(context: &wireseal_kdf_context) -> Result<Self, Status> {
        let (source, destination) =
            (Endpoint::try_from(&context.source)?, Endpoint::try_from(&context.destination)?);
        if source.address().is_ipv4() != destination.address().is_ipv4() {
            return Err(Status::BadAddress);
        }
        let (source_isn, destination_isn) = (Isn(context.source_isn), Isn(context.destination_isn));
        Ok(Self { source, destination, source_isn, destination_isn })
    }
}

/// Derives a traffic key (RFC 5926 §3.1) of 16, 20 or 32 octets, depending on the algorithm. Only to compare with test vectors and other
/// implementations: no function takes a traffic key.
///
/// Writes `*length` octets to `traffic_key`, which has room for `size`; WIRESEAL_TRAFFIC_KEY_MAX are always enough.
///
/// Errors: WIRESEAL_STATUS_TOO_SMALL if the key is longer; those of a key, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_traffic_key(
    mkt: *const wireseal_mkt,
    context: *const wireseal_kdf_context,
    traffic_key: *mut u8,
    size: usize,
    length: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    guarded(|| unsafe {
        let (mkt, context) = (given(mkt)?.read()?, given(context)?.try_into()?);
        let (mut place_for_key, mut length) = (octets_place(traffic_key, size)?, place(length)?);
        let key = TrafficKeyOctets::derive(&mkt, &context);
        let key = key.expose_secret();
        place_for_key.write(key)?;
        length.write(key.len());
        Ok(())
    })
}

/// Appends an AO option with a MAC of `mac_length` octets, all zeros, to the options of a TCP header, and pads it with NOPs to a multiple of
/// four octets. wireseal_segment_sign() fills it in.
///
/// `options` is the header's option space of `size` octets, at most 40, of which `used` have options. Their new length goes to `*new_used`.
///
/// Error: WIRESEAL_STATUS_NO_ROOM if option and padding do not fit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_segment_append_ao(
    options: *mut u8,
    size: usize,
    used: usize,
    mac_length: usize,
    new_used: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    guarded(|| unsafe {
        let (options, mut new_used) = (octets_mut(options, size)?, place(new_used)?);
        if !(4..=16).contains(&mac_length) {
            return Err(Status::MacLength);
        }
        new_used.write(append_ao(options, used, mac_length)?);
        Ok(())
    })
}

/// Signs a TCP segment of `length` octets, header and payload, in place: fills the KeyID, RNextKeyID and MAC into the AO option that its header
/// has. Compute the checksum afterwards.
///
/// `sne` is the extension of its sequence number (RFC 5925 §6.2), `rnext_key_id` the RecvID of the key that the peer is asked to sign with.
///
/// Errors, after which the segment is unchanged: WIRESEAL_STATUS_MALFORMED, _BAD_OPTIONS, _NO_OPTION; _OTHER_CONNECTION if its ports are not
/// those of `context`; those of a key, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_segment_sign(
    mkt: *const wireseal_mkt,
    context: *const wireseal_kdf_context,
    sne: u32,
    rnext_key_id: u8,
    tcp: *mut u8,
    length: usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    guarded(|| unsafe {
        let (mkt, context) = (given(mkt)?.read()?, given(context)?.try_into()?);
        let tcp = octets_mut(tcp, length)?;
        segment(&context, tcp)?;
        let key = TrafficKey::derive(&mkt, &context);
        let addresses = (context.source.address(), context.destination.address());
        Ok(sign_segment(&key, Sne(sne), mkt.parameters(), KeyId(rnext_key_id), addresses, tcp)?)
    })
}

/// Verifies a TCP segment of `length` octets, header and payload, with the one of the `count` keys at `mkts` whose RecvID is the segment's
/// KeyID. `sne` is the extension of its sequence number. The index of the key goes to `*index`, which may be null.
///
/// Errors: WIRESEAL_STATUS_UNSIGNED, _BAD_OPTIONS, _UNKNOWN_KEY_ID, _WRONG_MAC_LENGTH, _BAD_MAC, _MALFORMED; _OTHER_CONNECTION if its ports are
/// not those of `context`; those of a key, as for wireseal_connection_active().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wireseal_segment_verify(
    mkts: *const wireseal_mkt,
    count: usize,
    context: *const wireseal_kdf_context,
    sne: u32,
    tcp: *const u8,
    length: usize,
    index: *mut usize,
) -> wireseal_status {
    // SAFETY: what C promises of each pointer.
    guarded(|| unsafe {
        let (mkts, context) = (self::mkts(mkts, count)?, given(context)?.try_into()?);
        let index = place_if_wanted(index)?;
        let segment = segment(&context, octets(tcp, length)?)?;
        let ao = segment.ao_option().map_err(VerifyError::from)?.ok_or(Status::Unsigned)?;
        let found = mkts.iter().enumerate().find(|(_, mkt)| mkt.recv_id() == ao.key_id);
        let (found, mkt): (usize, &Mkt) = found.ok_or(Status::UnknownKeyId)?;
        verify_segment(&TrafficKey::derive(mkt, &context), Sne(sne), mkt.parameters(), &segment)?;
        if let Some(mut index) = index {
            index.write(found);
        }
        Ok(())
    })
}

/// The segment in `tcp`, if its ports are those of the context.
fn segment<'a>(context: &KdfContext, tcp: &'a [u8]) -> Result<Segment<'a>, Status> {
    let addresses: [IpAddr; 2] = [context.source.address(), context.destination.address()];
    let segment = Segment::from_tcp(addresses[0], addresses[1], tcp)?;
    let is_of_context = segment.source() == context.source && segment.destination() == context.destination;
    is_of_context.then_some(segment).ok_or(Status::OtherConnection)
}

impl From<ParseError> for Status {
    fn from(_: ParseError) -> Self {
        Self::Malformed
    }
}

impl From<VerifyError> for Status {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Unsigned => Self::Unsigned,
            VerifyError::Options(_) => Self::BadOptions,
            VerifyError::UnknownKeyId(_) => Self::UnknownKeyId,
            VerifyError::MacLength { .. } => Self::WrongMacLength,
            VerifyError::BadMac { .. } => Self::BadMac,
            VerifyError::OtherConnection => Self::OtherConnection,
            VerifyError::State => Self::WrongState,
            // There is no other.
            _ => Self::Internal,
        }
    }
}

impl From<SignError> for Status {
    fn from(error: SignError) -> Self {
        match error {
            SignError::Parse(_) => Self::Malformed,
            SignError::Options(_) => Self::BadOptions,
            SignError::NoRoom { .. } => Self::NoRoom,
            SignError::NoOption | SignError::MacLength { .. } => Self::NoOption,
            SignError::OtherConnection => Self::OtherConnection,
            SignError::State => Self::WrongState,
            // There is no other.
            _ => Self::Internal,
        }
    }
}
