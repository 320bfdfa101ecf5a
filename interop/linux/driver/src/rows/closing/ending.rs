//! How an end is made to close, and how far its connection is.

use agent::Finish;
use tokio::io::AsyncWriteExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Endpoint, Flags, Isn, Mkt, MktSet, SocketPair};

use crate::forge::inject;
use crate::prelude::*;
use crate::rows::session::{End, Ends, Session, key, key_with};
use crate::userspace::finish;

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

/// Sends the kernel an unsigned SYN for a closed port, and waits for the answer. The kernel takes in one segment after the
/// other, so whatever came before has had its answer by then. Userspace counts this answer as unsigned.
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
