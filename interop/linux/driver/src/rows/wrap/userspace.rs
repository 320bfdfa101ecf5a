//! Between the userspace stack and a kernel.

use agent::{Accept, Close, Counted, Export, Finish, Listen, Restore, SocketInfo};
use futures_util::TryFutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::Exported;
use wireseal_tcp_ao::Sne;

use super::near_the_top::{
    BEFORE, BEFORE_TIME_WAIT, NEAR_THE_TOP, OCTETS, check_wrapped, connect_from_kernel, fresh_port, seed,
    seed_near_the_top,
};
use crate::prelude::*;
use crate::rows::session::{End, SOME, Session, Setup, USERSPACE_PORT, key};

pub fn row(family: Family, opener: End) -> Row {
    let starting = match opener {
        End::Kernel => "chosen by TCP_QUEUE_SEQ",
        End::Userspace => "chosen by way of a connection in TIME-WAIT",
    };
    Row::new(
        format!("wrap-{family}-{opener}-opens"),
        format!(
            "{opener} opens over {family}, both ISNs within {} KiB of the top; the kernel's {starting}, {} MiB each way",
            BEFORE >> 10,
            OCTETS >> 20
        ),
        async move |lab| pass_the_top(lab, family, opener).await,
        "the kernel's SNEs are put back to 0 after the wrap (TCP_AO_REPAIR)",
        async move |lab| fall_behind(lab, family, opener).await,
    )
}

async fn pass_the_top(lab: &Lab, family: Family, opener: End) -> Result<Evidence> {
    let mut session = open(lab, family, opener).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let pair = session.ends.pair;
    let exported = export(lab, &session).await?;
    let kernel = (exported.authentication.send_sne, exported.authentication.receive_sne);
    let userspace = session
        .ends
        .connection(|connection| (connection.highest_sent().0, connection.highest_received().0))?;
    let snes = [kernel, userspace];
    ensure!(snes == [(Sne(1), Sne(1)); 2], "the SNEs of the kernel and of userspace are {snes:?}");
    let counted = restore(lab, &mut session, &exported).await?.counted;
    session.exchange(SOME, SOME).await?;
    let evidence = session.close().await?;
    let after = check_wrapped(&evidence.recording, pair)?;
    Ok(evidence.with_figures(format!(
        "wrapped after {after} octets; SNE 1 both ways at both ends, then {} good, {} bad",
        counted.good, counted.bad
    )))
}

async fn fall_behind(lab: &Lab, family: Family, opener: End) -> Result<Refusal> {
    let mut session = open(lab, family, opener).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let mut exported = export(lab, &session).await?;
    (exported.authentication.send_sne, exported.authentication.receive_sne) = (Sne(0), Sne(0));
    restore(lab, &mut session, &exported).await?;
    let bad = Counted::bad(3);
    let counted = session.until_refused(&End::BOTH, async |ends| {
        let kernel = ends.await_kernel_counted(bad).await?;
        Ok((kernel, ends.userspace.await_counted(bad).await?))
    });
    let (kernel, userspace) = counted.await?;
    Ok(Refusal::by("kernel", &kernel).and(Refusal::by("userspace", &userspace)))
}

/// Takes the connection out of the kernel. Neither end is sending; but a segment such as a window update must not
/// come to a socket that has no SNEs yet, which would count it as bad: the cable is cut, and what was on it awaited.
async fn export(lab: &Lab, session: &Session<'_>) -> Result<Exported> {
    session.ends.quiet().await?;
    lab.wire.set_plugged(Port::North, false);
    let good = lab.wire.segments_from(Port::Userspace);
    session.ends.await_kernel_counted(Counted::good(good)).await?;
    Ok(Exported::from_octets(&lab.north.call(Export { socket: session.ends.socket }).await?)?)
}

/// Puts it back.
async fn restore(lab: &Lab, session: &mut Session<'_>, exported: &Exported) -> Result<SocketInfo> {
    let ends = &mut session.ends;
    let keys = ends.setup.kernel_keys()?;
    ends.socket = lab.north.call(Restore { exported: exported.to_octets(), keys }).await?;
    lab.wire.set_plugged(Port::North, true);
    ends.info().await
}

/// A connection whose ISNs are both near the top.
async fn open(lab: &Lab, family: Family, opener: End) -> Result<Session<'_>> {
    let setup = Setup::with_keys(family, opener, &[key(1, TcpAoAlgorithm::Aes128Cmac)?]);
    match opener {
        End::Kernel => connect_from_kernel(lab, setup, NEAR_THE_TOP, 0, seed_near_the_top()?).await,
        End::Userspace => {
            let port = fresh_port();
            leave_in_time_wait(lab, &setup, port).await?;
            connect_from_userspace(lab, setup, port).await
        }
    }
}

/// Userspace opens to the port of a connection that is in TIME-WAIT, from that connection's other port.
async fn connect_from_userspace(lab: &Lab, setup: Setup, port: u16) -> Result<Session<'_>> {
    lab.wire.take_recording();
    let before = lab.north.counters().await?;
    let userspace = setup.userspace_seeded(lab, seed_near_the_top()?)?;
    let listener = setup.kernel_socket_at(lab, port, true).await?;
    lab.north.call(Listen { socket: listener }).await?;
    let local = Port::Userspace.at(setup.family, USERSPACE_PORT);
    let connect = userspace.stack.connect(Port::North.at(setup.family, port), Some(local)).err_into();
    let (stream, socket) = tokio::try_join!(connect, lab.north.call(Accept { socket: listener }))?;
    Session::established(lab, setup, before, userspace, stream, (socket, None))
}

/// A connection that the kernel opens and closes first, so that the ISN of its next one with the same ports, which the peer
/// opens, is near the top.
async fn leave_in_time_wait(lab: &Lab, setup: &Setup, port: u16) -> Result<()> {
    // The next SYN has to be ahead of this connection's numbers for Linux to take it for a new one.
    let seed = seed(|isn| (1 << 31..(1 << 31) + (1 << 30)).contains(&isn.0))?;
    let mut session = connect_from_kernel(lab, setup.clone(), BEFORE_TIME_WAIT, port, seed).await?;
    let finish = lab.north.call(Finish { socket: session.ends.socket });
    let stream = &mut session.stream;
    let answer = async {
        let end = stream.read(&mut [0]).await?;
        ensure!(end == 0, "the kernel sends more than it should");
        Ok(stream.shutdown().await?)
    };
    tokio::try_join!(finish, answer)?;
    let socket = session.ends.socket;
    session.settle().await?;
    lab.north.call(Close { socket }).await
}
