//! What was found, and what to do, for programs; see `docs/schemas/probe.json`.

use serde_json::{Value, json};
use wireseal_agent::probe::{Ability, AoKey, CarriedBy, Namespace, ProbedSocket, Process, Role, Service};

use super::findings::{Answer, Count, Findings, Group, Verdict};
use super::step::Step;
use super::text::service;

/// One object with everything.
#[must_use]
pub fn json(findings: &Findings, steps: &[Step]) -> Value {
    let kernel = &findings.host.kernel;
    let [sessions, listeners] = findings.counts();
    let answer = match findings.answer() {
        Answer::Protected => "protected",
        Answer::Unprotected => "unprotected",
        Answer::NotJudged => "not-judged",
    };
    json!({
        "schema": 1,
        "answer": answer,
        "sentence": findings.sentence(),
        "sessions": count(sessions),
        "listeners": count(listeners),
        "kernel": {
            "release": kernel.release,
            "tcp-ao": ability(&kernel.tcp_ao),
            "tcp-md5": ability(&kernel.tcp_md5),
            "packet-queues": ability(&kernel.packet_queues),
            "seccomp-notifications": ability(&kernel.seccomp_notifications),
        },
        "groups": findings.groups.iter().map(group).collect::<Vec<_>>(),
        "steps": steps.iter().map(step).collect::<Vec<_>>(),
        "unseen": findings.host.unseen,
    })
}

fn count(count: Count) -> Value {
    json!({ "all": count.all, "unprotected": count.unprotected, "not-judged": count.not_judged })
}

fn ability(ability: &Ability) -> Value {
    let (word, why) = match ability {
        Ability::Yes => ("yes", None),
        Ability::No => ("no", None),
        Ability::Unknown(why) => ("unknown", Some(why)),
    };
    json!({ "ability": word, "why": why })
}

fn group(group: &Group) -> Value {
    let daemon = group.daemon.as_ref();
    json!({
        "daemon": daemon.map(|daemon| json!({
            "name": daemon.name,
            "version": daemon.version,
            "tcp-ao": ability(&daemon.tcp_ao(Service::Bgp)),
        })),
        "process": group.process.as_ref().map(process),
        "namespace": group.namespace.as_ref().map(|Namespace { name, pid, inode }| {
            json!({ "name": name, "pid": pid, "inode": inode })
        }),
        "sockets": group.sockets.iter().map(|(found, verdict)| socket(found, *verdict)).collect::<Vec<_>>(),
    })
}

fn process(process: &Process) -> Value {
    json!({
        "pid": process.pid,
        "name": process.name,
        "executable": process.executable.as_ref().map(|path| path.to_string_lossy()),
        "user": process.user,
        "is-in-container": process.is_in_container,
        "is-under-run": process.is_under_run,
        "unit": process.unit,
    })
}

fn socket(socket: &ProbedSocket, verdict: Verdict) -> Value {
    let protection = &socket.protection;
    let (peer, is_opener, is_established) = match socket.role {
        Role::Listener => (None, None, None),
        Role::Session { peer, is_opener, is_established } => {
            (Some(peer.to_string()), is_opener, Some(is_established))
        }
    };
    json!({
        "service": service(socket.service),
        "local": socket.local.to_string(),
        "device": socket.device,
        "vrf": socket.vrf,
        "peer": peer,
        "is-opener": is_opener,
        "is-established": is_established,
        "protected-by": verdict.name(),
        "tcp-ao": protection.tcp_ao.iter().map(key).collect::<Vec<_>>(),
        "is-ao-required": protection.is_ao_required,
        "tcp-md5": protection.tcp_md5.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "gateway": protection.gateway.as_ref().map(|CarriedBy { pid, peers }| json!({ "pid": pid, "peers": peers })),
        "unknown": protection.unknown,
    })
}

fn key(key: &AoKey) -> Value {
    json!({
        "peer": key.peer.to_string(),
        "send-id": key.send_id.0,
        "recv-id": key.recv_id.0,
        "algorithm": key.algorithm,
        "is-current": key.is_current,
        "is-rnext": key.is_rnext,
    })
}

fn step(step: &Step) -> Value {
    json!({
        "group": step.group,
        "way": step.way.name(),
        "peers": step.peers,
        "reason": step.reason,
        "commands": step.commands,
        "notes": step.notes,
        "page": step.page,
    })
}
