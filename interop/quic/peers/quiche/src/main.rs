//! quiche as the other end: `peer-quiche client|server` runs one connection and prints one line of JSON.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use peer_program::{ALPN, Failure, Seen, Task, print_report};
use quiche::{Config, Connection, ConnectionId, Error, Header, RecvInfo, Type};
use serde_json::Value;

const DATAGRAM: usize = 1350;
const CONNECTION_ID: usize = 16;

fn main() -> Result<(), Failure> {
    let task = Task::from_arguments()?;
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[ALPN])?;
    config.set_max_idle_timeout(30_000);
    config.set_max_recv_udp_payload_size(DATAGRAM);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(4_000_000);
    config.set_initial_max_stream_data_bidi_local(1_000_000);
    config.set_initial_max_stream_data_bidi_remote(1_000_000);
    config.set_initial_max_streams_bidi(1);
    // Only HTTP/3 clients open unidirectional streams.
    config.set_initial_max_streams_uni(0);

    let log = Log::default();
    let (mut link, mut connection, mut echo) =
        if task.is_server { server(&task, &mut config)? } else { client(&task, &mut config)? };
    connection.set_qlog(Box::new(log.clone()), "interop".into(), "interop".into());
    exchange(&mut link, &mut connection, &mut echo)?;
    if let Some(error) = connection.peer_error().filter(|error| error.error_code != 0) {
        return Err(format!("the peer closed the connection: {error:?}").into());
    }
    print_report(&log.seen(link.retry)?, echo.received())
}

/// The socket, and the state of its datagrams.
struct Link {
    socket: UdpSocket,
    local: SocketAddr,
    /// Whether a Retry packet was sent or received.
    retry: bool,
    /// The connection's first datagram and its source, until it is processed.
    first: Option<(Vec<u8>, SocketAddr)>,
}

impl Link {
    fn new(address: SocketAddr) -> Result<Self, Failure> {
        let socket = UdpSocket::bind(address)?;
        let local = socket.local_addr()?;
        Ok(Self { socket, local, retry: false, first: None })
    }

    /// The next datagram, or `None` after `patience`.
    fn receive(&mut self, patience: Option<Duration>) -> Result<Option<(Vec<u8>, SocketAddr)>, Failure> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        // A timeout of zero would mean no timeout.
        self.socket.set_read_timeout(patience.map(|time| time.max(Duration::from_millis(1))))?;
        let mut buffer = vec![0; 65_535];
        match self.socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                buffer.truncate(length);
                Ok(Some((buffer, from)))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

fn client(task: &Task, config: &mut Config) -> Result<(Link, Connection, Echo), Failure> {
    config.load_verify_locations_from_file(path(task, "ca.pem")?.as_str())?;
    config.verify_peer(true);
    let link = Link::new((Ipv4Addr::LOCALHOST, 0).into())?;
    let id = random()?;
    let source = ConnectionId::from_ref(&id);
    let connection = quiche::connect(Some("localhost"), &source, link.local, task.address, config)?;
    Ok((link, connection, Echo::client(fs::read(&task.payload)?)))
}

/// Waits for a client's Initial packet, from an address that was validated with a Retry if the task says so.
fn server(task: &Task, config: &mut Config) -> Result<(Link, Connection, Echo), Failure> {
    config.load_cert_chain_from_pem_file(&path(task, "server.pem")?)?;
    config.load_priv_key_from_pem_file(&path(task, "server.key")?)?;
    let mut link = Link::new(task.address)?;
    println!("listening {}", link.local.port());

    let token = random()?;
    let mut original: Option<ConnectionId<'static>> = None;
    loop {
        let Some((mut datagram, from)) = link.receive(None)? else { continue };
        let header = Header::from_slice(&mut datagram, CONNECTION_ID)?;
        if header.ty != Type::Initial {
            continue;
        }
        let validated = header.token.as_deref() == Some(&token);
        if task.retry && !validated {
            let id = random()?;
            let mut packet = [0; DATAGRAM];
            let source = ConnectionId::from_ref(&id);
            let length =
                quiche::retry(&header.scid, &header.dcid, &source, &token, header.version, &mut packet)?;
            link.socket.send_to(&packet[..length], from)?;
            original = Some(header.dcid.into_owned());
            link.retry = true;
            continue;
        }
        let id = random()?;
        // After a Retry, the connection keeps the ID that was in it.
        let source =
            if validated { header.dcid.clone().into_owned() } else { ConnectionId::from_vec(id.to_vec()) };
        let connection = quiche::accept(&source, original.as_ref(), link.local, from, config)?;
        link.first = Some((datagram, from));
        return Ok((link, connection, Echo::server()));
    }
}

/// Sends and receives until the connection is closed.
fn exchange(link: &mut Link, connection: &mut Connection, echo: &mut Echo) -> Result<(), Failure> {
    let mut packet = [0; DATAGRAM];
    loop {
        loop {
            match connection.send(&mut packet) {
                Ok((length, to)) => _ = link.socket.send_to(&packet[..length], to.to)?,
                Err(quiche::Error::Done) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if connection.is_draining() || connection.is_closed() {
            return Ok(());
        }
        match link.receive(connection.timeout())? {
            None => connection.on_timeout(),
            Some((mut datagram, from)) => {
                let header = Header::from_slice(&mut datagram, CONNECTION_ID)?;
                link.retry |= header.ty == Type::Retry;
                match connection.recv(&mut datagram, RecvInfo { from, to: link.local }) {
                    Ok(_) | Err(quiche::Error::Done) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        echo.progress(connection)?;
    }
}

fn path(task: &Task, name: &str) -> Result<String, Failure> {
    task.certificates.join(name).into_os_string().into_string().map_err(|_| "a path is not UTF-8".into())
}

fn random() -> Result<[u8; CONNECTION_ID], Failure> {
    let mut octets = [0; CONNECTION_ID];
    File::open("/dev/urandom")?.read_exact(&mut octets)?;
    Ok(octets)
}

const STREAM: u64 = 0;

/// One end of the stream.
struct Echo {
    is_server: bool,
    payload: Vec<u8>,
    received: Vec<u8>,
    /// Whether everything was received.
    complete: bool,
    sent: usize,
    finished: bool,
}

impl Echo {
    fn client(payload: Vec<u8>) -> Self {
        Self { is_server: false, payload, received: Vec::new(), complete: false, sent: 0, finished: false }
    }

    fn server() -> Self {
        Self { is_server: true, ..Self::client(Vec::new()) }
    }

    fn received(&self) -> &[u8] {
        &self.received
    }

    /// Receives and sends as much as possible now. A client that has received everything closes the connection.
    fn progress(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        if !connection.is_established() {
            return Ok(());
        }
        let mut piece = [0; 16_384];
        while connection.stream_readable(STREAM) {
            let (length, complete) = connection.stream_recv(STREAM, &mut piece)?;
            self.received.extend_from_slice(&piece[..length]);
            self.complete |= complete;
        }
        // A server sends nothing before the client has opened the stream.
        if !self.finished && (!self.is_server || !self.received.is_empty()) {
            self.send(connection)?;
        }
        if self.complete && !self.is_server {
            connection.close(true, 0, b"")?;
        }
        Ok(())
    }

    fn send(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let (octets, last) =
            if self.is_server { (&self.received, self.complete) } else { (&self.payload, true) };
        match connection.stream_send(STREAM, &octets[self.sent..], last) {
            Ok(length) => self.sent += length,
            Err(Error::Done) => {}
            Err(error) => return Err(error.into()),
        }
        self.finished = last && self.sent == octets.len();
        Ok(())
    }
}

/// Starts each record (RFC 7464).
const RECORD_SEPARATOR: u8 = 0x1e;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// What the log reports about the connection, except `retry`, which it does not have.
    fn seen(&self, retry: bool) -> Result<Seen, Failure> {
        let mut seen = Seen { retry, ..Seen::default() };
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for record in log.split(|&octet| octet == RECORD_SEPARATOR).filter(|record| !record.is_empty()) {
            let record: Value = serde_json::from_slice(record)?;
            let data = &record["data"];
            if let Some(cipher) = data["tls_cipher"].as_str() {
                seen.suite = suite(cipher).into();
            }
            // There is one event for each direction.
            if data["key_type"] == "server_1rtt_secret" {
                match data["trigger"].as_str() {
                    Some("remote_update") => seen.updates_remote += 1,
                    Some("local_update") => seen.updates_local += 1,
                    _ => {}
                }
            }
        }
        Ok(seen)
    }
}

fn suite(cipher: &str) -> &str {
    match cipher {
        "AES128_GCM" => "TLS_AES_128_GCM_SHA256",
        "AES256_GCM" => "TLS_AES_256_GCM_SHA384",
        "ChaCha20_Poly1305" => "TLS_CHACHA20_POLY1305_SHA256",
        other => other,
    }
}
