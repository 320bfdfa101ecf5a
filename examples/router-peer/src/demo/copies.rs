//! Segments that were genuine once: sent again, or altered on their way.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use wireseal_tcp_ao::Segment;

use super::attacks::CEASE;
use super::forgery::Forgery;
use super::peers::{GLANCE, Keys, Peers, Sessions};
use super::recording::Recording;
use super::scene::Scene;
use super::tally::Tally;
use super::{Conditions, Failure, Outcome, ensure};
use crate::bgp::rib::Family;
use crate::sync::Locked;
use crate::transport::memory::{Direction, Verdict, Wire};

/// The first router's port, the same for two connections in a row.
const PORT: u16 = 50_000;
/// UPDATEs that announce one route: the route, and the end of the table for each family.
const UPDATES_PER_ROUTE: u64 = 3;
/// How long a reset or a segment may take on a good wire.
const PATIENCE: Duration = Duration::from_secs(5);

fn carries_data(segment: &Segment<'_>) -> bool {
    !segment.payload().is_empty()
}

/// A connection between the same addresses and ports as the one after it; returns a segment of it.
async fn earlier_connection(peers: &Peers, recording: &Recording) -> Result<Vec<u8>, Failure> {
    let (mut a, mut b) = peers.connect(Family::Ipv4, Some(PORT)).await?;
    a.write_all(&CEASE).await?;
    let mut received = [0; CEASE.len()];
    b.read_exact(&mut received).await?;
    a.abort();
    let reset = timeout(PATIENCE, b.read_u8()).await;
    ensure!(matches!(reset, Ok(Err(_))), "the earlier connection does not end");
    let segment = recording.last(Direction::AToB, carries_data);
    segment.ok_or_else(|| Failure("the earlier connection carried nothing".to_owned()))
}

/// Copies of this connection's segments are TCP's to tell, those of an earlier one are Wireseal's.
pub(super) async fn replay(conditions: Conditions) -> Outcome {
    let keys = if conditions.sabotaged { Keys::default() } else { Keys::usual()? };
    let peers = Peers::new(conditions.seed, keys)?;
    let recording = Recording::start(&peers.wire);
    let earlier = earlier_connection(&peers, &recording).await?;
    let sessions = peers.start_session(peers.connect(Family::Ipv4, Some(PORT)).await?).await?;
    let scene = Scene::begin(peers, sessions, recording).await?;

    let fresh = scene.recording.last(Direction::AToB, carries_data);
    let fresh = fresh.ok_or_else(|| Failure("the session carried nothing".to_owned()))?;
    let before = scene.updates_received();
    let verified = scene.strike([fresh], Tally::good(1)).await?;
    scene.peers.quiet(&scene.sessions).await?;
    let delivered = scene.updates_received() - before;
    ensure!(
        delivered == UPDATES_PER_ROUTE,
        "{delivered} UPDATEs arrived instead of {UPDATES_PER_ROUTE}: octets were delivered twice"
    );
    let dropped = scene.strike([earlier], Tally::bad(1)).await?;
    Ok(format!(
        "of this session: {verified}; its MAC is right, TCP knows its sequence number and delivers nothing twice. Of an \
         earlier one: {dropped}"
    ))
}

/// Takes the first router's data off the wire.
fn hold(wire: &Wire) -> Arc<Locked<Vec<Vec<u8>>>> {
    let held = Arc::<Locked<Vec<_>>>::default();
    let hold = Arc::clone(&held);
    wire.tap(move |direction, packet| {
        if direction == Direction::AToB && Segment::parse(packet).is_ok_and(|segment| carries_data(&segment))
        {
            hold.lock().push(packet.clone());
            return Verdict::Take;
        }
        Verdict::Pass
    });
    held
}

async fn first_of(held: &Locked<Vec<Vec<u8>>>) -> Result<Vec<u8>, Failure> {
    let first = async {
        loop {
            if let Some(first) = held.lock().first() {
                return first.clone();
            }
            sleep(GLANCE).await;
        }
    };
    timeout(PATIENCE, first).await.map_err(|_| Failure("the first router sends no route".to_owned()))
}

/// A segment on its way, once with each bit of its payload altered before it is let through.
pub(super) async fn flipped_bit(conditions: Conditions) -> Outcome {
    let scene = Scene::set(conditions.seed, Keys::usual()?).await?;
    let Scene { peers, sessions, recording } = &scene;
    let held = hold(&peers.wire);
    let routes = Sessions::next_route(&sessions.b);
    let before = Tally::of(&peers.b);
    sessions.a.announce(Arc::clone(&routes)).await?;
    let original = first_of(&held).await?;
    let bits = Segment::parse(&original)?.payload().len() * 8;
    for bit in 0..bits {
        let altered = Forgery::of(original.clone());
        let altered = if conditions.sabotaged { altered } else { altered.flipping(bit) };
        peers.wire.inject(Direction::AToB, altered.finish());
    }
    peers.taken_in().await?;
    let seen = Tally::of(&peers.b).since(&before);
    let expected = Tally::bad(bits as u64);
    ensure!(seen == expected, "{seen}, instead of {expected}");

    recording.resume(&peers.wire);
    let passed = scene.strike([original], Tally::good(1)).await?;
    ensure!(sessions.b.rib().lock().get(&routes[0].prefix).is_some(), "the route in it did not arrive");
    Ok(format!("each of {bits} bits: {seen}; then the segment as it was sent: {passed}"))
}
