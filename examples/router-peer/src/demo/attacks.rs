//! One packet that would end the session if it got through.

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::MktSet;

use super::peers::{GLANCE, Keys, Peers, SECRET, key, usual_key};
use super::scene::Scene;
use super::tally::Tally;
use super::{Conditions, Failure, Outcome, ensure};
use crate::bgp::rib::Family;

/// What somebody without the secret might guess.
const GUESS: &[u8; 32] = b"somebody else guesses this secret";
/// The id of a key that no router has.
const UNKNOWN_ID: u8 = 9;
/// A NOTIFICATION of BGP: Cease, Administrative Shutdown (RFC 4271 section 4.5, RFC 4486).
const CEASE: [u8; 21] =
    [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 21, 3, 6, 2];
