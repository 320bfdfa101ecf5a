//! Linux's own ciphers and MACs, which programs reach through sockets of the family AF_ALG: a message is sent, and its ciphertext
//! or MAC received.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};

use nix::libc::ALG_OP_ENCRYPT;
use nix::sys::socket::sockopt::{AlgSetAeadAuthSize, AlgSetKey};
use nix::sys::socket::{
    AddressFamily, AlgAddr, ControlMessage, MsgFlags, SockFlag, SockType, accept, bind, recvmsg, sendmsg,
    setsockopt, socket,
};
use wireseal_algorithms::MacAlgorithm;

use super::{mac, start};

const TAG: usize = 16;

/// Takes a message under a key, as the engines do.
type Run = Box<dyn FnMut(&mut [u8]) -> [u8; 12]>;

/// The kernel's AES-128-CTR; `None` if it has no AF_ALG, or not this cipher.
pub(super) fn ctr(key: &[u8; 16], nonce: &'static [u8; 16]) -> Option<Run> {
    let socket = Socket::new("skcipher", "ctr(aes)", key, None)?;
    let control = [ControlMessage::AlgSetOp(&ALG_OP_ENCRYPT), ControlMessage::AlgSetIv(nonce)];
    Some(Box::new(move |octets| {
        socket.send(octets, &control);
        socket.receive(octets, &mut []);
        [0; 12]
    }))
}

/// The kernel's AES-128-GCM.
pub(super) fn gcm(key: &[u8; 16], nonce: &'static [u8; 12]) -> Option<Run> {
    let socket = Socket::new("aead", "gcm(aes)", key, Some(TAG))?;
    let control = [
        ControlMessage::AlgSetOp(&ALG_OP_ENCRYPT),
        ControlMessage::AlgSetIv(nonce),
        ControlMessage::AlgSetAeadAssoclen(&0),
    ];
    Some(Box::new(move |octets| {
        let mut tag = [0; TAG];
        socket.send(octets, &control);
        socket.receive(octets, &mut tag);
        start(&tag)
    }))
}

/// The kernel's MACs.
pub(super) fn mac(algorithm: MacAlgorithm) -> Option<Run> {
    let name = match algorithm {
        MacAlgorithm::Aes128Cmac => "cmac(aes)",
        MacAlgorithm::HmacSha1 => "hmac(sha1)",
        MacAlgorithm::HmacSha256 => "hmac(sha256)",
        MacAlgorithm::Kmac256 => return None,
    };
    let socket = Socket::new("hash", name, &mac::key(algorithm), None)?;
    let mut whole = vec![0; algorithm.output_length()];
    Some(Box::new(move |octets| {
        socket.send(octets, &[]);
        socket.receive(&mut whole, &mut []);
        start(&whole)
    }))
}

/// A keyed socket that takes messages.
struct Socket(RawFd);

impl Socket {
    fn new(kind: &str, name: &str, key: &[u8], tag: Option<usize>) -> Option<Self> {
        let keyed = socket(AddressFamily::Alg, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).ok()?;
        bind(keyed.as_raw_fd(), &AlgAddr::new(kind, name)).ok()?;
        setsockopt(&keyed, AlgSetKey::default(), &key).expect("a key of the right length");
        if let Some(tag) = tag {
            setsockopt(&keyed, AlgSetAeadAuthSize, &tag).expect("a tag's length");
        }
        Some(Self(accept(keyed.as_raw_fd()).expect("a socket for messages")))
    }

    fn send(&self, octets: &[u8], control: &[ControlMessage<'_>]) {
        let sent = sendmsg::<()>(self.0, &[IoSlice::new(octets)], control, MsgFlags::empty(), None);
        assert_eq!(sent, Ok(octets.len()), "the whole message");
    }

    fn receive(&self, octets: &mut [u8], rest: &mut [u8]) {
        let expected = octets.len() + rest.len();
        // An empty message of a cipher has no answer.
        if expected > 0 {
            let mut places = [IoSliceMut::new(octets), IoSliceMut::new(rest)];
            let received = recvmsg::<()>(self.0, &mut places, None, MsgFlags::empty());
            assert_eq!(received.expect("an answer").bytes, expected, "the whole answer");
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Nothing is lost when a measurement's socket does not close.
        let _ = nix::unistd::close(self.0);
    }
}
