//! ICMP errors about an established session, which anybody can send (RFC 5925 §7.8).

use agent::{Amount, Counted, ReportErrors, SetFlags, Transfer};
use wireseal_algorithms::TcpAoAlgorithm;

use crate::forge::inject_icmp_error;
use crate::prelude::*;
use crate::rows::session::{End, SOME, Session, Setup, key};

/// The MTU that an ICMP error claims.
const MTU: u32 = 1000;
/// "Fragmentation needed", for which Linux sends shorter segments instead of telling the program.
const TOO_LONG: (u8, u8) = (3, 4);

/// ICMPv4 "destination unreachable" (RFC 792) and its codes "protocol unreachable", "port unreachable" and "fragmentation
/// needed"; ICMPv6 "destination unreachable" (RFC 4443 §3.1) and its codes "administratively prohibited" and "port unreachable".
const fn hard_errors(family: Family) -> &'static [(u8, u8)] {
    match family {
        Family::Ipv4 => &[(3, 2), (3, 3), TOO_LONG],
        Family::Ipv6 => &[(1, 1), (1, 4)],
    }
}

pub fn rows() -> Vec<Row> {
    let row = |family: Family| {
        let codes = hard_errors(family).iter().map(|(kind, code)| format!("{kind}/{code}"));
        let codes = codes.collect::<Vec<_>>().join(", ");
        Row::new(
            format!("refusals-icmp-{family}"),
            format!(
                "hard ICMP errors about a session over {family}, type/code {codes}, to each end: ignored and counted"
            ),
            async move |lab| ignored(lab, family).await,
            "the kernel's socket has accept_icmps",
            async move |lab| accepted(lab, family).await,
        )
    };
    Family::ALL.into_iter().map(row).collect()
}

/// A session whose kernel's socket tells of ICMP errors.
async fn open(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let mkt = key(1, TcpAoAlgorithm::LinuxHmacSha256)?;
    let session = Session::open_used(lab, Setup::with_keys(family, End::Userspace, &[mkt])).await?;
    lab.north.call(ReportErrors { socket: session.ends.socket }).await?;
    Ok(session)
}

/// Sends the error to an end, about what it has sent.
fn inject(session: &Session<'_>, victim: End, error: (u8, u8)) -> Result<()> {
    inject_icmp_error(&session.ends.lab.wire, session.ends.pair_from(victim), error, MTU)
}

async fn ignored(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut session = open(lab, family).await?;
    let errors = hard_errors(family);
    for (number, error) in (1..).zip(errors) {
        for victim in End::BOTH {
            inject(&session, victim, *error)?;
            session.ends.await_counted(victim, Counted::dropped_icmps(number)).await?;
        }
        session.exchange(SOME, SOME).await?;
        session.ends.quiet().await?;
    }
    let dropped = errors.len() as u64;
    let info = session.ends.info().await?;
    ensure!(info.counted.dropped_icmps == dropped, "the kernel's socket says {info:?}");
    session.ends.beside = [Counted::dropped_icmps(dropped); 2];
    let evidence = session.close().await?;
    Ok(evidence.with_figures(format!("{dropped} errors to each end, the session went on")))
}

/// Each error then reaches the program, or makes segments shorter.
async fn accepted(lab: &Lab, family: Family) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for error in hard_errors(family) {
        let mut session = open(lab, family).await?;
        let socket = session.ends.socket;
        lab.north.call(SetFlags { socket, required: None, accept_icmps: Some(true) }).await?;
        let port = End::Kernel.port();
        let sent_before = lab.wire.segments_from(port);
        if *error == TOO_LONG {
            inject(&session, End::Kernel, *error)?;
            session.exchange(0, SOME).await?;
            let longest = lab.wire.look(|recording| {
                let later = recording.segments_from(port).skip(sent_before as usize);
                later.map(|segment| segment.tcp().len()).max().unwrap_or(usize::MAX)
            });
            ensure!(longest <= MTU as usize, "the kernel has sent a segment of {longest} octets");
            refusal = refusal.and(Refusal::of("octets of the longest segment afterwards", longest as u64));
        } else {
            let told = read_error(&session, *error).await?;
            refusal = refusal.and(Refusal::of(format!("kernel told its program: {told}"), 1));
        }
        let counted = session.ends.kernel_counted().await?;
        // The path is as it was for the next row.
        lab.north.shell("echo 1 >/proc/sys/net/ipv4/route/flush").await?;
        ensure!(counted.dropped_icmps == 0, "the kernel has counted {counted}");
    }
    Ok(refusal)
}

/// The error that a read ends with which waits while the ICMP error comes.
async fn read_error(session: &Session<'_>, error: (u8, u8)) -> Result<String> {
    inject(session, End::Kernel, error)?;
    let read = Transfer { socket: session.ends.socket, send: Amount::NONE, receive: Amount::of(1) };
    let Err(error) = session.ends.lab.north.call(read).await else {
        bail!("the kernel has read an octet");
    };
    // What the operating system says, with its errno, stands last.
    let error = error.to_string();
    let told = error.rsplit(": ").next().unwrap_or_default().to_owned();
    ensure!(told.contains("os error") && !told.contains("(os error 11)"), "the error was {told}");
    Ok(told)
}
