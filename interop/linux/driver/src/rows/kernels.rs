//! One connection between the kernels of the two guests, opened by the second.

use std::net::IpAddr;

use agent::{
    Accept, AwaitCounters, ChooseIsn, Close, Connect, Finish, GetInfo, Key, Listen, NetworkCounters, Open,
    Reset, SocketInfo, Transfer,
};
use wireseal_tcp_ao::{Endpoint, Isn, Mkt, SocketPair};

use super::Evidence;
use super::session::mirrored;
use crate::failure::{Failure, ensure};
use crate::guest::{Guest, at, unspecified_like};
use crate::lab::{Addresses, Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::userspace::{Amount, guest_transfer};
use crate::verify::{Keys, verify};
use crate::wire::Port;

/// The seeds of what the ends send.
const TO_NORTH: u64 = 31;
const TO_SOUTH: u64 = 32;
/// Segments that an end refuses before it is believed to refuse all.
pub const REFUSED: u64 = 3;

/// The connection.
#[derive(Debug)]
pub struct Kernels<'a> {
    lab: &'a Lab,
    /// The guest that opened it.
    pub south_guest: &'a Guest,
    /// The keys, as south has them.
    mkts: Vec<Mkt>,
    /// North's socket.
    pub north: u64,
    /// South's socket.
    pub south: u64,
    /// The connection as south sees it.
    pub pair: SocketPair,
    listener: u64,
    before: [NetworkCounters; 2],
    /// Octets that have gone to north, and to south.
    exchanged: (u64, u64),
}

/// The address of a guest.
pub const fn address(port: Port, family: Family) -> IpAddr {
    Addresses::of(port).in_family(family)
}

/// The keys for a socket of north's, of those that south has.
pub fn north_keys(family: Family, mkts: &[Mkt]) -> Result<Vec<Key>, Failure> {
    mkts.iter().map(|mkt| Ok(Key::new(address(Port::South, family), &mirrored(mkt)?))).collect()
}

/// The keys for a socket of south's.
pub fn south_keys(family: Family, mkts: &[Mkt]) -> Vec<Key> {
    mkts.iter().map(|mkt| Key::new(address(Port::North, family), mkt)).collect()
}

/// A socket, bound, with keys.
pub async fn open_socket(guest: &Guest, family: Family, port: u16, keys: Vec<Key>) -> Result<u64, Failure> {
    let local = at(unspecified_like(address(guest.port(), family)), port);
    guest.call(Open { local, keys, required: false }).await
}

/// Ends a connection of north's by a reset, and waits for that, so that nothing of it is left for the next row.
pub async fn reset(lab: &Lab, socket: u64) -> Result<(), Failure> {
    lab.wire.take_recording();
    lab.north.call(Reset { socket }).await?;
    let reset = |recording: &Recording| {
        recording.segments_from(Port::North).any(|segment| segment.flags().rst()).then_some(())
    };
    lab.wire.await_recorded("north's reset", reset).await
}

impl<'a> Kernels<'a> {
    /// Opens it.
    pub async fn open(lab: &'a Lab, family: Family, mkts: &[Mkt]) -> Result<Self, Failure> {
        Self::open_at(lab, family, mkts, None).await
    }

    /// Opens it with an ISN of south's.
    pub async fn open_at(
        lab: &'a Lab,
        family: Family,
        mkts: &[Mkt],
        isn: Option<Isn>,
    ) -> Result<Self, Failure> {
        let listener = open_socket(&lab.north, family, 0, north_keys(family, mkts)?).await?;
        let south = open_socket(lab.south().await?, family, 0, south_keys(family, mkts)).await?;
        Self::connect(lab, family, mkts, listener, south, isn).await
    }

    /// Opens it between a socket of north's that is to listen, and one of south's that is to connect.
    pub async fn connect(
        lab: &'a Lab,
        family: Family,
        mkts: &[Mkt],
        listener: u64,
        south: u64,
        isn: Option<Isn>,
    ) -> Result<Self, Failure> {
        if let Some(isn) = isn {
            lab.south().await?.call(ChooseIsn { socket: south, isn: isn.0 }).await?;
        }
        Self::connect_and_accept(lab, family, mkts, (listener, south), async { Ok(()) }).await
    }

    /// The same, and north accepts only when `meanwhile` is done, which begins when south is connected.
    pub async fn connect_and_accept(
        lab: &'a Lab,
        family: Family,
        mkts: &[Mkt],
        (listener, south): (u64, u64),
        meanwhile: impl Future<Output = Result<(), Failure>>,
    ) -> Result<Self, Failure> {
        let south_guest = lab.south().await?;
        let before = [lab.north.counters().await?, south_guest.counters().await?];
        let time_limit = TIME_LIMIT_MILLISECONDS;
        let remote =
            at(address(Port::North, family), lab.north.call(Listen { socket: listener }).await?.port());
        let local = south_guest.call(Connect { socket: south, remote, time_limit }).await?;
        // South is connected as soon as it has sent the last segment of the handshake, and north once it has taken it in.
        for port in [Port::South, Port::North] {
            lab.take_in(port).await?;
        }
        meanwhile.await?;
        let accepted = lab.north.call(Accept { socket: listener, time_limit }).await?;
        let pair = SocketPair { local: Endpoint::from(local), remote: Endpoint::from(remote) };
        let mkts = mkts.to_vec();
        Ok(Self {
            lab,
            south_guest,
            mkts,
            north: accepted.socket,
            south,
            pair,
            listener,
            before,
            exchanged: (0, 0),
        })
    }

    /// Carries so many octets to north, and so many back.
    pub async fn exchange(&mut self, to_north: u64, to_south: u64) -> Result<(), Failure> {
        tokio::try_join!(
            self.lab.north.call(self.north_transfer(to_north, to_south)),
            self.south_guest.call(self.south_transfer(to_north, to_south)),
        )?;
        self.passed(to_north, to_south);
        Ok(())
    }

    const fn amount_to_north(&self, octets: u64) -> Amount {
        Amount { octets, seed: TO_NORTH, from: self.exchanged.0 }
    }

    const fn amount_to_south(&self, octets: u64) -> Amount {
        Amount { octets, seed: TO_SOUTH, from: self.exchanged.1 }
    }

    /// What north does in an exchange.
    pub const fn north_transfer(&self, to_north: u64, to_south: u64) -> Transfer {
        guest_transfer(self.north, self.amount_to_south(to_south), self.amount_to_north(to_north))
    }

    /// What south does in an exchange.
    pub const fn south_transfer(&self, to_north: u64, to_south: u64) -> Transfer {
        guest_transfer(self.south, self.amount_to_north(to_north), self.amount_to_south(to_south))
    }

    /// Notes what was exchanged otherwise.
    pub const fn passed(&mut self, to_north: u64, to_south: u64) {
        self.exchanged.0 += to_north;
        self.exchanged.1 += to_south;
    }

    /// Carries octets to north alone.
    pub async fn transfer_to_north(&self, octets: u64) -> Result<(), Failure> {
        let south = self.south_guest.call(self.south_transfer(octets, 0));
        tokio::try_join!(self.lab.north.call(self.north_transfer(octets, 0)), south)?;
        Ok(())
    }

    /// What the kernels say of their sockets, north's first.
    pub async fn info(&self) -> Result<[SocketInfo; 2], Failure> {
        let none = || Failure("a socket has no TCP-AO".to_owned());
        let north = self.lab.north.call(GetInfo { socket: self.north }).await?.ok_or_else(none)?;
        let south = self.south_guest.call(GetInfo { socket: self.south }).await?.ok_or_else(none)?;
        Ok([north, south])
    }

    /// What the two machines have counted since the connection's beginning, north first.
    pub async fn counted(&self) -> Result<[NetworkCounters; 2], Failure> {
        let [north, south] = [self.lab.north.counters().await?, self.south_guest.counters().await?];
        Ok([north.since(&self.before[0]), south.since(&self.before[1])])
    }

    /// Waits until north has counted at least this since the connection's beginning.
    pub async fn await_north_counted(&self, counted: NetworkCounters) -> Result<NetworkCounters, Failure> {
        let at_least = self.before[0].plus(&counted);
        let after =
            self.lab.north.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }).await?;
        Ok(after.since(&self.before[0]))
    }

    /// Sends an octet to north again and again, and fails if it is taken; gives what north has counted by then.
    pub async fn refuses_octet(&self) -> Result<NetworkCounters, Failure> {
        let bad = NetworkCounters { bad: REFUSED, ..NetworkCounters::default() };
        tokio::select! {
            counted = self.await_north_counted(bad) => counted,
            passed = self.transfer_to_north(1) => {
                passed?;
                Err(Failure("an octet went through".to_owned()))
            }
        }
    }

    /// Waits until both ends have acknowledged all that the recording has of the other, and neither has more to say.
    pub async fn quiet(&self) -> Result<(), Failure> {
        let pairs = [self.pair, self.pair.reversed()];
        let wire = &self.lab.wire;
        let segments = || wire.segments_from(Port::North) + wire.segments_from(Port::South);
        loop {
            let is_quiet = |recording: &Recording| {
                pairs.iter().all(|pair| super::session::acknowledged(recording, *pair)).then_some(())
            };
            wire.await_recorded("the last acknowledgment", is_quiet).await?;
            let before = segments();
            for port in [Port::North, Port::South, Port::North, Port::South] {
                self.lab.take_in(port).await?;
            }
            if segments() == before {
                return Ok(());
            }
        }
    }

    /// Cuts both cables once all is quiet, so that nothing comes to an end that is taken out of its kernel. Gives what was
    /// recorded by then.
    pub async fn cut_off(&self) -> Result<Recording, Failure> {
        self.quiet().await?;
        self.set_plugged(false);
        Ok(self.lab.wire.take_recording())
    }

    /// Cuts both cables, or joins them again.
    pub fn set_plugged(&self, is_plugged: bool) {
        for port in [Port::North, Port::South] {
            self.lab.wire.set_plugged(port, is_plugged);
        }
    }

    /// Waits until the ends have counted every segment of the connection that has reached them, and fails unless each is
    /// counted good, and nothing beside. South is held to it only if its socket was in its kernel all the time.
    pub async fn account(
        &self,
        recording: &Recording,
        is_south_whole: bool,
    ) -> Result<[NetworkCounters; 2], Failure> {
        let to_north = delivered(recording, address_of(self.pair.remote));
        let to_south = delivered(recording, address_of(self.pair.local));
        let good = |good| NetworkCounters { good, ..NetworkCounters::default() };
        let north = self.await_north_counted(good(to_north)).await?;
        ensure(north == good(to_north), || {
            format!("north has counted {north}, {to_north} segments have reached it")
        })?;
        let [_, mut south] = self.counted().await?;
        if is_south_whole {
            let at_least = self.before[1].plus(&good(to_south));
            let time_limit = TIME_LIMIT_MILLISECONDS;
            south =
                self.south_guest.call(AwaitCounters { at_least, time_limit }).await?.since(&self.before[1]);
            ensure(south == good(to_south), || {
                format!("south has counted {south}, {to_south} segments have reached it")
            })?;
        }
        Ok([north, south])
    }

    /// Ends it by resets from both sides.
    pub async fn reset(self) -> Result<(), Failure> {
        reset(self.lab, self.north).await?;
        self.south_guest.call(Reset { socket: self.south }).await?;
        self.lab.north.call(Close { socket: self.listener }).await
    }

    /// Closes it in order from both sides, and keeps the listener.
    pub async fn close_ends(self) -> Result<(), Failure> {
        let time_limit = TIME_LIMIT_MILLISECONDS;
        tokio::try_join!(
            self.lab.north.call(Finish { socket: self.north, time_limit }),
            self.south_guest.call(Finish { socket: self.south, time_limit }),
        )?;
        self.quiet().await?;
        self.lab.north.call(Close { socket: self.north }).await?;
        self.south_guest.call(Close { socket: self.south }).await
    }

    /// Closes it in order from both sides, and accounts for all segments that have come to north: each must be counted good,
    /// and each in the recording verify. South is held to the same unless its socket was another at times.
    pub async fn close(self, is_south_whole: bool) -> Result<Evidence, Failure> {
        let time_limit = TIME_LIMIT_MILLISECONDS;
        tokio::try_join!(
            self.lab.north.call(Finish { socket: self.north, time_limit }),
            self.south_guest.call(Finish { socket: self.south, time_limit }),
        )?;
        self.quiet().await?;
        let recording = self.lab.wire.take_recording();
        let [north, south] = self.account(&recording, is_south_whole).await?;
        for socket in [self.north, self.listener] {
            self.lab.north.call(Close { socket }).await?;
        }
        self.south_guest.call(Close { socket: self.south }).await?;
        let wire =
            verify(&recording, &[Keys { local: address_of(self.pair.local), mkts: self.mkts.clone() }]);
        wire.check_all_verified()?;
        let resets = recording
            .frames
            .iter()
            .filter_map(|frame| frame.segment())
            .filter(|segment| segment.flags().rst());
        ensure(resets.count() == 0, || "there were resets".to_owned())?;
        Ok(Evidence {
            counters: vec![("north".into(), north.to_string()), ("south".into(), south.to_string())],
            wire,
            figures: String::new(),
            unsigned: 0,
            recording,
        })
    }
}

const fn address_of(end: Endpoint) -> IpAddr {
    end.address()
}

/// Segments that have reached an address.
pub fn delivered(recording: &Recording, address: IpAddr) -> u64 {
    let delivered =
        recording.frames.iter().filter(|frame| !frame.is_lost).filter_map(|frame| frame.segment());
    delivered.filter(|segment| segment.destination().address() == address).count() as u64
}
