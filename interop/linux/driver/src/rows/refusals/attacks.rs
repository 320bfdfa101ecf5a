//! On an established session: resets, data and SYNs that are forged or replayed. The session never notices.

use agent::Counted;
use speaker::forge::Forgery;
use speaker::protection::mirrored;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt, Segment, SocketPair};

use crate::forge::inject;
use crate::prelude::*;
use crate::rows::session::{End, SOME, Session, Setup, families_and_ends, key, key_with};

/// Data that no end has sent.
const DATA: &[u8] = b"forged";
const ALGORITHM: TcpAoAlgorithm = TcpAoAlgorithm::Aes128Cmac;

pub fn rows() -> Vec<Row> {
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
    /// The packet, in the name of the end `pair.local`. The MKTs are wrong for it: one has the right KeyIDs, one has others.
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

/// The session's key as the end has it in whose name an attack on `victim` goes.
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
            // Once it has been counted, the victim has dealt with it.
            session.ends.await_counted(victim, before[place].plus(&counts)).await.with_context(named)?;
            session.exchange(1, 1).await.with_context(named)?;
        }
    }
    session.exchange(SOME, SOME).await?;
    session.ends.check_info().await?;
    let evidence = session.close().await?;
    Ok(evidence.with_figures(format!("{} attacks on each end", ATTACKS.len())))
}

/// What an attacker would achieve without TCP-AO, or with the key: the same resets have an effect then.
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
