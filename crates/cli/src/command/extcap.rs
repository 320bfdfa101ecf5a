//! `wireseal extcap`: interfaces of Wireshark whose packets have verdicts.
//!
//! Wireshark runs it to ask for interfaces, link types and options, and to capture into a pipe (`extcap(4)`).

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use cidr::IpCidr;
use wireseal_keys::Format;
use wireseal_linux::PacketFilter;

use super::key_arguments::{self, KeyArguments};
use super::outcome::{Outcome, Result};
use super::say::say;
use super::signals::stop_on_signals;
use super::verify_live::{WAIT, dropped};
use crate::live::{Annotated, Interfaces, drop_privileges};
use crate::verify::{Verifier, VerifyOptions};

/// Offer Wireshark interfaces whose packets have verdicts as comments
///
/// wireseal extcap --install makes a link in Wireshark's folder for such programs; its list of interfaces then has "TCP-AO verified: eth0".
/// Started under a name that ends in "extcap", the program behaves the same. Wireshark passes all other options.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Make the link wireseal-extcap in this folder, by default Wireshark's own in your home
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    install: Option<Option<PathBuf>>,
    /// List the interfaces
    #[arg(long, hide = true)]
    extcap_interfaces: bool,
    /// Wireshark's version
    #[arg(long, hide = true)]
    extcap_version: Option<String>,
    /// The interface that is meant
    #[arg(long, hide = true, value_name = "NAME")]
    extcap_interface: Option<String>,
    /// List the interface's link types
    #[arg(long, hide = true)]
    extcap_dlts: bool,
    /// List the options
    #[arg(long, hide = true)]
    extcap_config: bool,
    /// Capture
    #[arg(long, hide = true)]
    capture: bool,
    /// The pipe to capture into
    #[arg(long, hide = true)]
    fifo: Option<PathBuf>,
    /// The capture filter, to be checked, or to capture with
    #[arg(long, hide = true)]
    extcap_capture_filter: Option<String>,
    /// Ports, with commas
    #[arg(long, hide = true, default_value = "")]
    ports: String,
    /// Peers, with commas
    #[arg(long, hide = true, default_value = "")]
    peers: String,
    /// Also packets for other hosts
    #[arg(long, hide = true)]
    promiscuous: bool,
    /// A key file
    #[arg(long, hide = true, default_value = "")]
    keys: OsString,
    /// The format of the key file
    #[arg(long, hide = true, value_parser = key_arguments::format())]
    keys_format: Option<Format>,
}

/// What an interface's name begins with.
const PREFIX: &str = "wireseal-";
/// The name of the link.
const LINK: &str = "wireseal-extcap";
/// What Wireshark asks for; `{call=…}` is the option that a value is given with.
const CONFIG: &str = "\
arg {number=0}{call=--keys}{display=Key file}{tooltip=TOML, RFC 8177 JSON, or a router's configuration}{type=fileselect}{mustexist=true}{required=true}
arg {number=1}{call=--ports}{display=Ports}{tooltip=Only these, with commas; all if empty}{type=string}{placeholder=179}
arg {number=2}{call=--peers}{display=Peers}{tooltip=Only these addresses or prefixes, with commas; all if empty}{type=string}
arg {number=3}{call=--promiscuous}{display=Packets for other hosts too}{type=boolflag}{default=false}
";

fn port(text: &str) -> std::result::Result<u16, String> {
    text.trim().parse().map_err(|_| "expected ports with commas between them, such as 179,646".to_owned())
}

fn peer(text: &str) -> std::result::Result<IpCidr, String> {
    super::verify::prefix(text.trim())
}

/// Values with commas between them; none for an empty text, which Wireshark gives for an empty field.
fn list<T>(
    text: &str,
    read: fn(&str) -> std::result::Result<T, String>,
) -> std::result::Result<Vec<T>, String> {
    text.split(',').filter(|part| !part.trim().is_empty()).map(read).collect()
}

pub(super) fn run(arguments: Arguments) -> Result {
    let mut output = io::stdout().lock();
    if let Some(directory) = &arguments.install {
        let link = install(directory.as_deref())?;
        writeln!(output, "{}: start Wireshark again to see its interfaces", link.display())?;
        if directory.is_none() {
            writeln!(
                output,
                "(Wireshark 4.0 and older: --install with the folder under Help > About > Folders)"
            )?;
        }
        return Ok(Outcome::Good);
    }
    if arguments.extcap_interfaces {
        writeln!(output, "extcap {{version={}}}{{display=TCP-AO verified}}", env!("CARGO_PKG_VERSION"))?;
        for name in Interfaces::names()?.iter().map(String::as_str).chain(["any"]) {
            // Wireshark has no way to write them in a value.
            if name.contains(|letter: char| matches!(letter, '{' | '}') || letter.is_control()) {
                say(format_args!("{name:?} is not listed: Wireshark cannot read such a name"));
                continue;
            }
            writeln!(output, "interface {{value={PREFIX}{name}}}{{display=TCP-AO verified: {name}}}")?;
        }
        return Ok(Outcome::Good);
    }
    let Some(interface) = &arguments.extcap_interface else {
        return Err("Wireshark runs this; to have it there, run: wireseal extcap --install".into());
    };
    let Some(name) = interface.strip_prefix(PREFIX) else {
        return Err(format!("no interface {interface}: those of wireseal begin with {PREFIX}").into());
    };
    if arguments.capture {
        drop(output);
        return capture(name, &arguments);
    }
    if arguments.extcap_dlts {
        writeln!(output, "{}", link_type(name))?;
    } else if arguments.extcap_config {
        output.write_all(CONFIG.as_bytes())?;
    } else if let Some(filter) = &arguments.extcap_capture_filter {
        // Nothing is printed for a filter that can be used.
        if let Err(error) = parse_filter(filter) {
            writeln!(output, "{error}")?;
        }
    }
    Ok(Outcome::Good)
}

/// Makes the link in a folder.
fn install(directory: Option<&Path>) -> std::result::Result<PathBuf, String> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/lib/wireshark/extcap"));
    let directory = directory.map(Path::to_owned).or_else(home).ok_or("no HOME: name Wireshark's folder")?;
    let link = directory.join(LINK);
    let failed = |error: io::Error| format!("{}: {error}", link.display());
    let program = std::env::current_exe().map_err(failed)?;
    fs::create_dir_all(&directory).map_err(failed)?;
    // An older link is replaced, and nothing else.
    if fs::symlink_metadata(&link).is_ok_and(|metadata| metadata.is_symlink()) {
        fs::remove_file(&link).map_err(failed)?;
    }
    symlink(program, &link).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!(
                "{}: there is such a file, and it is no link: remove it, or name another folder",
                link.display()
            )
        }
        _ => failed(error),
    })?;
    Ok(link)
}

/// What the packets of an interface begin with, in Wireshark's words.
fn link_type(interface: &str) -> &'static str {
    // ARPHRD_ETHER and ARPHRD_LOOPBACK.
    let kind = fs::read_to_string(format!("/sys/class/net/{interface}/type"));
    match kind.as_deref().map(str::trim) {
        Ok("1" | "772") => "dlt {number=1}{name=EN10MB}{display=Ethernet}",
        _ => "dlt {number=113}{name=LINUX_SLL}{display=Linux cooked}",
    }
}

/// The filters that the kernel can be given: `port 179`, `host 192.0.2.1`, `net 2001:db8::/32`, several of one kind with `or`, and one kind
/// after the other with `and`.
fn parse_filter(text: &str) -> std::result::Result<PacketFilter, String> {
    let mut filter = PacketFilter::default();
    if text.trim().is_empty() {
        return Ok(filter);
    }
    for group in text.split(" and ") {
        let group = group.trim().trim_start_matches('(').trim_end_matches(')');
        let (mut peers, mut ports) = (Vec::new(), Vec::new());
        for term in group.split(" or ") {
            match *term.split_whitespace().collect::<Vec<_>>() {
                ["port", number] | ["tcp", "port", number] => ports.push(port(number)?),
                ["host" | "net", network] => peers.push(peer(network)?),
                ["tcp"] if group.trim() == "tcp" => {}
                _ => {
                    return Err(format!(
                        "{term:?} is not understood here: write port 179, host 192.0.2.1 or net 2001:db8::/32, several of one kind \
                         with or, and both kinds with and"
                    ));
                }
            }
        }
        if !peers.is_empty() && !ports.is_empty() {
            return Err("\"or\" joins only ports, or only addresses; join the two with \"and\"".to_owned());
        }
        if !peers.is_empty() && !filter.peers.is_empty() || !ports.is_empty() && !filter.ports.is_empty() {
            return Err("two of one kind joined by and: write them with or".to_owned());
        }
        filter.peers.extend(peers);
        filter.ports.extend(ports);
    }
    Ok(filter)
}

/// Captures until Wireshark closes the pipe or ends this.
fn capture(name: &str, arguments: &Arguments) -> Result {
    let Arguments { fifo, extcap_capture_filter, ports, peers, promiscuous, keys, keys_format, .. } =
        arguments;
    let fifo = fifo.as_ref().ok_or("--capture needs --fifo")?;
    if keys.is_empty() {
        return Err("no key file: choose one in the options of the interface".into());
    }
    let keys = KeyArguments::of_file(keys.into(), *keys_format).keys()?;
    let mut filter = parse_filter(extcap_capture_filter.as_deref().unwrap_or_default())?;
    filter.ports.extend(list(ports, port)?);
    filter.peers.extend(list(peers, peer)?);
    let stop = stop_on_signals()?;
    let output = OpenOptions::new().write(true).open(fifo);
    let output = output.map_err(|error| format!("{}: {error}", fifo.display()))?;
    let mut interfaces = Interfaces::open(&[name.to_owned()], &filter, *promiscuous)?;
    drop_privileges().map_err(|error| format!("privileges cannot be dropped: {error}"))?;
    let options = VerifyOptions { peers: filter.peers, ports: filter.ports, ..VerifyOptions::default() };
    let mut verifier = Verifier::new(&keys, options);
    let description = interfaces.descriptions().next().ok_or("no interface")?;
    let annotated = Annotated::begin(BufWriter::with_capacity(1 << 16, output), &description, &keys);
    match annotated.and_then(|annotated| copy(&mut interfaces, &mut verifier, annotated, &stop)) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Outcome::Good),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Outcome::Good),
    }
}

/// Copies packets with their verdicts until a signal comes.
fn copy(
    interfaces: &mut Interfaces,
    verifier: &mut Verifier<'_>,
    mut annotated: Annotated<'_, impl Write>,
    stop: &AtomicBool,
) -> io::Result<()> {
    loop {
        let is_over = stop.load(Ordering::Relaxed);
        let taken = interfaces.take(|_, packet| annotated.packet(packet, verifier));
        let has_more = match taken {
            Ok(has_more) => has_more?,
            Err(error) => {
                annotated.write(verifier)?;
                return Err(io::Error::other(error.to_string()));
            }
        };
        if has_more && !is_over {
            continue;
        }
        let statistics = interfaces.statistics()?;
        verifier.note_dropped(dropped(&statistics).saturating_sub(verifier.dropped()));
        annotated.write(verifier)?;
        if is_over {
            return annotated.finish(statistics.first().copied().unwrap_or_default());
        }
        interfaces.wait(WAIT)?;
    }
}
