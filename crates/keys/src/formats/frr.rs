//! FRR configuration: its key chains, which are for other protocols. FRR has no TCP-AO (FRRouting/frr, issue 7240), so its keys have no ids.

use std::convert::Infallible;

use super::chains::TOML;
use super::file::{Content, Remark};
use super::table::{Shows, Table, begins};
use super::tree::{Blocks, Dialect, Tree};
use crate::Error;

pub(super) const TABLE: Table = Table {
    name: "frr",
    about: "FRR configuration, which has no TCP-AO",
    extension: None,
    shows: |text| Shows::if_(begins(text, &["frr version", "frr defaults"])),
    read: |text, _| read(text),
    write: None,
    change: None,
    ..TOML
};

const DIALECT: Dialect =
    Dialect { blocks: Blocks::Indentation { has_prompts: true }, depth: 64, block: |_| "mode" };

/// No key: a remark at each chain says why.
fn read(text: &str) -> Result<Content, Error> {
    const WHY: &str =
        "FRR has no TCP-AO, so its keys have no SendID and RecvID: write them with ids, in TOML";
    let mut content = Content::default();
    let Ok(()) = Tree::read(text, &DIALECT)?.each(|_, _, line| {
        if let [key, chain, _] = line.words()
            && key.is("key")
            && chain.is("chain")
        {
            content.remarks.push(Remark::left_out(key.position(), WHY).about("this key chain"));
        }
        Ok::<_, Infallible>(())
    });
    Ok(content)
}
