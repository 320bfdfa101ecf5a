//! Simulates routers over a year of virtual time, like TigerBeetle's VOPR, with the real code for TCP-AO. Their sessions have to survive key
//! roll-overs, wrong clocks, bad networks, restarts, operators and an attacker. docs/dev/models.md describes it.
//!
//! Everything comes from one seed, in one thread and without a clock: the same seed gives the same run.

mod agenda;
mod attacker;
mod chains;
mod end;
mod kernel;
mod receive;
mod report;
mod sessions;
mod tcp;
mod world;

pub use self::report::{Failure, Fault, Summary};

/// Simulates a year.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<Summary, Failure> {
    let mut world = world::World::new(seed, fault);
    let result = world.run();
    result.map_err(|what| world.failure(what))
}
