//! The status of an instance as metrics for Prometheus.

mod address;
mod collector;
mod server;

pub use self::address::{MetricsAddress, MetricsAddressError};
#[cfg(feature = "run")]
pub(crate) use self::server::Served;
pub(crate) use self::server::serve;
