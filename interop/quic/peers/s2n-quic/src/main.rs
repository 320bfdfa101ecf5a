//! s2n-quic as the other end: `peer-s2n-quic client|server` runs one connection and prints one line of JSON.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use peer_program::{ALPN, Failure, Task, print_report};
use peer_s2n_quic::{AddressValidation, Events, exchange, serve};
use s2n_quic::provider::tls::s2n_tls;
use s2n_quic::{Client, Server};

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
    let client = Client::builder()
        .with_tls(tls)?
        .with_event(events)?
        .with_io(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?
        .start()?;
    exchange(client, task.address, fs::read(&task.payload)?).await
}

async fn server(task: &Task, events: Events) -> Result<Vec<u8>, Failure> {
    let tls = s2n_tls::Server::builder()
        .with_certificate(
            task.certificates.join("server.pem").as_path(),
            task.certificates.join("server.key").as_path(),
        )?
        .with_application_protocols([ALPN])?
        .build()?;
    let server = Server::builder()
        .with_tls(tls)?
        .with_event(events)?
        .with_endpoint_limits(AddressValidation { wanted: task.retry })?
        .with_io(task.address)?
        .start()?;
    serve(server).await
}
