//! Numbers, names and options as every report writes them.

use std::fmt::{self, Write as _};

use wireseal_tcp_ao::{Flags, OptionCoverage};

/// Text from a file, or a file name, made safe for a terminal: each control character becomes U+FFFD.
pub(crate) struct Printable<'a>(pub(crate) &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| {
            f.write_char(if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter })
        })
    }
}

/// A number with commas between the thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number and what it counts: `1 segment`, `1,200 segments`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// The names of the flags that are set.
pub(crate) fn flags(flags: Flags) -> Vec<&'static str> {
    let all = [(flags.syn(), "SYN"), (flags.fin(), "FIN"), (flags.rst(), "RST"), (flags.ack(), "ACK")];
    all.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name).collect()
}

/// `covered` or `excluded`, as `--key` spells it.
pub(crate) const fn coverage(options: OptionCoverage) -> &'static str {
    match options {
        OptionCoverage::Covered => "covered",
        OptionCoverage::Excluded => "excluded",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_counted() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([counted(1, "segment"), counted(0, "segment")], ["1 segment", "0 segments"]);
    }
}
