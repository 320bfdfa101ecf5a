//! TIME-WAIT: the acknowledgment of the last FIN is lost, the FIN comes again, and the waiting end has to answer it.

use agent::Counted;
use smoltcp::socket::tcp::State;

use super::ending::{LAST_ACK, TIME_WAIT, close_in_turn, kernel_state, spoil, the_key};
use crate::prelude::*;
use crate::rows::session::{End, Session, Setup};
use crate::wait::becomes;

/// How often an end's state is looked at.
const CHECK: std::time::Duration = std::time::Duration::from_millis(10);

pub fn rows() -> Vec<Row> {
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

/// Loses what the end at `waiter` sends after the other's FIN, until that FIN comes again.
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

/// Closes the waiter's end first. Comes back when the other has closed too, and its FIN has not been acknowledged.
async fn close(session: &mut Session<'_>, waiter: End) -> Result<()> {
    lose_last_acknowledgment(session.ends.lab, waiter.port());
    close_in_turn(session, waiter).await
}

/// A connection whose kernel retransmits after a second at most: a slow guest must not wait longer with its FIN than userspace is
/// in TIME-WAIT, which is 10 s.
async fn open(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let limit = "/proc/sys/net/ipv4/tcp_rto_max_ms";
    let usual = lab.north.shell(&format!("cat {limit} && echo 1000 >{limit}")).await?;
    let session = Session::open_used(lab, Setup::with_keys(family, End::Userspace, &[the_key()?])).await;
    lab.north.shell(&format!("echo {} >{limit}", usual.trim())).await?;
    session
}

/// Whether the waiter has answered to a FIN that has come again: by an acknowledgment of it, and by no reset.
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
        let mut session = open(lab, family).await?;
        close(&mut session, waiter).await?;
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
        // Linux verifies nothing in TIME-WAIT, and so counts nothing.
        session.ends.not_good[1] = if waiter == End::Kernel { fins } else { 0 };
        evidence.add(session.settle().await?);
    }
    Ok(evidence.with_figures(format!("{again} FINs again, each answered")))
}

/// Waits until the waiter is in TIME-WAIT, and the other has heard the acknowledgment of its FIN. Userspace's TIME-WAIT may be
/// over when the driver hears of that.
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
    let has_ended = becomes(CHECK, has_ended).await?;
    ensure!(has_ended, "the end never comes; userspace is in state {}", state());
    Ok(())
}

/// The end that verifies then counts the other's segments bad: the FIN that comes again, or the answer to it.
async fn wait_with_wrong_secret(lab: &Lab, waiter: End) -> Result<Refusal> {
    let mut session = open(lab, Family::Ipv4).await?;
    close(&mut session, waiter).await?;
    spoil(&session.ends)?;
    let counters = session.ends.userspace.await_counted(Counted::bad(1)).await?;
    match waiter {
        // Linux has answered to a FIN that does not verify, but the answer does not help.
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
