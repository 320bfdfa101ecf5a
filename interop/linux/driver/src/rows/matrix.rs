//! Every kind of key between the userspace stack and a kernel: a small transfer with each, and some large ones.

use std::rc::Rc;
use std::time::Instant;

use agent::{Close, Counted};
use fastrand::Rng;
use futures_util::future::try_join_all;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, OptionCoverage, Segment};

use super::session::{End, Session, Setup};
use crate::row::prelude::*;
use crate::userspace::Userspace;

/// The algorithms that Linux has, and their names in rows.
const ALGORITHMS: [(TcpAoAlgorithm, &str); 3] = [
    (TcpAoAlgorithm::HmacSha1, "sha1"),
    (TcpAoAlgorithm::Aes128Cmac, "cmac"),
    (TcpAoAlgorithm::LinuxHmacSha256, "sha256"),
];
const MAC_LENGTHS: [usize; 3] = [4, 12, 16];
const MASTER_KEY_LENGTHS: [usize; 3] = [1, 16, 80];
const COVERAGES: [OptionCoverage; 2] = [OptionCoverage::Covered, OptionCoverage::Excluded];
/// The SendID of the userspace end, which is the kernel's RecvID, and the other way round.
const SEND_ID: KeyId = KeyId(77);
const RECV_ID: KeyId = KeyId(201);
/// The kind of the SACK option (RFC 2018 §3).
const SACK: u8 = 5;

/// One combination.
#[derive(Clone, Copy, Debug)]
struct Combination {
    family: Family,
    algorithm: TcpAoAlgorithm,
    opener: End,
    mac_length: usize,
    options: OptionCoverage,
    master_key_length: usize,
}

/// What is carried with a key.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// How many connections at the same time.
    connections: u16,
    /// How many octets each way, over each of them.
    octets: u64,
    /// How many of a thousand segments are lost, each way.
    loss: u32,
}

const SMALL: Load = Load { connections: 1, octets: 64 << 10, loss: 0 };
const LARGE: Load = Load { connections: 1, octets: 16 << 20, loss: 0 };
/// With loss the time goes into waiting for retransmissions, so eight connections wait at once.
const LOSSY: Load = Load { connections: 8, octets: 256 << 10, loss: 50 };

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for family in Family::ALL {
        for algorithm in ALGORITHMS {
            rows.extend(End::BOTH.map(|opener| product(family, algorithm, opener)));
        }
    }
    for (place, algorithm) in ALGORITHMS.into_iter().enumerate() {
        for (other_place, family) in Family::ALL.into_iter().enumerate() {
            let opener = End::BOTH[(place + other_place) % 2];
            rows.push(bulk(family, algorithm, opener, OptionCoverage::Covered, LARGE));
        }
        let opener = End::BOTH[(place / 2 + 1) % 2];
        // With loss there are SACK options on segments other than SYNs, which the MAC covers or not.
        rows.push(bulk(Family::ALL[place % 2], algorithm, opener, COVERAGES[place % 2], LOSSY));
    }
    rows
}

/// All combinations of MAC length, option coverage and master key length.
fn product(family: Family, (algorithm, slug): (TcpAoAlgorithm, &str), opener: End) -> Row {
    let mut combinations = Vec::new();
    for mac_length in MAC_LENGTHS {
        for options in COVERAGES {
            for master_key_length in MASTER_KEY_LENGTHS {
                let key = Combination { family, algorithm, opener, mac_length, options, master_key_length };
                combinations.push(key);
            }
        }
    }
    let what = format!(
        "{algorithm} over {family}, {opener} opens; MAC of 4, 12 and 16 octets, options covered and not, master key of 1, 16 \
         and 80 octets: 18 connections, 64 KiB each way"
    );
    let twin = "the last octet of each master key changed at one end";
    row(format!("keys-{slug}-{family}-{opener}-opens"), what, twin, combinations, SMALL)
}

/// A large transfer with one key, perhaps over a bad wire.
fn bulk(
    family: Family,
    (algorithm, slug): (TcpAoAlgorithm, &str),
    opener: End,
    options: OptionCoverage,
    load: Load,
) -> Row {
    let mac_length = algorithm.default_mac_length();
    let combination = Combination { family, algorithm, opener, mac_length, options, master_key_length: 16 };
    let (kind, how) = match load.loss {
        0 => ("bulk", "over one connection".to_owned()),
        loss => {
            let (connections, percent) = (load.connections, loss / 10);
            let covered = combination.coverage();
            let how = format!(
                "over {connections} connections at once, {percent} % of all segments lost, options {covered}"
            );
            ("loss", how)
        }
    };
    let mebibytes = (u64::from(load.connections) * load.octets) >> 20;
    let what = format!("{algorithm} over {family}, {opener} opens; {mebibytes} MiB each way {how}");
    let twin = "the last octet of the master key changed at one end";
    row(format!("{kind}-{slug}-{family}-{opener}-opens"), what, twin, vec![combination], load)
}

fn row(name: String, what: String, twin: &str, combinations: Vec<Combination>, load: Load) -> Row {
    let same = combinations.clone();
    Row::new(
        name,
        what,
        async move |lab| carry_all(lab, combinations.clone(), load).await,
        twin,
        async move |lab| refuse_all(lab, same.clone()).await,
    )
}

impl Combination {
    /// The key as the userspace end has it, or one that differs in the last octet.
    fn mkt(&self, is_wrong: bool) -> Result<Mkt> {
        let mut octets: Vec<u8> = (1..=80).take(self.master_key_length).collect();
        if let Some(last) = octets.last_mut().filter(|_| is_wrong) {
            *last ^= 0x80;
        }
        let mkt = Mkt::with_short_master_key(SEND_ID, RECV_ID, self.algorithm, MasterKey::new(&octets)?)?;
        Ok(mkt.with_mac_length(self.mac_length)?.with_options(self.options))
    }

    fn coverage(&self) -> &'static str {
        if self.options == OptionCoverage::Covered { "covered" } else { "not covered" }
    }

    fn described(&self) -> String {
        let Self { mac_length, master_key_length, .. } = self;
        let coverage = self.coverage();
        format!("MAC of {mac_length} octets, options {coverage}, master key of {master_key_length} octets")
    }

    fn setup(&self, is_kernel_wrong: bool) -> Result<Setup> {
        let (userspace, kernel) = (vec![self.mkt(false)?], vec![self.mkt(is_kernel_wrong)?]);
        Ok(Setup { family: self.family, opener: self.opener, userspace, kernel, number: 0 })
    }
}

async fn carry_all(lab: &Lab, combinations: Vec<Combination>, load: Load) -> Result<Evidence> {
    let started = Instant::now();
    let (mut evidence, mut sockets_good) = (Evidence::default(), 0);
    for combination in &combinations {
        let carried = carry(lab, combination, load).await.with_context(|| combination.described())?;
        evidence.add(carried.0);
        sockets_good += carried.1;
    }
    let seconds = started.elapsed().as_secs_f64();
    let connections = combinations.len() as u64 * u64::from(load.connections);
    let mebibytes = (2 * connections * load.octets) as f64 / f64::from(1 << 20);
    let [userspace, kernel] = End::BOTH
        .map(|end| Counted::good(evidence.recording.delivered_from(end.other().port()).count() as u64));
    evidence.counters = vec![
        ("kernel".into(), format!("{kernel}, {sockets_good} of them by TCP_AO_INFO before the end")),
        ("userspace".into(), userspace.to_string()),
    ];
    evidence.figures = format!("{mebibytes:.0} MiB in {seconds:.1} s");
    let [to_userspace, to_kernel] = lost(&evidence.recording, load)?;
    if load.loss > 0 {
        let with_sack = delivered_with_sack(&evidence.recording);
        ensure!(with_sack > 0, "no segment carried SACK blocks");
        evidence.figures +=
            &format!("; {to_kernel} and {to_userspace} segments lost, {with_sack} with SACK delivered");
    }
    Ok(evidence)
}

/// Connections with one key: opened, used both ways, closed in order, and every segment accounted for at both ends. Also returns how many
/// good segments the kernel's sockets have counted.
async fn carry(lab: &Lab, combination: &Combination, load: Load) -> Result<(Evidence, u64)> {
    let before = lab.north.counters().await?;
    let setup = combination.setup(false)?;
    let userspace = Rc::new(setup.userspace(lab)?);
    if load.loss > 0 {
        let [mut by_userspace, mut by_kernel] = [1, 2].map(Rng::with_seed);
        lab.wire.lose(move |from, _| {
            let random = if from == End::Userspace.port() { &mut by_userspace } else { &mut by_kernel };
            random.u32(..1000) < load.loss
        });
    }
    let used = (0..load.connections).map(|number| {
        use_connection(lab, Setup { number, ..setup.clone() }, before, Rc::clone(&userspace), load.octets)
    });
    let (mut sessions, good): (Vec<_>, Vec<_>) = try_join_all(used).await?.into_iter().unzip();
    // Nothing is lost from here on: Linux neither verifies nor counts segments in TIME-WAIT, such as a FIN that is repeated because its
    // acknowledgment was lost.
    lab.wire.reset();
    try_join_all(sessions.iter_mut().map(Session::finish)).await?;
    let last = sessions.pop().context("there are no connections")?;
    drop(sessions);
    // The counters are of all connections together.
    Ok((last.settle().await?, good.iter().sum()))
}

/// Opens a connection and uses it; returns how many good segments the kernel's socket has counted.
async fn use_connection(
    lab: &Lab,
    setup: Setup,
    before: Counted,
    userspace: Rc<Userspace>,
    octets: u64,
) -> Result<(Session<'_>, u64)> {
    let socket = setup.kernel_socket_at(lab, 0, true).await?;
    let mut session = Session::connect(lab, setup, before, userspace, socket).await?;
    session.exchange(octets, octets).await?;
    let info = session.ends.info().await?;
    let is_clean = info.counted.good > 0 && info.counted == Counted::good(info.counted.good);
    ensure!(
        (info.current_key, info.rnext_key) == (Some(RECV_ID.0), Some(SEND_ID.0)) && is_clean,
        "the kernel's socket says {info:?}"
    );
    Ok((session, info.counted.good))
}

/// How many segments were lost on the way to userspace, and to the kernel; fails unless as many as should have been.
fn lost(recording: &Recording, load: Load) -> Result<[u64; 2]> {
    let mut lost = [0; 2];
    for (lost, end) in lost.iter_mut().zip(End::BOTH) {
        let port = end.other().port();
        let frames = recording.frames.iter().filter(|frame| frame.from == Some(port));
        *lost = frames.filter(|frame| frame.is_lost).count() as u64;
        let all = *lost + recording.delivered_from(port).count() as u64;
        let wanted = u64::from(load.loss);
        ensure!(
            (wanted * all / 2..=wanted * all * 2).contains(&(1000 * *lost)),
            "{lost} segments of {all} from {port} were lost"
        );
    }
    Ok(lost)
}

/// How many segments that carried SACK blocks beside the MAC were delivered.
fn delivered_with_sack(recording: &Recording) -> usize {
    let delivered = recording.frames.iter().filter(|frame| !frame.is_lost).filter_map(Frame::segment);
    let has_sack = |segment: &Segment<'_>| segment.options().flatten().any(|option| option.kind == SACK);
    delivered.filter(has_sack).count()
}

/// The kernel has another key: the listening end must refuse the SYN, and count it.
async fn refuse_all(lab: &Lab, combinations: Vec<Combination>) -> Result<Refusal> {
    let mut sum = Counted::default();
    for combination in &combinations {
        sum = sum.plus(&refuse(lab, combination).await.with_context(|| combination.described())?);
    }
    let listener = combinations.first().map_or(End::Kernel, |combination| combination.opener.other());
    Ok(Refusal::by(&listener.to_string(), &sum))
}

async fn refuse(lab: &Lab, combination: &Combination) -> Result<Counted> {
    let before = lab.north.counters().await?;
    let setup = combination.setup(true)?;
    let userspace = setup.userspace(lab)?;
    let socket = setup.kernel_socket_at(lab, 0, true).await?;
    let counted = async {
        match combination.opener {
            End::Userspace => lab.north.await_counted(&before, Counted::bad(1)).await,
            End::Kernel => userspace.await_counted(Counted::bad(1)).await,
        }
    };
    let counted = setup.until_refused(lab, &userspace, socket, counted).await?;
    lab.north.call(Close { socket }).await?;
    Ok(counted)
}
