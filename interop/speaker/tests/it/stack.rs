//! Two stacks on one wire, in virtual time, so that TCP's retransmission timers take no real time.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use smoltcp::socket::tcp::State;
use speaker::link::Wire;
use speaker::link::{DEFAULT_IP_MTU, Link};
use speaker::stack::{Stack, StackConfig, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(600);

/// A stack with an address of each family.
pub fn stack(link: Link, host: u8) -> Stack {
    let addresses = [format!("192.0.2.{host}/24"), format!("2001:db8::{host}/64")];
    let config = StackConfig {
        hardware_address: [2, 0, 0, 0, 0, host],
        addresses: addresses.map(|net| net.parse::<IpNet>().unwrap()).into(),
        seed: host.into(),
        ..StackConfig::default()
    };
    Stack::start(link, Vec::new(), &config).unwrap()
}

/// The second host, in each family.
pub fn second() -> [SocketAddr; 2] {
    ["192.0.2.2:179", "[2001:db8::2]:179"].map(|remote| remote.parse().unwrap())
}

fn pair() -> (Stack, Stack, Wire) {
    let wire = Wire::new(DEFAULT_IP_MTU, 7);
    (stack(wire.a.clone(), 1), stack(wire.b.clone(), 2), wire)
}

pub async fn connect(a: &Stack, b: &Stack, to: SocketAddr) -> (TcpStream, TcpStream) {
    let mut listener = b.listen(None, to.port()).unwrap();
    let opened = timeout(PATIENCE, async { tokio::join!(a.connect(to, None), listener.accept()) });
    let (near, far) = opened.await.unwrap();
    (near.unwrap(), far.unwrap())
}

/// Sends octets one way and checks them.
pub async fn transfer(from: &mut TcpStream, to: &mut TcpStream, octets: usize) {
    let mut rng = fastrand::Rng::with_seed(1);
    let sent: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(octets).collect();
    let mut received = vec![0; octets];
    let both = async { tokio::try_join!(from.write_all(&sent), to.read_exact(&mut received)) };
    timeout(PATIENCE, both).await.unwrap().unwrap();
    assert!(received == sent, "{octets} octets arrived altered");
}

#[tokio::test(start_paused = true)]
async fn octets_arrive_over_each_family() {
    let (a, b, _wire) = pair();
    for remote in second() {
        let (mut near, mut far) = connect(&a, &b, remote).await;
        transfer(&mut near, &mut far, 300_000).await;
        transfer(&mut far, &mut near, 300_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_megabytes_survive_loss_reordering_and_duplication() {
    let (a, b, wire) = pair();
    wire.impair(5);
    let (mut near, mut far) = connect(&a, &b, second()[0]).await;
    transfer(&mut near, &mut far, 2_000_000).await;
    let counters = wire.counters();
    for count in [counters.lost, counters.reordered, counters.duplicated] {
        assert!(count > counters.carried / 40, "{counters:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_port_without_listener_refuses() {
    let (a, _b, _wire) = pair();
    let refused = a.connect(second()[0], None).await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test(start_paused = true)]
async fn an_abort_resets_the_peer() {
    let (a, b, _wire) = pair();
    let (near, mut far) = connect(&a, &b, second()[0]).await;
    assert_eq!((near.state(), far.state()), (State::Established, State::Established));
    near.abort();
    let read = timeout(PATIENCE, far.read_u8()).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_still_lets_the_stream_end_in_order() {
    let (a, b, _wire) = pair();
    let (mut near, mut far) = connect(&a, &b, second()[0]).await;
    near.write_all(b"last words").await.unwrap();
    drop((near, a));
    let mut received = Vec::new();
    timeout(PATIENCE, far.read_to_end(&mut received)).await.unwrap().unwrap();
    assert_eq!(received, b"last words");
}

#[tokio::test(start_paused = true)]
async fn a_tap_takes_what_is_put_back_later() {
    let (a, b, wire) = pair();
    // The first SYN is taken off the wire; it arrives only when it is put back.
    let (keep, mut kept) = tokio::sync::mpsc::channel(1);
    wire.tap(move |_, frame| keep.try_send(frame.to_vec()).is_err());
    let put_back = async {
        let syn = kept.recv().await.unwrap();
        drop(kept);
        wire.inject_at_b(syn);
    };
    // Shorter than TCP's first retransmission.
    let opened = async { tokio::join!(connect(&a, &b, second()[0]), put_back) };
    timeout(Duration::from_millis(800), opened).await.unwrap();
}
