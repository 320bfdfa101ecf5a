//! The status of an instance: reading and writing it changes nothing, and its metrics list each peer, in lines that no name in it can forge.
//!
//! Input: the status in JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wireseal_agent::Status;
use wireseal_agent::fuzzing::formats;

fuzz_target!(|json: &[u8]| {
    let Ok(status) = serde_json::from_slice::<Status>(json) else { return };
    let written = serde_json::to_vec(&status).expect("a status can be written");
    assert_eq!(serde_json::from_slice::<Status>(&written).expect("and read again"), status);
    let [open_metrics, plain] = formats(status.clone());
    assert!(open_metrics.ends_with("\n# EOF\n") && !plain.contains("\n# EOF\n"));
    for text in [open_metrics, plain] {
        let mut peers = Vec::new();
        for line in text.split('\n').filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            let (name, labels) = sample(line).unwrap_or_else(|| panic!("{line}"));
            assert!(name.starts_with("wireseal_"), "{line}");
            if name == "wireseal_sessions" {
                let [(label, peer)] = &labels[..] else { panic!("{line}") };
                assert_eq!(label, "peer");
                peers.push(peer.clone());
            }
        }
        assert!(status.peers.iter().map(|peer| &peer.peer).eq(&peers), "{peers:?}");
    }
});

/// The name and the labels of a sample: `name{label="value",...} number`.
fn sample(line: &str) -> Option<(&str, Vec<(String, String)>)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(first) = rest.strip_prefix('{') {
        rest = first;
        while let Some((label, behind)) = rest.split_once("=\"") {
            let mut value = String::new();
            let mut letters = behind.char_indices();
            let end = loop {
                match letters.next()? {
                    (_, '\\') => value.push(match letters.next()?.1 {
                        'n' => '\n',
                        other => other,
                    }),
                    (at, '"') => break at + 1,
                    (_, letter) => value.push(letter),
                }
            };
            labels.push((label.trim_start_matches(',').to_owned(), value));
            rest = &behind[end..];
            if rest.starts_with('}') {
                break;
            }
        }
        rest = rest.strip_prefix('}')?;
    }
    let number = rest.strip_prefix(' ')?;
    number.parse::<f64>().is_ok().then_some((name, labels))
}
