//! SHA-1 (FIPS 180-4, section 6.1), and HMAC with it.

#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(feature = "model")]
pub mod model;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::hmac::{Job, ShaInstructions, public};

public!(5);
