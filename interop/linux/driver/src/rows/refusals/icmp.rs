//! ICMP errors about an established session, which anybody can send (RFC 5925 §7.8).

use agent::{NetworkCounters, ReportErrors, SetFlags};
use futures_util::FutureExt;
use wireseal_algorithms::TcpAoAlgorithm;

use crate::failure::{Failure, ensure};
use crate::forge::icmp_error;
use crate::lab::{Family, Lab};
use crate::rows::session::{Beside, End, Session, Setup, key};
use crate::rows::{Evidence, Refusal, Row};
use crate::userspace::{Amount, guest_transfer};
use crate::wire::Port;

/// Octets each way of a transfer.
const SOME: u64 = 64 << 10;
/// The MTU that an ICMP error claims.
const MTU: u16 = 1000;
/// ICMPv4 "destination unreachable" (RFC 792) and its codes "protocol unreachable", "port unreachable" and "fragmentation
/// needed".
const HARD_IPV4: [(u8, u8); 3] = [(3, 2), (3, 3), (3, 4)];
/// ICMPv6 "destination unreachable" (RFC 4443 §3.1) and its codes "administratively prohibited" and "port unreachable".
const HARD_IPV6: [(u8, u8); 2] = [(1, 1), (1, 4)];

const fn hard_errors(family: Family) -> &'static [(u8, u8)] {
    match family {
        Family::Ipv4 => &HARD_IPV4,
        Family::Ipv6 => &HARD_IPV6,
    }
}

pub fn rows() -> Vec<Row> {
    let row = |family: Family| {
        let codes: Vec<String> =
            hard_errors(family).iter().map(|(kind, code)| format!("{kind}/{code}")).collect();
        Row::new(
            format!("refusals-icmp-{}", family.name().to_lowercase()),
            format!(
                "hard ICMP errors about a session over {}, type/code {}, to each end: ignored and counted",
                family.name(),
                codes.join(", ")
            ),
            move |lab| ignored(lab, family).boxed_local(),
            "the kernel's socket has accept_icmps",
            move |lab| accepted(lab, family).boxed_local(),
        )
    };
    Family::ALL.into_iter().map(row).collect()
}

async fn open(lab: &Lab, family: Family) -> Result<Session<'_>, Failure> {
    let mkt = key(1, TcpAoAlgorithm::LinuxHmacSha256)?;
    let mut session = Session::open(lab, Setup::with_keys(family, End::Userspace, &[mkt])).await?;
    session.exchange(SOME, SOME).await?;
    session.ends.quiet().await?;
    Ok(session)
}

/// Sends the error to an end, about what it has sent.
async fn inject(session: &Session<'_>, victim: End, error: (u8, u8)) -> Result<(), Failure> {
    let pair = if victim == End::Userspace { session.ends.pair } else { session.ends.pair.reversed() };
    let wire = &session.ends.lab.wire;
    let (port, frame) = wire.look(|recording| icmp_error(recording, pair, error, u32::from(MTU)))?;
    wire.inject(port, frame);
    Ok(())
}

async fn ignored(lab: &Lab, family: Family) -> Result<Evidence, Failure> {
    let mut session = open(lab, family).await?;
    // Would otherwise be told of no error at all.
    lab.north.call(ReportErrors { socket: session.ends.socket }).await?;
    let errors = hard_errors(family);
    for (number, error) in (1..).zip(errors) {
        for victim in End::BOTH {
            inject(&session, victim, *error).await?;
        }
        let dropped = NetworkCounters { dropped_icmps: number, ..NetworkCounters::default() };
        session.ends.await_kernel_counted(dropped).await?;
        session.ends.userspace.await_counters(|counters| counters.dropped_icmp >= number).await?;
        session.exchange(SOME, SOME).await?;
        session.ends.quiet().await?;
    }
    let dropped_icmps = errors.len() as u64;
    let info = session.ends.info().await?;
    ensure(info.dropped_icmps == dropped_icmps, || format!("the kernel's socket says {info:?}"))?;
    let beside = Beside { dropped_icmps, ..Beside::default() };
    let mut evidence = session.close(beside, beside).await?;
    evidence.figures = format!("{dropped_icmps} errors to each end, the session went on");
    Ok(evidence)
}

/// Each error reaches the program then, or makes segments shorter.
async fn accepted(lab: &Lab, family: Family) -> Result<Refusal, Failure> {
    let mut refusal = Refusal { counted: Vec::new() };
    for error in hard_errors(family) {
        let mut session = open(lab, family).await?;
        let socket = session.ends.socket;
        lab.north.call(ReportErrors { socket }).await?;
        lab.north.call(SetFlags { socket, required: None, accept_icmps: Some(true) }).await?;
        let sent_before = lab.wire.segments_from(Port::North);
        if family == Family::Ipv4 && error.1 == 4 {
            inject(&session, End::Kernel, *error).await?;
            session.exchange(0, SOME).await?;
            let longest = lab.wire.look(|recording| {
                let later = recording.segments_from(Port::North).skip(sent_before as usize);
                later.map(|segment| segment.tcp().len()).max().unwrap_or(usize::MAX)
            });
            ensure(longest <= usize::from(MTU), || {
                format!("the kernel has sent a segment of {longest} octets")
            })?;
            refusal.counted.push(("octets of the longest segment afterwards".to_owned(), longest as u64));
        } else {
            let told = read_error(&session, *error).await?;
            refusal.counted.push((format!("kernel told its program: {told}"), 1));
        }
        let counted = session.ends.kernel_counted().await?;
        // The path is as it was for whatever comes next.
        lab.north.shell("echo 1 >/proc/sys/net/ipv4/route/flush").await?;
        ensure(counted.dropped_icmps == 0, || format!("the kernel has counted {counted}"))?;
    }
    Ok(refusal)
}

/// The error that a read ends with which waits while the ICMP error comes.
async fn read_error(session: &Session<'_>, error: (u8, u8)) -> Result<String, Failure> {
    inject(session, End::Kernel, error).await?;
    let read = session.ends.lab.north.call(guest_transfer(
        session.ends.socket,
        Amount::NONE,
        Amount { octets: 1, ..Amount::NONE },
    ));
    let Err(Failure(told)) = read.await else {
        return Err(Failure("the kernel has read an octet".to_owned()));
    };
    // What the operating system says, with its errno, stands last.
    let told = told.rsplit(": ").next().unwrap_or_default().to_owned();
    ensure(told.contains("os error") && !told.contains("(os error 11)"), || {
        format!("the kernel's program was told: {told}")
    })?;
    Ok(told)
}
