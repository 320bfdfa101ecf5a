//! Processors without instructions for AES.

use super::expand::{RoundKeys, Rounds};
use crate::cpu::InstructionSet;

/// None exists.
#[derive(Clone, Copy)]
pub(crate) enum Engine {}

impl Engine {
    pub(crate) const fn detect() -> Option<Self> {
        None
    }

    pub(crate) fn path(self) -> InstructionSet {
        match self {}
    }

    pub(crate) fn expand(self, _: &[u8], _: &mut RoundKeys) -> Option<Rounds> {
        match self {}
    }

    pub(crate) fn encrypt(self, _: &RoundKeys, _: Rounds, _: [u8; 16]) -> [u8; 16] {
        match self {}
    }
}
