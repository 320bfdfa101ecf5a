//! An end that closes, and one that resets: the other verifies it and takes note.

use agent::{Finish, NetworkCounters, Reset};
use futures_util::FutureExt;
use smoltcp::socket::tcp::State;
use tokio::io::AsyncWriteExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Flags, Mkt, MktSet, SocketPair};

use crate::failure::{Failure, ensure};
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::rows::refusals::{has_reset_kernel, has_reset_userspace};
use crate::rows::session::{Beside, End, Ends, Session, Setup, add, key, key_with};
use crate::rows::{Evidence, Refusal, Row};
use crate::userspace::finish;
use crate::wire::Port;

/// Octets each way of a transfer.
const SOME: u64 = 64 << 10;

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for closer in End::BOTH {
        rows.push(Row::new(
            format!("closing-fin-{}", closer.name()),
            format!(
                "the {} end closes first, over both versions of IP and whoever has opened",
                closer.name()
            ),
            move |lab| close_all(lab, closer).boxed_local(),
            format!("the {} end closes under a secret that the other does not have", closer.name()),
            move |lab| end_under_wrong_secret(lab, closer, Ending::Close).boxed_local(),
        ));
    }
    for resetter in End::BOTH {
        rows.push(Row::new(
            format!("closing-reset-{}", resetter.name()),
            format!("the {} end resets, over both versions of IP and whoever has opened", resetter.name()),
            move |lab| reset_all(lab, resetter).boxed_local(),
            format!("the {} end resets under a secret that the other does not have", resetter.name()),
            move |lab| end_under_wrong_secret(lab, resetter, Ending::Reset).boxed_local(),
        ));
    }
    rows
}

pub fn the_key() -> Result<Mkt, Failure> {
    key(1, TcpAoAlgorithm::Aes128Cmac)
}

async fn open(lab: &Lab, family: Family, opener: End) -> Result<Session<'_>, Failure> {
    let mut session = Session::open(lab, Setup::with_keys(family, opener, &[the_key()?])).await?;
    session.exchange(SOME, SOME).await?;
    session.ends.quiet().await?;
    Ok(session)
}

/// Waits until an end has sent a FIN, or a reset, that was not lost.
pub async fn has_sent(lab: &Lab, port: Port, ending: Ending) -> Result<(), Failure> {
    let sent = |recording: &Recording| {
        let mut frames = recording.frames.iter().filter(|frame| frame.from == Some(port) && !frame.is_lost);
        let ends = |flags: Flags| if ending == Ending::Close { flags.fin() } else { flags.rst() };
        frames.any(|frame| frame.segment().is_some_and(|segment| ends(segment.flags()))).then_some(())
    };
    lab.wire.await_recorded("the end of the connection", sent).await
}

/// Closes one end, and then the other.
pub async fn close_in_turn(session: &mut Session<'_>, closer: End) -> Result<(), Failure> {
    let Session { ends, stream, .. } = session;
    let lab = ends.lab;
    let by_kernel = lab.north.call(Finish { socket: ends.socket, time_limit: TIME_LIMIT_MILLISECONDS });
    match closer {
        End::Userspace => {
            stream.shutdown().await?;
            has_sent(lab, Port::Userspace, Ending::Close).await?;
            ends.quiet().await?;
            tokio::try_join!(finish(stream), by_kernel)?;
        }
        End::Kernel => {
            let by_userspace = async {
                has_sent(lab, Port::North, Ending::Close).await?;
                ends.quiet().await?;
                finish(stream).await
            };
            tokio::try_join!(by_userspace, by_kernel)?;
        }
    }
    Ok(())
}

async fn close_all(lab: &Lab, closer: End) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    let mut connections = 0;
    for family in Family::ALL {
        for opener in End::BOTH {
            let mut session = open(lab, family, opener).await?;
            close_in_turn(&mut session, closer).await?;
            let session = session.settle(Beside::default(), Beside::default()).await?;
            let fins =
                |port| session.recording.segments_from(port).filter(|segment| segment.flags().fin()).count();
            ensure(fins(Port::North) > 0 && fins(Port::Userspace) > 0, || {
                "an end has sent no FIN".to_owned()
            })?;
            let mut resets = session.recording.frames.iter().filter_map(|frame| frame.segment());
            ensure(!resets.any(|segment| segment.flags().rst()), || "an end has sent a reset".to_owned())?;
            add(&mut evidence, session);
            connections += 1;
        }
    }
    evidence.figures = format!("{connections} connections");
    Ok(evidence)
}

async fn reset_all(lab: &Lab, resetter: End) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    let mut resets = 0;
    for family in Family::ALL {
        for opener in End::BOTH {
            let mut session = open(lab, family, opener).await?;
            match resetter {
                End::Userspace => {
                    session.stream.abort();
                    has_reset_kernel(lab, session.ends.socket).await?;
                }
                End::Kernel => {
                    lab.north.call(Reset { socket: session.ends.socket }).await?;
                    has_reset_userspace(&mut session.stream).await?;
                }
            }
            let session = session.settle(Beside::default(), Beside::default()).await?;
            let segments = session.recording.segments_from(resetter.port());
            let sent = segments.filter(|segment| segment.flags().rst()).count();
            ensure(sent > 0, || "there was no reset".to_owned())?;
            resets += sent;
            add(&mut evidence, session);
        }
    }
    evidence.figures = format!("{resets} resets, each verified and heard");
    Ok(evidence)
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// By FINs.
    Close,
    /// By a reset.
    Reset,
}

/// Gives the userspace end another secret under the same ids.
pub fn spoil(ends: &Ends<'_>) -> Result<(), Failure> {
    let other = key_with(1, TcpAoAlgorithm::Aes128Cmac, "another secret of key 1, 32 octets")?;
    let mkts = MktSet::from_mkts([other])?;
    Ok(ends.connection(|connection| connection.replace_keys(&mkts))??)
}

/// The other end counts it bad, and does not take it for the end.
async fn end_under_wrong_secret(lab: &Lab, ender: End, ending: Ending) -> Result<Refusal, Failure> {
    let mut session = open(lab, Family::Ipv4, End::Userspace).await?;
    spoil(&session.ends)?;
    let Session { ends, stream, .. } = &mut session;
    match ender {
        End::Userspace => {
            match ending {
                Ending::Close => stream.shutdown().await?,
                Ending::Reset => stream.abort(),
            }
            let bad = NetworkCounters { bad: 1, ..NetworkCounters::default() };
            let counted = ends.await_kernel_counted(bad).await?;
            ensure(is_established(lab, ends.pair).await?, || "the kernel's connection has ended".to_owned())?;
            Ok(Refusal::by_kernel("kernel", &counted))
        }
        End::Kernel => {
            let bad = ends.userspace.await_counters(|counters| counters.bad > 0);
            let (socket, time_limit) = (ends.socket, TIME_LIMIT_MILLISECONDS);
            let counters = match ending {
                Ending::Close => tokio::select! {
                    counters = bad => counters?,
                    finished = lab.north.call(Finish { socket, time_limit }) => {
                        return Err(Failure(format!("the kernel's attempt to close ended with {finished:?}")));
                    }
                },
                Ending::Reset => {
                    lab.north.call(Reset { socket }).await?;
                    bad.await?
                }
            };
            has_sent(lab, Port::North, ending).await?;
            let state = stream.state();
            ensure(state == State::Established, || format!("userspace's connection is {state}"))?;
            Ok(Refusal::by_userspace("bad", counters.bad))
        }
    }
}

/// Whether the kernel's end of a connection, which userspace sees as `pair`, is established.
pub async fn is_established(lab: &Lab, pair: SocketPair) -> Result<bool, Failure> {
    Ok(kernel_state(lab, pair).await? == Some(ESTABLISHED))
}

/// States of TCP as `/proc/net/tcp` has them (`include/net/tcp_states.h`).
const ESTABLISHED: u8 = 1;
/// After both FINs, at the end that has sent the first.
pub const TIME_WAIT: u8 = 6;
/// After both FINs, at the end that has sent the last, which is not yet acknowledged.
pub const LAST_ACK: u8 = 9;

/// The state of the kernel's end of a connection, or of what is left of it.
pub async fn kernel_state(lab: &Lab, pair: SocketPair) -> Result<Option<u8>, Failure> {
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
