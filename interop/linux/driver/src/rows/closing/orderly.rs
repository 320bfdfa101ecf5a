//! An end that closes, and one that resets: the other verifies it and takes note.

use agent::{Counted, Finish, Reset};
use smoltcp::socket::tcp::State;
use tokio::io::AsyncWriteExt;

use super::ending::{Ending, close_in_turn, has_sent, is_established, spoil, the_key};
use crate::prelude::*;
use crate::rows::session::{End, Session, Setup, families_and_ends};

pub fn rows() -> Vec<Row> {
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

/// The other end counts it bad, and does not take it for the end.
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
