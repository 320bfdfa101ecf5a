//! BIRD's files for each step of a plan, to the octet: what stands around the keys stays as a person wrote it.

use wireseal_keys::{Format, Side, change};

use crate::roll::{NEXT, file, gaps, plan, secret, text_of_toml, wish};

/// The texts of the three steps, with `NEXT` for the new secret.
fn steps(text: &str) -> [String; 3] {
    let files = [file(text, Format::Bird), file(&text_of_toml(), Format::Toml)];
    let plan = plan(&files, wish()).unwrap();
    assert_eq!(gaps(&plan, &files), []);
    let changes = plan.changes(Side::One, &files[0], text, &secret()).unwrap();
    let texts: Vec<_> = changes.iter().map(|change| change.text.replace(NEXT, "NEXT")).collect();
    texts.try_into().unwrap()
}

const OLD: &str = "key { id 10; secret \"the-old-secret-of-both\"; algorithm cmac aes128;";

/// The lines of the new key, each with this before it.
fn new(indentation: &str, rank: &str) -> String {
    let rank = if rank.is_empty() { "" } else { &format!("\t{rank};\n") };
    let lines = format!("key {{\n\tid 11;\n\tsecret \"NEXT\";\n\talgorithm cmac aes128;\n{rank}}};\n");
    lines.lines().map(|line| format!("{indentation}{line}\n")).collect()
}

#[test]
fn a_key_on_lines_of_its_own_takes_its_lines_with_it() {
    let text = |keys: &str| {
        format!(
            "protocol bgp core {{\n  neighbor 192.0.2.2 as 1;\n  authentication ao;\n  keys {{\n{keys}  }};\n}}\n"
        )
    };
    let old = |rank: &str| format!("    {OLD}\n{rank}    }} ;\n");
    let ranked = old("      preferred;\n");
    let expected =
        [new("    ", "deprecated") + &ranked, new("    ", "preferred") + &old(""), new("    ", "preferred")];
    assert_eq!(steps(&text(&ranked)), expected.map(|keys| text(&keys)));
}

#[test]
fn a_key_may_be_removed_without_a_new_one() {
    let other = "    key { id 30; secret \"another-key\"; };\n";
    let text =
        |keys: &str| format!("protocol bgp core {{\n  authentication ao;\n  keys {{\n{keys}  }};\n}}\n");
    let both = text(&format!("    {OLD} }};\n{other}"));
    let file = file(&both, Format::Bird);
    let mut after = file.chains[0].clone();
    after.keys.remove(0);
    let changed = change(&file, &both, 0, &file.chains[0], &after).unwrap();
    assert_eq!(*changed.text, text(other));
}

#[test]
fn keys_on_one_line_are_kept_apart() {
    let text = |keys: &str| {
        format!("protocol bgp core {{ neighbor 192.0.2.2 as 1; authentication ao; keys {{\n{keys}\n}}; }}\n")
    };
    let other = "key { id 30; secret \"another-key\"; };";
    for (before, after) in [("", other), (other, "")] {
        let line = |old: &str| format!("{before}{old}{after}");
        let ranked = line(&format!("{OLD} preferred; }};"));
        let expected = [
            new("", "deprecated") + &ranked,
            new("", "preferred") + &line(&format!("{OLD}  }};")),
            new("", "preferred") + &line(""),
        ];
        assert_eq!(steps(&text(&ranked)), expected.map(|keys| text(&keys)));
    }
    // Before the first of a block that begins on the same line, new lines follow what is there.
    let text = text(&format!("{OLD} }};")).replace("keys {\n", "keys { ");
    let [added, ..] = steps(&text);
    assert_eq!(added, text.replace(OLD, &(new("", "deprecated") + OLD)));
}
