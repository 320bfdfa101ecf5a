//! Forged TCP segments, as an attacker who reads the wire would make them.

use anyhow::{Context, Result};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpAddress, IpProtocol, IpRepr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber};
use wireseal_tcp_ao::option::{MAX_OPTIONS_LENGTH, TCP_HEADER_LENGTH};
use wireseal_tcp_ao::{
    Connection, ConnectionState, Counters, HeardKeys, Isn, Mkt, MktSet, Segment, SeqNum, Sne, SocketPair,
};

/// IP hop limit of forged packets.
const HOP_LIMIT: u8 = 64;

/// A forged segment in the name of the end `pair.local`.
#[derive(Clone, Debug)]
pub struct Forgery {
    pair: SocketPair,
    control: TcpControl,
    sequence: SeqNum,
    acknowledgment: Option<SeqNum>,
    payload: Vec<u8>,
}

/// The segments that went from `pair.local` to `pair.remote`, among recorded IP packets.
pub fn sent<'a>(
    packets: impl Iterator<Item = &'a [u8]>,
    pair: SocketPair,
) -> impl Iterator<Item = Segment<'a>> {
    let segments = packets.filter_map(|packet| Segment::parse(packet).ok());
    segments.filter(move |segment| (segment.source(), segment.destination()) == (pair.local, pair.remote))
}

/// The sequence number after everything that `pair.local` has sent since its last SYN.
fn end_of_sent<'a>(packets: impl Iterator<Item = &'a [u8]>, pair: SocketPair) -> Result<SeqNum> {
    let end = sent(packets, pair).fold(None, |highest: Option<SeqNum>, segment| match highest {
        Some(highest) if !segment.flags().syn() && !highest.before(segment.end()) => Some(highest),
        _ => Some(segment.end()),
    });
    end.with_context(|| format!("{pair}: nothing was recorded"))
}

/// The ISN in the last SYN of `pair.local`.
/// Fails when none was recorded.
pub fn isn<'a>(packets: impl Iterator<Item = &'a [u8]>, pair: SocketPair) -> Result<Isn> {
    let syn = sent(packets, pair).filter(|segment| segment.flags().syn()).last();
    Ok(Isn(syn.with_context(|| format!("{pair}: no SYN was recorded"))?.sequence().0))
}

/// Corrects the TCP checksum of an IP packet.
/// Fails when it is not a whole TCP segment.
pub fn correct_checksum(packet: &mut [u8]) -> Result<()> {
    let segment = Segment::parse(packet)?;
    let (source, destination) = (segment.source().address().into(), segment.destination().address().into());
    let start = packet.len() - segment.tcp().len();
    TcpPacket::new_unchecked(&mut packet[start..]).fill_checksum(&source, &destination);
    Ok(())
}

impl Forgery {
    /// A SYN.
    pub fn syn(pair: SocketPair, isn: Isn) -> Self {
        let control = TcpControl::Syn;
        Self { pair, control, sequence: SeqNum(isn.0), acknowledgment: None, payload: Vec::new() }
    }

    /// The reset that refuses a SYN, whose end it acknowledges (RFC 9293 §3.10.7.1).
    pub fn refusal(pair: SocketPair, end: SeqNum) -> Self {
        Self { control: TcpControl::Rst, acknowledgment: Some(end), ..Self::syn(pair, Isn(0)) }
    }

    /// The acknowledgment that `pair.local` could send next. `packets` are the IP packets recorded so far, in order.
    /// Fails when an end has not sent anything.
    pub fn next<'a>(packets: impl Iterator<Item = &'a [u8]> + Clone, pair: SocketPair) -> Result<Self> {
        Ok(Self {
            pair,
            control: TcpControl::None,
            sequence: end_of_sent(packets.clone(), pair)?,
            acknowledgment: Some(end_of_sent(packets, pair.reversed())?),
            payload: Vec::new(),
        })
    }

    /// Makes it a reset.
    pub fn reset(self) -> Self {
        Self { control: TcpControl::Rst, ..self }
    }

    /// Adds data.
    pub fn carrying(self, payload: &[u8]) -> Self {
        Self { control: TcpControl::Psh, payload: payload.to_vec(), ..self }
    }

    /// Moves it back to before its data, so that it repeats octets which the peer already has.
    pub fn stale(self) -> Self {
        let sequence = SeqNum(self.sequence.0.wrapping_sub(self.payload.len() as u32));
        Self { sequence, ..self }
    }

    /// The unsigned IP packet.
    pub fn unsigned(&self) -> Result<Vec<u8>> {
        self.emit(None)
    }

    /// The IP packet, signed with `mkt` and the connection's ISNs, at SNE 0.
    /// Fails when `packets` lack one of the SYNs.
    pub fn signed<'a>(&self, mkt: &Mkt, packets: impl Iterator<Item = &'a [u8]> + Clone) -> Result<Vec<u8>> {
        let (local, remote) = (isn(packets.clone(), self.pair)?, isn(packets, self.pair.reversed())?);
        let state = ConnectionState {
            pair: self.pair,
            local_isn: local,
            remote_isn: remote,
            send_sne: Sne(0),
            send_sequence: self.sequence,
            sent_end: self.sequence,
            receive_sne: Sne(0),
            receive_sequence: SeqNum(remote.0),
            acknowledged: self.sequence,
            heard: HeardKeys::ALL,
            current_key: mkt.send_id(),
            rnext_key: mkt.recv_id(),
            counters: Counters::default(),
        };
        self.emit(Some(Connection::import(&state, &MktSet::from_mkts([mkt.clone()])?)?))
    }

    fn emit(&self, signer: Option<Connection<1>>) -> Result<Vec<u8>> {
        let Self { pair, control, sequence, acknowledgment, payload } = self;
        let number = |number: SeqNum| TcpSeqNumber(number.0.cast_signed());
        let repr = TcpRepr {
            src_port: pair.local.port(),
            dst_port: pair.remote.port(),
            control: *control,
            seq_number: number(*sequence),
            ack_number: acknowledgment.map(number),
            window_len: u16::MAX,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload,
        };
        let (source, destination) =
            (IpAddress::from(pair.local.address()), IpAddress::from(pair.remote.address()));
        let checksums = ChecksumCapabilities::default();
        let mut tcp = vec![0; repr.buffer_len()];
        repr.emit(&mut TcpPacket::new_unchecked(&mut tcp), &source, &destination, &checksums);
        if let Some(mut connection) = signer {
            let mut options = [0; MAX_OPTIONS_LENGTH];
            let length = connection.append_ao(&mut options, 0)?;
            tcp.splice(TCP_HEADER_LENGTH..TCP_HEADER_LENGTH, options[..length].iter().copied());
            TcpPacket::new_unchecked(&mut tcp).set_header_len((TCP_HEADER_LENGTH + length) as u8);
            connection.sign(&mut tcp)?;
        }
        let ip = IpRepr::new(source, destination, IpProtocol::Tcp, tcp.len(), HOP_LIMIT);
        let mut packet = vec![0; ip.header_len()];
        ip.emit(&mut packet, &checksums);
        packet.extend(tcp);
        correct_checksum(&mut packet)?;
        Ok(packet)
    }
}
