//! Two carriers, each with one end of a connection.

use tokio::sync::Barrier;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::WindowScale;
use wireseal_tcp_ao::{Counters, Endpoint, HeardKeys, Isn, KeyId, MasterKey, Mkt, Sne, SocketPair};

use super::*;
use crate::net::Port;
use crate::wire::Wire;

/// Octets each way before sequence numbers wrap: fewer than one transfer sends.
const BEFORE_WRAP: u32 = 100_000;
const OCTETS: u64 = 300_000;

fn mkts() -> MktSet<MKTS_PER_PEER> {
    let master_key = MasterKey::new(b"moved").unwrap();
    let mkt = Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::Aes128Cmac, master_key).unwrap();
    MktSet::from_mkts([mkt]).unwrap()
}

fn exported(pair: SocketPair, isns: (u32, u32)) -> Exported {
    let (send, receive) = (SeqNum(isns.0.wrapping_add(1)), SeqNum(isns.1.wrapping_add(1)));
    let authentication = ConnectionState {
        pair,
        local_isn: Isn(isns.0),
        remote_isn: Isn(isns.1),
        send_sne: Sne(0),
        send_sequence: send,
        sent_end: send,
        receive_sne: Sne(0),
        receive_sequence: receive,
        acknowledged: send,
        heard: HeardKeys::ALL,
        current_key: KeyId(1),
        rnext_key: KeyId(1),
        counters: Counters::default(),
    };
    let tcp = TcpState {
        send_next: send,
        send_queue: Vec::new(),
        unsent: 0,
        receive_next: receive,
        receive_queue: Vec::new(),
        mss: 1460,
        window_scale: Some(WindowScale { send: 7, receive: 7 }),
        sack: true,
        timestamp: Some(1),
        window: Window {
            send: 65_535,
            send_max: 65_535,
            send_update: receive,
            receive: 65_535,
            receive_update: receive,
        },
    };
    Exported { tcp, authentication, required: false, accept_icmps: false }
}

fn ends() -> [Exported; 2] {
    let at = |port: Port, number| Endpoint::new(port.ipv6(), number);
    let pair = SocketPair { local: at(Port::North, 179), remote: at(Port::South, 40_000) };
    let isns = (u32::MAX - BEFORE_WRAP, u32::MAX - BEFORE_WRAP / 2);
    [exported(pair, isns), exported(pair.reversed(), (isns.1, isns.0))]
}

fn carriers(wire: &Wire, [north, south]: [Exported; 2]) -> [Carrier; 2] {
    let north =
        Carrier::take_up(Place::take_over(wire, Port::North, Port::Host, Port::South), north, &mkts());
    let south =
        Carrier::take_up(Place::take_over(wire, Port::South, Port::Userspace, Port::North), south, &mkts());
    [north.unwrap(), south.unwrap()]
}

fn amount(seed: u64, from: u64) -> Amount {
    Amount { octets: OCTETS, seed, from }
}

/// Both transfer; each keeps answering until the other has finished.
async fn transfer_both([north, south]: &mut [Carrier; 2], from: u64) {
    let both = Barrier::new(2);
    let (to_south, to_north) = (amount(1, from), amount(2, from));
    tokio::join!(
        transfer_one(north, to_south, to_north, &both),
        transfer_one(south, to_north, to_south, &both)
    );
}

async fn transfer_one(carrier: &mut Carrier, send: Amount, receive: Amount, both: &Barrier) {
    carrier.transfer(send, receive).await.unwrap();
    tokio::select! {
        ended = carrier.serve_until(|_| false) => panic!("{ended:?}"),
        _ = both.wait() => {}
    }
}

#[tokio::test]
async fn what_one_hands_back_another_takes_up() {
    let wire = Wire::default();
    let mut both = carriers(&wire, ends());
    transfer_both(&mut both, 0).await;
    let [north, south] = both;
    let ends = [north.export().unwrap(), south.export().unwrap()];
    assert_eq!(ends.each_ref().map(|end| end.authentication.send_sne), [Sne(1); 2]);
    let mut both = carriers(&wire, ends);
    transfer_both(&mut both, OCTETS).await;
    for carrier in &both {
        assert_eq!(carrier.counters().bad, 0);
    }
}
