//! Serving metrics over HTTP.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime;

use super::address::MetricsAddress;
use super::collector::registry;
use crate::status::StatusSource;

/// OpenMetrics, which is what the library writes.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a request may take to come.
const LIMIT: Duration = Duration::from_secs(5);

enum Listener {
    Unix(UnixListener),
    Loopback(TcpListener),
}

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
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let mut served = Served(None);
    let listener = match address {
        MetricsAddress::Loopback(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Listener::Loopback(TcpListener::from_std(listener)?)
        }
        MetricsAddress::Unix(path) => {
            // One that an instance left when it was killed.
            let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
            let is_left =
                || UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
            if is_socket && is_left() {
                fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            served.0 = Some(path.clone());
            Listener::Unix(listener)
        }
    };
    drop(entered);
    let registry = Arc::new(registry(source));
    let thread = thread::Builder::new().name("metrics".to_owned());
    thread.spawn(move || runtime.block_on(accept(listener, registry)))?;
    Ok(served)
}

async fn accept(listener: Listener, registry: Arc<Registry>) {
    loop {
        let accepted = match &listener {
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                tokio::spawn(answer(stream, Arc::clone(&registry)));
            }),
            Listener::Loopback(listener) => listener.accept().await.map(|(stream, _)| {
                tokio::spawn(answer(stream, Arc::clone(&registry)));
            }),
        };
        if let Err(error) = accepted {
            // No descriptors are left, or the caller has gone.
            tracing::debug!(%error, "a request for metrics was not accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, registry: Arc<Registry>) {
    let service = service_fn(|request: Request<Incoming>| {
        let response = respond(&request, &registry);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(LIMIT);
    // Whoever asked may have left.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

fn respond(request: &Request<Incoming>, registry: &Registry) -> Response<String> {
    let mut response = Response::new(String::new());
    if request.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.body_mut() = "the metrics are at /metrics\n".to_owned();
    } else if encode(response.body_mut(), registry).is_err() {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    } else {
        response.headers_mut().insert(CONTENT_TYPE, OPEN_METRICS.parse().expect("it is a header's value"));
    }
    response
}
