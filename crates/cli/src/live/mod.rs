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
pub use privileges::{Unprivileged, drop_privileges, open_as_caller};
pub(crate) use screen::{Counted, Screen, restore_terminal};
pub use watch::{Reason, Row, Watch};
