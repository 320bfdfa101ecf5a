//! Finds which key chain of one file and which of another are for the same session.

use std::collections::HashSet;
use std::net::IpAddr;

use cidr::IpCidr;

use super::ConfiguredEnd;
use super::compare::Disagreement;
use super::pair::{Relation, pairs};
use crate::{Chain, Difference, Error, Format, Implementation, KeyFile, Weight};

/// The two chains of a session.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a> {
    /// The ends with these chains.
    pub ends: [ConfiguredEnd<'a>; 2],
    /// How the chains were found.
    pub by: MetBy,
}

/// How the two chains of a session were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetBy {
    /// By the names that the caller gave.
    Name,
    /// By a neighbor of one, which is an address of the other's router.
    Address,
    /// There is no other choice.
    Only,
    /// By their keys, which match best.
    Keys,
}

impl MetBy {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Address => "address",
            Self::Only => "only",
            Self::Keys => "keys",
        }
    }
}

impl Meeting<'_> {
    /// Why a session between the routers of these files may not use the chains: no neighbor uses one, or only neighbors that are not the
    /// other router. A file without addresses may be only part of a configuration, so it causes no warning.
    #[must_use]
    pub fn strangers(&self, files: [&KeyFile; 2], names: [&str; 2]) -> Vec<Disagreement> {
        let mut found = Vec::new();
        for side in 0..2 {
            let chain = self.ends[side].chain;
            let [is_router, is_peer_router] = [files[side], files[1 - side]].map(is_whole_router);
            let addresses = own_addresses(files[1 - side]);
            let is_for_peer = chain.neighbors.iter().any(|known| {
                is_link_local(&known.address)
                    || addresses.iter().any(|address| known.address.contains(address))
            });
            let (kind, sentence) = match chain.neighbors.first() {
                None if is_router => {
                    ("not-used", format!("no neighbor in the file of {} uses this chain", names[side]))
                }
                Some(first) if is_peer_router && !addresses.is_empty() && !is_for_peer => {
                    let (more, none) = match chain.neighbors.len() {
                        1 => (String::new(), "not this address"),
                        count => (format!(" and {} others", count - 1), "none of these addresses"),
                    };
                    let [user, peer] = [names[side], names[1 - side]];
                    (
                        "other-neighbors",
                        format!("{user} uses it for {first}{more}, and the file of {peer} has {none}"),
                    )
                }
                _ => continue,
            };
            let mut subjects = [None, None];
            subjects[side] = Some((chain.name.clone(), None));
            found.push(Disagreement { weight: Weight::Warning, kind, subjects, sentence });
        }
        found
    }
}

/// Whether a file is a router's configuration with its interfaces, rather than only keys or a daemon's configuration.
fn is_whole_router(file: &KeyFile) -> bool {
    const OTHERS: [Format; 6] =
        [Format::Toml, Format::Json, Format::Xml, Format::OpenConfig, Format::Bird, Format::GoBgp];
    !file.addresses.is_empty() && !file.format.is_some_and(|format| OTHERS.contains(&format))
}

fn is_link_local(address: &IpCidr) -> bool {
    matches!(address, IpCidr::V6(address) if address.first_address().is_unicast_link_local())
}

/// The most choices that the error for several chains names.
const SHOWN: usize = 8;

/// Finds the chains that two files have for the sessions between them: by `names`, which is one name for both or `A:B`; else those whose
/// neighbors are [addresses](KeyFile::addresses) of the other file; else the only ones; else those with the most keys in common.
///
/// # Errors
/// [`Error`] if a file has no chain of that name, or if several chains remain.
pub fn meet<'a>(files: [&'a KeyFile; 2], names: Option<&str>) -> Result<Meeting<'a>, Error> {
    let mut chains =
        files.map(|file| file.chains.iter().filter(|chain| !chain.keys.is_empty()).collect::<Vec<_>>());
    let mut by = MetBy::Only;
    if let Some(names) = names {
        let names = named(&chains, names)?;
        chains.iter_mut().zip(names).for_each(|(chains, name)| chains.retain(|chain| chain.name == name));
        by = MetBy::Name;
    }
    for side in 0..2 {
        let addresses = own_addresses(files[1 - side]);
        let is_for_peer = |chain: &Chain| {
            addresses
                .iter()
                .any(|address| chain.neighbors.iter().any(|known| known.address.contains(address)))
        };
        if chains[side].len() > 1 && chains[side].iter().any(|chain| is_for_peer(chain)) {
            chains[side].retain(|chain| is_for_peer(chain));
            by = MetBy::Address;
        }
    }
    let [ours, theirs] = &chains;
    let has_choice = ours.len() * theirs.len() > 1;
    // As many as the error shows and one more, because large files have millions.
    let mut left = Vec::new();
    let mut best = [0, 0];
    for chains in ours.iter().flat_map(|one| theirs.iter().map(move |other| [*one, *other])) {
        let score = if has_choice { in_common(chains) } else { best };
        if score > best {
            best = score;
            left.clear();
        }
        if score == best && left.len() <= SHOWN {
            left.push(chains);
        }
    }
    if best != [0, 0] {
        by = MetBy::Keys;
    }
    match left[..] {
        [[one, other]] => {
            let end = |file: &KeyFile, chain| ConfiguredEnd {
                chain,
                implementation: Implementation::reading(file.format),
            };
            Ok(Meeting { ends: [end(files[0], one), end(files[1], other)], by })
        }
        [] => Err(Error::text("one of the files has no key for TCP-AO")),
        _ => {
            let shown = left.iter().take(SHOWN).map(|[one, other]| format!("{}:{}", one.name, other.name));
            let mut shown: Vec<_> = shown.collect();
            shown.dedup();
            let more = if left.len() > SHOWN { ", ..." } else { "" };
            Err(Error::text(format!(
                "which key chains are those of the session is not certain: name them with --chain A:B ({}{more})",
                shown.join(", ")
            )))
        }
    }
}

/// Splits `names` into a chain name of the first file and one of the second.
fn named<'n>(chains: &[Vec<&Chain>; 2], names: &'n str) -> Result<[&'n str; 2], Error> {
    let has = |side: usize, name: &str| chains[side].iter().any(|chain| chain.name == name);
    // A name may have a colon itself.
    let split = names.match_indices(':').map(|(at, _)| [&names[..at], &names[at + 1..]]);
    let splits: Vec<_> = split.chain([[names, names]]).collect();
    if let Some(found) = splits.iter().find(|[one, other]| has(0, one) && has(1, other)) {
        return Ok(*found);
    }
    let side = usize::from(has(0, splits[0][0]));
    let (which, name) = (["first", "second"][side], splits[0][side]);
    let all: Vec<_> = chains[side].iter().map(|chain| chain.name.as_str()).collect();
    Err(Error::text(format!("the {which} file has no key chain {name:?}: it has {}", all.join(", "))))
}

/// The addresses of a file's router, without those that are also neighbors.
fn own_addresses(file: &KeyFile) -> Vec<&IpAddr> {
    let neighbors = file.chains.iter().flat_map(|chain| &chain.neighbors).map(|neighbor| neighbor.address);
    let hosts: HashSet<_> =
        neighbors.filter(IpCidr::is_host_address).map(|host| host.first_address()).collect();
    file.addresses.iter().filter(|address| !hosts.contains(address)).collect()
}

/// How many keys two chains have in common, and how many have at least matching ids.
fn in_common(chains: [&Chain; 2]) -> [usize; 2] {
    let crossed = pairs(chains).into_iter().filter(|pair| pair.relation == Relation::Crossed);
    let crossed: Vec<_> = crossed.filter_map(|pair| pair.both()).collect();
    let same = crossed.iter().filter(|[one, other]| Difference::between(one, other).is_empty()).count();
    [same, crossed.len()]
}
