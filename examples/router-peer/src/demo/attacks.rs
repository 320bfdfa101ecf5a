//! One packet that would end the session if it got through.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::MktSet;

use super::peers::{Keys, Peers, SECRET, key, usual_key};
use super::recording::Recording;
use super::scene::Scene;
use super::tally::Tally;
use super::{Conditions, Outcome, ensure};
use crate::bgp::rib::Family;
use crate::transport::memory::Direction;

/// What somebody without the secret might guess.
const GUESS: &[u8; 32] = b"someone else guesses this secret";
/// The id of a key that no router has.
const UNKNOWN_ID: u8 = 9;
/// A NOTIFICATION of BGP: Cease, Administrative Shutdown (RFC 4271 section 4.5, RFC 4486).
pub(super) const CEASE: [u8; 21] =
    [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 21, 3, 6, 2];

/// Somebody who has got hold of everything but the secret sends what the first router would.
pub(super) async fn bad_key(conditions: Conditions) -> Outcome {
    let scene = Scene::set(conditions.seed, Keys::usual()?).await?;
    let secret = if conditions.sabotaged { SECRET } else { GUESS };
    let mut impostor = scene.impostor(key(1, TcpAoAlgorithm::Aes128Cmac, secret)?)?;
    let cease = scene.forge()?.carrying(&CEASE).signed_by(&mut impostor)?.finish();
    scene.strike([cease], Tally::bad(1)).await
}

/// A router with another secret tries to open a session.
pub(super) async fn bad_key_session(conditions: Conditions) -> Outcome {
    let secret = if conditions.sabotaged { SECRET } else { GUESS };
    let keys = Keys::new(key(1, TcpAoAlgorithm::Aes128Cmac, secret)?, usual_key()?)?;
    let peers = Peers::new(conditions.seed, keys)?;
    let recording = Recording::start(&peers.wire);
    // It is given up at the first packet that a router drops.
    let opened = peers.connect(Family::Ipv4, None).await;
    ensure!(opened.is_err(), "the connection was opened all the same");
    peers.taken_in().await?;
    let seen = Tally::of(&peers.b);
    ensure!(seen.dropped > 0 && seen == Tally::bad(seen.dropped), "{seen}, instead of bad alone");
    let mut answers = 0;
    recording.each(Direction::BToA, |_| {
        answers += 1;
        Ok(())
    })?;
    ensure!(answers == 0, "the second router answered {answers} times");
    Ok(format!("{seen}; not one answer, no session"))
}

/// The right secret, but under the id of a key that nobody has configured.
pub(super) async fn unknown_key_id(conditions: Conditions) -> Outcome {
    let stray = key(UNKNOWN_ID, TcpAoAlgorithm::Aes128Cmac, SECRET)?;
    let mut keys = Keys::usual()?;
    if conditions.sabotaged {
        keys.b = Some(MktSet::from_mkts([usual_key()?, stray.clone()])?);
    }
    let scene = Scene::set(conditions.seed, keys).await?;
    let mut impostor = scene.impostor(stray)?;
    let cease = scene.forge()?.carrying(&CEASE).signed_by(&mut impostor)?.finish();
    scene.strike([cease], Tally::key_not_found()).await
}

/// What ends a session that is not protected: a reset with the right addresses, ports and sequence number.
pub(super) async fn unsigned_reset(conditions: Conditions) -> Outcome {
    let keys = if conditions.sabotaged { Keys::default() } else { Keys::usual()? };
    let scene = Scene::set(conditions.seed, keys).await?;
    let reset = scene.forge()?.reset().unsigned().finish();
    scene.strike([reset], Tally::required()).await
}

/// The same with an option whose MAC is made up.
pub(super) async fn forged_reset(conditions: Conditions) -> Outcome {
    let scene = Scene::set(conditions.seed, Keys::usual()?).await?;
    let reset = scene.forge()?.reset();
    let reset = if conditions.sabotaged {
        reset.signed_by(&mut scene.impostor(usual_key()?)?)?
    } else {
        reset.with_mac_of(0xa5)?
    };
    scene.strike([reset.finish()], Tally::bad(1)).await
}
