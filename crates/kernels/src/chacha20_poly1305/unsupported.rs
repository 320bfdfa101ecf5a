//! Processors without the instructions.

use core::convert::Infallible;

use crate::cpu::InstructionSet;

/// None exists.
#[derive(Clone, Copy)]
pub(super) struct Engine(Infallible);

impl Engine {
    pub(super) fn detect() -> Option<Self> {
        None
    }

    pub(super) fn path(self) -> InstructionSet {
        match self.0 {}
    }

    pub(super) fn seal(self, _: &[u32; 8], _: &[u8; 12], _: &[u8], _: &mut [u8]) -> [u8; 16] {
        match self.0 {}
    }

    pub(super) fn open(self, _: &[u32; 8], _: &[u8; 12], _: &[u8], _: &mut [u8], _: &[u8; 16]) -> bool {
        match self.0 {}
    }
}
