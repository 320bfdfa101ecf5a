//! One connection between the kernels of the two guests, opened by the second.

use std::net::IpAddr;
use std::ops::Range;

use agent::{
    Accept, Amount, ChooseIsn, Connect, Counted, Export, Finish, GetInfo, Key, Listen, Open, Restore,
    SocketInfo, Transfer,
};
use speaker::protection::mirrored;
use wireseal_linux::Exported;
use wireseal_tcp_ao::{Endpoint, Isn, Mkt, SocketPair};

use crate::guest::Guest;
use crate::row::prelude::*;
use crate::verify::verify;

/// The seeds of what the ends send.
const TO_NORTH: u64 = 31;
const TO_SOUTH: u64 = 32;
/// How many refused segments prove that an end refuses all.
pub const REFUSED: u64 = 3;
const PORTS: [Port; 2] = [Port::North, Port::South];

pub struct Kernels<'a> {
    lab: &'a Lab,
    /// The guest that opened it.
    pub south_guest: &'a Guest,
    family: Family,
    /// The keys, as south has them.
    mkts: Vec<Mkt>,
    pub north: u64,
    pub south: u64,
    /// The connection as south sees it.
    pub pair: SocketPair,
    before: [Counted; 2],
    /// Octets that have gone to north, and to south.
    exchanged: (u64, u64),
}

/// The keys for a socket of north's, made from south's.
pub fn north_keys(family: Family, mkts: &[Mkt]) -> Result<Vec<Key>> {
    mkts.iter().map(|mkt| Ok(Key::new(Port::South.address(family), &mirrored(mkt)?)?)).collect()
}

/// The keys for a socket of south's.
pub fn south_keys(family: Family, mkts: &[Mkt]) -> Result<Vec<Key>> {
    mkts.iter().map(|mkt| Ok(Key::new(Port::North.address(family), mkt)?)).collect()
}

/// A socket, bound, with keys.
pub async fn open_socket(guest: &Guest, family: Family, port: u16, keys: Vec<Key>) -> Result<u64> {
    guest.call(Open { local: family.any(port), keys, required: false }).await
}

/// A range of the octets that go to north.
pub fn to_north(octets: Range<u64>) -> Amount {
    Amount { octets: octets.end - octets.start, seed: TO_NORTH, from: octets.start }
}

/// A range of the octets that go to south.
pub fn to_south(octets: Range<u64>) -> Amount {
    Amount { octets: octets.end - octets.start, seed: TO_SOUTH, from: octets.start }
}

impl<'a> Kernels<'a> {
    pub async fn open(lab: &'a Lab, family: Family, mkts: &[Mkt]) -> Result<Self> {
        Self::open_at(lab, family, mkts, (0, 0), None).await
    }

    /// Opens it between these ports of north and south, perhaps with an ISN of south's.
    pub async fn open_at(
        lab: &'a Lab,
        family: Family,
        mkts: &[Mkt],
        ports: (u16, u16),
        isn: Option<Isn>,
    ) -> Result<Self> {
        let south_guest = lab.south().await?;
        let listener = open_socket(&lab.north, family, ports.0, north_keys(family, mkts)?).await?;
        let south = open_socket(south_guest, family, ports.1, south_keys(family, mkts)?).await?;
        if let Some(isn) = isn {
            south_guest.call(ChooseIsn { socket: south, isn: isn.0 }).await?;
        }
        Self::connect(lab, family, mkts, (listener, south)).await
    }

    /// Opens it between a socket of north's that will listen and one of south's that will connect.
    pub async fn connect(lab: &'a Lab, family: Family, mkts: &[Mkt], sockets: (u64, u64)) -> Result<Self> {
        Self::connect_and_accept(lab, family, mkts, sockets, async { Ok(()) }).await
    }

    /// The same, but runs `meanwhile` after south has connected and before north accepts.
    pub async fn connect_and_accept(
        lab: &'a Lab,
        family: Family,
        mkts: &[Mkt],
        (listener, south): (u64, u64),
        meanwhile: impl Future<Output = Result<()>>,
    ) -> Result<Self> {
        let south_guest = lab.south().await?;
        let before = [lab.north.counters().await?, south_guest.counters().await?];
        let port = lab.north.call(Listen { socket: listener }).await?.port();
        let remote = Port::North.at(family, port);
        let local = south_guest.call(Connect { socket: south, remote }).await?;
        // South is connected once it has sent the last segment of the handshake; north, once it has received that.
        for port in [Port::South, Port::North] {
            lab.take_in(port).await?;
        }
        meanwhile.await?;
        let north = lab.north.call(Accept { socket: listener }).await?;
        let pair = SocketPair { local: Endpoint::from(local), remote: Endpoint::from(remote) };
        let mkts = mkts.to_vec();
        Ok(Self { lab, south_guest, family, mkts, north, south, pair, before, exchanged: (0, 0) })
    }

    /// Carries this many octets to north, and this many back.
    pub async fn exchange(&mut self, to_north: u64, to_south: u64) -> Result<()> {
        self.transfer(to_north, to_south).await?;
        self.exchanged = (self.exchanged.0 + to_north, self.exchanged.1 + to_south);
        Ok(())
    }

    async fn transfer(&self, octets_to_north: u64, octets_to_south: u64) -> Result<()> {
        let there = to_north(self.exchanged.0..self.exchanged.0 + octets_to_north);
        let back = to_south(self.exchanged.1..self.exchanged.1 + octets_to_south);
        let by_north = self.lab.north.call(Transfer { socket: self.north, send: back, receive: there });
        tokio::try_join!(by_north, self.south_transfers(there, back))?;
        Ok(())
    }

    /// Makes only south send and receive.
    pub async fn south_transfers(&self, send: Amount, receive: Amount) -> Result<()> {
        self.south_guest.call(Transfer { socket: self.south, send, receive }).await
    }

    /// Takes north's end out of its kernel.
    pub async fn export_north(&self) -> Result<Exported> {
        Ok(Exported::from_octets(&self.lab.north.call(Export { socket: self.north }).await?)?)
    }

    /// Takes south's end out of its kernel.
    pub async fn export_south(&self) -> Result<Exported> {
        Ok(Exported::from_octets(&self.south_guest.call(Export { socket: self.south }).await?)?)
    }

    /// Puts north's end into its kernel.
    pub async fn restore_north(&mut self, exported: &Exported) -> Result<()> {
        let keys = north_keys(self.family, &self.mkts)?;
        self.north = self.lab.north.call(Restore { exported: exported.to_octets(), keys }).await?;
        Ok(())
    }

    /// Puts south's end into its kernel.
    pub async fn restore_south(&mut self, exported: &Exported) -> Result<()> {
        let keys = south_keys(self.family, &self.mkts)?;
        self.south = self.south_guest.call(Restore { exported: exported.to_octets(), keys }).await?;
        Ok(())
    }

    /// What the kernels report about their sockets, north's first.
    pub async fn info(&self) -> Result<[SocketInfo; 2]> {
        let none = || anyhow!("a socket has no TCP-AO");
        let north = self.lab.north.call(GetInfo { socket: self.north }).await?.ok_or_else(none)?;
        let south = self.south_guest.call(GetInfo { socket: self.south }).await?.ok_or_else(none)?;
        Ok([north, south])
    }

    /// Waits until north has counted at least this since the connection's beginning.
    pub async fn await_north_counted(&self, counted: Counted) -> Result<Counted> {
        self.lab.north.await_counted(&self.before[0], counted).await
    }

    /// Keeps sending an octet to north until north has counted this; fails if north accepts it.
    pub async fn refuses_octet(&self, counted: Counted) -> Result<Counted> {
        refused(self.await_north_counted(counted), self.transfer(1, 0)).await
    }

    /// Waits until both ends have acknowledged everything and send nothing more.
    pub async fn quiet(&self) -> Result<()> {
        self.lab.quiet(self.pair, PORTS).await
    }

    /// Waits for quiet and cuts both cables, so that nothing reaches an end while it is out of its kernel. Returns the
    /// recording so far.
    pub async fn cut_off(&self) -> Result<Recording> {
        self.quiet().await?;
        self.set_plugged(false);
        Ok(self.lab.wire.take_recording())
    }

    /// Cuts both cables, or joins them again.
    pub fn set_plugged(&self, is_plugged: bool) {
        for port in PORTS {
            self.lab.wire.set_plugged(port, is_plugged);
        }
    }

    /// Waits until the ends have counted every segment of the connection that has reached them, and fails unless all are counted good, and
    /// nothing else. South is checked only if its socket was in its kernel all the time.
    pub async fn account(&self, recording: &Recording, is_south_whole: bool) -> Result<[Counted; 2]> {
        let to_north = Counted::good(delivered(recording, self.pair.remote.address()));
        let to_south = Counted::good(delivered(recording, self.pair.local.address()));
        let north = self.await_north_counted(to_north).await?.check("north", &to_north)?;
        let at_least = if is_south_whole { to_south } else { Counted::default() };
        let south = self.south_guest.await_counted(&self.before[1], at_least).await?;
        if is_south_whole {
            south.check("south", &to_south)?;
        }
        Ok([north, south])
    }

    /// Closes it in order from both sides.
    pub async fn finish(&self) -> Result<()> {
        tokio::try_join!(
            self.lab.north.call(Finish { socket: self.north }),
            self.south_guest.call(Finish { socket: self.south }),
        )?;
        self.quiet().await
    }

    /// Closes it in order from both sides, and accounts for all segments that reached north: each must be counted good, and each in the
    /// recording must verify. The same is checked for south unless its socket was replaced.
    pub async fn close(self, is_south_whole: bool) -> Result<Evidence> {
        self.finish().await?;
        let recording = self.lab.wire.take_recording();
        let [north, south] = self.account(&recording, is_south_whole).await?;
        let wire = verify(self.lab, &recording, &self.mkts)?;
        wire.check_all_verified()?;
        let resets = recording.segments().filter(|segment| segment.flags().rst()).count();
        ensure!(resets == 0, "there were resets");
        let counters = vec![("north".into(), north.to_string()), ("south".into(), south.to_string())];
        Ok(Evidence { counters, wire, recording, ..Evidence::default() })
    }
}

/// Segments that have reached an address.
pub fn delivered(recording: &Recording, address: IpAddr) -> u64 {
    let delivered = recording.frames.iter().filter(|frame| !frame.is_lost).filter_map(Frame::segment);
    delivered.filter(|segment| segment.destination().address() == address).count() as u64
}
