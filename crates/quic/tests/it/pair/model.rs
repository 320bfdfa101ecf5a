//! What an end should know and do by RFC 9001 §6, without any key.

use std::collections::BTreeSet;

use wireseal_quic::{NumberLength, ReceiveSpace, UpdateError};

use crate::support::number::nearest;

/// The probe timeout, in milliseconds.
pub(crate) const PROBE_TIMEOUT: u64 = 30;

/// What should happen to a packet that arrives as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Opened,
    Duplicate,
    /// Its key is gone, or its number cannot be decoded.
    NotAuthentic,
}

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) confirmed: bool,
    pub(crate) generation: u64,
    pub(crate) next_number: u64,
    /// The number of the first packet sent in this generation.
    first: Option<u64>,
    /// One of those is acknowledged.
    acknowledged: bool,
    pub(crate) largest_acknowledged: Option<u64>,
    /// No update before this time.
    update_from: u64,
    pub(crate) received: BTreeSet<u64>,
    /// A packet of this generation was opened.
    opened: bool,
    old_keys: OldKeys,
    pub(crate) failures: u64,
    /// How often keys were derived, and whether those of the next generation exist.
    pub(crate) derivations: u64,
    ready: bool,
    /// How many packets of an older generation were opened.
    pub(crate) opened_late: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldKeys {
    Gone,
    /// Until the peer has answered.
    Kept,
    Until(u64),
}

impl Model {
    pub(crate) fn new(next_number: u64) -> Self {
        Self {
            confirmed: false,
            generation: 0,
            next_number,
            first: None,
            acknowledged: false,
            largest_acknowledged: None,
            update_from: 0,
            received: BTreeSet::new(),
            opened: false,
            old_keys: OldKeys::Gone,
            failures: 0,
            derivations: 2,
            ready: true,
            opened_late: 0,
        }
    }

    pub(crate) fn largest_received(&self) -> Option<u64> {
        self.received.last().copied()
    }

    /// When old keys will be gone.
    pub(crate) fn expires(&self) -> Option<u64> {
        if let OldKeys::Until(time) = self.old_keys { Some(time) } else { None }
    }

    pub(crate) fn expire(&mut self, now: u64) {
        if self.expires().is_some_and(|expires| expires <= now) {
            self.old_keys = OldKeys::Gone;
        }
    }

    /// Keys are derived when a packet is sent, and never while one is opened.
    pub(crate) fn prepare(&mut self) {
        self.derivations += u64::from(!self.ready);
        self.ready = true;
    }

    /// The number of the next packet, which is sent.
    pub(crate) fn send(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.first.get_or_insert(number);
        self.prepare();
        number
    }

    /// Starts an update if it may; times in milliseconds.
    pub(crate) fn initiate_update(&mut self, now: u64) -> Result<(), UpdateError> {
        if !self.confirmed {
            return Err(UpdateError::HandshakeNotConfirmed);
        }
        if self.generation > 0 && !self.acknowledged {
            return Err(UpdateError::NotAcknowledged);
        }
        if now < self.update_from {
            return Err(UpdateError::TooSoon { from: std::time::Duration::from_millis(self.update_from) });
        }
        self.update();
        Ok(())
    }

    fn update(&mut self) {
        self.prepare();
        self.ready = false;
        self.generation += 1;
        self.first = None;
        self.acknowledged = false;
        self.opened = false;
        self.old_keys = OldKeys::Kept;
    }

    pub(crate) fn fate(&self, generation: u64, number: u64, length: NumberLength) -> Fate {
        let has_key = match generation.checked_sub(self.generation) {
            Some(0 | 1) => true,
            Some(_) => panic!("the peer is two generations ahead"),
            None => generation + 1 == self.generation && self.old_keys != OldKeys::Gone,
        };
        let largest = self.largest_received();
        if !has_key || nearest(largest, number as u32, length) != number {
            return Fate::NotAuthentic;
        }
        let too_old = largest.is_some_and(|largest| number + ReceiveSpace::WINDOW <= largest);
        if too_old || self.received.contains(&number) { Fate::Duplicate } else { Fate::Opened }
    }

    /// A packet was opened that acknowledges all up to `largest`.
    pub(crate) fn open(&mut self, generation: u64, number: u64, largest: Option<u64>, now: u64) {
        self.received.insert(number);
        if generation > self.generation {
            self.update();
        }
        if generation == self.generation {
            if !self.opened && self.old_keys == OldKeys::Kept {
                self.old_keys = OldKeys::Until(now + 3 * PROBE_TIMEOUT);
            }
            self.opened = true;
        } else {
            self.opened_late += 1;
        }
        let of_this_generation = largest >= self.first && self.first.is_some();
        if of_this_generation && !self.acknowledged {
            self.acknowledged = true;
            if self.generation > 0 {
                self.update_from = now + 3 * PROBE_TIMEOUT;
            }
        }
        self.largest_acknowledged = self.largest_acknowledged.max(largest);
    }
}
