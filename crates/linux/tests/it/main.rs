//! Tests on this machine's kernel, which may or may not have TCP-AO. The lab in `interop/linux` shows what a kernel with TCP-AO
//! does.
#![cfg(target_os = "linux")]

mod manager;
mod net;
mod sockets;

use wireseal_linux::key_chain::KeyChain;
use wireseal_linux::{KeyId, KeyManager, MasterKey, Mkt, PeerName, TcpAoAlgorithm, probe};

const SECRET: &[u8] = b"a secret of many octets, 32 octets";

fn mkt(id: u8, algorithm: TcpAoAlgorithm) -> Mkt {
    Mkt::new(KeyId(id), KeyId(id), algorithm, MasterKey::new(SECRET).unwrap()).unwrap()
}

fn peer(remote: &str) -> PeerName {
    remote.parse().unwrap()
}

fn manager(remote: &str, chain: KeyChain) -> KeyManager {
    let manager = KeyManager::default();
    manager.set_peer(peer(remote), chain).unwrap();
    manager
}

fn has_tcp_ao() -> bool {
    probe().unwrap().tcp_ao
}
