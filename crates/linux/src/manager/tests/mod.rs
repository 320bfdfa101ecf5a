//! The manager without a kernel that has TCP-AO.

mod kernel_model;
mod pair;
mod plan;

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use kernel_model::{at, chain, key, lifetime, mkt};

use crate::KeyManager;
use crate::manager::attached::Attached;
use crate::manager::attachment::{Attachment, Entry, lock};

#[test]
fn a_socket_is_detached_while_a_step_waits_in_the_kernel_for_another() {
    let chain = chain(0, [key(1, mkt(1, 1, 1), lifetime(None, None))]);
    let manager = KeyManager::new(chain, "127.0.0.1".parse().unwrap(), None).unwrap();
    // Listed by hand: attaching needs a kernel with TCP-AO.
    let list = |number| {
        let attached = Attached::new(&TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let identity = attached.identity;
        let socket = Arc::new(Mutex::new(attached));
        manager.shared.state().sockets.push(Entry { number, identity, socket: Arc::clone(&socket) });
        (socket, Attachment { shared: Arc::clone(&manager.shared), number })
    };
    let (waiting, waiting_attachment) = list(0);
    let (_, detached) = list(1);

    let now = at(0);
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
