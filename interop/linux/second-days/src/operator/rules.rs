//! Changes of the gateway's rules by others.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Operator;
use crate::instance::{SAID, is_about_rules};
use crate::world::Side;

impl Operator {
    const fn iptables(&self) -> [&'static str; 2] {
        ["iptables", "ip6tables"]
    }

    fn has_nft(&self, side: Side) -> Result<bool> {
        Ok(self.world.run(side, "nft list tables 2>/dev/null || true")?.contains("inet wireseal"))
    }

    pub(super) fn flush(&self, side: Side) -> Result<()> {
        let tables =
            "for table in raw mangle security; do iptables -t $table -F; ip6tables -t $table -F; done";
        self.world
            .run(side, &format!("({tables}) 2>/dev/null; nft flush ruleset 2>/dev/null; true"))
            .map(drop)
    }

    /// Flushes the rules repeatedly for half a second without telling the witness.
    pub fn open_in_secret(&self, side: Side) -> Result<()> {
        (0..20).try_for_each(|_| {
            sleep(Duration::from_millis(25));
            self.flush(side)
        })
    }

    /// `--remove-rules` must fail and change nothing, because the gateway still runs.
    pub(super) fn remove_rules(&self, side: Side) -> Result<()> {
        let output = self.world.command(side, &self.program).args(["gateway", "--remove-rules"]).output()?;
        if output.status.code() != Some(2) {
            self.journal.fault(&format!("{side}: --remove-rules beside a gateway that runs: {output:?}"));
        }
        self.check(side, true)
    }

    /// Removes the rules: within a second the gateway must report it and install them again, or report that it cannot.
    pub(super) fn lose_rules(
        &mut self,
        side: Side,
        why: &str,
        lose: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<()> {
        let gateway = self.instance(side)?;
        let (since, is_read) = (gateway.said(), gateway.is_log_read());
        self.journal.open(side, why);
        lose(self)?;
        let lost = Instant::now();
        let mut is_known = true;
        if is_read {
            is_known = gateway.says(since, is_about_rules);
            if !is_known {
                self.journal.fault(&format!("{side}: {why}, and the log says nothing about it in {SAID:?}"));
            }
        }
        self.await_rules(side, lost, why, is_known)?;
        self.journal.note(&format!("{side}: {why}; over after {:.2} s", lost.elapsed().as_secs_f64()));
        self.journal.close(side);
        Ok(())
    }

    /// Waits until `--check` says that the rules are in place. If they do not come back, or their state is unknown, starts another gateway,
    /// so that the day can go on.
    pub(super) fn await_rules(
        &mut self,
        side: Side,
        since: Instant,
        why: &str,
        are_known: bool,
    ) -> Result<()> {
        if are_known {
            loop {
                let (code, said) = self.is_in_place(side)?;
                if code == Some(0) {
                    return Ok(());
                }
                if since.elapsed() > SAID {
                    self.journal.fault(&format!("{side}: {why}, and the rules have not come back: {said}"));
                    break;
                }
                sleep(Duration::from_millis(100));
            }
        }
        let options = self.instance(side)?.options;
        self.instances[side as usize] = None;
        self.start(side, options)
    }

    pub(super) fn old_rules(&mut self, side: Side, of_another_peer: bool) -> Result<()> {
        let peer = self.world.address(side.other()).to_string();
        let another = if peer.contains(':') { "2001:db8::99" } else { "192.0.2.99" };
        let edit = match of_another_peer {
            true => format!("s/{peer}\\b/{another}/g"),
            // The rules of a gateway with --queue 40000.
            false => {
                "/queue/ s/\\b\\(179\\|1\\)\\([0-9][0-9]\\)\\b\\([:-]\\|$\\| --queue-bypass\\)/400\\2\\3/g"
                    .to_owned()
            }
        };
        let why =
            if of_another_peer { "older rules, for another peer" } else { "older rules, with other queues" };
        self.lose_rules(side, why, |operator| {
            let load = match operator.has_nft(side)? {
                true => format!("(echo flush ruleset; nft list ruleset | sed '{edit}') | nft -f -"),
                false => operator
                    .iptables()
                    .map(|name| format!("{name}-save | sed '{edit}' | {name}-restore"))
                    .join(" && "),
            };
            operator.world.run(side, &load).map(drop)
        })
    }

    /// The gateway's rules still apply, or it says that they do not.
    pub(super) fn rule_in_front(&self, side: Side, accepts: bool) -> Result<()> {
        let target = if accepts { "-j ACCEPT" } else { "" };
        let places = self.iptables().map(|name| {
            // In every chain that calls the gateway's own.
            let find = format!(
                "{name}-save | awk '/^\\*/ {{ table = substr($1, 2) }} / -j WIRESEAL/ && $2 !~ /WIRESEAL/ {{ print table, $2 }}'"
            );
            let found = self.world.run(side, &find)?;
            let commands = found.lines().filter_map(|line| line.split_once(' ')).map(|(table, hook)| {
                format!("{name} -t {table} CHANGE {hook} -p tcp -m comment --comment in-front {target}")
            });
            Ok(commands.collect::<Vec<_>>())
        });
        let places = places.into_iter().collect::<Result<Vec<_>>>()?.concat().join("; ");
        let change = |change| self.world.run(side, &places.replace("CHANGE", change)).map(drop);
        if !accepts {
            change("-I")?;
            sleep(Duration::from_secs(2));
            self.check(side, true)?;
            return change("-D");
        }
        let gateway = self.instance(side)?;
        let since = gateway.said();
        self.journal.open(side, "an accepting rule in front");
        change("-I")?;
        if !gateway.says(since, is_about_rules) {
            self.journal
                .fault(&format!("{side}: an accepting rule in front, and the log says nothing about it"));
        }
        // The gateway reports first, and then repairs.
        let said = Instant::now();
        let (code, said) = loop {
            let asked = self.is_in_place(side)?;
            if asked.0 == Some(0) || said.elapsed() > SAID {
                break asked;
            }
            sleep(Duration::from_millis(100));
        };
        let saved = self.world.run(side, "iptables-save; ip6tables-save")?;
        // The first rule of each of the kernel's chains.
        let mut chains = Vec::new();
        let is_in_front = |line: &&str| {
            let Some(chain) = line.strip_prefix("-A ").and_then(|rule| rule.split(' ').next()) else {
                // Another table.
                if line.starts_with('*') {
                    chains.clear();
                }
                return false;
            };
            let is_first = !chains.contains(&chain.to_owned());
            chains.push(chain.to_owned());
            is_first && line.contains("in-front")
        };
        let in_front = saved.lines().filter(is_in_front).count();
        if in_front > 0 && code == Some(0) {
            self.journal.fault(&format!("{side}: an accepting rule in front, and --check says: {said}"));
        }
        change("-D")?;
        self.journal.close(side);
        Ok(())
    }

    /// Segments are judged before connection tracking, so what others send in the peer's name does not reach the firewall.
    pub(super) fn firewall(&self, side: Side) -> Result<()> {
        for name in self.iptables() {
            let icmp = if name == "iptables" { "icmp" } else { "ipv6-icmp" };
            let rules =
                ["-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT", "-p tcp --dport 179 -j ACCEPT"];
            let rules = rules.map(|rule| format!("{name} -A INPUT {rule}")).join("; ");
            self.world
                .run(side, &format!("{rules}; {name} -A INPUT -p {icmp} -j ACCEPT; {name} -P INPUT DROP"))?;
        }
        sleep(Duration::from_secs(3));
        self.check(side, true)?;
        for name in self.iptables() {
            self.world.run(side, &format!("{name} -P INPUT ACCEPT; {name} -F INPUT"))?;
        }
        Ok(())
    }
}
