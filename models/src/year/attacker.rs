//! An attacker on the path, who records everything and knows expired keys. The attacker replays, reflects, alters and forges packets.

use fastrand::Rng;
use wireseal_tcp_ao::{
    Connection, ConnectionState, Counters, HeardKeys, Isn, KeyId, Mkt, MktSet, SeqNum, Sne,
};

use super::tcp::{ACK, Out, SYN, Tcp, packet, segment_of, set_checksum};

/// How many packets are remembered.
const MEMORY: usize = 2_048;

#[derive(Default)]
pub(super) struct Attacker {
    /// Recorded packets, each with the end that it was for.
    recorded: Vec<(usize, Vec<u8>)>,
}

impl Attacker {
    /// Records a packet, in place of a random older one.
    pub(super) fn record(&mut self, to: usize, packet: &[u8], random: &mut Rng) {
        if self.recorded.len() < MEMORY {
            self.recorded.push((to, packet.to_vec()));
        } else if random.u8(0..4) == 0 {
            self.recorded[random.usize(0..MEMORY)] = (to, packet.to_vec());
        }
    }

    /// A packet for an end, made from a recorded one. `from` tells which end an address is.
    pub(super) fn packet(
        &self,
        random: &mut Rng,
        from: impl Fn(&[u8]) -> Option<usize>,
    ) -> Option<(usize, Vec<u8>)> {
        let (to, recorded) = random.choice(&self.recorded)?;
        let mut packet = recorded.clone();
        match random.u8(0..3) {
            0 => Some((*to, packet)),
            1 => {
                // To its sender, with addresses and ports exchanged.
                packet[12..20].rotate_left(4);
                packet[20..24].rotate_left(2);
                set_checksum(&mut packet);
                Some((from(&packet[16..20])?, packet))
            }
            _ => {
                let tcp = segment_of(&mut packet);
                // Not a bit of the checksum, which is corrected below.
                let places: Vec<usize> = (0..tcp.len()).filter(|place| !(16..18).contains(place)).collect();
                tcp[*random.choice(&places)?] ^= 1 << random.u8(0..8);
                set_checksum(&mut packet);
                Some((*to, packet))
            }
        }
    }
}

/// A packet forged in the name of the end with `tcp` by an attacker who knows a key and all sequence numbers: data, or a SYN.
pub(super) fn forged(tcp: &Tcp, mkt: &Mkt, opens: bool) -> Option<Vec<u8>> {
    let id = mkt.send_id();
    let mkts = MktSet::<1>::from_mkts([mkt.clone()]).ok()?;
    let mut connection = if opens {
        Connection::active(tcp.pair, Isn(tcp.isn), &mkts).ok()?
    } else {
        Connection::import(&state(tcp, id, mkt.recv_id()), &mkts).ok()?
    };
    let (sequence, flags) = if opens { (tcp.isn, SYN) } else { (tcp.next, ACK) };
    let acknowledgment = if opens { 0 } else { tcp.received };
    let payload = if opens { Vec::new() } else { vec![0xff; 19] };
    let out = Out { sequence, acknowledgment, flags, payload, is_retransmission: false };
    let mut options = [0; 40];
    let length = connection.append_ao(&mut options, 0).ok()?;
    let mut packet = packet(tcp.pair, &out, &options[..length]);
    connection.sign(segment_of(&mut packet)).ok()?;
    set_checksum(&mut packet);
    Some(packet)
}

fn state(tcp: &Tcp, current_key: KeyId, rnext_key: KeyId) -> ConnectionState {
    let sne = |isn: u32, number: u32| Sne(u32::from(number < isn));
    ConnectionState {
        pair: tcp.pair,
        local_isn: Isn(tcp.isn),
        remote_isn: Isn(tcp.remote_isn),
        send_sne: sne(tcp.isn, tcp.next),
        send_sequence: SeqNum(tcp.next),
        sent_end: SeqNum(tcp.next),
        receive_sne: sne(tcp.remote_isn, tcp.received),
        receive_sequence: SeqNum(tcp.received),
        acknowledged: SeqNum(tcp.next),
        current_key,
        rnext_key,
        heard: HeardKeys::NONE,
        counters: Counters::default(),
    }
}
