//! Huawei VRP configuration: `keychain`, `tcp ao` and BGP's `peer ... tcp-ao policy` (Huawei, NetEngine 8000 and CloudEngine command
//! references, keychain and TCP-AO).
//!
//! A keychain has secrets, algorithms and lifetimes; `tcp ao` binds it and gives its keys their SendIDs and RecvIDs.

mod change;
mod write;

use std::collections::{HashMap, HashSet};

use wireseal_tcp_ao::{KeyId, OptionCoverage};

use self::write::{ALGORITHMS, FIRST_MOMENT, MAC_LENGTH, MAX_KEY_ID, MAX_TOLERANCE, name_of};
use super::file::{Chain, ChainKey, Clock, Content, Neighbor, Preference, Remark, Secret, Skipped};
use super::table::{Change, Limits, Shows, Table, Written, begins, first_line};
use super::tree::{self, Blocks, Dialect, Tree, Word, once, starts, without_prompt};
use super::write::written;
use crate::{Error, Lifetime, Position, Timestamp};

pub(super) const TABLE: Table = Table {
    name: "vrp",
    about: "Huawei VRP configuration",
    extension: None,
    shows: |text| {
        let words: Vec<_> = without_prompt(first_line(text)).split_whitespace().take(4).collect();
        match words[..] {
            ["keychain", _, "mode", _] => Shows::Certainly,
            // In IOS XR, "tcp ao" is alone or before "keychain NAME key ...".
            ["tcp", "ao", _] => Shows::Certainly,
            ["peer", _, "tcp-ao", _] => Shows::Certainly,
            _ if begins(text, &["tcp-kind", "tcp-algorithm-id"]) => Shows::Perhaps,
            _ => Shows::Nothing,
        }
    },
    read: |text, _| read(text),
    fit: |chain, _, losses| write::that_can_be(chain, losses),
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    change: Some(Change {
        written: Written::Commands(|text, before, after| {
            change::commands(&Tree::read(text, &DIALECT)?, before, after)
        }),
        apply: change::APPLY,
        show: change::SHOW,
    }),
    limits: Limits {
        name: "vrp",
        about: "Huawei VRP",
        title: "VRP",
        options_setting: "no option-authentication disable",
        algorithm: name_of,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        max_key_id: MAX_KEY_ID,
        max_secret: Some(255),
        ..Limits::NONE
    },
};

const DIALECT: Dialect =
    Dialect { blocks: Blocks::Ranks { rank, has_quotes: true }, depth: 64, block: |_| "view" };

/// Commands of a keychain or of `tcp ao`, but not of a key in them.
const OF_CHAINS: [&str; 9] = [
    "key-id",
    "receive-tolerance",
    "time",
    "digest-length",
    "tcp-kind",
    "tcp-algorithm-id",
    "binding",
    "accept-mismatch",
    "option-authentication",
];
/// Commands of a key.
const OF_KEYS: [&str; 6] = ["algorithm", "key-string", "send-time", "receive-time", "default", "send-id"];
/// Commands that say nothing about TCP-AO.
const OF_ALL: [&str; 3] = ["quit", "commit", "return"];
/// Commands of Comware's keychains, whose TCP option is not TCP-AO.
const OF_COMWARE: [&str; 6] = [
    "authentication-algorithm",
    "accept-lifetime",
    "send-lifetime",
    "accept-tolerance",
    "default-send-key",
    "key",
];

fn is_one(word: &Word<'_>, names: &[&str]) -> bool {
    names.iter().any(|name| word.is(name))
}

/// How deep a command is in a text without indentation.
fn rank(command: &[Word<'_>]) -> Option<usize> {
    match command {
        [tcp, ao, ..] if tcp.is("tcp") && ao.is("ao") => Some(1),
        [first, ..] if is_one(first, &["keychain", "bgp", "msdp", "mpls"]) => Some(1),
        [first, ..] if is_one(first, &OF_CHAINS) || is_one(first, &OF_ALL) => Some(2),
        [first, ..] if is_one(first, &["ipv4-family", "ipv6-family"]) => Some(2),
        [first, ..] if is_one(first, &OF_KEYS) || is_one(first, &["peer", "group", "authentication"]) => {
            Some(3)
        }
        _ => None,
    }
}

/// The policies of `tcp ao`, each with the keys of the keychain that it binds and the peers that use it.
fn read(text: &str) -> Result<Content, Error> {
    let mut drafts = Drafts::default();
    Tree::read(text, &DIALECT)?.each(|path, own, _| drafts.take(&path[..own], &path[own..]))?;
    drafts.finish()
}

#[derive(Default)]
struct Drafts<'a> {
    keychains: Vec<Keychain<'a>>,
    /// By their names in lower case: VRP does not tell upper from lower case there.
    by_keychain: HashMap<String, usize>,
    policies: Vec<Policy<'a>>,
    by_policy: HashMap<&'a str, usize>,
    /// BGP's peers and groups, in order.
    subjects: Vec<Subject<'a>>,
    by_subject: HashMap<(Option<&'a str>, &'a str), usize>,
    /// The policies of MSDP's and LDP's peers.
    others: Vec<(Word<'a>, Neighbor)>,
    remarks: Vec<Remark>,
}

#[derive(Default)]
struct Keychain<'a> {
    periodic: Option<Position>,
    /// By default, lifetimes are in the router's local time.
    is_utc: bool,
    tolerance: Option<u32>,
    keys: Vec<KeyDraft<'a>>,
    by_id: HashMap<u64, usize>,
    remarks: Vec<Remark>,
}

struct KeyDraft<'a> {
    at: Word<'a>,
    key_id: u64,
    /// They are read only once the key is known to be for TCP-AO.
    commands: Vec<Vec<Word<'a>>>,
    /// Whether a policy gives it ids.
    is_bound: bool,
}

struct Policy<'a> {
    /// Its name.
    at: Word<'a>,
    keychain: Option<Word<'a>>,
    ids: Vec<(u64, Word<'a>, Option<[KeyId; 2]>)>,
    options: OptionCoverage,
    remarks: Vec<Remark>,
}

/// A peer or a group of BGP.
struct Subject<'a> {
    vrf: Option<&'a str>,
    /// `None` for a group.
    neighbor: Option<Neighbor>,
    policy: Option<Word<'a>>,
    group: Option<&'a str>,
    /// Whether it does not use its group's policy.
    is_apart: bool,
}

impl<'a> Drafts<'a> {
    /// Takes a command; `around` are the words of the commands whose views it is in.
    fn take(&mut self, around: &[Word<'a>], own: &[Word<'a>]) -> Result<(), Error> {
        let Some(first) = own.first() else { return Ok(()) };
        let key_id = |from: usize| {
            let inside = &around[from..];
            inside.get(inside.iter().position(|word| word.is("key-id"))? + 1)
        };
        let vrf = around.iter().position(|word| word.is("vpn-instance"));
        let vrf = vrf.and_then(|at| around.get(at + 1)).map(Word::text);
        match (around, own) {
            (_, [keychain, name, mode @ ..]) if keychain.is("keychain") => {
                self.keychain(name).take_mode(mode);
                Ok(())
            }
            (_, [_, _, name]) if starts(own, &["tcp", "ao"]) => {
                self.policy(name);
                Ok(())
            }
            ([_, name, ..], _) if starts(around, &["keychain"]) => match key_id(2) {
                Some(id) if !is_one(first, &OF_CHAINS) => self.keychain(name).take_of_key(id, own),
                _ => self.keychain(name).take(own),
            },
            ([_, _, name, ..], _) if starts(around, &["tcp", "ao"]) => self.policy(name).take(key_id(3), own),
            (_, [peer, name, command @ ..])
                if peer.is("peer") && (around.is_empty() || starts(around, &["bgp"])) =>
            {
                self.take_peer(vrf, name, command);
                Ok(())
            }
            (_, [peer, address, tcp_ao, name])
                if starts(around, &["msdp"]) && peer.is("peer") && tcp_ao.is("tcp-ao") =>
            {
                self.others.extend(neighbor(vrf, address).map(|neighbor| (*name, neighbor)));
                Ok(())
            }
            (_, [_, _, _, id, word, name])
                if starts(around, &["mpls", "ldp"])
                    && starts(own, &["authentication", "tcp-ao", "peer"])
                    && word.is("name") =>
            {
                self.others.extend(neighbor(vrf, id).map(|neighbor| (*name, neighbor)));
                Ok(())
            }
            (_, [undo, what, ..])
                if undo.is("undo") && (what.is("keychain") || starts(&own[1..], &["tcp", "ao"])) =>
            {
                self.remarks.push(Remark::not_understood(undo.position()));
                Ok(())
            }
            // A part of a keychain without its first line, or another way to use a policy.
            _ if is_one(first, &["key-string", "send-time", "receive-time", "send-id"])
                || own.iter().any(|word| word.is("tcp-ao")) =>
            {
                self.remarks.push(Remark::not_understood(first.position()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn keychain(&mut self, name: &Word<'a>) -> &mut Keychain<'a> {
        let index = *self.by_keychain.entry(name.text().to_ascii_lowercase()).or_insert(self.keychains.len());
        if index == self.keychains.len() {
            self.keychains.push(Keychain::default());
        }
        &mut self.keychains[index]
    }

    fn policy(&mut self, at: &Word<'a>) -> &mut Policy<'a> {
        let index = *self.by_policy.entry(at.text()).or_insert(self.policies.len());
        if index == self.policies.len() {
            self.policies.push(Policy {
                at: *at,
                keychain: None,
                ids: Vec::new(),
                options: OptionCoverage::Covered,
                remarks: Vec::new(),
            });
        }
        &mut self.policies[index]
    }

    fn take_peer(&mut self, vrf: Option<&'a str>, name: &Word<'a>, command: &[Word<'a>]) {
        let index = *self.by_subject.entry((vrf, name.text())).or_insert(self.subjects.len());
        if index == self.subjects.len() {
            let neighbor = neighbor(vrf, name);
            self.subjects.push(Subject { vrf, neighbor, policy: None, group: None, is_apart: false });
        }
        let subject = &mut self.subjects[index];
        match command {
            [_, _, name] if starts(command, &["tcp-ao", "policy"]) => subject.policy = Some(*name),
            [_, _] if starts(command, &["tcp-ao", "disable"]) => subject.is_apart = true,
            // A peer has one kind of authentication.
            [other, ..] if is_one(other, &["keychain", "password"]) => subject.is_apart = true,
            [group, name, ..] if group.is("group") => subject.group = Some(name.text()),
            [first, ..] if first.is("tcp-ao") => {
                self.remarks.push(Remark::not_understood(first.position()));
            }
            _ => {}
        }
    }

    /// The neighbors of each policy, in order, each once.
    fn users(&self) -> Vec<(Word<'a>, Option<Neighbor>)> {
        let mut users = Vec::new();
        for subject in &self.subjects {
            let group = subject.group.filter(|_| !subject.is_apart);
            let group = group.and_then(|group| self.by_subject.get(&(subject.vrf, group)));
            let policy = subject.policy.or(group.and_then(|index| self.subjects[*index].policy));
            users.extend(policy.map(|policy| (policy, subject.neighbor.clone())));
        }
        users.extend(self.others.iter().map(|(policy, neighbor)| (*policy, Some(neighbor.clone()))));
        users
    }

    fn finish(mut self) -> Result<Content, Error> {
        let mut content = Content { remarks: std::mem::take(&mut self.remarks), ..Content::default() };
        let mut neighbors: HashMap<&str, Vec<Neighbor>> = HashMap::new();
        let mut seen = HashSet::new();
        for (policy, neighbor) in self.users() {
            if !self.by_policy.contains_key(policy.text()) {
                let what = format_args!("policy {:?} of \"tcp ao\"", policy.text());
                content.remarks.push(Remark::missing(policy.position(), what));
            }
            let neighbor = neighbor.filter(|neighbor| seen.insert((policy.text(), neighbor.clone())));
            neighbors.entry(policy.text()).or_default().extend(neighbor);
        }
        for policy in self.policies {
            let missing = |at: &Word<'_>, sentence| Remark::warning("missing", Some(at.position()), sentence);
            let Some(name) = policy.keychain else {
                content.remarks.push(missing(&policy.at, "the policy of \"tcp ao\" binds no keychain"));
                continue;
            };
            let Some(index) = self.by_keychain.get(&name.text().to_ascii_lowercase()) else {
                content
                    .remarks
                    .push(Remark::missing(name.position(), format_args!("keychain {:?}", name.text())));
                continue;
            };
            let keychain = &mut self.keychains[*index];
            let mut remarks = policy.remarks;
            remarks.extend(keychain.remarks());
            // Allocate for all keys: a list that grew would leave secrets behind.
            let mut keys = Vec::with_capacity(policy.ids.len());
            for (key_id, at, ids) in &policy.ids {
                let ids = ids.ok_or_else(|| at.missing("send-id"))?;
                let Some(index) = keychain.by_id.get(key_id).copied() else {
                    remarks
                        .push(Remark::missing(at.position(), format_args!("key {key_id} of its keychain")));
                    continue;
                };
                keychain.keys[index].is_bound = true;
                let key = keychain.finish(index, ids, &mut remarks)?;
                keys.extend(key.map(|key| ChainKey { options: policy.options, ..key }));
            }
            if policy.ids.is_empty() {
                remarks
                    .push(missing(&policy.at, "the policy of \"tcp ao\" gives no key of its keychain ids"));
            }
            if keys.is_empty() {
                content.keep_remarks(policy.at.text(), remarks);
                continue;
            }
            overlaps(&keys, &mut remarks);
            content.chains.push(Chain {
                name: policy.at.text().to_owned(),
                accept_tolerance: keychain.tolerance.unwrap_or(0),
                neighbors: neighbors.remove(policy.at.text()).unwrap_or_default(),
                keys,
                remarks,
                ..Chain::default()
            });
        }
        let keys = self.keychains.iter().flat_map(|keychain| &keychain.keys);
        let what = "a key without ids in \"tcp ao\"";
        let unbound = keys.filter(|key| !key.is_bound);
        content.skipped.extend(unbound.map(|key| Skipped { position: key.at.position(), what }));
        Ok(content)
    }
}

fn neighbor(vrf: Option<&str>, name: &Word<'_>) -> Option<Neighbor> {
    let address = name.text().parse().ok()?;
    Some(Neighbor { vrf: vrf.map(str::to_owned), address, interface: None })
}

/// Says which send-times overlap.
fn overlaps(keys: &[ChainKey], remarks: &mut Vec<Remark>) {
    let mut before: Vec<&ChainKey> = Vec::new();
    // A key that is always sent with is the default one, or has no send-time.
    for key in keys.iter().filter(|key| key.send != Lifetime::ALWAYS) {
        if let Some(other) = before.iter().find(|other| other.send.overlaps(&key.send)) {
            let sentence = format!("its send-time overlaps that of key {}, which VRP refuses", other.key_id);
            remarks.push(Remark::warning("refused", key.position, sentence).of_key(key.key_id));
        }
        before.push(key);
    }
}

impl<'a> Policy<'a> {
    fn take(&mut self, key_id: Option<&Word<'a>>, own: &[Word<'a>]) -> Result<(), Error> {
        match (key_id, own) {
            (_, [first, id]) if first.is("key-id") => {
                let key_id = id.number("key-id", MAX_KEY_ID)?;
                if !self.ids.iter().any(|(known, ..)| *known == key_id) {
                    self.ids.push((key_id, *first, None));
                }
            }
            (Some(key_id), [first, send_id, receive, receive_id])
                if first.is("send-id") && receive.is("receive-id") =>
            {
                let key_id = key_id.number("key-id", MAX_KEY_ID)?;
                let ids = [send_id.key_id("send-id")?, receive_id.key_id("receive-id")?];
                for (.., slot) in self.ids.iter_mut().filter(|(known, ..)| *known == key_id) {
                    once(slot, ids, first, "send-id")?;
                }
            }
            (_, [first, _, name]) if starts(own, &["binding", "keychain"]) => {
                once(&mut self.keychain, *name, first, "binding keychain")?;
            }
            (_, [first, state])
                if first.is("option-authentication") && is_one(state, &["enable", "disable"]) =>
            {
                let is_covered = state.is("enable");
                self.options = if is_covered { OptionCoverage::Covered } else { OptionCoverage::Excluded };
            }
            (_, [first, _]) if starts(own, &["accept-mismatch", "enable"]) => {
                let at = Some(first.position());
                self.remarks.push(Remark::accepts_mismatch(at, "its peers", "accept-mismatch enable"));
            }
            (_, [first, ..]) if !is_one(first, &OF_ALL) => {
                self.remarks.push(Remark::not_understood(first.position()));
            }
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Keychain<'a> {
    fn take_mode(&mut self, mode: &[Word<'a>]) {
        match mode {
            [] => {}
            [_, absolute] if absolute.is("absolute") => {}
            [_, periodic, ..] if periodic.is("periodic") => self.periodic = Some(periodic.position()),
            [first, ..] => self.remarks.push(Remark::not_understood(first.position())),
        }
    }

    fn take(&mut self, own: &[Word<'a>]) -> Result<(), Error> {
        let field = "receive-tolerance";
        match own {
            [first, id] if first.is("key-id") => {
                let key_id = id.number("key-id", MAX_KEY_ID)?;
                let index = *self.by_id.entry(key_id).or_insert(self.keys.len());
                if index == self.keys.len() {
                    self.keys.push(KeyDraft { at: *first, key_id, commands: Vec::new(), is_bound: false });
                }
            }
            [first, value] if first.is(field) => {
                let seconds = match value.is("infinite") {
                    true => u32::MAX,
                    false => 60 * value.number(field, MAX_TOLERANCE.into())? as u32,
                };
                once(&mut self.tolerance, seconds, first, field)?;
            }
            [first, _, value] if starts(own, &["receive-tolerance", "seconds"]) => {
                let seconds = value.number(field, u64::from(60 * MAX_TOLERANCE))? as u32;
                once(&mut self.tolerance, seconds, first, field)?;
            }
            [_, _, clock] if starts(own, &["time", "mode"]) && is_one(clock, &["utc", "lmt"]) => {
                self.is_utc = clock.is("utc");
            }
            [first, ..] if is_one(first, &OF_COMWARE) => {
                let reason = "this is a keychain of HPE/H3C Comware, whose TCP option is an older one: no TCP-AO (RFC 5925) of \
                              Comware is known";
                return Err(first.refused("keychain", reason));
            }
            // Only for the older option, or for algorithms that are left out.
            [first, ..] if is_one(first, &["tcp-kind", "tcp-algorithm-id", "digest-length"]) => {}
            [first, ..] if !is_one(first, &OF_ALL) => {
                self.remarks.push(Remark::not_understood(first.position()));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_of_key(&mut self, id: &Word<'a>, own: &[Word<'a>]) -> Result<(), Error> {
        let key_id = id.number("key-id", MAX_KEY_ID)?;
        let known = self.by_id.get(&key_id);
        known.into_iter().for_each(|index| self.keys[*index].commands.push(own.to_vec()));
        Ok(())
    }

    fn remarks(&self) -> Vec<Remark> {
        let sentence =
            "its keys are valid periodically, which no other format has: they are read as always valid";
        let periodic = self.periodic.map(|at| Remark::warning("assumed", Some(at), sentence).lost());
        self.remarks.iter().cloned().chain(periodic).collect()
    }

    /// The key with these ids; `None` if its algorithm is not one of RFC 5926, which the remarks then say.
    fn finish(
        &self,
        index: usize,
        [send_id, recv_id]: [KeyId; 2],
        remarks: &mut Vec<Remark>,
    ) -> Result<Option<ChainKey>, Error> {
        let key = &self.keys[index];
        let (mut secret, mut algorithm, mut send, mut accept, mut default) = (None, None, None, None, None);
        for command in &key.commands {
            let Some((name, values)) = command.split_first() else { continue };
            let is_timed = is_one(name, &["send-time", "receive-time"]);
            match values {
                [value] if name.is("algorithm") => once(&mut algorithm, *value, name, "algorithm")?,
                _ if name.is("key-string") => {
                    once(&mut secret, key_string(name, values)?, name, "key-string")?;
                }
                _ if is_timed && self.periodic.is_some() => {}
                _ if name.is("send-time") => {
                    once(&mut send, lifetime(name, values, "send-time")?, name, "send-time")?;
                }
                _ if name.is("receive-time") => {
                    once(&mut accept, lifetime(name, values, "receive-time")?, name, "receive-time")?;
                }
                [value] if name.is("default") && value.is("send-key-id") => default = Some(name.position()),
                _ if is_one(name, &OF_ALL) => {}
                _ => remarks.push(Remark::not_understood(name.position()).of_key(key.key_id)),
            }
        }
        let word = algorithm.ok_or_else(|| key.at.missing("algorithm"))?;
        let Some((algorithm, _)) = ALGORITHMS.iter().find(|(_, name)| word.is(name)) else {
            let remark = match () {
                () if word.is("hmac-sha1-20") => {
                    let why =
                        "its algorithm is hmac-sha1-20, whose MAC has 20 octets and Wireseal's at most 16";
                    Remark::left_out(word.position(), why)
                }
                () if is_one(&word, &UNDOCUMENTED) => {
                    Remark::unknown_kdf(word.position(), word.text(), "Huawei")
                }
                () => return Err(word.expected("algorithm", "hmac-sha1-12 or aes-128-cmac")),
            };
            remarks.push(remark.of_key(key.key_id));
            return Ok(None);
        };
        let position = Some(key.at.position());
        let say = |remark: Remark| remark.of_key(key.key_id);
        if let Some(at) = default {
            let sentence = "is also sent with when no other key's send-time is valid (default send-key-id)";
            remarks.push(say(Remark::warning("assumed", Some(at), sentence).into_note()));
        } else if send.is_none() && self.periodic.is_none() {
            let sentence = "has no send-time, so VRP does not send with it";
            remarks.push(say(Remark::warning("refused", position, sentence)));
        }
        if accept.is_none() && self.periodic.is_none() {
            let sentence = "has no receive-time, and is taken as always accepted";
            remarks.push(say(Remark::warning("assumed", position, sentence).into_note()));
        }
        Ok(Some(ChainKey {
            position,
            key_id: key.key_id,
            send_id,
            recv_id,
            algorithm: *algorithm,
            mac_length: MAC_LENGTH,
            options: OptionCoverage::Covered,
            secret: secret.ok_or_else(|| key.at.missing("key-string"))?,
            // The default key is sent with when no other is valid, as an always valid one is: keys that start later go before it.
            send: send.filter(|_| default.is_none()).unwrap_or_default(),
            accept: accept.unwrap_or_default(),
            clock: if self.is_utc { Clock::Utc } else { Clock::Local },
            preference: Preference::Ordinary,
        }))
    }
}

const UNDOCUMENTED: [&str; 8] =
    ["hmac-sha-256", "hmac-sha-384", "hmac-sha-512", "sha-256", "sm3", "md5", "sha-1", "hmac-md5"];

/// `[plain] TEXT`, or `cipher ...`, which only the router can decrypt.
fn key_string(at: &Word<'_>, values: &[Word<'_>]) -> Result<Secret, Error> {
    let field = "key-string";
    match values {
        [kind, _] if kind.is("cipher") => Ok(Secret::encrypted("cipher")),
        [kind, text] if kind.is("plain") => Ok(Secret::text(text.text())),
        // Configurations are often published without the secret.
        [kind] if is_one(kind, &["cipher", "plain"]) => Err(at.refused(field, "the secret is missing")),
        [text] => Ok(Secret::text(text.text())),
        _ => Err(at.expected(field, "plain or cipher, and one word or text in double quotes")),
    }
}

/// `HH:MM YYYY-MM-DD`, and `to HH:MM YYYY-MM-DD`, `duration MINUTES` or `duration infinite`.
fn lifetime(at: &Word<'_>, values: &[Word<'_>], field: &'static str) -> Result<Lifetime, Error> {
    let expected = "HH:MM YYYY-MM-DD and then to HH:MM YYYY-MM-DD, duration MINUTES or duration infinite";
    let expected = || at.expected(field, expected);
    let [time, date, kind, end @ ..] = values else { return Err(expected()) };
    let start = moment(time, date).ok_or_else(expected)?;
    let until = match end {
        [infinite] if kind.is("duration") && infinite.is("infinite") => None,
        [minutes] if kind.is("duration") => {
            Some(start.later_by(60 * minutes.number(field, MAX_MINUTES.into())? as u32))
        }
        [time, date] if kind.is("to") => Some(moment(time, date).ok_or_else(expected)?),
        _ => return Err(expected()),
    };
    Lifetime::new(Some(start).filter(|start| *start > FIRST_MOMENT), until)
        .map_err(|_| at.refused(field, "must end after it begins"))
}

/// The longest duration.
const MAX_MINUTES: u32 = 26_280_000;

fn moment(time: &Word<'_>, date: &Word<'_>) -> Option<Timestamp> {
    tree::moment(tree::date(date.text(), '-')?, time.text(), "Z")
}
