//! TCP sockets and key managers by number.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use cidr::IpCidr;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Ipv4RecvErr, Ipv6RecvErr};
use socket2::{Domain, Protocol, Socket, Type};
use wireseal_interop_linux_guest::{
    AddKeys, AddPeers, Amount, Attach, BindDevice, Chain, Connect, ConnectFrom, DeleteKey, DeletePeers, Key,
    Manage, NewManager, Open, Pattern, Restore, SetFlags, SetKeys, SetMd5Key, SetPeers, SocketInfo, Step,
    Stepped, TIME_LIMIT, Transfer,
};
use wireseal_keys::Timestamp;
use wireseal_linux::{
    Action, Attachment, Exported, KeyManager, Local, PeerName, SocketKey, SocketReport, StepReport,
    Successor, TcpAoListener, TcpAoSocket, TcpAoStream,
};
use wireseal_tcp_ao::{Isn, KeyId, MasterKey};

/// Octets written to or read from the kernel at once.
const PIECE: usize = 16 * 1024;

/// How often to check whether a socket is still in use.
const IN_USE_CHECK: Duration = Duration::from_millis(1);

/// The open sockets.
#[derive(Default)]
pub struct Sockets(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    sockets: HashMap<u64, Arc<Socket>>,
}

impl Sockets {
    /// Keeps a socket; returns its number.
    pub fn add(&self, socket: Socket) -> u64 {
        let mut table = self.0.lock().unwrap();
        table.last += 1;
        let number = table.last;
        table.sockets.insert(number, Arc::new(socket));
        number
    }

    /// The socket of this number.
    pub fn get(&self, number: u64) -> Result<Arc<Socket>> {
        let socket = self.0.lock().unwrap().sockets.get(&number).cloned();
        socket.with_context(|| format!("there is no socket {number}"))
    }

    fn take(&self, number: u64) -> Result<Arc<Socket>> {
        self.0.lock().unwrap().sockets.remove(&number).with_context(|| format!("there is no socket {number}"))
    }

    pub fn open(&self, open: &Open) -> Result<u64> {
        let socket = tcp_socket(open.local)?;
        socket.set_reuse_address(true)?;
        socket.bind(&open.local.into()).with_context(|| open.local.to_string())?;
        add_keys(&socket, &open.keys)?;
        if open.required {
            TcpAoSocket::new(&socket).set_required(true)?;
        }
        Ok(self.add(socket))
    }

    pub fn choose_isn(&self, number: u64, isn: Isn) -> Result<()> {
        Ok(wireseal_linux::choose_isn(&*self.get(number)?, isn)?)
    }

    pub fn bind_device(&self, bind: &BindDevice) -> Result<()> {
        Ok(self.get(bind.socket)?.bind_device(Some(bind.device.as_bytes()))?)
    }

    pub fn listen(&self, number: u64) -> Result<SocketAddr> {
        let socket = self.get(number)?;
        socket.listen(16)?;
        address(socket.local_addr())
    }

    pub fn accept(&self, number: u64) -> Result<u64> {
        let socket = self.get(number)?;
        socket.set_read_timeout(Some(TIME_LIMIT))?;
        let (accepted, _) = socket.accept().context("accept")?;
        Ok(self.add(accepted))
    }

    pub fn try_accept(&self, number: u64) -> Result<Option<u64>> {
        let socket = self.get(number)?;
        socket.set_nonblocking(true)?;
        let accepted = socket.accept();
        socket.set_nonblocking(false)?;
        match accepted {
            Ok((accepted, _)) => Ok(Some(self.add(accepted))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub fn connect(&self, connect: &Connect) -> Result<SocketAddr> {
        let socket = self.get(connect.socket)?;
        socket
            .connect_timeout(&connect.remote.into(), TIME_LIMIT)
            .with_context(|| connect.remote.to_string())?;
        address(socket.local_addr())
    }

    pub fn transfer(&self, transfer: &Transfer) -> Result<()> {
        let socket = self.get(transfer.socket)?;
        socket.set_read_timeout(Some(TIME_LIMIT))?;
        socket.set_write_timeout(Some(TIME_LIMIT))?;
        thread::scope(|scope| {
            let sender = scope.spawn(|| send(&socket, transfer.send));
            receive(&socket, transfer.receive)?;
            sender.join().map_err(|_| anyhow!("the sending thread has panicked"))?
        })
    }

    pub fn finish(&self, number: u64) -> Result<()> {
        let socket = self.get(number)?;
        socket.set_read_timeout(Some(TIME_LIMIT))?;
        socket.shutdown(Shutdown::Write).context("shutdown")?;
        let read = (&*socket).read(&mut [0]).context("at the end")?;
        ensure!(read == 0, "the peer sends more than it should");
        Ok(())
    }

    pub fn close(&self, number: u64) -> Result<()> {
        let socket = self.take(number)?;
        // Wakes what waits on it. An unconnected socket has nothing to shut down.
        let _ = socket.shutdown(Shutdown::Both);
        Ok(())
    }

    pub fn reset(&self, number: u64) -> Result<()> {
        reset(self.take(number)?)
    }

    pub fn reset_all(&self) -> Result<()> {
        let sockets = std::mem::take(&mut self.0.lock().unwrap().sockets);
        sockets.into_values().try_for_each(reset)
    }

    pub fn add_keys(&self, add: &AddKeys) -> Result<()> {
        add_keys(&*self.get(add.socket)?, &add.keys)
    }

    pub fn add_peers(&self, add: &AddPeers) -> Result<()> {
        let (socket, mkt) = (self.get(add.socket)?, add.key.mkt()?);
        let socket = TcpAoSocket::new(&*socket);
        let mut remotes = addresses(add.first, add.peers);
        Ok(remotes.try_for_each(|remote| socket.add_key(&SocketKey::new(remote.into(), &mkt)))?)
    }

    pub fn delete_peers(&self, delete: &DeletePeers) -> Result<()> {
        let (socket, mkt) = (self.get(delete.socket)?, delete.key.mkt()?);
        let socket = TcpAoSocket::new(&*socket);
        let mut remotes = addresses(delete.first, delete.peers);
        let delete = |remote: IpAddr| {
            socket.delete_key(&SocketKey::new(remote.into(), &mkt).name(), Successor::default())
        };
        Ok(remotes.try_for_each(delete)?)
    }

    pub fn delete_key(&self, delete: &DeleteKey) -> Result<()> {
        let socket = self.get(delete.socket)?;
        let socket = TcpAoSocket::new(&*socket);
        let keys = socket.keys()?;
        let key =
            keys.iter().find(|key| key.name.send_id.0 == delete.send_id).context("there is no such key")?;
        let successor = Successor { current: delete.current.map(KeyId), rnext: delete.rnext.map(KeyId) };
        Ok(socket.delete_key(&key.name, successor)?)
    }

    pub fn set_keys(&self, set: &SetKeys) -> Result<()> {
        let socket = self.get(set.socket)?;
        let socket = TcpAoSocket::new(&*socket);
        set.current.map_or(Ok(()), |current| socket.set_current_key(KeyId(current)))?;
        Ok(set.rnext.map_or(Ok(()), |rnext| socket.set_rnext_key(KeyId(rnext)))?)
    }

    pub fn set_flags(&self, set: &SetFlags) -> Result<()> {
        let socket = self.get(set.socket)?;
        let socket = TcpAoSocket::new(&*socket);
        set.required.map_or(Ok(()), |required| socket.set_required(required))?;
        Ok(set.accept_icmps.map_or(Ok(()), |accept| socket.set_accept_icmps(accept))?)
    }

    pub fn report_errors(&self, number: u64) -> Result<()> {
        let socket = self.get(number)?;
        match address(socket.local_addr())? {
            SocketAddr::V4(_) => setsockopt(&*socket, Ipv4RecvErr, &true)?,
            SocketAddr::V6(_) => setsockopt(&*socket, Ipv6RecvErr, &true)?,
        }
        Ok(())
    }

    pub fn set_md5_key(&self, set: &SetMd5Key) -> Result<()> {
        let socket = self.get(set.socket)?;
        let master_key = MasterKey::new(set.secret.as_bytes())?;
        Ok(TcpAoSocket::new(&*socket).set_md5_key(set.remote, set.vrf, &master_key)?)
    }

    pub fn list_keys(&self, number: u64) -> Result<Vec<(u8, Option<u32>)>> {
        let keys = TcpAoSocket::new(&*self.get(number)?).keys()?;
        Ok(keys.iter().map(|key| (key.name.send_id.0, key.name.vrf)).collect())
    }

    pub fn count_keys(&self, number: u64) -> Result<Vec<(u8, u64, u64)>> {
        let keys = TcpAoSocket::new(&*self.get(number)?).keys()?;
        Ok(keys.iter().map(|key| (key.name.send_id.0, key.good, key.bad)).collect())
    }

    pub fn info(&self, number: u64) -> Result<Option<SocketInfo>> {
        let info = TcpAoSocket::new(&*self.get(number)?).info()?;
        Ok(info.map(|info| SocketInfo {
            current_key: info.current_key.map(|id| id.0),
            rnext_key: info.rnext_key.map(|id| id.0),
            required: info.required,
            accept_icmps: info.accept_icmps,
            counted: info.counters.into(),
        }))
    }

    pub fn export(&self, number: u64) -> Result<Vec<u8>> {
        let socket = self.take(number)?;
        let view = TcpAoSocket::new(&*socket);
        let exported = view.freeze()?.export()?;
        Ok(exported.to_octets())
    }

    pub fn restore(&self, restore: Restore) -> Result<u64> {
        let exported = Exported::from_octets(&restore.exported)?;
        let local = exported.authentication.pair.local;
        let socket = tcp_socket(SocketAddr::new(local.address(), local.port()))?;
        with_socket_keys(&restore.keys, |keys| Ok(wireseal_linux::restore(&socket, &exported, keys)?))?;
        Ok(self.add(socket))
    }
}

/// Closes a connection with a reset, and waits until nothing uses its socket.
fn reset(socket: Arc<Socket>) -> Result<()> {
    socket.set_linger(Some(Duration::ZERO))?;
    let in_use = Arc::downgrade(&socket);
    if Arc::strong_count(&socket) > 1 {
        // Wakes what waits on it, which then releases it.
        let _ = socket.shutdown(Shutdown::Both);
    }
    drop(socket);
    while in_use.strong_count() > 0 {
        thread::sleep(IN_USE_CHECK);
    }
    Ok(())
}

pub fn tcp_socket(local: SocketAddr) -> io::Result<Socket> {
    Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP))
}

fn address(address: io::Result<socket2::SockAddr>) -> Result<SocketAddr> {
    address?.as_socket().context("not an IP socket")
}

fn add_keys(socket: &Socket, keys: &[Key]) -> Result<()> {
    let socket = TcpAoSocket::new(socket);
    with_socket_keys(keys, |keys| Ok(keys.iter().try_for_each(|key| socket.add_key(key))?))
}

/// So many addresses, from this one on.
fn addresses(first: IpAddr, number: u32) -> impl Iterator<Item = IpAddr> {
    (0..number).map(move |later| match first {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + later).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() + u128::from(later)).into(),
    })
}

fn with_socket_keys<T>(keys: &[Key], use_keys: impl FnOnce(&[SocketKey<'_>]) -> Result<T>) -> Result<T> {
    let mkts = keys.iter().map(Key::mkt).collect::<Result<Vec<_>>>()?;
    let keys: Vec<SocketKey<'_>> = keys
        .iter()
        .zip(&mkts)
        .map(|(key, mkt)| SocketKey {
            vrf: key.vrf,
            set_current: key.is_preferred,
            set_rnext: key.is_preferred,
            ..SocketKey::new(key.remote, mkt)
        })
        .collect();
    use_keys(&keys)
}

fn send(mut socket: &Socket, amount: Amount) -> Result<()> {
    let mut pattern = Pattern::of(amount);
    while pattern.left() > 0 {
        let left = pattern.left();
        socket
            .write_all(&pattern.take(PIECE))
            .with_context(|| format!("cannot send, {left} octets are left"))?;
    }
    Ok(())
}

fn receive(mut socket: &Socket, amount: Amount) -> Result<()> {
    let mut pattern = Pattern::of(amount);
    let mut buffer = vec![0; PIECE];
    while pattern.left() > 0 {
        let left = pattern.left();
        let received = socket.read(&mut buffer[..left.min(PIECE)]);
        let received = received.with_context(|| format!("{left} octets are missing"))?;
        ensure!(received > 0, "the stream ends, {left} octets are missing");
        pattern.check(&buffer[..received])?;
    }
    Ok(())
}

/// The managers, and what is attached to them.
#[derive(Default)]
pub struct Managers {
    managers: Mutex<Vec<KeyManager>>,
    attachments: Mutex<HashMap<u64, Attachment>>,
    listeners: Mutex<HashMap<u64, Arc<TcpAoListener>>>,
}

impl Managers {
    pub fn add(&self, new: &NewManager) -> Result<u64> {
        let manager = KeyManager::default();
        set_peers(&manager, &new.peers)?;
        let mut managers = self.managers.lock().unwrap();
        managers.push(manager);
        Ok(managers.len() as u64 - 1)
    }

    pub fn attach(&self, sockets: &Sockets, attach: &Attach) -> Result<()> {
        let socket = sockets.get(attach.socket)?;
        let now = Timestamp::from_unix_seconds(attach.now);
        let manager = self.get(attach.manager)?;
        let attachment = match attach.remote {
            Some(remote) => manager.attach_connecting(&*socket, remote, now)?,
            None => manager.attach(&*socket, now)?,
        };
        self.attachments.lock().unwrap().insert(attach.socket, attachment);
        Ok(())
    }

    pub fn manage(&self, sockets: &Sockets, manage: &Manage) -> Result<()> {
        let socket = sockets.get(manage.socket)?.try_clone()?;
        let listener = TcpAoListener::from_socket(socket, &self.get(manage.manager)?)?;
        self.listeners.lock().unwrap().insert(manage.socket, Arc::new(listener));
        Ok(())
    }

    pub fn accept(&self, sockets: &Sockets, listener: u64) -> Result<u64> {
        let listener = self.listeners.lock().unwrap().get(&listener).cloned();
        let (stream, _) = listener.context("the listener is not managed")?.accept()?;
        Ok(self.keep(sockets, stream))
    }

    fn keep(&self, sockets: &Sockets, stream: TcpAoStream) -> u64 {
        let (stream, attachment) = stream.into_parts();
        let socket = sockets.add(stream.into());
        self.attachments.lock().unwrap().insert(socket, attachment);
        socket
    }

    pub fn connect_from(&self, sockets: &Sockets, connect: &ConnectFrom) -> Result<u64> {
        let local = Local { address: None, vrf: connect.vrf };
        let stream = TcpAoStream::connect_from(local, connect.remote, &self.get(connect.manager)?)?;
        Ok(self.keep(sockets, stream))
    }

    pub fn detach(&self, socket: u64) -> Result<()> {
        let attachment = self.attachments.lock().unwrap().remove(&socket);
        attachment.map(drop).with_context(|| format!("socket {socket} is not attached"))
    }

    pub fn detach_all(&self) {
        self.attachments.lock().unwrap().clear();
        self.listeners.lock().unwrap().clear();
    }

    pub fn step(&self, step: &Step) -> Result<Stepped> {
        stepped(&self.get(step.manager)?.step(Timestamp::from_unix_seconds(step.now)))
    }

    pub fn set_peers(&self, set: &SetPeers) -> Result<()> {
        set_peers(&self.get(set.manager)?, &set.peers)
    }

    fn get(&self, number: u64) -> Result<KeyManager> {
        let managers = self.managers.lock().unwrap();
        let manager = usize::try_from(number).ok().and_then(|number| managers.get(number)).cloned();
        manager.with_context(|| format!("there is no key manager {number}"))
    }
}

fn set_peers(manager: &KeyManager, peers: &[(IpCidr, Option<u32>, Chain)]) -> Result<()> {
    for (remote, vrf, chain) in peers {
        manager.set_peer(PeerName { vrf: *vrf, ..PeerName::new(*remote) }, chain.key_chain()?)?;
    }
    Ok(())
}

fn stepped(report: &StepReport) -> Result<Stepped> {
    let sockets = || report.sockets.iter();
    let is_overdue = |socket: &SocketReport, action: &Option<Action>| {
        action.is_some_and(|action| socket.overdue.contains(&action.key()))
    };
    let is_done = |socket: &SocketReport| socket.failed.iter().all(|(action, _)| is_overdue(socket, action));
    ensure!(sockets().all(is_done), "{report:?}");
    Ok(Stepped {
        expired: report.expired.len(),
        ended: sockets().filter(|socket| socket.state.expired).count(),
        done: sockets().flat_map(|socket| &socket.done).map(ToString::to_string).collect(),
        overdue: sockets().map(|socket| socket.overdue.len()).sum(),
    })
}
