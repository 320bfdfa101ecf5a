//! `wireseal status`: shows running instances.

use std::collections::BTreeSet;
use std::io::{self, Write};

use wireseal_agent::{Instances, PeerStatus, Status, network_namespace, running};

use super::outcome::{Outcome, Result};
use super::say::say;
use crate::report::table::table;
use crate::terminal::Wrapped;
use crate::text::{counted, grouped};

/// Show the running instances of run and gateway
///
/// For each: whether a gateway's rules are in place, and a table of the peers, their sessions, the keys in use at both ends, the next
/// change of the key chain, and segments by verdict. Only this user's instances are shown.
///
/// Exit code 0: there are instances; 1: there are none; 2: one does not answer, the others are shown.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Only the supervisor or gateway with this process number
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result {
    let Instances { answered, silent } = running(arguments.pid)?;
    let mut out = io::stdout().lock();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &answered).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        for (number, status) in answered.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            print(&mut Wrapped::new(&mut out), status)?;
        }
    }
    if !silent.is_empty() {
        silent.iter().for_each(say);
        return Ok(Outcome::Unusable);
    }
    if answered.is_empty() {
        say(match arguments.pid {
            Some(pid) => format!("no instance has process number {pid}"),
            None => "no instance is running".to_owned(),
        });
        return Ok(Outcome::Failed);
    }
    Ok(Outcome::Good)
}

fn print(out: &mut impl Write, status: &Status) -> io::Result<()> {
    let program = status.program.as_deref().map(|program| format!(" of {program}")).unwrap_or_default();
    // Instances of earlier versions have 0.
    let is_other = |namespace: &u64| ![0, network_namespace()].contains(namespace);
    let namespace = Some(status.network_namespace).filter(is_other);
    let namespace =
        namespace.map(|namespace| format!(", in network namespace {namespace}")).unwrap_or_default();
    writeln!(
        out,
        "wireseal {} (process {}){program}, since {}{namespace}",
        status.command.name(),
        status.pid,
        status.since
    )?;
    if let Some(rules) = &status.rules {
        match &rules.problem {
            None => writeln!(out, "rules in {}: in place", rules.by)?,
            Some(problem) => writeln!(out, "rules NOT IN PLACE since {}: {problem}", rules.since)?,
        }
    }
    let header = [
        "peer",
        "key chain",
        "state",
        "signs with",
        "peer signs with",
        "next change",
        "good",
        "bad MAC",
        "unknown KeyID",
        "no TCP-AO option",
    ];
    writeln!(out, "{}", table(header, status.peers.iter().map(row), 6))?;
    for listener in &status.listeners {
        let refused =
            listener.segments.by_verdict().into_iter().skip(1).filter(|(_, segments)| *segments > 0);
        let refused: Vec<_> =
            refused.map(|(verdict, segments)| format!("{} {verdict}", grouped(segments))).collect();
        let refused = if refused.is_empty() { "nothing".to_owned() } else { refused.join(", ") };
        writeln!(out, "listener {}: refused {refused}", listener.local)?;
    }
    Ok(())
}

fn row(peer: &PeerStatus) -> [String; 10] {
    let established = peer.sessions.iter().filter(|session| session.is_established).count() as u64;
    let state = match (established, &peer.key) {
        (0, None) => "no key is valid".to_owned(),
        (0, Some(_)) if peer.sessions.is_empty() => "no session".to_owned(),
        (0, Some(_)) => "opening".to_owned(),
        _ => counted(established, "session"),
    };
    let list = |ids: BTreeSet<String>| ids.into_iter().collect::<Vec<_>>().join(", ");
    let signs_with = peer.sessions.iter().map(|session| match session.peer_insists {
        true => format!("SendID {}, which the peer insists on", session.send_id),
        false => format!("SendID {}", session.send_id),
    });
    let peer_signs_with = peer.sessions.iter().map(|session| match session.is_peer_behind {
        true => format!("not yet RecvID {}", session.asked_for),
        false => format!("RecvID {}", session.asked_for),
    });
    let [good, refused @ ..] = peer.segments.by_verdict().map(|(_, segments)| grouped(segments));
    let [bad_mac, unknown_key_id, unsigned] = refused;
    [
        peer.peer.clone(),
        peer.key_chain.clone(),
        state,
        list(signs_with.collect()),
        list(peer_signs_with.collect()),
        peer.next_change.map_or("never".to_owned(), |moment| moment.to_string()),
        good,
        bad_mac,
        unknown_key_id,
        unsigned,
    ]
}
