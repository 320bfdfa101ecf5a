//! `wireseal derive`: traffic keys and MACs with every step.

use std::error::Error;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::Path;
use std::str::FromStr;

use wireseal_tcp_ao::{
    AoOption, Endpoint, Isn, KdfContext, KeyId, MktParameters, Segment, Sne, SocketPair, TrafficKey,
    TrafficKeyOctets,
};

use super::key_arguments::KeyArguments;
use super::outcome::{Outcome, Result};
use super::say::say;
use crate::derive::{self, Field, Octets, Step};
use crate::hex::{self, Hex};
use crate::keys::{ConfiguredKey, Keys};
use crate::terminal::Wrapped;
use crate::text::{coverage, flags};
use crate::verify::{endpoint, isn};

/// Print the traffic keys of a connection and the MAC of a packet, step by step
///
/// For debugging an implementation of TCP-AO. It prints TRAFFIC KEYS, with which anyone can forge segments of that one
/// connection, so do not use it with the keys of a session that matters. It never prints a master key, or an
/// intermediate key that could replace it. Exit code 0: the packet has the computed MAC; 1: it has a different one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
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

const EXAMPLE: &str = "Example:\n  wireseal derive --explain --key send=61,recv=84,alg=hmac-sha-1-96,secret-file=secret \\\n    \
                       \"45e0004c dd0f4000 ff06bf6b ...\"";

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
    let keys = arguments.keys.keys()?;
    let mut output = Wrapped::new(BufWriter::new(io::stdout().lock()));
    let outcome = match (&arguments.packet, arguments.connection, arguments.isns) {
        (Some(packet), _, _) => {
            let octets = read(packet)?;
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

/// The octets in the argument itself, in the file it names, or in standard input.
fn read(argument: &str) -> std::result::Result<Vec<u8>, Box<dyn Error>> {
    if let Some(octets) = hex::decode_dump(argument) {
        return Ok(octets);
    }
    let text = if argument == "-" {
        if io::stdin().is_terminal() {
            say("reading a packet in hexadecimal digits; end with Ctrl-D");
        }
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map_err(|error| format!("standard input: {error}"))?;
        text
    } else if Path::new(argument).exists() {
        std::fs::read_to_string(argument).map_err(|error| format!("{argument}: {error}"))?
    } else {
        return Err("packet: neither pairs of hexadecimal digits nor an existing file".into());
    };
    hex::decode_dump(&text).ok_or_else(|| format!("{argument}: not pairs of hexadecimal digits").into())
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

/// Writes the fields, their octets on the left, 16 per line, and their names on the right.
fn write_fields(output: &mut impl Write, fields: &[Field]) -> io::Result<()> {
    let mut offset = 0;
    for Field { name, octets } in fields {
        match octets {
            Octets::MasterKey { length } => {
                writeln!(output, "  {offset:04x}  {:<32}  {name}", format!("({length} octets, not shown)"))?;
                offset += length;
            }
            Octets::Shown(octets) => {
                for (place, octets) in octets.chunks(16).enumerate() {
                    match place {
                        0 => writeln!(output, "  {offset:04x}  {:<32}  {name}", Hex(octets))?,
                        _ => writeln!(output, "  {offset:04x}  {}", Hex(octets))?,
                    }
                    offset += octets.len();
                }
            }
        }
    }
    writeln!(output, "  {offset:04x}")
}
