//! Calls that a kernel must refuse, each on a socket where it is invalid.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use anyhow::{Result, bail, ensure};
use cidr::IpCidr;
use socket2::Socket;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_linux::{Error, KeyName, SocketKey, Successor, TcpAoSocket};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use crate::sockets::tcp_socket;

/// The interface index of the loopback device.
const LOOPBACK: u32 = 1;
/// An unused interface index.
const NO_INTERFACE: u32 = 4000;

/// Returns how many. `connection` must be established, with a single key that is both current and rnext key.
pub fn provoke(connection: &Socket) -> Result<u64> {
    let connection = TcpAoSocket::new(connection);
    let keys = connection.keys()?;
    let [own] = &*keys else { bail!("the connection has {} keys", keys.len()) };
    let remote = IpCidr::from(own.name.remote.first_address());
    let (mkt, other) = (mkt_with(1, 1)?, mkt_with(2, 2)?);
    let key = SocketKey::new(remote, &mkt);

    let other_peer = IpAddr::from([198, 51, 100, 1]);
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let closed = tcp_socket(any)?;
    let closed = TcpAoSocket::new(&closed);
    let mut refused = 0;
    let mut expect = |variant: &str, what: &str, result: Result<(), Error>| {
        let Err(error) = result else { bail!("{what}: it was done") };
        let is_expected = format!("{error:?}").split(|c: char| !c.is_alphanumeric()).next() == Some(variant);
        ensure!(is_expected && !error.to_string().is_empty(), "{what}: {error:?}: {error}");
        refused += 1;
        Ok(())
    };
    expect(
        "Refused",
        "EINVAL: add a key for an interface that does not exist",
        closed.add_key(&SocketKey { vrf: Some(NO_INTERFACE), ..key }),
    )?;
    // As for a link-local address's interface.
    expect(
        "Refused",
        "EINVAL: add a key for an interface that is no VRF device",
        closed.add_key(&SocketKey { vrf: Some(LOOPBACK), ..key }),
    )?;
    closed.add_key(&key)?;
    expect(
        "IdInUse",
        "EEXIST: add a key with ids already in use",
        closed.add_key(&SocketKey { mkt: &mkt_with(1, 2)?, ..key }),
    )?;
    let absent = KeyName { remote, vrf: None, send_id: KeyId(200), recv_id: KeyId(201) };
    expect(
        "NoSuchKey",
        "ENOENT: delete a key that does not exist",
        closed.delete_key(&absent, Successor::default()),
    )?;
    expect("NoSuchKey", "ENOENT: make a missing key current", closed.set_current_key(absent.send_id))?;
    expect(
        "AoKeyInTheWay",
        "EKEYREJECTED: add a TCP-MD5 key beside a TCP-AO key",
        closed.set_md5_key(remote, None, mkt.master_key()),
    )?;

    let with_md5 = tcp_socket(any)?;
    let with_md5 = TcpAoSocket::new(&with_md5);
    with_md5.set_md5_key(remote, None, mkt.master_key())?;
    expect("Md5KeyInTheWay", "EKEYREJECTED: add a TCP-AO key beside a TCP-MD5 key", with_md5.add_key(&key))?;
    expect(
        "Md5KeyInTheWay",
        "EKEYREJECTED: require TCP-AO beside a TCP-MD5 key",
        with_md5.set_required(true),
    )?;

    expect(
        "KeyInUse",
        "EBUSY: delete the current key",
        connection.delete_key(&own.name, Successor::default()),
    )?;
    let listener = tcp_socket(any)?;
    listener.listen(1)?;
    let unsigned = tcp_socket(any)?;
    unsigned.connect(&listener.local_addr()?)?;
    expect(
        "Connected",
        "EISCONN: add a first key to a connection",
        TcpAoSocket::new(&unsigned).add_key(&key),
    )?;
    expect(
        "Refused",
        "EINVAL: add a key for another peer to a connection",
        connection.add_key(&SocketKey::new(other_peer.into(), &other)),
    )?;
    expect("NoPermission", "EPERM: freeze a listener", TcpAoSocket::new(&listener).freeze().map(drop))?;
    let datagrams = UdpSocket::bind(any)?;
    expect(
        "NotATcpSocket",
        "ENOPROTOOPT: add a key to a UDP socket",
        TcpAoSocket::new(&datagrams).add_key(&key),
    )?;
    Ok(refused)
}

fn mkt_with(id: u8, secret: u8) -> Result<Mkt> {
    let id = KeyId(100 + id);
    Ok(Mkt::new(id, id, TcpAoAlgorithm::Aes128Cmac, MasterKey::new(&[secret; 16])?)?)
}
