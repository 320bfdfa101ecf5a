//! TCP-AO between programs and the wire: the peers' packets come from the kernel's packet queues and pass through the shim.

mod carry;
mod queues;
mod rules;
mod shard;
mod shards;
mod state;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::geteuid;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use wireseal_tcp_ao::shim::ShimSlot;

use self::carry::{Bound, start};
use self::queues::{Lock, Numbers, PacketQueues};
use self::rules::{KeptRules, Rules};
use self::shards::Shards;
use self::state::StateFile;
use crate::error::{Error, process};
use crate::instance::{keep_memory_private, raise_descriptor_limit};
use crate::metrics::{self, MetricsAddress};
use crate::source::Source;
use crate::status::{Command, RulesStatus, Status, StatusSource, announce, network_namespace, running};

pub(crate) use self::queues::{is_locked, try_queues};
#[cfg(fuzzing)]
pub use self::{queues::queue_message, state::saved_sessions};

/// How often the key chains are checked for keys that begin or end.
const TICK: Duration = Duration::from_secs(1);
/// How often the rules are checked for changes.
const LOOK: Duration = Duration::from_millis(100);

/// A gateway and its settings.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its peers and their keys.
    pub source: Source,
    /// The first of the packet queues that it uses: two for each thread, and one for ICMP errors. Nobody else may use them.
    pub queue: u16,
    /// Threads that carry packets. All packets between two addresses use the same one.
    pub threads: u16,
    /// Connections that each thread has room for, at most [`MOST_CONNECTIONS`](Self::MOST_CONNECTIONS); each takes 1.2 KiB.
    pub connections: usize,
    /// A file to which sessions are written at the end and from which they are read at the start, so that they survive a restart. A file
    /// that others can write is refused; a damaged one is renamed.
    pub state: Option<PathBuf>,
    /// Whether routers' ICMP errors about established sessions reach the programs, which RFC 5925 §7.8 advises against. Without them a path
    /// narrower than the links of both ends is not found, unless the kernel probes for it (`net.ipv4.tcp_mtu_probing`).
    pub accepts_icmp: bool,
    /// Where metrics for Prometheus are served.
    pub metrics: Option<MetricsAddress>,
    /// Whether it removes its rules when it ends: the peers' packets then pass unsigned. Otherwise they are dropped.
    pub opens_on_exit: bool,
}

impl Gateway {
    /// The default of [`queue`](Self::queue).
    pub const QUEUE: u16 = 17_900;
    /// The default of [`connections`](Self::connections).
    pub const CONNECTIONS: usize = 4096;
    /// The most connections in each thread, which take 1.2 GiB.
    pub const MOST_CONNECTIONS: usize = 1 << 20;

    /// The default of [`threads`](Self::threads): one for each processor, at most four.
    #[must_use]
    pub fn default_threads() -> u16 {
        thread::available_parallelism().map_or(1, |processors| processors.get().min(4) as u16)
    }

    /// A gateway for these peers, with the defaults of everything else.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self {
            source,
            queue: Self::QUEUE,
            threads: Self::default_threads(),
            connections: Self::CONNECTIONS,
            state: None,
            accepts_icmp: false,
            metrics: None,
            opens_on_exit: false,
        }
    }

    /// Runs until SIGTERM or SIGINT. On SIGHUP the configuration is read again.
    ///
    /// Sessions that are open already and not in the state file stall until their ends open them again. The process's limit of open files
    /// is raised to the hard limit. Threads end only with the process, so make a panic of any thread end it, as the program `wireseal`
    /// does.
    ///
    /// # Errors
    /// [`Error`]. Nothing is left behind then, except rules of an earlier gateway, so that its peers' packets are still dropped.
    pub fn run(&self) -> Result<(), Error> {
        keep_memory_private().map_err(Error::cannot("run the gateway"))?;
        let config = self.source.read()?;
        config.check_for_gateway()?;
        let mut signals =
            Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(Error::cannot("run the gateway"))?;
        raise_descriptor_limit();
        self.check_room()?;
        let _lock = Lock::take(Error::Another)?;
        let shards =
            Arc::new(Shards::new(&config, self.threads.into(), self.connections, self.accepts_icmp)?);
        let state = self.state.as_deref().map(StateFile::new).transpose()?;
        if let Some(file) = &state {
            shards.adopt(file.read()?);
        }
        let numbers = Numbers { first: self.queue, threads: self.threads };
        let rules = Arc::new(KeptRules::new(numbers).map_err(Error::cannot("run the gateway"))?);
        let source: StatusSource = {
            let (shards, rules) = (Arc::clone(&shards), Arc::clone(&rules));
            Arc::new(move || Status { rules: Some(rules.status()), ..shards.status() })
        };
        let served = self.metrics.as_ref().map(|address| metrics::serve(address, Arc::clone(&source)));
        let _served = served.transpose()?;
        let mut bound = Bound::new(numbers)?;
        let peers = config.peers.len();
        let by = rules.install(config)?;
        // An earlier gateway's rules may have put packets of either direction into any queue.
        bound.drain().map_err(Error::cannot("run the gateway"))?;
        if let Some(file) = &state {
            // Each session may be restored only once.
            file.remove()?;
        }
        bound.carry(&shards)?;
        tracing::info!(peers, by, "the gateway carries the packets of its peers");
        let _announced = announce(Command::Gateway, source);
        // With `Type=notify`, systemd now starts the units that come after this one.
        if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
            tracing::warn!(%error, "systemd cannot be told that the gateway is ready");
        }
        let reload = Arc::new(AtomicBool::new(false));
        let ticking = (Arc::clone(&shards), Arc::clone(&rules), Arc::clone(&reload));
        let source = self.source.clone();
        start("keys", move || {
            let mut lost = 0;
            loop {
                let (shards, rules, reload) = &ticking;
                if reload.swap(false, Ordering::Relaxed) {
                    change(&source, rules, shards);
                }
                shards.tick();
                let before = lost;
                lost = queues::lost(numbers.first..=numbers.errors());
                if lost > before {
                    let packets = lost - before;
                    tracing::warn!(
                        packets,
                        "packets were lost because there was no room in the queues; TCP sends them again"
                    );
                }
                thread::park_timeout(TICK);
            }
        })?;
        let kept = Arc::clone(&rules);
        start("rules", move || {
            loop {
                thread::park_timeout(LOOK);
                kept.check();
            }
        })?;
        for signal in signals.forever() {
            if signal != SIGHUP {
                break;
            }
            reload.store(true, Ordering::Relaxed);
        }
        // From here on nothing is carried, so the written state stays current.
        let sessions = shards.stop();
        if let Some(file) = &state {
            file.write(sessions);
        }
        rules.end(self.opens_on_exit)
    }

    /// Checks for enough memory for its connections now; later, a failed allocation would abort the process.
    fn check_room(&self) -> Result<(), Error> {
        let (connections, threads) = (self.connections, self.threads);
        let octets = connections.saturating_mul(threads.into()).saturating_mul(size_of::<ShimSlot>());
        match Vec::<u8>::new().try_reserve_exact(octets) {
            Ok(()) if connections <= Self::MOST_CONNECTIONS => Ok(()),
            _ => Err(Error::Connections { connections, threads, mebibytes: octets >> 20 }),
        }
    }

    /// Asks the gateway of this network namespace whether its rules are in place. Returns the program that installed them: `nft`, or one of
    /// iptables.
    ///
    /// # Errors
    /// [`Error::NotInPlace`] with what is missing, and what happens to packets.
    pub fn check() -> Result<String, Error> {
        let not_in_place = |why: String| Err(Error::NotInPlace(why));
        if !geteuid().is_root() {
            return not_in_place("only root can ask a gateway".to_owned());
        }
        let namespace = network_namespace();
        let is_here =
            |status: &Status| status.command == Command::Gateway && status.network_namespace == namespace;
        let asked = running(None).map(|instances| instances.answered.into_iter().find(is_here));
        let why = match asked.map(|found| found.and_then(|status| status.rules)) {
            Ok(Some(RulesStatus { by, problem: None, .. })) => return Ok(by),
            Ok(Some(RulesStatus { since, problem: Some(problem), .. })) => {
                return not_in_place(format!(
                    "a gateway runs, but since {since} its rules are not in place: {problem}"
                ));
            }
            Ok(None) => match queues::holder() {
                Some(holder) => format!("a gateway runs{}, but does not answer", process(holder)),
                None => "no gateway runs".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        if let Err(error) = Rules::can_be_seen() {
            return not_in_place(format!("{why}; {error}"));
        }
        not_in_place(match Rules::left() {
            Some(by) => {
                format!(
                    "{why}; rules in {by} are there: the packets that they queue are dropped until a gateway runs"
                )
            }
            None => format!("{why}, and there are no rules: packets of the peers pass unsigned"),
        })
    }

    /// Removes the rules that a gateway has left, even if only some are there: its peers' packets pass unsigned from then on. Returns the
    /// programs whose rules were removed.
    ///
    /// # Errors
    /// [`Error::Runs`] if a gateway runs, which would install them again; [`Error::Rules`].
    pub fn remove_rules() -> Result<Vec<&'static str>, Error> {
        let _lock = Lock::take(Error::Runs)?;
        Rules::remove_all()
    }

    /// Accepts every packet of this many queues uninspected, until an error: measures what the queues cost by themselves. At most `most`
    /// packets are taken at once.
    ///
    /// # Errors
    /// Whatever the operating system says.
    #[doc(hidden)]
    pub fn accept_all(queues: u16, most: usize) -> io::Result<()> {
        PacketQueues::accept_all(Self::QUEUE..Self::QUEUE + queues, most)
    }
}

/// Reads the configuration again. Either all of it takes effect or nothing.
fn change(source: &Source, rules: &KeptRules, shards: &Shards) {
    let config = source.read().and_then(|config| config.check_for_gateway().map(|()| config));
    let changed = config.and_then(|config| {
        // The rules first, because they can fail. Packets of a new peer are dropped until the shards know it.
        rules.change(config.clone())?;
        shards.change(&config);
        Ok(())
    });
    if let Err(error) = changed {
        tracing::error!(%error, "the configuration stays as it was");
    }
}
