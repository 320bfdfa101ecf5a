//! Single calls to a real kernel: every error, settings that must not change, and many keys on one socket.

use agent::{AddKeys, ListKeys, Listen, ProvokeErrors, SetFlags, SetKeys, SocketInfo};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use crate::prelude::*;
use crate::rows::kernels::{Kernels, north_keys, open_socket, south_keys};
use crate::rows::session::{SOME, key};

const FAMILY: Family = Family::Ipv4;
/// Keys on one listener.
const MANY: u8 = 200;
/// `net.core.optmem_max` in octets: enough for that many keys, and too little.
const MEMORY: u32 = 1 << 18;
const LITTLE_MEMORY: u32 = 20_480;
/// An id that no key has.
const NO_KEY: u8 = 250;

/// Calls that the kernel refuses (`guest/src/provoke.rs`).
const ERRORS: u64 = 13;

pub fn rows() -> Vec<Row> {
    vec![
        // EMSGSIZE is missing: it takes a MAC longer than 16 octets, which the API does not accept.
        Row::new(
            "errors-of-a-real-kernel",
            format!("{ERRORS} calls that the kernel refuses, each with the error that says so (AO-40)"),
            ao_40_every_errno_from_a_real_kernel,
            "the connection has no key, so that nothing can be provoked on it",
            provoke_without_key,
        ),
        Row::new(
            "choosing-a-key-keeps-the-flags",
            "current and rnext key of a live connection are changed to and fro while ao_required and accept_icmps are each on and \
             off; all four combinations stay as they were (AO-41)",
            ao_41_choosing_a_key_keeps_the_flags,
            "a key is chosen that the connection does not have: it is refused, and nothing has changed",
            choose_none,
        ),
        Row::new(
            "many-keys",
            format!(
                "{MANY} keys on a listener are all listed; they are more than the first buffer of TCP_AO_GET_KEYS holds (AO-42), \
                 and a session under the last of them is accepted with all of them"
            ),
            ao_42_more_keys_than_the_first_buffer_holds,
            format!("net.core.optmem_max is {LITTLE_MEMORY}: the kernel has no room for them"),
            list_too_many,
        ),
    ]
}

fn mkts() -> Result<Vec<Mkt>> {
    Ok(vec![key(1, TcpAoAlgorithm::Aes128Cmac)?, key(2, TcpAoAlgorithm::HmacSha1)?])
}

async fn ao_40_every_errno_from_a_real_kernel(lab: &Lab) -> Result<Evidence> {
    let mkts = [key(1, TcpAoAlgorithm::Aes128Cmac)?];
    let mut kernels = Kernels::open(lab, FAMILY, &mkts).await?;
    let errors = lab.north.call(ProvokeErrors { connection: kernels.north }).await?;
    ensure!(errors == ERRORS, "{errors} errors");
    // The connection still works.
    kernels.exchange(SOME, SOME).await?;
    Ok(kernels.close(true).await?.with_figures(format!("{errors} errors")))
}

async fn provoke_without_key(lab: &Lab) -> Result<Refusal> {
    let kernels = Kernels::open(lab, FAMILY, &[]).await?;
    let refused = lab.north.call(ProvokeErrors { connection: kernels.north }).await;
    let has_no_key = matches!(&refused, Err(error) if error.to_string().contains("has 0 keys"));
    ensure!(has_no_key, "on a connection without keys: {refused:?}");
    Ok(Refusal::of("north: keys missing", 1))
}

async fn ao_41_choosing_a_key_keeps_the_flags(lab: &Lab) -> Result<Evidence> {
    let mkts = mkts()?;
    let mut kernels = Kernels::open(lab, FAMILY, &mkts).await?;
    let socket = kernels.north;
    let mut changes = 0;
    for (required, accept_icmps) in [(false, false), (true, false), (false, true), (true, true)] {
        lab.north
            .call(SetFlags { socket, required: Some(required), accept_icmps: Some(accept_icmps) })
            .await?;
        for mkt in mkts.iter().rev() {
            let (current, rnext) = (mkt.recv_id().0, mkt.send_id().0);
            for (current, rnext) in [(Some(current), None), (None, Some(rnext)), (Some(current), Some(rnext))]
            {
                lab.north.call(SetKeys { socket, current, rnext }).await?;
                changes += 1;
                let [info, _] = kernels.info().await?;
                let is_as_asked = current.is_none_or(|id| info.current_key == Some(id))
                    && rnext.is_none_or(|id| info.rnext_key == Some(id));
                ensure!(
                    is_as_asked && (info.required, info.accept_icmps) == (required, accept_icmps),
                    "set {current:?} and {rnext:?} with {required} and {accept_icmps}, got {info:?}"
                );
            }
            kernels.exchange(SOME, SOME).await?;
        }
    }
    Ok(kernels.close(true).await?.with_figures(format!("{changes} changes of keys")))
}

async fn choose_none(lab: &Lab) -> Result<Refusal> {
    let mkts = mkts()?;
    let mut kernels = Kernels::open(lab, FAMILY, &mkts).await?;
    let socket = kernels.north;
    lab.north.call(SetFlags { socket, required: Some(true), accept_icmps: Some(true) }).await?;
    kernels.exchange(SOME, SOME).await?;
    kernels.quiet().await?;
    let [before, _] = kernels.info().await?;
    let mut refused = 0;
    for (current, rnext) in [(Some(NO_KEY), None), (None, Some(NO_KEY)), (Some(NO_KEY), Some(NO_KEY))] {
        refused += u64::from(lab.north.call(SetKeys { socket, current, rnext }).await.is_err());
    }
    let [after, _] = kernels.info().await?;
    let is_same = |SocketInfo { current_key, rnext_key, required, accept_icmps, .. }: &SocketInfo| {
        (*current_key, *rnext_key, *required, *accept_icmps)
            == (before.current_key, before.rnext_key, before.required, before.accept_icmps)
    };
    ensure!(refused == 3 && is_same(&after), "{refused} refused; {before:?} became {after:?}");
    Ok(Refusal::of("north: no such key", refused))
}

fn numbered(id: u8) -> Result<Mkt> {
    Ok(Mkt::new(KeyId(id), KeyId(id), TcpAoAlgorithm::Aes128Cmac, MasterKey::new(&[id; 16])?)?)
}

/// Sets north's `net.core.optmem_max`; returns what it was.
pub async fn set_memory(lab: &Lab, octets: u32) -> Result<u32> {
    let line = format!("sysctl -n net.core.optmem_max && sysctl -q -w net.core.optmem_max={octets}");
    Ok(lab.north.shell(&line).await?.trim().parse()?)
}

async fn ao_42_more_keys_than_the_first_buffer_holds(lab: &Lab) -> Result<Evidence> {
    let before = set_memory(lab, MEMORY).await?;
    let evidence = list(lab).await;
    set_memory(lab, before).await?;
    evidence
}

async fn list(lab: &Lab) -> Result<Evidence> {
    let mkts = (1..=MANY).map(numbered).collect::<Result<Vec<_>, _>>()?;
    let last = mkts.last().cloned().context("there are no keys")?;
    let listener = open_socket(&lab.north, FAMILY, 0, north_keys(FAMILY, &mkts)?).await?;
    lab.north.call(Listen { socket: listener }).await?;
    let on_listener = ids(&lab.north.call(ListKeys { socket: listener }).await?);
    let south =
        open_socket(lab.south().await?, FAMILY, 0, south_keys(FAMILY, std::slice::from_ref(&last))?).await?;
    let mut kernels = Kernels::connect(lab, FAMILY, &[last], (listener, south)).await?;
    let on_connection = ids(&lab.north.call(ListKeys { socket: kernels.north }).await?);
    let all: Vec<u8> = (1..=MANY).collect();
    ensure!(
        on_listener == all && on_connection == all,
        "the listener has {on_listener:?}, the connection {on_connection:?}"
    );
    kernels.exchange(SOME, SOME).await?;
    Ok(kernels.close(true).await?.with_figures(format!(
        "{} keys on the listener, {} on the connection",
        on_listener.len(),
        on_connection.len()
    )))
}

async fn list_too_many(lab: &Lab) -> Result<Refusal> {
    let before = set_memory(lab, LITTLE_MEMORY).await?;
    let socket = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let mut refused = 0;
    let mut last = String::new();
    for id in 1..=MANY {
        let keys = north_keys(FAMILY, &[numbered(id)?])?;
        if let Err(failure) = lab.north.call(AddKeys { socket, keys }).await {
            refused += 1;
            last = failure.to_string();
        }
    }
    let listed = lab.north.call(ListKeys { socket }).await?.len() as u64;
    set_memory(lab, before).await?;
    ensure!(
        listed + refused == u64::from(MANY) && last.contains("optmem_max"),
        "{listed} keys listed, {refused} refused: {last}"
    );
    Ok(Refusal::of("north: no memory for a key", refused))
}

/// The SendIDs, in order.
fn ids(keys: &[(u8, Option<u32>)]) -> Vec<u8> {
    let mut ids: Vec<u8> = keys.iter().map(|key| key.0).collect();
    ids.sort_unstable();
    ids
}
