//! What several tests share.

pub mod files;
pub mod generate;
pub mod namespace;
pub mod program;
pub mod reports;
pub mod schema;
pub mod session;
pub mod wrap;
