//! Every segment's verdict, and the diagnosis of what failed.

pub mod report;
