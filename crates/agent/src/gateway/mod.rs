//! TCP-AO between programs and the wire: the packets of protected peers go through the shim, by the kernel's packet queues.

mod bound;
mod carry;
mod error;
mod kept;
mod lock;
mod queues;
mod refusals;
mod rules;
mod shard;
mod shards;
mod state;
mod wire;

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

use self::carry::{Numbers, carry, carry_errors};
use self::kept::KeptRules;
use self::lock::Lock;
use self::rules::Rules;
use self::shards::Shards;
use self::state::StateFile;
use self::wire::Wire;
use crate::callers::raise_descriptor_limit;
use crate::metrics::{self, MetricsAddress};
use crate::source::{Source, keep_memory_private};
use crate::status::{Command, RulesStatus, Status, StatusSource, announce, network_namespace, running};

pub use self::bound::Holder;
pub use self::error::GatewayError;
#[doc(hidden)]
pub use self::queues::PacketQueues;

/// How often the key chains are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often it is looked whether the rules have changed.
const LOOK: Duration = Duration::from_millis(100);

/// How a gateway runs.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Its peers and their keys.
    pub source: Source,
    /// The first number of packet queues that nobody else uses: for each thread one from programs and one to programs, and one for
    /// ICMP errors.
    pub queue: u16,
    /// How many threads carry packets. The packets between two addresses are always carried by the same one.
    pub threads: u16,
    /// How many connections each thread has room for, at most [`MOST_CONNECTIONS`](Self::MOST_CONNECTIONS); each takes 1.2 KiB.
    pub connections: usize,
    /// Where the sessions are written when it ends and read when it starts, so that they survive a restart: a file in a folder that it can
    /// write to. One that others can write is refused, and one that cannot be read is set aside.
    pub state: Option<PathBuf>,
    /// Whether routers' ICMP errors about established sessions reach the programs; RFC 5925 §7.8 advises against it. Without them a path
    /// MTU that is smaller than the links of both ends is not found, unless the kernel probes for it (`net.ipv4.tcp_mtu_probing`).
    pub accepts_icmp: bool,
    /// Where it serves metrics for Prometheus.
    pub metrics: Option<MetricsAddress>,
    /// Whether it removes its rules when it ends. Then packets of these peers pass unsigned, and without it they are dropped.
    pub opens_on_exit: bool,
}

impl Gateway {
    /// The queue numbers that are used unless others are given.
    pub const QUEUE: u16 = 17_900;
    /// The number of connections that there is room for unless another is given.
    pub const CONNECTIONS: usize = 4096;
    /// The highest number of connections in each thread: 1.2 GiB.
    pub const MOST_CONNECTIONS: usize = 1 << 20;

    /// The number of threads unless another is given: one for each processor, but no more than four.
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

    /// Carries it out until SIGTERM or SIGINT. On SIGHUP the configuration is read again.
    ///
    /// Connections that are open already, and that it has no state of, are refused: they stall until their ends open them anew. The
    /// process's limit of open files is raised as far as it may be. Its threads end with the process alone: have a panic end that, as the
    /// program `wireseal` does, or a thread that is gone leaves the rest half alive.
    ///
    /// # Errors
    /// [`GatewayError`]. Nothing is left behind then, unless the error says so; rules of a gateway before stay, and so its peers'
    /// packets stay out.
    pub fn run(&self) -> Result<(), GatewayError> {
        keep_memory_private().map_err(GatewayError::System)?;
        let config = self.source.read()?;
        config.check_for_gateway()?;
        // Before the signals can come that end it.
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(GatewayError::System)?;
        raise_descriptor_limit();
        self.check_room()?;
        let _lock = Lock::take(GatewayError::Another)?;
        let shards =
            Arc::new(Shards::new(&config, self.threads.into(), self.connections, self.accepts_icmp)?);
        let state = self.state.as_deref().map(StateFile::new).transpose()?;
        if let Some(file) = &state {
            shards.adopt(file.read()?);
        }
        let numbers = Numbers { first: self.queue, threads: self.threads };
        let rules = Arc::new(KeptRules::new(numbers).map_err(GatewayError::System)?);
        let source: StatusSource = {
            let (shards, rules) = (Arc::clone(&shards), Arc::clone(&rules));
            Arc::new(move || Status { rules: Some(rules.status()), ..shards.status() })
        };
        let served = self.metrics.as_ref().map(|address| {
            let served = metrics::serve(address, Arc::clone(&source));
            served.map_err(|error| GatewayError::Metrics { address: address.clone(), error })
        });
        let _served = served.transpose()?;
        let mut bound = Bound::new(numbers)?;
        let peers = config.peers.len();
        let by = rules.install(config)?;
        // What rules of before have queued; those that lead into other queues are gone now.
        bound.drain().map_err(GatewayError::System)?;
        if let Some(file) = &state {
            // Each session may go on once.
            file.remove()?;
        }
        bound.carry(&shards)?;
        tracing::info!(peers, by, "the gateway carries the packets of its peers");
        let _announced = announce(Command::Gateway, source);
        tell_systemd();
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
                lost = bound::lost(numbers.first..=numbers.errors());
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
        // From now on nothing is carried, so that nothing happens that is not in the state.
        let sessions = shards.stop();
        if let Some(file) = &state {
            file.write(sessions);
        }
        rules.end(self.opens_on_exit)
    }

    /// Whether there is memory for its connections. Where it is allocated, the process would be aborted.
    fn check_room(&self) -> Result<(), GatewayError> {
        let (connections, threads) = (self.connections, self.threads);
        let octets = connections.saturating_mul(threads.into()).saturating_mul(size_of::<ShimSlot>());
        match Vec::<u8>::new().try_reserve_exact(octets) {
            Ok(()) if connections <= Self::MOST_CONNECTIONS => Ok(()),
            _ => Err(GatewayError::Connections { connections, threads, mebibytes: octets >> 20 }),
        }
    }

    /// Asks the gateway of this network namespace whether its rules give it the packets of its peers. Returns the program that installed
    /// them: `nft`, or one of `iptables`.
    ///
    /// # Errors
    /// [`GatewayError::NotInPlace`] says what is missing, and what becomes of packets.
    pub fn check() -> Result<String, GatewayError> {
        let not_in_place = |why: String| Err(GatewayError::NotInPlace(why));
        if !geteuid().is_root() {
            return not_in_place("root alone can ask a gateway".to_owned());
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
            Ok(None) => match bound::holder() {
                Some(holder) => format!("a gateway runs{holder}, but does not answer"),
                None => "no gateway runs".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        if let Err(error) = Rules::can_be_seen() {
            return not_in_place(format!("{why}; {error}"));
        }
        not_in_place(match Rules::left() {
            Some(by) => {
                format!("{why}; rules in {by} are there: what they queue is dropped until a gateway takes it")
            }
            None => format!("{why}, and there are no rules: packets of the peers pass unsigned"),
        })
    }

    /// Removes the rules that a gateway has left, also if others have removed some of them: packets of its peers pass unsigned from now
    /// on. Returns the programs that had any.
    ///
    /// # Errors
    /// [`GatewayError::Runs`] if a gateway runs, which would install them again, and [`GatewayError::Rules`].
    pub fn remove_rules() -> Result<Vec<&'static str>, GatewayError> {
        let _lock = Lock::take(GatewayError::Runs)?;
        Rules::remove_all()
    }
}

/// Reads the configuration again. What it asks for takes effect, or nothing does.
fn change(source: &Source, rules: &KeptRules, shards: &Shards) {
    let config = source.read().and_then(|config| config.check_for_gateway().map(|()| config));
    let changed = config.map_err(GatewayError::from).and_then(|config| {
        // First what can fail. Until the shards know a new peer, its packets are dropped.
        rules.change(config.clone())?;
        shards.change(&config);
        Ok(())
    });
    if let Err(error) = changed {
        tracing::error!(%error, "the configuration stays as it was");
    }
}

/// The queues of all threads, bound and not yet served: until they are, what is in them goes nowhere.
struct Bound {
    threads: Vec<(PacketQueues, Wire)>,
    errors: PacketQueues,
}

impl Bound {
    fn new(numbers: Numbers) -> Result<Self, GatewayError> {
        let bind = |queues: &[u16]| {
            let bound = PacketQueues::bind(queues.iter().copied());
            bound.map_err(|error| GatewayError::Queue { first: numbers.first, last: numbers.errors(), error })
        };
        let own = numbers.outbound().zip(numbers.inbound()).map(|(outbound, inbound)| {
            Ok((bind(&[outbound, inbound])?, Wire::open().map_err(GatewayError::Wire)?))
        });
        Ok(Self { threads: own.collect::<Result<_, GatewayError>>()?, errors: bind(&[numbers.errors()])? })
    }

    /// Drops what is in them.
    fn drain(&mut self) -> io::Result<()> {
        let queues = self.threads.iter_mut().map(|(queues, _)| queues);
        queues.chain([&mut self.errors]).try_for_each(PacketQueues::drain)
    }

    /// Starts the threads that carry their packets.
    fn carry(self, shards: &Arc<Shards>) -> Result<(), GatewayError> {
        for (thread, (queues, wire)) in (0..).zip(self.threads) {
            let shards = Arc::clone(shards);
            start("packets", move || carry(queues, thread, wire, &shards))?;
        }
        let shards = Arc::clone(shards);
        start("icmp errors", move || carry_errors(self.errors, &shards))
    }
}

/// Units that come after this one can start, if systemd waits for that (`Type=notify`).
fn tell_systemd() {
    if let Err(error) = sd_notify::notify(&[NotifyState::Ready]) {
        tracing::warn!(%error, "systemd cannot be told that the gateway is ready");
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), GatewayError> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop).map_err(GatewayError::System)
}
