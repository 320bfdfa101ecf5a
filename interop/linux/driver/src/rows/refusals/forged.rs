//! On an established session: resets, data and SYNs that somebody forges or replays. The session never notices.

use std::io::ErrorKind;

use agent::NetworkCounters;
use futures_util::FutureExt;
use router_peer::stack::TcpStream;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, Mkt, Segment, SocketPair};

use crate::failure::{Failure, ensure};
use crate::forge::Forgery;
use crate::lab::{Family, Lab, TIME_LIMIT};
use crate::recording::Recording;
use crate::rows::session::{Beside, End, Ends, Session, Setup, key};
use crate::rows::{Evidence, Refusal, Row};
use crate::userspace::{Amount, guest_transfer};

/// Octets each way of a transfer.
const SOME: u64 = 64 << 10;
/// A KeyID that neither end has.
const UNKNOWN: KeyId = KeyId(99);
/// Data that nobody has sent.
const DATA: &[u8] = b"forged";

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for family in Family::ALL {
        for opener in End::BOTH {
            rows.push(Row::new(
                format!("refusals-forged-{}-{}-opens", family.name().to_lowercase(), opener.name()),
                format!(
                    "to each end of a session over {} that the {} end has opened: an unsigned reset, a reset with a wrong MAC, \
                     unsigned data, data under an unknown KeyID, data with a wrong MAC; its last data and its first segment, \
                     a signed SYN or SYN-ACK, again. The session goes on",
                    family.name(),
                    opener.name()
                ),
                move |lab| attack(lab, family, opener).boxed_local(),
                "the unsigned reset, without TCP-AO; and a reset under the right key",
                move |lab| reset_both(lab, family, opener).boxed_local(),
            ));
        }
    }
    rows
}

/// What is done to an end, in the other's name.
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

impl Attack {
    const ALL: [Self; 7] = [
        Self::UnsignedReset,
        Self::ResetWithWrongMac,
        Self::UnsignedData,
        Self::DataWithWrongMac,
        Self::DataUnderUnknownKey,
        Self::DataReplayed,
        Self::OpeningReplayed,
    ];

    /// The frame, in the name of the end `pair.local`, whose MKT is `mkt`.
    fn frame(self, recording: &Recording, pair: SocketPair, mkt: &Mkt) -> Result<Vec<u8>, Failure> {
        let next =
            Forgery::next(recording, pair).ok_or_else(|| Failure(format!("{pair} is not on the wire")))?;
        let (send_id, recv_id, mac_length) = (mkt.send_id(), mkt.recv_id(), mkt.parameters().mac_length());
        match self {
            Self::UnsignedReset => next.reset().frame(),
            Self::ResetWithWrongMac => next.reset().with_made_up_mac(send_id, recv_id, mac_length)?.frame(),
            Self::UnsignedData => next.carrying(DATA).frame(),
            Self::DataWithWrongMac => {
                next.carrying(DATA).with_made_up_mac(send_id, recv_id, mac_length)?.frame()
            }
            Self::DataUnderUnknownKey => {
                next.carrying(DATA).with_made_up_mac(UNKNOWN, recv_id, mac_length)?.frame()
            }
            Self::DataReplayed => recorded(recording, pair, |segment| !segment.payload().is_empty()),
            Self::OpeningReplayed => recorded(recording, pair, |segment| segment.flags().syn()),
        }
    }

    /// What the end that is attacked counts.
    const fn counted(self, beside: &mut Beside) {
        match self {
            Self::UnsignedReset | Self::UnsignedData => beside.required += 1,
            Self::ResetWithWrongMac | Self::DataWithWrongMac => beside.bad += 1,
            Self::DataUnderUnknownKey => beside.key_not_found += 1,
            Self::DataReplayed | Self::OpeningReplayed => beside.good += 1,
        }
    }
}

/// The last such frame of the end `pair.local`.
fn recorded(
    recording: &Recording,
    pair: SocketPair,
    wanted: impl Fn(&Segment<'_>) -> bool,
) -> Result<Vec<u8>, Failure> {
    let found = recording.frames.iter().rev().filter(|frame| frame.from.is_some()).find(|frame| {
        frame.segment().is_some_and(|segment| {
            (segment.source(), segment.destination()) == (pair.local, pair.remote) && wanted(&segment)
        })
    });
    found
        .map(|frame| frame.octets.clone())
        .ok_or_else(|| Failure(format!("{pair}: there is nothing to replay")))
}

/// The connection as the end sees it in whose name the attack on `victim` goes.
fn pair_against(ends: &Ends<'_>, victim: End) -> SocketPair {
    match victim {
        End::Kernel => ends.pair,
        End::Userspace => ends.pair.reversed(),
    }
}

async fn attack(lab: &Lab, family: Family, opener: End) -> Result<Evidence, Failure> {
    let mkt = key(1, TcpAoAlgorithm::Aes128Cmac)?;
    let mut session =
        Session::open(lab, Setup::with_keys(family, opener, std::slice::from_ref(&mkt))).await?;
    session.exchange(SOME, SOME).await?;
    let (mut by_userspace, mut by_kernel) = (Beside::default(), Beside::default());
    for attack in Attack::ALL {
        for victim in End::BOTH {
            session.ends.quiet().await?;
            let pair = pair_against(&session.ends, victim);
            let mkt = if victim == End::Kernel { mkt.clone() } else { crate::rows::session::mirrored(&mkt)? };
            let frame = lab.wire.look(|recording| attack.frame(recording, pair, &mkt))?;
            let (before, good_before) =
                (session.ends.kernel_counted().await?, session.ends.userspace.counters());
            lab.wire.inject(victim.port(), frame);
            let beside = if victim == End::Kernel { &mut by_kernel } else { &mut by_userspace };
            attack.counted(beside);
            // It has been dealt with when it has been counted.
            let named = |failure: Failure| failure.during(format_args!("{attack:?} to {}", victim.name()));
            if victim == End::Kernel {
                let mut grown = Beside::default();
                attack.counted(&mut grown);
                let grown = NetworkCounters {
                    good: grown.good,
                    bad: grown.bad,
                    key_not_found: grown.key_not_found,
                    ao_required: grown.required,
                    ..NetworkCounters::default()
                };
                session.ends.await_kernel_counted(before.plus(&grown)).await.map_err(named)?;
            } else {
                let counted = session.ends.userspace.await_counters(|counters| *counters != good_before);
                counted.await.map_err(named)?;
            }
            session.exchange(1, 1).await.map_err(named)?;
        }
    }
    session.exchange(SOME, SOME).await?;
    session.ends.check_info().await?;
    let mut evidence = session.close(by_userspace, by_kernel).await?;
    evidence.figures = format!("{} attacks on each end", Attack::ALL.len());
    Ok(evidence)
}

/// What an attacker would achieve without TCP-AO, or with the key: to show that the resets stand where they have an effect.
async fn reset_both(lab: &Lab, family: Family, opener: End) -> Result<Refusal, Failure> {
    let mkt = key(1, TcpAoAlgorithm::Aes128Cmac)?;
    let mut refusal = Refusal { counted: Vec::new() };
    for is_protected in [false, true] {
        let mkts: Vec<Mkt> = is_protected.then(|| mkt.clone()).into_iter().collect();
        for victim in End::BOTH {
            let mut session = Session::open(lab, Setup::with_keys(family, opener, &mkts)).await?;
            session.exchange(SOME, SOME).await?;
            session.ends.quiet().await?;
            let pair = pair_against(&session.ends, victim);
            let mkt = if victim == End::Kernel { mkt.clone() } else { crate::rows::session::mirrored(&mkt)? };
            let reset = lab.wire.look(|recording| {
                let reset = Forgery::next(recording, pair)?.reset();
                Some(if is_protected { reset.signed_with(&mkt, recording) } else { Ok(reset) })
            });
            reset.ok_or_else(|| Failure(format!("{pair} is not on the wire")))??.inject(&lab.wire)?;
            match victim {
                End::Userspace => has_reset_userspace(&mut session.stream).await?,
                End::Kernel => has_reset_kernel(lab, session.ends.socket).await?,
            }
            let how = if is_protected { "right key" } else { "without TCP-AO" };
            refusal.counted.push((format!("{} reset ({how})", victim.name()), 1));
        }
    }
    Ok(refusal)
}

/// Waits until the userspace end finds its connection reset.
pub async fn has_reset_userspace(stream: &mut TcpStream) -> Result<(), Failure> {
    let read = timeout(TIME_LIMIT, stream.read(&mut [0])).await;
    let read = read.map_err(|_| Failure("userspace still waits".to_owned()))?;
    let is_reset = matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset);
    ensure(is_reset, || format!("userspace has read {read:?}"))
}

/// Waits until the kernel's socket finds its connection reset.
pub async fn has_reset_kernel(lab: &Lab, socket: u64) -> Result<(), Failure> {
    let read = guest_transfer(socket, Amount::NONE, Amount { octets: 1, ..Amount::NONE });
    let read = lab.north.call(read).await;
    let is_reset = matches!(&read, Err(Failure(sentence)) if sentence.contains("Connection reset by peer"));
    ensure(is_reset, || format!("the kernel has read {read:?}"))
}
