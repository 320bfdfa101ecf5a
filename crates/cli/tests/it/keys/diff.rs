//! `wireseal keys diff`: the files of two vendors, alike and with each fault that keeps a session down.

use std::fs;

use serde_json::{Value, json};

use crate::support::files::{Files, set_mode};
use crate::support::program::{Run, wireseal, wireseal_on_terminal, wireseal_reading};

/// Two keys, the second from July on. Junos has no ends.
const JUNOS: &str = r#"
security { authentication-key-chains { key-chain to-b {
    tolerance 600;
    key 0 {
        secret "the secret of the first half"; start-time "2026-1-1.00:00:00 +0000"; algorithm ao;
        ao-attribute { send-id 1; recv-id 2; tcp-ao-option enabled; cryptographic-algorithm aes-128-cmac-96; }
    }
    key 1 {
        secret "the secret of the second half"; start-time "2026-7-1.00:00:00 +0000"; algorithm ao;
        ao-attribute { send-id 3; recv-id 4; tcp-ao-option enabled; cryptographic-algorithm aes-128-cmac-96; }
    }
} } }
"#;

/// The same keys from the other end.
const XR: &str = "
key chain to-a
 accept-tolerance 600
 key 1
  accept-lifetime 00:00:00 january 1 2026 00:00:00 july 1 2026
  key-string clear the_secret
  send-lifetime 00:00:00 january 1 2026 00:00:00 july 1 2026
  cryptographic-algorithm AES-128-CMAC-96
 !
 key 2
  accept-lifetime 00:00:00 july 1 2026 infinite
  key-string clear the_secret_2
  send-lifetime 00:00:00 july 1 2026 infinite
  cryptographic-algorithm AES-128-CMAC-96
 !
!
tcp ao
 keychain to-a
  key 1 SendID 2 ReceiveID 1
  key 2 SendID 4 ReceiveID 3
 !
!
router bgp 65002
 neighbor 192.0.2.1
  ao to-a include-tcp-options enable
 !
!
";

const BIRD: &str = r#"
protocol bgp to_a {
    neighbor 192.0.2.1 as 65001;
    authentication ao;
    keys {
        key { send id 2; recv id 1; secret "the secret of both ends"; algorithm cmac aes128; preferred; };
        key { send id 4; recv id 3; secret "the next of both ends"; algorithm cmac aes128; };
    };
}
"#;

const TOML: &str = r#"
[[key-chain]]
name = "core"
accept-tolerance = 600
[[key-chain.key]]
send-id = 1
recv-id = 2
algorithm = "AES-128-CMAC-96"
secret = "the secret of both ends"
[[key-chain.key]]
send-id = 3
recv-id = 4
algorithm = "AES-128-CMAC-96"
secret = "the next of both ends"
send = { from = 2026-07-01T00:00:00Z }
"#;

/// Junos's keys with the secrets that IOS XR can have in plain text.
fn junos() -> String {
    JUNOS
        .replace("the secret of the first half", "the_secret")
        .replace("the secret of the second half", "the_secret_2")
}

/// Compares two texts from June 2026 on.
fn diff([one, other]: [(&str, &str); 2], more: &[&str]) -> Run {
    let files = Files::new();
    let paths = [files.file(one.0, one.1), files.file(other.0, other.1)];
    let run = wireseal(
        [
            &[
                "keys",
                "diff",
                paths[0].to_str().unwrap(),
                paths[1].to_str().unwrap(),
                "--now",
                "2026-06-01T00:00:00Z",
            ],
            more,
        ]
        .concat(),
    );
    // None of these runs shows a secret.
    for text in ["the_secret", "of both ends", "nobody"] {
        assert!(!run.out.contains(text) && !run.err.contains(text), "{}{}", run.out, run.err);
    }
    run
}

fn routers(junos: &str, xr: &str, more: &[&str]) -> Run {
    diff([("edge-a.conf", junos), ("edge-b.cfg", xr)], more)
}

fn daemons(toml: &str, bird: &str, more: &[&str]) -> Run {
    diff([("edge-a.toml", toml), ("edge-b.conf", bird)], more)
}

#[track_caller]
fn assert_answer(run: &Run, code: i32, first: &str) {
    assert_eq!((run.out.lines().next(), run.code), (Some(first), code), "{}{}", run.out, run.err);
}

#[test]
fn the_same_keys_at_two_vendors_work() {
    let run = routers(&junos(), XR, &[]);
    assert_answer(
        &run,
        0,
        "the session works from 2026-06-01T00:00:00Z on, also if the clocks differ by up to 5 minutes",
    );
    assert!(!run.out.contains("warning") && !run.out.contains("outage"), "{}", run.out);
    let cells = |name: &str| {
        let row = run
            .out
            .lines()
            .find(|line| line.contains(name) && !line.contains(':') || line.contains(&format!(" {name} ")));
        row.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        cells("to-b/0").starts_with("edge-a to-b/0 1 2 AES-128-CMAC-96 12 covered 10 octets 2026-01-01"),
        "{}",
        run.out
    );
    assert!(
        cells("to-a/1").starts_with("edge-b to-a/1 2 1 AES-128-CMAC-96 12 covered 10 octets 2026-01-01"),
        "{}",
        run.out
    );
    // Until a day before the second key, the first is enough.
    let run = routers(&junos(), XR, &["--until", "2026-06-30T00:00:00Z"]);
    let until = "the session works from 2026-06-01T00:00:00Z until 2026-06-30T00:00:00Z, also if the clocks differ by up to 5 minutes";
    assert_answer(&run, 0, until);

    // BIRD signs with its preferred key all the time, and TOML's end has both.
    let run = daemons(TOML, BIRD, &[]);
    assert_answer(
        &run,
        0,
        "the session works from 2026-06-01T00:00:00Z on, also if the clocks differ by up to 5 minutes",
    );
}

#[test]
fn ids_that_are_not_crossed() {
    let same = BIRD.replace("send id 2; recv id 1", "send id 1; recv id 2");
    let run = daemons(TOML, &same, &[]);
    assert_answer(
        &run,
        1,
        "the session does not work now: edge-a signs with core/1, but edge-b has no key with RecvID 1",
    );
    run.assert_says(
        "warning: edge-a core/1, edge-b to_a/1 (line 6): both ends have SendID 1 and RecvID 2: at one of them they \
         have to be swapped\n",
    );
    run.assert_says("outage: from 2026-06-01T00:00:00Z on: edge-b signs with to_a/1, but edge-a has no key with RecvID 1\n");
}

#[test]
fn options_that_one_end_covers() {
    let run =
        routers(&junos().replace("tcp-ao-option enabled; ", ""), XR, &["--until", "2026-06-02T00:00:00Z"]);
    assert_answer(
        &run,
        1,
        "the session does not work now: edge-a signs with to-b/0 and excludes the TCP options, but to-a/1 of edge-b covers them",
    );
    run.assert_says(
        "edge-b covers the TCP options, but edge-a excludes them: Junos covers them with \"tcp-ao-option enabled\"\n",
    );
    let run = daemons(&TOML.replacen("algorithm", "options = \"excluded\"\nalgorithm", 1), BIRD, &[]);
    assert_eq!(run.code, 1);
    run.assert_says("edge-b covers the TCP options, but edge-a excludes them; BIRD always covers them: Linux covers them with");
}

#[test]
fn lifetimes_with_a_gap() {
    let late = XR.replace("00:00:00 july 1 2026 infinite", "01:00:00 july 1 2026 infinite");
    let run = routers(&junos(), &late, &[]);
    assert_answer(
        &run,
        1,
        "the session works now; from 2026-07-01T00:00:00Z until 2026-07-01T01:00:00Z it does not: edge-a signs with to-b/1, \
         which edge-b does not accept (as to-a/2) before 2026-07-01T00:50:00Z",
    );
    run.assert_says("outage: from 2026-07-01T00:00:00Z until 2026-07-01T01:00:00Z: edge-b has no key that is valid for sending\n");
    run.assert_says(
        "note: edge-a to-b/1 (line 8), edge-b to-a/2 (line 10): edge-a may sign with it from 2026-07-01T00:00:00Z on, but edge-b \
         accepts it from 2026-07-01T00:50:00Z on\n",
    );
    // Nothing is wrong before.
    assert_eq!(routers(&junos(), &late, &["--until", "2026-06-30T23:00:00Z"]).code, 0);
    // A key without a successor.
    let run =
        routers(&junos(), &XR.replace("july 1 2026 infinite", "july 1 2026 00:00:00 august 1 2026"), &[]);
    assert_answer(
        &run,
        1,
        "the session works now; from 2026-08-01T00:00:00Z on it does not: edge-b has no key that is valid for sending",
    );
}

#[test]
fn clocks_that_differ_more_than_the_tolerance() {
    let tight = XR.replace("accept-tolerance 600", "accept-tolerance 120");
    assert_eq!(routers(&junos(), &tight, &["--skew", "0"]).code, 0);
    assert_eq!(routers(&junos(), &tight, &["--skew", "2"]).code, 0);
    let run = routers(&junos(), &tight, &["--skew", "3"]);
    assert_answer(
        &run,
        1,
        "the session works while both clocks are right, but may fail from 2026-06-30T23:59:00Z until 2026-07-01T00:01:00Z if \
         the clocks differ by up to 3 minutes: edge-a signs with to-b/0, which edge-b does not accept (as to-a/1) from \
         2026-07-01T00:02:00Z on",
    );
    run.assert_says("outage: from 2026-07-01T00:00:00Z until 2026-07-01T00:01:00Z (possibly): edge-a signs with to-b/1, which ");
    run.assert_says("which does not allow for clocks 180 s apart\n");
    assert_eq!(routers(&junos(), &tight, &["--skew", "1000000"]).code, 2);
}

#[test]
fn secrets_that_differ_or_are_not_known() {
    let run =
        daemons(TOML, &BIRD.replace("the secret of", "another one of"), &["--until", "2026-06-02T00:00:00Z"]);
    assert_answer(
        &run,
        1,
        "the session does not work now: edge-a signs with core/1, but to_a/2 of edge-b has another secret",
    );
    run.assert_says("warning: edge-a core/1, edge-b to_a/2 (line 6): the secrets differ\n");

    let encrypted = XR.replace("clear the_secret\n", "password6 5450615A415E5D414A5B\n");
    let run = routers(&junos(), &encrypted, &[]);
    assert_answer(
        &run,
        3,
        "as far as the files show, the session works from 2026-06-01T00:00:00Z on, also if the clocks differ by up to 5 minutes; \
         the secrets of to-b/0 are encrypted, so they are not compared",
    );
    run.assert_says("note: edge-a to-b/0 (line 4), edge-b to-a/1 (line 4): the secret is encrypted at edge-b (type 6), so the secrets are not compared\n");
    // Another fault is a fault all the same.
    assert_eq!(routers(&junos().replace("send-id 1", "send-id 9"), &encrypted, &[]).code, 1);
}

#[test]
fn chains_that_are_not_there_and_files_that_cannot_be_read() {
    let run = daemons(TOML, BIRD, &["--chain", "edge"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.ends_with("the first file has no key chain \"edge\": it has core\n"), "{}", run.err);
    assert_eq!(daemons(TOML, BIRD, &["--chain", "core:to_a"]).code, 0);
    let two = format!("{TOML}{}", TOML.replace("\"core\"", "\"core2\""));
    let run = daemons(&two, BIRD, &[]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("name them with --chain A:B (core:to_a, core2:to_a)"), "{}", run.err);
    assert_eq!(daemons(&two, BIRD, &["--chain", "core2:to_a"]).code, 0);

    let run = daemons(&TOML.replace("secret =", "secret :"), BIRD, &[]);
    assert_eq!((run.code, run.err.lines().count()), (2, 1), "{}", run.err);
    assert!(run.err.contains("edge-a.toml: line "), "{}", run.err);
    assert_eq!(wireseal(["keys", "diff", "/no/such/file", "/no/such/file"]).code, 2);
    assert_eq!(wireseal(["keys", "diff", "-", "-"]).code, 2);
    let run = daemons(TOML, BIRD, &["--until", "2026-01-01T00:00:00Z"]);
    assert!(
        run.code == 2 && run.err.contains("--until: 2026-01-01T00:00:00Z is not after 2026-06-01T00:00:00Z"),
        "{}",
        run.err
    );
}

#[test]
fn one_end_comes_from_standard_input_and_formats_are_named() {
    let files = Files::new();
    let path = files.file("edge-b.conf", BIRD);
    let arguments = ["keys", "diff", "-", path.to_str().unwrap(), "--format-a", "toml", "--format-b", "bird"];
    let run = wireseal_reading(arguments, TOML.as_bytes());
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    // The command line is refused before anything is read.
    assert_eq!(wireseal([&arguments[..], &["--format", "toml"]].concat()).code, 2);
    // Others can read the file: a warning, as for every file of keys.
    set_mode(&path, 0o644);
    let run = wireseal_reading(arguments, TOML.as_bytes());
    assert!(run.code == 0 && run.err.contains("every user of this machine can read it"), "{}", run.err);
}

#[test]
fn the_comparison_is_also_json() {
    let late = XR.replace("00:00:00 july 1 2026 infinite", "01:00:00 july 1 2026 infinite");
    let report = routers(&junos().replacen("aes-128-cmac-96", "hmac-sha-1-96", 1), &late, &["--json"]).json();
    let get = |name: &str| report[name].clone();
    assert_eq!((get("schema"), get("until"), get("skew_minutes")), (json!(1), Value::Null, json!(5)));
    assert_eq!((get("answer"), get("chosen_by")), (json!("fails"), json!("only")));
    assert_eq!(
        get("sentence").as_str().unwrap().split(':').next(),
        Some("the session does not work now until 2026-07-01T01")
    );
    let ends = get("ends");
    assert_eq!(
        (&ends[0]["name"], &ends[0]["format"], &ends[1]["chain"]),
        (&json!("edge-a"), &json!("junos"), &json!("to-a"))
    );
    assert_eq!(ends[1]["implementation"], json!("ios-xr"));
    let keys = get("keys");
    assert_eq!((&keys[0]["differs"], &keys[1]["differs"]), (&json!(["algorithm"]), &json!([])));
    assert_eq!((&keys[0]["ends"][0]["key_id"], &keys[0]["ends"][1]["send_id"]), (&json!(0), &json!(2)));
    let first = &get("outages")[0];
    assert_eq!(
        (&first["from"], &first["until"], &first["signer"], &first["key"], &first["kind"], &first["certain"]),
        (
            &json!("2026-06-01T00:00:00Z"),
            // By the clock of one that is five minutes behind.
            &json!("2026-07-01T00:05:00Z"),
            &json!("edge-a"),
            &json!("to-b/0"),
            &json!("algorithm"),
            &json!(true)
        )
    );
    let finding = &get("findings")[0];
    assert_eq!((&finding["weight"], &finding["kind"]), (&json!("warning"), &json!("algorithm")));
    assert_eq!(finding["subjects"], json!([{"name": "to-b/0", "line": 4}, {"name": "to-a/1", "line": 4}]));
}

#[test]
fn a_key_that_one_end_lacks_has_no_counterpart() {
    let without = BIRD.lines().filter(|line| !line.contains("send id 4")).collect::<Vec<_>>().join("\n");
    let report = daemons(TOML, &without, &["--json"]).json();
    assert_eq!(
        (&report["keys"][1]["ends"][1], &report["keys"][1]["differs"]),
        (&Value::Null, &json!(["no-counterpart"]))
    );
    assert_eq!(report["outages"][0]["kind"], json!("unknown-id"));
    assert_eq!(report["outages"][0]["from"], json!("2026-07-01T00:00:00Z"));
}

#[test]
fn the_picture_fits_the_terminal() {
    let files = Files::new();
    let [one, other] = [files.file("edge-a.conf", junos()), files.file("edge-b.cfg", XR)];
    let arguments = [
        "keys",
        "diff",
        one.to_str().unwrap(),
        other.to_str().unwrap(),
        "--now",
        "2026-06-01T00:00:00Z",
        "--skew",
        "20",
    ];
    let whole = wireseal(arguments);
    let lines = |run: &Run, letter: char| run.out.lines().filter(|line| line.contains(letter)).count();
    // In a file, 80 columns.
    let bars: Vec<_> = whole.out.lines().filter(|line| line.contains('█') && line.contains("to-")).collect();
    assert!(bars.len() == 4 && bars.iter().all(|line| line.chars().count() == 80), "{}", whole.out);
    for columns in [30_usize, 40, 60, 80, 200] {
        let run = wireseal_on_terminal(&columns.to_string(), arguments);
        assert_eq!(run.code, 1);
        let fits = |line: &str| line.chars().count() <= columns || !line.trim_start().contains(' ');
        assert!(run.out.lines().all(fits), "{columns}: {}", run.out);
        // One row for each key, one for the session, and the legend.
        assert!(lines(&run, '✗') >= 2 && lines(&run, '█') >= 5, "{columns}: {}", run.out);
    }
    // The first key of one end is used up to July, and accepted for 10 minutes more; the second is accepted 10 minutes before.
    let row = |name: &str| {
        whole.out.lines().rfind(|line| line.starts_with(&format!("edge-b {name}"))).unwrap().to_owned()
    };
    let shape = |row: &str| {
        let mut letters: Vec<char> = row.chars().filter(|letter| "█▒▀·".contains(*letter)).collect();
        letters.dedup();
        letters.into_iter().collect::<String>()
    };
    assert_eq!([shape(&row("to-a/1")), shape(&row("to-a/2"))], ["█▒·", "·▒█"]);
}

#[test]
fn the_page_has_everything_and_no_secret() {
    let files = Files::new();
    let page = files.path("diff.html");
    let late = XR.replace("00:00:00 july 1 2026 infinite", "01:00:00 july 1 2026 infinite");
    // A name that is markup.
    let junos = junos().replace("to-b", "\"<b>to-b</b>\"");
    let run = routers(&junos, &late, &["--html", page.to_str().unwrap()]);
    assert_eq!(run.code, 1);
    let text = fs::read_to_string(&page).unwrap();
    assert!(!text.contains("the_secret") && !text.contains("<b>") && !text.contains("<script"), "{text}");
    let answer = run.out.lines().next().unwrap().replace('<', "&lt;").replace('>', "&gt;");
    assert!(text.contains(&format!("<p>{answer}</p>")), "{text}");
    assert!(text.contains("&lt;b&gt;to-b&lt;/b&gt;/1"), "{text}");
    for class in ["whole", "accepted", "nothing", "works", "fails"] {
        assert!(text.contains(&format!("<rect class=\"{class}\"")), "{class}: {text}");
    }
    assert!(text.contains("default-src 'none'; style-src 'unsafe-inline'"));
    let run = routers(&junos, &late, &["--html", files.path("missing/diff.html").to_str().unwrap()]);
    assert!(run.code == 2 && run.err.contains("diff.html: "), "{}", run.err);
}
