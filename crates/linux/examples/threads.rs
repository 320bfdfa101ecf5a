//! A daemon with a thread for each peer: it opens the connections itself, and changes the key of all peers once, while they are connected.
//!
//! ```text
//! cargo run -p wireseal-linux --example threads -- 'the old secret' 'the new secret' 192.0.2.1:1790 192.0.2.2:1790
//! ```

use std::env::args;
use std::error::Error;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use wireseal_linux::key_chain::{Key, KeyChain, Timestamp};
use wireseal_linux::{Barrier, KeyId, KeyManager, MasterKey, Mkt, PeerName, TcpAoAlgorithm};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("threads: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = args().skip(1).collect();
    let [old, new, remotes @ ..] = &arguments[..] else {
        return Err("usage: threads OLD-SECRET NEW-SECRET ADDRESS:PORT...".into());
    };
    let remotes: Vec<SocketAddr> = remotes.iter().map(|remote| remote.parse()).collect::<Result<_, _>>()?;
    let (old, new) = (key(1, old)?, key(2, new)?);

    let keys = KeyManager::default();
    let chain = KeyChain::new("peers", vec![old.clone()])?;
    keys.set_peers(remotes.iter().map(|remote| (peer(remote), chain.clone())))?;
    keys.spawn(|report| {
        for (_, error) in report.sockets.iter().flat_map(|socket| &socket.failed) {
            println!("{error}");
        }
    })?;
    for remote in remotes.clone() {
        let keys = keys.clone();
        thread::spawn(move || match session(&keys, remote) {
            Ok(()) => println!("{remote}: closed"),
            Err(error) => println!("{remote}: {error}"),
        });
    }

    println!("Enter changes the key");
    io::stdin().read_line(&mut String::new())?;
    let chain = KeyChain::new("peers", vec![old, new])?.with_preferred(2)?;
    let mut change = keys.transaction();
    for remote in &remotes {
        change.set_peer(peer(remote), chain.clone());
    }
    let generation = change.commit()?;
    let progress = keys.wait_until(generation, Barrier::Moved, Duration::from_secs(60));
    println!("{generation}: {} connections", progress.sockets);
    progress.not_held.iter().for_each(|socket| println!("without the new key: {socket}"));
    progress.not_moved.iter().for_each(|socket| println!("not using the new key: {socket}"));
    Ok(())
}

fn key(id: u8, secret: &str) -> Result<Key, Failure> {
    let secret = MasterKey::new(secret.as_bytes())?;
    Ok(Key::new(id.into(), Mkt::new(KeyId(id), KeyId(id), TcpAoAlgorithm::HmacSha1, secret)?))
}

fn peer(remote: &SocketAddr) -> PeerName {
    PeerName::new(cidr::IpCidr::new_host(remote.ip()))
}

/// Talks to a peer until it closes the connection, or has no key left.
fn session(keys: &KeyManager, remote: SocketAddr) -> Result<(), Failure> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None)?;
    socket.set_tcp_mss(1400)?;
    let attachment = keys.attach_connecting(&socket, remote, Timestamp::now())?;
    socket.connect(&remote.into())?;
    socket.set_read_timeout(Some(Duration::from_secs(1)))?;
    let mut buffer = [0; 4096];
    while !attachment.state().expired {
        (&socket).write_all(b"still here\n")?;
        match (&socket).read(&mut buffer) {
            Ok(0) => break,
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
