//! The machine and the libraries that were measured.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::gcm::GcmKey;
use wireseal_quic::Backend;
use wireseal_tcp_ao::key_chain::Timestamp;

use crate::processor::{self, Class, field};

/// The crates that Wireseal is compared with; their versions come from the lock file.
const PEERS: [&str; 12] = [
    "ring",
    "aes",
    "aes-gcm",
    "chacha20",
    "chacha20poly1305",
    "cmac",
    "hmac",
    "poly1305",
    "sha1",
    "sha2",
    "rustls",
    "quinn",
];

/// The folder of all results: one in it for each processor, and a file for each day.
pub(crate) const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");

const LOCK: &str = include_str!("../../Cargo.lock");

/// The processor, what it can do, and the libraries.
pub(crate) struct Machine {
    cpu: String,
    processor: String,
    class: Class,
    paths: Vec<InstructionSet>,
    cores: usize,
    system: String,
    date: String,
    peers: Vec<String>,
}

fn version(name: &str) -> Option<String> {
    let (_, from) = LOCK.split_once(&format!("name = \"{name}\"\nversion = \""))?;
    let (version, _) = from.split_once('"')?;
    Some(format!("{name} {version}"))
}

impl Machine {
    pub(crate) fn look() -> Self {
        let system = field("/etc/os-release", "PRETTY_NAME", '=');
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut peers: Vec<String> = PEERS.iter().filter_map(|name| version(name)).collect();
        if cfg!(feature = "peers") {
            peers.extend(["aws-lc-rs", "boring"].into_iter().filter_map(version));
        }
        #[cfg(feature = "peers")]
        {
            peers.push(format!("nettle {}", wireseal_bench_peers::Nettle::version()));
            let openssl = wireseal_bench_peers::OpenSsl::version();
            peers.push(openssl.map_or("no OpenSSL 3 on this machine".to_owned(), str::to_owned));
        }
        Self {
            cpu: processor::title(),
            processor: processor::name(),
            class: Class::here(),
            paths: InstructionSet::ALL.into_iter().filter(|path| path.is_available()).collect(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            system: format!("{}, {} {}", system.unwrap_or_default(), std::env::consts::OS, kernel.trim()),
            date: Timestamp::now().to_string()[..10].to_owned(),
            peers,
        }
    }

    fn path_names(&self) -> String {
        self.paths.iter().map(|path| path.name()).collect::<Vec<_>>().join(", ")
    }

    /// The paths that AES-GCM and ChaCha20's header masks take on this processor.
    fn picked() -> [String; 2] {
        let name = |path: Option<InstructionSet>| path.map_or("none", InstructionSet::name).to_owned();
        [name(GcmKey::new(&[0; 16]).map(|key| key.path())), name(ChaCha20MaskKey::new(&[0; 32]).path())]
    }

    /// The heading above all tables.
    pub(crate) fn heading(&self) -> String {
        let [gcm, masks] = Self::picked();
        format!(
            "# {} ({}), {} cores, {}, {}\n\nThe processor's paths: {}. Goals of the class: {}. Path of AES-GCM: {gcm}; of ChaCha20's masks: {masks}. Backend of \
             wireseal-quic: {}.\n\nBeside {}.\n",
            self.cpu,
            self.processor,
            self.cores,
            self.system,
            self.date,
            self.path_names(),
            self.class.name(),
            Backend::active().name(),
            self.peers.join(", "),
        )
    }

    pub(crate) fn json(&self) -> Value {
        let [gcm, masks] = Self::picked();
        json!({
            "cpu": self.cpu,
            "processor": self.processor,
            "class": self.class.name(),
            "cores": self.cores,
            "system": self.system,
            "date": self.date,
            "paths": self.paths.iter().map(|path| path.name()).collect::<Vec<_>>(),
            "path of AES-GCM": gcm,
            "path of ChaCha20 masks": masks,
            "backend": Backend::active().name(),
            "peers": self.peers,
        })
    }

    /// The file for the results of this processor and day.
    pub(crate) fn results(&self) -> PathBuf {
        PathBuf::from(RESULTS).join(&self.processor).join(format!("{}.md", self.date))
    }
}
