//! Resets that Linux sends without being asked: for connections that nobody has accepted, and in reply to what comes too late.

use std::rc::Rc;

use agent::{Close, Counted, Listen};
use smoltcp::socket::tcp::State;
use tokio::io::AsyncWriteExt;

use super::closing::{Ending, STATE_CHECK, has_sent, spoil, the_key};
use crate::row::prelude::*;
use crate::rows::session::{End, Session, Setup};
use crate::wait::becomes;

/// Connections in the accept queue.
const QUEUED: u16 = 2;
/// What userspace sends too late.
const LATE: [u8; 100] = [0; 100];

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "closing-reset-accept-queue",
            format!(
                "the kernel's listener is closed, over both versions of IP, with {QUEUED} connections that nobody has accepted: a \
                 signed reset for each, which userspace verifies"
            ),
            reset_unaccepted,
            "userspace has another secret by then: it counts the reset and stays connected",
            refuse_reset_of_unaccepted,
        ),
        Row::new(
            "closing-reset-time-wait",
            "the kernel's program has closed, over both versions of IP, and the kernel has only TIME-WAIT's small socket left; \
             userspace sends more data: a signed reset, which userspace verifies",
            reset_late_data,
            "userspace has another secret by then: it counts the reset and stays connected",
            refuse_reset_of_late_data,
        ),
    ]
}

/// Connections to a listener of the kernel's, which is the socket of each session.
async fn open_unaccepted(lab: &Lab, family: Family) -> Result<Vec<Session<'_>>> {
    lab.clear().await?;
    let before = lab.north.counters().await?;
    let setup = Setup::with_keys(family, End::Userspace, &[the_key()?]);
    let userspace = Rc::new(setup.userspace(lab)?);
    let socket = setup.kernel_socket(lab).await?;
    let port = lab.north.call(Listen { socket }).await?.port();
    let mut sessions = Vec::new();
    for number in 0..QUEUED {
        let stream = userspace.connect(End::Kernel.port().at(family, port)).await?;
        let setup = Setup { number, ..setup.clone() };
        sessions.push(Session::established(
            lab,
            setup,
            before,
            Rc::clone(&userspace),
            stream,
            (socket, None),
        )?);
    }
    // The last segments of the handshakes have arrived.
    lab.take_in(Port::North).await?;
    Ok(sessions)
}

fn resets(recording: &Recording) -> usize {
    recording.segments_from(End::Kernel.port()).filter(|segment| segment.flags().rst()).count()
}

async fn reset_unaccepted(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut sent = 0;
    for family in Family::ALL {
        let mut sessions = open_unaccepted(lab, family).await?;
        lab.north.call(Close { socket: sessions[0].ends.socket }).await?;
        for session in &mut sessions {
            session.await_reset(End::Userspace).await?;
        }
        let last = sessions.pop().context("there are no connections")?;
        drop(sessions);
        // The counters are of all connections together.
        let session = last.settle().await?;
        let resets = resets(&session.recording);
        ensure!(resets == usize::from(QUEUED), "the kernel has sent {resets} resets");
        sent += resets;
        evidence.add(session);
    }
    Ok(evidence.with_figures(format!("{sent} resets, each verified and heard")))
}

/// Waits until userspace has refused a reset of the kernel's, and checks that it is still in this state.
async fn refuse_reset(session: &Session<'_>, state: State) -> Result<Refusal> {
    let counted = session.ends.userspace.await_counted(Counted::bad(1)).await?;
    has_sent(session.ends.lab, End::Kernel, Ending::Reset).await?;
    ensure!(session.stream.state() == state, "userspace's connection is {}", session.stream.state());
    Ok(Refusal::by("userspace", &counted))
}

async fn refuse_reset_of_unaccepted(lab: &Lab) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for family in Family::ALL {
        let sessions = open_unaccepted(lab, family).await?;
        let session = &sessions[0];
        spoil(&session.ends)?;
        lab.north.call(Close { socket: session.ends.socket }).await?;
        refusal = refusal.and(refuse_reset(session, State::Established).await?);
    }
    Ok(refusal)
}

/// A connection that the kernel's program has closed, and userspace has not. The kernel has replaced its socket by a small one, which
/// `/proc/net/tcp` shows with a timer of kind 3.
async fn open_closed_by_kernel(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let setup = Setup::with_keys(family, End::Userspace, &[the_key()?]);
    let session = Session::open_used(lab, setup).await?;
    // Linux keeps the socket for a minute if the FIN is acknowledged in the middle of the program's call.
    lab.wire.lose(|from, _| from == Port::Userspace);
    lab.north.call(Close { socket: session.ends.socket }).await?;
    lab.wire.reset();
    let pair = session.ends.pair;
    let small_sockets = format!(
        "awk '$2 ~ /:{:04X}$/ && $3 ~ /:{:04X}$/ && $6 ~ /^03:/' /proc/net/tcp /proc/net/tcp6",
        pair.remote.port(),
        pair.local.port()
    );
    let is_small = async || Ok(!lab.north.shell(&small_sockets).await?.is_empty());
    ensure!(becomes(STATE_CHECK, is_small).await?, "the kernel keeps its socket");
    session.ends.quiet().await?;
    Ok(session)
}

async fn reset_late_data(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut sent = 0;
    for family in Family::ALL {
        let mut session = open_closed_by_kernel(lab, family).await?;
        let before = lab.wire.segments_from(Port::Userspace);
        session.stream.write_all(&LATE).await?;
        // Reading would give the end of the stream. Only a reset ends a connection that userspace has not closed.
        let is_closed = becomes(STATE_CHECK, async || Ok(session.stream.state() == State::Closed)).await?;
        ensure!(is_closed, "userspace's connection is {}", session.stream.state());
        // Linux verifies and counts nothing in TIME-WAIT.
        session.ends.not_good[1] = lab.wire.segments_from(Port::Userspace) - before;
        let session = session.settle().await?;
        let resets = resets(&session.recording);
        ensure!(resets > 0, "the kernel has sent no reset");
        sent += resets;
        evidence.add(session);
    }
    Ok(evidence.with_figures(format!("{sent} resets, each verified and heard")))
}

async fn refuse_reset_of_late_data(lab: &Lab) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for family in Family::ALL {
        let mut session = open_closed_by_kernel(lab, family).await?;
        spoil(&session.ends)?;
        session.stream.write_all(&LATE).await?;
        refusal = refusal.and(refuse_reset(&session, State::CloseWait).await?);
    }
    Ok(refusal)
}
