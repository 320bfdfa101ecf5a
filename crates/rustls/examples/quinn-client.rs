//! A client of the echo server: it sends a line over quinn and Wireseal and prints what comes back.
//!
//! `quinn-client [SERVER [CERTIFICATE [LINE]]]`: the server's address (default 127.0.0.1:4433), the file with its
//! certificate (default quinn-server.der in the temporary directory) and what to send (default "Hello").

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// The longest answer read, in octets.
const LONGEST_LINE: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match send().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quinn-client: {error}");
            ExitCode::from(2)
        }
    }
}

async fn send() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    let server: SocketAddr = server.parse().map_err(|error| format!("{server}: {error}"))?;
    let file = arguments.next().map_or_else(|| std::env::temp_dir().join("quinn-server.der"), PathBuf::from);
    let line = arguments.next().unwrap_or_else(|| "Hello".to_owned());

    let mut roots = RootCertStore::empty();
    let certificate = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    roots.add(CertificateDer::from(certificate)).map_err(|error| format!("{}: {error}", file.display()))?;

    // rustls gets the provider here; quinn gets the configuration below, through `QuicClientConfig::try_from`.
    let provider = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"echo".to_vec()];

    let unspecified = match server.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let mut endpoint = Endpoint::client(SocketAddr::new(unspecified, 0))?;
    endpoint.set_default_client_config(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));

    let connection =
        endpoint.connect(server, "localhost")?.await.map_err(|error| format!("{server}: {error}"))?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(line.as_bytes()).await?;
    send.finish()?;
    let echo = receive.read_to_end(LONGEST_LINE).await?;
    println!("{}", String::from_utf8_lossy(&echo));

    connection.close(0u8.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}
