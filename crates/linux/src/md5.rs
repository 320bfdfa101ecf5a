//! TCP-MD5 (RFC 2385) on a socket, as far as moving on from it needs.

use std::io;

use cidr::IpCidr;
use wireseal_tcp_ao::MasterKey;

use crate::address::Network;
use crate::errno::Asked;
use crate::error::Error;
use crate::layout::{MD5_FLAG_IFINDEX, MD5_FLAG_PREFIX, Md5Sig};
use crate::socket::TcpAoSocket;
use crate::sys;

impl TcpAoSocket<'_> {
    /// Puts a TCP-MD5 key on the socket, or replaces the one for the same network (`TCP_MD5SIG_EXT`).
    ///
    /// It is of use to a listening socket that has peers of either kind. A socket never has both for one peer.
    ///
    /// # Errors
    /// [`Error::AoKeyInTheWay`], [`Error::AnotherFamily`], [`Error::NoMemory`], [`Error::Refused`] when `vrf` is no VRF
    /// device; and [`Error::Io`] with ENOPROTOOPT from a kernel without `CONFIG_TCP_MD5SIG`.
    pub fn set_md5_key(&self, remote: IpCidr, vrf: Option<u32>, secret: &MasterKey) -> Result<(), Error> {
        self.write_md5(remote, vrf, secret.expose_secret(), &Asked::SetMd5 { vrf })
    }

    /// Deletes the TCP-MD5 key that was put there for this network and VRF (`TCP_MD5SIG_EXT`).
    ///
    /// A connection goes on unsigned without it: close the connection first.
    ///
    /// # Errors
    /// [`Error::NoSuchMd5Key`], [`Error::AnotherFamily`] and [`Error::Refused`] when `vrf` is no VRF device.
    pub fn delete_md5_key(&self, remote: IpCidr, vrf: Option<u32>) -> Result<(), Error> {
        self.write_md5(remote, vrf, &[], &Asked::DeleteMd5 { remote, vrf })
    }

    /// An empty secret deletes.
    fn write_md5(
        &self,
        remote: IpCidr,
        vrf: Option<u32>,
        secret: &[u8],
        asked: &Asked<'_>,
    ) -> Result<(), Error> {
        let Network { addr, prefix } = Network::new(remote, self.family()?)?;
        let flags = MD5_FLAG_PREFIX | if vrf.is_some() { MD5_FLAG_IFINDEX } else { 0 };
        let mut md5 = Md5Sig {
            addr,
            flags,
            prefixlen: prefix,
            keylen: secret.len() as u16,
            ifindex: vrf.unwrap_or(0),
            key: [0; 80],
        };
        md5.key[..secret.len()].copy_from_slice(secret);
        sys::set(self.fd(), libc::TCP_MD5SIG_EXT, &md5).map_err(|error: io::Error| self.error(asked, error))
    }
}
