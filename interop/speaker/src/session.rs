//! One session with one peer: the finite state machine of RFC 4271 §8 from OpenSent on.
//!
//! The caller that makes the stream keeps the states Idle, Connect and Active. There is no collision detection (§6.8): the
//! configuration says which end opens a session.

use std::borrow::Cow;
use std::convert::Infallible;
use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use inetnum::addr::Prefix;
use inetnum::asn::Asn;
use routecore::bgp::message::notification::{
    CeaseSubcode, Details, FiniteStateMachineSubcode, OpenMessageSubcode,
};
use routecore::bgp::message::open::OpenBuilder;
use routecore::bgp::message::{Message, OpenMessage};
use routecore::bgp::types::AfiSafiType;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{Instrument, debug, info, warn};

use crate::message::{self, Closed, Export, KEEPALIVE, Notification, Reader};
use crate::routes::{AdjRibIn, Family, Route};

/// The TCP port of BGP (RFC 4271 §8.2.1).
pub const PORT: u16 = 179;
/// The hold timer of OpenSent; RFC 4271 §8.2.2 suggests four minutes.
const OPEN_HOLD_TIME: Duration = Duration::from_secs(240);
/// Time limit for sending a session's last message.
const FAREWELL: Duration = Duration::from_secs(1);
/// Octets of messages gathered before they are written.
const WRITE_BATCH: usize = 64 * 1024;
/// Octets of an OPEN before its optional parameters (RFC 4271 §4.2).
const FIXED_OPEN: usize = 29;
/// The type of the parameter with the capabilities (RFC 5492), and the codes of those for families (RFC 4760 §8) and four-octet AS
/// numbers (RFC 6793).
const CAPABILITIES: u8 = 2;
const MULTIPROTOCOL: u8 = 1;
const FOUR_OCTET_AS: u8 = 65;
/// How many orders can wait for the session.
const ORDERS: usize = 16;

/// The terms of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionConfig {
    /// Both AS numbers and the next hops to announce.
    pub export: Export,
    /// This router's BGP Identifier.
    pub router_id: Ipv4Addr,
    /// The hold time to propose, in seconds: 0 for none, otherwise at least 3.
    pub hold_time: u16,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum State {
    /// Waiting for the peer's OPEN.
    #[default]
    OpenSent,
    /// Waiting for the peer's KEEPALIVE.
    OpenConfirm,
    /// Exchanging routes.
    Established,
    /// Over: [`Status::closed`] says why.
    Closed,
}

/// The status of a session.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// How far it is.
    pub state: State,
    /// The hold time agreed on, in seconds, from OpenConfirm on.
    pub hold_time: Option<u16>,
    /// IPv4 and IPv6 prefixes that the peer reaches.
    pub routes: [usize; 2],
    /// UPDATE messages received.
    pub updates: u64,
    /// KEEPALIVE messages received.
    pub keepalives: u64,
    /// Whether the peer's initial IPv4 and IPv6 tables are complete; so is the table of a family that was not agreed on.
    pub end_of_rib: [bool; 2],
    /// Why the session is over.
    pub closed: Option<Closed>,
}

enum Order {
    Announce(Arc<[Route]>),
    Withdraw(Vec<Prefix>),
    Shutdown,
}

/// A handle on a session. Dropping it shuts the session down.
#[derive(Debug)]
pub struct Session {
    orders: mpsc::Sender<Order>,
    status: watch::Receiver<Status>,
    rib: Arc<Mutex<AdjRibIn>>,
    task: AbortHandle,
}

impl Session {
    /// Starts a session over an open stream, as a task of the current tokio runtime.
    /// Panics when called outside a tokio runtime.
    pub fn start<S>(stream: S, config: SessionConfig) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (sender, orders) = mpsc::channel(ORDERS);
        let (status, watcher) = watch::channel(Status::default());
        let rib = Arc::<Mutex<AdjRibIn>>::default();
        let machine = Machine { config, status, rib: Arc::clone(&rib) };
        let task = tokio::spawn(machine.run(stream, orders).in_current_span()).abort_handle();
        Self { orders: sender, status: watcher, rib, task }
    }

    /// The session as it is now and as it changes. The sender is gone once the stream is closed.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Waits until something is true of the session.
    /// Fails when the session ends instead, or after `limit`; both say `what` was waited for.
    pub async fn until(
        &self,
        limit: Duration,
        what: &str,
        mut wanted: impl FnMut(&Status) -> bool,
    ) -> Result<Status> {
        let mut status = self.status();
        let seen = timeout(limit, status.wait_for(|status| wanted(status) || status.state == State::Closed));
        let seen = seen.await.with_context(|| format!("waited {} s for {what}", limit.as_secs()))?;
        let seen = seen.with_context(|| format!("waited for {what}, the session is gone"))?.clone();
        match &seen.closed {
            Some(closed) if !wanted(&seen) => bail!("waited for {what}, the session ended: {closed}"),
            _ => Ok(seen),
        }
    }

    /// Waits until the session is established.
    pub async fn established(&self, limit: Duration) -> Result<Status> {
        let is_up = |status: &Status| status.state == State::Established;
        self.until(limit, "the session to be established", is_up).await
    }

    /// The routes that the peer has announced. The session waits while the lock is held.
    /// Panics when the session's task has panicked.
    pub fn rib(&self) -> MutexGuard<'_, AdjRibIn> {
        self.rib.lock().unwrap()
    }

    /// Announces routes once the session is established, and then that the initial table is complete.
    /// Fails when the session is over, as for all orders.
    pub async fn announce(&self, routes: Arc<[Route]>) -> Result<()> {
        self.order(Order::Announce(routes)).await
    }

    /// Withdraws prefixes.
    /// Fails when the session is over.
    pub async fn withdraw(&self, prefixes: Vec<Prefix>) -> Result<()> {
        self.order(Order::Withdraw(prefixes)).await
    }

    /// Ends the session with a Cease: administrative shutdown (RFC 4486).
    /// Fails when the session is over.
    pub async fn shutdown(&self) -> Result<()> {
        self.order(Order::Shutdown).await
    }

    /// Drops the stream at once without notifying the peer.
    pub fn abort(&self) {
        self.task.abort();
    }

    async fn order(&self, order: Order) -> Result<()> {
        self.orders.send(order).await.ok().context("the BGP session is over")
    }
}

type Input<S> = Reader<ReadHalf<S>>;
type Output<S> = BufWriter<WriteHalf<S>>;

struct Machine {
    config: SessionConfig,
    status: watch::Sender<Status>,
    rib: Arc<Mutex<AdjRibIn>>,
}

/// Waits for a message, for as long as the hold time allows; zero is no limit (RFC 4271 §4.2).
async fn receive<S: AsyncRead>(input: &mut Input<S>, hold_time: Duration) -> Result<Message<Bytes>, Closed> {
    let message = if hold_time.is_zero() {
        input.next().await
    } else {
        timeout(hold_time, input.next())
            .await
            .unwrap_or(Err(Notification::bare(Details::HoldTimerExpired).into()))
    };
    match message? {
        Message::Notification(received) => {
            let data = received.data().unwrap_or_default();
            Err(Closed::Received(Notification::new(received.details(), data)))
        }
        message => Ok(message),
    }
}

/// Reads a NOTIFICATION that the peer may have sent before the stream broke.
async fn last_words<S: AsyncRead>(input: &mut Input<S>) -> Option<Closed> {
    loop {
        match receive(input, FAREWELL).await {
            Ok(_) => {}
            Err(closed @ Closed::Received(_)) => return Some(closed),
            Err(_) => return None,
        }
    }
}

async fn send<S: AsyncWrite>(output: &mut Output<S>, message: &[u8]) -> Result<(), Closed> {
    output.write_all(message).await?;
    Ok(output.flush().await?)
}

/// Waits for the order to end a session that is not up yet, and keeps the others for when it is.
async fn told_to_shut_down(orders: &mut mpsc::Receiver<Order>, early: &mut Vec<Order>) {
    loop {
        match orders.recv().await {
            Some(Order::Shutdown) | None => return,
            Some(order) => early.push(order),
        }
    }
}

impl Machine {
    async fn run<S: AsyncRead + AsyncWrite>(self, stream: S, orders: mpsc::Receiver<Order>) {
        let (read, write) = tokio::io::split(stream);
        let mut input = Reader::new(read);
        let mut output = BufWriter::with_capacity(WRITE_BATCH, write);
        let Err(mut closed) = self.exchange(&mut input, &mut output, orders).await;
        if matches!(closed, Closed::Lost(_)) {
            closed = timeout(FAREWELL, last_words(&mut input)).await.ok().flatten().unwrap_or(closed);
        }
        match (self.status.borrow().state, &closed) {
            (State::Established, _) => info!(reason = %closed, "session over"),
            // Stopped before it was up, which is no failure.
            (_, Closed::Sent(Notification { details: Details::Cease(_), .. })) => {}
            _ => warn!(reason = %closed, "no session"),
        }
        let farewell = async {
            if let Closed::Sent(notification) = &closed {
                output.write_all(&notification.to_octets()).await?;
            }
            output.shutdown().await
        };
        if !matches!(timeout(FAREWELL, farewell).await, Ok(Ok(()))) {
            debug!("the peer did not take the last message");
        }
        *self.rib.lock().unwrap() = AdjRibIn::default();
        self.status.send_modify(|status| {
            status.state = State::Closed;
            status.closed = Some(closed);
        });
    }

    async fn exchange<S: AsyncRead + AsyncWrite>(
        &self,
        input: &mut Input<S>,
        output: &mut Output<S>,
        mut orders: mpsc::Receiver<Order>,
    ) -> Result<Infallible, Closed> {
        let mut early = Vec::new();
        let (hold_time, families) = tokio::select! {
            agreed = self.open(input, output) => agreed?,
            () = told_to_shut_down(&mut orders, &mut early) => {
                return Err(Notification::bare(CeaseSubcode::AdministrativeShutdown).into());
            }
        };
        // Read and write at the same time: two speakers that only wrote would fill each other's windows and block.
        tokio::select! {
            closed = self.receive_routes(input, hold_time) => closed,
            closed = self.send_routes(output, hold_time, families, early, orders) => closed,
        }
    }

    /// OpenSent and OpenConfirm. Returns the hold time and whether IPv4 and IPv6 are agreed on.
    async fn open<S: AsyncRead + AsyncWrite>(
        &self,
        input: &mut Input<S>,
        output: &mut Output<S>,
    ) -> Result<(Duration, [bool; 2]), Closed> {
        send(output, &self.open_message()).await?;
        let Message::Open(open) = receive(input, OPEN_HOLD_TIME).await? else {
            return Err(
                Notification::bare(FiniteStateMachineSubcode::UnexpectedMessageInOpenSentState).into()
            );
        };
        self.accept(&open)?;
        let families = families(&open.as_ref()[FIXED_OPEN..]);
        let seconds = self.config.hold_time.min(open.holdtime());
        self.status.send_modify(|status| {
            status.state = State::OpenConfirm;
            status.hold_time = Some(seconds);
        });
        send(output, &KEEPALIVE).await?;
        let hold_time = Duration::from_secs(seconds.into());
        let Message::Keepalive(_) = receive(input, hold_time).await? else {
            return Err(
                Notification::bare(FiniteStateMachineSubcode::UnexpectedMessageInOpenConfirmState).into()
            );
        };
        self.status.send_modify(|status| {
            status.state = State::Established;
            status.keepalives += 1;
            status.end_of_rib = families.map(|is_agreed| !is_agreed);
        });
        info!(peer_id = %identifier(&open), hold_time = seconds, "session established");
        Ok((hold_time, families))
    }

    fn open_message(&self) -> Vec<u8> {
        let local_as = Asn::from_u32(self.config.export.local_as);
        let mut open = OpenBuilder::new_vec();
        open.set_asn(local_as);
        open.set_holdtime(self.config.hold_time);
        open.set_bgp_id(self.config.router_id.octets());
        open.add_mp(AfiSafiType::Ipv4Unicast);
        open.add_mp(AfiSafiType::Ipv6Unicast);
        open.four_octet_capable(local_as);
        open.finish()
    }

    /// Checks the peer's OPEN (RFC 4271 §6.2).
    fn accept(&self, open: &OpenMessage<Bytes>) -> Result<(), Notification> {
        let SessionConfig { export, router_id, .. } = self.config;
        if open.version() != 4 {
            return Err(Notification::new(OpenMessageSubcode::UnsupportedVersionNumber, [0, 4]));
        }
        if matches!(open.holdtime(), 1 | 2) {
            return Err(Notification::bare(OpenMessageSubcode::UnacceptableHoldTime));
        }
        let Some(peer_as) = four_octet_as(&open.as_ref()[FIXED_OPEN..]) else {
            // RFC 5492 §5: the data name the missing capability, here with four octets.
            let missing = [&[FOUR_OCTET_AS, 4], &export.local_as.to_be_bytes()[..]].concat();
            return Err(Notification::new(OpenMessageSubcode::UnsupportedCapability, missing));
        };
        if peer_as != export.peer_as {
            return Err(Notification::bare(OpenMessageSubcode::BadPeerAs));
        }
        let id = identifier(open);
        if id.is_unspecified() || (export.local_as == export.peer_as && id == router_id) {
            return Err(Notification::bare(OpenMessageSubcode::BadBgpIdentifier));
        }
        Ok(())
    }

    async fn receive_routes<T, S: AsyncRead>(
        &self,
        input: &mut Input<S>,
        hold_time: Duration,
    ) -> Result<T, Closed> {
        loop {
            match receive(input, hold_time).await? {
                Message::Keepalive(_) => self.status.send_modify(|status| status.keepalives += 1),
                Message::Update(message) => {
                    let changes = message::changes(&message, self.config.export.local_as)?;
                    let end_of_rib = changes.end_of_rib;
                    let routes = {
                        let mut rib = self.rib.lock().unwrap();
                        rib.apply(changes);
                        rib.counts()
                    };
                    self.status.send_modify(|status| {
                        status.updates += 1;
                        status.routes = routes;
                        if let Some(family) = end_of_rib {
                            status.end_of_rib[family as usize] = true;
                        }
                    });
                }
                _ => {
                    return Err(Notification::bare(
                        FiniteStateMachineSubcode::UnexpectedMessageInEstablishedState,
                    )
                    .into());
                }
            }
        }
    }

    async fn send_routes<T, S: AsyncWrite>(
        &self,
        output: &mut Output<S>,
        hold_time: Duration,
        families: [bool; 2],
        early: Vec<Order>,
        mut orders: mpsc::Receiver<Order>,
    ) -> Result<T, Closed> {
        let mut early = early.into_iter();
        // The peer may end the session over anything of another family (RFC 4760 §8).
        let is_agreed = |family: Family| families[family as usize];
        let mut keepalive = (!hold_time.is_zero()).then(|| interval(hold_time / 3));
        if let Some(ticks) = &mut keepalive {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
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
            tokio::select! {
                order = order => match order {
                    Some(Order::Announce(routes)) => {
                        let is_for_peer = |route: &&Route| is_agreed(Family::of(route.prefix));
                        let routes: Cow<'_, [Route]> = match families {
                            [true, true] => Cow::Borrowed(&routes),
                            _ => routes.iter().filter(is_for_peer).cloned().collect(),
                        };
                        let ends = Family::ALL.into_iter().filter(|family| is_agreed(*family)).map(message::end_of_rib);
                        for message in message::announcements(&routes, self.config.export).chain(ends) {
                            output.write_all(&message).await?;
                        }
                    }
                    Some(Order::Withdraw(mut prefixes)) => {
                        prefixes.retain(|prefix| is_agreed(Family::of(*prefix)));
                        for message in message::withdrawals(&prefixes) {
                            output.write_all(&message).await?;
                        }
                    }
                    Some(Order::Shutdown) | None => return Err(Notification::bare(CeaseSubcode::AdministrativeShutdown).into()),
                },
                () = tick => output.write_all(&KEEPALIVE).await?,
            }
            output.flush().await?;
        }
    }
}

/// The capabilities in the optional parameters of an OPEN, code and value, up to the first malformed one. routecore would panic on a wrong
/// length.
fn capabilities(mut parameters: &[u8]) -> Vec<(u8, &[u8])> {
    let mut found = Vec::new();
    while let [kind, length, rest @ ..] = parameters
        && let Some((mut capabilities, after)) = rest.split_at_checked((*length).into())
    {
        while let ([code, length, rest @ ..], &CAPABILITIES) = (capabilities, kind) {
            let Some((value, after)) = rest.split_at_checked((*length).into()) else { return found };
            found.push((*code, value));
            capabilities = after;
        }
        parameters = after;
    }
    found
}

/// The AS number in the optional parameters of an OPEN.
fn four_octet_as(parameters: &[u8]) -> Option<u32> {
    let (_, value) = capabilities(parameters).into_iter().find(|(code, _)| *code == FOUR_OCTET_AS)?;
    value.try_into().ok().map(u32::from_be_bytes)
}

/// Whether a peer whose OPEN has these optional parameters takes IPv4 and IPv6 unicast routes. One that names no family takes IPv4's.
fn families(parameters: &[u8]) -> [bool; 2] {
    let mut named = capabilities(parameters);
    named.retain(|(code, _)| *code == MULTIPROTOCOL);
    // AFI, a reserved octet, SAFI.
    let has = |family| named.iter().any(|(_, value)| matches!(value, [0, afi, _, 1] if *afi == family));
    [named.is_empty() || has(1), has(2)]
}

fn identifier(open: &OpenMessage<Bytes>) -> Ipv4Addr {
    let octets: [u8; 4] = open.identifier().try_into().expect("the identifier has four octets");
    octets.into()
}
