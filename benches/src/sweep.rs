//! Wireseal against the best peer at every length from 1 to 1500 octets, on this processor and as less capable ones would run.
//!
//! A child process sees a less capable processor: CPUID, which ring and Wireseal read once, leaves the rest out. BoringSSL and
//! AWS-LC are told by an environment variable, because AWS-LC reads CPUID before `main`.

use std::cell::RefCell;
use std::hint::black_box;
use std::process::Command;
use std::time::Duration;

use crate::contenders::quic::{self, PacketContender};
use clap::ValueEnum;
use serde_json::{Value, json};
use wireseal_kernels::cpu::{InstructionSet, switch};
use wireseal_quic::AeadAlgorithm::{self, Aes128Gcm, Aes256Gcm, ChaCha20Poly1305};

use crate::table::{Cell, Table};
use crate::timing::{Effort, Timed, alternate};

const ALGORITHMS: [AeadAlgorithm; 3] = [Aes128Gcm, Aes256Gcm, ChaCha20Poly1305];
const LENGTHS: std::ops::RangeInclusive<usize> = 1..=1500;
/// How much slower still counts as "never slower", for noise.
const NOISE: f64 = 0.005;

/// The libraries that Wireseal is compared with: the fastest at each length.
const PEERS: &[&str] = if cfg!(feature = "peers") { &["ring", "aws-lc-rs", "boringssl"] } else { &["ring"] };
/// Those that run as told even where CPUID cannot be masked.
const OBEDIENT: &[&str] = if cfg!(feature = "peers") { &["aws-lc-rs", "boringssl"] } else { &["ring"] };

/// The variable by which BoringSSL and AWS-LC leave out what the processor has: bits of CPUID's leaf 1, then of EBX and, 32 bits
/// further up, ECX of leaf 7. `peers/src/cpuid.c` has the same bits.
const CAPABILITIES: &str = "OPENSSL_ia32cap";
const AVX512: u64 = 0xdc23_0000 | 0x5842 << 32;
const VAES: u64 = 0x600 << 32;

/// The processor to run as.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum As {
    /// The real one.
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

    /// Whether the processor has more than that.
    fn is_less(self) -> bool {
        match self {
            Self::Itself => true,
            Self::Vaes256 => InstructionSet::Vaes512.is_available(),
            Self::AesNi => InstructionSet::Vaes256.is_available(),
        }
    }

    /// What BoringSSL and AWS-LC have to leave out.
    fn capabilities(self) -> Option<String> {
        let left_out = match self {
            Self::Itself => return None,
            Self::Vaes256 => AVX512,
            Self::AesNi => AVX512 | VAES,
        };
        Some(format!("~0x0:~{left_out:#x}"))
    }

    /// Leaves the rest out, and says how: with "switch" only Wireseal's paths are off, and ring uses all that the processor has.
    ///
    /// Must be called before the libraries have looked at the processor.
    fn become_it(self) -> &'static str {
        let (is_masked, paths): (bool, &[InstructionSet]) = match self {
            Self::Itself => return "itself",
            Self::Vaes256 => (
                mask(true),
                &[
                    InstructionSet::AesNi,
                    InstructionSet::AesNiAvx,
                    InstructionSet::Vaes256,
                    InstructionSet::ShaNi,
                    InstructionSet::Avx2,
                    InstructionSet::Bmi2,
                ],
            ),
            Self::AesNi => (
                mask(false),
                &[
                    InstructionSet::AesNi,
                    InstructionSet::AesNiAvx,
                    InstructionSet::ShaNi,
                    InstructionSet::Avx2,
                    InstructionSet::Bmi2,
                ],
            ),
        };
        if is_masked {
            // The goals have asked already, for the names of the command line; what is left is found anew.
            switch::only(&InstructionSet::ALL);
            let found = InstructionSet::ALL.into_iter().filter(|path| path.is_available());
            assert!(found.into_iter().all(|path| paths.contains(&path)), "CPUID leaves the other paths out");
            return "CPUID";
        }
        switch::only(paths);
        "switch"
    }
}

#[cfg(feature = "peers")]
fn mask(with_vaes: bool) -> bool {
    wireseal_bench_peers::mask_cpuid(with_vaes)
}

#[cfg(not(feature = "peers"))]
fn mask(_: bool) -> bool {
    false
}

/// Wireseal's time divided by the best peer's, for one packet, and that peer. Wireseal is the first contender.
fn ratio(
    effort: Effort,
    contenders: &mut [PacketContender],
    payload: usize,
    is_sealing: bool,
) -> (f64, &'static str) {
    // As many as fit the first-level cache.
    const COPIES: usize = 20;
    let mut sealed = quic::packet(payload);
    (contenders[0].seal)(&mut sealed);
    // One buffer for both: its address changes the time by some percent.
    let copies = RefCell::new(vec![sealed.clone(); COPIES]);
    let (copies, sealed) = (&copies, &sealed);
    let mut timed: Vec<Timed<'_>> = contenders
        .iter_mut()
        .map(|PacketContender { name, seal, open }| {
            let mut turn = 0;
            if is_sealing {
                return Timed::new(name, move || seal(black_box(&mut copies.borrow_mut()[0]))).rounds_of(100);
            }
            let run = move || {
                turn = (turn + 1) % COPIES;
                assert!(open(black_box(&mut copies.borrow_mut()[turn])), "a copy opens once");
            };
            let prepare = || copies.borrow_mut().iter_mut().for_each(|copy| copy.copy_from_slice(sealed));
            Timed::new(name, run).prepared(COPIES, prepare)
        })
        .collect();
    let times = alternate(effort, &mut timed);
    drop(timed);
    let peers = 1..times.len();
    let best = peers.min_by(|a, b| times[*a].total_cmp(&times[*b])).expect("at least one peer");
    (times[0] / times[best], contenders[best].name)
}

/// The worst and the median ratio of sealing or opening with one algorithm.
fn row(effort: Effort, peers: &[&str], algorithm: AeadAlgorithm, is_sealing: bool) -> Value {
    let mut contenders = quic::packet_contenders(algorithm);
    contenders.retain(|contender| contender.name == "wireseal" || peers.contains(&contender.name));
    let at_each = if effort.is_once() { Effort::Once } else { Effort::For(Duration::from_micros(600)) };
    let mut measured: Vec<(usize, (f64, &str))> =
        LENGTHS.map(|payload| (payload, ratio(at_each, &mut contenders, payload, is_sealing))).collect();
    let worst_first = |(_, (a, _)): &(_, (f64, _)), (_, (b, _)): &(_, (f64, _))| b.total_cmp(a);
    measured.sort_by(worst_first);
    let (_, (median, _)) = measured[measured.len() / 2];
    // The worst of 1501 is mostly noise, so the 40 that look worst are measured again for longer, and that counts.
    for (payload, worst) in measured.iter_mut().take(40) {
        *worst = ratio(effort.share(10), &mut contenders, *payload, is_sealing);
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
    let by = as_if.become_it();
    let peers = if by == "switch" { OBEDIENT } else { PEERS };
    let rows: Vec<Value> = ALGORITHMS
        .into_iter()
        .flat_map(|algorithm| [true, false].map(|is_sealing| row(effort, peers, algorithm, is_sealing)))
        .collect();
    println!("{}", json!({ "by": by, "rows": rows }));
}

/// Runs this program again as on that processor.
fn run(as_if: As, effort: Effort) -> Result<Value, String> {
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
    let mut by_switch = false;
    for as_if in As::value_variants().iter().filter(|as_if| as_if.is_less()) {
        let result = run(*as_if, effort)?;
        by_switch |= result["by"] == "switch";
        for row in result["rows"].as_array().into_iter().flatten() {
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
    let left_out = match (by_switch, cfg!(feature = "peers")) {
        (false, _) => "Where paths are left out, the peers do not see them either.",
        (true, true) => {
            "CPUID could not be masked here, so ring is left out where paths are: it would use all that the processor has. BoringSSL, \
             which ring's assembly comes from, and AWS-LC do as they are told."
        }
        (true, false) => {
            "Where paths are left out, ring uses them still: only the feature `peers`, on a processor that lets CPUID fault, can hide \
             them."
        }
    };
    table.reading = format!(
        "Never slower than the best peer, which is named at the worst length: {missed} of {} rows miss it at some length. {left_out}",
        table.rows.len()
    );
    Ok(table)
}
