//! Sizes, limits and spellings against the documents that set them.

mod sizes;
mod spelling;
