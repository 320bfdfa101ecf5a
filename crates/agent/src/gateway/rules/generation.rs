//! The number of the kernel's ruleset in nf_tables, which every transaction changes (`linux/netfilter/nf_tables.h`).

use std::io;

use libc::{NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN};
use netlink_packet_core::{NetlinkBuffer, NlaBuffer};
use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};

use crate::gateway::queues::{HEADERS, write_headers};

/// `NFT_MSG_NEWGEN`, the answer, and `NFTA_GEN_ID`, its first attribute.
const ANSWER: u16 = (NFNL_SUBSYS_NFTABLES as u16) << 8 | 15;
const NUMBER: u16 = 1;

/// Where the kernel is asked for it.
pub(crate) struct Generation(Socket);

impl Generation {
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self(socket))
    }

    /// The number in this network namespace; `None` if the kernel does not say, for instance because it has no nf_tables.
    pub(crate) fn now(&self) -> Option<u32> {
        let mut request = [0; HEADERS];
        write_headers(&mut request, NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN, 0, 0);
        self.0.send(&request, 0).ok()?;
        let mut answer = Vec::with_capacity(4096);
        // It is there when the request has been sent.
        self.0.recv(&mut answer, libc::MSG_DONTWAIT).ok()?;
        let message = NetlinkBuffer::new_checked(&answer).ok()?;
        let attribute = NlaBuffer::new_checked(answer.get(HEADERS..)?).ok()?;
        let is_answer = message.message_type() == ANSWER && attribute.kind() == NUMBER;
        is_answer.then_some(u32::from_be_bytes(*attribute.value().first_chunk()?))
    }
}
