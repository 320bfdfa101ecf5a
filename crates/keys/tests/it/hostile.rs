//! Files of key chains that are nested deeply or have very many keys: an error, or the keys, in a time that grows with the text.

use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

use wireseal_keys::{KeyChain, KeyChainError, KeyChains};

/// What is done with a file and its chain.
type Act<'a> = &'a dyn Fn(&str, &KeyChain);
type Reader = fn(&str) -> Result<KeyChains, KeyChainError>;

/// What a reader says of a text, on a stack that leaves no room for a call per level.
fn error_of(reader: Reader, text: String) -> String {
    let thread = thread::Builder::new().stack_size(512 << 10);
    let read = move || reader(&text).map(drop).unwrap_err().to_string();
    thread.spawn(read).unwrap().join().unwrap()
}

#[test]
fn ao_37_a_text_that_is_nested_deeply_is_refused_where_it_goes_wrong() {
    const DEPTH: usize = 100_000;
    let nested = |open: &str, close: &str| open.repeat(DEPTH) + "1" + &close.repeat(DEPTH);
    let (arrays, objects) = (nested("[", "]"), nested("{\"a\":", "}"));
    let within = |field: &str, value: &str| {
        format!(
            "{{\"ietf-key-chain:key-chains\":\n{{\"key-chain\":[{{\"name\":\"core\",\n\"{field}\":{value}}}]}}}}"
        )
    };
    let chain = "line 3, column 15, key chain \"core\", description: expected a string, found an ";
    for (text, expected) in [
        (objects.clone(), "line 1, column 6, a: unknown field `a`, expected `ietf-key-chain:key-chains`"),
        (within("description", &arrays), &(chain.to_owned() + "array")),
        (within("description", &objects), &(chain.to_owned() + "object")),
    ] {
        assert_eq!(error_of(KeyChains::from_json, text), expected);
    }
    // An array may stand for an object, with its members in order.
    for text in [arrays.clone(), "[".repeat(DEPTH)] {
        let error = error_of(KeyChains::from_json, text);
        assert!(error.starts_with("line 1, column ") && error.contains(": expected a"), "{error}");
    }
    // Members that are not read may be nested as deeply as they like.
    let ignored = within("last-modified-timestamp", &arrays);
    assert_eq!(
        error_of(KeyChains::from_json, ignored),
        "line 2, column 15, key chain \"core\", key: there are no keys"
    );

    let too_deep = "arrays or tables are nested too deeply";
    let toml_error = |text| error_of(KeyChains::from_toml, text);
    for (text, column) in [(arrays, 93), ("[".repeat(DEPTH), 93), (nested("{a=", "}"), 253)] {
        assert_eq!(toml_error(format!("key-chain = {text}")), format!("line 1, column {column}: {too_deep}"));
    }
    // The parser does not say where a key has too many dots.
    for text in ["a.".repeat(DEPTH) + "a = 1", format!("[{}a]", "a.".repeat(DEPTH))] {
        assert_eq!(toml_error(text), too_deep);
    }
}

/// A chain of keys, each valid for a minute after the one before, all with the same ids.
fn file_of(keys: usize) -> String {
    let mut text = "[[key-chain]]\nname = \"core\"\n".to_owned();
    let moment = |minute: usize| {
        format!("{}-01-01T{:02}:{:02}:00Z", 2000 + minute / 1440, minute / 60 % 24, minute % 60)
    };
    for number in 0..keys {
        let (from, until) = (moment(number), moment(number + 1));
        write!(
            text,
            "[[key-chain.key]]\nkey-id = {number}\nsend-id = 1\nalgorithm = \"HMAC-SHA-1-96\"\nsecret = \"a secret of its own\"\n\
             send = {{ from = {from}, until = {until} }}\n"
        )
        .unwrap();
    }
    text
}

fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

#[test]
fn ao_37_the_time_to_read_keys_grows_with_their_number() {
    let read = |text: &str| KeyChains::from_toml(text).unwrap().chains()[0].clone();
    let (few, many) = (file_of(1_000 / 4), file_of(8_000 / 4));
    let tests: [(&str, Act<'_>); 3] = [
        ("reading", &|text, _| drop(read(text))),
        ("checking", &|_, chain| drop(KeyChain::new("core", chain.keys().to_vec()).unwrap())),
        ("room", &|_, chain| chain.check_room(1).unwrap()),
    ];
    let chains = [&few, &many].map(|text| read(text));
    for (name, test) in tests {
        let times =
            || [(&few, &chains[0]), (&many, &chains[1])].map(|(text, chain)| time(|| test(text, chain)));
        // Eight times as many would take 64 times as long if each were compared with all others. A busy machine disturbs some attempts.
        let is_linear = |_| times().windows(2).all(|times| times[1] < 24 * times[0]);
        assert!((0..50).any(is_linear), "{name}: {:?}", times());
    }
}
