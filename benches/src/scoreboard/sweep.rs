//! Wireseal against the best peer at every length from 1 to 1500 octets, on this processor and as on less capable ones.
//!
//! A child process runs as on a less capable processor: a switch turns off Wireseal's paths, and an environment variable those of the
//! peers, because AWS-LC reads it before `main`.

use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};
use wireseal_benches::{Contender, quic};
use wireseal_kernels::cpu::{InstructionSet, switch};
use wireseal_quic::AeadAlgorithm::{self, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};

use crate::table::{Cell, Table};
use crate::timing::{Effort, alternate};

const ALGORITHMS: [AeadAlgorithm; 3] = [Aes128Gcm, Aes256Gcm, ChaCha20Poly1305];
const LENGTHS: std::ops::RangeInclusive<usize> = 1..=1500;
/// How much slower still counts as "never slower", to allow for noise.
const NOISE: f64 = 0.005;

/// The libraries that Wireseal is compared with: the fastest at each length.
const PEERS: &[&str] = if cfg!(feature = "peers") { &["ring", "aws-lc-rs", "boringssl"] } else { &["ring"] };
/// The peers that can be told which instructions not to use.
const OBEDIENT: &[&str] = &["aws-lc-rs", "boringssl"];

/// The environment variable that tells BoringSSL and AWS-LC which instructions not to use: bits of CPUID's leaf 1, then of leaf 7's EBX
/// and, 32 bits higher, its ECX.
const CAPABILITIES: &str = "OPENSSL_ia32cap";
const AVX512: u64 = 0xdc23_0000 | 0x5842 << 32;
const VAES: u64 = 0x600 << 32;

/// The processor to run as.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum As {
    /// The real processor.
    Itself,
    /// VAES with 256-bit vectors, without AVX-512.
    Vaes256,
    /// AES-NI, without VAES and AVX-512.
    AesNi,
}

impl As {
    fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn title(self) -> &'static str {
        match self {
            Self::Itself => "all",
            Self::Vaes256 => "VAES-256 only",
            Self::AesNi => "AES-NI only",
        }
    }

    /// Whether the real processor has more instructions than this one.
    fn is_less(self) -> bool {
        match self {
            Self::Itself => true,
            Self::Vaes256 => InstructionSet::Vaes512.is_available(),
            Self::AesNi => InstructionSet::Vaes256.is_available(),
        }
    }

    /// The instructions that BoringSSL and AWS-LC must not use.
    fn capabilities(self) -> Option<String> {
        let left_out = match self {
            Self::Itself => return None,
            Self::Vaes256 => AVX512,
            Self::AesNi => AVX512 | VAES,
        };
        Some(format!("~0x0:~{left_out:#x}"))
    }

    /// Turns off Wireseal's other paths.
    fn switch(self) {
        use InstructionSet::{AesNi, AesNiAvx, Avx2, Bmi2, ShaNi, ShaNiAvx, Vaes256};
        match self {
            Self::Itself => {}
            Self::Vaes256 => switch::only(&[AesNi, AesNiAvx, Vaes256, ShaNi, ShaNiAvx, Avx2, Bmi2]),
            Self::AesNi => switch::only(&[AesNi, AesNiAvx, ShaNi, ShaNiAvx, Avx2, Bmi2]),
        }
    }
}

/// Wireseal's time divided by the best peer's, for one packet, and that peer.
fn ratio(effort: Effort, peers: &[&str], mut contenders: Vec<Contender>) -> (f64, &'static str) {
    contenders.retain(|contender| contender.name == "wireseal" || peers.contains(&contender.name));
    let times = alternate(effort, &mut contenders);
    let best = (1..times.len()).min_by(|a, b| times[*a].total_cmp(&times[*b])).expect("at least one peer");
    (times[0] / times[best], contenders[best].name)
}

/// The worst and the median ratio of sealing or opening with one algorithm.
fn row(effort: Effort, peers: &[&str], algorithm: AeadAlgorithm, is_sealing: bool) -> Value {
    let contenders = |payload| {
        if is_sealing { quic::seal(algorithm, payload) } else { quic::open(algorithm, payload) }
    };
    let (at_each, at_worst) = match effort {
        Effort::Once => (Effort::Once, Effort::Once),
        Effort::For(time) => (Effort::For(Duration::from_micros(600)), Effort::For(time / 10)),
    };
    let mut measured: Vec<(usize, (f64, &str))> =
        LENGTHS.map(|payload| (payload, ratio(at_each, peers, contenders(payload)))).collect();
    let worst_first = |(_, (a, _)): &(_, (f64, _)), (_, (b, _)): &(_, (f64, _))| b.total_cmp(a);
    measured.sort_by(worst_first);
    let (_, (median, _)) = measured[measured.len() / 2];
    // The worst of 1500 is mostly noise, so the 40 worst are measured again for longer, and these measurements count.
    for (payload, worst) in measured.iter_mut().take(40) {
        *worst = ratio(at_worst, peers, contenders(*payload));
    }
    measured.sort_by(worst_first);
    let (at, (worst, best)) = measured[0];
    let slower = measured.iter().filter(|(_, (ratio, _))| *ratio > 1.0 + NOISE).count();
    json!({
        "algorithm": algorithm.to_string(),
        "verb": if is_sealing { "seal" } else { "open" },
        "worst": worst,
        "at": at,
        "best": best,
        "median": median,
        "slower": slower,
    })
}

/// The child process: prints its rows for the parent.
pub(crate) fn child(as_if: As, effort: Effort) {
    as_if.switch();
    let peers = if as_if == As::Itself { PEERS } else { OBEDIENT };
    let rows: Vec<Value> = ALGORITHMS
        .into_iter()
        .flat_map(|algorithm| [true, false].map(|is_sealing| row(effort, peers, algorithm, is_sealing)))
        .collect();
    println!("{}", Value::from(rows));
}

/// Runs this program again as on that processor.
fn run(as_if: As, effort: Effort) -> Result<Vec<Value>, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut command = Command::new(program);
    command.args(["--sweep-as", &as_if.word()]);
    command.envs(as_if.capabilities().map(|capabilities| (CAPABILITIES, capabilities)));
    if effort.is_once() {
        command.arg("--quick");
    }
    let output = command.output().map_err(|error| format!("cannot run this program again: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("as {}: {}: {said}", as_if.title(), output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("as {}: {error}", as_if.title()))
}

pub(crate) fn table(effort: Effort) -> Result<Table, String> {
    let columns = [
        "paths",
        "packets",
        "worst ratio",
        "at octets",
        "best peer",
        "median ratio",
        "lengths slower",
        "goal",
        "mark",
    ];
    let title = format!(
        "Wireseal's time divided by that of the fastest of {} at each length from 1 to 1500 octets, header mask included",
        PEERS.join(", ")
    );
    let mut table = Table::new("sweep", title, columns);
    let processors = As::value_variants().iter().filter(|as_if| as_if.is_less());
    // ring cannot be restricted, so it would use all of the processor's instructions.
    for as_if in processors.filter(|as_if| **as_if == As::Itself || cfg!(feature = "peers")) {
        for row in run(*as_if, effort)? {
            let number = |field: &str| row[field].as_f64().unwrap_or(f64::NAN);
            let text = |field: &str| row[field].as_str().unwrap_or_default();
            table.rows.push(vec![
                Cell::text(as_if.title()),
                Cell::text(format!("{} {}", text("algorithm"), text("verb"))),
                Cell::ratio(number("worst")),
                Cell::Count(number("at") as u64),
                Cell::text(text("best")),
                Cell::ratio(number("median")),
                Cell::Count(number("slower") as u64),
                Cell::ratio(1.0),
                effort.mark(number("worst") <= 1.0 + NOISE),
            ]);
        }
    }
    let missed = table.rows.iter().filter(|row| matches!(row.last(), Some(Cell::Held(false)))).count();
    table.reading = format!(
        "Never slower than the best peer, which is named at the worst length: {missed} of {} rows miss it at some length. With the feature \
         `peers` there are rows for processors with less than this one. ring is left out of those, for it would use all that the processor \
         has; BoringSSL, which ring's assembly comes from, and AWS-LC do as they are told.",
        table.rows.len()
    );
    Ok(table)
}
