//! What several tests share.

pub mod document;
pub mod files;
pub mod found;
pub mod generate;
pub mod packet;
pub mod program;
pub mod reports;
pub mod session;
pub mod sign;
