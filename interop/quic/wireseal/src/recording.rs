//! What a run leaves behind: a report as one line of JSON, and for tshark a recording of the datagrams and a key log.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use etherparse::PacketBuilder;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, TsResolution};
use peer_program::{Failure, sha256};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use rustls::{KeyLog, KeyLogFile, NoKeyLog};
use serde_json::{Value, json};
use wireseal_rustls::Backend;

const HOPS: u8 = 64;

/// The socket and the key log of one end.
pub(crate) struct Wire {
    pub(crate) socket: Arc<dyn AsyncUdpSocket>,
    pub(crate) key_log: Arc<dyn KeyLog>,
}

impl Wire {
    /// Binds a UDP socket. With `record`, its datagrams go to that file too, and there is a key log.
    pub(crate) fn bind(address: SocketAddr, record: Option<&Path>) -> Result<Self, Failure> {
        let socket = TokioRuntime.wrap_udp_socket(UdpSocket::bind(address)?)?;
        match record {
            None => Ok(Self { socket, key_log: Arc::new(NoKeyLog) }),
            Some(path) => record_with_key_log(socket, path),
        }
    }
}

/// Records every datagram sent on `socket` in the pcap file `path`, and the secrets in the file that `SSLKEYLOGFILE` names.
///
/// Fails if `SSLKEYLOGFILE` is not set or the pcap file cannot be written.
fn record_with_key_log(socket: Arc<dyn AsyncUdpSocket>, path: &Path) -> Result<Wire, Failure> {
    std::env::var_os("SSLKEYLOGFILE").ok_or("SSLKEYLOGFILE is not set")?;
    let header = PcapHeader {
        datalink: DataLink::IPV4,
        ts_resolution: TsResolution::NanoSecond,
        ..PcapHeader::default()
    };
    let file = Mutex::new(PcapWriter::with_header(File::create(path)?, header)?);
    Ok(Wire { socket: Arc::new(Recorded { socket, file }), key_log: Arc::new(KeyLogFile::new()) })
}

/// A socket that records what it sends.
///
/// At the sender nothing is lost yet. Each datagram is recorded separately, because this socket offers no segmentation offload.
#[derive(Debug)]
struct Recorded {
    socket: Arc<dyn AsyncUdpSocket>,
    file: Mutex<PcapWriter<File>>,
}

impl Recorded {
    /// Records a datagram, sent at `time` since the epoch.
    fn record(&self, time: Duration, transmit: &Transmit<'_>) -> Result<(), Failure> {
        let (SocketAddr::V4(source), SocketAddr::V4(destination)) =
            (self.local_addr()?, transmit.destination)
        else {
            return Err("only IPv4 can be recorded".into());
        };
        let builder = PacketBuilder::ipv4(source.ip().octets(), destination.ip().octets(), HOPS)
            .udp(source.port(), destination.port());
        let mut packet = Vec::with_capacity(builder.size(transmit.contents.len()));
        builder.write(&mut packet, transmit.contents)?;
        let length = u32::try_from(packet.len())?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_packet(&PcapPacket::new(time, length, &packet))?;
        Ok(())
    }
}

impl AsyncUdpSocket for Recorded {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        // Before it is sent, so that the time is earlier than that of any answer.
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?;
        self.socket.try_send(transmit)?;
        self.record(time, transmit).map_err(io::Error::other)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(context, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// What one packet key has done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) sealed: u64,
    pub(crate) opened: u64,
}

/// A connection that has ended.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    /// The suite whose keys protected the connection.
    pub(crate) suite: &'a str,
    /// Wireseal's Initial keys, each time the local key before the remote one.
    pub(crate) initial: Vec<Used>,
    /// Wireseal's other keys: those of Handshake packets, then those of each generation of 1-RTT packets.
    pub(crate) others: Vec<Used>,
    /// What this end received.
    pub(crate) received: &'a [u8],
    /// Key updates that this end started on demand.
    pub(crate) updates_started: usize,
    /// Whether a Retry packet was sent or received.
    pub(crate) retry: bool,
}

/// Prints a report.
pub(crate) fn print_report(report: &Report<'_>) {
    let mut pairs = report.others.chunks(2).map(packets);
    let report = json!({
        "suite": report.suite,
        // The library behind Wireseal's ciphers.
        "backend": Backend::active().name(),
        "received": report.received.len(),
        "sha256": sha256(report.received),
        "initial": packets(&report.initial),
        "handshake": pairs.next().unwrap_or_else(|| packets(&[])),
        // One for each generation of 1-RTT keys derived, used or not.
        "generations": pairs.collect::<Vec<_>>(),
        "updates_started": report.updates_started,
        "retry": report.retry,
    });
    println!("{report}");
}

/// Packets sealed with the local keys and opened with the remote ones.
fn packets(keys: &[Used]) -> Value {
    let sum = |count: fn(&Used) -> u64| keys.iter().map(count).sum::<u64>();
    json!({ "sealed": sum(|key| key.sealed), "opened": sum(|key| key.opened) })
}
