//! How connections end: in order, by a reset, in TIME-WAIT, and at a closed port.

use std::time::Duration;

use agent::{Connect, Counted, Finish, Reset};
use smoltcp::socket::tcp::State;
use speaker::forge::Forgery;
use tokio::io::AsyncWriteExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Endpoint, Flags, Isn, Mkt, MktSet, SocketPair};

use crate::row::prelude::*;
use crate::rows::session::{
    End, Ends, Session, Setup, evidence as gathered, families_and_ends, key, key_with,
};
use crate::userspace::finish;
use crate::wait::becomes;
use crate::wire::inject;

/// States of TCP as `/proc/net/tcp` has them (`include/net/tcp_states.h`).
const ESTABLISHED: u8 = 1;
pub const TIME_WAIT: u8 = 6;
pub const LAST_ACK: u8 = 9;
/// A port of the kernel's with no listener, and one of userspace's with no socket.
pub const CLOSED_PORT: u16 = 4;
pub const FORGED_PORT: u16 = 5;

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// By FINs.
    Close,
    /// By a reset.
    Reset,
}

pub fn the_key() -> Result<Mkt> {
    key(1, TcpAoAlgorithm::Aes128Cmac)
}

/// Gives the userspace end another secret under the same ids.
pub fn spoil(ends: &Ends<'_>) -> Result<()> {
    let other = key_with(1, TcpAoAlgorithm::Aes128Cmac, "another secret of key 1, 32 octets")?;
    let mkts = MktSet::from_mkts([other])?;
    Ok(ends.connection(|connection| connection.replace_keys(&mkts))??)
}

/// Waits until an end has sent a FIN, or a reset, that was not lost.
pub async fn has_sent(lab: &Lab, end: End, ending: Ending) -> Result<()> {
    let ends = |flags: Flags| if ending == Ending::Close { flags.fin() } else { flags.rst() };
    let sent = |recording: &Recording| {
        recording.delivered_from(end.port()).any(|segment| ends(segment.flags())).then_some(())
    };
    lab.wire.await_recorded("the end of the connection", sent).await
}

/// Closes one end, and then the other.
pub async fn close_in_turn(session: &mut Session<'_>, closer: End) -> Result<()> {
    let Session { ends, stream, .. } = session;
    let by_kernel = ends.lab.north.call(Finish { socket: ends.socket });
    match closer {
        End::Userspace => {
            stream.shutdown().await?;
            has_sent(ends.lab, closer, Ending::Close).await?;
            ends.quiet().await?;
            tokio::try_join!(finish(stream), by_kernel)?;
        }
        End::Kernel => {
            let by_userspace = async {
                has_sent(ends.lab, closer, Ending::Close).await?;
                ends.quiet().await?;
                finish(stream).await
            };
            tokio::try_join!(by_userspace, by_kernel)?;
        }
    }
    Ok(())
}

/// Sends the kernel an unsigned SYN for a closed port, and waits for the answer. The kernel processes segments one after the other,
/// so it has answered everything before by then. Userspace counts this answer as unsigned.
pub async fn provoke_answer(lab: &Lab, family: Family) -> Result<()> {
    let pair = SocketPair {
        local: Endpoint::new(End::Userspace.address(family), FORGED_PORT),
        remote: Endpoint::new(End::Kernel.address(family), CLOSED_PORT),
    };
    inject(&lab.wire, pair, &speaker::forge::Forgery::syn(pair, Isn(1)).unsigned()?)?;
    let is_answered = |recording: &Recording| {
        let mut answers = recording.segments_from(End::Kernel.port());
        answers.any(|segment| segment.destination() == pair.local && segment.flags().rst()).then_some(())
    };
    lab.wire.await_recorded("the answer to the unsigned SYN", is_answered).await
}

/// Whether the kernel's end of a connection, which userspace sees as `pair`, is established.
pub async fn is_established(lab: &Lab, pair: SocketPair) -> Result<bool> {
    Ok(kernel_state(lab, pair).await? == Some(ESTABLISHED))
}

/// The state of the kernel's end of a connection, or of what is left of it.
pub async fn kernel_state(lab: &Lab, pair: SocketPair) -> Result<Option<u8>> {
    let ports = [pair.remote.port(), pair.local.port()].map(|port| format!(":{port:04X}"));
    let sockets = lab.north.shell("cat /proc/net/tcp /proc/net/tcp6").await?;
    let state = sockets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, ..] = fields.as_slice() else { return None };
        let is_wanted = local.ends_with(&ports[0]) && remote.ends_with(&ports[1]);
        is_wanted.then(|| u8::from_str_radix(state, 16).ok()).flatten()
    });
    Ok(state)
}

pub fn orderly() -> Vec<Row> {
    let row = |name: &str, what: &str, twin: &str, ending: Ending, end: End| {
        Row::new(
            format!("closing-{name}-{end}"),
            format!("the {end} end {what}, over both versions of IP and whichever end has opened"),
            async move |lab| end_all(lab, end, ending).await,
            format!("the {end} end {twin} under a secret that the other does not have"),
            async move |lab| end_under_wrong_secret(lab, end, ending).await,
        )
    };
    let fin = End::BOTH.map(|end| row("fin", "closes first", "closes", Ending::Close, end));
    let reset = End::BOTH.map(|end| row("reset", "resets", "resets", Ending::Reset, end));
    fin.into_iter().chain(reset).collect()
}

async fn end_all(lab: &Lab, end: End, ending: Ending) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let (mut connections, mut resets) = (0, 0);
    for (family, opener) in families_and_ends() {
        let mut session = Session::open_used(lab, Setup::with_keys(family, opener, &[the_key()?])).await?;
        match (ending, end) {
            (Ending::Close, _) => close_in_turn(&mut session, end).await?,
            (Ending::Reset, End::Userspace) => session.stream.abort(),
            (Ending::Reset, End::Kernel) => lab.north.call(Reset { socket: session.ends.socket }).await?,
        }
        if ending == Ending::Reset {
            session.await_reset(end.other()).await?;
        }
        let session = session.settle().await?;
        let sent_by = |end: End| session.recording.segments_from(end.port());
        let all_resets = || session.recording.segments().filter(|segment| segment.flags().rst()).count();
        match ending {
            Ending::Close => {
                let has_fin = |end| sent_by(end).any(|segment| segment.flags().fin());
                ensure!(End::BOTH.into_iter().all(has_fin), "an end has sent no FIN");
                ensure!(all_resets() == 0, "an end has sent a reset");
            }
            Ending::Reset => {
                let sent = sent_by(end).filter(|segment| segment.flags().rst()).count();
                ensure!(sent > 0, "there was no reset");
                resets += sent;
            }
        }
        evidence.add(session);
        connections += 1;
    }
    Ok(evidence.with_figures(match ending {
        Ending::Close => format!("{connections} connections"),
        Ending::Reset => format!("{resets} resets, each verified and heard"),
    }))
}

/// The other end counts it bad and keeps the connection.
async fn end_under_wrong_secret(lab: &Lab, ender: End, ending: Ending) -> Result<Refusal> {
    let setup = Setup::with_keys(Family::Ipv4, End::Userspace, &[the_key()?]);
    let mut session = Session::open_used(lab, setup).await?;
    spoil(&session.ends)?;
    let Session { ends, stream, .. } = &mut session;
    match ender {
        End::Userspace => {
            match ending {
                Ending::Close => stream.shutdown().await?,
                Ending::Reset => stream.abort(),
            }
            let counted = ends.await_kernel_counted(Counted::bad(1)).await?;
            ensure!(is_established(lab, ends.pair).await?, "the kernel's connection has ended");
            Ok(Refusal::by("kernel", &counted))
        }
        End::Kernel => {
            let bad = ends.userspace.await_counted(Counted::bad(1));
            let socket = ends.socket;
            let counted = match ending {
                Ending::Close => refused(bad, lab.north.call(Finish { socket })).await?,
                Ending::Reset => {
                    lab.north.call(Reset { socket }).await?;
                    bad.await?
                }
            };
            has_sent(lab, ender, ending).await?;
            let state = stream.state();
            ensure!(state == State::Established, "userspace's connection is {state}");
            Ok(Refusal::by("userspace", &counted))
        }
    }
}

/// How often to check an end's state.
pub const STATE_CHECK: Duration = Duration::from_millis(10);

pub fn time_wait() -> Vec<Row> {
    let row = |waiter: End| {
        Row::new(
            format!("closing-time-wait-{waiter}"),
            format!(
                "the {waiter} end is in TIME-WAIT, over both versions of IP; its last acknowledgment is lost, the other's FIN \
                 comes again and is answered, signed"
            ),
            async move |lab| wait_all(lab, waiter).await,
            "userspace has another secret by then",
            async move |lab| wait_with_wrong_secret(lab, waiter).await,
        )
    };
    End::BOTH.map(row).into()
}

/// Loses what the end at `waiter` sends after the other's FIN, until that FIN is repeated.
fn lose_last_acknowledgment(lab: &Lab, waiter: Port) {
    let mut fins = 0;
    lab.wire.lose(move |from, segment| {
        fins += u32::from(from != waiter && segment.flags().fin());
        from == waiter && fins == 1
    });
}

/// FINs of an end that were not lost.
fn fins(recording: &Recording, port: Port) -> usize {
    recording.delivered_from(port).filter(|segment| segment.flags().fin()).count()
}

/// Closes the waiter's end first. Returns when the other has closed too and its FIN is unacknowledged.
async fn close_unacknowledged(session: &mut Session<'_>, waiter: End) -> Result<()> {
    lose_last_acknowledgment(session.ends.lab, waiter.port());
    close_in_turn(session, waiter).await
}

/// A connection whose kernel retransmits after at most a second: a slow guest must repeat its FIN while userspace is in TIME-WAIT, which
/// lasts 10 s.
async fn open_used(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let limit = "/proc/sys/net/ipv4/tcp_rto_max_ms";
    let usual = lab.north.shell(&format!("cat {limit} && echo 1000 >{limit}")).await?;
    let session = Session::open_used(lab, Setup::with_keys(family, End::Userspace, &[the_key()?])).await;
    lab.north.shell(&format!("echo {} >{limit}", usual.trim())).await?;
    session
}

/// Whether the waiter has answered a repeated FIN with an acknowledgment, and with no reset.
fn has_answered(recording: &Recording, waiter: Port, other: Port) -> bool {
    let mut fins = 0;
    let mut has_acknowledged = false;
    let mut end = None;
    for frame in recording.frames.iter().filter(|frame| !frame.is_lost) {
        let Some(segment) = frame.segment() else { continue };
        if frame.from == Some(other) && segment.flags().fin() {
            fins += 1;
            end = Some(segment.end());
        } else if frame.from == Some(waiter) && fins > 1 {
            if segment.flags().rst() {
                return false;
            }
            has_acknowledged |= segment.flags().ack() && Some(segment.acknowledgment()) == end;
        }
    }
    has_acknowledged
}

async fn wait_all(lab: &Lab, waiter: End) -> Result<Evidence> {
    let other = waiter.other();
    let mut evidence = Evidence::default();
    let mut again = 0;
    for family in Family::ALL {
        let mut session = open_used(lab, family).await?;
        close_unacknowledged(&mut session, waiter).await?;
        lab.wire
            .await_recorded("the FIN again", |recording| (fins(recording, other.port()) > 1).then_some(()))
            .await?;
        await_end(&session, waiter).await?;
        lab.wire.reset();
        ensure!(
            lab.wire.look(|recording| has_answered(recording, waiter.port(), other.port())),
            "the FIN again is not answered"
        );
        let fins = lab.wire.look(|recording| fins(recording, other.port())) as u64 - 1;
        again += fins;
        // Linux verifies and counts nothing in TIME-WAIT.
        session.ends.not_good[1] = if waiter == End::Kernel { fins } else { 0 };
        evidence.add(session.settle().await?);
    }
    Ok(evidence.with_figures(format!("{again} FINs again, each answered")))
}

/// Waits until the waiter is in TIME-WAIT and the other has received the acknowledgment of its FIN. Userspace's TIME-WAIT may have ended
/// before the driver notices.
async fn await_end(session: &Session<'_>, waiter: End) -> Result<()> {
    let ends = &session.ends;
    let state = || session.stream.state();
    let has_ended = async || {
        let kernel = kernel_state(ends.lab, ends.pair).await?;
        Ok(match waiter {
            End::Kernel => kernel == Some(TIME_WAIT) && state() == State::Closed,
            End::Userspace => kernel.is_none() && matches!(state(), State::TimeWait | State::Closed),
        })
    };
    let has_ended = becomes(STATE_CHECK, has_ended).await?;
    ensure!(has_ended, "the end never comes; userspace is in state {}", state());
    Ok(())
}

/// The verifying end counts the repeated FIN, or the answer to it, bad.
async fn wait_with_wrong_secret(lab: &Lab, waiter: End) -> Result<Refusal> {
    let mut session = open_used(lab, Family::Ipv4).await?;
    close_unacknowledged(&mut session, waiter).await?;
    spoil(&session.ends)?;
    let counters = session.ends.userspace.await_counted(Counted::bad(1)).await?;
    match waiter {
        // Linux answers a FIN that does not verify, but userspace refuses the answer.
        End::Kernel => {
            let state = session.stream.state();
            ensure!(state == State::LastAck, "userspace is in state {state}");
        }
        End::Userspace => {
            let state = kernel_state(lab, session.ends.pair).await?;
            ensure!(state == Some(LAST_ACK), "the kernel's connection is in state {state:?}");
        }
    }
    session.ends.kernel_counted().await?.check_good("the kernel")?;
    Ok(Refusal::by("userspace", &counters))
}

pub fn closed_port() -> Vec<Row> {
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
        // Makes the kernel ask for userspace's address, from which the new stack learns the kernel's.
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
