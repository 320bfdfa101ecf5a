//! Packets as they are sent and received on this machine.

mod annotated;
mod interfaces;
mod lines;
mod privileges;
mod screen;
mod watch;

pub(crate) use annotated::Annotated;
pub use interfaces::{InterfaceError, Interfaces};
pub(crate) use lines::Lines;
pub use privileges::{Unprivileged, drop_privileges};
pub(crate) use screen::{Counted, Screen};
pub use watch::{Reason, Row, Watch};
