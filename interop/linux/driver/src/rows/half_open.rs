//! One end has forgotten the connection: the other keeps it, whatever unsigned resets come (RFC 5925 §7.7).

use agent::{Accept, Amount, Counted, Reset, Transfer};
use smoltcp::socket::tcp::State;
use speaker::forge::Forgery;
use speaker::stack::TcpStream;
use tokio::io::AsyncWriteExt;
use wireseal_tcp_ao::SocketPair;

use super::closing::{is_established, provoke_answer, the_key};
use crate::row::prelude::*;
use crate::rows::session::{End, Session, Setup, evidence as gathered, families_and_ends, kernel_was_reset};
use crate::userspace::Userspace;
use crate::wire::inject;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "closing-half-open-userspace",
            "userspace has started anew, over both versions of IP: it refuses what the kernel's old connection sends and answers \
             nothing, an unsigned reset is counted, and the connection stays; a new one is opened beside it",
            userspace_starts_anew,
            "without TCP-AO: what is sent is answered with a reset",
            async |lab| forgotten_without_keys(lab, End::Userspace).await,
        ),
        Row::new(
            "closing-half-open-kernel",
            "the kernel has lost the connection, over both versions of IP, with and without a listener on its port: it answers \
             nothing to what userspace sends, an unsigned reset is counted, and userspace keeps the connection",
            kernel_forgets,
            "without TCP-AO: what is sent is answered with a reset",
            async |lab| forgotten_without_keys(lab, End::Kernel).await,
        ),
    ]
}

/// Pulls the userspace end out and starts another in its place, which does not know the connection. The old stream must be kept:
/// dropping it would close the connection.
fn start_anew<'a>(lab: &'a Lab, session: Session<'a>) -> Result<(Userspace, TcpStream)> {
    let Session { ends, stream, .. } = session;
    let setup = ends.setup.clone();
    drop(ends);
    Ok((setup.userspace(lab)?, stream))
}

/// Makes the kernel send something on an old connection.
async fn kernel_sends(lab: &Lab, socket: u64) -> Result<()> {
    lab.north.call(Transfer { socket, send: Amount::of(1000), receive: Amount::NONE }).await
}

/// An unsigned reset in the name of the end `pair.local`, with a sequence number that the other would accept.
fn inject_reset(lab: &Lab, pair: SocketPair) -> Result<()> {
    let reset = lab.wire.look(|recording| Forgery::next(recording.packets(), pair)?.reset().unsigned())?;
    inject(&lab.wire, pair, &reset)
}

async fn userspace_starts_anew(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        let mkts = [the_key()?];
        let session = Session::open_used(lab, Setup::with_keys(family, End::Userspace, &mkts)).await?;
        let (pair, socket, listener) = (session.ends.pair, session.ends.socket, session.ends.listener);
        let listener = listener.context("the kernel does not listen")?;
        let (anew, _old) = start_anew(lab, session)?;
        let (before, sent_before) = (lab.north.counters().await?, lab.wire.segments_from(Port::Userspace));
        let sent = || lab.wire.segments_from(Port::Userspace) - sent_before;
        let stays = async || {
            ensure!(is_established(lab, pair).await?, "the connection ended");
            Ok(())
        };

        kernel_sends(lab, socket).await?;
        anew.await_refused(1).await?;
        inject_reset(lab, pair)?;
        let required = Counted::required(1);
        lab.north.await_counted(&before, required).await?;
        stays().await?;
        ensure!(sent() == 0, "userspace has answered {} times", sent());

        let connect = anew.connect(Port::North.at(family, pair.remote.port()));
        let accept = lab.north.call(Accept { socket: listener });
        let (stream, accepted) = tokio::try_join!(connect, accept)?;
        stays().await?;
        lab.wire.set_plugged(Port::Userspace, false);
        let expected = Counted { good: sent(), ..required };
        let kernel = lab.north.await_counted(&before, expected).await?.check("the kernel", &expected)?;
        let counters = anew.counters().check_good("userspace")?;
        drop((stream, anew));
        for socket in [socket, accepted] {
            lab.north.call(Reset { socket }).await?;
        }
        evidence.add(gathered(lab, &mkts, [counters, kernel])?);
    }
    Ok(evidence.with_figures("the old connection stayed, a new one came about"))
}

/// Makes the kernel forget a connection; its reset is lost on the wire.
async fn forget_at_kernel(lab: &Lab, socket: u64) -> Result<()> {
    lab.wire.set_plugged(Port::North, false);
    lab.north.call(Reset { socket }).await?;
    let has_reset = |recording: &Recording| {
        recording.segments_from(Port::North).any(|segment| segment.flags().rst()).then_some(())
    };
    lab.wire.await_recorded("the kernel's last word", has_reset).await?;
    lab.wire.set_plugged(Port::North, true);
    Ok(())
}

async fn kernel_forgets(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for (family, opener) in families_and_ends() {
        let mkts = [the_key()?];
        let mut session = Session::open_used(lab, Setup::with_keys(family, opener, &mkts)).await?;
        let (pair, listener) = (session.ends.pair, session.ends.listener);
        forget_at_kernel(lab, session.ends.socket).await?;
        let (before, counted_before) = (lab.north.counters().await?, session.ends.userspace.counters());
        let [sent_before, answers_before] = End::BOTH.map(|end| lab.wire.segments_from(end.port()));

        session.stream.write_all(&[0; 1000]).await?;
        let sent = || lab.wire.segments_from(Port::Userspace) - sent_before;
        let has_sent = |recording: &Recording| {
            let frames = recording.frames.iter().rev().take_while(|frame| frame.from != Some(Port::North));
            let mut segments = frames.filter_map(|frame| frame.segment());
            segments.any(|segment| !segment.payload().is_empty()).then_some(())
        };
        lab.wire.await_recorded("what userspace sends", has_sent).await?;
        provoke_answer(lab, family).await?;
        inject_reset(lab, pair.reversed())?;
        let expected = Counted { required: counted_before.required + 2, ..counted_before };
        let counters = session.ends.userspace.await_counted(expected).await?;
        counters.check("userspace", &expected)?;
        let state = session.stream.state();
        ensure!(state == State::Established, "userspace's connection is {state}");

        lab.wire.set_plugged(Port::Userspace, false);
        drop(session);
        let expected = Counted::bad(listener.map_or(0, |_| sent()));
        let kernel = lab.north.await_counted(&before, expected).await?.check("the kernel", &expected)?;
        let answers = lab.wire.segments_from(Port::North) - answers_before;
        ensure!(answers == 1, "the kernel has answered {} times", answers - 1);
        evidence.add(gathered(lab, &mkts, [counters, kernel])?);
        // The answer that was provoked.
        evidence.unsigned += 1;
    }
    Ok(evidence.with_figures("no answer, the connection stayed"))
}

async fn forgotten_without_keys(lab: &Lab, forgetful: End) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for family in Family::ALL {
        let mut session = Session::open_used(lab, Setup::with_keys(family, End::Kernel, &[])).await?;
        let socket = session.ends.socket;
        match forgetful {
            End::Userspace => {
                let _both = start_anew(lab, session)?;
                kernel_sends(lab, socket).await?;
                kernel_was_reset(lab, socket).await?;
            }
            End::Kernel => {
                forget_at_kernel(lab, socket).await?;
                session.stream.write_all(&[0; 1000]).await?;
                session.await_reset(End::Userspace).await?;
            }
        }
        refusal = refusal.and(Refusal::of(format!("resets ({family})"), 1));
    }
    Ok(refusal)
}
