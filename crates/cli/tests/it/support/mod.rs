//! What several tests share.

pub mod encapsulations;
pub mod files;
pub mod generate;
pub mod namespace;
pub mod pictures;
pub mod program;
pub mod reports;
pub mod schema;
pub mod session;
pub mod wrap;
