//! The unit in which an interface of a pcapng file counts time.

/// Resolution and offset of an interface's times (draft-ietf-opsawg-pcapng §4.2: if_tsresol and if_tsoffset).
#[derive(Clone, Copy)]
pub(super) struct Clock {
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
            // Units so small that a nanosecond of them does not fit 64 bits: no count reaches a nanosecond.
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
