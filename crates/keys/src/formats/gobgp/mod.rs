//! GoBGP's configuration in TOML, YAML or JSON: `keychains`, and the neighbors and peer groups with `tcp-ao` (GoBGP,
//! docs/sources/tcp-ao.md and tools/pyang_plugins/gobgp.yang).

mod change;
mod write;

use std::collections::{BTreeSet, HashMap, HashSet};

use base64ct::{Base64, Encoding};
use cidr::IpCidr;
use wireseal_tcp_ao::{KeyId, MAX_MASTER_KEY_LENGTH, OptionCoverage};
use zeroize::Zeroizing;

use self::write::{ALGORITHMS, SEND_ID, algorithm_name};
use super::file::{
    Chain, ChainKey, Clock, Content, LINK_LOCAL, Neighbor, Notation, Preference, Remark, Secret,
};
use super::table::{Change, Limits, SendingRule, Shows, Table, Written, first_line};
use super::values::{Value, has_member};
use super::write::written;
use super::yaml;
use crate::{Error, Lifetime, Position, Problem};

pub(super) const TABLE: Table = Table {
    name: "gobgp",
    about: "GoBGP configuration, in TOML, YAML or JSON",
    extension: Some(&["toml", "json", "yaml", "yml"]),
    shows,
    read: |text, _| read(text),
    fit: write::that_can_be,
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    change: Some(Change {
        written: Written::Edited(|text, before, after| {
            let edited = change::edited(&values(text)?, text, before, after)?;
            is_changed(read(text)?, after, &read(&edited)?).then_some(edited).ok_or_else(change::lost)
        }),
        apply: change::APPLY,
        show: change::SHOW,
    }),
    limits: Limits {
        name: "gobgp",
        about: "GoBGP, which uses Linux's TCP-AO",
        title: "GoBGP",
        options_setting: "exclude-tcp-options = false",
        algorithm: |algorithm| {
            let name = ALGORITHMS.into_iter().find(|(_, known, _)| *known == algorithm);
            name.map(|(name, ..)| name)
        },
        has_mac: |algorithm, mac_length| algorithm_name(algorithm, mac_length).is_some(),
        max_secret: Some(MAX_MASTER_KEY_LENGTH),
        sending: SendingRule::Rank,
        ..Limits::NONE
    },
};

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

/// Whether the new text has the keys of `after`, and of all other keychains what the old one has.
fn is_changed(old: Content, after: &Chain, new: &Content) -> bool {
    let is_same_key =
        |one: &ChainKey, new: &ChainKey| ChainKey { key_id: new.key_id, ..one.clone() }.is_same_key(new);
    let is_same = |chain: &Chain, new: &Chain| {
        let keys = || chain.keys.iter().zip(&new.keys);
        (&chain.name, &chain.neighbors, chain.keys.len()) == (&new.name, &new.neighbors, new.keys.len())
            && keys().all(|(one, new)| is_same_key(one, new))
    };
    let expected = old.chains.iter().map(|chain| if chain.name == after.name { after } else { chain });
    old.chains.len() == new.chains.len() && expected.zip(&new.chains).all(|(chain, new)| is_same(chain, new))
}
