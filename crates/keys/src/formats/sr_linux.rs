//! Nokia SR Linux configuration, as `info` prints it or as `set` commands: keychains of type `tcp-ao`, and the BGP neighbors that use them
//! (Nokia, YANG model srl_nokia-keychains, releases 20.6 to 26.3).
//!
//! TCP-AO in SR Linux is not proven: those models have the type, but accept no algorithm for it. Such keys are read, and that is said.

use std::collections::HashMap;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, OptionCoverage};

use super::chains::TOML;
use super::file::{Chain, ChainKey, Clock, Content, Preference, Remark, Secret, Skipped};
use super::peers::{Peers, Use};
use super::table::{Limits, Shows, Table, begins, first_line};
use super::tree::{Blocks, Dialect, Tree, Word, once, place, unescaped};
use crate::{Error, Lifetime};

pub(super) const TABLE: Table = Table {
    name: "sr-linux",
    about: "Nokia SR Linux configuration, with braces or as `set` commands",
    extension: None,
    shows: |text| {
        let line = first_line(text);
        // Names have quotes only if they need them.
        let is_keychain = line.starts_with("keychain ")
            && !line.starts_with("keychain \"")
            && line.ends_with('{')
            && !text.contains("tcp-option-number");
        let is_set = ["set / system", "set / network-instance"].iter().any(|start| line.starts_with(start));
        Shows::if_(begins(text, &["network-instance"]) || is_keychain || is_set)
    },
    read: |text, _| read(text),
    fit: TOML.fit,
    write: None,
    change: None,
    limits: Limits {
        name: "sr-linux",
        about: "Nokia SR Linux",
        title: "SR Linux",
        algorithm: |_| None,
        ..Limits::NONE
    },
};

const ALGORITHMS: [(&str, TcpAoAlgorithm); 2] =
    [("hmac-sha-1", TcpAoAlgorithm::HmacSha1), ("aes-128-cmac", TcpAoAlgorithm::Aes128Cmac)];
/// The algorithms that are for other protocols, or whose KDF is not documented.
const OTHERS: [&str; 5] = ["cleartext", "md5", "hmac-md5", "hmac-sha-256", "aes-256-cmac"];

/// The keychains of type `tcp-ao`, with the BGP neighbors that use them.
fn read(text: &str) -> Result<Content, Error> {
    let dialect = Dialect { blocks: Blocks::of_lines(text), depth: 64, block: |_| "block" };
    let (mut keychains, mut peers) = (Keychains::default(), Peers::default());
    Tree::read(text, &dialect)?.each::<Error>(|path, own, _| {
        // A command has its whole path, whatever block it stands in.
        let (path, own) = match &path[own..] {
            words @ [set, root, ..] if set.is("set") && root.is("/") => (words, 0),
            _ => (path, own),
        };
        let Some(at) = place(path, "keychain") else {
            if place(path, "bgp").is_some() {
                peers.add(user(path));
            }
            return Ok(());
        };
        let is_definition = path[..at]
            .iter()
            .all(|word| ["set", "/", "system", "authentication"].iter().any(|name| word.is(name)));
        match is_definition {
            true => keychains.take(path, at, own)?,
            false if place(path, "bgp").is_some() => peers.add(user(path)),
            false => {}
        }
        Ok(())
    })?;
    keychains.finish(peers)
}

/// What a statement says about BGP's peers: their keychain, or a neighbor's group.
fn user<'a>(path: &[Word<'a>]) -> Use<'a> {
    let after = |name| place(path, name).and_then(|at| path.get(at + 1)).copied();
    let vrf = after("network-instance").filter(|name| name.text() != "default");
    let peer = after("neighbor").or_else(|| after("dynamic-neighbors").and_then(|_| after("match")));
    let group = match peer {
        Some(_) => after("peer-group"),
        None => after("group"),
    };
    Use { protocol: "bgp", vrf, group, peer, keychain: after("keychain") }
}

#[derive(Default)]
struct Keychains<'a> {
    keychains: Vec<Keychain<'a>>,
    by_name: HashMap<&'a str, usize>,
}

struct Keychain<'a> {
    at: Word<'a>,
    name: Word<'a>,
    description: Option<String>,
    kind: Option<Word<'a>>,
    is_enabled: bool,
    keys: Vec<Key<'a>>,
    by_id: HashMap<u64, usize>,
    remarks: Vec<Remark>,
}

struct Key<'a> {
    at: Word<'a>,
    id: KeyId,
    algorithm: Option<Word<'a>>,
    secret: Option<Word<'a>>,
}

impl<'a> Keychains<'a> {
    /// Takes a statement of the keychain whose word is at this place. The words of the path from `own` on are its own.
    fn take(&mut self, path: &[Word<'a>], at: usize, own: usize) -> Result<(), Error> {
        let Some(name) = path.get(at + 1) else { return Ok(()) };
        let index = *self.by_name.entry(name.text()).or_insert_with(|| {
            self.keychains.push(Keychain {
                at: path[at],
                name: *name,
                description: None,
                kind: None,
                is_enabled: false,
                keys: Vec::new(),
                by_id: HashMap::new(),
                remarks: Vec::new(),
            });
            self.keychains.len() - 1
        });
        let keychain = &mut self.keychains[index];
        match &path[at + 2..] {
            [key, id, ..] if key.is("key") => {
                let number = id.number("key", u8::MAX.into())?;
                let index = *keychain.by_id.entry(number).or_insert(keychain.keys.len());
                if index == keychain.keys.len() {
                    let id = KeyId(number as u8);
                    keychain.keys.push(Key { at: *key, id, algorithm: None, secret: None });
                }
                let words = &path[own.max(at + 4)..];
                let unknown = keychain.keys[index].take(words)?;
                keychain.remarks.extend(unknown.map(|word| Remark::not_understood(word.position())));
            }
            _ => keychain.take(&path[own.max(at + 2)..]),
        }
        Ok(())
    }

    fn finish(self, peers: Peers<'a>) -> Result<Content, Error> {
        let (mut neighbors, remarks) = peers.by_keychain();
        let mut content = Content { remarks, ..Content::default() };
        for keychain in self.keychains {
            if !keychain.kind.is_some_and(|kind| kind.is("tcp-ao")) {
                let what = "a key of a keychain that is not of type tcp-ao";
                content
                    .skipped
                    .extend(keychain.keys.iter().map(|key| Skipped { position: key.at.position(), what }));
                continue;
            }
            let name = unescaped(&keychain.name).as_str().to_owned();
            let at = Some(keychain.at.position());
            if !keychain.is_enabled {
                let sentence = "it is disabled, as keychains are by default, so its keys are left out: write \"admin-state enable\"";
                content.keep_remarks(&name, [Remark::warning("not-in-use", at, sentence)]);
                continue;
            }
            let mut remarks = keychain.remarks;
            let sentence = "no published model of SR Linux (20.6 to 26.3) accepts an algorithm for a keychain of type tcp-ao, so TCP-AO \
                            in SR Linux is not proven";
            remarks.push(Remark::warning("refused", at, sentence));
            let mut keys = Vec::with_capacity(keychain.keys.len());
            for key in &keychain.keys {
                keys.extend(key.finish(&mut remarks)?);
            }
            if keys.is_empty() {
                content.keep_remarks(&name, remarks);
                continue;
            }
            content.chains.push(Chain {
                neighbors: neighbors.remove(&name).unwrap_or_default(),
                name,
                description: keychain.description,
                accept_tolerance: 0,
                keys,
                remarks,
            });
        }
        Ok(content)
    }
}

impl<'a> Keychain<'a> {
    fn take(&mut self, words: &[Word<'a>]) {
        match words {
            [] => {}
            [name, kind] if name.is("type") => self.kind = Some(*kind),
            [name, state] if name.is("admin-state") => self.is_enabled = state.is("enable"),
            [name, text] if name.is("description") => {
                self.description = Some(unescaped(text).as_str().to_owned());
            }
            // The model allows no other for this type.
            [name, zero] if name.is("tolerance") && zero.is("0") => {}
            [first, ..] => self.remarks.push(Remark::not_understood(first.position())),
        }
    }
}

impl<'a> Key<'a> {
    /// Takes its words, up to one that is not understood.
    fn take(&mut self, mut words: &[Word<'a>]) -> Result<Option<Word<'a>>, Error> {
        while let [name, rest @ ..] = words {
            let slot = match () {
                () if name.is("algorithm") => &mut self.algorithm,
                () if name.is("authentication-key") => &mut self.secret,
                () => return Ok(Some(*name)),
            };
            let [value, rest @ ..] = rest else {
                return Err(name.expected("key", "a value after this word"));
            };
            once(slot, *value, name, "key")?;
            words = rest;
        }
        Ok(None)
    }

    /// The key, which has one id for both directions and no lifetimes; `None` with a remark if its algorithm is not one of TCP-AO.
    fn finish(&self, remarks: &mut Vec<Remark>) -> Result<Option<ChainKey>, Error> {
        let word = self.algorithm.ok_or_else(|| self.at.missing("algorithm"))?;
        let Some((_, algorithm)) = ALGORITHMS.into_iter().find(|(name, _)| word.is(name)) else {
            let name = OTHERS.into_iter().find(|name| word.is(name));
            let name = name.ok_or_else(|| word.expected("algorithm", "hmac-sha-1 or aes-128-cmac"))?;
            remarks.push(Remark::unknown_kdf(self.at.position(), name, "Nokia").of_key(self.id.0.into()));
            return Ok(None);
        };
        let secret = self.secret.ok_or_else(|| self.at.missing("authentication-key"))?;
        let text = unescaped(&secret);
        Ok(Some(ChainKey {
            position: Some(self.at.position()),
            key_id: self.id.0.into(),
            send_id: self.id,
            recv_id: self.id,
            algorithm,
            mac_length: 12,
            options: OptionCoverage::Covered,
            secret: match () {
                () if text.ends_with(" hash") => Secret::encrypted("hash"),
                () if text.starts_with("$aes") => Secret::encrypted("$aes1$"),
                () => Secret::text(&text),
            },
            send: Lifetime::ALWAYS,
            accept: Lifetime::ALWAYS,
            clock: Clock::Utc,
            preference: Preference::Ordinary,
        }))
    }
}
