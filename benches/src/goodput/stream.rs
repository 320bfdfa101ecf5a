//! TCP, bare and under TLS, with blocking sockets and a thread for each end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use super::ends::{Ends, Result, SENT, is_sent};

/// Connects, and runs `receive` and `send` at the two ends.
fn between<R, S>(receive: R, send: S) -> Result<Duration>
where
    R: FnOnce(TcpStream) -> Result<()> + Send + 'static,
    S: FnOnce(TcpStream) -> Result<Duration>,
{
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    let receiver = thread::spawn(move || receive(listener.accept()?.0));
    let elapsed = send(TcpStream::connect(address)?)?;
    receiver.join().map_err(|_| "the receiving end panicked")??;
    Ok(elapsed)
}

/// Reads that many octets, then answers with one octet.
fn receive(stream: &mut (impl Read + Write), octets: usize) -> Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut received = 0;
    while received < octets {
        let length = stream.read(&mut buffer)?;
        if length == 0 || !is_sent(&buffer[..length]) {
            return Err("other octets than were sent".into());
        }
        received += length;
    }
    stream.write_all(&[1])?;
    Ok(stream.flush()?)
}

/// Writes the octets, and waits until the peer has read them.
fn send(stream: &mut (impl Read + Write), write: usize, octets: usize) -> Result<Duration> {
    let start = Instant::now();
    for _ in 0..octets / write {
        stream.write_all(&SENT[..write])?;
    }
    stream.flush()?;
    stream.read_exact(&mut [0])?;
    Ok(start.elapsed())
}

pub(super) fn tcp(write: usize, octets: usize) -> Result<Duration> {
    between(move |mut stream| receive(&mut stream, octets), |mut stream| send(&mut stream, write, octets))
}

pub(super) fn tls(ends: &Ends, write: usize, octets: usize) -> Result<Duration> {
    let mut server = ServerConnection::new(Arc::new(ends.server.clone()))?;
    let mut client =
        ClientConnection::new(Arc::new(ends.client.clone()), ServerName::try_from("localhost")?)?;
    let receiver = move |mut stream: TcpStream| {
        server.complete_io(&mut stream)?;
        receive(&mut StreamOwned::new(server, stream), octets)
    };
    between(receiver, |mut stream| {
        client.complete_io(&mut stream)?;
        send(&mut StreamOwned::new(client, stream), write, octets)
    })
}
