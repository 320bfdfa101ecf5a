//! The operator: carries out a day's events, and checks what the documents promise about each.

mod ask;
mod files;
mod rules;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::daemon::{self, Daemon};
use crate::event::Event;
use crate::instance::{Instance, Kind, Options, is_about_rules};
use crate::journal::{HOLD, Journal};
use crate::keys::Files;
use crate::world::{Orders, Side, World};

/// How long a second instance may take to refuse to run beside the first.
const SECOND: Duration = Duration::from_secs(10);
/// How long a gateway may be away without losing a session: TCP retransmits within twice that.
const AWAY: Duration = Duration::from_millis(2500);
/// How long nobody reads the log, or no descriptor is left: long enough that a stalled session would be lost.
const HINDERED: Duration = Duration::from_secs(HOLD.as_secs() + 2);

pub struct Operator {
    pub world: World,
    pub journal: Arc<Journal>,
    program: PathBuf,
    kinds: [Kind; 2],
    files: [Files; 2],
    instances: [Option<Instance>; 2],
    daemons: [Option<Daemon>; 2],
    listener: Side,
    seed: u64,
    is_in_guest: bool,
}

impl Operator {
    pub fn new(
        world: World,
        journal: Arc<Journal>,
        orders: &Orders,
        listener: Side,
        kinds: [Kind; 2],
        others: [usize; 2],
    ) -> Result<Self> {
        let files = Side::BOTH.map(|side| {
            let peer = world.address(side.other());
            Files::new(world.folder(), side.name(), peer, others[side as usize])
        });
        for files in &files {
            files.write()?;
        }
        let program = orders.program.clone();
        let (instances, daemons) = ([None, None], [None, None]);
        let (seed, is_in_guest) = (orders.seed, orders.is_in_guest);
        let operator =
            Self { world, journal, program, kinds, files, instances, daemons, listener, seed, is_in_guest };
        operator.wrap_programs()?;
        Ok(operator)
    }

    /// Programs that install rules, which fail while there is a file "fail-SIDE".
    fn wrap_programs(&self) -> Result<()> {
        for side in Side::BOTH {
            let folder = self.programs(side);
            fs::create_dir(&folder)?;
            for name in ["nft", "iptables-restore", "ip6tables-restore"] {
                let real = ["/usr/sbin", "/sbin", "/usr/bin"].map(|folder| PathBuf::from(folder).join(name));
                let Some(real) = real.into_iter().find(|path| path.exists()) else { continue };
                let path = folder.join(name);
                // nft shows rules, too.
                fs::write(
                    &path,
                    format!(
                        "#!/bin/sh\ncase \"{name} $*\" in\n*restore*|*-f*) if [ -e {} ]; then echo '{name}: No buffer space available' >&2; exit 1; fi;;\n\
                         esac\nexec {} \"$@\"\n",
                        self.failing(side).display(),
                        real.display()
                    ),
                )?;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(())
    }

    fn programs(&self, side: Side) -> PathBuf {
        self.world.folder().join(format!("programs-{}", side.name()))
    }

    fn failing(&self, side: Side) -> PathBuf {
        self.world.folder().join(format!("fail-{}", side.name()))
    }

    fn command(&self, side: Side) -> Command {
        let mut command = self.world.command(side, &self.program);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", self.programs(side).display()));
        let name = if self.kinds[side as usize] == Kind::Gateway { "gateway" } else { "run" };
        command.arg(name).arg("--config").arg(self.files[side as usize].config());
        command
    }

    /// Starts a gateway, or a supervisor with the daemon.
    pub fn start(&mut self, side: Side, options: Options) -> Result<()> {
        let folder = self.world.state_folder(side);
        let log = self.world.folder().join(format!("{}.log", side.name()));
        let started = Instant::now();
        let mut command = self.command(side);
        let instance = match self.kinds[side as usize] {
            Kind::Gateway => Instance::gateway(command, side, options, &folder, &log)?,
            Kind::Run => {
                self.daemons[side as usize] = None;
                command.arg("--").arg(std::env::current_exe()?).args(self.daemon_arguments(side));
                command.stdout(Stdio::piped());
                let mut supervisor = Instance::start(command, side, options, &log, folder.join("metrics"))?;
                let daemon = Daemon::follow(supervisor.stdout()?, side, &self.journal);
                let daemon = daemon.with_context(|| format!("{side}: {}", supervisor.log().join(" / ")))?;
                self.daemons[side as usize] = Some(daemon);
                supervisor
            }
        };
        let (kind, took) = (self.kinds[side as usize], started.elapsed().as_secs_f64());
        self.journal.note(&format!("{side}: {kind:?} works after {took:.2} s ({options})"));
        self.instances[side as usize] = Some(instance);
        Ok(())
    }

    /// Starts everything: gateways first, and the daemon that listens before the one that calls.
    pub fn start_all(&mut self, options: [Options; 2]) -> Result<()> {
        let (sides, kinds) = ([self.listener, self.listener.other()], self.kinds);
        for side in sides.into_iter().filter(|side| kinds[*side as usize] == Kind::Gateway) {
            self.start(side, options[side as usize])?;
        }
        for side in sides {
            match self.kinds[side as usize] {
                Kind::Gateway => self.restart_daemon(side)?,
                Kind::Run => self.start(side, options[side as usize])?,
            }
        }
        Ok(())
    }

    fn daemon_arguments(&self, side: Side) -> [String; 4] {
        daemon::arguments(self.world.address(self.listener), self.seed, side != self.listener)
    }

    fn instance(&self, side: Side) -> Result<&Instance> {
        self.instances[side as usize].as_ref().context("nothing runs")
    }

    fn take(&mut self, side: Side) -> Result<Instance> {
        self.instances[side as usize].take().context("nothing runs")
    }

    pub fn carry_out(&mut self, event: &Event) -> Result<()> {
        self.journal.note(&format!("event: {event}"));
        for side in Side::BOTH {
            let gateway = self.instances[side as usize].as_mut().context("nothing runs")?;
            if gateway.has_ended()? {
                bail!("{side}: it has ended by itself: {:?}", gateway.log().last());
            }
        }
        match event {
            Event::Restart { side, options, pause } => self.restart(*side, *options, *pause),
            Event::Kill { side, options, .. } if self.kinds[*side as usize] == Kind::Run => {
                self.kill_supervisor(*side, *options)
            }
            Event::Kill { side, options, pause } => {
                self.journal.excuse_losses();
                drop(self.take(*side)?);
                sleep(Duration::from_millis(*pause));
                self.check(*side, false)?;
                self.start(*side, *options)?;
                self.journal.excuse_losses();
                Ok(())
            }
            Event::Daemon(side) => {
                self.journal.excuse_losses();
                self.restart_daemon(*side)
            }
            Event::RemoveRules(side) => self.remove_rules(*side),
            Event::Flush(side) => self.lose_rules(*side, "rules flushed", |operator| operator.flush(*side)),
            Event::OldRules { side, of_another_peer } => self.old_rules(*side, *of_another_peer),
            Event::RuleInFront { side, accepts } => self.rule_in_front(*side, *accepts),
            Event::SecondInstance { side, has_other_queues } => {
                self.second_instance(*side, *has_other_queues)
            }
            Event::FullDisk { side, options } => self.full_disk(*side, *options),
            Event::NoDescriptors { side, meanwhile } => self.no_descriptors(*side, meanwhile),
            Event::UnreadLog { side, meanwhile } => {
                self.instance(*side)?.stop_log()?;
                sleep(HINDERED);
                self.carry_out(meanwhile)?;
                // After a restart the process is another one.
                self.instance(*side)?.read_log();
                Ok(())
            }
            Event::Hangup(side) => self.hang_up(&[*side], true),
            Event::BadFile { side, is_keys } => {
                let files = &self.files[*side as usize];
                let path = if *is_keys { files.key_file() } else { files.config() };
                fs::write(path, "[[key-chain]]\nname = \"co")?;
                self.hang_up(&[*side], false)?;
                self.files[*side as usize].write()?;
                self.hang_up(&[*side], true)
            }
            Event::RulesFail(side) => self.rules_fail(*side),
            Event::OtherPeers { side, count } => {
                self.files[*side as usize].others = *count;
                self.files[*side as usize].write()?;
                self.hang_up(&[*side], true)
            }
            Event::PeerGone(side) => self.peer_gone(*side),
            Event::RollOver => self.roll_over(),
            Event::RollOverByFiles => self.roll_over_by_files(),
            Event::Firewall(side) => self.firewall(*side),
            Event::Clock(seconds) => {
                let now = crate::keys::now().cast_signed() + seconds;
                crate::world::shell(&format!("date -u -s @{now}"))?;
                sleep(Duration::from_secs(2));
                Ok(())
            }
            Event::Ask(side) => self.check(*side, true),
            Event::Nothing => {
                sleep(Duration::from_secs(1));
                Ok(())
            }
        }
    }

    fn restart(&mut self, side: Side, options: Options, pause: u64) -> Result<()> {
        let began = Instant::now();
        let gateway = self.take(side)?;
        let is_gateway = self.kinds[side as usize] == Kind::Gateway;
        let kept = is_gateway && gateway.options.keeps_state && options.keeps_state && !gateway.options.opens;
        if !kept {
            self.journal.excuse_losses();
        }
        if gateway.options.opens {
            self.journal.open(side, "--open-on-exit");
        }
        let (code, log) = gateway.end()?;
        // A supervisor returns the program's exit code: 128 and the signal's number.
        if code != Some(if is_gateway { 0 } else { 143 }) {
            self.journal.fault(&format!("{side}: exit code {code:?} after SIGTERM: {:?}", log.last()));
            self.journal.excuse_losses();
        }
        sleep(Duration::from_millis(pause));
        self.start(side, options)?;
        self.journal.close(side);
        if !kept || began.elapsed() > AWAY {
            self.journal.excuse_losses();
        }
        Ok(())
    }

    /// Kills a supervisor: sessions go on with their keys, and no new ones open.
    fn kill_supervisor(&mut self, side: Side, options: Options) -> Result<()> {
        self.take(side)?.kill();
        sleep(HINDERED);
        // The daemon could not connect any more, so it is ended, too.
        self.journal.excuse_losses();
        self.start(side, options)?;
        self.journal.excuse_losses();
        Ok(())
    }

    /// A daemon is killed and started again; its kernel closes the session.
    pub fn restart_daemon(&mut self, side: Side) -> Result<()> {
        self.daemons[side as usize] = None;
        let mut command = self.world.command(side, std::env::current_exe()?);
        command.args(self.daemon_arguments(side));
        self.daemons[side as usize] = Some(Daemon::start(command, side, &self.journal)?);
        Ok(())
    }

    /// With a full disk the sessions are written, or the log says that they are lost. Nothing else happens.
    fn full_disk(&mut self, side: Side, options: Options) -> Result<()> {
        let present = self.instance(side)?.options;
        if !present.keeps_state || present.opens {
            self.restart(side, options, 0)?;
            sleep(Duration::from_secs(1));
        }
        let filler = self.world.state_folder(side).join("filler");
        // The command ends when nothing more fits.
        let _ = Command::new("dd")
            .args(["if=/dev/zero", "bs=1k", &format!("of={}", filler.display())])
            .stderr(Stdio::null())
            .status()?;
        self.journal.excuse_losses();
        let (code, log) = self.take(side)?.end()?;
        let written = code == Some(0) && log.iter().any(|line| line.contains("sessions were written"));
        if !written && !log.iter().any(|line| line.contains("ERROR") || line.starts_with("wireseal: ")) {
            self.journal.fault(&format!(
                "{side}: sessions lost on a full disk, and not a word of it: {:?}",
                log.last()
            ));
        }
        fs::remove_file(filler)?;
        self.start(side, options)?;
        self.journal.excuse_losses();
        Ok(())
    }

    fn second_instance(&mut self, side: Side, has_other_queues: bool) -> Result<()> {
        let mut command = self.command(side);
        if has_other_queues {
            command.args(["--queue", "30000", "--threads", "1"]);
        } else {
            let options = self.instance(side)?.options;
            command.args(["--queue", &options.queue.to_string(), "--threads", &options.threads.to_string()]);
        }
        let mut second = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let started = Instant::now();
        let code = loop {
            if let Some(status) = second.try_wait()? {
                break status.code();
            }
            if started.elapsed() > SECOND {
                second.kill()?;
                second.wait()?;
                break None;
            }
            sleep(Duration::from_millis(20));
        };
        if code == Some(2) {
            return self.check(side, true);
        }
        self.journal.fault(&format!("{side}: a second instance was not refused: exit code {code:?}"));
        // Now nobody takes the packets that its rules queue.
        self.journal.excuse_losses();
        let options = self.instance(side)?.options;
        self.instances[side as usize] = None;
        self.start(side, options)?;
        self.journal.excuse_losses();
        Ok(())
    }

    fn no_descriptors(&mut self, side: Side, meanwhile: &Event) -> Result<()> {
        let gateway = self.instance(side)?;
        gateway.leave_descriptors(0)?;
        // Callers of the metrics that send nothing make it worse.
        let callers: Vec<_> = (0..16).map(|_| UnixStream::connect(&gateway.metrics)).collect();
        sleep(Duration::from_millis(500));
        match meanwhile {
            Event::Flush(_) => {
                let since = gateway.said();
                self.journal.open(side, "rules flushed, no descriptors");
                self.flush(side)?;
                if !gateway.says(since, is_about_rules) {
                    self.journal.fault(&format!(
                        "{side}: rules flushed with no descriptors left, and the log says nothing"
                    ));
                }
            }
            // It may be refused, as long as nothing else happens; it is done again below.
            Event::Hangup(_) => gateway.hang_up()?,
            _ => {}
        }
        sleep(HINDERED);
        drop(callers);
        self.instance(side)?.give_descriptors()?;
        if matches!(meanwhile, Event::Flush(_)) {
            self.await_rules(side, Instant::now(), "descriptors are free again", true)?;
            self.journal.close(side);
            return Ok(());
        }
        sleep(Duration::from_millis(500));
        self.hang_up(&[side], true)?;
        self.check(side, true)
    }
}
