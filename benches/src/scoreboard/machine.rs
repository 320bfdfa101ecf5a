//! The machine and the libraries that were measured, and the processor class, which decides the goals.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use wireseal_kernels::chacha20::ChaCha20MaskKey;
use wireseal_kernels::cpu::InstructionSet;
use wireseal_kernels::gcm::GcmKey;
use wireseal_keys::Timestamp;
use wireseal_quic::Backend;

/// The crates to compare with; their versions come from the lock file.
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

/// The folder of all results: a folder for each processor, with a file for each day.
pub(crate) const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results");

const LOCK: &str = include_str!("../../../Cargo.lock");

/// The processor, its instructions, and the libraries.
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
            cpu: title(),
            processor: name(),
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

    /// The paths of AES-GCM and of ChaCha20's header masks on this processor.
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

/// Classes of processors with the same goals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// AES on four blocks at a time.
    Vaes512,
    /// AES on one block at a time: AES-NI, and no VAES.
    AesNi,
    /// All other processors.
    Other,
}

impl Class {
    /// The class of this machine.
    pub(crate) fn here() -> Self {
        if InstructionSet::Vaes512.is_available() {
            Self::Vaes512
        } else if InstructionSet::AesNi.is_available() && !InstructionSet::Vaes256.is_available() {
            Self::AesNi
        } else {
            Self::Other
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Vaes512 => "VAES-512",
            Self::AesNi => "AES-NI without VAES",
            Self::Other => "other",
        }
    }
}

/// The value in the first line of the form `name : value` or `name=value`.
fn field(file: &str, name: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| {
        let (found, value) = line.split_once(separator)?;
        (found.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    })?;
    Some(value)
}

fn cpuinfo(name: &str) -> Option<String> {
    field("/proc/cpuinfo", name, ':')
}

/// The system's name for the processor. Cloud machines often leave out the model: "AMD EPYC".
fn title() -> String {
    cpuinfo("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The name of the processor's design, such as `zen-4`; if it is not known, its maker and numbers, such as `intel-6-151`.
fn name() -> String {
    let number = |name| cpuinfo(name)?.parse().ok();
    if let (Some(vendor), Some(family), Some(model)) =
        (cpuinfo("vendor_id"), number("cpu family"), number("model"))
    {
        return x86_name(&vendor, family, model, number("stepping").unwrap_or(0));
    }
    std::env::consts::ARCH.to_owned()
}

fn x86_name(vendor: &str, family: u32, model: u32, stepping: u32) -> String {
    let maker = match vendor {
        "AuthenticAMD" => "amd",
        "GenuineIntel" => "intel",
        other => other,
    };
    let known = match (maker, family, model) {
        ("amd", 0x17, 0x00..=0x2f | 0x50..=0x5f) => "zen-1",
        ("amd", 0x17, 0x30..=0x4f | 0x60..=0x7f | 0x90..=0x91 | 0xa0..=0xaf) => "zen-2",
        ("amd", 0x19, 0x00..=0x0f | 0x20..=0x5f) => "zen-3",
        ("amd", 0x19, 0x10..=0x1f | 0x60..=0xaf) => "zen-4",
        ("amd", 0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => "zen-5",
        ("intel", 6, 63) => "haswell",
        ("intel", 6, 79) => "broadwell",
        ("intel", 6, 85) if stepping <= 4 => "skylake-sp",
        ("intel", 6, 85) if stepping <= 7 => "cascade-lake",
        ("intel", 6, 85) => "cooper-lake",
        ("intel", 6, 106) => "ice-lake-sp",
        ("intel", 6, 143) => "sapphire-rapids",
        ("intel", 6, 173) => "granite-rapids",
        ("intel", 6, 207) => "emerald-rapids",
        _ => return format!("{}-{family}-{model}", maker.to_lowercase()),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_named_by_their_numbers() {
        for (vendor, numbers, name) in [
            ("AuthenticAMD", [25, 1, 1], "zen-3"),
            ("AuthenticAMD", [25, 17, 1], "zen-4"),
            ("GenuineIntel", [6, 85, 4], "skylake-sp"),
            ("GenuineIntel", [6, 85, 6], "cascade-lake"),
            ("GenuineIntel", [6, 85, 7], "cascade-lake"),
            ("GenuineIntel", [6, 143, 8], "sapphire-rapids"),
            ("GenuineIntel", [6, 151, 2], "intel-6-151"),
            ("HygonGenuine", [24, 0, 1], "hygongenuine-24-0"),
        ] {
            let [family, model, stepping] = numbers;
            assert_eq!(x86_name(vendor, family, model, stepping), name);
        }
    }
}
