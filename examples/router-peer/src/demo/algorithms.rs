//! A session under each algorithm, over each IP version.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::AoOption;

use super::peers::{Keys, Peers, SECRET, key};
use super::recording::Recording;
use super::routes::exchange;
use super::{Conditions, Outcome, ensure, grouped};
use crate::bgp::rib::Family;
use crate::routes::generate;
use crate::transport::memory::Direction;

/// Routes sent each way.
const ROUTES: usize = 1000;

/// An algorithm that does not go together with this one.
fn another(algorithm: TcpAoAlgorithm) -> TcpAoAlgorithm {
    if algorithm == TcpAoAlgorithm::HmacSha1 { TcpAoAlgorithm::Aes128Cmac } else { TcpAoAlgorithm::HmacSha1 }
}

pub(super) async fn session(algorithm: TcpAoAlgorithm, family: Family, conditions: Conditions) -> Outcome {
    let other = if conditions.sabotaged { another(algorithm) } else { algorithm };
    let keys = Keys::new(key(1, algorithm, SECRET)?, key(1, other, SECRET)?)?;
    let peers = Peers::new(conditions.seed, keys)?;
    let recording = Recording::start(&peers.wire);
    let sessions = peers.establish(family).await?;
    let hold_time = sessions.a.status().borrow().hold_time;
    ensure!(hold_time == Some(30), "agreed on a hold time of {hold_time:?} instead of 30 s");
    let table = generate(ROUTES);
    exchange(&sessions, table.clone(), &table).await?;
    sessions.still_up()?;
    peers.quiet(&sessions).await?;

    let [by_a, by_b] = peers.all_verified()?;
    let mac_length = algorithm.default_mac_length();
    let option_length = AoOption::length_with(mac_length);
    for (direction, verified) in [(Direction::AToB, by_b), (Direction::BToA, by_a)] {
        let mut signed = 0;
        recording.each(direction, |segment| {
            let length = segment.ao_option()?.map(|ao| ao.length());
            ensure!(length == Some(option_length), "an AO option of {length:?} octets, not {option_length}");
            signed += 1;
            Ok(())
        })?;
        ensure!(signed == verified, "{signed} segments were signed but {verified} verified");
    }
    Ok(format!(
        "{} routes each way in {} segments, each signed with a MAC of {mac_length} octets and verified",
        grouped(ROUTES),
        by_a + by_b
    ))
}
