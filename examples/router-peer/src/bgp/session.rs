//! One session with one peer: the finite state machine of RFC 4271 section 8 from OpenSent on.
//!
//! Idle, Connect and Active belong to whoever makes the stream. There is no collision detection (section 6.8): each session
//! is opened from one side only, which its configuration names.

use std::fmt;
use std::future::pending;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use ipnet::IpNet;
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::capabilities::{
    BgpCapability, FourOctetAsCapability, MultiProtocolExtensionsCapability,
};
use netgauze_bgp_pkt::notification::{
    BgpNotificationMessage, CeaseError, FiniteStateMachineError, HoldTimerExpiredError, OpenMessageError,
};
use netgauze_bgp_pkt::open::{BgpOpenMessage, BgpOpenMessageParameter};
use netgauze_iana::address_family::AddressType;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::codec::{FramedRead, FramedWrite};
use tracing::{Instrument, debug, info, warn};

use super::codec::{Codec, ReceiveError};
use super::rib::{AdjRibIn, Family, Route};
pub use super::status::{Closed, State, Status};
use super::update::{self, Export};
use crate::sync::Locked;

/// AS_TRANS stands in OPEN for an AS number that needs four octets (RFC 6793 section 9).
const AS_TRANS: u16 = 23456;
/// The large hold timer of OpenSent (RFC 4271 section 8.2.2 suggests four minutes).
const OPEN_HOLD_TIME: Duration = Duration::from_secs(240);
/// How long the last message of a session may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);
/// Octets of messages gathered before they are written.
const WRITE_BATCH: usize = 64 * 1024;
/// Orders that wait for the session to take them.
const COMMANDS: usize = 16;

/// What a session is to be like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionConfig {
    /// Both AS numbers and the next hops to announce.
    pub export: Export,
    /// The own BGP Identifier.
    pub router_id: Ipv4Addr,
    /// The hold time to propose, in seconds: 0 for none, otherwise at least 3.
    pub hold_time: u16,
}

enum Command {
    Announce(Arc<[Route]>),
    Withdraw(Vec<IpNet>),
    Shutdown,
}

/// A handle on a session. Dropping it shuts the session down.
#[derive(Debug)]
pub struct Session {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<Status>,
    rib: Arc<Locked<AdjRibIn>>,
}

/// The session no longer takes orders; [`Status::closed`] says why.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionOver;

impl fmt::Display for SessionOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the BGP session is over")
    }
}

impl std::error::Error for SessionOver {}

impl Session {
    /// Starts a session over an open stream, as a task of the current tokio runtime.
    ///
    /// # Panics
    /// When called outside a tokio runtime.
    pub fn start<S>(stream: S, config: SessionConfig) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (commands, orders) = mpsc::channel(COMMANDS);
        let (status, watcher) = watch::channel(Status::default());
        let rib = Arc::<Locked<AdjRibIn>>::default();
        let machine = Machine { config, status, rib: Arc::clone(&rib) };
        tokio::spawn(machine.run(stream, orders).in_current_span());
        Self { commands, status: watcher, rib }
    }

    /// The session as it is now and as it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// The routes that the peer has announced. The session waits while the lock is held.
    #[must_use]
    pub fn rib(&self) -> Arc<Locked<AdjRibIn>> {
        Arc::clone(&self.rib)
    }

    /// Announces routes once the session is established, and then that the initial table is complete.
    ///
    /// # Errors
    /// [`SessionOver`] when it has ended.
    pub async fn announce(&self, routes: Arc<[Route]>) -> Result<(), SessionOver> {
        self.commands.send(Command::Announce(routes)).await.map_err(|_| SessionOver)
    }

    /// Withdraws prefixes.
    ///
    /// # Errors
    /// [`SessionOver`] when it has ended.
    pub async fn withdraw(&self, prefixes: Vec<IpNet>) -> Result<(), SessionOver> {
        self.commands.send(Command::Withdraw(prefixes)).await.map_err(|_| SessionOver)
    }

    /// Ends the session with a Cease NOTIFICATION (administrative shutdown, RFC 4486).
    ///
    /// # Errors
    /// [`SessionOver`] when it has ended already.
    pub async fn shutdown(&self) -> Result<(), SessionOver> {
        self.commands.send(Command::Shutdown).await.map_err(|_| SessionOver)
    }
}

type Reader<S> = FramedRead<ReadHalf<S>, Codec>;
type Writer<S> = FramedWrite<WriteHalf<S>, Codec>;

struct Machine {
    config: SessionConfig,
    status: watch::Sender<Status>,
    rib: Arc<Locked<AdjRibIn>>,
}

fn lost(error: &io::Error) -> Closed {
    Closed::StreamLost(error.kind())
}

fn notify(notification: BgpNotificationMessage) -> Closed {
    Closed::NotificationSent(notification)
}

fn unexpected(error: FiniteStateMachineError) -> Closed {
    notify(BgpNotificationMessage::FiniteStateMachineError(error))
}

fn shutdown() -> Closed {
    notify(BgpNotificationMessage::CeaseError(CeaseError::AdministrativeShutdown { value: Box::default() }))
}

/// Waits for the order to end a session that is not up yet, and keeps the others for when it is.
async fn told_to_shut_down(orders: &mut mpsc::Receiver<Command>, early: &mut Vec<Command>) {
    loop {
        match orders.recv().await {
            Some(Command::Shutdown) | None => return,
            Some(order) => early.push(order),
        }
    }
}

/// Waits for a message, as long as the hold time allows; zero is no limit (RFC 4271 section 4.2).
async fn receive<S: AsyncRead>(reader: &mut Reader<S>, hold_time: Duration) -> Result<BgpMessage, Closed> {
    let message = if hold_time.is_zero() {
        reader.next().await
    } else {
        let expired = HoldTimerExpiredError::Unspecific { sub_code: 0, value: Box::default() };
        timeout(hold_time, reader.next())
            .await
            .map_err(|_| notify(BgpNotificationMessage::HoldTimerExpiredError(expired)))?
    };
    match message {
        Some(Ok(BgpMessage::Notification(notification))) => Err(Closed::NotificationReceived(notification)),
        Some(Ok(message)) => Ok(message),
        Some(Err(ReceiveError::Malformed(notification))) => Err(notify(notification)),
        Some(Err(ReceiveError::Stream(error))) => Err(lost(&error)),
        None => Err(Closed::StreamLost(io::ErrorKind::UnexpectedEof)),
    }
}

/// What the peer said last, which may be waiting to be read where nothing can be written any more; `lost` if it said nothing.
async fn last_words<S: AsyncRead>(reader: &mut Reader<S>, lost: Closed) -> Closed {
    let end = async {
        loop {
            if let Err(closed) = receive(reader, FAREWELL).await {
                return closed;
            }
        }
    };
    match timeout(FAREWELL, end).await {
        Ok(closed @ Closed::NotificationReceived(_)) => closed,
        _ => lost,
    }
}

impl Machine {
    async fn run<S>(self, stream: S, orders: mpsc::Receiver<Command>)
    where
        S: AsyncRead + AsyncWrite,
    {
        let (read, write) = tokio::io::split(stream);
        let mut reader = FramedRead::new(read, Codec::default());
        let mut writer = FramedWrite::new(write, Codec::default());
        writer.set_backpressure_boundary(WRITE_BATCH);
        let mut closed = self.exchange(&mut reader, &mut writer, orders).await;
        if matches!(closed, Closed::StreamLost(_)) {
            closed = last_words(&mut reader, closed).await;
        }
        match (self.status.borrow().state, &closed) {
            (State::Established, _) => info!(reason = %closed, "session over"),
            // Told to stop before it was up: nothing has failed.
            (_, Closed::NotificationSent(BgpNotificationMessage::CeaseError(_))) => {}
            _ => warn!(reason = %closed, "no session"),
        }
        let farewell = async {
            if let Closed::NotificationSent(notification) = &closed {
                writer.send(BgpMessage::Notification(notification.clone())).await?;
            }
            writer.close().await
        };
        if !matches!(timeout(FAREWELL, farewell).await, Ok(Ok(()))) {
            debug!("the peer did not take the last message");
        }
        self.rib.lock().clear();
        self.status.send_modify(|status| {
            status.state = State::Closed;
            status.closed = Some(closed);
        });
    }

    async fn exchange<S>(
        &self,
        reader: &mut Reader<S>,
        writer: &mut Writer<S>,
        mut orders: mpsc::Receiver<Command>,
    ) -> Closed
    where
        S: AsyncRead + AsyncWrite,
    {
        let mut early = Vec::new();
        let opened = tokio::select! {
            opened = self.open(reader, writer) => opened,
            () = told_to_shut_down(&mut orders, &mut early) => Err(shutdown()),
        };
        let hold_time = match opened {
            Ok(hold_time) => hold_time,
            Err(closed) => return closed,
        };
        // Both directions run at once: two speakers that only wrote would fill each other's windows and stand still.
        tokio::select! {
            closed = self.receive_routes(reader, hold_time) => closed,
            closed = self.send_routes(writer, hold_time, early, orders) => closed,
        }
    }

    /// OpenSent and OpenConfirm. Returns the hold time agreed on.
    async fn open<S>(&self, reader: &mut Reader<S>, writer: &mut Writer<S>) -> Result<Duration, Closed>
    where
        S: AsyncRead + AsyncWrite,
    {
        writer.send(BgpMessage::Open(self.open_message())).await.map_err(|error| lost(&error))?;
        let BgpMessage::Open(open) = receive(reader, OPEN_HOLD_TIME).await? else {
            let value = Box::default();
            return Err(unexpected(FiniteStateMachineError::ReceiveUnexpectedMessageInOpenSentState {
                value,
            }));
        };
        self.accept(&open).map_err(|error| notify(BgpNotificationMessage::OpenMessageError(error)))?;
        let seconds = self.config.hold_time.min(open.hold_time());
        self.status.send_modify(|status| {
            status.state = State::OpenConfirm;
            status.hold_time = Some(seconds);
            status.peer_id = Some(open.bgp_id());
        });
        writer.send(BgpMessage::KeepAlive).await.map_err(|error| lost(&error))?;

        let hold_time = Duration::from_secs(seconds.into());
        let BgpMessage::KeepAlive = receive(reader, hold_time).await? else {
            let value = Box::default();
            return Err(unexpected(FiniteStateMachineError::ReceiveUnexpectedMessageInOpenConfirmState {
                value,
            }));
        };
        self.status.send_modify(|status| {
            status.state = State::Established;
            status.keepalives += 1;
        });
        info!(peer_id = %open.bgp_id(), hold_time = seconds, "session established");
        Ok(hold_time)
    }

    fn open_message(&self) -> BgpOpenMessage {
        let local_as = self.config.export.local_as;
        let capabilities = [
            BgpCapability::MultiProtocolExtensions(MultiProtocolExtensionsCapability::new(
                AddressType::Ipv4Unicast,
            )),
            BgpCapability::MultiProtocolExtensions(MultiProtocolExtensionsCapability::new(
                AddressType::Ipv6Unicast,
            )),
            BgpCapability::FourOctetAs(FourOctetAsCapability::new(local_as)),
        ];
        BgpOpenMessage::new(
            u16::try_from(local_as).unwrap_or(AS_TRANS),
            self.config.hold_time,
            self.config.router_id,
            [BgpOpenMessageParameter::new_capabilities(capabilities)],
        )
    }

    /// Checks the peer's OPEN (RFC 4271 section 6.2); its version and hold time were checked when it was read.
    fn accept(&self, open: &BgpOpenMessage) -> Result<(), OpenMessageError> {
        let export = self.config.export;
        let value = Box::default();
        if !open.capabilities().iter().any(|capability| matches!(capability, BgpCapability::FourOctetAs(_))) {
            // RFC 5492 section 5: the data names the capability that the peer lacks, code 65 with four octets.
            let [a, b, c, d] = export.local_as.to_be_bytes();
            return Err(OpenMessageError::UnsupportedCapability { value: Box::from([65, 4, a, b, c, d]) });
        }
        if open.my_asn4() != export.peer_as {
            return Err(OpenMessageError::BadPeerAs { value });
        }
        let internal = export.local_as == export.peer_as;
        if open.bgp_id().is_unspecified() || (internal && open.bgp_id() == self.config.router_id) {
            return Err(OpenMessageError::BadBgpIdentifier { value });
        }
        Ok(())
    }

    async fn receive_routes<S: AsyncRead>(&self, reader: &mut Reader<S>, hold_time: Duration) -> Closed {
        loop {
            let message = match receive(reader, hold_time).await {
                Ok(message) => message,
                Err(closed) => return closed,
            };
            match message {
                BgpMessage::KeepAlive => self.status.send_modify(|status| status.keepalives += 1),
                BgpMessage::Update(message) => {
                    let changes = match update::changes(&message, self.config.export.local_as) {
                        Ok(changes) => changes,
                        Err(error) => return notify(BgpNotificationMessage::UpdateMessageError(error)),
                    };
                    let end_of_rib = changes.end_of_rib;
                    let (ipv4, ipv6) = {
                        let mut rib = self.rib.lock();
                        rib.apply(changes);
                        (rib.count(Family::Ipv4), rib.count(Family::Ipv6))
                    };
                    self.status.send_modify(|status| {
                        status.updates += 1;
                        (status.ipv4_routes, status.ipv6_routes) = (ipv4, ipv6);
                        match end_of_rib {
                            Some(Family::Ipv4) => status.end_of_rib[0] = true,
                            Some(Family::Ipv6) => status.end_of_rib[1] = true,
                            None => {}
                        }
                    });
                }
                // Never announced, so a peer should not ask; RFC 2918 section 4 has it ignored.
                BgpMessage::RouteRefresh(_) => {}
                BgpMessage::Open(_) | BgpMessage::Notification(_) => {
                    let value = Box::default();
                    return unexpected(FiniteStateMachineError::ReceiveUnexpectedMessageInEstablishedState {
                        value,
                    });
                }
            }
        }
    }

    async fn send_routes<S: AsyncWrite>(
        &self,
        writer: &mut Writer<S>,
        hold_time: Duration,
        early: Vec<Command>,
        mut orders: mpsc::Receiver<Command>,
    ) -> Closed {
        let mut early = early.into_iter();
        let mut keepalive = (!hold_time.is_zero()).then(|| {
            let mut ticks = interval(hold_time / 3);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        });
        loop {
            let tick = async {
                match &mut keepalive {
                    Some(ticks) => drop(ticks.tick().await),
                    None => pending().await,
                }
            };
            let order = async {
                match early.next() {
                    Some(order) => Some(order),
                    None => orders.recv().await,
                }
            };
            let sent = tokio::select! {
                order = order => match order {
                    Some(Command::Announce(routes)) => self.announce(writer, &routes).await,
                    Some(Command::Withdraw(prefixes)) => send_all(writer, update::withdrawals(&prefixes)).await,
                    Some(Command::Shutdown) | None => return shutdown(),
                },
                () = tick => writer.send(BgpMessage::KeepAlive).await,
            };
            if let Err(error) = sent {
                return lost(&error);
            }
        }
    }

    async fn announce<S: AsyncWrite>(&self, writer: &mut Writer<S>, routes: &[Route]) -> io::Result<()> {
        let ends = [update::end_of_rib(Family::Ipv4), update::end_of_rib(Family::Ipv6)];
        send_all(writer, update::announcements(routes, &self.config.export).chain(ends)).await
    }
}

async fn send_all<S: AsyncWrite>(
    writer: &mut Writer<S>,
    messages: impl Iterator<Item = BgpMessage>,
) -> io::Result<()> {
    for message in messages {
        writer.feed(message).await?;
    }
    writer.flush().await
}
