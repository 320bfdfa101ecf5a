//! An echo server on quinn and Wireseal. It writes its self-signed certificate to a file, prints where it listens, and echoes
//! each line that a client sends.
//!
//! `quinn-server [LISTEN [CERTIFICATE]]`: the address (default 127.0.0.1:4433; port 0 takes a free one) and the file
//! for the certificate (default quinn-server.der in the temporary directory).

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig};
use rustls::pki_types::PrivatePkcs8KeyDer;

/// The longest line echoed, in octets.
const LONGEST_LINE: usize = 64 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match serve().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quinn-server: {error}");
            ExitCode::from(2)
        }
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    let listen: SocketAddr = listen.parse().map_err(|error| format!("{listen}: {error}"))?;
    let file = arguments.next().map_or_else(|| std::env::temp_dir().join("quinn-server.der"), PathBuf::from);

    let identity = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());

    // rustls gets the provider here; quinn gets the configuration below, through `QuicServerConfig::try_from`.
    let provider = wireseal_rustls::provider(rustls::crypto::ring::default_provider());
    let sealed = provider.cipher_suites.iter().filter(|suite| wireseal_rustls::is_wireseal(suite)).count();
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key.into())?;
    tls.alpn_protocols = vec![b"echo".to_vec()];
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));

    let endpoint = Endpoint::server(config, listen).map_err(|error| format!("{listen}: {error}"))?;
    // Written only now, so that a server that fails to start does not overwrite the certificate of a running one.
    std::fs::write(&file, identity.cert.der()).map_err(|error| format!("{}: {error}", file.display()))?;
    println!("listening on {}, certificate in {}", endpoint.local_addr()?, file.display());
    println!("{sealed} suites of QUIC are Wireseal's");
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let client = incoming.remote_address();
            if let Err(error) = echo(incoming).await {
                eprintln!("{client}: {error}");
            }
        });
    }
    Ok(())
}

/// Echoes every stream of a connection until the client closes it.
async fn echo(incoming: Incoming) -> Result<(), Box<dyn Error>> {
    let connection = incoming.await?;
    loop {
        let (mut send, mut receive) = match connection.accept_bi().await {
            Ok(stream) => stream,
            Err(quinn::ConnectionError::ApplicationClosed(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let line = receive.read_to_end(LONGEST_LINE).await?;
        println!("{}: {} octets", connection.remote_address(), line.len());
        send.write_all(&line).await?;
        send.finish()?;
    }
}
