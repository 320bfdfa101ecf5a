//! Secrets marked as undefined: valgrind's memcheck reports what branches on them and what they are an address of.

use wireseal_kernels::cpu::{InstructionSet, switch};

use crate::routines::{Routine, Secrets};
use crate::valgrind;

/// The lengths of text that every routine is run with. 240 octets fill the last group of GCM's registers to the last block.
const LENGTHS: [usize; 15] = [0, 1, 15, 16, 17, 31, 64, 127, 128, 240, 255, 256, 300, 1024, 1200];

/// The samples of real packets, 4 octets behind the start of a packet number of 0 to 4 octets; the last that GCM takes from its
/// registers; and the first that it reads back.
const SAMPLE_STARTS: &[usize] = &[0, 1, 2, 3, 4, 16, 17];

/// What memcheck said of a routine.
pub enum Finding {
    Nothing,
    DependsOnASecret,
    /// The outcome does not depend on the secrets, says valgrind, so that it has not followed them.
    NotFollowed,
}

/// Whether valgrind knows the routine's instructions. Its processor is a lesser one: what it does not have, it does not know.
pub const fn knows(routine: &Routine) -> bool {
    matches!(
        routine.path,
        None | Some(
            InstructionSet::AesNi
                | InstructionSet::AesNiAvx
                | InstructionSet::Avx2
                | InstructionSet::Bmi2
                | InstructionSet::Aarch64Aes
                | InstructionSet::Aarch64Sha
        )
    )
}

/// What memcheck finds in a routine, with its reports and how many of them are of verdicts.
pub fn check(routine: &Routine) -> (Finding, usize, usize) {
    assert!(routine.select(), "valgrind's processor has no instructions for {routine}");
    let (reports, is_followed) = reports_of(routine);
    let verdicts = routine.verdicts * LENGTHS.len();
    let finding = match reports {
        // A verdict that is reported has been followed, though what it leaves is public.
        _ if reports == verdicts && (is_followed || verdicts > 0) => Finding::Nothing,
        _ if reports > verdicts => Finding::DependsOnASecret,
        _ => Finding::NotFollowed,
    };
    switch::all();
    (finding, reports, verdicts)
}

/// The reports of memcheck, and whether the outcome was secret for it too.
fn reports_of(routine: &Routine) -> (usize, bool) {
    let before = valgrind::count_errors();
    let mut is_followed = false;
    for length in LENGTHS {
        let mut secrets = Secrets::new(SAMPLE_STARTS);
        secrets.fill(|octets| {
            octets.fill(0xa7);
            valgrind::make_undefined(octets);
        });
        (routine.run)(&mut secrets, length);
        is_followed |= valgrind::is_undefined(&secrets.outcome);
        // What has been computed is public from here on, and no later check may trip over it.
        secrets.fill(valgrind::make_defined);
        valgrind::make_defined(&mut secrets.outcome);
    }
    (valgrind::count_errors() - before, is_followed)
}
