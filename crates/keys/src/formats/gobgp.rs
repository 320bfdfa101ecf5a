//! GoBGP's configuration in TOML, YAML or JSON: `keychains`, and the neighbors and peer groups with `tcp-ao` (GoBGP,
//! docs/sources/tcp-ao.md and tools/pyang_plugins/gobgp.yang).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::{self, Write};

use base64ct::{Base64, Encoding};
use cidr::IpCidr;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MAX_MASTER_KEY_LENGTH, OptionCoverage};
use zeroize::Zeroizing;

use super::file::{
    Chain, ChainKey, Clock, Content, LINK_LOCAL, Neighbor, Notation, Preference, Remark, Secret,
    is_link_local,
};
use super::table::{Limits, SendingRule, Shows, Table, first_line};
use super::values::{Value, has_member};
use super::write::{Names, written};
use super::yaml;
use crate::toml::write_string;
use crate::{Error, Lifetime, Position, Problem};

pub(super) const TABLE: Table = Table {
    name: "gobgp",
    about: "GoBGP configuration, in TOML, YAML or JSON",
    extension: Some(&["toml", "json", "yaml", "yml"]),
    shows,
    read: |text, _| read(text),
    fit: that_can_be,
    write: Some(|chains, losses| {
        Ok(written(chains, |text| write(text, chains, losses).expect("a String takes every write")))
    }),
    change: None,
    limits: Limits {
        name: "gobgp",
        about: "GoBGP, which uses Linux's TCP-AO",
        title: "GoBGP",
        options_setting: "exclude-tcp-options = false",
        algorithm: |algorithm| {
            let name = ALGORITHMS.into_iter().find(|(_, known, _)| *known == algorithm);
            name.map(|(name, ..)| name)
        },
        mac_lengths: [12, 16],
        has_mac: |algorithm, mac_length| algorithm_name(algorithm, mac_length).is_some(),
        max_secret: Some(MAX_MASTER_KEY_LENGTH),
        sending: SendingRule::Rank,
        ..Limits::NONE
    },
};

/// The names of `crypto-algorithm`, with the octets of their MACs. GoBGP sets Linux's algorithms, KDF included.
const ALGORITHMS: [(&str, TcpAoAlgorithm, usize); 4] = [
    ("hmac_sha_1_96", TcpAoAlgorithm::HmacSha1, 12),
    ("aes_128_cmac_96", TcpAoAlgorithm::Aes128Cmac, 12),
    ("hmac_sha_256_96", TcpAoAlgorithm::LinuxHmacSha256, 12),
    ("hmac_sha_256_128", TcpAoAlgorithm::LinuxHmacSha256, 16),
];

fn algorithm_name(algorithm: TcpAoAlgorithm, mac_length: usize) -> Option<&'static str> {
    let known =
        ALGORITHMS.into_iter().find(|(_, known, length)| (*known, *length) == (algorithm, mac_length));
    known.map(|(name, ..)| name)
}

fn shows(text: &str) -> Shows {
    let line = first_line(text).trim_end();
    let tables = ["keychains", "global.", "neighbors", "peer-groups", "dynamic-neighbors"];
    let is_table =
        line.starts_with('[') && tables.iter().any(|name| line.trim_start_matches('[').starts_with(name));
    let member = line.strip_prefix("keychains").map(str::trim_start);
    match () {
        () if is_table || member.is_some_and(|rest| rest.starts_with([':', '='])) => Shows::Certainly,
        () if ["global:", "neighbors:"].contains(&line) => Shows::Perhaps,
        // OpenConfig's chains are in a table, these are a list.
        () => Shows::if_(has_member(text, "keychains", '[')),
    }
}

fn values(text: &str) -> Result<Value, Error> {
    let lines = text.lines().map(str::trim_start);
    let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap_or_default();
    match () {
        () if first.starts_with('{') => Value::from_json(text),
        // Of YAML's first lines, none has an equals sign before a colon.
        () if first.starts_with('[') || first.split(':').next().is_some_and(|start| start.contains('=')) => {
            Value::from_toml(text)
        }
        () => yaml::read(text),
    }
}

/// A neighbor's or a peer group's `tcp-ao`.
#[derive(Clone)]
struct Attachment {
    keychain: String,
    send_id: Option<KeyId>,
    position: Position,
}

/// The configuration as far as it was read.
#[derive(Default)]
struct Reading {
    content: Content,
    /// The chains' places in the content, by name.
    chains: HashMap<String, usize>,
    /// For each chain, the SendIDs that its neighbors start with.
    send_ids: Vec<BTreeSet<u8>>,
    groups: HashMap<String, Attachment>,
    neighbors: HashSet<Neighbor>,
}

fn read(text: &str) -> Result<Content, Error> {
    let root = values(text)?;
    let list = |field| root.get(field).map_or(Ok(&[][..]), |value| value.list(field));
    let mut reading = Reading::default();
    list("keychains")?.iter().try_for_each(|chain| reading.chain(chain))?;
    list("peer-groups")?.iter().try_for_each(|group| reading.group(group))?;
    list("neighbors")?.iter().try_for_each(|neighbor| reading.neighbor(neighbor))?;
    list("dynamic-neighbors")?.iter().try_for_each(|range| reading.range(range))?;
    Ok(reading.finish())
}

/// The text of an inner table's member, unless it is missing or empty.
fn text<'a>(value: &'a Value, tables: &[&str], field: &'static str) -> Result<Option<&'a str>, Error> {
    let table = tables.iter().try_fold(value, |value, table| value.get(table));
    let text = table.and_then(|table| table.get(field)).map(|value| value.text(field)).transpose()?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// Remarks on the members that are not among the known ones: GoBGP refuses a file with unknown ones.
fn unknown(value: &Value, known: &[&str], remarks: &mut Vec<Remark>) {
    let unknown =
        value.members().iter().filter(|(name, _)| name != "state" && !known.contains(&name.as_str()));
    remarks.extend(unknown.map(|(_, value)| Remark::not_understood(value.position)));
}

impl Reading {
    fn chain(&mut self, value: &Value) -> Result<(), Error> {
        let config = value.get("config").ok_or_else(|| value.missing("config"))?;
        let name = config.get("name").ok_or_else(|| config.missing("name"))?;
        let mut chain = Chain { name: name.text("name")?.to_owned(), ..Chain::default() };
        if self.chains.insert(chain.name.clone(), self.content.chains.len()).is_some() {
            return Err(name.error("name", Problem::ChainTwice.into()).in_chain(&chain.name));
        }
        unknown(value, &["config", "keys"], &mut chain.remarks);
        unknown(config, &["name"], &mut chain.remarks);
        let keys = value.get("keys").map_or(Ok(&[][..]), |keys| keys.list("keys"));
        let keys = keys.map_err(|error| error.in_chain(&chain.name))?;
        // Allocate for all keys: a list that grew would leave secrets behind.
        chain.keys.reserve_exact(keys.len());
        for value in keys {
            let key = key(value, &mut chain.remarks).map_err(|error| error.in_chain(&chain.name))?;
            chain.keys.push(key);
        }
        if chain.keys.is_empty() {
            let sentence = format!("keychain {:?} has no keys, which GoBGP refuses", chain.name);
            self.content.remarks.push(Remark::warning("refused", Some(value.position), sentence));
        }
        self.content.chains.push(chain);
        self.send_ids.push(BTreeSet::new());
        Ok(())
    }

    fn attachment(&mut self, value: &Value) -> Result<Option<Attachment>, Error> {
        let Some(ao) = value.get("tcp-ao") else { return Ok(None) };
        unknown(ao, &["config"], &mut self.content.remarks);
        let Some(config) = ao.get("config") else { return Ok(None) };
        // Development versions of GoBGP had "preferred-send-id" before it became "send-id" in review.
        const SEND_ID: [&str; 2] = ["send-id", "preferred-send-id"];
        unknown(config, &["keychain", SEND_ID[0], SEND_ID[1]], &mut self.content.remarks);
        let mut send_ids = SEND_ID.into_iter().filter_map(|field| Some((field, config.get(field)?)));
        let send_id = send_ids.next().map(|(field, value)| value.key_id(field)).transpose()?;
        if let Some((field, value)) = send_ids.next() {
            return Err(value.error(field, Error::text("is given twice, as send-id too")));
        }
        let keychain = text(config, &[], "keychain")?.map(str::to_owned);
        Ok(keychain.map(|keychain| Attachment { keychain, send_id, position: config.position }))
    }

    fn group(&mut self, value: &Value) -> Result<(), Error> {
        let Some(attachment) = self.attachment(value)? else { return Ok(()) };
        if let Some(name) = text(value, &["config"], "peer-group-name")? {
            self.groups.insert(name.to_owned(), attachment);
        }
        Ok(())
    }

    fn neighbor(&mut self, value: &Value) -> Result<(), Error> {
        let own = self.attachment(value)?;
        let group = text(value, &["config"], "peer-group")?.and_then(|group| self.groups.get(group));
        let Some(attachment) = own.or_else(|| group.cloned()) else { return Ok(()) };
        let address = text(value, &["config"], "neighbor-address")?;
        let link = text(value, &["config"], "neighbor-interface")?;
        let bound = text(value, &["transport", "config"], "bind-interface")?;
        let (address, interface) = match (address, link) {
            (Some(address), _) => {
                let (address, zone) =
                    address.split_once('%').map_or((address, None), |(it, zone)| (it, Some(zone)));
                (address.parse().ok().map(IpCidr::new_host), zone.or(bound))
            }
            // GoBGP asks the system which link-local address the neighbor has.
            (None, Some(link)) => (LINK_LOCAL.parse().ok(), Some(link)),
            (None, None) => (None, None),
        };
        let Some(address) = address else {
            self.content.remarks.push(Remark::not_understood(value.position));
            return Ok(());
        };
        if text(value, &["config"], "auth-password")?.is_some() {
            let sentence = "GoBGP refuses a neighbor with both tcp-ao and auth-password";
            self.content.remarks.push(Remark::warning("refused", Some(value.position), sentence));
        }
        let vrf = text(value, &["config"], "vrf")?.map(str::to_owned);
        self.attach(Neighbor { vrf, address, interface: interface.map(str::to_owned) }, &attachment);
        Ok(())
    }

    fn range(&mut self, value: &Value) -> Result<(), Error> {
        let group = text(value, &["config"], "peer-group")?.and_then(|group| self.groups.get(group));
        let Some(attachment) = group.cloned() else { return Ok(()) };
        match text(value, &["config"], "prefix")?.and_then(|prefix| prefix.parse::<IpCidr>().ok()) {
            Some(prefix) => self.attach(prefix.into(), &attachment),
            None => self.content.remarks.push(Remark::not_understood(value.position)),
        }
        Ok(())
    }

    /// Adds a neighbor to its chain.
    fn attach(&mut self, neighbor: Neighbor, attachment: &Attachment) {
        let mut refused = |sentence: String| {
            self.content.remarks.push(Remark::warning("refused", Some(attachment.position), sentence));
        };
        if !self.neighbors.insert(neighbor.clone()) {
            return refused(format!("{neighbor} is configured twice"));
        }
        let Some(index) = self.chains.get(&attachment.keychain) else {
            let missing = Remark::missing(attachment.position, format_args!("the keychain of {neighbor}"));
            return self.content.remarks.push(missing);
        };
        let chain = &mut self.content.chains[*index];
        let has = |id| chain.keys.iter().any(|key| key.send_id == id);
        match attachment.send_id {
            Some(id) if has(id) => {
                self.send_ids[*index].insert(id.0);
            }
            Some(id) => {
                refused(format!("{neighbor} is to send with SendID {id}, which its keychain does not have"));
            }
            None => refused(format!("{neighbor} has no send-id, which GoBGP requires")),
        }
        chain.neighbors.push(neighbor);
    }

    /// The chains, in which the key that all neighbors start with is preferred.
    fn finish(mut self) -> Content {
        for (chain, send_ids) in self.content.chains.iter_mut().zip(&self.send_ids) {
            match send_ids.len() {
                0 => {}
                1 => {
                    let preferred = chain.keys.iter_mut().filter(|key| send_ids.contains(&key.send_id.0));
                    preferred.for_each(|key| key.preference = Preference::Preferred);
                }
                _ => {
                    let ids = send_ids.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
                    let sentence = format!("its neighbors start with different keys (send-id {ids})");
                    chain.remarks.push(Remark::warning("ranks", None, sentence).into_note().lost());
                }
            }
        }
        self.content.chains.retain(|chain| !chain.keys.is_empty());
        self.content
    }
}

fn key(value: &Value, remarks: &mut Vec<Remark>) -> Result<ChainKey, Error> {
    let config = value.get("config").ok_or_else(|| value.missing("config"))?;
    let member = |field| config.get(field).ok_or_else(|| config.missing(field));
    let send_id = member("key-id")?.key_id("key-id")?;
    let mut read = || {
        unknown(value, &["config"], remarks);
        let known = ["key-id", "receive-id", "crypto-algorithm", "secret-key", "exclude-tcp-options"];
        unknown(config, &known, remarks);
        let recv_id = member("receive-id")?.key_id("receive-id")?;
        let name = member("crypto-algorithm")?;
        let is_named =
            |(known, ..): &(&str, _, _)| name.text("crypto-algorithm").is_ok_and(|name| name == *known);
        let Some((_, algorithm, mac_length)) = ALGORITHMS.into_iter().find(is_named) else {
            let expected = ALGORITHMS.map(|(known, ..)| known).join(", ");
            return Err(name.error("crypto-algorithm", Error::text(format!("expected one of {expected}"))));
        };
        let excluded = config.get("exclude-tcp-options");
        let is_excluded = excluded.map_or(Ok(false), |value| value.flag("exclude-tcp-options"))?;
        Ok(ChainKey {
            position: Some(value.position),
            key_id: send_id.0.into(),
            send_id,
            recv_id,
            algorithm,
            mac_length,
            options: if is_excluded { OptionCoverage::Excluded } else { OptionCoverage::Covered },
            secret: secret(member("secret-key")?)?,
            send: Lifetime::ALWAYS,
            accept: Lifetime::ALWAYS,
            clock: Clock::Utc,
            preference: Preference::Ordinary,
        })
    };
    read().map_err(|error| error.in_key(send_id.0.into()))
}

fn secret(value: &Value) -> Result<Secret, Error> {
    let text = value.text("secret-key")?;
    let mut octets = Zeroizing::new(vec![0; text.len()]);
    let length = Base64::decode(text, &mut octets).map(<[u8]>::len);
    let length = length.map_err(|_| {
        value.error(
            "secret-key",
            Error::text("expected the secret in Base64, with \"=\" at its end if needed"),
        )
    })?;
    octets.truncate(length);
    Ok(Secret::new(octets, Notation::Base64))
}

/// The chain without keys whose ids another key has, and without neighbors that have a chain already.
fn that_can_be(mut chain: Chain, taken: &mut HashSet<Neighbor>, losses: &mut Vec<String>) -> Option<Chain> {
    let (mut send_ids, mut recv_ids) = (HashSet::new(), HashSet::new());
    let names: Vec<_> = chain.keys.iter().map(|key| chain.name_of(key)).collect();
    let mut names = names.iter();
    chain.keys.retain(|key| {
        let name = names.next().map_or("", String::as_str);
        let is_free = !send_ids.contains(&key.send_id) && !recv_ids.contains(&key.recv_id);
        if is_free {
            send_ids.insert(key.send_id);
            recv_ids.insert(key.recv_id);
        } else {
            losses.push(format!(
                "key {name} is left out: GoBGP refuses a second key with its SendID or RecvID"
            ));
        }
        is_free
    });
    chain.neighbors.retain(|neighbor| {
        let is_free = taken.insert(Neighbor::from(neighbor.address));
        if !is_free {
            losses.push(format!("chain {:?}: {neighbor}, which uses another chain", chain.name));
        }
        is_free
    });
    Some(chain)
}

/// Writes the chains, then their neighbors; prefixes as ranges of a peer group.
fn write(text: &mut String, chains: &[Chain], losses: &mut Vec<String>) -> fmt::Result {
    let mut names = Names::new(|_| true);
    text.push_str("# Add [global.config], and the peer-as of each neighbor and peer group.\n");
    for chain in chains {
        lose_what_gobgp_lacks(chain, losses);
        let name = names.name(chain, losses);
        text.push_str("\n[[keychains]]\n  [keychains.config]\n    ");
        write_string(text, "name", &name)?;
        chain.keys.iter().try_for_each(|key| write_key(text, key))?;
        let first = start(chain).map_or(KeyId(0), |key| key.send_id);
        let (hosts, ranges): (Vec<_>, Vec<_>) = chain.neighbors.iter().partition(|neighbor| is_one(neighbor));
        for neighbor in hosts {
            write_neighbor(text, neighbor)?;
            write_attachment(text, "neighbors", &name, first)?;
        }
        if ranges.is_empty() {
            continue;
        }
        text.push_str("\n[[peer-groups]]\n  [peer-groups.config]\n    ");
        write_string(text, "peer-group-name", &name)?;
        write_attachment(text, "peer-groups", &name, first)?;
        for range in ranges {
            for lost in [&range.vrf, &range.interface].into_iter().flatten() {
                losses.push(format!("chain {:?}: {lost} of {}", chain.name, range.address));
            }
            write!(
                text,
                "\n[[dynamic-neighbors]]\n  [dynamic-neighbors.config]\n    prefix = \"{:#}\"\n    ",
                range.address
            )?;
            write_string(text, "peer-group", &name)?;
        }
    }
    Ok(())
}

/// Whether it is a neighbor of its own, not a range of them.
fn is_one(neighbor: &Neighbor) -> bool {
    neighbor.address.is_host_address()
        || neighbor.interface.is_some() && LINK_LOCAL.parse() == Ok(neighbor.address)
}

/// The key that neighbors start with: a preferred one, or else the first that is not deprecated.
fn start(chain: &Chain) -> Option<&ChainKey> {
    chain.keys.iter().min_by_key(|key| key.preference)
}

fn lose_what_gobgp_lacks(chain: &Chain, losses: &mut Vec<String>) {
    let start = start(chain).map(|key| key.send_id);
    for key in &chain.keys {
        let name = chain.name_of(key);
        if key.key_id != u64::from(key.send_id.0) {
            losses.push(format!("key {name}: its number, because GoBGP identifies keys by their SendIDs"));
        }
        if (key.send, key.accept) != (Lifetime::ALWAYS, Lifetime::ALWAYS) {
            losses.push(format!("key {name}: its lifetimes, which GoBGP does not have"));
        }
        let is_start = Some(key.send_id) == start && !chain.neighbors.is_empty();
        match key.preference {
            Preference::Deprecated => {
                losses.push(format!("key {name}: its being deprecated, which GoBGP does not have"));
            }
            Preference::Preferred if !is_start => {
                losses
                    .push(format!("key {name}: its being preferred, which GoBGP has once for each neighbor"));
            }
            Preference::Ordinary if is_start => {
                losses.push(format!(
                    "key {name} is preferred, because GoBGP's neighbors need one key to start with"
                ));
            }
            _ => {}
        }
    }
    if chain.accept_tolerance != 0 {
        losses.push(format!("chain {:?}: its tolerance, which GoBGP does not have", chain.name));
    }
    if chain.description.is_some() {
        losses.push(format!("chain {:?}: its description, which GoBGP does not have", chain.name));
    }
}

fn write_key(text: &mut String, key: &ChainKey) -> fmt::Result {
    let octets = key.secret.expose();
    let mut base64 = Zeroizing::new(vec![0; Base64::encoded_len(octets)]);
    let secret = Base64::encode(octets, &mut base64).map_err(|_| fmt::Error)?;
    let algorithm = algorithm_name(key.algorithm, key.mac_length).unwrap_or_default();
    writeln!(
        text,
        "\n  [[keychains.keys]]\n    [keychains.keys.config]\n      key-id = {}\n      receive-id = {}\n      \
         crypto-algorithm = \"{algorithm}\"\n      secret-key = \"{secret}\"",
        key.send_id, key.recv_id
    )?;
    if key.options == OptionCoverage::Excluded {
        text.push_str("      exclude-tcp-options = true\n");
    }
    Ok(())
}

fn write_neighbor(text: &mut String, neighbor: &Neighbor) -> fmt::Result {
    let Neighbor { vrf, address, interface } = neighbor;
    text.push_str("\n[[neighbors]]\n  [neighbors.config]\n    ");
    let mut bound = None;
    match interface.as_deref() {
        Some(interface) if !address.is_host_address() => write_string(text, "neighbor-interface", interface)?,
        Some(interface) if is_link_local(address) => {
            write_string(text, "neighbor-address", &format!("{}%{interface}", address.first_address()))?;
        }
        interface => {
            bound = interface;
            writeln!(text, "neighbor-address = \"{}\"", address.first_address())?;
        }
    }
    if let Some(vrf) = vrf {
        text.push_str("    ");
        write_string(text, "vrf", vrf)?;
    }
    if let Some(interface) = bound {
        text.push_str("  [neighbors.transport.config]\n    ");
        write_string(text, "bind-interface", interface)?;
    }
    Ok(())
}

fn write_attachment(text: &mut String, of: &str, keychain: &str, send_id: KeyId) -> fmt::Result {
    write!(text, "  [{of}.tcp-ao.config]\n    ")?;
    write_string(text, "keychain", keychain)?;
    writeln!(text, "    send-id = {send_id}")
}
