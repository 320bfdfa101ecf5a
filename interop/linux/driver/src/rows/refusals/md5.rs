//! TCP-MD5 SYNs to an end that has a TCP-AO key.

use agent::{Accept, Close, Connect, Counted, Listen, SetMd5Key};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::Segment;
use wireseal_tcp_ao::option::kind;

use super::syn::{check_listener, check_unanswered};
use crate::guest::Guest;
use crate::prelude::*;
use crate::rows::kernels::{north_keys, open_socket};
use crate::rows::session::{End, Setup, USERSPACE_PORT, key, key_with};
use crate::verify::Verdicts;

/// The secret of the TCP-MD5 keys.
const SECRET: &str = "secret of TCP-MD5";
/// The port of a listener in the first guest, which the second guest connects to.
const KERNEL_PORT: u16 = 1790;

pub fn rows() -> Vec<Row> {
    let row = |listener: End| {
        Row::new(
            format!("refusals-md5-syn-{listener}-listens"),
            format!("TCP-MD5 SYNs over both versions of IP to the {listener} end, which has a TCP-AO key"),
            async move |lab| refuse(lab, listener).await,
            "the listener has a TCP-MD5 key, or is unprotected",
            async move |lab| accepted(lab, listener).await,
        )
    };
    End::BOTH.map(row).into()
}

/// A socket of the guest's with a TCP-MD5 key for the peer at `remote`, bound.
async fn md5_socket(guest: &Guest, remote: Port, family: Family, port: u16) -> Result<u64> {
    let socket = open_socket(guest, family, port, Vec::new()).await?;
    let remote = remote.address(family).into();
    guest.call(SetMd5Key { socket, remote, secret: SECRET.to_owned() }).await?;
    Ok(socket)
}

fn has_md5_option(segment: &Segment<'_>) -> bool {
    segment.options().any(|option| option.is_ok_and(|option| option.kind == kind::MD5_SIGNATURE))
}

async fn refuse(lab: &Lab, listener: End) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut counted = Vec::new();
    for family in Family::ALL {
        lab.clear().await?;
        let (by_listener, opener) = match listener {
            End::Kernel => (refused_by_kernel(lab, family).await?, Port::South),
            End::Userspace => (refused_by_userspace(lab, family).await?, Port::North),
        };
        let recording = lab.wire.take_recording();
        let sent = check_unanswered(&recording, opener, listener.port())?;
        ensure!(
            recording.segments_from(opener).all(|syn| has_md5_option(&syn)),
            "a SYN has no TCP-MD5 option"
        );
        let counts = if listener == End::Kernel { Counted::md5_unexpected } else { Counted::required };
        ensure!(by_listener == counts(sent), "counted {by_listener} for {sent} SYNs");
        evidence.unsigned += sent;
        counted.push(by_listener.to_string());
        evidence.wire.add(Verdicts { unsigned: sent, ..Verdicts::default() });
        evidence.recording.frames.extend(recording.frames);
    }
    evidence.counters = vec![(listener.to_string(), counted.join(" (IPv4), ") + " (IPv6)")];
    let syns = evidence.unsigned;
    Ok(evidence.with_figures(format!("{syns} SYNs, no answer")))
}

async fn refused_by_kernel(lab: &Lab, family: Family) -> Result<Counted> {
    let south = lab.south().await?;
    let before = lab.north.counters().await?;
    let keys = north_keys(family, &[key_with(1, TcpAoAlgorithm::HmacSha1, SECRET)?])?;
    let listener = open_socket(&lab.north, family, KERNEL_PORT, keys).await?;
    lab.north.call(Listen { socket: listener }).await?;
    let socket = md5_socket(south, Port::North, family, 0).await?;
    let connect = south.call(Connect { socket, remote: Port::North.at(family, KERNEL_PORT) });
    refused(lab.north.await_counted(&before, Counted::md5_unexpected(1)), connect).await?;
    south.call(Close { socket }).await?;
    let syns = lab.wire.segments_from(Port::South);
    let counted = lab.north.await_counted(&before, Counted::md5_unexpected(syns)).await?;
    // TCP-MD5's counters are not a socket's.
    check_listener(lab, listener, true, Counted::default()).await?;
    Ok(counted)
}

async fn refused_by_userspace(lab: &Lab, family: Family) -> Result<Counted> {
    let mkt = key(1, TcpAoAlgorithm::HmacSha1)?;
    let setup = Setup { family, opener: End::Kernel, userspace: vec![mkt], kernel: Vec::new(), number: 0 };
    let userspace = setup.userspace(lab)?;
    let socket = md5_socket(&lab.north, Port::Userspace, family, 0).await?;
    setup.until_refused(lab, &userspace, socket, userspace.await_counted(Counted::required(1))).await?;
    lab.north.call(Close { socket }).await?;
    userspace.await_counted(Counted::required(lab.wire.segments_from(Port::North))).await
}

/// With TCP-MD5 at the kernel's listener too, or with nothing at the userspace one, which then answers, the SYN is heard.
async fn accepted(lab: &Lab, listener: End) -> Result<Refusal> {
    let family = Family::Ipv4;
    match listener {
        End::Kernel => {
            let south = lab.south().await?;
            let listener = md5_socket(&lab.north, Port::South, family, KERNEL_PORT).await?;
            lab.north.call(Listen { socket: listener }).await?;
            let socket = md5_socket(south, Port::North, family, 0).await?;
            let connect = south.call(Connect { socket, remote: Port::North.at(family, KERNEL_PORT) });
            tokio::try_join!(lab.north.call(Accept { socket: listener }), connect)?;
        }
        End::Userspace => {
            let setup =
                Setup { family, opener: End::Kernel, userspace: Vec::new(), kernel: Vec::new(), number: 0 };
            let userspace = setup.userspace(lab)?;
            let _listener = userspace.stack.listen(None, USERSPACE_PORT)?;
            let socket = md5_socket(&lab.north, Port::Userspace, family, 0).await?;
            let answer = lab.wire.await_recorded("an answer", |recording| {
                let mut answers = recording.segments_from(Port::Userspace);
                answers.any(|segment| segment.flags().syn() && segment.flags().ack()).then_some(())
            });
            // The answer is unsigned, and so refused.
            refused(answer, lab.north.call(Connect { socket, remote: setup.userspace_listens_at() })).await?;
        }
    }
    Ok(Refusal::of(format!("answered by {listener}"), 1))
}
