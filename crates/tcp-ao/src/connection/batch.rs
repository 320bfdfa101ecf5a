//! Many segments, of as many connections as there are, authenticated together.
//!
//! The MACs are computed ahead of their turn, with the keys and SNEs that the connections have as the batch begins; then each
//! segment is judged as if it came alone. One whose key or SNE has changed by then has its MAC computed again, so that nothing
//! but the time tells a batch from its segments one by one.

use core::borrow::BorrowMut;

use wireseal_mac::{Mac, mac_batch};

use crate::authenticate::{SignError, SignaturePlace, VerifyError};
use crate::connection::keys::Keys;
use crate::connection::{Connection, Verified};
use crate::kdf::TrafficKey;
use crate::mac_input::{EMPTY_START, Start};
use crate::segment::Segment;
use crate::types::{KeyId, SeqNum, Sne};

/// How many MACs are computed together.
pub(crate) const BATCH: usize = 16;

/// Room for the starts of a batch's MAC inputs.
pub(crate) type Starts = [Start; BATCH];

/// [`Starts`] with nothing in them.
pub(crate) const EMPTY_STARTS: Starts = [EMPTY_START; BATCH];

/// Where in a segment the signature is, and what the MAC depends on beside the octets: numbers, so that the segment can be
/// written to.
#[derive(Clone, Copy)]
pub(crate) struct Signature {
    pub(super) slot: u8,
    pub(super) sequence: SeqNum,
    pub(super) sne: Sne,
    /// The KeyID and the RNextKeyID.
    pub(super) key_ids: [KeyId; 2],
    pub(super) place: SignaturePlace,
}

/// What a MAC is computed with: the key, and the message in its slices.
pub(crate) type Input<'a> = (&'a TrafficKey, [&'a [u8]; 2]);

/// What the MACs of a batch are computed with.
pub(crate) type Inputs<'a> = [Option<Input<'a>>; BATCH];

/// The signatures of a batch, with the MACs that were computed ahead of their turn.
pub(crate) struct Ahead {
    signatures: [Option<Signature>; BATCH],
    /// One for each signature that there is, and empty ones behind them.
    macs: [Mac; BATCH],
}

impl Ahead {
    pub(crate) const EMPTY: Self = Self { signatures: [None; BATCH], macs: [const { Mac::EMPTY }; BATCH] };

    /// Adds the MAC that the segment with this number, below [`BATCH`], is sure to need.
    #[inline(always)]
    pub(crate) fn add<'a>(
        &mut self,
        number: usize,
        signature: Signature,
        inputs: &mut Inputs<'a>,
        input: Input<'a>,
    ) {
        self.signatures[number] = Some(signature);
        inputs[number] = Some(input);
    }

    /// Computes the MACs of all that were added. A lone one is left to its turn.
    #[inline]
    pub(crate) fn compute(&mut self, inputs: &Inputs<'_>) {
        let jobs = inputs.iter().flatten().map(|(key, message)| (key.mac_key(), &message[..]));
        if jobs.clone().nth(1).is_some() {
            mac_batch(jobs, &mut self.macs);
        }
    }

    /// What there is of each segment in order.
    #[inline(always)]
    pub(crate) fn each(&self) -> impl Iterator<Item = Option<(&Signature, &Mac)>> {
        let mut macs = self.macs.iter();
        self.signatures.iter().map(move |signature| {
            let signature = signature.as_ref()?;
            macs.next().filter(|mac| !mac.as_bytes().is_empty()).map(|mac| (signature, mac))
        })
    }
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
        let mut starts = EMPTY_STARTS;
        let (mut ahead, mut inputs) = (Ahead::EMPTY, [None; BATCH]);
        for (number, (start, (connection, segment))) in starts.iter_mut().zip(segments).enumerate() {
            let Some(connection) = connections.get(*connection) else { continue };
            let connection = connection.borrow();
            // What is refused is refused again in its turn.
            if let Ok(Some(signature)) = connection.signature_received(segment)
                && let Some(input) = connection.input_received(segment, &signature, start)
            {
                ahead.add(number, signature, &mut inputs, input);
            }
        }
        ahead.compute(&inputs);
        for (index, ((connection, segment), ahead)) in segments.iter().zip(ahead.each()).enumerate() {
            let verdict = match connections.get_mut(*connection) {
                Some(connection) => connection.borrow_mut().verify_with(segment, ahead),
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
        let mut starts = EMPTY_STARTS;
        let (mut ahead, mut inputs) = (Ahead::EMPTY, [None; BATCH]);
        for (number, (start, (connection, tcp))) in starts.iter_mut().zip(&*segments).enumerate() {
            let Some(connection) = connections.get(*connection) else { continue };
            let connection = connection.borrow();
            // What is refused is refused again in its turn.
            if let Ok(Some(signature)) = connection.signature_to_send(tcp)
                && let Some(input) = connection.input_to_send(tcp, &signature, start)
            {
                ahead.add(number, signature, &mut inputs, input);
            }
        }
        ahead.compute(&inputs);
        for (index, ((connection, tcp), ahead)) in segments.iter_mut().zip(ahead.each()).enumerate() {
            let outcome = match connections.get_mut(*connection) {
                Some(connection) => connection.borrow_mut().sign_with(tcp, ahead),
                None => Err(SignError::OtherConnection),
            };
            each(batch * BATCH + index, outcome);
        }
    }
}

impl<const N: usize> Connection<N> {
    /// [`verify`](Self::verify), with a MAC that may have been computed ahead, of this very segment.
    #[inline]
    pub(crate) fn verify_with<'a>(
        &mut self,
        segment: &Segment<'a>,
        ahead: Option<(&Signature, &Mac)>,
    ) -> Result<Verified<'a>, VerifyError> {
        let Some((signature, mac)) = ahead else { return self.verify(segment) };
        // Another connection may have come in this one's place, with fewer keys and none of them derived yet.
        let slot = self.slots.get(usize::from(signature.slot)).and_then(Option::as_ref);
        let is_right = slot.is_some_and(|slot| matches!(slot.keys, Keys::Traffic { .. }))
            && self.receive.sne_of(signature.sequence) == signature.sne;
        if !is_right {
            return self.verify(segment);
        }
        self.conclude(segment, signature.verdict(segment, mac))
    }

    /// [`sign`](Self::sign), with a MAC that may have been computed ahead, of this very segment.
    #[inline(always)]
    pub(crate) fn sign_with(
        &mut self,
        tcp: &mut [u8],
        ahead: Option<(&Signature, &Mac)>,
    ) -> Result<(), SignError> {
        match ahead {
            // The keys cannot have changed meanwhile: signing changes none.
            Some((signature, mac)) if self.send.sne_of(signature.sequence) == signature.sne => {
                self.finish_signature(tcp, signature, mac);
                Ok(())
            }
            _ => self.sign(tcp),
        }
    }
}
