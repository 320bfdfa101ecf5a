//! What needs no kernel with TCP-AO: files with mistakes, and changes of the peers.

use std::fs;

use wireseal_linux::OnFailure;

use crate::config::Config;
use crate::keys::Keys;

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/configs/daemon.toml");

/// Reads the configuration with a change in its text.
fn load(written: &str, instead: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.toml");
    let text = fs::read_to_string(CONFIG).unwrap();
    assert!(text.contains(written));
    fs::write(&path, text.replace(written, instead)).unwrap();
    Config::load(&path).map_err(|error| format!("{error:#}"))
}

#[test]
fn a_mistake_is_named() {
    let config = load("", "").unwrap();
    assert_eq!(config.peer[1].policy.on_failure, OnFailure::ResetCohort);
    for (written, instead, wrong) in [
        ("passive", "passiv", "unknown field `passiv`"),
        ("hold-old-keys", "hold", "unknown variant `hold`"),
        ("AES-128-CMAC-96", "AES", "key 1, algorithm: unknown TCP-AO algorithm"),
        ("preferred = 1", "preferred = 2", "no key of the chain has this key id"),
    ] {
        let error = load(written, instead).err().unwrap();
        assert!(error.contains("daemon.toml, line ") && error.contains(wrong), "{error}");
    }
}

#[test]
fn a_change_is_made_whole_or_not_at_all_and_taken_back() {
    let keys = Keys::new(&load("", "").unwrap()).unwrap();
    let generation = keys.manager.generation();
    let twice = keys.change(load("2001:db8::1", "192.0.2.1").unwrap()).unwrap_err();
    assert_eq!(twice.to_string(), "peer 192.0.2.1 is given twice");
    // The listeners would let the new neighbour in unsigned.
    let unkeyed = keys
        .change(load("address = \"192.0.2.10\"", "md5-secret = \"new\"\naddress = \"192.0.2.10\"").unwrap())
        .unwrap_err();
    assert_eq!(unkeyed.to_string(), "TCP-MD5 keys change with a restart only");
    assert_eq!(keys.manager.generation(), generation, "nothing has changed");
    // A peer whose chain is gone is kept out, not removed: if it were removed, anyone could connect from its address without keys.
    let blocked = keys.change(load("name = \"core\"", "name = \"other\"").unwrap()).unwrap();
    assert!(generation < blocked && blocked < keys.undo().unwrap());
    for peer in load("", "").unwrap().peer {
        assert_eq!(keys.manager.remove_peer(peer.name()).is_some(), peer.key_chain.is_some());
    }
}
