//! What identifies a key on a socket.

use std::fmt;

use cidr::IpCidr;
use wireseal_tcp_ao::KeyId;

/// Identifies a key on a socket: the fields that `TCP_AO_DEL_KEY` compares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyName {
    /// The peers the key is for.
    pub remote: IpCidr,
    /// The VRF it is for, as in [`SocketKey::vrf`](crate::SocketKey::vrf).
    pub vrf: Option<u32>,
    /// The KeyID in segments that this end sends.
    pub send_id: KeyId,
    /// The KeyID in segments that this end accepts.
    pub recv_id: KeyId,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remote, vrf, send_id, recv_id } = self;
        write!(f, "key with SendID {send_id} and RecvID {recv_id} for {remote}")?;
        match vrf {
            Some(index) => write!(f, " in VRF {index}"),
            None => Ok(()),
        }
    }
}
