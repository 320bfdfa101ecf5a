//! A segment whose TCP checksum is zero, which Linux takes for one of its own (docs/dev/findings.md).

use agent::Counted;
use speaker::forge::Forgery;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, SocketPair};

use crate::forge::inject;
use crate::prelude::*;
use crate::rows::session::{End, SOME, Session, Setup, key};

/// Where the checksum is in a TCP header (RFC 9293 §3.1).
const CHECKSUM: std::ops::Range<usize> = 16..18;
/// The two forms of the same number in ones' complement (RFC 1071 §2).
const ZERO: [u8; 2] = [0, 0];
const OTHER_FORM: [u8; 2] = [0xff, 0xff];

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "refusals-checksum-of-zero",
        "a correctly signed segment whose checksum is 0x0000, in userspace's name, over both versions of IP. Linux counts it \
         bad; the same segment with 0xffff is good, and the session goes on",
        send_zero,
        "only 0xffff is sent: Linux counts nothing bad",
        send_other_form,
    )]
}

async fn open(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let mkts = [key(1, TcpAoAlgorithm::HmacSha1)?];
    Session::open_used(lab, Setup::with_keys(family, End::Userspace, &mkts)).await
}

/// Old data of `pair.local` with other octets, chosen so that the checksum is zero, which is written in this form.
fn packet(recording: &Recording, pair: SocketPair, mkt: &Mkt, form: [u8; 2]) -> Result<Vec<u8>> {
    let next = Forgery::next(recording.packets(), pair)?;
    // The SYNs are among the first packets.
    let syns = recording.packets().take(20);
    let header = if pair.local.address().is_ipv4() { 20 } else { 40 };
    let field = header + CHECKSUM.start..header + CHECKSUM.end;
    for payload in 0..1u32 << 20 {
        let mut packet = next.clone().carrying(&payload.to_be_bytes()).stale().signed(mkt, syns.clone())?;
        if [ZERO, OTHER_FORM].iter().any(|form| packet[field.clone()] == *form) {
            packet[field].copy_from_slice(&form);
            return Ok(packet);
        }
    }
    bail!("no payload makes the checksum zero")
}

/// Sends the kernel such a segment; gives what it counts of it.
async fn send(session: &Session<'_>, form: [u8; 2], counts: Counted) -> Result<()> {
    let (ends, wire) = (&session.ends, &session.ends.lab.wire);
    let before = ends.kernel_counted().await?;
    let packet = wire.look(|recording| packet(recording, ends.pair, &ends.setup.userspace[0], form))?;
    inject(wire, ends.pair, &packet)?;
    ends.await_kernel_counted(before.plus(&counts)).await?;
    ends.quiet().await?;
    let counted = ends.kernel_counted().await?.since(&before);
    ensure!(
        (counted.good, counted.bad) == (counts.good, counts.bad),
        "the kernel has counted {counted} instead of {counts}"
    );
    Ok(())
}

async fn send_zero(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        let mut session = open(lab, family).await?;
        send(&session, ZERO, Counted::bad(1)).await?;
        send(&session, OTHER_FORM, Counted::good(1)).await?;
        session.exchange(SOME, SOME).await?;
        session.ends.beside[1] = Counted { bad: 1, ..Counted::good(1) };
        evidence.add(session.close().await?);
    }
    Ok(evidence.with_figures("0x0000 bad, 0xffff good"))
}

async fn send_other_form(lab: &Lab) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for family in Family::ALL {
        let session = open(lab, family).await?;
        send(&session, OTHER_FORM, Counted::good(1)).await?;
        refusal = refusal.and(Refusal::of(format!("kernel: good with 0xffff ({family})"), 1));
    }
    Ok(refusal)
}
