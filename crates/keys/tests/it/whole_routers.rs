//! Whole configurations as routers print them, with a prompt above, banners and other features around, and BGP before the key chains: each
//! is known as its vendor's, and no key or neighbor is lost without a word.

use std::path::Path;

use wireseal_keys::{Format, read};

use crate::routers::{chains, read_file, remarks};

const ROUTERS: [(Format, &str, &[&str]); 8] = [
    (
        Format::IosXr,
        include_str!("../data/whole/ios-xr.cfg"),
        &["CORE: 1 @ 192.0.2.2", "EDGE: 2 @ 192.0.2.3 vrf RED"],
    ),
    (Format::IosXe, include_str!("../data/whole/ios-xe.cfg"), &["CORE: 1 @ 192.0.2.2 192.0.2.3 vrf RED"]),
    (Format::NxOs, include_str!("../data/whole/nx-os.cfg"), &["CORE: 1 @ 192.0.2.2 192.0.2.3 vrf RED"]),
    (
        Format::Eos,
        include_str!("../data/whole/eos.cfg"),
        &["CORE: 1 2 @ 192.0.2.2", "CORE: 1 2 @ 192.0.2.3 vrf RED"],
    ),
    (Format::Vrp, include_str!("../data/whole/vrp.cfg"), &["CORE: 1 @ 192.0.2.2 192.0.2.3 vrf RED"]),
    (Format::Junos, include_str!("../data/whole/junos.conf"), &["CORE: 1 @ 192.0.2.3 vrf RED 192.0.2.2"]),
    (Format::SrOs, include_str!("../data/whole/sr-os.cfg"), &["CORE: 1 @ 192.0.2.2 192.0.2.3 vrf RED"]),
    (
        Format::Bird,
        include_str!("../data/whole/bird.conf"),
        &["A: 1 @ 192.0.2.2", "B: 2 @ 192.0.2.3 vrf RED"],
    ),
];

#[test]
fn type_7_may_be_in_quotes_as_nx_os_prints_it() {
    let text = text_of(Format::NxOs).replace("011A08105E19091F", "\"011A08105E19091F\"");
    let [plain, quoted] = [text_of(Format::NxOs), &text].map(|text| read_file(text, Format::NxOs));
    assert!(plain.chains[0].keys[0].is_same_key(&quoted.chains[0].keys[0]));
}

fn text_of(format: Format) -> &'static str {
    ROUTERS.iter().find(|(known, ..)| *known == format).map(|(_, text, _)| *text).unwrap()
}

#[test]
fn a_whole_configuration_is_known_as_its_vendors() {
    for (format, text, expected) in ROUTERS {
        let variants = [
            text.to_owned(),
            text.replace('\n', "\r\n"),
            text.trim_end().to_owned(),
            text.replace('\n', "\n\n"),
            format!("\u{feff}{text}"),
        ];
        for variant in variants {
            let file = read(Path::new("router"), &variant, None).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(file.format, Some(format));
            assert_eq!(chains(&file), expected, "{format}");
            assert!(remarks(&file).iter().all(|remark| !remark.contains("not-understood")), "{format}");
        }
    }
}

/// The remarks that a change of a line makes.
fn new_remarks(format: Format, from: &str, to: &str) -> Vec<String> {
    let text = text_of(format);
    assert!(text.contains(from), "{from}");
    let before = remarks(&read_file(text, format));
    let after = remarks(&read_file(&text.replacen(from, to, 1), format));
    after.into_iter().filter(|remark| !before.contains(remark)).collect()
}

const NOT_UNDERSTOOD: &str = "not-understood: this line is not understood, and ignored";

#[test]
fn a_neighbors_line_with_a_mistyped_word_is_said() {
    for (format, from, to, line) in [
        (Format::IosXe, " neighbor 192.0.2.2 ao", " neigbor 192.0.2.2 ao", 69),
        (Format::Eos, "neighbor PG password", "neigbor PG password", 38),
    ] {
        assert_eq!(new_remarks(format, from, to), [format!("{line} {NOT_UNDERSTOOD}")], "{format}");
    }
}

#[test]
fn keys_in_a_block_with_a_mistyped_word_are_said() {
    for (from, to) in [
        ("protocol bgp B {", "protocl bgp B {"),
        ("protocol bgp B {", "protocol bpg B {"),
        ("keys { key { id 2;", "kyes { key { id 2;"),
        ("keys { key { id 2;", "key { { id 2;"),
    ] {
        let said = new_remarks(Format::Bird, from, to);
        assert!(said.contains(&format!("19 {NOT_UNDERSTOOD}")), "{to}: {said:?}");
    }
    let (keychain, mistyped) =
        ("keychain \"CORE\" {\n                    tcp", "kechain \"CORE\" {\n                    tcp");
    let mut text = text_of(Format::SrOs).replace(keychain, mistyped);
    let other = include_str!("../data/routers/sr-os.cfg");
    text.push_str(other);
    let said = remarks(&read_file(&text, Format::SrOs));
    assert!(said.iter().any(|said| said.ends_with(NOT_UNDERSTOOD)), "{said:?}");
    let missing = "missing: the keychain of neighbor 192.0.2.2 is not in this file";
    assert!(said.iter().any(|said| said.ends_with(missing)), "{said:?}");
}

/// A part of a configuration that begins below `router bgp`.
#[test]
fn neighbors_below_a_line_that_was_cut_off_keep_their_vrf_or_are_said() {
    let bgp = "router bgp 64500\n";
    let file = read_file(&text_of(Format::IosXe).replace(bgp, ""), Format::IosXe);
    assert_eq!(chains(&file), ["CORE: 1 @ 192.0.2.2 192.0.2.3 vrf RED"]);
    let (_, vrf) = text_of(Format::Eos).split_once("   !\n   vrf RED\n").unwrap();
    let file = read_file(&format!("   vrf RED\n{vrf}"), Format::Eos);
    assert_eq!(chains(&file), ["CORE: 1 2 @ 192.0.2.3 vrf RED"]);
    let cut = "not-understood: this neighbor is not below \"router bgp\", so its VRF is not known";
    assert_eq!(new_remarks(Format::Eos, bgp, ""), [format!("37 {cut}"), format!("43 {cut}")]);
    let said = new_remarks(Format::NxOs, bgp, "");
    assert_eq!(said, [format!("40 {NOT_UNDERSTOOD}"), format!("45 {NOT_UNDERSTOOD}")]);
}

/// Junos's default algorithm is MD5, for the option before TCP-AO.
#[test]
fn a_key_of_junos_with_ids_and_without_algorithm_ao_is_said() {
    let text = text_of(Format::Junos).replace(
        "            key 1 {",
        "            key 2 { secret b; ao-attribute { send-id 2; recv-id 2; } }\n            key 1 {",
    );
    let said = "43 left-out: key 2 of chain \"CORE\" has ids for TCP-AO but not \"algorithm ao\", so Junos uses it for another option: it is \
                left out";
    assert_eq!(remarks(&read_file(&text, Format::Junos)), [said]);
}

#[test]
fn an_error_says_as_which_format_a_text_without_keys_was_read() {
    let text = "router bgp 1\nneighbor 192.0.2.1 ao\n";
    let error = read(Path::new("router"), text, None).unwrap_err().to_string();
    assert!(error.starts_with("router: line 2") && error.ends_with("(read as ios-xe)"), "{error}");
}

/// As in a list of commands that somebody wrote.
#[test]
fn a_command_that_removes_keys_or_neighbors_is_said() {
    for (format, command) in [
        (Format::IosXe, "no key chain CORE tcp"),
        (Format::IosXe, "router bgp 64500\n no neighbor 192.0.2.2"),
        (Format::IosXr, "no key chain CORE"),
        (Format::IosXr, "no tcp ao"),
        (Format::Vrp, "undo keychain core"),
        (Format::Vrp, "undo tcp ao CORE"),
        (Format::Eos, "management security\n   no session shared-secret profile CORE"),
    ] {
        let text = format!("{}\n{command}\n", text_of(format));
        let said = remarks(&read_file(&text, format));
        assert!(said.iter().any(|said| said.ends_with(NOT_UNDERSTOOD)), "{command}: {said:?}");
    }
}

#[test]
fn a_group_of_ios_xe_that_is_not_in_the_file_is_said() {
    for line in ["peer-group NOWHERE", "inherit peer-session NOWHERE"] {
        let to = format!(" neighbor 192.0.2.9 {line}\n neighbor 192.0.2.2 ao");
        let said = new_remarks(Format::IosXe, " neighbor 192.0.2.2 ao", &to);
        let sentence = "missing: the group or template of neighbor 192.0.2.9 is not in the file: whether it uses TCP-AO is not known";
        assert!(said.iter().any(|said| said.ends_with(sentence)), "{said:?}");
    }
}
