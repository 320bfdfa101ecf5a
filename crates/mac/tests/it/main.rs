//! MACs on the processor as it is: published vectors, and properties that hold for every key and message.

mod properties;
mod vectors;
