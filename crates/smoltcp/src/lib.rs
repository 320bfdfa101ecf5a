//! Wireseal.
#![no_std]
