//! Many segments at once: their MACs are computed side by side, then each segment is judged or finished in its turn.
//!
//! The MACs of a batch of 16 are computed with the keys and SNEs that hold as it begins. Verifying and signing change no key of an
//! established connection, but may change its SNE; a segment whose SNE has changed when its turn comes goes the single way.

use core::borrow::BorrowMut;

use wireseal_mac::{Mac, MessageHead};

use crate::authenticate::compare;
use crate::connection::slot::Keys;
use crate::connection::{Connection, Verified};
use crate::error::{SignError, VerifyError};
use crate::kdf::TrafficKey;
use crate::mac_input::MacInput;
use crate::segment::Segment;
use crate::tcp;

/// How many MACs are computed together.
const BATCH: usize = 16;

/// Computes the MACs of many segments, each under its own traffic key, in less time than one after the other.
///
/// The first MAC becomes that of the first input, and so on; the shorter of the two decides how many.
pub fn mac_batch<'a>(inputs: impl IntoIterator<Item = (&'a TrafficKey, MacInput<'a>)>, macs: &mut [Mac]) {
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

/// Verifies received segments of many connections, and hands `each` for every segment in order its index in `segments` and what
/// [`Connection::verify`] would return.
///
/// A segment names its connection by the index in `connections`, which holds connections, boxes or exclusive references.
///
/// # Errors
/// `each` gets those of [`Connection::verify`]; also [`VerifyError::OtherConnection`], counted nowhere, if there is no connection
/// with the index.
pub fn verify_batch<'a, C: BorrowMut<Connection<N>>, const N: usize>(
    connections: &mut [C],
    segments: &[(usize, Segment<'a>)],
    mut each: impl FnMut(usize, Result<Verified<'a>, VerifyError>),
) {
    for (batch, segments) in segments.chunks(BATCH).enumerate() {
        let mut ahead = [None; BATCH];
        let mut macs = [const { Mac::EMPTY }; BATCH];
        let jobs = ahead.iter_mut().zip(segments).filter_map(|(ahead, (connection, segment))| {
            let connection = connections.get(*connection)?.borrow();
            // What is refused here is refused and counted in its turn.
            let found = connection.find(segment).ok()?;
            let Keys::Traffic { receive, .. } = &found.slot.keys else { return None };
            *ahead = Some((found.ao, found.sne));
            Some((receive, connection.input_received(segment, &found)))
        });
        mac_batch(jobs, &mut macs);
        let mut macs = macs.iter();
        for (number, ((connection, segment), ahead)) in segments.iter().zip(ahead).enumerate() {
            let ahead = ahead.zip(ahead.and_then(|_| macs.next()));
            let verdict = match (connections.get_mut(*connection), ahead) {
                (None, _) => Err(VerifyError::OtherConnection),
                (Some(connection), Some(((ao, sne), mac)))
                    if connection.borrow().receive.sne_of(segment.sequence()) == sne =>
                {
                    connection.borrow_mut().conclude(segment, compare(&ao, mac).map(|()| ao))
                }
                (Some(connection), _) => connection.borrow_mut().verify(segment),
            };
            each(batch * BATCH + number, verdict);
        }
    }
}

/// Signs TCP segments of many connections in place, and hands `each` for every segment in order its index in `segments` and what
/// [`Connection::sign`] would return.
///
/// A segment names its connection by the index in `connections`, as in [`verify_batch`].
///
/// # Errors
/// `each` gets those of [`Connection::sign`]; also [`SignError::OtherConnection`], with the segment unchanged, if there is no
/// connection with the index.
pub fn sign_batch<C: BorrowMut<Connection<N>>, const N: usize>(
    connections: &mut [C],
    segments: &mut [(usize, &mut [u8])],
    mut each: impl FnMut(usize, Result<(), SignError>),
) {
    for (batch, segments) in segments.chunks_mut(BATCH).enumerate() {
        let mut ahead = [None; BATCH];
        let mut macs = [const { Mac::EMPTY }; BATCH];
        let jobs = ahead.iter_mut().zip(&mut *segments).filter_map(|(ahead, (connection, tcp))| {
            let connection = connections.get(*connection)?.borrow();
            let key = connection.kept_send_key()?;
            let (sne, ao) = connection.prepare(tcp).ok()?;
            *ahead = Some((sne, ao));
            Some((key, connection.input_to_send(tcp, sne, ao)))
        });
        mac_batch(jobs, &mut macs);
        let mut macs = macs.iter();
        for (number, ((connection, tcp), ahead)) in segments.iter_mut().zip(ahead).enumerate() {
            let ahead = ahead.zip(ahead.and_then(|_| macs.next()));
            let outcome = match (connections.get_mut(*connection), ahead) {
                (None, _) => Err(SignError::OtherConnection),
                (Some(connection), Some(((sne, ao), mac)))
                    if connection.borrow().send.sne_of(tcp::sequence(tcp)) == sne =>
                {
                    connection.borrow_mut().finish(tcp, sne, ao, mac);
                    Ok(())
                }
                (Some(connection), _) => connection.borrow_mut().sign(tcp),
            };
            each(batch * BATCH + number, outcome);
        }
    }
}
