//! When the operators of the two ends change keys.

use crate::tcp_ao::end::{Event, Facts};

/// What the operators keep to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operators {
    /// Nothing: every change that the API allows, at any time. Nothing wrong may be accepted, but the ends may lose each other.
    Free,
    /// Keys are used in their order, and only when both ends hold them. A key is removed as soon as both ends hold a later one and
    /// the keys before it are gone, without waiting for the peer to stop using it. Both ends go on sending.
    Prompt,
    /// Keys are used in their order, and only when both ends hold them. A key is removed when both ends were seen to use another.
    Careful,
}

impl Operators {
    /// The changes that an end's operator may make now.
    pub(super) fn changes(self, keys: u8, own: Facts, peer: Facts, events: &mut Vec<Event>) {
        let is_free = self == Self::Free;
        let held = || (0..keys).filter(move |key| own.holds(*key));
        // Of a key that was removed, nothing is left to be added again.
        let new = (0..keys).find(|key| (own.held | own.removed) & 1 << key == 0);
        let is_turn = |key: &u8| is_free || (own.held | peer.held).trailing_zeros() + 1 >= u32::from(*key);
        let new = new.filter(is_turn);
        events.extend(new.map(Event::Add));
        let usable =
            |used: u8| held().filter(move |key| *key != used && (is_free || *key > used && peer.holds(*key)));
        events.extend(usable(own.rnext).map(Event::Ask));
        if is_free {
            events.extend(usable(own.current).map(Event::SignWith));
        }
        for key in held() {
            let is_in_use = key == own.current || key == own.rnext;
            let is_first =
                own.held.trailing_zeros() == u32::from(key) && peer.held.trailing_zeros() >= u32::from(key);
            let replacements =
                held().filter(|other| *other != key && (is_free || *other > key && peer.holds(*other)));
            match self {
                Self::Free | Self::Prompt if is_in_use && (is_free || is_first) => {
                    events.extend(replacements.map(|other| Event::Remove(key, Some(other))));
                }
                Self::Free | Self::Prompt => {
                    if (is_free || is_first) && replacements.count() > 0 {
                        events.push(Event::Remove(key, None));
                    }
                }
                Self::Careful => {
                    if !is_in_use && own.seen.is_some_and(|seen| seen > key) {
                        events.push(Event::Remove(key, None));
                    }
                }
            }
        }
    }
}
