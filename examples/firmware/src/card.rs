//! The network card, an SMSC LAN9118, as a smoltcp device: the processor copies frames, without DMA and interrupts. It has run only in
//! QEMU; a faster processor has to pause after some accesses to the chip (datasheet §6.1).

use safe_mmio::fields::{ReadOnly, ReadPure, ReadWrite, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::EthernetAddress;
use static_cell::ConstStaticCell;

/// Octets of the longest Ethernet frame, without its check sequence.
pub const FRAME: usize = 1514;

/// The registers (SMSC LAN9118 datasheet, §5.3), as far as the driver needs them.
#[repr(C)]
pub struct CardRegisters {
    receive_data: ReadOnly<u32>,
    _aliases_of_receive_data: [u32; 7],
    send_data: WriteOnly<u32>,
    _aliases_of_send_data: [u32; 7],
    receive_status: ReadOnly<u32>,
    _receive_status_peek: u32,
    send_status: ReadOnly<u32>,
    _to_receive_configuration: [u32; 8],
    receive_configuration: ReadWrite<u32>,
    send_configuration: ReadWrite<u32>,
    hardware_configuration: ReadWrite<u32>,
    _receive_control: u32,
    receive_information: ReadPure<u32>,
    send_information: ReadPure<u32>,
    power: ReadPure<u32>,
    _to_command: [u32; 7],
    command: ReadWrite<u32>,
    command_data: ReadWrite<u32>,
    _flow_control: u32,
    memory_command: ReadPure<u32>,
}

/// Set in `power` when the card can be used.
const READY: u32 = 1;

const SOFT_RESET: u32 = 1;
/// Frames are sent when they are complete; this bit must be set.
const STORE_AND_FORWARD: u32 = 1 << 20;
/// 5 KiB of the card's memory for frames to be sent, the rest for those received.
const SEND_MEMORY: u32 = 5 << 16;
const SEND_ON: u32 = 1 << 1;

/// The registers behind `command`, and the bits to reach them (§5.4).
const CONTROL: u32 = 1;
const ADDRESS_HIGH: u32 = 2;
const ADDRESS_LOW: u32 = 3;
const PHY_ACCESS: u32 = 6;
const PHY_DATA: u32 = 7;
const BUSY: u32 = 1 << 31;
const READ: u32 = 1 << 30;
const SEND_AND_RECEIVE: u32 = 1 << 3 | 1 << 2;
/// Registers of the PHY: what it offers the other end of the cable, and the start of the negotiation. Half duplex at 10 or 100 Mbit/s, as
/// the card itself is set: it does not learn what its PHY negotiates.
const PHY_OFFER: (u32, u32) = (4, 0x00a1);
const PHY_NEGOTIATE: (u32, u32) = (0, 0x1200);
/// Writes a register of the PHY; the register's number is shifted by 6 bits.
const WRITE_PHY: u32 = 1 << 11 | 1 << 1 | PHY_BUSY;
const PHY_BUSY: u32 = 1;

/// Bits of the word that comes with each received frame (§3.13.3), and of the two that go before each sent one (§3.12.2).
const RECEIVE_ERROR: u32 = 1 << 15;
const FIRST_AND_LAST: u32 = 1 << 13 | 1 << 12;
/// Octets of the frame's check sequence.
const CHECK_SEQUENCE: usize = 4;

/// The card, and room for one frame each way.
pub struct Card {
    registers: UniqueMmioPointer<'static, CardRegisters>,
    received: &'static mut [u8; FRAME],
    sent: &'static mut [u8; FRAME],
}

impl Card {
    /// Starts the card with this address.
    ///
    /// # Panics
    /// When called again.
    pub fn new(registers: UniqueMmioPointer<'static, CardRegisters>, address: EthernetAddress) -> Self {
        static RECEIVED: ConstStaticCell<[u8; FRAME]> = ConstStaticCell::new([0; FRAME]);
        static SENT: ConstStaticCell<[u8; FRAME]> = ConstStaticCell::new([0; FRAME]);
        let mut card = Self { registers, received: RECEIVED.take(), sent: SENT.take() };
        while field_shared!(card.registers, power).read() & READY == 0 {}
        let mut hardware = field!(card.registers, hardware_configuration);
        hardware.write(SOFT_RESET);
        while hardware.read() & SOFT_RESET != 0 {}
        hardware.write(STORE_AND_FORWARD | SEND_MEMORY);
        // The card may be loading an address from its own memory, which would overwrite this one.
        while field_shared!(card.registers, memory_command).read() & BUSY != 0 {}
        let [a, b, c, d, e, f] = address.0;
        card.command(ADDRESS_LOW, u32::from_le_bytes([a, b, c, d]));
        card.command(ADDRESS_HIGH, u32::from_le_bytes([e, f, 0, 0]));
        card.write_phy(PHY_OFFER);
        card.write_phy(PHY_NEGOTIATE);
        field!(card.registers, send_configuration).write(SEND_ON);
        card.command(CONTROL, SEND_AND_RECEIVE);
        card
    }

    /// Writes one of the registers that are reached through a command.
    fn command(&mut self, register: u32, value: u32) {
        field!(self.registers, command_data).write(value);
        self.carry_out(register);
    }

    fn carry_out(&mut self, what: u32) {
        let mut command = field!(self.registers, command);
        command.write(BUSY | what);
        while command.read() & BUSY != 0 {}
    }

    fn write_phy(&mut self, (register, value): (u32, u32)) {
        self.command(PHY_DATA, value);
        self.command(PHY_ACCESS, register << 6 | WRITE_PHY);
        loop {
            self.carry_out(READ | PHY_ACCESS);
            if field!(self.registers, command_data).read() & PHY_BUSY == 0 {
                return;
            }
        }
    }

    /// Takes the next good frame out of the card; returns its length in octets.
    fn take(&mut self) -> Option<usize> {
        loop {
            let frames = field_shared!(self.registers, receive_information).read() >> 16 & 0xff;
            if frames == 0 {
                return None;
            }
            let status = field!(self.registers, receive_status).read();
            let length = (status >> 16 & 0x3fff) as usize;
            let mut data = field!(self.registers, receive_data);
            let mut room = self.received.chunks_mut(4);
            for _ in 0..length.div_ceil(4) {
                let word = data.read().to_le_bytes();
                if let Some(place) = room.next() {
                    place.copy_from_slice(&word[..place.len()]);
                }
            }
            let length = length.saturating_sub(CHECK_SEQUENCE);
            if status & RECEIVE_ERROR == 0 && length <= FRAME {
                return Some(length);
            }
        }
    }
}

impl Device for Card {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sender<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sender<'_>)> {
        let length = self.take()?;
        let Self { registers, received, sent } = self;
        Some((Received(received.get(..length)?), Sender { registers, frame: sent }))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sender<'_>> {
        Some(Sender { registers: &mut self.registers, frame: self.sent })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME;
        capabilities.max_burst_size = Some(1);
        capabilities
    }
}

/// A received frame.
pub struct Received<'a>(&'a [u8]);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// Room for a frame to be sent.
pub struct Sender<'a> {
    registers: &'a mut UniqueMmioPointer<'static, CardRegisters>,
    frame: &'a mut [u8; FRAME],
}

impl phy::TxToken for Sender<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let frame = &mut self.frame[..length];
        let result = f(frame);
        let words = length.div_ceil(4);
        // Never full for long: the card sends on its own.
        while (field_shared!(self.registers, send_information).read() & 0xffff) < 4 * words as u32 + 8 {}
        let mut data = field!(*self.registers, send_data);
        data.write(FIRST_AND_LAST | length as u32);
        data.write(length as u32);
        for octets in frame.chunks(4) {
            let mut word = [0; 4];
            word[..octets.len()].copy_from_slice(octets);
            data.write(u32::from_le_bytes(word));
        }
        // Nobody needs the sent frames' statuses, but they must not fill up.
        while field_shared!(self.registers, send_information).read() >> 16 & 0xff != 0 {
            field!(*self.registers, send_status).read();
        }
        result
    }
}
