//! What is said of a packet in a comment: its verdict and, if it is not good, why.

use std::fmt::Write as _;

use wireseal_tcp_ao::{Endpoint, Sne};

use super::words::VerdictInWords;
use crate::keys::Keys;
use crate::text::{Printable, counted, grouped};
use crate::verify::report::{Counts, Diagnosis, Sender, Standing, Verdict, failed, not_judged};

/// The comment of a good segment: `wireseal: good (core/100, SNE 0)`. `key` is the index of the one that verified.
pub(crate) fn good(keys: &Keys, key: Option<usize>, sne: Option<Sne>) -> String {
    let key = key.and_then(|key| keys.keys.get(key));
    let name = key.map(|key| format!("{}, ", Printable(&key.name))).unwrap_or_default();
    format!("wireseal: good ({name}SNE {})", sne.map_or(0, |sne| sne.0))
}

/// The beginning of any other: `wireseal: bad MAC`, or `wireseal: not judged: ISN not seen`.
pub(crate) fn not_good(verdict: Verdict) -> String {
    let begin = if verdict.is_failure() { "" } else { "not judged: " };
    format!("wireseal: {begin}{}", VerdictInWords(verdict))
}

/// Why segments of one end of a connection failed, or were not judged, as `about` says.
///
/// With several explanations, or one of only some of the segments, it is not known which segments each is about, and that is said.
pub(crate) fn reason<'d>(
    end: Endpoint,
    sender: Sender,
    counts: &Counts,
    about: Standing,
    diagnoses: impl IntoIterator<Item = &'d Diagnosis>,
) -> Option<String> {
    let (count, what) = match about {
        Standing::Failed => (failed(counts), "failed"),
        _ => (not_judged(counts), "could not be judged"),
    };
    let own = |diagnosis: &&Diagnosis| diagnosis.sender == sender && diagnosis.about == about;
    let diagnoses: Vec<_> = diagnoses.into_iter().filter(own).collect();
    match diagnoses[..] {
        _ if count == 0 => None,
        [] => None,
        [only] if only.segments >= count => Some(Printable(&only.sentence()).to_string()),
        ref several => {
            let mut reason = format!("of {} of {end} that {what}", counted(count, "segment"));
            for diagnosis in several {
                let _ = write!(reason, ", {} because: {}", grouped(diagnosis.segments), diagnosis.sentence());
            }
            Some(Printable(&reason).to_string())
        }
    }
}
