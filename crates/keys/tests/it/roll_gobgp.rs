//! GoBGP's files for each step of a plan, however a person has laid them out.

use wireseal_keys::{Chain, Error, Format, KeyFile, Preference, Side};

use crate::roll::{NEXT, SECRET, file, gaps, plan, secret, text_of_toml, wish};

/// The old secret in Base64.
const BASE64: &str = "dGhlLW9sZC1zZWNyZXQtb2YtYm90aA==";

/// The texts of the three steps of one end, whose peer has a TOML file.
fn steps(text: &str) -> Result<Vec<String>, Error> {
    let files = [file(text, Format::GoBgp), file(&text_of_toml(), Format::Toml)];
    let plan = plan(&files, wish())?;
    assert_eq!(gaps(&plan, &files), []);
    let changes = plan.changes(Side::One, &files[0], text, &secret())?;
    assert!(changes.iter().all(|change| change.is_file && change.losses.is_empty()));
    Ok(changes.iter().map(|change| change.text.to_string()).collect())
}

fn ids(chain: &Chain) -> Vec<(u8, bool)> {
    chain.keys.iter().map(|key| (key.send_id.0, key.preference == Preference::Preferred)).collect()
}

/// What is in a text besides keys and SendIDs.
fn kept(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| line.contains("KEEP")).collect()
}

/// Checks the files of each step.
fn check(text: &str, other: bool) {
    let steps = steps(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let more = other.then_some((30, false));
    for (step, text_of_step) in steps.iter().enumerate() {
        let KeyFile { chains, .. } = file(text_of_step, Format::GoBgp);
        let expected = [(11, step > 0), (10, step == 0)];
        let expected = expected[..2 - usize::from(step == 2)].iter().copied().chain(more);
        assert_eq!(ids(&chains[0]), expected.collect::<Vec<_>>(), "{text_of_step}");
        assert_eq!(chains[0].keys[0].secret.expose(), NEXT.as_bytes());
        assert_eq!(chains[0].keys.iter().any(|key| key.secret.expose() == SECRET.as_bytes()), step < 2);
        assert_eq!(kept(text_of_step), kept(text));
        assert_eq!(chains[0].neighbors, file(text, Format::GoBgp).chains[0].neighbors);
    }
}

#[test]
fn files_are_edited_however_they_are_laid_out() {
    let key = |id: u8, secret: &str| {
        format!(
            "key-id = {id}\nreceive-id = {id}\ncrypto-algorithm = \"aes_128_cmac_96\"\nsecret-key = \"{secret}\"\n"
        )
    };
    let tail = "\n# KEEP 1\n[[neighbors]]\n[neighbors.config]\nneighbor-address = \"192.0.2.2\" # KEEP 2\npeer-as = 65002 # KEEP 3\n\
                [neighbors.tcp-ao.config]\nkeychain = \"core\"\nsend-id = 10\n[neighbors.timers.config] # KEEP 4\nhold-time = 9\n";
    let head = "# KEEP\n[global.config]\nas = 65001 # KEEP\n";
    let name = "[[keychains]]\n  [keychains.config]\n    name = \"core\"\n";
    let [old, more] = [(10, BASE64), (30, "YW5vdGhlci1rZXktb2YtaXRz")].map(|(id, secret)| key(id, secret));
    for (keys, other) in [
        (format!("{name}  [[keychains.keys]]\n    [keychains.keys.config]\n{old}"), false),
        (format!("{name}[[keychains.keys]]\n[keychains.keys.config]\n{old}# KEEP\n"), false),
        (format!("{name}[[ keychains.keys ]] # ours\n[ keychains.keys.config ]\n{old}"), false),
        (
            format!(
                "{name}\n[[keychains.keys]]\n[keychains.keys.config]\n{old}\n[[keychains.keys]]\n[keychains.keys.config]\n{more}"
            ),
            true,
        ),
        (format!("{name}[[keychains.keys]]\nconfig = {{ {} }}\n", old.trim().replace('\n', ", ")), false),
        (
            format!(
                "[[keychains]]\nconfig.name = \"core\"\nkeys = [ # KEEP\n  {{ config = {{ {} }} }},\n  {{ config = {{ {} }} }}\n]\n",
                old.trim().replace('\n', ", "),
                more.trim().replace('\n', ", ")
            ),
            true,
        ),
    ] {
        let text = format!("{head}{keys}{tail}");
        check(&text, other);
        check(&text.replace('\n', "\r\n"), other);
    }
}

#[test]
fn json_and_yaml_stay_what_they_are() {
    let json = |keys: &str| {
        format!(
            "{{\n  \"global\": {{\"config\": {{\"as\": 65001}}}},\n  \"keychains\": [{{\"config\": {{\"name\": \"core\"}}, \"keys\": [{keys}]}}],\n  \
             \"neighbors\": [{{\n    \"config\": {{\"neighbor-address\": \"192.0.2.2\", \"description\": \"KEEP }} \\\" {{\"}},\n    \"tcp-ao\": \
             {{\"config\": {{\"keychain\": \"core\", \"send-id\": 10}}}}\n  }}]\n}}\n"
        )
    };
    let of = |id: u8, secret: &str| {
        format!(
            "{{\"config\": {{\"key-id\": {id}, \"receive-id\": {id}, \"crypto-algorithm\": \"aes_128_cmac_96\", \"secret-key\": \"{secret}\"}}}}"
        )
    };
    let [old, more] = [of(10, BASE64), of(30, "YW5vdGhlci1rZXktb2YtaXRz")];
    check(&json(&old), false);
    check(&json(&format!("{old},\n   {more}")), true);
    let yaml = |keys: &str| {
        format!(
            "---\n# KEEP\nkeychains:\n  - config:\n      name: core\n    keys:\n{keys}\nneighbors: # KEEP\n  - config:\n      neighbor-address: \
             192.0.2.2\n    tcp-ao:\n      config: {{keychain: core, preferred-send-id: \"10\"}}\n"
        )
    };
    let block = |indent: &str, id: u8, secret: &str| {
        format!(
            "{indent}-  config:\n{indent}      key-id: {id}\n\n{indent}      receive-id: {id}\n{indent}      crypto-algorithm: \
             aes_128_cmac_96\n{indent}      secret-key: {secret}\n"
        )
    };
    for indent in ["    ", "      "] {
        let keys = [block(indent, 10, BASE64), block(indent, 30, "YW5vdGhlci1rZXktb2YtaXRz")];
        check(&yaml(&keys[0]), false);
        check(&yaml(&keys.concat()), true);
    }
    check(&yaml(&format!("      - {old}\n      - {more}")), true);
    check(&yaml(&format!("      [{old}, {more}]")), true);
}

#[test]
fn what_does_not_change_over_is_said() {
    let text = |users: &str| {
        format!(
            "[[keychains]]\n[keychains.config]\nname = \"core\"\n[[keychains.keys]]\n[keychains.keys.config]\nkey-id = 10\nreceive-id = \
             10\ncrypto-algorithm = \"aes_128_cmac_96\"\nsecret-key = \"{BASE64}\"\n[[keychains.keys]]\n[keychains.keys.config]\nkey-id = \
             30\nreceive-id = 30\ncrypto-algorithm = \"aes_128_cmac_96\"\nsecret-key = \"YW5vdGhlci1rZXktb2YtaXRz\"\n{users}"
        )
    };
    let user = |address: &str, send_id: u8| {
        format!(
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{address}\"\n[neighbors.tcp-ao.config]\nkeychain = \"core\"\nsend-id = \
             {send_id}\n"
        )
    };
    let both = text(&(user("192.0.2.2", 10) + &user("192.0.2.3", 30)));
    let error = steps(&both).unwrap_err().to_string();
    assert!(error.contains("its neighbors start with different keys"), "{error}");
    let wide = text(&user("192.0.2.2", 10))
        .replace("\n[[keychains.keys]]", &format!("\n{:99}[[keychains.keys]]", ""));
    let error = steps(&wide).unwrap_err().to_string();
    assert!(error.contains("cannot be edited in this text"), "{error}");
    let error = steps(&text("")).unwrap_err().to_string();
    let expected =
        "edge-a: no neighbor in its file uses the chain \"core\", and GoBGP ranks keys only for neighbors";
    assert_eq!(error, expected);
    // A group's neighbors change over with it.
    let group = "[[peer-groups]]\n[peer-groups.config]\npeer-group-name = \"g\"\n[peer-groups.tcp-ao.config]\nkeychain = \
                 \"core\"\nsend-id = 10\n[[neighbors]]\n[neighbors.config]\nneighbor-address = \"192.0.2.2\"\npeer-group = \"g\"\n";
    let steps = steps(&text(group)).unwrap();
    assert!(steps[1].contains("keychain = \"core\"\nsend-id = 11\n"), "{}", steps[1]);
}

/// What stands around the keys stays as it is, to the octet.
#[test]
fn only_keys_and_send_ids_change() {
    let key = |id: u8, secret: &str| {
        format!(
            "[[keychains.keys]]\n  [keychains.keys.config]\n    key-id = {id}\n    receive-id = {id}\n    crypto-algorithm = \
             \"aes_128_cmac_96\"\n    secret-key = \"{secret}\"\n"
        )
    };
    let text = |keys: &str, send_id: u8| {
        format!(
            "[[keychains]]\nconfig.name = \"core\"\n{keys}[[neighbors]]\nconfig.neighbor-address = \"192.0.2.2\"\n\
             [neighbors.tcp-ao.config]\nkeychain = \"core\"\nsend-id = {send_id}\n"
        )
    };
    let new = key(11, "TmV4dDlzZWNyZXRPZlRoaXJ0eVR3b0NoYXJhY3RlcnM=");
    let (old, other) = (key(10, BASE64), key(30, "YW5vdGhlci1rZXktb2YtaXRz"));
    for (before, between) in [("", ""), ("# one, two,\n", "\n# three,\n")] {
        // The old key is the first, which a blank line sets apart from the new one, and then the second.
        let steps = steps(&text(&format!("{before}{old}{between}{other}"), 10)).unwrap();
        let kept = format!("{before}{new}\n{old}{between}{other}");
        let expected =
            [text(&kept, 10), text(&kept, 11), text(&format!("{before}{new}{between}{other}"), 11)];
        assert_eq!(steps, expected);
        let steps = self::steps(&text(&format!("{before}{other}{between}{old}"), 10)).unwrap();
        let kept = format!("{before}{new}\n{other}{between}{old}");
        let last = text(&format!("{before}{new}\n{other}{between}"), 11);
        assert_eq!(steps, [text(&kept, 10), text(&kept, 11), last]);
    }
    // Elements of YAML's lists need no line between them.
    let yaml = |keys: &str, send_id: u8| {
        format!(
            "keychains:\n- config: {{name: core}}\n  keys:\n{keys}neighbors:\n- config: {{neighbor-address: 192.0.2.2}}\n  tcp-ao: {{config: \
             {{keychain: core, send-id: {send_id}}}}}\n"
        )
    };
    let item = |id: u8, secret: &str| {
        format!(
            "  - config:\n      key-id: {id}\n      receive-id: {id}\n      crypto-algorithm: \"aes_128_cmac_96\"\n      secret-key: \
             \"{secret}\"\n"
        )
    };
    let (new, old) = (item(11, "TmV4dDlzZWNyZXRPZlRoaXJ0eVR3b0NoYXJhY3RlcnM="), item(10, BASE64));
    let both = format!("{new}{old}");
    assert_eq!(steps(&yaml(&old, 10)).unwrap(), [yaml(&both, 10), yaml(&both, 11), yaml(&new, 11)]);
}
