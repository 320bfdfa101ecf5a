//! What rows with BGP share: a key chain and the moments of its life, at both ends, and the waiting for BIRD and for segments under a key.

use agent::Counted;
use wireseal_keys::{KeyChain, KeyChains, Timestamp};
use wireseal_tcp_ao::{KeyId, Mkt};

use super::bird::{Bird, Since, tcp_ao};
use crate::row::prelude::*;
use crate::verify::{Verdicts, verify};

/// The secret for TCP-MD5, where that is used.
pub const MD5_SECRET: &str = "what both ends have long known";

pub const SECRET: &str = "what both ends know";

/// Moments in the life of the key chain: only the first key; both accepted; the second preferred; only the second; none. The
/// lifetimes begin and end between them.
pub const FIRST: i64 = 1_800_000_000;
pub const BOTH: i64 = FIRST + 1000;
pub const SECOND: i64 = FIRST + 2000;
pub const ALONE: i64 = FIRST + 3000;
pub const OVER: i64 = FIRST + 4000;

/// Seconds from one moment of the key chain to the next, where the clock is not set and the row waits.
const STEP: i64 = 8;
/// Far enough away that a row never comes to it.
const DAY: i64 = 24 * 3600;

/// A moment of the key chain, on a clock on which the chain begins at `start`.
pub fn by_clock(start: i64, moment: i64) -> i64 {
    if moment > ALONE { start + DAY } else { start + (moment - FIRST) * STEP / (BOTH - FIRST) }
}

pub fn key_file(secret: &str) -> String {
    key_file_at(secret, Timestamp::from_unix_seconds)
}

/// The key chain with its moments at these times.
pub fn key_file_at(secret: &str, at: impl Fn(i64) -> Timestamp) -> String {
    format!(
        "[[key-chain]]\nname = \"lab\"\n\
         [[key-chain.key]]\nsend-id = 11\nrecv-id = 21\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"{secret} first\"\n\
         send = {{ until = {} }}\naccept = {{ until = {} }}\n\
         [[key-chain.key]]\nsend-id = 12\nrecv-id = 22\nalgorithm = \"hmac(sha256)\"\nsecret = \"{secret} second\"\n\
         send = {{ from = {}, until = {} }}\naccept = {{ from = {}, until = {} }}\n",
        at(SECOND - 500),
        at(ALONE - 500),
        at(SECOND - 500),
        at(OVER - 500),
        at(BOTH - 500),
        at(OVER - 500)
    )
}

/// The key chain of Wireseal's end, and its two keys.
pub fn key_chain(secret: &str) -> Result<(KeyChain, [Mkt; 2])> {
    let chains = KeyChains::from_toml(&key_file(secret))?;
    let [chain] = chains.chains() else { bail!("there is one key chain") };
    let [first, second] = chain.keys() else { bail!("there are two keys") };
    Ok((chain.clone(), [first.mkt().clone(), second.mkt().clone()]))
}

/// Waits until a port sends a new segment under a key in both families.
pub async fn await_signed(lab: &Lab, from: Port, key_id: KeyId) -> Result<()> {
    for family in Family::ALL {
        await_signed_over(lab, family, from, key_id).await?;
    }
    Ok(())
}

/// The same in one family.
pub async fn await_signed_over(lab: &Lab, family: Family, from: Port, key_id: KeyId) -> Result<()> {
    let source = from.address(family);
    let mut next = None;
    let is_signed = |recording: &Recording| {
        let frames = &recording.frames[*next.get_or_insert(recording.frames.len())..];
        next = Some(recording.frames.len());
        let mut segments = frames.iter().filter_map(|frame| frame.segment());
        let has_key = |ao: wireseal_tcp_ao::AoOption<'_>| ao.key_id == key_id;
        let is_wanted = segments.any(|segment| {
            segment.source_address() == source && segment.ao_option().ok().flatten().is_some_and(has_key)
        });
        is_wanted.then_some(())
    };
    let what = format!("{from}'s segment under key {key_id} over {family}");
    lab.wire.await_recorded(&what, is_signed).await
}

/// Waits until a port sends a new segment under a key in each of BIRD's sessions.
async fn await_signed_in_all(lab: &Lab, bird: &Bird<'_>, from: Port, key_id: KeyId) -> Result<()> {
    for family in bird.families {
        await_signed_over(lab, *family, from, key_id).await?;
    }
    Ok(())
}

/// Rolls the key over at both ends of all sessions: `at` has Wireseal's end live at a moment of the key chain.
pub async fn roll(
    lab: &Lab,
    bird: &Bird<'_>,
    remote: Port,
    [first, second]: &[Mkt; 2],
    at: impl AsyncFn(i64) -> Result<()>,
) -> Result<()> {
    at(BOTH).await?;
    bird.configure(&tcp_ao(&[first, second], first)?).await?;
    // Each end asks the other for the second key, one after the other.
    bird.configure(&tcp_ao(&[first, second], second)?).await?;
    await_signed_in_all(lab, bird, remote, second.send_id()).await?;
    at(SECOND).await?;
    await_signed_in_all(lab, bird, Port::North, second.recv_id()).await?;
    at(ALONE).await?;
    bird.configure(&tcp_ao(&[second], second)?).await?;
    await_signed_in_all(lab, bird, remote, second.send_id()).await?;
    await_signed_in_all(lab, bird, Port::North, second.recv_id()).await
}

/// Waits until BIRD has all routes of all sessions; returns since when they are up.
pub async fn await_routes(bird: &Bird<'_>, imported: usize) -> Result<Vec<Since>> {
    let mut since = Vec::new();
    for family in bird.families {
        since.push(bird.await_routes(*family, imported).await?.since);
    }
    Ok(since)
}

/// Waits for this many routes, and checks that the sessions are still the same.
pub async fn check_still_up(bird: &Bird<'_>, imported: usize, since: &[Since]) -> Result<()> {
    let now = await_routes(bird, imported).await?;
    ensure!(since == now, "BIRD's sessions are up since {now:?}, and were since {since:?}");
    Ok(())
}

/// Takes the second guest to the first moment of the key chain, and starts BIRD with the chain's first key; also says what both
/// kernels count from now on.
pub async fn begin(lab: &Lab) -> Result<(Bird<'_>, Both<'_>)> {
    begin_for(lab, &Family::ALL).await
}

/// The same with a peer that has these families only.
pub async fn begin_for<'a>(lab: &'a Lab, families: &'static [Family]) -> Result<(Bird<'a>, Both<'a>)> {
    let south = lab.south().await?;
    let (_, [first, _]) = key_chain(SECRET)?;
    let before = Both::of(&lab.north, south).await?;
    south.set_clock(FIRST).await?;
    Ok((Bird::start_for(&lab.north, Port::South, families, &tcp_ao(&[&first], &first)?).await?, before))
}

/// The evidence of what went over the wire, all of which has to verify, with what was counted.
pub fn evidence(lab: &Lab, mkts: &[Mkt], counters: &[(&str, Counted)], seconds: f64) -> Result<Evidence> {
    let recording = lab.wire.take_recording();
    let wire = verify(lab, &recording, mkts)?;
    wire.check_all_verified()?;
    let counters = counters.iter().map(|(end, counted)| ((*end).to_owned(), counted.to_string())).collect();
    Ok(Evidence { counters, figures: figures(seconds, &wire), wire, unsigned: 0, recording })
}

fn figures(seconds: f64, wire: &Verdicts) -> String {
    let by_key: Vec<String> =
        wire.by_key.iter().map(|(key, segments)| format!("{segments} under key {key}")).collect();
    format!("all routes after {seconds:.1} s; {}", by_key.join(", "))
}
