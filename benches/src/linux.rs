//! Linux's own MACs, which programs reach through sockets of the family AF_ALG: a message is sent, and its MAC received.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};

use nix::sys::socket::sockopt::AlgSetKey;
use nix::sys::socket::{
    AddressFamily, AlgAddr, MsgFlags, SockFlag, SockType, accept, bind, recvmsg, sendmsg, setsockopt, socket,
};
use wireseal_algorithms::MacAlgorithm;

use crate::mac::{Library, start};

/// The kernel's MAC; `None` if it has no AF_ALG, or not this MAC.
pub(crate) fn mac(algorithm: MacAlgorithm) -> Option<Library> {
    let name = match algorithm {
        MacAlgorithm::Aes128Cmac => "cmac(aes)",
        MacAlgorithm::HmacSha1 => "hmac(sha1)",
        MacAlgorithm::HmacSha256 => "hmac(sha256)",
        MacAlgorithm::Kmac256 => return None,
    };
    let length = algorithm.output_length();
    Socket::new(name, &vec![0; length])?;
    Some(Library::new("linux AF_ALG", move |key| {
        let socket = Socket::new(name, key).expect("the kernel has it");
        let mut whole = vec![0; length];
        Box::new(move |message| {
            socket.mac(message, &mut whole);
            start(&whole)
        })
    }))
}

/// A keyed socket that takes messages.
struct Socket(RawFd);

impl Socket {
    fn new(name: &str, key: &[u8]) -> Option<Self> {
        let keyed = socket(AddressFamily::Alg, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).ok()?;
        bind(keyed.as_raw_fd(), &AlgAddr::new("hash", name)).ok()?;
        setsockopt(&keyed, AlgSetKey::default(), &key).expect("a key of the right length");
        Some(Self(accept(keyed.as_raw_fd()).expect("a socket for messages")))
    }

    fn mac(&self, message: &[&[u8]], mac: &mut [u8]) {
        let parts: Vec<_> = message.iter().map(|part| IoSlice::new(part)).collect();
        let sent = sendmsg::<()>(self.0, &parts, &[], MsgFlags::empty(), None);
        assert_eq!(sent, Ok(message.iter().map(|part| part.len()).sum()), "the whole message");
        let length = mac.len();
        let mut places = [IoSliceMut::new(mac)];
        let received = recvmsg::<()>(self.0, &mut places, None, MsgFlags::empty());
        assert_eq!(received.expect("a MAC").bytes, length, "the whole MAC");
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Nothing is lost when a measurement's socket does not close.
        let _ = nix::unistd::close(self.0);
    }
}
