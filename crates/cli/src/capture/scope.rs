//! The virtual network that a packet belongs to.

use std::fmt;

use serde::ser::{SerializeMap, SerializeSeq, Serializer};

/// The VLANs (IEEE 802.1Q), I-SIDs (IEEE 802.1ah) and VNIs (VXLAN, Geneve) around a packet, outermost first.
///
/// The same addresses and ports in two scopes are two connections. MPLS labels, GRE keys and tunnel endpoints are not part of it, since they
/// differ between the two directions of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scope([u32; Self::DEPTH]);

/// One level of a [`Scope`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Network {
    /// A VLAN with this number of 12 bits.
    Vlan(u16),
    /// A service instance of a provider backbone bridge, with this number of 24 bits.
    ServiceInstance(u32),
    /// A virtual network of VXLAN or Geneve, with this number of 24 bits.
    Virtual(u32),
}

impl Network {
    /// Kind in the upper octet and number in the lower three. Never 0, which stands for no network.
    const fn to_bits(self) -> u32 {
        match self {
            Self::Vlan(number) => 1 << 24 | number as u32,
            Self::ServiceInstance(number) => 2 << 24 | number & 0xff_ffff,
            Self::Virtual(number) => 3 << 24 | number & 0xff_ffff,
        }
    }

    const fn from_bits(bits: u32) -> Option<Self> {
        let number = bits & 0xff_ffff;
        match bits >> 24 {
            1 => Some(Self::Vlan(number as u16)),
            2 => Some(Self::ServiceInstance(number)),
            3 => Some(Self::Virtual(number)),
            _ => None,
        }
    }

    /// Its kind in `--json`, and its number.
    const fn parts(self) -> (&'static str, u32) {
        match self {
            Self::Vlan(number) => ("vlan", number as u32),
            Self::ServiceInstance(number) => ("i-sid", number),
            Self::Virtual(number) => ("vni", number),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, number) = self.parts();
        write!(f, "{} {number}", kind.to_uppercase())
    }
}

impl Scope {
    /// How many levels are told apart; of more, the innermost.
    pub const DEPTH: usize = 3;

    /// No virtual network.
    pub const NONE: Self = Self([0; Self::DEPTH]);

    /// Whether there is no virtual network.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// This scope with one more level inside.
    #[must_use]
    pub fn with(self, inner: Network) -> Self {
        let mut levels = self.0;
        match levels.iter_mut().find(|level| **level == 0) {
            Some(level) => *level = inner.to_bits(),
            None => {
                levels.rotate_left(1);
                levels[Self::DEPTH - 1] = inner.to_bits();
            }
        }
        Self(levels)
    }

    /// Its levels, outermost first.
    pub fn networks(&self) -> impl Iterator<Item = Network> + use<> {
        self.0.into_iter().filter_map(Network::from_bits)
    }
}

/// `VLAN 10, VNI 5000`; nothing for no virtual network.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, network) in self.networks().enumerate() {
            write!(f, "{}{network}", if place > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// An array of objects with one member each, such as `{"vlan": 10}`.
impl serde::Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Level(Network);
        impl serde::Serialize for Level {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let (kind, number) = self.0.parts();
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(kind, &number)?;
                map.end()
            }
        }
        let mut levels = serializer.serialize_seq(None)?;
        for network in self.networks() {
            levels.serialize_element(&Level(network))?;
        }
        levels.end()
    }
}
