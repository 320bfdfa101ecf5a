//! Processors without instructions for AES.

use super::{Blocks, Mask, OpenJob, Packet, SealJob};
use crate::aes::{Engine, Rounds};

impl Engine {
    pub(super) fn powers(self, _: u128, _: &mut [u128]) {
        match self {}
    }

    pub(super) fn seal(self, _: &Blocks, _: Rounds, _: Packet<'_>, _: Option<Mask<'_>>) -> [u8; 16] {
        match self {}
    }

    pub(super) fn seal_batch(self, _: &Blocks, _: Rounds, _: &mut [SealJob<'_>]) {
        match self {}
    }

    pub(super) fn open(self, _: &Blocks, _: Rounds, _: Packet<'_>) -> bool {
        match self {}
    }

    pub(super) fn open_batch(self, _: &Blocks, _: Rounds, _: &mut [OpenJob<'_>]) {
        match self {}
    }
}
