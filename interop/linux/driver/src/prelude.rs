//! What nearly every row uses.

pub use crate::failure::{Failure, Result, ensure, fail};
pub use crate::lab::Lab;
pub use crate::net::{Family, Port};
pub use crate::recording::{Frame, Recording};
pub use crate::row::{Evidence, Refusal, Row};
