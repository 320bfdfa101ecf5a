//! What others do to the rules for packets.

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
        self.world
            .run(side, "iptables -t mangle -F; ip6tables -t mangle -F; nft flush ruleset 2>/dev/null; true")
            .map(drop)
    }

    /// The rules are taken away: the gateway has to say so and to install them again within a second, or to say that it cannot.
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

    /// Waits until `--check` says that the rules are in place. If they do not come back, or nobody knows whose they are, another gateway
    /// is started, so that the day can go on.
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
            // Those of a gateway with --queue 40000.
            false => {
                "s/\\b\\(179\\|1\\)\\([0-9][0-9]\\)\\b\\([:-]\\|$\\| --queue-bypass\\)/400\\2\\3/g".to_owned()
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
                    .join("; "),
            };
            operator.world.run(side, &load).map(drop)
        })
    }

    /// The gateway's rules apply all the same, or it says that they do not.
    pub(super) fn rule_in_front(&mut self, side: Side, accepts: bool) -> Result<()> {
        let target = if accepts { "-j ACCEPT" } else { "" };
        let rules = |change: &str| {
            let rule = |hook| {
                self.iptables().map(|name| {
                    format!("{name} -t mangle {change} {hook} -p tcp -m comment --comment in-front {target}")
                })
            };
            [rule("OUTPUT"), rule("INPUT")].concat().join("; ")
        };
        if !accepts {
            self.world.run(side, &rules("-I"))?;
            sleep(Duration::from_secs(2));
            self.check(side, true)?;
            self.world.run(side, &rules("-D"))?;
            return Ok(());
        }
        // nftables has its own rules for that: what another table accepts goes on to the gateway's.
        let gateway = self.instance(side)?;
        let since = gateway.said();
        if !self.has_nft(side)? {
            self.journal.open(side, "an accepting rule in front");
            self.world.run(side, &rules("-I"))?;
            if !gateway.says(since, is_about_rules) {
                self.journal
                    .fault(&format!("{side}: an accepting rule in front, and the log says nothing about it"));
            }
            let (code, said) = self.is_in_place(side)?;
            let jumps =
                self.world.run(side, "iptables -t mangle -S OUTPUT; ip6tables -t mangle -S OUTPUT")?;
            let first = jumps.lines().find(|line| line.starts_with("-A")).unwrap_or_default();
            if first.contains("in-front") && code == Some(0) {
                self.journal.fault(&format!("{side}: an accepting rule in front, and --check says: {said}"));
            }
            self.world.run(side, &rules("-D"))?;
            self.journal.close(side);
        }
        Ok(())
    }

    /// What others have sent in the peer's name is in the firewall's state before the gateway refuses it, so a session may be lost.
    pub(super) fn firewall(&self, side: Side) -> Result<()> {
        self.journal.excuse_losses();
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
        self.journal.excuse_losses();
        Ok(())
    }
}
