//! TCP-AO between programs and the wire: the packets of protected peers go through the shim, by the kernel's packet queues.

mod error;
mod rules;
mod shared;
mod state;
mod wire;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nfq::{Queue, Verdict};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::rules::Rules;
use self::shared::{Shared, Where};
use self::wire::Wire;
use crate::Source;

pub use self::error::GatewayError;

/// How often the key chains are looked at.
const TICK: Duration = Duration::from_secs(1);
/// Packets that the kernel keeps for the gateway, in each queue.
const QUEUE_LENGTH: u32 = 16_384;

/// The index of the loopback device in every network namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK: u32 = 1;

/// How a gateway runs.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its peers and their keys.
    pub source: Source,
    /// The first of three numbers of packet queues that nobody else uses: from programs, to programs, and ICMP errors.
    pub queue: u16,
    /// How many connections it has room for; each takes 1.2 KiB.
    pub connections: usize,
    /// Where the sessions are written when it ends and read when it starts, so that they survive a restart.
    pub state: Option<PathBuf>,
    /// Whether routers' ICMP errors about established sessions reach the programs; RFC 5925 §7.8 advises against it. Without them a path MTU
    /// that is smaller than the links of both ends is not found, unless the kernel probes for it (`net.ipv4.tcp_mtu_probing`).
    pub accepts_icmp: bool,
    /// Whether it removes its rules when it ends. Then packets of these peers pass unsigned, and without it they are dropped.
    pub opens_on_exit: bool,
}

impl Gateway {
    /// The queue numbers that are used unless others are given.
    pub const QUEUE: u16 = 17_900;
    /// The number of connections that there is room for unless another is given.
    pub const CONNECTIONS: usize = 4096;

    /// Carries it out until SIGTERM or SIGINT. On SIGHUP the configuration is read again.
    ///
    /// Connections that are open already, and that it has no state of, are refused: they stall until their ends open them anew.
    ///
    /// # Errors
    /// [`GatewayError`]. Nothing is left behind then, unless the error says so; rules of a gateway before stay, and so its peers'
    /// packets stay out.
    pub fn run(&self) -> Result<(), GatewayError> {
        let config = self.source.read()?;
        // Before the signals can come that end it.
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(GatewayError::System)?;
        let shared = Arc::new(Shared::new(&config, self.connections, self.accepts_icmp)?);
        if let Some(path) = &self.state {
            match File::open(path) {
                Ok(file) => shared.adopt(state::read(path, file)?),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(GatewayError::State { path: path.clone(), error }),
            }
        }
        let queue = bind(self.queue)?;
        let wire = Wire::open().map_err(GatewayError::Wire)?;
        let first = self.queue;
        let carrier = Arc::clone(&shared);
        thread::Builder::new()
            .name("packets".to_owned())
            .spawn(move || carry(queue, first, &wire, &carrier))
            .map_err(GatewayError::System)?;
        let rules = Rules::install(&config, self.queue)?;
        tracing::info!(
            peers = config.peers.len(),
            by = rules.by(),
            "the gateway carries the packets of its peers"
        );
        let reload = Arc::new(AtomicBool::new(false));
        let ticking = (Arc::clone(&shared), Arc::clone(&reload));
        let (source, rules_of_tick, first) = (self.source.clone(), rules, self.queue);
        thread::Builder::new()
            .name("keys".to_owned())
            .spawn(move || {
                loop {
                    let (shared, reload) = &ticking;
                    if reload.swap(false, Ordering::Relaxed) {
                        change(&source, rules_of_tick, first, shared);
                    }
                    shared.tick();
                    thread::park_timeout(TICK);
                }
            })
            .map_err(GatewayError::System)?;
        for signal in signals.forever() {
            if signal != SIGHUP {
                break;
            }
            reload.store(true, Ordering::Relaxed);
        }
        self.end(&shared, rules)
    }

    fn end(&self, shared: &Shared, rules: Rules) -> Result<(), GatewayError> {
        // From now on nothing is carried, so that nothing happens that is not in the state.
        let states = shared.stop();
        if let Some(path) = &self.state {
            state::write(path, &states).map_err(|error| GatewayError::State { path: path.clone(), error })?;
            tracing::info!(sessions = states.len(), path = %path.display(), "the sessions were written");
        }
        if self.opens_on_exit { rules.remove() } else { Ok(()) }
    }

    /// Removes the rules that a gateway has left: packets of its peers pass unsigned from now on.
    ///
    /// # Errors
    /// [`GatewayError::Rules`].
    pub fn remove_rules() -> Result<(), GatewayError> {
        Rules::remove_all()
    }
}

/// Reads the configuration again. What it asks for takes effect, or nothing does.
fn change(source: &Source, rules: Rules, queue: u16, shared: &Shared) {
    let changed = source.read().map_err(GatewayError::from).and_then(|config| {
        // The new peers are known before their packets come, and the old ones until theirs do not come any more.
        let gone = shared.change(&config)?;
        let installed = rules.replace(&config, queue);
        if installed.is_ok() {
            shared.forget(gone);
        }
        installed
    });
    match changed {
        Ok(()) => tracing::info!("the configuration was read again"),
        Err(error) => tracing::error!(%error, "the configuration stays as it was"),
    }
}

fn bind(first: u16) -> Result<Queue, GatewayError> {
    let bound = || {
        let mut queue = Queue::open()?;
        for number in 0..3 {
            queue.bind(first + number)?;
            queue.set_queue_max_len(first + number, QUEUE_LENGTH)?;
        }
        Ok(queue)
    };
    bound().map_err(|error: io::Error| GatewayError::Queue { first, error })
}

/// Carries packets until the process ends.
fn carry(mut queue: Queue, first: u16, wire: &Wire, shared: &Shared) {
    let mut buffer = Vec::new();
    loop {
        let mut packet = match queue.recv() {
            Ok(packet) => packet,
            Err(error) => {
                tracing::error!(%error, "a packet could not be received from the kernel");
                continue;
            }
        };
        let to = match packet.get_queue_num() - first {
            0 => Where::Wire,
            2 if packet.get_indev() == LOOPBACK => Where::Itself,
            _ => Where::Stack,
        };
        match shared.judge(to, packet.get_payload(), &mut buffer).map(|range| &buffer[range]) {
            Some(judged) if judged == packet.get_payload() => packet.set_verdict(Verdict::Accept),
            // Otherwise it does not fit the link: the kernel says so to the program's TCP.
            Some(judged) if to == Where::Wire && wire.send(judged, packet.get_outdev()).is_ok() => {
                packet.set_verdict(Verdict::Drop);
            }
            Some(judged) => {
                packet.set_payload(judged);
                packet.set_verdict(Verdict::Accept);
            }
            None => packet.set_verdict(Verdict::Drop),
        }
        if let Err(error) = queue.verdict(packet) {
            // The kernel has given the packet up, or has no memory; TCP sends it again.
            tracing::debug!(%error, "a packet could not be given back to the kernel");
        }
    }
}
