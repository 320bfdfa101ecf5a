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

/// The neighbor without which an EOS profile has no algorithm.
const EOS_NEIGHBOR: &str =
    "router bgp 1\n   neighbor 192.0.2.2 password shared-secret profile core algorithm aes-128-cmac-96\n";

#[test]
fn eos_gets_the_new_secret_and_the_end_of_the_old_one() {
    let texts = texts(Format::Eos, Format::Bird);
    let (_, steps) = steps(&texts[0].1, &files(&texts), wish()).unwrap();
    let expected = [
        "management security".to_owned(),
        "session shared-secret profile core".to_owned(),
        format!(
            "secret 11 0 {NEXT} receive-lifetime 2026-11-30 23:55:00 infinite transmit-lifetime 2026-12-01 00:00:00 infinite"
        ),
        format!(
            "secret 10 0 {SECRET} receive-lifetime infinite transmit-lifetime 1970-01-01 00:00:00 2026-12-01 01:00:00"
        ),
    ];
    assert_eq!(lines(&steps[0]), expected);
    assert_eq!(
        lines(&steps[1]),
        ["management security", "session shared-secret profile core", "no secret 10"]
    );
    let chain = chain(&format!("{}{EOS_NEIGHBOR}", steps[0]), Format::Eos);
    assert_eq!(chain.keys[0].send.from(), Some(moment(AT)));
    assert_eq!(
        (chain.keys[1].send.until(), chain.keys[1].accept.until()),
        (Some(moment("2026-12-01T01:00:00Z")), None)
    );
}

/// The switch has what it has: only the end of the lifetime is new.
#[test]
fn eos_secrets_that_only_the_switch_can_decrypt_are_given_again_as_they_are() {
    for (old, again) in [
        ("secret 10 7 $1c$9k2Xl== infinite", "secret 10 7 $1c$9k2Xl=="),
        (
            "secret 10 8a SGk+x receive-lifetime 2020-01-01 00:00:00 infinite transmit-lifetime 01/02/2020 00:00:00 infinite",
            "secret 10 8a SGk+x",
        ),
        ("secret 10 the-old-secret-of-both infinite", "secret 10 the-old-secret-of-both"),
    ] {
        let text = format!(
            "management security\n   session shared-secret profile core\n      {old}\n{EOS_NEIGHBOR}"
        );
        let steps = with_toml(&text, Format::Eos).unwrap();
        let line = lines(&steps[0])[3];
        assert!(line.starts_with(&format!("{again} receive-lifetime ")), "{line}");
        assert!(line.ends_with(" 2026-12-01 01:00:00"), "{line}");
        // Without indentation, too.
        let flat: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(with_toml(&flat.join("\n"), Format::Eos).unwrap(), steps);
    }
}

#[test]
fn eos_needs_one_id_and_one_algorithm() {
    let texts = texts(Format::Eos, Format::Toml);
    let other = Wish { algorithm: Some("HMAC-SHA-1-96".parse().unwrap()), ..wish() };
    let error = plan(&files(&texts), other).unwrap_err().to_string();
    assert!(error.contains("EOS has one algorithm for all keys of a neighbor"), "{error}");
}

#[test]
fn vrp_ends_the_old_send_time_where_the_new_one_begins() {
    let texts = texts(Format::Vrp, Format::Bird);
    let (plan, steps) = steps(&texts[0].1, &files(&texts), wish()).unwrap();
    assert_eq!(plan.ends[0].tolerance_seconds, 0);
    let next = format!("key-string plain {NEXT}");
    let expected = [
        "keychain core mode absolute",
        "key-id 7",
        "send-time 00:00 1970-01-01 to 00:00 2026-12-01",
        "quit",
        "key-id 8",
        "algorithm aes-128-cmac",
        &next,
        "send-time 00:00 2026-12-01 duration infinite",
        "receive-time 23:55 2026-11-30 duration infinite",
        "quit",
        "quit",
        "tcp ao core",
        "key-id 8",
        "send-id 11 receive-id 21",
        "quit",
        "quit",
    ];
    assert_eq!(lines(&steps[0]), expected);
    let expected =
        ["tcp ao core", "undo key-id 7", "quit", "keychain core mode absolute", "undo key-id 7", "quit"];
    assert_eq!(lines(&steps[1]), expected);
    let whole = format!("{}tcp ao core\n binding keychain core\n", steps[0]);
    let utc = whole.replace("mode absolute\n", "mode absolute\n time mode utc\n");
    let added = file(&utc, Format::Vrp).chains.swap_remove(0);
    assert_eq!((added.keys.len(), added.keys[0].key_id, added.keys[0].send.from()), (1, 8, Some(moment(AT))));
}

/// Its keychain as a person wrote it.
fn vrp(old: &str, more: &str) -> String {
    format!(
        "#\nkeychain \"Of Core\" mode absolute\n time mode utc\n #\n key-id 10\n  algorithm aes-128-cmac\n  key-string plain {SECRET}\n  {old}\n  \
         receive-time 00:00 2020-01-01 duration infinite\n{more}#\ntcp ao policy1\n binding keychain \"of core\"\n key-id 10\n  send-id 10 receive-id 10\n#\nbgp \
         1\n peer 192.0.2.2 tcp-ao policy policy1\n"
    )
}

#[test]
fn vrp_names_the_keychain_that_the_policy_binds() {
    let steps = with_toml(&vrp("send-time 00:00 2020-01-01 duration infinite", ""), Format::Vrp).unwrap();
    let add = lines(&steps[0]);
    assert_eq!(
        add[..3],
        ["keychain \"of core\" mode absolute", "key-id 10", "send-time 00:00 2020-01-01 to 00:00 2026-12-01"]
    );
    assert!(add.contains(&"tcp ao policy1"), "{add:?}");
    // Nothing ends a default key: the new one is sent with from its start on.
    let steps = with_toml(&vrp("default send-key-id", ""), Format::Vrp).unwrap();
    assert!(!steps[0].contains("key-id 10"), "{}", steps[0]);
    assert!(steps[1].contains("undo key-id 10"), "{}", steps[1]);
}

#[test]
fn vrp_keys_that_the_policy_does_not_have_are_not_replaced() {
    let more = " #\n key-id 11\n  algorithm hmac-sha-256\n  key-string cipher %^%#x%^%#\n";
    let error =
        with_toml(&vrp("send-time 00:00 2020-01-01 duration infinite", more), Format::Vrp).unwrap_err();
    assert!(error.to_string().contains("its keychain has a key-id 11"), "{error}");
}

/// VRP has minutes, so a change within one begins early there, which the peer does not accept.
#[test]
fn vrp_changes_at_whole_minutes() {
    let texts = texts(Format::Vrp, Format::Toml);
    let files = files(&texts);
    let at = Wish { at: moment("2026-12-01T00:00:30Z"), skew_seconds: 0, ..wish() };
    let gaps = gaps(&plan(&files, at).unwrap(), &files);
    assert!(gaps[0].sentence.contains("edge-a signs with core/8"), "{gaps:?}");
}
