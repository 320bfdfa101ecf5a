//! What a socket's state allows with its keys, through `wireseal-linux`: keys that overlap, keys of closed and listening sockets, and TCP-MD5
//! keys beside TCP-AO keys.

use agent::{AddKeys, DeleteKey, Export, GetInfo, Key, ListKeys, Listen, SetFlags, SetKeys, SetMd5Key};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use super::choice::beside_vrf;
use crate::row::prelude::*;
use crate::rows::kernels::open_socket;
use crate::rows::session::End;

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "keys-that-overlap",
            "two keys of one socket with an id in common, over both versions of IP: for one address, for its network, for all addresses, \
             whichever is first; the second is refused (IdInUse)",
            refuse_overlapping,
            "the ids differ, or the networks do: all keys are added",
            add_distinct,
        ),
        Row::new(
            "keys-of-idle-sockets",
            "keys of closed and listening sockets, over both versions of IP: added, deleted, and deleted in favour of others; a listener lets \
             even those be deleted that were current and rnext key before it listened",
            change_idle,
            "keys in use on closed sockets are deleted without successors; on listeners, current and rnext keys are chosen, and the listener \
             is exported",
            refuse_idle,
        ),
        Row::new(
            "md5-key-beside-ao-key",
            "a TCP-MD5 and a TCP-AO key for one peer, over both versions of IP: each for any VRF, for none or for one, in both orders; the \
             second is refused, unless one is for no VRF and the other for a VRF; also ao_required and a TCP-MD5 key",
            refuse_both_kinds,
            "they are for different peers: all are added",
            add_both_kinds,
        ),
    ]
}

/// An address, its network, and all addresses.
const NETWORKS: [[&str; 3]; 2] =
    [["192.0.2.1/32", "192.0.2.0/24", "0.0.0.0/0"], ["2001:db8::1/128", "2001:db8::/64", "::/0"]];
/// An address outside of that network.
const OUTSIDE: [&str; 2] = ["198.51.100.1/32", "2001:db8:1::1/128"];
/// The ids of one key.
const SEND: u8 = 100;
const RECV: u8 = 200;

const fn index(family: Family) -> usize {
    match family {
        Family::Ipv4 => 0,
        Family::Ipv6 => 1,
    }
}

/// A key with these ids. The secret is always the same.
fn key(remote: &str, send_id: u8, recv_id: u8) -> Result<Key> {
    let secret = MasterKey::new(b"a secret of 22 octets.")?;
    let mkt = Mkt::new(KeyId(send_id), KeyId(recv_id), TcpAoAlgorithm::HmacSha1, secret)?;
    Ok(Key { remote: remote.parse()?, ..Key::new(End::Userspace.address(Family::Ipv4), &mkt)? })
}

/// A key for the peer, with one id twice.
fn own(family: Family, id: u8) -> Result<Key> {
    key(NETWORKS[index(family)][0], id, id)
}

async fn open(lab: &Lab, family: Family, keys: Vec<Key>) -> Result<u64> {
    open_socket(&lab.north, family, 0, keys).await
}

/// Checks that something was refused with these words.
pub fn check_refused<T>(result: Result<T>, words: &str) -> Result<u64> {
    let error = result.err().with_context(|| format!("it was done and not refused: {words}"))?;
    ensure!(error.to_string().contains(words), "refused, but not with `{words}`: {error:#}");
    Ok(1)
}

async fn refuse_overlapping(lab: &Lab) -> Result<Evidence> {
    let mut refused = 0;
    for family in Family::ALL {
        let networks = NETWORKS[index(family)];
        for (first, second) in networks.iter().flat_map(|first| networks.map(|second| (first, second))) {
            for (send_id, recv_id) in [(SEND, RECV), (SEND, RECV + 1), (SEND + 1, RECV)] {
                let socket = open(lab, family, vec![key(first, SEND, RECV)?]).await?;
                let added =
                    lab.north.call(AddKeys { socket, keys: vec![key(second, send_id, recv_id)?] }).await;
                refused += check_refused(added, "belongs to another key on the socket")
                    .with_context(|| format!("{first}, then {second} with ids {send_id} and {recv_id}"))?;
            }
        }
    }
    Ok(Evidence::default().with_figures(format!("{refused} refused")))
}

async fn add_distinct(lab: &Lab) -> Result<Refusal> {
    let mut added = 0;
    for family in Family::ALL {
        let networks = NETWORKS[index(family)];
        for (first, second) in networks.iter().flat_map(|first| networks.map(|second| (first, second))) {
            let keys = vec![key(first, SEND, RECV)?, key(second, SEND + 1, RECV + 1)?];
            open(lab, family, keys).await?;
            added += 1;
        }
        let keys = vec![key(networks[0], SEND, RECV)?, key(OUTSIDE[index(family)], SEND, RECV)?];
        open(lab, family, keys).await?;
        added += 1;
    }
    Ok(Refusal::of("second keys added", added))
}

/// Deletes a key that has this id twice, perhaps in favour of others that have.
async fn delete(lab: &Lab, socket: u64, id: u8, current: Option<u8>, rnext: Option<u8>) -> Result<()> {
    lab.north.call(DeleteKey { socket, send_id: id, current, rnext }).await
}

/// Checks which keys are left, and which of them are current and rnext key.
async fn check(lab: &Lab, socket: u64, ids: &[u8], current: Option<u8>, rnext: Option<u8>) -> Result<()> {
    let mut listed: Vec<u8> = lab.north.call(ListKeys { socket }).await?.iter().map(|key| key.0).collect();
    listed.sort_unstable();
    let info = lab.north.call(GetInfo { socket }).await?.context("the socket has no TCP-AO")?;
    ensure!(
        listed == ids && (info.current_key, info.rnext_key) == (current, rnext),
        "the socket has keys {listed:?} instead of {ids:?}: {info:?}"
    );
    Ok(())
}

fn keys(family: Family, ids: &[u8]) -> Result<Vec<Key>> {
    ids.iter().map(|id| own(family, *id)).collect()
}

async fn change_idle(lab: &Lab) -> Result<Evidence> {
    let (mut sockets, mut named) = (0, 0);
    for family in Family::ALL {
        for listens in [false, true] {
            let socket = open(lab, family, keys(family, &[1, 2])?).await?;
            if listens {
                lab.north.call(Listen { socket }).await?;
            }
            lab.north.call(AddKeys { socket, keys: keys(family, &[3])? }).await?;
            check(lab, socket, &[1, 2, 3], None, None).await?;
            for id in [3, 2, 1] {
                delete(lab, socket, id, None, None).await?;
            }
            check(lab, socket, &[], None, None).await?;
            sockets += 1;
        }

        let socket = open(lab, family, keys(family, &[1, 2, 3, 4])?).await?;
        delete(lab, socket, 1, Some(3), Some(4)).await?;
        check(lab, socket, &[2, 3, 4], Some(3), Some(4)).await?;
        delete(lab, socket, 3, Some(2), None).await?;
        check(lab, socket, &[2, 4], Some(2), Some(4)).await?;
        delete(lab, socket, 4, None, Some(2)).await?;
        check(lab, socket, &[2], Some(2), Some(2)).await?;
        let preferred = vec![Key { is_preferred: true, ..own(family, 5)? }];
        lab.north.call(AddKeys { socket, keys: preferred }).await?;
        check(lab, socket, &[2, 5], Some(5), Some(5)).await?;
        sockets += 1;

        let socket = open(lab, family, keys(family, &[1, 2])?).await?;
        lab.north.call(SetKeys { socket, current: Some(1), rnext: Some(2) }).await?;
        lab.north.call(Listen { socket }).await?;
        for id in [1, 2] {
            delete(lab, socket, id, None, None).await?;
        }
        let left = lab.north.call(ListKeys { socket }).await?;
        let info = lab.north.call(GetInfo { socket }).await?.context("the socket has no TCP-AO")?;
        // Linux 6.18 forgets the keys, but not that they were current and rnext key.
        named += u64::from(info.current_key.is_some() || info.rnext_key.is_some());
        ensure!(left.is_empty(), "the listener has keys {left:?}");
        sockets += 1;
    }
    let mut figures = format!("{sockets} sockets");
    if named > 0 {
        figures += &format!(", {named} of which still name deleted keys, as by Linux 6.18");
    }
    Ok(Evidence::default().with_figures(figures))
}

async fn refuse_idle(lab: &Lab) -> Result<Refusal> {
    let (mut in_use, mut on_listeners, mut exported) = (0, 0, 0);
    for family in Family::ALL {
        let socket = open(lab, family, keys(family, &[1, 2])?).await?;
        lab.north.call(SetKeys { socket, current: Some(1), rnext: Some(2) }).await?;
        for id in [1, 2] {
            in_use +=
                check_refused(delete(lab, socket, id, None, None).await, "is the current or rnext key")?;
        }
        check(lab, socket, &[1, 2], Some(1), Some(2)).await?;

        let socket = open(lab, family, keys(family, &[1, 2])?).await?;
        lab.north.call(Listen { socket }).await?;
        let words = "a listening socket has neither current nor rnext key";
        for (current, rnext) in [(Some(1), None), (None, Some(1)), (Some(1), Some(1))] {
            let chosen = lab.north.call(SetKeys { socket, current, rnext }).await;
            on_listeners += check_refused(chosen, words)?;
            on_listeners += check_refused(delete(lab, socket, 2, current, rnext).await, words)?;
        }
        let preferred = vec![Key { is_preferred: true, ..own(family, 3)? }];
        on_listeners += check_refused(lab.north.call(AddKeys { socket, keys: preferred }).await, words)?;
        check(lab, socket, &[1, 2], None, None).await?;
        exported += check_refused(lab.north.call(Export { socket }).await, "a socket that does not listen")?;
    }
    Ok(Refusal::of("in use", in_use)
        .and(Refusal::of("on listeners", on_listeners))
        .and(Refusal::of("exported listeners", exported)))
}

const MD5_SECRET: &str = "secret of TCP-MD5";
const AO_IN_THE_WAY: &str = "the socket has a TCP-AO key for the same peers, or requires TCP-AO";
const MD5_IN_THE_WAY: &str = "the socket has a TCP-MD5 key for the same peers, or requires TCP-AO";

async fn set_md5(lab: &Lab, socket: u64, remote: &str, vrf: Option<u32>) -> Result<()> {
    let (remote, secret) = (remote.parse()?, MD5_SECRET.to_owned());
    lab.north.call(SetMd5Key { socket, remote, vrf, secret }).await
}

async fn set_ao(lab: &Lab, socket: u64, family: Family, vrf: Option<u32>) -> Result<()> {
    lab.north.call(AddKeys { socket, keys: vec![Key { vrf, ..own(family, SEND)? }] }).await
}

/// Adds a key of each kind to a socket; returns the result of the second.
async fn add_both(
    lab: &Lab,
    family: Family,
    ao: Option<u32>,
    (remote, md5): (&str, Option<u32>),
    is_ao_first: bool,
) -> Result<Result<()>> {
    let socket = open(lab, family, Vec::new()).await?;
    if is_ao_first {
        set_ao(lab, socket, family, ao).await?;
        Ok(set_md5(lab, socket, remote, md5).await)
    } else {
        set_md5(lab, socket, remote, md5).await?;
        Ok(set_ao(lab, socket, family, ao).await)
    }
}

/// Every two of any VRF, none, and this one; and in both orders.
fn combinations(vrf: u32) -> impl Iterator<Item = (Option<u32>, Option<u32>, bool)> {
    let vrfs = [None, Some(0), Some(vrf)];
    let both = vrfs.into_iter().flat_map(move |ao| vrfs.map(|md5| (ao, md5)));
    both.flat_map(|(ao, md5)| [true, false].map(|is_ao_first| (ao, md5, is_ao_first)))
}

async fn refuse_both_kinds(lab: &Lab) -> Result<Evidence> {
    beside_vrf(lab, async |vrf| {
        let (mut refused, mut added) = (0, 0);
        for family in Family::ALL {
            let peer = NETWORKS[index(family)][0];
            for (ao, md5, is_ao_first) in combinations(vrf) {
                let named = || {
                    format!("{family}, TCP-AO in {ao:?} and TCP-MD5 in {md5:?}, TCP-AO first {is_ao_first}")
                };
                let second = add_both(lab, family, ao, (peer, md5), is_ao_first).await.with_context(named)?;
                if ao.is_some() && md5.is_some() && ao != md5 {
                    second.with_context(named)?;
                    added += 1;
                } else {
                    let words = if is_ao_first { AO_IN_THE_WAY } else { MD5_IN_THE_WAY };
                    refused += check_refused(second, words).with_context(named)?;
                }
            }
            let socket = open(lab, family, Vec::new()).await?;
            let require = SetFlags { socket, required: Some(true), accept_icmps: None };
            lab.north.call(require).await?;
            refused += check_refused(set_md5(lab, socket, peer, None).await, AO_IN_THE_WAY)?;
            let socket = open(lab, family, Vec::new()).await?;
            set_md5(lab, socket, peer, None).await?;
            let required = SetFlags { socket, required: Some(true), accept_icmps: None };
            refused += check_refused(lab.north.call(required).await, MD5_IN_THE_WAY)?;
        }
        Ok(Evidence::default().with_figures(format!("{refused} refused, {added} added")))
    })
    .await
}

async fn add_both_kinds(lab: &Lab) -> Result<Refusal> {
    beside_vrf(lab, async |vrf| {
        let mut added = 0;
        for family in Family::ALL {
            for (ao, md5, is_ao_first) in combinations(vrf) {
                add_both(lab, family, ao, (OUTSIDE[index(family)], md5), is_ao_first).await??;
                added += 1;
            }
        }
        Ok(Refusal::of("second keys added", added))
    })
    .await
}
