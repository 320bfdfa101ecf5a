//! The packets of pcap and pcapng files (draft-ietf-opsawg-pcapng).

use pcap_parser::nom::{self, IResult, Needed};
use pcap_parser::pcapng::parse_sectionheaderblock;
use pcap_parser::{
    BOM_MAGIC, EPB_MAGIC, EnhancedPacketBlock, IDB_MAGIC, InterfaceDescriptionBlock, LegacyPcapBlock,
    OptionCode, PcapError, SHB_MAGIC, SPB_MAGIC, SimplePacketBlock, parse_enhancedpacketblock_be,
    parse_enhancedpacketblock_le, parse_interfacedescriptionblock_be, parse_interfacedescriptionblock_le,
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header, parse_simplepacketblock_be,
    parse_simplepacketblock_le,
};

use super::source::{Buffer, Found, LONGEST, LONGEST_PACKET};
use super::{Damage, Time};

/// What the file's header says about all records.
pub(super) struct Pcap {
    pub(super) is_big_endian: bool,
    pub(super) link_type: u16,
    /// The most octets recorded of a packet; 0 for no limit.
    pub(super) snap_length: u32,
    /// Octets of the frame check sequence that follows each packet, if the header says so.
    pub(super) frame_check_sequence: Option<u8>,
    /// Nanoseconds per unit of the records' fractions of a second.
    pub(super) fraction: u64,
}

const FILE_HEADER_LENGTH: usize = 24;
const RECORD_HEADER_LENGTH: usize = 16;
/// The bit of the link type that says whether the four highest ones are the length of a frame check sequence.
const HAS_FRAME_CHECK_SEQUENCE: u32 = 1 << 26;

impl Pcap {
    /// Microseconds and nanoseconds, each in both byte orders.
    pub(super) fn begins_with(start: [u8; 4]) -> bool {
        [u32::from_le_bytes(start), u32::from_be_bytes(start)]
            .iter()
            .any(|magic| matches!(magic, 0xa1b2_c3d4 | 0xa1b2_3c4d))
    }

    pub(super) fn new(buffer: &mut Buffer) -> Result<Self, Damage> {
        buffer.fill(FILE_HEADER_LENGTH)?;
        let Ok((_, header)) = parse_pcap_header(buffer.ready()) else { return Err(Damage::Block(0)) };
        let fraction = if header.is_nanosecond_precision() { 1 } else { 1000 };
        let network = header.network.0 as u32;
        let pcap = Self {
            is_big_endian: header.is_bigendian(),
            link_type: network as u16,
            snap_length: header.snaplen,
            // In units of 16 bits.
            frame_check_sequence: (network & HAS_FRAME_CHECK_SEQUENCE != 0)
                .then_some((network >> 28) as u8 * 2),
            fraction,
        };
        buffer.take(FILE_HEADER_LENGTH);
        Ok(pcap)
    }

    /// Whether `ready` has the next packet, or damage.
    #[inline]
    pub(super) fn is_in(&self, ready: &[u8]) -> bool {
        let length = ready.get(8..).and_then(|octets| octets.first_chunk()).map(|octets| {
            if self.is_big_endian { u32::from_be_bytes(*octets) } else { u32::from_le_bytes(*octets) }
        });
        length.is_some_and(|length| {
            let length = length as usize;
            length > LONGEST_PACKET || ready.len() >= RECORD_HEADER_LENGTH + length
        })
    }

    #[inline]
    pub(super) fn next(&mut self, buffer: &mut Buffer) -> Result<Option<Found>, Damage> {
        loop {
            let ready = buffer.ready();
            let parsed =
                if self.is_big_endian { parse_pcap_frame_be(ready) } else { parse_pcap_frame(ready) };
            match parsed {
                Ok((_, LegacyPcapBlock { ts_sec, ts_usec, origlen, data, .. })) => {
                    let length = data.len();
                    if length > LONGEST_PACKET {
                        return Err(Damage::Length(length as u64));
                    }
                    buffer.take(RECORD_HEADER_LENGTH + length);
                    let nanoseconds = u64::from(ts_sec) * 1_000_000_000 + u64::from(ts_usec) * self.fraction;
                    return Ok(Some(Found {
                        time: Some(Time::from_unix_nanoseconds(nanoseconds)),
                        link_type: self.link_type,
                        back: length,
                        length,
                        original_length: length.max(origlen as usize),
                    }));
                }
                Err(nom::Err::Incomplete(Needed::Size(more))) => {
                    let expected = ready.len().saturating_add(more.get());
                    if expected > RECORD_HEADER_LENGTH + LONGEST_PACKET {
                        return Err(Damage::Length((expected - RECORD_HEADER_LENGTH) as u64));
                    }
                    if !buffer.fill(expected)? {
                        return Ok(None);
                    }
                }
                Err(_) => return Err(Damage::Block(0)),
            }
        }
    }
}

/// The current section.
#[derive(Default)]
pub(super) struct Pcapng {
    pub(super) is_big_endian: bool,
    interfaces: Vec<Interface>,
}

struct Interface {
    link_type: u16,
    /// The most octets recorded of a packet; 0 for no limit.
    snap_length: u32,
    clock: Clock,
}

/// Packet Block, which the Enhanced Packet Block replaced (appendix A).
pub(super) const OLD_PACKET_BLOCK: u32 = 2;
/// How many interfaces of a section are remembered: more than any machine has.
const MOST_INTERFACES: usize = 1 << 16;
/// Octets of type and length before a block's body, and of these with the repeated length after it.
const BLOCK_HEAD: usize = 8;
const BLOCK_FRAME: usize = 12;
/// Octets before the packet in its block.
const ENHANCED_HEAD: usize = 28;
const SIMPLE_HEAD: usize = 12;

type Parsed<'a, Block> = IResult<&'a [u8], Block, PcapError<&'a [u8]>>;

impl Pcapng {
    pub(super) fn begins_with(start: [u8; 4]) -> bool {
        // The same in both byte orders.
        u32::from_le_bytes(start) == SHB_MAGIC
    }

    /// Whether `ready` has the next packet, or damage.
    #[inline]
    pub(super) fn is_in(&self, mut ready: &[u8]) -> bool {
        let mut is_big_endian = self.is_big_endian;
        while let Some(&[kind, length, third]) = ready.as_chunks::<4>().0.first_chunk() {
            if u32::from_le_bytes(kind) == SHB_MAGIC {
                is_big_endian = u32::from_be_bytes(third) == BOM_MAGIC;
            }
            let number = if is_big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
            let (kind, length) = (number(kind), number(length) as usize);
            let is_packet = matches!(kind, EPB_MAGIC | SPB_MAGIC | OLD_PACKET_BLOCK);
            match ready.get(length..) {
                _ if length < BLOCK_FRAME || is_packet && length > LONGEST => return true,
                None => return false,
                Some(_) if is_packet => return true,
                Some(rest) => ready = rest,
            }
        }
        false
    }

    /// The type and the length in octets of the next block, of which at least the frame is ready; `None` at the end of the file.
    #[inline]
    pub(super) fn block(&mut self, buffer: &mut Buffer) -> Result<Option<(u32, u32)>, Damage> {
        if !buffer.fill(BLOCK_FRAME)? {
            return Ok(None);
        }
        let [kind, length, third] =
            [0, 4, 8].map(|place| buffer.ready()[place..].first_chunk().copied().unwrap_or_default());
        if u32::from_le_bytes(kind) == SHB_MAGIC {
            self.is_big_endian = u32::from_be_bytes(third) == BOM_MAGIC;
        }
        let (kind, length) = (self.number(kind), self.number(length));
        if (length as usize) < BLOCK_FRAME || !length.is_multiple_of(4) {
            return Err(Damage::Length(length.into()));
        }
        Ok(Some((kind, length)))
    }

    #[inline]
    pub(super) fn next(&mut self, buffer: &mut Buffer) -> Result<Option<Found>, Damage> {
        loop {
            let Some((kind, length)) = self.block(buffer)? else { return Ok(None) };
            let octets = length as usize;
            if !matches!(kind, SHB_MAGIC | IDB_MAGIC | EPB_MAGIC | SPB_MAGIC | OLD_PACKET_BLOCK) {
                buffer.skip(length.into())?;
                continue;
            }
            if octets > LONGEST {
                return Err(Damage::Length(length.into()));
            }
            buffer.fill(octets)?;
            let block = &buffer.ready()[..octets];
            let found = match kind {
                SHB_MAGIC => self.section(block).map(|()| None),
                IDB_MAGIC => self.interface(block).map(|()| None),
                EPB_MAGIC => self.enhanced_packet(block).map(Some),
                SPB_MAGIC => self.simple_packet(block).map(Some),
                _ => self.old_packet(block).map(Some),
            }?;
            if let Some(Found { length, .. }) = found
                && length > LONGEST_PACKET
            {
                return Err(Damage::Length(length as u64));
            }
            buffer.take(octets);
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn number(&self, octets: [u8; 4]) -> u32 {
        if self.is_big_endian { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) }
    }

    fn section(&mut self, block: &[u8]) -> Result<(), Damage> {
        let header = whole(parse_sectionheaderblock(block), SHB_MAGIC)?;
        if header.major_version != 1 {
            return Err(Damage::Version(header.major_version));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, block: &[u8]) -> Result<(), Damage> {
        let parsed = if self.is_big_endian {
            parse_interfacedescriptionblock_be(block)
        } else {
            parse_interfacedescriptionblock_le(block)
        };
        let InterfaceDescriptionBlock { linktype, snaplen, options, if_tsresol, .. } =
            whole(parsed, IDB_MAGIC)?;
        let offset = options.iter().find(|option| option.code == OptionCode::IfTsoffset);
        let seconds = offset.and_then(|option| option.value().first_chunk()).map_or(0, |octets| {
            if self.is_big_endian { i64::from_be_bytes(*octets) } else { i64::from_le_bytes(*octets) }
        });
        let clock = Clock::new(if_tsresol, seconds);
        if self.interfaces.len() < MOST_INTERFACES {
            self.interfaces.push(Interface { link_type: linktype.0 as u16, snap_length: snaplen, clock });
        }
        Ok(())
    }

    fn enhanced_packet(&self, block: &[u8]) -> Result<Found, Damage> {
        let parsed = if self.is_big_endian {
            parse_enhancedpacketblock_be(block)
        } else {
            parse_enhancedpacketblock_le(block)
        };
        let EnhancedPacketBlock { if_id, ts_high, ts_low, caplen, origlen, .. } = whole(parsed, EPB_MAGIC)?;
        self.found(block, if_id, [ts_high, ts_low], [caplen, origlen])
    }

    /// Like an Enhanced Packet Block, but with a 16-bit interface number before a drop count.
    fn old_packet(&self, block: &[u8]) -> Result<Found, Damage> {
        let body = block.get(BLOCK_HEAD..block.len() - 4).unwrap_or_default();
        let (Some(head), packet) = (body.first_chunk::<20>(), body.get(20..).unwrap_or_default()) else {
            return Err(Damage::Block(OLD_PACKET_BLOCK));
        };
        let [high, low, recorded, original] =
            [4, 8, 12, 16].map(|place| self.number([0, 1, 2, 3].map(|octet| head[place + octet])));
        let id = [head[0], head[1]];
        let id = if self.is_big_endian { u16::from_be_bytes(id) } else { u16::from_le_bytes(id) };
        if recorded as usize > packet.len() {
            return Err(Damage::Block(OLD_PACKET_BLOCK));
        }
        self.found(block, id.into(), [high, low], [recorded, original])
    }

    fn found(
        &self,
        block: &[u8],
        interface: u32,
        time: [u32; 2],
        lengths: [u32; 2],
    ) -> Result<Found, Damage> {
        let known = self.interfaces.get(interface as usize).ok_or(Damage::Interface(interface))?;
        let [high, low] = time.map(u64::from);
        let [length, original_length] = lengths.map(|length| length as usize);
        Ok(Found {
            time: known.clock.at(high << 32 | low).map(Time::from_unix_nanoseconds),
            link_type: known.link_type,
            back: block.len() - ENHANCED_HEAD,
            length,
            original_length: length.max(original_length),
        })
    }

    /// The packet is of the first interface, without a time, and cut to that interface's snap length.
    fn simple_packet(&self, block: &[u8]) -> Result<Found, Damage> {
        let parsed = if self.is_big_endian {
            parse_simplepacketblock_be(block)
        } else {
            parse_simplepacketblock_le(block)
        };
        let SimplePacketBlock { origlen, data, .. } = whole(parsed, SPB_MAGIC)?;
        let known = self.interfaces.first().ok_or(Damage::Interface(0))?;
        let recorded = if known.snap_length == 0 { origlen } else { origlen.min(known.snap_length) };
        if recorded as usize > data.len() {
            return Err(Damage::Block(SPB_MAGIC));
        }
        Ok(Found {
            time: None,
            link_type: known.link_type,
            back: block.len() - SIMPLE_HEAD,
            length: recorded as usize,
            original_length: origlen as usize,
        })
    }
}

fn whole<Block>(parsed: Parsed<'_, Block>, kind: u32) -> Result<Block, Damage> {
    parsed.map(|(_, block)| block).map_err(|_| Damage::Block(kind))
}

/// Resolution and offset of an interface's times (draft-ietf-opsawg-pcapng §4.2: if_tsresol and if_tsoffset).
#[derive(Clone, Copy)]
struct Clock {
    tick: Tick,
    offset: i128,
}

#[derive(Clone, Copy)]
enum Tick {
    /// This many nanoseconds.
    Nanoseconds(u64),
    /// A nanosecond is this many.
    PerNanosecond(u64),
    /// A second is 2 to this power.
    Binary(u8),
}

impl Clock {
    /// `resolution` is a negative power of 10, or of 2 if its highest bit is set; `offset` is in seconds.
    pub(super) fn new(resolution: u8, offset: i64) -> Self {
        let tick = match resolution {
            0x80.. => Tick::Binary(resolution & 0x7f),
            0..=9 => Tick::Nanoseconds(10_u64.pow((9 - resolution).into())),
            // Units this small do not add up to a nanosecond in a 64-bit count.
            10.. => {
                10_u64.checked_pow((resolution - 9).into()).map_or(Tick::Nanoseconds(0), Tick::PerNanosecond)
            }
        };
        Self { tick, offset: i128::from(offset) * NANOSECONDS }
    }

    /// Nanoseconds since 1970, if they fit 64 bits.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> Option<u64> {
        let nanoseconds = match self.tick {
            Tick::Nanoseconds(nanoseconds) => i128::from(ticks) * i128::from(nanoseconds),
            Tick::PerNanosecond(ticks_in_one) => (ticks / ticks_in_one).into(),
            Tick::Binary(power) => (i128::from(ticks) * NANOSECONDS) >> power,
        };
        u64::try_from(nanoseconds + self.offset).ok()
    }
}

const NANOSECONDS: i128 = 1_000_000_000;
