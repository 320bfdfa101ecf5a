//! Runs the program `wireseal` on a recording, and reads its report.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use serde_json::Value;
use wireseal_keys::{Key, KeyChain, KeyChains};
use wireseal_tcp_ao::Mkt;

use crate::lab::Lab;
use crate::wire::Recording;

/// The verdicts on the segments of a recording.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    pub verified: u64,
    /// These by the KeyID that they named.
    pub by_key: BTreeMap<u8, u64>,
    /// The highest SNE that an end has reached.
    pub highest_sne: u32,
    /// Segments without a TCP-AO option.
    pub unsigned: u64,
    /// All others.
    pub failed: u64,
    /// The program's words about the recording.
    pub answer: String,
}

impl Verdicts {
    /// Fails unless there are segments, all signed, all verified.
    pub fn check_all_verified(&self) -> Result<()> {
        self.check(0)?;
        ensure!(self.verified > 0, "recording: {self}");
        Ok(())
    }

    /// Fails when a segment failed to verify, or when others than these are unsigned.
    pub fn check(&self, unsigned: u64) -> Result<()> {
        ensure!(
            self.failed == 0 && self.unsigned == unsigned,
            "recording: {self}, {unsigned} should be unsigned; wireseal: {}",
            self.answer
        );
        Ok(())
    }

    pub fn add(&mut self, other: Self) {
        self.verified += other.verified;
        for (key, segments) in other.by_key {
            *self.by_key.entry(key).or_default() += segments;
        }
        self.highest_sne = self.highest_sne.max(other.highest_sne);
        self.unsigned += other.unsigned;
        self.failed += other.failed;
        self.answer = other.answer;
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} verified, {} failed, {} unsigned", self.verified, self.failed, self.unsigned)
    }
}

/// Verifies a recording with the MKTs of one end; two may share ids, when one has replaced the other. Segments that the driver
/// forged are left out; lost ones are not.
pub fn verify(lab: &Lab, recording: &Recording, mkts: &[Mkt]) -> Result<Verdicts> {
    let file = |name: &str| lab.setting.state.join(name);
    let (capture, keys) = (file("judged.pcap"), file("judged.toml"));
    recording.write(&capture, false)?;
    fs::write(&keys, key_file(mkts)?)?;
    let mut command = Command::new(&lab.judge);
    let output = command.arg("verify").arg(&capture).arg("--keys").arg(&keys).arg("--json").output()?;
    ensure!(
        output.status.code().is_some_and(|code| code != 2),
        "wireseal: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    // docs/verify-json.md describes the report.
    let report: Value = serde_json::from_slice(&output.stdout)?;
    let totals = &report["totals"];
    let answer = totals["answer"].to_string();
    let is_whole = totals["unreadable"] == 0 && totals["fragments"] == 0 && totals["damage"].is_null();
    ensure!(is_whole, "wireseal: {totals}");
    let segments: BTreeMap<String, u64> = serde_json::from_value(totals["segments"].clone())?;
    let count = |verdict| segments.get(verdict).copied().unwrap_or_default();
    let (verified, unsigned) = (count("good"), count("no-option"));
    let failed = segments.values().sum::<u64>() - verified - unsigned;
    let mut verdicts = Verdicts { verified, unsigned, failed, answer, ..Verdicts::default() };
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for direction in
        array(&report["connections"]).iter().flat_map(|connection| array(&connection["directions"]))
    {
        let sne = direction["sne"].as_u64().unwrap_or_default();
        verdicts.highest_sne = verdicts.highest_sne.max(u32::try_from(sne)?);
        for used in array(&direction["key_uses"]).iter().filter(|used| !used["key"].is_null()) {
            let (key_id, segments) = (used["key_id"].as_u64(), used["segments"].as_u64());
            let (key_id, segments) = (key_id.unwrap_or_default(), segments.unwrap_or_default());
            *verdicts.by_key.entry(u8::try_from(key_id)?).or_default() += segments;
        }
    }
    Ok(verdicts)
}

/// A chain for each key, so that keys may share ids.
fn key_file(mkts: &[Mkt]) -> Result<String> {
    let chain =
        |(number, mkt): (u64, &Mkt)| KeyChain::new(number.to_string(), vec![Key::new(number, mkt.clone())]);
    let chains = (0..).zip(mkts).map(chain).collect::<Result<_, _>>()?;
    Ok(KeyChains::new(chains)?.to_toml().to_string())
}
