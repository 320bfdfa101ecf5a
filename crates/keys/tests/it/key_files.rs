//! What is done with the keys of a file besides writing them: the keys for a capture, the chains for an end, another end's view, findings.

use std::path::Path;

use wireseal_keys::{
    Chain, ChainKey, Clock, End, Format, Implementation, KeyFile, Lifetime, Neighbor, Position, Preference,
    Problem, Remark, Timestamp, Usable, Weight, check, convert, read,
};
use wireseal_tcp_ao::{KeyId, MktError};

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A chain `core` with the keys 1 and 2, whose RecvIDs are 11 and 12.
fn file() -> KeyFile {
    let key = |id: u8| {
        format!(
            "[[key-chain.key]]\nsend-id = {id}\nrecv-id = {}\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"secret {id} of the tests\"\n",
            id + 10
        )
    };
    let text = format!("[[key-chain]]\nname = \"core\"\n{}{}", key(1), key(2));
    read(Path::new("keys"), &text, Some(Format::Toml)).unwrap()
}

/// The same after a change of its chain.
fn with(edit: impl Fn(&mut Chain)) -> KeyFile {
    let mut file = file();
    edit(&mut file.chains[0]);
    file
}

/// A secret that only the router can decrypt.
fn encrypted() -> wireseal_keys::Secret {
    let text = include_str!("../data/routers/ios-xr.cfg")
        .replace("password 011A08105E19091F", "password6 5450615A415E");
    read(Path::new("xr"), &text, Some(Format::IosXr)).unwrap().chains[0].keys[0].secret.clone()
}

fn neighbor(address: &str) -> Neighbor {
    address.parse::<cidr::IpCidr>().unwrap().into()
}

#[test]
fn a_capture_gets_each_key_once_for_each_neighbor() {
    let of = |file: &KeyFile| {
        let keys = file.keys().map_err(|error| error.to_string())?.keys;
        let shown = |key: &wireseal_keys::ConfiguredKey| {
            let peer = key.peer.map_or_else(|| "anyone".to_owned(), |peer| peer.to_string());
            format!("{} {} {}", key.name, key.accept_tolerance, peer)
        };
        Ok::<_, String>(keys.iter().map(shown).collect::<Vec<_>>())
    };
    assert_eq!(of(&file()).unwrap(), ["core/1 0 anyone", "core/2 0 anyone"]);
    let two = with(|chain| {
        chain.accept_tolerance = 5;
        chain.neighbors = vec![neighbor("192.0.2.1"), neighbor("198.51.100.0/24")];
    });
    assert_eq!(
        of(&two).unwrap(),
        ["core/1 5 192.0.2.1", "core/1 5 198.51.100.0/24", "core/2 5 192.0.2.1", "core/2 5 198.51.100.0/24"]
    );
    // What only the router can decrypt is left out, as long as there is something else.
    let one = with(|chain| chain.keys[0].secret = encrypted());
    assert_eq!(of(&one).unwrap(), ["core/2 0 anyone"]);
    let none = with(|chain| chain.keys.iter_mut().for_each(|key| key.secret = encrypted()));
    let expected = "key chain \"core\", key 1, secret: is encrypted (type 6), and only the router can decrypt it: write it in plain text";
    assert_eq!(of(&none).unwrap_err(), expected);
    assert_eq!(of(&KeyFile::default()).unwrap(), [""; 0]);
    // A chain may have no name.
    let nameless = with(|chain| {
        (chain.name, chain.keys[0].mac_length, chain.keys[0].position) =
            (String::new(), 3, Some(Position { line: 7, column: 1 }));
    });
    assert!(
        of(&nameless).unwrap_err().starts_with("line 7, column 1, key 1, MAC length: "),
        "{}",
        of(&nameless).unwrap_err()
    );
}

#[test]
fn a_key_that_cannot_be_an_mkt_is_refused_in_its_field() {
    let refusal = |edit: &dyn Fn(&mut ChainKey)| {
        let file = with(|chain| edit(&mut chain.keys[1]));
        let [of_keys, of_chains] = [file.keys().map(drop), file.key_chains(End::ThisEnd).map(drop)]
            .map(|result| result.unwrap_err());
        assert_eq!(of_keys.to_string(), of_chains.to_string());
        of_keys
    };
    let secret = |length: usize| {
        let text = "k".repeat(length);
        move |key: &mut ChainKey| {
            key.secret =
                wireseal_keys::Secret::new(text.clone().into_bytes().into(), wireseal_keys::Notation::Text);
        }
    };
    let long = refusal(&secret(81));
    assert!(matches!(long.problem(), Problem::Mkt(MktError::MasterKeyTooLong { .. })), "{long}");
    assert!(long.to_string().starts_with("key chain \"core\", key 2, secret: "), "{long}");
    assert!(refusal(&secret(0)).to_string().contains("key 2, secret: "));
    for length in [3, 17] {
        let error = refusal(&|key| key.mac_length = length);
        assert!(error.to_string().starts_with("key chain \"core\", key 2, MAC length: "), "{error}");
    }
    assert!(with(|chain| secret(80)(&mut chain.keys[1])).keys().is_ok());
    // A send lifetime beyond the accept lifetime is cut for a capture, and refused for an end.
    let life = |from: &str, until: &str| Lifetime::new(Some(moment(from)), Some(moment(until))).unwrap();
    let [send, accept] = [
        life("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
        life("2026-06-01T00:00:00Z", "2028-01-01T00:00:00Z"),
    ];
    let wide = with(|chain| (chain.keys[1].send, chain.keys[1].accept) = (send, accept));
    let key = wide.keys().unwrap().keys.swap_remove(1).key;
    assert_eq!(*key.send_lifetime(), life("2026-06-01T00:00:00Z", "2027-01-01T00:00:00Z"));
    let error = wide.key_chains(End::ThisEnd).unwrap_err().to_string();
    assert!(
        error.starts_with("key chain \"core\", key 2, accept lifetime: must cover the send lifetime"),
        "{error}"
    );
}

#[test]
fn local_times_are_widened_for_a_capture_and_refused_for_an_end() {
    let start = moment("2026-06-01T00:00:00Z");
    let local = with(|chain| {
        let key = &mut chain.keys[0];
        (key.clock, key.send, key.accept) =
            (Clock::Local, Lifetime::starting(start), Lifetime::starting(start));
    });
    let key = local.keys().unwrap().keys.swap_remove(0).key;
    assert_eq!(key.send_lifetime().from(), Some(start.earlier_by(14 * 3600)));
    let expected = "key chain \"core\", key 1, lifetime: is in the router's local time, whose offset the file does not tell: write it in UTC";
    assert_eq!(local.key_chains(End::ThisEnd).map(drop).unwrap_err().to_string(), expected);
    for (offset, expected) in
        [(7200, "2026-05-31T22:00:00Z"), (0, "2026-06-01T00:00:00Z"), (-3600, "2026-06-01T01:00:00Z")]
    {
        let mut known = local.clone();
        known.set_utc_offset(offset);
        let [key, other] = &known.chains[0].keys[..] else { panic!("two keys") };
        assert_eq!(
            (key.clock, key.send.from(), key.accept.from()),
            (Clock::Utc, Some(moment(expected)), Some(moment(expected)))
        );
        assert_eq!(other.send, Lifetime::ALWAYS);
        assert!(known.key_chains(End::ThisEnd).is_ok());
    }
}

#[test]
fn the_other_end_has_the_ids_exchanged_and_neighbors_of_its_own() {
    let mut there = with(|chain| chain.neighbors = vec![neighbor("192.0.2.1")]);
    there.addresses.insert("192.0.2.2".parse().unwrap());
    let here = there.clone();
    there.swap_ends();
    let ids = |file: &KeyFile| {
        file.chains[0].keys.iter().map(|key| (key.send_id.0, key.recv_id.0)).collect::<Vec<_>>()
    };
    assert_eq!((ids(&here), ids(&there)), (vec![(1, 11), (2, 12)], vec![(11, 1), (12, 2)]));
    assert!(there.addresses.is_empty() && there.chains[0].neighbors.is_empty());
    let chains = here.key_chains(End::Peer).unwrap();
    assert!(
        chains
            .get("core")
            .unwrap()
            .has_same_keys(there.key_chains(End::ThisEnd).unwrap().get("core").unwrap())
    );
}

#[test]
fn chains_that_cannot_be_used_are_left_out_with_the_reason() {
    let at = Position { line: 9, column: 3 };
    let mut file = with(|chain| {
        // The second rank comes first.
        chain.keys[0].preference = Preference::Deprecated;
        (chain.keys[0].position, chain.keys[0].recv_id) = (Some(at), KeyId(12));
    });
    let error = file.key_chains(End::ThisEnd).map(drop).unwrap_err();
    assert_eq!(error.position(), Some(at));
    assert!(error.to_string().contains("key chain \"core\", key 1, recv-id: "), "{error}");
    file.chains.push(Chain { name: "other".into(), ..self::file().chains.remove(0) });
    let chains = file.key_chains(End::ThisEnd).unwrap();
    assert_eq!(
        (chains.chains().len(), chains.unusable().len(), chains.unusable()[0].0.as_str()),
        (1, 1, "core")
    );
    assert_eq!(chains.unusable()[0].1, error);
}

/// The findings of a file in the middle of 2026, as `kind subject: sentence`.
fn found(file: &KeyFile) -> Vec<String> {
    let found = check(file, moment("2026-06-15T00:00:00Z"), &[Implementation::reading(None)]).into_iter();
    let found = found.filter(|finding| finding.weight == Weight::Warning);
    found.map(|finding| format!("{} {}: {}", finding.kind, finding.subject, finding.sentence)).collect()
}

#[test]
fn collisions_are_found_within_a_chain_and_among_the_chains_of_a_neighbor() {
    assert_eq!(found(&file()), [""; 0]);
    let with_ids = |send, recv| {
        with(|chain| (chain.keys[1].send_id, chain.keys[1].recv_id) = (KeyId(send), KeyId(recv)))
    };
    let sentence = |ids: &str, other: &str| {
        format!(
            "shares {ids} with {other} while both are accepted, which RFC 5925 §3.1 forbids: a segment's KeyID has to name one key"
        )
    };
    for (ids, shared) in [((1, 11), "SendID 1 and RecvID 11"), ((1, 12), "SendID 1"), ((2, 11), "RecvID 11")]
    {
        assert_eq!(
            found(&with_ids(ids.0, ids.1)),
            [format!("ids-collide core/2: {}", sentence(shared, "core/1"))]
        );
    }
    // The lines of the text are said, where there are any.
    let mut placed = with_ids(1, 12);
    placed.chains[0].keys[0].position = Some(Position { line: 7, column: 1 });
    assert_eq!(found(&placed), [format!("ids-collide core/2: {}", sentence("SendID 1", "core/1 (line 7)"))]);
    // Keys of two chains, if a neighbor uses both.
    let mut two = file();
    two.chains.push(Chain { name: "edge".into(), ..two.chains[0].clone() });
    for (neighbors, is_shared) in [(["192.0.2.1", "192.0.2.2"], false), (["192.0.2.1", "192.0.2.1"], true)] {
        for (chain, address) in two.chains.iter_mut().zip(neighbors) {
            chain.neighbors = vec![neighbor(address)];
        }
        let collide = |id: u8| {
            format!(
                "ids-collide edge/{id}: {}",
                sentence(&format!("SendID {id} and RecvID {}", id + 10), &format!("core/{id}"))
            )
        };
        let expected = if is_shared { vec![collide(1), collide(2)] } else { vec![] };
        assert_eq!(found(&two), expected);
    }
    let numbered = with(|chain| chain.keys[1].key_id = 1);
    assert_eq!(found(&numbered), ["key-id-twice core/1: another key of the chain has number 1"]);
}

#[test]
fn remarks_name_the_key_even_if_it_was_left_out() {
    let remark = |key_id| Remark {
        weight: Weight::Warning,
        kind: "assumed",
        key_id,
        position: None,
        sentence: "is as it is".into(),
        is_lost: true,
    };
    let mut of_chain = with(|chain| chain.remarks = vec![remark(Some(1)), remark(Some(9)), remark(None)]);
    of_chain.remarks = vec![remark(Some(8)), remark(None)];
    let subjects =
        ["8", "", "core/1", "core/9", "core"].map(|subject| format!("assumed {subject}: is as it is"));
    assert_eq!(found(&of_chain), subjects);
    let losses = convert(&of_chain, Format::Toml).unwrap().losses;
    assert_eq!(
        losses,
        [
            "key 8: is as it is",
            "is as it is",
            "key core/1: is as it is",
            "key core/9: is as it is",
            "chain \"core\": is as it is"
        ]
    );
}

/// Of three keys with three ids, the ones that clash are named, wherever they stand.
#[test]
fn the_keys_that_clash_are_named_among_others() {
    let mut file = file();
    let third =
        ChainKey { key_id: 3, send_id: KeyId(2), recv_id: KeyId(13), ..file.chains[0].keys[1].clone() };
    file.chains[0].keys.push(third);
    let error = file.key_chains(End::ThisEnd).map(drop).unwrap_err().to_string();
    assert_eq!(
        error,
        "key chain \"core\", key 3, send-id: key 2 has this id too, and their accept lifetimes overlap"
    );
    // The first key has the id too, and is over by then.
    let [first, second, third] = &mut file.chains[0].keys[..] else { panic!("three keys") };
    let change = Some(moment("2026-01-01T00:00:00Z"));
    let [before, after] =
        [(None, change), (change, None)].map(|(from, until)| Lifetime::new(from, until).unwrap());
    (first.send, first.accept, first.recv_id) = (before, before, KeyId(13));
    (third.send, third.accept, third.send_id) = (after, after, KeyId(30));
    second.recv_id = KeyId(13);
    (second.send, second.accept) = (after, after);
    let error = file.key_chains(End::ThisEnd).map(drop).unwrap_err().to_string();
    assert_eq!(
        error,
        "key chain \"core\", key 3, recv-id: key 2 has this id too, and their accept lifetimes overlap"
    );
    // Without a key that is neither deprecated nor over, there is none to ask for.
    let deprecated =
        with(|chain| chain.keys.iter_mut().for_each(|key| key.preference = Preference::Deprecated));
    let expected = "all-deprecated core: every key is deprecated, so there is none to request from the peer";
    assert_eq!(found(&deprecated), [expected]);
    let one = with(|chain| chain.keys[0].preference = Preference::Deprecated);
    assert_eq!(found(&one), [""; 0]);
}

#[test]
fn times_without_a_key_are_found() {
    let life =
        |from: Option<&str>, until: Option<&str>| Lifetime::new(from.map(moment), until.map(moment)).unwrap();
    let of = |lives: [Lifetime; 2]| {
        let file = with(|chain| {
            for (key, life) in chain.keys.iter_mut().zip(lives) {
                (key.send, key.accept) = (life, life);
            }
        });
        found(&file).into_iter().filter(|found| found.starts_with("gap ")).collect::<Vec<_>>()
    };
    let [past, now, next, later] =
        ["2026-01-01T00:00:00Z", "2026-06-15T00:00:00Z", "2026-07-01T00:00:00Z", "2026-08-01T00:00:00Z"];
    assert_eq!(of([life(None, Some(next)), life(Some(next), None)]), [""; 0]);
    assert_eq!(
        of([life(None, Some(next)), life(Some(later), None)]),
        [format!("gap core: no key is valid for sending from {next} until {later}")]
    );
    assert_eq!(
        of([life(None, Some(next)); 2]),
        [format!("gap core: no key is valid for sending from {next} on: add one in time")]
    );
    assert_eq!(
        of([life(None, Some(past)), life(Some(next), None)]),
        [format!("gap core: no key is valid for sending now, nor until {next}")]
    );
    assert_eq!(
        of([life(None, Some(now)); 2]),
        ["gap core: no key is valid for sending now, nor at any later time"]
    );
}

#[test]
fn secrets_that_are_empty_or_too_long_are_found() {
    let of = |text: &[u8]| {
        let secret = wireseal_keys::Secret::new(text.to_vec().into(), wireseal_keys::Notation::Text);
        let found = found(&with(|chain| chain.keys[1].secret = secret.clone()));
        found.into_iter().filter(|found| !found.starts_with("refused")).collect::<Vec<_>>()
    };
    assert_eq!(of(b""), ["weak-secret core/2: the secret is empty"]);
    let long = "long-secret core/2: the secret has 81 octets, but Linux and this program accept at most 80";
    let varied: Vec<u8> = (b'0'..=b'z').cycle().take(81).collect();
    assert_eq!(of(&varied), [long]);
    assert_eq!(of(&varied[..80]), [""; 0]);
    assert_eq!(of(&varied[..12]), [""; 0]);
    assert!(of(&varied[..11])[0].starts_with("weak-secret core/2: the secret has 11 octets: "));
    assert!(of(b"a")[0].starts_with("weak-secret core/2: the secret has 1 octet: "));
    assert_eq!(
        of(b"abcdeabcdeab"),
        ["weak-secret core/2: the secret has 12 octets but only 5 different ones: use random octets"]
    );
    assert_eq!(of(b"abcdefabcdef"), [""; 0]);
}

/// What secrets look like that were probably not meant so.
#[test]
fn secrets_that_are_probably_mistakes_are_found() {
    let of = |octets: &[u8], notation| {
        let secret = wireseal_keys::Secret::new(octets.to_vec().into(), notation);
        let found =
            check(&with(|chain| chain.keys[1].secret = secret.clone()), moment("2026-06-15T00:00:00Z"), &[]);
        let kinds = found
            .iter()
            .map(|finding| finding.kind)
            .filter(|kind| !["refused", "weak-secret"].contains(kind));
        kinds.collect::<Vec<_>>().join(" ")
    };
    let text = |octets: &[u8]| of(octets, wireseal_keys::Notation::Text);
    for (octets, kinds) in [
        (&b"a secret of the tests"[..], ""),
        (b"a secret of the tests\n", "line-end"),
        (b"a secret of the tests\r", "line-end"),
        (b" a secret of the tests", "white-space"),
        (b"a secret of the tests\t", "white-space"),
        (b"\"a secret of the tests\"", "quotes"),
        (b"'a secret of the tests'", "quotes"),
        (b"`a secret of the tests`", "quotes"),
        (b"\"a secret of the tests'", ""),
        (b"\"", ""),
        ("a secr\u{e9}t of the tests".as_bytes(), "not-ascii"),
        (b"a secret\x01of the tests", "control-characters"),
        (b"0123456789abcdef", "hex-as-text"),
        (b"01:23:45:67:89:ab:cd:ef", "hex-as-text"),
        (b"0123456789abcde", ""),
        (b"0123456789abcd", ""),
        (b"0123456789abcdefg", ""),
        (b"0x12", "hex-as-text"),
        (b"0X12", "hex-as-text"),
        (b"0x1", ""),
        (b"0x", ""),
        (b"$9$of-the-tests", "scrambled"),
        (b"$8$of-the-tests", "scrambled"),
        (b"$7$of-the-tests", ""),
    ] {
        assert_eq!(text(octets), kinds, "{:?}", String::from_utf8_lossy(octets));
    }
    // Octets that are no text may be any.
    for notation in [wireseal_keys::Notation::Hexadecimal, wireseal_keys::Notation::Base64] {
        assert_eq!(of(b"0123456789abcdef", notation), "");
        assert_eq!(of(b"a secret\x01of \xe9 the tests", notation), "");
    }
    // The same secret twice, but not one that only the router knows.
    let twice = |edit: &dyn Fn(&mut ChainKey)| {
        let file = with(|chain| {
            chain.keys[1].secret = chain.keys[0].secret.clone();
            chain.keys.iter_mut().for_each(edit);
        });
        found(&file)
    };
    assert_eq!(
        twice(&|_| {}),
        [
            "same-secret core/2: the secret is also that of core/1, so rolling over from one to the other gains nothing"
        ]
    );
    assert_eq!(twice(&|key| key.secret = encrypted()), [""; 0]);
    // Some algorithms require long ones.
    let least = |length: usize| {
        let octets: Vec<u8> = (b'A'..=b'z').cycle().take(length).collect();
        let secret = wireseal_keys::Secret::new(octets.into(), wireseal_keys::Notation::Text);
        found(&with(|chain| {
            (chain.keys[1].algorithm, chain.keys[1].mac_length, chain.keys[1].secret) =
                ("HMAC-SHA256-128".parse().unwrap(), 16, secret.clone());
        }))
    };
    assert!(!least(32).iter().any(|found| found.starts_with("weak")), "{:?}", least(32));
    let expected =
        "weak-secret core/2: the secret has 31 octets, but HMAC-SHA256-128 requires at least 32".to_owned();
    assert!(least(31).contains(&expected), "{:?}", least(31));
}

#[test]
fn what_a_key_can_be_used_for_has_a_name() {
    let all = [Usable::Whole, Usable::Accepted, Usable::NotYet, Usable::Expired, Usable::Unknown];
    assert_eq!(all.map(Usable::name), ["yes", "accepted", "not yet", "expired", "unknown"]);
    assert_eq!([Weight::Warning, Weight::Note].map(Weight::name), ["warning", "note"]);
    let chain = file().chains.remove(0);
    let noon = moment("2026-06-15T12:00:00Z");
    let (hour, day) = (noon.earlier_by(3600), noon.later_by(86_400));
    let of = |clock, [send, accept]: [(Option<Timestamp>, Option<Timestamp>); 2]| {
        let life = |(from, until)| Lifetime::new(from, until).unwrap();
        Usable::of(
            &chain,
            &ChainKey { clock, send: life(send), accept: life(accept), ..chain.keys[0].clone() },
            noon,
        )
    };
    let always = (None, None);
    assert_eq!(of(Clock::Utc, [always, always]), Usable::Whole);
    assert_eq!(of(Clock::Utc, [(Some(day), None), always]), Usable::Accepted);
    assert_eq!(of(Clock::Utc, [(Some(day), None), (Some(day), None)]), Usable::NotYet);
    assert_eq!(of(Clock::Utc, [(None, Some(hour)), (None, Some(noon))]), Usable::Expired);
    // One that is still to be sent with is not over.
    assert_eq!(of(Clock::Utc, [(Some(day), None), (None, Some(noon))]), Usable::NotYet);
    // In local time, it depends for 14 hours before and after each moment.
    let hours = |count: u32| [(Some(noon.earlier_by(3600 * count)), None); 2];
    assert_eq!((of(Clock::Local, hours(14)), of(Clock::Local, hours(15))), (Usable::Unknown, Usable::Whole));
    let hours = |count: u32| [(None, Some(noon.later_by(3600 * count))); 2];
    assert_eq!((of(Clock::Local, hours(14)), of(Clock::Local, hours(15))), (Usable::Unknown, Usable::Whole));
}

#[test]
fn limits_of_implementations_are_reported_with_their_numbers() {
    let refusals = |format, edit: &dyn Fn(&mut ChainKey)| {
        let mut key = file().chains[0].keys[0].clone();
        edit(&mut key);
        Implementation::reading(Some(format)).refusals(&key)
    };
    assert_eq!(refusals(Format::Toml, &|_| {}), [""; 0]);
    assert_eq!(
        refusals(Format::Toml, &|key| key.mac_length = 17),
        ["supports MACs of 4 to 16 octets, not 17"]
    );
    assert_eq!(refusals(Format::Toml, &|key| key.mac_length = 16), [""; 0]);
    assert_eq!(refusals(Format::Bird, &|key| key.mac_length = 16), ["supports MACs of 12 octets, not 16"]);
    for (id, is_refused) in [(63, false), (64, true)] {
        let said = |field: &str| if is_refused { vec![format!("has no {field} above 63")] } else { vec![] };
        assert_eq!(refusals(Format::Junos, &|key| key.send_id = KeyId(id)), [""; 0]);
        assert_eq!(refusals(Format::SrOs, &|key| key.recv_id = KeyId(id)), said("RecvID"));
        assert_eq!(refusals(Format::SrOs, &|key| key.send_id = KeyId(id)), said("SendID"));
    }
    for (length, is_refused) in [(255, false), (256, true)] {
        let secret = wireseal_keys::Secret::new(vec![b'k'; length].into(), wireseal_keys::Notation::Text);
        let expected =
            if is_refused { vec!["accepts secrets of at most 255 octets, not 256"] } else { vec![] };
        assert_eq!(refusals(Format::Vrp, &|key| key.secret = secret.clone()), expected);
    }
}
