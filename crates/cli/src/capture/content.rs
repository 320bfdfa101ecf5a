//! What a packet carries: TCP segments, however they are encapsulated or fragmented.

use super::fragments::{Fragments, GivenUp, Joined};
use super::layers::{CapturedSegment, Core, Fragment, IPV4, IPV6, Layer, Rest};
use super::link::ETHERNET;
use super::scope::Scope;
use super::skipped::{Skipped, Unreadable};
use super::{Packet, Place};

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// A TCP segment.
    Tcp(CapturedSegment<'a>),
    /// An IP fragment. From a [`Decoder`]: one that waits for the rest of its packet, or was given up.
    Fragment {
        /// The IP protocol number of the whole packet.
        protocol: u8,
    },
    /// Anything else, such as ARP, ICMP or UDP that is no tunnel.
    Other(Skipped),
    /// Headers that cannot be read.
    Unreadable(Unreadable),
}

impl<'a> Content<'a> {
    /// Reads a packet's headers, with the encapsulations that `docs/verify.md` lists.
    ///
    /// The segment ends where IP's length field says, so link-layer padding is left out. If that field is 0, because the network card
    /// was to split a large send after it was recorded, the segment ends with the packet.
    #[must_use]
    #[inline]
    pub fn of(packet: &Packet<'a>) -> Self {
        Core::of(packet).into()
    }
}

impl<'a> From<Core<'a>> for Content<'a> {
    #[inline]
    fn from(core: Core<'a>) -> Self {
        match core {
            Core::Tcp(segment) => Self::Tcp(segment),
            Core::Fragment(Fragment { protocol, .. }) => Self::Fragment { protocol },
            Core::Other(skipped) => Self::Other(skipped),
            Core::Unreadable(why) => Self::Unreadable(why),
        }
    }
}

impl<'a> Core<'a> {
    #[inline]
    fn of(packet: &Packet<'a>) -> Self {
        let Packet { link_type, octets, original_length, .. } = *packet;
        let missing = original_length.saturating_sub(octets.len());
        // Most packets are TCP over IP in Ethernet without a tag.
        if link_type == ETHERNET
            && let Some((header, octets)) = octets.split_first_chunk::<14>()
            && let IPV4 | IPV6 = u16::from_be_bytes([header[12], header[13]])
        {
            let mut rest = Rest::new(octets, missing, Scope::NONE);
            return match rest.ip() {
                Ok(layer) => rest.walk(layer),
                Err(core) => core,
            };
        }
        Self::of_link(link_type, Rest::new(octets, missing, Scope::NONE))
    }

    #[inline(never)]
    fn of_link(link_type: u16, mut rest: Rest<'a>) -> Self {
        match rest.link_layer(link_type) {
            Ok(layer) => rest.walk(layer),
            Err(core) => core,
        }
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
        match Core::of(packet) {
            Core::Fragment(fragment) => self.fragment(&fragment, packet.place()),
            core => core.into(),
        }
    }

    #[cold]
    fn fragment(&mut self, fragment: &Fragment<'_>, now: Place) -> Content<'_> {
        let Fragment { protocol, scope, .. } = *fragment;
        let mut scope = scope;
        let Joined::Whole(packet) = self.fragments.add(fragment, now) else {
            return Content::Fragment { protocol };
        };
        self.whole = packet;
        for _ in 0..NESTED_FRAGMENTS {
            let Core::Fragment(inner) = Rest::new(&self.whole, 0, scope).walk(Layer::Ip) else { break };
            let (protocol, inner_scope) = (inner.protocol, inner.scope);
            let Joined::Whole(packet) = self.fragments.add(&inner, now) else {
                return Content::Fragment { protocol };
            };
            (self.whole, scope) = (packet, inner_scope);
        }
        match Rest::new(&self.whole, 0, scope).walk(Layer::Ip) {
            Core::Fragment(_) => Content::Unreadable(Unreadable::TooDeep),
            core => core.into(),
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
