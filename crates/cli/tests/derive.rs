//! `wireseal derive` against the packets of RFC 9235 and of the draft: every value that they print appears, and no master key.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use proptest::collection;
use proptest::prelude::{any, prop_assert_eq, proptest};
use proptest::sample::Index;
use serde::Deserialize;
use wireseal::derive::{Field, Octets, kdf, mac_input};
use wireseal::hex::{self, Hex};
use wireseal_algorithms::{TcpAoAlgorithm, TcpAoKdf};
use wireseal_mac::{MacKey, OutputLength};
use wireseal_tcp_ao::{Isn, KdfContext, MasterKey, OptionCoverage, Segment, Sne, TrafficKey};

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    #[serde(alias = "based_on")]
    section: String,
    algorithm: String,
    master_key: String,
    traffic_key_type: String,
    options: String,
    source_isn: String,
    destination_isn: String,
    sne: u32,
    traffic_key: String,
    mac: String,
    packet: String,
}

fn vectors() -> Vec<Vector> {
    let files = [
        include_str!("../../tcp-ao/tests/data/vectors/rfc9235.json"),
        include_str!("../../tcp-ao/tests/data/vectors/draft-tcp-ao-algs.json"),
    ];
    files.iter().flat_map(|text| serde_json::from_str::<File>(text).unwrap().vectors).collect()
}

impl Vector {
    /// The arguments for its key, with the ids that its packet has.
    fn key(&self) -> String {
        let packet = hex::decode(&self.packet).unwrap();
        let ao = Segment::parse(&packet).unwrap().ao_option().unwrap().unwrap();
        format!(
            "send={},recv={},alg={},mac={},options={},secret-hex={}",
            ao.key_id,
            ao.rnext_key_id,
            self.algorithm,
            ao.mac.len(),
            if self.options == "covered" { "covered" } else { "excluded" },
            self.master_key
        )
    }

    fn context(&self, segment: &Segment<'_>) -> KdfContext {
        let isn = |text: &str| Isn(u32::from_str_radix(text, 16).unwrap());
        KdfContext {
            source: segment.source(),
            destination: segment.destination(),
            source_isn: isn(&self.source_isn),
            destination_isn: isn(&self.destination_isn),
        }
    }
}

fn derive(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wireseal")).arg("derive").args(arguments).output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

/// A printed value and what it is called in the output.
fn assert_line(output: &str, name: &str, value: &str) {
    let found = output
        .lines()
        .any(|line| line.starts_with(name) && line.split_whitespace().any(|word| word == value));
    assert!(found, "{name} {value} is not in\n{output}");
}

#[test]
fn every_value_of_the_vectors_is_printed_and_no_master_key() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 96);
    for vector in &vectors {
        let key = vector.key();
        let mut arguments = vec!["--explain", "--key", &key, &vector.packet];
        let isns = format!("0x{},0x{}", vector.source_isn, vector.destination_isn);
        // SYN and SYN-ACK say their ISNs themselves.
        let has_syn = vector.packet_has_syn();
        if !has_syn {
            arguments.extend(["--isns", &isns]);
        }
        let sne = vector.sne.to_string();
        arguments.extend(["--sne", &sne]);
        let output = derive(&arguments);
        let (printed, complaints) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "section {}: {complaints}{printed}", vector.section);
        assert_line(&printed, "traffic key", &vector.traffic_key);
        assert_line(&printed, "MAC", &vector.mac);
        assert_line(&printed, "in packet", "equal");
        assert_line(&printed, "SNE", &sne);
        let name = if vector.traffic_key_type == "Send_SYN" { "Send_SYN" } else { "Send_other" };
        assert!(printed.contains(name), "{printed}");
        assert_line(&printed, "ISNs", &format!("0x{},", vector.source_isn));
        assert_line(&printed, "ISNs", &format!("0x{}", vector.destination_isn));
        // The ISNs are in the KDF's input too.
        assert!(
            printed.lines().any(|line| line.contains(&vector.source_isn) && line.ends_with("source ISN"))
        );

        let secret = hex::decode(&vector.master_key).unwrap();
        let spelled = String::from_utf8_lossy(&secret).into_owned();
        for hidden in [vector.master_key.as_str(), &spelled] {
            assert!(!printed.contains(hidden) && !complaints.contains(hidden), "section {}", vector.section);
        }
    }
}

impl Vector {
    fn packet_has_syn(&self) -> bool {
        let packet = hex::decode(&self.packet).unwrap();
        Segment::parse(&packet).unwrap().flags().syn()
    }
}

/// All octets of an input, with the master key where it is.
fn octets(fields: &[Field], master_key: &[u8]) -> Vec<u8> {
    let of = |field: &Field| match &field.octets {
        Octets::Shown(octets) => octets.clone(),
        Octets::MasterKey { length } => {
            assert_eq!(*length, master_key.len());
            master_key.to_vec()
        }
    };
    fields.iter().flat_map(of).collect()
}

#[test]
fn the_fields_that_are_shown_are_what_is_computed_over() {
    for vector in vectors() {
        let algorithm: TcpAoAlgorithm = vector.algorithm.parse().unwrap();
        let (secret, packet) =
            (hex::decode(&vector.master_key).unwrap(), hex::decode(&vector.packet).unwrap());
        let segment = Segment::parse(&packet).unwrap();
        let ao = segment.ao_option().unwrap().unwrap();
        let context = vector.context(&segment);
        let master_key = MasterKey::new(&secret).unwrap();

        let steps = kdf(algorithm, &master_key, &context);
        let (last, before) = steps.split_last().unwrap();
        assert!(last.check_value.is_none() && before.iter().all(|step| step.check_value.is_some()));
        let input = octets(&last.input, &secret);
        // The key of the last step, from the input of the one before.
        let key = match (algorithm.kdf(), before) {
            (TcpAoKdf::HmacSha1, []) => MacKey::hmac_sha1(&secret),
            (TcpAoKdf::Aes128Cmac, []) => MacKey::aes_128_cmac(secret.as_slice().try_into().unwrap()),
            (TcpAoKdf::Aes128Cmac, [step]) => {
                let compressed = MacKey::aes_128_cmac(&[0; 16]).mac(&[&octets(&step.input, &secret)]);
                let key = MacKey::aes_128_cmac(compressed.as_bytes().try_into().unwrap());
                assert_eq!(key.mac(&[&[0; 16]]).truncated(4), step.check_value.unwrap());
                key
            }
            (TcpAoKdf::HkdfSha256, [step]) => {
                let extracted = MacKey::hmac_sha256(&[0; 32]).mac(&[&octets(&step.input, &secret)]);
                let key = MacKey::hmac_sha256(extracted.as_bytes());
                assert_eq!(key.mac(&[&[0; 16]]).truncated(4), step.check_value.unwrap());
                key
            }
            (TcpAoKdf::Kmac256, []) => MacKey::kmac256(&[0; 132], b"KDF", OutputLength::Octets32),
            (kdf, steps) => panic!("{kdf:?} in {} steps before the last", steps.len()),
        };
        let derived = key.mac(&[&input]);
        let length = algorithm.traffic_key_length();
        assert_eq!(
            Hex(derived.truncated(length)).to_string(),
            vector.traffic_key,
            "section {}",
            vector.section
        );

        let options =
            if vector.options == "covered" { OptionCoverage::Covered } else { OptionCoverage::Excluded };
        let input = octets(&mac_input(Sne(vector.sne), &segment, &ao, options), &secret);
        let mac = TrafficKey::derive(algorithm, &master_key, &context).mac_key().mac(&[&input]);
        assert_eq!(Hex(mac.truncated(ao.mac.len())).to_string(), vector.mac, "section {}", vector.section);
    }
}

proptest! {
    /// Whatever a packet is, nothing panics; and of one whose MAC can be computed, the fields are what it is computed over.
    #[test]
    fn the_fields_of_any_packet_are_what_is_computed_over(
        number in 0..96_usize,
        changes in collection::vec((any::<Index>(), any::<u8>()), 0..12),
        excluded: bool,
        sne: u32,
    ) {
        let mut packet = hex::decode(&vectors()[number].packet).unwrap();
        for (place, octet) in changes {
            *place.get_mut(&mut packet) = octet;
        }
        let Ok(segment) = wireseal::derive::segment(&packet) else { return Ok(()) };
        let Ok(ao) = wireseal::derive::ao_of(&segment) else { return Ok(()) };
        let options = if excluded { OptionCoverage::Excluded } else { OptionCoverage::Covered };
        let isns = [Isn(sne), Isn(!sne)];
        let given = (!segment.flags().syn()).then_some(isns);
        let context = wireseal::derive::context_of(&segment, given).unwrap();
        let key = TrafficKey::derive(TcpAoAlgorithm::HmacSha1, &MasterKey::new(b"secret").unwrap(), &context);
        let computed = wireseal::derive::mac(&key, Sne(sne), &segment, options).unwrap();
        let input = octets(&mac_input(Sne(sne), &segment, &ao, options), &[]);
        let shown = key.mac_key().mac(&[&input]);
        prop_assert_eq!(shown.as_bytes(), computed.as_bytes());
    }
}

/// The first data packet of RFC 9235, section 4.1.3.
fn data() -> Vector {
    vectors().into_iter().find(|vector| vector.section == "4.1.3").unwrap()
}

#[test]
fn a_packet_may_be_a_file_standard_input_a_frame_or_a_dump() {
    let vector = data();
    let (key, isns) = (vector.key(), format!("0x{},0x{}", vector.source_isn, vector.destination_isn));
    let octets = hex::decode(&vector.packet).unwrap();
    let mut dump = String::new();
    for (place, line) in octets.chunks(16).enumerate() {
        let pairs: Vec<_> = line.chunks(2).map(|pair| Hex(pair).to_string()).collect();
        dump += &format!("\t0x{:04x}:  {}\n", place * 16, pairs.join(" "));
    }
    let vlan = format!("ffffffffffff 020000000001 8100 0064 0800 {}", vector.packet);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packet.txt");
    fs::write(&path, &dump).unwrap();
    for packet in [dump.as_str(), &vlan, &vector.packet.to_uppercase(), path.to_str().unwrap()] {
        let output = derive(&["--key", &key, "--isns", &isns, packet]);
        assert_eq!(output.status.code(), Some(0), "{packet}: {}", text(&output.stderr));
        assert_line(&text(&output.stdout), "MAC", &vector.mac);
    }

    let mut child = Command::new(env!("CARGO_BIN_EXE_wireseal"))
        .args(["derive", "--key", &key, "--isns", &isns, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(dump.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_line(&text(&output.stdout), "MAC", &vector.mac);
}

#[test]
fn another_mac_is_told_with_exit_code_1() {
    let vector = data();
    let isns = format!("0x{},0x{}", vector.source_isn, vector.destination_isn);
    for (key, sne) in [
        (vector.key().replace("options=covered", "options=excluded"), "0"),
        (vector.key(), "1"),
        (vector.key().replace("secret-hex=74", "secret-hex=75"), "0"),
    ] {
        let output = derive(&["--key", &key, "--isns", &isns, "--sne", sne, &vector.packet]);
        assert_eq!(output.status.code(), Some(1));
        assert_line(&text(&output.stdout), "in packet", "DIFFERENT");
    }
}

#[test]
fn what_cannot_be_derived_is_told_in_one_line_with_exit_code_2() {
    let vector = data();
    let key = vector.key();
    let isns = format!("0x{},0x{}", vector.source_isn, vector.destination_isn);
    let mut unsigned = hex::decode(&vector.packet).unwrap();
    // NOPs where the TCP-AO option is: behind the IP header of 20 octets, the TCP header's 20 and 12 of timestamps.
    unsigned[52..68].fill(1);
    let unsigned = Hex(&unsigned).to_string();
    let syn = vectors().remove(0);
    let rows: [(&[&str], &str); 8] = [
        (&[&vector.packet], "--isns: a segment without SYN"),
        (&["--isns", &isns, &vector.packet[..100]], "packet: 85 octets are missing"),
        (&["--isns", &isns, &unsigned], "no TCP-AO option"),
        (&["--isns", &isns, "4500"], "packet: "),
        (&["--isns", &isns, "no such file"], "neither hexadecimal digits"),
        (&["--isns", "1", &vector.packet], "two ISNs are needed"),
        (&["--isns", "1,0x1ffffffff", &vector.packet], "a number of 32 bits"),
        (
            &["--isns", "1,2", &syn.packet],
            "the segment has SYN, and says that they are 0xfbfbab5a,0x00000000",
        ),
    ];
    for (arguments, expected) in rows {
        let output = derive(&[&["--key", key.as_str()], arguments].concat());
        let complaints = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{complaints}");
        assert!(complaints.contains(expected), "{expected}: {complaints}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}

#[test]
fn a_connection_has_three_traffic_keys() {
    let vectors = vectors();
    let handshake = &vectors[..4];
    let packet = hex::decode(&handshake[0].packet).unwrap();
    let syn = Segment::parse(&packet).unwrap();
    let connection = format!("{}-{}", syn.source(), syn.destination());
    let isns = format!("0x{},0x{}", handshake[2].source_isn, handshake[2].destination_isn);
    let output = derive(&["--key", &handshake[0].key(), "--connection", &connection, "--isns", &isns]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_line(&printed, "Send_SYN", &handshake[0].traffic_key);
    assert_line(&printed, "Send_other", &handshake[2].traffic_key);
    assert_line(&printed, "Receive_other", &handshake[3].traffic_key);
}

#[test]
fn keys_of_other_peers_are_left_out() {
    let vector = data();
    let packet = hex::decode(&vector.packet).unwrap();
    let peer = Segment::parse(&packet).unwrap().destination_address();
    let of = |peer: &str| format!("{},peer={peer}", vector.key());
    let (its, other) = (of(&peer.to_string()), of("203.0.113.7"));
    let arguments = |key| ["--key", key, &vector.packet, "--isns", "1,2"].map(str::to_owned);
    let output = derive(&arguments(&other).each_ref().map(String::as_str));
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("all keys are for other peers"), "{}", text(&output.stderr));

    let mut arguments = arguments(&its).to_vec();
    arguments.extend(["--key".to_owned(), other]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let printed = text(&derive(&arguments).stdout);
    assert_eq!(printed.lines().filter(|line| line.starts_with("traffic key")).count(), 1, "{printed}");
}

#[test]
fn the_documented_example_is_real() {
    let document = include_str!("../docs/derive.md");
    let (_, example) = document.split_once("\n$ wireseal derive ").unwrap();
    let (arguments, expected) = example.split_once('\n').unwrap();
    let (expected, _) = expected.split_once("```").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "testvector").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_wireseal"))
        .arg("derive")
        .args(arguments.split(' '))
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}
