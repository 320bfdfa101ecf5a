//! Checks for keys in any format.

use std::path::Path;

use wireseal_keys::{Chain, Format, Implementation, KeyFile, Problem, Timestamp, check, convert, read};

/// Parses a text. An error must be one line; keys must pass [`check_keys`].
pub fn check_text(text: &str, format: Format) {
    match read(Path::new("keys"), text, Some(format)) {
        Ok(file) => check_keys(&file),
        Err(error) => {
            let shown = error.to_string();
            assert!(!shown.is_empty() && !shown.contains('\n'), "{shown}");
        }
    }
}

/// Explains keys, writes them in every format and reads them again.
pub fn check_keys(file: &KeyFile) {
    let now = Timestamp::from_unix_seconds(1_800_000_000);
    for finding in check(file, now, &Implementation::all().collect::<Vec<_>>()) {
        assert!(!finding.sentence.is_empty());
    }
    if let Err(error) = file.keys() {
        assert!(!error.to_string().is_empty());
    }
    for to in Format::ALL.into_iter().filter(|format| format.is_written()) {
        let conversion = match convert(file, to) {
            Ok(conversion) => conversion,
            Err(error) => {
                match error.problem() {
                    Problem::NothingLeft { losses, .. } => assert!(!losses.is_empty()),
                    _ => assert!(matches!(to, Format::Toml | Format::Json | Format::Xml), "{error}"),
                }
                continue;
            }
        };
        let again = read_again(&conversion.text, to);
        if conversion.losses.is_empty() {
            assert!(is_same(&again.chains, &file.chains), "{to}: {file:?} {again:?}");
        }
        let once_more = convert(&again, to).expect("keys that were written can be written again");
        assert!(is_same(&read_again(&once_more.text, to).chains, &again.chains), "{to}: {again:?}");
    }
}

fn read_again(text: &str, format: Format) -> KeyFile {
    read(Path::new("written"), text, Some(format)).unwrap_or_else(|error| panic!("{format}: {error}\n{text}"))
}

/// Whether two files have the same keys; chains without a name may have a name in `one`.
fn is_same(one: &[Chain], other: &[Chain]) -> bool {
    // Formats that group neighbors by VRF have them in another order.
    let neighbors = |chain: &Chain| {
        let mut neighbors: Vec<_> = chain.neighbors.iter().map(ToString::to_string).collect();
        neighbors.sort_unstable();
        neighbors
    };
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            (one.name == other.name || other.name.is_empty())
                && one.description == other.description
                && one.accept_tolerance == other.accept_tolerance
                && neighbors(one) == neighbors(other)
                && one.keys.len() == other.keys.len()
                && one.keys.iter().zip(&other.keys).all(|(one, other)| one.is_same_key(other))
        })
}
