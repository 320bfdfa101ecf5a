//! One connection between the driver's stack and a socket in the first guest, with both ends at hand.

mod setup;

use std::future::{Future, ready};
use std::pin::pin;
use std::time::Duration;

use agent::{Accept, AwaitCounters, Close, Connect, Finish, GetInfo, Listen, NetworkCounters, SocketInfo};
use router_peer::stack::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use wireseal_tcp_ao::{Connection, Counters, MKTS_PER_PEER, Mkt, SeqNum, SocketPair};

pub use self::setup::{End, Setup, kernel_key, key, key_with, mirrored};
use super::Evidence;
use crate::failure::{Failure, ensure};
use crate::guest::at;
use crate::lab::{Lab, TIME_LIMIT, TIME_LIMIT_MILLISECONDS};
use crate::recording::Recording;
use crate::userspace::{Amount, Userspace, finish, guest_transfer, transfer};
use crate::verify::{Keys, verify};
use crate::wire::Port;

/// The port of the userspace end's listener.
pub const USERSPACE_PORT: u16 = 179;
/// Octets each way of one piece of traffic.
const PIECE: u64 = 32 << 10;
/// Pieces that have to pass after a change of keys before the next: one may have been under way.
const PIECES: u64 = 2;
/// How often an end is asked for what it waits for.
const CHECK: Duration = Duration::from_millis(1);
/// The seeds of what the ends send.
const TO_KERNEL: u64 = 21;
const TO_USERSPACE: u64 = 22;

/// What an end should count beside the other end's segments, each of which it should count good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Beside {
    /// Forged or repeated segments that verify.
    pub good: u64,
    /// Segments of the other end's that reach it and are not counted good.
    pub not_good: u64,
    /// What is counted of these and of forged ones.
    pub bad: u64,
    /// The same.
    pub key_not_found: u64,
    /// The same.
    pub required: u64,
    /// ICMP errors that are ignored.
    pub dropped_icmps: u64,
}

/// Both ends of a session but for the stream.
pub struct Ends<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// How the session was set up.
    pub setup: Setup,
    /// The userspace end's stack.
    pub userspace: Userspace,
    /// The kernel's socket.
    pub socket: u64,
    /// The connection as the userspace end sees it.
    pub pair: SocketPair,
    before: NetworkCounters,
    pieces: watch::Sender<u64>,
    /// The kernel's listener, where userspace has opened the connection.
    pub listener: Option<u64>,
}

/// An established connection.
pub struct Session<'a> {
    /// Its ends.
    pub ends: Ends<'a>,
    /// The userspace end's stream.
    pub stream: TcpStream,
    to_kernel: u64,
    to_userspace: u64,
    _listener: Option<TcpListener>,
}

impl<'a> Session<'a> {
    /// Opens it.
    pub async fn open(lab: &'a Lab, setup: Setup) -> Result<Self, Failure> {
        lab.clear().await?;
        let before = lab.north.counters().await?;
        let userspace = setup.userspace(lab)?;
        let mut socket = setup.kernel_socket(lab).await?;
        let (mut kernel_listener, mut userspace_listener) = (None, None);
        let time_limit = TIME_LIMIT_MILLISECONDS;
        let stream = match setup.opener {
            End::Userspace => {
                let address = lab.north.call(Listen { socket }).await?;
                let accept = lab.north.call(Accept { socket, time_limit });
                let connect = userspace.connect(at(End::Kernel.address(setup.family), address.port()));
                let (stream, accepted) = tokio::try_join!(connect, accept)?;
                kernel_listener = Some(std::mem::replace(&mut socket, accepted.socket));
                stream
            }
            End::Kernel => {
                let mut listener = userspace.stack.listen(None, USERSPACE_PORT)?;
                let remote = at(End::Userspace.address(setup.family), USERSPACE_PORT);
                let connect = lab.north.call(Connect { socket, remote, time_limit });
                let (stream, _) = tokio::try_join!(userspace.accept(&mut listener), connect)?;
                userspace_listener = Some(listener);
                stream
            }
        };
        Self::established(
            lab,
            setup,
            before,
            userspace,
            stream,
            (socket, kernel_listener),
            userspace_listener,
        )
    }

    /// One that was opened otherwise, `before` being what the kernel had counted by then. The kernel's sockets are that of
    /// the connection and the listener it came from.
    pub fn established(
        lab: &'a Lab,
        setup: Setup,
        before: NetworkCounters,
        userspace: Userspace,
        stream: TcpStream,
        (socket, kernel_listener): (u64, Option<u64>),
        userspace_listener: Option<TcpListener>,
    ) -> Result<Self, Failure> {
        let (Some(local), Some(remote)) = (stream.local_addr(), stream.peer_addr()) else {
            return Err(Failure("the connection has ended at once".to_owned()));
        };
        let pair = SocketPair { local: local.into(), remote: remote.into() };
        let ends = Ends {
            lab,
            setup,
            userspace,
            socket,
            pair,
            before,
            pieces: watch::Sender::new(0),
            listener: kernel_listener,
        };
        Ok(Self { ends, stream, to_kernel: 0, to_userspace: 0, _listener: userspace_listener })
    }

    /// Carries so many octets to the kernel, and so many back.
    pub async fn exchange(&mut self, to_kernel: u64, to_userspace: u64) -> Result<(), Failure> {
        self.exchange_after(async |_: &Ends<'_>| Ok(()), to_kernel, to_userspace).await
    }

    /// The same, but the userspace end neither sends nor reads until `remedy` is done.
    pub async fn exchange_after(
        &mut self,
        remedy: impl AsyncFnOnce(&Ends<'a>) -> Result<(), Failure>,
        to_kernel: u64,
        to_userspace: u64,
    ) -> Result<(), Failure> {
        let Self { ends, stream, .. } = self;
        exchange(ends, stream, (self.to_kernel, self.to_userspace), (to_kernel, to_userspace), remedy(ends))
            .await?;
        self.to_kernel += to_kernel;
        self.to_userspace += to_userspace;
        Ok(())
    }

    /// Carries traffic both ways until `change` is done, and until what was under way then is through.
    pub async fn under_traffic<T>(
        &mut self,
        change: impl AsyncFnOnce(&Ends<'a>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { ends, stream, to_kernel, to_userspace, .. } = self;
        let mut change = pin!(change(ends));
        let mut outcome = None;
        while outcome.is_none() {
            let mut piece =
                pin!(exchange(ends, stream, (*to_kernel, *to_userspace), (PIECE, PIECE), ready(Ok(()))));
            loop {
                tokio::select! {
                    result = &mut change, if outcome.is_none() => outcome = Some(result?),
                    passed = &mut piece => break passed?,
                }
            }
            *to_kernel += PIECE;
            *to_userspace += PIECE;
            ends.pieces.send_modify(|pieces| *pieces += 1);
        }
        outcome.ok_or_else(|| Failure("the change has no outcome".to_owned()))
    }

    /// Sends both ways, which is expected to come to a standstill, until `refused` is done.
    pub async fn until_refused<T>(
        &mut self,
        refused: impl AsyncFnOnce(&Ends<'a>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.refuse((PIECE, PIECE), refused).await
    }

    /// The same, but one end alone sends: it hears nothing that would help.
    pub async fn sends_in_vain<T>(
        &mut self,
        sender: End,
        refused: impl AsyncFnOnce(&Ends<'a>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let octets = if sender == End::Userspace { (PIECE, 0) } else { (0, PIECE) };
        self.refuse(octets, refused).await
    }

    async fn refuse<T>(
        &mut self,
        octets: (u64, u64),
        refused: impl AsyncFnOnce(&Ends<'a>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Self { ends, stream, to_kernel, to_userspace, .. } = self;
        tokio::select! {
            result = refused(ends) => result,
            passed = exchange(ends, stream, (*to_kernel, *to_userspace), octets, ready(Ok(()))) => {
                passed?;
                Err(Failure("traffic went through".to_owned()))
            }
        }
    }

    /// Closes both ends at about the same time, and accounts for all segments.
    pub async fn close(mut self, userspace: Beside, kernel: Beside) -> Result<Evidence, Failure> {
        let by_kernel = self
            .ends
            .lab
            .north
            .call(Finish { socket: self.ends.socket, time_limit: TIME_LIMIT_MILLISECONDS });
        tokio::try_join!(finish(&mut self.stream), by_kernel)?;
        self.settle(userspace, kernel).await
    }

    /// Accounts for all segments of a session that has been closed in order.
    pub async fn settle(self, userspace: Beside, kernel: Beside) -> Result<Evidence, Failure> {
        let Self { ends, stream, .. } = self;
        drop(stream);
        timeout(TIME_LIMIT, ends.userspace.stack.idle())
            .await
            .map_err(|_| Failure("the userspace connection does not end".to_owned()))?;
        ends.account(userspace, kernel).await
    }
}

async fn exchange(
    ends: &Ends<'_>,
    stream: &mut TcpStream,
    from: (u64, u64),
    octets: (u64, u64),
    remedy: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let there = Amount { octets: octets.0, seed: TO_KERNEL, from: from.0 };
    let back = Amount { octets: octets.1, seed: TO_USERSPACE, from: from.1 };
    let by_kernel = ends.lab.north.call(guest_transfer(ends.socket, back, there));
    let by_userspace = async {
        remedy.await?;
        transfer(stream, there, back).await
    };
    tokio::try_join!(by_userspace, by_kernel)?;
    Ok(())
}

impl Ends<'_> {
    /// Calls `f` with the userspace end's keys and state.
    pub fn connection<R>(&self, f: impl FnOnce(&mut Connection<MKTS_PER_PEER>) -> R) -> Result<R, Failure> {
        let found =
            self.userspace.stack.with_device(|device| device.shim_mut().connection_mut(&self.pair).map(f));
        found.ok_or_else(|| Failure("the shim does not know the connection".to_owned()))
    }

    /// What the kernel says of its socket.
    pub async fn info(&self) -> Result<SocketInfo, Failure> {
        let info = self.lab.north.call(GetInfo { socket: self.socket }).await?;
        info.ok_or_else(|| Failure("the kernel's socket has no TCP-AO".to_owned()))
    }

    /// Waits until an end signs with a key.
    pub async fn await_current_key(&self, end: End, mkt: &Mkt) -> Result<(), Failure> {
        let wait = async {
            loop {
                let is_current = match end {
                    End::Userspace => {
                        self.connection(|connection| connection.current_key().send_id)? == mkt.send_id()
                    }
                    End::Kernel => self.info().await?.current_key == Some(mkt.recv_id().0),
                };
                if is_current {
                    return Ok(());
                }
                sleep(CHECK).await;
            }
        };
        let late = |_| Failure(format!("the {} end does not change to key {}", end.name(), mkt.send_id()));
        timeout(TIME_LIMIT, wait).await.map_err(late)?
    }

    /// Waits until traffic has passed both ways that was all sent after this call.
    pub async fn await_traffic(&self) -> Result<(), Failure> {
        let mut pieces = self.pieces.subscribe();
        let wanted = *pieces.borrow() + PIECES;
        pieces.wait_for(|pieces| *pieces >= wanted).await?;
        Ok(())
    }

    /// Waits until both ends have acknowledged all that the other has sent, and neither has more to say.
    pub async fn quiet(&self) -> Result<(), Failure> {
        let pairs = [self.pair, self.pair.reversed()];
        loop {
            let is_quiet =
                |recording: &Recording| pairs.iter().all(|pair| acknowledged(recording, *pair)).then_some(());
            self.lab.wire.await_recorded("the last acknowledgment", is_quiet).await?;
            if self.is_still().await? {
                return Ok(());
            }
        }
    }

    /// Waits until each end has taken in all that was on its way to it; says whether neither has sent anything meanwhile.
    async fn is_still(&self) -> Result<bool, Failure> {
        let wire = &self.lab.wire;
        let segments = || wire.segments_from(Port::Userspace) + wire.segments_from(Port::North);
        let before = segments();
        for end in [End::Userspace, End::Kernel, End::Userspace, End::Kernel] {
            self.lab.take_in(end.port()).await?;
        }
        Ok(segments() == before)
    }

    /// Checks that the kernel's socket says of itself what the kernel has counted, with the listener it comes from, which
    /// has verified the first segments.
    pub async fn check_info(&self) -> Result<(), Failure> {
        loop {
            self.quiet().await?;
            let delivered = self.delivered();
            let counted = self.kernel_counted().await?;
            let info = self.info().await?;
            let mut says = counted_by(&info);
            if let Some(socket) = self.listener {
                let listener = self.lab.north.call(GetInfo { socket }).await?;
                says = listener.map_or(says, |listener| says.plus(&counted_by(&listener)));
            }
            if self.is_still().await? && self.delivered() == delivered {
                return ensure(says == counted, || {
                    format!("the kernel has counted {counted}, its sockets {says}: {info:?}")
                });
            }
        }
    }

    /// What the kernel of the guest has counted since the session's beginning.
    pub async fn kernel_counted(&self) -> Result<NetworkCounters, Failure> {
        Ok(self.lab.north.counters().await?.since(&self.before))
    }

    /// Waits until the kernel of the guest has counted at least this since the session's beginning.
    pub async fn await_kernel_counted(&self, counted: NetworkCounters) -> Result<NetworkCounters, Failure> {
        let at_least = self.before.plus(&counted);
        let after =
            self.lab.north.call(AwaitCounters { at_least, time_limit: TIME_LIMIT_MILLISECONDS }).await?;
        Ok(after.since(&self.before))
    }

    /// Segments that have reached the kernel and the userspace end so far.
    fn delivered(&self) -> [u64; 2] {
        [Port::Userspace, Port::North].map(|port| self.lab.wire.segments_from(port))
    }

    /// What both ends have counted when they have counted all that the recording has by then. An end may say something again
    /// at any time: the counters and the recording are of one moment if there is no other segment before and after.
    async fn counted(
        &self,
        userspace: Beside,
        kernel: Beside,
    ) -> Result<(NetworkCounters, Counters), Failure> {
        loop {
            while !self.is_still().await? {}
            let delivered = self.delivered();
            let [to_kernel, to_userspace] = delivered;
            let by_kernel = NetworkCounters {
                good: to_kernel + kernel.good - kernel.not_good,
                bad: kernel.bad,
                key_not_found: kernel.key_not_found,
                ao_required: kernel.required,
                dropped_icmps: kernel.dropped_icmps,
                ..NetworkCounters::default()
            };
            let by_userspace = Counters {
                good: to_userspace + userspace.good - userspace.not_good,
                bad: userspace.bad,
                key_not_found: userspace.key_not_found,
                required: userspace.required,
                dropped_icmp: userspace.dropped_icmps,
            };
            let counted = self.await_kernel_counted(by_kernel).await?;
            let counters =
                self.userspace.await_counters(|counters| counters.good >= by_userspace.good).await?;
            if !self.is_still().await? || self.delivered() != delivered {
                continue;
            }
            ensure(counted == by_kernel, || {
                format!("the kernel has counted {counted} instead of {by_kernel}")
            })?;
            ensure(counters == by_userspace, || {
                format!(
                    "userspace has counted {} instead of {}",
                    described(&counters),
                    described(&by_userspace)
                )
            })?;
            return Ok((counted, counters));
        }
    }

    /// Checks that each end has counted every segment that has reached it, as expected, and that all that was sent by an end
    /// verifies. Frees the kernel's sockets.
    pub async fn account(self, userspace: Beside, kernel: Beside) -> Result<Evidence, Failure> {
        let (counted, counters) = timeout(TIME_LIMIT * 2, self.counted(userspace, kernel))
            .await
            .map_err(|_| Failure("the ends do not fall silent".to_owned()))??;
        self.userspace.check_nothing_dropped()?;
        for socket in [Some(self.socket), self.listener].into_iter().flatten() {
            // A row may have closed it already.
            let _ = self.lab.north.call(Close { socket }).await;
        }

        let mut mkts = self.setup.userspace.clone();
        mkts.extend(self.setup.kernel.iter().filter(|mkt| !has(&self.setup.userspace, mkt)).cloned());
        let recording = self.lab.wire.take_recording();
        let wire = verify(&recording, &[Keys { local: End::Userspace.address(self.setup.family), mkts }]);
        if !self.setup.userspace.is_empty() {
            wire.check_all_verified()?;
        }
        Ok(Evidence {
            counters: vec![
                ("kernel".into(), counted.to_string()),
                ("userspace".into(), described(&counters)),
            ],
            wire,
            figures: String::new(),
            unsigned: 0,
            recording,
        })
    }
}

/// Whether there is a key of the same ids.
fn has(mkts: &[Mkt], wanted: &Mkt) -> bool {
    mkts.iter().any(|mkt| mkt.send_id() == wanted.send_id())
}

/// What a socket of the kernel's has counted.
pub fn counted_by(info: &SocketInfo) -> NetworkCounters {
    let SocketInfo { good, bad, key_not_found, ao_required, dropped_icmps, .. } = *info;
    NetworkCounters { good, bad, key_not_found, ao_required, dropped_icmps, ..NetworkCounters::default() }
}

/// The counters that are not zero.
pub fn described(counters: &Counters) -> String {
    let Counters { good, bad, key_not_found, required, dropped_icmp } = *counters;
    NetworkCounters {
        good,
        bad,
        key_not_found,
        ao_required: required,
        dropped_icmps: dropped_icmp,
        ..NetworkCounters::default()
    }
    .to_string()
}

/// Whether the end `pair.remote` has acknowledged all that `pair.local` has sent.
pub fn acknowledged(recording: &Recording, pair: SocketPair) -> bool {
    let segments =
        recording.frames.iter().filter(|frame| frame.from.is_some()).filter_map(|frame| frame.segment());
    let (mut sent, mut heard): (Option<SeqNum>, Option<SeqNum>) = (None, None);
    let later = |known: Option<SeqNum>, number: SeqNum| match known {
        Some(known) if !known.before(number) => Some(known),
        _ => Some(number),
    };
    for segment in segments {
        let from = (segment.source(), segment.destination());
        if from == (pair.local, pair.remote) {
            sent = later(sent, segment.end());
        } else if from == (pair.remote, pair.local) && segment.flags().ack() {
            heard = later(heard, segment.acknowledgment());
        }
    }
    sent.is_some() && sent == heard
}

/// Adds the evidence of another session.
pub fn add(sum: &mut Evidence, other: Evidence) {
    sum.counters.extend(other.counters);
    sum.wire.add(other.wire);
    sum.recording.append(other.recording);
}
