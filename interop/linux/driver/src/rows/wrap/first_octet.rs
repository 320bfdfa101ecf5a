//! An ISN of 2^32 - 1: the very first octet of data has SNE 1.

use std::mem;

use agent::Counted;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Connection, ConnectionState, Isn, MktSet, SeqNum, Sne};

use super::near_the_top::connect_from_kernel;
use crate::prelude::*;
use crate::rows::kernels::Kernels;
use crate::rows::session::{End, Session, Setup, key};
use crate::wait::NOT_REFUSED;

/// The last number before the wrap.
const LAST: Isn = Isn(u32::MAX);
/// Octets each way.
const OCTETS: u64 = 256 << 10;

pub fn row(family: Family) -> Row {
    Row::new(
        format!("wrap-first-octet-{family}"),
        format!(
            "kernel opens over {family} with ISN 2^32 - 1: its first octet of data has SNE 1; {} KiB each way. A second kernel \
             is asked the same, and the figures say what it did",
            OCTETS >> 10
        ),
        async move |lab| carry(lab, family).await,
        "userspace starts to receive with SNE 0",
        async move |lab| start_behind(lab, family).await,
    )
}

async fn open(lab: &Lab, family: Family) -> Result<Session<'_>> {
    let setup = Setup::with_keys(family, End::Kernel, &[key(1, TcpAoAlgorithm::HmacSha1)?]);
    let session = connect_from_kernel(lab, setup, LAST, 0, fastrand::u64(..)).await?;
    session.ends.quiet().await?;
    Ok(session)
}

async fn carry(lab: &Lab, family: Family) -> Result<Evidence> {
    let mut session = open(lab, family).await?;
    session.exchange(OCTETS, OCTETS).await?;
    let start =
        session.ends.connection(|connection| (connection.remote_isn(), connection.highest_received().0))?;
    ensure!(start == (Some(LAST), Sne(1)), "the kernel's ISN and SNE are {start:?}");
    let evidence = session.close().await?;
    let sne = evidence.wire.highest_sne;
    ensure!(sne == 1, "the recording has come to SNE {sne}");
    let figures = format!("SNE 1 from the first octet on; {}", between_kernels(lab, family).await?);
    Ok(evidence.with_figures(figures))
}

async fn start_behind(lab: &Lab, family: Family) -> Result<Refusal> {
    let mut session = open(lab, family).await?;
    let mkts = MktSet::from_mkts(session.ends.setup.userspace.iter().cloned())?;
    session.ends.connection(|connection| -> Result<()> {
        let placeholder = Connection::active(connection.pair(), LAST, &mkts)?;
        let state = mem::replace(connection, placeholder).export()?;
        let behind = ConnectionState { receive_sne: Sne(0), receive_sequence: SeqNum(0), ..state };
        *connection = Connection::import(&behind, &mkts)?;
        Ok(())
    })??;
    let counted = session
        .until_refused(&End::BOTH, async |ends| ends.userspace.await_counted(Counted::bad(3)).await)
        .await?;
    Ok(Refusal::by("userspace", &counted))
}

/// What a kernel as the receiver makes of the same ISN. Wireseal cannot change that, so both outcomes pass.
async fn between_kernels(lab: &Lab, family: Family) -> Result<String> {
    let mkts = [key(1, TcpAoAlgorithm::HmacSha1)?];
    let kernels = Kernels::open_at(lab, family, &mkts, (0, 0), Some(LAST)).await?;
    let verdict = match kernels.refuses_octet(Counted::bad(1)).await {
        Ok(counted) => format!("Linux refuses it from Linux ({counted})"),
        Err(error) if error.to_string() == NOT_REFUSED => "Linux takes it from Linux".to_owned(),
        Err(failure) => return Err(failure),
    };
    lab.wire.take_recording();
    Ok(verdict)
}
