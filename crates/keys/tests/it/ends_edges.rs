//! Two ends' files at the edges of what is said about them: chains that meet without a choice, keys of one moment, keys of one id.

use wireseal_keys::{ChainKey, ConfiguredEnd, Format, KeyFile, MetBy, Relation, Timestamp, meet, pairs};

use crate::ends::{end, met, now, said, toml};

const SECRET: &str = "a secret for both ends";

/// A chain of one key that is used only then.
fn of_period(ids: [u8; 2], from: &str, until: &str) -> KeyFile {
    let life = format!("{{ from = {from}, until = {until} }}");
    toml(ids[0], ids[1], "AES-128-CMAC-96", SECRET, &format!("send = {life}\naccept = {life}\n"))
}

/// A chain with the keys of several.
fn joined(files: &[KeyFile]) -> KeyFile {
    let mut joined = files[0].clone();
    let keys = files.iter().flat_map(|file| file.chains[0].keys.clone());
    let numbered = |(number, key): (u64, ChainKey)| ChainKey { key_id: number, ..key };
    joined.chains[0].keys = (1..).zip(keys).map(numbered).collect();
    joined
}

fn kinds(ends: [ConfiguredEnd<'_>; 2]) -> Vec<String> {
    let found = said(ends, 0).into_iter();
    found.map(|found| found.split_once(": ").unwrap().0.to_owned()).collect()
}

#[test]
fn a_choice_needs_two_keys_of_one_moment() {
    let [may, june, july] =
        [("2026-05", "2026-06"), ("2026-06", "2026-07"), ("2026-07", "2026-08")].map(|(from, until)| {
            let [from, until] = [from, until].map(|month| format!("{month}-02T00:00:00Z"));
            of_period([1, 1], &from, &until)
        });
    for (keys, has_choice) in [
        (vec![june.clone()], false),
        (vec![june.clone(), july.clone()], false),
        (vec![june.clone(), june.clone()], true),
        (vec![may.clone(), may], false),
        (vec![july.clone(), june, july], true),
    ] {
        let from: Timestamp = "2026-06-03T00:00:00Z".parse().unwrap();
        let file = joined(&keys);
        let ends = [end(&file, Format::Toml), end(&file, Format::GoBgp)];
        let found = wireseal_keys::compare(ends, ["A", "B"], 0, [from, Timestamp::MAX]);
        let is_said = found.iter().any(|found| found.kind == "sending-rule");
        assert_eq!(is_said, has_choice, "{} keys: {found:?}", keys.len());
    }
}

/// A key that is only accepted matters as much as one that is signed with.
#[test]
fn a_key_without_a_counterpart_matters_while_it_is_accepted() {
    let one = toml(1, 2, "AES-128-CMAC-96", SECRET, "");
    let over = "send = { until = 2026-05-01T00:00:00Z }\naccept = { until = 2026-08-01T00:00:00Z }\n";
    let accepted = toml(7, 8, "AES-128-CMAC-96", "an older secret", over);
    let found = wireseal_keys::compare(
        [end(&one, Format::Toml), end(&accepted, Format::Toml)],
        ["A", "B"],
        0,
        [now(), Timestamp::MAX],
    );
    let weights: Vec<_> =
        found.iter().filter(|found| found.kind == "no-counterpart").map(|found| found.weight).collect();
    assert_eq!(weights, [wireseal_keys::Weight::Warning; 2]);
}

/// The counterpart has the ids exchanged, and EOS has one id for both directions.
#[test]
fn a_counterpart_with_two_ids_cannot_be_where_there_is_one() {
    let two = toml(1, 2, "AES-128-CMAC-96", SECRET, "");
    let one = toml(5, 5, "AES-128-CMAC-96", "another secret", "");
    let found = said([end(&two, Format::Toml), end(&one, Format::Eos)], 0);
    let refused: Vec<_> = found.iter().filter(|found| found.starts_with("refused: ")).collect();
    assert_eq!(refused.len(), 1, "{found:?}");
    assert!(
        refused[0].starts_with("refused: B cannot have its counterpart (SendID 2, RecvID 1): EOS "),
        "{refused:?}"
    );
    let found = said([end(&one, Format::Toml), end(&one, Format::Eos)], 0);
    assert_eq!(found, [""; 0]);
}

#[test]
fn one_id_in_common_is_not_two() {
    for (other, relation, kind) in [
        ([2, 1], Relation::Crossed, ""),
        ([1, 2], Relation::NotCrossed, "ids-not-crossed"),
        ([2, 9], Relation::OneWay, "ids"),
        ([9, 1], Relation::OneWay, "ids"),
        ([1, 9], Relation::Secret, "ids"),
        ([9, 2], Relation::Secret, "ids"),
    ] {
        let [one, other] =
            [[1, 2], other].map(|[send, recv]| toml(send, recv, "AES-128-CMAC-96", SECRET, ""));
        let paired = pairs([&one.chains[0], &other.chains[0]]);
        assert_eq!(paired.iter().map(|pair| pair.relation).collect::<Vec<_>>(), [relation]);
        let expected: &[&str] = if kind.is_empty() { &[] } else { &[kind] };
        assert_eq!(kinds([end(&one, Format::Toml), end(&other, Format::Toml)]), expected);
    }
}

/// Of two keys with the same ids, the one that is accepted while the other end signs is its counterpart.
#[test]
fn keys_of_other_times_are_not_each_others_counterparts() {
    let [early, late] = [["2026-05-01", "2026-06-01"], ["2026-07-01", "2026-08-01"]];
    let of = |ids, life: [&str; 2]| {
        let [from, until] = life.map(|day| format!("{day}T00:00:00Z"));
        of_period(ids, &from, &until)
    };
    let one = joined(&[of([1, 2], early), of([1, 2], late)]);
    let other = joined(&[of([2, 1], late), of([2, 1], early)]);
    let paired = pairs([&one.chains[0], &other.chains[0]]);
    let numbers: Vec<_> = paired.iter().map(|pair| pair.keys.map(|key| key.unwrap().key_id)).collect();
    assert_eq!(numbers, [[1, 2], [2, 1]]);
}

/// Addresses decide among several chains, and are not asked if there is one.
#[test]
fn the_only_chains_meet_whatever_their_neighbors() {
    let [mut one, mut other] =
        [[1, 2], [2, 1]].map(|[send, recv]| toml(send, recv, "AES-128-CMAC-96", SECRET, ""));
    one.chains[0].neighbors = vec!["192.0.2.2".parse::<cidr::IpCidr>().unwrap().into()];
    other.addresses = ["192.0.2.2".parse().unwrap()].into();
    assert_eq!(met([&one, &other], None), Ok(("core:core".to_owned(), MetBy::Only)));
    one.chains.push(wireseal_keys::Chain { neighbors: vec![], ..one.chains[0].clone() });
    assert_eq!(met([&one, &other], None), Ok(("core:core".to_owned(), MetBy::Address)));
}

/// Only a router's own configuration has all of its addresses.
#[test]
fn a_daemon_may_have_addresses_that_its_file_does_not_tell() {
    let [mut one, mut other] =
        [[1, 2], [2, 1]].map(|[send, recv]| toml(send, recv, "AES-128-CMAC-96", SECRET, ""));
    other.addresses = ["192.0.2.2".parse().unwrap()].into();
    for (format, address, count) in [
        (Some(Format::Bird), "192.0.2.9", 0),
        (Some(Format::Eos), "192.0.2.9", 1),
        (Some(Format::Eos), "192.0.2.2", 0),
        (None, "192.0.2.9", 1),
    ] {
        one.chains[0].neighbors = vec![address.parse::<cidr::IpCidr>().unwrap().into()];
        other.format = format;
        let found = meet([&one, &other], None).unwrap().strangers([&one, &other], ["A", "B"]);
        let found = found.iter().filter(|found| found.kind == "other-neighbors");
        assert_eq!(found.count(), count, "{format:?} {address}");
    }
}
