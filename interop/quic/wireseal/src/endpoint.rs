//! quinn's endpoints for one run.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use peer_program::Failure;
use quinn::{AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::time::timeout;
use wireseal_quinn::{CountedKeys, KeyUse, TokenKey, counted_client, counted_server};

use crate::recording::{Report, Used, Wire, print_report};
use crate::task::{Application, Keys, Task, with_suite};
use crate::transfer::{Updates, echo_client, echo_server, http3_client, http3_server};

const NAME: &str = "localhost";
const CLOSED: u32 = 0;
const CLOSING: Duration = Duration::from_millis(100);

/// Writes `ca.pem`, and `server.pem` with `server.key` for localhost, issued by that CA.
pub(crate) fn write_certificates(folder: &Path) -> Result<(), Failure> {
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // A name of its own, because a certificate whose issuer equals its subject counts as self-signed.
    ca.distinguished_name.push(DnType::CommonName, "interop CA");
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = vec![NAME.to_owned(), Ipv4Addr::LOCALHOST.to_string()];
    let certificate = CertificateParams::new(names)?.signed_by(&key, &ca)?;
    fs::write(folder.join("ca.pem"), ca.pem())?;
    fs::write(folder.join("server.pem"), certificate.pem())?;
    fs::write(folder.join("server.key"), key.serialize_pem())?;
    Ok(())
}

/// Connects, carries the payload to the server and back, and prints a report.
pub(crate) async fn client(task: &Task) -> Result<(), Failure> {
    let provider = Arc::new(with_suite(&task.suite)?);
    let wire = Wire::bind((Ipv4Addr::LOCALHOST, 0).into(), task.record.as_deref())?;
    let mut tls = task.client_tls(provider)?;
    tls.key_log = wire.key_log;
    let (crypto, keys) = counted_client(task.keys.client(tls)?);
    let mut config = ClientConfig::new(crypto);
    config.version(task.version);

    let payload = fs::read(&task.payload)?;
    let mut versions = EndpointConfig::default();
    versions.supported_versions(vec![task.version]);
    let endpoint = endpoint(versions, None, wire.socket)?;
    let connection = endpoint.connect_with(config, task.address, NAME)?.await?;
    task.keys.check(&connection)?;
    let mut updates = Updates::new(&connection, Arc::clone(&keys), task.update_keys, payload.len());
    let received = match task.application {
        Application::Echo => echo_client(&connection, &payload, &mut updates).await?,
        Application::Http3 => http3_client(&connection, &payload, &mut updates).await?,
    };
    connection.close(CLOSED.into(), b"");
    // Long enough to send CONNECTION_CLOSE, without the draining period.
    let _ = timeout(CLOSING, endpoint.wait_idle()).await;
    // A client derives a second pair of Initial keys when a Retry gives it another connection ID.
    let retry = keys.initial_keys().len() > 2;
    print(task, &keys, &received, updates.started(), retry);
    Ok(())
}

/// Serves one connection, and prints a report.
pub(crate) async fn server(task: &Task) -> Result<(), Failure> {
    let provider = Arc::new(with_suite(&task.suite)?);
    let random = provider.secure_random;
    let wire = Wire::bind(task.address, task.record.as_deref())?;
    let mut tls = task.server_tls(provider)?;
    tls.key_log = wire.key_log;
    let (crypto, keys) = counted_server(task.keys.server(tls)?);
    let config = match task.keys {
        Keys::Rustls => ServerConfig::with_crypto(crypto),
        Keys::KeyModule => ServerConfig::new(crypto, Arc::new(TokenKey::random(random)?)),
    };

    let endpoint = endpoint(EndpointConfig::default(), Some(config), wire.socket)?;
    println!("listening {}", endpoint.local_addr()?.port());
    let (connection, retries_sent) = accept(&endpoint, task.retry).await?;
    task.keys.check(&connection)?;
    let mut updates = Updates::new(&connection, Arc::clone(&keys), task.update_keys, payload_length(task)?);
    let received = match task.application {
        Application::Echo => echo_server(&connection, &mut updates).await?,
        Application::Http3 => http3_server(&connection, &mut updates).await?,
    };
    connection.closed().await;
    print(task, &keys, &received, updates.started(), retries_sent > 0);
    Ok(())
}

fn print(task: &Task, keys: &CountedKeys, received: &[u8], updates_started: usize, retry: bool) {
    let used =
        |keys: Vec<KeyUse>| keys.iter().map(|key| Used { sealed: key.sealed, opened: key.opened }).collect();
    print_report(&Report {
        suite: &task.suite,
        initial: used(keys.initial_keys()),
        others: used(keys.packet_keys()),
        received,
        updates_started,
        retry,
    });
}

fn payload_length(task: &Task) -> Result<usize, Failure> {
    Ok(usize::try_from(fs::metadata(&task.payload)?.len())?)
}

fn endpoint(
    config: EndpointConfig,
    server: Option<ServerConfig>,
    socket: Arc<dyn AsyncUdpSocket>,
) -> Result<Endpoint, Failure> {
    Ok(Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(TokioRuntime))?)
}

/// The first connection, and how many Retry packets were sent before it.
async fn accept(endpoint: &Endpoint, retry: bool) -> Result<(Connection, usize), Failure> {
    let mut retries = 0;
    while let Some(incoming) = endpoint.accept().await {
        if retry && !incoming.remote_address_validated() {
            incoming.retry()?;
            retries += 1;
        } else {
            return Ok((incoming.await?, retries));
        }
    }
    Err("the endpoint closed before any connection".into())
}
