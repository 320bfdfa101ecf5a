//! `wireseal keys roll --status`: which key each end signs with, and whether the old one may go.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use wireseal_keys::{Action, Plan, Timestamp};

use super::key_arguments::KeyArguments;
use super::outcome::{Outcome, Result};
use crate::capture::Reader;
use crate::verify::report::{SegmentReport, Verdict};
use crate::verify::{Verifier, VerifyEvent, VerifyOptions};

/// Which of a plan's keys an end signs with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Used {
    New(u8),
    Old(u8),
    /// The plan does not have it.
    Other(u8),
    /// None that verifies.
    Nothing,
    /// Another one than this one, which its peer asks for.
    Behind(u8),
}

impl Used {
    /// Of the key with this KeyID. The new key's ids were free at both ends, so they are nobody else's.
    fn of(plan: &Plan, key_id: u8) -> Self {
        let old = plan.ends.iter().flat_map(|end| &end.old);
        if plan.ends.iter().any(|end| end.new.send_id == key_id) {
            Self::New(key_id)
        } else if old.into_iter().any(|key| key.send_id == key_id) {
            Self::Old(key_id)
        } else {
            Self::Other(key_id)
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::New(id) => format!("the new key (KeyID {id})"),
            Self::Old(id) => format!("the old key (KeyID {id})"),
            Self::Other(id) => format!("a key that the plan does not have (KeyID {id})"),
            Self::Nothing => "nothing that verifies".to_owned(),
            Self::Behind(id) => format!("another key than its peer asks for (KeyID {id})"),
        }
    }
}

/// What one end of a session signs with.
struct Signs {
    who: String,
    with: Used,
}

/// What was found and what follows from it, in words, and the outcome.
fn conclude(plan: &Plan, found: &[Signs], now: Timestamp) -> (String, Outcome) {
    let mut text = String::new();
    for Signs { who, with } in found {
        text.push_str(&format!("{who} signs with {}\n", with.in_words()));
    }
    let removals = plan.ends.iter().flat_map(|end| &end.steps).filter(|step| step.action == Action::Remove);
    let from = removals.map(|step| step.from).max().unwrap_or(plan.at);
    let has_changed = found.iter().all(|signs| matches!(signs.with, Used::New(_)));
    let verdict = match (found.is_empty(), has_changed) {
        (true, _) => "not yet: no session is open".to_owned(),
        (false, true) if now >= from => "done: the old key may go".to_owned(),
        (false, true) => format!("not yet: both ends have changed over; the old key may go from {from} on"),
        (false, false) if now < plan.at => format!("not yet: the change is at {}", plan.at),
        (false, false) => "not yet: the old key is still in use, so it must stay".to_owned(),
    };
    text.push_str(&verdict);
    let is_done = !found.is_empty() && has_changed && now >= from;
    (text, if is_done { Outcome::Good } else { Outcome::Failed })
}

/// From the last good segment of each end in a capture.
pub(super) fn of_capture(plan: &Plan, capture: &Path, keys: &KeyArguments, now: Option<Timestamp>) -> Result {
    keys.check_input("capture", capture)?;
    let keys = keys.keys()?;
    let mut reader = Reader::open(capture).map_err(|error| format!("{}: {error}", capture.display()))?;
    let mut verifier = Verifier::new(&keys, VerifyOptions::default());
    // By connection, because one that still uses the old key must not be hidden by another one of the same hosts.
    let mut last: BTreeMap<[SocketAddr; 2], u8> = BTreeMap::new();
    let mut each = |found: VerifyEvent<'_>| {
        if let VerifyEvent::Segment { ends, segment, .. } = found
            && let SegmentReport { sender, key_ids: Some([key_id, _]), verdict: Verdict::Good, .. } = segment
        {
            let ends = [sender, sender.other()].map(|sender| SocketAddr::from(ends[sender as usize]));
            last.insert(ends, key_id.0);
        }
        Ok::<_, Infallible>(())
    };
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|error| format!("{}: {error}", capture.display()))?;
        let Ok(()) = verifier.packet(&packet, &mut each);
    }
    let Ok(_) = verifier.finish(None, &mut each);
    if last.is_empty() {
        return Err(format!("{}: no segment verifies with these keys", capture.display()).into());
    }
    let end_of =
        |peer: &str| plan.ends.iter().find(|end| end.neighbors.iter().any(|neighbor| neighbor == peer));
    let both: BTreeSet<_> = last.keys().flat_map(|[from, to]| [[*from, *to], [*to, *from]]).collect();
    let found = both.into_iter().map(|ends| {
        let with = last.get(&ends).map_or(Used::Nothing, |key_id| Used::of(plan, *key_id));
        let [from, to] = ends;
        let name =
            end_of(&to.ip().to_string()).map_or(from.to_string(), |end| format!("{} ({from})", end.name));
        Signs { who: format!("{name}, to {to},"), with }
    });
    let (text, outcome) = conclude(plan, &found.collect::<Vec<_>>(), now.unwrap_or_else(Timestamp::now));
    writeln!(io::stdout(), "{text}")?;
    Ok(outcome)
}

/// From the running instances of run and gateway; with `wait`, again until the old key may go, at most for so many seconds.
pub(super) fn of_instances(
    plan: &Plan,
    pid: Option<u32>,
    now: Option<Timestamp>,
    wait: Option<Option<u64>>,
) -> Result {
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    let started = Instant::now();
    let mut shown = String::new();
    loop {
        let found = in_instances(plan, pid)?;
        let is_last = match wait {
            None => true,
            Some(most) => most.is_some_and(|most| started.elapsed() >= Duration::from_secs(most)),
        };
        let (text, outcome) = conclude(plan, &found, now.unwrap_or_else(Timestamp::now));
        if text != shown {
            writeln!(io::stdout(), "{text}")?;
            shown = text;
        }
        if is_last || outcome == Outcome::Good {
            return Ok(outcome);
        }
        sleep(Duration::from_secs(1));
    }
}

/// What the two ends of the open sessions that have the plan's keys sign with.
fn in_instances(
    plan: &Plan,
    pid: Option<u32>,
) -> std::result::Result<Vec<Signs>, Box<dyn std::error::Error>> {
    use wireseal_agent::{Instances, running};

    let Instances { answered, silent } = running(pid)?;
    if let Some(error) = silent.into_iter().next() {
        return Err(error.to_string().into());
    }
    let has_chain = |name: &str| plan.ends.iter().any(|end| end.chain == name);
    let peers = || answered.iter().flat_map(|status| &status.peers).filter(|peer| has_chain(&peer.key_chain));
    if peers().next().is_none() {
        return Err("no running instance has the key chain of the plan: run this where one end runs, or give --capture".into());
    }
    let mut found = Vec::new();
    for session in peers().flat_map(|peer| &peer.sessions).filter(|session| session.is_established) {
        let with = Used::of(plan, session.send_id.0);
        found.push(Signs { who: format!("{}, to {},", session.local, session.remote), with });
        let asked_for = session.asked_for.0;
        let with = if session.is_peer_behind { Used::Behind(asked_for) } else { Used::of(plan, asked_for) };
        found.push(Signs { who: format!("{}, to {},", session.remote, session.local), with });
    }
    Ok(found)
}
