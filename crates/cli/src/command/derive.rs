//! `wireseal derive`: traffic keys and MACs with every step, and the protection of QUIC packets.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::str::FromStr;

use wireseal_quic::{
    AeadAlgorithm, AnyLongHeader, ConnectionId, HeaderError, MAX_PACKET_NUMBER, PacketType, Version,
    VersionNegotiation, retry_integrity_tag,
};
use wireseal_tcp_ao::{
    AoOption, Endpoint, Isn, KdfContext, KeyId, MktParameters, Segment, Sne, SocketPair, TrafficKey,
    TrafficKeyOctets,
};

use zeroize::Zeroizing;

use super::key_arguments::{KeyArguments, KeyText};
use super::outcome::{Outcome, Result};
use super::say::say;
use crate::derive::quic::{self, End, Given, Origin, QuicError, QuicPacket, Schedule, Steps};
use crate::derive::{self, Field, Octets, Step};
use crate::hex::{self, Hex};
use crate::keys::{ConfiguredKey, Keys};
use crate::terminal::Wrapped;
use crate::text::{counted, coverage, flags};
use crate::verify::{endpoint, isn};

/// Print the traffic keys of a connection and the MAC of a packet, step by step
///
/// For debugging an implementation of TCP-AO. It prints TRAFFIC KEYS, with which anyone can forge segments of that one
/// connection, so do not use it with the keys of a session that matters. It never prints a master key, or an
/// intermediate key that could replace it. Exit code 0: the packet has the computed MAC; 1: it has a different one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Arguments {
    #[command(subcommand)]
    order: Option<Order>,
    /// An IP packet or Ethernet frame: hexadecimal digits with or without blanks, a file of them, or - for standard input
    #[arg(value_name = "PACKET", required_unless_present = "connection")]
    packet: Option<String>,
    #[command(flatten)]
    keys: KeyArguments,
    /// The ISNs of the packet's source and destination, decimal or 0x...; not needed for a packet with SYN
    #[arg(long, value_name = "SRC,DST")]
    isns: Option<Isns>,
    /// The sequence number extension: how often the sequence number has wrapped
    #[arg(long, value_name = "SNE", default_value_t = 0)]
    sne: u32,
    /// Without a packet: the connection whose traffic keys to print, such as 192.0.2.1:50000-192.0.2.2:179, its opener first
    #[arg(long, value_name = "SRC-DST", conflicts_with = "packet", requires = "isns")]
    connection: Option<Ends>,
    /// Print every intermediate value, and the fields of each input
    #[arg(long)]
    explain: bool,
}

/// Octets of the longest text in hexadecimal digits that is read: several times the longest packet, with blanks and offsets.
const MAX_DUMP: usize = 1 << 19;

const EXAMPLE: &str = "Example:\n  wireseal derive --explain --key send=61,recv=84,alg=hmac-sha-1-96,secret-file=secret \\\n    \
                       \"45e0004c dd0f4000 ff06bf6b ...\"";

#[derive(Debug, clap::Subcommand)]
enum Order {
    Quic(QuicArguments),
}

/// `SRC,DST` of `--isns`.
#[derive(Clone, Copy, Debug)]
struct Isns([Isn; 2]);

impl FromStr for Isns {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let isn =
            |text: &str| isn(&text.replace("0X", "0x")).ok_or("an ISN is a 32-bit number, decimal or 0x...");
        let (source, destination) = text.split_once(',').ok_or("two ISNs are needed, as SRC,DST")?;
        Ok(Self([isn(source)?, isn(destination)?]))
    }
}

/// `SRC-DST` of `--connection`.
#[derive(Clone, Copy, Debug)]
struct Ends(SocketPair);

impl FromStr for Ends {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let end = |text| endpoint(text).ok_or("an end is ADDRESS:PORT, or [ADDRESS]:PORT for IPv6");
        let (local, remote) = text.split_once('-').ok_or("two ends are needed, as SRC-DST")?;
        let pair = SocketPair { local: end(local)?, remote: end(remote)? };
        if pair.local.address().is_ipv4() != pair.remote.address().is_ipv4() {
            return Err("one end is IPv4 and the other IPv6");
        }
        Ok(Self(pair))
    }
}

pub(super) fn run(arguments: Arguments) -> Result {
    if let Some(Order::Quic(arguments)) = &arguments.order {
        return of_quic(arguments);
    }
    if let Some(packet) = &arguments.packet {
        arguments.keys.check_input("packet", Path::new(packet))?;
    }
    let keys = arguments.keys.keys()?;
    let mut output = Wrapped::new(BufWriter::new(io::stdout().lock()));
    let outcome = match (&arguments.packet, arguments.connection, arguments.isns) {
        (Some(packet), _, _) => {
            let octets = read("packet", packet)?;
            let segment = derive::segment(&octets)?;
            let keys = keys_between(keys, [segment.source(), segment.destination()])?;
            of_packet(&mut output, &segment, &keys, &arguments)?
        }
        (None, Some(Ends(pair)), Some(Isns(isns))) => {
            let keys = keys_between(keys, [pair.local, pair.remote])?;
            of_connection(&mut output, pair, isns, &keys, arguments.explain)?;
            Outcome::Good
        }
        (None, ..) => return Err("give a packet, or --connection and --isns".into()),
    };
    output.flush()?;
    Ok(outcome)
}

/// The octets in the argument itself, in the file it names, or on standard input. The buffers for reading are wiped.
fn read(what: &str, argument: &str) -> std::result::Result<Zeroizing<Vec<u8>>, Box<dyn Error>> {
    if let Ok(octets) = hex::decode_dump(argument) {
        return Ok(Zeroizing::new(octets));
    }
    let (from, input): (_, Box<dyn Read>) = if argument == "-" {
        if io::stdin().is_terminal() {
            say(format_args!("reading a {what} in hexadecimal digits; end with Ctrl-D"));
        }
        ("standard input", Box::new(io::stdin()))
    } else if Path::new(argument).exists() {
        (argument, Box::new(File::open(argument).map_err(|error| format!("{argument}: {error}"))?))
    } else {
        return Err(format!("{what}: neither pairs of hexadecimal digits nor an existing file").into());
    };
    // Large enough from the start, because growing would leave copies behind.
    let mut text = Zeroizing::new(String::with_capacity(MAX_DUMP));
    let read = input.take(MAX_DUMP as u64 - 1).read_to_string(&mut text);
    read.map_err(|error| format!("{from}: {error}"))?;
    let octets = hex::decode_dump(&text).map_err(|error| format!("{argument}: {error}"))?;
    Ok(Zeroizing::new(octets))
}

/// The keys for a connection between these ends.
fn keys_between(mut keys: Keys, ends: [Endpoint; 2]) -> std::result::Result<Keys, String> {
    let is_for = |key: &ConfiguredKey| {
        key.peer.is_none_or(|peer| ends.iter().any(|end| peer.contains(&end.address())))
    };
    keys.keys.retain(is_for);
    if keys.keys.is_empty() {
        let [source, destination] = ends;
        return Err(format!("all keys are for peers other than {source} and {destination}"));
    }
    Ok(keys)
}

/// The keys that the packet's KeyID names; a single key is used in any case.
fn chosen(keys: &Keys, key_id: KeyId) -> std::result::Result<Vec<&ConfiguredKey>, String> {
    if let [only] = keys.keys.as_slice() {
        return Ok(vec![only]);
    }
    let names = |key: &&ConfiguredKey| {
        let mkt = key.key.mkt();
        mkt.send_id() == key_id || mkt.recv_id() == key_id
    };
    let chosen: Vec<_> = keys.keys.iter().filter(names).collect();
    if chosen.is_empty() {
        return Err(format!(
            "the packet has KeyID {key_id}, and none of the {} keys has that id",
            keys.keys.len()
        ));
    }
    Ok(chosen)
}

fn of_packet(
    output: &mut impl Write,
    segment: &Segment<'_>,
    keys: &Keys,
    arguments: &Arguments,
) -> std::result::Result<Outcome, Box<dyn Error>> {
    let ao @ AoOption { key_id, rnext_key_id, .. } = derive::ao_of(segment)?;
    let KdfContext { source, destination, source_isn, destination_isn } =
        derive::context_of(segment, arguments.isns.map(|Isns(isns)| isns))?;
    let context = KdfContext { source, destination, source_isn, destination_isn };
    let chosen = chosen(keys, key_id)?;
    let [sequence, acknowledgment] = [segment.sequence().0, segment.acknowledgment().0];
    let (flags, payload, mac) = (flags(segment.flags()).join(" "), segment.payload().len(), ao.mac.len());
    writeln!(output, "packet        {source} -> {destination}")?;
    write!(output, "segment       {flags}, sequence {sequence:#010x}, ")?;
    writeln!(output, "acknowledgment {acknowledgment:#010x}, {payload} octets of payload")?;
    writeln!(output, "option        KeyID {key_id}, RNextKeyID {rnext_key_id}, MAC of {mac} octets")?;
    write_isns(output, source_isn, destination_isn)?;
    let mut some_equal = false;
    for configured in chosen {
        writeln!(output)?;
        some_equal |= of_key(output, segment, &ao, &context, configured, arguments)?;
    }
    Ok(if some_equal { Outcome::Good } else { Outcome::Failed })
}

fn write_isns(output: &mut impl Write, Isn(source): Isn, Isn(destination): Isn) -> io::Result<()> {
    writeln!(output, "ISNs          source {source:#010x}, destination {destination:#010x}")
}

/// Writes the packet's MAC under one key. Returns whether the packet has it.
fn of_key(
    output: &mut impl Write,
    segment: &Segment<'_>,
    ao: &AoOption<'_>,
    context: &KdfContext,
    configured: &ConfiguredKey,
    Arguments { explain, sne, .. }: &Arguments,
) -> io::Result<bool> {
    let mkt = configured.key.mkt();
    let MktParameters { algorithm, options, .. } = *mkt.parameters();
    let length = ao.mac.len();
    write_key(output, configured)?;
    if ![mkt.send_id(), mkt.recv_id()].contains(&ao.key_id) {
        writeln!(output, "note          the packet has KeyID {}, which is not this key's", ao.key_id)?;
    }
    if length != mkt.parameters().mac_length() {
        writeln!(
            output,
            "note          the packet's MAC does not have the key's length; using the packet's"
        )?;
    }
    let input = segment.mac_input(Sne(*sne), options).map_err(io::Error::other)?;
    let octets = TrafficKeyOctets::derive(mkt, context);
    if *explain {
        explain_kdf(output, &derive::kdf(algorithm, mkt.master_key(), context))?;
    }
    let [sent, received] = derive::names_of(segment);
    writeln!(output, "traffic key   {}", Hex(octets.expose_secret()))?;
    writeln!(output, "              {sent} at the sender, {received} at the receiver")?;
    if *explain {
        writeln!(output, "\nMAC: {} under the traffic key, of", algorithm.mac())?;
        write_fields(output, &derive::mac_input(&input, options))?;
    }
    let mac = input.mac(&TrafficKey::new(&octets));
    writeln!(output, "SNE           {sne}")?;
    if *explain {
        writeln!(output, "whole MAC     {}", Hex(mac.as_bytes()))?;
    }
    writeln!(output, "MAC           {}", Hex(mac.truncated(length)))?;
    let equal = mac.verify(ao.mac).is_ok();
    writeln!(output, "in packet     {} {}", Hex(ao.mac), if equal { "equal" } else { "DIFFERENT" })?;
    Ok(equal)
}

/// Writes the traffic keys of a connection, as its opener has them.
fn of_connection(
    output: &mut impl Write,
    pair: SocketPair,
    [local, remote]: [Isn; 2],
    keys: &Keys,
    explain: bool,
) -> io::Result<()> {
    writeln!(output, "connection    {} -> {}", pair.local, pair.remote)?;
    write_isns(output, local, remote)?;
    let contexts = [
        ("Send_SYN", KdfContext::syn(pair.local, pair.remote, local)),
        ("Send_other", KdfContext::send_other(pair, local, remote)),
        ("Receive_other", KdfContext::receive_other(pair, local, remote)),
    ];
    for configured in &keys.keys {
        writeln!(output)?;
        write_key(output, configured)?;
        let mkt = configured.key.mkt();
        let algorithm = mkt.parameters().algorithm;
        for (name, context) in &contexts {
            if explain {
                explain_kdf(output, &derive::kdf(algorithm, mkt.master_key(), context))?;
            }
            let octets = TrafficKeyOctets::derive(mkt, context);
            writeln!(output, "{name:<13} {}", Hex(octets.expose_secret()))?;
        }
    }
    Ok(())
}

fn write_key(output: &mut impl Write, configured: &ConfiguredKey) -> io::Result<()> {
    let parameters = configured.key.mkt().parameters();
    let MktParameters { send_id, recv_id, algorithm, options, .. } = *parameters;
    let (name, mac_length, options) = (&configured.name, parameters.mac_length(), coverage(options));
    write!(output, "key           {name}: SendID {send_id}, RecvID {recv_id}, {algorithm}, ")?;
    writeln!(output, "MAC of {mac_length} octets, options {options}")
}

fn explain_kdf(output: &mut impl Write, steps: &[Step]) -> io::Result<()> {
    for Step { function, input, check_value } in steps {
        writeln!(output, "\nKDF: {function}, of")?;
        write_fields(output, input)?;
        if let Some(check_value) = check_value {
            writeln!(output, "gives         a key that is not shown, check value {}", Hex(check_value))?;
        }
    }
    Ok(())
}

/// Writes the fields, their octets on the left, 16 per line, and their names on the right. An asterisk stands for lines like the one above.
fn write_fields(output: &mut impl Write, fields: &[Field]) -> io::Result<()> {
    let mut offset = 0;
    for Field { name, octets } in fields {
        match octets {
            Octets::MasterKey { length } => {
                writeln!(output, "  {offset:04x}  {:<32}  {name}", format!("({length} octets, not shown)"))?;
                offset += length;
            }
            Octets::Shown(octets) => {
                let lines: Vec<&[u8]> = octets.chunks(16).collect();
                for (place, line) in lines.iter().enumerate() {
                    let is_repeated = |place: usize| place > 0 && lines[place - 1] == lines[place];
                    match place {
                        0 => writeln!(output, "  {offset:04x}  {:<32}  {name}", Hex(line))?,
                        _ if !is_repeated(place) => writeln!(output, "  {offset:04x}  {}", Hex(line))?,
                        _ if !is_repeated(place - 1) => writeln!(output, "  *")?,
                        _ => {}
                    }
                    offset += line.len();
                }
            }
        }
    }
    writeln!(output, "  {offset:04x}")
}

/// Print how a QUIC packet is protected, step by step, and why it does not open
///
/// It prints KEYS, and the secrets of Initial packets, which are public. If the packet does not open, it looks for what differs: the
/// key phase, the labels of the other version, the suite, the packet number, the path, or whose Initial keys they are. Exit code 0:
/// the packet is authentic; 1: it is not; 3: a Version Negotiation or Retry packet, of which nothing could be checked.
#[derive(Debug, clap::Args)]
struct QuicArguments {
    /// The payload of a UDP datagram, of which the first packet is opened: hexadecimal digits with or without blanks, a file of them, or
    /// - for standard input
    packet: String,
    /// The sender's traffic secret: a file of hexadecimal digits, - for standard input, or the digits, which every user of the machine
    /// can then see in the process list
    #[arg(long, value_name = "SECRET", conflicts_with = "dcid")]
    secret: Option<KeyText>,
    /// For Initial and Retry packets instead: the Destination Connection ID of the client's first Initial packet, in hexadecimal
    /// digits; after a Retry, for Initial packets, that of its second
    #[arg(long, value_name = "ID", value_parser = connection_id)]
    dcid: Option<ConnectionId>,
    /// Who sent the Initial packet
    #[arg(long, value_name = "END", default_value = "client", requires = "dcid")]
    sender: End,
    /// The cipher suite, such as aes-128-gcm or TLS_AES_128_GCM_SHA256
    #[arg(long, value_name = "SUITE", default_value = "aes-128-gcm", value_parser = suite, conflicts_with = "dcid")]
    suite: AeadAlgorithm,
    /// The version of a packet with a short header: 1 or 2 [default: 1]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    version: Option<Version>,
    /// The octets of the Destination Connection ID in a short header
    #[arg(long, value_name = "OCTETS", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=20))]
    dcid_length: u8,
    /// The largest packet number that was received before
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(..=MAX_PACKET_NUMBER))]
    largest: Option<u64>,
    /// How many key updates came before the packet, counted from the secret
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65_535))]
    updates: u32,
    /// The path (draft-ietf-quic-multipath)
    #[arg(long, value_name = "PATH", default_value_t = 0)]
    path: u32,
}

fn connection_id(text: &str) -> std::result::Result<ConnectionId, String> {
    let octets = if text.is_empty() { Ok(Vec::new()) } else { hex::decode_dump(text) };
    let octets = octets.map_err(|_| "expected pairs of hexadecimal digits")?;
    ConnectionId::new(&octets).map_err(|error| error.to_string())
}

fn suite(text: &str) -> std::result::Result<AeadAlgorithm, String> {
    let wanted = text.to_ascii_uppercase().replace('-', "_");
    let names = |suite: &AeadAlgorithm| {
        let name = suite.name();
        let short = name.trim_start_matches("TLS_").trim_end_matches("_SHA256").trim_end_matches("_SHA384");
        wanted == name || wanted == short
    };
    AeadAlgorithm::ALL.into_iter().find(names).ok_or_else(|| {
        let names = AeadAlgorithm::ALL.map(AeadAlgorithm::name);
        format!("expected one of {}", names.join(", "))
    })
}

fn version(text: &str) -> std::result::Result<Version, &'static str> {
    match text {
        "1" => Ok(Version::V1),
        "2" => Ok(Version::V2),
        _ => Err("expected 1 or 2"),
    }
}

fn of_quic(arguments: &QuicArguments) -> Result {
    let is_standard_input = |KeyText(text): &KeyText| text.as_str() == "-";
    if arguments.packet == "-" && arguments.secret.as_ref().is_some_and(is_standard_input) {
        return Err("the packet and the secret cannot both come from standard input".into());
    }
    let datagram = read("packet", &arguments.packet)?;
    let mut output = Wrapped::new(BufWriter::new(io::stdout().lock()));
    let outcome = match QuicPacket::read(&datagram, arguments.dcid_length.into()) {
        Ok(packet) => of_protected(&mut output, &packet, arguments)?,
        Err(QuicError::Header(HeaderError::VersionNegotiation)) => {
            let versions =
                VersionNegotiation::read(&datagram).ok_or("packet: Version Negotiation without versions")?;
            let versions: Vec<_> = versions.versions().map(|version| format!("0x{version:08x}")).collect();
            writeln!(
                output,
                "packet        Version Negotiation, which nothing protects: {}",
                versions.join(", ")
            )?;
            Outcome::NotJudged
        }
        Err(QuicError::Header(HeaderError::Retry)) => of_retry(&mut output, &datagram, arguments.dcid)?,
        Err(error) => return Err(error.into()),
    };
    output.flush()?;
    Ok(outcome)
}

/// Writes the steps of a packet that keys protect.
fn of_protected(output: &mut impl Write, packet: &QuicPacket, arguments: &QuicArguments) -> Result {
    let QuicArguments { secret, dcid, sender, suite, largest, updates, path, .. } = arguments;
    let version = match (packet.version, arguments.version) {
        (Some(own), Some(given)) if own != given => {
            return Err(format!("--version: the packet is of {own}").into());
        }
        (own, given) => own.or(given).unwrap_or(Version::V1),
    };
    let origin = match (dcid, secret) {
        (Some(_), _) if packet.packet_type != PacketType::Initial => return Err(QuicError::NotInitial.into()),
        (Some(destination), _) => Origin::Initial(*destination, *sender),
        (None, Some(KeyText(secret))) => Origin::Secret(read("secret", secret)?),
        (None, None) => return Err("no keys: give --secret, or --dcid for an Initial packet".into()),
    };
    let (updates, path) = (*updates, *path);
    if packet.packet_type != PacketType::OneRtt && (updates, path) != (0, 0) {
        return Err(
            "--updates and --path: only packets with a short header have key updates and paths".into()
        );
    }
    let given = Given { version, suite: *suite, origin, updates, largest: *largest, path };
    let keys = Schedule::new(&given)?;
    let steps = Steps::new(packet, &given, &keys);

    let (kind, length) = (type_name(packet.packet_type), packet.octets.len());
    write!(output, "packet        {kind} of {version}, {length} octets, ")?;
    writeln!(output, "Destination Connection ID {}", or_none(&packet.destination))?;
    if packet.following > 0 {
        writeln!(output, "note          {} octets follow the packet: give them alone", packet.following)?;
    }
    writeln!(output, "suite         {}", given.suite().name())?;
    for (name, value) in &keys.lines {
        writeln!(output, "{name:<13} {value}")?;
    }
    writeln!(output)?;
    for (name, value) in &steps.lines {
        writeln!(output, "{name:<13} {value}")?;
    }
    if let Some(payload) = &steps.payload {
        writeln!(output, "\nauthentic, with {}:", counted(payload.len() as u64, "octet"))?;
        write_fields(output, &[Field { name: "frames".to_owned(), octets: Octets::Shown(payload.clone()) }])?;
        return Ok(Outcome::Good);
    }
    match quic::near_miss(packet, &given)? {
        Ok(found) => writeln!(output, "\ndoes not open as given: {found}")?,
        Err(tried) => {
            writeln!(output, "\ndoes not open, and none of these fits: tried {}", tried.join(", "))?;
        }
    }
    Ok(Outcome::Failed)
}

/// Writes what a Retry packet is, and its integrity tag if the connection ID is given.
fn of_retry(output: &mut impl Write, datagram: &[u8], original: Option<ConnectionId>) -> Result {
    let header = AnyLongHeader::read(datagram).ok_or("packet: truncated")?;
    let (token, tag) =
        header.rest.split_last_chunk::<16>().ok_or("packet: a Retry packet ends before its tag")?;
    let version = Version::from_wire(header.version)?;
    writeln!(output, "packet        Retry of {version}, Source Connection ID {}", or_none(header.source))?;
    writeln!(output, "token         {}", or_none(token))?;
    let Some(original) = original else {
        writeln!(output, "in packet     {}, to be checked with --dcid", Hex(tag))?;
        return Ok(Outcome::NotJudged);
    };
    let computed = retry_integrity_tag(version, &original, &datagram[..datagram.len() - tag.len()]);
    let is_equal = computed == *tag;
    writeln!(output, "tag           {}", Hex(&computed))?;
    writeln!(output, "in packet     {} {}", Hex(tag), if is_equal { "equal" } else { "DIFFERENT" })?;
    Ok(if is_equal { Outcome::Good } else { Outcome::Failed })
}

const fn type_name(packet_type: PacketType) -> &'static str {
    match packet_type {
        PacketType::Initial => "Initial",
        PacketType::ZeroRtt => "0-RTT",
        PacketType::Handshake => "Handshake",
        PacketType::OneRtt => "1-RTT",
    }
}

fn or_none(octets: &[u8]) -> String {
    if octets.is_empty() { "(none)".to_owned() } else { Hex(octets).to_string() }
}
