//! One key manager for a thousand peers of one listener.

use agent::{Counted, ListKeys, RemovePeers, SetPeers, Stepped};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::key_chain;

use super::calls::set_memory;
use super::managed::{Managed, Managers, chain, mkts, three_keys};
use crate::prelude::*;
use crate::rows::kernels::{Kernels, open_socket};
use crate::rows::session::key;

const FAMILY: Family = Family::Ipv4;
/// Peers with addresses of their own, each with three keys that follow one another.
const PEERS: u16 = 1000;
/// Those that are removed at the end.
const REMOVED: u16 = 400;
/// The network around south's address.
const NETWORK: &str = "192.0.2.0/24";
/// `net.core.optmem_max` in octets: enough for three keys of each.
const MEMORY: u32 = 1 << 20;

pub fn rows() -> Vec<Row> {
    vec![Row::new(
        "manager-many-peers",
        format!(
            "one KeyManager for {PEERS} peers of a listener, south, and the network around south, which has a key of its own: \
             south's session goes over to the second key while all peers' keys are replaced, and {REMOVED} peers are removed (AO-44)"
        ),
        ao_44_one_manager_for_a_thousand_peers,
        "south has the key of the network around it: the handshake passes, but what is accepted has the keys for south alone",
        ao_44_the_network_is_not_the_neighbour,
    )]
}

/// The address of a peer, from the range for benchmarks (RFC 2544).
fn address(number: u16) -> String {
    let [high, low] = number.to_be_bytes();
    format!("198.18.{high}.{low}")
}

fn network_key() -> Result<key_chain::Key> {
    Ok(key_chain::Key::new(9, key(9, TcpAoAlgorithm::HmacSha1)?))
}

/// Gives north's manager the other peers.
async fn set_peers(lab: &Lab, managers: &Managers<'_>) -> Result<()> {
    let (of_all, of_network) = (chain(Port::North, &three_keys()?)?, chain(Port::North, &[network_key()?])?);
    let mut peers = vec![(NETWORK.parse()?, None, of_network)];
    for number in 0..PEERS {
        peers.push((address(number).parse()?, None, of_all.clone()));
    }
    lab.north.call(SetPeers { manager: managers.north, peers }).await
}

/// Calls counted by the kernel: `TCP_AO_GET_KEYS`, `TCP_AO_ADD_KEY`, `TCP_AO_DEL_KEY`.
type Calls = [u64; 3];

/// The kernel's histograms of socket options, and those of TCP-AO (`linux/tcp.h`).
const HISTOGRAM: &str = "hist:keys=level,optname";
const EVENTS: &str = "/sys/kernel/tracing/events/syscalls";
const OPTIONS: [u32; 3] = [41, 38, 39];

/// Has north's kernel count the calls, or ends it with `!` in front.
async fn set_trigger(lab: &Lab, trigger: &str) -> Result<()> {
    let line = format!(
        "[ -d {EVENTS} ] || mount -t tracefs tracefs /sys/kernel/tracing; \
         for call in get set; do echo '{trigger}' >{EVENTS}/sys_enter_${{call}}sockopt/trigger || exit 1; done"
    );
    lab.north.shell(&line).await.map(drop)
}

/// What was counted since `before`, which then has what was counted until now.
async fn calls(lab: &Lab, before: &mut Calls) -> Result<Calls> {
    let counted = lab.north.shell(&format!("cat {EVENTS}/sys_enter_[gs]etsockopt/hist")).await?;
    let hits = |option: u32| {
        let words = counted.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut lines = words.filter_map(|words| match words[..] {
            ["{", "level:", level, "optname:", name, "}", "hitcount:", hits] => Some((level, name, hits)),
            _ => None,
        });
        let found = lines.find(|(level, name, _)| *level == "6," && *name == option.to_string());
        found.map_or(Ok(0), |(_, _, hits)| hits.parse::<u64>())
    };
    let mut now = [0; 3];
    for (option, now) in OPTIONS.into_iter().zip(&mut now) {
        *now = hits(option)?;
    }
    let since = [now[0] - before[0], now[1] - before[1], now[2] - before[2]];
    *before = now;
    Ok(since)
}

async fn ids(lab: &Lab, socket: u64) -> Result<Vec<u8>> {
    let mut ids: Vec<u8> = lab.north.call(ListKeys { socket }).await?.iter().map(|key| key.0).collect();
    ids.sort_unstable();
    Ok(ids)
}

async fn ao_44_one_manager_for_a_thousand_peers(lab: &Lab) -> Result<Evidence> {
    let memory = set_memory(lab, MEMORY).await?;
    set_trigger(lab, HISTOGRAM).await?;
    let evidence = roll(lab).await;
    set_trigger(lab, &format!("!{HISTOGRAM}")).await?;
    set_memory(lab, memory).await?;
    evidence
}

async fn roll(lab: &Lab) -> Result<Evidence> {
    let keys = three_keys()?;
    let managers = Managers::new(lab, FAMILY, &keys, &keys).await?;
    set_peers(lab, &managers).await?;
    refuse_clash(lab, &managers).await?;
    let all = u64::from(PEERS) + 2;
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let mut before = Calls::default();
    calls(lab, &mut before).await?;
    managers.attach_north(listener, 0).await?;
    let attached = calls(lab, &mut before).await?;
    ensure!(attached == [1, all, 0], "attaching took {attached:?}");

    let south = open_socket(managers.south_guest, FAMILY, 0, Vec::new()).await?;
    managers.attach_south(south, 0).await?;
    let kernels = Kernels::connect(lab, FAMILY, &mkts(&keys), (listener, south)).await?;
    let accepted = ids(lab, kernels.north).await?;
    managers.attach_north(kernels.north, 0).await?;
    let own = ids(lab, kernels.north).await?;
    ensure!((accepted.len(), &own[..]) == (2, &accepted[..1]), "accepted with {accepted:?}, then {own:?}");
    calls(lab, &mut before).await?;

    // One reading of the listener asks twice, first with little room; that of the connection once.
    let mut managed = Managed { managers, kernels, listener };
    let mut of_steps = Vec::new();
    for (now, add, delete) in [(10, 0, 0), (80, all, 0), (109, 0, 0), (140, 0, all), (150, 0, 0)] {
        let [north, _]: [Stepped; 2] = managed.step_under_traffic(now).await?;
        let calls = calls(lab, &mut before).await?;
        let done = north.done.len();
        ensure!(calls == [3, add, delete] && north.expired == 0, "at {now}: {calls:?}, {done} actions");
        of_steps.push(format!("{now} s 3 / {add} / {delete}"));
    }
    let peers = (0..REMOVED).map(|number| Ok(address(number).parse()?)).collect::<Result<_>>()?;
    lab.north.call(RemovePeers { manager: managers.north, peers }).await?;
    managed.step_under_traffic(155).await?;
    let calls = calls(lab, &mut before).await?;
    let left = ids(lab, listener).await?.len() as u64;
    ensure!(
        calls == [3, 0, REMOVED.into()] && left == all - u64::from(REMOVED),
        "{calls:?}, {left} keys left"
    );
    let ids = ids(lab, managed.kernels.north).await?;
    let evidence = managed.detach().await?.close(true).await?;
    Ok(evidence.with_figures(format!(
        "calls to read / add / delete keys, attaching: 1 / {all} / 0, steps at {}, peers removed: 3 / 0 / {REMOVED}; accepted with \
         the keys {accepted:?}, attached with {own:?}, went on with {ids:?}",
        of_steps.join(", ")
    )))
}

/// A peer within the network may not have the network's ids.
async fn refuse_clash(lab: &Lab, managers: &Managers<'_>) -> Result<()> {
    let within = "192.0.2.77".parse()?;
    let peers = vec![(within, None, chain(Port::North, &[network_key()?])?)];
    let refused = lab.north.call(SetPeers { manager: managers.north, peers }).await;
    let names_both = |text: String| ["192.0.2.77,", NETWORK].iter().all(|peer| text.contains(peer));
    ensure!(matches!(&refused, Err(error) if names_both(error.to_string())), "ids that clash: {refused:?}");
    Ok(())
}

async fn ao_44_the_network_is_not_the_neighbour(lab: &Lab) -> Result<Refusal> {
    let memory = set_memory(lab, MEMORY).await?;
    let refusal = call_as_network(lab).await;
    set_memory(lab, memory).await?;
    refusal
}

async fn call_as_network(lab: &Lab) -> Result<Refusal> {
    let of_network = [network_key()?];
    let managers = Managers::new(lab, FAMILY, &three_keys()?, &of_network).await?;
    set_peers(lab, &managers).await?;
    let Managed { kernels, .. } = managers.open(&mkts(&of_network), 0).await?;
    Ok(Refusal::by("north", &kernels.refuses_octet(Counted::key_not_found(1)).await?))
}
