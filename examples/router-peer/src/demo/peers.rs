//! Two routers on one wire, with a session between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MKTS_PER_PEER, MasterKey, Mkt, MktError, MktSet, Peer, SocketPair};

use super::tally::Tally;
use super::{Failure, ensure};
use crate::bgp;
use crate::bgp::rib::{Attributes, Family, Route};
use crate::bgp::session::{Session, SessionConfig, State, Status};
use crate::bgp::update::Export;
use crate::link::{FrameQueue, LinkDevice};
use crate::protection::{Protected, peer, protect};
use crate::stack::{Stack, StackConfig, TcpStream};
use crate::transport::DEFAULT_IP_MTU;
use crate::transport::memory::{Wire, wire};

/// How long a handshake or a change may take even on a bad wire.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often routers are looked at while something is waited for.
pub(super) const GLANCE: Duration = Duration::from_millis(2);
/// A wire that has carried nothing for so long is quiet: longer than TCP holds an acknowledgment back.
const QUIET: Duration = Duration::from_millis(100);
/// AS number of the first router, and of the second, which needs four octets.
const ASNS: [u32; 2] = [64_512, 4_200_000_000];
/// The secret of the demonstration: 256 bits, as draft-ietf-tcpm-tcp-ao-algs asks for.
pub(super) const SECRET: &[u8; 32] = b"the two routers know this secret";

/// A key with the same id in both directions.
pub(super) fn key(id: u8, algorithm: TcpAoAlgorithm, secret: &[u8]) -> Result<Mkt, MktError> {
    Mkt::new(KeyId(id), KeyId(id), algorithm, MasterKey::new(secret)?)
}

/// The key of all checks that are about something else.
pub(super) fn usual_key() -> Result<Mkt, MktError> {
    key(1, TcpAoAlgorithm::Aes128Cmac, SECRET)
}

/// What the routers protect their connections with; nothing at all where there is no set.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    pub(super) a: Option<MktSet<MKTS_PER_PEER>>,
    pub(super) b: Option<MktSet<MKTS_PER_PEER>>,
}

impl Keys {
    pub(super) fn new(a: Mkt, b: Mkt) -> Result<Self, MktError> {
        Ok(Self { a: Some(MktSet::from_mkts([a])?), b: Some(MktSet::from_mkts([b])?) })
    }

    /// The usual key at both routers.
    pub(super) fn usual() -> Result<Self, MktError> {
        Self::new(usual_key()?, usual_key()?)
    }
}

/// Two routers; the first opens the connection.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) a: Stack<Protected>,
    pub(super) b: Stack<Protected>,
    pub(super) wire: Wire,
    /// Frames for the first and for the second router.
    arrivals: [Arc<FrameQueue>; 2],
}

/// A session, seen from both ends.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) a: Session,
    pub(super) b: Session,
    /// The connection as the first router sees it.
    pub(super) pair: SocketPair,
}

fn address(family: Family, router: u8) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::from([192, 0, 2, router]),
        Family::Ipv6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(router)]),
    }
}

pub(super) fn session_config(router: u8) -> SessionConfig {
    let IpAddr::V6(next_hop_ipv6) = address(Family::Ipv6, router) else { unreachable!("an IPv6 address") };
    let own = Ipv4Addr::new(192, 0, 2, router);
    let export = Export {
        local_as: ASNS[usize::from(router) - 1],
        peer_as: ASNS[2 - usize::from(router)],
        next_hop_ipv4: Some(own),
        next_hop_ipv6: Some(next_hop_ipv6),
    };
    SessionConfig { export, router_id: own, hold_time: 30 }
}

fn start(
    link: LinkDevice,
    router: u8,
    mkts: Option<MktSet<MKTS_PER_PEER>>,
    seed: u64,
) -> Result<Stack<Protected>, Failure> {
    let config = StackConfig {
        hardware_address: [2, 0, 0, 0, 0, router],
        addresses: vec![
            IpNet::new_assert(address(Family::Ipv4, router), 24),
            IpNet::new_assert(address(Family::Ipv6, router), 64),
        ],
        gateways: Vec::new(),
        congestion_control: CongestionControl::None,
        seed: seed ^ u64::from(router),
    };
    let other = 3 - router;
    let peers: Vec<Peer> = match mkts {
        None => Vec::new(),
        Some(mkts) => [Family::Ipv4, Family::Ipv6]
            .map(|family| peer(address(family, router), address(family, other), mkts.clone()))
            .into(),
    };
    let arrivals = link.arrivals();
    Ok(Stack::start(protect(link, peers)?, arrivals, &config)?)
}

impl Peers {
    /// Two routers with an address of each family.
    pub(super) fn new(seed: u64, keys: Keys) -> Result<Self, Failure> {
        let (device_a, device_b, wire) = wire(Medium::Ip, DEFAULT_IP_MTU, seed);
        let arrivals = [device_a.arrivals(), device_b.arrivals()];
        let (a, b) = (start(device_a, 1, keys.a, seed)?, start(device_b, 2, keys.b, seed)?);
        Ok(Self { a, b, wire, arrivals })
    }

    /// What the two routers have counted.
    pub(super) fn tallies(&self) -> [Tally; 2] {
        [Tally::of(&self.a), Tally::of(&self.b)]
    }

    /// Connects the routers, from a port that the first one chooses or from the given one. Gives up as soon as a router drops
    /// a packet.
    pub(super) async fn connect(
        &self,
        family: Family,
        port: Option<u16>,
    ) -> Result<(TcpStream, TcpStream), Failure> {
        let before = self.tallies();
        let mut listener = self.b.listen(None, bgp::PORT)?;
        let remote = SocketAddr::from((address(family, 2), bgp::PORT));
        let connecting = async {
            match port {
                None => self.a.connect(remote, None).await,
                Some(port) => self.a.connect_from(SocketAddr::from((address(family, 1), port)), remote).await,
            }
        };
        let dropping = async {
            loop {
                sleep(GLANCE).await;
                for (router, (now, before)) in
                    ["first", "second"].iter().zip(self.tallies().iter().zip(&before))
                {
                    let change = now.since(before);
                    if change.dropped > 0 {
                        return Failure(format!("no TCP connection, the {router} router: {change}"));
                    }
                }
            }
        };
        tokio::select! {
            (a, b) = async { tokio::join!(connecting, listener.accept()) } => Ok((a?, b?)),
            failure = dropping => Err(failure),
            () = sleep(PATIENCE) => Err(Failure(format!("no TCP connection within {} s", PATIENCE.as_secs()))),
        }
    }

    /// Starts a session over a connection and waits until it is established.
    pub(super) async fn start_session(&self, (a, b): (TcpStream, TcpStream)) -> Result<Sessions, Failure> {
        let (Some(local), Some(remote)) = (a.local_addr(), a.peer_addr()) else {
            return Err(Failure("the connection is gone before the session began".to_owned()));
        };
        let pair = SocketPair { local: local.into(), remote: remote.into() };
        let (a, b) = (Session::start(a, session_config(1)), Session::start(b, session_config(2)));
        for session in [&a, &b] {
            until(session, "the session to be established", |status| status.state == State::Established)
                .await?;
        }
        Ok(Sessions { a, b, pair })
    }

    /// Connects the routers and waits until their session is established.
    pub(super) async fn establish(&self, family: Family) -> Result<Sessions, Failure> {
        self.start_session(self.connect(family, None).await?).await
    }

    /// Waits until both routers have nothing to say for the moment.
    pub(super) async fn quiet(&self, sessions: &Sessions) -> Result<(), Failure> {
        for session in [&sessions.a, &sessions.b] {
            // One KEEPALIVE answers OPEN, another one follows at once; the third is far.
            until(session, "the first two KEEPALIVEs", |status| status.keepalives >= 2).await?;
        }
        let silence = async {
            let mut carried = self.wire.counters().carried;
            loop {
                sleep(QUIET).await;
                let now = self.wire.counters().carried;
                if now == carried {
                    return;
                }
                carried = now;
            }
        };
        timeout(PATIENCE, silence).await.map_err(|_| Failure("the wire does not fall silent".to_owned()))?;
        self.taken_in().await
    }

    /// Waits until all that has arrived has been through Wireseal and TCP.
    pub(super) async fn taken_in(&self) -> Result<(), Failure> {
        let taken_in = async {
            while self.arrivals.iter().any(|queue| !queue.is_empty()) {
                sleep(GLANCE).await;
            }
        };
        timeout(PATIENCE, taken_in).await.map_err(|_| Failure("a router takes nothing in".to_owned()))?;
        // A router takes a frame out of its queue and deals with it in one step, after which its device can be had.
        self.tallies();
        Ok(())
    }

    /// Fails unless both routers have verified all that they received; tells how many segments each has.
    pub(super) fn all_verified(&self) -> Result<[u64; 2], Failure> {
        let tallies = self.tallies();
        for (router, tally) in ["first", "second"].iter().zip(&tallies) {
            let good = tally.counters.good;
            ensure!(good > 0, "the {router} router has verified nothing");
            ensure!(*tally == Tally::good(good), "the {router} router: {tally}");
        }
        Ok(tallies.map(|tally| tally.counters.good))
    }
}

impl Sessions {
    /// Fails unless both ends are established now.
    pub(super) fn still_up(&self) -> Result<(), Failure> {
        for (end, session) in [("first", &self.a), ("second", &self.b)] {
            let status = session.status().borrow().clone();
            if let Some(closed) = status.closed {
                return Err(Failure(format!("the session is down at the {end} router, {closed}")));
            }
        }
        Ok(())
    }

    /// A route that a session has not received yet.
    pub(super) fn next_route(to: &Session) -> Arc<[Route]> {
        let number = to.status().borrow().ipv4_routes as u8;
        let prefix = IpNet::new_assert(IpAddr::from([10, 0, number, 0]), 24);
        Arc::new([Route { prefix, attributes: Arc::new(Attributes::default()) }])
    }

    /// Sends a route each way and waits until it has arrived.
    pub(super) async fn pass_route(&self) -> Result<(), Failure> {
        for (from, to) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let before = to.status().borrow().ipv4_routes;
            from.announce(Self::next_route(to)).await?;
            until(to, "a route", |status| status.ipv4_routes > before).await?;
        }
        Ok(())
    }
}

/// Waits for something to become true of a session, and fails when it closes instead.
pub(super) async fn until(
    session: &Session,
    what: &str,
    mut wanted: impl FnMut(&Status) -> bool,
) -> Result<Status, Failure> {
    let mut status: watch::Receiver<Status> = session.status();
    let seen =
        timeout(PATIENCE, status.wait_for(|status| wanted(status) || status.state == State::Closed)).await;
    let now = match seen {
        Ok(Ok(status)) => status.clone(),
        Ok(Err(_)) => return Err(Failure(format!("waited for {what}, the session is gone"))),
        Err(_) => {
            let secs = PATIENCE.as_secs();
            return Err(Failure(format!("waited {secs} s for {what}")));
        }
    };
    match &now.closed {
        Some(closed) if !wanted(&now) => {
            Err(Failure(format!("waited for {what}, the session ended: {closed}")))
        }
        _ => Ok(now),
    }
}
