//! A day, from its seed.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use fastrand::Rng;

use crate::attacker::{Attack, Attacker};
use crate::event::{self, Event};
use crate::instance::Kind;
use crate::journal::{HOLD, Journal};
use crate::operator::Operator;
use crate::wire::Wire;
use crate::world::{Orders, Side, World};

/// How long to wait for the first session, and for the last one after everything that has happened: both ends give up a dead session and
/// connect again.
const UP: Duration = Duration::from_secs(HOLD.as_secs() + 20);

/// Runs a day; returns its summary line, and whether all went well.
pub fn run(orders: &Orders) -> Result<bool> {
    let Orders { seed, folder, .. } = orders;
    let started = Instant::now();
    let journal = Arc::new(Journal::create(folder, orders.is_loud)?);
    let mut rng = Rng::with_seed(*seed);
    let is_ipv6 = rng.u8(..3) == 0;
    let listener = event::side(&mut rng);
    let attacks: Vec<_> = Attack::ALL.into_iter().filter(|_| rng.u8(..4) > 0).collect();
    let attacks = if attacks.is_empty() { vec![Attack::Data] } else { attacks };
    // On some days there are so many peers that changing rules takes time.
    let others = Side::BOTH.map(|_| if rng.u8(..6) == 0 { 400 } else { rng.usize(..3) });
    let options = Side::BOTH.map(|_| event::options(&mut rng));
    // In a virtual machine at least one end is a daemon under `wireseal run`.
    let kinds = match (orders.is_in_guest, rng.u8(..3)) {
        (false, _) => [Kind::Gateway; 2],
        // Whose rules are removed.
        (true, _) if orders.is_open => [Kind::Gateway, Kind::Run],
        (true, 0) => [Kind::Gateway, Kind::Run],
        (true, 1) => [Kind::Run, Kind::Gateway],
        (true, _) => [Kind::Run; 2],
    };
    let events: Vec<_> =
        (0..rng.usize(3..9)).map(|_| Event::draw(&mut rng, kinds, orders.is_in_guest)).collect();
    let mut pauses = rng.fork();
    let plan: Vec<_> = events.iter().map(Event::to_string).collect();
    journal.note(&format!(
        "seed {seed}, {kinds:?}, attacks {attacks:?}, listener {listener}, plan: {}",
        plan.join("; ")
    ));

    let (world, ends) = World::make(folder, is_ipv6)?;
    let wire = Wire::join(ends, &world, kinds, &journal);
    let mut operator = Operator::new(world, Arc::clone(&journal), orders, listener, kinds, others)?;
    let attack = || -> Result<()> {
        operator.start_all(options)?;
        let _attacker = Attacker::start(&wire, &operator.world, listener, attacks, rng.fork());
        await_session(&operator, "at the beginning")?;
        for (number, event) in events.iter().enumerate() {
            sleep(Duration::from_millis(pauses.u64(200..2000)));
            if orders.is_open && number == events.len() / 2 {
                await_session(&operator, "to be opened in secret")?;
                operator.open_in_secret(Side::A)?;
            }
            operator.carry_out(event)?;
        }
        await_session(&operator, "after the last event")?;
        Side::BOTH.into_iter().try_for_each(|side| operator.check(side, true))
    };
    if let Err(error) = attack() {
        journal.fault(&format!("{error:#}"));
    }
    wire.end();
    let known = wire.known();
    let attacks: Vec<_> = known.counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let faults = journal.faults();
    let ends = if orders.is_in_guest { format!("{kinds:?}, ") } else { String::new() };
    let line = format!(
        "day {seed}, {ends}IPv{}: {} | {} lost as expected | injected {} | {} signed, {} unsigned | {} in {:.0} s",
        if is_ipv6 { 6 } else { 4 },
        plan.join("; "),
        journal.excused_losses(),
        attacks.join(", "),
        known.signed,
        known.unsigned,
        if faults.is_empty() { "good".to_owned() } else { format!("{} FAULTS", faults.len()) },
        started.elapsed().as_secs_f64()
    );
    drop(known);
    journal.note(&line);
    println!("{line}");
    faults.iter().for_each(|fault| println!("    {fault}"));
    Ok(faults.is_empty())
}

fn await_session(operator: &Operator, when: &str) -> Result<()> {
    let started = Instant::now();
    while !operator.has_been_up(Duration::ZERO) {
        if started.elapsed() > UP {
            bail!("no session {when} in {UP:?}");
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
