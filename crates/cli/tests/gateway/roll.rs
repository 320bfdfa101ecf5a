//! Two gateways follow the procedure of `wireseal keys roll` under traffic, and what happens if its times are not kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use wireseal_keys::Timestamp;

use crate::net::{Gateway, Net, Side, WIRESEAL, await_that};
use crate::{IPV4, keys};

/// Seconds from the start of the test to the change, and how long both keys are used from then on.
const CHANGE: u32 = 6;
const OVERLAP: u32 = 3;

fn roll(arguments: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } =
        Command::new(WIRESEAL).args(["keys", "roll"]).args(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

/// The gateways of both ends, and a plan for their next key.
struct Rolling {
    net: Net,
    gateways: [Gateway; 2],
    folder: PathBuf,
    at: Timestamp,
}

impl Rolling {
    fn new() -> Self {
        let net = Net::new(1500);
        let first = keys(1, "AES-128-CMAC-96", "what both ends know");
        let gateways = Side::BOTH.map(|side| net.gateway(side, &first, &[]));
        let folder = net.folder().join("roll");
        let at = Timestamp::now().later_by(CHANGE);
        let rolling = Self { net, gateways, folder, at };
        let (code, said) = roll(&[
            rolling.keys(0),
            rolling.keys(1),
            "--at",
            &at.to_string(),
            "--overlap",
            &format!("{OVERLAP}s"),
            "--skew",
            "1s",
            "--out",
            rolling.folder.to_str().unwrap(),
        ]);
        assert_eq!(code, 0, "{said}");
        // What the proof is about is no longer there once a step is taken.
        for side in [0, 1] {
            fs::copy(rolling.keys(side), rolling.folder.join(format!("today-{side}"))).unwrap();
        }
        rolling
    }

    fn keys(&self, side: usize) -> &str {
        self.gateways[side].keys().to_str().unwrap()
    }

    fn plan(&self) -> PathBuf {
        self.folder.join("plan.json")
    }

    /// Takes the step at one end, as the procedure says: `cp`, and SIGHUP.
    fn take(&self, side: usize, step: &str) {
        let file = fs::read_to_string(self.folder.join(self.file(side, step))).unwrap();
        self.gateways[side].change_keys(&file);
    }

    /// The file of this step, which the procedure names.
    fn file(&self, side: usize, step: &str) -> String {
        let end = Path::new(self.keys(side)).file_name().unwrap().to_str().unwrap();
        let number = if step == "add" { 1 } else { 3 };
        let file = format!("{number}-{end}-{step}.toml");
        let procedure = fs::read_to_string(self.folder.join("procedure.txt")).unwrap();
        assert!(procedure.contains(&format!("    cp {file} {}\n", self.keys(side))), "{procedure}");
        file
    }

    fn await_moment(&self, moment: Timestamp) {
        let moment = SystemTime::from(moment);
        await_that("the moment", || SystemTime::now() > moment);
    }

    fn check(&self, plan: &Path) -> (i32, String) {
        let today = [0, 1].map(|side| self.folder.join(format!("today-{side}")));
        roll(&["--check", plan.to_str().unwrap(), today[0].to_str().unwrap(), today[1].to_str().unwrap()])
    }

    fn status(&self, side: usize, more: &[&str]) -> (i32, String) {
        let pid = self.gateways[side].id().to_string();
        roll(&[&["--status", self.plan().to_str().unwrap(), "--pid", &pid], more].concat())
    }

    /// Segments of both gateways that were not good.
    fn refused(&self) -> u64 {
        let of = |gateway: &Gateway| {
            let status: Value =
                serde_json::from_str(&self.net.status(&["--json", "--pid", &gateway.id().to_string()]))
                    .unwrap();
            let peers = status[0]["peers"].as_array().unwrap().clone();
            let kinds = ["bad-mac", "unknown-key-id", "unsigned"];
            peers
                .iter()
                .flat_map(|peer| kinds.map(|kind| peer["segments"][kind].as_u64().unwrap()))
                .sum::<u64>()
        };
        self.gateways.iter().map(of).sum()
    }
}

#[test]
fn two_ends_that_follow_the_plan_lose_nothing() {
    let rolling = Rolling::new();
    assert_eq!(rolling.check(&rolling.plan()).0, 0);
    let session = rolling.net.session(Side::B, IPV4[1], Side::A);
    let (code, said) = rolling.status(0, &[]);
    assert!(code == 1 && said.contains("signs with the old key (KeyID 1)"), "{said}");
    assert!(said.contains(&format!("not yet: the change is at {}", rolling.at)), "{said}");
    // At either end first.
    for side in [1, 0] {
        rolling.take(side, "add");
        assert!(session.echoes());
    }
    let over = SystemTime::from(rolling.at.later_by(OVERLAP + 1));
    while SystemTime::now() < over {
        assert!(session.echoes(), "{}", rolling.gateways[0].log());
        std::thread::sleep(Duration::from_millis(20));
    }
    for side in [0, 1] {
        let (code, said) = rolling.status(side, &["--wait", "20"]);
        assert!(code == 0 && said.ends_with("done: the old key may go\n"), "{said}");
        assert!(said.contains("signs with the new key (KeyID 2)"), "{said}");
        // The document shows the other end's ports and ids.
        let without_numbers = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let shown = without_numbers(include_str!("../../../../docs/rollover.md"));
        let last: Vec<_> = said.lines().rev().take(3).collect();
        assert!(last.iter().all(|line| shown.contains(&without_numbers(line))), "{said}");
        rolling.take(side, "remove");
        assert!(session.echoes());
    }
    drop(session);
    assert!(rolling.net.connects(Side::B, IPV4[1], Side::A), "a new session has the new key, too");
    assert_eq!(rolling.refused(), 0);
    rolling.gateways.iter().for_each(Gateway::assert_no_warning);
}

#[test]
fn a_plan_altered_by_hand_is_refused_and_would_keep_new_sessions_out() {
    let rolling = Rolling::new();
    let text = fs::read_to_string(rolling.plan()).unwrap();
    let mut plan: Value = serde_json::from_str(&text).unwrap();
    // One end may take its first step after both keys have been in use at the other.
    plan["ends"][1]["steps"][0]["until"] = rolling.at.later_by(600).to_string().into();
    let altered = rolling.folder.join("altered.json");
    fs::write(&altered, plan.to_string()).unwrap();
    let (code, said) = rolling.check(&altered);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("refused: segments are lost between {} and ", rolling.at)), "{said}");
    assert!(said.contains("keys-0 signs with core/2, but keys-1 has no key with RecvID 2"), "{said}");

    // And they are: of new sessions. One that is up goes on under the old key, because the peer has not moved.
    let session = rolling.net.session(Side::B, IPV4[1], Side::A);
    rolling.take(0, "add");
    assert!(session.echoes());
    rolling.await_moment(rolling.at.later_by(OVERLAP + 1));
    assert!(session.echoes(), "{}", rolling.gateways[1].log());
    let (code, said) = rolling.status(0, &["--wait", "1"]);
    assert!(code == 1 && said.contains("not yet"), "{said}");
    drop(session);
    assert!(!rolling.net.connects(Side::B, IPV4[1], Side::A));
    assert_ne!(rolling.refused(), 0);
    rolling.take(1, "add");
}
