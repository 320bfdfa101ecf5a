//! Packets as TCP segments, however they are encapsulated or fragmented.

use super::content::Content;
use super::fragments::{Fragment, Fragments, GivenUp, Joined};
use super::layers::{IPV4, IPV6, Layer, Rest};
use super::link::ETHERNET;
use super::scope::Scope;
use super::skipped::Unreadable;
use super::{Packet, Place};

impl<'a> Content<'a> {
    /// Reads a packet's headers, with the encapsulations that `docs/verify.md` lists.
    ///
    /// The segment ends where IP's length field says, so link-layer padding is left out. If that field is 0, because the network card
    /// was to split a large send after it was recorded, the segment ends with the packet.
    #[must_use]
    #[inline]
    pub fn of(packet: &Packet<'a>) -> Self {
        Rest::of(packet).read(packet.link_type)
    }
}

impl<'a> Rest<'a> {
    #[inline]
    fn of(packet: &Packet<'a>) -> Self {
        let missing = packet.original_length.saturating_sub(packet.octets.len());
        Self::new(packet.octets, missing, Scope::NONE)
    }

    #[inline]
    fn read(&mut self, link_type: u16) -> Content<'a> {
        // Most packets are IP in Ethernet without a tag.
        if link_type == ETHERNET
            && let Some((header, octets)) = self.octets.split_first_chunk::<14>()
            && let IPV4 | IPV6 = u16::from_be_bytes([header[12], header[13]])
        {
            self.octets = octets;
            return self.walk(Some(Layer::Ip));
        }
        let first = self.link_layer(link_type);
        self.walk(first)
    }
}

/// How often a packet that was put together may be a fragment again, of a packet inside or outside of it.
const NESTED_FRAGMENTS: usize = 4;

/// Reads packets and puts IP fragments together, in the order of the capture.
///
/// At most 1,024 packets and 4 MiB of octets wait for fragments, each for 60 seconds of the capture's time.
#[derive(Debug, Default)]
pub struct Decoder {
    fragments: Fragments,
    /// The last packet that was put together.
    whole: Vec<u8>,
}

impl Decoder {
    /// Reads a packet's headers. If it has the last fragment of a packet, that is read instead.
    #[inline]
    pub fn content<'d>(&'d mut self, packet: &Packet<'d>) -> Content<'d> {
        let mut rest = Rest::of(packet);
        let content = rest.read(packet.link_type);
        if let Content::Fragment { protocol } = content {
            return self.fragment(&rest, protocol, packet.place());
        }
        content
    }

    #[cold]
    fn fragment(&mut self, rest: &Rest<'_>, protocol: u8, now: Place) -> Content<'_> {
        let first = Fragment::of(rest, protocol);
        let mut scope = first.scope;
        let Joined::Whole(packet) = self.fragments.add(&first, now) else {
            return Content::Fragment { protocol };
        };
        self.whole = packet;
        for _ in 0..NESTED_FRAGMENTS {
            let mut rest = Rest::new(&self.whole, 0, scope);
            let Content::Fragment { protocol } = rest.walk(Some(Layer::Ip)) else { break };
            let inner = Fragment::of(&rest, protocol);
            scope = inner.scope;
            let Joined::Whole(packet) = self.fragments.add(&inner, now) else {
                return Content::Fragment { protocol };
            };
            self.whole = packet;
        }
        match Rest::new(&self.whole, 0, scope).walk(Some(Layer::Ip)) {
            Content::Fragment { .. } => Content::Unreadable(Unreadable::TooDeep),
            content => content,
        }
    }

    /// The fragments that were given up since the last call. Call it after each [`Content::Fragment`].
    pub fn given_up(&mut self) -> Vec<GivenUp> {
        self.fragments.take_given_up()
    }

    /// Gives up the fragments that still wait, at the end of the capture.
    pub fn finish(&mut self) {
        self.fragments.give_up_all();
    }

    /// How many packets so far had a fragment that was put together with those of a later packet, or a copy of one.
    #[must_use]
    pub fn reassembled(&self) -> u64 {
        self.fragments.reassembled
    }
}
