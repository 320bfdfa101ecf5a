//! A connection between the driver's stack and a socket in the first guest: its ends, their keys, and how they are set up.

use std::array::from_fn;
use std::fmt;
use std::future::{Future, ready};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use agent::{
    Accept, Amount, Connect, Counted, Finish, GetInfo, Key, Listen, Open, SocketInfo, TIME_LIMIT, Transfer,
};
use speaker::protection;
use speaker::stack::TcpStream;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::time::timeout;
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_tcp_ao::{Connection, KeyId, MKTS_PER_PEER, MasterKey, Mkt, SocketPair};

use crate::row::prelude::*;
use crate::userspace::{Userspace, finish, transfer};
use crate::verify::{Verdicts, verify};
use crate::wait::becomes;

/// The port of the userspace end's first listener.
pub const USERSPACE_PORT: u16 = 179;

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The driver's stack.
    Userspace,
    /// The first guest's kernel.
    Kernel,
}

impl End {
    pub const BOTH: [Self; 2] = [Self::Userspace, Self::Kernel];

    pub const fn other(self) -> Self {
        match self {
            Self::Userspace => Self::Kernel,
            Self::Kernel => Self::Userspace,
        }
    }

    pub const fn port(self) -> Port {
        match self {
            Self::Userspace => Port::Userspace,
            Self::Kernel => Port::North,
        }
    }

    pub const fn address(self, family: Family) -> IpAddr {
        self.port().address(family)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Userspace { "userspace" } else { "kernel" })
    }
}

/// Both versions of IP, each with either end.
pub fn families_and_ends() -> impl Iterator<Item = (Family, End)> {
    Family::ALL.into_iter().flat_map(|family| End::BOTH.map(|end| (family, end)))
}

/// The key `number` as the userspace end has it: SendID 10 more, RecvID 20 more, a secret of its own.
pub fn key(number: u8, algorithm: TcpAoAlgorithm) -> Result<Mkt> {
    key_with(number, algorithm, &format!("secret of key {number}, 32 octets"))
}

/// The same with this secret.
pub fn key_with(number: u8, algorithm: TcpAoAlgorithm, secret: &str) -> Result<Mkt> {
    let master_key = MasterKey::new(secret.as_bytes())?;
    Ok(Mkt::with_short_master_key(KeyId(10 + number), KeyId(20 + number), algorithm, master_key)?)
}

/// A key for the kernel's socket, made from the userspace end's.
pub fn kernel_key(family: Family, mkt: &Mkt) -> Result<Key> {
    Ok(Key::new(End::Userspace.address(family), &protection::mirrored(mkt)?)?)
}

/// How a session is set up. All keys are written as the userspace end's.
#[derive(Clone, Debug)]
pub struct Setup {
    pub family: Family,
    pub opener: End,
    /// The keys of the userspace end; without any it is unprotected.
    pub userspace: Vec<Mkt>,
    /// The keys of the kernel's socket; without any it is unprotected.
    pub kernel: Vec<Mkt>,
    /// Distinguishes concurrent sessions: each has its own port and carries its own octets.
    pub number: u16,
}

impl Setup {
    /// Both ends have the same keys.
    pub fn with_keys(family: Family, opener: End, mkts: &[Mkt]) -> Self {
        Self { family, opener, userspace: mkts.to_vec(), kernel: mkts.to_vec(), number: 0 }
    }

    /// The userspace end by itself.
    pub fn userspace(&self, lab: &Lab) -> Result<Userspace> {
        self.userspace_seeded(lab, fastrand::u64(..))
    }

    /// The same with this seed.
    pub fn userspace_seeded(&self, lab: &Lab, seed: u64) -> Result<Userspace> {
        let peer = Userspace::peer(End::Kernel.address(self.family), &self.userspace)?;
        let peers = if self.userspace.is_empty() { Vec::new() } else { vec![peer] };
        Userspace::start(&lab.wire, peers, seed)
    }

    /// A socket of the kernel's, bound, with its keys.
    pub async fn kernel_socket(&self, lab: &Lab) -> Result<u64> {
        self.kernel_socket_at(lab, 0, false).await
    }

    /// The same at a port, perhaps refusing unsigned segments.
    pub async fn kernel_socket_at(&self, lab: &Lab, port: u16, required: bool) -> Result<u64> {
        lab.north.call(Open { local: self.family.any(port), keys: self.kernel_keys()?, required }).await
    }

    /// The kernel opens a connection with the first; by default, Linux would take the last.
    pub fn kernel_keys(&self) -> Result<Vec<Key>> {
        let keys = self.kernel.iter().map(|mkt| kernel_key(self.family, mkt));
        let mut keys: Vec<Key> = keys.collect::<Result<_>>()?;
        if let Some(first) = keys.first_mut().filter(|_| self.opener == End::Kernel) {
            first.is_preferred = true;
        }
        Ok(keys)
    }

    /// Where userspace listens.
    pub const fn userspace_listens_at(&self) -> SocketAddr {
        Port::Userspace.at(self.family, USERSPACE_PORT + self.number)
    }

    /// Makes the opener try to connect until `sign` is done. Fails if it connects.
    pub async fn until_refused<T>(
        &self,
        lab: &Lab,
        userspace: &Userspace,
        socket: u64,
        sign: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.opener {
            End::Userspace => {
                let port = lab.north.call(Listen { socket }).await?.port();
                refused(sign, userspace.connect(End::Kernel.port().at(self.family, port))).await
            }
            End::Kernel => {
                let remote = self.userspace_listens_at();
                let mut listener = userspace.stack.listen(None, remote.port())?;
                let connect = lab.north.call(Connect { socket, remote });
                refused(refused(sign, userspace.accept(&mut listener)), connect).await
            }
        }
    }
}

/// Octets each way of a transfer.
pub const SOME: u64 = 64 << 10;
/// Octets each way of one piece of traffic.
const PIECE: u64 = 32 << 10;
/// Pieces that must pass after a change of keys before the next; one may have been in flight.
const PIECES: u64 = 2;
/// How often to check an end.
const CHECK: Duration = Duration::from_millis(1);
/// The seeds of what the ends send.
const TO_KERNEL: u64 = 21;
const TO_USERSPACE: u64 = 22;

/// Both ends of a session, without the stream.
pub struct Ends<'a> {
    pub lab: &'a Lab,
    pub setup: Setup,
    pub userspace: Rc<Userspace>,
    /// The kernel's socket.
    pub socket: u64,
    /// The connection as the userspace end sees it.
    pub pair: SocketPair,
    before: Counted,
    pieces: watch::Sender<u64>,
    /// The kernel's listener, where userspace has opened the connection.
    pub listener: Option<u64>,
    /// What userspace and the kernel should count besides one good segment for each that reaches them: forged and repeated
    /// ones, for example.
    pub beside: [Counted; 2],
    /// Segments that reach userspace and the kernel and are not counted good.
    pub not_good: [u64; 2],
}

/// An established connection.
pub struct Session<'a> {
    pub ends: Ends<'a>,
    pub stream: TcpStream,
    /// Octets that userspace and the kernel have sent.
    carried: [u64; 2],
}

impl<'a> Session<'a> {
    pub async fn open(lab: &'a Lab, setup: Setup) -> Result<Self> {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let userspace = setup.userspace(lab)?;
        let socket = setup.kernel_socket(lab).await?;
        Self::connect(lab, setup, before, userspace, socket).await
    }

    /// Opens it, uses it, and waits until nothing is in flight.
    pub async fn open_used(lab: &'a Lab, setup: Setup) -> Result<Self> {
        let mut session = Self::open(lab, setup).await?;
        session.exchange(SOME, SOME).await?;
        session.ends.quiet().await?;
        Ok(session)
    }

    /// Connects the ends, one of which is the kernel's socket; `before` is what the kernel had counted by then.
    pub async fn connect(
        lab: &'a Lab,
        setup: Setup,
        before: Counted,
        userspace: impl Into<Rc<Userspace>>,
        socket: u64,
    ) -> Result<Self> {
        let userspace = userspace.into();
        match setup.opener {
            End::Userspace => {
                let port = lab.north.call(Listen { socket }).await?.port();
                let connect = userspace.connect(End::Kernel.port().at(setup.family, port));
                let (stream, accepted) = tokio::try_join!(connect, lab.north.call(Accept { socket }))?;
                Self::established(lab, setup, before, userspace, stream, (accepted, Some(socket)))
            }
            End::Kernel => {
                let remote = setup.userspace_listens_at();
                let mut listener = userspace.stack.listen(None, remote.port())?;
                let connect = lab.north.call(Connect { socket, remote });
                let (stream, _) = tokio::try_join!(userspace.accept(&mut listener), connect)?;
                Self::established(lab, setup, before, userspace, stream, (socket, None))
            }
        }
    }

    /// A session opened in another way. The kernel's sockets are the connection's and its listener's.
    pub fn established(
        lab: &'a Lab,
        setup: Setup,
        before: Counted,
        userspace: impl Into<Rc<Userspace>>,
        stream: TcpStream,
        (socket, listener): (u64, Option<u64>),
    ) -> Result<Self> {
        let Some([local, remote]) = stream.ends() else { bail!("the connection has ended at once") };
        let pair = SocketPair { local: local.into(), remote: remote.into() };
        let pieces = watch::Sender::new(0);
        let userspace = userspace.into();
        let ends = Ends {
            lab,
            setup,
            userspace,
            socket,
            pair,
            before,
            pieces,
            listener,
            beside: [Counted::default(); 2],
            not_good: [0; 2],
        };
        Ok(Self { ends, stream, carried: [0; 2] })
    }

    /// Carries this many octets to the kernel, and this many back.
    pub async fn exchange(&mut self, to_kernel: u64, to_userspace: u64) -> Result<()> {
        self.exchange_after(async |_: &Ends<'_>| Ok(()), to_kernel, to_userspace).await
    }

    /// The same, but the userspace end neither sends nor reads until `remedy` is done.
    pub async fn exchange_after(
        &mut self,
        remedy: impl AsyncFnOnce(&Ends<'a>) -> Result<()>,
        to_kernel: u64,
        to_userspace: u64,
    ) -> Result<()> {
        let Self { ends, stream, carried, .. } = self;
        exchange(ends, stream, carried, [to_kernel, to_userspace], remedy(ends)).await
    }

    /// Carries traffic both ways until `change` is done and the traffic in flight by then has arrived.
    pub async fn under_traffic<T>(&mut self, change: impl AsyncFnOnce(&Ends<'a>) -> Result<T>) -> Result<T> {
        let Self { ends, stream, carried, .. } = self;
        let mut change = pin!(change(ends));
        let mut outcome = None;
        loop {
            let mut piece = pin!(exchange(ends, stream, carried, [PIECE; 2], ready(Ok(()))));
            loop {
                tokio::select! {
                    result = &mut change, if outcome.is_none() => outcome = Some(result?),
                    passed = &mut piece => break passed?,
                }
            }
            ends.pieces.send_modify(|pieces| *pieces += 1);
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
    }

    /// Makes these ends send until `sign` is done. Fails if the data arrive.
    pub async fn until_refused<T>(
        &mut self,
        senders: &[End],
        sign: impl AsyncFnOnce(&Ends<'a>) -> Result<T>,
    ) -> Result<T> {
        let Self { ends, stream, carried, .. } = self;
        // More than an end sends before it receives anything.
        let octets = End::BOTH.map(|end| if senders.contains(&end) { 4 * PIECE } else { 0 });
        refused(sign(ends), exchange(ends, stream, carried, octets, ready(Ok(())))).await
    }

    /// Waits until an end finds the connection reset by the other.
    pub async fn await_reset(&mut self, end: End) -> Result<()> {
        if end == End::Kernel {
            return kernel_was_reset(self.ends.lab, self.ends.socket).await;
        }
        let read = timeout(TIME_LIMIT, self.stream.read(&mut [0])).await.context("userspace still waits")?;
        let is_reset = matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset);
        ensure!(is_reset, "userspace has read {read:?}");
        Ok(())
    }

    /// Closes both ends at about the same time, and accounts for all segments.
    pub async fn close(mut self) -> Result<Evidence> {
        self.finish().await?;
        self.settle().await
    }

    /// Closes both ends of a session without keys. Fails if an end has counted anything, or a segment is signed.
    pub async fn close_unsigned(mut self) -> Result<Evidence> {
        self.finish().await?;
        let Self { ends, stream, .. } = self;
        drop(stream);
        ends.userspace.idle().await?;
        ends.userspace.counters().check("userspace", &Counted::default())?;
        ends.kernel_counted().await?.check("the kernel", &Counted::default())?;
        let recording = ends.lab.wire.take_recording();
        let signed = recording.segments().filter(|segment| !matches!(segment.ao_option(), Ok(None))).count();
        ensure!(signed == 0, "{signed} segments are signed");
        let unsigned = recording.segments().count() as u64;
        let wire = Verdicts { unsigned, ..Verdicts::default() };
        Ok(Evidence { wire, unsigned, recording, ..Evidence::default() })
    }

    /// Closes both ends at about the same time.
    pub async fn finish(&mut self) -> Result<()> {
        let by_kernel = self.ends.lab.north.call(Finish { socket: self.ends.socket });
        tokio::try_join!(finish(&mut self.stream), by_kernel)?;
        Ok(())
    }

    /// Accounts for all segments of a session that has been closed in order.
    pub async fn settle(self) -> Result<Evidence> {
        let Self { ends, stream, .. } = self;
        drop(stream);
        ends.userspace.idle().await?;
        ends.account().await
    }
}

/// Carries octets from userspace and from the kernel, and adds them to `carried`. Userspace waits for `remedy` first.
async fn exchange(
    ends: &Ends<'_>,
    stream: &mut TcpStream,
    carried: &mut [u64; 2],
    octets: [u64; 2],
    remedy: impl Future<Output = Result<()>>,
) -> Result<()> {
    let seeds = u64::from(ends.setup.number) << 8;
    let there = Amount { octets: octets[0], seed: seeds + TO_KERNEL, from: carried[0] };
    let back = Amount { octets: octets[1], seed: seeds + TO_USERSPACE, from: carried[1] };
    let by_kernel = ends.lab.north.call(Transfer { socket: ends.socket, send: back, receive: there });
    let by_userspace = async {
        remedy.await?;
        transfer(stream, there, back).await
    };
    tokio::try_join!(by_userspace, by_kernel)?;
    *carried = [carried[0] + octets[0], carried[1] + octets[1]];
    Ok(())
}

impl Ends<'_> {
    /// Calls `f` with the userspace end's keys and state.
    pub fn connection<R>(&self, f: impl FnOnce(&mut Connection<MKTS_PER_PEER>) -> R) -> Result<R> {
        let found =
            self.userspace.stack.with_device(|device| device.shim_mut().connection_mut(&self.pair).map(f));
        found.context("the shim does not know the connection")
    }

    /// The connection as an end sees it.
    pub fn pair_from(&self, end: End) -> SocketPair {
        if end == End::Userspace { self.pair } else { self.pair.reversed() }
    }

    /// What the kernel reports about its socket.
    pub async fn info(&self) -> Result<SocketInfo> {
        let info = self.lab.north.call(GetInfo { socket: self.socket }).await?;
        info.context("the kernel's socket has no TCP-AO")
    }

    /// Waits until an end signs with a key.
    pub async fn await_current_key(&self, end: End, mkt: &Mkt) -> Result<()> {
        let is_current = async || match end {
            End::Userspace => {
                Ok(self.connection(|connection| connection.current_key().send_id)? == mkt.send_id())
            }
            End::Kernel => Ok(self.info().await?.current_key == Some(mkt.recv_id().0)),
        };
        let is_current = becomes(CHECK, is_current).await?;
        ensure!(is_current, "the {end} end does not change to key {}", mkt.send_id());
        Ok(())
    }

    /// Waits until traffic sent after this call has passed both ways.
    pub async fn await_traffic(&self) -> Result<()> {
        let mut pieces = self.pieces.subscribe();
        let wanted = *pieces.borrow() + PIECES;
        pieces.wait_for(|pieces| *pieces >= wanted).await?;
        Ok(())
    }

    /// Waits until both ends have acknowledged everything and send nothing more.
    pub async fn quiet(&self) -> Result<()> {
        self.lab.quiet(self.pair, End::BOTH.map(End::port)).await
    }

    async fn is_still(&self) -> Result<bool> {
        self.lab.is_still(End::BOTH.map(End::port)).await
    }

    /// Checks that the counters of the kernel's socket and its listener, which has verified the first segments, add up to the kernel's.
    pub async fn check_info(&self) -> Result<()> {
        loop {
            self.quiet().await?;
            let delivered = self.delivered();
            let counted = self.kernel_counted().await?;
            let info = self.info().await?;
            let mut says = info.counted;
            if let Some(socket) = self.listener {
                let listener = self.lab.north.call(GetInfo { socket }).await?;
                says = listener.map_or(says, |listener| says.plus(&listener.counted));
            }
            if self.is_still().await? && self.delivered() == delivered {
                ensure!(says == counted, "counted {counted}, sockets {says}: {info:?}");
                return Ok(());
            }
        }
    }

    /// What the kernel has counted since the session's beginning.
    pub async fn kernel_counted(&self) -> Result<Counted> {
        Ok(self.lab.north.counters().await?.since(&self.before))
    }

    /// Waits until the kernel has counted at least this since the session's beginning.
    pub async fn await_kernel_counted(&self, counted: Counted) -> Result<Counted> {
        self.lab.north.await_counted(&self.before, counted).await
    }

    /// Waits until an end has counted at least this since the session's beginning.
    pub async fn await_counted(&self, end: End, counted: Counted) -> Result<Counted> {
        match end {
            End::Userspace => self.userspace.await_counted(counted).await,
            End::Kernel => self.await_kernel_counted(counted).await,
        }
    }

    /// Segments that have reached the userspace end and the kernel so far.
    fn delivered(&self) -> [u64; 2] {
        End::BOTH.map(|end| self.lab.wire.segments_from(end.other().port()))
    }

    /// What both ends have counted, once they have counted everything in the recording. An end may send again at any time, so counters and
    /// recording count as one moment only if no segment came in between.
    async fn counted(&self) -> Result<[Counted; 2]> {
        loop {
            while !self.is_still().await? {}
            let delivered = self.delivered();
            let expected: [Counted; 2] = from_fn(|end| {
                let good = delivered[end] + self.beside[end].good - self.not_good[end];
                Counted { good, ..self.beside[end] }
            });
            let counted = [
                self.userspace.await_counted(Counted::good(expected[0].good)).await?,
                self.await_kernel_counted(expected[1]).await?,
            ];
            if self.is_still().await? && self.delivered() == delivered {
                for ((end, counted), expected) in End::BOTH.iter().zip(counted).zip(expected) {
                    counted.check(&end.to_string(), &expected)?;
                }
                return Ok(counted);
            }
        }
    }

    /// Checks that each end has counted every segment that has reached it, as expected, and that all that was sent by an end
    /// verifies.
    pub async fn account(self) -> Result<Evidence> {
        let counted = timeout(TIME_LIMIT * 2, self.counted()).await;
        let counted = counted.context("the ends do not fall silent")??;
        let mut mkts = self.setup.userspace.clone();
        let has = |wanted: &Mkt| self.setup.userspace.iter().any(|mkt| mkt.send_id() == wanted.send_id());
        mkts.extend(self.setup.kernel.iter().filter(|mkt| !has(mkt)).cloned());
        let evidence = evidence(self.lab, &mkts, counted)?;
        if !self.setup.userspace.is_empty() {
            evidence.wire.check_all_verified()?;
        }
        Ok(evidence)
    }
}

/// Waits until the kernel's socket finds its connection reset.
pub async fn kernel_was_reset(lab: &Lab, socket: u64) -> Result<()> {
    let read = lab.north.call(Transfer { socket, send: Amount::NONE, receive: Amount::of(1) }).await;
    let is_reset = matches!(&read, Err(error) if error.to_string().contains("Connection reset by peer"));
    ensure!(is_reset, "the kernel has read {read:?}");
    Ok(())
}

/// What userspace and the kernel have counted, and the recording, verified. With keys, some of it must have been signed.
pub fn evidence(lab: &Lab, mkts: &[Mkt], [userspace, kernel]: [Counted; 2]) -> Result<Evidence> {
    let recording = lab.wire.take_recording();
    let wire = verify(lab, &recording, mkts)?;
    ensure!(mkts.is_empty() || wire.verified > 0, "recording: {wire}");
    let counters = vec![("kernel".into(), kernel.to_string()), ("userspace".into(), userspace.to_string())];
    Ok(Evidence { counters, wire, recording, ..Evidence::default() })
}
