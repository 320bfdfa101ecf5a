//! Many networks for programs that compare one after the other: a tree, so that a packet is held against few of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use cidr::IpCidr;

/// The most rules in a chain, which are the values of so many bits.
const MOST: usize = 1 << BITS;
const BITS: u8 = 4;

/// A chain of rules, of which a packet matches one at most.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Chain {
    pub(super) name: String,
    /// Each network, and the chain that goes on in it; `None` if it is a peer's.
    pub(super) rules: Vec<(IpCidr, Option<String>)>,
}

/// The networks that lie in no other, in the order of their addresses.
pub(super) fn outermost(mut networks: Vec<IpCidr>) -> Vec<IpCidr> {
    // A network comes before those in it.
    networks.sort();
    networks.dedup_by(|network, around| around.contains(&network.first_address()));
    networks
}

/// Chains that find an address's network among these, the first of them with this name. The networks are as `outermost` leaves them, and
/// of one version of IP.
pub(super) fn chains(name: &str, networks: &[IpCidr]) -> Vec<Chain> {
    let mut chains = Vec::new();
    grow(name.to_owned(), name, networks, &mut chains);
    chains
}

fn grow(name: String, root: &str, networks: &[IpCidr], chains: &mut Vec<Chain>) {
    let at = chains.len();
    chains.push(Chain { name, rules: Vec::new() });
    let leaf = |network: &IpCidr| (*network, None);
    if networks.len() <= MOST {
        chains[at].rules = networks.iter().map(leaf).collect();
        return;
    }
    let length = common(networks) + BITS;
    for group in networks.chunk_by(|one, other| bits(one) >> (128 - length) == bits(other) >> (128 - length))
    {
        let rule = match group {
            // Also a network of more than one value, which has no other in it.
            [network] => leaf(network),
            _ => {
                let next = format!("{root}-{}", chains.len());
                grow(next.clone(), root, group, chains);
                (around(group), Some(next))
            }
        };
        chains[at].rules.push(rule);
    }
}

/// An address's bits, the first of them the highest.
fn bits(network: &IpCidr) -> u128 {
    match network.first_address() {
        IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// How many bits all of these have in common; fewer than any of them has, as there are several.
fn common(networks: &[IpCidr]) -> u8 {
    match networks {
        [first, .., last] => (bits(first) ^ bits(last)).leading_zeros() as u8,
        _ => 0,
    }
}

/// The smallest network around all of these.
fn around(networks: &[IpCidr]) -> IpCidr {
    let length = common(networks);
    let first = networks[0];
    let kept = bits(&first) & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
    let address = match first.is_ipv4() {
        true => IpAddr::V4(Ipv4Addr::from_bits((kept >> 96) as u32)),
        false => IpAddr::V6(Ipv6Addr::from_bits(kept)),
    };
    IpCidr::new(address, length).expect("the bits behind are zero")
}
