//! Nokia SR OS configuration: MD-CLI in braces or as commands, and classic CLI (Nokia, YANG model nokia-conf, release 20; System Management
//! Guide, "TCP Enhanced Authentication Option").

mod entry;
mod keychain;
mod pair;
mod users;
mod write;

use self::entry::{MAC_LENGTH, MAX_ID, algorithm_name};
use self::keychain::Keychains;
use self::users::Users;
use super::file::Content;
use super::table::{Limits, Shows, Table, begins, first_line};
use super::tree::{Blocks, Dialect, Tree};
use super::write::written;
use crate::Error;

pub(super) const TABLE: Table = Table {
    name: "sr-os",
    about: "Nokia SR OS configuration, MD-CLI or classic",
    extension: None,
    shows,
    read: |text, _| read(text),
    fit: write::that_can_be,
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    limits: Limits {
        name: "sr-os",
        about: "Nokia SR OS",
        title: "SR OS",
        algorithm: algorithm_name,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        covers_options: true,
        has_only_text: true,
        max_id: MAX_ID,
        ..Limits::NONE
    },
};

fn shows(text: &str) -> Shows {
    let line = first_line(text);
    let commands = ["configure system", "configure router", "configure service"];
    let is_command = begins(text, &["/configure", "keychains"])
        || begins(text, &commands) && line.contains("keychain")
        || line == "configure {"
        || line.starts_with("keychain ") && line.ends_with('{')
        || line.starts_with("# TiMOS-");
    let quotes_name =
        ["keychain \"", "router \"", "vprn \"", "neighbor \""].iter().any(|start| line.starts_with(start));
    // Junos has `security`, too.
    let is_security = begins(text, &["security"]) && text.contains("tcp-option-number");
    Shows::if_(
        is_command
            || quotes_name
            || is_security
            || ["tcp-option-number", "authentication-keychain", "auth-keychain"]
                .iter()
                .any(|word| line.contains(word)),
    )
}

/// The keychains for TCP-AO, with the BGP neighbors and LDP peers that use them.
fn read(text: &str) -> Result<Content, Error> {
    let has_braces = text.lines().any(|line| line.trim_end().ends_with(['{', '}']));
    let dialect = Dialect { blocks: Blocks::Lines { has_braces }, depth: 64, block: |_| "block" };
    let (mut keychains, mut users) = (Keychains::default(), Users::default());
    Tree::read(text, &dialect)?.each(|path, statement| {
        let words = statement.words();
        let Some(first) = words.first().filter(|first| !first.is("exit")) else { return Ok(()) };
        // A command is complete, wherever it is.
        let path = if first.is("/configure") || first.is("configure") { words } else { path };
        keychains.take(path, path.len() - words.len())?;
        users.take(path, path.len() - words.len());
        Ok(())
    })?;
    keychains.finish(users)
}
