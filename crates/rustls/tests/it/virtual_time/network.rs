//! Two quinn state machines in virtual time, and the network between them. The same seed gives the same losses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ReadError, ServerConfig, StreamId, WriteError,
};

use crate::support::pattern;

/// The minimum latency.
const LATENCY: Duration = Duration::from_millis(5);
/// The random latency on top, which reorders datagrams.
const JITTER: Duration = Duration::from_millis(3);

/// One end: the endpoint, its one connection, and the octets it sends and has received.
struct End {
    endpoint: Endpoint,
    address: SocketAddr,
    connection: Option<(ConnectionHandle, Connection)>,
    stream: Option<StreamId>,
    to_send: Vec<u8>,
    sent: usize,
    finished: bool,
    received: Vec<u8>,
    complete: bool,
}

struct InFlight {
    arrives: Instant,
    to: usize,
    datagram: Vec<u8>,
}

/// What the network did to the datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub dropped: u32,
    pub duplicated: u32,
    pub overtaken: u32,
}

pub struct Network {
    ends: [End; 2],
    now: Instant,
    rng: fastrand::Rng,
    in_flight: Vec<InFlight>,
    faults: Faults,
}

impl Network {
    /// A client that connects to a server; each sends `length` octets to the other.
    pub fn new(client: ClientConfig, server: ServerConfig, length: usize, seed: u64) -> Self {
        let endpoint = |server, octet: u8| {
            Endpoint::new(Arc::new(EndpointConfig::default()), server, true, Some([octet; 32]))
        };
        let end = |endpoint, host, seed| End {
            endpoint,
            address: SocketAddr::from((Ipv4Addr::new(192, 0, 2, host), 4433)),
            connection: None,
            stream: None,
            to_send: pattern(seed, length),
            sent: 0,
            finished: false,
            received: Vec::new(),
            complete: false,
        };
        let now = Instant::now();
        let mut ends =
            [end(endpoint(None, 1), 1, seed), end(endpoint(Some(Arc::new(server)), 2), 2, seed ^ u64::MAX)];
        let to = ends[1].address;
        let connected = ends[0].endpoint.connect(now, client, to, "localhost");
        ends[0].connection = Some(connected.expect("a configuration that quinn can use"));
        let rng = fastrand::Rng::with_seed(seed);
        Self { ends, now, rng, in_flight: Vec::new(), faults: Faults::default() }
    }

    /// Runs until both ends have received everything, and returns what the network did. Both ends update keys as often as quinn
    /// allows.
    ///
    /// # Panics
    ///
    /// If the connection is lost, an octet is wrong, or nothing happens any more.
    pub fn run(mut self) -> Faults {
        let start = self.now;
        while self.ends.iter().any(|end| !end.complete) {
            for end in 0..2 {
                self.ends[end].exchange();
                if self.rng.u8(..) < 32 {
                    self.ends[end].update_keys();
                }
                self.send_from(end);
            }
            self.advance();
            assert!(self.now - start < Duration::from_secs(120), "the transfer takes too long");
        }
        for (end, peer) in [(0, 1), (1, 0)] {
            assert!(self.ends[end].received == self.ends[peer].to_send, "octets changed on the way");
        }
        self.faults
    }

    /// To the next arrival or timeout.
    fn advance(&mut self) {
        let timeouts = self.ends.iter_mut().filter_map(|end| end.connection.as_mut()?.1.poll_timeout());
        let next = timeouts.chain(self.in_flight.iter().map(|datagram| datagram.arrives)).min();
        self.now = self.now.max(next.expect("an unfinished transfer waits for something"));

        let now = self.now;
        let mut arrived: Vec<_> = self.in_flight.extract_if(.., |datagram| datagram.arrives <= now).collect();
        arrived.sort_by_key(|datagram| datagram.arrives);
        for datagram in arrived {
            self.deliver(datagram);
        }
        for end in &mut self.ends {
            if let Some((_, connection)) = &mut end.connection
                && connection.poll_timeout().is_some_and(|timeout| timeout <= self.now)
            {
                connection.handle_timeout(self.now);
            }
        }
    }

    fn deliver(&mut self, InFlight { to, datagram, .. }: InFlight) {
        let from = self.ends[1 - to].address;
        let end = &mut self.ends[to];
        let mut response = Vec::new();
        let event = end.endpoint.handle(
            self.now,
            from,
            None,
            None,
            BytesMut::from(datagram.as_slice()),
            &mut response,
        );
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = end.endpoint.accept(incoming, self.now, &mut response, None);
                end.connection =
                    Some(accepted.unwrap_or_else(|error| panic!("not accepted: {}", error.cause)));
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                end.connection.as_mut().expect("events are of a connection").1.handle_event(event);
            }
            Some(DatagramEvent::Response(transmit)) => {
                response.truncate(transmit.size);
                self.carry(1 - to, response);
            }
            None => {}
        }
    }

    fn send_from(&mut self, from: usize) {
        let end = &mut self.ends[from];
        let Some((handle, connection)) = &mut end.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = end.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut datagrams = Vec::new();
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(self.now, 1, &mut buffer) {
            datagrams.push(buffer[..transmit.size].to_vec());
            buffer.clear();
        }
        for datagram in datagrams {
            self.carry(1 - from, datagram);
        }
    }

    /// Carries a datagram, loses it, or duplicates it.
    fn carry(&mut self, to: usize, datagram: Vec<u8>) {
        let copies = match self.rng.u8(..) {
            0..5 => {
                self.faults.dropped += 1;
                0
            }
            5..10 => {
                self.faults.duplicated += 1;
                2
            }
            _ => 1,
        };
        for _ in 0..copies {
            let jitter = self.rng.u64(..=JITTER.as_micros() as u64);
            let arrives = self.now + LATENCY + Duration::from_micros(jitter);
            let overtakes = |other: &&InFlight| other.to == to && other.arrives > arrives;
            self.faults.overtaken += u32::from(self.in_flight.iter().find(overtakes).is_some());
            self.in_flight.push(InFlight { arrives, to, datagram: datagram.clone() });
        }
    }
}

impl End {
    /// Writes and reads as much as is possible now.
    fn exchange(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                panic!("{} lost the connection: {reason}", self.address);
            }
        }
        // Each end sends on a stream of its own.
        let stream = match self.stream {
            Some(stream) => stream,
            None => match connection.streams().open(Dir::Uni) {
                Some(stream) => *self.stream.insert(stream),
                None => return,
            },
        };
        let mut sender = connection.send_stream(stream);
        while self.sent < self.to_send.len() {
            match sender.write(&self.to_send[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(WriteError::Blocked) => break,
                Err(error) => panic!("cannot write: {error}"),
            }
        }
        if self.sent == self.to_send.len() && !self.finished {
            sender.finish().expect("nobody closed the stream");
            self.finished = true;
        }
        self.read();
    }

    fn read(&mut self) {
        let Some((_, connection)) = &mut self.connection else { return };
        // The peer opens one stream; its side determines the number.
        connection.streams().accept(Dir::Uni);
        let stream = StreamId::new(!connection.side(), Dir::Uni, 0);
        let mut receiver = connection.recv_stream(stream);
        let Ok(mut chunks) = receiver.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => self.received.extend_from_slice(&chunk.bytes),
                Ok(None) => {
                    self.complete = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(error) => panic!("cannot read: {error}"),
            }
        }
        // Window updates go out with the next transmission.
        let _ = chunks.finalize();
    }

    fn update_keys(&mut self) {
        if let Some((_, connection)) = &mut self.connection {
            connection.force_key_update();
        }
    }
}
