//! A listener that listened before it had keys, as one that is inherited does.

use agent::{Accept, AcceptManaged, Amount, Attach, Detach, Listen, Manage, NewManager, Transfer};
use tokio::io::AsyncWriteExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::Key;
use wireseal_tcp_ao::Mkt;

use super::managed::chain;
use crate::prelude::*;
use crate::rows::kernels::open_socket;
use crate::rows::session::{End, SOME, Session, Setup, key};

const FAMILY: Family = Family::Ipv4;
/// What the caller without keys sends.
const UNSIGNED: Amount = Amount::of(64);

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "reset-before-accept",
        "a caller without keys is reset before a TcpAoListener takes its listener over: what it sent is not handed out, and the \
         peer's session that comes after it is",
        hand_out_the_peers,
        "an ordinary accept hands the caller's connection out, with what it sent, and the key manager refuses it",
        hand_out_the_callers,
    )]
}

fn mkt() -> Result<Mkt> {
    key(1, TcpAoAlgorithm::Aes128Cmac)
}

/// A listener, and its port. A caller without keys has connected to it, sent something, and reset the connection.
async fn with_caller(lab: &Lab) -> Result<(u64, u16)> {
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let port = lab.north.call(Listen { socket: listener }).await?.port();
    let caller = Setup::with_keys(FAMILY, End::Userspace, &[]).userspace(lab)?;
    let mut stream = caller.connect(End::Kernel.port().at(FAMILY, port)).await?;
    stream.write_all(&agent::Pattern::of(UNSIGNED).take(64)).await?;
    let has_sent = |recording: &Recording| {
        let mut sent = recording.delivered_from(Port::Userspace);
        sent.any(|segment| !segment.payload().is_empty()).then_some(())
    };
    lab.wire.await_recorded("what the caller sends", has_sent).await?;
    stream.abort();
    let is_reset = |recording: &Recording| {
        recording.delivered_from(Port::Userspace).any(|segment| segment.flags().rst()).then_some(())
    };
    lab.wire.await_recorded("the caller's reset", is_reset).await?;
    lab.take_in(Port::North).await?;
    drop(caller);
    lab.wire.take_recording();
    Ok((listener, port))
}

async fn manager(lab: &Lab) -> Result<u64> {
    let chain = chain(Port::North, &[Key::new(1, mkt()?)])?;
    lab.north.call(NewManager { peers: vec![(End::Userspace.address(FAMILY).into(), None, chain)] }).await
}

async fn hand_out_the_peers(lab: &Lab) -> Result<Evidence> {
    let (listener, port) = with_caller(lab).await?;
    let manager = manager(lab).await?;
    lab.north.call(Manage { manager, socket: listener }).await?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[mkt()?]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let connect = userspace.connect(End::Kernel.port().at(FAMILY, port));
    let accept = lab.north.call(AcceptManaged { socket: listener });
    let (stream, socket) = tokio::try_join!(connect, accept)?;
    let mut session = Session::established(lab, setup, before, userspace, stream, (socket, Some(listener)))?;
    session.exchange(SOME, SOME).await?;
    lab.north.call(Detach { socket }).await?;
    Ok(session.close().await?.with_figures("the peer's session is the first that is handed out"))
}

async fn hand_out_the_callers(lab: &Lab) -> Result<Refusal> {
    let (listener, _) = with_caller(lab).await?;
    let manager = manager(lab).await?;
    lab.north.call(Attach { manager, socket: listener, remote: None, now: 0 }).await?;
    let socket = lab.north.call(Accept { socket: listener }).await?;
    let attach = lab.north.call(Attach { manager, socket, remote: None, now: 0 }).await;
    let error = attach.err().context("the caller's connection was attached")?;
    ensure!(error.to_string().contains("ended before it was attached"), "{error:#}");
    lab.north.call(Transfer { socket, send: Amount::NONE, receive: UNSIGNED }).await?;
    lab.north.call(Detach { socket: listener }).await?;
    Ok(Refusal::of("octets of the caller", UNSIGNED.octets).and(Refusal::of("the key manager", 1)))
}
