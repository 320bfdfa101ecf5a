//! An ISN of 2^32 - 1: the very first octet of data has SNE 1.

use agent::{AwaitCounters, NetworkCounters};
use futures_util::FutureExt;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{ConnectionState, Isn, MktSet, SeqNum, Sne};

use super::userspace::connect_from_kernel;
use crate::failure::{Failure, ensure};
use crate::lab::{Family, Lab, TIME_LIMIT_MILLISECONDS};
use crate::rows::kernels::{Kernels, reset};
use crate::rows::session::{Beside, End, Session, Setup, key};
use crate::rows::{Evidence, Refusal, Row};

/// The last number before the wrap.
const LAST: Isn = Isn(u32::MAX);
/// Octets each way.
const OCTETS: u64 = 256 << 10;

pub fn rows() -> Vec<Row> {
    Family::ALL.into_iter().map(row).collect()
}

fn row(family: Family) -> Row {
    Row::new(
        format!("wrap-first-octet-{}", family.name().to_lowercase()),
        format!(
            "kernel opens over {} with ISN 2^32 - 1: its first octet of data has SNE 1; {} KiB each way. A second kernel \
             is asked the same, and the figures say what it did",
            family.name(),
            OCTETS >> 10
        ),
        move |lab| carry(lab, family).boxed_local(),
        "userspace starts to receive with SNE 0",
        move |lab| start_behind(lab, family).boxed_local(),
    )
}

fn setup(family: Family) -> Result<Setup, Failure> {
    Ok(Setup::with_keys(family, End::Kernel, &[key(1, TcpAoAlgorithm::HmacSha1)?]))
}

async fn open(lab: &Lab, family: Family) -> Result<Session<'_>, Failure> {
    let session = connect_from_kernel(lab, setup(family)?, LAST, 0, fastrand::u64(..)).await?;
    session.ends.quiet().await?;
    Ok(session)
}

async fn carry(lab: &Lab, family: Family) -> Result<Evidence, Failure> {
    let mut session = open(lab, family).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let state = session.ends.connection(|connection| connection.export())??;
    let start = (state.remote_isn, state.receive_sne);
    ensure(start == (LAST, Sne(1)), || {
        format!("the kernel's ISN and the SNE of its segments are {start:?}")
    })?;
    let mut evidence = session.close(Beside::default(), Beside::default()).await?;
    let sne = evidence.wire.highest_sne;
    ensure(sne == 1, || format!("the recording has come to SNE {sne}"))?;
    evidence.figures = format!("SNE 1 from the first octet on; {}", between_kernels(lab, family).await?);
    Ok(evidence)
}

async fn start_behind(lab: &Lab, family: Family) -> Result<Refusal, Failure> {
    let mut session = open(lab, family).await?;
    let state = session.ends.connection(|connection| connection.export())??;
    let behind = ConnectionState { receive_sne: Sne(0), receive_sequence: SeqNum(0), ..state };
    let mkts = MktSet::from_mkts(session.ends.setup.userspace.iter().cloned())?;
    let other = wireseal_tcp_ao::Connection::import(&behind, &mkts)?;
    session.ends.connection(|connection| *connection = other)?;
    let counters = session
        .until_refused(async |ends| ends.userspace.await_counters(|counters| counters.bad >= 3).await)
        .await?;
    reset(lab, session.ends.socket).await?;
    Ok(Refusal::by_userspace("bad", counters.bad))
}

/// What a kernel makes of the same ISN as the receiver: it belongs to no promise of Wireseal's.
async fn between_kernels(lab: &Lab, family: Family) -> Result<String, Failure> {
    let before = lab.north.counters().await?;
    let kernels = Kernels::open_at(lab, family, &[key(1, TcpAoAlgorithm::HmacSha1)?], Some(LAST)).await?;
    let refusal = NetworkCounters { bad: 1, ..NetworkCounters::default() };
    let refused = lab
        .north
        .call(AwaitCounters { at_least: before.plus(&refusal), time_limit: TIME_LIMIT_MILLISECONDS });
    let south = kernels.transfer_to_north(1);
    let verdict = tokio::select! {
        after = refused => format!("Linux refuses it from Linux ({})", after?.since(&before)),
        passed = south => passed.map(|()| "Linux takes it from Linux".to_owned())?,
    };
    kernels.reset().await?;
    lab.wire.take_recording();
    Ok(verdict)
}
