//! Each test starts the log in a process of its own: this test binary with a variable set.

use std::env;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// The variable, which says what the process does.
const DOES: &str = "WIRESEAL_TEST_LOG";
/// More lines than a pipe and the log have room for.
const LINES: usize = 30_000;

/// Not a test, but such a process, if the variable is set.
#[test]
fn logging_process() {
    let Ok(does) = env::var(DOES) else { return };
    let (is_json, does) = does.split_once(' ').unwrap();
    start(is_json == "json").unwrap();
    match does {
        "floods" => {
            for number in 0..LINES {
                tracing::info!(number, "{}", "-".repeat(80));
            }
            // It did not wait for the reader, who starts now.
            println!("logged");
            io::stdin().read_line(&mut String::new()).unwrap();
            tracing::info!("the last");
        }
        "panics" => {
            let thread = thread::Builder::new().name("packets".to_owned());
            // It holds a lock that others might wait for.
            let lock = Mutex::new(());
            let _ = thread::scope(|scope| {
                let panics = move || {
                    let _locked = lock.lock();
                    panic!("two\nlines");
                };
                thread.spawn_scoped(scope, panics).unwrap().join()
            });
            tracing::error!("it goes on without one of its threads");
        }
        "fails" => {
            tracing::info!(local = %"192.0.2.1:1", remote = %"192.0.2.2:179", send_id = 7, "192.0.2.1:1 <-> 192.0.2.2:179: established");
            tracing::info!(remote = %"192.0.2.2:179", "connecting");
            assert!(take("the last word"));
        }
        _ => panic!("{does}"),
    }
    flush();
    process::exit(0);
}

fn process_that(does: &str) -> (Child, PipeReader) {
    let (reader, writer) = io::pipe().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "command::log::tests::logging_process", "--nocapture"]).env(DOES, does);
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(writer).spawn().unwrap();
    (started, reader)
}

fn lines_of(does: &str) -> (Option<i32>, Vec<String>) {
    let (mut child, mut reader) = process_that(does);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text.lines().map(ToOwned::to_owned).collect())
}

fn await_logged(child: &mut Child) {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("logged") {
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "{line}");
    }
}

#[test]
fn lines_that_nobody_reads_are_lost_and_counted_and_all_others_come_in_order() {
    let (mut child, mut reader) = process_that("text floods");
    await_logged(&mut child);
    // Reads some, and then has the process go on.
    let mut text = vec![0; 1 << 20];
    reader.read_exact(&mut text).unwrap();
    drop(child.stdin.take());
    reader.read_to_end(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let text = String::from_utf8(text).unwrap();
    let (mut next, mut lost) = (0, 0);
    for line in text.lines() {
        if let Some((_, number)) = line.split_once(" number=") {
            assert_eq!(number.parse::<usize>().unwrap(), next, "{line}");
            next += 1;
        } else if let Some((before, _)) = line.split_once(" lines of the log were lost") {
            assert!(line.contains(" WARN "), "{line}");
            let number: usize = before.rsplit(' ').next().unwrap().parse().unwrap();
            (next, lost) = (next + number, lost + number);
        } else {
            assert!(line.ends_with("the last"), "{line}");
        }
    }
    assert_eq!(next, LINES);
    assert!(lost > LINES / 10, "{lost}");
    assert!(text.ends_with("the last\n"), "{}", text.lines().last().unwrap());
}

#[test]
fn a_process_ends_although_nobody_reads() {
    let (mut child, reader) = process_that("text floods");
    await_logged(&mut child);
    drop(child.stdin.take());
    let started = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(started.elapsed() < STANDSTILL + Duration::from_secs(5), "{:?}", started.elapsed());
    drop(reader);
}

#[test]
fn a_panic_of_a_thread_ends_the_process_with_one_line() {
    let (code, lines) = lines_of("text panics");
    assert_eq!((code, lines.len()), (Some(PANICKED), 1), "{lines:?}");
    for part in [" ERROR ", "wireseal has panicked at ", "log/tests.rs:", "two lines", "thread=\"packets\""] {
        assert!(lines[0].contains(part), "{}", lines[0]);
    }
}

#[test]
fn in_json_every_line_is_an_event_and_text_says_nothing_twice() {
    let (code, lines) = lines_of("json fails");
    assert_eq!((code, lines.len()), (Some(0), 3), "{lines:?}");
    let events: Vec<serde_json::Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&events[0]["local"], &events[0]["remote"]), (&"192.0.2.1:1".into(), &"192.0.2.2:179".into()));
    assert_eq!((&events[0]["send_id"], &events[0]["level"]), (&7.into(), &"INFO".into()));
    assert_eq!((&events[2]["message"], &events[2]["level"]), (&"the last word".into(), &"ERROR".into()));
    let (_, lines) = lines_of("text fails");
    assert!(lines[0].ends_with(" INFO 192.0.2.1:1 <-> 192.0.2.2:179: established send_id=7"), "{}", lines[0]);
    assert!(lines[1].ends_with(" INFO connecting remote=192.0.2.2:179"), "{}", lines[1]);
    assert_eq!(lines[2], "wireseal: the last word");
}
