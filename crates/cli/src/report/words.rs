//! The words that reports have in common.

use std::fmt::{self, Write as _};

use wireseal_tcp_ao::{Endpoint, Flags};

use crate::capture::Time;
use crate::keys::Keys;
use crate::verify::report::{ConnectionReport, Counts, Diagnosis, KeyUse, Place, Totals, Verdict};

/// How many uses of keys of a direction are shown: routers roll over now and then, and a forger may write any KeyID.
pub(super) const KEY_USES_SHOWN: usize = 32;

/// What each kind of verdict is called in a count, by [`Verdict::index`].
pub(super) const VERDICTS: [&str; Verdict::KINDS] = [
    "good",
    "bad MAC",
    "unknown KeyID",
    "no TCP-AO option",
    "malformed option",
    "two TCP-AO options",
    "ISN not seen",
    "cut off",
];

/// A verdict in words, with what is wrong with the options.
pub(super) struct VerdictInWords(pub(super) Verdict);

impl fmt::Display for VerdictInWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERDICTS[self.0.index()])?;
        match self.0 {
            Verdict::MalformedOption(error) => write!(f, " ({error})"),
            _ => Ok(()),
        }
    }
}

/// The counts that are not zero, such as `19 good, 1 bad MAC`.
pub(super) struct CountsInWords<'a>(pub(super) &'a Counts);

impl fmt::Display for CountsInWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.0.iter().zip(VERDICTS).filter(|(count, _)| **count > 0);
        for (place, (count, name)) in counted.enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{} {name}", grouped(*count))?;
        }
        Ok(())
    }
}

/// A text of a file of keys, or a file's name, for a terminal, which would obey control characters.
pub(crate) struct Printable<'a>(pub(crate) &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| {
            f.write_char(if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter })
        })
    }
}

/// A number with commas between its thousands.
pub(super) fn grouped(number: u64) -> String {
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

/// A number and what is counted, such as `1 segment` and `1,200 segments`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// The flags that are set, such as `SYN ACK`; nothing of a segment without.
pub(crate) fn flags(flags: Flags) -> String {
    let all = [(flags.syn(), "SYN"), (flags.fin(), "FIN"), (flags.rst(), "RST"), (flags.ack(), "ACK")];
    let set: Vec<_> = all.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    set.join(" ")
}

/// The name of the key of a use.
pub(super) fn key_name<'k>(key_use: &KeyUse, keys: &'k Keys) -> Option<&'k str> {
    Some(keys.keys.get(key_use.key?)?.name.as_str())
}

/// A use of a key: `KeyID 100 (core/100)`.
pub(super) fn key(key_use: &KeyUse, keys: &Keys) -> String {
    match key_name(key_use, keys) {
        // A key without a chain may have no other name than its id.
        Some(name) if name == key_use.key_id.to_string() => format!("KeyID {name}"),
        Some(name) => format!("KeyID {} ({name})", key_use.key_id),
        None => format!("KeyID {}", key_use.key_id),
    }
}

/// What comes before a use of a key: whether it follows on a rollover, which a segment that does not verify is no sign of.
pub(super) fn transition(uses: &[KeyUse], place: usize) -> Option<&'static str> {
    let before = uses[..place].iter().rev().find(|key_use| key_use.key.is_some());
    let of = |key_use: &KeyUse| key_use.key.map(|key| (key, key_use.key_id));
    let is_rollover =
        of(&uses[place]).is_some() && before.is_some_and(|before| of(before) != of(&uses[place]));
    match (place, is_rollover) {
        (0, _) => None,
        (_, true) => Some("rolled over to"),
        (_, false) => Some("then"),
    }
}

/// The sentences of a connection's diagnoses, each with what it explains: one that is said of both ends stands once.
pub(super) fn reasons(connection: &ConnectionReport) -> Vec<(&str, String)> {
    let mut reasons: Vec<(&str, String)> = Vec::new();
    for diagnosis in &connection.diagnoses {
        let explained = explained(diagnosis, &connection.ends);
        match reasons.iter_mut().find(|(sentence, _)| *sentence == diagnosis.sentence) {
            Some((_, all)) => *all += &format!("; {explained}"),
            None => reasons.push((&diagnosis.sentence, explained)),
        }
    }
    reasons
}

/// Whose segments a diagnosis is of: `4 segments of 192.0.2.2:179, from packet 9 on`.
fn explained(diagnosis: &Diagnosis, ends: &[Endpoint; 2]) -> String {
    let (from, packet) = (ends[diagnosis.sender as usize], diagnosis.first.packet);
    match diagnosis.segments {
        0 => format!("{from}, packet {packet}"),
        1 => format!("1 segment of {from}, packet {packet}"),
        segments => format!("{} of {from}, from packet {packet} on", counted(segments, "segment")),
    }
}

/// Packets from the one to the other: `packet 3`, `packets 3 to 9`.
pub(super) fn packets(first: Place, last: Place) -> String {
    if first.packet == last.packet {
        format!("packet {}", first.packet)
    } else {
        format!("packets {} to {}", first.packet, last.packet)
    }
}

/// A moment as RFC 3339 writes it, without the day and the zone where the day is that of `start`.
pub(super) fn time_after(start: Option<Time>, time: Time) -> String {
    let (text, start) = (time.to_string(), start.map(|start| start.to_string()));
    match (text.split_once('T'), start.as_deref().and_then(|start| start.split_once('T'))) {
        (Some((day, clock)), Some((first_day, _))) if day == first_day => {
            clock.trim_end_matches('Z').to_owned()
        }
        _ => text,
    }
}

/// What was counted and not judged, with its count if that is not zero.
pub(super) fn passed_over(totals: &Totals) -> impl Iterator<Item = String> {
    let counts = [
        (totals.fragments, "fragment", " of an IP packet, whose segment cannot be seen as a whole"),
        (totals.unreadable, "packet", " of a link type or with headers that cannot be read"),
        (totals.left_out, "packet", " of TCP that the selection leaves out"),
        (totals.other, "packet", " without TCP"),
    ];
    let above_zero = counts.into_iter().filter(|(count, ..)| *count > 0);
    above_zero.map(|(count, noun, rest)| counted(count, noun) + rest)
}

/// From one moment to another, in the unit that suits; nothing where the clock went back.
pub(super) fn duration(from: Time, to: Time) -> Option<String> {
    Some(nanoseconds(to.unix_nanoseconds().checked_sub(from.unix_nanoseconds())?))
}

/// A duration in the unit that suits: three significant digits up to a minute, whole seconds beyond.
pub(super) fn nanoseconds(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match nanoseconds {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => digits(nanoseconds as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => digits(nanoseconds as f64 / 1e6, "ms"),
        _ if seconds < 60 => digits(nanoseconds as f64 / 1e9, "s"),
        _ if seconds < 3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn digits(value: f64, unit: &str) -> String {
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    let text = format!("{value:.decimals$}");
    let short = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{short} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([counted(1, "segment"), counted(0, "segment")], ["1 segment", "0 segments"]);
        let rows = [
            (0, "0 s"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (12_340_000, "12.3 ms"),
            (250_000_000, "250 ms"),
            (5_000_000_000, "5 s"),
            (59_994_000_000, "60 s"),
            (61_000_000_000, "1 min 1 s"),
            (3_660_000_000_000, "1 h 1 min"),
            (90_000_000_000_000, "1 d 1 h"),
        ];
        for (value, expected) in rows {
            assert_eq!(nanoseconds(value), expected);
        }
    }
}
