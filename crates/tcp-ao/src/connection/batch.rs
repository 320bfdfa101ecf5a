//! Many segments at once: MACs are computed side by side, 16 at a time, then each segment is verified or signed in order.
//!
//! The MACs use the keys and SNEs from the start of the batch. Verifying and signing never change the keys of an established
//! connection, but can change its SNE; a segment whose SNE has changed by its turn is verified or signed singly.

use core::borrow::BorrowMut;

use wireseal_mac::{Mac, MessageHead, prefetch};

use crate::connection::send::Prepared;
use crate::connection::slots::{Secrets, TrafficKeys};
use crate::connection::{Connection, Phase, Verified};
use crate::error::{SignError, VerifyError};
use crate::kdf::TrafficKey;
use crate::mac_input::MacInput;
use crate::option::AoPlace;
use crate::segment::{Segment, compare};
use crate::types::{Isn, Sne};

/// How many MACs are computed side by side.
pub(crate) const BATCH: usize = 16;
/// How many octets of each segment are prefetched. Hardware prefetch covers the rest.
const AHEAD: usize = 256;
/// How many of these are prefetched first; they locate the key.
const START: usize = 64;
/// Up to this many connections, L1 holds everything.
const NEAR: usize = 64;

/// So many segments of any length take less time side by side than one by one.
const ENOUGH: usize = 4;
/// Fewer gain if there are so many octets beside the longest.
const ENOUGH_OCTETS: usize = 512;

/// The octets beside those of the longest message. Computed side by side, these cost little, so they decide whether a batch gains.
pub(crate) fn octets_beside_longest(lengths: impl Iterator<Item = usize>) -> usize {
    let (sum, longest) = lengths.fold((0, 0), |(sum, longest), length| (sum + length, longest.max(length)));
    sum - longest
}

/// Whether segments of these lengths take less time side by side than one by one.
fn gains(lengths: impl ExactSizeIterator<Item = usize>) -> bool {
    lengths.len() >= ENOUGH || octets_beside_longest(lengths) >= ENOUGH_OCTETS
}

/// Computes the MACs of many segments side by side, each under its own traffic key, faster than one by one.
///
/// `macs[0]` becomes the MAC of the first input, and so on, until either runs out.
pub(crate) fn mac_batch<'a>(
    inputs: impl IntoIterator<Item = (&'a TrafficKey, MacInput<'a>)>,
    macs: &mut [Mac],
) {
    let mut inputs = inputs.into_iter();
    for macs in macs.chunks_mut(BATCH) {
        let mut heads = [const { MessageHead::new() }; BATCH];
        let mut jobs = [None; BATCH];
        for ((job, head), (key, input)) in
            jobs.iter_mut().zip(&mut heads).zip(inputs.by_ref().take(macs.len()))
        {
            *job = Some((key.mac_key(), input.message(head)));
        }
        wireseal_mac::mac_batch(jobs.iter().flatten().map(|(key, message)| (*key, &message[..])), macs);
    }
}

/// Prefetches the next batch while this one is computed: first the lines that locate the keys, then the keys. The work is spread over this
/// batch's segments, because a processor waits for only a few cache lines at a time.
impl<const N: usize> Connection<N> {
    #[inline(always)]
    fn fetch_start(&self, tcp: &[u8]) {
        self.prefetch();
        prefetch(tcp, START);
    }

    #[inline(always)]
    fn fetch_to_verify(&self, tcp: &[u8]) {
        self.fetch_rest(tcp, self.verifies_with, |keys| &keys.receive);
    }

    #[inline(always)]
    fn fetch_to_sign(&self, tcp: &[u8]) {
        self.fetch_rest(tcp, self.current, |keys| &keys.send);
    }

    #[inline(always)]
    fn fetch_rest(&self, tcp: &[u8], slot: u8, key: impl Fn(&TrafficKeys<N>) -> &TrafficKey) {
        if let Secrets::Traffic(keys) = &self.secrets {
            key(keys).prefetch(self.key(slot).algorithm);
        }
        prefetch(tcp.get(START..).unwrap_or_default(), AHEAD - START);
    }
}

/// Verifies received segments of many connections. For every segment in order, `each` gets its index and the result of
/// [`Connection::verify`].
///
/// Each segment comes with the index of its connection in `connections`: connections, boxes or exclusive references. 16 are computed
/// side by side, and the next 16 fetched meanwhile: with thousands of connections, pass 64 or more. Two or three short segments are
/// computed one by one, which is faster.
///
/// # Errors
/// Those of [`Connection::verify`], through `each`; [`VerifyError::OtherConnection`] if no connection has the index.
pub fn verify_batch<'a, C: BorrowMut<Connection<N>>, const N: usize>(
    connections: &mut [C],
    segments: &[(usize, Segment<'a>)],
    mut each: impl FnMut(usize, Result<Verified<'a>, VerifyError>),
) {
    let fetch = |connections: &[C], number: usize, step: fn(&Connection<N>, &[u8])| {
        if let Some((connection, segment)) = segments.get(number)
            && let Some(connection) = connections.get(*connection)
        {
            step(connection.borrow(), segment.tcp());
        }
    };
    if segments.len() >= ENOUGH {
        (0..BATCH).for_each(|number| fetch(connections, number, Connection::fetch_start));
        (0..BATCH).for_each(|number| fetch(connections, number, Connection::fetch_to_verify));
    }
    for (batch, chunk) in segments.chunks(BATCH).enumerate() {
        let numbers = batch * BATCH..;
        if !gains(chunk.iter().map(|(_, segment)| segment.tcp().len())) {
            for (number, (connection, segment)) in numbers.zip(chunk) {
                let connection = connections.get_mut(*connection).ok_or(VerifyError::OtherConnection);
                each(number, connection.and_then(|connection| connection.borrow_mut().verify(segment)));
            }
            continue;
        }
        let mut ahead = [None; BATCH];
        let mut macs = [const { Mac::EMPTY }; BATCH];
        let jobs = ahead.iter_mut().zip(chunk).zip(numbers.clone()).filter_map(
            |((ahead, (connection, segment)), number)| {
                fetch(connections, number + BATCH, Connection::fetch_start);
                let connection = connections.get(*connection)?.borrow();
                // Errors are reported and counted when the segment's turn comes.
                let found = connection.find(segment).ok()?;
                let key = connection.ready_key(found)?;
                *ahead = Some(found);
                Some((key, connection.input_received(segment, found)))
            },
        );
        mac_batch(jobs, &mut macs);
        let mut macs = macs.iter();
        for (((connection, segment), ahead), number) in chunk.iter().zip(ahead).zip(numbers) {
            let ahead = ahead.zip(ahead.and_then(|_| macs.next()));
            let verdict = match (connections.get_mut(*connection), ahead) {
                (None, _) => Err(VerifyError::OtherConnection),
                (Some(connection), Some((found, mac)))
                    if connection.borrow().is_established()
                        && connection.borrow().receive.sne_of(segment.sequence()) == found.sne =>
                {
                    connection.borrow_mut().conclude(segment, compare(&found.ao, mac).map(|()| found))
                }
                (Some(connection), _) => connection.borrow_mut().verify(segment),
            };
            fetch(connections, number + BATCH, Connection::fetch_to_verify);
            each(number, verdict);
        }
    }
}

/// Signs TCP segments of many connections in place. For every segment in order, `each` gets its index and the result of
/// [`Connection::sign`].
///
/// Each segment comes with the index of its connection in `connections`, as in [`verify_batch`].
///
/// # Errors
/// Those of [`Connection::sign`], through `each`; [`SignError::OtherConnection`] if no connection has the index. The segment is
/// then unchanged.
pub fn sign_batch<C: BorrowMut<Connection<N>>, const N: usize>(
    connections: &mut [C],
    segments: &mut [(usize, &mut [u8])],
    mut each: impl FnMut(usize, Result<(), SignError>),
) {
    let fetch =
        |connections: &[C], next: &[(usize, &mut [u8])], number: usize, step: fn(&Connection<N>, &[u8])| {
            if let Some((connection, tcp)) = next.get(number)
                && let Some(connection) = connections.get(*connection)
            {
                step(connection.borrow(), tcp);
            }
        };
    if connections.len() > NEAR {
        (0..BATCH).for_each(|number| fetch(connections, segments, number, Connection::fetch_start));
        (0..BATCH).for_each(|number| fetch(connections, segments, number, Connection::fetch_to_sign));
    }
    for batch in 0..segments.len().div_ceil(BATCH) {
        let rest = &mut segments[batch * BATCH..];
        let (segments, next) = rest.split_at_mut(rest.len().min(BATCH));
        if !gains(segments.iter().map(|(_, tcp)| tcp.len())) {
            for (number, (connection, tcp)) in segments.iter_mut().enumerate() {
                let connection = connections.get_mut(*connection).ok_or(SignError::OtherConnection);
                each(
                    batch * BATCH + number,
                    connection.and_then(|connection| connection.borrow_mut().sign(tcp)),
                );
            }
            continue;
        }
        let mut ahead = [None; BATCH];
        let mut macs = [const { Mac::EMPTY }; BATCH];
        let jobs = ahead.iter_mut().zip(&mut *segments).enumerate().filter_map(
            |(number, (ahead, (connection, tcp)))| {
                fetch(connections, next, number, Connection::fetch_start);
                let connection = connections.get(*connection)?.borrow();
                let prepared = connection.prepare(tcp).ok()?;
                let Secrets::Traffic(keys) = &connection.secrets else { return None };
                let input = connection.input_to_send(tcp, prepared)?;
                *ahead = Some(prepared);
                Some((&keys.send, input))
            },
        );
        mac_batch(jobs, &mut macs);
        let mut macs = macs.iter();
        for (number, ((connection, tcp), ahead)) in segments.iter_mut().zip(ahead).enumerate() {
            let ahead = ahead.zip(ahead.and_then(|_| macs.next()));
            let outcome = match (connections.get_mut(*connection), ahead) {
                (None, _) => Err(SignError::OtherConnection),
                (Some(connection), Some((prepared, mac)))
                    if connection.borrow().is_established()
                        && connection.borrow().send.sne_of(prepared.head.sequence) == prepared.sne =>
                {
                    connection.borrow_mut().finish(tcp, prepared, mac).ok_or(SignError::NoOption)
                }
                (Some(connection), _) => connection.borrow_mut().sign(tcp),
            };
            fetch(connections, next, number, Connection::fetch_to_sign);
            each(batch * BATCH + number, outcome);
        }
    }
}

/// The MAC of a received segment, computed before its turn. Valid only for the connection with these ISNs and for this SNE.
pub(crate) struct Ahead {
    isns: (Option<Isn>, Isn),
    sne: Sne,
    pub(crate) mac: Mac,
}

/// An outgoing segment that lacks only its MAC.
#[derive(Clone, Copy)]
pub(crate) struct ToSign {
    sne: Sne,
    ao: AoPlace,
}

impl ToSign {
    #[must_use]
    pub(crate) fn write_mac(self, tcp: &mut [u8], mac: &Mac) -> Option<()> {
        self.ao.write_mac(tcp, mac)
    }
}

impl<const N: usize> Connection<N> {
    /// The key and input of a received segment's MAC, and a place for the MAC. `None` before the connection is established, and for a key
    /// that is not ready.
    pub(crate) fn look_ahead<'a>(
        &'a self,
        segment: &Segment<'a>,
    ) -> Option<(&'a TrafficKey, MacInput<'a>, Ahead)> {
        let found = self.find(segment).ok()?;
        let key = self.ready_key(found)?;
        let ahead = Ahead { isns: (self.local_isn, self.remote_isn), sne: found.sne, mac: Mac::EMPTY };
        Some((key, self.input_received(segment, found), ahead))
    }

    /// [`verify`](Self::verify) with a MAC that was computed ahead, if that is still valid.
    pub(crate) fn verify_with<'a>(
        &mut self,
        segment: &Segment<'a>,
        ahead: &Ahead,
    ) -> Result<Verified<'a>, VerifyError> {
        match self.find(segment) {
            Ok(found)
                if self.phase == Phase::Established
                    && ahead.isns == (self.local_isn, self.remote_isn)
                    && ahead.sne == found.sne =>
            {
                self.conclude(segment, compare(&found.ao, &ahead.mac).map(|()| found))
            }
            _ => self.verify(segment),
        }
    }

    /// [`sign`](Self::sign) without computing the MAC. During the handshake the segment is signed at once, and `None` is returned.
    pub(crate) fn sign_without_mac(&mut self, tcp: &mut [u8]) -> Result<Option<ToSign>, SignError> {
        if self.phase != Phase::Established {
            return self.sign(tcp).map(|()| None);
        }
        let prepared = self.prepare(tcp)?;
        self.input_to_send(tcp, prepared).ok_or(SignError::NoOption)?;
        let Prepared { sne, ao, head } = prepared;
        self.send.advance(head.end);
        Ok(Some(ToSign { sne, ao }))
    }

    /// The key and input of such a segment's MAC. The current key must not have changed since.
    pub(crate) fn input_to_sign<'a>(
        &'a self,
        tcp: &'a [u8],
        to_sign: ToSign,
    ) -> Option<(&'a TrafficKey, MacInput<'a>)> {
        let Secrets::Traffic(keys) = &self.secrets else { return None };
        let addresses = (self.pair.local.address_in_place(), self.pair.remote.address_in_place());
        let options = self.current_key().options;
        Some((&keys.send, MacInput::new(to_sign.sne, addresses, tcp, to_sign.ao, options)))
    }
}
