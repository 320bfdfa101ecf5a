//! `defmt::Format` where a derive would show too much or too little: payloads and MACs are not logged, flags have names.

use defmt::{Format, Formatter, write};

use crate::segment::Segment;
use crate::tcp::Flags;

impl Format for Flags {
    fn format(&self, f: Formatter<'_>) {
        for (is_set, name) in self.named() {
            if is_set {
                write!(f, "{=str} ", name);
            }
        }
    }
}

impl Format for Segment<'_> {
    fn format(&self, f: Formatter<'_>) {
        let (sequence, octets) = (self.sequence(), self.payload().len());
        write!(
            f,
            "{} -> {} {} {}{} octets",
            self.source(),
            self.destination(),
            sequence,
            self.flags(),
            octets
        );
    }
}
