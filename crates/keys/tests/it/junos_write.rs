//! Writing Junos configuration: neighbors in their places, and lifetimes as far as Junos has them.

use std::path::Path;

use proptest::prelude::*;
use wireseal_keys::{Format, Neighbor, convert, read};

use super::junos::{CHAINS, file, set_key};
use super::routers::{chains, read_file, remarks};

#[test]
fn neighbors_are_written_with_their_place() {
    let with = |inside: &str| {
        format!(
            "{}protocols {{ bgp {{ group g {{ authentication-algorithm ao; authentication-key-chain core; {inside} }} }} }}\n",
            set_key("core", 1)
        )
    };
    let interface = "chain \"core\": the interface eth0 of fe80::1";
    for (inside, lost) in [
        ("neighbor fe80::1 { local-interface ge-0/0/0.0; } allow 198.51.100.0/24;", ""),
        ("neighbor fe80::1 { local-interface irb.5; }", ""),
        ("neighbor 192.0.2.1;", ""),
        ("neighbor fe80::1 { local-interface eth0; }", interface),
        ("neighbor fe80::1;", "chain \"core\": has no interface of fe80::1, which Junos requires"),
    ] {
        for vrf in ["", "red"] {
            let text = match vrf {
                "" => with(inside),
                vrf => {
                    with(inside)
                        .replace("protocols {", &format!("routing-instances {{ {vrf} {{ protocols {{"))
                        + "} }"
                }
            };
            let file = file(&text);
            let conversion = convert(&file, Format::Junos).expect("a conversion");
            assert_eq!(conversion.losses.join("; "), lost, "{text}");
            let has_to_be_completed = !lost.is_empty();
            assert_eq!(
                conversion.text.contains("## Add its local-interface."),
                has_to_be_completed,
                "{text}"
            );
            let has_range = inside.contains("allow");
            assert_eq!(
                conversion.text.contains(" allow 198.51.100.0/24;"),
                has_range,
                "{}",
                *conversion.text
            );
            let again =
                read(Path::new("again"), &conversion.text, Some(Format::Junos)).expect("what was written");
            if lost.is_empty() {
                assert_eq!(chains(&again), chains(&file), "{}", *conversion.text);
            }
            assert_eq!(remarks(&again), [""; 0], "{}", *conversion.text);
        }
    }
}

#[test]
fn neighbors_of_several_routing_instances_stay_there() {
    let bgp = |addresses: &[&str]| {
        let neighbors = addresses.iter().map(|address| format!("neighbor {address}; ")).collect::<String>();
        format!(
            "protocols {{ bgp {{ group g {{ authentication-algorithm ao; authentication-key-chain core; {neighbors}}} }} }}\n"
        )
    };
    let red = format!("routing-instances {{ red {{ {} }} }}\n", bgp(&["192.0.2.3", "192.0.2.4"]));
    let file = file(&(set_key("core", 1) + &bgp(&["192.0.2.1", "192.0.2.2"]) + &red));
    let expected = ["core: 1 @ 192.0.2.1 192.0.2.2 192.0.2.3 vrf red 192.0.2.4 vrf red"];
    assert_eq!(chains(&file), expected);
    let conversion = convert(&file, Format::Junos).expect("a conversion");
    assert_eq!(chains(&read_file(&conversion.text, Format::Junos)), expected, "{}", *conversion.text);
}

#[test]
fn lifetimes_are_written_as_starts() {
    let key = |id: u8, lifetimes: &str| {
        format!(
            "[[key-chain.key]]\nsend-id = {id}\nalgorithm = \"hmac(sha1)\"\nsecret = \"Vd8zqkT1p0wYhU3m{id}\"\n{lifetimes}\n"
        )
    };
    let written = |keys: &[String]| {
        let toml = format!("[[key-chain]]\nname = \"core\"\n{}", keys.concat());
        convert(&read(Path::new("keys.toml"), &toml, None).expect("keys"), Format::Junos)
            .expect("a conversion")
    };
    let [first, next] = ["2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"];
    for (lifetimes, is_said) in [
        (format!("send = {{ from = {first}, until = {next} }}\naccept = {{ from = {first} }}"), false),
        (format!("send = {{ from = {first} }}\naccept = {{ from = {first} }}"), true),
        (
            format!(
                "send = {{ from = {first}, until = {next} }}\naccept = {{ from = {first}, until = {next} }}"
            ),
            true,
        ),
    ] {
        let losses = written(&[key(1, &lifetimes), key(2, &format!("send = {{ from = {next} }}"))]).losses;
        let said =
            losses.iter().any(|loss| loss.starts_with("key core/1: its lifetimes except for the start"));
        assert_eq!((said, losses.len()), (is_said, usize::from(is_said)), "{losses:?}");
    }
    // Keys without a start get one each, which is none when it is read.
    let text = written(&[key(1, ""), key(2, ""), key(3, "")]).text;
    let starts: Vec<_> = text.lines().filter(|line| line.contains("start-time")).map(str::trim).collect();
    assert_eq!(starts, [0, 1, 2].map(|minute| format!("start-time \"1970-01-01.00:0{minute}:00 +0000\";")));
}

fn neighbor() -> impl Strategy<Value = Neighbor> {
    let place = |names: &'static [&'static str]| prop_oneof![2 => Just(None), 1 => prop::sample::select(names).prop_map(|name| Some(name.to_owned()))];
    let address = prop::sample::select(vec!["192.0.2.1", "fe80::1", "198.51.100.0/24", "0.0.0.0/0"]);
    let interface = place(&["ge-0/0/0.0", "eth0", "a b", "\\", "irb.7", "a-name-that-is-too-long"]);
    let vrf = place(&["red", "a \"b\"", "LS/blue", "protocols", "bgp", ""]);
    (vrf, address, interface).prop_map(|(vrf, address, interface)| {
        let address = address.parse().expect("an address");
        Neighbor { vrf, address, interface }
    })
}

proptest! {
    /// Neighbors in any place come out the same, or a line says what is lost.
    #[test]
    fn neighbors_are_written_and_read_again(
        neighbors in prop::collection::hash_set(neighbor(), 0..5),
        others in prop::collection::hash_set(neighbor(), 0..3),
        to in prop::sample::select(vec![Format::Junos, Format::Bird]),
    ) {
        let covered = format!("set {CHAINS} core key 1 ao-attribute tcp-ao-option enabled\n");
        let text = set_key("core", 1) + &covered;
        let mut before = file(&(text.clone() + &text.replace("core", "edge")));
        before.chains[0].neighbors = Vec::from_iter(neighbors);
        before.chains[1].neighbors = Vec::from_iter(others);
        let conversion = convert(&before, to).expect("a conversion");
        let again = read_file(&conversion.text, to);
        if conversion.losses.is_empty() {
            prop_assert_eq!(chains(&again), chains(&before));
        }
        let once_more = convert(&again, to).expect("what was written can be written");
        prop_assert_eq!(chains(&read_file(&once_more.text, to)), chains(&again), "{}", &*conversion.text);
    }
}
