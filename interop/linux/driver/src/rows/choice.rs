//! Which of many keys a connection uses, and which it keeps.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use agent::{
    AddKeys, AddPeers, CountKeys, Counted, DeletePeers, GetInfo, Key, ListKeys, Listen, Open, SetKeys,
};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, OptionCoverage};

use super::manager::set_memory;
use super::rollover::{Kind, ask_for, expect_own_errors, fragmentations_failed, of_kind, roll};
use crate::row::prelude::*;
use crate::rows::kernels::open_socket;
use crate::rows::session::{End, Ends, SOME, Session, Setup, families_and_ends, kernel_key, key, key_with};

/// How many keys the kernel's end has. Userspace has room for four.
const KEYS: u8 = 20;
const ALGORITHMS: [TcpAoAlgorithm; 3] =
    [TcpAoAlgorithm::HmacSha1, TcpAoAlgorithm::Aes128Cmac, TcpAoAlgorithm::LinuxHmacSha256];
/// Octets of the shortest MAC, and of the longest.
const MAC_LENGTHS: [usize; 2] = [4, 16];

pub fn rows() -> Vec<Row> {
    let mut rows = vec![
        Row::new(
            "keys-chosen-before-connect",
            format!(
                "the kernel opens with {KEYS} keys, over both versions of IP: without a choice, with a current and rnext key, and with two \
                 different ones; the SYN and all later segments have their ids"
            ),
            choose_before_connecting,
            "the current key's secret differs at one end",
            choose_with_wrong_secret,
        ),
        Row::new(
            "keys-current-flaps-back",
            "the kernel's program makes another of its keys current, over both versions of IP: some segments are signed with it, until \
             userspace asks for the old one again",
            flap_back,
            "userspace does not have that other key",
            flap_to_unknown_key,
        ),
    ];
    rows.extend(End::BOTH.map(|starter| {
        let [shortest, longest] = MAC_LENGTHS;
        Row::new(
            format!("rollover-twenty-keys-{starter}-starts"),
            format!(
                "over all {KEYS} keys of the kernel's end in one session, in turn and back to the first, under traffic; {starter} asks first. \
                 Three algorithms, and MACs of {shortest} to {longest} octets; each key counts its segments; userspace has two of the keys at a time"
            ),
            async move |lab| roll_over_all(lab, starter).await,
            "the second key's MAC is an octet longer at one end",
            async move |lab| roll_to_another_length(lab, starter).await,
        )
    }));
    rows.push(Row::new(
        "keys-of-others-leave",
        "a socket of the kernel has keys for its peer, for the peer's network, for another peer and for a VRF: over both versions of IP, \
         whichever end opens, the connection has the first two",
        leave_others_out,
        "keys for another peer and for a VRF are added to the connection: refused",
        add_keys_of_others,
    ));
    rows.push(Row::new(
        "keys-of-many-peers",
        format!(
            "a listener of the kernel has keys for {PEERS} peers, over both versions of IP; userspace's was added last, first, or is the only \
             one left: it is found each time"
        ),
        find_among_many,
        "userspace's key is deleted with those of the others",
        find_none_among_many,
    ));
    rows
}

/// The key with this number, which decides its algorithm, MAC length and option coverage.
fn numbered(number: u8) -> Result<Mkt> {
    of_kind(number, kind_of(number))
}

fn kind_of(number: u8) -> Kind {
    let place = usize::from(number);
    let [shortest, longest] = MAC_LENGTHS;
    let options = if place % 2 == 0 { OptionCoverage::Covered } else { OptionCoverage::Excluded };
    (ALGORITHMS[place % ALGORITHMS.len()], shortest + place % (longest - shortest + 1), options)
}

fn twenty() -> Result<Vec<Mkt>> {
    (0..KEYS).map(numbered).collect()
}

/// The kernel's choices of a current and an rnext key, by place. Without one Linux takes the last.
const CHOICES: [[Option<usize>; 2]; 3] = [[None, None], [Some(10), Some(10)], [Some(10), Some(5)]];
const LAST: usize = KEYS as usize - 1;

/// A session that the kernel has opened with this choice among all keys. Userspace has these keys.
async fn open_with_choice<'a>(
    lab: &'a Lab,
    family: Family,
    choice: [Option<usize>; 2],
    userspace: Vec<Mkt>,
) -> Result<Session<'a>> {
    lab.clear().await?;
    let mkts = twenty()?;
    let before = lab.north.counters().await?;
    let setup = Setup { family, opener: End::Kernel, userspace, kernel: mkts.clone(), number: 0 };
    let userspace = setup.userspace(lab)?;
    let socket = open_with_all(lab, family, &mkts, choice).await?;
    Session::connect(lab, setup, before, userspace, socket).await
}

/// A socket of the kernel's with all keys and this choice.
async fn open_with_all(
    lab: &Lab,
    family: Family,
    mkts: &[Mkt],
    [current, rnext]: [Option<usize>; 2],
) -> Result<u64> {
    let keys: Vec<Key> = mkts.iter().map(|mkt| kernel_key(family, mkt)).collect::<Result<_>>()?;
    let socket = open_socket(&lab.north, family, 0, keys).await?;
    let (current, rnext) = (current.map(|at| mkts[at].recv_id().0), rnext.map(|at| mkts[at].send_id().0));
    lab.north.call(SetKeys { socket, current, rnext }).await?;
    let info = lab.north.call(GetInfo { socket }).await?.context("the socket has no TCP-AO")?;
    ensure!((info.current_key, info.rnext_key) == (current, rnext), "before connecting: {info:?}");
    Ok(socket)
}

/// The current and the rnext key after this choice.
fn chosen(choice: [Option<usize>; 2]) -> Result<[Mkt; 2]> {
    let [current, rnext] = choice.map(|place| numbered(place.unwrap_or(LAST) as u8));
    Ok([current?, rnext?])
}

/// Checks that the kernel signs with one of the keys and asks for the other, now and on the wire since the beginning.
async fn check_choice(ends: &Ends<'_>, [current, rnext]: &[Mkt; 2]) -> Result<()> {
    let info = ends.info().await?;
    let ids = (current.recv_id(), rnext.send_id());
    ensure!(
        (info.current_key, info.rnext_key) == (Some(ids.0.0), Some(ids.1.0)),
        "the kernel's keys should be {ids:?}: {info:?}"
    );
    let by_userspace = ends.connection(|connection| connection.current_key().send_id)?;
    ensure!(by_userspace == rnext.send_id(), "userspace signs with key {by_userspace}");
    ends.lab.wire.look(|recording| {
        let mut sent = recording.segments_from(Port::North);
        let wrong = sent.find(|segment| {
            let ao = segment.ao_option().ok().flatten();
            !ao.is_some_and(|ao| (ao.key_id, ao.rnext_key_id) == ids)
        });
        ensure!(wrong.is_none(), "the kernel has sent {wrong:?}");
        Ok(())
    })
}

/// Checks that these keys of the kernel's connection have each counted good segments, together all that the connection has, and that no
/// other key has counted any.
async fn check_key_counters(ends: &Ends<'_>, used: &[Mkt]) -> Result<()> {
    let keys = ends.lab.north.call(CountKeys { socket: ends.socket }).await?;
    let mut counted: Vec<u8> = keys.iter().filter(|(_, good, _)| *good > 0).map(|key| key.0).collect();
    counted.sort_unstable();
    let mut ids: Vec<u8> = used.iter().map(|mkt| mkt.recv_id().0).collect();
    ids.sort_unstable();
    let (good, bad) = keys.iter().fold((0, 0), |(good, bad), key| (good + key.1, bad + key.2));
    let info = ends.info().await?;
    ensure!(
        counted == ids && (good, bad) == (info.counted.good, 0),
        "the keys have counted {keys:?}, the connection {}; {ids:?} were used",
        info.counted
    );
    Ok(())
}

async fn choose_before_connecting(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        for choice in CHOICES {
            let chosen = chosen(choice)?;
            let mut userspace = chosen.to_vec();
            userspace.dedup_by_key(|mkt| mkt.send_id());
            let mut session = open_with_choice(lab, family, choice, userspace).await?;
            session.exchange(SOME, SOME).await?;
            session.ends.quiet().await?;
            check_choice(&session.ends, &chosen).await.with_context(|| format!("{choice:?}"))?;
            // Userspace has signed everything with the rnext key.
            check_key_counters(&session.ends, &chosen[1..]).await.with_context(|| format!("{choice:?}"))?;
            evidence.add(session.close().await?);
        }
    }
    Ok(evidence.with_figures(format!("{} choices over each version of IP", CHOICES.len())))
}

async fn choose_with_wrong_secret(lab: &Lab) -> Result<Refusal> {
    let mut refusal = Refusal::default();
    for choice in CHOICES {
        lab.clear().await?;
        let [current, rnext] = chosen(choice)?;
        let (algorithm, mac_length, options) = kind_of(current.send_id().0 - 10);
        let wrong = key_with(current.send_id().0 - 10, algorithm, "another secret of the current key")?;
        let wrong = wrong.with_mac_length(mac_length)?.with_options(options);
        let mut userspace = vec![wrong, rnext];
        userspace.dedup_by_key(|mkt| mkt.send_id());
        let setup = Setup { userspace, ..Setup::with_keys(Family::Ipv4, End::Kernel, &twenty()?) };
        let userspace = setup.userspace(lab)?;
        let socket = open_with_all(lab, Family::Ipv4, &setup.kernel, choice).await?;
        let sign = userspace.await_counted(Counted::bad(1));
        let counted = setup.until_refused(lab, &userspace, socket, sign).await?;
        refusal = refusal.and(Refusal::by("userspace", &counted));
    }
    Ok(refusal)
}

/// The places of the current and the rnext key, and of the key that the kernel's program makes current.
const FLAPPING: [Option<usize>; 2] = [Some(10), Some(5)];
const FLAPS_TO: u8 = 2;

/// Makes the other key current at the kernel.
async fn flap(ends: &Ends<'_>) -> Result<()> {
    let current = Some(numbered(FLAPS_TO)?.recv_id().0);
    ends.lab.north.call(SetKeys { socket: ends.socket, current, rnext: None }).await
}

async fn flap_back(lab: &Lab) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let mut signed_with_other = 0;
    for family in Family::ALL {
        let [current, rnext] = chosen(FLAPPING)?;
        let other = numbered(FLAPS_TO)?;
        let userspace = vec![current.clone(), rnext.clone(), other.clone()];
        let mut session = open_with_choice(lab, family, FLAPPING, userspace).await?;
        session.exchange(SOME, SOME).await?;
        session.ends.quiet().await?;
        let before = fragmentations_failed(lab).await?;
        flap(&session.ends).await?;
        // Userspace asks for the old key with every segment, and the kernel obeys the first.
        session.exchange(0, SOME).await?;
        session.exchange(SOME, SOME).await?;
        session.ends.await_current_key(End::Kernel, &current).await?;
        let info = session.ends.info().await?;
        ensure!(info.rnext_key == Some(rnext.send_id().0), "the kernel's keys are {info:?}");
        expect_own_errors(&mut session, before).await?;
        let session = session.close().await?;
        let with_other = session.wire.by_key.get(&other.recv_id().0).copied().unwrap_or_default();
        ensure!(with_other > 0, "the kernel has sent nothing under key {}", other.recv_id());
        signed_with_other += with_other;
        evidence.add(session);
    }
    Ok(evidence.with_figures(format!("{signed_with_other} segments under the other key")))
}

async fn flap_to_unknown_key(lab: &Lab) -> Result<Refusal> {
    let mut session = open_with_choice(lab, Family::Ipv4, FLAPPING, chosen(FLAPPING)?.to_vec()).await?;
    session.exchange(SOME, SOME).await?;
    session.ends.quiet().await?;
    flap(&session.ends).await?;
    let unknown = Counted::key_not_found(1);
    let counted =
        session.until_refused(&[End::Kernel], async |ends| ends.userspace.await_counted(unknown).await);
    Ok(Refusal::by("userspace", &counted.await?))
}

/// A session under the first of the kernel's keys, all of which its socket has.
async fn open_with_first(lab: &Lab, family: Family, opener: End) -> Result<Session<'_>> {
    let mkts = twenty()?;
    let setup = Setup { userspace: mkts[..1].to_vec(), ..Setup::with_keys(family, opener, &mkts) };
    Session::open(lab, setup).await
}

async fn roll_over_all(lab: &Lab, starter: End) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let (mut changes, mut ignored) = (0, 0);
    let mkts = twenty()?;
    for (family, opener) in Family::ALL.into_iter().zip(End::BOTH) {
        let before = fragmentations_failed(lab).await?;
        let mut session = open_with_first(lab, family, opener).await?;
        let rolling = session.under_traffic(async |ends| {
            let mut held = &mkts[0];
            for mkt in mkts[1..].iter().chain(&mkts[..1]) {
                ends.connection(|connection| connection.add_key(mkt))??;
                roll(ends, starter, mkt).await.with_context(|| format!("to key {}", mkt.send_id()))?;
                ends.connection(|connection| connection.remove_key(held.send_id(), None))??;
                held = mkt;
            }
            Ok(())
        });
        rolling.await?;
        session.ends.quiet().await?;
        check_key_counters(&session.ends, &mkts).await?;
        changes += mkts.len();
        ignored += expect_own_errors(&mut session, before).await?;
        let session = session.close().await?;
        for id in mkts.iter().flat_map(|mkt| [mkt.send_id(), mkt.recv_id()]) {
            ensure!(session.wire.by_key.contains_key(&id.0), "nothing was sent with KeyID {id}");
        }
        evidence.add(session);
    }
    Ok(evidence
        .with_figures(format!("{changes} changes each way, {ignored} packets too long for the new MAC")))
}

async fn roll_to_another_length(lab: &Lab, starter: End) -> Result<Refusal> {
    let mut session = open_with_first(lab, Family::Ipv4, End::Kernel).await?;
    let second = numbered(1)?;
    let longer = second.clone().with_mac_length(second.parameters().mac_length() + 1)?;
    session.exchange(SOME, SOME).await?;
    session.ends.connection(|connection| connection.add_key(&longer))??;
    ask_for(&session.ends, starter, &second).await?;
    let bad = Counted::bad(1);
    let counted = session.until_refused(&End::BOTH, async |ends| ends.await_counted(starter, bad).await);
    Ok(Refusal::by(&starter.to_string(), &counted.await?))
}

/// A VRF that no interface is in.
const VRF: &str = "vrf-empty";

/// Runs a row while that VRF exists; passes its interface index.
pub async fn beside_vrf<T>(lab: &Lab, row: impl AsyncFnOnce(u32) -> Result<T>) -> Result<T> {
    let order = format!(
        "ip link add {VRF} type vrf table 1003 && ip link set {VRF} up && cat /sys/class/net/{VRF}/ifindex"
    );
    let index = lab.north.shell(&order).await?.trim().parse()?;
    let result = row(index).await;
    lab.north.shell(&format!("ip link del {VRF}")).await?;
    result
}

/// A key for userspace, one for its network, one for another peer, and one for userspace in a VRF.
fn own_and_others(family: Family, vrf: u32) -> Result<[Key; 4]> {
    let network = if family == Family::Ipv4 { "192.0.2.0/24" } else { "2001:db8::/64" };
    let [own, networks, others, vrfs] = [1, 2, 3, 4].map(|number| kernel_key(family, &numbered(number)?));
    Ok([
        own?,
        Key { remote: network.parse()?, ..networks? },
        Key { remote: Port::South.address(family).into(), ..others? },
        Key { vrf: Some(vrf), ..vrfs? },
    ])
}

async fn leave_others_out(lab: &Lab) -> Result<Evidence> {
    beside_vrf(lab, async |vrf| {
        let mut evidence = Evidence::default();
        for (family, opener) in families_and_ends() {
            lab.clear().await?;
            let before = lab.north.counters().await?;
            let mkts = [numbered(1)?, numbered(2)?];
            let setup = Setup::with_keys(family, opener, &mkts);
            let userspace = setup.userspace(lab)?;
            let keys = own_and_others(family, vrf)?.to_vec();
            let socket = lab.north.call(Open { local: family.any(0), keys, required: false }).await?;
            // Without a choice Linux takes the last key that fits, the network's.
            let mut session = Session::connect(lab, setup, before, userspace, socket).await?;
            let listed = lab.north.call(ListKeys { socket: session.ends.socket }).await?;
            let mut ids: Vec<u8> = listed.iter().map(|key| key.0).collect();
            ids.sort_unstable();
            ensure!(
                ids == mkts.each_ref().map(|mkt| mkt.recv_id().0),
                "{opener} opens: the keys are {listed:?}"
            );
            session
                .under_traffic(async |ends| {
                    for mkt in &mkts {
                        roll(ends, opener, mkt).await?;
                    }
                    Ok(())
                })
                .await?;
            evidence.add(session.close().await?);
        }
        Ok(evidence.with_figures("2 of 4 keys on each connection"))
    })
    .await
}

async fn add_keys_of_others(lab: &Lab) -> Result<Refusal> {
    beside_vrf(lab, async |vrf| {
        let mut refusals = 0;
        for (family, opener) in families_and_ends() {
            let session = Session::open(lab, Setup::with_keys(family, opener, &[numbered(1)?])).await?;
            let socket = session.ends.socket;
            let [_, _, others, vrfs] = own_and_others(family, vrf)?;
            for (key, reason) in [(others, "the socket is connected to"), (vrfs, "is not a VRF device, or")] {
                let added = lab.north.call(AddKeys { socket, keys: vec![key] }).await;
                let error = added.err().context("the key was added")?.to_string();
                ensure!(error.contains(reason), "{error}");
                refusals += 1;
            }
        }
        Ok(Refusal::of("TCP_AO_ADD_KEY: EINVAL", refusals))
    })
    .await
}

/// Peers of one listener besides userspace, and `net.core.optmem_max` in octets for all their keys.
const PEERS: u32 = 4096;
const MEMORY: u32 = 1 << 22;

fn first_peer(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::new(198, 18, 0, 1).into(),
        Family::Ipv6 => Ipv6Addr::new(0x2001, 0xdb8, 0x18, 0, 0, 0, 0, 1).into(),
    }
}

/// When userspace's key is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Added {
    First,
    Last,
}

/// A listener with the keys of all peers and of userspace, the latter with the same ids; and the key of the others.
async fn listen_for_many(lab: &Lab, family: Family, added: Added) -> Result<(u64, Key)> {
    let own = vec![kernel_key(family, &mkt()?)?];
    let key = Key { remote: first_peer(family).into(), ..kernel_key(family, &others()?)? };
    let first = if added == Added::First { own.clone() } else { Vec::new() };
    let socket = open_socket(&lab.north, family, 0, first).await?;
    lab.north.call(Listen { socket }).await?;
    lab.north.call(AddPeers { socket, first: first_peer(family), peers: PEERS, key: key.clone() }).await?;
    if added == Added::Last {
        lab.north.call(AddKeys { socket, keys: own }).await?;
    }
    Ok((socket, key))
}

fn mkt() -> Result<Mkt> {
    key(1, TcpAoAlgorithm::HmacSha1)
}

/// The key of the others.
fn others() -> Result<Mkt> {
    key_with(1, TcpAoAlgorithm::HmacSha1, "a secret of all other peers")
}

async fn delete_others(lab: &Lab, family: Family, socket: u64, key: Key) -> Result<()> {
    lab.north.call(DeletePeers { socket, first: first_peer(family), peers: PEERS, key }).await
}

async fn with_memory<T>(lab: &Lab, row: impl Future<Output = Result<T>>) -> Result<T> {
    let before = set_memory(lab, MEMORY).await?;
    let result = row.await;
    set_memory(lab, before).await?;
    result
}

async fn find_among_many(lab: &Lab) -> Result<Evidence> {
    let row = async {
        let mut evidence = Evidence::default();
        let mut sessions = 0;
        let started = Instant::now();
        for (family, added) in Family::ALL
            .into_iter()
            .flat_map(|family| [Added::Last, Added::First].map(|added| (family, added)))
        {
            lab.clear().await?;
            let (socket, key) = listen_for_many(lab, family, added).await?;
            let mut is_alone = false;
            loop {
                lab.wire.take_recording();
                let before = lab.north.counters().await?;
                let setup = Setup::with_keys(family, End::Userspace, &[mkt()?]);
                let userspace = setup.userspace(lab)?;
                let mut session = Session::connect(lab, setup, before, userspace, socket).await?;
                session.exchange(SOME, SOME).await?;
                evidence.add(session.close().await?);
                sessions += 1;
                if is_alone {
                    break;
                }
                delete_others(lab, family, socket, key.clone()).await?;
                let left = lab.north.call(ListKeys { socket }).await?;
                ensure!(left.len() == 1, "{} keys are left", left.len());
                is_alone = true;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        Ok(evidence
            .with_figures(format!("{sessions} sessions, with {} keys added in {seconds:.1} s", 4 * PEERS)))
    };
    with_memory(lab, row).await
}

async fn find_none_among_many(lab: &Lab) -> Result<Refusal> {
    let row = async {
        let mut refusal = Refusal::default();
        for family in Family::ALL {
            lab.clear().await?;
            let (socket, key) = listen_for_many(lab, family, Added::First).await?;
            delete_others(lab, family, socket, key).await?;
            let own = kernel_key(family, &mkt()?)?;
            let first = End::Userspace.address(family);
            lab.north.call(DeletePeers { socket, first, peers: 1, key: own }).await?;
            let setup = Setup::with_keys(family, End::Userspace, &[mkt()?]);
            let userspace = setup.userspace(lab)?;
            let before = lab.north.counters().await?;
            let counted = lab.north.await_counted(&before, Counted::key_not_found(1));
            let counted = setup.until_refused(lab, &userspace, socket, counted).await?;
            refusal = refusal.and(Refusal::by(&format!("kernel ({family})"), &counted));
        }
        Ok(refusal)
    };
    with_memory(lab, row).await
}
