//! The rules by which the kernel gives packets to the gateway: nftables, or iptables where the kernel's nftables has no queues.
//!
//! Segments from programs are queued after all filters, which see them unsigned and may change them. Segments for programs are queued last,
//! except where connections are tracked: there they are queued before tracking, so that forged ones change nothing in it. That costs more,
//! because the kernel splits merged segments earlier.

mod common;
mod iptables;
mod nft;

use std::collections::HashSet;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use wireseal_keys::Timestamp;

use self::common::{Generation, has_ipv6, networks, tracks_connections};
use self::iptables::Iptables;
use super::queues::Numbers;
use crate::config::Config;
use crate::error::Error;
use crate::instance::lock;
use crate::status::RulesStatus;

/// How often to try again if other programs change their rules at the same moment.
const ATTEMPTS: u32 = 3;

/// How often to read the rules where the ruleset has no number, and to try to install them.
const SECOND: Duration = Duration::from_secs(1);

/// The program that installs the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rules {
    Nftables,
    Iptables(Iptables),
}

/// The rules as their program prints them, in lines.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Image {
    lines: Vec<String>,
    /// The ruleset's number at that moment; `None` if it was changing, or there is none.
    generation: Option<u32>,
    /// Whether they queue before connection tracking.
    is_tracked: bool,
}

impl Image {
    /// How the rules that were found differ from these; `None` if they are the same.
    fn difference(&self, found: &Self) -> Option<String> {
        let lacks = |lines: &[String], others: &[String]| {
            let others: HashSet<_> = others.iter().collect();
            lines.iter().find(|line| !others.contains(line)).map(|line| shortened(line))
        };
        let missing = lacks(&self.lines, &found.lines);
        let added = lacks(&found.lines, &self.lines);
        match (missing, added) {
            (Some(missing), Some(added)) => Some(format!("`{missing}` is gone, and `{added}` was added")),
            (Some(missing), None) => Some(format!("`{missing}` is gone")),
            (None, Some(added)) => Some(format!("`{added}` was added")),
            (None, None) if self.lines == found.lines => None,
            (None, None) => Some("they are in another order, or some are there twice".to_owned()),
        }
    }
}

/// At most 160 characters of a line.
fn shortened(line: &str) -> String {
    const MOST: usize = 160;
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

impl Rules {
    /// The kinds of rules that this host may have, in the order in which they are tried.
    fn all() -> Vec<Self> {
        [Self::Nftables].into_iter().chain(Iptables::all().into_iter().map(Self::Iptables)).collect()
    }

    /// Installs the rules of a configuration with the first program that can, in place of those of an earlier gateway.
    fn install(config: &Config, numbers: Numbers, generation: &Generation) -> Result<(Self, Image), Error> {
        if networks(config, false).next().is_some() && !has_ipv6() {
            return Err(Error::NoIpv6);
        }
        let mut errors = Vec::new();
        let all = Self::all();
        for rules in &all {
            let had_rules = rules.are_there();
            match rules.replace(config, numbers, generation, false) {
                Ok(image) => {
                    // One program's rules only: a packet that is queued twice is refused the second time.
                    for other in all.iter().filter(|other| *other != rules) {
                        other.remove()?;
                    }
                    if !errors.is_empty() {
                        let why = errors.join("; ");
                        tracing::info!(why, "the rules are in {}, not in nftables", rules.by());
                    }
                    return Ok((*rules, image));
                }
                Err(Error::Rules(error)) => errors.push(error),
                Err(error) => return Err(error),
            }
            // Undo a partial install, but keep earlier rules: they block unsigned packets.
            if !had_rules {
                let _ = rules.remove();
            }
        }
        Err(Error::Rules(errors.join("; ")))
    }

    /// The program's name.
    const fn by(self) -> &'static str {
        match self {
            Self::Nftables => nft::PROGRAM,
            Self::Iptables(iptables) => iptables.name(),
        }
    }

    /// Whether the ruleset's number changes with every change of these rules, by any program.
    const fn have_generation(self) -> bool {
        match self {
            Self::Nftables => true,
            Self::Iptables(iptables) => !iptables.is_legacy(),
        }
    }

    /// Replaces the present rules without a gap, and reads the new ones back. Once connections have been tracked, tracking is assumed for
    /// good: NAT may still redirect a packet.
    fn replace(
        self,
        config: &Config,
        numbers: Numbers,
        generation: &Generation,
        were_tracked: bool,
    ) -> Result<Image, Error> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (before, is_tracked) = (generation.now(), were_tracked || tracks_connections());
            let put = match self {
                Self::Nftables => nft::put(config, numbers, is_tracked)?,
                Self::Iptables(iptables) => iptables.put(config, numbers, is_tracked)?,
            };
            let image = Image { is_tracked, ..self.image(generation)? };
            // No other program has changed anything since `before`.
            let is_alone = || before.map(|number| number.wrapping_add(put.transactions)) == image.generation;
            if self.have_generation() && attempt < ATTEMPTS && !is_alone() {
                continue;
            }
            let rules = image.lines.iter().filter(|line| line.contains(put.rule)).count();
            if rules != put.rules || put.known.iter().any(|line| !image.lines.contains(line)) {
                let by = self.by();
                let error = format!("{by} reported success, but the rules are not there");
                return Err(Error::Rules(error));
            }
            return Ok(image);
        }
    }

    fn lines(self) -> Result<Vec<String>, Error> {
        match self {
            Self::Nftables => nft::lines(),
            Self::Iptables(iptables) => iptables.lines(),
        }
    }

    /// Reads the present rules.
    fn image(self, generation: &Generation) -> Result<Image, Error> {
        let before = generation.now();
        let lines = self.lines()?;
        let is_alone = self.have_generation() && before == generation.now();
        Ok(Image { lines, generation: before.filter(|_| is_alone), is_tracked: false })
    }

    /// Whether there are any rules of a gateway.
    fn are_there(self) -> bool {
        self.lines().is_ok_and(|lines| !lines.is_empty())
    }

    /// The program of rules that an earlier gateway has left, if there are any.
    pub(super) fn left() -> Option<&'static str> {
        Self::all().into_iter().find(|rules| rules.are_there()).map(Self::by)
    }

    /// Removes the rules, even if only some are there; returns whether there were any.
    fn remove(self) -> Result<bool, Error> {
        let are_there = self.are_there();
        if are_there {
            match self {
                Self::Nftables => nft::remove()?,
                Self::Iptables(iptables) => iptables.remove()?,
            }
        }
        Ok(are_there)
    }

    /// An error if no program is installed that could show rules.
    pub(super) fn can_be_seen() -> Result<(), Error> {
        match nft::version() {
            Err(Error::Rules(said)) if Iptables::all().is_empty() => {
                Err(Error::Rules(format!("{said}, nor is iptables: rules cannot be looked for")))
            }
            _ => Ok(()),
        }
    }

    /// Removes all rules of a gateway; returns the programs that had any.
    pub(super) fn remove_all() -> Result<Vec<&'static str>, Error> {
        Self::can_be_seen()?;
        let mut removed = Vec::new();
        for rules in Self::all() {
            if rules.remove()? {
                removed.push(rules.by());
            }
        }
        Ok(removed)
    }
}

/// The rules of a running gateway, which are installed again when another program has changed them.
pub(super) struct KeptRules {
    numbers: Numbers,
    generation: Generation,
    /// `None` before they are installed, and once the gateway has ended.
    kept: Mutex<Option<Kept>>,
    status: Mutex<RulesStatus>,
}

struct Kept {
    rules: Rules,
    config: Config,
    /// The rules as they were read back.
    image: Image,
    looked: Instant,
}

impl KeptRules {
    pub(super) fn new(numbers: Numbers) -> io::Result<Self> {
        let status = RulesStatus {
            by: String::new(),
            since: Timestamp::now(),
            problem: Some("they are not installed yet".to_owned()),
        };
        Ok(Self {
            numbers,
            generation: Generation::open()?,
            kept: Mutex::default(),
            status: Mutex::new(status),
        })
    }

    /// Installs them; returns the name of the program that did.
    pub(super) fn install(&self, config: Config) -> Result<&'static str, Error> {
        let (rules, image) = Rules::install(&config, self.numbers, &self.generation)?;
        *lock(&self.kept) = Some(Kept { rules, config, image, looked: Instant::now() });
        rules.by().clone_into(&mut lock(&self.status).by);
        self.note(None);
        Ok(rules.by())
    }

    /// Whether they are in place.
    pub(super) fn status(&self) -> RulesStatus {
        lock(&self.status).clone()
    }

    /// Replaces them by the rules of another configuration; on an error they stay.
    pub(super) fn change(&self, config: Config) -> Result<(), Error> {
        let mut kept = lock(&self.kept);
        let Some(kept) = kept.as_mut() else { return Ok(()) };
        kept.image = kept.rules.replace(&config, self.numbers, &self.generation, kept.image.is_tracked)?;
        kept.config = config;
        Ok(())
    }

    /// Installs them again if they have changed. This is cheap while no program changes rules.
    pub(super) fn check(&self) {
        let mut kept = lock(&self.kept);
        let Some(kept) = kept.as_mut() else { return };
        let was_in_place = lock(&self.status).problem.is_none();
        if was_in_place && !kept.image.is_tracked && tracks_connections() {
            match kept.rules.replace(&kept.config, self.numbers, &self.generation, true) {
                Ok(image) => {
                    kept.image = image;
                    tracing::info!(
                        "this host tracks connections: from now on the peers' packets are judged before that"
                    );
                }
                Err(error) => {
                    let problem = format!(
                        "forged packets can mislead connection tracking, since they are judged behind it: {error}"
                    );
                    if self.note(Some(problem.clone())) {
                        tracing::error!("{problem}");
                    }
                }
            }
        }
        let generation = kept.rules.have_generation().then(|| self.generation.now()).flatten();
        let is_unchanged = generation.is_some() && generation == kept.image.generation;
        let is_told = kept.rules.have_generation() && generation.is_some() && was_in_place;
        if was_in_place && is_unchanged || !is_told && kept.looked.elapsed() < SECOND {
            return;
        }
        kept.looked = Instant::now();
        let found = kept.rules.image(&self.generation);
        let problem = match &found {
            Ok(found) => kept.image.difference(found),
            Err(error) => Some(error.to_string()),
        };
        let Some(problem) = problem else {
            // Only other programs' rules have changed.
            kept.image.generation = found.ok().and_then(|found| found.generation);
            self.note(None);
            return;
        };
        if was_in_place {
            // Logged before the rules are installed, which may take time.
            self.note(Some(format!("packets may pass unsigned: {problem}")));
            tracing::error!(
                "the rules had been changed: packets may pass unsigned until they are installed again: {problem}"
            );
        }
        match kept.rules.replace(&kept.config, self.numbers, &self.generation, kept.image.is_tracked) {
            Ok(image) => {
                kept.image = image;
                self.note(None);
                tracing::warn!("the rules are installed again");
            }
            Err(error) => {
                let problem = format!("packets may pass unsigned: {problem}; {error}");
                if self.note(Some(problem.clone())) {
                    tracing::error!("the rules are not in place: {problem}");
                }
            }
        }
    }

    /// Notes what is wrong with them; returns whether that is new.
    fn note(&self, problem: Option<String>) -> bool {
        let mut status = lock(&self.status);
        if status.problem.is_some() != problem.is_some() {
            status.since = Timestamp::now();
        }
        let is_new = status.problem != problem;
        status.problem = problem;
        is_new
    }

    /// Stops watching them, and removes them if asked to.
    pub(super) fn end(&self, are_removed: bool) -> Result<(), Error> {
        match lock(&self.kept).take() {
            Some(kept) if are_removed => kept.rules.remove().map(drop),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
