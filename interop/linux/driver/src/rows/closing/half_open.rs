//! One end has lost its memory of the connection: the other keeps it, whatever unsigned resets come (RFC 5925 §7.7).

use agent::{Accept, AwaitCounters, Close, NetworkCounters, Reset};
use futures_util::FutureExt;
use router_peer::stack::TcpStream;
use smoltcp::socket::tcp::State;
use tokio::io::AsyncWriteExt;
use wireseal_tcp_ao::{Counters, Mkt, SocketPair};

use super::nobody::provoke_answer;
use super::orderly::{is_established, the_key};
use crate::failure::{Failure, ensure};
use crate::forge::Forgery;
use crate::guest::at;
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::rows::refusals::{has_reset_kernel, has_reset_userspace};
use crate::rows::session::{End, Session, Setup, described};
use crate::rows::{Evidence, Refusal, Row};
use crate::userspace::{Amount, Userspace, guest_transfer};
use crate::verify::{Keys, verify};
use crate::wire::Port;

/// Octets each way of a transfer.
const SOME: u64 = 64 << 10;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "closing-half-open-userspace",
            "userspace has started anew, over both versions of IP: it refuses what the kernel's old connection sends and answers \
             nothing, an unsigned reset is counted, and the connection stays; a new one is opened beside it",
            |lab| userspace_starts_anew(lab).boxed_local(),
            "without TCP-AO: what is sent is answered with a reset",
            |lab| forgotten_without_keys(lab, End::Userspace).boxed_local(),
        ),
        Row::new(
            "closing-half-open-kernel",
            "the kernel has lost the connection, over both versions of IP, with and without a listener on its port: it answers \
             nothing to what userspace sends, an unsigned reset is counted, and userspace keeps the connection",
            |lab| kernel_forgets(lab).boxed_local(),
            "without TCP-AO: what is sent is answered with a reset",
            |lab| forgotten_without_keys(lab, End::Kernel).boxed_local(),
        ),
    ]
}

async fn open<'a>(lab: &'a Lab, family: Family, opener: End, mkts: &[Mkt]) -> Result<Session<'a>, Failure> {
    let mut session = Session::open(lab, Setup::with_keys(family, opener, mkts)).await?;
    session.exchange(SOME, SOME).await?;
    session.ends.quiet().await?;
    Ok(session)
}

/// Pulls the userspace end out and starts another in its place, which knows of nothing. The old one has to be kept: at its end
/// it would have last words.
fn start_anew<'a>(lab: &'a Lab, session: Session<'a>) -> Result<(Userspace, TcpStream), Failure> {
    let Session { ends, stream, .. } = session;
    let setup = ends.setup.clone();
    drop(ends);
    Ok((setup.userspace(lab)?, stream))
}

/// Has the kernel send something on an old connection.
async fn kernel_sends(lab: &Lab, socket: u64) -> Result<(), Failure> {
    let send = Amount { octets: 1000, ..Amount::NONE };
    lab.north.call(guest_transfer(socket, send, Amount::NONE)).await
}

/// An unsigned reset in the name of the end `pair.local`, where the other would take it.
fn inject_reset(lab: &Lab, pair: SocketPair) -> Result<(), Failure> {
    let next = lab.wire.look(|recording| Forgery::next(recording, pair));
    next.ok_or_else(|| Failure(format!("{pair} is not on the wire")))?.reset().inject(&lab.wire)
}

async fn userspace_starts_anew(lab: &Lab) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        let mkts = [the_key()?];
        let session = open(lab, family, End::Userspace, &mkts).await?;
        let (pair, socket, listener) = (session.ends.pair, session.ends.socket, session.ends.listener);
        let listener = listener.ok_or_else(|| Failure("the kernel does not listen".to_owned()))?;
        let (anew, _old) = start_anew(lab, session)?;
        let (before, sent_before) = (lab.north.counters().await?, lab.wire.segments_from(Port::Userspace));
        let time_limit = TIME_LIMIT_MILLISECONDS;
        let sent = || lab.wire.segments_from(Port::Userspace) - sent_before;

        kernel_sends(lab, socket).await?;
        anew.await_refused(1).await?;
        inject_reset(lab, pair)?;
        let required = NetworkCounters { ao_required: 1, ..NetworkCounters::default() };
        lab.north.call(AwaitCounters { at_least: before.plus(&required), time_limit }).await?;
        ensure(is_established(lab, pair).await?, || "the kernel's connection has ended".to_owned())?;
        ensure(sent() == 0, || format!("userspace has answered {} times", sent()))?;

        let connect = anew.connect(at(End::Kernel.address(family), pair.remote.port()));
        let accept = lab.north.call(Accept { socket: listener, time_limit });
        let (stream, accepted) = tokio::try_join!(connect, accept)?;
        ensure(is_established(lab, pair).await?, || "the kernel's connection has ended".to_owned())?;
        lab.wire.set_plugged(Port::Userspace, false);
        let expected = NetworkCounters { good: sent(), ..required };
        let after = lab.north.call(AwaitCounters { at_least: before.plus(&expected), time_limit }).await?;
        let kernel = after.since(&before);
        ensure(kernel == expected, || format!("the kernel has counted {kernel} instead of {expected}"))?;
        let counters = anew.counters();
        ensure(
            counters == Counters { good: counters.good, ..Counters::default() } && counters.good > 0,
            || format!("userspace has counted {}", described(&counters)),
        )?;
        drop((stream, anew));
        for socket in [socket, accepted.socket] {
            lab.north.call(Reset { socket }).await?;
        }
        lab.north.call(Close { socket: listener }).await?;
        add(&mut evidence, lab, family, &mkts, (kernel, counters))?;
    }
    evidence.figures = "the old connection stayed, a new one came about".to_owned();
    Ok(evidence)
}

/// Makes the kernel forget a connection: the reset, its last word, is lost.
async fn forget_at_kernel(lab: &Lab, socket: u64) -> Result<(), Failure> {
    lab.wire.set_plugged(Port::North, false);
    lab.north.call(Reset { socket }).await?;
    let has_reset = |recording: &Recording| {
        recording.segments_from(Port::North).any(|segment| segment.flags().rst()).then_some(())
    };
    lab.wire.await_recorded("the kernel's last word", has_reset).await?;
    lab.wire.set_plugged(Port::North, true);
    Ok(())
}

async fn kernel_forgets(lab: &Lab) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        for opener in End::BOTH {
            let mkts = [the_key()?];
            let mut session = open(lab, family, opener, &mkts).await?;
            let (pair, listener) = (session.ends.pair, session.ends.listener);
            forget_at_kernel(lab, session.ends.socket).await?;
            let (before, sent_before) =
                (lab.north.counters().await?, lab.wire.segments_from(Port::Userspace));
            let (answers_before, counted_before) =
                (lab.wire.segments_from(Port::North), session.ends.userspace.counters());

            session.stream.write_all(&[0; 1000]).await?;
            let sent = || lab.wire.segments_from(Port::Userspace) - sent_before;
            let has_sent = |recording: &Recording| {
                let frames =
                    recording.frames.iter().rev().take_while(|frame| frame.from != Some(Port::North));
                let mut segments = frames.filter_map(|frame| frame.segment());
                segments.any(|segment| !segment.payload().is_empty()).then_some(())
            };
            lab.wire.await_recorded("what userspace sends", has_sent).await?;
            provoke_answer(lab, family).await?;
            inject_reset(lab, pair.reversed())?;
            let expected = Counters { required: counted_before.required + 2, ..counted_before };
            let counters = session
                .ends
                .userspace
                .await_counters(|counters| counters.required >= expected.required)
                .await?;
            ensure(counters == expected, || format!("userspace has counted {}", described(&counters)))?;
            let state = session.stream.state();
            ensure(state == State::Established, || format!("userspace's connection is {state}"))?;

            lab.wire.set_plugged(Port::Userspace, false);
            drop(session);
            let expected =
                NetworkCounters { bad: listener.map_or(0, |_| sent()), ..NetworkCounters::default() };
            let at_least = before.plus(&expected);
            let after =
                lab.north.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }).await?;
            let kernel = after.since(&before);
            ensure(kernel == expected, || format!("the kernel has counted {kernel} instead of {expected}"))?;
            let answers = lab.wire.segments_from(Port::North) - answers_before;
            ensure(answers == 1, || format!("the kernel has answered {} times", answers - 1))?;
            if let Some(socket) = listener {
                lab.north.call(Close { socket }).await?;
            }
            add(&mut evidence, lab, family, &mkts, (kernel, counters))?;
            // The answer that was provoked.
            evidence.unsigned += 1;
        }
    }
    evidence.figures = "no answer, the connection stayed".to_owned();
    Ok(evidence)
}

/// Puts what has been counted and what has gone over the wire with the rest.
fn add(
    evidence: &mut Evidence,
    lab: &Lab,
    family: Family,
    mkts: &[Mkt],
    (kernel, userspace): (NetworkCounters, Counters),
) -> Result<(), Failure> {
    let recording = lab.wire.take_recording();
    let verdicts = verify(&recording, &[Keys { local: End::Userspace.address(family), mkts: mkts.to_vec() }]);
    ensure(verdicts.verified > 0, || format!("recording: {verdicts}"))?;
    evidence.counters.push(("kernel".to_owned(), kernel.to_string()));
    evidence.counters.push(("userspace".to_owned(), described(&userspace)));
    evidence.wire.add(verdicts);
    evidence.recording.append(recording);
    Ok(())
}

async fn forgotten_without_keys(lab: &Lab, forgetful: End) -> Result<Refusal, Failure> {
    let mut counted = Vec::new();
    for family in Family::ALL {
        let mut session = open(lab, family, End::Kernel, &[]).await?;
        let socket = session.ends.socket;
        match forgetful {
            End::Userspace => {
                let _both = start_anew(lab, session)?;
                kernel_sends(lab, socket).await?;
                has_reset_kernel(lab, socket).await?;
            }
            End::Kernel => {
                forget_at_kernel(lab, socket).await?;
                session.stream.write_all(&[0; 1000]).await?;
                has_reset_userspace(&mut session.stream).await?;
            }
        }
        counted.push((format!("resets ({})", family.name()), 1));
    }
    Ok(Refusal { counted })
}
