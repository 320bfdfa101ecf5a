//! Packets that no router sent: one off the wire, altered.

use smoltcp::wire::{IpAddress, Ipv4Packet, TcpPacket, TcpSeqNumber};
use wireseal_tcp_ao::option::{AO_HEADER_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{Connection, MKTS_PER_PEER, Segment, SeqNum};

use super::Failure;

/// Octets of the IPv4 header that smoltcp writes.
const IP_HEADER_LENGTH: usize = 20;

/// An IPv4 packet in the making; its checksums are made right in the end, so that nothing is dropped for them.
#[derive(Clone, Debug)]
pub(super) struct Forgery(Vec<u8>);

impl Forgery {
    pub(super) fn of(packet: Vec<u8>) -> Self {
        Self(packet)
    }

    fn tcp(&mut self) -> TcpPacket<&mut [u8]> {
        TcpPacket::new_unchecked(&mut self.0[IP_HEADER_LENGTH..])
    }

    fn ip(&mut self) -> Ipv4Packet<&mut [u8]> {
        Ipv4Packet::new_unchecked(&mut self.0)
    }

    /// Has the length that it has.
    fn measured(mut self) -> Self {
        let length = self.0.len() as u16;
        self.ip().set_total_len(length);
        self
    }

    fn payload_start(&mut self) -> usize {
        IP_HEADER_LENGTH + usize::from(self.tcp().header_len())
    }

    /// Takes this place in the stream.
    pub(super) fn at(mut self, sequence: SeqNum) -> Self {
        self.tcp().set_seq_number(TcpSeqNumber(sequence.0.cast_signed()));
        self
    }

    /// Has this payload in place of its own.
    pub(super) fn carrying(mut self, payload: &[u8]) -> Self {
        let start = self.payload_start();
        self.0.truncate(start);
        self.0.extend_from_slice(payload);
        self.measured()
    }

    /// Resets the connection.
    pub(super) fn reset(self) -> Self {
        let mut reset = self.carrying(&[]);
        reset.tcp().set_rst(true);
        reset.tcp().set_psh(false);
        reset
    }

    /// Has no options.
    pub(super) fn unsigned(mut self) -> Self {
        let start = self.payload_start();
        self.0.drain(IP_HEADER_LENGTH + TCP_HEADER_LENGTH..start);
        self.tcp().set_header_len(TCP_HEADER_LENGTH as u8);
        self.measured()
    }

    /// Has this octet in place of each of the MAC's.
    pub(super) fn with_mac_of(mut self, octet: u8) -> Result<Self, Failure> {
        let ao = Segment::parse(&self.0)?.ao_option()?.map(|ao| (ao.offset + AO_HEADER_LENGTH, ao.mac.len()));
        let (offset, length) = ao.ok_or_else(|| Failure("there is no signed segment to forge".to_owned()))?;
        let start = IP_HEADER_LENGTH + TCP_HEADER_LENGTH + offset;
        self.0[start..start + length].fill(octet);
        Ok(self)
    }

    /// Is signed by whoever has the keys of this connection.
    pub(super) fn signed_by(mut self, connection: &mut Connection<MKTS_PER_PEER>) -> Result<Self, Failure> {
        connection.sign(&mut self.0[IP_HEADER_LENGTH..])?;
        Ok(self)
    }

    /// Has one bit of its payload the other way round.
    pub(super) fn flipping(mut self, bit: usize) -> Self {
        let start = self.payload_start();
        self.0[start + bit / 8] ^= 0x80 >> (bit % 8);
        self
    }

    /// The packet, with its checksums.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.ip().fill_checksum();
        let (source, destination) = (self.ip().src_addr(), self.ip().dst_addr());
        self.tcp().fill_checksum(&IpAddress::from(source), &IpAddress::from(destination));
        self.0
    }
}
