//! Where announced routes come from: a list of prefixes, an MRT dump, or a generator.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bgpkit_parser::BgpkitParser;
use bgpkit_parser::models::{
    AsPathSegment, Community, MetaCommunity, MrtMessage, RibEntry, TableDumpV2Message,
};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netgauze_bgp_pkt::path_attribute::Origin;

use crate::bgp::rib::{Attributes, Route};

/// MRT records start with a time stamp and then this type (RFC 6396 section 4.3).
const TABLE_DUMP_V2: [u8; 2] = [0, 13];
/// Prefixes that share attributes in generated routes, as in the Internet's table on average.
const PREFIXES_PER_PATH: u32 = 5;
/// Generated IPv4 prefixes start at 16.0.0.0 and stay below multicast, 256 addresses apart.
const MAX_GENERATED: usize = (224 - 16) << 16;

/// A routes file that cannot be used.
#[derive(Debug)]
pub enum RoutesError {
    /// The file cannot be read.
    Read {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// A line of a list is no route.
    Line {
        /// The file.
        file: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A record of an MRT dump cannot be read.
    Record {
        /// The file.
        file: PathBuf,
        /// The record's number, from 1.
        record: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The file is compressed.
    Compressed {
        /// The file.
        file: PathBuf,
    },
}

impl fmt::Display for RoutesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, error } => write!(f, "{}: cannot read: {error}", file.display()),
            Self::Line { file, line, problem } => write!(f, "{}: line {line}: {problem}", file.display()),
            Self::Record { file, record, problem } => {
                write!(f, "{}: MRT record {record}: {problem}", file.display())
            }
            Self::Compressed { file } => write!(f, "{}: compressed, unpack it first", file.display()),
        }
    }
}

impl std::error::Error for RoutesError {}

/// Reads routes from a file: an MRT RIB dump when it starts like one, otherwise a list of prefixes.
///
/// # Errors
/// [`RoutesError`], with the place in the file.
pub fn load(path: &Path) -> Result<Arc<[Route]>, RoutesError> {
    let unreadable = |error| RoutesError::Read { file: path.to_owned(), error };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut start = Vec::new();
    file.by_ref().take(6).read_to_end(&mut start).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    match start.as_slice() {
        [0x1f, 0x8b, ..] | [b'B', b'Z', b'h', ..] => Err(RoutesError::Compressed { file: path.to_owned() }),
        [_, _, _, _, kind @ ..] if kind == TABLE_DUMP_V2 => mrt(BufReader::new(file), path),
        _ => text(BufReader::new(file), path),
    }
}

/// Reads a list: one prefix on a line, then its next hop if it is not to be the speaker's own address; `#` starts a comment.
///
/// # Errors
/// [`RoutesError::Line`] for a line that is no route, [`RoutesError::Read`]. `file` only names the source in errors.
pub fn text(reader: impl BufRead, file: &Path) -> Result<Arc<[Route]>, RoutesError> {
    let mut shared: HashMap<Option<IpAddr>, Arc<Attributes>> = HashMap::new();
    let mut routes = Vec::new();
    for (index, line) in reader.lines().enumerate() {
        let problem = |problem: String| RoutesError::Line { file: file.to_owned(), line: index + 1, problem };
        let line = line.map_err(|error| problem(error.to_string()))?;
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(word) = words.next() else { continue };
        let prefix: IpNet = word.parse().map_err(|_| problem(format!("`{word}` is no prefix")))?;
        if prefix != prefix.trunc() {
            return Err(problem(format!("`{word}` has bits beyond its length, {} has not", prefix.trunc())));
        }
        let next_hop = match words.next() {
            None => None,
            Some(word) => Some(word.parse().map_err(|_| problem(format!("`{word}` is no address")))?),
        };
        if next_hop.is_some_and(|next_hop: IpAddr| next_hop.is_ipv4() != prefix.addr().is_ipv4()) {
            return Err(problem("prefix and next hop are of different families".to_owned()));
        }
        if let Some(word) = words.next() {
            return Err(problem(format!("`{word}` is one word too many")));
        }
        let attributes = shared
            .entry(next_hop)
            .or_insert_with(|| Arc::new(Attributes { next_hop, ..Attributes::default() }));
        routes.push(Route { prefix, attributes: Arc::clone(attributes) });
    }
    Ok(routes.into())
}

/// Reads an MRT RIB dump (RFC 6396, TABLE_DUMP_V2). Of each unicast prefix it takes the first path without an AS_SET; next
/// hops are left to the speaker, as those in the dump belong to another network.
///
/// # Errors
/// [`RoutesError::Record`] for a record that cannot be read. `file` only names the source in errors.
pub fn mrt(reader: impl Read, file: &Path) -> Result<Arc<[Route]>, RoutesError> {
    let mut routes = Vec::new();
    let mut last: Option<Arc<Attributes>> = None;
    for (index, record) in BgpkitParser::from_reader(reader).into_fallible_record_iter().enumerate() {
        let record = record.map_err(|error| RoutesError::Record {
            file: file.to_owned(),
            record: index + 1,
            problem: error.to_string(),
        })?;
        let MrtMessage::TableDumpV2Message(TableDumpV2Message::RibAfi(rib)) = record.message else {
            continue;
        };
        let Some(attributes) = rib.rib_entries.iter().find_map(entry_attributes) else { continue };
        // Neighbouring prefixes of a dump often have the same path.
        let attributes = match &last {
            Some(last) if **last == attributes => Arc::clone(last),
            _ => Arc::new(attributes),
        };
        last = Some(Arc::clone(&attributes));
        routes.push(Route { prefix: rib.prefix.prefix.trunc(), attributes });
    }
    Ok(routes.into())
}

fn entry_attributes(entry: &RibEntry) -> Option<Attributes> {
    let mut as_path = Vec::new();
    for segment in &entry.attributes.as_path()?.segments {
        let AsPathSegment::AsSequence(sequence) = segment else { return None };
        as_path.extend(sequence.iter().map(|asn| u32::from(*asn)));
    }
    let communities = entry.attributes.iter_communities().filter_map(|community| match community {
        MetaCommunity::Plain(Community::NoExport) => Some(0xffff_ff01),
        MetaCommunity::Plain(Community::NoAdvertise) => Some(0xffff_ff02),
        MetaCommunity::Plain(Community::NoExportSubConfed) => Some(0xffff_ff03),
        MetaCommunity::Plain(Community::Custom(asn, value)) => {
            Some((u32::from(asn) << 16) | u32::from(value))
        }
        _ => None,
    });
    Some(Attributes {
        origin: Origin::try_from(entry.attributes.origin() as u8).unwrap_or(Origin::Incomplete),
        as_path: as_path.into(),
        next_hop: None,
        multi_exit_discriminator: entry.attributes.multi_exit_discriminator(),
        local_preference: None,
        communities: communities.collect(),
    })
}

/// Makes `count` routes, always the same for the same count, and at most 13 million: four of five are IPv4 prefixes of 24
/// bits, one of five is an IPv6 prefix of 48 bits, the commonest lengths of the Internet's table. Every five share a path of
/// three to six AS numbers, most of them beyond 16 bits.
#[must_use]
pub fn generate(count: usize) -> Arc<[Route]> {
    let mut attributes = Arc::new(Attributes::default());
    (0_u32..)
        .take(count.min(MAX_GENERATED))
        .map(|number| {
            if number % PREFIXES_PER_PATH == 0 {
                attributes = Arc::new(generated_path(number / PREFIXES_PER_PATH));
            }
            Route { prefix: generated_prefix(number), attributes: Arc::clone(&attributes) }
        })
        .collect()
}

fn generated_prefix(number: u32) -> IpNet {
    if number % PREFIXES_PER_PATH == PREFIXES_PER_PATH - 1 {
        let address = (0x2a00_u128 << 112) | (u128::from(number) << 80);
        IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from(address), 48))
    } else {
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::from((16 << 24) + (number << 8)), 24))
    }
}

fn generated_path(number: u32) -> Attributes {
    let first = 1000 + number.wrapping_mul(7) % 50_000;
    let as_path = (0..3 + number % 4).map(|hop| first + hop * 65_536).collect();
    Attributes { as_path, ..Attributes::default() }
}
