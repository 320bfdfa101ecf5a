//! quiche's qlog, in memory: the only place where quiche reports its suite and its key updates.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use peer_program::{Failure, Seen};
use serde_json::Value;

/// Starts each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// What the log reports about the connection, except `retry`, which it does not have.
    pub(crate) fn seen(&self, retry: bool) -> Result<Seen, Failure> {
        let mut seen = Seen { retry, ..Seen::default() };
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in log.split(|&octet| octet == RECORD_SEPARATOR).filter(|record| !record.is_empty()) {
            let record: Value = serde_json::from_slice(record)?;
            let data = &record["data"];
            if let Some(cipher) = data["tls_cipher"].as_str() {
                seen.suite = suite(cipher).into();
            }
            // There is one event for each direction.
            if data["key_type"] == "server_1rtt_secret" {
                match data["trigger"].as_str() {
                    Some("remote_update") => seen.updates_remote += 1,
                    Some("local_update") => seen.updates_local += 1,
                    _ => {}
                }
            }
        }
        Ok(seen)
    }
}

fn suite(cipher: &str) -> &str {
    match cipher {
        "AES128_GCM" => "TLS_AES_128_GCM_SHA256",
        "AES256_GCM" => "TLS_AES_256_GCM_SHA384",
        "ChaCha20_Poly1305" => "TLS_CHACHA20_POLY1305_SHA256",
        other => other,
    }
}
