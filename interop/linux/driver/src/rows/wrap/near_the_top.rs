//! Connections whose numbers are about to wrap.

use std::sync::atomic::{AtomicU16, Ordering};

use agent::{ChooseIsn, Counted};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::Medium;
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use speaker::forge;
use speaker::link::{DEFAULT_IP_MTU, Link};
use wireseal_tcp_ao::{Isn, KdfContext, Mkt, Segment, Sne, SocketPair, TrafficKey, verify_segment};

use crate::prelude::*;
use crate::rows::session::{End, Session, Setup};

/// Octets that go each way before the wrap, at most.
pub const BEFORE: u32 = 1 << 20;
/// Octets that go each way in all.
pub const OCTETS: u64 = 4 << 20;
/// An ISN as close to the top.
pub const NEAR_THE_TOP: Isn = Isn(BEFORE.wrapping_neg());
/// The ISN of a connection, whose SYN and FIN take a number each, so that Linux gives the next one of the same ports
/// [`NEAR_THE_TOP`] if the first is in TIME-WAIT: it goes on 65,537 higher (`tcp_timewait_state_process`).
pub const BEFORE_TIME_WAIT: Isn = Isn(NEAR_THE_TOP.0.wrapping_sub(65_535 + 2 + 2));
/// Seeds that are tried: a multiple of what is needed on average.
const SEEDS: u64 = 1 << 20;

/// A port of a guest's that no row has used: something might be in TIME-WAIT there.
pub fn fresh_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(1790);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The kernel opens with a chosen ISN, from a chosen port unless that is 0, to a stack with this seed.
pub async fn connect_from_kernel(
    lab: &Lab,
    setup: Setup,
    isn: Isn,
    port: u16,
    seed: u64,
) -> Result<Session<'_>> {
    let setup = Setup { opener: End::Kernel, ..setup };
    let before: Counted = lab.north.counters().await?;
    let userspace = setup.userspace_seeded(lab, seed)?;
    let socket = setup.kernel_socket_at(lab, port, true).await?;
    lab.north.call(ChooseIsn { socket, isn: isn.0 }).await?;
    Session::connect(lab, setup, before, userspace, socket).await
}

/// Fails unless both directions have gone past the top in mid-transfer; says after how many octets.
pub fn check_wrapped(recording: &Recording, pair: SocketPair) -> Result<String> {
    let mut wrapped_after = Vec::new();
    for pair in [pair, pair.reversed()] {
        let Isn(isn) = forge::isn(recording.packets(), pair)?;
        let mut data = recording.sent(pair).filter(|segment| !segment.payload().is_empty());
        let has_wrapped = data.any(|segment| segment.sequence().0 < isn);
        let before = isn.wrapping_neg();
        ensure!(has_wrapped && before <= BEFORE, "{pair}: sent from {isn} on without a wrap");
        wrapped_after.push(before.to_string());
    }
    Ok(wrapped_after.join(" and "))
}

/// How many of the segments from `pair.local` to `pair.remote` do not verify with an SNE of 0.
pub fn refused_at_sne_0(recording: &Recording, pair: SocketPair, mkt: &Mkt) -> Result<u64> {
    let parameters = mkt.parameters();
    let source_isn = forge::isn(recording.packets(), pair)?;
    let destination_isn = forge::isn(recording.packets(), pair.reversed())?;
    let context = KdfContext { source: pair.local, destination: pair.remote, source_isn, destination_isn };
    let key = TrafficKey::derive(mkt, &context);
    let segments = recording.sent(pair).filter(|segment| !segment.flags().syn());
    Ok(segments.filter(|segment| verify_segment(&key, Sne(0), parameters, segment).is_err()).count() as u64)
}

/// A seed with which the first ISN of a stack is near the top.
pub fn seed_near_the_top() -> Result<u64> {
    seed(|isn| isn.0 >= NEAR_THE_TOP.0)
}

/// A seed with which the first ISN of a stack is as wanted.
pub fn seed(is_wanted: impl Fn(Isn) -> bool) -> Result<u64> {
    let start = fastrand::u64(..);
    let mut seeds = (0..SEEDS).map(|step| start.wrapping_add(step));
    let found = seeds.find(|seed| first_isn(*seed).is_some_and(&is_wanted));
    found.context("no seed will do")
}

/// The ISN of the first connection that a stack with this seed opens or accepts: it is the first random number of the stack.
fn first_isn(seed: u64) -> Option<Isn> {
    let (own, other) = (IpAddress::v4(192, 0, 2, 1), IpAddress::v4(192, 0, 2, 2));
    let mut link = Link::new(Medium::Ip, DEFAULT_IP_MTU);
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface = Interface::new(config, &mut link, Instant::ZERO);
    interface.update_ip_addrs(|addresses| {
        // There is room for one.
        let _ = addresses.push(IpCidr::new(own, 24));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let mut socket = Socket::new(SocketBuffer::new(vec![0]), SocketBuffer::new(vec![0]));
    socket.connect(interface.context(), (other, 179), (own, 49_152)).ok()?;
    sockets.add(socket);
    interface.poll(Instant::ZERO, &mut link, &mut sockets);
    let syn = link.from_stack.try_pop()?;
    Some(Isn(Segment::parse(&syn).ok()?.sequence().0))
}
