//! A live session over IPv4 and somebody on its wire who reads everything and can send anything.

use wireseal_tcp_ao::{Connection, ConnectionState, MKTS_PER_PEER, Mkt, MktSet, Segment};

use super::forgery::Forgery;
use super::peers::{Keys, Peers, Sessions};
use super::recording::{Recording, end_of};
use super::tally::Tally;
use super::{Failure, Outcome};
use crate::bgp::rib::Family;
use crate::transport::memory::Direction;

/// A session that has exchanged a route, with all that went over the wire on record.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) peers: Peers,
    pub(super) sessions: Sessions,
    pub(super) recording: Recording,
}

impl Scene {
    pub(super) async fn set(seed: u64, keys: Keys) -> Result<Self, Failure> {
        let peers = Peers::new(seed, keys)?;
        let recording = Recording::start(&peers.wire);
        let sessions = peers.establish(Family::Ipv4).await?;
        Self::begin(peers, sessions, recording).await
    }

    /// The same with a session that is there already.
    pub(super) async fn begin(
        peers: Peers,
        sessions: Sessions,
        recording: Recording,
    ) -> Result<Self, Failure> {
        sessions.pass_route().await?;
        peers.quiet(&sessions).await?;
        Ok(Self { peers, sessions, recording })
    }

    /// A packet in the first router's name that its TCP could have sent next: the one thing amiss is what the attacker
    /// then makes of it.
    pub(super) fn forge(&self) -> Result<Forgery, Failure> {
        let last = self.recording.last(Direction::AToB, |_| true);
        let last = last.ok_or_else(|| Failure("nothing went over the wire".to_owned()))?;
        let next = end_of(&Segment::parse(&last)?);
        Ok(Forgery::of(last).carrying(&[]).at(next))
    }

    /// The first router's connection as somebody has it who knows all but, perhaps, the secret: ISNs, extensions and sequence
    /// numbers are its own, the key is `mkt`.
    pub(super) fn impostor(&self, mkt: Mkt) -> Result<Connection<MKTS_PER_PEER>, Failure> {
        let state = self
            .peers
            .a
            .with_device(|device| device.shim().connection(&self.sessions.pair).map(Connection::export));
        let state = state.ok_or_else(|| Failure("the connection is not protected".to_owned()))??;
        let state = ConnectionState { current_key: mkt.send_id(), rnext_key: mkt.recv_id(), ..state };
        Ok(Connection::import(&state, &MktSet::from_mkts([mkt])?)?)
    }

    /// UPDATEs that the second router has received.
    pub(super) fn updates_received(&self) -> u64 {
        self.sessions.b.status().borrow().updates
    }

    /// Puts packets in the first router's name onto the quiet wire. Fails unless the second router counts exactly
    /// `expected` and the session is still up and carries routes.
    pub(super) async fn strike(
        &self,
        packets: impl IntoIterator<Item = Vec<u8>>,
        expected: Tally,
    ) -> Outcome {
        let before = Tally::of(&self.peers.b);
        for packet in packets {
            self.peers.wire.inject(Direction::AToB, packet);
        }
        self.peers.taken_in().await?;
        let seen = Tally::of(&self.peers.b).since(&before);
        let passed = self.sessions.pass_route().await.and_then(|()| self.sessions.still_up());
        match passed {
            Ok(()) if seen == expected => Ok(format!("{seen}, session up")),
            Ok(()) => Err(Failure(format!("{seen}, instead of {expected}"))),
            Err(Failure(down)) => Err(Failure(format!("{seen}, expected {expected}; {down}"))),
        }
    }
}
