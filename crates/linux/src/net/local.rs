//! Where a connection is opened from.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

use libc::c_int;
use socket2::{Domain, Socket, Type};

use crate::{ManagerError, sys};

/// The local end of a connection to be opened. By default the kernel chooses.
///
/// The interface of a link-local address is that of the remote address (its scope id), or else the one given as `vrf`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// The local address; the kernel chooses the port.
    pub address: Option<IpAddr>,
    /// The interface index of the VRF device, as in [`PeerName::vrf`](crate::PeerName::vrf), or of any other that the socket is to be bound
    /// to.
    pub vrf: Option<u32>,
}

impl Local {
    /// A socket that is not connected yet. It belongs to the network namespace of the thread that calls.
    pub(super) fn socket(&self, remote: SocketAddr) -> Result<Socket, ManagerError> {
        let opened = || -> io::Result<Socket> {
            let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None)?;
            let set = |level, name, value: u32| {
                sys::set_all(socket.as_fd(), level, name, &[value.cast_signed() as c_int])
            };
            let scope = scope_of(remote);
            // To the interface of a link-local address the kernel binds it when it connects, too late for its peer to be found in a VRF.
            if let Some(device) = self.vrf.or(scope) {
                set(libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, device)?;
            }
            if let Some(address) = self.address {
                // Otherwise no two connections from this address could have the same port.
                set(libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
                let local = match address {
                    IpAddr::V6(address) if address.is_unicast_link_local() => {
                        SocketAddrV6::new(address, 0, 0, scope.unwrap_or(0)).into()
                    }
                    _ => SocketAddr::new(address, 0),
                };
                socket.bind(&local.into())?;
            }
            Ok(socket)
        };
        opened().map_err(ManagerError::connecting(remote))
    }
}

/// The interface index of a link-local address.
fn scope_of(address: SocketAddr) -> Option<u32> {
    match address {
        SocketAddr::V6(address) if address.ip().is_unicast_link_local() => {
            Some(address.scope_id()).filter(|scope| *scope != 0)
        }
        _ => None,
    }
}

/// Connects, also if a signal comes in between: Linux then goes on, and the second call waits for the same connection.
pub(super) fn connect(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_its_local_address_and_its_device() {
        let remote = "127.0.0.1:9".parse().unwrap();
        let local = Local { address: Some("127.0.0.2".parse().unwrap()), vrf: Some(1) };
        let socket = local.socket(remote).unwrap();
        assert_eq!(socket.local_addr().unwrap().as_socket(), Some("127.0.0.2:0".parse().unwrap()));
        assert_eq!(socket.device().unwrap().as_deref(), Some(&b"lo"[..]), "the first interface");
        let elsewhere = Local { address: Some("192.0.2.1".parse().unwrap()), vrf: None };
        let error = elsewhere.socket(remote).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot connect to 127.0.0.1:9: Cannot assign requested address"),
            "{error}"
        );
    }

    #[test]
    fn a_signal_does_not_end_connecting() {
        let mut errors =
            vec![io::ErrorKind::ConnectionRefused, io::ErrorKind::Interrupted, io::ErrorKind::Interrupted];
        let done = connect(|| Err(errors.pop().unwrap().into()));
        assert_eq!(done.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        assert!(errors.is_empty());
    }
}
