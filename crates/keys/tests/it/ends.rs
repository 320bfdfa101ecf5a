//! Two ends' files: which chains meet, which keys are the same, and what differs.

use std::path::Path;

use wireseal_keys::{
    Clock, ConfiguredEnd, Disagreement, Format, Implementation, KeyFile, Lifetime, MetBy, Pair, Position,
    Relation, Remark, Timestamp, Weight, compare, meet, pairs, read,
};

/// Two keys for each of two neighbors, and addresses of its own.
const JUNOS: &str = r#"
interfaces { ge-0/0/0 { unit 0 { family inet { address 192.0.2.1/30; } } } }
security { authentication-key-chains {
    key-chain to-b { key 1 {
        secret "a secret for both ends"; start-time "2026-1-1.00:00:00 +0000"; algorithm ao;
        ao-attribute { send-id 1; recv-id 2; tcp-ao-option enabled; cryptographic-algorithm aes-128-cmac-96; }
    } }
    key-chain to-c { key 1 {
        secret "a secret for the others"; start-time "2026-1-1.00:00:00 +0000"; algorithm ao;
        ao-attribute { send-id 7; recv-id 8; tcp-ao-option enabled; cryptographic-algorithm aes-128-cmac-96; }
    } }
} }
protocols { bgp { group all { authentication-algorithm ao;
    neighbor 192.0.2.2 { authentication-key-chain to-b; }
    neighbor 198.51.100.3 { authentication-key-chain to-c; }
} } }
"#;

/// The neighbor 192.0.2.2, with another chain for another peer.
const BIRD: &str = r#"
protocol bgp to_a {
    local 192.0.2.2 as 65002;
    neighbor 192.0.2.1 as 65001;
    authentication ao;
    keys { key { send id 2; recv id 1; secret "a secret for both ends"; algorithm cmac aes128; }; };
}
protocol bgp to_c {
    local 192.0.2.2 as 65002;
    neighbor 198.51.100.3 as 65003;
    authentication ao;
    keys { key { send id 8; recv id 7; secret "a secret for the others"; algorithm cmac aes128; }; };
}
"#;

const TOML: &str = r#"
[[key-chain]]
name = "core"
[[key-chain.key]]
send-id = 2
recv-id = 1
algorithm = "AES-128-CMAC-96"
secret = "a secret for both ends"
"#;

pub(crate) fn file(text: &str, format: Format) -> KeyFile {
    read(Path::new("keys"), text, Some(format)).unwrap()
}

/// The names of the chains that meet, and how they were found, or the error.
pub(crate) fn met(files: [&KeyFile; 2], names: Option<&str>) -> Result<(String, MetBy), String> {
    let meeting = meet(files, names).map_err(|error| error.to_string())?;
    let [one, other] = meeting.ends.map(|end| end.chain.name.as_str());
    Ok((format!("{one}:{other}"), meeting.by))
}

pub(crate) fn now() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

/// What is found about the first chains of two texts.
fn found(texts: [(&str, Format); 2]) -> Vec<Disagreement> {
    let files = texts.map(|(text, format)| file(text, format));
    let meeting = meet([&files[0], &files[1]], None).unwrap();
    compare(meeting.ends, ["A", "B"], 300, [now(), Timestamp::MAX])
}

#[track_caller]
fn assert_found(texts: [(&str, Format); 2], kind: &str, sentence: &str) {
    let found = found(texts);
    assert!(found.iter().any(|one| one.kind == kind && one.sentence == sentence), "{found:#?}");
}

#[test]
fn chains_meet_whose_neighbors_are_the_other_router() {
    let (junos, bird) = (file(JUNOS, Format::Junos), file(BIRD, Format::Bird));
    assert_eq!(met([&junos, &bird], None), Ok(("to-b:to_a".to_owned(), MetBy::Address)));
    assert_eq!(met([&bird, &junos], None), Ok(("to_a:to-b".to_owned(), MetBy::Address)));
    // That both also have the neighbor 198.51.100.3 makes neither of them that neighbor.
    let addresses: Vec<_> = bird.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["192.0.2.2"]);
}

#[test]
fn without_addresses_the_keys_decide() {
    let without = BIRD.replace("local 192.0.2.2 as", "local as");
    let junos = JUNOS.replace("address 192.0.2.1/30", "mtu 9000");
    let (junos, bird) = (file(&junos, Format::Junos), file(&without, Format::Bird));
    // Both chains of one match a chain of the other.
    assert_eq!(
        met([&junos, &bird], None).unwrap_err(),
        "which key chains are those of the session is not certain: name them with --chain A:B (to-b:to_a, to-c:to_c)"
    );
    assert_eq!(met([&junos, &file(TOML, Format::Toml)], None), Ok(("to-b:core".to_owned(), MetBy::Keys)));
    let toml = file(TOML, Format::Toml);
    assert_eq!(met([&toml, &toml], None), Ok(("core:core".to_owned(), MetBy::Only)));
    // Nothing in common leaves it open.
    let other = file(&TOML.replace("send-id = 2", "send-id = 99"), Format::Toml);
    assert!(met([&junos, &other], None).unwrap_err().contains("(to-b:core, to-c:core)"));
}

#[test]
fn chains_are_named() {
    let (junos, toml) = (file(JUNOS, Format::Junos), file(TOML, Format::Toml));
    assert_eq!(met([&junos, &toml], Some("to-c:core")), Ok(("to-c:core".to_owned(), MetBy::Name)));
    assert_eq!(met([&toml, &toml], Some("core")), Ok(("core:core".to_owned(), MetBy::Name)));
    for (names, error) in [
        ("core", "the first file has no key chain \"core\": it has to-b, to-c"),
        ("to-b", "the second file has no key chain \"to-b\": it has core"),
        ("to-b:edge", "the second file has no key chain \"edge\": it has core"),
        ("edge:core", "the first file has no key chain \"edge\": it has to-b, to-c"),
    ] {
        assert_eq!(met([&junos, &toml], Some(names)).unwrap_err(), error);
    }
    // A name may have a colon.
    let colon = file(&TOML.replace("\"core\"", "\"a:b\""), Format::Toml);
    assert_eq!(met([&colon, &toml], Some("a:b:core")).map(|met| met.0), Ok("a:b:core".to_owned()));
    assert_eq!(met([&colon, &colon], Some("a:b")).map(|met| met.0), Ok("a:b:a:b".to_owned()));
}

#[test]
fn keys_are_paired_with_what_they_have_most_in_common_with() {
    let key = |send: u8, recv: u8, secret: &str| {
        format!(
            "[[key-chain.key]]\nsend-id = {send}\nrecv-id = {recv}\nalgorithm = \"HMAC-SHA-1-96\"\nsecret = \"{secret}\"\n"
        )
    };
    let text = |keys: &[String]| format!("[[key-chain]]\nname = \"core\"\n{}", keys.concat());
    let one = [
        key(1, 2, "first"),
        key(3, 4, "second"),
        key(5, 6, "third"),
        key(7, 8, "fourth"),
        key(9, 10, "fifth"),
    ];
    let other = [
        key(21, 22, "fourth"),
        key(3, 4, "second"),
        key(6, 77, "third"),
        key(2, 1, "another"),
        key(50, 51, "sixth"),
    ];
    let files = [text(&one), text(&other)].map(|text| file(&text, Format::Toml));
    let paired = pairs([&files[0].chains[0], &files[1].chains[0]]);
    let ids = |pair: &Pair<'_>| (pair.keys.map(|key| key.map(|key| key.send_id.0)), pair.relation);
    assert_eq!(
        paired.iter().map(ids).collect::<Vec<_>>(),
        [
            ([Some(1), Some(2)], Relation::Crossed),
            ([Some(3), Some(3)], Relation::NotCrossed),
            ([Some(5), Some(6)], Relation::OneWay),
            ([Some(7), Some(21)], Relation::Secret),
            ([Some(9), None], Relation::Alone),
            ([None, Some(50)], Relation::Alone),
        ]
    );
}

#[test]
fn equal_ends_have_nothing_to_report() {
    let other = TOML.replace("send-id = 2\nrecv-id = 1", "send-id = 1\nrecv-id = 2");
    assert_eq!(found([(TOML, Format::Toml), (&other, Format::Toml)]), []);
}

#[test]
fn every_field_that_differs_is_found_at_both_ends() {
    let junos = JUNOS.split("    key-chain to-c").next().unwrap().to_owned() + "} }";
    let with = |from: &str, to: &str| TOML.replace(from, to);
    let pair = |toml: &str, kind: &str, sentence: &str| {
        assert_found([(&junos, Format::Junos), (toml, Format::Toml)], kind, sentence);
    };
    pair(
        &with("AES-128-CMAC-96", "HMAC-SHA-1-96"),
        "algorithm",
        "A has AES-128-CMAC-96, but B has HMAC-SHA-1-96",
    );
    pair(
        &with("secret =", "mac-length = 16\nsecret ="),
        "mac-length",
        "A has MACs of 12 octets, but B of 16",
    );
    pair(
        &with("secret =", "options = \"excluded\"\nsecret ="),
        "options",
        "A covers the TCP options, but B excludes them: Linux covers them with \"options: covered\"",
    );
    pair(
        &with("both ends\"", "both ends \""),
        "secret",
        "the secrets differ, but only in blanks or line ends around them",
    );
    pair(&with("both ends", "BOTH ENDS"), "secret", "the secrets differ, but only in upper and lower case");
    pair(&with("both ends", "nobody"), "secret", "the secrets differ");
    pair(
        &with(
            "a secret for both ends",
            "6120736563726574 20666f7220626f746820656e6473".replace(' ', "").as_str(),
        ),
        "secret",
        "the secrets differ: one has the hexadecimal digits of the other as text",
    );
    pair(
        &with("send-id = 2\nrecv-id = 1", "send-id = 1\nrecv-id = 2"),
        "ids-not-crossed",
        "both ends have SendID 1 and RecvID 2: at one of them they have to be swapped",
    );
    pair(&with("send-id = 2", "send-id = 3"), "ids", "B sends SendID 3, but A has RecvID 2");
    pair(&with("recv-id = 1", "recv-id = 3"), "ids", "A sends SendID 1, but B has RecvID 3");
    let until =
        "accept = { until = 2026-07-01T00:00:00Z }\nsend = { until = 2026-07-01T00:00:00Z }\nsecret =";
    pair(
        &with("secret =", until),
        "accept-too-short",
        "A may sign with it from 2026-01-01T00:00:00Z on, but B accepts it until 2026-07-01T00:00:00Z",
    );
    // Positions are those in each text.
    let found = found([(&junos, Format::Junos), (&with("both ends", "nobody"), Format::Toml)]);
    let [one, other] = &found[0].subjects;
    assert_eq!(one.as_ref().map(|(name, at)| (name.as_str(), at.unwrap().line)), Some(("to-b/1", 4)));
    assert_eq!(other.as_ref().map(|(name, _)| name.as_str()), Some("core/2"));
    assert_eq!(found[0].weight, Weight::Warning);
}

#[test]
fn a_key_that_only_one_end_has_matters_while_it_is_used() {
    let more = |until: &str| {
        format!(
            "{TOML}[[key-chain.key]]\nsend-id = 200\nrecv-id = 201\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"an older \
             one\"\nsend = {{ until = {until} }}\naccept = {{ until = {until} }}\n"
        )
    };
    let other = TOML.replace("send-id = 2\nrecv-id = 1", "send-id = 1\nrecv-id = 2");
    for (until, weight) in [("2026-05-01T00:00:00Z", Weight::Note), ("2026-08-01T00:00:00Z", Weight::Warning)]
    {
        let found = found([(&more(until), Format::Toml), (&other, Format::Toml)]);
        let alone = found.iter().find(|one| one.kind == "no-counterpart").unwrap();
        assert_eq!((alone.weight, alone.subjects[1].is_none()), (weight, true));
        assert_eq!(alone.sentence, "B has no key for it: that has SendID 201 and RecvID 200");
    }
}

#[test]
fn what_the_other_end_cannot_be_configured_with_is_said() {
    // BIRD always covers the options.
    let toml = TOML.replace("send-id = 2\n", "send-id = 77\noptions = \"excluded\"\n");
    let bird = "protocol bgp a { authentication ao; keys { key { send id 1; recv id 9; secret \"x\"; algorithm cmac aes128; }; }; }";
    let found = found([(&toml, Format::Toml), (bird, Format::Bird)]);
    let said: Vec<_> =
        found.iter().filter(|one| one.kind == "refused").map(|one| one.sentence.as_str()).collect();
    assert_eq!(
        said,
        ["B cannot have its counterpart (SendID 1, RecvID 77): BIRD always covers the TCP options"]
    );
}

pub(crate) fn end(file: &KeyFile, format: Format) -> ConfiguredEnd<'_> {
    ConfiguredEnd { chain: &file.chains[0], implementation: Implementation::reading(Some(format)) }
}

#[test]
fn ends_that_choose_differently_among_valid_keys_are_noted() {
    let second = |send: u8, recv: u8| {
        format!(
            "[[key-chain.key]]\nsend-id = {send}\nrecv-id = {recv}\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"another one\"\n"
        )
    };
    let one = file(&(TOML.to_owned() + &second(4, 3)), Format::Toml);
    let mirrored = TOML.replace("send-id = 2\nrecv-id = 1", "send-id = 1\nrecv-id = 2") + &second(3, 4);
    let other = file(&mirrored, Format::Toml);
    let notes = |format: Format| {
        let found =
            compare([end(&one, Format::Toml), end(&other, format)], ["A", "B"], 0, [now(), Timestamp::MAX]);
        found.into_iter().map(|one| (one.kind, one.sentence)).collect::<Vec<_>>()
    };
    assert_eq!(notes(Format::Junos), []);
    let said = "while several keys are valid, A (Linux) signs with the one whose send lifetime started last; B (IOS XR) signs \
                with any of them: which one is not documented";
    assert_eq!(notes(Format::IosXr), [("sending-rule", said.to_owned())]);
}

/// The other router of a session with that of `whole/junos.conf`, in BGP without the lines before and after.
fn xr(neighbors: &str) -> KeyFile {
    let text = format!(
        "interface Loopback0\n ipv4 address 192.0.2.2 255.255.255.255\n!\nkey chain CORE\n key 1\n  accept-lifetime 00:00:00 january 01 \
         2026 infinite\n  send-lifetime 00:00:00 january 01 2026 infinite\n  key-string password 011A08105E19091F\n  \
         cryptographic-algorithm AES-128-CMAC-96\n !\n!\ntcp ao\n keychain CORE\n  key 1 SendID 1 ReceiveID 1\n !\n!\nrouter bgp \
         64501\n{neighbors}!\n"
    );
    read(Path::new("xr"), &text, Some(Format::IosXr)).unwrap()
}

fn strangers(one: &KeyFile, other: &KeyFile) -> Vec<String> {
    let meeting = meet([one, other], None).unwrap();
    let found = meeting.strangers([one, other], ["A", "B"]);
    found.into_iter().map(|found| format!("{}: {}", found.kind, found.sentence)).collect()
}

#[test]
fn a_chain_that_the_other_router_is_not_for_is_said() {
    let junos = include_str!("../data/whole/junos.conf");
    let junos = read(Path::new("junos"), junos, None).unwrap();
    let of = |address: &str| format!(" neighbor {address}\n  ao CORE include-tcp-options enable\n !\n");
    assert_eq!(strangers(&junos, &xr(&of("192.0.2.1"))), [""; 0]);
    assert_eq!(strangers(&junos, &xr(&of("192.0.2.0/24"))), [""; 0]);
    assert_eq!(
        strangers(&junos, &xr(" neighbor 192.0.2.1\n !\n")),
        ["not-used: no neighbor in the file of B uses this chain"]
    );
    let other = "other-neighbors: B uses it for 192.0.2.9, and the file of A has not this address";
    assert_eq!(strangers(&junos, &xr(&of("192.0.2.9"))), [other]);
    let others = "other-neighbors: B uses it for 192.0.2.8 and 1 others, and the file of A has none of these addresses";
    assert_eq!(strangers(&junos, &xr(&(of("192.0.2.8") + &of("192.0.2.9")))), [others]);
    // A file of keys alone does not say whom they are for.
    let keys = "[[key-chain]]\nname = \"CORE\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"cisco123\"\n";
    let keys = read(Path::new("keys.toml"), keys, None).unwrap();
    assert_eq!(strangers(&keys, &xr(&of("192.0.2.9"))), [""; 0]);
}

#[test]
fn what_an_ends_own_implementation_refuses_is_said() {
    let good = xr("");
    let mut bad = good.clone();
    bad.chains[0].keys[0].accept = Lifetime::ALWAYS;
    let found = |file: &KeyFile| {
        let found = compare(meet([file, &good], None).unwrap().ends, ["A", "B"], 0, [now(), Timestamp::MAX]);
        found
            .iter()
            .filter(|found| found.kind == "refused")
            .map(|found| found.sentence.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&good), [""; 0]);
    assert_eq!(found(&bad), ["IOS XR requires equal send-lifetime and accept-lifetime for TCP-AO"]);
}

/// A chain of one key, with further lines of TOML.
pub(crate) fn toml(send: u8, recv: u8, algorithm: &str, secret: &str, more: &str) -> KeyFile {
    let key = format!(
        "[[key-chain.key]]\nsend-id = {send}\nrecv-id = {recv}\nalgorithm = \"{algorithm}\"\nsecret = \"{secret}\"\n{more}"
    );
    file(&format!("[[key-chain]]\nname = \"core\"\n{key}"), Format::Toml)
}

/// Every finding about the first chains of two files, as `kind: sentence`.
pub(crate) fn said(ends: [ConfiguredEnd<'_>; 2], skew_seconds: u32) -> Vec<String> {
    let found = compare(ends, ["A", "B"], skew_seconds, [now(), Timestamp::MAX]);
    found.into_iter().map(|found| format!("{}: {}", found.kind, found.sentence)).collect()
}

#[test]
fn keys_with_nothing_but_the_secret_in_common_have_wrong_ids() {
    let aes = |send, recv| toml(send, recv, "AES-128-CMAC-96", "a secret for both ends", "");
    let [one, other] = [aes(1, 2), aes(7, 8)];
    let expected = "ids: the secrets are the same, but A has SendID 1 and RecvID 2, and B SendID 7 and RecvID 8: the SendID of one \
                    end has to be the RecvID of the other";
    assert_eq!(said([end(&one, Format::Toml), end(&other, Format::Toml)], 0), [expected]);
    // Each end has a key, and they are not the same.
    let stranger = toml(7, 8, "AES-128-CMAC-96", "another secret", "");
    assert_eq!(
        said([end(&one, Format::Toml), end(&stranger, Format::Toml)], 0),
        [
            "no-counterpart: B has no key for it: that has SendID 2 and RecvID 1",
            "no-counterpart: A has no key for it: that has SendID 8 and RecvID 7",
        ]
    );
    let paired = pairs([&one.chains[0], &stranger.chains[0]]);
    assert_eq!(paired.iter().map(|pair| pair.both().is_some()).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn one_mac_with_two_kdfs_is_reported() {
    let secret = "a secret of more than 32 characters for both";
    let [one, other] =
        [toml(1, 2, "hmac(sha256)", secret, "mac-length = 16\n"), toml(2, 1, "HMAC-SHA256-128", secret, "")];
    let expected =
        "algorithm: A has hmac(sha256), but B has HMAC-SHA256-128, which derives traffic keys differently";
    // Linux derives them in one of the two ways.
    let refused = "refused: Linux does not support HMAC-SHA256-128";
    assert_eq!(said([end(&one, Format::Toml), end(&other, Format::Toml)], 0), [expected, refused]);
}

#[test]
fn the_setting_that_covers_tcp_options_is_named_if_the_router_has_one() {
    let of = |send, recv, more| toml(send, recv, "AES-128-CMAC-96", "a secret for both ends", more);
    let (covered, excluded) = (of(1, 2, ""), of(2, 1, "options = \"excluded\"\n"));
    let of_options = |covering, excluding| {
        let ends = [end(&covered, covering), end(&excluded, excluding)];
        said(ends, 0).into_iter().find(|said| said.starts_with("options: ")).unwrap()
    };
    let start = "options: A covers the TCP options, but B excludes them";
    let [linux, bird] = [Format::Toml, Format::Bird];
    assert_eq!(of_options(linux, linux), format!("{start}: Linux covers them with \"options: covered\""));
    assert_eq!(
        of_options(bird, linux),
        format!("{start}; BIRD always covers them: Linux covers them with \"options: covered\"")
    );
    assert_eq!(of_options(linux, bird), start);
}

#[test]
fn lifetimes_are_compared_with_the_allowed_clock_difference() {
    let of = |send, recv, more: &str| toml(send, recv, "AES-128-CMAC-96", "a secret for both ends", more);
    let [year, next] = ["2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"];
    let during = |field: &str| format!("{field} = {{ from = {year}, until = {next} }}\n");
    let one = of(1, 2, &during("send"));
    let other = of(2, 1, &(during("send") + &during("accept")));
    let said_of =
        |one: &KeyFile, other: &KeyFile, skew| said([end(one, Format::Toml), end(other, Format::Toml)], skew);
    assert_eq!(said_of(&one, &other, 0), [""; 0]);
    let clocks = |signer, receiver| {
        format!(
            "no-tolerance: {signer} may sign with it from {year} until {next}, but {receiver} accepts it from {year} until {next}, which \
             does not allow for clocks 300 s apart"
        )
    };
    assert_eq!(said_of(&one, &other, 300), [clocks("A", "B"), clocks("B", "A")]);
    // A tolerance of 300 s at one end allows for that.
    let mut tolerant = other.clone();
    tolerant.chains[0].accept_tolerance = 300;
    let tolerance = "tolerance: A accepts keys 0 s before and after their lifetimes, B 300 s";
    assert_eq!(said_of(&one, &tolerant, 300), [clocks("B", "A").as_str(), tolerance]);
    let always = of(2, 1, "");
    let ends =
        format!("accept-too-short: B may sign with it always, but A accepts it from {year} until {next}");
    assert_eq!(said_of(&one, &always, 0), [ends.as_str()]);
    // Without lifetimes, a tolerance does nothing.
    let mut tolerant = always.clone();
    tolerant.chains[0].accept_tolerance = 300;
    assert_eq!(said_of(&of(1, 2, ""), &tolerant, 0), [""; 0]);
    tolerant.chains[0].keys[0].send = Lifetime::starting(now().earlier_by(1));
    assert_eq!(said_of(&of(1, 2, ""), &tolerant, 0), [tolerance]);
}

#[test]
fn secrets_that_a_router_hides_are_reported_as_not_compared() {
    let other = toml(1, 1, "AES-128-CMAC-96", "a secret for both ends", "");
    let mut encrypted = xr("");
    let text = include_str!("../data/routers/ios-xr.cfg")
        .replace("password 011A08105E19091F", "password6 5450615A415E");
    encrypted.chains[0].keys[0].secret = file(&text, Format::IosXr).chains[0].keys[0].secret.clone();
    assert!(encrypted.chains[0].keys[0].secret.encryption().is_some());
    let of = |files: [&KeyFile; 2]| said([end(files[0], Format::Toml), end(files[1], Format::Toml)], 0);
    let compared = |at: &str| {
        format!("secret-not-compared: the secret is encrypted at {at}, so the secrets are not compared")
    };
    for (files, at) in [
        ([&encrypted, &other], "A (type 6)"),
        ([&other, &encrypted], "B (type 6)"),
        ([&encrypted, &encrypted], "A (type 6) and B (type 6)"),
    ] {
        let said = of(files);
        assert!(said.contains(&compared(at)), "{said:?}");
        assert!(!said.iter().any(|said| said.starts_with("secret: ")), "{said:?}");
    }
}

#[test]
fn local_times_and_remarks_name_their_end() {
    let [mut local, other] = [
        toml(1, 2, "AES-128-CMAC-96", "a secret for both ends", ""),
        toml(2, 1, "AES-128-CMAC-96", "a secret for both ends", ""),
    ];
    let [chain] = &mut local.chains[..] else { panic!("one chain") };
    chain.keys[0].clock = Clock::Local;
    let ends = |local: &KeyFile| {
        let ends = [
            end(&other, Format::Toml),
            ConfiguredEnd { chain: &local.chains[0], ..end(&other, Format::Toml) },
        ];
        compare(ends, ["A", "B"], 0, [now(), Timestamp::MAX])
    };
    // Without lifetimes, its clock does not matter.
    assert_eq!(ends(&local), []);
    let lifetime = Lifetime::starting(now());
    let key = &mut local.chains[0].keys[0];
    (key.send, key.accept) = (lifetime, lifetime);
    let found = ends(&local);
    let expected = "the lifetimes are in the local time of B, which is not known: they are taken to be up to 14 hours off; give --utc-offset";
    assert!(
        matches!(&found[..], [found] if found.kind == "local-time" && found.sentence == expected),
        "{found:#?}"
    );
    assert_eq!(found[0].subjects, [None, Some(("core/1".to_owned(), None))]);
    // Remarks of the reader, but not once more about local time.
    let position = Position { line: 7, column: 1 };
    let remark = |kind, key_id, position| Remark {
        weight: Weight::Note,
        kind,
        key_id,
        position,
        sentence: "is as it is".into(),
        is_lost: false,
    };
    local.chains[0].keys[0].position = Some(position);
    local.chains[0].remarks = vec![
        remark("local-time", None, None),
        remark("assumed", Some(1), None),
        remark("disputed", None, None),
        remark("assumed", Some(9), None),
    ];
    let said: Vec<_> = ends(&local)
        .into_iter()
        .skip(1)
        .map(|found| (found.weight, found.kind, found.sentence, found.subjects[1].clone()))
        .collect();
    let of = |kind, name: &str, position| {
        (Weight::Note, kind, "is as it is".to_owned(), Some((name.to_owned(), position)))
    };
    assert_eq!(
        said,
        [of("assumed", "core/1", Some(position)), of("disputed", "core", None), of("assumed", "core", None)]
    );
}

#[test]
fn each_sending_rule_is_described() {
    let second = "[[key-chain.key]]\nsend-id = 3\nrecv-id = 4\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"another one\"\n";
    let one = toml(1, 2, "AES-128-CMAC-96", "a secret for both ends", second);
    let rule = |format| {
        let [own, linux] = [end(&one, format), end(&one, Format::Toml)];
        let said = said([own, linux], 0);
        said.into_iter().find_map(|said| {
            said.strip_prefix("sending-rule: while several keys are valid, ").map(str::to_owned)
        })
    };
    let after = "; B (Linux) signs with the one whose send lifetime started last";
    assert_eq!(rule(Format::Toml), None);
    for (format, words) in [
        (Format::IosXe, "A (IOS XE) signs with the one that has the longest send lifetime"),
        (Format::Bird, "A (BIRD) signs with the first of the highest rank"),
        (Format::Eos, "A (EOS) signs with any of them: which one is not documented"),
    ] {
        assert_eq!(rule(format), Some(format!("{words}{after}")));
    }
}

#[test]
fn files_without_keys_or_with_several_matches_are_not_paired() {
    let one = toml(1, 2, "AES-128-CMAC-96", "a secret for both ends", "");
    let mut empty = one.clone();
    empty.chains[0].keys.clear();
    for files in [[&one, &empty], [&empty, &one], [&empty, &empty]] {
        assert_eq!(met(files, None).unwrap_err(), "one of the files has no key for TCP-AO");
    }
    // Eight choices are named, and that there are more.
    let many = |count: usize| {
        let chain = |number| wireseal_keys::Chain { name: format!("c{number}"), ..one.chains[0].clone() };
        KeyFile { chains: (0..count).map(chain).collect(), ..one.clone() }
    };
    let choices = |count: usize| {
        let error = met([&many(count), &one], None).unwrap_err();
        error.split_once(" (").unwrap().1.trim_end_matches(')').to_owned()
    };
    let all = "c0:core, c1:core, c2:core, c3:core, c4:core, c5:core, c6:core, c7:core";
    assert_eq!((choices(8), choices(9)), (all.to_owned(), format!("{all}, ...")));
    let names = [MetBy::Name, MetBy::Address, MetBy::Only, MetBy::Keys].map(MetBy::name);
    assert_eq!(names, ["name", "address", "only", "keys"]);
}

/// A link-local neighbor may be any router, so nothing is said about it.
#[test]
fn a_link_local_neighbor_is_not_mistaken_for_another_router() {
    let junos = read(Path::new("junos"), include_str!("../data/whole/junos.conf"), None).unwrap();
    let mut xr = xr("");
    for (neighbor, is_said) in [("fe80::1", false), ("2001:db8::1", true), ("192.0.2.9", true)] {
        let address: cidr::IpCidr = neighbor.parse().unwrap();
        xr.chains[0].neighbors = vec![address.into()];
        assert_eq!(strangers(&junos, &xr).is_empty(), !is_said, "{neighbor}");
    }
}
