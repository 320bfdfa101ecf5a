//! The configuration file: all of it is checked before anything is started.

mod files;

use std::collections::HashSet;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use ipnet::IpNet;
use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use serde::Deserialize;
use wireseal_tcp_ao::key_chain::{KeyChain, KeyChains};
use wireseal_tcp_ao::{MKTS_PER_PEER, MasterKey};

use crate::quic::{Fingerprint, Tls, provider, suite_name};
use crate::routes;
use speaker::bgp::rib::{Family, Route};
use speaker::bgp::session::SessionConfig;
use speaker::bgp::update::Export;
use speaker::link::DEFAULT_IP_MTU;
use speaker::{bgp, protection};

/// Addresses that the stack can hold.
const MAX_ADDRESSES: usize = 8;
/// Octets of an IP packet: from what every IPv6 link must carry (RFC 8200 §5) to jumbo frames.
const MTUS: std::ops::RangeInclusive<u16> = 1280..=9000;

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ConfigFile {
    router: Router,
    transport: Transport,
    quic: Option<Quic>,
    peer: Vec<Peer>,
    key_chains: Option<PathBuf>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Router {
    r#as: u32,
    id: Ipv4Addr,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Quic {
    certificate: PathBuf,
    key: PathBuf,
    suites: Option<Vec<String>>,
}

/// The link, and this router's place on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Transport {
    pub(crate) kind: TransportKind,
    pub(crate) addresses: Vec<IpNet>,
    #[serde(default)]
    pub(crate) gateways: Vec<IpAddr>,
    /// Octets of the largest IP packet.
    #[serde(default = "default_mtu")]
    pub(crate) mtu: u16,
    /// Name of the tun or tap device.
    pub(crate) device: Option<String>,
    /// This end's socket and the peer's, with unix.
    pub(crate) local_path: Option<PathBuf>,
    pub(crate) peer_path: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Peer {
    name: String,
    address: IpAddr,
    local_address: Option<IpAddr>,
    r#as: u32,
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

const fn default_mtu() -> u16 {
    DEFAULT_IP_MTU as u16
}

const fn default_port() -> u16 {
    bgp::PORT
}

/// RFC 4271 §10 suggests it.
const fn default_hold_time() -> u16 {
    90
}

/// A neighbour, checked.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) local_address: IpAddr,
    /// Its port, or this router's when the peer opens the connection.
    pub(crate) port: u16,
    /// Whether the peer opens the connection.
    pub(crate) passive: bool,
    pub(crate) session: SessionConfig,
    pub(crate) key_chain: Option<Arc<KeyChain>>,
    /// The secret of TCP-MD5: on kernel sockets only, and never beside a key chain.
    pub(crate) md5_secret: Option<Arc<MasterKey>>,
    /// The certificate that it must show: always there with QUIC, and never otherwise.
    pub(crate) certificate: Option<Fingerprint>,
    pub(crate) routes: Arc<[Route]>,
}

impl Neighbour {
    /// Where to connect to.
    pub(crate) fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// Whether neither TCP-AO nor TCP-MD5 nor QUIC protects the sessions with it.
    pub(crate) fn is_unprotected(&self) -> bool {
        self.key_chain.is_none() && self.md5_secret.is_none() && self.certificate.is_none()
    }

    /// Where to be called.
    pub(crate) fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local_address, self.port)
    }
}

/// A configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) transport: Transport,
    /// This router's side of TLS handshakes: there with QUIC only.
    pub(crate) tls: Option<Tls>,
    pub(crate) neighbours: Vec<Neighbour>,
}

/// A file that the configuration names, and what is wrong with it.
fn named<T>(file: &Path, read: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    read(file).with_context(|| file.display().to_string())
}

/// Puts the table in front of the field that an error begins with.
fn in_table<T>(table: impl Display, checked: Result<T>) -> Result<T> {
    checked.map_err(|error| anyhow!("{table}.{error:#}"))
}

impl Config {
    /// Reads a configuration and all files that it names; paths in it are relative to it. `kind` replaces the file's
    /// transport.
    ///
    /// # Errors
    /// The first mistake, with file and field.
    pub fn load(path: &Path, kind: Option<TransportKind>) -> Result<Self> {
        let mut file: ConfigFile = named(path, files::toml)?;
        file.transport.kind = kind.unwrap_or(file.transport.kind);
        let directory = path.parent().unwrap_or(Path::new(""));
        let chains = match file.key_chains.as_ref().map(|keys| directory.join(keys)) {
            Some(keys) => {
                let text = named(path, |_| named(&keys, files::secret).context("key-chains"))?;
                named(&keys, |_| Ok(KeyChains::from_toml(&text)?))?
            }
            None => KeyChains::default(),
        };
        named(path, |_| Self::check(file, &chains, directory))
    }

    /// How many neighbours there are.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.neighbours.len()
    }

    fn check(file: ConfigFile, chains: &KeyChains, directory: &Path) -> Result<Self> {
        let ConfigFile { router, mut transport, quic, peer: peers, .. } = file;
        ensure!(router.r#as != 0, "router.as: 0 is reserved");
        ensure!(!router.id.is_unspecified(), "router.id: 0.0.0.0 is no identifier");
        in_table("transport", transport.check(directory))?;
        let tls = match transport.kind {
            TransportKind::Quic => Some(in_table("quic", quic.context("quic: missing")?.load(directory))?),
            _ => None,
        };
        ensure!(!peers.is_empty(), "peer: missing");
        let mut taken = HashSet::new();
        let mut neighbours = Vec::with_capacity(peers.len());
        for (index, peer) in peers.iter().enumerate() {
            let table = format!("peer[{index}]");
            for (field, value) in [("name", peer.name.clone()), ("address", peer.address.to_string())] {
                ensure!(taken.insert((field, value.clone())), "{table}.{field}: `{value}` is used twice");
            }
            neighbours.push(in_table(table, peer.check(&router, &transport, chains, directory))?);
        }
        Ok(Self { transport, tls, neighbours })
    }
}

impl Quic {
    fn load(self, directory: &Path) -> Result<Tls> {
        let provider = provider();
        let suites = self.suites.map(|names| suites(&provider, &names)).transpose().context("suites")?;
        let certificate = named(&directory.join(&self.certificate), files::certificate);
        let certificate = certificate.context("certificate")?;
        let with_key = |file: &Path| Tls::new(provider, suites, certificate, files::private_key(file)?);
        named(&directory.join(&self.key), with_key).context("key")
    }
}

fn suites(provider: &CryptoProvider, names: &[String]) -> Result<Vec<SupportedCipherSuite>> {
    ensure!(!names.is_empty(), "missing");
    let all = &provider.cipher_suites;
    let known = |name: &String| {
        let suite = all.iter().find(|suite| suite_name(suite.suite()) == *name).copied();
        suite.with_context(|| {
            let known: Vec<String> = all.iter().map(|suite| suite_name(suite.suite())).collect();
            format!("`{name}` is not one of {}", known.join(", "))
        })
    };
    names.iter().map(known).collect()
}

impl Transport {
    fn check(&mut self, directory: &Path) -> Result<()> {
        let addresses = self.addresses.len();
        ensure!(addresses > 0, "addresses: missing");
        ensure!(addresses <= MAX_ADDRESSES, "addresses: {addresses} of at most {MAX_ADDRESSES}");
        let ipv4 = self.gateways.iter().filter(|gateway| gateway.is_ipv4()).count();
        ensure!(ipv4 < 2 && self.gateways.len() - ipv4 < 2, "gateways: more than one of a family");
        let (least, most) = (MTUS.start(), MTUS.end());
        ensure!(MTUS.contains(&self.mtu), "mtu: {} octets, {least} to {most} are possible", self.mtu);
        match self.kind {
            TransportKind::Memory | TransportKind::Quic | TransportKind::Kernel => {}
            TransportKind::Tun | TransportKind::Tap => {
                let device = self.device.as_deref().context("device: missing")?;
                // IFNAMSIZ of Linux is 16 octets with the final zero.
                let fits = (1..16).contains(&device.len()) && !device.contains('/');
                ensure!(fits, "device: `{device}` is no device name");
            }
            TransportKind::Unix => {
                let paths = [("local-path", &mut self.local_path), ("peer-path", &mut self.peer_path)];
                for (field, path) in paths {
                    let path = path.as_mut().with_context(|| format!("{field}: missing"))?;
                    *path = directory.join(&*path);
                }
            }
        }
        Ok(())
    }

    /// The address to use towards a peer.
    fn local_address(&self, peer: &Peer) -> Result<IpAddr> {
        let is_own = |address| self.addresses.iter().any(|own| own.addr() == address);
        let remote = peer.address;
        ensure!(!is_own(remote), "address: {remote} is an own address");
        if let Some(address) = peer.local_address {
            ensure!(is_own(address), "local-address: {address} is not in transport.addresses");
            let is_like = address.is_ipv4() == remote.is_ipv4();
            ensure!(is_like, "local-address: {address} is of another family than {remote}");
            return Ok(address);
        }
        let mut family = self.addresses.iter().filter(|net| net.addr().is_ipv4() == remote.is_ipv4());
        let near = family.clone().find(|net| net.contains(&remote)).or(family.next());
        Ok(near.with_context(|| format!("address: no own address of the family of {remote}"))?.addr())
    }
}

impl Peer {
    fn check(
        &self,
        router: &Router,
        transport: &Transport,
        chains: &KeyChains,
        directory: &Path,
    ) -> Result<Neighbour> {
        ensure!(self.r#as != 0, "as: 0 is reserved");
        ensure!(!matches!(self.hold_time, 1 | 2), "hold-time: 0 or at least 3 seconds (RFC 4271 §4.2)");
        ensure!(self.port != 0, "port: 0 is reserved");
        let key_chain = self.key_chain.as_ref().map(|name| key_chain(chains, name, transport.kind));
        let key_chain = key_chain.transpose().context("key-chain")?;
        let md5_secret = self.md5_secret(transport.kind, directory).context("md5-secret-file")?;
        let certificate = self.pinned(transport.kind, directory)?;
        let routes = match &self.routes {
            Some(file) => named(&directory.join(file), routes::load).context("routes")?,
            None => Arc::default(),
        };
        let local_address = transport.local_address(self)?;
        let own = |is_ipv4| Some(local_address).filter(|address| address.is_ipv4() == is_ipv4);
        let next_hops = [
            self.next_hop_ipv4.map(IpAddr::V4).or(own(true)),
            self.next_hop_ipv6.map(IpAddr::V6).or(own(false)),
        ];
        // Routes without a next hop of their own need one of their family, or they would be left out without a word.
        for (family, name) in [(Family::Ipv4, "IPv4"), (Family::Ipv6, "IPv6")] {
            let of_family = routes.iter().filter(|route| Family::of(route.prefix) == family);
            let lacks_one = of_family.into_iter().any(|route| route.attributes.next_hop.is_none());
            let has_one = next_hops[family as usize].is_some() || !lacks_one;
            ensure!(has_one, "next-hop-{}: the peer's {name} routes have no next hop", name.to_lowercase());
        }
        let export = Export { local_as: router.r#as, peer_as: self.r#as, next_hops };
        Ok(Neighbour {
            name: self.name.clone(),
            address: self.address,
            local_address,
            port: self.port,
            passive: self.passive,
            session: SessionConfig { export, router_id: router.id, hold_time: self.hold_time },
            key_chain,
            md5_secret,
            certificate,
            routes,
        })
    }

    fn md5_secret(&self, kind: TransportKind, directory: &Path) -> Result<Option<Arc<MasterKey>>> {
        let Some(file) = &self.md5_secret_file else { return Ok(None) };
        let is_kernel = kind == TransportKind::Kernel;
        ensure!(is_kernel, "TCP-MD5 is the kernel's, so it takes the kernel transport");
        ensure!(
            self.key_chain.is_none(),
            "there is `key-chain` already, and a connection has one of the two"
        );
        let secret = |file: &Path| {
            let secret = files::secret(file)?;
            Ok(MasterKey::new(secret.strip_suffix('\n').unwrap_or(&secret).as_bytes())?)
        };
        named(&directory.join(file), secret).map(Arc::new).map(Some)
    }

    /// The certificate that the peer must show.
    fn pinned(&self, kind: TransportKind, directory: &Path) -> Result<Option<Fingerprint>> {
        let Self { certificate, certificate_sha256, key_chain, .. } = self;
        if kind != TransportKind::Quic {
            let is_unused = certificate.is_none() && certificate_sha256.is_none();
            ensure!(
                is_unused || key_chain.is_some() || self.md5_secret_file.is_some(),
                "certificate: protects nothing but the quic transport, and there is no key-chain"
            );
            return Ok(None);
        }
        let has_chain = key_chain.is_some();
        ensure!(!has_chain, "key-chain: TCP-AO has no part in QUIC, the certificates authenticate both ends");
        let pinned = match (certificate, certificate_sha256) {
            (None, None) => bail!("certificate: missing"),
            (Some(_), Some(_)) => bail!("certificate-sha256: there is `certificate` already"),
            (Some(file), None) => {
                let certificate = named(&directory.join(file), files::certificate);
                Fingerprint::of(&certificate.context("certificate")?)
            }
            (None, Some(text)) => text.parse().context("certificate-sha256")?,
        };
        Ok(Some(pinned))
    }
}

fn key_chain(chains: &KeyChains, name: &str, kind: TransportKind) -> Result<Arc<KeyChain>> {
    let chain = chains.get(name).with_context(|| format!("`{name}` is not defined"))?;
    let is_expired = chain.is_expired(protection::now());
    ensure!(!is_expired, "key chain `{name}` has expired, nothing could be sent under it");
    for key in chain.keys().iter().filter(|_| kind == TransportKind::Kernel) {
        let (id, algorithm) = (key.key_id(), key.mkt().parameters().algorithm);
        let is_in_linux = algorithm.linux_name().is_some();
        ensure!(is_in_linux, "key chain \"{name}\", key {id}, algorithm: Linux has no {algorithm}");
    }
    chain.check_room(MKTS_PER_PEER)?;
    Ok(Arc::new(chain.clone()))
}
