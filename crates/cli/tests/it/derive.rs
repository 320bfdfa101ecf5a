//! `wireseal derive` on the packets of RFC 9235 and of the draft: every value printed there appears, and no master key does.

use proptest::collection;
use proptest::prelude::{any, prop_assert_eq, proptest};
use proptest::sample::Index;
use serde_json::Value;
use wireseal::derive::{Field, Octets, ao_of, context_of, kdf, mac_input, segment};
use wireseal::hex::{self, Hex};
use wireseal_algorithms::{TcpAoAlgorithm, TcpAoKdf};
use wireseal_mac::{MacKey, OutputLength};
use wireseal_tcp_ao::{Isn, KeyId, MasterKey, Mkt, OptionCoverage, Segment, Sne, TrafficKey};

use crate::support::files::{Files, workspace_file};
use crate::support::program::{Run, wireseal, wireseal_reading};
use crate::support::session::{ACK, IPV4_KEY, SYN, Session};

/// A packet of RFC 9235 or of the draft.
struct Vector(Value);

fn vectors() -> Vec<Vector> {
    let files = ["rfc9235.json", "draft-tcp-ao-algs.json"].map(|name| {
        let file: Value = serde_json::from_slice(&workspace_file(&format!("cli/data/{name}"))).unwrap();
        file["vectors"].as_array().unwrap().clone()
    });
    files.concat().into_iter().map(Vector).collect()
}

/// The first data packet of RFC 9235 §4.1.3.
fn data() -> Vector {
    vectors().into_iter().find(|vector| vector.0["section"] == "4.1.3").unwrap()
}

impl Vector {
    fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap()
    }

    fn octets(&self, member: &str) -> Vec<u8> {
        hex::decode(self.text(member)).unwrap()
    }

    fn sne(&self) -> u32 {
        self.0["sne"].as_u64().unwrap() as u32
    }

    /// The ISNs of the packet's source and destination.
    fn isns(&self) -> [Isn; 2] {
        ["source_isn", "destination_isn"]
            .map(|member| Isn(u32::from_str_radix(self.text(member), 16).unwrap()))
    }

    /// The same, as `--isns` takes them.
    fn isns_argument(&self) -> String {
        let [source, destination] = self.isns();
        format!("0x{:08x},0x{:08x}", source.0, destination.0)
    }

    /// Its key as `--key` takes it, with the ids of its packet.
    fn key(&self) -> String {
        let packet = self.octets("packet");
        let ao = Segment::parse(&packet).unwrap().ao_option().unwrap().unwrap();
        format!(
            "send={},recv={},alg={},mac={},options={},secret-hex={}",
            ao.key_id,
            ao.rnext_key_id,
            self.text("algorithm"),
            ao.mac.len(),
            if self.text("options") == "covered" { "covered" } else { "excluded" },
            self.text("master_key")
        )
    }

    /// Runs `wireseal derive` on its packet with its key and these arguments.
    fn derive(&self, arguments: &[&str]) -> Run {
        wireseal([&["derive", "--key", &self.key(), self.text("packet")], arguments].concat())
    }
}

/// Asserts that a line with this name has this word.
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
        let (isns, sne, packet) = (vector.isns_argument(), vector.sne().to_string(), vector.octets("packet"));
        let mut arguments = vec!["--explain", "--sne", &sne];
        // SYN and SYN-ACK contain their ISNs.
        if !Segment::parse(&packet).unwrap().flags().syn() {
            arguments.extend(["--isns", &isns]);
        }
        let Run { code, out, err } = vector.derive(&arguments);
        assert_eq!(code, 0, "{}: {err}{out}", vector.0);
        assert_line(&out, "traffic key", vector.text("traffic_key"));
        assert_line(&out, "MAC", vector.text("mac"));
        assert_line(&out, "in packet", "equal");
        assert_line(&out, "SNE", &sne);
        let is_syn = vector.text("traffic_key_type") == "Send_SYN";
        assert!(out.contains(if is_syn { "Send_SYN" } else { "Send_other" }), "{out}");
        let (source, destination) = isns.split_once(',').unwrap();
        assert_line(&out, "ISNs", &format!("{source},"));
        assert_line(&out, "ISNs", destination);
        // The ISNs are in the KDF's input too.
        let digits = vector.text("source_isn");
        assert!(out.lines().any(|line| line.contains(digits) && line.ends_with("source ISN")), "{out}");

        let secret = vector.octets("master_key");
        for hidden in [vector.text("master_key"), &String::from_utf8_lossy(&secret)] {
            assert!(!out.contains(hidden) && !err.contains(hidden), "{}", vector.0);
        }
    }
}

#[test]
fn the_isns_of_an_answer_to_a_syn_with_data_can_be_given() {
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, b"a request");
    session.send(1, SYN | ACK, &[]);
    let packet = Hex(&session.packets[1].1).to_string();
    let derive = |arguments: &[&str]| wireseal([&["derive", "--key", IPV4_KEY, &packet], arguments].concat());
    assert_eq!(derive(&["--isns", "5000,1000"]).code, 0);
    // Without them, the acknowledgment less one is taken.
    assert_eq!(derive(&[]).code, 1);
    let later = derive(&["--isns", "5000,1010"]);
    assert!(later.code == 2 && later.err.contains("shows that they are"), "{}", later.err);
}

/// All octets of an input, with the master key filled in.
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
        let algorithm: TcpAoAlgorithm = vector.text("algorithm").parse().unwrap();
        let (secret, packet) = (vector.octets("master_key"), vector.octets("packet"));
        let segment = Segment::parse(&packet).unwrap();
        let ao = segment.ao_option().unwrap().unwrap();
        let given = (!segment.flags().syn()).then_some(vector.isns());
        let context = context_of(&segment, given).unwrap();
        assert_eq!([context.source_isn, context.destination_isn], vector.isns());
        let master_key = MasterKey::new(&secret).unwrap();

        let steps = kdf(algorithm, &master_key, &context);
        let (last, before) = steps.split_last().unwrap();
        assert!(last.check_value.is_none() && before.iter().all(|step| step.check_value.is_some()));
        let input = octets(&last.input, &secret);
        // The last step's key, from the input of the step before.
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
        assert_eq!(derived.truncated(length), vector.octets("traffic_key"), "{}", vector.0);

        let covered = vector.text("options") == "covered";
        let options = if covered { OptionCoverage::Covered } else { OptionCoverage::Excluded };
        let input = segment.mac_input(Sne(vector.sne()), options).unwrap();
        let input = octets(&mac_input(&input, options), &secret);
        let mac = TrafficKey::derive(&mkt(algorithm, master_key), &context).mac_key().mac(&[&input]);
        assert_eq!(mac.truncated(ao.mac.len()), vector.octets("mac"), "{}", vector.0);
    }
}

/// An MKT, whose ids do not matter to traffic keys.
fn mkt(algorithm: TcpAoAlgorithm, master_key: MasterKey) -> Mkt {
    Mkt::with_short_master_key(KeyId(0), KeyId(0), algorithm, master_key).unwrap()
}

proptest! {
    /// No packet makes it panic. If a packet's MAC can be computed, it is computed over the fields shown.
    #[test]
    fn the_fields_of_any_packet_are_what_is_computed_over(
        number in 0..96_usize,
        changes in collection::vec((any::<Index>(), any::<u8>()), 0..12),
        excluded: bool,
        sne: u32,
    ) {
        let mut packet = vectors()[number].octets("packet");
        for (place, octet) in changes {
            *place.get_mut(&mut packet) = octet;
        }
        let Ok(segment) = segment(&packet) else { return Ok(()) };
        if ao_of(&segment).is_err() {
            return Ok(());
        }
        let options = if excluded { OptionCoverage::Excluded } else { OptionCoverage::Covered };
        let isns = [Isn(sne), Isn(!sne)];
        let given = (!segment.flags().syn()).then_some(isns);
        let context = context_of(&segment, given).unwrap();
        let key = TrafficKey::derive(&mkt(TcpAoAlgorithm::HmacSha1, MasterKey::new(b"secret").unwrap()), &context);
        let input = segment.mac_input(Sne(sne), options).unwrap();
        let computed = input.mac(&key);
        let input = octets(&mac_input(&input, options), &[]);
        let shown = key.mac_key().mac(&[&input]);
        prop_assert_eq!(shown.as_bytes(), computed.as_bytes());
    }
}

#[test]
fn a_packet_may_be_a_file_standard_input_a_frame_or_a_dump() {
    let vector = data();
    let (key, isns, digits) = (vector.key(), vector.isns_argument(), vector.text("packet"));
    let mut dump = String::new();
    for (place, line) in vector.octets("packet").chunks(16).enumerate() {
        let pairs: Vec<_> = line.chunks(2).map(|pair| Hex(pair).to_string()).collect();
        dump += &format!("\t0x{:04x}:  {}\n", place * 16, pairs.join(" "));
    }
    let vlan = format!("ffffffffffff 020000000001 8100 0064 0800 {digits}");
    let files = Files::new();
    let path = files.file("packet.txt", &dump);
    for packet in [dump.as_str(), &vlan, &digits.to_uppercase(), path.to_str().unwrap(), "-"] {
        let arguments = ["derive", "--key", &key, "--isns", &isns, packet];
        let run = wireseal_reading(arguments, if packet == "-" { dump.as_bytes() } else { &[] });
        assert_eq!(run.code, 0, "{packet}: {}", run.err);
        assert_line(&run.out, "MAC", vector.text("mac"));
    }
}

#[test]
fn another_mac_means_exit_code_1() {
    let vector = data();
    for (key, sne) in [
        (vector.key().replace("options=covered", "options=excluded"), "0"),
        (vector.key(), "1"),
        (vector.key().replace("secret-hex=74", "secret-hex=75"), "0"),
    ] {
        let isns = vector.isns_argument();
        let run = wireseal(["derive", "--key", &key, "--isns", &isns, "--sne", sne, vector.text("packet")]);
        assert_eq!(run.code, 1);
        assert_line(&run.out, "in packet", "DIFFERENT");
    }
}

#[test]
fn packets_and_isns_of_no_use_are_errors() {
    let vector = data();
    let (key, isns, packet) = (vector.key(), vector.isns_argument(), vector.text("packet"));
    let mut unsigned = vector.octets("packet");
    // NOPs instead of the TCP-AO option, which follows 20 octets of IP header, 20 of TCP header and 12 of timestamps.
    unsigned[52..68].fill(1);
    let unsigned = Hex(&unsigned).to_string();
    let syn = vectors().remove(0);
    let rows: [(&[&str], &str); 8] = [
        (&[packet], "--isns: a segment without SYN"),
        (&["--isns", &isns, &packet[..100]], "packet: 85 octets are missing"),
        (&["--isns", &isns, &unsigned], "no TCP-AO option"),
        (&["--isns", &isns, "4500"], "packet: "),
        (&["--isns", &isns, "no such file"], "neither pairs of hexadecimal digits"),
        (&["--isns", "1", packet], "two ISNs are needed"),
        (&["--isns", "1,0x1ffffffff", packet], "a 32-bit number"),
        (
            &["--isns", "1,2", syn.text("packet")],
            "the segment has SYN and shows that they are 0xfbfbab5a,0x00000000",
        ),
    ];
    for (arguments, expected) in rows {
        let run = wireseal([&["derive", "--key", key.as_str()], arguments].concat());
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.err.contains(expected), "{expected}: {}", run.err);
    }
}

#[test]
fn a_connection_has_three_traffic_keys() {
    let handshake = &vectors()[..4];
    let packet = handshake[0].octets("packet");
    let syn = Segment::parse(&packet).unwrap();
    let connection = format!("{}-{}", syn.source(), syn.destination());
    let (key, isns) = (handshake[0].key(), handshake[2].isns_argument());
    let run = wireseal(["derive", "--key", &key, "--connection", &connection, "--isns", &isns]);
    assert_eq!(run.code, 0, "{}", run.err);
    for (name, vector) in [("Send_SYN", 0), ("Send_other", 2), ("Receive_other", 3)] {
        assert_line(&run.out, name, handshake[vector].text("traffic_key"));
    }
}

#[test]
fn keys_of_other_peers_are_ignored() {
    let vector = data();
    let packet = vector.octets("packet");
    let peer = Segment::parse(&packet).unwrap().destination_address();
    let [its, other] =
        [peer.to_string().as_str(), "203.0.113.7"].map(|peer| format!("{},peer={peer}", vector.key()));
    let arguments = ["derive", "--isns", "1,2", vector.text("packet"), "--key", &other];
    let run = wireseal(arguments);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("all keys are for peers other than"), "{}", run.err);

    let out = wireseal([&arguments[..], &["--key", &its]].concat()).out;
    assert_eq!(out.lines().filter(|line| line.starts_with("traffic key")).count(), 1, "{out}");
}

#[test]
fn a_hex_dump_with_offsets_is_read_and_a_broken_one_is_said_to_be() {
    let files = Files::new();
    let mut session = Session::usual([1000, 5000]);
    session.send(0, SYN, &[]);
    let lines = session.packets[0].1.chunks(16).enumerate().map(|(number, octets)| {
        let octets: Vec<_> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        format!("{:04x}  {} \n", number * 16, octets.join(" "))
    });
    let lines: Vec<_> = lines.collect();
    let derive = |text: String| {
        let path = files.file("packet.txt", text).display().to_string();
        wireseal(["derive", "--key", IPV4_KEY, &path])
    };
    let whole = derive(lines.concat());
    assert!(whole.code == 0 && whole.out.contains("equal"), "{}{}", whole.out, whole.err);
    let broken = derive([&lines[..1], &lines[2..]].concat().concat());
    assert_eq!(broken.code, 2);
    assert!(
        broken.err.contains("line 2 of the hex dump begins with an offset that is not"),
        "{}",
        broken.err
    );
}
