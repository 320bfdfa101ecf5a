//! Many segments, of as many connections as there are, authenticated together.
//!
//! The MACs are computed ahead of their turn, with the keys and SNEs that the connections have as the batch begins; then each
//! segment is judged as if it came alone. One whose key or SNE has changed by then has its MAC computed again, so that nothing
//! but the time tells a batch from its segments one by one.

use core::borrow::BorrowMut;

use wireseal_mac::{Mac, mac_batch};

use crate::authenticate::{
    START_LENGTH, SignError, SignaturePlace, VerifyError, check_mac_length, mac_input,
};
use crate::connection::keys::Keys;
use crate::connection::{Connection, Verified};
use crate::kdf::TrafficKey;
use crate::segment::Segment;
use crate::types::{KeyId, SeqNum, Sne};

/// How many MACs are computed together.
pub(crate) const BATCH: usize = 16;

/// Room for the starts of a batch's MAC inputs.
pub(crate) type Starts = [[u8; START_LENGTH]; BATCH];

/// Where in a segment the signature is, and what the MAC depends on beside the octets: numbers, so that the segment can be
/// written to.
#[derive(Clone, Copy)]
struct Signature {
    slot: u8,
    sequence: SeqNum,
    sne: Sne,
    rnext_key_id: KeyId,
    place: SignaturePlace,
}

/// A MAC to be computed.
pub(crate) struct Pending<'a> {
    signature: Signature,
    key: &'a TrafficKey,
    input: [&'a [u8]; 2],
}

/// A MAC that was computed ahead of its turn.
pub(crate) struct Ahead {
    signature: Signature,
    mac: Mac,
}

/// Computes the MACs that are pending. A lone one is left to its turn.
pub(crate) fn compute(pending: &[Option<Pending<'_>>; BATCH]) -> [Option<Ahead>; BATCH] {
    let mut ahead = [const { None }; BATCH];
    let Some(first) = pending.iter().flatten().next() else { return ahead };
    let mut jobs = [(first.key.mac_key(), &first.input[..]); BATCH];
    let mut count = 0;
    for (job, pending) in jobs.iter_mut().zip(pending.iter().flatten()) {
        *job = (pending.key.mac_key(), &pending.input);
        count += 1;
    }
    if count == 1 {
        return ahead;
    }
    let mut macs = [const { Mac::EMPTY }; BATCH];
    mac_batch(&jobs[..count], &mut macs[..count]);
    let filled =
        ahead.iter_mut().zip(pending).filter_map(|(ahead, pending)| Some((ahead, pending.as_ref()?)));
    for ((ahead, pending), mac) in filled.zip(macs) {
        *ahead = Some(Ahead { signature: pending.signature, mac });
    }
    ahead
}

/// Verifies received segments of many connections, 16 at a time, and says of each in order what
/// [`Connection::verify`] would have said.
///
/// A segment names its connection by the index in `connections`, which may be connections, boxes or exclusive references of
/// them; several may be of the same. `each` is given the segment's index in `segments`.
///
/// # Errors
/// Those of [`Connection::verify`], handed to `each`; [`VerifyError::OtherConnection`] too for an index without connection,
/// which nobody counts.
pub fn verify_batch<'a, C: BorrowMut<Connection<N>>, const N: usize>(
    connections: &mut [C],
    segments: &[(usize, Segment<'a>)],
    mut each: impl FnMut(usize, Result<Verified<'a>, VerifyError>),
) {
    for (batch, segments) in segments.chunks(BATCH).enumerate() {
        let mut starts: Starts = [[0; START_LENGTH]; BATCH];
        let mut pending = [const { None }; BATCH];
        for ((place, start), (connection, segment)) in pending.iter_mut().zip(&mut starts).zip(segments) {
            *place = connections
                .get(*connection)
                .and_then(|connection| connection.borrow().pending_verification(segment, start));
        }
        let ahead = compute(&pending);
        for (index, ((connection, segment), ahead)) in segments.iter().zip(&ahead).enumerate() {
            let verdict = match connections.get_mut(*connection) {
                Some(connection) => connection.borrow_mut().verify_with(segment, ahead.as_ref()),
                None => Err(VerifyError::OtherConnection),
            };
            each(batch * BATCH + index, verdict);
        }
    }
}

/// Signs TCP segments of many connections in place, 16 at a time, and says of each in order what [`Connection::sign`] would
/// have said.
///
/// A segment names its connection by the index in `connections`, as in [`verify_batch`].
///
/// # Errors
/// Those of [`Connection::sign`], handed to `each`; [`SignError::OtherConnection`] too for an index without connection. The
/// segment is then unchanged.
pub fn sign_batch<C: BorrowMut<Connection<N>>, const N: usize>(
    connections: &mut [C],
    segments: &mut [(usize, &mut [u8])],
    mut each: impl FnMut(usize, Result<(), SignError>),
) {
    for (batch, segments) in segments.chunks_mut(BATCH).enumerate() {
        let mut starts: Starts = [[0; START_LENGTH]; BATCH];
        let mut pending = [const { None }; BATCH];
        for ((place, start), (connection, tcp)) in pending.iter_mut().zip(&mut starts).zip(&*segments) {
            *place = connections
                .get(*connection)
                .and_then(|connection| connection.borrow().pending_signature(tcp, start));
        }
        let ahead = compute(&pending);
        for (index, ((connection, tcp), ahead)) in segments.iter_mut().zip(&ahead).enumerate() {
            let outcome = match connections.get_mut(*connection) {
                Some(connection) => connection.borrow_mut().sign_with(tcp, ahead.as_ref()),
                None => Err(SignError::OtherConnection),
            };
            each(batch * BATCH + index, outcome);
        }
    }
}

impl<const N: usize> Connection<N> {
    /// The MAC that verifying this segment will ask for, if it is sure to ask for one.
    #[inline]
    pub(crate) fn pending_verification<'s>(
        &'s self,
        segment: &Segment<'s>,
        start: &'s mut [u8; START_LENGTH],
    ) -> Option<Pending<'s>> {
        let ao = segment.ao_option().ok()??;
        let slot = self.index(|key| key.recv_id == ao.key_id)?;
        let held = self.slot(slot);
        let Keys::Traffic { receive: key, .. } = &held.keys else { return None };
        let is_ours = segment.source() == self.pair.remote && segment.destination() == self.pair.local;
        if !is_ours || opens(segment) || check_mac_length(&ao, &held.parameters).is_err() {
            return None;
        }
        let sequence = segment.sequence();
        let sne = self.receive.sne_of(sequence);
        let input = mac_input(start, sne, segment, &ao, held.parameters.options);
        let place = SignaturePlace::of(segment, &ao);
        let signature = Signature { slot, sequence, sne, rnext_key_id: ao.rnext_key_id, place };
        Some(Pending { signature, key, input })
    }

    /// [`verify`](Self::verify), with a MAC that may have been computed ahead, of this very segment.
    #[inline]
    pub(crate) fn verify_with<'a>(
        &mut self,
        segment: &Segment<'a>,
        ahead: Option<&Ahead>,
    ) -> Result<Verified<'a>, VerifyError> {
        let Some(Ahead { signature, mac }) = ahead else { return self.verify(segment) };
        let held = self.slot(signature.slot);
        let is_right = matches!(held.keys, Keys::Traffic { .. })
            && self.receive.sne_of(signature.sequence) == signature.sne;
        if !is_right {
            return self.verify(segment);
        }
        let key_id = held.parameters.recv_id;
        let ao = signature.place.option(segment.tcp(), key_id, signature.rnext_key_id);
        let verdict = mac.verify(ao.mac).map(|()| ao).map_err(|_| VerifyError::BadMac { key_id });
        self.conclude(segment, verdict)
    }

    /// The MAC that signing this segment will ask for, if it is sure to ask for one.
    #[inline]
    pub(crate) fn pending_signature<'s>(
        &'s self,
        tcp: &'s [u8],
        start: &'s mut [u8; START_LENGTH],
    ) -> Option<Pending<'s>> {
        let held = self.slot(self.current);
        let Keys::Traffic { send: key, .. } = &held.keys else { return None };
        let (local, remote) = (self.pair.local, self.pair.remote);
        let segment = Segment::from_tcp(local.address(), remote.address(), tcp).ok()?;
        let is_ours =
            (segment.source().port(), segment.destination().port()) == (local.port(), remote.port());
        if !is_ours || opens(&segment) {
            return None;
        }
        let place = SignaturePlace::find(&segment, &held.parameters).ok()?;
        let rnext_key_id = self.rnext_key().recv_id;
        let ao = place.option(tcp, held.parameters.send_id, rnext_key_id);
        let sequence = segment.sequence();
        let sne = self.send.sne_of(sequence);
        let input = mac_input(start, sne, &segment, &ao, held.parameters.options);
        let signature = Signature { slot: self.current, sequence, sne, rnext_key_id, place };
        Some(Pending { signature, key, input })
    }

    /// [`sign`](Self::sign), with a MAC that may have been computed ahead, of this very segment.
    #[inline]
    pub(crate) fn sign_with(&mut self, tcp: &mut [u8], ahead: Option<&Ahead>) -> Result<(), SignError> {
        let Some(Ahead { signature, mac }) = ahead else { return self.sign(tcp) };
        let Signature { slot, sequence, sne, rnext_key_id, place } = *signature;
        let held = self.slot(slot);
        let is_right = slot == self.current
            && rnext_key_id == self.rnext_key().recv_id
            && matches!(held.keys, Keys::Traffic { .. })
            && self.send.sne_of(sequence) == sne;
        if !is_right {
            return self.sign(tcp);
        }
        place.write(tcp, &held.parameters, rnext_key_id, mac);
        self.send.advance(sequence);
        Ok(())
    }
}

/// Whether it is a SYN that opens a connection, which has a key of its own.
#[inline]
fn opens(segment: &Segment<'_>) -> bool {
    segment.flags().syn() && !segment.flags().ack()
}
