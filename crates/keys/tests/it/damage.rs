//! Routers' configurations that were cut short, or lack a word or a line: an error or keys, and no secret in sight.

use std::path::Path;

use wireseal_keys::{Format, Implementation, Timestamp, check, read};

/// Reads a text in which every secret is `hunter2`.
fn read_damaged(text: &str, format: Format) {
    match read(Path::new("router.cfg"), text, Some(format)) {
        Err(error) => {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2") && !error.to_string().contains('\n'), "{shown}\n{text}");
        }
        Ok(file) => {
            let now = Timestamp::from_unix_seconds(1_800_000_000);
            let findings = check(&file, now, &[Implementation::reading(Some(format))]);
            // Names, which damage may make of a secret, are shown.
            let is_name = file.chains.iter().any(|chain| chain.name.contains("hunter2"));
            let shown = format!("{findings:?} {file:?}");
            assert!(is_name || !shown.contains("hunter2"), "{shown}\n{text}");
        }
    }
}

#[test]
fn damaged_configurations_show_no_secret() {
    let secrets = [
        "Vd8zqkT1p0wYhU3m",
        "k2Lr9sXw4Qe7Zb1N",
        "k2Lr9sXw 4Qe7Zb1N",
        "q8Wc5Rt1Yx6Lm0Zd",
        "hello321",
        "bye123",
        "c0ffee and cream",
        "keys1keys1keys1",
        "cisco123",
        "two words",
        "0 another",
        "a \\\"quoted\\\" secret",
        "Vd8zqkT1 p0wYh#3m",
        "k2Lr9\\\"sXw4Qe7Zb1N",
        "interop-b7Qx2mPz",
        "no key of TCP-AO",
    ];
    for (name, format) in [
        ("eos.cfg", Format::Eos),
        ("vrp.cfg", Format::Vrp),
        ("bird.conf", Format::Bird),
        ("junos.conf", Format::Junos),
        ("junos-set.conf", Format::Junos),
        ("ios-xr.cfg", Format::IosXr),
        ("ios-xe.cfg", Format::IosXe),
        ("sr-os.cfg", Format::SrOs),
        ("sr-os-classic.cfg", Format::SrOs),
        ("sr-os-commands.cfg", Format::SrOs),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/routers").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        let text = secrets.iter().fold(text, |text, secret| text.replace(secret, "hunter2"));
        for (end, _) in text.char_indices() {
            // A secret that was cut short is another one.
            if !(1..7).any(|length| text[..end].ends_with(&"hunter2"[..length])) {
                read_damaged(&text[..end], format);
            }
        }
        let words: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for parts in [words, lines] {
            for lost in 0..parts.len() {
                let rest = [&parts[..lost], &parts[lost + 1..]].concat().concat();
                read_damaged(&rest, format);
                // Also with the next part at the wrong place.
                let mut parts = parts.clone();
                let next = (lost + 1) % parts.len();
                parts.swap(lost, next);
                read_damaged(&parts.concat(), format);
            }
        }
    }
}
