//! Whole handshakes with an end that accepts mismatches, against peers of every kind, with packets that are lost or late.

use crate::shim_support::*;
use crate::support::*;

/// What is between a stack and the link.
enum Below {
    /// Nothing: the stack does not know TCP-AO and ignores its option.
    Nothing,
    /// A kernel that knows TCP-AO and has no key: it drops signed segments.
    NoKey,
    Shim(Box<TestShim>),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Listen,
    SynSent,
    SynReceived,
    Established,
}

/// A TCP that can shake hands and send four octets. It repeats everything unacknowledged each second.
struct Host {
    below: Below,
    pair: SocketPair,
    state: State,
    isn: u32,
    expected: u32,
    is_data_acknowledged: bool,
    has_data: bool,
}

impl Host {
    fn new(below: Below, pair: SocketPair, isn: u32, opens: bool) -> Self {
        let state = if opens { State::SynSent } else { State::Listen };
        Self { below, pair, state, isn, expected: 0, is_data_acknowledged: false, has_data: false }
    }

    fn is_done(&self) -> bool {
        self.is_data_acknowledged && self.has_data
    }

    /// The packet that it puts on the link.
    fn send(&mut self, now: Duration) -> Option<Vec<u8>> {
        let next = self.isn.wrapping_add(1);
        let packet = match self.state {
            State::Listen => return None,
            State::SynSent => Packet::new(self.pair, SYN, self.isn, 0),
            State::SynReceived => Packet::new(self.pair, SYN | ACK, self.isn, self.expected),
            State::Established if self.is_data_acknowledged => {
                Packet::new(self.pair, ACK, next.wrapping_add(4), self.expected)
            }
            State::Established => Packet::new(self.pair, ACK, next, self.expected).payload(b"data"),
        };
        match &mut self.below {
            Below::Shim(shim) => outbound(shim, now, &packet.build()).ok(),
            _ => Some(packet.build()),
        }
    }

    fn receive(&mut self, now: Duration, packet: &[u8]) {
        let delivered = match &mut self.below {
            Below::Shim(shim) => inbound(shim, now, packet).ok(),
            Below::NoKey if read(packet).is_signed() => None,
            _ => Some(packet.to_vec()),
        };
        if let Some(packet) = delivered {
            self.handle(&read(&packet));
        }
    }

    fn handle(&mut self, Read { header, payload, .. }: &Read) {
        let sequence = header.sequence_number;
        let acknowledged = header.acknowledgment_number.wrapping_sub(self.isn.wrapping_add(1));
        let acknowledges = header.ack && acknowledged <= 4;
        match (self.state, header.syn) {
            (State::Listen | State::SynSent, true) if !header.ack || acknowledges => {
                self.expected = sequence.wrapping_add(1);
                self.state = if header.ack { State::Established } else { State::SynReceived };
            }
            (State::SynReceived | State::Established, _) if acknowledges => {
                self.state = State::Established;
                self.is_data_acknowledged |= acknowledged == 4;
                if sequence == self.expected && !payload.is_empty() {
                    self.has_data = true;
                    self.expected = self.expected.wrapping_add(4);
                }
            }
            _ => {}
        }
    }
}

/// A shim that accepts mismatches, or one that does not.
fn below(pair: SocketPair, mkts: MktSet<4>, accepts: bool) -> Below {
    let mut shim = shim(pair, mkts, 4);
    if accepts {
        shim.accept_mismatches(0, Duration::MAX).unwrap();
    }
    Below::Shim(Box::new(shim))
}

const FATES: u32 = 3;

/// The number of first packets whose fates are tried in every combination.
const DISTURBED: u32 = 5;

/// Whether both ends send and receive within 40 seconds. In base 3, `fates` says which of the first packets arrive, are late, or are
/// lost.
fn run(ends: &mut [Host; 2], mut fates: u32) -> bool {
    let mut link = Vec::new();
    for second in 0..40_u64 {
        let now = seconds(1000 + second);
        for (from, end) in ends.iter_mut().enumerate() {
            let Some(packet) = end.send(now) else { continue };
            let fate = fates % FATES;
            fates /= FATES;
            if fate < 2 {
                link.push((second + 3 * u64::from(fate), 1 - from, packet));
            }
        }
        let (due, later) = link.into_iter().partition(|(at, ..)| *at <= second);
        link = later;
        let due: Vec<(u64, usize, Vec<u8>)> = due;
        for (_, to, packet) in due {
            ends[to].receive(now, &packet);
        }
        if ends.iter().all(Host::is_done) {
            return true;
        }
    }
    false
}

#[test]
fn every_handshake_completes_while_mismatches_are_accepted() {
    let (pair, back) = (ipv4_pair(), ipv4_pair().reversed());
    let own = || mirrored(&[(1, 2)]);
    let right = || mkts(&[(1, 2)]);
    let wrong = || MktSet::from_mkts([mkt_with_secret(1, 2, TcpAoAlgorithm::HmacSha1, b"wrong")]).unwrap();
    let peers: [(&str, &dyn Fn() -> Below); 6] = [
        ("no TCP-AO", &|| Below::Nothing),
        ("no key", &|| Below::NoKey),
        ("strict", &|| below(pair, right(), false)),
        ("lenient", &|| below(pair, right(), true)),
        ("lenient, another secret", &|| below(pair, wrong(), true)),
        ("lenient, no key", &|| below(pair, MktSet::new(), true)),
    ];
    for (name, peer) in peers {
        for opens in [[true, false], [false, true], [true, true]] {
            for fates in 0..FATES.pow(DISTURBED) {
                let mut ends = [
                    Host::new(peer(), pair, 0x1000, opens[0]),
                    Host::new(below(back, own(), true), back, 0xffff_fffe, opens[1]),
                ];
                let is_done = run(&mut ends, fates);
                let states =
                    [&ends[0], &ends[1]].map(|end| (end.state, end.is_data_acknowledged, end.has_data));
                assert!(is_done, "{name}, opens {opens:?}, fates {fates}: {states:?}");
                if name == "strict" {
                    let Below::Shim(shim) = &ends[1].below else { unreachable!() };
                    assert!(
                        shim.connection(&back).unwrap().is_established(),
                        "opens {opens:?}, fates {fates}"
                    );
                }
            }
        }
    }
}
