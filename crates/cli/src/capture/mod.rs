//! Capture files as packets, and packets as TCP segments.

mod buffer;
mod clock;
mod content;
mod error;
mod packet;
mod pcap;
mod pcapng;
mod place;
mod reader;
mod source;
mod time;

pub use content::{CapturedSegment, Content, Unreadable};
pub use error::{CaptureError, Damage};
pub use packet::Packet;
pub use place::Place;
pub use reader::Reader;
pub use source::Progress;
pub use time::Time;
