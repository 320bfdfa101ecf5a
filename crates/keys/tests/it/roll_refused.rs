//! What keeps a plan for a new key from being made or carried out.

use wireseal_keys::{Chain, ChainKey, Clock, Format, KeyFile, Lifetime, Plan, Side, Span, Wish, change};
use wireseal_tcp_ao::KeyId;

use crate::roll::{AT, file, files, gaps, moment, plan, secret, text_of_toml, texts, wish};

fn refused(files: &[KeyFile; 2], wish: Wish) -> String {
    plan(files, wish).unwrap_err().to_string()
}

/// Both ends' files, with the first end's chain changed.
fn with(format: Format, edit: impl Fn(&mut Chain)) -> [KeyFile; 2] {
    let mut files = files(&texts(format, Format::Toml));
    edit(&mut files[0].chains[0]);
    files
}

#[test]
fn lifetimes_in_local_time_are_not_planned() {
    for side in [0, 1] {
        let mut files = files(&texts(Format::Toml, Format::Toml));
        files[side].chains[0].keys[0].clock = Clock::Local;
        let expected = "keys: key core/7 has lifetimes in the router's local time, so moments cannot be planned: write them in UTC";
        assert_eq!(refused(&files, wish()), expected);
    }
}

#[test]
fn a_new_key_needs_a_free_id_and_a_free_number() {
    let key = |number: u8, of: &ChainKey| {
        let ids = KeyId(number);
        let send = Lifetime::new(None, Some(moment("2026-01-01T00:00:00Z"))).unwrap();
        ChainKey { key_id: number.into(), send_id: ids, recv_id: ids, send, ..of.clone() }
    };
    // SendIDs of BIRD's keys are from 0 to 255, those of SR OS from 0 to 63.
    for (format, most) in [(Format::Toml, 255), (Format::SrOs, 63)] {
        let full = with(format, |chain| {
            let present = chain.keys[0].clone();
            chain
                .keys
                .extend((0..=most).map(|id| ChainKey { key_id: 1000 + u64::from(id), ..key(id, &present) }));
        });
        assert_eq!(refused(&full, wish()), format!("no id from 0 to {most} is free at both ends"));
    }
    // One is left for two directions.
    let one = with(Format::Toml, |chain| {
        let present = chain.keys[0].clone();
        let others = (0..=254).filter(|id| ![10, 20].contains(id));
        chain.keys.extend(others.map(|id| ChainKey { key_id: 1000 + u64::from(id), ..key(id, &present) }));
    });
    assert_eq!(refused(&one, wish()), "no id from 0 to 255 is free at both ends");
    let full = with(Format::Vrp, |chain| {
        let present = chain.keys[0].clone();
        let others = (0..64).filter(|number| *number != 7);
        chain.keys.extend(others.map(|number| ChainKey {
            send_id: KeyId(90),
            recv_id: KeyId(91),
            ..key(number, &present)
        }));
    });
    let [one, other] = full;
    for files in [[one.clone(), other.clone()], [other, one]] {
        assert_eq!(refused(&files, wish()), "keys: its chain has no number left for a key");
    }
}

/// Keys whose numbers are their SendIDs get a new one whose number is its SendID, and others the next number that is free.
#[test]
fn a_new_key_is_numbered_like_the_others() {
    let new = |numbers: &[u64], ids: u8| {
        let files = with(Format::Toml, |chain| {
            let present = ChainKey { send_id: KeyId(ids), ..chain.keys[0].clone() };
            let gone = Lifetime::new(None, Some(moment("2026-01-01T00:00:00Z"))).unwrap();
            let key = |(index, number): (usize, &u64)| ChainKey {
                key_id: *number,
                send: if index == 0 { Lifetime::ALWAYS } else { gone },
                send_id: KeyId(ids + index as u8),
                recv_id: KeyId(20 + 80 * index as u8),
                ..present.clone()
            };
            chain.keys = numbers.iter().enumerate().map(key).collect();
        });
        let mut other = files.clone();
        other[1].chains[0].keys[0].recv_id = KeyId(ids);
        plan(&other, wish()).map(|plan| (plan.ends[0].new.key_id, plan.ends[0].new.send_id)).unwrap()
    };
    assert_eq!(new(&[10], 10), (11, 11));
    assert_eq!(new(&[10, 11], 10), (12, 12));
    assert_eq!(new(&[7], 10), (8, 11));
    assert_eq!(new(&[7, 8, 9], 10), (10, 13));
    assert_eq!(new(&[u64::MAX, 0], 10), (1, 12));
}

/// The number is the SendID only if the format has room for it, and is not just the next one.
#[test]
fn a_number_that_is_a_send_id_fits_into_the_chain() {
    let new = |format: Format, [send, recv, taken]: [u8; 3]| {
        let mut files = with(format, |chain| {
            let key = &mut chain.keys[0];
            (key.key_id, key.send_id, key.recv_id) = (send.into(), KeyId(send), KeyId(recv));
        });
        let present = &mut files[1].chains[0].keys[0];
        (present.send_id, present.recv_id) = (KeyId(recv), KeyId(send));
        let another =
            ChainKey { key_id: 99, send_id: KeyId(taken), recv_id: KeyId(taken), ..present.clone() };
        files[1].chains[0].keys.push(another);
        plan(&files, wish()).map(|plan| (plan.ends[0].new.key_id, plan.ends[0].new.send_id)).unwrap()
    };
    assert_eq!(new(Format::Toml, [10, 20, 11]), (12, 12), "8 is free as a number, and not as an id");
    assert_eq!(new(Format::Junos, [62, 20, 99]), (63, 63));
    assert_eq!(new(Format::Junos, [63, 20, 99]), (0, 64), "Junos numbers keys from 0 to 63");
}

#[test]
fn an_old_key_that_ends_earlier_still_does() {
    let early = moment("2026-12-01T00:30:00Z");
    for (until, end) in [
        (None, "2026-12-01T01:00:00Z"),
        (Some(early), "2026-12-01T00:30:00Z"),
        (Some(moment("2027-01-01T00:00:00Z")), "2026-12-01T01:00:00Z"),
    ] {
        let files = with(Format::Toml, |chain| chain.keys[0].send = Lifetime::new(None, until).unwrap());
        let plan = plan(&files, wish()).unwrap();
        assert_eq!(plan.ends[0].old[0].send, Span { from: None, until: Some(moment(end)) });
        assert_eq!(gaps(&plan, &files), []);
    }
}

#[test]
fn the_new_secret_is_as_long_as_both_ends_accept() {
    let length = |one, other| plan(&files(&texts(one, other)), wish()).unwrap().secret_length();
    assert_eq!(length(Format::Toml, Format::Bird), Ok(32));
    let mut odd = plan(&files(&texts(Format::Toml, Format::Bird)), wish()).unwrap();
    odd.ends[1].format = "pigeon".to_owned();
    assert_eq!(odd.secret_length().unwrap_err().to_string(), "unknown format of keys");
}

/// Whoever has edited a plan is told what is wrong with it, at every step.
#[test]
fn an_edited_plan_is_refused_before_anything_is_changed() {
    let texts = texts(Format::Junos, Format::Toml);
    let files = files(&texts);
    let good = plan(&files, wish()).unwrap();
    let empty = Span { from: Some(moment(AT)), until: Some(moment(AT)) };
    let not_after = format!("edge-a: ends at {AT}, which is not after {AT}");
    for (edit, expected) in [
        (&(|plan: &mut Plan| plan.ends[0].old[0].send = empty) as &dyn Fn(&mut Plan), not_after.as_str()),
        (&|plan| plan.ends[0].old[0].accept = empty, &not_after),
        (&|plan| plan.ends[0].new.send = empty, &not_after),
        (&|plan| plan.ends[0].new.accept = empty, &not_after),
        (&|plan| plan.ends[0].new.key_id = 7, "edge-a: its chain has a key 7 already"),
        (&|plan| plan.ends[0].format = "toml".into(), "edge-a: the plan is for toml, and the file is junos"),
        (&|plan| plan.ends[0].chain = "none".into(), "edge-a: has no chain \"none\""),
    ] {
        let mut plan = good.clone();
        edit(&mut plan);
        let gaps = plan.gaps([&files[0], &files[1]]).unwrap_err().to_string();
        let changes = plan.changes(Side::One, &files[0], &texts[0].1, &secret()).unwrap_err().to_string();
        assert_eq!([gaps.as_str(), &changes], [expected; 2]);
    }
    // The other end's new key has an id of its old one.
    let mut same = good.clone();
    (same.ends[1].new.send_id, same.ends[1].new.recv_id) = (same.ends[1].old[0].send_id, 99);
    let error = same.gaps([&files[0], &files[1]]).unwrap_err().to_string();
    assert!(error.contains("send-id: key 7 has this id too, and their accept lifetimes overlap"), "{error}");
    let mut twice = files[0].clone();
    twice.chains.push(twice.chains[0].clone());
    let error = good.gaps([&twice, &files[1]]).unwrap_err().to_string();
    assert_eq!(error, "edge-a: has two chains \"core\": give each its own name");
    // A plan is read from JSON.
    let text = serde_json::to_string(&good).unwrap();
    for wrong in ["\"algorithm\":7", "\"algorithm\":\"rot13\"", "\"made\":7", "\"made\":\"yesterday\""] {
        let field = wrong.split(':').next().unwrap();
        let (before, rest) = text.split_once(&format!("{field}:")).unwrap();
        let rest = &rest[rest.find(',').unwrap()..];
        let text = format!("{before}{wrong}{rest}");
        assert!(serde_json::from_str::<Plan>(&text).is_err(), "{text}");
    }
}

#[test]
fn keys_that_a_format_cannot_hold_are_named() {
    let files = with(Format::Vrp, |chain| {
        let old = Lifetime::new(None, Some(moment("1969-01-01T00:00:00Z"))).unwrap();
        let key = ChainKey {
            key_id: 1,
            send_id: KeyId(90),
            recv_id: KeyId(91),
            send: old,
            accept: old,
            ..chain.keys[0].clone()
        };
        chain.keys.push(key);
    });
    let error = refused(&files, wish());
    assert!(error.contains("key core/1 is left out"), "{error}");
}

#[test]
fn a_chain_in_use_is_not_changed_where_that_would_close_sessions() {
    let toml = file(&text_of_toml(), Format::Toml);
    let chain = &toml.chains[0];
    for format in [Format::IosXe, Format::Xml, Format::Frr] {
        let file = KeyFile { format: Some(format), ..toml.clone() };
        let error = change(&file, "", 0, chain, chain).unwrap_err().to_string();
        assert_eq!(Some(error), format.cannot_change());
    }
    // A chain without keys cannot be written, and neither can one whose keys share an id.
    let empty = Chain { keys: Vec::new(), ..chain.clone() };
    let error = change(&toml, "", 0, chain, &empty).unwrap_err().to_string();
    assert!(error.starts_with("no key can be written as toml"), "{error}");
    let changed = change(&toml, "", 0, chain, chain).unwrap();
    assert!(
        changed.is_file && format!("{changed:?}") == "Changed { is_file: true, losses: [], .. }",
        "{changed:?}"
    );
    assert_eq!(*changed.text, *wireseal_keys::convert(&toml, Format::Toml).unwrap().text);
}
