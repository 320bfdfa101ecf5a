//! A SYN to a port where nobody listens.

use agent::{Close, Connect, NetworkCounters};
use futures_util::FutureExt;
use wireseal_tcp_ao::{Counters, Endpoint, Isn, SocketPair};

use super::orderly::the_key;
use crate::failure::{Failure, ensure};
use crate::forge::Forgery;
use crate::guest::at;
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::rows::session::{End, Session, Setup, USERSPACE_PORT, described};
use crate::rows::{Evidence, Refusal, Row};
use crate::verify::{Keys, verify};
use crate::wire::Port;

/// A port of the kernel's that nobody listens on, and one of the userspace end's that nobody sends from.
const CLOSED_PORT: u16 = 4;
const FORGED_PORT: u16 = 5;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "closing-closed-port-userspace",
            "the kernel's signed SYN to a closed port of userspace, over both versions of IP: a signed reset, which the kernel \
             verifies; ECONNREFUSED at once",
            |lab| refused_by_userspace(lab).boxed_local(),
            "the reset is unsigned",
            |lab| refused_without_signature(lab).boxed_local(),
        ),
        Row::new(
            "closing-closed-port-kernel",
            "userspace's signed SYN to a closed port of the kernel, over both versions of IP: Linux has no key to sign a reset \
             with and sends nothing, though it answers to an unsigned SYN that comes after",
            |lab| unheard_by_kernel(lab).boxed_local(),
            "somebody listens there",
            |lab| heard_by_kernel(lab).boxed_local(),
        ),
    ]
}

async fn refused_by_userspace(lab: &Lab) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let setup = Setup::with_keys(family, End::Kernel, &[the_key()?]);
        let userspace = setup.userspace(lab)?;
        let socket = setup.kernel_socket(lab).await?;
        // The kernel has to ask where userspace is, so that the new stack there learns where the kernel is.
        lab.north.shell("ip neigh flush dev eth0").await?;
        let remote = at(End::Userspace.address(family), USERSPACE_PORT);
        let connected = lab.north.call(Connect { socket, remote, time_limit: TIME_LIMIT_MILLISECONDS }).await;
        let is_refused =
            matches!(&connected, Err(Failure(sentence)) if sentence.contains("Connection refused"));
        ensure(is_refused, || format!("the kernel's attempt ended with {connected:?}"))?;
        lab.north.call(Close { socket }).await?;

        let (kernel, counters) = (lab.north.counters().await?.since(&before), userspace.counters());
        ensure(kernel == NetworkCounters { good: 1, ..NetworkCounters::default() }, || {
            format!("the kernel has counted {kernel}")
        })?;
        ensure(counters == Counters { good: 1, ..Counters::default() }, || {
            format!("userspace has counted {}", described(&counters))
        })?;
        let recording = lab.wire.take_recording();
        let verdicts =
            verify(&recording, &[Keys { local: End::Userspace.address(family), mkts: setup.userspace }]);
        verdicts.check_all_verified()?;
        evidence.counters.push(("kernel".to_owned(), kernel.to_string()));
        evidence.counters.push(("userspace".to_owned(), described(&counters)));
        evidence.wire.add(verdicts);
        evidence.recording.append(recording);
    }
    evidence.figures = "one SYN, one reset each".to_owned();
    Ok(evidence)
}

/// The stack drops the signed SYN, as it has no key for it, and somebody answers in its place.
async fn refused_without_signature(lab: &Lab) -> Result<Refusal, Failure> {
    let family = Family::Ipv4;
    let before = lab.north.counters().await?;
    let setup = Setup { userspace: Vec::new(), ..Setup::with_keys(family, End::Kernel, &[the_key()?]) };
    let _userspace = setup.userspace(lab)?;
    let socket = setup.kernel_socket(lab).await?;
    let remote = at(End::Userspace.address(family), USERSPACE_PORT);
    let connect = lab.north.call(Connect { socket, remote, time_limit: TIME_LIMIT_MILLISECONDS });
    let counted = async {
        let syn = lab.wire.await_recorded("the SYN", |recording| {
            let segment = recording.segments_from(Port::North).next()?;
            Some((SocketPair { local: segment.destination(), remote: segment.source() }, segment.end()))
        });
        let (pair, end) = syn.await?;
        Forgery::refusal(pair, end).inject(&lab.wire)?;
        let required = NetworkCounters { ao_required: 1, ..NetworkCounters::default() };
        let at_least = before.plus(&required);
        lab.north.call(agent::AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }).await
    };
    let after = tokio::select! {
        after = counted => after?,
        connected = connect => return Err(Failure(format!("the kernel's attempt ended with {connected:?}"))),
    };
    lab.north.call(Close { socket }).await?;
    Ok(Refusal::by_kernel("kernel", &after.since(&before)))
}

async fn unheard_by_kernel(lab: &Lab) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let setup = Setup::with_keys(family, End::Userspace, &[the_key()?]);
        let userspace = setup.userspace(lab)?;
        let remote = at(End::Kernel.address(family), CLOSED_PORT);
        tokio::select! {
            answered = answered_after_syn(lab, family) => answered?,
            stream = userspace.connect(remote) => {
                return Err(Failure(format!("userspace's attempt ended with {:?}", stream.map(drop))));
            }
        }
        let kernel = lab.north.counters().await?.since(&before);
        ensure(kernel == NetworkCounters::default(), || format!("the kernel has counted {kernel}"))?;
        let counters = userspace.await_counters(|counters| counters.required > 0).await?;
        ensure(counters == Counters { required: 1, ..Counters::default() }, || {
            format!("userspace has counted {}", described(&counters))
        })?;
        drop(userspace);
        let recording = lab.wire.take_recording();
        let answers: Vec<_> =
            recording.segments_from(Port::North).map(|segment| segment.destination().port()).collect();
        ensure(answers == [FORGED_PORT], || format!("the kernel has answered to ports {answers:?}"))?;
        evidence.counters.push(("kernel".to_owned(), kernel.to_string()));
        evidence.counters.push(("userspace".to_owned(), described(&counters)));
        let verdicts =
            verify(&recording, &[Keys { local: End::Userspace.address(family), mkts: setup.userspace }]);
        ensure(verdicts.verified > 0, || format!("recording: {verdicts}"))?;
        evidence.wire.add(verdicts);
        // The answer that was provoked.
        evidence.unsigned += 1;
        evidence.recording.append(recording);
    }
    evidence.figures = "no answer to the signed SYN".to_owned();
    Ok(evidence)
}

/// Waits for the signed SYN, and for the answer to an unsigned one after it.
async fn answered_after_syn(lab: &Lab, family: Family) -> Result<(), Failure> {
    let closed = Endpoint::new(End::Kernel.address(family), CLOSED_PORT);
    let has_come = |recording: &Recording| {
        let mut frames =
            recording.frames.iter().filter(|frame| frame.from == Some(Port::Userspace) && !frame.is_lost);
        frames
            .any(|frame| frame.segment().is_some_and(|segment| segment.destination() == closed))
            .then_some(())
    };
    lab.wire.await_recorded("the signed SYN", has_come).await?;
    provoke_answer(lab, family).await
}

/// Sends the kernel an unsigned SYN for a closed port, and waits for the answer. The kernel takes in one segment after the
/// other, so that whatever came before has had its answer by then, if it has one. The answer is one more segment that
/// userspace counts as unsigned.
pub async fn provoke_answer(lab: &Lab, family: Family) -> Result<(), Failure> {
    let pair = SocketPair {
        local: Endpoint::new(End::Userspace.address(family), FORGED_PORT),
        remote: Endpoint::new(End::Kernel.address(family), CLOSED_PORT),
    };
    Forgery::syn(pair, Isn(1)).inject(&lab.wire)?;
    let is_answered = |recording: &Recording| {
        let mut answers = recording.segments_from(Port::North);
        answers.any(|segment| segment.destination() == pair.local && segment.flags().rst()).then_some(())
    };
    lab.wire.await_recorded("the answer to the unsigned SYN", is_answered).await
}

async fn heard_by_kernel(lab: &Lab) -> Result<Refusal, Failure> {
    let mut counted = Vec::new();
    for family in Family::ALL {
        let session = Session::open(lab, Setup::with_keys(family, End::Userspace, &[the_key()?])).await?;
        let good = session.ends.kernel_counted().await?.good;
        counted.push((format!("kernel: good ({})", family.name()), good));
    }
    Ok(Refusal { counted })
}
