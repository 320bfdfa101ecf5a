use std::net::TcpListener;
use std::thread;

use wireseal_algorithms::TcpAoAlgorithm::HmacSha1;
use wireseal_tcp_ao::key_chain::Key;
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use super::*;

#[test]
fn a_socket_is_detached_while_a_step_waits_in_the_kernel_for_another() {
    let mkt = Mkt::new(KeyId(1), KeyId(1), HmacSha1, MasterKey::new(&[7; 32]).unwrap()).unwrap();
    let chain = KeyChain::new("tested", vec![Key::new(1, mkt)]).unwrap();
    let manager = KeyManager::new(chain, "127.0.0.1".parse().unwrap(), None).unwrap();
    // Listed by hand: attaching needs a kernel with TCP-AO.
    let list = |number| {
        let attached = Attached::new(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let identity = attached.identity;
        let socket = Arc::new(Mutex::new(attached));
        manager.shared.state().sockets.push(Entry { number, identity, socket: Arc::clone(&socket) });
        (socket, Attachment::new(Arc::clone(&manager.shared), number))
    };
    let (waiting, waiting_attachment) = list(0);
    let (_, detached) = list(1);

    let now = Timestamp::from_unix_seconds(0);
    let in_the_kernel = lock(&waiting);
    thread::scope(|scope| {
        let step = scope.spawn(|| manager.step(now));
        while manager.shared.state().pace.is_due(now) {
            thread::yield_now();
        }
        drop(detached);
        assert_eq!(manager.shared.state().sockets.len(), 1);
        drop(in_the_kernel);
        let numbers: Vec<u64> = step.join().unwrap().sockets.iter().map(|socket| socket.attachment).collect();
        assert_eq!(numbers, [0]);
    });
    drop(waiting_attachment);
    assert!(manager.shared.state().sockets.is_empty());
}
