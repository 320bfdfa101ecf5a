//! Changes of a file whose text is another one, and texts that go too deep: an error, and no text that loses keys.

use std::path::Path;

use wireseal_keys::{Chain, ChainKey, Error, Format, KeyFile, Position, Preference, change, convert, read};
use wireseal_tcp_ao::KeyId;

use crate::roll::{file, texts};

/// The formats whose texts are edited or whose commands need the text.
const OF_TEXT: [Format; 7] =
    [Format::Bird, Format::Junos, Format::IosXr, Format::Eos, Format::Vrp, Format::SrOs, Format::GoBgp];

/// A file with one key, its text, and its chain with one key more and another end of the first.
fn of(format: Format) -> (KeyFile, String, Chain) {
    let text = texts(format, Format::Toml)[0].1.clone();
    let file = file(&text, format);
    let mut after = file.chains[0].clone();
    let first = &mut after.keys[0];
    let has_ranks = [Format::Bird, Format::GoBgp].contains(&format);
    let until = (!has_ranks).then(|| "2027-01-01T00:00:00Z".parse().unwrap());
    first.send = wireseal_keys::Lifetime::new(None, until).unwrap();
    first.accept = first.send;
    let ids = KeyId(30);
    let new = ChainKey {
        key_id: 30,
        send_id: ids,
        recv_id: ids,
        position: None,
        preference: if has_ranks { Preference::Ordinary } else { first.preference },
        ..first.clone()
    };
    // Formats with ranks have new keys first.
    after.keys.insert(if has_ranks { 0 } else { 1 }, new);
    (file, text, after)
}

fn changed(format: Format, text: &str) -> Result<String, Error> {
    let (file, _, after) = of(format);
    change(&file, text, 0, &file.chains[0], &after).map(|changed| changed.text.to_string())
}

/// Statements within each other.
fn nested(format: Format, depth: usize) -> String {
    match format {
        Format::Bird | Format::Junos | Format::SrOs => "a {\n".repeat(depth) + &"}\n".repeat(depth),
        // Its parser stops at a depth of its own, far beyond.
        Format::GoBgp => format!("a: {}{}\n", "[".repeat(depth.min(100)), "]".repeat(depth.min(100))),
        // A line that the reader knows shows that the text is indented.
        Format::IosXr | Format::Eos | Format::Vrp => {
            let known = match format {
                Format::IosXr => "key chain c\n key 1\n",
                Format::Eos => "management security\n session shared-secret profile c\n",
                _ => "keychain c mode absolute\n key-id 1\n",
            };
            known.to_owned() + &nested(Format::IosXe, depth).replace('a', " a")
        }
        _ => (0..depth).map(|depth| format!("{:depth$}a\n", "")).collect(),
    }
}

#[test]
fn texts_nested_too_deeply_are_refused() {
    for format in Format::ALL
        .into_iter()
        .filter(|format| !["toml", "json", "xml", "openconfig", "bird"].contains(&format.name()))
    {
        let read =
            |depth| read(Path::new("keys"), &nested(format, depth), Some(format)).map(drop).unwrap_err();
        let error = read(5000).to_string();
        assert!(error.contains("nested too deeply"), "{format}: {error}");
        let error = read(60).to_string();
        assert!(!error.contains("nested too deeply"), "{format}: {error}");
        if OF_TEXT.contains(&format) && format != Format::Junos && format != Format::IosXr {
            let error = changed(format, &nested(format, 5000)).unwrap_err().to_string();
            assert!(error.contains("nested too deeply"), "{format}: {error}");
        }
    }
}

#[test]
fn a_chain_is_changed_in_its_own_text_only() {
    let error = changed(Format::Bird, "protocol bgp core {").unwrap_err().to_string();
    assert!(error.contains("has no end"), "{error}");
    for (format, expected) in [
        (Format::Bird, "keys: its keys are not found in the text"),
        (Format::Eos, "key chain \"core\", key 10, secret: its line is not found in the text"),
        (Format::Vrp, "key chain \"core\": its keychain is not found in the text"),
        (Format::SrOs, "key chain \"core\": its entries must all be bidirectional, or all send and receive"),
        (Format::GoBgp, "keys: its keys cannot be edited in this text: write each key as a table of its own"),
    ] {
        let (_, text, _) = of(format);
        assert!(changed(format, &text).is_ok(), "{format}");
        let error = changed(format, "").unwrap_err().to_string();
        assert!(error.contains(expected), "{format}: {error}");
    }
}

/// A keychain of VRP may have keys that no policy uses.
#[test]
fn vrp_finds_the_keychain_of_the_policy_whatever_is_around_it() {
    let (_, text, _) = of(Format::Vrp);
    let commands = changed(Format::Vrp, &text).unwrap();
    let more = format!(
        "tcp ao other\n binding keychain else\nkeychain else mode absolute\n key-id\n key-id 30\n{text}"
    );
    assert_eq!(changed(Format::Vrp, &more).unwrap(), commands);
    // A line without a number is no key.
    let unnumbered = text.replace(" mode absolute\n", " mode absolute\n key-id\n");
    assert_eq!(changed(Format::Vrp, &unnumbered).unwrap(), commands);
    let own = text.replace(" mode absolute\n", " mode absolute\n key-id 30\n");
    let error = changed(Format::Vrp, &own).unwrap_err().to_string();
    assert!(error.contains("its keychain has a key-id 30 that \"tcp ao\" does not have"), "{error}");
}

/// The keychains of SR OS have entries for both directions, or for each one.
#[test]
fn sr_os_keeps_its_entries_as_they_are() {
    let (mut file, text, _) = of(Format::SrOs);
    let mixed = text.replace(
        "                    receive {",
        "                    bidirectional {\n                        entry 5 {\n                            authentication-key \"another key\"\n                            algorithm aes-128-cmac-96\n                            begin-time 2026-01-01T00:00:00Z\n                        }\n                    }\n                    receive {",
    );
    assert_ne!(mixed, text);
    file = read(Path::new("keys"), &mixed, Some(Format::SrOs)).unwrap_or(file);
    let chain = file.chains[0].clone();
    assert_eq!(chain.keys.len(), 2);
    let error = change(&file, &mixed, 0, &chain, &chain).unwrap_err().to_string();
    assert!(error.ends_with("its entries must all be bidirectional, or all send and receive"), "{error}");
}

const GOBGP: &str = "[[keychains]]
config.name = \"core\"
KEYS
[[keychains]]
[keychains.config]
name = \"edge\"
[[keychains.keys]]
[keychains.keys.config]
key-id = 1
receive-id = 1
crypto-algorithm = \"aes_128_cmac_96\"
secret-key = \"dGhlLW9sZC1zZWNyZXQtb2YtYm90aA==\"
[[neighbors]]
config.neighbor-address = \"192.0.2.1\"
tcp-ao.config = { keychain = \"core\", send-id = 10 }
[[neighbors]]
config.neighbor-address = \"192.0.2.2\"
tcp-ao.config = { send-id = 10, keychain = \"core\" }
[[neighbors]]
config.neighbor-address = \"192.0.2.3\"
tcp-ao.config = { keychain = \"edge\", send-id = 1 }
";

fn gobgp_key(id: u8, is_inline: bool) -> String {
    let members = format!(
        "key-id = {id}\nreceive-id = {id}\ncrypto-algorithm = \"aes_128_cmac_96\"\nsecret-key = \"dGhlLW9sZC1zZWNyZXQtb2YtYm90aA==\"\n"
    );
    match is_inline {
        true => format!("{{ config = {{ {} }} }}", members.trim().replace('\n', ", ")),
        false => format!("[[keychains.keys]]\n[keychains.keys.config]\n{members}"),
    }
}

/// All keys but the first of GoBGP's may go, and several come, in tables and in braces.
#[test]
fn gobgp_removes_and_adds_several_keys_at_once() {
    let tables = [10, 20, 30].map(|id| gobgp_key(id, false)).concat();
    let inline = [10, 20, 30].map(|id| gobgp_key(id, true)).join(" , ");
    // A quote and a brace within a text are none.
    let quoted = inline.replacen("{ config", "{ 'a}' = \"\\\"}\", config", 1);
    for (keys, is_read) in [
        (tables, true),
        (format!("keys = [{inline}]"), true),
        (format!("keys = [ # }}\n{inline}]"), true),
        (format!("keys = [{quoted}]"), true),
    ] {
        let text = GOBGP.replace("KEYS", &keys);
        let file = file(&text, Format::GoBgp);
        let before = &file.chains[0];
        let mut after = before.clone();
        after.keys.retain(|key| key.key_id != 20 && key.key_id != 30);
        for id in [40, 41] {
            let key = ChainKey {
                key_id: id,
                send_id: KeyId(id as u8),
                recv_id: KeyId(id as u8),
                preference: Preference::Ordinary,
                ..before.keys[0].clone()
            };
            after.keys.insert(after.keys.len() - 1, key);
        }
        let edited = change(&file, &text, 0, before, &after);
        assert_eq!(edited.is_ok(), is_read, "{text}");
        let edited = edited.unwrap();
        let again = self::file(&edited.text, Format::GoBgp);
        let ids: Vec<_> = again.chains[0]
            .keys
            .iter()
            .map(|key| (key.send_id.0, key.preference == Preference::Preferred))
            .collect();
        assert_eq!(ids, [(40, false), (41, false), (10, true)], "{}", *edited.text);
        assert_eq!(again.chains[1].keys.len(), 1);
        assert_eq!(again.chains[0].neighbors, before.neighbors);
    }
}

#[test]
fn gobgp_files_that_cannot_be_edited_stay_as_they_are() {
    let text = GOBGP.replace("KEYS", &gobgp_key(10, false));
    let error = |text: &str, edit: &dyn Fn(&mut KeyFile)| {
        let mut file = file(&GOBGP.replace("KEYS", &gobgp_key(10, false)), Format::GoBgp);
        edit(&mut file);
        let mut after = file.chains[0].clone();
        let ids = KeyId(40);
        let new = ChainKey { key_id: 40, send_id: ids, recv_id: ids, ..after.keys[0].clone() };
        after.keys[0].preference = Preference::Ordinary;
        after.keys.insert(0, new);
        change(&file, text, 0, &file.chains[0], &after).map(drop).unwrap_err().to_string()
    };
    let lost = "its keys cannot be edited in this text";
    let without = text.split("[[neighbors]]").next().unwrap();
    let unused = "no neighbor of this file uses the keychain, so none changes over";
    for (text, expected) in [
        (without.to_owned(), unused),
        // Neighbors without a send-id, or with a list for it.
        (text.replace(", send-id = 10 }", " }").replace("send-id = 10, ", ""), unused),
        (text.replace("send-id = 10", "send-id = [10]"), unused),
        (text.replace("send-id = 10", "send-id = 1_0"), lost),
        (text.replace("\"edge\"\n[[key", "\"core\"\n[[key"), "another key chain has this name"),
        (text.replace("[[keychains.keys]]\n[keychains.keys.config]\nkey-id = 10", "[[keychains.keys"), ""),
    ] {
        let said = error(&text, &|_| {});
        assert!(said.contains(expected), "{said}\n{text}");
    }
    // A key without a place, or whose place is somewhere else.
    for position in [
        None,
        Some(Position { line: 1, column: 1 }),
        Some(Position { line: 4, column: 1 }),
        Some(Position { line: 4, column: 8 }),
        Some(Position { line: 99, column: 1 }),
    ] {
        let said = error(&text, &|file| file.chains[0].keys[0].position = position);
        // The first table of the text is taken for the key, and what comes of it is not GoBGP's.
        let expected = if position.is_some_and(|at| at.line == 1) { "name: is missing" } else { lost };
        assert!(said.contains(expected), "{position:?}: {said}");
    }
}

/// An apostrophe in a comment within braces hides where they end.
#[test]
fn a_key_whose_end_is_not_found_is_not_edited() {
    let key = "{config: {key-id: 10, receive-id: 10, crypto-algorithm: aes_128_cmac_96, secret-key: Vmg4enFrVDFwMHdZaFUzbQ==}}";
    let text = |key: &str| {
        format!(
            "keychains:\n- config: {{name: core}}\n  keys: [{key}]\nneighbors:\n- config: {{neighbor-address: 192.0.2.1}}\n  tcp-ao: {{config: {{keychain: core, send-id: 10}}}}\n"
        )
    };
    let change = |text: &str| {
        let file = file(text, Format::GoBgp);
        change(&file, text, 0, &file.chains[0], &file.chains[0]).map(|changed| changed.text.to_string())
    };
    let error =
        change(&text(&key.replace("10, crypto", "10, # it's\n      crypto"))).unwrap_err().to_string();
    assert!(error.contains("its keys cannot be edited in this text"), "{error}");
    let quoted = text(&key.replace("aes_128_cmac_96", "'aes_128_cmac_96'"));
    assert!(change(&quoted).is_err(), "a comma before nothing");
}

#[test]
fn bird_changes_keys_with_and_without_semicolons_after_them() {
    let key = |end: &str| {
        format!("key {{ id 10; secret \"the-old-secret-of-both\"; algorithm cmac aes128; preferred; }}{end}")
    };
    for end in [";", " ;", "\n;", ""] {
        let text = format!(
            "protocol bgp core {{\n neighbor 192.0.2.2 as 1;\n authentication ao;\n keys {{\n{}\n }};\n}}\n",
            key(end)
        );
        let read = |text: &str| read(Path::new("keys"), text, Some(Format::Bird));
        let Ok(file) = read(&text) else { panic!("{end:?}") };
        let before = &file.chains[0];
        let mut after = before.clone();
        after.keys =
            vec![ChainKey { key_id: 11, send_id: KeyId(11), recv_id: KeyId(11), ..before.keys[0].clone() }];
        let edited = change(&file, &text, 0, before, &after).unwrap();
        assert_eq!(edited.text.matches("key {").count(), 1, "{}", *edited.text);
        let again = read(&edited.text).unwrap_or_else(|error| panic!("{error}\n{}", *edited.text));
        assert_eq!(
            again.chains[0].keys.iter().map(|key| key.send_id.0).collect::<Vec<_>>(),
            [11],
            "{}",
            *edited.text
        );
    }
    assert!(
        convert(&file(GOBGP.replace("KEYS", &gobgp_key(1, false)).as_str(), Format::GoBgp), Format::Bird)
            .is_ok()
    );
}
