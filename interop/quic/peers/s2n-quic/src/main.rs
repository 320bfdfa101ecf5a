//! s2n-quic as the other end: `peer-s2n-quic client|server` runs one connection and prints one line of JSON.

mod events;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use peer_program::{ALPN, Failure, Task, print_report};
use s2n_quic::client::Connect;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::tls::s2n_tls;
use s2n_quic::{Client, Connection, Server};

use crate::events::Events;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let task = Task::from_arguments()?;
    let events = Events::default();
    let received = if task.is_server {
        server(&task, events.clone()).await?
    } else {
        client(&task, events.clone()).await?
    };
    print_report(&events.seen(), &received)
}

async fn client(task: &Task, events: Events) -> Result<Vec<u8>, Failure> {
    let tls = s2n_tls::Client::builder()
        .with_certificate(task.certificates.join("ca.pem").as_path())?
        .with_application_protocols([ALPN])?
        .build()?;
    let mut client = Client::builder()
        .with_tls(tls)?
        .with_event(events)?
        .with_io(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
        .start()?;
    let mut connection = client.connect(Connect::new(task.address).with_server_name("localhost")).await?;
    let (mut receive, mut send) = connection.open_bidirectional_stream().await?.split();
    let payload = fs::read(&task.payload)?;
    let sending = async {
        send.send(payload.into()).await?;
        send.finish()?;
        Ok::<(), Failure>(())
    };
    let receiving = async {
        let mut received = Vec::new();
        while let Some(piece) = receive.receive().await? {
            received.extend_from_slice(&piece);
        }
        Ok(received)
    };
    let ((), received) = tokio::try_join!(sending, receiving)?;
    connection.close(0_u32.into());
    client.wait_idle().await?;
    Ok(received)
}

async fn server(task: &Task, events: Events) -> Result<Vec<u8>, Failure> {
    let tls = s2n_tls::Server::builder()
        .with_certificate(
            task.certificates.join("server.pem").as_path(),
            task.certificates.join("server.key").as_path(),
        )?
        .with_application_protocols([ALPN])?
        .build()?;
    let mut server = Server::builder()
        .with_tls(tls)?
        .with_event(events)?
        .with_endpoint_limits(AddressValidation { wanted: task.retry })?
        .with_io(task.address)?
        .start()?;
    println!("listening {}", server.local_addr()?.port());

    let mut connection = server.accept().await.ok_or("the endpoint closed before any connection")?;
    let stream = connection.accept_bidirectional_stream().await?.ok_or("the client opened no stream")?;
    let (mut receive, mut send) = stream.split();
    let mut received = Vec::new();
    while let Some(piece) = receive.receive().await? {
        received.extend_from_slice(&piece);
        send.send(piece).await?;
    }
    send.finish()?;
    closed(&mut connection).await;
    Ok(received)
}

/// Waits until the client closes the connection.
async fn closed(connection: &mut Connection) {
    while let Ok(Some(_)) = connection.accept_bidirectional_stream().await {}
}

/// Validates each client's address with a Retry, if `wanted`.
struct AddressValidation {
    wanted: bool,
}

impl Limiter for AddressValidation {
    fn on_connection_attempt(&mut self, _: &ConnectionAttempt<'_>) -> Outcome {
        if self.wanted { Outcome::retry() } else { Outcome::allow() }
    }
}
