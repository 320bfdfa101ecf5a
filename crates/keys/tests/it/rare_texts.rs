//! Parts of texts in TOML, JSON, XML and YAML that are rarely seen, and errors whose text cannot be written.

use std::fmt::{self, Write};
use std::path::Path;

use serde::Deserialize;
use wireseal_keys::{Error, Format, Key, KeyChain, KeyChains, Lifetime, Problem, Timestamp, read};
use wireseal_tcp_ao::MktError;

const TOML: &str = "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 1\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"of-the-tests\"\n";

/// Takes so many octets, and then none.
struct Full(usize);

impl Write for Full {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

/// A writer that is full is an error wherever the text ends, and not otherwise.
fn check_full(shown: &impl fmt::Display) {
    let length = shown.to_string().len();
    for room in 0..length {
        assert!(write!(Full(room), "{shown}").is_err(), "{shown}: {room}");
    }
    assert!(write!(Full(length), "{shown}").is_ok(), "{shown}");
}

#[test]
fn errors_and_neighbors_report_a_full_writer() {
    let error =
        read(Path::new("file"), &TOML.replace("= 1", "= 256"), Some(Format::Toml)).map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "file: line 4, column 11, key chain \"core\", key 256, send-id: must be a whole number from 0 to 255"
    );
    check_full(&error);
    let text = include_str!("../data/routers/gobgp.toml");
    let file = read(Path::new("gobgp.toml"), text, None).unwrap();
    file.chains.iter().flat_map(|chain| &chain.neighbors).for_each(check_full);
}

#[test]
fn an_error_of_an_mkt_is_an_error_of_keys() {
    let made = || -> Result<(), Error> { Err(MktError::TooMany { capacity: 3 })? };
    assert_eq!(made().unwrap_err().problem(), &Problem::Mkt(MktError::TooMany { capacity: 3 }));
}

#[test]
fn values_of_every_kind_are_named_where_they_are_wrong() {
    let of = |field: &str, value: &str| {
        let text = format!(
            "{}{field} = {value}\n",
            TOML.replace("send-id = 1\n", if field == "send-id" { "" } else { "send-id = 1\n" })
        );
        KeyChains::from_toml(&text).map(drop).unwrap_err().to_string()
    };
    for (value, kind) in [
        ("1.5", "a number with a decimal point"),
        ("[1]", "an array"),
        ("true", "a boolean"),
        ("\"1\"", "a string"),
        ("2026-01-01", "a date or time"),
        ("{}", "a table"),
    ] {
        let error = of("recv-id", value);
        assert!(error.ends_with(&format!("recv-id: expected a whole number, found {kind}")), "{error}");
        assert!(of("send-id", value).contains(&format!("found {kind}")));
    }
    let json = |value: &str| {
        let text = format!(
            "{{\"ietf-key-chain:key-chains\": {{\"key-chain\": [{{\"name\": \"core\", \"key\": [{{\"key-id\": \"1\", \"crypto-algorithm\": \
             \"aes-128\", \"key-string\": {{\"keystring\": \"secret\"}}, \"ietf-tcp:authentication\": {{\"ao\": {{\"send-id\": {value}, \
             \"recv-id\": 1}}}}}}]}}]}}}}"
        );
        KeyChains::from_json(&text).map(drop).unwrap_err().to_string()
    };
    for (value, kind) in [
        ("true", "a boolean"),
        ("false", "a boolean"),
        ("1.5", "a number"),
        ("null", "null"),
        ("[]", "an array"),
        ("{}", "an object"),
        ("\"1\"", "a string"),
    ] {
        let error = json(value);
        assert!(
            error.contains("expected a whole number") && error.ends_with(&format!("found {kind}")),
            "{error}"
        );
    }
}

#[test]
fn an_error_shows_known_names_on_one_line() {
    let error = |text: &str| KeyChains::from_toml(text).map(drop).unwrap_err().to_string();
    assert!(
        error(&format!("{TOML}\"a\\nb\" = 1\n")).contains("`a b`"),
        "{}",
        error(&format!("{TOML}\"a\\nb\" = 1\n"))
    );
    // The key has neither a key id nor a SendID that is a number, the chain no name.
    let nameless = TOML.replace("name = \"core\"\n", "").replace("send-id = 1", "send-id = []");
    assert!(error(&nameless).starts_with("line 3, column 11, send-id: "), "{}", error(&nameless));
    let named = TOML.replace("\"core\"", "1");
    assert!(error(&named).contains("name: "), "{}", error(&named));
}

#[test]
fn lifetimes_in_json_are_refused_in_their_field() {
    let of = |lifetime: &str| {
        let text = format!(
            "{{\"ietf-key-chain:key-chains\": {{\"key-chain\": [{{\"name\": \"core\", \"key\": [{{\"key-id\": \"1\", \"lifetime\": \
             {{{lifetime}}}, \"crypto-algorithm\": \"aes-128\", \"key-string\": {{\"keystring\": \"secret\"}}, \
             \"ietf-tcp:authentication\": {{\"ao\": {{\"send-id\": 1, \"recv-id\": 1}}}}}}]}}]}}}}"
        );
        KeyChains::from_json(&text)
            .map(|chains| *chains.chains()[0].keys()[0].send_lifetime())
            .map_err(|error| error.to_string())
    };
    let start = "\"start-date-time\": \"2026-01-01T00:00:00Z\"";
    for (lifetime, expected) in [
        (
            format!("{start}, \"duration\": 4294967296"),
            "send-accept-lifetime.duration: must be a whole number from 0 to 4294967295",
        ),
        (
            format!("{start}, \"duration\": 0"),
            "send-accept-lifetime.duration: ends at 2026-01-01T00:00:00Z, which is not after",
        ),
        (
            "\"start-date-time\": \"now\", \"duration\": 5".to_owned(),
            "send-accept-lifetime.start-date-time: not a date and time",
        ),
        (
            "\"end-date-time\": \"never\"".to_owned(),
            "send-accept-lifetime.end-date-time: not a date and time",
        ),
        ("\"duration\": 5".to_owned(), "send-accept-lifetime: say once when it starts and once when it ends"),
        (
            format!("{start}, \"end-date-time\": \"2026-01-01T00:00:00Z\""),
            "send-accept-lifetime.end-date-time: ends at",
        ),
    ] {
        let error = of(&format!("\"send-accept-lifetime\": {{{lifetime}}}")).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    // The place is that of the lifetime that is wrong.
    let [good, wrong] = [5, 4_294_967_296_u64].map(|seconds| format!("{{{start}, \"duration\": {seconds}}}"));
    for (lifetimes, expected) in [
        (
            format!("\"accept-lifetime\": {good},\n\"send-lifetime\": {wrong}"),
            "line 2, column 74, key chain \"core\", key 1, send-lifetime.duration: ",
        ),
        (
            format!("\"send-lifetime\": {good},\n\"accept-lifetime\": {wrong}"),
            "line 2, column 76, key chain \"core\", key 1, accept-lifetime.duration: ",
        ),
    ] {
        let error = of(&lifetimes).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let year = of(&format!("\"send-accept-lifetime\": {{{start}, \"duration\": 31536000}}")).unwrap();
    let moment = |text: &str| text.parse::<Timestamp>().unwrap();
    assert_eq!(
        year,
        Lifetime::new(Some(moment("2026-01-01T00:00:00Z")), Some(moment("2027-01-01T00:00:00Z"))).unwrap()
    );
}

/// What a RESTCONF server gives may have keys that are not for TCP, which are skipped with their places.
#[test]
fn json_keys_that_are_not_for_tcp_keep_their_positions() {
    let key = |id: &str, more: &str| {
        format!(
            "{{\"key-id\": \"{id}\", \"crypto-algorithm\": \"aes-128\", \"key-string\": {{\"keystring\": \"secret\"}}{more}}}"
        )
    };
    let ao = |send: u8, mismatch: bool| {
        format!(
            ", \"ietf-tcp:authentication\": {{\"ao\": {{\"send-id\": {send}, \"recv-id\": 1, \"accept-key-mismatch\": {mismatch}}}}}"
        )
    };
    let text = |keys: &str| {
        format!("{{\"ietf-key-chain:key-chain\": [{{\"name\": \"core\", \"key\": [\n{keys}\n]}}]}}")
    };
    let file = read(
        Path::new("keys.json"),
        &text(&[key("1", ""), key("2", &ao(2, true)), key("3", "")].join(",\n")),
        None,
    )
    .unwrap();
    assert_eq!(file.skipped.iter().map(|skipped| skipped.position.line).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(file.chains[0].keys.iter().map(|key| key.key_id).collect::<Vec<_>>(), [2]);
    assert!(
        matches!(&file.chains[0].remarks[..], [remark] if remark.kind == "accepts-mismatch" && remark.key_id == Some(2))
    );
    // A number that is none is an error, whatever else the key has.
    let error =
        read(Path::new("keys.json"), &text(&key("x", &ao(2, true))), None).map(drop).unwrap_err().to_string();
    assert!(error.contains("key-id: must be a whole number from 0 to 18446744073709551615"), "{error}");
    // Data that cannot be nested are not looked through for places.
    let deep = text(&key("1", "")).replace(
        "[\n",
        &format!(
            "[\n{{\"key-id\": \"9\", \"crypto-algorithm\": \"aes-128\", \"send-lifetime-active\": {}{}}},",
            "[".repeat(70),
            "]".repeat(70)
        ),
    );
    let error = read(Path::new("keys.json"), &deep, None).map(drop).unwrap_err().to_string();
    assert!(error.contains("nested too deeply"), "{error}");
}

#[test]
fn single_keys_and_chains_of_other_files_report_what_is_wrong() {
    #[derive(Deserialize, Debug)]
    struct Own<T> {
        #[allow(dead_code, reason = "only the error matters")]
        key: T,
    }
    let fields = "send-id = 1\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"of-the-tests\"\n";
    assert!(toml::from_str::<Own<Key>>(&format!("[key]\n{fields}")).is_ok());
    let key = |more: &str| {
        toml::from_str::<Own<Key>>(&format!("[key]\n{fields}{more}"))
            .map(drop)
            .unwrap_err()
            .message()
            .to_owned()
    };
    assert!(key("colour = 1\n").contains("unknown field `colour`"), "{}", key("colour = 1\n"));
    assert!(key("key-id = -1\n").contains("key-id: must be a whole number"), "{}", key("key-id = -1\n"));
    assert!(key("accept = { until = 2026-01-01T00:00:00Z }\n").contains("accept: must cover"));
    let until = "send = { from = 2026-01-02T00:00:00Z, until = 2026-01-01T00:00:00Z }\n";
    assert!(key(until).contains("send.until: ends at"), "{}", key(until));
    assert!(key(&until.replace("send", "accept")).contains("accept.until: ends at"));
    let chain = |more: &str| {
        toml::from_str::<Own<KeyChain>>(&format!("[key]\nname = \"core\"\n{more}"))
            .map(drop)
            .unwrap_err()
            .message()
            .to_owned()
    };
    assert!(chain("key = [{}]\n").contains("missing field"), "{}", chain("key = [{}]\n"));
    // In a format without dates, a moment is a text; a table is none.
    let moment = |value: &str| {
        let text = format!(
            "{{\"key\": {{\"send-id\": 1, \"algorithm\": \"AES-128-CMAC-96\", \"secret\": \"of-the-tests\", \"send\": {{\"from\": {value}}}}}}}"
        );
        serde_json::from_str::<Own<Key>>(&text)
            .map(|own| own.key.send_lifetime().from())
            .map_err(|error| error.to_string())
    };
    assert_eq!(moment("\"2026-01-01T00:00:00Z\""), Ok(Some("2026-01-01T00:00:00Z".parse().unwrap())));
    for value in ["{\"a\": 1}", "{\"$__toml_private_datetime\": 1}", "{1: 1}", "{}"] {
        assert!(moment(value).is_err(), "{value}");
    }
    assert!(serde_json::from_str::<Timestamp>("7").is_err());
}

const XML: &str = "<key-chains xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain'><key-chain><name>core</name><key><key-id>1</key-id><lifetime>\
                   <send-accept-lifetime><always/></send-accept-lifetime></lifetime><crypto-algorithm>aes-128</crypto-algorithm><key-string>\
                   <keystring>of-the-tests</keystring></key-string><authentication><ao><send-id>1</send-id><recv-id>2</recv-id></ao>\
                   </authentication></key></key-chain></key-chains>";

#[test]
fn state_in_xml_is_ignored_and_what_is_in_the_wrong_place_is_refused() {
    let of = |text: &str| {
        read(Path::new("keys.xml"), text, Some(Format::Xml))
            .map(|file| file.chains[0].keys.len())
            .map_err(|error| error.to_string())
    };
    assert_eq!(of(XML), Ok(1));
    let state = XML
        .replace("<name>", "<last-modified-timestamp>2026-01-01T00:00:00Z</last-modified-timestamp><name>")
        .replace("</key>", "<send-lifetime-active>true</send-lifetime-active><accept-lifetime-active><x/></accept-lifetime-active></key>");
    assert_eq!(of(&state), Ok(1));
    let list = XML.replace("<key-chain>", "<key-chain operation='delete'>");
    assert!(of(&list).unwrap_err().contains("is deleted here"), "{:?}", of(&list));
    let alone = list.replace("<key-chains xmlns=", "<data xmlns=").replace("</key-chains>", "</data>");
    assert!(of(&alone).unwrap_err().contains("is deleted here"), "{:?}", of(&alone));
    let scalar = format!(
        "<data><key-chains xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain'>x</key-chains>{}</data>",
        XML.replace(" xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain'", "")
    );
    assert_eq!(of(&scalar), Ok(1), "a container with text alone has no members");
    let twice = XML.replace("</key-chain></key-chains>", "</key-chain><aes-key-wrap/></key-chains>");
    let twice = format!("<data>{twice}{twice}</data>");
    assert!(of(&twice).unwrap_err().contains("aes-key-wrap: is given twice"), "{:?}", of(&twice));
}

/// A value may stand for another one only where both together do not go too deep.
#[test]
fn aliases_of_yaml_may_not_go_too_deep() {
    let text = |inside: usize, around: usize| {
        let nested = |depth: usize, value: &str| format!("{}{value}{}", "[".repeat(depth), "]".repeat(depth));
        format!("a: &a {}\nb: {}\n", nested(inside, "x"), nested(around, "*a"))
    };
    let of =
        |text: &str| read(Path::new("g.yaml"), text, Some(Format::GoBgp)).map(drop).unwrap_err().to_string();
    for (inside, around) in [(31, 32), (32, 31), (63, 0)] {
        let [fits, deep] = [around, around + 1].map(|around| of(&text(inside, around)));
        assert!(fits.contains("has no key for TCP-AO"), "{fits}");
        assert!(
            deep.contains(": line 2, column ") && deep.ends_with("lists or tables are nested too deeply"),
            "{deep}"
        );
    }
    // The names of a table's members count, too.
    assert!(of("a: &a {name: {name: x}}\nb: [*a, *a]\n").contains("has no key for TCP-AO"));
}

#[test]
fn a_string_of_the_classic_cli_has_an_end() {
    let text = "configure\n    system\n        security\n            keychain \"core\n";
    let error = read(Path::new("sr"), text, Some(Format::SrOs)).map(drop).unwrap_err().to_string();
    assert_eq!(error, "sr: line 4, column 22, string: has no end");
}

#[test]
fn yaml_may_be_empty_and_wrong_from_its_start() {
    let of =
        |text: &str| read(Path::new("g.yaml"), text, Some(Format::GoBgp)).map(drop).unwrap_err().to_string();
    assert_eq!(of("# nothing\n"), "g.yaml: has no key for TCP-AO (read as gobgp)");
    assert_eq!(of(""), "g.yaml: has no key for TCP-AO (read as gobgp)");
    for text in [
        "@",
        "- @",
        "a: @",
        "- [a, @]",
        "{a: @}",
        "{@",
        "a: b\n@",
        "[a]\n@",
        "[a] b",
        "a: 1\n...\n@\n",
        "--- a\n...\n%YAML x\n",
        "\"a\" b",
        "[a\n",
        "--- a\n--- @\n",
    ] {
        assert!(of(text).contains(": line "), "{text}: {}", of(text));
    }
}
