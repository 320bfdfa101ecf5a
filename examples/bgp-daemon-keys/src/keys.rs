//! The adapter: all that a daemon with sockets of its own needs of `wireseal-linux`.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard};

use anyhow::{Context, Result, ensure};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use wireseal_linux::key_chain::Timestamp;
use wireseal_linux::{Attachment, Error, Generation, KeyManager, MasterKey, PeerName, TcpAoSocket};

use crate::config::{Config, Peer};

/// The keys of all peers, on sockets that the daemon makes.
pub struct Keys {
    pub manager: KeyManager,
    /// The configuration in force, and the one that undoing brings back.
    configs: Mutex<[Config; 2]>,
}

/// A connection, and what keeps its keys current. Drop both at once: each holds the socket open.
pub type Connection = (TcpStream, Option<Attachment>);

impl Keys {
    /// Gives the peers of a configuration to a new manager.
    pub fn new(config: &Config) -> Result<Self> {
        let nobody = Config { peer: Vec::new(), ..config.clone() };
        let keys = Self { manager: KeyManager::default(), configs: Mutex::new([nobody.clone(), nobody]) };
        keys.change(config.clone())?;
        Ok(keys)
    }

    /// Changes all peers at once, after printing what that will do on each socket. On an error nothing has changed.
    pub fn change(&self, config: Config) -> Result<Generation> {
        let mut configs = self.configs();
        let mut transaction = self.manager.transaction();
        let mut gone: BTreeSet<_> = configs[0].peer.iter().map(Peer::name).collect();
        for peer in &config.peer {
            let Some(name) = &peer.key_chain else { continue };
            gone.remove(&peer.name());
            transaction.set_policy(peer.name(), peer.policy.clone());
            let is_twice = match config.key_chain.get(name) {
                Some(chain) => transaction.set_peer(peer.name(), chain.clone()),
                // If it were removed, it would get in unsigned: the listener also serves peers without keys.
                None => transaction.block_peer(peer.name()),
            };
            ensure!(!is_twice, "peer {} is given twice", peer.address);
        }
        for name in gone {
            transaction.remove_peer(name);
        }
        let is_first = self.manager.generation() == Generation::default();
        // A peer whose TCP-MD5 key the listeners lack would get in unsigned.
        ensure!(
            is_first || md5_keys(&config) == md5_keys(&configs[0]),
            "TCP-MD5 keys change with a restart only"
        );
        for socket in transaction.dry_run(Timestamp::now())? {
            println!("plan: {socket}");
        }
        let generation = transaction.commit()?;
        *configs = [config, configs[0].clone()];
        Ok(generation)
    }

    /// Takes the newest change back; a second time, it makes it again.
    pub fn undo(&self) -> Result<Generation> {
        let mut configs = self.configs();
        let generation = self.manager.undo(self.manager.generation())?;
        configs.swap(0, 1);
        Ok(generation)
    }

    /// A listener for peers with TCP-AO, with TCP-MD5 and with neither.
    pub fn listen(&self, address: SocketAddr) -> Result<(TcpListener, Attachment)> {
        let socket = socket(address)?;
        socket.set_reuse_address(true)?;
        self.configs()[0].peer.iter().try_for_each(|peer| peer.set_md5_key(&socket))?;
        let attachment = self.manager.attach_mixed(&socket, Timestamp::now())?;
        socket.bind(&address.into()).with_context(|| address.to_string())?;
        socket.listen(64)?;
        Ok((TcpListener::from_std(socket.into())?, attachment))
    }

    /// Opens a connection.
    pub async fn dial(&self, peer: &Peer) -> Result<Connection> {
        let remote = SocketAddr::new(peer.address, speaker::session::PORT);
        let socket = socket(remote)?;
        peer.set_options(&socket)?;
        peer.set_md5_key(&socket)?;
        let attached = self.manager.attach_connecting(&socket, peer.address, Timestamp::now());
        let attachment = self.or_none(attached, peer.address)?;
        Ok((TcpSocket::from_std_stream(socket.into()).connect(remote).await?, attachment))
    }

    /// Takes over an accepted connection, which is reset on an error.
    pub fn admit(&self, stream: TcpStream, address: IpAddr) -> Result<(Peer, Connection)> {
        stream.set_zero_linger()?;
        let attached = self.manager.attach_accepted(&stream, address, Timestamp::now());
        let attachment = self.or_none(attached, address)?;
        let peer = self.peer(address).context("not a configured peer")?;
        SockRef::from(&stream).set_linger(None)?;
        peer.set_options(&SockRef::from(&stream))?;
        Ok((peer, (stream, attachment)))
    }

    /// A connection goes on without keys only if the manager does not have its peer, and the configuration has no key chain for that peer.
    fn or_none(&self, attached: Result<Attachment, Error>, address: IpAddr) -> Result<Option<Attachment>> {
        let is_unprotected = |peer: Peer| peer.key_chain.is_none();
        match attached {
            Err(Error::NoPeer(_)) if self.peer(address).is_some_and(is_unprotected) => Ok(None),
            attached => Ok(Some(attached?)),
        }
    }

    fn peer(&self, address: IpAddr) -> Option<Peer> {
        self.configs()[0].peer.iter().find(|peer| peer.address == address.to_canonical()).cloned()
    }

    fn configs(&self) -> MutexGuard<'_, [Config; 2]> {
        self.configs.lock().expect("no holder panics")
    }
}

fn md5_keys(config: &Config) -> BTreeSet<(PeerName, &str)> {
    config.peer.iter().filter_map(|peer| Some((peer.name(), peer.md5_secret.as_deref()?))).collect()
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))
}

impl Peer {
    /// The socket options of the daemon that have nothing to do with keys.
    fn set_options(&self, socket: &Socket) -> Result<()> {
        if self.address.is_ipv4() {
            socket.set_ttl_v4(self.ttl)?;
            socket.set_tos_v4(self.dscp << 2)?;
        } else {
            socket.set_unicast_hops_v6(self.ttl)?;
            socket.set_tclass_v6(self.dscp << 2)?;
        }
        Ok(socket.set_tcp_mss(self.mss)?)
    }

    fn set_md5_key(&self, socket: &Socket) -> Result<()> {
        let Some(secret) = &self.md5_secret else { return Ok(()) };
        let secret = MasterKey::new(secret.as_bytes())?;
        Ok(TcpAoSocket::new(socket).set_md5_key(self.name().remote, None, &secret)?)
    }
}
