//! Key chains as NETCONF and RESTCONF carry them: in XML, and in JSON within the resource that was asked for.

use std::path::Path;

use wireseal_keys::{Format, Implementation, KeyFile, Timestamp, Weight, check, convert, read};

use crate::hostile::{File, assert_linear, time};

const XML: &str = include_str!("../data/key-chains/rfc9648.xml");
const JSON: &str = include_str!("../data/key-chains/rfc9648.json");

fn read_xml(text: &str) -> KeyFile {
    read(Path::new("reply.xml"), text, None).unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    let error = read(Path::new("x"), text, Some(Format::Xml)).expect_err("wrong").to_string();
    assert!(!error.contains("hunter2") && !error.contains('\n'), "{error}");
    error
}

/// All of a file but its format.
fn chains(file: &KeyFile) -> String {
    let secrets = file.chains.iter().flat_map(|chain| &chain.keys).map(|key| key.secret.expose());
    format!("{:?} {:?}", file.chains, secrets.collect::<Vec<_>>())
}

#[test]
fn xml_and_json_are_the_same() {
    let json = read(Path::new("rfc9648.json"), JSON, None).expect("JSON");
    let file = read_xml(XML);
    assert_eq!((file.format, chains(&file)), (Some(Format::Xml), chains(&json)));
    // The parts that are printed or sent alone, other prefixes, and white space or none.
    let part = |from: &str, to: &str| {
        let inside = &XML[XML.find(from).expect("it begins")..];
        inside[..inside.find(to).expect("it ends") + to.len()].to_owned()
    };
    let container = part("<key-chains", "</key-chains>");
    let list = part("<key-chain>", "</key-chain>").replacen(
        "<key-chain>",
        "<key-chain xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain'>",
        1,
    );
    let prefixed = container
        .replace("key-chain>", "kc:key-chain>")
        .replace("</kc:key-chain>", "<!-- its end --></kc:key-chain>")
        .replace("</key-chains>", "</kc:key-chains>")
        .replace(
            "<key-chains xmlns=",
            "<kc:key-chains xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain' xmlns:kc=",
        );
    assert_ne!(prefixed, container);
    let dense = XML.lines().map(str::trim).collect::<String>();
    let config = format!("<config>{container}</config>");
    let texts = [
        container.clone(),
        list,
        dense,
        config,
        prefixed.replace("</kc:</kc:", "</kc:"),
        format!("\u{feff}{XML}"),
    ];
    for text in texts {
        assert_eq!(
            chains(
                &read(Path::new("reply"), &text, Some(Format::Xml))
                    .unwrap_or_else(|error| panic!("{error}\n{text}"))
            ),
            chains(&json)
        );
        let shown = Format::of(Path::new("reply"), text.trim_start_matches('\u{feff}'));
        assert!(shown == Some(Format::Xml) || text.starts_with("<kc:"), "{text}");
    }
}

#[test]
fn xml_has_every_field_of_json() {
    let json = r#"{"ietf-key-chain:key-chains": {"key-chain": [{"name": "a & b", "accept-tolerance": {"duration": 60},
        "key": [{"key-id": "7", "lifetime": {"send-accept-lifetime": {"start-date-time": "2026-01-01T00:00:00Z", "no-end-time": [null]}},
        "crypto-algorithm": "wireseal:linux-hmac-sha-256", "key-string": {"keystring": " <secret> & 'é'"},
        "ietf-tcp:authentication": {"ao": {"send-id": 1, "recv-id": 2, "include-tcp-options": false}}, "wireseal:mac-length": 16}, {
        "key-id": "8", "lifetime": {"send-lifetime": {"always": [null]}}, "crypto-algorithm": "ietf-key-chain:hmac-sha-1",
        "key-string": {"hexadecimal-string": "66:69"}, "ietf-tcp:authentication": {"ao": {"send-id": 3, "recv-id": 4}}}]}],
        "aes-key-wrap": {"enable": false}}}"#;
    let json = json.replace('é', "e");
    let xml = "<key-chains xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain'><key-chain><name>a &#38; b</name><accept-tolerance>\
        <duration> 60 </duration></accept-tolerance><key><key-id>7</key-id><lifetime><send-accept-lifetime><start-date-time>\
        2026-01-01T00:00:00Z</start-date-time><no-end-time/></send-accept-lifetime></lifetime><crypto-algorithm>\
        linux-hmac-sha-256</crypto-algorithm><key-string><keystring> &lt;secret<![CDATA[> & ]]>&apos;&#x65;'</keystring></key-string>\
        <authentication><ao><send-id>1</send-id><recv-id>2</recv-id><include-tcp-options>false</include-tcp-options></ao>\
        </authentication><mac-length>16</mac-length></key><key><key-id>8</key-id><lifetime><send-lifetime><always></always>\
        </send-lifetime></lifetime><crypto-algorithm>x:hmac-sha-1</crypto-algorithm><key-string><hexadecimal-string>66:69\
        </hexadecimal-string></key-string><authentication><ao><send-id>3</send-id><recv-id>4</recv-id></ao></authentication></key>\
        </key-chain><aes-key-wrap><enable>false</enable></aes-key-wrap></key-chains>";
    let json = read(Path::new("a.json"), &json, None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(chains(&read_xml(xml)), chains(&json));
}

#[test]
fn xml_is_written() {
    let file = read_xml(XML);
    let conversion = convert(&file, Format::Xml).expect("a conversion");
    assert_eq!(conversion.losses, [""; 0]);
    let start = "<key-chains xmlns=\"urn:ietf:params:xml:ns:yang:ietf-key-chain\">\n  <key-chain>\n    <name>ao-config</name>\n";
    assert!(conversion.text.starts_with(start), "{}", *conversion.text);
    for part in [
        "    <key>\n      <key-id>55</key-id>\n",
        "<crypto-algorithm xmlns:ietf-tcp=\"urn:ietf:params:xml:ns:yang:ietf-tcp\">ietf-tcp:aes-128</crypto-algorithm>",
        "<authentication xmlns=\"urn:ietf:params:xml:ns:yang:ietf-tcp\">\n        <ao>\n",
        "<keystring>testvector</keystring>",
    ] {
        assert!(conversion.text.contains(part), "{part}\n{}", *conversion.text);
    }
    assert_eq!(chains(&read_xml(&conversion.text)), chains(&file));
    let own = r#"{"ietf-key-chain:key-chains": {"key-chain": [{"name": "a", "key": [
        {"key-id": "1", "crypto-algorithm": "hmac(sha256)", "key-string": {"keystring": "x"},
         "ietf-tcp:authentication": {"ao": {"send-id": 1, "recv-id": 1}}},
        {"key-id": "2", "crypto-algorithm": "hmac-sha-1", "key-string": {"keystring": "<&>"}, "wireseal:mac-length": 13,
         "ietf-tcp:authentication": {"ao": {"send-id": 2, "recv-id": 2}}},
        {"key-id": "3", "crypto-algorithm": "hmac-sha-1", "key-string": {"keystring": "<&>"},
         "ietf-tcp:authentication": {"ao": {"send-id": 3, "recv-id": 3}}}]}]}}"#;
    let own = read(Path::new("a.json"), own, None).expect("JSON");
    let conversion = convert(&own, Format::Xml).expect("a conversion");
    assert_eq!(
        conversion.losses,
        [
            "key a/1 is left out: RFC 9648 has no hmac(sha256) with MACs of 12 octets",
            "key a/2 is left out: RFC 9648 has no HMAC-SHA-1-96 with MACs of 13 octets",
        ]
    );
    assert_eq!(read_xml(&conversion.text).chains[0].keys[0].secret.expose(), b"<&>");
}

#[test]
fn errors_have_a_place() {
    let with = |from: &str, to: &str| {
        assert!(XML.contains(from), "{from}");
        error(&XML.replacen(from, to, 1))
    };
    let place = |line, column| format!("x: line {line}, column {column}, key chain \"ao-config\", key 55, ");
    assert_eq!(
        with("<send-id>61", "<send-id>256"),
        place(31, 15) + "send-id: must be a whole number from 0 to 255"
    );
    assert_eq!(
        with("<send-id>61", "<send-id>hunter2"),
        place(31, 15) + "ietf-tcp:authentication.ao.send-id: expected a whole number, found a single value"
    );
    assert_eq!(
        with("<recv-id>84</recv-id>", ""),
        place(30, 13) + "ietf-tcp:authentication.ao: missing field `recv-id`"
    );
    assert_eq!(
        with(
            "<recv-id>84</recv-id>",
            "<recv-id>84</recv-id><include-tcp-options>hunter2</include-tcp-options>"
        ),
        place(32, 36)
            + "ietf-tcp:authentication.ao.include-tcp-options: expected true or false, found a single value"
    );
    assert!(
        with("<keychain>ao-config</keychain>", "<md5>hunter2</md5>")
            .contains("authentication.md5: unknown field `md5`")
    );
    assert_eq!(
        with("<recv-id>84</recv-id>", "<recv-id>84</recv-id>hunter2"),
        "x: line 30, column 13, ao: has both text and elements"
    );
    assert_eq!(
        with("<recv-id>84</recv-id>", "<send-id>hunter2</send-id>"),
        "x: line 32, column 15, send-id: is given twice"
    );
    assert_eq!(
        with("testvector", "&hunter2;"),
        "x: line 26, column 24, only XML's own entities are read".replace("24, ", "24: ")
    );
    assert_eq!(
        with("testvector</keystring>", "hunter2</hunter>"),
        "x: line 26, column 31: an element does not end where it must"
    );
    assert!(with("<key>", "<key nc:operation='delete'>").contains("line 12, column 9: is deleted here"));
    let document_type = "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]>\n<rpc-reply";
    assert_eq!(
        with("<rpc-reply", document_type),
        "x: line 3, column 1: a document type is not read: remove it"
    );
    assert!(
        error("<key-chains/>")
            .contains("has no element of the namespace urn:ietf:params:xml:ns:yang:ietf-key-chain")
    );
    for length in 0..XML.len() - 1 {
        let error = error(&XML[..length]);
        assert!(!error.contains("testvector"), "{error}");
    }
}

#[test]
fn xml_is_bounded() {
    const START: &str = "<key-chains xmlns='urn:ietf:params:xml:ns:yang:ietf-key-chain'>";
    assert!(error(&(START.to_owned() + &"<a>".repeat(100_000))).contains("nested too deeply"));
    assert!(error(&("<a>".repeat(100_000) + START)).contains("ends too early"));
    // Attributes, namespaces and pieces of text take time by their number, not by its square.
    let texts: [(&str, File); 5] = [
        ("attributes", |count| format!("<a {}/>", "a=\"1\" ".repeat(count))),
        ("namespaces", |count| (0..count).map(|n| format!("<a xmlns:n{n}='u{n}'>")).collect()),
        ("entities", |count| format!("{START}<key-chain><name>{}</name>", "&amp;".repeat(count))),
        ("comments", |count| format!("{START}<key-chain>{}", "a<!-- -->".repeat(count))),
        ("empty", |count| format!("{START}<key-chain>{}", "<key/>".repeat(count))),
    ];
    for (name, text) in texts {
        let texts = [2_000, 16_000].map(|count| format!("{}<!-- {START} -->", text(count)));
        assert_linear(name, || texts.each_ref().map(|text| time(|| drop(error(text)))));
    }
}

#[test]
fn restconf_gives_the_container_the_list_or_the_datastore() {
    let whole: serde_json::Value = serde_json::from_str(JSON).expect("JSON");
    let container = &whole["ietf-key-chain:key-chains"];
    let list = serde_json::json!({"ietf-key-chain:key-chain": container["key-chain"]});
    let mut data = serde_json::json!({"data": whole});
    data["data"]["ietf-interfaces:interfaces"] = serde_json::json!({"interface": []});
    let restconf = serde_json::json!({"ietf-restconf:data": whole});
    let file = read(Path::new("a.json"), JSON, None).expect("JSON");
    for value in [&list, &data, &restconf] {
        let text = serde_json::to_string_pretty(value).expect("JSON");
        let again = read(Path::new("a.json"), &text, None).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((again.format, chains(&again)), (Some(Format::Json), chains(&file)));
        let wrong = text.replace("\"recv-id\": 84", "\"recv-id\": 256");
        let error = read(Path::new("a.json"), &wrong, None).expect_err("256").to_string();
        assert!(
            error.contains("key chain \"ao-config\", key 55, recv-id: must be a whole number"),
            "{error}"
        );
        let line = wrong[..wrong.find("256").expect("it is there")].matches('\n').count() + 1;
        assert!(error.contains(&format!("line {line}, ")), "{error}");
    }
    // A list of this name deep in another module is not this one.
    let mut deep = serde_json::json!({"key-chain": []});
    for _ in 0..3 {
        deep = serde_json::json!({ "a": deep });
    }
    data["data"]["a-vendor:a"] = deep;
    let text =
        serde_json::to_string_pretty(&data).expect("JSON").replace("\"recv-id\": 84", "\"recv-id\": 256");
    let error = read(Path::new("a.json"), &text, None).expect_err("256").to_string();
    let line = text[..text.find("256").expect("it is there")].matches('\n').count() + 1;
    assert!(error.contains(&format!("line {line}, ")) && error.contains("\"ao-config\", key 55"), "{error}");
    for (text, expected) in [
        ("{}", "missing field `ietf-key-chain:key-chains`"),
        ("{\"data\": {}}", "data: missing field `ietf-key-chain:key-chains`"),
        ("{\"ietf-key-chain:key-chains\": {}, \"ietf-key-chain:key-chain\": []}", "give the key chains once"),
        ("{\"data\": null}", "expected an object"),
    ] {
        let error = wireseal_keys::KeyChains::from_json(text).expect_err("wrong").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn keys_of_other_protocols_are_skipped() {
    let whole: serde_json::Value = serde_json::from_str(JSON).expect("JSON");
    let ao = &whole["ietf-key-chain:key-chains"]["key-chain"][0];
    let ospf = serde_json::json!({"key-id": "1", "crypto-algorithm": "md5"});
    let mut mixed = ao.clone();
    mixed["name"] = "mixed".into();
    mixed["key"] = serde_json::json!([ospf, ao["key"][0], ospf]);
    mixed["key"][1]["ietf-tcp:authentication"]["keychain"] = "mixed".into();
    let others = serde_json::json!({"name": "ospf", "key": [ospf]});
    let list = serde_json::json!({"ietf-key-chain:key-chain": [others, mixed, others]});
    let json = serde_json::to_string_pretty(&list).expect("JSON");
    let key = "<key><key-id>1</key-id><crypto-algorithm>md5</crypto-algorithm></key>";
    let chain = format!("<key-chain><name>ospf</name>{key}</key-chain>");
    let xml = XML.replacen("<key-chain>", &format!("{chain}<key-chain>"), 1).replacen(
        "        <key>\n",
        &format!("{key}\n<key>\n"),
        1,
    );
    for (format, text, count) in [(Format::Json, json, 4), (Format::Xml, xml, 2)] {
        let file = read(Path::new("x"), &text, Some(format)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((file.chains.len(), file.chains[0].keys.len()), (1, 1));
        let lines: Vec<_> = file
            .skipped
            .iter()
            .map(|skipped| text.lines().nth(skipped.position.line - 1).expect("a line"))
            .collect();
        assert_eq!(lines.len(), count);
        assert!(lines.iter().all(|line| line.trim() == "{" || line.contains("<key>")), "{lines:?}");
        // An error names the right key.
        let wrong = text.replacen(": 84", ": 256", 1).replacen(">84<", ">256<", 1);
        let error = read(Path::new("x"), &wrong, Some(format)).expect_err("256").to_string();
        let line = wrong[..wrong.find("256").expect("it is there")].matches('\n').count() + 1;
        assert!(error.contains(&format!("line {line}, ")) && error.contains("key 55, recv-id"), "{error}");
    }
    let strict = wireseal_keys::KeyChains::from_json(
        &serde_json::json!({"ietf-key-chain:key-chain": [others]}).to_string(),
    );
    let error = strict.expect_err("not for TCP").to_string();
    assert!(error.ends_with("key chain \"ospf\", key 1: missing field `ietf-tcp:authentication`"), "{error}");
}

#[test]
fn keys_that_let_unsigned_segments_in_are_warned_of() {
    let json = JSON.replace("\"recv-id\": 84", "\"recv-id\": 84, \"accept-key-mismatch\": true");
    let xml = XML.replace(
        "<recv-id>84</recv-id>",
        "<recv-id>84</recv-id><accept-key-mismatch>true</accept-key-mismatch>",
    );
    for (format, text) in [(Format::Json, &json), (Format::Xml, &xml)] {
        let file = read(Path::new("x"), text, Some(format)).expect("the keys");
        let linux = Implementation::reading(None);
        let mut found = check(&file, Timestamp::from_unix_seconds(1_484_000_000), &[linux]).into_iter();
        let found = found.find(|finding| finding.kind == "accepts-mismatch").expect("a finding");
        assert_eq!((found.weight, found.subject.as_str()), (Weight::Warning, "ao-config/55"));
        let losses = convert(&file, Format::Toml).expect("a conversion").losses;
        assert!(losses.iter().any(|loss| loss.contains("accept-key-mismatch")), "{losses:?}");
    }
    // For this end's own use it is refused.
    assert!(wireseal_keys::KeyChains::from_json(&json).is_err());
}

#[test]
fn only_the_operations_delete_and_remove_take_a_key_away() {
    for (attribute, is_deleted) in [
        ("nc:operation='delete'", true),
        ("operation='remove'", true),
        ("nc:operation='merge'", false),
        ("ours:was='delete'", false),
    ] {
        let text = XML.replacen("<key>", &format!("<key {attribute}>"), 1);
        let read = read(Path::new("x"), &text, Some(Format::Xml));
        assert_eq!(read.is_err(), is_deleted, "{attribute}");
    }
}

/// An empty element is a table without members where a table is expected, and `always` has no content.
#[test]
fn elements_without_content_mean_nothing_more() {
    let with = |from: &str, to: &str| {
        let (start, end) = (XML.find(&format!("<{from}>")), XML.find(&format!("</{from}>")));
        let end = end.expect("it ends") + from.len() + 3;
        read(
            Path::new("x"),
            &format!("{}{to}{}", &XML[..start.expect("it begins")], &XML[end..]),
            Some(Format::Xml),
        )
    };
    let lifetime = |inside: &str| with("lifetime", &format!("<lifetime>{inside}</lifetime>"));
    let always = with("lifetime", "").expect("no lifetime");
    for empty in [
        "",
        "<send-accept-lifetime><always/></send-accept-lifetime>",
        "<send-accept-lifetime><always> </always></send-accept-lifetime>",
    ] {
        assert_eq!(chains(&lifetime(empty).expect("always")), chains(&always), "{empty}");
    }
    for table in ["<send-accept-lifetime/>", "<send-lifetime/>", "<accept-lifetime/>"] {
        assert!(lifetime(table).is_ok(), "{table}");
    }
    let message =
        |read: Result<KeyFile, wireseal_keys::Error>| read.map(drop).expect_err("wrong").to_string();
    for (content, found) in [("no", "a single value"), ("<x/>", "a table")] {
        let inside = format!("<send-accept-lifetime><always>{content}</always></send-accept-lifetime>");
        let expected = "x: line 14, column 43, key chain \"ao-config\", key 55, lifetime.send-accept-lifetime.always: expected an array of \
                        length 1, found";
        assert_eq!(message(lifetime(&inside)), format!("{expected} {found}"));
    }
    let secret = message(with("key-string", "<key-string/>"));
    assert!(secret.ends_with("key 55: give keystring or hexadecimal-string"), "{secret}");
    // A key outside of its chain is not taken for one.
    let outside = |inside: &str| error(&XML.replacen("<key-chain>", &format!("{inside}<key-chain>"), 1));
    let field = |name: &str| {
        format!("x: line 9, column 7, {name}: unknown field `{name}`, expected `key-chain` or `aes-key-wrap`")
    };
    assert_eq!(outside("<key><key-id>1</key-id></key>"), field("key"));
    let deep = |count: usize| outside(&format!("{}{}", "<a>".repeat(count), "</a>".repeat(count)));
    assert_eq!(deep(64), field("a"));
    assert_eq!(deep(65), "x: line 9, column 199: lists or tables are nested too deeply");
}
