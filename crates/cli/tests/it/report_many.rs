//! Reports about many connections, and those for programs that read a capture as it arrives.

use std::fs;

use serde_json::Value;
use wireseal::report::{Format, Report, Subject};
use wireseal::verify::report::{ConnectionReport, Standing, Totals, Verdict};
use wireseal_tcp_ao::Endpoint;

use crate::support::files::Files;
use crate::support::generate::{self, Generate, KEY};
use crate::support::program::{wireseal, wireseal_on_terminal};
use crate::support::reports::{SECRET, every_verdict, keys, options_excluded, rollover, totals};

const SUMMED_UP: Format = Format::Text { colours: false, all: false };
const ALL: Format = Format::Text { colours: false, all: true };

fn report(connections: &[ConnectionReport], format: Format) -> String {
    let keys = keys();
    let mut output = Vec::new();
    let mut report =
        Report::new(&mut output, format, Subject { capture: "session.pcap", keys: &keys }).unwrap();
    for connection in connections {
        for segment in &connection.segments {
            if !matches!(format, Format::Text { .. }) {
                report.segment(connection.number, &connection.ends, segment).unwrap();
            }
        }
        report.connection(connection).unwrap();
    }
    report.finish(&Totals { fragments: 0, ..totals(connections) }).unwrap();
    String::from_utf8(output).unwrap()
}

/// So many connections like this one, from the ports after 20,000.
fn like(connection: &ConnectionReport, numbers: impl Iterator<Item = u64>) -> Vec<ConnectionReport> {
    let from = connection.ends[0].address();
    let numbered = |number: u64| ConnectionReport {
        number,
        ends: [Endpoint::new(from, 20_000 + number as u16), connection.ends[1]],
        ..connection.clone()
    };
    numbers.map(numbered).collect()
}

/// A connection whose segments are good and that did not open.
fn not_open() -> ConnectionReport {
    let mut connection = rollover();
    connection.diagnoses = options_excluded().diagnoses;
    connection.diagnoses[0].kind = "syn-unanswered";
    connection.diagnoses[0].about = Standing::NotOpen;
    connection
}

#[test]
fn few_connections_are_shown_each_and_in_order() {
    for count in [0, 1, 3, 16] {
        let mut connections = like(&rollover(), 1..count + 1);
        if let Some(second) = connections.get_mut(1) {
            *second = ConnectionReport { number: 2, ..options_excluded() };
        }
        assert_eq!(report(&connections, SUMMED_UP), report(&connections, ALL));
    }
}

#[test]
fn many_connections_open_on_what_failed() {
    let mut connections = like(&rollover(), 1..31);
    connections.extend(like(&options_excluded(), 31..51));
    connections.extend(like(&every_verdict(), 51..52));
    connections.extend(like(&not_open(), 52..54));
    let mut not_judged = options_excluded();
    not_judged.diagnoses[0].about = Standing::NotJudged;
    not_judged.directions[1].counts.swap(Verdict::BadMac.index(), Verdict::IsnNotSeen.index());
    connections.extend(like(&not_judged, 54..57));
    connections.rotate_left(10);
    let text = report(&connections, SUMMED_UP);
    let mut rest = text.as_str();
    for next in [
        "FAILED: 21 of 56 connections, by reason and peer\n",
        "options coverage ",
        " 192.0.2.9 -> 192.0.2.2:179 ",
        " packet 1, 2026-03-01T12:00:02Z ",
        " 20 ",
        " 80 ",
        " 2001:db8::1 -> [2001:db8::2]:179 ",
        "NOT OPEN: 2 of 56 connections, by reason and peer\n",
        "SYN unanswered ",
        "The first of each reason:\n",
        "connection 31: 192.0.2.9:20031 -> 192.0.2.2:179  FAILED\n",
        "  why: 192.0.2.2:179 excludes the other TCP options from the MAC",
        "connection 51: ",
        "connection 52: 192.0.2.1:20052 -> 192.0.2.2:179  NOT OPEN\n",
        "not judged: 3 of 56 connections, by reason and peer\n",
        "options coverage ",
        "30 connections are good: 960 segments\n",
        "session.pcap: ",
        ", 30 good, 21 failed, 2 not open, 3 not judged\n",
        "failed: connections 31, 32, 33, 34, 35, 36, 37, 38, 39, 40 and 11 more\n",
        " segments failed for ",
    ] {
        let place = rest.find(next);
        assert!(place.is_some(), "{next:?} is not in its place in\n{text}");
        rest = &rest[place.unwrap() + next.len()..];
    }
    assert_eq!(rest.lines().count(), 1, "the answer is the last line:\n{text}");
    assert_eq!(text.matches("\nconnection ").count(), 3, "{text}");
    assert!(!text.contains(SECRET));

    let good = report(&like(&rollover(), 1..31), SUMMED_UP);
    assert!(good.starts_with("30 connections are good: 960 segments\n\n"), "{good}");
    for word in ["FAILED", "NOT OPEN", "reason", "failed"] {
        assert!(!good.contains(word), "{word} is in\n{good}");
    }
}

/// Peers and reasons in any number: the text stays short, and says how much it leaves out.
#[test]
fn what_failed_is_bounded() {
    let mut connections = like(&options_excluded(), 1..6000);
    for (number, connection) in (0_u16..).zip(&mut connections) {
        let [high, low] = number.to_be_bytes();
        connection.ends[0] = Endpoint::new([10, 0, high, low], 20_000);
    }
    connections.extend(like(&options_excluded(), 6000..6003));
    let kinds = ["sne", "no-key", "altered", "unsigned", "tcp-md5", "mac-length", "other-key", "algorithm"];
    for (number, kind) in (6003..).zip(kinds) {
        let mut connection = ConnectionReport { number, ..options_excluded() };
        connection.diagnoses[0].kind = kind;
        connections.push(connection);
    }
    let text = report(&connections, SUMMED_UP);
    assert!(text.lines().count() < 100, "{text}");
    let row = |words: &str| -> Vec<_> {
        text.lines().find(|line| line.contains(words)).unwrap().split_whitespace().collect()
    };
    assert_eq!(
        row("10.0.0.0 ->"),
        [
            "options",
            "coverage",
            "10.0.0.0",
            "->",
            "192.0.2.2:179",
            "packet",
            "1,",
            "2026-03-01T12:00:02Z",
            "1",
            "4"
        ]
    );
    assert_eq!(row("all other peers"), ["options", "coverage", "all", "other", "peers", "5,998", "23,992"]);
    assert!(text.contains("\nand 3 connections for other reasons\n"), "{text}");
    assert!(text.contains("FAILED: 6,010 of 6,010 connections"), "{text}");
}

/// The program on a capture of 2,000 connections, of which those of some peers fail.
#[test]
fn the_report_of_many_connections_fits_a_terminal() {
    let files = Files::new();
    let mut capture = Vec::new();
    let what = Generate { segments: 10_000, connections: 2000, payload: 8, lifetime: None };
    generate::write(&mut capture, what).unwrap();
    let path = files.file("many.pcap", capture);
    let wrong = KEY.replace("generated", "another");
    let keys = [format!("{KEY},peer=10.1.0.0/22"), format!("{wrong},peer=10.1.4.0/22")];
    let arguments = ["verify", path.to_str().unwrap(), "--key", &keys[0], "--key", &keys[1]];
    let whole = wireseal(arguments);
    assert_eq!(whole.code, 1, "{}", whole.out);
    whole.assert_says("1,024 connections are good: 5,120 segments");
    assert!(whole.out.lines().count() < 120, "{}", whole.out);
    for columns in ["80", "120"] {
        let run = wireseal_on_terminal(columns, arguments);
        let widest = run.out.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= columns.parse().unwrap(), "{}", run.out);
        assert!(run.out.lines().count() < 200, "{}", run.out);
    }
    let all = wireseal(arguments.into_iter().chain(["--all"]));
    assert_eq!(all.out.matches("\nconnection ").count() + 1, 2000);
    assert_eq!(all.out.lines().last(), whole.out.lines().last());
}

fn page(connections: &[ConnectionReport]) -> String {
    let (files, keys) = (Files::new(), keys());
    let (path, subject) = (files.path("page.html"), Subject { capture: "session.pcap", keys: &keys });
    let mut report = Report::new(Vec::new(), SUMMED_UP, subject).unwrap().with_page(&path, subject).unwrap();
    connections.iter().for_each(|connection| report.connection(connection).unwrap());
    report.finish(&Totals { fragments: 0, ..totals(connections) }).unwrap();
    fs::read_to_string(path).unwrap()
}

/// The classes of the page's connections in order, with the fold that begins before one.
fn order(page: &str) -> Vec<&str> {
    let parts = page.split("<article class=\"").map(|part| (part.split('"').next().unwrap(), part));
    let mut order = Vec::new();
    for (place, (class, part)) in parts.enumerate() {
        if place > 0 {
            order.push(class);
        }
        let fold =
            part.split_once("<details class=\"fold\"").map(|(_, rest)| rest.split('>').next().unwrap());
        order.extend(fold.map(|open| if open.is_empty() { "folded" } else { "open" }));
    }
    order
}

#[test]
fn the_page_opens_on_what_failed() {
    let numbered = |number, connection: ConnectionReport| ConnectionReport { number, ..connection };
    let mut not_judged = options_excluded();
    not_judged.diagnoses[0].about = Standing::NotJudged;
    not_judged.directions[1].counts.swap(Verdict::BadMac.index(), Verdict::IsnNotSeen.index());
    let mut connections = vec![numbered(1, rollover())];
    assert_eq!(order(&page(&connections)), ["open", "good"]);
    connections.extend([numbered(2, not_judged), numbered(3, not_open()), numbered(4, options_excluded())]);
    let few = page(&connections);
    assert_eq!(order(&few), ["not-open", "failed", "not-judged", "folded", "good"]);
    assert!(!few.contains("<th scope=\"col\">reason</th>"));
    assert!(few.contains("1 connection is good: 32 segments"));

    connections.extend(like(&rollover(), 5..31));
    let many = page(&connections);
    assert_eq!(order(&many)[..5], ["not-open", "failed", "not-judged", "folded", "good"]);
    for text in [
        "<h2>1 of 30 connections failed</h2>",
        "<h2>1 of 30 connections did not open</h2>",
        "<h2>1 of 30 connections could not be judged</h2>",
        "<td>options coverage</td><td><code>192.0.2.9 -&gt; 192.0.2.2:179</code></td>",
        "27 connections are good: 864 segments",
    ] {
        assert!(many.contains(text), "{text}");
    }
    assert!(many.find("connections failed</h2>") < many.find("<article"));
    let good = page(&like(&rollover(), 1..31));
    assert_eq!(order(&good)[..2], ["folded", "good"]);
    assert!(!good.contains("<th scope=\"col\">reason</th>"));
}

/// Connections with much to show, which a forger can make.
#[test]
fn the_page_is_bounded_in_octets() {
    let mut connection = every_verdict();
    let uses = connection.directions[0].key_uses.clone();
    connection.directions[0].key_uses = uses.iter().cycle().take(1000).cloned().collect();
    let segments = connection.segments.clone();
    connection.segments = segments.iter().cycle().take(800).copied().collect();
    let page = page(&like(&connection, 1..1001));
    assert!(page.len() < 17 << 20, "{} octets", page.len());
    assert_eq!(page.matches("<article").count(), 500);
    assert!(page.matches("<svg class=\"timeline").count() > 10);
    assert!(page.matches("not drawn: the page is full").count() > 400);
    assert!(page.contains("so that a browser can handle this page: 500 more connections that failed"));
}

#[test]
fn json_lines_have_the_elements_of_the_object() {
    let connections = [rollover(), options_excluded(), every_verdict()];
    let mut object: Value =
        serde_json::from_str(&report(&connections, Format::Json { segments: true })).unwrap();
    let lines = report(&connections, Format::JsonLines { segments: true });
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| -> Vec<Value> {
        let lines = lines.iter().filter(|line| line["type"] == kind).cloned();
        lines
            .map(|mut line| {
                line.as_object_mut().unwrap().remove("type");
                line
            })
            .collect()
    };
    let members = object.as_object_mut().unwrap();
    let [keys, segments, connections, totals] =
        ["keys", "segments", "connections", "totals"].map(|name| members.remove(name).unwrap());
    assert_eq!(Value::from(of("key")), keys);
    assert_eq!(Value::from(of("segment")), segments);
    assert_eq!(Value::from(of("connection")), connections);
    assert_eq!(of("totals"), [totals]);
    // What is left are the schema and the capture.
    assert_eq!(of("capture"), [object]);
    assert_eq!((&lines[0]["type"], &lines[lines.len() - 1]["type"]), (&"capture".into(), &"totals".into()));
    assert_eq!(lines.len(), 1 + 2 + 46 + 3 + 1);

    let without = report(&[rollover()], Format::JsonLines { segments: false });
    assert_eq!(without.lines().count(), 1 + 2 + 1 + 1, "{without}");
}

#[test]
fn ways_to_report_that_exclude_each_other_are_refused() {
    for [one, other] in [["--json", "--json-lines"], ["--all", "--json"], ["--all", "--json-lines"]] {
        let run = wireseal(["verify", "capture.pcap", "--key", KEY, one, other]);
        assert_eq!((run.code, run.out.as_str()), (2, ""));
        assert!(
            run.err.contains(&format!("cannot be used with '{other}'"))
                || run.err.contains(&format!("'{one}'")),
            "{}",
            run.err
        );
    }
}
