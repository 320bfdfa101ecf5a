//! Every kind of key between the userspace stack and a kernel: a small transfer each, and large ones.

use std::net::IpAddr;
use std::time::Instant;

use agent::{
    Accept, AwaitCounters, Close, Connect, Finish, GetInfo, Key, Listen, NetworkCounters, Open, SocketInfo,
};
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use router_peer::stack::TcpStream;
use tokio::time::timeout;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Counters, KeyId, MasterKey, Mkt, MktSet, OptionCoverage, Segment};

use super::{Evidence, Refusal, Row};
use crate::failure::{Failure, ensure};
use crate::guest::{at, unspecified_like};
use crate::lab::{Addresses, Family, Lab, TIME_LIMIT, TIME_LIMIT_MILLISECONDS};
use crate::recording::{Frame, Recording};
use crate::userspace::{Amount, Userspace, finish, guest_transfer, transfer};
use crate::verify::{Keys, verify};
use crate::wire::Port;

/// The algorithms that Linux has.
const ALGORITHMS: [TcpAoAlgorithm; 3] =
    [TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::LinuxHmacSha256];
const MAC_LENGTHS: [usize; 3] = [4, 12, 16];
const MASTER_KEY_LENGTHS: [usize; 3] = [1, 16, 80];
const COVERAGES: [OptionCoverage; 2] = [OptionCoverage::Covered, OptionCoverage::Excluded];
/// The SendID of the userspace end, which is the kernel's RecvID, and the other way round.
const SEND_ID: KeyId = KeyId(77);
const RECV_ID: KeyId = KeyId(201);
/// The first port that the userspace end listens on.
const PORT: u16 = 179;

/// Octets each way.
const SMALL: u64 = 64 << 10;
const LARGE: u64 = 16 << 20;
/// With loss the time goes into waiting for retransmissions, so eight connections wait at once.
const LOSSY: u64 = 256 << 10;
const LOSSY_CONNECTIONS: u16 = 8;
/// Of a thousand segments, each way.
const LOSS: u32 = 50;
/// The kind of the SACK option (RFC 2018 §3).
const SACK: u8 = 5;

/// Who opens the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opener {
    Userspace,
    Kernel,
}

impl Opener {
    const ALL: [Self; 2] = [Self::Userspace, Self::Kernel];

    const fn name(self) -> &'static str {
        match self {
            Self::Userspace => "userspace-opens",
            Self::Kernel => "kernel-opens",
        }
    }
}

/// One combination.
#[derive(Clone, Copy, Debug)]
struct Combination {
    family: Family,
    algorithm: TcpAoAlgorithm,
    opener: Opener,
    mac_length: usize,
    options: OptionCoverage,
    master_key_length: usize,
}

/// What is carried with a key.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// At once.
    connections: u16,
    /// Each way, over each of them.
    octets: u64,
    /// Of a thousand segments.
    loss: u32,
}

const SMALL_LOAD: Load = Load { connections: 1, octets: SMALL, loss: 0 };
const LARGE_LOAD: Load = Load { connections: 1, octets: LARGE, loss: 0 };
const LOSSY_LOAD: Load = Load { connections: LOSSY_CONNECTIONS, octets: LOSSY, loss: LOSS };

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for family in Family::ALL {
        for algorithm in ALGORITHMS {
            for opener in Opener::ALL {
                rows.push(product(family, algorithm, opener));
            }
        }
    }
    for (place, algorithm) in ALGORITHMS.into_iter().enumerate() {
        for (other_place, family) in Family::ALL.into_iter().enumerate() {
            let opener = Opener::ALL[(place + other_place) % 2];
            rows.push(bulk(family, algorithm, opener, OptionCoverage::Covered, LARGE_LOAD));
        }
        let family = Family::ALL[place % 2];
        let opener = Opener::ALL[(place / 2 + 1) % 2];
        // With loss there are SACK options on segments that are no SYNs: to be covered, or not.
        rows.push(bulk(family, algorithm, opener, COVERAGES[place % 2], LOSSY_LOAD));
    }
    rows
}

fn slug(algorithm: TcpAoAlgorithm) -> &'static str {
    match algorithm {
        TcpAoAlgorithm::HmacSha1 => "sha1",
        TcpAoAlgorithm::Aes128Cmac => "cmac",
        TcpAoAlgorithm::LinuxHmacSha256 => "sha256",
        TcpAoAlgorithm::HmacSha256_128 | TcpAoAlgorithm::Kmac256_128 => "not-in-linux",
    }
}

/// MAC lengths, option coverage and master key lengths, all against all.
fn product(family: Family, algorithm: TcpAoAlgorithm, opener: Opener) -> Row {
    let combinations = move || {
        MAC_LENGTHS.into_iter().flat_map(move |mac_length| {
            COVERAGES.into_iter().flat_map(move |options| {
                MASTER_KEY_LENGTHS.into_iter().map(move |master_key_length| Combination {
                    family,
                    algorithm,
                    opener,
                    mac_length,
                    options,
                    master_key_length,
                })
            })
        })
    };
    let name = format!("keys-{}-{}-{}", slug(algorithm), family.name().to_lowercase(), opener.name());
    let what = format!(
        "{algorithm} over {}, {}; MAC of 4, 12 and 16 octets, options covered and not, master key of 1, 16 and 80 octets: \
         18 connections, 64 KiB each way",
        family.name(),
        opener.name().replace('-', " ")
    );
    Row::new(
        name,
        what,
        move |lab| carry_all(lab, combinations().collect(), SMALL_LOAD).boxed_local(),
        "the last octet of each master key changed at one end",
        move |lab| refuse_all(lab, combinations().collect()).boxed_local(),
    )
}

/// Much with one key, perhaps over a bad wire.
fn bulk(
    family: Family,
    algorithm: TcpAoAlgorithm,
    opener: Opener,
    options: OptionCoverage,
    load: Load,
) -> Row {
    let combination = Combination {
        family,
        algorithm,
        opener,
        mac_length: algorithm.default_mac_length(),
        options,
        master_key_length: 16,
    };
    let kind = if load.loss == 0 { "bulk" } else { "loss" };
    let name = format!("{kind}-{}-{}-{}", slug(algorithm), family.name().to_lowercase(), opener.name());
    let how = match load.loss {
        0 => "over one connection".to_owned(),
        loss => {
            let covered = if options == OptionCoverage::Covered { "covered" } else { "not covered" };
            format!(
                "over {} connections at once, {} % of all segments lost, options {covered}",
                load.connections,
                loss / 10
            )
        }
    };
    let what = format!(
        "{algorithm} over {}, {}; {} MiB each way {how}",
        family.name(),
        opener.name().replace('-', " "),
        (u64::from(load.connections) * load.octets) >> 20
    );
    Row::new(
        name,
        what,
        move |lab| carry_all(lab, vec![combination], load).boxed_local(),
        "the last octet of the master key changed at one end",
        move |lab| refuse_all(lab, vec![combination]).boxed_local(),
    )
}

impl Combination {
    /// The key as the userspace end has it.
    fn mkt(&self) -> Result<Mkt, Failure> {
        self.mkt_with(SEND_ID, RECV_ID, false)
    }

    /// The key as the kernel has it, or one that differs in the last octet.
    fn kernel_mkt(&self, is_wrong: bool) -> Result<Mkt, Failure> {
        self.mkt_with(RECV_ID, SEND_ID, is_wrong)
    }

    fn mkt_with(&self, send_id: KeyId, recv_id: KeyId, is_wrong: bool) -> Result<Mkt, Failure> {
        let mut octets: Vec<u8> = (1..=80).take(self.master_key_length).collect();
        if let Some(last) = octets.last_mut().filter(|_| is_wrong) {
            *last ^= 0x80;
        }
        let mkt = Mkt::with_short_master_key(send_id, recv_id, self.algorithm, MasterKey::new(&octets)?);
        Ok(mkt.with_mac_length(self.mac_length)?.with_options(self.options))
    }

    fn described(&self) -> String {
        format!(
            "MAC of {} octets, options {}, master key of {} octets",
            self.mac_length,
            if self.options == OptionCoverage::Covered { "covered" } else { "not covered" },
            self.master_key_length
        )
    }

    fn kernel_address(&self) -> IpAddr {
        Addresses::of(Port::North).in_family(self.family)
    }

    fn userspace_address(&self) -> IpAddr {
        Addresses::of(Port::Userspace).in_family(self.family)
    }

    fn userspace(&self, lab: &Lab) -> Result<Userspace, Failure> {
        Userspace::start(
            &lab.wire,
            vec![Userspace::peer(self.kernel_address(), MktSet::from_mkts([self.mkt()?])?)],
        )
    }

    /// A socket of the kernel's, bound, with the key.
    async fn kernel_socket(&self, lab: &Lab, is_wrong: bool) -> Result<u64, Failure> {
        let keys = vec![Key::new(self.userspace_address(), &self.kernel_mkt(is_wrong)?)];
        let local = at(unspecified_like(self.kernel_address()), 0);
        lab.north.call(Open { local, keys, required: true }).await
    }
}

/// What both ends have counted, over several connections.
#[derive(Default)]
struct Tally {
    sockets_good: u64,
    kernel: NetworkCounters,
    userspace: Counters,
    /// Lost on the way to the kernel, and to userspace.
    lost: [u64; 2],
    /// That carried SACK blocks beside the MAC, and were delivered.
    with_sack: u64,
}

async fn carry_all(lab: &Lab, combinations: Vec<Combination>, load: Load) -> Result<Evidence, Failure> {
    let started = Instant::now();
    let mut evidence = Evidence::default();
    let mut tally = Tally::default();
    let connections = combinations.len() as u64 * u64::from(load.connections);
    for combination in &combinations {
        let named = |failure: Failure| failure.during(combination.described());
        carry(lab, combination, load, &mut tally, &mut evidence).await.map_err(named)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let mebibytes = (2 * connections * load.octets) as f64 / f64::from(1 << 20);
    evidence.counters = vec![
        (
            "kernel".into(),
            format!("{}, {} of them by TCP_AO_INFO before the end", tally.kernel, tally.sockets_good),
        ),
        ("userspace".into(), format!("{} good", tally.userspace.good)),
    ];
    evidence.figures = format!("{mebibytes:.0} MiB in {seconds:.1} s");
    if load.loss > 0 {
        let Tally { lost: [to_kernel, to_userspace], with_sack, .. } = tally;
        evidence.figures +=
            &format!("; {to_kernel} and {to_userspace} segments lost, {with_sack} with SACK delivered");
    }
    Ok(evidence)
}

/// Connections with one key: opened, used both ways, closed in order, and every segment accounted for at both ends.
async fn carry(
    lab: &Lab,
    combination: &Combination,
    load: Load,
    tally: &mut Tally,
    evidence: &mut Evidence,
) -> Result<(), Failure> {
    let before = lab.north.counters().await?;
    let userspace = combination.userspace(lab)?;
    lab.wire.set_loss(Port::Userspace, load.loss, 1);
    lab.wire.set_loss(Port::North, load.loss, 2);
    let connections =
        (0..load.connections).map(|number| use_connection(lab, combination, &userspace, load, number));
    let used = try_join_all(connections).await?;
    // Linux neither verifies nor counts what comes in TIME-WAIT, and a FIN that is sent again because its acknowledgment was lost
    // would: so nothing is lost at the end.
    lab.wire.set_loss(Port::Userspace, 0, 1);
    lab.wire.set_loss(Port::North, 0, 2);
    let infos = try_join_all(used.into_iter().map(|used| end(lab, used))).await?;
    let idle = timeout(TIME_LIMIT, userspace.stack.idle()).await;
    idle.map_err(|_| Failure("the userspace connections do not end".to_owned()))?;

    // Whatever has reached an end has been verified there, and counted once.
    let (counted, counters) = settled(lab, &userspace, &before).await?;
    let (to_kernel, to_userspace) =
        (lab.wire.segments_from(Port::Userspace), lab.wire.segments_from(Port::North));
    ensure(counted == NetworkCounters { good: to_kernel, ..NetworkCounters::default() }, || {
        format!("the kernel has counted {counted}, {to_kernel} segments have reached it")
    })?;
    ensure(counters == Counters { good: to_userspace, ..Counters::default() }, || {
        format!("userspace has counted {counters:?}, {to_userspace} segments have reached it")
    })?;
    userspace.check_nothing_dropped()?;

    let recording = lab.wire.take_recording();
    check_loss(&recording, load, [to_kernel, to_userspace], tally)?;
    let keys = [Keys { local: combination.userspace_address(), mkts: vec![combination.mkt()?] }];
    let verdicts = verify(&recording, &keys);
    verdicts.check_all_verified()?;
    evidence.wire.add(verdicts);
    evidence.recording.append(recording);
    tally.kernel = tally.kernel.plus(&counted);
    tally.userspace.good += counters.good;
    tally.sockets_good += infos.iter().map(|info| info.good).sum::<u64>();
    Ok(())
}

/// Fails unless as much was lost each way as should have been, and, if any was, SACK options stood beside the MAC.
fn check_loss(
    recording: &Recording,
    load: Load,
    delivered: [u64; 2],
    tally: &mut Tally,
) -> Result<(), Failure> {
    for (way, (port, delivered)) in [Port::Userspace, Port::North].into_iter().zip(delivered).enumerate() {
        let is_lost = |frame: &&Frame| frame.is_lost && frame.from == Some(port);
        let lost = recording.frames.iter().filter(is_lost).count() as u64;
        let per_thousand = 1000 * lost / (lost + delivered).max(1);
        let wanted = u64::from(load.loss);
        ensure((wanted / 2..=wanted * 2).contains(&per_thousand), || {
            format!("{lost} segments of {} from {port:?} were lost", lost + delivered)
        })?;
        tally.lost[way] += lost;
    }
    let delivered = recording.frames.iter().filter(|frame| !frame.is_lost).filter_map(Frame::segment);
    let has_sack = |segment: &Segment<'_>| segment.options().flatten().any(|option| option.kind == SACK);
    let with_sack = delivered.filter(has_sack).count() as u64;
    tally.with_sack += with_sack;
    ensure(load.loss == 0 || with_sack > 0, || "no segment carried SACK blocks".to_owned())
}

/// What both ends have counted once nothing is on its way any more.
async fn settled(
    lab: &Lab,
    userspace: &Userspace,
    before: &NetworkCounters,
) -> Result<(NetworkCounters, Counters), Failure> {
    let settle = async {
        loop {
            let sent = (lab.wire.segments_from(Port::Userspace), lab.wire.segments_from(Port::North));
            let at_least = before.plus(&NetworkCounters { good: sent.0, ..NetworkCounters::default() });
            let wait = AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS };
            let after = lab.north.call(wait).await?;
            let counters = userspace.await_counters(|counters| counters.good >= sent.1).await?;
            if sent == (lab.wire.segments_from(Port::Userspace), lab.wire.segments_from(Port::North)) {
                return Ok((after.since(before), counters));
            }
        }
    };
    timeout(TIME_LIMIT, settle).await.map_err(|_| Failure("the wire does not become silent".to_owned()))?
}

/// A connection that has carried what it had to.
struct Used {
    stream: TcpStream,
    socket: u64,
    listener: Option<u64>,
    info: SocketInfo,
}

/// One connection, opened and used.
async fn use_connection(
    lab: &Lab,
    combination: &Combination,
    userspace: &Userspace,
    load: Load,
    number: u16,
) -> Result<Used, Failure> {
    let (mut stream, socket, listener) = connect(lab, combination, userspace, number).await?;
    let seed = 2 * u64::from(number);
    let (there, back) = (
        Amount { octets: load.octets, seed, from: 0 },
        Amount { octets: load.octets, seed: seed + 1, from: 0 },
    );
    let by_kernel = lab.north.call(guest_transfer(socket, back, there));
    tokio::try_join!(transfer(&mut stream, there, back), by_kernel)?;

    let info = lab.north.call(GetInfo { socket }).await?;
    let info = info.ok_or_else(|| Failure("the kernel's socket has no TCP-AO".to_owned()))?;
    let ids = (info.current_key, info.rnext_key);
    let is_clean = info.good > 0 && (info.bad, info.key_not_found, info.ao_required) == (0, 0, 0);
    ensure(ids == (Some(RECV_ID.0), Some(SEND_ID.0)) && is_clean, || {
        format!("the kernel's socket says {info:?}")
    })?;
    Ok(Used { stream, socket, listener, info })
}

/// The end of a connection; gives what the kernel's socket said before.
async fn end(lab: &Lab, used: Used) -> Result<SocketInfo, Failure> {
    let Used { mut stream, socket, listener, info } = used;
    let by_kernel = lab.north.call(Finish { socket, time_limit: TIME_LIMIT_MILLISECONDS });
    tokio::try_join!(finish(&mut stream), by_kernel)?;
    lab.north.call(Close { socket }).await?;
    if let Some(socket) = listener {
        lab.north.call(Close { socket }).await?;
    }
    Ok(info)
}

/// The stream, the kernel's socket, and the listener it came from.
async fn connect(
    lab: &Lab,
    combination: &Combination,
    userspace: &Userspace,
    number: u16,
) -> Result<(TcpStream, u64, Option<u64>), Failure> {
    let socket = combination.kernel_socket(lab, false).await?;
    match combination.opener {
        Opener::Userspace => {
            let address = lab.north.call(Listen { socket }).await?;
            let accept = lab.north.call(Accept { socket, time_limit: TIME_LIMIT_MILLISECONDS });
            let connect = userspace.connect(at(combination.kernel_address(), address.port()));
            let (stream, accepted) = tokio::try_join!(connect, accept)?;
            Ok((stream, accepted.socket, Some(socket)))
        }
        Opener::Kernel => {
            let mut listener = userspace.stack.listen(None, PORT + number)?;
            let remote = at(combination.userspace_address(), PORT + number);
            let connect = lab.north.call(Connect { socket, remote, time_limit: TIME_LIMIT_MILLISECONDS });
            let (stream, _) = tokio::try_join!(userspace.accept(&mut listener), connect)?;
            Ok((stream, socket, None))
        }
    }
}

/// The kernel has another key: whoever gets the SYN must refuse it, and count it.
async fn refuse_all(lab: &Lab, combinations: Vec<Combination>) -> Result<Refusal, Failure> {
    let mut refused = Vec::new();
    for combination in &combinations {
        let refusal =
            refuse(lab, combination).await.map_err(|failure| failure.during(combination.described()))?;
        for (counter, times) in refusal.counted {
            match refused.iter_mut().find(|(known, _)| *known == counter) {
                Some((_, sum)) => *sum += times,
                None => refused.push((counter, times)),
            }
        }
    }
    let sum: u64 = refused.iter().map(|(_, times)| times).sum();
    ensure(sum >= combinations.len() as u64, || "not every connection was refused".to_owned())?;
    Ok(Refusal { counted: refused })
}

async fn refuse(lab: &Lab, combination: &Combination) -> Result<Refusal, Failure> {
    let before = lab.north.counters().await?;
    let userspace = combination.userspace(lab)?;
    let socket = combination.kernel_socket(lab, true).await?;
    match combination.opener {
        Opener::Userspace => {
            let address = lab.north.call(Listen { socket }).await?;
            let refusal = NetworkCounters { bad: 1, ..NetworkCounters::default() };
            let wait = AwaitCounters { at_least: before.plus(&refusal), time_limit: TIME_LIMIT_MILLISECONDS };
            let refused = lab.north.call(wait);
            let after = tokio::select! {
                after = refused => after?,
                stream = userspace.connect(at(combination.kernel_address(), address.port())) => {
                    return Err(Failure(format!("a connection came about: {:?}", stream?)));
                }
            };
            lab.north.call(Close { socket }).await?;
            Ok(Refusal::by_kernel("kernel", &after.since(&before)))
        }
        Opener::Kernel => {
            let mut listener = userspace.stack.listen(None, PORT)?;
            let remote = at(combination.userspace_address(), PORT);
            let connect = lab.north.call(Connect { socket, remote, time_limit: TIME_LIMIT_MILLISECONDS });
            let counters = tokio::select! {
                counters = userspace.await_counters(|counters| counters.bad > 0) => counters?,
                stream = userspace.accept(&mut listener) => {
                    return Err(Failure(format!("a connection came about: {:?}", stream?)));
                }
                address = connect => return Err(Failure(format!("the kernel is connected: {}", address?))),
            };
            lab.north.call(Close { socket }).await?;
            Ok(Refusal::by_userspace("bad", counters.bad))
        }
    }
}
