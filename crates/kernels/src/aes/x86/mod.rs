//! AES on x86-64.

mod block;
mod engine;
mod v128;
mod v256;
mod v512;

pub(crate) use block::V128;
pub(crate) use engine::Engine;
pub(crate) use v256::V256;
pub(crate) use v512::V512;
