//! Routines that depend on a secret on purpose: a method that does not find them sees nothing.

use std::hint::black_box;

use crate::routines::{Routine, Secrets};

const fn twin(name: &'static str, run: fn(&mut Secrets, usize)) -> Routine {
    Routine { name, path: None, verdicts: 0, run }
}

/// A branch, which both methods have to find.
pub const BRANCH: Routine = twin("twin: a branch", branch);
/// An index, which only memcheck has to find: a clock does not see one that is in the cache.
pub const INDEX: Routine = twin("twin: an index", index);

/// A loop for one value of a bit of the key, and none for the other.
fn branch(secrets: &mut Secrets, _: usize) {
    if black_box(secrets.key[0]) & 1 == 1 {
        for octet in &mut secrets.body[..256] {
            *octet = black_box(octet.wrapping_mul(3));
        }
    }
    secrets.outcome[0] = secrets.key[0];
}

/// A table that octets of the key are indices of.
fn index(secrets: &mut Secrets, _: usize) {
    static TABLE: [u8; 256] = [7; 256];
    let mut sum = 0_u8;
    for octet in secrets.key {
        sum ^= black_box(TABLE)[usize::from(octet)];
    }
    secrets.outcome[0] = sum;
}
