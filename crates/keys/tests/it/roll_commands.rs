//! The commands for routers of each step of a plan.

use wireseal_keys::{Chain, Error, Format, KeyFile, Plan, Side, Wish};

use crate::roll::{
    AT, NEXT, SECRET, file, files, gaps, lines, moment, plan, secret, text_of_toml, texts, wish,
};

/// The plan for two ends, and the commands of the first one's steps.
fn steps(text: &str, files: &[KeyFile; 2], wish: Wish) -> Result<(Plan, Vec<String>), Error> {
    let plan = plan(files, wish)?;
    assert_eq!(gaps(&plan, files), []);
    let changes = plan.changes(Side::One, &files[0], text, &secret())?;
    assert!(changes.iter().all(|change| !change.is_file && change.losses.is_empty()));
    Ok((plan, changes.iter().map(|change| change.text.to_string()).collect()))
}

/// The same with a TOML file at the other end, whose key has one id.
fn with_toml(text: &str, format: Format) -> Result<Vec<String>, Error> {
    let files = [file(text, format), file(&text_of_toml(), Format::Toml)];
    steps(text, &files, wish()).map(|(_, steps)| steps)
}

fn chain(text: &str, format: Format) -> Chain {
    file(text, format).chains.swap_remove(0)
}

#[test]
fn sr_os_adds_and_deletes_send_and_receive_entries() {
    let texts = texts(Format::SrOs, Format::Bird);
    let (plan, steps) = steps(&texts[0].1, &files(&texts), wish()).unwrap();
    assert_eq!(plan.ends[0].tolerance_seconds, 300);
    let path = "/configure system security keychains keychain \"core\"";
    let expected = [
        format!("{path} receive entry 20 tolerance 600"),
        format!("{path} receive entry 21 authentication-key \"{NEXT}\""),
        format!("{path} receive entry 21 algorithm aes-128-cmac-96"),
        format!("{path} receive entry 21 begin-time 2026-12-01T00:00:00.0Z"),
        format!("{path} receive entry 21 tolerance 600"),
        format!("{path} send entry 11 authentication-key \"{NEXT}\""),
        format!("{path} send entry 11 algorithm aes-128-cmac-96"),
        format!("{path} send entry 11 begin-time 2026-12-01T00:00:00.0Z"),
    ];
    assert_eq!(lines(&steps[0]), expected);
    assert_eq!(lines(&steps[1]), [path, "delete receive entry 20", "delete send entry 10"]);
    // What is added is the planned key.
    let options = format!("{path} tcp-option-number send tcp-ao\n{path} tcp-option-number receive tcp-ao\n");
    let added = steps[0].lines().filter(|line| !line.contains("entry 20")).collect::<Vec<_>>().join("\n");
    let added = chain(&(options + &added), Format::SrOs);
    assert_eq!((added.keys.len(), added.keys[0].send_id.0, added.keys[0].recv_id.0), (1, 11, 21));
    assert_eq!((added.keys[0].send.from(), added.accept_tolerance), (Some(moment(AT)), 300));
}

fn sr_os(entries: &str) -> String {
    format!(
        "configure {{\n system {{\n security {{\n keychains {{\n keychain \"core\" {{\n tcp-option-number {{\n receive tcp-ao\n send tcp-ao\n \
         }}\n{entries} }}\n }}\n }}\n }}\n}}\n"
    )
}

#[test]
fn sr_os_entries_for_both_directions_stay_so() {
    let entry = |more: &str| {
        format!(
            "entry 10 {{\n authentication-key \"{SECRET}\"\n algorithm aes-128-cmac-96\n begin-time 2020-01-01T00:00:00Z\n{more} }}\n"
        )
    };
    let path = "/configure system security keychains keychain \"core\"";
    let steps = with_toml(&sr_os(&format!("bidirectional {{\n{} }}\n", entry(""))), Format::SrOs).unwrap();
    let expected = [
        format!("{path} bidirectional entry 10 tolerance 600"),
        format!("{path} bidirectional entry 11 authentication-key \"{NEXT}\""),
        format!("{path} bidirectional entry 11 algorithm aes-128-cmac-96"),
        format!("{path} bidirectional entry 11 begin-time 2026-12-01T00:00:00.0Z"),
        format!("{path} bidirectional entry 11 tolerance 600"),
    ];
    assert_eq!(lines(&steps[0]), expected);
    assert_eq!(lines(&steps[1]), [path, "delete bidirectional entry 10"]);
    // A tolerance that is enough stays, and one id does not make an entry of two.
    let both = sr_os(&format!("receive {{\n{} }}\nsend {{\n{} }}\n", entry("tolerance 900\n"), entry("")));
    let steps = with_toml(&both, Format::SrOs).unwrap();
    assert!(!steps[0].contains("entry 10") && !steps[0].contains("bidirectional"), "{}", steps[0]);
    assert!(steps[0].contains("receive entry 11 tolerance 900"), "{}", steps[0]);
    assert_eq!(lines(&steps[1]), [path, "delete receive entry 10", "delete send entry 10"]);
    // As commands, too.
    let one_line = format!(
        "{path} tcp-option-number send tcp-ao\n{path} tcp-option-number receive tcp-ao\n{path} bidirectional entry 10 authentication-key \
         \"{SECRET}\"\n{path} bidirectional entry 10 algorithm aes-128-cmac-96\n{path} bidirectional entry 10 begin-time \
         2020-01-01T00:00:00Z\n"
    );
    assert_eq!(lines(&with_toml(&one_line, Format::SrOs).unwrap()[0]), expected);
}

#[test]
fn sr_os_without_a_name_or_in_the_classic_cli_gets_no_commands() {
    let classic = format!(
        "/configure system security keychain \"core\"\n tcp-option-number send tcp-ao receive tcp-ao\n direction bi entry 10 key \"{SECRET}\" \
         algorithm aes-128-cmac-96\n begin-time 2020-01-01T00:00:00Z\n"
    );
    let error = with_toml(&classic, Format::SrOs).unwrap_err().to_string();
    assert!(error.contains("this is the classic CLI"), "{error}");
    let alone = format!(
        "tcp-option-number {{\n receive tcp-ao\n send tcp-ao\n}}\nbidirectional {{\n entry 10 {{\n authentication-key \"{SECRET}\"\n algorithm \
         aes-128-cmac-96\n begin-time 2020-01-01T00:00:00Z\n }}\n}}\n"
    );
    let error = with_toml(&alone, Format::SrOs).unwrap_err().to_string();
    assert!(error.contains("the name of the keychain is not in this file"), "{error}");
}
