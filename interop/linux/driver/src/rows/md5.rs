//! Listeners with TCP-AO keys, with TCP-MD5 keys, with both and with neither, and callers of each kind. Userspace has no TCP-MD5: those callers
//! are north's own, on its loopback interface.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use agent::{
    Accept, AddKeys, Amount, Close, Connect, Counted, Key, Listen, Open, SetMd5Key, Transfer, TryAccept,
};
use speaker::protection::mirrored;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::IpCidr;
use wireseal_tcp_ao::Mkt;

use super::opening::check_rejected;
use super::restrictions::check_refused;
use crate::row::prelude::*;
use crate::rows::session::{End, SOME, Session, Setup, key, key_with};

const MD5_SECRET: &str = "secret of TCP-MD5";
const OTHER_MD5_SECRET: &str = "another secret of TCP-MD5";

pub fn rows() -> Vec<Row> {
    vec![
        Row::new(
            "listeners-and-callers",
            format!(
                "{} listeners of the kernel and callers with TCP-AO, TCP-MD5 and neither, over both versions of IP: who may call gets a \
                 session, and who may not gets no answer and is counted",
                LISTENERS.len()
            ),
            call_all,
            "those who may call have another secret",
            call_with_wrong_secrets,
        ),
        Row::new(
            "md5-and-ao-at-the-opener",
            "the kernel opens with a TCP-AO key for its peer and a TCP-MD5 key for another: over both versions of IP, and the other way \
             round",
            open_with_both,
            "both keys are for others: EKEYREJECTED, and the kernel sends nothing",
            reject_both,
        ),
        Row::new(
            "md5-or-ao-for-life",
            "a connection stays what it was opened as: under TCP-AO, under TCP-MD5 and without either, over both versions of IP, it refuses a key of \
             another kind and goes on",
            stay_as_opened,
            "the connection under TCP-AO is given another key of its own kind: added",
            add_another_key,
        ),
    ]
}

/// Whose keys a listener has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Nobodys,
    Callers,
    Anothers,
    Everybodys,
}

/// The counter of the caller's refused SYN; `None` for a caller that gets a session.
type Refused = Option<Counted>;
const WELCOME: Refused = None;
const KEY_NOT_FOUND: Refused = Some(Counted::key_not_found(1));
const REQUIRED: Refused = Some(Counted::required(1));
const MD5_NOT_FOUND: Refused = Some(Counted::md5_not_found(1));
const MD5_UNEXPECTED: Refused = Some(Counted::md5_unexpected(1));

/// A listener, and how callers with TCP-AO, with TCP-MD5 and with neither fare.
#[derive(Clone, Copy, Debug)]
struct Listener {
    ao: Whose,
    md5: Whose,
    required: bool,
    callers: [Refused; 3],
}

const fn listener(ao: Whose, md5: Whose, callers: [Refused; 3]) -> Listener {
    Listener { ao, md5, required: false, callers }
}

const LISTENERS: [Listener; 8] = [
    listener(Whose::Nobodys, Whose::Nobodys, [KEY_NOT_FOUND, MD5_UNEXPECTED, WELCOME]),
    listener(Whose::Everybodys, Whose::Nobodys, [WELCOME, MD5_UNEXPECTED, REQUIRED]),
    Listener {
        required: true,
        ..listener(Whose::Callers, Whose::Nobodys, [WELCOME, MD5_UNEXPECTED, REQUIRED])
    },
    Listener {
        required: true,
        ..listener(Whose::Anothers, Whose::Nobodys, [KEY_NOT_FOUND, MD5_UNEXPECTED, REQUIRED])
    },
    listener(Whose::Nobodys, Whose::Everybodys, [KEY_NOT_FOUND, WELCOME, MD5_NOT_FOUND]),
    listener(Whose::Callers, Whose::Anothers, [WELCOME, MD5_UNEXPECTED, REQUIRED]),
    listener(Whose::Anothers, Whose::Callers, [KEY_NOT_FOUND, WELCOME, MD5_NOT_FOUND]),
    listener(Whose::Anothers, Whose::Anothers, [KEY_NOT_FOUND, MD5_UNEXPECTED, WELCOME]),
];

/// The secret of a caller's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Secret {
    Right,
    Wrong,
}

fn mkt(secret: Secret) -> Result<Mkt> {
    match secret {
        Secret::Right => key(1, TcpAoAlgorithm::HmacSha1),
        Secret::Wrong => key_with(1, TcpAoAlgorithm::HmacSha1, "another secret of key 1, 32 octets"),
    }
}

const fn loopback(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}

/// Addresses that no caller has: one for a TCP-AO key, one for a TCP-MD5 key. Linux refuses both for one address on a socket.
fn others(family: Family) -> Result<[IpCidr; 2]> {
    Ok(match family {
        Family::Ipv4 => ["198.51.100.1/32".parse()?, "198.51.100.2/32".parse()?],
        Family::Ipv6 => ["2001:db8:1::1/128".parse()?, "2001:db8:1::2/128".parse()?],
    })
}

/// A socket of the kernel's with a TCP-AO key for one network, a TCP-MD5 key for another, or neither.
async fn socket_with(lab: &Lab, local: SocketAddr, ao: Option<IpCidr>, md5: Option<IpCidr>) -> Result<u64> {
    let key = Key::new(local.ip(), &mirrored(&mkt(Secret::Right)?)?)?;
    let keys = ao.into_iter().map(|remote| Key { remote, ..key.clone() }).collect();
    let socket = lab.north.call(Open { local, keys, required: false }).await?;
    if let Some(remote) = md5 {
        set_md5(lab, socket, remote, MD5_SECRET).await?;
    }
    Ok(socket)
}

async fn set_md5(lab: &Lab, socket: u64, remote: IpCidr, secret: &str) -> Result<()> {
    lab.north.call(SetMd5Key { socket, remote, vrf: None, secret: secret.to_owned() }).await
}

/// The listener, for a caller with this address; and its port.
async fn listen(lab: &Lab, family: Family, listener: &Listener, caller: IpAddr) -> Result<(u64, u16)> {
    let others = others(family)?;
    let network = |whose: Whose, other: IpCidr| {
        Ok::<_, anyhow::Error>(match whose {
            Whose::Nobodys => None,
            Whose::Callers => Some(caller.into()),
            Whose::Anothers => Some(other),
            Whose::Everybodys => Some(format!("{}/0", family.any(0).ip()).parse()?),
        })
    };
    let (ao, md5) = (network(listener.ao, others[0])?, network(listener.md5, others[1])?);
    let socket = socket_with(lab, family.any(0), ao, md5).await?;
    if listener.required {
        let flags = agent::SetFlags { socket, required: Some(true), accept_icmps: None };
        lab.north.call(flags).await?;
    }
    Ok((socket, lab.north.call(Listen { socket }).await?.port()))
}

/// A call from userspace, with a TCP-AO key or without keys. Returns the evidence of its session, or of its refusal.
async fn call_from_userspace(
    lab: &Lab,
    family: Family,
    listener: &Listener,
    mkts: Vec<Mkt>,
    counts: Refused,
) -> Result<(Counted, Evidence)> {
    lab.clear().await?;
    let (socket, _) = listen(lab, family, listener, End::Userspace.address(family)).await?;
    let before = lab.north.counters().await?;
    let setup = Setup { kernel: mkts.clone(), ..Setup::with_keys(family, End::Userspace, &mkts) };
    let userspace = setup.userspace(lab)?;
    let Some(counts) = counts else {
        let mut session = Session::connect(lab, setup, before, userspace, socket).await?;
        session.exchange(SOME, SOME).await?;
        let is_unsigned = session.ends.setup.userspace.is_empty();
        let evidence = if is_unsigned { session.close_unsigned().await? } else { session.close().await? };
        return Ok((Counted::default(), evidence));
    };
    let sign = async {
        let counted = lab.north.await_counted(&before, counts).await?;
        // The stack gives up with a reset, which must not arrive.
        lab.wire.set_plugged(Port::Userspace, false);
        Ok(counted)
    };
    let counted = setup.until_refused(lab, &userspace, socket, sign).await?;
    check_unanswered(lab, socket).await?;
    Ok((counted, Evidence::default()))
}

/// Checks that the kernel has not answered and no connection came about.
async fn check_unanswered(lab: &Lab, socket: u64) -> Result<()> {
    ensure!(lab.wire.segments_from(Port::North) == 0, "the kernel has answered");
    ensure!(lab.north.call(TryAccept { socket }).await?.is_none(), "the kernel has accepted a connection");
    Ok(())
}

/// A call from north itself with a TCP-MD5 key.
async fn call_with_md5(
    lab: &Lab,
    family: Family,
    listener: &Listener,
    secret: &str,
    counts: Refused,
) -> Result<Counted> {
    lab.clear().await?;
    let own = loopback(family);
    let (socket, port) = listen(lab, family, listener, own).await?;
    let before = lab.north.counters().await?;
    let caller = socket_with(lab, SocketAddr::new(own, 0), None, None).await?;
    set_md5(lab, caller, own.into(), secret).await?;
    let connect = lab.north.call(Connect { socket: caller, remote: SocketAddr::new(own, port) });
    let Some(counts) = counts else {
        let (accepted, _) = tokio::try_join!(lab.north.call(Accept { socket }), connect)?;
        converse(lab, caller, accepted).await?;
        return Ok(lab.north.counters().await?.since(&before));
    };
    let counted = refused(lab.north.await_counted(&before, counts), connect).await?;
    check_unanswered(lab, socket).await?;
    lab.north.call(Close { socket: caller }).await?;
    Ok(counted)
}

/// Carries octets both ways between two sockets of north's.
async fn converse(lab: &Lab, one: u64, other: u64) -> Result<()> {
    let all = Amount::of(SOME);
    let transfer = |socket| lab.north.call(Transfer { socket, send: all, receive: all });
    tokio::try_join!(transfer(one), transfer(other))?;
    Ok(())
}

async fn call_all(lab: &Lab) -> Result<Evidence> {
    lab.north.shell("ip link set lo up").await?;
    let mut evidence = Evidence::default();
    let (mut sum, mut sessions, mut refused) = (Counted::default(), 0, 0);
    for family in Family::ALL {
        for listener in LISTENERS {
            let named = |caller: &str| format!("{caller} caller over {family}, {listener:?}");
            let [ao, md5, unsigned] = listener.callers;
            let mkts = vec![mkt(Secret::Right)?];
            let by_ao = call_from_userspace(lab, family, &listener, mkts, ao);
            let by_ao = by_ao.await.with_context(|| named("TCP-AO"))?;
            let by_unsigned = call_from_userspace(lab, family, &listener, Vec::new(), unsigned);
            let by_unsigned = by_unsigned.await.with_context(|| named("unsigned"))?;
            let by_md5 = call_with_md5(lab, family, &listener, MD5_SECRET, md5);
            let by_md5 = by_md5.await.with_context(|| named("TCP-MD5"))?;
            for (counted, called) in [by_ao, by_unsigned, (by_md5, Evidence::default())] {
                sum = sum.plus(&counted);
                evidence.unsigned += called.unsigned;
                evidence.add(called);
            }
            let welcome = listener.callers.iter().filter(|refused| refused.is_none()).count();
            (sessions, refused) = (sessions + welcome, refused + 3 - welcome);
        }
    }
    evidence.counters = vec![("north, refusing".into(), sum.to_string())];
    Ok(evidence.with_figures(format!("{sessions} sessions, {refused} callers refused")))
}

async fn call_with_wrong_secrets(lab: &Lab) -> Result<Refusal> {
    lab.north.shell("ip link set lo up").await?;
    let mut sum = Counted::default();
    for family in Family::ALL {
        for listener in LISTENERS {
            let [ao, md5, _] = listener.callers;
            if ao.is_none() {
                let bad = Some(Counted::bad(1));
                let mkts = vec![mkt(Secret::Wrong)?];
                sum = sum.plus(&call_from_userspace(lab, family, &listener, mkts, bad).await?.0);
            }
            if md5.is_none() {
                let failure = Some(Counted::md5_failure(1));
                sum = sum.plus(&call_with_md5(lab, family, &listener, OTHER_MD5_SECRET, failure).await?);
            }
        }
    }
    Ok(Refusal::by("north", &sum))
}

async fn open_with_both(lab: &Lab) -> Result<Evidence> {
    lab.north.shell("ip link set lo up").await?;
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        let [other, _] = others(family)?;
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let setup = Setup::with_keys(family, End::Kernel, &[mkt(Secret::Right)?]);
        let userspace = setup.userspace(lab)?;
        let peer = End::Userspace.address(family).into();
        let socket = socket_with(lab, family.any(0), Some(peer), Some(other)).await?;
        let mut session = Session::connect(lab, setup, before, userspace, socket).await?;
        session.exchange(SOME, SOME).await?;
        evidence.add(session.close().await?);

        let own = loopback(family);
        let listener = socket_with(lab, SocketAddr::new(own, 0), None, Some(own.into())).await?;
        let remote = lab.north.call(Listen { socket: listener }).await?;
        let caller = socket_with(lab, SocketAddr::new(own, 0), Some(other), Some(own.into())).await?;
        let connect = lab.north.call(Connect { socket: caller, remote });
        let (accepted, _) = tokio::try_join!(lab.north.call(Accept { socket: listener }), connect)?;
        converse(lab, caller, accepted).await?;
    }
    Ok(evidence.with_figures("2 sessions under TCP-AO, 2 under TCP-MD5"))
}

async fn reject_both(lab: &Lab) -> Result<Refusal> {
    let mut rejected = 0;
    for family in Family::ALL {
        let _userspace = Setup::with_keys(family, End::Kernel, &[mkt(Secret::Right)?]).userspace(lab)?;
        let [one, other] = others(family)?;
        let socket = socket_with(lab, family.any(0), Some(one), Some(other)).await?;
        let remote = Port::Userspace.at(family, 179);
        check_rejected(lab, socket, remote).await?;
        rejected += 1;
    }
    ensure!(lab.wire.segments_from(Port::North) == 0, "the kernel has sent something");
    Ok(Refusal::of("connect: EKEYREJECTED", rejected))
}

async fn stay_as_opened(lab: &Lab) -> Result<Evidence> {
    lab.north.shell("ip link set lo up").await?;
    let mut evidence = Evidence::default();
    let mut refused = 0;
    for family in Family::ALL {
        let peer: IpCidr = End::Userspace.address(family).into();
        for (mkts, opener) in [vec![mkt(Secret::Right)?], Vec::new()].into_iter().zip(End::BOTH) {
            let is_unsigned = mkts.is_empty();
            let mut session = Session::open_used(lab, Setup::with_keys(family, opener, &mkts)).await?;
            let socket = session.ends.socket;
            if is_unsigned {
                let keys = vec![Key::new(End::Userspace.address(family), &mirrored(&mkt(Secret::Right)?)?)?];
                let added = lab.north.call(AddKeys { socket, keys }).await;
                refused += check_refused(added, "the connection was opened without TCP-AO")?;
            } else {
                let added = set_md5(lab, socket, peer, MD5_SECRET).await;
                refused += check_refused(added, "the socket has a TCP-AO key for the same peers")?;
            }
            session.exchange(SOME, SOME).await?;
            let session = if is_unsigned { session.close_unsigned().await? } else { session.close().await? };
            evidence.unsigned += session.unsigned;
            evidence.add(session);
        }

        let own = loopback(family);
        let listener = socket_with(lab, SocketAddr::new(own, 0), None, Some(own.into())).await?;
        let remote = lab.north.call(Listen { socket: listener }).await?;
        let caller = socket_with(lab, SocketAddr::new(own, 0), None, Some(own.into())).await?;
        let connect = lab.north.call(Connect { socket: caller, remote });
        let (accepted, _) = tokio::try_join!(lab.north.call(Accept { socket: listener }), connect)?;
        for socket in [caller, accepted] {
            let keys = vec![Key::new(own, &mirrored(&mkt(Secret::Right)?)?)?];
            let added = lab.north.call(AddKeys { socket, keys }).await;
            refused += check_refused(added, "the connection was opened without TCP-AO")?;
        }
        converse(lab, caller, accepted).await?;
    }
    Ok(evidence.with_figures(format!("{refused} keys refused")))
}

async fn add_another_key(lab: &Lab) -> Result<Refusal> {
    let mut added = 0;
    for family in Family::ALL {
        let session =
            Session::open(lab, Setup::with_keys(family, End::Kernel, &[mkt(Secret::Right)?])).await?;
        let second = mirrored(&key(2, TcpAoAlgorithm::Aes128Cmac)?)?;
        let keys = vec![Key::new(End::Userspace.address(family), &second)?];
        lab.north.call(AddKeys { socket: session.ends.socket, keys }).await?;
        added += 1;
    }
    Ok(Refusal::of("keys added", added))
}
