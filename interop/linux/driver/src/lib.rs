//! Virtual machines whose kernels have TCP-AO, a wire between them, and rows that say what has to come of it.
//!
//! | module | what is in it |
//! |---|---|
//! | [`wire`] | the switch between all, which records, loses and forges |
//! | [`guest`] | a virtual machine and the line to the agent in it |
//! | [`userspace`] | the driver's own TCP stack, on Wireseal |
//! | [`lab`] | what all rows share |
//! | [`verify`] | a recording, judged segment by segment |
//! | [`rows`] | the rows and their negative twins |
//! | [`results`] | RESULTS.md |

pub mod carrier;
pub mod failure;
pub mod forge;
pub mod guest;
pub mod lab;
pub mod recording;
pub mod results;
pub mod rows;
pub mod userspace;
pub mod verify;
pub mod wire;
