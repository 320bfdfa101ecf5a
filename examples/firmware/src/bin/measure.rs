//! Measures TCP-AO and QUIC on this processor, in cycles and octets of stack: one line on the console for each step.
//!
//! QEMU counts instructions instead of cycles; `run` converts them.
#![no_std]
#![no_main]

use core::fmt::{Display, Write};

use cortex_m_rt::entry;
use firmware::board::{Board, Console, Stopwatch};
use panic_halt as _;

#[entry]
fn main() -> ! {
    if let Some(Board { console, clock, .. }) = Board::take() {
        let mut bench = Bench { stopwatch: clock.into_stopwatch(), console };
        bench.step(("nothing", "a function that does nothing"), || {});
        #[cfg(feature = "tcp-ao")]
        tcp_ao::measure(&mut bench);
        #[cfg(feature = "quic")]
        quic::measure(&mut bench);
        // The reader of the console stops the machine now.
        let _ = writeln!(bench.console, "end");
    }
    loop {
        cortex_m::asm::wfi();
    }
}

/// A stopwatch, and where to print its readings.
pub struct Bench {
    pub stopwatch: Stopwatch,
    pub console: Console,
}

impl Bench {
    /// Runs a step, and prints what it took.
    pub fn step<R>(&mut self, (of, name): (impl Display, impl Display), step: impl FnOnce() -> R) -> R {
        let (result, taken) = self.stopwatch.measure(step);
        let _ = writeln!(self.console, "{};{};{of};{name}", taken.cycles, taken.stack);
        result
    }
}

/// A client's first packet: derived keys, sealed, opened.
#[cfg(feature = "quic")]
mod quic {
    use core::hint::black_box;

    use firmware::initial;
    use wireseal_quic::{
        ConnectionId, InitialKeys, LongHeader, LongType, NumberLength, Outgoing, PacketNumberCounter, Sealer,
        Version,
    };

    use crate::Bench;

    /// RFC 9001 appendix A: the destination connection ID that the client chose.
    const CONNECTION_ID: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    /// Seals an Initial packet of 1,200 octets, and opens it.
    pub fn measure(bench: &mut Bench) {
        let Ok(destination) = ConnectionId::new(&CONNECTION_ID) else { return };
        let keys = bench
            .step(("QUIC", "derive Initial keys"), || InitialKeys::new(Version::V1, black_box(&destination)));
        let mut sealer = Sealer::new(keys.client, PacketNumberCounter::new());
        let Ok(source) = ConnectionId::new(&[]) else { return };
        let header = LongHeader {
            version: Version::V1,
            packet_type: LongType::Initial,
            destination,
            source,
            token: &[],
        };
        let mut datagram = [0; 1200];
        let number_length = NumberLength::Two;
        // First octet, version, connection IDs, token, length and number; the tag.
        let payload = datagram.len() - (1 + 4 + 9 + 1 + 1 + 2 + 2) - 16;
        let Ok(number_offset) = header.encode(&mut datagram, number_length, payload) else { return };
        let sealed = bench.step(("QUIC", "seal an Initial packet of 1,200 octets"), || {
            sealer.seal(Outgoing { packet: &mut datagram, number_offset, number_length })
        });
        let opened = bench.step(("QUIC", "derive its keys from its header, and open it"), || {
            initial::open(&mut datagram).is_some()
        });
        assert!(sealed.is_ok() && opened);
    }
}

/// Both ends of a connection with each algorithm, from the SYN to segments with data.
#[cfg(feature = "tcp-ao")]
mod tcp_ao {
    use core::fmt;
    use core::hint::black_box;
    use core::net::{IpAddr, Ipv4Addr};

    use wireseal_algorithms::TcpAoAlgorithm;
    use wireseal_tcp_ao::{Connection, Endpoint, Isn, KeyId, MasterKey, Mkt, MktSet, Segment, SocketPair};

    use crate::Bench;

    const ALGORITHMS: &[TcpAoAlgorithm] = &[
        #[cfg(feature = "hmac-sha1")]
        TcpAoAlgorithm::HmacSha1,
        #[cfg(feature = "aes-128-cmac")]
        TcpAoAlgorithm::Aes128Cmac,
    ];

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    /// TCP's header without options, in octets.
    const HEADER: usize = 20;
    /// Octets of data in segments: none, the least MSS of IPv4, and what Ethernet has room for beside the option.
    const DATA: [usize; 3] = [0, 536, 1444];

    /// With room for two MKTs: the one in use, and its successor.
    const MKTS: usize = 2;
    type End = Connection<MKTS>;

    /// Opens a connection with each algorithm, and sends segments over it.
    pub fn measure(bench: &mut Bench) {
        for algorithm in ALGORITHMS {
            assert!(session(bench, *algorithm).is_some());
        }
    }

    fn session(bench: &mut Bench, algorithm: TcpAoAlgorithm) -> Option<()> {
        let [client_keys, server_keys] = [(1, 2), (2, 1)].map(|(send_id, recv_id)| {
            let master_key = MasterKey::new(b"a secret of 24 octets ..").ok()?;
            let mkt = Mkt::new(KeyId(send_id), KeyId(recv_id), algorithm, master_key).ok()?;
            MktSet::<MKTS>::from_mkts([mkt]).ok()
        });
        let (client_keys, server_keys) = (client_keys?, server_keys?);
        let pair = SocketPair { local: Endpoint::new(CLIENT, 50_000), remote: Endpoint::new(SERVER, 179) };
        let mut space = [0; 1500];

        let mut client = bench.step((algorithm, "open, and derive the SYN's key"), || {
            Connection::active(pair, Isn(1000), black_box(&client_keys)).ok()
        })?;
        let syn = segment(&client, &mut space, [1000, 0], SYN, 0)?;
        bench.step((algorithm, "sign the SYN"), || client.sign(syn).ok())?;
        let syn = Segment::from_tcp(CLIENT, SERVER, syn).ok()?;
        let mut server = bench
            .step((algorithm, "verify the SYN without a connection, and accept it"), || {
                Some(Connection::passive(&server_keys.verify_syn(syn).ok()?))
            })?;

        let answer = segment(&server, &mut space, [5000, 1001], SYN | ACK, 0)?;
        bench.step((algorithm, "sign the SYN-ACK"), || server.sign(answer).ok())?;
        let answer = Segment::from_tcp(SERVER, CLIENT, answer).ok()?;
        bench.step((algorithm, "verify the SYN-ACK, and derive the session's keys"), || {
            client.verify(&answer).is_ok().then_some(())
        })?;

        let sent = segment(&client, &mut space, [1001, 5001], ACK, 0)?;
        client.sign(sent).ok()?;
        let sent = Segment::from_tcp(CLIENT, SERVER, sent).ok()?;
        bench.step((algorithm, "verify the ACK, and derive the session's keys"), || {
            server.verify(&sent).is_ok().then_some(())
        })?;

        for data in DATA {
            let sent = segment(&client, &mut space, [1001, 5001], ACK, data)?;
            bench.step((algorithm, Sized("sign", data)), || client.sign(sent).ok())?;
            let sent = Segment::from_tcp(CLIENT, SERVER, sent).ok()?;
            bench.step((algorithm, Sized("verify", data)), || server.verify(&sent).is_ok().then_some(()))?;
        }
        // A segment that was changed on its way.
        let sent = segment(&client, &mut space, [1001, 5001], ACK, 0)?;
        client.sign(sent).ok()?;
        sent[14] ^= 1;
        let sent = Segment::from_tcp(CLIENT, SERVER, sent).ok()?;
        bench.step((algorithm, "refuse a segment without data"), || {
            server.verify(&sent).is_err().then_some(())
        })
    }

    /// A segment of this end with this many octets of data, to be signed.
    fn segment<'a>(
        end: &End,
        space: &'a mut [u8],
        [sequence, acknowledgment]: [u32; 2],
        flags: u8,
        data: usize,
    ) -> Option<&'a mut [u8]> {
        let pair = end.pair();
        space.fill(0);
        let (header, options) = space.split_first_chunk_mut::<HEADER>()?;
        header[0..2].copy_from_slice(&pair.local.port().to_be_bytes());
        header[2..4].copy_from_slice(&pair.remote.port().to_be_bytes());
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        header[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
        header[13] = flags;
        let options = end.append_ao(options, 0).ok()?;
        header[12] = ((HEADER + options) as u8 / 4) << 4;
        space.get_mut(..HEADER + options + data)
    }

    /// The name of a step with this many octets of data.
    struct Sized(&'static str, usize);

    impl fmt::Display for Sized {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{} a segment with {} octets of data", self.0, self.1)
        }
    }
}
