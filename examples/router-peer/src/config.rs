//! The configuration file and the files that it names: everything is checked before anything is started.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use ipnet::IpNet;
use rustls::SupportedCipherSuite;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use speaker::link::DEFAULT_IP_MTU;
use speaker::message::Export;
use speaker::routes::{self, Family, Route};
use speaker::session::{self, SessionConfig};
use wireseal_keys::{KeyChain, KeyChains, Timestamp};
use wireseal_tcp_ao::{MKTS_PER_PEER, MasterKey};
use zeroize::Zeroizing;

use crate::tls::{Fingerprint, Tls, provider, suite_name};

/// Addresses that the stack can hold.
const MAX_ADDRESSES: usize = 8;
/// Octets of an IP packet: from the minimum MTU of IPv6 (RFC 8200 §5) to jumbo frames.
const MTUS: std::ops::RangeInclusive<u16> = 1280..=9000;
/// Seconds, as RFC 4271 §10 suggests.
const HOLD_TIME: u16 = 90;

/// What carries the sessions: frames under this process's own TCP, or sockets of the system.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// A wire in memory; this process plays all peers.
    Memory,
    /// IP packets over a Linux tun device.
    Tun,
    /// QUIC over UDP sockets of the system.
    Quic,
    /// TCP sockets of the system (Linux).
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

/// The link and this router's addresses on it.
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
    /// Name of the tun device.
    pub(crate) device: Option<String>,
}

const fn default_mtu() -> u16 {
    DEFAULT_IP_MTU as u16
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
    port: Option<u16>,
    hold_time: Option<u16>,
    next_hop_ipv4: Option<Ipv4Addr>,
    next_hop_ipv6: Option<Ipv6Addr>,
    key_chain: Option<String>,
    md5_secret_file: Option<PathBuf>,
    certificate: Option<PathBuf>,
    certificate_sha256: Option<String>,
    routes: Option<PathBuf>,
}

/// A checked neighbour.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) local_address: IpAddr,
    /// The TCP or UDP port of whichever end is called.
    pub(crate) port: u16,
    /// Whether the peer opens the connection.
    pub(crate) passive: bool,
    pub(crate) session: SessionConfig,
    pub(crate) key_chain: Option<Arc<KeyChain>>,
    /// The TCP-MD5 secret: for kernel sockets only, and never together with a key chain.
    pub(crate) md5_secret: Option<Arc<MasterKey>>,
    /// The certificate that the peer must show: always set with QUIC, otherwise never.
    pub(crate) certificate: Option<Fingerprint>,
    pub(crate) routes: Arc<[Route]>,
}

impl Neighbour {
    /// The peer's address and the port to call.
    pub(crate) fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.port)
    }

    /// This router's address and the port to listen on.
    pub(crate) fn local(&self) -> SocketAddr {
        SocketAddr::new(self.local_address, self.port)
    }

    /// Whether neither TCP-AO nor TCP-MD5 nor QUIC protects its sessions.
    pub(crate) fn is_unprotected(&self) -> bool {
        self.key_chain.is_none() && self.md5_secret.is_none() && self.certificate.is_none()
    }
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) transport: Transport,
    /// Certificate, key and suites: set with QUIC only.
    pub(crate) tls: Option<Tls>,
    pub(crate) neighbours: Vec<Neighbour>,
}

/// Reads a file that the configuration names, and names it in an error.
fn named<T>(file: &Path, read: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    read(file).with_context(|| file.display().to_string())
}

/// Prefixes the field at the start of an error with the table's name.
fn in_table<T>(table: impl Display, checked: Result<T>) -> Result<T> {
    checked.map_err(|error| anyhow!("{table}.{error:#}"))
}

impl Config {
    /// Reads a configuration and all files that it names. Paths in it are relative to its directory. `kind` overrides the
    /// transport.
    ///
    /// # Errors
    /// The first mistake, with file and field.
    pub fn load(path: &Path, kind: Option<TransportKind>) -> Result<Self> {
        let mut file: ConfigFile = named(path, read_toml)?;
        file.transport.kind = kind.unwrap_or(file.transport.kind);
        let directory = path.parent().unwrap_or(Path::new(""));
        let chains = match file.key_chains.as_ref().map(|keys| directory.join(keys)) {
            Some(keys) => {
                let text = named(path, |_| named(&keys, read_secret).context("key-chains"))?;
                named(&keys, |_| Ok(KeyChains::from_toml(&text)?))?
            }
            None => KeyChains::default(),
        };
        named(path, |_| file.check(&chains, directory))
    }

    /// The number of neighbours.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.neighbours.len()
    }
}

impl ConfigFile {
    fn check(mut self, chains: &KeyChains, directory: &Path) -> Result<Config> {
        ensure!(self.router.r#as != 0, "router.as: 0 is reserved");
        ensure!(!self.router.id.is_unspecified(), "router.id: 0.0.0.0 is no identifier");
        in_table("transport", self.transport.check())?;
        let tls = match self.transport.kind {
            TransportKind::Quic => {
                let quic = self.quic.take().context("quic: missing")?;
                Some(in_table("quic", quic.load(directory))?)
            }
            _ => None,
        };
        ensure!(!self.peer.is_empty(), "peer: missing");
        let mut taken = HashSet::new();
        let mut neighbours = Vec::new();
        for (index, peer) in self.peer.iter().enumerate() {
            let table = format!("peer[{index}]");
            for (field, value) in [("name", peer.name.clone()), ("address", peer.address.to_string())] {
                ensure!(taken.insert((field, value.clone())), "{table}.{field}: `{value}` is used twice");
            }
            neighbours.push(in_table(table, peer.check(&self, chains, directory))?);
        }
        Ok(Config { transport: self.transport, tls, neighbours })
    }
}

impl Quic {
    fn load(self, directory: &Path) -> Result<Tls> {
        let provider = provider();
        let suites = self.suites.map(|names| suites(&provider, &names)).transpose().context("suites")?;
        let certificate = named(&directory.join(&self.certificate), read_certificate);
        let certificate = certificate.context("certificate")?;
        let with_key = |file: &Path| Tls::new(provider, suites, certificate, read_private_key(file)?);
        named(&directory.join(&self.key), with_key).context("key")
    }
}

fn suites(provider: &CryptoProvider, names: &[String]) -> Result<Vec<SupportedCipherSuite>> {
    ensure!(!names.is_empty(), "missing");
    let all = provider.cipher_suites.iter().map(|suite| (suite_name(suite.suite()), *suite));
    let all: BTreeMap<String, SupportedCipherSuite> = all.collect();
    let known = || all.keys().cloned().collect::<Vec<_>>().join(", ");
    let suite = |name| all.get(name).with_context(|| format!("`{name}` is not one of {}", known())).copied();
    names.iter().map(suite).collect()
}

impl Transport {
    /// Checks everything but what depends on a peer.
    fn check(&self) -> Result<()> {
        let addresses = self.addresses.len();
        ensure!(addresses > 0, "addresses: missing");
        ensure!(addresses <= MAX_ADDRESSES, "addresses: {addresses} of at most {MAX_ADDRESSES}");
        let ipv4 = self.gateways.iter().filter(|gateway| gateway.is_ipv4()).count();
        ensure!(ipv4 < 2 && self.gateways.len() - ipv4 < 2, "gateways: more than one of a family");
        let (least, most) = (MTUS.start(), MTUS.end());
        ensure!(MTUS.contains(&self.mtu), "mtu: {} octets, {least} to {most} are possible", self.mtu);
        if self.kind == TransportKind::Tun {
            let device = self.device.as_deref().context("device: missing")?;
            // Linux: IFNAMSIZ is 16, with the final zero.
            let fits = (1..16).contains(&device.len()) && !device.contains('/');
            ensure!(fits, "device: `{device}` is no device name");
        }
        Ok(())
    }

    /// This router's address for a peer.
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
    fn check(&self, file: &ConfigFile, chains: &KeyChains, directory: &Path) -> Result<Neighbour> {
        let ConfigFile { router, transport, .. } = file;
        let (port, hold_time) = (self.port.unwrap_or(session::PORT), self.hold_time.unwrap_or(HOLD_TIME));
        ensure!(self.r#as != 0, "as: 0 is reserved");
        ensure!(!matches!(hold_time, 1 | 2), "hold-time: 0 or at least 3 seconds (RFC 4271 §4.2)");
        ensure!(port != 0, "port: 0 is reserved");
        let key_chain = self.key_chain.as_ref().map(|name| key_chain(chains, name, transport.kind));
        let key_chain = key_chain.transpose().context("key-chain")?;
        let md5_secret = self.md5_secret(transport.kind, directory).context("md5-secret-file")?;
        let certificate = self.pinned(transport.kind, directory)?;
        let routes = match &self.routes {
            Some(file) => named(&directory.join(file), read_routes).context("routes")?,
            None => Arc::default(),
        };
        let local_address = transport.local_address(self)?;
        let own = |is_ipv4| Some(local_address).filter(|address| address.is_ipv4() == is_ipv4);
        let next_hops = [
            self.next_hop_ipv4.map(IpAddr::V4).or(own(true)),
            self.next_hop_ipv6.map(IpAddr::V6).or(own(false)),
        ];
        for (family, name) in [(Family::Ipv4, "IPv4"), (Family::Ipv6, "IPv6")] {
            // Routes without any next hop would silently be left out.
            let mut of_family = routes.iter().filter(|route| Family::of(route.prefix) == family);
            let are_complete = next_hops[family as usize].is_some()
                || of_family.all(|route| route.attributes.next_hop.is_some());
            let field = name.to_lowercase();
            ensure!(are_complete, "next-hop-{field}: the peer's {name} routes have no next hop");
        }
        let export = Export { local_as: router.r#as, peer_as: self.r#as, next_hops };
        Ok(Neighbour {
            name: self.name.clone(),
            address: self.address,
            local_address,
            port,
            passive: self.passive,
            session: SessionConfig { export, router_id: router.id, hold_time },
            key_chain,
            md5_secret,
            certificate,
            routes,
        })
    }

    fn md5_secret(&self, kind: TransportKind, directory: &Path) -> Result<Option<Arc<MasterKey>>> {
        let Some(file) = &self.md5_secret_file else { return Ok(None) };
        ensure!(kind == TransportKind::Kernel, "only the kernel transport has TCP-MD5");
        ensure!(self.key_chain.is_none(), "give either this or `key-chain`");
        let secret = |file: &Path| {
            let secret = read_secret(file)?;
            Ok(MasterKey::new(secret.strip_suffix('\n').unwrap_or(&secret).as_bytes())?)
        };
        named(&directory.join(file), secret).map(Arc::new).map(Some)
    }

    /// The certificate that the peer must show.
    fn pinned(&self, kind: TransportKind, directory: &Path) -> Result<Option<Fingerprint>> {
        let Self { certificate, certificate_sha256, key_chain, .. } = self;
        if kind != TransportKind::Quic {
            let is_unused = certificate.is_none() && certificate_sha256.is_none();
            let is_protected = key_chain.is_some() || self.md5_secret_file.is_some();
            ensure!(is_unused || is_protected, "certificate: for the quic transport; here, give a key-chain");
            return Ok(None);
        }
        ensure!(key_chain.is_none(), "key-chain: QUIC does not use TCP-AO, certificates protect it");
        let pinned = match (certificate, certificate_sha256) {
            (None, None) => bail!("certificate: missing"),
            (Some(_), Some(_)) => bail!("certificate-sha256: give either this or `certificate`"),
            (Some(file), None) => {
                let certificate = named(&directory.join(file), read_certificate);
                Fingerprint::of(&certificate.context("certificate")?)
            }
            (None, Some(text)) => text.parse().context("certificate-sha256")?,
        };
        Ok(Some(pinned))
    }
}

fn key_chain(chains: &KeyChains, name: &str, kind: TransportKind) -> Result<Arc<KeyChain>> {
    let chain = chains.get(name).with_context(|| format!("`{name}` is not defined"))?;
    ensure!(!chain.is_expired(Timestamp::now()), "key chain `{name}` has expired: nothing can be sent");
    for key in chain.keys().iter().filter(|_| kind == TransportKind::Kernel) {
        let (id, algorithm) = (key.key_id(), key.mkt().parameters().algorithm);
        let is_in_linux = algorithm.linux_name().is_some();
        ensure!(is_in_linux, "key chain \"{name}\", key {id}, algorithm: Linux has no {algorithm}");
    }
    chain.check_room(MKTS_PER_PEER)?;
    Ok(Arc::new(chain.clone()))
}

/// Reads TOML. An error names field and line, and quotes no value but the wrong one.
fn read_toml<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text = fs::read_to_string(file).context("cannot read")?;
    let described = |error: &toml::de::Error| {
        let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
        let line = line.map(|line| format!(" (line {line})")).unwrap_or_default();
        anyhow!("{}{line}", error.message())
    };
    let deserializer = toml::Deserializer::parse(&text).map_err(|error| described(&error))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let problem = described(error.inner());
        match error.path().to_string().as_str() {
            "." => problem,
            field => problem.context(field.to_owned()),
        }
    })
}

/// Reads a list of routes.
fn read_routes(file: &Path) -> Result<Arc<[Route]>> {
    routes::parse(&fs::read_to_string(file).context("cannot read")?)
}

/// Reads a secret file, which must not be accessible to others.
fn read_secret(file: &Path) -> Result<Zeroizing<String>> {
    let mut file = File::open(file).context("cannot read")?;
    let metadata = file.metadata().context("cannot read")?;
    if !metadata.is_file() {
        return Err(Error::from(io::Error::from(io::ErrorKind::InvalidInput)).context("cannot read"));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    ensure!(mode & 0o077 == 0, "mode {mode:04o} lets others read these secrets, chmod it to 0600");
    // Large enough from the start: growing would leave copies behind.
    let octets = usize::try_from(metadata.len()).unwrap_or_default();
    let mut text = Zeroizing::new(String::with_capacity(octets + 1));
    file.read_to_string(&mut text).context("cannot read")?;
    Ok(text)
}

/// Reads a private key, which must not be accessible to others.
fn read_private_key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    let pem = read_secret(file)?;
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| not_pem(&error, "private key"))
}

/// Reads a PEM file with exactly one certificate.
fn read_certificate(file: &Path) -> Result<CertificateDer<'static>> {
    let pem = fs::read(file).context("cannot read")?;
    let read_certificate =
        CertificateDer::from_pem_slice(&pem).map_err(|error| not_pem(&error, "certificate"))?;
    let count = CertificateDer::pem_slice_iter(&pem).count();
    ensure!(count == 1, "there is more than one certificate, and one alone is pinned");
    ParsedCertificate::try_from(&read_certificate).map_err(|_| anyhow!("not an X.509 certificate"))?;
    Ok(read_certificate)
}

/// Describes the error without quoting the file, which may hold a key.
fn not_pem(error: &pem::Error, wanted: &str) -> Error {
    match error {
        pem::Error::NoItemsFound => anyhow!("there is no {wanted} in PEM"),
        _ => anyhow!("the {wanted} is not proper PEM"),
    }
}
