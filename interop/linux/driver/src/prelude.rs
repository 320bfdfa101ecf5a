//! What nearly every row uses.

pub use anyhow::{Context, Result, anyhow, bail, ensure};

pub use crate::lab::Lab;
pub use crate::net::{Family, Port};
pub use crate::recording::{Frame, Recording};
pub use crate::row::{Evidence, Refusal, Row};
pub use crate::wait::refused;
