//! A session between two kernels whose keys come from key managers.

use agent::{Attach, Chain, Detach, NewManager, Step, Stepped};
use speaker::protection::mirrored_chain;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::Mkt;

use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::kernels::{Kernels, open_socket};
use crate::rows::session::{SOME, key};

/// When the schedules of these rows begin, in seconds since 1970.
const START: i64 = 1_800_000_000;
/// How many seconds south's clock is behind north's.
pub const BEHIND: i64 = 7;

/// From when until when, in seconds since the beginning; nothing leaves an end open.
type Span = (Option<i64>, Option<i64>);

/// A key as south has it, when it may be sent with, and when it is accepted.
pub fn planned(mkt: Mkt, send: Span, accept: Span) -> Result<Key> {
    let at = |seconds| Timestamp::from_unix_seconds(START + seconds);
    let lifetime = |(from, until): Span| Lifetime::new(from.map(at), until.map(at));
    Ok(Key::new(mkt.send_id().0.into(), mkt).with_lifetimes(lifetime(send)?, lifetime(accept)?)?)
}

/// Three keys that follow one another, each accepted 30 s before and after it is sent with.
pub fn three_keys() -> Result<Vec<Key>> {
    Ok(vec![
        planned(key(1, TcpAoAlgorithm::Aes128Cmac)?, (None, Some(100)), (None, Some(130)))?,
        planned(key(2, TcpAoAlgorithm::HmacSha1)?, (Some(100), Some(200)), (Some(70), Some(230)))?,
        planned(key(3, TcpAoAlgorithm::LinuxHmacSha256)?, (Some(200), None), (Some(170), None))?,
    ])
}

pub fn mkts(keys: &[Key]) -> Vec<Mkt> {
    keys.iter().map(|key| key.mkt().clone()).collect()
}

/// The chain of the guest at a port.
pub fn chain(port: Port, keys: &[Key]) -> Result<Chain> {
    let chain = KeyChain::new("lab", keys.to_vec())?;
    Ok(Chain::new(if port == Port::North { mirrored_chain(&chain)? } else { chain })?)
}

/// A key manager in each guest, and the clocks that they are told.
#[derive(Clone, Copy)]
pub struct Managers<'a> {
    lab: &'a Lab,
    pub south_guest: &'a Guest,
    family: Family,
    pub north: u64,
    south: u64,
}

/// A connection whose two ends and whose listener are attached.
pub struct Managed<'a> {
    pub managers: Managers<'a>,
    pub kernels: Kernels<'a>,
    pub listener: u64,
}

impl<'a> Managers<'a> {
    /// Creates them, each with its chain.
    pub async fn new(lab: &'a Lab, family: Family, north: &[Key], south: &[Key]) -> Result<Self> {
        let south_guest = lab.south().await?;
        let new = |own: Port, peer: Port, keys: &[Key]| {
            Ok(NewManager { peers: vec![(peer.address(family).into(), None, chain(own, keys)?)] })
        };
        let of_north = new(Port::North, Port::South, north)?;
        let of_south: Result<_> = new(Port::South, Port::North, south);
        let (north, south) = tokio::try_join!(lab.north.call(of_north), south_guest.call(of_south?))?;
        Ok(Self { lab, south_guest, family, north, south })
    }

    /// Attaches a socket of north's, which listens or was accepted.
    pub async fn attach_north(&self, socket: u64, now: i64) -> Result<()> {
        self.lab.north.call(Attach { manager: self.north, socket, remote: None, now: START + now }).await
    }

    /// Attaches a socket of south's that will connect to north.
    pub async fn attach_south(&self, socket: u64, now: i64) -> Result<()> {
        let remote = Some(Port::North.address(self.family));
        let attach = Attach { manager: self.south, socket, remote, now: START + now - BEHIND };
        self.south_guest.call(attach).await
    }

    /// Steps both; fails when something could not be done.
    pub async fn step(&self, now: i64) -> Result<[Stepped; 2]> {
        tokio::try_join!(self.step_north(now), self.step_south(now)).map(Into::into)
    }

    pub async fn step_north(&self, now: i64) -> Result<Stepped> {
        self.lab.north.call(Step { manager: self.north, now: START + now }).await
    }

    pub async fn step_south(&self, now: i64) -> Result<Stepped> {
        self.south_guest.call(Step { manager: self.south, now: START + now - BEHIND }).await
    }

    /// Detaches both ends of a connection, so that closing them ends it.
    pub async fn detach(&self, kernels: &Kernels<'_>) -> Result<()> {
        self.lab.north.call(Detach { socket: kernels.north }).await?;
        self.south_guest.call(Detach { socket: kernels.south }).await
    }

    /// A session at a moment, with its keys from nowhere but the managers.
    pub async fn open(self, mkts: &[Mkt], now: i64) -> Result<Managed<'a>> {
        let listener = open_socket(&self.lab.north, self.family, 0, Vec::new()).await?;
        self.attach_north(listener, now).await?;
        let south = open_socket(self.south_guest, self.family, 0, Vec::new()).await?;
        self.attach_south(south, now).await?;
        let kernels = Kernels::connect(self.lab, self.family, mkts, (listener, south)).await?;
        self.attach_north(kernels.north, now).await?;
        Ok(Managed { managers: self, kernels, listener })
    }
}

impl<'a> Managed<'a> {
    /// Steps both ends while octets go both ways, and lets more follow.
    pub async fn step_under_traffic(&mut self, now: i64) -> Result<[Stepped; 2]> {
        let managers = self.managers;
        let ((), steps) = tokio::try_join!(self.kernels.exchange(SOME, SOME), managers.step(now))?;
        self.kernels.exchange(SOME, SOME).await?;
        Ok(steps)
    }

    /// Detaches all sockets.
    pub async fn detach(self) -> Result<Kernels<'a>> {
        let Self { managers, kernels, listener } = self;
        managers.lab.north.call(Detach { socket: listener }).await?;
        managers.detach(&kernels).await?;
        Ok(kernels)
    }
}
