//! BIRD's configuration: its keys, what BIRD itself refuses, and what is not followed.

use std::path::Path;

use wireseal_keys::{Format, KeyFile, Notation, Preference, convert, read};
use wireseal_tcp_ao::OptionCoverage::Covered;

use super::routers::{
    chains, check, error_of, keys, load_data, no_part_panics_or_shows_a_secret, peers, read_file, read_text,
    remarks,
};

#[test]
fn it_has_its_keys_by_protocol() {
    let file = load_data("bird.conf", Format::Bird);
    let [unnamed, upstream] = &file.chains[..] else { panic!("two protocols with TCP-AO") };
    assert_eq!(keys(unnamed), ["bgp1/0: 0/0 hmac(sha256) hello321", "bgp1/2: 2/1 AES-128-CMAC-96 bye123"]);
    assert_eq!(peers(unnamed), ["198.51.100.130"]);
    let preferences = unnamed.keys.iter().map(|key| key.preference).collect::<Vec<_>>();
    assert_eq!(preferences, [Preference::Preferred, Preference::Ordinary]);
    assert_eq!(unnamed.keys[1].position.map(|at| (at.line, at.column)), Some((41, 3)));
    // BIRD requests no MAC length, and Linux then uses 12. BIRD never excludes options.
    assert!(unnamed.keys.iter().all(|key| (key.mac_length, key.options) == (12, Covered)));

    assert_eq!(
        keys(upstream),
        [
            "upstream-6/7: 7/7 HMAC-SHA-1-96 c0ffee and cream",
            "upstream-6/8: 8/8 HMAC-SHA-1-96 0123456789abcdef"
        ]
    );
    assert_eq!(upstream.description.as_deref(), Some("the upstream over IPv6"));
    assert_eq!(peers(upstream), ["2001:db8::2"]);
    assert_eq!(upstream.keys[1].preference, Preference::Deprecated);
    assert_eq!(upstream.keys[1].secret.notation(), Notation::Hexadecimal);
}

#[test]
fn it_has_a_bare_block_of_keys_and_short_octets() {
    let text = "keys { key { id 0x10; secret hex:00:ff; } key { id 2; send id 1; secret \"x\"; secret \"\\\"; algorithm hmac sha1; }; }";
    let chains = read_text(text, Format::Bird);
    assert_eq!(keys(&chains[0])[1], "1: 1/2 HMAC-SHA-1-96 \\");
    assert_eq!((chains[0].keys[0].send_id.0, chains[0].keys[0].secret.expose()), (16, &[0, 255][..]));
    assert!(chains[0].neighbors.is_empty());
    assert_eq!(read_text(&format!("keys {{ ; }} {text}"), Format::Bird).len(), 1, "a block without keys");
}

#[test]
fn addresses_and_ids_may_have_names() {
    let text = "define PEER = 2001:db8::7;\ndefine ID = 7;\nprotocol bgp a { neighbor PEER as 65001; authentication ao; keys { key { \
                send id ID; recv id 8; secret \"x\"; }; }; }";
    let chain = &read_text(text, Format::Bird)[0];
    assert_eq!(
        (peers(chain), keys(chain)),
        (vec!["2001:db8::7".into()], vec!["a/7: 7/8 HMAC-SHA-1-96 x".into()])
    );
}

/// BIRD signs with all of Linux's hashes, but only some of them are TCP-AO's.
#[test]
fn a_key_with_another_hash_is_left_out_and_the_others_are_read() {
    let text = |algorithm: &str| {
        format!(
            "keys {{\n key {{ id 1; algorithm {algorithm}; secret \"x\"; }};\n key {{ id 2; secret \"y\"; }};\n}}"
        )
    };
    for (algorithm, reason) in
        [("hmac md5", "MD5 is broken"), ("hmac sha512", "no RFC or working group draft defines")]
    {
        let file = read_file(&text(algorithm), Format::Bird);
        assert_eq!(keys(&file.chains[0]), ["2: 2/2 HMAC-SHA-1-96 y"]);
        let said = remarks(&file);
        assert!(
            said.len() == 1 && said[0].starts_with(&format!("2 left-out: is left out: {reason}")),
            "{said:?}"
        );
        let alone = text(algorithm).replace(" key { id 2; secret \"y\"; };\n", "");
        let error = error_of(Format::Bird, &alone);
        assert!(
            error.starts_with("router.conf: line 2, column 24, key 1: ") && error.contains(reason),
            "{error}"
        );
    }
}

#[test]
fn errors_name_the_place() {
    check(
        Format::Bird,
        &[
            ("keys {\n key { id 1; secret \"hunter2hunter2\";", "line 2, column 38, key: has no end"),
            (
                "keys {\n key { id 1; secret \"hunter2hunter2\n\"; }; }",
                "line 2, column 21, string: has no end",
            ),
            ("keys { /* hunter2hunter2", "line 1, column 8, comment: has no end"),
            ("keys {\n key { id 1; secret \"hunter2hunter2\"; };\n", "line 3, column 1, keys: has no end"),
            // What is longer than any name may be a secret.
            (
                "keys { key { id 1; algorithm hmac hunter2hunter2hunter2hunter x; }; }",
                "line 1, column 63, algorithm: expected ;",
            ),
            (
                "keys { key { id 1; algorithm hmac hunter2hunter2hunter2hunte x; }; }",
                "line 1, column 30, algorithm: unknown TCP-AO algorithm (supported: HMAC-SHA-1-96, AES-128-CMAC-96, hmac(sha256), \
                 HMAC-SHA256-128, KMAC256-128)",
            ),
            ("protocol bgp {\n ipv4 {\n", "line 3, column 1, block: has no end"),
            ("keys key", "line 1, column 6, keys: expected {"),
            ("keys { \"hunter2hunter2\" }", "line 1, column 8, keys: expected key { ... };"),
            ("keys { key id 1; }", "line 1, column 12, key: expected {"),
            (
                "keys { key { id 1; password \"hunter2hunter2\"; }; }",
                "line 1, column 20, key: expected id, send id, recv id, secret, algorithm, preferred or deprecated",
            ),
            ("keys { key { send 1; }; }", "line 1, column 19, send id: expected id"),
            ("keys { key { id 256; }; }", "line 1, column 17, id: must be a whole number from 0 to 255"),
            (
                "keys { key { recv id hunter2hunter2; }; }",
                "line 1, column 22, recv id: must be a whole number from 0 to 255",
            ),
            (
                "keys { key { id 1; preferred; deprecated; }; }",
                "line 1, column 31, key: a key cannot be both preferred and deprecated",
            ),
            ("keys { key { id 1; secret \"hunter2hunter2\" id 2; }; }", "line 1, column 44, key: expected ;"),
            ("keys { key { id 1; secret ; }; }", "line 1, column 27, secret: is missing"),
            (
                "keys { key { id 1; secret hunter2hunter2; }; }",
                "line 1, column 27, secret: expected a text in quotes, hex: with pairs of digits, 10 or more pairs of digits, or \
             a name from a define above",
            ),
            ("keys {\n\n key { id 1; }; }", "line 3, column 2, secret: is missing"),
            ("keys { key { secret \"hunter2hunter2\"; }; }", "line 1, column 8, send id: is missing"),
            (
                "keys { key { send id 2; secret \"hunter2hunter2\"; }; }",
                "line 1, column 8, recv id: is missing",
            ),
            (
                "keys { key { id 1; algorithm hmac sha1 \"hunter2hunter2\"; }; }",
                "line 1, column 40, algorithm: expected ;",
            ),
            ("protocol bgp { neighbor { } }", "line 1, column 25, neighbor: expected ;"),
            ("protocol bgp x { password \"hunter2hunter2\"; }", "has no key for TCP-AO (read as bird)"),
        ],
    );
    for (algorithm, reason) in
        [("hunter2hunter2", "unknown TCP-AO algorithm"), ("hmac(sha1)", "unknown TCP-AO algorithm")]
    {
        let text = format!("keys {{\n key {{ id 1; algorithm {algorithm}; secret \"x\"; }};\n}}");
        let error = error_of(Format::Bird, &text);
        assert!(
            error.starts_with(&format!("router.conf: line 2, column 24, algorithm: {reason}")),
            "{error}"
        );
    }
}

const KEYS: &str = "keys { key { id 1; secret \"Vd8zqkT1p0wYhU3m\"; algorithm cmac aes128; }; };";

fn file(text: &str) -> KeyFile {
    read_file(text, Format::Bird)
}

/// BIRD 3.3.2 takes and refuses the same ones (`bird -p -c`, with `local as 64502` and the channels added).
#[test]
fn what_bird_refuses_is_said() {
    let range = "BIRD has no TCP-AO on dynamic sessions, which a neighbor range is for";
    let second = "BIRD refuses a second neighbor in a protocol";
    for (inside, expected) in [
        ("neighbor 192.0.2.1 as 64501; authentication ao; KEYS", ""),
        (
            "neighbor 192.0.2.1 as 64501; KEYS",
            "BIRD refuses keys in a protocol without \"authentication ao;\"",
        ),
        (
            "neighbor 192.0.2.1 as 64501; authentication ao; password \"x\"; KEYS",
            "BIRD refuses a password, which is for TCP-MD5, in a protocol with keys",
        ),
        ("neighbor range 192.0.2.0/24 as 64501; authentication ao; KEYS", range),
        ("neighbor 192.0.2.2 as 64501; neighbor 192.0.2.1 as 64501; authentication ao; KEYS", second),
        ("neighbor as 64501; neighbor 192.0.2.1; authentication ao; KEYS", ""),
        (
            "neighbor fe80::1 as 64501; authentication ao; KEYS",
            "BIRD refuses a link-local neighbor without an interface",
        ),
        ("neighbor fe80::1 as 64501; interface \"eth0\"; authentication ao; KEYS", ""),
        ("neighbor fe80::1 % eth0 as 64501; authentication ao; KEYS", ""),
        ("local fe80::2%'eth0.1'; neighbor fe80::1 as 64501; authentication ao; KEYS", ""),
    ] {
        let text = format!("protocol bgp e {{ {} }}\n", inside.replace("KEYS", KEYS));
        let said: Vec<_> =
            remarks(&file(&text)).into_iter().map(|it| it.replacen("1 refused: ", "", 1)).collect();
        assert_eq!(said.join("; "), expected, "{text}");
    }
    let text = format!(
        "template bgp t {{ neighbor 192.0.2.3 as 1; authentication ao; {KEYS} }}\nprotocol bgp e from t {{ neighbor 192.0.2.4 as 1; }}\n"
    );
    assert_eq!(remarks(&file(&text)), [format!("2 refused: {second}")]);
    // What concerns TCP-AO alone is not said of other protocols.
    let text = format!(
        "protocol bgp a {{ neighbor range 192.0.2.0/24 as 1; }}\nprotocol bgp b {{ authentication ao; }}\nprotocol bgp c {{ \
         authentication ao; {KEYS} }}\n"
    );
    let expected = ["2 refused: BIRD refuses \"authentication ao;\" in a protocol without keys"];
    assert_eq!(remarks(&file(&text)), expected);
    // Without keys, only a protocol that may be for TCP-AO has remarks, and a key that is left out is one.
    for (inside, expected) in [
        ("include \"x\";", vec!["not-followed"]),
        ("include \"x\"; authentication ao;", vec!["not-followed", "refused"]),
        ("authentication ao; keys { key { id 1; secret \"x\"; algorithm hmac md5; }; };", vec!["left-out"]),
        ("include \"x\"; authentication md5;", vec![]),
        ("include \"x\"; password \"x\";", vec![]),
        ("include \"x\"; authentication md5; password \"x\";", vec![]),
    ] {
        let text = format!("protocol bgp e {{ {inside} }}\n{KEYS}");
        let said: Vec<_> = file(&text).remarks.iter().map(|remark| remark.kind).collect();
        assert_eq!(said, expected, "{inside}");
    }
}

#[test]
fn a_neighbor_has_its_interface_and_its_vrf() {
    for (before, inside, expected) in [
        ("", "neighbor 192.0.2.1 as 1; vrf \"red\";", "192.0.2.1 vrf red"),
        ("", "vrf \"red\"; vrf default; neighbor 192.0.2.1 as 1;", "192.0.2.1"),
        ("define PEER = fe80::1;", "neighbor PEER%'eth0.100' as 1;", "fe80::1%eth0.100"),
        (
            "define PEER = fe80::1; define 'my-peer' = PEER;",
            "neighbor 'my-peer' % eth1 as 1;",
            "fe80::1%eth1",
        ),
        ("define IF = \"eth7\";", "neighbor fe80::1 as 1; interface IF;", "fe80::1%eth7"),
        ("", "neighbor range 192.0.2.0/24 as 1;", "192.0.2.0/24"),
    ] {
        let text = format!("{before}\nprotocol bgp e {{ {inside} authentication ao; {KEYS} }}");
        assert_eq!(chains(&file(&text)), [format!("e: 1 @ {expected}")], "{text}");
    }
}

#[test]
fn templates_give_their_keys_to_what_is_made_from_them() {
    let of = |id: u8| KEYS.replace("id 1;", &format!("id {id};"));
    let text = format!(
        "template bgp base {{ authentication ao; {} }}\ntemplate bgp 'middle-1' from base {{ description \"m\"; }}\n\
         template bgp other {{ {} }}\n\
         protocol bgp a from 'middle-1' {{ neighbor 192.0.2.1 as 1; }}\n\
         protocol bgp b from base {{ neighbor 192.0.2.2 as 1; {} {} }}\n\
         protocol bgp bgp1 from base {{ neighbor 192.0.2.3 as 1; keys {{ }}; }}\n\
         protocol bgp from base {{ neighbor 192.0.2.4 as 1; }}\n\
         protocol bgp c from a {{ }}\nprotocol bgp d from unknown {{ neighbor 192.0.2.5 as 1; }}\n",
        of(1),
        of(2),
        of(3),
        of(4)
    );
    let file = file(&text);
    // The last block of keys counts unless it is empty, and a protocol without a name gets the next free number.
    assert_eq!(
        chains(&file),
        [
            "a: 1 @ 192.0.2.1",
            "b: 4 @ 192.0.2.2",
            "bgp1: 1 @ 192.0.2.3",
            "bgp2: 1 @ 192.0.2.4",
            "c: 1 @ 192.0.2.1"
        ]
    );
    let skipped: Vec<_> = file.skipped.iter().map(|it| (it.position.line, it.what)).collect();
    assert_eq!(skipped, [(3, "the keys of a template that no protocol is made from")]);
    let unknown = "9 missing: the template that is named here is not above, so its keys are not known";
    assert_eq!(remarks(&file), [unknown]);
}

#[test]
fn what_is_not_read_is_said() {
    let not_followed = "not-followed: the file that is included here is not read, and may have keys";
    let text = format!(
        "include \"peers.conf\";\nprotocol bgp e {{ neighbor PEER as 1;\n include \"more.conf\";\n authentication ao;\n keys {{\n \
         include \"keys.conf\";\n key {{ id 1; secret \"x\"; }}; }};\n vrf RED;\n vrf \"a\tb\"; ipv4 {{ }} x {};\n}}",
        KEYS.trim_end_matches(';')
    );
    let line = "this line is not understood, and ignored";
    assert_eq!(
        remarks(&file(&text)),
        [
            format!("1 {not_followed}"),
            format!("2 not-understood: {line}"),
            format!("3 {not_followed}"),
            format!("6 {not_followed}"),
            format!("8 not-understood: {line}"),
            format!("9 not-understood: {line}"),
            format!("9 not-understood: {line}"),
        ]
    );
}

#[test]
fn octets_need_no_mark_from_ten_pairs_on() {
    let secret = |secret: &str| {
        let text = format!(
            "define S = {secret};\nkeys {{ key {{ id 1; secret {secret}; }}; key {{ id 2; secret S; }}; }}"
        );
        let chains = read_text(&text, Format::Bird);
        assert_eq!(chains[0].keys[0].secret, chains[0].keys[1].secret);
        chains[0].keys[0].secret.expose().to_vec()
    };
    assert_eq!(secret("00112233445566778899"), *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99");
    assert_eq!(secret("00:11:22:33:44:55:66:77:88:99:Aa").len(), 11);
    assert_eq!(secret("hex:00:11"), [0, 17]);
    for secret in ["001122334455667788", "00:11:22:33:44:55", "hex:001", "hex:0011:22"] {
        let error = error_of(Format::Bird, &format!("keys {{ key {{ id 1; secret {secret}; }}; }}"));
        assert!(error.starts_with("router.conf: line 1, column 27, secret: expected a text"), "{error}");
    }
}

#[test]
fn neighbors_are_written_with_their_place() {
    let protocol = |inside: &str| format!("protocol bgp e {{ {inside} authentication ao; {KEYS} }}\n");
    for (inside, written, lost) in [
        (
            "neighbor fe80::1%'eth0.100' as 1; vrf \"red\";",
            "\tneighbor fe80::1;\n\tinterface \"eth0.100\";\n\tvrf \"red\";\n",
            "",
        ),
        (
            "neighbor fe80::1 as 1;",
            "\tneighbor fe80::1;\n\t# Add its interface: \"interface ...;\".\n",
            "chain \"e\": has no interface of fe80::1, which BIRD requires",
        ),
        (
            "neighbor fe80::1 as 1; interface \"ge-0/0/0.0\";",
            "\tneighbor fe80::1;\n\t# Add its interface: \"interface ...;\".\n",
            "chain \"e\": the interface ge-0/0/0.0 of fe80::1, a name that Linux does not have",
        ),
        (
            "neighbor 192.0.2.1 as 1; vrf \"a VRF with a long name\";",
            "\tneighbor 192.0.2.1;\n\tauthentication",
            "chain \"e\": the VRF a VRF with a long name of 192.0.2.1, a name that Linux does not have",
        ),
        (
            "neighbor range 192.0.2.0/24 as 1;",
            "\t# Add its neighbor too: \"neighbor ... as ...;\".\n",
            "chain \"e\": BIRD has no TCP-AO for a range of neighbors (192.0.2.0/24); chain \"e\": has no neighbor, which BIRD \
             requires",
        ),
    ] {
        let conversion = convert(&file(&protocol(inside)), Format::Bird).expect("a conversion");
        assert!(conversion.text.contains(written), "{}", *conversion.text);
        assert_eq!(conversion.losses.join("; "), lost);
    }
}

/// BIRD 3.3.2 refuses names of more than 64 characters, and a protocol named `local` takes the word from all others.
#[test]
fn names_are_those_that_bird_takes() {
    let long = "a".repeat(65);
    let text = format!(
        "[[key-chain]]\nname = \"local\"\nKEY\n[[key-chain]]\nname = \"{long}\"\nKEY\n[[key-chain]]\nname = \"a b\"\nKEY\n"
    );
    let key = "[[key-chain.key]]\nsend-id = 1\nalgorithm = \"hmac(sha1)\"\nsecret = \"Vd8zqkT1p0wYhU3m\"";
    let file = read(Path::new("keys.toml"), &text.replace("KEY", key), None).expect("TOML");
    let conversion = convert(&file, Format::Bird).expect("a conversion");
    for name in ["local_2", &long[..56], "a_b"] {
        assert!(conversion.text.contains(&format!("protocol bgp '{name}' {{")), "{}", *conversion.text);
        assert!(conversion.losses.iter().any(|loss| loss.ends_with(&format!("is named {name}"))));
    }
}

/// A configuration with everything that is read, and a marker wherever a secret may be.
const TEXT: &str = "define S = \"hunter2hunter2\";\ndefine P = fe80::1;\ninclude \"more.conf\";\ntemplate bgp t {\n authentication ao; \
                    password \"hunter2hunter2\"; keys { key { id 1; secret S; }; };\n}\nprotocol bgp e from t {\n vrf \"red\"; neighbor P % \
                    'eth0.1' as 1;\n keys { key { send id 1; recv id 2; secret \"hunter2hunter2\"; algorithm hmac sha1; preferred; }; };\n}\n";

#[test]
fn no_part_of_a_text_panics_or_shows_a_secret() {
    no_part_panics_or_shows_a_secret(Format::Bird, TEXT);
}

/// Other routers have `neighbor` too, without `;`.
#[test]
fn a_text_is_birds_by_its_own_words() {
    let shown = |text: &str| Format::of(Path::new("router"), text);
    let bird = "protocol bgp e\n{\n neighbor 192.0.2.1 as 1;\n keys { key { id 1; secret \"x\"; }; };\n}";
    let open = "protocol bgp e\n{\n local 192.0.2.2 as 1;\n}";
    for text in [bird, open, "neighbor 192.0.2.1 as 1;", "define A = 1;", "template bgp t {", KEYS] {
        assert_eq!(shown(text), Some(Format::Bird), "{text}");
    }
    for text in [
        "router bgp 64501\n neighbor 192.0.2.1 password shared-secret profile P algorithm hmac-sha1-96\n",
        "    neighbor \"192.0.2.1\" {\n",
        "protocols {\n    bgp {\n        neighbor 192.0.2.1 {\n",
        "template peer-policy P\n",
    ] {
        assert_ne!(shown(text), Some(Format::Bird), "{text}");
    }
}
