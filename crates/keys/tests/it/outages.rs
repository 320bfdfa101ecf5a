//! The simulation of two ends, against a model that looks at every moment, every skew and every offset of local time.

use proptest::prelude::*;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{
    Chain, ChainKey, Clock, ConfiguredEnd, Difference, Implementation, Lifetime, Notation, Outage,
    Preference, Reason, Secret, SendingRule, Side, Timestamp, outages,
};
use wireseal_tcp_ao::{KeyId, OptionCoverage};
use zeroize::Zeroizing;

/// All moments of these tests are multiples of this. Local times are uncertain by two of it.
const STEP: i64 = 7 * 3600;
/// How many steps are simulated.
const STEPS: i64 = 14;

fn moment(step: i64) -> Timestamp {
    Timestamp::from_unix_seconds(1_800_000_000 + step * STEP)
}

fn lifetime([from, until]: [Option<i64>; 2]) -> Lifetime {
    Lifetime::new(from.map(moment), until.map(moment)).unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::new(Zeroizing::new(text.as_bytes().to_vec()), Notation::Text)
}

fn key(key_id: u64, [send_id, recv_id]: [u8; 2], [send, accept]: [[Option<i64>; 2]; 2]) -> ChainKey {
    ChainKey {
        position: None,
        key_id,
        send_id: KeyId(send_id),
        recv_id: KeyId(recv_id),
        algorithm: TcpAoAlgorithm::Aes128Cmac,
        mac_length: 12,
        options: OptionCoverage::Covered,
        secret: secret("a secret of the tests"),
        send: lifetime(send),
        accept: lifetime(accept),
        clock: Clock::Utc,
        preference: Preference::Ordinary,
    }
}

fn chain(name: &str, keys: Vec<ChainKey>) -> Chain {
    Chain { name: name.to_owned(), keys, ..Chain::default() }
}

/// A chain in TOML may name the key that it signs with, whatever the lifetimes.
#[test]
fn a_named_key_is_the_one_that_is_signed_with() {
    let (always, later) = ([[None; 2]; 2], [[Some(2), Some(9)], [None; 2]]);
    let other = chain("other", vec![key(1, [1, 1], always)]);
    for (named, until) in [(None, 2), (Some(1), 0), (Some(2), 2)] {
        let mut keys = vec![key(1, [1, 1], always), key(2, [2, 2], later)];
        let named = keys.iter_mut().find(|key| Some(key.key_id) == named);
        named.into_iter().for_each(|key| key.preference = Preference::Preferred);
        let one = chain("one", keys);
        let [one, other] = ends([&one, &other], [SendingRule::LatestStart; 2]);
        let found = outages(one, other, 0, moment(0), moment(STEPS));
        let expected: &[_] = if until == 0 { &[] } else { &[(moment(2), moment(9))] };
        let found: Vec<_> = found.iter().map(|outage| (outage.from, outage.until)).collect();
        assert_eq!(found, expected);
    }
}

fn with_rule(rule: SendingRule) -> Implementation {
    Implementation::all().find(|implementation| implementation.sending() == rule).unwrap()
}

fn ends<'a>(chains: [&'a Chain; 2], rules: [SendingRule; 2]) -> [ConfiguredEnd<'a>; 2] {
    let [one, other] = rules.map(with_rule);
    [
        ConfiguredEnd { chain: chains[0], implementation: one },
        ConfiguredEnd { chain: chains[1], implementation: other },
    ]
}

fn of(chains: [&Chain; 2], rules: [SendingRule; 2], skew_steps: u32) -> Vec<Outage> {
    let [one, other] = ends(chains, rules);
    outages(one, other, skew_steps * STEP as u32, moment(0), moment(STEPS))
}

/// What the model says of one step: who signs with which key, and the kind of the reason.
type Failure = (Side, Option<String>, &'static str);

/// An end at one moment, which knows its offset.
struct At<'a> {
    end: ConfiguredEnd<'a>,
    step: i64,
    offset: i64,
}

impl At<'_> {
    fn shows(&self, key: &ChainKey) -> Timestamp {
        moment(if key.clock == Clock::Local { self.step + self.offset } else { self.step })
    }

    fn sendable(&self) -> Vec<&ChainKey> {
        self.end.chain.keys.iter().filter(|key| key.send.contains(self.shows(key))).collect()
    }

    fn named(&self) -> Option<&ChainKey> {
        self.end.chain.keys.iter().find(|key| key.preference == Preference::Preferred)
    }

    fn accepts(&self, key: &ChainKey) -> bool {
        self.end.chain.acceptance(key).contains(self.shows(key))
    }

    fn choices(&self) -> Vec<&ChainKey> {
        let valid = self.sendable();
        let wins = |better: &dyn Fn(&ChainKey, &ChainKey) -> bool| {
            let mut best: Option<&ChainKey> = None;
            for key in &valid {
                if best.is_none_or(|best| better(key, best)) {
                    best = Some(key);
                }
            }
            best.into_iter().collect()
        };
        match self.end.implementation.sending() {
            SendingRule::Unspecified => valid,
            SendingRule::Rank => wins(&|key, best| key.preference < best.preference),
            // A chain names one key at most.
            SendingRule::LatestStart if self.named().is_some_and(|named| valid.contains(&named)) => {
                self.named().into_iter().collect()
            }
            SendingRule::LatestStart => {
                let offset = |key: &ChainKey| if key.clock == Clock::Local { self.offset * STEP } else { 0 };
                let started = |key: &ChainKey| Some(key.send.from()?.unix_seconds() - offset(key));
                wins(&|key, best| started(key) > started(best))
            }
            SendingRule::LongestLifetime => {
                let length = |key: &ChainKey| match (key.send.from(), key.send.until()) {
                    (Some(from), Some(until)) => until.unix_seconds() - from.unix_seconds(),
                    _ => i64::MAX,
                };
                wins(&|key, best| length(key) > length(best))
            }
        }
    }

    fn refusal(&self, signed: &ChainKey) -> Option<&'static str> {
        let with_id: Vec<_> =
            self.end.chain.keys.iter().filter(|key| key.recv_id == signed.send_id).collect();
        let wrong = |key: &&ChainKey| key.secret.expose() != signed.secret.expose();
        let mut accepted = with_id.iter().filter(|key| self.accepts(key)).peekable();
        if with_id.is_empty() {
            return Some("unknown-id");
        }
        if accepted.peek().is_some() {
            return accepted.any(wrong).then_some("secret");
        }
        match with_id.iter().find(|key| !wrong(key)) {
            None => Some("secret"),
            Some(key) if self.end.chain.acceptance(key).is_over(self.shows(key)) => Some("no-longer"),
            Some(_) => Some("not-yet"),
        }
    }
}

/// Every failure at a step, over all clocks.
fn model(ends: [ConfiguredEnd<'_>; 2], skew: i64, step: i64) -> Vec<Failure> {
    let mut found = Vec::new();
    let offsets = i64::from(Clock::UNCERTAINTY) / STEP;
    for side in Side::BOTH {
        for (mine, theirs, apart) in clocks(offsets, skew) {
            let signer = At { end: ends[side as usize], step, offset: mine };
            let peer = At { end: ends[side.peer() as usize], step: step + apart, offset: theirs };
            let mut may_sign = signer.choices();
            if may_sign.is_empty() {
                found.push((side, None, "no-key"));
                continue;
            }
            for requested in peer.choices() {
                let has = signer.end.chain.keys.iter().filter(|key| key.send_id == requested.recv_id);
                may_sign
                    .extend(has.filter(|key| key.send.contains(signer.shows(key)) || signer.accepts(key)));
            }
            for key in may_sign {
                let name = signer.end.chain.name_of(key);
                found.extend(peer.refusal(key).map(|kind| (side, Some(name), kind)));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The offsets of both ends and the difference of their clocks.
fn clocks(offsets: i64, skew: i64) -> impl Iterator<Item = (i64, i64, i64)> {
    let all = move |most: i64| -most..=most;
    all(offsets).flat_map(move |mine| {
        all(offsets).flat_map(move |theirs| all(skew).map(move |apart| (mine, theirs, apart)))
    })
}

fn any_lifetime() -> impl Strategy<Value = Lifetime> {
    let bound = || prop::option::weighted(0.8, -2..STEPS + 2);
    (bound(), bound()).prop_map(|(from, until)| match (from, until) {
        (Some(from), Some(until)) if from == until => lifetime([Some(from), None]),
        (Some(from), Some(until)) => lifetime([Some(from.min(until)), Some(from.max(until))]),
        bounds => lifetime([bounds.0, bounds.1]),
    })
}

fn any_chain(name: &'static str) -> impl Strategy<Value = Chain> {
    let ranks = [Preference::Preferred, Preference::Ordinary, Preference::Deprecated];
    let secrets = ["most of the keys", "most of the keys", "most of the keys", "another"];
    let [rank, octets, tolerance] =
        [ranks.len(), secrets.len(), 3].map(|most| prop::sample::select((0..most).collect::<Vec<_>>()));
    let ids = [0..3_u8, 0..3];
    let one = (ids, any_lifetime(), prop::option::of(any_lifetime()), octets, rank, any_clocks());
    (prop::collection::vec(one, 1..4), tolerance, any_clocks()).prop_map(move |(keys, tolerance, clocks)| {
        let keys = (0..).zip(keys).map(|(id, (ids, send, accept, octets, rank, own))| {
            let clock = clocks.or(own).unwrap_or_default();
            let (secret, preference) = (secret(secrets[octets]), ranks[rank]);
            let accept = accept.unwrap_or(send);
            ChainKey { send, accept, secret, preference, clock, ..key(id, ids, [[None; 2]; 2]) }
        });
        let keys = keys.collect();
        Chain { accept_tolerance: tolerance as u32 * STEP as u32, ..chain(name, keys) }
    })
}

/// The clock of all keys, or `None` if each has its own.
fn any_clocks() -> impl Strategy<Value = Option<Clock>> {
    prop_oneof![4 => Just(Some(Clock::Utc)), 1 => Just(Some(Clock::Local)), 1 => Just(None)]
}

fn any_rule() -> impl Strategy<Value = SendingRule> {
    let known =
        [SendingRule::LatestStart, SendingRule::LongestLifetime, SendingRule::Rank, SendingRule::Unspecified];
    let known = known.into_iter().filter(|rule| Implementation::all().any(|known| known.sending() == *rule));
    prop::sample::select(known.collect::<Vec<_>>())
}

fn two_chains() -> impl Strategy<Value = [Chain; 2]> {
    (any_chain("one"), any_chain("other")).prop_map(|(one, other)| [one, other])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn outages_are_those_of_a_model_that_looks_at_every_moment(
        chains in two_chains(),
        rules in (any_rule(), any_rule()),
        skew in 0_u32..3,
    ) {
        let (chains, rules) = ([&chains[0], &chains[1]], [rules.0, rules.1]);
        let found = of(chains, rules, skew);
        for step in 0..STEPS {
            let mut now: Vec<Failure> = found
                .iter()
                .filter(|outage| outage.from <= moment(step) && moment(step) < outage.until)
                .map(|outage| (outage.signer, outage.key.clone(), outage.reason.kind()))
                .collect();
            now.sort();
            now.dedup();
            let right = model(ends(chains, rules), skew.into(), step);
            // Which of two starts is later is not known while one is in local time: each may be.
            let is_mixed = |chain: &Chain| chain.keys.iter().any(|key| key.clock != chain.keys[0].clock);
            if chains.into_iter().any(is_mixed) && rules.contains(&SendingRule::LatestStart) {
                prop_assert!(right.iter().all(|failure| now.contains(failure)), "step {}: {:?} {:?}", step, now, right);
            } else {
                prop_assert_eq!(now, right, "step {}", step);
            }
        }
        for outage in &found {
            let is_step = |at: Timestamp| (at.unix_seconds() - moment(0).unix_seconds()) % STEP == 0;
            prop_assert!(is_step(outage.from) && is_step(outage.until) && outage.from < outage.until);
            let again = |other: &&Outage| {
                let same = (other.signer, &other.key, &other.reason) == (outage.signer, &outage.key, &outage.reason);
                same && outage.from <= other.from && other.from <= outage.until
            };
            prop_assert_eq!(found.iter().filter(again).count(), 1, "one outage in two pieces");
        }
        prop_assert!(found.is_sorted_by_key(|outage| (outage.from, outage.signer)));
    }

    #[test]
    fn swapping_the_ends_swaps_the_outages(chains in two_chains(), rules in (any_rule(), any_rule())) {
        let forth = of([&chains[0], &chains[1]], [rules.0, rules.1], 1);
        let mut back = of([&chains[1], &chains[0]], [rules.1, rules.0], 1);
        back.iter_mut().for_each(|outage| outage.signer = outage.signer.peer());
        back.sort_by_key(|outage| (outage.from, outage.signer));
        prop_assert_eq!(forth, back);
    }
}

const LATEST: [SendingRule; 2] = [SendingRule::LatestStart; 2];

#[test]
fn a_rollover_with_overlap_has_no_outage() {
    let keys = |cross: fn([u8; 2]) -> [u8; 2]| {
        vec![
            key(1, cross([1, 2]), [[None, Some(5)], [None, Some(6)]]),
            key(2, cross([3, 4]), [[Some(5), None], [Some(4), None]]),
        ]
    };
    let one = chain("one", keys(|ids| ids));
    let other = chain("other", keys(|[send, recv]| [recv, send]));
    assert_eq!(of([&one, &other], LATEST, 1), []);
    // Clocks that differ by more than the overlap are not covered.
    let found = of([&one, &other], LATEST, 2);
    assert!(
        found.iter().any(|outage| outage.reason == Reason::NotYet(moment(4), Clock::Utc, "other/2".into()))
    );
    assert!(
        found.iter().any(|outage| outage.reason == Reason::NoLonger(moment(6), Clock::Utc, "other/1".into()))
    );
}

/// The end of the period does not belong to it, whatever happens then.
#[test]
fn nothing_is_said_of_the_end_of_the_period() {
    let one = chain("one", vec![key(1, [1, 1], [[None, Some(5)], [None, Some(5)]])]);
    let [one, other] = ends([&one, &one], LATEST);
    let between = |from, until| outages(one, other, 0, moment(from), moment(until));
    assert_eq!((between(0, 5), between(5, 5), between(6, 5)), (vec![], vec![], vec![]));
    let found = between(0, 6);
    assert_eq!(found.iter().map(|outage| outage.reason.kind()).collect::<Vec<_>>(), ["no-key"; 2]);
    assert!(found.iter().all(|outage| (outage.from, outage.until) == (moment(5), moment(6))));
}

/// Where the longest send lifetime decides, one without an end is longer than any other.
#[test]
fn the_key_with_the_longest_lifetime_is_chosen() {
    let ids = |send: [Option<i64>; 2]| [send, [None, None]];
    let other = chain("other", vec![key(1, [1, 1], [[None; 2]; 2])]);
    for (lives, chosen) in [
        ([[Some(0), Some(9)], [Some(0), Some(8)]], 1),
        ([[Some(0), Some(8)], [Some(0), Some(9)]], 2),
        ([[Some(0), Some(8)], [Some(0), Some(8)]], 1),
        ([[Some(0), Some(8)], [Some(0), None]], 2),
        ([[Some(0), Some(8)], [None, Some(7)]], 2),
        ([[None, None], [Some(0), None]], 1),
        ([[Some(0), Some(5)], [Some(1), Some(5)]], 1),
        ([[Some(1), Some(5)], [Some(0), Some(4)]], 1),
        ([[Some(1), Some(5)], [Some(-2), Some(4)]], 2),
    ] {
        let keys = lives.iter().zip([1, 2]).map(|(life, id)| key(id.into(), [id, id], ids(*life))).collect();
        let one = chain("one", keys);
        let [one, other] = ends([&one, &other], [SendingRule::LongestLifetime, SendingRule::LatestStart]);
        let found = outages(one, other, 0, moment(1), moment(2));
        let unknown = found.iter().any(|outage| outage.reason == Reason::UnknownId(KeyId(2)));
        assert_eq!(unknown, chosen == 2, "{lives:?}: {found:?}");
    }
}

#[test]
fn outages_are_said_in_words() {
    let now = [[None; 2]; 2];
    let one = chain("one", vec![key(1, [1, 2], now)]);
    let said = |other: ChainKey| {
        let found = of([&one, &chain("other", vec![other])], LATEST, 0);
        found.iter().map(|outage| outage.sentence(["A", "B"])).collect::<Vec<_>>()
    };
    let kind = |other: ChainKey| {
        let found = of([&one, &chain("other", vec![other])], LATEST, 0);
        found.first().map(|outage| outage.reason.kind())
    };
    let right = || key(9, [2, 1], now);
    assert_eq!(said(right()), [""; 0]);
    assert_eq!(
        said(key(9, [1, 2], now)),
        [
            "A signs with one/1, but B has no key with RecvID 1",
            "B signs with other/9, but A has no key with RecvID 1"
        ]
    );
    assert_eq!(
        said(ChainKey { algorithm: TcpAoAlgorithm::HmacSha1, ..right() })[0],
        "A signs with one/1 and AES-128-CMAC-96, but other/9 of B has HMAC-SHA-1-96"
    );
    assert_eq!(
        said(ChainKey { mac_length: 16, ..right() })[1],
        "B signs with other/9 and MACs of 16 octets, but one/1 of A has 12"
    );
    assert_eq!(
        said(ChainKey { options: OptionCoverage::Excluded, ..right() }),
        [
            "A signs with one/1 and covers the TCP options, but other/9 of B excludes them",
            "B signs with other/9 and excludes the TCP options, but one/1 of A covers them",
        ]
    );
    assert_eq!(
        said(ChainKey { secret: secret("hunter2"), ..right() })[0],
        "A signs with one/1, but other/9 of B has another secret"
    );
    assert_eq!(
        said(ChainKey { accept: lifetime([Some(20), None]), clock: Clock::Local, ..right() })[0],
        "A signs with one/1, which B does not accept (as other/9) before 2027-01-21T04:00:00 local time"
    );
    assert_eq!(
        said(ChainKey { accept: lifetime([None, Some(0)]), ..right() })[0],
        "A signs with one/1, which B does not accept (as other/9) from 2027-01-15T08:00:00Z on"
    );
    for (other, expected) in [
        (right(), None),
        (key(9, [1, 2], now), Some("unknown-id")),
        (ChainKey { algorithm: TcpAoAlgorithm::HmacSha1, ..right() }, Some("algorithm")),
        (ChainKey { mac_length: 16, ..right() }, Some("mac-length")),
        (ChainKey { options: OptionCoverage::Excluded, ..right() }, Some("options")),
        (ChainKey { secret: secret("hunter2"), ..right() }, Some("secret")),
        (ChainKey { accept: lifetime([Some(20), None]), ..right() }, Some("not-yet")),
        (ChainKey { accept: lifetime([None, Some(0)]), ..right() }, Some("no-longer")),
        (ChainKey { send: lifetime([None, Some(-3)]), ..right() }, Some("no-key")),
    ] {
        assert_eq!(kind(other), expected);
    }
    // In a chain without a name, a key is only a number.
    let found = of([&chain("", one.keys.clone()), &chain("", vec![key(9, [5, 1], now)])], LATEST, 0);
    assert_eq!(found[0].sentence(["A", "B"]), "B signs with key 9, but A has no key with RecvID 5");
    assert_eq!(
        said(ChainKey { send: lifetime([None, Some(-3)]), ..right() }),
        ["B has no key that is valid for sending"]
    );
}

#[test]
fn an_encrypted_secret_is_not_compared() {
    let now = [[None; 2]; 2];
    let encrypted = Secret::new(Zeroizing::default(), Notation::Encrypted("type 6"));
    let one = key(1, [1, 2], now);
    let other = ChainKey { secret: encrypted, ..key(1, [2, 1], now) };
    assert!(!Difference::can_compare_secrets(&one, &other));
    assert_eq!(of([&chain("", vec![one]), &chain("", vec![other])], LATEST, 1), []);
}
