//! What all rows share: the wire and the machines on it.

use std::path::PathBuf;

use agent::ResetAll;
use tokio::sync::OnceCell;
use wireseal_tcp_ao::{SeqNum, SocketPair};

use crate::failure::Result;
use crate::forge::{arp_replies, arp_request};
use crate::guest::{Guest, Setting};
use crate::net::Port;
use crate::recording::Recording;
use crate::wire::Wire;

/// The wire, the first guest, and the second one once a row has asked for it.
pub struct Lab {
    pub wire: Wire,
    pub north: Guest,
    south: OnceCell<Guest>,
    pub setting: Setting,
    /// The program `wireseal`, which judges recordings.
    pub judge: PathBuf,
}

impl Lab {
    /// Starts the wire and the first guest.
    pub async fn start(setting: Setting, judge: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(setting.state.join("recordings"))?;
        let wire = Wire::default();
        let north = Guest::start(Port::North, &wire, &setting).await?;
        Ok(Self { wire, north, south: OnceCell::new(), setting, judge })
    }

    /// Makes the wire honest, ends what the guests still have open, and waits until nothing of it is on its way.
    pub async fn clear(&self) -> Result<()> {
        self.wire.reset();
        for guest in [Some(&self.north), self.south.get()].into_iter().flatten() {
            guest.call(ResetAll {}).await?;
            // Segments for a stack that is gone wait in the kernel for an answer to ARP or neighbor solicitation, and would
            // reach the next stack there.
            guest.shell("ip neigh flush dev eth0").await?;
            self.wire.take_recording();
            self.take_in(guest.port()).await?;
        }
        self.wire.take_recording();
        Ok(())
    }

    /// Waits until what was sent to a port before this call has been taken in there, and what was sent from there is on
    /// record: frames stay in order, so the answer to a question comes last.
    pub async fn take_in(&self, port: Port) -> Result<()> {
        let answers = |recording: &Recording| arp_replies(recording, port);
        let before = self.wire.look(answers);
        self.wire.inject(port, arp_request(port)?);
        let is_answered = |recording: &Recording| (answers(recording) > before).then_some(());
        self.wire.await_recorded("the answer to an ARP request", is_answered).await
    }

    /// Waits until nothing is on its way to either port; says whether neither has sent a segment meanwhile.
    pub async fn is_still(&self, ports: [Port; 2]) -> Result<bool> {
        let segments = || ports.map(|port| self.wire.segments_from(port));
        let before = segments();
        for port in [ports, ports].concat() {
            self.take_in(port).await?;
        }
        Ok(segments() == before)
    }

    /// Waits until both ends of a connection, which are at these ports, have acknowledged all that the other has sent, and
    /// neither has more to say.
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

    /// The second guest, which is started for the first row that asks.
    pub async fn south(&self) -> Result<&Guest> {
        self.south.get_or_try_init(|| Guest::start(Port::South, &self.wire, &self.setting)).await
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
