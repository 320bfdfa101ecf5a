//! SYNs: one that is not signed as the listener's key requires opens no session, and each is counted where it should be.

use agent::{Accept, Close, Connect, Counted, GetInfo, Key, Listen, Open, SetMd5Key, TryAccept};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::kind;
use wireseal_tcp_ao::{Mkt, OptionCoverage, Segment};

use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::kernels::{north_keys, open_socket};
use crate::rows::session::{
    End, Session, Setup, USERSPACE_PORT, families_and_ends, kernel_key, key, key_with,
};
use crate::userspace::Userspace;
use crate::verify::{Verdicts, verify};

/// What is wrong with a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Secret,
    KeyId,
    MacLength,
    Algorithm,
    /// Options are covered, or not.
    Coverage,
    Unsigned,
    NoKeyAtListener,
    ListenerHasKeyOfAnotherPeer,
}

/// What can be wrong, and how one such SYN is counted.
const ALL: [(Wrong, Counted); 8] = [
    (Wrong::Secret, Counted::bad(1)),
    (Wrong::KeyId, Counted::key_not_found(1)),
    (Wrong::MacLength, Counted::bad(1)),
    (Wrong::Algorithm, Counted::bad(1)),
    (Wrong::Coverage, Counted::bad(1)),
    (Wrong::Unsigned, Counted::required(1)),
    (Wrong::NoKeyAtListener, Counted::key_not_found(1)),
    (Wrong::ListenerHasKeyOfAnotherPeer, Counted::key_not_found(1)),
];

fn right_key() -> Result<Mkt> {
    key(1, TcpAoAlgorithm::HmacSha1)
}

impl Wrong {
    /// The key of the listener, written as the userspace end's.
    fn listener_key(self) -> Result<Option<Mkt>> {
        let right = right_key()?;
        Ok(Some(match self {
            Self::Secret => key_with(1, TcpAoAlgorithm::HmacSha1, "another secret of key 1, 32 octets")?,
            Self::KeyId => key(2, TcpAoAlgorithm::HmacSha1)?,
            Self::MacLength => right.with_mac_length(16)?,
            Self::Algorithm => key(1, TcpAoAlgorithm::Aes128Cmac)?,
            Self::Coverage => right.with_options(OptionCoverage::Excluded),
            Self::NoKeyAtListener => return Ok(None),
            Self::Unsigned | Self::ListenerHasKeyOfAnotherPeer => right,
        }))
    }
}

pub fn syn() -> Vec<Row> {
    let row = |(family, listener): (Family, End)| {
        Row::new(
            format!("refusals-syn-{family}-{listener}-listens"),
            format!(
                "SYNs over {family} to the {listener} end: wrong secret, unknown KeyID, MAC of another length, another \
                 algorithm, other coverage of options, unsigned, no key at the listener, or another peer's: no answer, no session"
            ),
            async move |lab| all_wrong(lab, family, listener).await,
            "the right key at both ends",
            async move |lab| nothing_wrong(lab, family, listener).await,
        )
    };
    families_and_ends().map(row).collect()
}

async fn all_wrong(lab: &Lab, family: Family, listener: End) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut sum = Counted::default();
    for (wrong, counts) in ALL {
        let named = || format!("{wrong:?}");
        let (counted, recording) = attempt(lab, family, listener, wrong, counts).await.with_context(named)?;
        sum = sum.plus(&counted);
        // Under the opener's key, the SYNs verify.
        let verdicts = verify(lab, &recording, &[right_key()?])?;
        let syns = recording.segments_from(listener.other().port()).count() as u64;
        let unsigned = if wrong == Wrong::Unsigned { syns } else { 0 };
        ensure!(
            (verdicts.verified, verdicts.unsigned) == (syns - unsigned, unsigned),
            "{wrong:?}: recording: {verdicts} of {syns} SYNs"
        );
        evidence.wire.add(verdicts);
        evidence.unsigned += unsigned;
        evidence.recording.frames.extend(recording.frames);
    }
    evidence.counters = vec![(listener.to_string(), sum.to_string())];
    Ok(evidence.with_figures(format!("{} ways to be refused, no answer to any", ALL.len())))
}

/// One attempt: refused without an answer, and counted for each SYN that arrived.
async fn attempt(
    lab: &Lab,
    family: Family,
    listener: End,
    wrong: Wrong,
    counts: Counted,
) -> Result<(Counted, Recording)> {
    lab.clear().await?;
    let before = lab.north.counters().await?;
    let listeners = wrong.listener_key()?.into_iter().collect();
    let openers = if wrong == Wrong::Unsigned { Vec::new() } else { vec![right_key()?] };
    let (userspace, kernel) =
        if listener == End::Kernel { (openers, listeners) } else { (listeners, openers) };
    let setup = Setup { family, opener: listener.other(), userspace, kernel, number: 0 };
    let counted = match listener {
        End::Kernel => refused_by_kernel(lab, &setup, wrong, counts, &before).await?,
        End::Userspace => refused_by_userspace(lab, &setup, wrong, counts).await?,
    };
    let mut recording = lab.wire.take_recording();
    recording.frames.retain(|frame| !frame.is_lost);
    let syns = check_unanswered(&recording, setup.opener.port(), listener.port())?;
    ensure!(counted == times(counts, syns), "{listener} has counted {counted} for {syns} SYNs");
    let expected = if listener == End::Kernel { counted } else { Counted::default() };
    lab.north.counters().await?.since(&before).check("the kernel", &expected)?;
    Ok((counted, recording))
}

fn times(counts: Counted, syns: u64) -> Counted {
    (0..syns).fold(Counted::default(), |sum, _| sum.plus(&counts))
}

/// Checks that the opener has sent only SYNs, and that nothing answers them; returns their number. The listener's port may send to others,
/// such as an earlier row's connection.
pub fn check_unanswered(recording: &Recording, opener: Port, listener: Port) -> Result<u64> {
    let sent: Vec<_> = recording.segments_from(opener).collect();
    let is_syn = |segment: &Segment<'_>| segment.flags().syn() && !segment.flags().ack();
    ensure!(!sent.is_empty() && sent.iter().all(is_syn), "not only SYNs: {sent:?}");
    let is_answer = |segment: &Segment<'_>| {
        let answered = (segment.destination(), segment.source());
        sent.iter().any(|syn| (syn.source(), syn.destination()) == answered)
    };
    let answers = recording.segments_from(listener).filter(is_answer).count();
    ensure!(answers == 0, "the listener has answered {answers} times");
    Ok(sent.len() as u64)
}

async fn refused_by_kernel(
    lab: &Lab,
    setup: &Setup,
    wrong: Wrong,
    counts: Counted,
    before: &Counted,
) -> Result<Counted> {
    let userspace = setup.userspace(lab)?;
    let socket = if wrong == Wrong::ListenerHasKeyOfAnotherPeer {
        let remote = Port::South.address(setup.family).into();
        let keys = setup.kernel.iter().map(|mkt| Ok(Key { remote, ..kernel_key(setup.family, mkt)? }));
        let keys = keys.collect::<Result<_>>()?;
        lab.north.call(Open { local: setup.family.any(0), keys, required: false }).await?
    } else {
        setup.kernel_socket(lab).await?
    };
    let sign = async {
        lab.north.await_counted(before, counts).await?;
        // The stack gives up with a reset, which must not arrive.
        lab.wire.set_plugged(Port::Userspace, false);
        Ok(())
    };
    setup.until_refused(lab, &userspace, socket, sign).await?;
    userspace.counters().check("userspace", &Counted::default())?;
    // Without the stack there are no more SYNs.
    drop(userspace);
    let syns = lab.wire.segments_from(Port::Userspace);
    let counted = lab.north.await_counted(before, times(counts, syns)).await?;
    let accepted = lab.north.call(TryAccept { socket }).await?;
    ensure!(accepted.is_none(), "the kernel has accepted a connection");
    check_listener(lab, socket, !setup.kernel.is_empty(), counted).await?;
    Ok(counted)
}

/// Checks that the counters of the kernel's listener, if it has keys, equal those of the whole kernel.
pub async fn check_listener(lab: &Lab, socket: u64, has_keys: bool, counted: Counted) -> Result<()> {
    let info = lab.north.call(GetInfo { socket }).await?;
    let says = info.as_ref().map(|info| info.counted);
    ensure!(says == has_keys.then_some(counted), "counted {counted}, the listener says {info:?}");
    Ok(())
}

async fn refused_by_userspace(lab: &Lab, setup: &Setup, wrong: Wrong, counts: Counted) -> Result<Counted> {
    let userspace = if wrong == Wrong::ListenerHasKeyOfAnotherPeer {
        let peer = Userspace::peer(Port::South.address(setup.family), &setup.userspace)?;
        Userspace::start(&lab.wire, vec![peer], fastrand::u64(..))?
    } else {
        setup.userspace(lab)?
    };
    let socket = setup.kernel_socket(lab).await?;
    setup.until_refused(lab, &userspace, socket, userspace.await_counted(counts)).await?;
    // Without the socket there are no more SYNs.
    lab.north.call(Close { socket }).await?;
    let syns = lab.wire.segments_from(Port::North);
    userspace.await_counted(times(counts, syns)).await
}

/// The same attempt with the right key opens a session.
async fn nothing_wrong(lab: &Lab, family: Family, listener: End) -> Result<Refusal> {
    let setup = Setup::with_keys(family, listener.other(), &[right_key()?]);
    let session = Session::open(lab, setup).await?;
    let good = session.ends.kernel_counted().await?.good;
    Ok(Refusal::of("sessions", 1).and(Refusal::of("kernel: good", good)))
}

/// The secret of the TCP-MD5 keys.
const MD5_SECRET: &str = "secret of TCP-MD5";
/// The port of a listener in the first guest, which the second guest connects to.
const KERNEL_PORT: u16 = 1790;

pub fn md5() -> Vec<Row> {
    let row = |listener: End| {
        Row::new(
            format!("refusals-md5-syn-{listener}-listens"),
            format!("TCP-MD5 SYNs over both versions of IP to the {listener} end, which has a TCP-AO key"),
            async move |lab| refuse_md5(lab, listener).await,
            "the listener has a TCP-MD5 key, or is unprotected",
            async move |lab| md5_accepted(lab, listener).await,
        )
    };
    End::BOTH.map(row).into()
}

/// A socket of the guest's with a TCP-MD5 key for the peer at `remote`, bound.
async fn md5_socket(guest: &Guest, remote: Port, family: Family, port: u16) -> Result<u64> {
    let socket = open_socket(guest, family, port, Vec::new()).await?;
    let remote = remote.address(family).into();
    guest.call(SetMd5Key { socket, remote, vrf: None, secret: MD5_SECRET.to_owned() }).await?;
    Ok(socket)
}

fn has_md5_option(segment: &Segment<'_>) -> bool {
    segment.options().any(|option| option.is_ok_and(|option| option.kind == kind::MD5_SIGNATURE))
}

async fn refuse_md5(lab: &Lab, listener: End) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut counted = Vec::new();
    for family in Family::ALL {
        lab.clear().await?;
        let (by_listener, opener) = match listener {
            End::Kernel => (md5_refused_by_kernel(lab, family).await?, Port::South),
            End::Userspace => (md5_refused_by_userspace(lab, family).await?, Port::North),
        };
        let recording = lab.wire.take_recording();
        let sent = check_unanswered(&recording, opener, listener.port())?;
        ensure!(
            recording.segments_from(opener).all(|syn| has_md5_option(&syn)),
            "a SYN has no TCP-MD5 option"
        );
        let counts = if listener == End::Kernel { Counted::md5_unexpected } else { Counted::required };
        ensure!(by_listener == counts(sent), "counted {by_listener} for {sent} SYNs");
        evidence.unsigned += sent;
        counted.push(by_listener.to_string());
        evidence.wire.add(Verdicts { unsigned: sent, ..Verdicts::default() });
        evidence.recording.frames.extend(recording.frames);
    }
    evidence.counters = vec![(listener.to_string(), counted.join(" (IPv4), ") + " (IPv6)")];
    let syns = evidence.unsigned;
    Ok(evidence.with_figures(format!("{syns} SYNs, no answer")))
}

async fn md5_refused_by_kernel(lab: &Lab, family: Family) -> Result<Counted> {
    let south = lab.south().await?;
    let before = lab.north.counters().await?;
    let keys = north_keys(family, &[key_with(1, TcpAoAlgorithm::HmacSha1, MD5_SECRET)?])?;
    let listener = open_socket(&lab.north, family, KERNEL_PORT, keys).await?;
    lab.north.call(Listen { socket: listener }).await?;
    let socket = md5_socket(south, Port::North, family, 0).await?;
    let connect = south.call(Connect { socket, remote: Port::North.at(family, KERNEL_PORT) });
    refused(lab.north.await_counted(&before, Counted::md5_unexpected(1)), connect).await?;
    south.call(Close { socket }).await?;
    let syns = lab.wire.segments_from(Port::South);
    let counted = lab.north.await_counted(&before, Counted::md5_unexpected(syns)).await?;
    // Sockets do not count TCP-MD5.
    check_listener(lab, listener, true, Counted::default()).await?;
    Ok(counted)
}

async fn md5_refused_by_userspace(lab: &Lab, family: Family) -> Result<Counted> {
    let mkt = key(1, TcpAoAlgorithm::HmacSha1)?;
    let setup = Setup { family, opener: End::Kernel, userspace: vec![mkt], kernel: Vec::new(), number: 0 };
    let userspace = setup.userspace(lab)?;
    let socket = md5_socket(&lab.north, Port::Userspace, family, 0).await?;
    setup.until_refused(lab, &userspace, socket, userspace.await_counted(Counted::required(1))).await?;
    lab.north.call(Close { socket }).await?;
    userspace.await_counted(Counted::required(lab.wire.segments_from(Port::North))).await
}

/// The SYN is accepted if the kernel's listener has TCP-MD5 too, or if the userspace listener has no keys; that one answers.
async fn md5_accepted(lab: &Lab, listener: End) -> Result<Refusal> {
    let family = Family::Ipv4;
    match listener {
        End::Kernel => {
            let south = lab.south().await?;
            let listener = md5_socket(&lab.north, Port::South, family, KERNEL_PORT).await?;
            lab.north.call(Listen { socket: listener }).await?;
            let socket = md5_socket(south, Port::North, family, 0).await?;
            let connect = south.call(Connect { socket, remote: Port::North.at(family, KERNEL_PORT) });
            tokio::try_join!(lab.north.call(Accept { socket: listener }), connect)?;
        }
        End::Userspace => {
            let setup =
                Setup { family, opener: End::Kernel, userspace: Vec::new(), kernel: Vec::new(), number: 0 };
            let userspace = setup.userspace(lab)?;
            let _listener = userspace.stack.listen(None, USERSPACE_PORT)?;
            let socket = md5_socket(&lab.north, Port::Userspace, family, 0).await?;
            let answer = lab.wire.await_recorded("an answer", |recording| {
                let mut answers = recording.segments_from(Port::Userspace);
                answers.any(|segment| segment.flags().syn() && segment.flags().ack()).then_some(())
            });
            // The answer is unsigned, and so refused.
            refused(answer, lab.north.call(Connect { socket, remote: setup.userspace_listens_at() })).await?;
        }
    }
    Ok(Refusal::of(format!("answered by {listener}"), 1))
}
