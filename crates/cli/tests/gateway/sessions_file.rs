//! The file of sessions: `--state`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::first;
use super::net::{Net, Side};

#[test]
fn a_damaged_file_is_set_aside_and_the_gateway_starts() {
    let net = Net::new(1500);
    let state = net.folder().join("state");
    fs::write(&state, "no state").unwrap();
    let log = net.gateway(Side::A, &first(), &["--state", state.to_str().unwrap()]).end();
    let line = log.lines().find(|line| line.contains("was set aside")).unwrap();
    assert!(line.contains(" ERROR ") && line.contains("lost=1"), "{line}");
    let names = fs::read_dir(net.folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = names.filter(|name| name.to_string_lossy().starts_with("state.damaged-")).count();
    assert_eq!(aside, 1);
    net.remove_rules(Side::A);
}

#[test]
fn what_cannot_be_a_file_of_sessions_is_refused_at_the_start() {
    let net = Net::new(1500);
    let path = |name: &str| net.folder().join(name).to_str().unwrap().to_owned();
    let made = ["fifo p", "device c 1 3"].map(|name| format!("mknod {}; ", path(name))).concat();
    let files = "touch open nobodys && chmod 666 open && chown nobody nobodys";
    net.run(Side::A, &format!("{made} cd {} && {files}", path(".")));
    for (state, expected) in [
        // As /dev/null is, but not the machine's own: a gateway that took it would put a file in its place.
        (&path("device"), "it is no regular file"),
        (&path("fifo"), "it is no regular file"),
        (&path("."), "it is no regular file"),
        (&path("open"), "others can write it (mode 0666)"),
        (&path("nobodys"), "it belongs to user 65534"),
        (&path("no/such"), "could not be written here when the gateway ends: No such file"),
    ] {
        let error = net.refused_gateway(Side::A, &first(), &["--state", state]);
        let begins = format!("wireseal: {state}: ");
        assert!(error.starts_with(&begins) && error.contains(expected), "{state}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// A file system with room for this many octets, until it is dropped.
struct Small(PathBuf);

impl Small {
    fn new(path: PathBuf, octets: u32) -> Self {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={octets}"), "tmpfs"]).arg(&path);
        assert!(mount.status().unwrap().success());
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_what_fits_and_the_rules_go_as_asked() {
    let net = Net::new(1500);
    let small = Small::new(net.folder().join("small"), 8192);
    let state = small.path().join("state");
    let arguments = ["--peer", "10.1.0.0/16=core", "--open-on-exit", "--state", state.to_str().unwrap()];
    let gateway = net.gateway(Side::A, &first(), &arguments);
    let _other = net.gateway(Side::B, &first(), &[]);
    net.run(Side::B, "ip route add local 10.1.0.0/16 dev lo");
    net.run(Side::A, "ip route add 10.1.0.0/16 via 192.0.2.2");
    let sessions = net.sessions(Side::A, "192.0.2.1", Side::B, "10.1.0.0", 60);
    assert!(sessions.echoes());
    let log = gateway.end();
    let line = log.lines().find(|line| line.contains("not all sessions could be written")).unwrap();
    // Of 165 octets each.
    for part in [" ERROR ", "sessions=49 lost=11", "No space left on device"] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(fs::metadata(&state).unwrap().len(), 49 * 165);
    assert_eq!(net.run(Side::A, "(iptables-save; nft list ruleset) | grep -ci wireseal || true").trim(), "0");
    // What was kept can be used.
    let roomy = net.folder().join("state");
    fs::copy(&state, &roomy).unwrap();
    let arguments = ["--peer", "10.1.0.0/16=core", "--state", roomy.to_str().unwrap()];
    let log = net.gateway(Side::A, &first(), &arguments).end();
    assert!(log.contains("the sessions were written sessions=49"), "{log}");
    net.remove_rules(Side::A);
}
