//! TCP-AO from outside: daemons without it, unchanged, under `wireseal run`, and behind `wireseal gateway`.

mod daemon;
mod gateway;
mod ldp;
mod pair;
mod program;
mod run;
mod second_days;
mod service;
mod supervised;
mod vrf;

use crate::row::Row;

pub fn rows() -> Vec<Row> {
    let mut rows = run::rows();
    rows.extend([pair::row(), ldp::row(), vrf::row(), program::row(), service::row(), second_days::row()]);
    rows.extend(gateway::rows());
    rows
}
