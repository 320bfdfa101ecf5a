//! The status of an instance as metrics for Prometheus, over HTTP.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::error::Error;
use crate::instance::{self, Caller, Listener, lock};
use crate::status::{Segments, Status, StatusSource, make_folder};

const FORM: &str = "expected unix:PATH or a loopback address with a port, such as 127.0.0.1:9417";
/// OpenMetrics, which the library writes and Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// Prometheus's text format, which other collectors read.
const TEXT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// For how long metrics are reused: making them takes the locks that packets wait for.
const AGE: Duration = Duration::from_secs(1);
/// How long to wait for a process that listens at the same place.
const LIMIT: Duration = Duration::from_secs(2);

/// Where metrics are served: a Unix socket, or a loopback address. As text: `unix:/run/wireseal/metrics`, `127.0.0.1:9417`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsAddress {
    /// A Unix socket. One that nobody listens on any more is replaced.
    Unix(PathBuf),
    /// A loopback address and a port.
    Loopback(SocketAddr),
}

impl FromStr for MetricsAddress {
    type Err = Error;

    /// # Errors
    /// [`Error::Argument`].
    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let address: SocketAddr = text.parse().map_err(|_| Error::Argument(FORM.to_owned()))?;
        match address.ip().is_loopback() {
            true => Ok(Self::Loopback(address)),
            // Other machines could read them, and they have no protection of their own.
            false => Err(Error::Argument(format!(
                "{address} is no loopback address; a proxy can serve the metrics elsewhere"
            ))),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => address.fmt(f),
        }
    }
}

/// Metrics that are served; dropping it removes a Unix socket.
#[derive(Debug)]
pub(crate) struct Served(Option<PathBuf>);

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // It may be gone already.
            let _ = fs::remove_file(path);
        }
    }
}

/// Serves metrics, in a thread of its own, until the process ends.
pub(crate) fn serve(address: &MetricsAddress, source: StatusSource) -> Result<Served, Error> {
    listen(address, source).map_err(Error::cannot(format!("serve metrics at {address}")))
}

fn listen(address: &MetricsAddress, source: StatusSource) -> io::Result<Served> {
    let mut served = Served(None);
    let listener = match address {
        MetricsAddress::Loopback(address) => Listener::Loopback(std::net::TcpListener::bind(address)?),
        MetricsAddress::Unix(path) => {
            make_folder(path)?;
            // An instance that was killed leaves its socket.
            let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
            let is_left = || {
                instance::connect(path, LIMIT)
                    .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
            };
            if is_socket && is_left() {
                fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            served.0 = Some(path.clone());
            Listener::Unix(listener)
        }
    };
    let metrics = Arc::new(Metrics { registry: registry(source), newest: Mutex::default() });
    instance::answer("metrics", listener, move |caller| answer(caller, Arc::clone(&metrics)))?;
    Ok(served)
}

struct Metrics {
    registry: Registry,
    newest: Mutex<Option<(Instant, String)>>,
}

impl Metrics {
    /// The metrics in OpenMetrics' format, at most [`AGE`] old.
    fn open_metrics(&self) -> Result<String, fmt::Error> {
        let mut newest = lock(&self.newest);
        if let Some((_, text)) = newest.as_ref().filter(|(made, _)| made.elapsed() < AGE) {
            return Ok(text.clone());
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        *newest = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

/// Answers one request and closes, so that nobody keeps a connection.
async fn answer(caller: Box<dyn Caller>, metrics: Arc<Metrics>) {
    let service = service_fn(|request| {
        let response = respond(&request, &metrics);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false);
    // The caller may have left.
    let _ = server.serve_connection(TokioIo::new(caller), service).await;
}

fn respond<B>(request: &Request<B>, metrics: &Metrics) -> Response<String> {
    let mut response = Response::new(String::new());
    if request.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.body_mut() = "the metrics are at /metrics\n".to_owned();
        return response;
    }
    // The body of an answer to HEAD is not sent.
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    let Ok(text) = metrics.open_metrics() else {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        return response;
    };
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let (kind, body) = match accepted.into_iter().any(|value| value.contains(OPEN_METRICS)) {
        true => (OPEN_METRICS_TYPE, text),
        false => (TEXT_TYPE, plain(&text)),
    };
    response.headers_mut().insert(CONTENT_TYPE, kind);
    *response.body_mut() = body;
    response
}

/// Converts OpenMetrics to Prometheus's text format: there, help and type name a counter with its `_total`, units are only part of names, and
/// nothing marks the end.
fn plain(open_metrics: &str) -> String {
    let counters: Vec<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len() + 6 * 2 * counters.len());
    for line in open_metrics.lines().filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(&name) => {
                text.extend(["# ", what, " ", name, "_total ", rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// Exports a status, asked for anew each time.
struct FromStatus(StatusSource);

impl fmt::Debug for FromStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromStatus")
    }
}

fn registry(source: StatusSource) -> Registry {
    let mut registry = Registry::with_prefix("wireseal");
    registry.register_collector(Box::new(FromStatus(source)));
    registry
}

impl Collector for FromStatus {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = (self.0)();
        let mut family = Families(&mut encoder);
        let (command, version) = (status.command.name(), env!("CARGO_PKG_VERSION"));
        family.gauges(
            "info",
            "The instance; always 1.",
            [([("command", command), ("version", version)], 1)],
        )?;
        family.gauges(
            "start_timestamp_seconds",
            "When the instance was started, in seconds since 1970.",
            [([], status.since.unix_seconds())],
        )?;
        if let Some(rules) = &status.rules {
            let help = "Whether the gateway's rules are in place: 1, or 0.";
            family.gauges("rules_in_place", help, [([], i64::from(rules.problem.is_none()))])?;
        }
        family.peers(&status)?;
        family.keys(&status)
    }
}

/// Encodes one family of metrics after the other.
struct Families<'a, 'e>(&'a mut DescriptorEncoder<'e>);

impl Families<'_, '_> {
    fn gauges<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'l str, &'l str); N], i64)>,
    ) -> fmt::Result {
        // The library adds the unit to the name.
        let unit = name.strip_suffix("_seconds").map(|_| Unit::Seconds);
        let stem = name.trim_end_matches("_seconds");
        let mut metric = self.0.encode_descriptor(stem, help, unit.as_ref(), MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn peers(&mut self, status: &Status) -> fmt::Result {
        let sessions = status.peers.iter().map(|peer| {
            let established = peer.sessions.iter().filter(|session| session.is_established);
            ([("peer", &peer.peer[..])], established.count() as i64)
        });
        self.gauges("sessions", "Established sessions.", sessions)?;
        let behind = status.peers.iter().map(|peer| {
            let behind = peer.sessions.iter().filter(|session| session.is_peer_behind);
            ([("peer", &peer.peer[..])], behind.count() as i64)
        });
        let help = "Sessions whose peer does not sign with the key yet that it was asked for.";
        self.gauges("sessions_on_old_key", help, behind)?;
        let help = "Segments received, by verdict.";
        let mut metric = self.0.encode_descriptor("segments", help, None, MetricType::Counter)?;
        for peer in &status.peers {
            for (verdict, segments) in peer.segments.by_verdict() {
                let labels = [("peer", &peer.peer[..]), ("verdict", verdict)];
                ConstCounter::new(segments).encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "Segments that came to listeners and that no connection took, of any peer, by verdict.";
        let mut metric = self.0.encode_descriptor("listener_segments", help, None, MetricType::Counter)?;
        let all = status.listeners.iter().map(|listener| listener.segments);
        for (verdict, segments) in all.fold(Segments::default(), Segments::plus).by_verdict() {
            ConstCounter::new(segments).encode(metric.encode_family(&[("verdict", verdict)])?)?;
        }
        Ok(())
    }

    fn keys(&mut self, status: &Status) -> fmt::Result {
        let keys = || status.peers.iter().filter_map(|peer| Some((&peer.peer[..], peer.key.as_ref()?)));
        let ids: Vec<_> = keys().map(|(_, key)| (key.send_id.to_string(), key.recv_id.to_string())).collect();
        let started = keys().zip(&ids).map(|((peer, key), (send_id, recv_id))| {
            let labels =
                [("peer", peer), ("send_id", send_id), ("recv_id", recv_id), ("algorithm", &key.algorithm)];
            (labels, key.since.unix_seconds())
        });
        let help = "Since when the present key is sent with, in seconds since 1970.";
        self.gauges("key_start_timestamp_seconds", help, started)?;
        let ends = keys().filter_map(|(peer, key)| Some(([("peer", peer)], key.until?.unix_seconds())));
        let help = "When the send lifetime of the present key ends, in seconds since 1970; missing if never.";
        self.gauges("key_end_timestamp_seconds", help, ends)?;
        let chains = status.peers.iter();
        let chains =
            chains.filter_map(|peer| Some(([("peer", &peer.peer[..])], peer.chain_end?.unix_seconds())));
        let help = "When no key of the chain will be valid for sending any more, in seconds since 1970; missing if never.";
        self.gauges("key_chain_end_timestamp_seconds", help, chains)
    }
}

#[cfg(fuzzing)]
fn metrics_of(status: Status) -> Metrics {
    Metrics { registry: registry(Arc::new(move || status.clone())), newest: Mutex::default() }
}

/// For the fuzz targets: the metrics of a status, in OpenMetrics' format and in Prometheus's.
#[cfg(fuzzing)]
#[must_use]
pub fn formats(status: Status) -> [String; 2] {
    let open_metrics = metrics_of(status).open_metrics().expect("a string can be written");
    let plain = plain(&open_metrics);
    [open_metrics, plain]
}

/// For the fuzz targets: the answer to a client that sends these octets.
#[cfg(fuzzing)]
#[must_use]
pub fn answer_to(status: Status, request: &[u8]) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let (mut caller, server) = duplex(1 << 20);
        let answering = tokio::spawn(answer(Box::new(server), Arc::new(metrics_of(status))));
        let mut answered = Vec::new();
        // The server may close before it has read everything.
        let _ = caller.write_all(request).await;
        let _ = caller.shutdown().await;
        let _ = caller.read_to_end(&mut answered).await;
        answering.await.expect("no panic");
        answered
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::status::examples;

    /// Asks for this, with these headers; returns the head and the body of the answer.
    fn ask(path: &std::path::Path, request: &str) -> (String, String) {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(request.replace('\n', "\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    fn get(path: &std::path::Path, headers: &str) -> (String, String) {
        ask(path, &format!("GET /metrics HTTP/1.1\nHost: localhost\n{headers}\n"))
    }

    #[test]
    fn methods_paths_and_formats_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics");
        let served = serve(&MetricsAddress::Unix(path.clone()), Arc::new(examples::status)).unwrap();
        let (head, text) = get(&path, "");
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
        assert!(text.contains("# TYPE wireseal_segments_total counter") && !text.contains("# EOF"), "{text}");
        let prometheus = "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.4\n";
        let (head, open) = get(&path, prometheus);
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        assert!(open.contains("# TYPE wireseal_segments counter") && open.ends_with("# EOF\n"), "{open}");
        let of_start = "wireseal_start_timestamp_seconds";
        assert!(
            open.contains(&format!("# UNIT {of_start} seconds\n"))
                && open.contains(&format!("\n{of_start} ")),
            "{open}"
        );
        let (head, body) = ask(&path, "HEAD /metrics HTTP/1.1\nHost: localhost\n\n");
        assert!(head.starts_with("HTTP/1.1 200") && body.is_empty(), "{head}{body}");
        let (head, _) = ask(&path, "POST /metrics HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n");
        assert!(head.starts_with("HTTP/1.1 405") && head.contains("allow: GET, HEAD"), "{head}");
        let (head, _) = ask(&path, "GET / HTTP/1.1\nHost: localhost\n\n");
        assert!(head.starts_with("HTTP/1.1 404"), "{head}");
        drop(served);
        assert!(!path.exists());
    }

    /// What `promtool check metrics` asks of metrics.
    #[test]
    fn metrics_are_named_as_prometheus_wants() {
        let metrics = Metrics { registry: registry(Arc::new(examples::status)), newest: Mutex::default() };
        let text = plain(&metrics.open_metrics().unwrap());
        let (mut helps, mut types, mut seen) = (HashSet::new(), HashMap::new(), HashSet::new());
        for line in text.lines() {
            let words: Vec<_> = line.splitn(4, ' ').collect();
            match words[..] {
                ["#", "HELP", name, help] => assert!(helps.insert(name) && help.ends_with('.'), "{line}"),
                ["#", "TYPE", name, kind] => assert_eq!(types.insert(name, kind), None, "{line}"),
                _ => {
                    let name = line.split(['{', ' ']).next().unwrap();
                    assert!(line.starts_with("wireseal_"), "{line}");
                    assert_eq!(types[name] == "counter", name.ends_with("_total"), "{line}");
                    assert!(helps.contains(name), "{line}");
                    assert!(seen.insert(line.rsplit_once(' ').unwrap().0), "twice: {line}");
                }
            }
        }
        assert_eq!(helps, types.keys().copied().collect());
        assert!(types.contains_key("wireseal_segments_total"), "{text}");
        assert!(seen.len() > types.len() / 2, "{text}");
        for name in types.keys() {
            assert!(!name.ends_with("_count") && !name.contains(":"), "{name}");
            assert!(name.bytes().all(|octet| octet.is_ascii_lowercase() || octet == b'_'), "{name}");
        }
    }

    #[test]
    fn metrics_are_made_once_a_second() {
        let made = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let counted = Arc::clone(&made);
        let source: StatusSource = Arc::new(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            examples::status()
        });
        let metrics = Metrics { registry: registry(source), newest: Mutex::default() };
        let started = Instant::now();
        for _ in 0..100 {
            metrics.open_metrics().unwrap();
        }
        let most = 1 + started.elapsed().as_secs() as u32;
        assert!(made.load(std::sync::atomic::Ordering::Relaxed) <= most);
    }

    #[test]
    fn only_this_machine_can_read_metrics() {
        for text in ["127.0.0.1:9417", "[::1]:9417", "unix:/run/wireseal/metrics"] {
            assert_eq!(text.parse::<MetricsAddress>().unwrap().to_string(), text);
        }
        let error = |text: &str| text.parse::<MetricsAddress>().unwrap_err().to_string();
        assert!(error("192.0.2.1:9417").contains("is no loopback address"));
        for text in ["unix:", "9417", "localhost:9417", "/run/metrics"] {
            assert!(error(text).starts_with("expected unix:PATH or a loopback address"), "{text}");
        }
    }
}
