//! The socket of one end, and what tshark needs to read along: a recording of the datagrams, and a key log.

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
use peer_program::Failure;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, TokioRuntime, UdpPoller};
use rustls::{KeyLog, KeyLogFile, NoKeyLog};

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
/// Nothing is lost yet at the sender, and each datagram is recorded alone, because this socket offers no segmentation offload.
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
