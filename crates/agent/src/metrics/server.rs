//! Serving metrics over HTTP.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::address::MetricsAddress;
use super::collector::registry;
use crate::callers::{self, Caller, Listener};
use crate::status::{StatusSource, make_folder};

/// OpenMetrics, which is what the library writes, and which Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// The format before, which everything else reads.
const TEXT_TYPE: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// For how long metrics are given out: making them takes the locks that packets wait for.
const AGE: Duration = Duration::from_secs(1);
/// How long a process that listens at the same place may take to be found.
const LIMIT: Duration = Duration::from_secs(2);

/// Where metrics are served; dropping it removes a Unix socket.
#[derive(Debug)]
pub(crate) struct Served(Option<PathBuf>);

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If it is gone already, all the better.
            let _ = fs::remove_file(path);
        }
    }
}

/// Serves metrics, in a thread of its own, until the process ends.
///
/// # Errors
/// If the address cannot be had.
pub(crate) fn serve(address: &MetricsAddress, source: StatusSource) -> io::Result<Served> {
    let mut served = Served(None);
    let listener = match address {
        MetricsAddress::Loopback(address) => Listener::Loopback(std::net::TcpListener::bind(address)?),
        MetricsAddress::Unix(path) => {
            make_folder(path)?;
            // One that an instance left when it was killed.
            let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
            let is_left = || {
                callers::connect(path, LIMIT).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
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
    callers::answer("metrics", listener, move |caller| answer(caller, Arc::clone(&metrics)))?;
    Ok(served)
}

struct Metrics {
    registry: Registry,
    newest: Mutex<Option<(Instant, String)>>,
}

impl Metrics {
    /// In OpenMetrics' format, not older than [`AGE`].
    fn open_metrics(&self) -> Result<String, fmt::Error> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = newest.as_ref().filter(|(made, _)| made.elapsed() < AGE) {
            return Ok(text.clone());
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        *newest = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

/// Answers one request; the next one needs another connection, so that nobody keeps one.
async fn answer(caller: Box<dyn Caller>, metrics: Arc<Metrics>) {
    let service = service_fn(|request| {
        let response = respond(&request, &metrics);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false);
    // Whoever asked may have left.
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

/// OpenMetrics' format as the one before it, in which a counter's whole name has its help and type, and nothing marks the end.
fn plain(open_metrics: &str) -> String {
    let counters: Vec<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len() + 6 * 2 * counters.len());
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
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
}
