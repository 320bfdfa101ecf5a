//! The configuration files of a host: its peers, and a key chain that rolls over.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::world::shell;

/// A key, with times in seconds since 1970 between which it is used.
#[derive(Clone, Debug)]
pub struct Key {
    pub id: u8,
    /// Until when it is used for sending, and until when it is accepted.
    pub until: Option<(u64, u64)>,
    pub sent_from: Option<u64>,
}

/// The contents of the files.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
    name: &'static str,
    peer: std::net::IpAddr,
    pub keys: Vec<Key>,
    pub has_peer: bool,
    /// Peers that never connect.
    pub others: usize,
}

pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

impl Files {
    pub fn new(folder: &Path, name: &'static str, peer: std::net::IpAddr, others: usize) -> Self {
        let keys = vec![Key { id: 1, until: None, sent_from: None }];
        Self { folder: folder.to_owned(), name, peer, keys, has_peer: true, others }
    }

    pub fn config(&self) -> PathBuf {
        self.folder.join(format!("{}.toml", self.name))
    }

    pub fn key_file(&self) -> PathBuf {
        self.folder.join(format!("{}-keys.toml", self.name))
    }

    /// Writes both files.
    pub fn write(&self) -> Result<()> {
        let mut peers = format!("key-chains = \"{}\"\n[peers]\n", self.key_file().display());
        if self.has_peer {
            writeln!(peers, "\"{}\" = \"core\"", self.peer)?;
        }
        for number in 0..self.others {
            writeln!(peers, "\"198.18.{}.{}\" = \"core\"", number / 250, number % 250 + 1)?;
        }
        let mut keys = "[[key-chain]]\nname = \"core\"\n".to_owned();
        for key in &self.keys {
            let algorithm = if key.id % 2 == 0 { "hmac(sha1)" } else { "AES-128-CMAC-96" };
            writeln!(
                keys,
                "[[key-chain.key]]\nsend-id = {0}\nalgorithm = \"{algorithm}\"\nsecret = \"secret {0} of both ends\"",
                key.id
            )?;
            let (sent, accepted) = key.until.unzip();
            let fields = [("from", key.sent_from), ("until", sent)];
            let fields = fields.iter().filter_map(|(name, time)| time.map(|time| (name, time)));
            let fields = fields
                .map(|(name, time)| Ok(format!("{name} = {}", date(time)?)))
                .collect::<Result<Vec<_>>>()?;
            if !fields.is_empty() {
                writeln!(keys, "send = {{ {} }}", fields.join(", "))?;
            }
            if let Some(until) = accepted {
                writeln!(keys, "accept = {{ until = {} }}", date(until)?)?;
            }
        }
        for (path, text) in [(self.config(), peers), (self.key_file(), keys)] {
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        }
        Ok(())
    }
}

/// As RFC 3339 writes it.
fn date(seconds: u64) -> Result<String> {
    Ok(shell(&format!("date -u -d @{seconds} +%Y-%m-%dT%H:%M:%SZ"))?.trim().to_owned())
}
