//! TCP-MD5 (RFC 2385) keys, for listeners whose peers move to TCP-AO one by one.

use cidr::IpCidr;
use linux_raw_sys::net::{TCP_MD5SIG_EXT, TCP_MD5SIG_FLAG_IFINDEX, TCP_MD5SIG_FLAG_PREFIX, tcp_md5sig};
use wireseal_tcp_ao::MasterKey;

use crate::errno::Request;
use crate::error::Error;
use crate::network::for_md5_key;
use crate::socket::TcpAoSocket;
use crate::sys::{self, Secret, to_kernel, zeroed};

impl TcpAoSocket<'_> {
    /// Puts a TCP-MD5 key on the socket, or replaces the one for the same network (`TCP_MD5SIG_EXT`).
    ///
    /// Use it on a listening socket with peers of either kind. A socket never has both for one peer.
    ///
    /// # Errors
    /// [`Error::AoKeyInTheWay`], [`Error::UnusableNetwork`], [`Error::NoMemory`], [`Error::Refused`] if `vrf` is not a VRF
    /// device; and [`Error::Io`] with ENOPROTOOPT from a kernel without `CONFIG_TCP_MD5SIG`.
    pub fn set_md5_key(&self, remote: IpCidr, vrf: Option<u32>, secret: &MasterKey) -> Result<(), Error> {
        self.write_md5(remote, vrf, secret.expose_secret(), &Request::SetMd5Key { vrf })
    }

    /// Deletes the TCP-MD5 key for this network and VRF (`TCP_MD5SIG_EXT`).
    ///
    /// A connection without it continues unsigned: close the connection first.
    ///
    /// # Errors
    /// [`Error::NoSuchMd5Key`], [`Error::UnusableNetwork`], and [`Error::Refused`] if `vrf` is not a VRF device.
    pub fn delete_md5_key(&self, remote: IpCidr, vrf: Option<u32>) -> Result<(), Error> {
        self.write_md5(remote, vrf, &[], &Request::DeleteMd5Key { remote, vrf })
    }

    /// An empty secret deletes.
    fn write_md5(
        &self,
        remote: IpCidr,
        vrf: Option<u32>,
        secret: &[u8],
        request: &Request<'_>,
    ) -> Result<(), Error> {
        let (address, prefix) = for_md5_key(remote, self.family()?)?;
        let flags = TCP_MD5SIG_FLAG_PREFIX | if vrf.is_some() { TCP_MD5SIG_FLAG_IFINDEX } else { 0 };
        let mut md5: Secret<tcp_md5sig> = zeroed();
        md5.tcpm_addr = to_kernel(address);
        md5.tcpm_flags = flags as u8;
        md5.tcpm_prefixlen = prefix;
        md5.tcpm_keylen = secret.len() as u16;
        md5.tcpm_ifindex = vrf.unwrap_or(0).cast_signed();
        md5.tcpm_key[..secret.len()].copy_from_slice(secret);
        sys::set(self.fd(), TCP_MD5SIG_EXT, &md5).map_err(|error| self.error(request, error))
    }
}
