//! A daemon on mio: one thread for all sessions, which never waits in the kernel for keys. It echoes what its peers send.
//!
//! ```text
//! cargo run -p wireseal-linux --example mio -- 0.0.0.0:1790 192.0.2.0/24 'a secret of both ends'
//! ```

use std::collections::HashMap;
use std::env::args;
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use socket2::{Domain, SockRef, Socket, Type};
use wireseal_linux::key_chain::{Key, KeyChain, Timestamp};
use wireseal_linux::{Attachment, KeyId, KeyManager, MasterKey, Mkt, TcpAoAlgorithm};

const LISTENER: Token = Token(usize::MAX - 1);
const KEYS: Token = Token(usize::MAX - 2);

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    eprintln!("mio: {error}");
    ExitCode::FAILURE
}

fn run() -> Result<(), Box<dyn Error>> {
    let [local, network, secret] = &args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: mio ADDRESS:PORT NETWORK SECRET".into());
    };
    let local: SocketAddr = local.parse()?;
    let secret = MasterKey::new(secret.as_bytes())?;
    let mkt = Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::HmacSha1, secret)?;
    let keys = KeyManager::default();
    keys.set_peer(network.parse()?, KeyChain::new("peers", vec![Key::new(1, mkt)])?)?;

    // A thread of its own takes the steps; the loop gets their reports.
    let mut poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), KEYS)?;
    let (sender, reports) = mpsc::channel();
    keys.spawn(move |report| {
        let _ = sender.send(report).map(|()| waker.wake());
    })?;

    // Keys first, so that no peer gets in unsigned.
    let socket = Socket::new(Domain::for_address(local), Type::STREAM.nonblocking(), None)?;
    let _attachment = keys.attach(&socket, Timestamp::now())?;
    socket.bind(&local.into())?;
    socket.listen(64)?;
    let mut listener = TcpListener::from_std(socket.into());
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;

    let mut sessions: HashMap<Token, (TcpStream, Attachment)> = HashMap::new();
    let mut events = Events::with_capacity(64);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            match event.token() {
                LISTENER => {
                    while let Ok((mut stream, remote)) = listener.accept() {
                        match keys.attach_accepted(&stream, remote.ip(), Timestamp::now()) {
                            Ok(attachment) => {
                                let token = Token(attachment.number() as usize);
                                poll.registry().register(&mut stream, token, Interest::READABLE)?;
                                sessions.insert(token, (stream, attachment));
                            }
                            Err(error) => {
                                println!("{remote}: reset: {error}");
                                SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
                            }
                        }
                    }
                }
                KEYS => {
                    let stepped = reports.try_iter().flat_map(|report| report.sockets);
                    for socket in stepped.filter(|socket| socket.state.expired) {
                        sessions.remove(&Token(socket.attachment as usize));
                    }
                }
                token => {
                    let is_open = sessions.get_mut(&token).is_some_and(|(stream, _)| echo(stream));
                    if !is_open {
                        sessions.remove(&token);
                    }
                }
            }
        }
    }
}

/// Returns false at the end of the session.
fn echo(stream: &mut TcpStream) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(octets) if stream.write_all(&buffer[..octets]).is_ok() => {}
            Ok(_) => return false,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }
}
