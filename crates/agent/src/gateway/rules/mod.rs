//! The rules by which the kernel gives packets to the gateway: nftables, or iptables where the kernel's nftables has no queues.
//!
//! Segments from programs are queued behind the filters of others, which see and change them unsigned. Those for programs are queued as
//! they reach them; where connections are tracked, before that, so that what is forged changes nothing there. It costs more: what the
//! kernel has put together comes apart sooner.

mod generation;
mod iptables;
mod nft;
mod program;
mod put;
mod tree;

use std::collections::HashSet;

use super::GatewayError;
use super::carry::Numbers;
use crate::Config;

pub(super) use self::generation::Generation;
use self::iptables::Iptables;
pub(super) use self::put::tracks_connections;
use self::put::{has_ipv6, networks};

/// How often rules are installed again because other programs change theirs at the same moment.
const ATTEMPTS: u32 = 3;

/// The program that installs the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rules {
    Nftables,
    Iptables(Iptables),
}

/// The rules as their program prints them, in lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Image {
    lines: Vec<String>,
    /// What the ruleset's number was then; `None` if it was changing, or has none.
    pub(super) generation: Option<u32>,
    /// Whether they queue before connection tracking.
    pub(super) is_tracked: bool,
}

impl Image {
    /// What another image has that this one lacks, or the other way round; `None` if they have the same rules.
    pub(super) fn difference(&self, found: &Self) -> Option<String> {
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

/// The beginning of a line.
fn shortened(line: &str) -> String {
    const MOST: usize = 160;
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

impl Rules {
    /// Those that this host has, in the order in which they are tried.
    fn all() -> Vec<Self> {
        [Self::Nftables].into_iter().chain(Iptables::all().into_iter().map(Self::Iptables)).collect()
    }

    /// Installs the rules of a configuration with the first program that can, in place of those of a gateway before.
    pub(super) fn install(
        config: &Config,
        numbers: Numbers,
        generation: &Generation,
    ) -> Result<(Self, Image), GatewayError> {
        if networks(config, false).next().is_some() && !has_ipv6() {
            return Err(GatewayError::NoIpv6);
        }
        let mut errors = Vec::new();
        let all = Self::all();
        for rules in &all {
            let had_rules = rules.are_there();
            match rules.replace(config, numbers, generation, false) {
                Ok(image) => {
                    // A packet that is queued twice is refused the second time.
                    for other in all.iter().filter(|other| *other != rules) {
                        other.remove()?;
                    }
                    if !errors.is_empty() {
                        let why = errors.join("; ");
                        tracing::info!(why, "the rules are in {}, not in nftables", rules.by());
                    }
                    return Ok((*rules, image));
                }
                Err(GatewayError::Rules(error)) => errors.push(error),
                Err(error) => return Err(error),
            }
            // What it has begun; but what keeps the peers' packets out since before stays.
            if !had_rules {
                let _ = rules.remove();
            }
        }
        Err(GatewayError::Rules(errors.join("; ")))
    }

    /// The program's name.
    pub(super) const fn by(self) -> &'static str {
        match self {
            Self::Nftables => nft::PROGRAM,
            Self::Iptables(iptables) => iptables.name(),
        }
    }

    /// Whether every change of these rules, by whatever program, changes the ruleset's number too.
    pub(super) const fn have_generation(self) -> bool {
        match self {
            Self::Nftables => true,
            Self::Iptables(iptables) => !iptables.is_legacy(),
        }
    }

    /// Puts the rules of another configuration in place of the present ones, and returns what is there then. There is no moment without
    /// rules. Once connections have been tracked, they are taken to be tracked for good: NAT may be about to lead a packet elsewhere.
    pub(super) fn replace(
        self,
        config: &Config,
        numbers: Numbers,
        generation: &Generation,
        were_tracked: bool,
    ) -> Result<Image, GatewayError> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (before, is_tracked) = (generation.now(), were_tracked || tracks_connections());
            let put = match self {
                Self::Nftables => nft::put(config, numbers, is_tracked)?,
                Self::Iptables(iptables) => iptables.put(config, numbers, is_tracked)?,
            };
            let image = Image { is_tracked, ..self.image(generation)? };
            // Nobody came between: neither before the rules were read back, nor while they were.
            let is_alone = || before.map(|number| number.wrapping_add(put.transactions)) == image.generation;
            if self.have_generation() && attempt < ATTEMPTS && !is_alone() {
                continue;
            }
            let rules = image.lines.iter().filter(|line| line.contains(put.rule)).count();
            if rules != put.rules || put.known.iter().any(|line| !image.lines.contains(line)) {
                let by = self.by();
                let error = format!("{by} reported success, but the rules are not there");
                return Err(GatewayError::Rules(error));
            }
            return Ok(image);
        }
    }

    /// The rules that are there.
    pub(super) fn image(self, generation: &Generation) -> Result<Image, GatewayError> {
        let before = generation.now();
        let lines = match self {
            Self::Nftables => nft::lines()?,
            Self::Iptables(iptables) => iptables.lines()?,
        };
        let is_alone = self.have_generation() && before == generation.now();
        Ok(Image { lines, generation: before.filter(|_| is_alone), is_tracked: false })
    }

    /// Whether there are any rules of a gateway.
    fn are_there(self) -> bool {
        match self {
            Self::Nftables => nft::lines().is_ok_and(|lines| !lines.is_empty()),
            Self::Iptables(iptables) => iptables.lines().is_ok_and(|lines| !lines.is_empty()),
        }
    }

    /// The program of the rules that a gateway has left, if it has left any.
    pub(super) fn left() -> Option<&'static str> {
        Self::all().into_iter().find(|rules| rules.are_there()).map(Self::by)
    }

    /// Removes the rules, also if only some are there; whether there were any.
    pub(super) fn remove(self) -> Result<bool, GatewayError> {
        let are_there = self.are_there();
        if are_there {
            match self {
                Self::Nftables => nft::remove()?,
                Self::Iptables(iptables) => iptables.remove()?,
            }
        }
        Ok(are_there)
    }

    /// An error if no program is found that could show or change rules: then nothing can be said of them.
    pub(super) fn can_be_seen() -> Result<(), GatewayError> {
        let no_nft = |error: GatewayError| match Iptables::all().is_empty() {
            true => Err(GatewayError::Rules(format!("{error}, nor is iptables: rules cannot be looked for"))),
            false => Ok(()),
        };
        nft::version().map(drop).or_else(no_nft)
    }

    /// Removes all rules that there are; returns the programs of those.
    pub(super) fn remove_all() -> Result<Vec<&'static str>, GatewayError> {
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

#[cfg(test)]
mod tests;
