//! The configuration file: everything in it is checked before anything is started.

mod error;
mod keys;
mod quic;

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use serde::Deserialize;
use wireseal_tcp_ao::key_chain::{Key, KeyChain};
use wireseal_tcp_ao::{MKTS_PER_PEER, MasterKey};

pub use self::error::{ConfigError, Problem};
use crate::bgp;
use crate::bgp::rib::Route;
use crate::bgp::session::SessionConfig;
use crate::bgp::update::Export;
use crate::protection;
use crate::quic::{Fingerprint, Tls};
use crate::routes;
use crate::transport::DEFAULT_IP_MTU;

/// Addresses that the stack can hold.
const MAX_ADDRESSES: usize = 8;
/// Smallest IP packet that every IPv6 link must carry, in octets (RFC 8200 section 5).
const MIN_MTU: usize = 1280;
/// Largest IP packet of a jumbo frame that smoltcp carries, in octets.
const MAX_MTU: usize = 9000;

/// What carries the sessions: frames, under this process's own TCP, or sockets of the system.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// All peers are played by this process, over a wire in memory.
    Memory,
    /// IP packets over a Linux tun device.
    Tun,
    /// Ethernet frames over a Linux tap device.
    Tap,
    /// Ethernet frames over Unix datagram sockets, as QEMU's `-netdev dgram` sends them.
    Unix,
    /// QUIC over UDP sockets of the system.
    Quic,
    /// TCP sockets of the system, Linux.
    Kernel,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    router: Router,
    transport: Transport,
    quic: Option<quic::Table>,
    peer: Vec<Peer>,
    key_chains: Option<PathBuf>,
}

/// The own router.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// AS number.
    #[serde(rename = "as")]
    pub asn: u32,
    /// BGP Identifier.
    pub id: Ipv4Addr,
}

/// The link and the own place on it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Transport {
    /// What carries the sessions.
    pub kind: TransportKind,
    /// Own addresses with the length of their networks.
    pub addresses: Vec<IpNet>,
    /// Routers for other networks.
    #[serde(default)]
    pub gateways: Vec<IpAddr>,
    /// Largest IP packet, in octets.
    #[serde(default = "default_mtu")]
    pub mtu: u16,
    /// Name of the tun or tap device.
    pub device: Option<String>,
    /// Own socket of the unix transport.
    pub local_path: Option<PathBuf>,
    /// The peer's socket of the unix transport.
    pub peer_path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Peer {
    name: String,
    address: IpAddr,
    local_address: Option<IpAddr>,
    #[serde(rename = "as")]
    asn: u32,
    #[serde(default)]
    passive: bool,
    #[serde(default = "default_port")]
    port: u16,
    #[serde(default = "default_hold_time")]
    hold_time: u16,
    next_hop_ipv4: Option<Ipv4Addr>,
    next_hop_ipv6: Option<Ipv6Addr>,
    key_chain: Option<String>,
    md5_secret_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    certificate_sha256: Option<String>,
    routes: Option<PathBuf>,
}

fn default_mtu() -> u16 {
    DEFAULT_IP_MTU as u16
}

fn default_port() -> u16 {
    bgp::PORT
}

fn default_hold_time() -> u16 {
    // RFC 4271 section 10 suggests it.
    90
}

/// A neighbour, ready to be spoken to.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// What logs call it.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The own address towards it.
    pub local_address: IpAddr,
    /// Its port, or the own one when the peer opens the connection.
    pub port: u16,
    /// Whether the peer opens the connection.
    pub passive: bool,
    /// How the session is to be.
    pub session: SessionConfig,
    /// The key chain that protects the connection; without one it is not protected.
    pub key_chain: Option<Arc<KeyChain>>,
    /// The secret of TCP-MD5, on kernel sockets only, and never beside a key chain.
    pub md5_secret: Option<Arc<MasterKey>>,
    /// The certificate that it must show; there is always one with QUIC, and none otherwise.
    pub certificate: Option<Fingerprint>,
    /// Routes to announce to it.
    pub routes: Arc<[Route]>,
}

/// A whole configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The own router.
    pub router: Router,
    /// The link.
    pub transport: Transport,
    /// The own side of TLS handshakes; it is there with QUIC only.
    pub tls: Option<Tls>,
    /// The neighbours, at least one.
    pub neighbours: Vec<Neighbour>,
}

impl Config {
    /// Reads a configuration and all the files that it names; paths in it are relative to it. `kind` takes the place of the
    /// file's transport.
    ///
    /// # Errors
    /// The first [`ConfigError`], which names file and field.
    pub fn load(path: &Path, kind: Option<TransportKind>) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|error| ConfigError::file(path, Problem::Read(error)))?;
        let file: File = error::parse(path, &text)?;
        let mut transport = file.transport;
        transport.kind = kind.unwrap_or(transport.kind);
        check_router(&file.router).map_err(|(field, problem)| ConfigError::field(path, field, problem))?;
        check_transport(&mut transport, path)
            .map_err(|(field, problem)| ConfigError::field(path, format!("transport.{field}"), problem))?;

        let tls = match transport.kind {
            TransportKind::Quic => Some(quic::load(path, file.quic)?),
            _ => None,
        };
        let key_file = file.key_chains.as_deref().map(|file| beside(path, file));
        let chains = key_file.as_deref().map(|file| keys::load(path, file)).transpose()?.unwrap_or_default();
        if file.peer.is_empty() {
            return Err(ConfigError::field(path, "peer", Problem::Missing));
        }
        let mut names = HashSet::new();
        let mut addresses = HashSet::new();
        let mut neighbours = Vec::with_capacity(file.peer.len());
        for (index, peer) in file.peer.into_iter().enumerate() {
            let wrong =
                |field: &str, problem| ConfigError::field(path, format!("peer[{index}].{field}"), problem);
            if !names.insert(peer.name.clone()) {
                return Err(wrong("name", Problem::Duplicate(peer.name)));
            }
            if !addresses.insert(peer.address) {
                return Err(wrong("address", Problem::Duplicate(peer.address.to_string())));
            }
            let key_chain = match &peer.key_chain {
                None => None,
                Some(name) => {
                    let chain = chains.iter().find(|chain| chain.name() == name);
                    let chain = chain.ok_or_else(|| wrong("key-chain", Problem::Unknown(name.clone())))?;
                    check_chain(chain, transport.kind).map_err(|problem| wrong("key-chain", problem))?;
                    Some(Arc::clone(chain))
                }
            };
            let md5_secret = match &peer.md5_secret_file {
                None => None,
                Some(file) => {
                    let secret = md5_secret(&beside(path, file), transport.kind, peer.key_chain.is_some());
                    Some(secret.map_err(|problem| wrong("md5-secret-file", problem))?)
                }
            };
            let certificate = match &tls {
                None => {
                    let pins = peer.certificate.is_some() || peer.certificate_sha256.is_some();
                    if pins && key_chain.is_none() && md5_secret.is_none() {
                        let problem = "protects nothing but the quic transport, and there is no key-chain";
                        return Err(wrong("certificate", Problem::Invalid(problem.to_owned())));
                    }
                    None
                }
                Some(_) => {
                    let pinned = quic::peer_certificate(path, &peer);
                    Some(pinned.map_err(|(field, problem)| wrong(field, problem))?)
                }
            };
            let routes = match &peer.routes {
                None => Arc::default(),
                Some(file) => routes::load(&beside(path, file))
                    .map_err(|error| wrong("routes", Problem::Routes(error)))?,
            };
            let (local_address, session) = plan_session(&file.router, &transport, &peer)
                .map_err(|(field, problem)| wrong(field, problem))?;
            check_next_hops(&routes, &session).map_err(|(field, problem)| wrong(field, problem))?;
            neighbours.push(Neighbour {
                name: peer.name,
                address: peer.address,
                local_address,
                port: peer.port,
                passive: peer.passive,
                session,
                key_chain,
                md5_secret,
                certificate,
                routes,
            });
        }
        Ok(Self { router: file.router, transport, tls, neighbours })
    }
}

/// Routes without a next hop of their own need one of their family, or they would be left out without a word.
fn check_next_hops(routes: &[Route], session: &SessionConfig) -> Result<(), (&'static str, Problem)> {
    let export = &session.export;
    let families = [
        (true, export.next_hop_ipv4.is_some(), "next-hop-ipv4", "IPv4"),
        (false, export.next_hop_ipv6.is_some(), "next-hop-ipv6", "IPv6"),
    ];
    for (is_ipv4, is_known, field, family) in families {
        let needs_one =
            |route: &Route| route.attributes.next_hop.is_none() && route.prefix.addr().is_ipv4() == is_ipv4;
        if !is_known && routes.iter().any(needs_one) {
            return Err((field, Problem::Invalid(format!("the peer's {family} routes have no next hop"))));
        }
    }
    Ok(())
}

/// A path in a configuration is relative to its directory.
fn beside(config: &Path, path: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(path)
}

fn check_chain(chain: &KeyChain, kind: TransportKind) -> Result<(), Problem> {
    let now = protection::now();
    if chain.is_expired(now) {
        return Err(Problem::Expired(chain.name().to_owned()));
    }
    if kind == TransportKind::Kernel {
        let algorithm = |key: &Key| key.mkt().parameters().algorithm;
        let foreign = chain.keys().iter().find(|key| algorithm(key).linux_name().is_none());
        if let Some(key) = foreign {
            let (name, id, algorithm) = (chain.name(), key.key_id(), algorithm(key));
            let problem = format!("key chain \"{name}\", key {id}, algorithm: Linux has no {algorithm}");
            return Err(Problem::Invalid(problem));
        }
    }
    chain.check_room(MKTS_PER_PEER).map_err(|error| Problem::KeyChain(Box::new(error)))
}

fn md5_secret(file: &Path, kind: TransportKind, has_chain: bool) -> Result<Arc<MasterKey>, Problem> {
    let invalid = |problem: &str| Err(Problem::Invalid(problem.to_owned()));
    if kind != TransportKind::Kernel {
        return invalid("TCP-MD5 is the kernel's, so it takes the kernel transport");
    }
    if has_chain {
        return invalid("there is `key-chain` already, and a connection has one of the two");
    }
    let of_file = |problem| Problem::of_file(file, problem);
    let secret = keys::read(file).map_err(of_file)?;
    let secret = secret.strip_suffix('\n').unwrap_or(&secret);
    let secret = MasterKey::new(secret.as_bytes());
    Ok(Arc::new(secret.map_err(|error| of_file(Problem::Invalid(error.to_string())))?))
}

fn check_router(router: &Router) -> Result<(), (&'static str, Problem)> {
    if router.asn == 0 {
        return Err(("router.as", Problem::Invalid("0 is reserved".to_owned())));
    }
    if router.id.is_unspecified() {
        return Err(("router.id", Problem::Invalid("0.0.0.0 is no identifier".to_owned())));
    }
    Ok(())
}

fn check_transport(transport: &mut Transport, config: &Path) -> Result<(), (&'static str, Problem)> {
    let addresses = transport.addresses.len();
    if addresses == 0 {
        return Err(("addresses", Problem::Missing));
    }
    if addresses > MAX_ADDRESSES {
        return Err(("addresses", Problem::Invalid(format!("{addresses} of at most {MAX_ADDRESSES}"))));
    }
    for is_ipv4 in [true, false] {
        if transport.gateways.iter().filter(|gateway| gateway.is_ipv4() == is_ipv4).count() > 1 {
            return Err(("gateways", Problem::Invalid("more than one of a family".to_owned())));
        }
    }
    if !(MIN_MTU..=MAX_MTU).contains(&usize::from(transport.mtu)) {
        let problem = format!("{} octets, {MIN_MTU} to {MAX_MTU} are possible", transport.mtu);
        return Err(("mtu", Problem::Invalid(problem)));
    }
    match transport.kind {
        TransportKind::Memory | TransportKind::Quic | TransportKind::Kernel => {}
        TransportKind::Tun | TransportKind::Tap => {
            let device = transport.device.as_ref().ok_or(("device", Problem::Missing))?;
            // IFNAMSIZ of Linux is 16 octets with the final zero.
            if device.is_empty() || device.len() > 15 || device.contains('/') {
                return Err(("device", Problem::Invalid(format!("`{device}` is no device name"))));
            }
        }
        TransportKind::Unix => {
            for (field, path) in
                [("local-path", &mut transport.local_path), ("peer-path", &mut transport.peer_path)]
            {
                let path = path.as_mut().ok_or((field, Problem::Missing))?;
                *path = beside(config, path);
            }
        }
    }
    Ok(())
}

/// Chooses the own address and the next hops towards a peer.
fn plan_session(
    router: &Router,
    transport: &Transport,
    peer: &Peer,
) -> Result<(IpAddr, SessionConfig), (&'static str, Problem)> {
    if peer.asn == 0 {
        return Err(("as", Problem::Invalid("0 is reserved".to_owned())));
    }
    if matches!(peer.hold_time, 1 | 2) {
        return Err((
            "hold-time",
            Problem::Invalid("0 or at least 3 seconds (RFC 4271 section 4.2)".to_owned()),
        ));
    }
    if peer.port == 0 {
        return Err(("port", Problem::Invalid("0 is reserved".to_owned())));
    }
    let own = || transport.addresses.iter().map(IpNet::addr);
    if own().any(|address| address == peer.address) {
        return Err(("address", Problem::Invalid(format!("{} is an own address", peer.address))));
    }
    let local_address = match peer.local_address {
        Some(address) if !own().any(|own| own == address) => {
            let problem = format!("{address} is not in transport.addresses");
            return Err(("local-address", Problem::Invalid(problem)));
        }
        Some(address) if address.is_ipv4() != peer.address.is_ipv4() => {
            let problem = format!("{address} is of another family than {}", peer.address);
            return Err(("local-address", Problem::Invalid(problem)));
        }
        Some(address) => address,
        None => {
            let mut family =
                transport.addresses.iter().filter(|net| net.addr().is_ipv4() == peer.address.is_ipv4());
            let near = family.clone().find(|net| net.contains(&peer.address));
            let problem = || Problem::Invalid(format!("no own address of the family of {}", peer.address));
            near.or(family.next()).ok_or_else(|| ("address", problem()))?.addr()
        }
    };
    let (own_ipv4, own_ipv6) = match local_address {
        IpAddr::V4(address) => (Some(address), None),
        IpAddr::V6(address) => (None, Some(address)),
    };
    let export = Export {
        local_as: router.asn,
        peer_as: peer.asn,
        next_hop_ipv4: peer.next_hop_ipv4.or(own_ipv4),
        next_hop_ipv6: peer.next_hop_ipv6.or(own_ipv6),
    };
    Ok((local_address, SessionConfig { export, router_id: router.id, hold_time: peer.hold_time }))
}
