//! Which routing daemon a process is, its version, and whether it has TCP-AO of its own.
//!
//! Nothing is executed to find out, so the version comes from the program's own text, from what Go's linker writes into it, or from the
//! list of Debian's packages. The first two are read through `/proc/PID/exe`: the program that runs, also in a container, and also if the
//! file on the disk has been replaced since.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::files::{Reader, Regular};
use super::host::{Ability, Process, Service};

/// The most letters of a version.
const LONGEST_VERSION: usize = 40;

/// A routing daemon that is known by its program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Daemon {
    /// Its name, as its project writes it.
    pub name: &'static str,
    /// Its version, such as `3.1.4`; `None` if it could not be read.
    pub version: Option<String>,
    /// The command that prints the version; `None` if it has none.
    pub ask: Option<&'static str>,
    tcp_ao: TcpAo,
}

/// Which versions have TCP-AO for BGP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TcpAo {
    None,
    /// From these major and minor numbers on, each in its own major version, and the last in all later ones, too.
    From(&'static [[u32; 2]]),
    /// Since a version that its program does not tell.
    Later(&'static str),
}

/// Where a program has its version.
#[derive(Clone, Copy, Debug)]
enum VersionText {
    /// After this text in the program.
    Program(&'static str),
    /// After this text in the library whose file name begins so.
    Library(&'static str, &'static str),
    /// In Go's build information, after the module's path, which may end with a major version.
    Go(&'static str),
    /// Only where the package manager has it.
    Package,
}

/// A row of [`KNOWN`].
#[derive(Debug)]
struct Known {
    name: &'static str,
    /// The names of its programs.
    programs: &'static [&'static str],
    /// A text in its programs, if other daemons have programs of the same names.
    mark: Option<&'static str>,
    version: VersionText,
    /// Debian packages that may have its programs.
    packages: &'static [&'static str],
    ask: Option<&'static str>,
    tcp_ao: TcpAo,
}

/// What is known of daemons, from their sources as of November 2026.
const KNOWN: &[Known] = &[
    // BIRD's NEWS: "TCP-AO implementation for Linux" in 2.17; 3.1 has what 2.17 has. 3.0 came before.
    Known {
        name: "BIRD",
        programs: &["bird", "bird6"],
        mark: None,
        version: VersionText::Program("BIRD version "),
        packages: &["bird3", "bird2", "bird"],
        ask: Some("bird --version"),
        tcp_ao: TcpAo::From(&[[2, 17], [3, 1]]),
    },
    // Pull request 3602 sets keys on sockets, merged in September 2026; 4.9.0 was released before, on the 1st.
    Known {
        name: "GoBGP",
        programs: &["gobgpd"],
        mark: None,
        version: VersionText::Go("github.com/osrg/gobgp"),
        packages: &["gobgpd"],
        ask: Some("gobgpd --version"),
        tcp_ao: TcpAo::From(&[[4, 10]]),
    },
    // Issue 7240 asks for TCP-AO, and is open. bgpd, ldpd, pimd (MSDP) and pathd (PCEP) have TCP-MD5 alone.
    Known {
        name: "FRR",
        programs: &["bgpd", "ldpd", "pimd", "pim6d", "pathd"],
        mark: Some("libfrr.so"),
        version: VersionText::Library("libfrr.so", "this is FRRouting (version "),
        packages: &["frr"],
        ask: Some("vtysh -c 'show version'"),
        tcp_ao: TcpAo::None,
    },
    // No release since 2018.
    Known {
        mark: Some("libzebra.so"),
        packages: &["quagga-bgpd"],
        ask: Some("bgpd --version"),
        ..plain("Quagga", &["bgpd"])
    },
    // openbgpd-portable: TCP-MD5 where the system has it (pull request 85); IPsec on OpenBSD alone (bgpd.conf(5)).
    Known {
        mark: Some("OpenBGPD"),
        packages: &["openbgpd"],
        ask: Some("bgpd -V"),
        ..plain("OpenBGPD", &["bgpd"])
    },
    // Its socket options are TCP_MD5SIG and IP_TTL alone (reactor/network/tcp.py).
    Known { packages: &["exabgp"], ask: Some("exabgp --version"), ..plain("ExaBGP", &["exabgp"]) },
    // TCP-MD5 alone (daemon/src/auth.rs).
    plain("RustyBGP", &["rustybgpd"]),
    // Pull request 156 (May 2026), after 0.21.
    Known {
        ask: Some("rustbgpd --version"),
        tcp_ao: TcpAo::Later("it has TCP-AO after 0.21"),
        ..plain("rustbgpd", &["rustbgpd"])
    },
    // Pull request 301 (April 2026).
    Known { tcp_ao: TcpAo::Later("it has TCP-AO since April 2026"), ..plain("zebra-rs", &["zebra-rs"]) },
    // TCP-MD5 alone (holo-utils/src/socket.rs).
    plain("Holo", &["holod"]),
    // Caches of RPKI data: plain TCP, and some of them TLS or SSH, but no TCP option (their manuals).
    Known {
        packages: &["stayrtr"],
        version: VersionText::Go("github.com/bgp/stayrtr"),
        ..plain("StayRTR", &["stayrtr"])
    },
    Known { version: VersionText::Go("github.com/cloudflare/gortr"), ..plain("GoRTR", &["gortr"]) },
    Known {
        packages: &["routinator"],
        ask: Some("routinator --version"),
        ..plain("Routinator", &["routinator"])
    },
    Known { packages: &["rtrtr"], ask: Some("rtrtr --version"), ..plain("RTRTR", &["rtrtr"]) },
    Known {
        packages: &["fort-validator"],
        version: VersionText::Program("fort/"),
        ask: Some("fort --version"),
        ..plain("FORT", &["fort"])
    },
    // Collectors: BMP has no authentication of its own (RFC 7854 §11). pmacct's BGP daemon has TCP-MD5 (CONFIG-KEYS).
    Known {
        packages: &["pmacct"],
        ask: Some("pmbmpd -V"),
        ..plain("pmacct", &["pmbmpd", "pmbgpd", "nfacctd", "sfacctd", "pmacctd"])
    },
    plain("OpenBMP", &["openbmpd"]),
    plain("goBMP", &["gobmp"]),
    Known { packages: &["rotonda"], ask: Some("rotonda --version"), ..plain("Rotonda", &["rotonda"]) },
];

/// A daemon without TCP-AO whose version is not in its program.
const fn plain(name: &'static str, programs: &'static [&'static str]) -> Known {
    Known {
        name,
        programs,
        mark: None,
        version: VersionText::Package,
        packages: &[],
        ask: None,
        tcp_ao: TcpAo::None,
    }
}

impl Daemon {
    /// The daemon with this name, in this version; `None` if it is not known. For a host that is made up.
    #[must_use]
    pub fn named(name: &str, version: Option<&str>) -> Option<Self> {
        let known = KNOWN.iter().find(|known| known.name == name)?;
        Some(known.daemon(version.map(str::to_owned)))
    }

    /// Whether it can set TCP-AO keys on the sessions of a service by itself. All that can do so for BGP alone.
    #[must_use]
    pub fn tcp_ao(&self, service: Service) -> Ability {
        let from = match self.tcp_ao {
            TcpAo::None => return Ability::No,
            _ if service != Service::Bgp => return Ability::No,
            TcpAo::Later(why) => return Ability::Unknown(why.into()),
            TcpAo::From(from) => from,
        };
        let numbers = self.version.as_deref().map(|version| version.splitn(3, '.'));
        let numbers: Option<[u32; 2]> = numbers.and_then(|mut parts| {
            let major = parts.next()?.parse().ok()?;
            // `4.10-rc1`, `3.1`.
            let minor = parts.next()?;
            let digits = minor.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(minor.len());
            Some([major, minor[..digits].parse().ok()?])
        });
        let Some([major, minor]) = numbers else {
            let all: Vec<_> = from.iter().map(|[major, minor]| format!("{major}.{minor}")).collect();
            return Ability::Unknown(format!("{} has TCP-AO from {} on", self.name, all.join(" and ")));
        };
        let has = from.iter().any(|first| major == first[0] && minor >= first[1])
            || from.last().is_some_and(|last| major > last[0]);
        if has { Ability::Yes } else { Ability::No }
    }
}

/// Which daemon a program is, and the version in its text.
type Judged = Option<(&'static Known, Option<String>)>;
/// The device and the inode number of a file, and a program's name.
type Program = ((u64, u64), String);

/// Tells which daemons processes are. Each program is read once, and what is read of all has a limit, beyond which nothing is known.
#[derive(Debug, Default)]
pub struct Daemons {
    reader: Reader,
    programs: RefCell<HashMap<Program, Judged>>,
    libraries: RefCell<HashMap<(u64, u64), Option<String>>>,
}

impl Daemons {
    /// Which daemon a process is; `None` for a program that is not known: then it is not known either whether it has TCP-AO.
    ///
    /// A process may claim to be any daemon by its name alone if its program is an interpreter, or may not be read.
    #[must_use]
    pub fn of(&self, process: &Process) -> Option<Daemon> {
        let program = process.executable.as_deref().and_then(Path::file_name);
        let program = program.map(|name| name.to_string_lossy().trim_end_matches(" (deleted)").to_owned());
        let is_script = program.as_ref().is_none_or(|name| name.starts_with("python"));
        let name = if is_script { &process.name } else { program.as_ref()? };
        let mut candidates = KNOWN.iter().filter(|known| known.programs.contains(&name.as_str())).peekable();
        candidates.peek()?;
        let mut judge = |text: &[u8]| {
            let known = candidates.find(|known| known.mark.is_none_or(|mark| find(text, mark).is_some()))?;
            Some((known, known.version(text)))
        };
        let (known, version) = match program_file(process) {
            Some(file) => {
                let key = (file.identity, name.clone());
                let mut programs = self.programs.borrow_mut();
                let read = || judge(&self.reader.read(&file).unwrap_or_default());
                programs.entry(key).or_insert_with(read).clone()
            }
            None => judge(&[]),
        }?;
        let version = version.or_else(|| self.library_version(known, process));
        Some(known.daemon(version.or_else(|| known.packaged_version(process, &root(process), &self.reader))))
    }

    /// The version in the library that the process has mapped: the file itself, because another may have its name by now.
    fn library_version(&self, known: &Known, process: &Process) -> Option<String> {
        let VersionText::Library(library, before) = known.version else { return None };
        let mappings = self.reader.mappings(process.pid)?;
        let mappings = String::from_utf8_lossy(&mappings);
        let range = mappings.lines().find_map(|line| {
            let (range, _) = line.split_once(' ')?;
            let (_, name) = line.rsplit_once('/')?;
            name.starts_with(library).then_some(range)
        })?;
        let file = Regular::of_link(&mapped(process.pid, range)?)?;
        let mut libraries = self.libraries.borrow_mut();
        let read = || version_after(&self.reader.read(&file)?, before);
        libraries.entry(file.identity).or_insert_with(read).clone()
    }
}

impl Known {
    const fn daemon(&self, version: Option<String>) -> Daemon {
        Daemon { name: self.name, version, ask: self.ask, tcp_ao: self.tcp_ao }
    }

    /// The version in the text of its program.
    fn version(&self, text: &[u8]) -> Option<String> {
        match self.version {
            VersionText::Program(before) => version_after(text, before),
            VersionText::Go(module) => {
                let information = go_modules(text)?;
                let mut lines = information.lines().filter_map(|line| line.strip_prefix("mod\t"));
                let (path, rest) = lines.next()?.split_once('\t')?;
                let is_this =
                    path.strip_prefix(module).is_some_and(|end| end.is_empty() || end.starts_with("/v"));
                is_this.then(|| version_after(rest.as_bytes(), "v")).flatten()
            }
            VersionText::Library(..) | VersionText::Package => None,
        }
    }

    /// The version of the Debian package that the program belongs to, without epoch and revision.
    fn packaged_version(&self, process: &Process, root: &Path, reader: &Reader) -> Option<String> {
        let program = process.executable.as_deref()?.to_str()?;
        let read = |path: &str| reader.read(&Regular::under(root, &Path::new("/var/lib/dpkg").join(path))?);
        let package = self.packages.iter().find(|package| {
            let files = read(&format!("info/{package}.list")).unwrap_or_default();
            files.split(|octet| *octet == b'\n').any(|line| line == program.as_bytes())
        })?;
        let status = read("status")?;
        let paragraph = &status[find(&status, &format!("Package: {package}\n"))?..];
        let paragraph = &paragraph[..find(paragraph, "\n\n").unwrap_or(paragraph.len())];
        let version = version_after(paragraph, "\nVersion: ")?;
        let version = version.split_once(':').map_or(version.as_str(), |(_, rest)| rest);
        Some(version.rsplit_once('-').map_or(version, |(upstream, _)| upstream).to_owned())
    }
}

/// The program of a process; `None` if it may not be read.
fn program_file(process: &Process) -> Option<Regular> {
    let running = Regular::of_link(&PathBuf::from(format!("/proc/{}/exe", process.pid)));
    let named = process.executable.as_ref().filter(|_| !process.is_in_container);
    running.or_else(|| Regular::under(Path::new("/"), named?))
}

/// The root directory that the paths of a process begin at.
fn root(process: &Process) -> PathBuf {
    if process.is_in_container { format!("/proc/{}/root", process.pid).into() } else { "/".into() }
}

/// The link to the file that a process has mapped at a range of addresses, of which the list of mappings has leading zeros.
fn mapped(pid: u32, range: &str) -> Option<PathBuf> {
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(format!("/proc/{pid}/map_files/{:x}-{:x}", number(from)?, number(to)?).into())
}

fn find(text: &[u8], part: &str) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part.as_bytes())
}

/// The version that stands after a text: it begins with a digit, and has nothing that a terminal would obey.
fn version_after(text: &[u8], before: &str) -> Option<String> {
    let rest = &text[find(text, before)? + before.len()..];
    let is_part = |octet: &&u8| octet.is_ascii_alphanumeric() || b".+~-_:".contains(octet);
    let version: Vec<u8> = rest.iter().take_while(is_part).take(LONGEST_VERSION).copied().collect();
    let version = String::from_utf8(version).ok()?;
    version.starts_with(|letter: char| letter.is_ascii_digit()).then_some(version)
}

/// What Go's linker writes of a program's modules (Go's `debug/buildinfo`, the form of Go 1.18 and later).
fn go_modules(text: &[u8]) -> Option<&str> {
    const MAGIC: &[u8] = b"\xff Go buildinf:";
    const INLINE: u8 = 2;
    const HEADER: usize = 32;
    /// On each side of the modules.
    const SENTINEL: usize = 16;
    let place = text.chunks(16).position(|chunk| chunk.starts_with(MAGIC))? * 16;
    let header = text.get(place..place + HEADER)?;
    if header[15] & INLINE == 0 {
        return None;
    }
    let (_version, rest) = go_text(&text[place + HEADER..])?;
    let (modules, _) = go_text(rest)?;
    str::from_utf8(modules.get(SENTINEL..modules.len().checked_sub(SENTINEL)?)?).ok()
}

/// A text after its length in LEB128, and what follows it.
fn go_text(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0;
    for (number, octet) in octets.iter().enumerate().take(4) {
        length |= usize::from(octet & 0x7f) << (7 * number);
        if octet & 0x80 == 0 {
            return octets[number + 1..].split_at_checked(length);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// This process, under another name.
    fn process(name: &str, executable: &str) -> Process {
        Process {
            pid: std::process::id(),
            name: name.to_owned(),
            executable: Some(PathBuf::from(executable)),
            user: Some(0),
            is_in_container: false,
            is_under_run: false,
            unit: None,
        }
    }

    #[test]
    fn every_daemon_is_found_by_its_program_and_no_two_are_confused() {
        let mut names = BTreeSet::new();
        for known in KNOWN {
            assert!(names.insert(known.name), "{}", known.name);
            assert_eq!(Daemon::named(known.name, None).unwrap().name, known.name);
            for program in known.programs {
                let others = KNOWN.iter().filter(|other| other.programs.contains(program));
                let marks: Vec<_> = others.map(|other| other.mark).collect();
                assert!(marks.len() == 1 || !marks.contains(&None), "{program} needs a mark");
            }
        }
        assert_eq!(
            Daemons::default().of(&process("bird", "/usr/bin/sleep")),
            None,
            "a name alone does not make a daemon"
        );
        assert_eq!(Daemons::default().of(&process("x", "/opt/bird (deleted)")).unwrap().name, "BIRD");
        assert_eq!(Daemons::default().of(&process("exabgp", "/usr/bin/python3.13")).unwrap().name, "ExaBGP");
        // This test's program has every mark.
        assert_eq!(Daemons::default().of(&process("bgpd", "/usr/lib/frr/bgpd")).unwrap().name, "FRR");
        let gone = Process { pid: u32::MAX, ..process("bgpd", "/nonexistent/bgpd") };
        assert_eq!(Daemons::default().of(&gone), None, "it could be any of three");
    }

    #[test]
    fn a_file_is_read_once_and_a_library_by_its_mapping() {
        let daemons = Daemons::default();
        let own = process("bird", "/usr/sbin/bird");
        let first = daemons.of(&own).unwrap();
        let left = daemons.reader.left();
        assert_eq!((daemons.of(&own), daemons.reader.left()), (Some(first), left));
        // Another name of the same program is another question.
        assert_eq!(daemons.of(&process("x", "/usr/sbin/bgpd")).unwrap().name, "FRR");
        // Only the kernel's own link to the file that is mapped is followed, for which it takes CAP_CHECKPOINT_RESTORE.
        let known = Known {
            version: VersionText::Library("libc.so", "stable release version "),
            ..plain("FRR", &[])
        };
        let version = daemons.library_version(&known, &own);
        let mapped = fs::read_dir("/proc/self/map_files").unwrap().flatten().next().unwrap().path();
        if fs::metadata(mapped).is_ok() {
            assert!(version.unwrap().starts_with("2."));
        } else {
            assert_eq!(version, None);
        }
    }

    #[test]
    fn a_version_says_whether_a_daemon_has_tcp_ao() {
        let has = |name, version| Daemon::named(name, Some(version)).unwrap().tcp_ao(Service::Bgp);
        for version in ["2.17", "2.17.1", "2.18", "3.1.0", "3.2", "4.0", "3.10.1~rc1"] {
            assert_eq!(has("BIRD", version), Ability::Yes, "{version}");
        }
        for version in ["1.6.8", "2.0.12", "2.16.2", "3.0", "3.0.4"] {
            assert_eq!(has("BIRD", version), Ability::No, "{version}");
        }
        for (version, ability) in [
            ("3.36.0", Ability::No),
            ("4.9.0", Ability::No),
            ("4.10.0", Ability::Yes),
            ("4.10-rc1", Ability::Yes),
            ("5.0.0", Ability::Yes),
        ] {
            assert_eq!(has("GoBGP", version), ability, "{version}");
        }
        for (name, version) in [("FRR", "99.0"), ("OpenBGPD", "8.8"), ("ExaBGP", "5.0"), ("StayRTR", "0.6")] {
            assert_eq!(has(name, version), Ability::No, "{name}");
        }
        let bird = Daemon::named("BIRD", Some("3.1")).unwrap();
        assert_eq!(bird.tcp_ao(Service::Rtr), Ability::No, "its RPKI sessions have TCP-MD5 at best");
        for version in [None, Some("unstable"), Some("3"), Some("3.x")] {
            let unknown = Daemon::named("BIRD", version).unwrap().tcp_ao(Service::Bgp);
            assert_eq!(
                unknown,
                Ability::Unknown("BIRD has TCP-AO from 2.17 and 3.1 on".into()),
                "{version:?}"
            );
        }
        assert!(matches!(has("rustbgpd", "0.30"), Ability::Unknown(_)));
        assert_eq!(Daemon::named("nobody", None), None);
    }

    #[test]
    fn a_version_has_nothing_that_a_terminal_obeys() {
        let after = |text: &[u8]| version_after(text, "BIRD version ");
        assert_eq!(after(b"..BIRD version 2.0.12\n\0"), Some("2.0.12".into()));
        assert_eq!(after(b"BIRD version 3.1\x1b[31m"), Some("3.1".into()));
        for text in [&b"BIRD version"[..], b"BIRD version ", b"BIRD version %s", b"BIRD version \x1b[2J", b""]
        {
            assert_eq!(after(text), None);
        }
        assert_eq!(after(&[b"BIRD version ", &[b'1'; 100][..]].concat()).unwrap().len(), LONGEST_VERSION);
    }

    /// A program as Go's linker makes it.
    fn go_program(modules: &str) -> Vec<u8> {
        let text = |text: &[u8]| {
            let length = text.len();
            [&[0x80 | (length & 0x7f) as u8, (length >> 7) as u8][..], text].concat()
        };
        let mut program = vec![0; 48];
        program.extend(b"\xff Go buildinf:\x08\x02");
        program.resize(80, 0);
        program.extend(text(b"go1.24.4"));
        program.extend(text(&[&[1; 16], modules.as_bytes(), &[2; 16]].concat()));
        program
    }

    #[test]
    fn go_writes_a_programs_modules_into_it() {
        let gobgp =
            "path\tgithub.com/osrg/gobgp/v4/cmd/gobgpd\nmod\tgithub.com/osrg/gobgp/v4\tv4.10.0\th1:x=\n";
        let known = KNOWN.iter().find(|known| known.name == "GoBGP").unwrap();
        let version = |program: &[u8]| known.version(program);
        let program = go_program(gobgp);
        assert_eq!(version(&program), Some("4.10.0".into()));
        assert_eq!(version(&go_program(&gobgp.replace("v4.10.0", "(devel)"))), None);
        assert_eq!(
            version(&go_program(
                &gobgp.replace("mod\tgithub.com/osrg/gobgp/v4", "mod\tgithub.com/osrg/gobgp4")
            )),
            None
        );
        assert_eq!(version(&go_program("path\tcommand-line-arguments\n")), None);
        for length in 0..program.len() {
            assert_eq!(version(&program[..length]), None);
        }
    }

    #[test]
    fn a_package_has_the_version_of_its_program_alone() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join("var/lib/dpkg").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("info/bird2.list", "/.\n/usr/sbin/bird\n");
        write("info/bird.list", "/.\n/usr/sbin/birdc-old\n");
        let status = "Package: bird\nVersion: 1.6.8-1\n\nPackage: bird2\nStatus: install ok installed\nVersion: 1:2.17.1-1+deb13u1\n\n";
        write("status", status);
        let known = KNOWN.iter().find(|known| known.name == "BIRD").unwrap();
        let version =
            |path: &str| known.packaged_version(&process("bird", path), folder.path(), &Reader::default());
        assert_eq!(version("/usr/sbin/bird"), Some("2.17.1".into()));
        for other in ["/usr/local/sbin/bird", "/usr/sbin/bird (deleted)", "/usr/sbin/bir"] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
