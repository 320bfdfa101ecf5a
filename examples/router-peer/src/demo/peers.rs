//! Two routers on one wire, with a session between them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::IpNet;
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::CongestionControl;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Failure;
use crate::bgp;
use crate::bgp::rib::Family;
use crate::bgp::session::{Session, SessionConfig, State, Status};
use crate::bgp::update::Export;
use crate::link::LinkDevice;
use crate::protection::{Protected, protect};
use crate::stack::{Stack, StackConfig};
use crate::transport::DEFAULT_IP_MTU;
use crate::transport::memory::{Wire, wire};

/// How long a handshake or a change may take even on a bad wire.
const PATIENCE: Duration = Duration::from_secs(20);
/// AS number of the first router, and of the second, which needs four octets.
const ASNS: [u32; 2] = [64_512, 4_200_000_000];

/// Two routers; the first opens the connection.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) a: Stack<Protected>,
    pub(super) b: Stack<Protected>,
    pub(super) wire: Wire,
}

/// A session, seen from both ends.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) a: Session,
    pub(super) b: Session,
}

fn address(family: Family, router: u8) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::from([192, 0, 2, router]),
        Family::Ipv6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(router)]),
    }
}

fn session_config(router: u8, peer_as: u32) -> SessionConfig {
    let IpAddr::V6(next_hop_ipv6) = address(Family::Ipv6, router) else { unreachable!("an IPv6 address") };
    let own = Ipv4Addr::new(192, 0, 2, router);
    let export = Export {
        local_as: ASNS[usize::from(router) - 1],
        peer_as,
        next_hop_ipv4: Some(own),
        next_hop_ipv6: Some(next_hop_ipv6),
    };
    SessionConfig { export, router_id: own, hold_time: 30 }
}

impl Peers {
    /// Two routers with an address of each family.
    pub(super) fn new(seed: u64) -> Result<Self, Failure> {
        let (device_a, device_b, wire) = wire(Medium::Ip, DEFAULT_IP_MTU, seed);
        let start = |link: LinkDevice, router: u8| {
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
            let arrivals = link.arrivals();
            Stack::start(protect(link, &[]), arrivals, &config)
        };
        Ok(Self { a: start(device_a, 1)?, b: start(device_b, 2)?, wire })
    }

    /// Connects the routers and starts a session, whose second router expects the first to be in `expected_as`.
    pub(super) async fn connect(&self, family: Family, expected_as: u32) -> Result<Sessions, Failure> {
        let mut listener = self.b.listen(None, bgp::PORT)?;
        let connecting = self.a.connect((address(family, 2), bgp::PORT).into(), None);
        let opened = timeout(PATIENCE, async { tokio::join!(connecting, listener.accept()) });
        let (a, b) = opened.await.map_err(|_| Failure("no TCP connection".to_owned()))?;
        Ok(Sessions {
            a: Session::start(a?, session_config(1, ASNS[1])),
            b: Session::start(b?, session_config(2, expected_as)),
        })
    }

    /// Connects the routers and waits until their session is established.
    pub(super) async fn establish(&self, family: Family) -> Result<Sessions, Failure> {
        let sessions = self.connect(family, ASNS[0]).await?;
        sessions.established().await?;
        Ok(sessions)
    }
}

impl Sessions {
    /// Waits until both ends are established.
    pub(super) async fn established(&self) -> Result<(), Failure> {
        for session in [&self.a, &self.b] {
            until(session, "the session to be established", |status| status.state == State::Established)
                .await?;
        }
        Ok(())
    }

    /// Fails unless both ends are established now.
    pub(super) fn still_up(&self) -> Result<(), Failure> {
        for (end, session) in [("first", &self.a), ("second", &self.b)] {
            let status = session.status().borrow().clone();
            super::ensure!(
                status.state == State::Established,
                "the session is down at the {end} router: {status:?}"
            );
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
