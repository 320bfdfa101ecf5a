//! Listeners and streams: what they say if they cannot be opened.

use std::net::{SocketAddr, TcpListener};

use wireseal_linux::key_chain::{Key, KeyChain};
use wireseal_linux::{
    Error, KeyId, KeyManager, Local, ManagerError, MasterKey, Mkt, TcpAoAlgorithm, TcpAoListener,
    TcpAoStream, probe,
};

fn manager() -> KeyManager {
    let secret = MasterKey::new(b"a secret of many octets").unwrap();
    let mkt = Mkt::new(KeyId(1), KeyId(1), TcpAoAlgorithm::HmacSha1, secret).unwrap();
    let chain = KeyChain::new("tested", vec![Key::new(1, mkt)]).unwrap();
    KeyManager::new(chain, "127.0.0.0/8".parse().unwrap(), None).unwrap()
}

/// An address that this host does not have (RFC 5737).
const ELSEWHERE: &str = "192.0.2.1:179";

#[tokio::test]
async fn errors_name_the_address() {
    let elsewhere: SocketAddr = ELSEWHERE.parse().unwrap();
    let errors = [
        TcpAoListener::bind(elsewhere, &manager()).unwrap_err(),
        TcpAoListener::bind_async(elsewhere, &manager()).await.unwrap_err(),
    ];
    for error in errors {
        let said = error.to_string();
        assert_eq!(said, "cannot listen on 192.0.2.1:179: Cannot assign requested address (os error 99)");
    }
    let here: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let local = Local { address: Some(elsewhere.ip()), vrf: None };
    let errors = [
        TcpAoStream::connect_from(local, here, &manager()).unwrap_err(),
        TcpAoStream::connect_async_from(local, here, &manager()).await.unwrap_err(),
    ];
    for error in errors {
        let said = error.to_string();
        assert_eq!(said, "cannot connect to 127.0.0.1:9: Cannot assign requested address (os error 99)");
    }
    for error in [
        TcpAoStream::connect(elsewhere, &manager()).unwrap_err(),
        TcpAoStream::connect_async(elsewhere, &manager()).await.unwrap_err(),
    ] {
        assert!(matches!(error, ManagerError::NoPeer(address) if address == elsewhere.ip()), "{error}");
    }
}

#[tokio::test]
async fn a_kernel_without_tcp_ao_is_named_and_one_with_it_serves() {
    let free: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let manager = manager();
    let plain = TcpListener::bind(free).unwrap();
    let attached = manager.attach_async(&plain, wireseal_linux::key_chain::Timestamp::MIN).await;
    let listener = match TcpAoListener::bind_async(free, &manager).await {
        Ok(listener) => listener,
        Err(error) => {
            assert!(!probe().unwrap().tcp_ao, "{error}");
            for error in [error, attached.unwrap_err()] {
                assert!(matches!(error, ManagerError::Socket { error: Error::NotSupported, .. }), "{error}");
            }
            return;
        }
    };
    let _attachment = attached.unwrap();
    let (address, local) =
        (listener.local_addr().unwrap(), Local { address: Some([127, 0, 0, 2].into()), vrf: None });
    let (accepted, connected) =
        tokio::join!(listener.accept(), TcpAoStream::connect_async_from(local, address, &manager));
    let remote = accepted.unwrap().1;
    assert_eq!(connected.unwrap().local_addr().unwrap(), remote);
    assert_eq!(remote.ip(), std::net::IpAddr::from([127, 0, 0, 2]));
}
