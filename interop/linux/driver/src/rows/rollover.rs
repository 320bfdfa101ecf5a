//! Rollovers from one key to another and back, under traffic; keys that are removed while in use; keys that only one end has.

use agent::{AddKeys, Counted, DeleteKey, SetKeys};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Mkt, OptionCoverage};

use super::session::{End, Ends, SOME, Session, Setup, families_and_ends, kernel_key, key, key_with};
use crate::row::prelude::*;

/// A kind of key: algorithm, octets of MAC, coverage of options.
pub type Kind = (TcpAoAlgorithm, usize, OptionCoverage);
const SHA1: Kind = (TcpAoAlgorithm::HmacSha1, 12, OptionCoverage::Covered);
/// The keys between which sessions roll over.
const CHANGES: [[Kind; 2]; 4] = [
    [SHA1, SHA1],
    [SHA1, (TcpAoAlgorithm::Aes128Cmac, 16, OptionCoverage::Covered)],
    [
        (TcpAoAlgorithm::Aes128Cmac, 12, OptionCoverage::Excluded),
        (TcpAoAlgorithm::LinuxHmacSha256, 4, OptionCoverage::Covered),
    ],
    [
        (TcpAoAlgorithm::LinuxHmacSha256, 16, OptionCoverage::Covered),
        (TcpAoAlgorithm::HmacSha1, 4, OptionCoverage::Excluded),
    ],
];
/// Which of the two keys a session changes to, in turn: to the second and back, twice.
const TURNS: [usize; 4] = [1, 0, 1, 0];

pub fn rows() -> Vec<Row> {
    let there_and_back = families_and_ends().map(|(family, starter)| {
        Row::new(
            format!("rollover-{family}-{starter}-starts"),
            format!(
                "from one key to another and back, twice, under traffic both ways over {family}; the {starter} end asks first. \
                 Same algorithm; HMAC-SHA-1-96 and CMAC of 16 octets; CMAC-96 without options and HMAC-SHA-256 of 4 octets; \
                 HMAC-SHA-256 of 16 octets and HMAC-SHA-1 of 4 without options"
            ),
            async move |lab| roll_all(lab, family, starter).await,
            "the second key's secret differs at one end",
            async move |lab| roll_to_a_wrong_secret(lab, family, starter).await,
        )
    });
    let mut rows: Vec<Row> = there_and_back.collect();
    rows.push(Row::new(
        "rollover-key-removed-by-kernel",
        "the kernel's key is deleted in use: EBUSY without successor, done with one; userspace follows",
        delete_at_the_kernel,
        "userspace does not have the successor",
        delete_for_an_unknown_key,
    ));
    rows.push(Row::new(
        "rollover-key-removed-by-userspace",
        "userspace removes the key that the kernel signs with: what comes is refused until the kernel has switched, or until \
         the key is back, and is received then",
        remove_at_userspace,
        "the kernel has no other key",
        remove_the_only_key,
    ));
    rows.push(Row::new(
        "rollover-key-of-one-end",
        "one end asks for a key that the other does not have: the other stays with its own, and the session goes on",
        ask_for_an_unknown_key,
        "an end signs with it",
        sign_with_an_unknown_key,
    ));
    rows
}

pub fn of_kind(number: u8, (algorithm, mac_length, options): Kind) -> Result<Mkt> {
    Ok(key(number, algorithm)?.with_mac_length(mac_length)?.with_options(options))
}

async fn roll_all(lab: &Lab, family: Family, starter: End) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let (mut rollovers, mut ignored) = (0, 0);
    for (place, change) in CHANGES.into_iter().enumerate() {
        let named = || format!("change {place}");
        let mkts = [of_kind(1, change[0])?, of_kind(2, change[1])?];
        let opener = End::BOTH[place % 2];
        let failed_before = fragmentations_failed(lab).await?;
        let mut session =
            Session::open(lab, Setup::with_keys(family, opener, &mkts)).await.with_context(named)?;
        let rolling = session.under_traffic(async |ends| {
            ends.await_traffic().await?;
            for turn in TURNS {
                roll(ends, starter, &mkts[turn]).await?;
            }
            Ok(())
        });
        rolling.await.with_context(named)?;
        rollovers += TURNS.len();
        ignored += expect_own_errors(&mut session, failed_before).await?;
        let session = session.close().await.with_context(named)?;
        for id in mkts.iter().flat_map(|mkt| [mkt.send_id(), mkt.recv_id()]) {
            ensure!(session.wire.by_key.contains_key(&id.0), "nothing was sent with KeyID {id}");
        }
        evidence.add(session);
    }
    evidence.figures = format!("{rollovers} rollovers each way");
    if ignored > 0 {
        evidence.figures += &format!(", {ignored} packets too long for the new MAC");
    }
    Ok(evidence)
}

/// Data that Linux has segmented for one key are too long with the MAC of another. Linux sends itself an ICMP error, ignores it, and sends the
/// data again after a while. Returns how many; fails if there were more than [`fragmentations_failed`] since `failed_before`.
pub async fn expect_own_errors(session: &mut Session<'_>, failed_before: u64) -> Result<u64> {
    let ignored = session.ends.kernel_counted().await?.dropped_icmps;
    let too_long = fragmentations_failed(session.ends.lab).await? - failed_before;
    ensure!(ignored <= too_long, "{ignored} ICMP errors ignored, {too_long} packets too long");
    session.ends.beside[1] = Counted::dropped_icmps(ignored);
    Ok(ignored)
}

/// Packets that the guest's kernel did not send because they were too long for the link.
pub async fn fragmentations_failed(lab: &Lab) -> Result<u64> {
    let count = "awk '$1 == \"Ip:\" { if (seen) print $i; else for (i = 2; $i != \"FragFails\"; i++); seen = 1 }' /proc/net/snmp";
    let count = lab.north.shell(count).await?;
    count.trim().parse().with_context(|| format!("/proc/net/snmp says {count}"))
}

/// One end after the other asks for this key; the other end signs with it, and traffic goes on.
pub async fn roll(ends: &Ends<'_>, starter: End, mkt: &Mkt) -> Result<()> {
    for asks in [starter, starter.other()] {
        ask_for(ends, asks, mkt).await?;
        ends.await_current_key(asks.other(), mkt).await?;
        ends.await_traffic().await?;
    }
    Ok(())
}

/// Makes the key an end's rnext key.
pub async fn ask_for(ends: &Ends<'_>, end: End, mkt: &Mkt) -> Result<()> {
    match end {
        End::Userspace => Ok(ends.connection(|connection| connection.set_rnext_key(mkt.recv_id()))??),
        End::Kernel => {
            let rnext = Some(mkt.send_id().0);
            ends.lab.north.call(SetKeys { socket: ends.socket, current: None, rnext }).await
        }
    }
}

/// The end that asks for the key then receives segments that do not verify.
async fn roll_to_a_wrong_secret(lab: &Lab, family: Family, starter: End) -> Result<Refusal> {
    let first = key(1, TcpAoAlgorithm::HmacSha1)?;
    let second = key(2, TcpAoAlgorithm::Aes128Cmac)?;
    let other = key_with(2, TcpAoAlgorithm::Aes128Cmac, "another secret of key 2, 32 octets")?;
    let setup = Setup {
        family,
        opener: starter,
        userspace: vec![first.clone(), second.clone()],
        kernel: vec![first, other],
        number: 0,
    };
    let mut session = Session::open_used(lab, setup).await?;
    ask_for(&session.ends, starter, &second).await?;
    let counted = session
        .until_refused(&End::BOTH, async |ends| ends.await_counted(starter, Counted::bad(2)).await)
        .await?;
    Ok(Refusal::by(&starter.to_string(), &counted))
}

fn two_keys() -> Result<[Mkt; 2]> {
    Ok([key(1, TcpAoAlgorithm::HmacSha1)?, key(2, TcpAoAlgorithm::LinuxHmacSha256)?])
}

async fn delete_at_the_kernel(lab: &Lab) -> Result<Evidence> {
    let mkts = two_keys()?;
    let mut evidence = Evidence::default();
    for family in Family::ALL {
        let mut session = Session::open_used(lab, Setup::with_keys(family, End::Userspace, &mkts)).await?;
        let refused = delete(&session.ends, &mkts[0], None).await;
        let Err(error) = refused else { bail!("a key in use was deleted") };
        ensure!(error.to_string().contains("current or rnext key"), "the wrong error: {error}");
        session.exchange(SOME, SOME).await?;
        session.ends.quiet().await?;
        delete(&session.ends, &mkts[0], Some(&mkts[1])).await?;
        // Userspace sends nothing until it knows which key it is asked for, so that none of its segments is refused.
        session.exchange(0, SOME).await?;
        session.exchange(SOME, SOME).await?;
        session.ends.await_current_key(End::Userspace, &mkts[1]).await?;
        let ids = session.ends.info().await?;
        ensure!(
            (ids.current_key, ids.rnext_key) == (Some(mkts[1].recv_id().0), Some(mkts[1].send_id().0)),
            "the kernel's keys are {ids:?}"
        );
        evidence.add(session.close().await?);
    }
    Ok(evidence.with_figures("EBUSY without successor, nothing refused"))
}

/// Deletes a key from the kernel's socket, perhaps in favour of another.
async fn delete(ends: &Ends<'_>, mkt: &Mkt, successor: Option<&Mkt>) -> Result<()> {
    let send_id = mkt.recv_id().0;
    let current = successor.map(|mkt| mkt.recv_id().0);
    let rnext = successor.map(|mkt| mkt.send_id().0);
    ends.lab.north.call(DeleteKey { socket: ends.socket, send_id, current, rnext }).await
}

async fn delete_for_an_unknown_key(lab: &Lab) -> Result<Refusal> {
    let mkts = two_keys()?;
    let setup =
        Setup { userspace: vec![mkts[0].clone()], ..Setup::with_keys(Family::Ipv4, End::Kernel, &mkts) };
    let mut session = Session::open_used(lab, setup).await?;
    delete(&session.ends, &mkts[0], Some(&mkts[1])).await?;
    unknown_to_both(&mut session).await
}

/// Traffic until either end has counted a KeyID that it does not know.
async fn unknown_to_both(session: &mut Session<'_>) -> Result<Refusal> {
    let unknown = Counted::key_not_found(1);
    let counted = async |ends: &Ends<'_>| {
        tokio::try_join!(ends.await_kernel_counted(unknown), ends.userspace.await_counted(unknown))
    };
    let (kernel, userspace) = session.until_refused(&End::BOTH, counted).await?;
    Ok(Refusal::by("kernel", &kernel).and(Refusal::by("userspace", &userspace)))
}

async fn remove_at_userspace(lab: &Lab) -> Result<Evidence> {
    let mkts = two_keys()?;
    let mut evidence = Evidence::default();
    let mut refused = 0;
    for family in Family::ALL {
        for is_put_back in [false, true] {
            let mut session = Session::open_used(lab, Setup::with_keys(family, End::Kernel, &mkts)).await?;
            remove(&session.ends, &mkts)?;
            let not_found = remedy(&mut session, &mkts, is_put_back).await?;
            session.exchange(SOME, SOME).await?;
            refused += not_found;
            (session.ends.not_good[0], session.ends.beside[0]) =
                (not_found, Counted::key_not_found(not_found));
            evidence.add(session.close().await?);
        }
    }
    Ok(evidence.with_figures(format!("{refused} segments refused, all their octets received later")))
}

/// Removes the first key in favour of the second.
fn remove(ends: &Ends<'_>, mkts: &[Mkt; 2]) -> Result<()> {
    Ok(ends.connection(|connection| connection.remove_key(mkts[0].send_id(), Some(mkts[1].send_id())))??)
}

/// Lets the kernel send until userspace has refused something. Then puts the key back, or lets userspace send a segment, which asks for
/// the key that it wants. Returns the refused segments.
async fn remedy(session: &mut Session<'_>, mkts: &[Mkt; 2], is_put_back: bool) -> Result<u64> {
    let sent_before = session.ends.lab.wire.segments_from(End::Kernel.port());
    let to_kernel = u64::from(!is_put_back);
    let remedy = async |ends: &Ends<'_>| {
        ends.userspace.await_counted(Counted::key_not_found(2)).await?;
        if is_put_back {
            ends.connection(|connection| connection.add_key(&mkts[0]))??;
        }
        Ok(())
    };
    session.exchange_after(remedy, to_kernel, SOME).await?;
    session.ends.quiet().await?;
    let counted = session.ends.userspace.counters().key_not_found;
    let sent =
        session.ends.lab.wire.look(|recording| signed_with(recording, mkts[0].recv_id().0, sent_before));
    ensure!(
        is_put_back || counted == sent,
        "{sent} segments under the removed key, {counted} counted as key not found"
    );
    Ok(counted)
}

/// Segments of the kernel's with this KeyID, after the first `skip`.
fn signed_with(recording: &Recording, key_id: u8, skip: u64) -> u64 {
    let segments = recording.segments_from(End::Kernel.port()).skip(skip as usize);
    segments.filter(|segment| matches!(segment.ao_option(), Ok(Some(ao)) if ao.key_id.0 == key_id)).count()
        as u64
}

async fn remove_the_only_key(lab: &Lab) -> Result<Refusal> {
    let mkts = two_keys()?;
    let setup = Setup { kernel: vec![mkts[0].clone()], ..Setup::with_keys(Family::Ipv4, End::Kernel, &mkts) };
    let mut session = Session::open_used(lab, setup).await?;
    remove(&session.ends, &mkts)?;
    unknown_to_both(&mut session).await
}

async fn add_at(ends: &Ends<'_>, end: End, mkt: &Mkt) -> Result<()> {
    match end {
        End::Userspace => Ok(ends.connection(|connection| connection.add_key(mkt))??),
        End::Kernel => {
            let keys = vec![kernel_key(ends.setup.family, mkt)?];
            ends.lab.north.call(AddKeys { socket: ends.socket, keys }).await
        }
    }
}

async fn ask_for_an_unknown_key(lab: &Lab) -> Result<Evidence> {
    let [common, unknown] = two_keys()?;
    let mut evidence = Evidence::default();
    let mut asked = 0;
    for family in Family::ALL {
        for end in End::BOTH {
            let setup = Setup::with_keys(family, end, std::slice::from_ref(&common));
            let mut session = Session::open(lab, setup).await?;
            let asking = session.under_traffic(async |ends| {
                ends.await_traffic().await?;
                add_at(ends, end, &unknown).await?;
                ask_for(ends, end, &unknown).await?;
                ends.await_traffic().await
            });
            asking.await?;
            for end in End::BOTH {
                session.ends.await_current_key(end, &common).await?;
            }
            let session = session.close().await?;
            let rnext = if end == End::Userspace { unknown.recv_id() } else { unknown.send_id() };
            let segments = session.recording.segments_from(end.port());
            let asking = segments
                .filter(|segment| matches!(segment.ao_option(), Ok(Some(ao)) if ao.rnext_key_id == rnext));
            let asking = asking.count();
            ensure!(asking > 0, "the {end} end has not asked for its key");
            asked += asking;
            evidence.add(session);
        }
    }
    Ok(evidence.with_figures(format!("asked {asked} times, in vain")))
}

async fn sign_with_an_unknown_key(lab: &Lab) -> Result<Refusal> {
    let [common, unknown] = two_keys()?;
    let mut refusal = Refusal::default();
    for end in End::BOTH {
        let setup = Setup::with_keys(Family::Ipv4, end, std::slice::from_ref(&common));
        let mut session = Session::open_used(lab, setup).await?;
        add_at(&session.ends, end, &unknown).await?;
        match end {
            End::Userspace => {
                session.ends.connection(|connection| connection.set_current_key(unknown.send_id()))??;
            }
            End::Kernel => {
                let current = Some(unknown.recv_id().0);
                lab.north.call(SetKeys { socket: session.ends.socket, current, rnext: None }).await?;
            }
        }
        let receiver = end.other();
        let counted = async |ends: &Ends<'_>| ends.await_counted(receiver, Counted::key_not_found(1)).await;
        let counted = session.until_refused(&[end], counted).await?;
        refusal = refusal.and(Refusal::by(&receiver.to_string(), &counted));
    }
    Ok(refusal)
}
