//! The keys of an IOS XE key chain, and what its neighbors say about them (Cisco, IP Routing Protocol-Independent Command Reference).

use std::collections::HashMap;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::OptionCoverage;

use super::super::cisco;
use super::super::file::{Chain, ChainKey, Clock, Neighbor, Preference, Remark, Secret, several};
use super::super::tree::{Word, once};
use crate::{Error, Lifetime, Position};

/// The names of its algorithms. It has `hmac-sha-256` too, whose KDF Cisco does not document.
const ALGORITHMS: [(&str, TcpAoAlgorithm); 2] =
    [("aes-128-cmac", TcpAoAlgorithm::Aes128Cmac), ("hmac-sha-1", TcpAoAlgorithm::HmacSha1)];
const UNKNOWN_KDF: &str = "hmac-sha-256";

/// Its name of an algorithm, if it has it.
pub(super) fn name_of(algorithm: TcpAoAlgorithm) -> Option<&'static str> {
    ALGORITHMS.iter().find(|(_, known)| *known == algorithm).map(|(name, _)| *name)
}

/// Octets of the MAC of both algorithms.
pub(super) const MAC_LENGTH: usize = 12;
/// The largest number of a key in a chain.
pub(super) const MAX_KEY_ID: u64 = 2_147_483_647;
/// At a key or a neighbor: segments and connections whose MAC is missing or wrong are accepted.
pub(super) const MISMATCH: &str = "accept-ao-mismatch";

/// `ao CHAIN [include-tcp-options] [accept-ao-mismatch]` of a neighbor, a group or a template.
#[derive(Clone, Copy)]
pub(super) struct Ao<'a> {
    pub(super) at: Word<'a>,
    pub(super) chain: &'a str,
    pub(super) includes_options: bool,
    pub(super) accepts_mismatch: bool,
}

/// A key chain with its commands, for TCP-AO or not.
pub(super) struct ChainDraft<'a> {
    pub(super) at: Word<'a>,
    pub(super) name: &'a str,
    pub(super) is_tcp: bool,
    pub(super) keys: Vec<KeyDraft<'a>>,
    pub(super) by_id: HashMap<&'a str, usize>,
    pub(super) remarks: Vec<Remark>,
}

/// The commands of a key. They are read only once the chain is known to be for TCP-AO.
pub(super) struct KeyDraft<'a> {
    pub(super) at: Word<'a>,
    pub(super) id: Word<'a>,
    pub(super) commands: Vec<Vec<Word<'a>>>,
}

impl ChainDraft<'_> {
    /// Adds the chain, once for those of its users whose sessions cover TCP options and once for the others.
    pub(super) fn finish(
        mut self,
        users: &[(Option<Neighbor>, Ao<'_>)],
        lines: &[&str],
        chains: &mut Vec<Chain>,
    ) -> Result<(), Error> {
        let mut keys = Vec::with_capacity(self.keys.len());
        // Where keys say that TCP options are covered.
        let mut included: Vec<Option<Position>> = Vec::with_capacity(self.keys.len());
        for draft in &self.keys {
            let mut includes = None;
            if let Some(key) = draft.finish(lines, &mut includes, &mut self.remarks)? {
                keys.push(key);
                included.push(includes);
            }
        }
        if self.keys.is_empty() {
            let remark = Remark::warning("missing", Some(self.at.position()), "has no key");
            self.remarks.push(remark.lost());
        }
        let lax: Vec<_> = users.iter().filter(|(_, ao)| ao.accepts_mismatch).collect();
        if let Some((_, ao)) = lax.first() {
            let neighbors = lax.iter().filter_map(|(neighbor, _)| neighbor.as_ref());
            self.remarks.push(Remark::accepts_mismatch(Some(ao.at.position()), several(neighbors), MISMATCH));
        }
        let has_neighbors = users.iter().any(|(neighbor, _)| neighbor.is_some());
        let all_included = included.iter().all(Option::is_some);
        let users = users.iter().filter(|(neighbor, _)| neighbor.is_some() || !has_neighbors);
        let (covered, others): (Vec<_>, Vec<_>) =
            users.partition(|(_, ao)| ao.includes_options || all_included);
        for (is_covered, users) in [(true, &covered), (false, &others)] {
            if users.is_empty() && (is_covered || !covered.is_empty()) {
                continue;
            }
            let mut remarks = self.remarks.clone();
            let without = users.iter().find(|(_, ao)| !ao.includes_options);
            let with = users.iter().find(|(_, ao)| ao.includes_options);
            if let (Some(_), Some(at)) = (without, included.iter().flatten().next()) {
                let sentence = "include-tcp-options is written at a key and not at its neighbors, where Cisco's guide says \
                                that it must be: it is disputed, so write it at both";
                remarks.push(Remark::warning("disputed", Some(*at), sentence));
            } else if let (Some((_, ao)), false) = (with, all_included) {
                let sentence = "include-tcp-options is written at the neighbor and not at each key, where some routers need \
                                it: it is disputed, so write it at both";
                remarks.push(Remark::warning("disputed", Some(ao.at.position()), sentence).into_note());
            }
            let keys = keys.iter().zip(&included).map(|(key, included): (&ChainKey, _)| ChainKey {
                options: match is_covered || included.is_some() {
                    true => OptionCoverage::Covered,
                    false => OptionCoverage::Excluded,
                },
                ..key.clone()
            });
            chains.push(Chain {
                name: self.name.to_owned(),
                neighbors: users.iter().filter_map(|(neighbor, _)| neighbor.clone()).collect(),
                keys: keys.collect(),
                remarks,
                ..Chain::default()
            });
        }
        Ok(())
    }
}

impl KeyDraft<'_> {
    /// The key, without its coverage of TCP options; nothing for one whose KDF is not known.
    fn finish(
        &self,
        lines: &[&str],
        included: &mut Option<Position>,
        remarks: &mut Vec<Remark>,
    ) -> Result<Option<ChainKey>, Error> {
        let key_id = self.id.number("key", MAX_KEY_ID)?;
        let (mut send_id, mut recv_id, mut algorithm, mut secret) = (None, None, None, None);
        let (mut send, mut accept) = (None, None);
        for command in &self.commands {
            let Some((name, values)) = command.split_first() else { continue };
            match values {
                [id] if name.is("send-id") => once(&mut send_id, id.key_id("send-id")?, name, "send-id")?,
                [id] if name.is("recv-id") => once(&mut recv_id, id.key_id("recv-id")?, name, "recv-id")?,
                [value] if name.is("cryptographic-algorithm") => {
                    once(&mut algorithm, *value, name, "cryptographic-algorithm")?;
                }
                _ if name.is("key-string") => {
                    once(&mut secret, key_string(name, values, lines)?, name, "key-string")?;
                }
                _ if name.is("send-lifetime") => {
                    once(&mut send, lifetime(name, values, "send-lifetime")?, name, "send-lifetime")?;
                }
                _ if name.is("accept-lifetime") => {
                    once(&mut accept, lifetime(name, values, "accept-lifetime")?, name, "accept-lifetime")?;
                }
                [] if name.is("include-tcp-options") => *included = Some(name.position()),
                [] if name.is(MISMATCH) => {
                    let at = Some(name.position());
                    remarks.push(Remark::accepts_mismatch(at, "its neighbors", MISMATCH).of_key(key_id));
                }
                // This is the default.
                [value] if name.is("no") && (value.is("include-tcp-options") || value.is(MISMATCH)) => {}
                _ => remarks.push(Remark::not_understood(name.position()).of_key(key_id)),
            }
        }
        let missing = |field| self.at.missing(field);
        let (send_id, recv_id) =
            (send_id.ok_or_else(|| missing("send-id"))?, recv_id.ok_or_else(|| missing("recv-id"))?);
        let secret = secret.ok_or_else(|| missing("key-string"))?;
        let algorithm = algorithm.ok_or_else(|| missing("cryptographic-algorithm"))?;
        if algorithm.is(UNKNOWN_KDF) {
            let remark = Remark::unknown_kdf(self.at.position(), UNKNOWN_KDF, "Cisco");
            remarks.push(remark.of_key(key_id));
            return Ok(None);
        }
        let known = ALGORITHMS.iter().find(|(name, _)| algorithm.is(name)).map(|(_, known)| *known);
        if let (Some((_, Clock::Local)), Some((_, Clock::Utc)))
        | (Some((_, Clock::Utc)), Some((_, Clock::Local))) = (send, accept)
        {
            let sentence =
                "one of its lifetimes is in local time and the other is not: both are taken as local";
            remarks.push(Remark::warning("local-time", Some(self.at.position()), sentence).of_key(key_id));
        }
        let (send, accept) = (send.unwrap_or_default(), accept.unwrap_or_default());
        Ok(Some(ChainKey {
            position: Some(self.at.position()),
            key_id,
            send_id,
            recv_id,
            algorithm: known.map_or_else(|| algorithm.algorithm("cryptographic-algorithm"), Ok)?,
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Excluded,
            secret,
            send: send.0,
            accept: accept.0,
            clock: if Clock::Local == send.1 || Clock::Local == accept.1 { Clock::Local } else { Clock::Utc },
            preference: Preference::Ordinary,
        }))
    }
}

/// `[0] LINE`, `7 TYPE-7`, or `6 TYPE-6`, which only the router can decrypt. A plain secret goes on to the end of its line.
fn key_string(at: &Word<'_>, values: &[Word<'_>], lines: &[&str]) -> Result<Secret, Error> {
    let is_type = |word: &Word<'_>| word.text().len() == 1 && word.text().bytes().all(|c| c.is_ascii_digit());
    match values {
        [first, text, ..] if first.is("0") => Ok(Secret::text(rest_of_line(text, lines))),
        [first, _] if first.is("6") || first.is("7") => cisco::key_string(at, values),
        [first, _, ..] if is_type(first) => Err(first.expected("key-string", "0, 6 or 7, and the secret")),
        [] => Err(at.missing("key-string")),
        [first] if is_type(first) => Err(first.refused("key-string", "the secret is missing")),
        [first, ..] => Ok(Secret::text(rest_of_line(first, lines))),
    }
}

/// A line of the text from this word on, with the blanks at its end, which the router takes too.
fn rest_of_line<'t>(word: &Word<'_>, lines: &[&'t str]) -> &'t str {
    let Position { line, column } = word.position();
    let line = lines.get(line - 1).copied().unwrap_or_default();
    let start = line.char_indices().nth(column - 1).map_or(line.len(), |(start, _)| start);
    line[start..].trim_end_matches('\r')
}

/// `[local] TIME DATE` and what may follow.
fn lifetime(at: &Word<'_>, values: &[Word<'_>], field: &'static str) -> Result<(Lifetime, Clock), Error> {
    match values {
        [local, values @ ..] if local.is("local") => Ok((cisco::lifetime(at, values, field)?, Clock::Local)),
        _ => Ok((cisco::lifetime(at, values, field)?, Clock::Utc)),
    }
}
