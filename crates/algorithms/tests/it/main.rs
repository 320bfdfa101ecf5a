//! Sizes, limits and spellings, compared with the documents that define them.

mod sizes;
mod spelling;
