//! An echo client and server on quinn without any C: TLS by rustls and graviola, QUIC's cryptography by Wireseal, and a certificate by
//! RustCrypto.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use anyhow::{Context, Result};
use p256::ecdsa::signature::Signer;
use p256::ecdsa::{DerSignature, SigningKey};
use p256::elliptic_curve::Generate;
use p256::pkcs8::EncodePrivateKey;
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};
use rcgen::{CertificateParams, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use wireseal_quinn::{HandshakeData, QuicClientConfig, QuicServerConfig, ResetKey, TokenKey};

const OCTETS: usize = 65536;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    // graviola's suites are for TLS only: rustls refuses QUIC with them until they have QUIC keys.
    let provider = Arc::new(wireseal_rustls::provider(rustls_graviola::default_provider()));
    let (certificate, key) = identity()?;
    let listener = endpoint(&provider, Some(server(&provider, certificate.clone(), key)?))?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        let connection = listener.accept().await.context("nobody came")?.await?;
        echo(&connection).await
    });

    let endpoint = endpoint(&provider, None)?;
    let connecting = endpoint.connect_with(client(&provider, certificate)?, address, "localhost")?;
    let connection = connecting.await?;
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&[7; OCTETS]).await?;
    send.finish()?;
    let back = receive.read_to_end(OCTETS).await?;
    println!("client: {} octets came back, {}", back.len(), sealed(&connection)?);
    connection.close(0_u8.into(), b"done");
    serving.await?
}

async fn echo(connection: &Connection) -> Result<()> {
    let (mut send, mut receive) = connection.accept_bi().await?;
    let octets = receive.read_to_end(OCTETS).await?;
    send.write_all(&octets).await?;
    send.finish()?;
    connection.closed().await;
    println!("server: {} octets echoed, {}", octets.len(), sealed(connection)?);
    Ok(())
}

/// What protects a connection.
fn sealed(connection: &Connection) -> Result<String> {
    let data = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let data = data.context("this connection is not Wireseal's")?;
    let suite = data.cipher_suite.and_then(|suite| suite.as_str()).context("no suite")?;
    Ok(format!("{suite} sealed by {}", data.sealed_by()))
}

fn endpoint(provider: &CryptoProvider, server: Option<ServerConfig>) -> Result<Endpoint> {
    let reset_key = ResetKey::random(provider.secure_random)?;
    let config = EndpointConfig::new(Arc::new(reset_key));
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    Ok(Endpoint::new(config, server, socket, Arc::new(TokioRuntime))?)
}

fn client(provider: &Arc<CryptoProvider>, trusted: CertificateDer<'static>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted)?;
    let tls = rustls::ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)))
}

fn server(
    provider: &Arc<CryptoProvider>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig> {
    let tls = rustls::ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let token_key = TokenKey::random(provider.secure_random)?;
    Ok(ServerConfig::new(Arc::new(QuicServerConfig::try_from(tls)?), Arc::new(token_key)))
}

/// A self-signed certificate for "localhost", and its key.
fn identity() -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>)> {
    let key = Key::new(SigningKey::generate());
    let mut parameters = CertificateParams::new(["localhost".to_owned()])?;
    parameters.serial_number = Some(1.into());
    let certificate = parameters.self_signed(&key)?;
    let octets = key.0.to_pkcs8_der()?;
    let key = PrivateKeyDer::Pkcs8(octets.as_bytes().to_vec().into());
    Ok((certificate.der().clone(), key))
}

/// A key that rcgen can sign with, and its public half.
struct Key(SigningKey, Vec<u8>);

impl Key {
    fn new(key: SigningKey) -> Self {
        let public = key.verifying_key().to_sec1_point(false).as_bytes().to_vec();
        Self(key, public)
    }
}

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.1
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl rcgen::SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signature: DerSignature = self.0.try_sign(message).map_err(|_| rcgen::Error::RemoteKeyError)?;
        Ok(signature.as_bytes().to_vec())
    }
}
