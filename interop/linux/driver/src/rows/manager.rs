//! What the crate for Linux does on top of the kernel's calls: key managers, errors, many keys, VRFs.

mod calls;
mod expiry;
mod rolling;
mod routing;
mod secrets;

use agent::{Attach, Chain, ChainKey, Detach, NewManager, Span, Step, Stepped};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::Mkt;

use super::Row;
use super::kernels::{Kernels, north_keys, open_socket, south_keys};
use super::session::key;
use crate::failure::{Failure, ensure};
use crate::lab::{Addresses, Family, Lab};
use crate::wire::Port;

/// When the schedules of these rows begin, in seconds since 1970.
const START: i64 = 1_800_000_000;
/// How many seconds south's clock is behind north's.
const BEHIND: i64 = 7;
/// Octets each way between two steps.
const PIECE: u64 = 64 << 10;

pub fn rows() -> Vec<Row> {
    [rolling::rows(), secrets::rows(), expiry::rows(), calls::rows(), routing::rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// A key as south has it, when it may be sent with, and when it is accepted, in seconds since the beginning.
type Planned = (Mkt, Span, Span);

/// Three keys that follow one another, each accepted 30 s before and after it is sent with.
fn three_keys() -> Result<Vec<Planned>, Failure> {
    Ok(vec![
        (key(1, TcpAoAlgorithm::Aes128Cmac)?, (None, Some(100)), (None, Some(130))),
        (key(2, TcpAoAlgorithm::HmacSha1)?, (Some(100), Some(200)), (Some(70), Some(230))),
        (key(3, TcpAoAlgorithm::LinuxHmacSha256)?, (Some(200), None), (Some(170), None)),
    ])
}

fn mkts(planned: &[Planned]) -> Vec<Mkt> {
    planned.iter().map(|(mkt, ..)| mkt.clone()).collect()
}

/// The chain of the guest at a port.
fn chain(port: Port, family: Family, planned: &[Planned]) -> Result<Chain, Failure> {
    let mkts = mkts(planned);
    let keys = if port == Port::North { north_keys(family, &mkts)? } else { south_keys(family, &mkts) };
    let since_start = |(from, until): Span| (from.map(|from| START + from), until.map(|until| START + until));
    let keys = keys.into_iter().zip(planned).map(|(key, (_, send, accept))| ChainKey {
        key,
        send: since_start(*send),
        accept: since_start(*accept),
    });
    Ok(Chain { keys: keys.collect(), accept_tolerance: 0 })
}

/// A key manager in each guest, and the clocks that they are told.
#[derive(Clone, Copy, Debug)]
struct Managers<'a> {
    lab: &'a Lab,
    south_guest: &'a crate::guest::Guest,
    family: Family,
    north: u64,
    south: u64,
}

/// A connection whose two ends and whose listener are attached.
struct Managed<'a> {
    managers: Managers<'a>,
    kernels: Kernels<'a>,
    listener: u64,
}

impl<'a> Managers<'a> {
    /// Makes them, each with its chain.
    async fn new(
        lab: &'a Lab,
        family: Family,
        north: &[Planned],
        south: &[Planned],
    ) -> Result<Self, Failure> {
        let south_guest = lab.south().await?;
        let remote = |port| Addresses::of(port).in_family(family).into();
        let of_north =
            NewManager { remote: remote(Port::South), vrf: None, chain: chain(Port::North, family, north)? };
        let of_south =
            NewManager { remote: remote(Port::North), vrf: None, chain: chain(Port::South, family, south)? };
        let (north, south) = tokio::try_join!(lab.north.call(of_north), south_guest.call(of_south))?;
        Ok(Self { lab, south_guest, family, north, south })
    }

    /// Attaches a socket of north's.
    async fn attach_north(&self, socket: u64, now: i64) -> Result<(), Failure> {
        self.lab.north.call(Attach { manager: self.north, socket, now: START + now }).await
    }

    /// Attaches a socket of south's.
    async fn attach_south(&self, socket: u64, now: i64) -> Result<(), Failure> {
        self.south_guest.call(Attach { manager: self.south, socket, now: START + now - BEHIND }).await
    }

    /// Steps both; fails when there was something that could not be done.
    async fn step(&self, now: i64) -> Result<[Stepped; 2], Failure> {
        tokio::try_join!(self.step_north(now), self.step_south(now)).map(Into::into)
    }

    async fn step_north(&self, now: i64) -> Result<Stepped, Failure> {
        done(self.lab.north.call(Step { manager: self.north, now: START + now }).await?)
    }

    async fn step_south(&self, now: i64) -> Result<Stepped, Failure> {
        done(self.south_guest.call(Step { manager: self.south, now: START + now - BEHIND }).await?)
    }

    /// A session at a moment, with its keys from nowhere but the managers.
    async fn open(self, mkts: &[Mkt], now: i64) -> Result<Managed<'a>, Failure> {
        let listener = open_socket(&self.lab.north, self.family, 0, Vec::new()).await?;
        self.attach_north(listener, now).await?;
        let south = open_socket(self.south_guest, self.family, 0, Vec::new()).await?;
        self.attach_south(south, now).await?;
        let kernels = Kernels::connect(self.lab, self.family, mkts, listener, south, None).await?;
        self.attach_north(kernels.north, now).await?;
        Ok(Managed { managers: self, kernels, listener })
    }
}

fn done(stepped: Stepped) -> Result<Stepped, Failure> {
    ensure(stepped.failed.is_empty(), || format!("{stepped:?}"))?;
    Ok(stepped)
}

impl Managed<'_> {
    /// Steps both ends while octets go both ways, and lets more follow.
    async fn step_under_traffic(&mut self, now: i64) -> Result<[Stepped; 2], Failure> {
        let managers = self.managers;
        let ((), steps) = tokio::try_join!(self.kernels.exchange(PIECE, PIECE), managers.step(now))?;
        self.kernels.exchange(PIECE, PIECE).await?;
        Ok(steps)
    }
}

impl<'a> Managed<'a> {
    /// Detaches all sockets, so that closing them ends the connection.
    async fn detach(self) -> Result<Kernels<'a>, Failure> {
        let Self { managers, kernels, listener } = self;
        for socket in [listener, kernels.north] {
            managers.lab.north.call(Detach { socket }).await?;
        }
        managers.south_guest.call(Detach { socket: kernels.south }).await?;
        Ok(kernels)
    }
}
