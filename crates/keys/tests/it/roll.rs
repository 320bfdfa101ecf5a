//! Plans for a new key: hitless between any two formats, refused when a person's edit makes them lose segments, and the changes of each
//! step as each format's reader understands them.

use std::path::Path;

use proptest::prelude::*;
use wireseal_keys::{
    Chain, Error, Format, Gap, KeyFile, Notation, Plan, Preference, Secret, Side, Timestamp, Today, Wish,
    convert, read,
};
use zeroize::Zeroizing;

pub(crate) const SECRET: &str = "the-old-secret-of-both";
pub(crate) const NEXT: &str = "Next9secretOfThirtyTwoCharacters";
pub(crate) const AT: &str = "2026-12-01T00:00:00Z";

/// The formats whose keys can be changed.
fn formats() -> impl Iterator<Item = Format> {
    Format::ALL.into_iter().filter(|format| format.cannot_change().is_none())
}

pub(crate) fn moment(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn file(text: &str, format: Format) -> KeyFile {
    read(Path::new("keys"), text, Some(format)).unwrap()
}

/// One end's file with one key, which sends and receives these ids.
fn text(format: Format, send_id: u8, recv_id: u8, peer: &str) -> String {
    let toml = format!(
        "[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = {send_id}\nrecv-id = {recv_id}\nkey-id = 7\nalgorithm = \
         \"AES-128-CMAC-96\"\nsecret = \"{SECRET}\"\n"
    );
    let mut keys = file(&toml, Format::Toml);
    keys.chains[0].neighbors = vec![peer.parse::<cidr::IpCidr>().unwrap().into()];
    convert(&keys, format).unwrap().text.to_string()
}

/// The RecvID of the first end's key, whose SendID is 10. EOS has one id for both directions.
fn recv_id(formats: [Format; 2]) -> u8 {
    if formats.contains(&Format::Eos) { 10 } else { 20 }
}

/// Both ends' files.
pub(crate) fn texts(one: Format, other: Format) -> [(Format, String); 2] {
    let recv_id = recv_id([one, other]);
    [(one, text(one, 10, recv_id, "192.0.2.2")), (other, text(other, recv_id, 10, "192.0.2.1"))]
}

pub(crate) fn wish() -> Wish {
    Wish {
        now: moment("2026-11-30T12:00:00Z"),
        at: moment(AT),
        overlap_seconds: 3600,
        skew_seconds: 300,
        algorithm: None,
    }
}

pub(crate) fn today<'a>(name: &'a str, file: &'a KeyFile) -> Today<'a> {
    Today { name, path: "keys", sha256: "", file }
}

pub(crate) fn plan(files: &[KeyFile; 2], wish: Wish) -> Result<Plan, Error> {
    Plan::new([today("edge-a", &files[0]), today("edge-b", &files[1])], None, wish)
}

pub(crate) fn files(texts: &[(Format, String); 2]) -> [KeyFile; 2] {
    [&texts[0], &texts[1]].map(|(format, text)| file(text, *format))
}

pub(crate) fn gaps(plan: &Plan, files: &[KeyFile; 2]) -> Vec<Gap> {
    plan.gaps([&files[0], &files[1]]).unwrap()
}

pub(crate) fn secret() -> Secret {
    Secret::new(Zeroizing::new(NEXT.as_bytes().to_vec()), Notation::Text)
}

/// If a chain names the key to sign with, the plan names the new one.
#[test]
fn a_plan_for_a_chain_that_names_its_key_names_the_next_one() {
    let mut texts = texts(Format::Toml, Format::Bird);
    texts[0].1 = texts[0].1.replacen("name = \"core\"\n", "name = \"core\"\npreferred = 7\n", 1);
    let files = files(&texts);
    let plan = plan(&files, wish()).unwrap();
    assert_eq!(gaps(&plan, &files), []);
    let changes = plan.changes(Side::One, &files[0], &texts[0].1, &secret()).unwrap();
    let new = plan.ends[0].new.key_id;
    for change in &changes {
        let text = change.text.lines().filter(|line| line.starts_with("preferred"));
        assert_eq!(text.collect::<Vec<_>>(), [format!("preferred = {new}")]);
    }
    assert_eq!(changes.len(), 2);
    // Others name none, and lifetimes decide.
    texts[0].1 = texts[0].1.replacen("preferred = 7\n", "", 1);
    let files = self::files(&texts);
    let changes = self::plan(&files, wish()).unwrap().changes(Side::One, &files[0], &texts[0].1, &secret());
    assert!(changes.unwrap().iter().all(|change| !change.text.contains("preferred")));
}

#[test]
fn a_plan_between_any_two_formats_loses_nothing() {
    assert_eq!(formats().count(), 9);
    for (one, other) in formats().flat_map(|one| formats().map(move |other| (one, other))) {
        let files = files(&texts(one, other));
        let plan = plan(&files, wish()).unwrap();
        assert_eq!(gaps(&plan, &files), [], "{one} and {other}: {plan:#?}");
        let next = recv_id([one, other]) + 1;
        for (end, ids) in plan.ends.iter().zip([[11, next], [next, 11]]) {
            assert_eq!([end.new.send_id, end.new.recv_id], ids, "the next ids, in both roles");
            assert_eq!(end.old.iter().map(|key| key.send_id).collect::<Vec<_>>(), [ids[0] - 1]);
        }
    }
}

proptest! {
    /// Whatever the overlap and the skew are.
    #[test]
    fn plans_lose_nothing_with_any_overlap_and_skew(
        formats in (prop::sample::select(formats().collect::<Vec<_>>()), prop::sample::select(formats().collect::<Vec<_>>())),
        overlap_seconds in prop_oneof![1..60_u32, 1..200_000_u32],
        skew_seconds in prop_oneof![0..60_u32, 0..40_000_u32],
    ) {
        let files = files(&texts(formats.0, formats.1));
        let plan = plan(&files, Wish { overlap_seconds, skew_seconds, ..wish() }).unwrap();
        prop_assert_eq!(gaps(&plan, &files), []);
    }
}

#[test]
fn what_a_person_makes_lossy_is_found() {
    let has_no_clock = |end: &mut Plan, n: usize| end.ends[n].steps.len() == 3;
    for (one, other) in formats().flat_map(|one| formats().map(move |other| (one, other))) {
        let files = files(&texts(one, other));
        let good = plan(&files, wish()).unwrap();
        let lossy = |what: &str, edit: &dyn Fn(&mut Plan)| {
            let mut edited = good.clone();
            edit(&mut edited);
            assert_ne!(edited, good, "{what}");
            let gaps = gaps(&edited, &files);
            assert!(!gaps.is_empty(), "{what}: {one} and {other}");
            gaps
        };
        // One end may add the key after the other signs with it.
        let gaps = lossy("late", &|plan| plan.ends[1].steps[0].until = Some(moment("2026-12-02T00:00:00Z")));
        assert!(gaps[0].sentence.contains("edge-b has no key with RecvID 11"), "{gaps:?}");
        assert!(gaps[0].sentence.contains("edge-b before its first step"), "{gaps:?}");
        // One end forgets the old key before the other has changed over.
        lossy("early", &|plan| {
            let last = plan.ends[0].steps.len() - 1;
            plan.ends[0].steps[last].from = moment("2026-11-30T13:00:00Z");
        });
        lossy("other ids", &|plan| (plan.ends[0].new.send_id, plan.ends[0].new.recv_id) = (63, 63));
        // Nothing is done in time.
        lossy("never", &|plan| plan.ends[0].steps[0].until = None);
        if !has_no_clock(&mut good.clone(), 0) && !has_no_clock(&mut good.clone(), 1) {
            lossy("another day", &|plan| {
                let day = |span: &mut wireseal_keys::Span| span.from = Some(moment("2026-12-05T00:00:00Z"));
                day(&mut plan.ends[0].new.send);
                day(&mut plan.ends[0].new.accept);
            });
        }
    }
}

/// The first end may forget the old key after a day on which the second one does not know the new one.
#[test]
fn each_loss_is_said_once_with_the_steps_before_it() {
    let files = files(&texts(Format::Toml, Format::Toml));
    let mut plan = plan(&files, wish()).unwrap();
    plan.ends[1].steps[0].until = Some(moment("2026-12-02T00:00:00Z"));
    let said: Vec<_> = gaps(&plan, &files).into_iter().map(|gap| (gap.from, gap.sentence)).collect();
    let expected = [
        (
            AT,
            "edge-a signs with core/8, but edge-b has no key with RecvID 11 (edge-a after the step \"add\", edge-b before its first step)",
        ),
        (
            "2026-12-01T01:05:00Z",
            "edge-b signs with core/7, but edge-a has no key with RecvID 20 (edge-a after the step \"remove\", edge-b before its first \
             step)",
        ),
    ];
    assert_eq!(said, expected.map(|(from, sentence)| (moment(from), sentence.to_owned())));
}

#[test]
fn an_old_key_with_one_lifetime_ends_for_both_directions() {
    let files = files(&texts(Format::IosXr, Format::Toml));
    let plan = plan(&files, wish()).unwrap();
    let over = Some(moment("2026-12-01T01:00:00Z"));
    let ends = plan.ends.each_ref().map(|end| (end.old[0].send.until, end.old[0].accept.until));
    assert_eq!(ends, [(over, over), (over, None)]);
}

/// A tolerance in the plan is none where the format has none.
#[test]
fn a_tolerance_that_a_format_cannot_have_does_not_help() {
    for (format, lost) in [(Format::Toml, false), (Format::Eos, true)] {
        let files = files(&texts(format, format));
        let mut plan = plan(&files, wish()).unwrap();
        for end in &mut plan.ends {
            end.tolerance_seconds = 300;
            end.new.accept = end.new.send;
        }
        assert_eq!(!gaps(&plan, &files).is_empty(), lost, "{format}");
    }
}

#[test]
fn clocks_that_differ_by_more_than_the_tolerance_of_one_lifetime_lose_segments() {
    let files = files(&texts(Format::IosXr, Format::IosXr));
    let mut plan = plan(&files, wish()).unwrap();
    assert_eq!(plan.ends.each_ref().map(|end| end.tolerance_seconds), [300; 2]);
    assert_eq!(gaps(&plan, &files), []);
    plan.ends[0].tolerance_seconds = 299;
    let gaps = gaps(&plan, &files);
    let expected = "edge-b signs with core/8, which edge-a does not accept before 2026-11-30T23:55:01Z";
    assert!(gaps.iter().any(|gap| gap.sentence.starts_with(expected)), "{gaps:#?}");
    assert!(gaps.iter().any(|gap| gap.from == moment(AT)), "{gaps:#?}");
}

#[test]
fn what_does_not_work_today_is_found_before_anything_is_done() {
    let mut texts = texts(Format::Junos, Format::Toml);
    texts[1].1 = texts[1].1.replace(SECRET, "another-old-secret-here");
    let files = files(&texts);
    let gaps = gaps(&plan(&files, wish()).unwrap(), &files);
    assert!(gaps[0].sentence.contains("has another secret"), "{gaps:?}");
    assert_eq!(gaps[0].from, wish().now);
}

#[test]
fn what_cannot_be_planned_is_said() {
    let [a, b] = texts(Format::Junos, Format::Bird);
    let files = [file(&a.1, a.0), file(&b.1, b.0)];
    let of = |wish, files: &[KeyFile; 2]| plan(files, wish).unwrap_err().to_string();
    let late = of(Wish { at: moment("2026-11-30T12:05:00Z"), ..wish() }, &files);
    assert!(late.contains("leaves no time for the first step"), "{late}");
    let at_once = of(Wish { overlap_seconds: 0, ..wish() }, &files);
    assert_eq!(
        at_once,
        "edge-b: there is no time for the step \"prefer\", which begins at 2026-12-01T00:00:00Z"
    );
    // States that could not occur by the plan's times are not proved.
    let whole = plan(&files, wish()).unwrap();
    let edited = |edit: &dyn Fn(&mut Plan)| {
        let mut plan = whole.clone();
        edit(&mut plan);
        plan.gaps([&files[0], &files[1]]).unwrap_err().to_string()
    };
    let over = "there is no time for the step";
    let made = edited(&|plan| plan.made = plan.at);
    assert_eq!(made, format!("edge-a: {over} \"add\", which begins at {AT}"));
    let swapped = edited(&|plan| {
        let [add, prefer, _] = &mut plan.ends[1].steps[..] else { panic!("BIRD has three steps") };
        (prefer.from, prefer.until) = (add.from.earlier_by(1), Some(add.from));
    });
    assert_eq!(swapped, format!("edge-b: {over} \"prefer\", which begins at {}", whole.made));
    let [_, other] = texts(Format::Junos, Format::Junos);
    let same = [file(&other.1, other.0), file(&other.1, other.0)];
    assert!(of(wish(), &same).contains("have no key in common"));
    let sha256 = Wish { algorithm: Some("hmac(sha256)".parse().unwrap()), ..wish() };
    let refused = plan(&files, sha256).unwrap_err().to_string();
    assert!(refused.contains("edge-a: Junos does not support"), "{refused}");
    let mut two = files.clone();
    two[0].chains.push(Chain { name: "more".into(), ..two[0].chains[0].clone() });
    assert!(of(wish(), &two).contains("name them with --chain A:B (core:core, more:core)"));
}

#[test]
fn what_cannot_be_changed_without_loss_is_said() {
    let of = |format: Format| format.cannot_change().unwrap();
    let expected = "IOS XE closes its sessions when a chain in use is edited, as its guide says";
    assert_eq!(of(Format::IosXe), expected);
    assert_eq!(
        of(Format::OpenConfig),
        "openconfig is written as a whole file only: commands that change a chain in use are not certain"
    );
    for format in Format::ALL.into_iter().filter(|format| !format.is_written()) {
        assert!(format.cannot_change().is_some(), "{format}");
    }
}

#[test]
fn a_plan_for_other_files_is_refused() {
    let files = files(&texts(Format::Junos, Format::Bird));
    let good = plan(&files, wish()).unwrap();
    let refusal = |edit: &dyn Fn(&mut Plan), files: [&KeyFile; 2]| {
        let mut plan = good.clone();
        edit(&mut plan);
        plan.gaps(files).unwrap_err().to_string()
    };
    let [junos, bird] = &files;
    assert!(refusal(&|_| {}, [bird, junos]).contains("edge-a: the plan is for junos, and the file is bird"));
    for (edit, expected) in [
        (&(|plan: &mut Plan| plan.ends[0].chain = "x".into()) as &dyn Fn(&mut Plan), "has no chain \"x\""),
        (&|plan| plan.ends[0].new.key_id = 7, "has a key 7 already"),
        (&|plan| plan.ends[0].old[0].key_id = 9, "has no key 9"),
        (&|plan| plan.ends[0].old.clear(), "there is no old key"),
        (&|plan| plan.ends[1].steps.swap(0, 1), "bird has the steps add, prefer, remove"),
        (&|plan| plan.ends[0].new.send.until = plan.ends[0].new.send.from, "which is not after"),
    ] {
        let said = refusal(edit, [junos, bird]);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_plan_is_json_and_no_secret_is_in_it() {
    let files = files(&texts(Format::IosXr, Format::Bird));
    let plan = plan(&files, wish()).unwrap();
    let text = serde_json::to_string_pretty(&plan).unwrap();
    assert!(!text.contains(SECRET) && text.contains("\"AES-128-CMAC-96\""), "{text}");
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    let wrong = text.replace("\"skew_seconds\"", "\"skew\"");
    assert!(serde_json::from_str::<Plan>(&wrong).is_err(), "an unknown field is not ignored");
}

#[test]
fn whole_files_have_the_keys_of_each_step() {
    for format in [Format::Toml, Format::Json, Format::Bird] {
        let texts = texts(format, Format::Toml);
        let files = files(&texts);
        let plan = plan(&files, wish()).unwrap();
        let changes = plan.changes(Side::One, &files[0], &texts[0].1, &secret()).unwrap();
        assert!(changes.iter().all(|change| change.is_file && change.losses.is_empty()), "{changes:?}");
        let chains: Vec<_> =
            changes.iter().map(|change| file(&change.text, format).chains.swap_remove(0)).collect();
        let ids = |chain: &Chain| {
            let mut ids: Vec<_> = chain.keys.iter().map(|key| (key.send_id.0, key.recv_id.0)).collect();
            ids.sort_unstable();
            ids
        };
        let both = vec![(10, 20), (11, 21)];
        let (last, before) = chains.split_last().unwrap();
        assert!(before.iter().all(|chain| ids(chain) == both), "{format}");
        assert_eq!(ids(last), [(11, 21)], "{format}");
        assert_eq!(last.keys[0].secret.expose(), NEXT.as_bytes());
        if format == Format::Bird {
            let ranks = |chain: &Chain| chain.keys.iter().map(|key| key.preference).collect::<Vec<_>>();
            assert_eq!(ranks(&chains[0]), [Preference::Deprecated, Preference::Ordinary]);
            assert_eq!(ranks(&chains[1]), [Preference::Preferred, Preference::Ordinary]);
        } else {
            let old = &chains[0].keys[0];
            assert_eq!(old.send.until(), Some(moment("2026-12-01T01:00:00Z")));
            assert_eq!(old.accept.until(), None, "until it is removed");
        }
    }
}

#[test]
fn bird_keeps_everything_but_the_keys() {
    let text = "# Do not lose me.\nprotocol bgp core {\n  local as 65000; # nor me\n  neighbor 192.0.2.2 as 65001;\n  authentication ao;\n  \
                keys {\n    key { id 10; secret \"the-old-secret-of-both\"; algorithm cmac aes128; preferred; };\n  };\n  ipv4 { import all; \
                };\n}\n";
    let toml = text_of_toml();
    let files = [file(text, Format::Bird), file(&toml, Format::Toml)];
    let plan = plan(&files, wish()).unwrap();
    assert_eq!(gaps(&plan, &files), []);
    let changes = plan.changes(Side::One, &files[0], text, &secret()).unwrap();
    let kept: Vec<_> = text.lines().filter(|line| !line.contains("key {")).collect();
    for (change, ranks) in
        changes.iter().zip([["deprecated", "preferred"].as_slice(), &["preferred"], &["preferred"]])
    {
        for line in &kept {
            assert!(change.text.contains(line), "{line:?} is lost");
        }
        let words = change.text.split(|c: char| !c.is_alphabetic());
        let found: Vec<_> = words.filter(|word| ["preferred", "deprecated"].contains(word)).collect();
        assert_eq!(found, ranks);
    }
    assert_eq!(changes[2].text.matches("secret \"").count(), 1);
}

pub(crate) fn text_of_toml() -> String {
    text(Format::Toml, 10, 10, "192.0.2.1")
}

/// The words of commands, one line each.
pub(crate) fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| *line != "!").collect()
}

#[test]
fn junos_gets_set_and_delete_commands() {
    let texts = texts(Format::Junos, Format::Bird);
    let files = files(&texts);
    let plan = plan(&files, wish()).unwrap();
    let changes = plan.changes(Side::One, &files[0], &texts[0].1, &secret()).unwrap();
    let chain = "security authentication-key-chains key-chain \"core\"";
    let expected = [
        format!("set {chain} tolerance 300"),
        format!("set {chain} key 8 secret \"{NEXT}\""),
        format!("set {chain} key 8 start-time \"2026-12-01.00:00:00 +0000\""),
        format!("set {chain} key 8 algorithm ao"),
        format!("set {chain} key 8 ao-attribute send-id 11"),
        format!("set {chain} key 8 ao-attribute recv-id 21"),
        format!("set {chain} key 8 ao-attribute tcp-ao-option enabled"),
        format!("set {chain} key 8 ao-attribute cryptographic-algorithm aes-128-cmac-96"),
    ];
    assert_eq!(lines(&changes[0].text), expected);
    assert_eq!(lines(&changes[1].text), [format!("delete {chain} key 7")]);
    // What is set is the planned key.
    let added = file(&changes[0].text, Format::Junos).chains.swap_remove(0);
    assert_eq!((added.keys[0].key_id, added.keys[0].send.from()), (8, Some(moment(AT))));
    assert_eq!(added.accept_tolerance, 300);
}

#[test]
fn ios_xr_gets_the_key_its_ids_and_the_end_of_the_old_key() {
    let texts = texts(Format::IosXr, Format::Bird);
    let files = files(&texts);
    let plan = plan(&files, wish()).unwrap();
    let changes = plan.changes(Side::One, &files[0], &texts[0].1, &secret()).unwrap();
    let [start, end] = ["00:00:00 december 01 2026", "01:00:00 december 01 2026"];
    let expected = [
        "key chain core".to_owned(),
        "timezone gmt".to_owned(),
        "accept-tolerance 300".to_owned(),
        "key 8".to_owned(),
        format!("accept-lifetime {start} infinite"),
        format!("key-string clear {NEXT}"),
        format!("send-lifetime {start} infinite"),
        "cryptographic-algorithm AES-128-CMAC-96".to_owned(),
        "key chain core".to_owned(),
        "key 7".to_owned(),
        format!("accept-lifetime 00:00:00 january 01 1993 {end}"),
        format!("send-lifetime 00:00:00 january 01 1993 {end}"),
        "tcp ao".to_owned(),
        "keychain core".to_owned(),
        "key 8 SendID 11 ReceiveID 21".to_owned(),
    ];
    assert_eq!(lines(&changes[0].text), expected);
    let expected =
        ["key chain core", "no key 7", "tcp ao", "keychain core", "no key 7 SendID 10 ReceiveID 20"];
    assert_eq!(lines(&changes[1].text), expected);
}

/// A tolerance that is long enough stays as it is.
#[test]
fn ios_xr_keeps_a_tolerance_that_is_enough() {
    let mut texts = texts(Format::IosXr, Format::Bird);
    texts[0].1 = texts[0].1.replace("key chain core\n", "key chain core\n accept-tolerance 900\n");
    let files = files(&texts);
    let changes =
        plan(&files, wish()).unwrap().changes(Side::One, &files[0], &texts[0].1, &secret()).unwrap();
    let add = lines(&changes[0].text);
    assert_eq!(
        add[..4],
        ["key chain core", "timezone gmt", "key 8", "accept-lifetime 00:00:00 december 01 2026 infinite"]
    );
    assert!(changes.iter().all(|change| !change.text.contains("accept-tolerance")));
}

/// The buffer of a step's commands has room for a secret of any length: one that moves leaves secrets behind.
#[test]
fn commands_with_a_long_secret_do_not_move_their_buffer() {
    for format in [Format::Junos, Format::SrOs] {
        let texts = texts(format, format);
        let files = files(&texts);
        let long = NEXT.repeat(200);
        let secret = Secret::new(Zeroizing::new(long.clone().into_bytes()), Notation::Text);
        let changes =
            plan(&files, wish()).unwrap().changes(Side::One, &files[0], &texts[0].1, &secret).unwrap();
        assert!(changes[0].text.contains(&long), "{format}");
    }
}

/// The chain's times become universal, so those of a key that the plan does not touch are written anew.
#[test]
fn ios_xr_keys_in_local_time_keep_their_moments() {
    let life = "07:00:00 january 01 2027 infinite";
    let of = |id: u8, secret: &str, life: &str| {
        format!(
            " key {id}\n  accept-lifetime {life}\n  key-string clear {secret}\n  send-lifetime {life}\n  cryptographic-algorithm \
             AES-128-CMAC-96\n !\n"
        )
    };
    let keys = of(10, SECRET, "00:00:00 january 01 1993 infinite") + &of(30, "of-next-year-and-later", life);
    let text = format!(
        "clock timezone CET 1\nkey chain core\n{keys}!\ntcp ao\n keychain core\n  key 10 SendID 10 ReceiveID 10\n  key 30 SendID 30 ReceiveID \
         30\n !\n!\n"
    );
    let files = [file(&text, Format::IosXr), file(&text_of_toml(), Format::Toml)];
    let plan = plan(&files, wish()).unwrap();
    let changes = plan.changes(Side::One, &files[0], &text, &secret()).unwrap();
    let add = lines(&changes[0].text);
    assert!(add.contains(&"timezone gmt"), "{add:?}");
    let place = add.iter().position(|line| *line == "key 30").unwrap();
    assert_eq!(add[place + 1], "accept-lifetime 06:00:00 january 01 2027 infinite");
}

#[test]
fn a_secret_that_only_the_router_can_decrypt_stays_where_it_is() {
    let [xr, bird] = texts(Format::IosXr, Format::Bird);
    let encrypted = xr.1.replace(&format!("clear {SECRET}"), "password6 4b5f4e5c");
    let files = [file(&encrypted, xr.0), file(&bird.1, bird.0)];
    let plan = plan(&files, wish()).unwrap();
    assert_eq!(gaps(&plan, &files), []);
    let changes = plan.changes(Side::One, &files[0], &encrypted, &secret()).unwrap();
    assert_eq!(changes[0].text.matches("key-string").count(), 1, "that of the new key");
}

#[test]
fn keys_of_a_template_that_others_use_are_not_edited() {
    let text = "template bgp t { authentication ao; keys { key { id 10; secret \"the-old-secret-of-both\"; algorithm cmac aes128; }; }; \
                }\nprotocol bgp a from t { neighbor 192.0.2.2 as 1; }\nprotocol bgp b from t { neighbor 192.0.2.3 as 1; }\n";
    let files = [file(text, Format::Bird), file(&text_of_toml(), Format::Toml)];
    let ends = [today("edge-a", &files[0]), today("edge-b", &files[1])];
    let plan = Plan::new(ends, Some("a:core"), wish()).unwrap();
    let error = plan.changes(Side::One, &files[0], text, &secret()).unwrap_err().to_string();
    assert!(error.contains("key chain \"a\", key 10") && error.contains("from the same template"), "{error}");
}

/// However a person has laid out the keys, every step's file has the right ones, and the rest of the text.
#[test]
fn bird_files_are_edited_however_they_are_laid_out() {
    let old = "secret \"the-old-secret-of-both\"; algorithm cmac aes128;";
    let [before, after] = [
        "protocol bgp core {\n neighbor 192.0.2.2 as 1;\n authentication ao;\n",
        "\n ipv4 { import all; };\n}\n",
    ];
    for keys in [
        format!("keys {{ key {{ id 10; {old} }}; }};"),
        format!("keys {{\n  key\n  {{\n id 10; {old}\n  }}\n  ;\n}};"),
        format!("keys {{ /* \u{fc}\u{10348} key {{ */ key {{ preferred; id 10; {old} }}; /* }} */ }};"),
        format!("keys {{\r\n\tkey {{\r\n\t\tid 10;\r\n\t\t{old}\r\n\t\tpreferred;\r\n\t}};\r\n}};"),
        format!("keys {{\n# key {{ id 9; }};\n\tkey {{ id 10; {old} preferred ; }}; # preferred\n}};"),
        format!(
            "keys {{ key {{ id 10; {old} }}; key {{ id 30; secret \"a key that nobody has yet\"; deprecated; }}; }};"
        ),
    ] {
        let text = format!("{before}{keys}{after}");
        let files = [file(&text, Format::Bird), file(&text_of_toml(), Format::Toml)];
        let plan = plan(&files, wish()).unwrap();
        let changes = plan.changes(Side::One, &files[0], &text, &secret()).unwrap();
        for (number, change) in changes.iter().enumerate() {
            assert!(change.text.starts_with(before) && change.text.ends_with(after), "{}", &*change.text);
            let chain = file(&change.text, Format::Bird).chains.swap_remove(0);
            let found: Vec<_> = chain.keys.iter().map(|key| (key.send_id.0, key.preference)).collect();
            let rank = [Preference::Deprecated, Preference::Preferred, Preference::Preferred][number];
            assert_eq!(found[0], (11, rank), "{}", &*change.text);
            assert_eq!(found.iter().any(|(id, _)| *id == 10), number < 2, "{}", &*change.text);
            assert_eq!(found.iter().any(|(id, _)| *id == 30), text.contains("id 30"), "{}", &*change.text);
            let is_second = |(id, rank): &&(u8, Preference)| *id == 10 && *rank == Preference::Preferred;
            assert!(number == 0 || !found.iter().any(|key| is_second(&key)), "{}", &*change.text);
        }
    }
}
