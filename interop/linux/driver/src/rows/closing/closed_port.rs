//! A SYN to a port without a listener.

use agent::{Connect, Counted};
use speaker::forge::Forgery;
use wireseal_tcp_ao::{Endpoint, SocketPair};

use super::ending::{CLOSED_PORT, FORGED_PORT, provoke_answer, the_key};
use crate::forge::inject;
use crate::prelude::*;
use crate::rows::session::{End, Session, Setup, evidence as gathered};

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "closing-closed-port-userspace",
            "the kernel's signed SYN to a closed port of userspace, over both versions of IP: a signed reset, which the kernel \
             verifies; ECONNREFUSED at once",
            refused_by_userspace,
            "the reset is unsigned",
            refused_without_signature,
        ),
        Row::new(
            "closing-closed-port-kernel",
            "userspace's signed SYN to a closed port of the kernel, over both versions of IP: Linux has no key to sign a reset \
             with and sends nothing, though it answers to an unsigned SYN that comes after",
            unheard_by_kernel,
            "the port has a listener",
            heard_by_kernel,
        ),
    ]
}

async fn refused_by_userspace(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let setup = Setup::with_keys(family, End::Kernel, &[the_key()?]);
        let userspace = setup.userspace(lab)?;
        let socket = setup.kernel_socket(lab).await?;
        // The kernel has to ask where userspace is, so that the new stack there learns where the kernel is.
        lab.north.shell("ip neigh flush dev eth0").await?;
        let remote = setup.userspace_listens_at();
        let connected = lab.north.call(Connect { socket, remote }).await;
        let is_refused = matches!(&connected, Err(error) if error.to_string().contains("Connection refused"));
        ensure!(is_refused, "the kernel's attempt ended with {connected:?}");

        let kernel = lab.north.counters().await?.since(&before).check("the kernel", &Counted::good(1))?;
        let counters = userspace.counters().check("userspace", &Counted::good(1))?;
        let connection = gathered(lab, &setup.userspace, [counters, kernel])?;
        connection.wire.check_all_verified()?;
        evidence.add(connection);
    }
    Ok(evidence.with_figures("one SYN, one reset each"))
}

/// The stack drops the signed SYN, because it has no key for it, and a forged reset answers instead.
async fn refused_without_signature(lab: &Lab) -> Result<Refusal> {
    let family = Family::Ipv4;
    let before = lab.north.counters().await?;
    let setup = Setup { userspace: Vec::new(), ..Setup::with_keys(family, End::Kernel, &[the_key()?]) };
    let _userspace = setup.userspace(lab)?;
    let socket = setup.kernel_socket(lab).await?;
    let remote = setup.userspace_listens_at();
    let connect = lab.north.call(Connect { socket, remote });
    let counted = async {
        let syn = lab.wire.await_recorded("the SYN", |recording| {
            let segment = recording.segments_from(Port::North).next()?;
            Some((SocketPair { local: segment.destination(), remote: segment.source() }, segment.end()))
        });
        let (pair, end) = syn.await?;
        inject(&lab.wire, pair, &Forgery::refusal(pair, end).unsigned()?)?;
        lab.north.await_counted(&before, Counted::required(1)).await
    };
    Ok(Refusal::by("kernel", &refused(counted, connect).await?))
}

async fn unheard_by_kernel(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let setup = Setup::with_keys(family, End::Userspace, &[the_key()?]);
        let userspace = setup.userspace(lab)?;
        let remote = Port::North.at(family, CLOSED_PORT);
        refused(answered_after_syn(lab, family), userspace.connect(remote)).await?;
        let kernel = lab.north.counters().await?.since(&before).check("the kernel", &Counted::default())?;
        let required = Counted::required(1);
        let counters = userspace.await_counted(required).await?.check("userspace", &required)?;
        drop(userspace);
        let connection = gathered(lab, &setup.userspace, [counters, kernel])?;
        let answers = connection.recording.segments_from(Port::North);
        let answers: Vec<_> = answers.map(|segment| segment.destination().port()).collect();
        ensure!(answers == [FORGED_PORT], "the kernel has answered to ports {answers:?}");
        evidence.add(connection);
        // The answer that was provoked.
        evidence.unsigned += 1;
    }
    Ok(evidence.with_figures("no answer to the signed SYN"))
}

/// Waits for the signed SYN, and for the answer to an unsigned one after it.
async fn answered_after_syn(lab: &Lab, family: Family) -> Result<()> {
    let closed = Endpoint::new(End::Kernel.address(family), CLOSED_PORT);
    let has_come = |recording: &Recording| {
        let mut segments = recording.delivered_from(Port::Userspace);
        segments.any(|segment| segment.destination() == closed).then_some(())
    };
    lab.wire.await_recorded("the signed SYN", has_come).await?;
    provoke_answer(lab, family).await
}

async fn heard_by_kernel(lab: &Lab) -> Result<Refusal> {
    let mut counted = Vec::new();
    for family in Family::ALL {
        let session = Session::open(lab, Setup::with_keys(family, End::Userspace, &[the_key()?])).await?;
        let good = session.ends.kernel_counted().await?.good;
        counted.push((format!("kernel: good ({family})"), good));
    }
    Ok(Refusal { counted })
}
