//! Calls that a kernel must refuse, each on a socket where it is invalid.

use std::fmt::Debug;
use std::net::{Ipv4Addr, UdpSocket};

use anyhow::{Context, Result, bail};
use cidr::IpCidr;
use socket2::{Domain, Protocol, Socket, Type};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_interop_linux_guest::Provoked;
use wireseal_linux::{Error, KeyName, SocketKey, Successor, TcpAoSocket};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

/// An unused interface index.
const NO_INTERFACE: u32 = 4000;

/// `connection` must be established, with a single key that is both current and rnext key.
pub fn provoke(connection: &Socket) -> Result<Vec<Provoked>> {
    let connection = TcpAoSocket::new(connection);
    let keys = connection.keys()?;
    let [own] = &*keys else { bail!("the connection has {} keys", keys.len()) };
    let remote = IpCidr::from(own.name.remote.first_address());
    let (mkt, other) = (mkt(1)?, mkt(2)?);
    let key = SocketKey::new(remote, &mkt);

    let closed = tcp_socket()?;
    let closed = TcpAoSocket::new(&closed);
    let mut provoked = Vec::new();
    let mut note = |what: &str, result: Result<(), Error>| provoked.push(described(what, result));
    note(
        "EINVAL: add a key for an interface that does not exist",
        closed.add_key(&SocketKey { vrf: Some(NO_INTERFACE), ..key }),
    );
    closed.add_key(&key)?;
    note(
        "EEXIST: add a key with ids already in use",
        closed.add_key(&SocketKey { mkt: &with_ids_of(&mkt, &other)?, ..key }),
    );
    let absent = KeyName { remote, vrf: None, send_id: KeyId(200), recv_id: KeyId(201) };
    note("ENOENT: delete a key that does not exist", closed.delete_key(&absent, Successor::default()));
    note("ENOENT: make a missing key current", closed.set_current_key(absent.send_id));
    note(
        "EKEYREJECTED: add a TCP-MD5 key beside a TCP-AO key",
        closed.set_md5_key(remote, None, mkt.master_key()),
    );

    let with_md5 = tcp_socket()?;
    let with_md5 = TcpAoSocket::new(&with_md5);
    with_md5.set_md5_key(remote, None, mkt.master_key())?;
    note("EKEYREJECTED: add a TCP-AO key beside a TCP-MD5 key", with_md5.add_key(&key));
    note("EKEYREJECTED: require TCP-AO beside a TCP-MD5 key", with_md5.set_required(true));

    note("EBUSY: delete the current key", connection.delete_key(&own.name, Successor::default()));
    let listener = tcp_socket()?;
    listener.listen(1)?;
    let address = listener.local_addr()?;
    let unsigned = tcp_socket()?;
    let loopback = address.as_socket().map(|address| (Ipv4Addr::LOCALHOST, address.port()).into());
    unsigned.connect(&loopback.map(|address: std::net::SocketAddr| address.into()).context("no address")?)?;
    note("EISCONN: add a first key to a connection", TcpAoSocket::new(&unsigned).add_key(&key));
    note(
        "EINVAL: add a key for another peer to a connection",
        connection.add_key(&SocketKey::new(other_peer(), &other)),
    );
    note("EPERM: freeze a listener", TcpAoSocket::new(&listener).freeze().map(drop));
    let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    note("ENOPROTOOPT: add a key to a UDP socket", TcpAoSocket::new(&datagrams).add_key(&key));
    Ok(provoked)
}

fn described(what: &str, result: Result<(), Error>) -> Provoked {
    let (error, message) = match &result {
        Ok(()) => ("none".to_owned(), String::new()),
        Err(error) => (kind(error), error.to_string()),
    };
    Provoked { what: what.to_owned(), error, message }
}

/// The variant's name.
fn kind(error: &impl Debug) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

fn tcp_socket() -> Result<Socket> {
    Ok(Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?)
}

fn other_peer() -> IpCidr {
    IpCidr::from(std::net::IpAddr::from([198, 51, 100, 1]))
}

fn mkt(id: u8) -> Result<Mkt> {
    let master_key = MasterKey::new(&[id; 16])?;
    Ok(Mkt::new(KeyId(100 + id), KeyId(100 + id), TcpAoAlgorithm::Aes128Cmac, master_key)?)
}

/// The ids of one key and the secret of another.
fn with_ids_of(ids: &Mkt, secret: &Mkt) -> Result<Mkt> {
    Ok(Mkt::new(ids.send_id(), ids.recv_id(), TcpAoAlgorithm::Aes128Cmac, secret.master_key().clone())?)
}
