//! Every command in the pages of `docs` runs, as it stands there.
//!
//! | a block of | is | and this test |
//! |---|---|---|
//! | ```` ```console ```` | commands after `$ `, each with its output | runs them, and compares what they print, whatever their exit code |
//! | ```` ```sh ```` | commands | runs them; each must succeed |
//! | ```` ```sh undo ```` | the commands that undo these | runs them last |
//! | any other language, with a first line `# NAME.toml`, `.conf` or `.cfg` | a file | writes it |
//! | any other language | output, or lines of a file | leaves it to other tests |
//!
//! The commands of a page run from top to bottom in a folder of their own, with `wireseal` on the `PATH` and `docs` beside them, as in the
//! repository. What else a page needs is in [`PREPARED`]. Commands that change a whole machine (apt-get, systemctl) run elsewhere, in a
//! virtual machine: [`ELSEWHERE`] names the row of the lab, and that row reads them from the page.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::files::{Files, crates};
use crate::support::namespace::is_privileged;
use crate::support::program::path;

/// Sections of pages (all of a page: "") whose commands run elsewhere: in this file, which reads the page, under this name.
const ELSEWHERE: &[(&str, &str, &str, &str)] = &[
    (
        "rollover.md",
        "When the old key may go",
        "crates/cli/tests/gateway/roll.rs",
        "two_ends_that_follow_the_plan_lose_nothing",
    ),
    ("c.md", "", "crates/c/tests/installed", "cargo-c"),
    ("embedded.md", "In C", "examples/firmware/run", "library()"),
    ("daemons/bird.md", "", DAEMON_PAGES, "page-bird"),
    ("daemons/bmp.md", "", DAEMON_PAGES, "page-bmp"),
    ("daemons/exabgp.md", "", DAEMON_PAGES, "page-exabgp"),
    ("daemons/frr.md", "", DAEMON_PAGES, "page-frr"),
    ("daemons/gobgp.md", "", DAEMON_PAGES, "page-gobgp"),
    ("daemons/openbgpd.md", "", DAEMON_PAGES, "page-openbgpd"),
    ("daemons/rtr.md", "", DAEMON_PAGES, "page-rtr"),
    ("gateway.md", "", PAGES, "page-gateway"),
    ("kernels.md", "", "crates/cli/tests/it/probe_sockets.rs", "the_commands_of_the_pages_work"),
    ("probe.md", "", "crates/cli/tests/it/probe_sockets.rs", "the_commands_of_the_pages_work"),
    ("container.md", "", "packaging/container/test", "docs/container.md"),
    ("install.md", "Debian", ".ci/stages/packages", "docs/install.md"),
    ("install.md", "RHEL and others with rpm", ".ci/stages/packages", "docs/install.md"),
    ("wireshark.md", "In a terminal", "crates/cli/tests/extcap-in-tshark", "wireseal-eth0"),
    ("migrate.md", "", "interop/linux/driver/src/rows/outside/migrate.rs", "page-migrate"),
    ("run.md", "", PAGES, "page-run"),
];

const PAGES: &str = "interop/linux/driver/src/rows/outside/pages.rs";
const DAEMON_PAGES: &str = "interop/linux/driver/src/rows/outside/daemon_pages.rs";

/// What is there before the first command of a page.
struct Prepared {
    page: &'static str,
    /// Shell commands. Their functions replace programs that need another machine, or do not end by themselves.
    before: &'static [&'static str],
    /// Programs that the page uses and that not every machine has.
    programs: &'static [&'static str],
    /// Whether it must be alone: with a network of its own, whose link `eth0` leads to an interface `far` with nobody behind it, and with
    /// `/etc`, `/run` and `/usr/local` that it may change. Every page is alone where the tests may make namespaces.
    is_alone: bool,
}

/// A capture of a good session, and its key.
const SESSION: &str = "cp docs/../crates/tcp-ao/tests/data/captures/bird-ipv4-cmac.pcap session.pcap
printf '[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 100\nalgorithm = \"AES-128-CMAC-96\"\n' >keys.toml
printf 'secret = \"first-secret\"\n' >>keys.toml
chmod 600 keys.toml";

const NOTHING: Prepared = Prepared { page: "", before: &[], programs: &[], is_alone: false };

const PREPARED: &[Prepared] = &[
    Prepared {
        page: "derive.md",
        before: &[
            "printf testvector >secret",
            "echo 9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b >hex-secret",
            "chmod 600 secret hex-secret",
        ],
        ..NOTHING
    },
    Prepared {
        page: "explain.md",
        before: &[
            "journalctl() { echo 'kernel: TCP: AO hash mismatch for (192.0.2.2, 179)->(192.0.2.1, 40000) L3 index 0'; }",
        ],
        programs: &["nstat"],
        ..NOTHING
    },
    Prepared {
        page: "install.md",
        before: &[
            "ln -s \"$(command -v wireseal)\" wireseal-0.1.0-x86_64",
            "sha256sum wireseal-0.1.0-x86_64 >SHA256SUMS",
            "echo \"$(sha256sum </dev/null | cut -c -64)  wireseal_0.1.0-1_amd64.deb\" >>SHA256SUMS",
            "mkdir -p /etc/wireseal; cp docs/../packaging/etc/gateway.toml /etc/wireseal",
        ],
        programs: &["iptables"],
        is_alone: true,
    },
    Prepared {
        page: "troubleshooting.md",
        before: &[
            SESSION,
            "tcpdump() { shift 2; mv session.pcap seen.pcap; command tcpdump -r seen.pcap \"$@\"; }",
        ],
        programs: &["tcpdump", "iptables"],
        is_alone: true,
    },
    Prepared {
        page: "verify-json.md",
        before: &[SESSION, "ssh() { cat session.pcap; }"],
        programs: &["jq"],
        ..NOTHING
    },
    Prepared { page: "wireshark.md", before: &[SESSION], programs: &["tshark"], ..NOTHING },
];

/// A block of a page.
struct Block<'p> {
    language: &'p str,
    /// Without the indentation of its first line.
    text: String,
    line: usize,
    /// The heading above it.
    section: &'p str,
}

impl Block<'_> {
    fn has_commands(&self) -> bool {
        matches!(self.language, "sh" | "sh undo" | "console")
    }

    /// The name of the file that it is.
    fn file_name(&self) -> Option<&str> {
        let name = self.text.strip_prefix("# ")?.lines().next()?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_file = [".toml", ".conf", ".cfg"].iter().any(|end| name.ends_with(end));
        (is_file && name.chars().all(is_name)).then_some(name)
    }
}

/// The blocks of a page, in order.
fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut section = "";
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.starts_with('#') {
            section = line.trim_start_matches('#').trim();
        }
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let text = inside.map(|line| line.get(indent..).unwrap_or("").to_owned() + "\n").collect();
        blocks.push(Block { language, text, line: number + 1, section });
    }
    blocks
}

/// Every page below `docs`, by its path from there.
fn pages() -> Vec<(String, String)> {
    fn below(folder: &Path, pages: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                below(&entry, pages);
            } else if entry.extension().is_some_and(|extension| extension == "md") {
                pages.push(entry);
            }
        }
    }
    let docs = crates().join("../docs");
    let mut paths = Vec::new();
    below(&docs, &mut paths);
    paths.sort();
    let name = |path: &Path| path.strip_prefix(&docs).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// Where the block's commands run, if that is elsewhere.
fn elsewhere(page: &str, block: &Block<'_>) -> bool {
    ELSEWHERE.iter().any(|(of, section, ..)| *of == page && (section.is_empty() || *section == block.section))
}

#[test]
fn every_block_says_what_it_is() {
    for (page, text) in pages() {
        for block in blocks(&text) {
            assert!(
                !block.language.is_empty(),
                "docs/{page}:{}: write what the block is: ```console for commands after `$ ` and their output, ```sh for commands, \
                 ```text for anything else",
                block.line
            );
            let has_commands = block.text.lines().any(|line| line.starts_with("$ "));
            assert_eq!(
                has_commands,
                block.language == "console",
                "docs/{page}:{}: a line that begins with `$ ` is a command, and its block is ```console",
                block.line
            );
        }
    }
}

#[test]
fn every_page_is_in_the_book() {
    let pages = pages();
    let (_, summary) = pages.iter().find(|(name, _)| name == "SUMMARY.md").unwrap();
    for (page, _) in pages.iter().filter(|(name, _)| name != "SUMMARY.md") {
        assert!(
            summary.contains(&format!("]({page})")),
            "docs/SUMMARY.md lacks docs/{page}: nobody would find it in the book"
        );
    }
}

#[test]
fn what_runs_elsewhere_is_read_from_the_page() {
    let pages = pages();
    for (page, section, file, row) in ELSEWHERE {
        let (_, text) =
            pages.iter().find(|(name, _)| name == page).unwrap_or_else(|| panic!("no docs/{page}"));
        let has_section = section.is_empty()
            || blocks(text).iter().any(|block| block.has_commands() && block.section == *section);
        assert!(has_section, "docs/{page} has no commands under {section:?}");
        let code = fs::read_to_string(crates().join("..").join(file)).unwrap_or_default();
        assert!(
            code.contains(&format!("docs/{page}")) && code.contains(row),
            "{file} has no {row} that reads docs/{page}: ELSEWHERE in crates/cli/tests/it/book.rs names it"
        );
    }
    for Prepared { page, .. } in PREPARED {
        assert!(pages.iter().any(|(name, _)| name == page), "no docs/{page}");
    }
}

#[test]
fn every_command_runs() {
    let mut failures = String::new();
    for (page, text) in pages() {
        let mut blocks = blocks(&text);
        blocks.retain(|block| !elsewhere(&page, block));
        if !blocks.iter().any(|block| block.has_commands()) {
            continue;
        }
        if let Err(why) = followed(&page, &blocks) {
            writeln!(failures, "docs/{page}{why}").unwrap();
        }
    }
    assert!(
        failures.is_empty(),
        "{failures}\nPREPARED and ELSEWHERE in crates/cli/tests/it/book.rs say what a page needs, and what runs it elsewhere"
    );
}

/// Runs what a page tells the reader to run. An error begins with the line of the block.
fn followed(page: &str, blocks: &[Block<'_>]) -> Result<(), String> {
    let Prepared { before, programs, is_alone, .. } =
        PREPARED.iter().find(|prepared| prepared.page == page).unwrap_or(&NOTHING);
    let missing: Vec<_> = programs.iter().filter(|program| !is_installed(program)).collect();
    if !missing.is_empty() || (*is_alone && !is_privileged()) {
        let why = format!(": not run: it takes {missing:?}, and the right to make namespaces: {is_alone}");
        // The stage that has them all sets this.
        if std::env::var_os("WIRESEAL_EVERY_PAGE").is_some() {
            return Err(why);
        }
        println!("docs/{page}{why}");
        return Ok(());
    }
    let files = Files::new();
    symlink(crates().join("../docs").canonicalize().unwrap(), files.path("docs")).unwrap();
    // What a page starts ends with it, and nobody else sees it.
    let is_alone = is_privileged();
    let mut script = String::from("at() { echo \"$1\" >.at; }\nat 1\n");
    script.push_str("await_instance() { until wireseal status >/dev/null 2>&1; do sleep 0.1; done; }\n");
    if is_alone {
        script.push_str("mount -t tmpfs none /run\nmkdir .changed\nmount -t tmpfs none .changed\n");
        script.push_str("for at in /etc /usr/local; do\nmkdir -p .changed$at/upper .changed$at/work\n");
        script.push_str("mount -t overlay -o lowerdir=$at,upperdir=.changed$at/upper,workdir=.changed$at/work none $at\ndone\n");
        script.push_str("ip link add eth0 type veth peer name far\n");
        script.push_str("for link in eth0 far lo; do ip link set $link up; done\n");
    }
    writeln!(script, "{}", before.join("\n")).unwrap();
    let mut compared = Vec::new();
    let (last, first): (Vec<_>, Vec<_>) = blocks.iter().partition(|block| block.language == "sh undo");
    for block in first.into_iter().chain(last) {
        match block.language {
            "sh" | "sh undo" => {
                // The reader sees that what runs in the background has started.
                let text = block.text.replace(" &\n", " & await_instance\n");
                writeln!(script, "at {}\nset -x\n{text}set +x", block.line).unwrap();
            }
            "console" => {
                let text = block.text.strip_prefix("$ ").unwrap_or(&block.text);
                for shown in text.split("\n$ ") {
                    let (command, output) = shown.split_once('\n').unwrap_or((shown, ""));
                    let name = format!(".output-{}", compared.len());
                    writeln!(script, "at {}\n( set +e\n{command}\n) >{name} 2>&1 || :", block.line).unwrap();
                    compared.push((block.line, name, command, output.trim_end_matches('\n').to_owned()));
                }
            }
            _ => {
                if let Some(name) = block.file_name() {
                    files.file(name, &block.text);
                }
            }
        }
    }
    let script = files.file(".script", script);
    let alone: &[_] = &["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let mut command = Command::new("timeout");
    command.arg("120").args(if is_alone { alone } else { &[] }).arg("sh");
    let output = command
        .arg("-e")
        .arg(&script)
        .current_dir(files.path("."))
        .env("PATH", path())
        .env("HOME", files.path("."))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if !output.status.success() {
        let line = fs::read_to_string(files.path(".at")).unwrap_or_default();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        return Err(format!(":{}: {}\n{said}", line.trim(), output.status));
    }
    for (line, name, command, shown) in compared {
        let printed = without_secrets(&fs::read_to_string(files.path(&name)).unwrap());
        if printed.trim_end_matches('\n') != shown {
            return Err(format!(":{line}: {command:?} prints\n{printed}and not\n{shown}"));
        }
    }
    Ok(())
}

/// The text with a fixed word for each new secret.
fn without_secrets(text: &str) -> String {
    // A digest in hexadecimal has no capital letter.
    let is_secret = |word: &str| word.len() == 32 && word.contains(|c: char| c.is_ascii_uppercase());
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| is_secret(word));
    words.fold(text.to_owned(), |text, word| text.replace(word, "THE-NEW-SECRET"))
}

fn is_installed(program: &str) -> bool {
    std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|folder| folder.join(program).is_file())
}
