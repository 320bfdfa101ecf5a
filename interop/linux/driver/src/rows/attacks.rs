//! What must not affect an established session: forged and replayed segments, ICMP errors, and a checksum of zero.

use agent::{Amount, Counted, ReportErrors, SetFlags, Transfer};
use speaker::forge::Forgery;
use speaker::protection::mirrored;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, Segment, SocketPair};

use crate::row::prelude::*;
use crate::rows::session::{End, SOME, Session, Setup, families_and_ends, key, key_with};
use crate::wire::{inject, inject_icmp_error};

/// Data that no end has sent.
const DATA: &[u8] = b"forged";
const ALGORITHM: TcpAoAlgorithm = TcpAoAlgorithm::Aes128Cmac;

pub fn forged() -> Vec<Row> {
    let row = |(family, opener): (Family, End)| {
        Row::new(
            format!("refusals-forged-{family}-{opener}-opens"),
            format!(
                "forged and replayed segments to each end of a session over {family} that the {opener} end has opened: an unsigned \
                 reset, a reset with a wrong MAC, unsigned data, data under an unknown KeyID, data with a wrong MAC; its last data and its first \
                 segment, a signed SYN or SYN-ACK, again. The session goes on"
            ),
            async move |lab| attack(lab, family, opener).await,
            "the unsigned reset, without TCP-AO; and a reset under the right key",
            async move |lab| reset_both(lab, family, opener).await,
        )
    };
    families_and_ends().map(row).collect()
}

/// An attack on an end, in the other's name.
#[derive(Clone, Copy, Debug)]
enum Attack {
    UnsignedReset,
    ResetWithWrongMac,
    UnsignedData,
    DataWithWrongMac,
    DataUnderUnknownKey,
    DataReplayed,
    OpeningReplayed,
}

/// Each attack, and what its victim counts.
const ATTACKS: [(Attack, Counted); 7] = [
    (Attack::UnsignedReset, Counted::required(1)),
    (Attack::ResetWithWrongMac, Counted::bad(1)),
    (Attack::UnsignedData, Counted::required(1)),
    (Attack::DataWithWrongMac, Counted::bad(1)),
    (Attack::DataUnderUnknownKey, Counted::key_not_found(1)),
    (Attack::DataReplayed, Counted::good(1)),
    (Attack::OpeningReplayed, Counted::good(1)),
];

impl Attack {
    /// The packet, in the name of the end `pair.local`. Neither MKT is right: one has the right KeyIDs but another secret, one other
    /// KeyIDs.
    fn packet(self, recording: &Recording, pair: SocketPair, [wrong, unknown]: &[Mkt; 2]) -> Result<Vec<u8>> {
        let next = Forgery::next(recording.packets(), pair)?;
        let packets = recording.packets();
        Ok(match self {
            Self::UnsignedReset => next.reset().unsigned()?,
            Self::ResetWithWrongMac => next.reset().signed(wrong, packets)?,
            Self::UnsignedData => next.carrying(DATA).unsigned()?,
            Self::DataWithWrongMac => next.carrying(DATA).signed(wrong, packets)?,
            Self::DataUnderUnknownKey => next.carrying(DATA).signed(unknown, packets)?,
            Self::DataReplayed => last_sent(recording, pair, |segment| !segment.payload().is_empty())?,
            Self::OpeningReplayed => last_sent(recording, pair, |segment| segment.flags().syn())?,
        })
    }
}

/// The last such packet of the end `pair.local`.
fn last_sent(
    recording: &Recording,
    pair: SocketPair,
    wanted: impl Fn(&Segment<'_>) -> bool,
) -> Result<Vec<u8>> {
    let is_wanted = |packet: &&[u8]| {
        Segment::parse(packet).is_ok_and(|segment| {
            (segment.source(), segment.destination()) == (pair.local, pair.remote) && wanted(&segment)
        })
    };
    let found = recording.packets().filter(is_wanted).last();
    found.map(<[u8]>::to_vec).with_context(|| format!("{pair}: there is nothing to replay"))
}

/// The session's key as the end has it that an attack on `victim` impersonates.
fn key_against(victim: End, mkt: &Mkt) -> Result<Mkt> {
    Ok(if victim == End::Kernel { mkt.clone() } else { mirrored(mkt)? })
}

async fn attack(lab: &Lab, family: Family, opener: End) -> Result<Evidence> {
    let mkt = key(1, ALGORITHM)?;
    let secret = "a secret that neither end has";
    let unknown = Mkt::new(KeyId(99), KeyId(99), ALGORITHM, MasterKey::new(secret.as_bytes())?)?;
    let wrong = [key_with(1, ALGORITHM, secret)?, unknown];
    let mut session = Session::open_used(lab, Setup::with_keys(family, opener, &[mkt])).await?;
    for (attack, counts) in ATTACKS {
        for (place, victim) in End::BOTH.into_iter().enumerate() {
            let named = || format!("{attack:?} to {victim}");
            session.ends.quiet().await?;
            let pair = session.ends.pair_from(victim.other());
            let wrong = [key_against(victim, &wrong[0])?, key_against(victim, &wrong[1])?];
            let packet =
                lab.wire.look(|recording| attack.packet(recording, pair, &wrong)).with_context(named)?;
            let before = [session.ends.userspace.counters(), session.ends.kernel_counted().await?];
            inject(&lab.wire, pair, &packet)?;
            session.ends.beside[place] = session.ends.beside[place].plus(&counts);
            // Once it is counted, the victim has processed it.
            session.ends.await_counted(victim, before[place].plus(&counts)).await.with_context(named)?;
            session.exchange(1, 1).await.with_context(named)?;
        }
    }
    session.exchange(SOME, SOME).await?;
    session.ends.check_info().await?;
    let evidence = session.close().await?;
    Ok(evidence.with_figures(format!("{} attacks on each end", ATTACKS.len())))
}

/// Without TCP-AO, or with the key, the same resets work.
async fn reset_both(lab: &Lab, family: Family, opener: End) -> Result<Refusal> {
    let mkt = key(1, ALGORITHM)?;
    let mut refusal = Refusal::default();
    for (mkts, how) in [(&[][..], "without TCP-AO"), (std::slice::from_ref(&mkt), "right key")] {
        for victim in End::BOTH {
            let mut session = Session::open_used(lab, Setup::with_keys(family, opener, mkts)).await?;
            let pair = session.ends.pair_from(victim.other());
            let mkt = mkts.first().map(|mkt| key_against(victim, mkt)).transpose()?;
            let packet = lab.wire.look(|recording| {
                let reset = Forgery::next(recording.packets(), pair)?.reset();
                mkt.map_or_else(|| reset.unsigned(), |mkt| reset.signed(&mkt, recording.packets()))
            })?;
            inject(&lab.wire, pair, &packet)?;
            session.await_reset(victim).await?;
            refusal = refusal.and(Refusal::of(format!("{victim} reset ({how})"), 1));
        }
    }
    Ok(refusal)
}

/// The MTU that an ICMP error claims.
const MTU: u32 = 1000;
/// "Fragmentation needed": Linux then sends shorter segments and does not tell the program.
const TOO_LONG: (u8, u8) = (3, 4);

/// ICMPv4 "destination unreachable" (RFC 792) and its codes "protocol unreachable", "port unreachable" and "fragmentation
/// needed"; ICMPv6 "destination unreachable" (RFC 4443 §3.1) and its codes "administratively prohibited" and "port unreachable".
const fn hard_errors(family: Family) -> &'static [(u8, u8)] {
    match family {
        Family::Ipv4 => &[(3, 2), (3, 3), TOO_LONG],
        Family::Ipv6 => &[(1, 1), (1, 4)],
    }
}

pub fn icmp() -> Vec<Row> {
    let row = |family: Family| {
        let codes = hard_errors(family).iter().map(|(kind, code)| format!("{kind}/{code}"));
        let codes = codes.collect::<Vec<_>>().join(", ");
        Row::new(
            format!("refusals-icmp-{family}"),
            format!(
                "hard ICMP errors about a session over {family}, type/code {codes}, to each end: ignored and counted"
            ),
            async move |lab| ignored(lab, family).await,
            "the kernel's socket has accept_icmps",
            async move |lab| accepted(lab, family).await,
        )
    };
    Family::ALL.into_iter().map(row).collect()
}

/// A session whose kernel socket reports ICMP errors.
async fn open_reporting(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let mkt = key(1, TcpAoAlgorithm::LinuxHmacSha256)?;
    let session = Session::open_used(lab, Setup::with_keys(family, End::Userspace, &[mkt])).await?;
    lab.north.call(ReportErrors { socket: session.ends.socket }).await?;
    Ok(session)
}

/// Sends an end the error about one of its own segments.
fn send_error(session: &Session<'_>, victim: End, error: (u8, u8)) -> Result<()> {
    inject_icmp_error(&session.ends.lab.wire, session.ends.pair_from(victim), error, MTU)
}

async fn ignored(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut session = open_reporting(lab, family).await?;
    let errors = hard_errors(family);
    for (number, error) in (1..).zip(errors) {
        for victim in End::BOTH {
            send_error(&session, victim, *error)?;
            session.ends.await_counted(victim, Counted::dropped_icmps(number)).await?;
        }
        session.exchange(SOME, SOME).await?;
        session.ends.quiet().await?;
    }
    let dropped = errors.len() as u64;
    let info = session.ends.info().await?;
    ensure!(info.counted.dropped_icmps == dropped, "the kernel's socket says {info:?}");
    session.ends.beside = [Counted::dropped_icmps(dropped); 2];
    let evidence = session.close().await?;
    Ok(evidence.with_figures(format!("{dropped} errors to each end, the session went on")))
}

/// Each error reaches the program, or makes segments shorter.
async fn accepted(lab: &Lab, family: Family) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for error in hard_errors(family) {
        let mut session = open_reporting(lab, family).await?;
        let socket = session.ends.socket;
        lab.north.call(SetFlags { socket, required: None, accept_icmps: Some(true) }).await?;
        let port = End::Kernel.port();
        let sent_before = lab.wire.segments_from(port);
        if *error == TOO_LONG {
            send_error(&session, End::Kernel, *error)?;
            session.exchange(0, SOME).await?;
            let longest = lab.wire.look(|recording| {
                let later = recording.segments_from(port).skip(sent_before as usize);
                later.map(|segment| segment.tcp().len()).max().unwrap_or(usize::MAX)
            });
            ensure!(longest <= MTU as usize, "the kernel has sent a segment of {longest} octets");
            refusal = refusal.and(Refusal::of("octets of the longest segment afterwards", longest as u64));
        } else {
            let told = read_error(&session, *error).await?;
            refusal = refusal.and(Refusal::of(format!("kernel told its program: {told}"), 1));
        }
        let counted = session.ends.kernel_counted().await?;
        // Restores the path for the next row.
        lab.north.shell("echo 1 >/proc/sys/net/ipv4/route/flush").await?;
        ensure!(counted.dropped_icmps == 0, "the kernel has counted {counted}");
    }
    Ok(refusal)
}

/// The error of a read that is waiting when the ICMP error comes.
async fn read_error(session: &Session<'_>, error: (u8, u8)) -> Result<String> {
    send_error(session, End::Kernel, error)?;
    let read = Transfer { socket: session.ends.socket, send: Amount::NONE, receive: Amount::of(1) };
    let Err(error) = session.ends.lab.north.call(read).await else {
        bail!("the kernel has read an octet");
    };
    // The operating system's message, with its errno, comes last.
    let error = error.to_string();
    let told = error.rsplit(": ").next().unwrap_or_default().to_owned();
    ensure!(told.contains("os error") && !told.contains("(os error 11)"), "the error was {told}");
    Ok(told)
}

/// Where the checksum is in a TCP header (RFC 9293 §3.1).
const CHECKSUM: std::ops::Range<usize> = 16..18;
/// The two forms of zero in ones' complement (RFC 1071 §2).
const ZERO: [u8; 2] = [0, 0];
const OTHER_FORM: [u8; 2] = [0xff, 0xff];

pub fn checksum() -> Vec<Row> {
    vec![Row::new(
        "refusals-checksum-of-zero",
        "a correctly signed segment whose checksum is 0x0000, in userspace's name, over both versions of IP. Linux counts it \
         bad; the same segment with 0xffff is good, and the session goes on",
        send_zero,
        "only 0xffff is sent: Linux counts nothing bad",
        send_other_form,
    )]
}

async fn open_used(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let mkts = [key(1, TcpAoAlgorithm::HmacSha1)?];
    Session::open_used(lab, Setup::with_keys(family, End::Userspace, &mkts)).await
}

/// Old data of `pair.local` with octets changed so that the checksum is zero, written in this form.
fn old_data_with(recording: &Recording, pair: SocketPair, mkt: &Mkt, form: [u8; 2]) -> Result<Vec<u8>> {
    let next = Forgery::next(recording.packets(), pair)?;
    // The SYNs are among the first packets.
    let syns = recording.packets().take(20);
    let header = if pair.local.address().is_ipv4() { 20 } else { 40 };
    let field = header + CHECKSUM.start..header + CHECKSUM.end;
    for payload in 0..1u32 << 20 {
        let mut old_data_with =
            next.clone().carrying(&payload.to_be_bytes()).stale().signed(mkt, syns.clone())?;
        if [ZERO, OTHER_FORM].iter().any(|form| old_data_with[field.clone()] == *form) {
            old_data_with[field].copy_from_slice(&form);
            return Ok(old_data_with);
        }
    }
    bail!("no payload makes the checksum zero")
}

/// Sends the kernel such a segment, and checks how it is counted.
async fn send(session: &Session<'_>, form: [u8; 2], counts: Counted) -> Result<()> {
    let (ends, wire) = (&session.ends, &session.ends.lab.wire);
    let before = ends.kernel_counted().await?;
    let old_data_with =
        wire.look(|recording| old_data_with(recording, ends.pair, &ends.setup.userspace[0], form))?;
    inject(wire, ends.pair, &old_data_with)?;
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
        let mut session = open_used(lab, family).await?;
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
        let session = open_used(lab, family).await?;
        send(&session, OTHER_FORM, Counted::good(1)).await?;
        refusal = refusal.and(Refusal::of(format!("kernel: good with 0xffff ({family})"), 1));
    }
    Ok(refusal)
}
