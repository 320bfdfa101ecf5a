//! The metrics in Prometheus: a real one scrapes a gateway with a session, evaluates the alerts, and answers the dashboard's queries.
//!
//! `crates/cli/tests/metrics-in-prometheus` runs it: it needs Debian's package prometheus, which has promtool too, and the feature
//! `prometheus` says that they are there.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::net::{Net, Session, Side, await_that};
use crate::{IPV4, IPV6, OVER, first};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/prometheus");
const DASHBOARD: &str = include_str!("../../grafana/wireseal.json");
const RULES: &str = include_str!("../../prometheus/wireseal.rules.yml");
const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");

/// A Prometheus in the network namespace of the first host.
struct Prometheus<'n> {
    net: &'n Net,
    child: Child,
}

impl<'n> Prometheus<'n> {
    /// Starts one that scrapes the gateway every second.
    fn start(net: &'n Net) -> Self {
        let folder = net.folder().join("prometheus");
        fs::create_dir(&folder).unwrap();
        let configuration = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{FOLDER}/wireseal.rules.yml]\n{}",
            scrape_configuration()
        );
        fs::write(&configuration, text).unwrap();
        let mut command = net.command(Side::A, "prometheus");
        command.args(["--web.listen-address=127.0.0.1:9090", "--log.level=warn"]);
        command.arg(format!("--config.file={}", configuration.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        let log = File::create(folder.join("log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().expect("Prometheus is installed");
        let prometheus = Self { net, child };
        await_that("Prometheus", || {
            net.run(Side::A, "curl -s http://127.0.0.1:9090/-/ready || true").contains("Ready")
        });
        prometheus
    }

    /// What the HTTP API answers at this path, with a parameter.
    fn ask(&self, path: &str, parameter: &str) -> Value {
        let mut command = self.net.command(Side::A, "curl");
        command.args(["-s", "--get", "--data-urlencode", parameter]);
        let output = command.arg(format!("http://127.0.0.1:9090/api/v1/{path}")).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["status"], "success", "{parameter}: {answer}");
        answer["data"].clone()
    }

    /// The series of a query.
    fn series(&self, query: &str) -> Vec<Value> {
        self.ask("query", &format!("query={query}"))["result"].as_array().unwrap().clone()
    }
}

impl Drop for Prometheus<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the document tells a user to write into Prometheus's configuration.
fn scrape_configuration() -> &'static str {
    let mut blocks = DOCUMENT.split("```yaml\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.find(|block| block.starts_with("scrape_configs:")).unwrap()
}

/// The queries of the dashboard, those for the choices above it among them, as Grafana asks them when nothing was chosen.
fn queries_of_the_dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let choices = dashboard["templating"]["list"].as_array().unwrap().iter();
    let queries = choices.filter_map(|choice| choice["query"]["query"].as_str());
    let of_labels = queries.map(|query| {
        // Grafana asks for the series of `label_values(METRIC, LABEL)`.
        let (series, label) = query
            .strip_prefix("label_values(")
            .unwrap()
            .strip_suffix(')')
            .unwrap()
            .rsplit_once(", ")
            .unwrap();
        format!("count by ({label}) ({series})")
    });
    let all: Vec<_> = expressions
        .chain(of_labels)
        .map(|query| {
            query.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$peer", ".*")
        })
        .collect();
    assert!(all.len() > 10 && all.iter().all(|query| !query.contains('$')), "{all:#?}");
    all
}

/// Each metric with its labels that a query asks for.
fn selectors(query: &str) -> Vec<&str> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let starts = query.match_indices("wireseal_").filter(|(start, _)| !query[..*start].ends_with(is_of_name));
    let selector = |(start, _): (usize, &str)| {
        let rest = &query[start..];
        let name = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
        let labels = if rest[name..].starts_with('{') { rest[name..].find('}').unwrap() + 1 } else { 0 };
        &rest[..name + labels]
    };
    starts.map(selector).collect()
}

/// Asserts that promtool has nothing to say about metrics in the text format.
fn assert_clean(metrics: &Path) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics", "--extended"]).stdin(File::open(metrics).unwrap());
    let output = promtool.output().expect("promtool is installed");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("wireseal_segments_total"), "{output:?}");
}

#[test]
fn prometheus_reads_the_metrics_and_answers_every_query() {
    let net = Net::new(1500);
    // A key with an end, so that every metric has a series.
    let keys = format!("{}send = {{ until = 2100-01-01T00:00:00Z }}\n", first());
    let gateway = net.gateway(Side::A, &keys, &["--metrics", "127.0.0.1:9417"]);
    let _other = net.gateway(Side::B, &keys, &[]);
    let sessions = [IPV4[1], IPV6[1]].map(|address| net.session(Side::B, address, Side::A));
    assert!(sessions.iter().all(Session::echoes));
    let file = net.folder().join("metrics.txt");
    net.run(Side::A, &format!("curl -s --fail http://127.0.0.1:9417/metrics > {}", file.display()));
    assert_clean(&file);

    let prometheus = Prometheus::start(&net);
    await_that("some scrapes", || {
        prometheus.series("count_over_time(up{job=\"wireseal\"}[1m]) > 5").len() == 1
    });
    assert_eq!(prometheus.series("up{job=\"wireseal\"} == 1").len(), 1);
    // It asks for OpenMetrics, in which the name of a counter's family has no _total, and has parsed every line.
    let families = prometheus.ask("targets/metadata", "match_target={job=\"wireseal\"}");
    let families = families.as_array().unwrap();
    let of = |name: &str| {
        families
            .iter()
            .find(|family| family["metric"] == name)
            .unwrap_or_else(|| panic!("{name}: {families:#?}"))
    };
    assert_eq!(
        (&of("wireseal_segments")["type"], &of("wireseal_sessions")["type"]),
        (&"counter".into(), &"gauge".into())
    );
    assert_eq!(of("wireseal_key_end_timestamp_seconds")["unit"], "seconds");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(families.len(), text.matches("# TYPE ").count());
    assert!(families.iter().all(|family| !family["help"].as_str().unwrap().is_empty()), "{families:#?}");
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(prometheus.series("{__name__=~\"wireseal_.*\"}").len(), samples);

    for query in queries_of_the_dashboard() {
        assert!(!prometheus.series(&query).is_empty(), "nothing to show: {query}");
    }
    let rules = prometheus.ask("rules", "type=alert");
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), RULES.matches("- alert: ").count());
    for rule in rules {
        assert_eq!((&rule["health"], &rule["state"]), (&"ok".into(), &"inactive".into()), "{rule}");
        // What it compares is there, by these names and labels.
        for selector in selectors(rule["query"].as_str().unwrap()) {
            assert!(!prometheus.series(selector).is_empty(), "{selector}");
        }
    }
    let is_pending = |name: &str| {
        let alerts = prometheus.ask("alerts", "");
        alerts["alerts"].as_array().unwrap().iter().any(|alert| alert["labels"]["alertname"] == name)
    };
    gateway.change_keys(&(first() + OVER));
    for name in ["TcpAoNoKey", "TcpAoKeyChainEnds"] {
        await_that(name, || is_pending(name));
    }
    drop(sessions);
    await_that("an alert about the session", || is_pending("TcpAoNoSession"));
    assert!(!is_pending("WiresealDown"));
    gateway.kill();
    await_that("an alert about the gateway", || is_pending("WiresealDown"));
    // Nothing is known of its sessions any more.
    await_that("no alert about the session", || !is_pending("TcpAoNoSession"));
}

#[test]
fn the_document_shows_the_alerts_as_they_are_shipped() {
    assert!(
        DOCUMENT.contains(&format!("```yaml\n{RULES}```\n")),
        "docs/metrics.md has other rules than crates/cli/prometheus"
    );
}
