//! SYNs: no session comes of one that is not signed as the listener's key says, and each is counted where it should be.

use std::pin::pin;

use agent::{
    Accept, AwaitCounters, Close, Connect, GetInfo, Key, Listen, NetworkCounters, Open, Reset, Secret,
    SetMd5Key,
};
use futures_util::FutureExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::option::kind;
use wireseal_tcp_ao::{Counters, KeyId, MasterKey, Mkt, OptionCoverage, Segment};

use crate::failure::{Failure, ensure};
use crate::guest::{at, unspecified_like};
use crate::lab::{Addresses, Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::rows::session::{End, Setup, USERSPACE_PORT, counted_by, described, key, key_with};
use crate::rows::{Evidence, Refusal, Row};
use crate::userspace::Userspace;
use crate::verify::{Keys, Verdicts, verify};
use crate::wire::Port;

/// What is wrong with a SYN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Secret,
    KeyId,
    MacLength,
    Algorithm,
    Coverage,
    /// It is unsigned.
    Unsigned,
    /// The listener has no key at all.
    NoKeyThere,
    /// The listener has a key, but for another peer.
    KeyOfAnotherPeer,
    /// Nothing, for the twin.
    Nothing,
}

impl Wrong {
    const ALL: [Self; 8] = [
        Self::Secret,
        Self::KeyId,
        Self::MacLength,
        Self::Algorithm,
        Self::Coverage,
        Self::Unsigned,
        Self::NoKeyThere,
        Self::KeyOfAnotherPeer,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Secret => "wrong secret",
            Self::KeyId => "unknown KeyID",
            Self::MacLength => "MAC of another length",
            Self::Algorithm => "another algorithm",
            Self::Coverage => "options covered, or not",
            Self::Unsigned => "unsigned",
            Self::NoKeyThere => "listener without keys",
            Self::KeyOfAnotherPeer => "listener with another peer's key",
            Self::Nothing => "nothing wrong",
        }
    }

    /// The key of the listener, as the userspace end has it or would.
    fn listener_key(self) -> Result<Option<Mkt>, Failure> {
        let right = key(1, TcpAoAlgorithm::HmacSha1)?;
        Ok(Some(match self {
            Self::Secret => key_with(1, TcpAoAlgorithm::HmacSha1, "another secret of key 1, 32 octets")?,
            Self::KeyId => key(2, TcpAoAlgorithm::HmacSha1)?,
            Self::MacLength => right.with_mac_length(16)?,
            Self::Algorithm => key(1, TcpAoAlgorithm::Aes128Cmac)?,
            Self::Coverage => right.with_options(OptionCoverage::Excluded),
            Self::NoKeyThere => return Ok(None),
            Self::Unsigned | Self::KeyOfAnotherPeer | Self::Nothing => right,
        }))
    }

    /// The key of the opener.
    fn opener_key(self) -> Result<Option<Mkt>, Failure> {
        if self == Self::Unsigned { Ok(None) } else { Ok(Some(key(1, TcpAoAlgorithm::HmacSha1)?)) }
    }

    /// What is counted of so many SYNs.
    fn counted(self, syns: u64) -> NetworkCounters {
        let nothing = NetworkCounters::default();
        match self {
            // With nothing wrong it does not come to that.
            Self::Secret | Self::MacLength | Self::Algorithm | Self::Coverage | Self::Nothing => {
                NetworkCounters { bad: syns, ..nothing }
            }
            Self::KeyId | Self::NoKeyThere | Self::KeyOfAnotherPeer => {
                NetworkCounters { key_not_found: syns, ..nothing }
            }
            Self::Unsigned => NetworkCounters { ao_required: syns, ..nothing },
        }
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for family in Family::ALL {
        for listener in End::BOTH {
            rows.push(Row::new(
                format!("refusals-syn-{}-{}-listens", family.name().to_lowercase(), listener.name()),
                format!(
                    "SYNs over {} to the {} end: wrong secret, unknown KeyID, MAC of another length, another algorithm, other \
                     coverage of options, unsigned, no key at the listener, or another peer's: no answer, no session",
                    family.name(),
                    listener.name()
                ),
                move |lab| all_wrong(lab, family, listener).boxed_local(),
                "the right key at both ends",
                move |lab| nothing_wrong(lab, family, listener).boxed_local(),
            ));
        }
    }
    for listener in End::BOTH {
        rows.push(Row::new(
            format!("refusals-md5-syn-{}-listens", listener.name()),
            format!(
                "TCP-MD5 SYNs over both versions of IP to the {} end, which has a TCP-AO key",
                listener.name()
            ),
            move |lab| md5_refused(lab, listener).boxed_local(),
            "the listener has a TCP-MD5 key, or is unprotected",
            move |lab| md5_accepted(lab, listener).boxed_local(),
        ));
    }
    rows
}

/// Row over everything that can be wrong.
async fn all_wrong(lab: &Lab, family: Family, listener: End) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    let mut sum = NetworkCounters::default();
    for wrong in Wrong::ALL {
        let named = |failure: Failure| failure.during(wrong.name());
        let refused = attempt(lab, family, listener, wrong).await.map_err(named)?;
        let (counted, recording) =
            refused.ok_or_else(|| named(Failure("a session came about".to_owned())))?;
        sum = sum.plus(&counted);
        // The opener's signature is right as far as the opener is concerned.
        let keys =
            Keys { local: End::Userspace.address(family), mkts: wrong.opener_key()?.into_iter().collect() };
        let verdicts = verify(&recording, &[keys]);
        let syns = recording.segments_from(opposite(listener).port()).count() as u64;
        let unsigned = if wrong == Wrong::Unsigned { syns } else { 0 };
        ensure((verdicts.verified, verdicts.unsigned) == (syns - unsigned, unsigned), || {
            named(Failure(format!("recording: {verdicts} of {syns} SYNs"))).0
        })?;
        evidence.wire.add(verdicts);
        evidence.unsigned += unsigned;
        evidence.recording.append(recording);
    }
    evidence.counters = vec![(listener.name().to_owned(), sum.to_string())];
    evidence.figures = format!("{} ways to be refused, no answer to any", Wrong::ALL.len());
    Ok(evidence)
}

/// One attempt: refused without an answer, and counted for each SYN that has come; or a session, and nothing to report.
async fn attempt(
    lab: &Lab,
    family: Family,
    listener: End,
    wrong: Wrong,
) -> Result<Option<(NetworkCounters, Recording)>, Failure> {
    lab.clear().await?;
    let before = lab.north.counters().await?;
    let (listeners_key, openers_key) = (wrong.listener_key()?, wrong.opener_key()?);
    let opener = opposite(listener);
    let counted = match listener {
        End::Kernel => {
            let setup = Setup {
                family,
                opener,
                userspace: openers_key.into_iter().collect(),
                kernel: listeners_key.into_iter().collect(),
            };
            refused_by_kernel(lab, &setup, wrong, &before).await?
        }
        End::Userspace => {
            let setup = Setup {
                family,
                opener,
                userspace: listeners_key.into_iter().collect(),
                kernel: openers_key.into_iter().collect(),
            };
            refused_by_userspace(lab, &setup, wrong).await?
        }
    };
    let Some(counted) = counted else { return Ok(None) };
    let mut recording = lab.wire.take_recording();
    recording.frames.retain(|frame| !frame.is_lost);
    let syns = check_unanswered(&recording, opener.port(), listener.port())?;
    ensure(counted == wrong.counted(syns), || {
        format!("{} has counted {counted} for {syns} SYNs", listener.name())
    })?;
    let kernel = lab.north.counters().await?.since(&before);
    let expected = if listener == End::Kernel { counted } else { NetworkCounters::default() };
    ensure(kernel == expected, || format!("the kernel has counted {kernel}"))?;
    Ok(Some((counted, recording)))
}

const fn opposite(end: End) -> End {
    match end {
        End::Userspace => End::Kernel,
        End::Kernel => End::Userspace,
    }
}

/// Checks that the opener has sent SYNs and nothing else, and that nothing answers to them. What the listener's port says to
/// others, such as the last words of an earlier row's connection, is not an answer. Gives the number of SYNs.
fn check_unanswered(recording: &Recording, opener: Port, listener: Port) -> Result<u64, Failure> {
    let ends = |segment: &Segment<'_>| (segment.source(), segment.destination());
    let sent: Vec<_> = recording.segments_from(opener).collect();
    let is_syn = |segment: &Segment<'_>| segment.flags().syn() && !segment.flags().ack();
    ensure(!sent.is_empty() && sent.iter().all(is_syn), || {
        format!("the opener has sent something else: {sent:?}")
    })?;
    let is_answer =
        |segment: &Segment<'_>| sent.iter().any(|syn| ends(syn) == (segment.destination(), segment.source()));
    let answers = recording.segments_from(listener).filter(is_answer).count();
    ensure(answers == 0, || format!("the listener has answered {answers} times"))?;
    Ok(sent.len() as u64)
}

async fn refused_by_kernel(
    lab: &Lab,
    setup: &Setup,
    wrong: Wrong,
    before: &NetworkCounters,
) -> Result<Option<NetworkCounters>, Failure> {
    let userspace = setup.userspace(lab)?;
    let socket = if wrong == Wrong::KeyOfAnotherPeer {
        let remote = Addresses::of(Port::South).in_family(setup.family);
        let mut keys = Vec::new();
        for mkt in &setup.kernel {
            keys.push(Key { remote: remote.into(), ..crate::rows::session::kernel_key(setup.family, mkt)? });
        }
        let local = at(unspecified_like(remote), 0);
        lab.north.call(Open { local, keys, required: false }).await?
    } else {
        setup.kernel_socket(lab).await?
    };
    let address = lab.north.call(Listen { socket }).await?;
    let wait = |syns| AwaitCounters {
        at_least: before.plus(&wrong.counted(syns)),
        time_limit: TIME_LIMIT_MILLISECONDS,
    };
    {
        let mut connect = pin!(userspace.connect(at(End::Kernel.address(setup.family), address.port())));
        tokio::select! {
            after = lab.north.call(wait(1)) => {
                after?;
                // At the end of this block the stack gives its attempt up, with a reset that nobody is to hear.
                lab.wire.set_plugged(Port::Userspace, false);
            }
            stream = &mut connect => {
                drop(stream?);
                lab.north.call(Close { socket }).await?;
                return Ok(None);
            }
        }
    }
    let counters = userspace.counters();
    ensure(counters == Counters::default(), || format!("userspace has counted {}", described(&counters)))?;
    // Without the stack there are no more SYNs.
    drop(userspace);
    let syns = lab.wire.segments_from(Port::Userspace);
    let after = lab.north.call(wait(syns)).await?;
    let accepted = lab.north.call(Accept { socket, time_limit: 1 }).await;
    ensure(accepted.is_err(), || "the kernel has accepted a connection".to_owned())?;
    check_listener(lab, socket, !setup.kernel.is_empty(), after.since(before)).await?;
    lab.north.call(Close { socket }).await?;
    Ok(Some(after.since(before)))
}

/// Checks that the kernel's listener says of itself what the kernel has counted altogether, if it has keys.
async fn check_listener(
    lab: &Lab,
    socket: u64,
    has_keys: bool,
    counted: NetworkCounters,
) -> Result<(), Failure> {
    let info = lab.north.call(GetInfo { socket }).await?;
    let says = info.as_ref().map(counted_by);
    ensure(says == has_keys.then_some(counted), || {
        format!("the kernel has counted {counted}, its listener says {info:?}")
    })
}

async fn refused_by_userspace(
    lab: &Lab,
    setup: &Setup,
    wrong: Wrong,
) -> Result<Option<NetworkCounters>, Failure> {
    let userspace = if wrong == Wrong::KeyOfAnotherPeer {
        let remote = Addresses::of(Port::South).in_family(setup.family);
        let mkts = wireseal_tcp_ao::MktSet::from_mkts(setup.userspace.iter().cloned())?;
        Userspace::start(&lab.wire, vec![Userspace::peer(remote, mkts)])?
    } else {
        setup.userspace(lab)?
    };
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let socket = setup.kernel_socket(lab).await?;
    let remote = at(End::Userspace.address(setup.family), USERSPACE_PORT);
    let connect = lab.north.call(Connect { socket, remote, time_limit: TIME_LIMIT_MILLISECONDS });
    tokio::select! {
        counters = userspace.await_counters(|counters| network(counters).has_reached(&wrong.counted(1))) => drop(counters?),
        stream = userspace.accept(&mut listener) => {
            drop(stream?);
            lab.north.call(Reset { socket }).await?;
            return Ok(None);
        }
        connected = connect => {
            connected?;
            lab.north.call(Reset { socket }).await?;
            return Ok(None);
        }
    }
    // Without the socket there are no more SYNs.
    lab.north.call(Close { socket }).await?;
    let syns = lab.wire.segments_from(Port::North);
    let wanted = wrong.counted(syns);
    let counters = userspace.await_counters(|counters| network(counters).has_reached(&wanted)).await?;
    Ok(Some(network(&counters)))
}

fn network(counters: &Counters) -> NetworkCounters {
    NetworkCounters {
        good: counters.good,
        bad: counters.bad,
        key_not_found: counters.key_not_found,
        ao_required: counters.required,
        dropped_icmps: counters.dropped_icmp,
        ..NetworkCounters::default()
    }
}

/// The same attempt with the right key comes to a session.
async fn nothing_wrong(lab: &Lab, family: Family, listener: End) -> Result<Refusal, Failure> {
    let before = lab.north.counters().await?;
    let refused = attempt(lab, family, listener, Wrong::Nothing).await?;
    ensure(refused.is_none(), || "no session came about".to_owned())?;
    let good = lab.north.counters().await?.since(&before).good;
    Ok(Refusal { counted: vec![("sessions".to_owned(), 1), ("kernel: good".to_owned(), good)] })
}

/// The secret of the TCP-MD5 keys.
const MD5_SECRET: &[u8] = b"secret of TCP-MD5";
/// The port of a listener in the first guest, which the second guest connects to.
const KERNEL_PORT: u16 = 1790;

/// A socket of the guest's with a TCP-MD5 key for `remote`, bound.
async fn md5_socket(
    guest: &crate::guest::Guest,
    remote: std::net::IpAddr,
    port: u16,
) -> Result<u64, Failure> {
    let local = at(unspecified_like(remote), port);
    let socket = guest.call(Open { local, keys: Vec::new(), required: false }).await?;
    let secret = Some(Secret::new(MD5_SECRET));
    guest.call(SetMd5Key { socket, remote: remote.into(), vrf: None, secret }).await?;
    Ok(socket)
}

/// Whether a segment has a TCP-MD5 option.
fn has_md5_option(segment: &Segment<'_>) -> bool {
    segment.options().any(|option| option.is_ok_and(|option| option.kind == kind::MD5_SIGNATURE))
}

async fn md5_refused(lab: &Lab, listener: End) -> Result<Evidence, Failure> {
    let mut evidence = Evidence::default();
    let mut counted = Vec::new();
    let mut syns = 0;
    for family in Family::ALL {
        lab.clear().await?;
        let (by_listener, opener) = match listener {
            End::Kernel => (md5_refused_by_kernel(lab, family).await?, Port::South),
            End::Userspace => (md5_refused_by_userspace(lab, family).await?, Port::North),
        };
        let recording = lab.wire.take_recording();
        let sent = check_unanswered(&recording, opener, listener.port())?;
        ensure(recording.segments_from(opener).all(|syn| has_md5_option(&syn)), || {
            "a SYN has no TCP-MD5 option".to_owned()
        })?;
        let expected = match listener {
            End::Kernel => NetworkCounters { md5_unexpected: sent, ..NetworkCounters::default() },
            End::Userspace => NetworkCounters { ao_required: sent, ..NetworkCounters::default() },
        };
        ensure(by_listener == expected, || format!("counted {by_listener} for {sent} SYNs"))?;
        syns += sent;
        evidence.unsigned += sent;
        counted.push(by_listener.to_string());
        evidence.wire.add(Verdicts { unsigned: sent, ..Verdicts::default() });
        evidence.recording.append(recording);
    }
    evidence.counters = vec![(listener.name().to_owned(), counted.join(" (IPv4), ") + " (IPv6)")];
    evidence.figures = format!("{syns} SYNs, no answer");
    Ok(evidence)
}

async fn md5_refused_by_kernel(lab: &Lab, family: Family) -> Result<NetworkCounters, Failure> {
    let south = lab.south().await?;
    let before = lab.north.counters().await?;
    let (here, there) =
        (Addresses::of(Port::North).in_family(family), Addresses::of(Port::South).in_family(family));
    let keys = vec![Key::new(
        there,
        &Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::HmacSha1, MasterKey::new(MD5_SECRET)?)?,
    )];
    let listener = lab
        .north
        .call(Open { local: at(unspecified_like(here), KERNEL_PORT), keys, required: false })
        .await?;
    lab.north.call(Listen { socket: listener }).await?;
    let socket = md5_socket(south, here, 0).await?;
    let time_limit = TIME_LIMIT_MILLISECONDS;
    let wait = |syns| AwaitCounters {
        at_least: before.plus(&NetworkCounters { md5_unexpected: syns, ..NetworkCounters::default() }),
        time_limit,
    };
    tokio::select! {
        after = lab.north.call(wait(1)) => drop(after?),
        address = south.call(Connect { socket, remote: at(here, KERNEL_PORT), time_limit }) => {
            return Err(Failure(format!("the second guest is connected: {}", address?)));
        }
    }
    south.call(Close { socket }).await?;
    let after = lab.north.call(wait(lab.wire.segments_from(Port::South))).await?;
    // TCP-MD5's counters are not a socket's.
    check_listener(lab, listener, true, NetworkCounters::default()).await?;
    lab.north.call(Close { socket: listener }).await?;
    Ok(after.since(&before))
}

async fn md5_refused_by_userspace(lab: &Lab, family: Family) -> Result<NetworkCounters, Failure> {
    let mkt = key(1, TcpAoAlgorithm::HmacSha1)?;
    let setup = Setup { family, opener: End::Kernel, userspace: vec![mkt], kernel: Vec::new() };
    let userspace = setup.userspace(lab)?;
    let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
    let here = End::Userspace.address(family);
    let socket = md5_socket(&lab.north, here, 0).await?;
    let connect = Connect { socket, remote: at(here, USERSPACE_PORT), time_limit: TIME_LIMIT_MILLISECONDS };
    tokio::select! {
        counters = userspace.await_counters(|counters| counters.required > 0) => drop(counters?),
        stream = userspace.accept(&mut listener) => {
            return Err(Failure(format!("a connection came about: {:?}", stream?)));
        }
        address = lab.north.call(connect) => return Err(Failure(format!("the kernel is connected: {}", address?))),
    }
    lab.north.call(Close { socket }).await?;
    let syns = lab.wire.segments_from(Port::North);
    Ok(network(&userspace.await_counters(|counters| counters.required >= syns).await?))
}

/// With TCP-MD5 at the listener too, or with nothing at the userspace one, which then answers, the SYN is heard.
async fn md5_accepted(lab: &Lab, listener: End) -> Result<Refusal, Failure> {
    let family = Family::Ipv4;
    let time_limit = TIME_LIMIT_MILLISECONDS;
    match listener {
        End::Kernel => {
            let south = lab.south().await?;
            let (here, there) =
                (Addresses::of(Port::North).in_family(family), Addresses::of(Port::South).in_family(family));
            let listener = md5_socket(&lab.north, there, KERNEL_PORT).await?;
            lab.north.call(Listen { socket: listener }).await?;
            let socket = md5_socket(south, here, 0).await?;
            let accept = lab.north.call(Accept { socket: listener, time_limit });
            let connect = south.call(Connect { socket, remote: at(here, KERNEL_PORT), time_limit });
            let (accepted, _) = tokio::try_join!(accept, connect)?;
            south.call(Close { socket }).await?;
            for socket in [accepted.socket, listener] {
                lab.north.call(Close { socket }).await?;
            }
        }
        End::Userspace => {
            let setup = Setup { family, opener: End::Kernel, userspace: Vec::new(), kernel: Vec::new() };
            let userspace = setup.userspace(lab)?;
            let _listener = userspace.stack.listen(None, USERSPACE_PORT)?;
            let here = End::Userspace.address(family);
            let socket = md5_socket(&lab.north, here, 0).await?;
            let connect = lab.north.call(Connect { socket, remote: at(here, USERSPACE_PORT), time_limit });
            let answer = lab.wire.await_recorded("an answer", |recording| {
                let mut answers = recording.segments_from(Port::Userspace);
                answers.any(|segment| segment.flags().syn() && segment.flags().ack()).then_some(())
            });
            tokio::select! {
                answer = answer => answer?,
                // The answer is unsigned.
                address = connect => return Err(Failure(format!("the kernel is connected: {}", address?))),
            }
            lab.north.call(Close { socket }).await?;
        }
    }
    Ok(Refusal { counted: vec![(format!("answered by {}", listener.name()), 1)] })
}
