//! Junos configuration, with braces or as `set` commands: `authentication-key-chains` with `algorithm ao`, and the peers that use them
//! (Juniper, TCP-AO for BGP and LDP Sessions, Junos 20.3R1 and later).

mod chains;
mod change;
mod groups;
mod statements;
mod users;
mod write;

use wireseal_algorithms::TcpAoAlgorithm;

use self::chains::{Drafts, MAC_LENGTH, MAX_KEY_ID};
use self::users::Users;
use super::file::Content;
use super::table::{Limits, Shows, Table, begins, first_line};
use super::write::written;
use crate::Error;

pub(super) const TABLE: Table = Table {
    name: "junos",
    about: "Junos configuration, with braces or as `set` commands",
    extension: None,
    shows: |text| {
        let line = first_line(text);
        let commands =
            ["set security", "set protocols", "set groups", "set routing-instances", "set version"];
        Shows::if_(
            begins(text, &commands)
                // Banners have sentences that begin with "Security".
                || line.trim_end() == "security"
                || begins(text, &["security {"])
                || begins(text, &["key-chain"]) && !line.contains('=')
                || ["authentication-key-chain", "ao-attribute", "| display set"]
                    .iter()
                    .any(|part| line.contains(part)),
        )
    },
    read: |text, _| read(text),
    fit: |chain, _, losses| Some(write::that_can_be(chain, losses)),
    write: Some(|chains, losses| Ok(written(chains, |text| write::write(text, chains, losses)))),
    change: Some(change::CHANGE),
    limits: Limits {
        name: "junos",
        about: "Junos",
        title: "Junos",
        options_setting: "tcp-ao-option enabled",
        algorithm: TcpAoAlgorithm::junos_name,
        mac_lengths: [MAC_LENGTH, MAC_LENGTH],
        max_key_id: MAX_KEY_ID,
        obscured: Some("$9$"),
        ..Limits::NONE
    },
};

/// The key chains with keys for TCP-AO, with the BGP, LDP and BMP peers that use them.
fn read(text: &str) -> Result<Content, Error> {
    let mut content = Content::default();
    let mut chains = Drafts::default();
    let mut users = Users::default();
    for statement in statements::in_effect(text, &mut content)? {
        chains.take(&statement)?;
        users.take(&statement, &mut content);
    }
    chains.finish(&users, &mut content)?;
    Ok(content)
}
