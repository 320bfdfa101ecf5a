//! What all rows share: the wire and the machines on it.

use std::path::PathBuf;

use agent::ResetAll;
use anyhow::Result;
use tokio::sync::OnceCell;
use wireseal_tcp_ao::{SeqNum, SocketPair};

use crate::guest::{Guest, Setting};
use crate::wire::Port;
use crate::wire::Recording;
use crate::wire::Wire;
use crate::wire::{arp_replies, arp_request};

/// The command that ends programs that a failed row has left.
const END_ALL: &str = "for program in bird wireseal gobgpd bgpd ldpd zebra exabgp; do kill -9 $(pidof $program) 2>/dev/null; done; true";

/// The wire, the first guest, and the other guests once a row has asked for them.
pub struct Lab {
    pub wire: Wire,
    pub north: Guest,
    south: OnceCell<Guest>,
    stock: OnceCell<Guest>,
    east: OnceCell<Guest>,
    pub setting: Setting,
    /// The program `wireseal`, which judges recordings.
    pub judge: PathBuf,
}

impl Lab {
    /// Starts the wire and the first guest.
    pub async fn start(setting: Setting, judge: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(setting.state.join("recordings"))?;
        let wire = Wire::default();
        let north = Guest::boot(Port::North, &wire, &setting).await?;
        Ok(Self {
            wire,
            north,
            south: OnceCell::new(),
            stock: OnceCell::new(),
            east: OnceCell::new(),
            setting,
            judge,
        })
    }

    /// Resets the wire, closes what the guests still have open, and waits until nothing is in flight.
    pub async fn clear(&self) -> Result<()> {
        self.wire.reset();
        let others = [&self.south, &self.stock, &self.east].map(OnceCell::get);
        let guests: Vec<&Guest> = [Some(&self.north)].into_iter().chain(others).flatten().collect();
        for guest in &guests {
            guest.shell(END_ALL).await?;
            guest.call(ResetAll {}).await?;
            // Segments for a removed stack wait in the kernel for ARP or neighbor discovery, and would reach the next stack
            // there.
            guest.shell("ip neigh flush dev eth0").await?;
            self.wire.take_recording();
        }
        // What the sockets of one guest send at their end, and the others' answers, are counted before the next row looks.
        for guest in guests.iter().chain(&guests) {
            self.take_in(guest.port()).await?;
        }
        self.wire.take_recording();
        Ok(())
    }

    /// Waits until a port has processed all frames sent to it before this call, and all its own frames are recorded. Frames
    /// stay in order, so the reply to an ARP request comes last.
    pub async fn take_in(&self, port: Port) -> Result<()> {
        let answers = |recording: &Recording| arp_replies(recording, port);
        let before = self.wire.look(answers);
        self.wire.inject(port, arp_request(port)?);
        let is_answered = |recording: &Recording| (answers(recording) > before).then_some(());
        self.wire.await_recorded("the answer to an ARP request", is_answered).await
    }

    /// Waits until nothing is in flight to either port; returns whether neither sent a segment meanwhile.
    pub async fn is_still(&self, ports: [Port; 2]) -> Result<bool> {
        let segments = || ports.map(|port| self.wire.segments_from(port));
        let before = segments();
        for port in [ports, ports].concat() {
            self.take_in(port).await?;
        }
        Ok(segments() == before)
    }

    /// Waits until both ends of a connection, at these ports, have acknowledged everything and send nothing more.
    pub async fn quiet(&self, pair: SocketPair, ports: [Port; 2]) -> Result<()> {
        let pairs = [pair, pair.reversed()];
        loop {
            let is_quiet = |recording: &Recording| {
                pairs.iter().all(|pair| is_acknowledged(recording, *pair)).then_some(())
            };
            self.wire.await_recorded("the last acknowledgment", is_quiet).await?;
            if self.is_still(ports).await? {
                return Ok(());
            }
        }
    }

    /// The second guest, started when first needed.
    pub async fn south(&self) -> Result<&Guest> {
        self.south.get_or_try_init(|| Guest::boot(Port::South, &self.wire, &self.setting)).await
    }

    /// The fourth guest, started when first needed.
    pub async fn east(&self) -> Result<&Guest> {
        self.east.get_or_try_init(|| Guest::boot(Port::East, &self.wire, &self.setting)).await
    }

    /// The third guest, started when first needed.
    pub async fn stock(&self) -> Result<&Guest> {
        self.stock.get_or_try_init(|| Guest::boot(Port::Stock, &self.wire, &self.setting)).await
    }
}

/// Whether the end `pair.remote` has acknowledged all that `pair.local` has sent.
fn is_acknowledged(recording: &Recording, pair: SocketPair) -> bool {
    let later = |known: Option<SeqNum>, number: SeqNum| match known {
        Some(known) if !known.before(number) => Some(known),
        _ => Some(number),
    };
    let sent = recording.sent(pair).map(|segment| segment.end()).fold(None, later);
    let answers = recording.sent(pair.reversed()).filter(|segment| segment.flags().ack());
    sent.is_some() && sent == answers.map(|segment| segment.acknowledgment()).fold(None, later)
}
