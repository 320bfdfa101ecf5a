//! Two stacks on one wire, in virtual time: what TCP waits for lost segments is no time of the machine's.
#![allow(clippy::unwrap_used)]

mod common;

use std::net::IpAddr;
use std::time::Duration;

use router_peer::stack::TcpStream;
use router_peer::transport::memory::{Direction, Impairments, Verdict};
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::State;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use common::{Pair, pattern};

const PATIENCE: Duration = Duration::from_secs(600);

/// Opens a connection from A to B.
async fn connect(pair: &Pair, to: IpAddr) -> (TcpStream, TcpStream) {
    let mut listener = pair.b.listen(None, 179).unwrap();
    let (a, b) = tokio::join!(pair.a.connect((to, 179).into(), None), listener.accept());
    (a.unwrap(), b.unwrap())
}

/// Sends `octets` one way and checks them.
async fn transfer(from: &mut TcpStream, to: &mut TcpStream, octets: usize) {
    let sent = pattern(octets, 1);
    let mut received = vec![0; octets];
    let both = async { tokio::join!(from.write_all(&sent), to.read_exact(&mut received)) };
    let (written, read) = timeout(PATIENCE, both).await.unwrap();
    written.unwrap();
    read.unwrap();
    assert!(received == sent, "{octets} octets arrived altered");
}

#[tokio::test(start_paused = true)]
async fn octets_arrive_over_each_family_and_medium() {
    for medium in [Medium::Ip, Medium::Ethernet] {
        let pair = Pair::new(medium);
        for address in pair.addresses_of_b() {
            let (mut a, mut b) = connect(&pair, address).await;
            transfer(&mut a, &mut b, 300_000).await;
            transfer(&mut b, &mut a, 300_000).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_megabytes_survive_loss_reordering_and_duplication() {
    let pair = Pair::new(Medium::Ip);
    pair.wire.impair(Impairments { loss: 5, reordering: 5, duplication: 5 });
    let (mut a, mut b) = connect(&pair, pair.addresses_of_b()[0]).await;
    transfer(&mut a, &mut b, 2_000_000).await;
    let counters = pair.wire.counters();
    for (name, count) in
        [("lost", counters.lost), ("reordered", counters.reordered), ("duplicated", counters.duplicated)]
    {
        assert!(count > counters.carried / 40, "{name}: {counters:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_without_listener_refuses() {
    let pair = Pair::new(Medium::Ip);
    let refused = pair.a.connect((pair.addresses_of_b()[0], 1).into(), None).await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn an_abort_resets_the_peer() {
    let pair = Pair::new(Medium::Ip);
    let (a, mut b) = connect(&pair, pair.addresses_of_b()[0]).await;
    assert_eq!((a.state(), b.state()), (State::Established, State::Established));
    a.abort();
    let read = timeout(PATIENCE, b.read_u8()).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_still_lets_the_stream_end_in_order() {
    let pair = Pair::new(Medium::Ip);
    let (mut ours, mut theirs) = connect(&pair, pair.addresses_of_b()[0]).await;
    ours.write_all(b"last words").await.unwrap();
    drop((ours, pair.a));
    let mut received = Vec::new();
    timeout(PATIENCE, theirs.read_to_end(&mut received)).await.unwrap().unwrap();
    assert_eq!(received, b"last words");
}

#[tokio::test(start_paused = true)]
async fn a_tap_takes_alters_and_injects() {
    let pair = Pair::new(Medium::Ip);
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keep = std::sync::Arc::clone(&kept);
    // The first SYN is taken off the wire; it arrives only when it is put back.
    pair.wire.tap(move |direction, frame| {
        let mut kept = keep.lock().unwrap();
        if direction == Direction::AToB && kept.is_empty() {
            kept.push(std::mem::take(frame));
            return Verdict::Take;
        }
        Verdict::Pass
    });
    let mut listener = pair.b.listen(None, 179).unwrap();
    let connecting = pair.a.connect((pair.addresses_of_b()[0], 179).into(), None);
    let put_back = async {
        while kept.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let syn = kept.lock().unwrap()[0].clone();
        pair.wire.inject(Direction::AToB, syn);
    };
    // Shorter than TCP's first retransmission.
    let opened =
        timeout(Duration::from_millis(800), async { tokio::join!(connecting, put_back, listener.accept()) });
    let (a, (), _b) = opened.await.unwrap();
    a.unwrap();
    assert_eq!((pair.wire.counters().taken, pair.wire.counters().injected), (1, 1));
}
