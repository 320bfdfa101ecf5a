//! Two routers with certificates, each of which knows the other's.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::Connection;
use rcgen::{CertificateParams, KeyPair};
use rustls::CipherSuite;
use rustls::pki_types::PrivateKeyDer;
use wireseal_tcp_ao::SocketPair;

use super::ledger::{Ledger, counted};
use crate::bgp::session::{Session, State};
use crate::demo::peers::{Sessions, session_config, until};
use crate::demo::{Failure, ensure};
use crate::quic::{Connector, Fingerprint, Listener, QuicStream, Tls, provider};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A router with a certificate of its own.
#[derive(Clone, Debug)]
pub(super) struct Router {
    tls: Tls,
    pub(super) ledger: Arc<Ledger>,
}

impl Router {
    /// Offers these suites, all of which have to be Wireseal's.
    pub(super) fn new(suites: &[CipherSuite]) -> Result<Self, Failure> {
        let provider = provider();
        for suite in provider.cipher_suites.iter().filter_map(|suite| suite.tls13()) {
            ensure!(wireseal_rustls::is_wireseal(suite), "{suite:?} is not Wireseal's");
        }
        let (provider, ledger) = counted(provider);
        let chosen: Vec<_> = suites
            .iter()
            .filter_map(|name| provider.cipher_suites.iter().find(|suite| suite.suite() == *name).copied())
            .collect();
        ensure!(chosen.len() == suites.len(), "not all of {suites:?} are there");
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::default().self_signed(&key)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok(Self { tls: Tls::new(provider, Some(chosen), certificate.into(), key)?, ledger })
    }

    /// Offers the suite that every QUIC stack has.
    pub(super) fn usual() -> Result<Self, Failure> {
        Self::new(&[CipherSuite::TLS13_AES_128_GCM_SHA256])
    }

    fn fingerprint(&self) -> Fingerprint {
        self.tls.fingerprint()
    }
}

/// Two routers; the first opens connections.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) a: Router,
    pub(super) b: Router,
    connector: Connector,
    listener: Listener,
}

/// A session, seen from both ends, and the connection below it.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) sessions: Sessions,
    pub(super) a: Connection,
    pub(super) b: Connection,
}

impl Pair {
    pub(super) fn new(a: Router, b: Router) -> Result<Self, Failure> {
        let expected = [b.clone(), a.clone()];
        Self::impostor(a, b, expected.each_ref())
    }

    /// Routers of which the first expects the certificate of `expected[0]`, the second that of `expected[1]`.
    pub(super) fn impostor(a: Router, b: Router, expected: [&Router; 2]) -> Result<Self, Failure> {
        let [by_a, by_b] = expected.map(Router::fingerprint);
        let listener = Listener::bind(SocketAddr::from((LOOPBACK, 0)), &b.tls, &[(LOOPBACK, by_b)])?;
        let remote = listener.endpoint().local_addr()?;
        let connector = Connector::new(LOOPBACK, remote, &a.tls, by_a)?;
        Ok(Self { a, b, connector, listener })
    }

    pub(super) fn usual() -> Result<Self, Failure> {
        Self::new(Router::usual()?, Router::usual()?)
    }

    async fn answered(&self) -> Result<QuicStream, Failure> {
        let handshake = self.listener.incoming().await;
        let handshake = handshake.ok_or_else(|| Failure("the socket is closed".to_owned()))?;
        Ok(handshake.finish().await?)
    }

    /// The first router's session on a new connection.
    pub(super) async fn call(&self) -> Result<Session, Failure> {
        Ok(Session::start(self.connector.connect().await?, session_config(1)))
    }

    /// Waits for a connection of the first router's to be accepted.
    pub(super) async fn answer(&self) -> Result<(), Failure> {
        self.answered().await.map(drop)
    }

    /// Connects the routers and waits until their session is established.
    pub(super) async fn establish(&self) -> Result<Up, Failure> {
        let calling = async {
            let stream =
                self.connector.connect().await.map_err(|error| Failure(format!("caller: {error}")))?;
            let connection = stream.connection().clone();
            Ok((Session::start(stream, session_config(1)), connection))
        };
        let ((session_a, a), stream) = tokio::try_join!(calling, self.answered())?;
        let b = stream.connection().clone();
        let session_b = Session::start(stream, session_config(2));
        for session in [&session_a, &session_b] {
            until(session, "the session to be established", |status| status.state == State::Established)
                .await?;
        }
        let pair = SocketPair {
            local: self.connector.endpoint().local_addr()?.into(),
            remote: self.listener.endpoint().local_addr()?.into(),
        };
        Ok(Up { sessions: Sessions { a: session_a, b: session_b, pair }, a, b })
    }

    /// Fails unless both routers have opened all packets that reached them; tells how many.
    pub(super) fn all_opened(&self) -> Result<u64, Failure> {
        for (end, here, there) in [("first", &self.a, &self.b), ("second", &self.b, &self.a)] {
            let (opened, refused, sent) =
                (here.ledger.opened(), here.ledger.refused(), there.ledger.sealed());
            ensure!(refused == 0, "the {end} router refused {refused} packets");
            ensure!(opened > 0 && opened <= sent, "the {end} router opened {opened} packets of {sent}");
        }
        Ok(self.a.ledger.opened() + self.b.ledger.opened())
    }
}
