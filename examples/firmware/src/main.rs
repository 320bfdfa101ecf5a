//! An image with an echo service on TCP port 7 (RFC 862), every connection under TCP-AO. Its console shows what it has refused.
//!
//! The console takes commands of one octet: `c` for the counters, `r` for the next key on all connections.
#![no_std]
#![no_main]

use core::fmt::{self, Write};
use core::net::Ipv4Addr;

use cortex_m_rt::entry;
use firmware::board::{Board, Console};
use firmware::card::Card;
#[cfg(feature = "quic")]
use firmware::initial;
#[cfg(feature = "tcp-ao")]
use firmware::keys;
use panic_halt as _;
use smoltcp::iface::{Config, Interface, SocketSet, SocketStorage};
use smoltcp::socket::tcp;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};
use static_cell::ConstStaticCell;

const HARDWARE_ADDRESS: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 7]);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const NETWORK_LENGTH: u8 = 24;

const ECHO_PORT: u16 = 7;
/// Connections at a time, and octets that each has room for each way.
const SESSIONS: usize = 2;
const ROOM: usize = 2048;

#[cfg(not(feature = "tcp-ao"))]
type Device = Card;
#[cfg(feature = "tcp-ao")]
type Device = firmware::keys::Device;

#[entry]
fn main() -> ! {
    let Some(Board { mut console, card, mut clock }) = Board::take() else { stop() };
    let (hash_key, seed) = random(&mut console);
    let mut device = device(Card::new(card, HARDWARE_ADDRESS), hash_key, &mut console);
    let mut config = Config::new(HardwareAddress::Ethernet(HARDWARE_ADDRESS));
    config.random_seed = seed;
    let mut interface = Interface::new(config, &mut device, clock.now());
    interface.update_ip_addrs(|addresses| {
        // Fits, because it is the first one.
        let _ = addresses.push(IpCidr::new(ADDRESS.into(), NETWORK_LENGTH));
    });

    static STORAGE: ConstStaticCell<[SocketStorage<'static>; SESSIONS + 1]> =
        ConstStaticCell::new([SocketStorage::EMPTY; SESSIONS + 1]);
    static ROOMS: ConstStaticCell<[[[u8; ROOM]; 2]; SESSIONS]> =
        ConstStaticCell::new([[[0; ROOM]; 2]; SESSIONS]);
    let mut sockets = SocketSet::new(STORAGE.take().as_mut_slice());
    let sessions = ROOMS.take().each_mut().map(|rooms| {
        let [receive, send] = rooms.each_mut().map(|room| tcp::SocketBuffer::new(room.as_mut_slice()));
        sockets.add(tcp::Socket::new(receive, send))
    });
    #[cfg(feature = "quic")]
    let mut quic = initial::Listener::new(&mut sockets);

    say(&mut console, format_args!("up"));
    loop {
        interface.poll(clock.now(), &mut device, &mut sockets);
        for session in sessions {
            echo(sockets.get_mut(session));
        }
        #[cfg(feature = "quic")]
        if let Some(packet) = quic.receive(&mut sockets) {
            say(&mut console, format_args!("{packet}"));
        }
        #[cfg(feature = "tcp-ao")]
        command(&mut console, &mut device);
        // Wakes at the next tick of the clock at the latest.
        cortex_m::asm::wfi();
    }
}

/// The card, with TCP-AO on it. In a frame of its own, so that the stack has room for the rest of the program again afterwards.
#[cfg(feature = "tcp-ao")]
#[inline(never)]
fn device(card: Card, hash_key: [u8; 16], console: &mut Console) -> Device {
    let network = cidr::Ipv4Inet::new(ADDRESS, NETWORK_LENGTH).map(|inet| inet.network());
    let network = or_stop(network, console);
    let mkts = or_stop(keys::mkts(), console);
    or_stop(keys::authenticate(card, ADDRESS, network, mkts, hash_key), console)
}

#[cfg(not(feature = "tcp-ao"))]
fn device(card: Card, _: [u8; 16], _: &mut Console) -> Device {
    card
}

/// Random octets from the console, because the board has no generator: 16 for the key of the shim's tables, and eight from which smoltcp
/// chooses ISNs and ports.
fn random(console: &mut Console) -> ([u8; 16], u64) {
    say(console, format_args!("seed?"));
    let mut octet = |_| loop {
        if let Some(octet) = console.read() {
            break octet;
        }
    };
    (core::array::from_fn(&mut octet), u64::from_le_bytes(core::array::from_fn(octet)))
}

/// Listens, sends back what was received as far as there is room, and closes when the peer has closed.
fn echo(socket: &mut tcp::Socket<'_>) {
    if !socket.is_open() {
        // Refused only on port 0 and on an open socket.
        let _ = socket.listen(ECHO_PORT);
    }
    let mut piece = [0; 256];
    while socket.can_recv() && socket.can_send() {
        let room = piece.len().min(socket.send_capacity() - socket.send_queue());
        let Ok(octets) = socket.recv_slice(&mut piece[..room]) else { break };
        // There is room for them.
        let _ = socket.send_slice(&piece[..octets]);
    }
    if socket.state() == tcp::State::CloseWait && !socket.can_recv() {
        socket.close();
    }
}

/// Carries out commands from the console.
#[cfg(feature = "tcp-ao")]
fn command(console: &mut Console, device: &mut Device) {
    match console.read() {
        Some(b'c') => say(console, format_args!("{}", keys::Report(device))),
        Some(b'r') => {
            keys::roll_over(device);
            say(console, format_args!("asked for the next key"));
        }
        _ => {}
    }
}

/// A line on the console.
fn say(console: &mut Console, line: fmt::Arguments<'_>) {
    // The console never fails.
    let _ = writeln!(console, "{line}");
}

/// The value. If there is none, prints the reason on the console and stops.
#[cfg(feature = "tcp-ao")]
fn or_stop<T>(result: Result<T, impl fmt::Display>, console: &mut Console) -> T {
    match result {
        Ok(value) => value,
        Err(error) => {
            say(console, format_args!("{error}"));
            stop()
        }
    }
}

fn stop() -> ! {
    loop {
        cortex_m::asm::wfi();
    }
}
