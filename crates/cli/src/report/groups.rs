//! Connections that are not good, counted by reason and peer: what a report about many connections shows instead of each of them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use wireseal_tcp_ao::Endpoint;

use crate::capture::{Place, Scope};
use crate::verify::report::{ConnectionReport, Standing, failed, not_judged};

/// Up to this many connections, a report shows each of them.
pub(super) const FEW: u64 = 16;
/// How many reasons are kept, and how many pairs of peers of each: a forger can write any address. Further ones are counted together.
const REASONS: usize = 128;
const PEERS: usize = 256;
/// How many reasons are shown, and how many pairs of peers for each.
const REASONS_SHOWN: usize = 6;
const PEERS_SHOWN: usize = 4;

/// The connections with one standing.
#[derive(Default, Debug)]
pub(super) struct Groups {
    by_reason: HashMap<String, Group>,
    /// Connections with a reason beyond those that are kept.
    beyond: u64,
}

/// The connections with one reason.
#[derive(Debug)]
struct Group {
    all: Tally,
    by_peers: HashMap<Peers, Tally>,
}

/// Two peers without the opener's port, which is another one in each connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Peers {
    opener: IpAddr,
    listener: Endpoint,
    scope: Scope,
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.opener, self.listener)?;
        if self.scope.is_none() { Ok(()) } else { write!(f, " ({})", self.scope) }
    }
}

/// How many connections there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tally {
    connections: u64,
    /// Their segments that failed or were not judged; all of them if the connections did not open.
    segments: u64,
    /// Where the first of the connections begins.
    first: Place,
}

impl Tally {
    /// Adds another; connections come in the order in which they end.
    fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.segments += other.segments;
        if other.first.packet < self.first.packet {
            self.first = other.first;
        }
    }
}

/// A row of a table of reasons and peers.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) reason: String,
    pub(super) peers: String,
    pub(super) connections: u64,
    /// See [`Tally::segments`].
    pub(super) segments: u64,
    /// Where the first connection begins, if the row is about two peers.
    pub(super) first: Option<Place>,
}

/// Abbreviations in the kinds of diagnoses, which are in small letters there.
const ABBREVIATIONS: [&str; 10] = ["ack", "cmac", "id", "isn", "mac", "md5", "mss", "sne", "syn", "tcp"];

/// Why a connection has this standing: the kinds of its diagnoses in words, such as `options coverage, ISN not seen`.
pub(super) fn reason(connection: &ConnectionReport, standing: Standing) -> String {
    let mut kinds = Vec::new();
    for diagnosis in connection.diagnoses.iter().filter(|diagnosis| diagnosis.about == standing) {
        if !kinds.contains(&diagnosis.kind) {
            kinds.push(diagnosis.kind);
        }
    }
    if kinds.is_empty() {
        return "no reason found".to_owned();
    }
    let word = |word: &str| {
        if ABBREVIATIONS.contains(&word) { word.to_uppercase() } else { word.to_owned() }
    };
    let in_words = |kind: &&str| kind.split('-').map(word).collect::<Vec<_>>().join(" ");
    kinds.iter().map(in_words).collect::<Vec<_>>().join(", ")
}

impl Groups {
    /// Counts a connection with this standing.
    pub(super) fn add(&mut self, connection: &ConnectionReport, standing: Standing) {
        let reason = reason(connection, standing);
        if self.by_reason.len() >= REASONS && !self.by_reason.contains_key(&reason) {
            self.beyond += 1;
            return;
        }
        let counts = connection.counts();
        let segments = match standing {
            Standing::Failed => failed(&counts),
            Standing::NotJudged => not_judged(&counts),
            _ => counts.iter().sum(),
        };
        let one = Tally { connections: 1, segments, first: connection.first };
        let [opener, listener] = connection.ends;
        let peers = Peers { opener: opener.address(), listener, scope: connection.scope };
        let none = Tally { connections: 0, segments: 0, ..one };
        let group = self.by_reason.entry(reason).or_insert(Group { all: none, by_peers: HashMap::new() });
        group.all.add(&one);
        if let Some(tally) = group.by_peers.get_mut(&peers) {
            tally.add(&one);
        } else if group.by_peers.len() < PEERS {
            group.by_peers.insert(peers, one);
        }
    }

    /// A table with the most frequent reasons, each with the peers that have the most connections, and how many connections have other
    /// reasons.
    pub(super) fn table(&self) -> (Vec<Row>, u64) {
        let mut groups: Vec<_> = self.by_reason.iter().collect();
        groups.sort_unstable_by_key(|(reason, group)| (Reverse(group.all.connections), reason.as_str()));
        let others: u64 = groups.iter().skip(REASONS_SHOWN).map(|(_, group)| group.all.connections).sum();
        let shown = groups.into_iter().take(REASONS_SHOWN);
        (shown.flat_map(|(reason, group)| group.rows(reason)).collect(), others + self.beyond)
    }
}

impl Group {
    /// A row for each of the largest pairs of peers, and one for all others.
    fn rows(&self, reason: &str) -> Vec<Row> {
        let mut peers: Vec<_> = self.by_peers.iter().collect();
        peers.sort_unstable_by_key(|(peers, tally)| {
            (Reverse(tally.connections), tally.first.packet, peers.opener)
        });
        let row = |peers: String, tally: Tally, first| {
            let Tally { connections, segments, .. } = tally;
            Row { reason: reason.to_owned(), peers, connections, segments, first }
        };
        let mut left = self.all;
        let mut rows: Vec<_> = peers
            .into_iter()
            .take(PEERS_SHOWN)
            .map(|(peers, tally)| {
                left.connections -= tally.connections;
                left.segments -= tally.segments;
                row(peers.to_string(), *tally, Some(tally.first))
            })
            .collect();
        if left.connections > 0 {
            rows.push(row("all other peers".to_owned(), left, None));
        }
        rows
    }
}
