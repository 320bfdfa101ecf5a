//! The operator: carries out a day's events, and knows what the documents promise of each.

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

use crate::daemon::Daemon;
use crate::event::Event;
use crate::gateway::{Gateway, Options, is_about_rules};
use crate::journal::{HOLD, Journal};
use crate::keys::Files;
use crate::world::{Orders, Side, World};

/// How long a second instance may take to see that there is one.
const SECOND: Duration = Duration::from_secs(10);
/// How long a gateway may be away without a session being lost: TCP tries again within twice that.
const AWAY: Duration = Duration::from_millis(2500);
/// How long nobody reads the log, or no descriptor is left: so long that a session that stands still is lost.
const HINDERED: Duration = Duration::from_secs(HOLD.as_secs() + 2);

pub struct Operator {
    pub world: World,
    pub journal: Arc<Journal>,
    program: PathBuf,
    files: [Files; 2],
    gateways: [Option<Gateway>; 2],
    daemons: [Option<Daemon>; 2],
    listener: Side,
    seed: u64,
}

impl Operator {
    pub fn new(
        world: World,
        journal: Arc<Journal>,
        orders: &Orders,
        listener: Side,
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
        let (gateways, daemons) = ([None, None], [None, None]);
        let operator =
            Self { world, journal, program, files, gateways, daemons, listener, seed: orders.seed };
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
        command.arg("gateway").arg("--config").arg(self.files[side as usize].config());
        command
    }

    pub fn start(&mut self, side: Side, options: Options) -> Result<()> {
        let state = self.world.state_folder(side).join("sessions");
        let log = self.world.folder().join(format!("{}.log", side.name()));
        let started = Instant::now();
        let gateway = Gateway::start(self.command(side), side, options, state, log)?;
        self.journal.note(&format!(
            "{side}: the gateway carries packets after {:.2} s ({options})",
            started.elapsed().as_secs_f64()
        ));
        self.gateways[side as usize] = Some(gateway);
        Ok(())
    }

    fn gateway(&self, side: Side) -> Result<&Gateway> {
        self.gateways[side as usize].as_ref().context("no gateway runs")
    }

    fn take(&mut self, side: Side) -> Result<Gateway> {
        self.gateways[side as usize].take().context("no gateway runs")
    }

    pub fn carry_out(&mut self, event: &Event) -> Result<()> {
        self.journal.note(&format!("event: {event}"));
        for side in Side::BOTH {
            let gateway = self.gateways[side as usize].as_mut().context("no gateway runs")?;
            if gateway.has_ended()? {
                bail!("{side}: the gateway has ended by itself: {:?}", gateway.log().last());
            }
        }
        match event {
            Event::Restart { side, options, pause } => self.restart(*side, *options, *pause),
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
            Event::RemoveRules(side) => {
                self.lose_rules(*side, "rules removed by --remove-rules", |operator| {
                    operator
                        .world
                        .run(*side, &format!("{} gateway --remove-rules", operator.program.display()))
                        .map(drop)
                })
            }
            Event::Flush(side) => self.lose_rules(*side, "rules flushed", |operator| operator.flush(*side)),
            Event::OldRules { side, of_another_peer } => self.old_rules(*side, *of_another_peer),
            Event::RuleInFront { side, accepts } => self.rule_in_front(*side, *accepts),
            Event::SecondInstance { side, has_other_queues } => {
                self.second_instance(*side, *has_other_queues)
            }
            Event::FullDisk { side, options } => self.full_disk(*side, *options),
            Event::NoDescriptors { side, meanwhile } => self.no_descriptors(*side, meanwhile),
            Event::UnreadLog { side, meanwhile } => {
                self.gateway(*side)?.stop_log()?;
                sleep(HINDERED);
                self.carry_out(meanwhile)?;
                // After a restart it is another one.
                self.gateway(*side)?.read_log();
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
        let kept = gateway.options.keeps_state && options.keeps_state && !gateway.options.opens;
        if !kept {
            self.journal.excuse_losses();
        }
        if gateway.options.opens {
            self.journal.open(side, "--open-on-exit");
        }
        let (code, log) = gateway.end()?;
        if code != Some(0) {
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

    /// A daemon is killed and started again; its kernel closes the session.
    pub fn restart_daemon(&mut self, side: Side) -> Result<()> {
        let is_caller = side != self.listener;
        self.daemons[side as usize] = None;
        let command = self.world.command(side, std::env::current_exe()?);
        let address = self.world.address(self.listener);
        let daemon = Daemon::start(command, side, address, self.seed, is_caller, &self.journal)?;
        self.daemons[side as usize] = Some(daemon);
        Ok(())
    }

    /// What it writes is lost, or is not: then it says so. Nothing else happens.
    fn full_disk(&mut self, side: Side, options: Options) -> Result<()> {
        let present = self.gateway(side)?.options;
        if !present.keeps_state || present.opens {
            self.restart(side, options, 0)?;
            sleep(Duration::from_secs(1));
        }
        let filler = self.world.state_folder(side).join("filler");
        // It ends when nothing fits any more.
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
            let options = self.gateway(side)?.options;
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
        // Its rules lead to nobody now.
        self.journal.excuse_losses();
        let options = self.gateway(side)?.options;
        self.gateways[side as usize] = None;
        self.start(side, options)?;
        self.journal.excuse_losses();
        Ok(())
    }

    fn no_descriptors(&mut self, side: Side, meanwhile: &Event) -> Result<()> {
        let gateway = self.gateway(side)?;
        gateway.leave_descriptors(0)?;
        // Those who ask for metrics and say nothing do not help.
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
        self.gateway(side)?.give_descriptors()?;
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
