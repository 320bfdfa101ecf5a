//! The board: Arm's MPS2 with the FPGA image AN386, a Cortex-M4 at 25 MHz (Arm DAI 0386). QEMU has it as `mps2-an386`.

use core::fmt;
use core::hint::black_box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::register::msp;
use cortex_m_rt::{STACK_PAINT_VALUE, exception, heap_start};
use safe_mmio::fields::{ReadPure, ReadWrite};
use safe_mmio::{UniqueMmioPointer, field, field_shared};
use smoltcp::time::Instant;

use crate::card::CardRegisters;

/// Cycles of the processor's clock in a second.
const FREQUENCY: u32 = 25_000_000;
const TICKS_PER_SECOND: u32 = 1000;

/// Where the console and the network card are (Arm DAI 0386, §3 and §4).
const CONSOLE: *mut ConsoleRegisters = 0x4000_4000 as *mut _;
const CARD: *mut CardRegisters = 0x4020_0000 as *mut _;

/// Where the stack starts: the end of RAM, as in memory.x.
const STACK_START: u32 = 0x2001_0000;

/// Milliseconds since the start; wraps after 49 days.
static TICKS: AtomicU32 = AtomicU32::new(0);

/// Everything that the image uses of the board.
pub struct Board {
    pub console: Console,
    pub card: UniqueMmioPointer<'static, CardRegisters>,
    pub clock: Clock,
}

impl Board {
    /// The board, with its clock running; `None` if someone has it already.
    pub fn take() -> Option<Self> {
        let mut core = cortex_m::Peripherals::take()?;
        core.SYST.set_clock_source(SystClkSource::Core);
        core.SYST.set_reload(FREQUENCY / TICKS_PER_SECOND - 1);
        core.SYST.clear_current();
        core.SYST.enable_interrupt();
        core.SYST.enable_counter();
        let console = Console::new(registers(CONSOLE)?);
        Some(Self { console, card: registers(CARD)?, clock: Clock { timer: core.SYST, last: 0, turns: 0 } })
    }
}

/// The registers at one of the two addresses above. Only [`Board::take`] calls this, once for each.
#[allow(unsafe_code)]
fn registers<T>(address: *mut T) -> Option<UniqueMmioPointer<'static, T>> {
    // SAFETY: the board has these registers there, and `cortex_m::Peripherals::take` succeeds only once.
    NonNull::new(address).map(|address| unsafe { UniqueMmioPointer::new(address) })
}

#[exception]
fn SysTick() {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

/// The time since the start.
pub struct Clock {
    timer: SYST,
    last: u32,
    turns: u32,
}

impl Clock {
    /// The time since the start. It never goes back if read at least once in 49 days.
    pub fn now(&mut self) -> Instant {
        let ticks = TICKS.load(Ordering::Relaxed);
        self.turns += u32::from(ticks < self.last);
        self.last = ticks;
        Instant::from_millis((i64::from(self.turns) << 32) | i64::from(ticks))
    }

    /// The clock's timer, for measurements: from now on nothing interrupts the program, and the time stands still.
    pub fn into_stopwatch(mut self) -> Stopwatch {
        self.timer.disable_interrupt();
        self.timer.set_reload(Stopwatch::TURN);
        self.timer.clear_current();
        Stopwatch(self.timer)
    }
}

/// Measures functions.
pub struct Stopwatch(SYST);

/// What a function took.
pub struct Taken {
    /// Cycles of the processor's clock, at most 2^24 - 1.
    pub cycles: u32,
    /// Octets of the stack.
    pub stack: u32,
}

/// How many words of the stack are checked.
const STACK_WORDS: usize = 4096;

impl Stopwatch {
    const TURN: u32 = 0xff_ffff;

    /// Calls a function.
    #[inline(never)]
    pub fn measure<R>(&mut self, f: impl FnOnce() -> R) -> (R, Taken) {
        paint();
        let top = msp::read();
        self.0.clear_current();
        let result = call(f);
        let cycles = Self::TURN - SYST::get_current();
        // Less deep than was painted, because painting had a frame of its own.
        let painted = top - 4 * (STACK_WORDS as u32 - 256);
        (result, Taken { cycles, stack: top - first_written(painted, top) })
    }
}

/// Calls the function in a frame of its own, so that the frame is counted, too.
#[inline(never)]
fn call<R>(f: impl FnOnce() -> R) -> R {
    f()
}

/// Overwrites the stack below the caller's frame.
#[inline(never)]
fn paint() {
    black_box([STACK_PAINT_VALUE; STACK_WORDS]);
}

/// The deepest use of the stack since the start, in octets.
pub fn deepest_stack() -> u32 {
    // cortex-m-rt has painted everything between the statics and the stack.
    STACK_START - first_written(heap_start() as u32, msp::read())
}

/// The first of these addresses whose word was written since it was painted.
#[allow(unsafe_code)]
fn first_written(from: u32, to: u32) -> u32 {
    // SAFETY: these are words of RAM between the statics and the stack pointer, and nothing writes to them meanwhile.
    let word = |address: &u32| unsafe { (*address as *const u32).read_volatile() };
    (from..to).step_by(4).find(|address| word(address) != STACK_PAINT_VALUE).unwrap_or(to)
}

/// The registers of an Arm CMSDK APB UART (Arm DDI 0479D, §4.3).
#[repr(C)]
pub struct ConsoleRegisters {
    data: ReadWrite<u32>,
    state: ReadPure<u32>,
    control: ReadWrite<u32>,
    interrupt: ReadWrite<u32>,
    divider: ReadWrite<u32>,
}

/// The serial line.
pub struct Console(UniqueMmioPointer<'static, ConsoleRegisters>);

impl Console {
    const SEND_FULL: u32 = 1;
    const RECEIVE_FULL: u32 = 2;
    const SEND_AND_RECEIVE: u32 = 3;
    const BAUD: u32 = 115_200;

    fn new(registers: UniqueMmioPointer<'static, ConsoleRegisters>) -> Self {
        let mut console = Self(registers);
        field!(console.0, divider).write(FREQUENCY / Self::BAUD);
        field!(console.0, control).write(Self::SEND_AND_RECEIVE);
        console
    }

    /// The next octet that was typed, if there is one.
    pub fn read(&mut self) -> Option<u8> {
        let is_full = self.state() & Self::RECEIVE_FULL != 0;
        is_full.then(|| field!(self.0, data).read() as u8)
    }

    fn state(&self) -> u32 {
        field_shared!(self.0, state).read()
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for octet in text.bytes() {
            while self.state() & Self::SEND_FULL != 0 {}
            field!(self.0, data).write(octet.into());
        }
        Ok(())
    }
}
