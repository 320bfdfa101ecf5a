//! What `wireseal-linux` adds to the kernel's calls: key managers that roll keys over, listeners that are taken over, errors, and many
//! keys.

use agent::{
    Accept, AcceptManaged, AddKeys, Amount, Attach, Chain, Counted, Detach, ListKeys, Listen, Manage,
    NewManager, ProvokeErrors, SetFlags, SetKeys, SocketInfo, Step, Stepped, Transfer,
};
use speaker::protection::mirrored_chain;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_tcp_ao::{KeyId, MasterKey, Mkt};

use crate::guest::Guest;
use crate::row::prelude::*;
use crate::rows::kernels::{Kernels, north_keys, open_socket, south_keys};
use crate::rows::session::{End, SOME, Session, Setup, key};

const FAMILY: Family = Family::Ipv4;
/// When the schedules of these rows begin, in seconds since 1970.
const START: i64 = 1_800_000_000;
/// How many seconds south's clock is behind north's.
pub const BEHIND: i64 = 7;

/// From when until when, in seconds since the beginning; `None` leaves an end open.
type Span = (Option<i64>, Option<i64>);

/// A key as south has it, its send lifetime, and its accept lifetime.
pub fn planned(mkt: Mkt, send: Span, accept: Span) -> Result<Key> {
    let at = |seconds| Timestamp::from_unix_seconds(START + seconds);
    let lifetime = |(from, until): Span| Lifetime::new(from.map(at), until.map(at));
    Ok(Key::new(mkt.send_id().0.into(), mkt).with_lifetimes(lifetime(send)?, lifetime(accept)?)?)
}

/// Three keys that follow one another, each accepted from 30 s before to 30 s after its send lifetime.
pub fn three_keys() -> Result<Vec<Key>> {
    Ok(vec![
        planned(key(1, TcpAoAlgorithm::Aes128Cmac)?, (None, Some(100)), (None, Some(130)))?,
        planned(key(2, TcpAoAlgorithm::HmacSha1)?, (Some(100), Some(200)), (Some(70), Some(230)))?,
        planned(key(3, TcpAoAlgorithm::LinuxHmacSha256)?, (Some(200), None), (Some(170), None))?,
    ])
}

pub fn mkts(keys: &[Key]) -> Vec<Mkt> {
    keys.iter().map(|key| key.mkt().clone()).collect()
}

/// The chain of the guest at a port.
pub fn chain(port: Port, keys: &[Key]) -> Result<Chain> {
    let chain = KeyChain::new("lab", keys.to_vec())?;
    Ok(Chain::new(if port == Port::North { mirrored_chain(&chain)? } else { chain })?)
}

/// A key manager in each guest, and the times that they are given.
#[derive(Clone, Copy)]
pub struct Managers<'a> {
    lab: &'a Lab,
    pub south_guest: &'a Guest,
    family: Family,
    pub north: u64,
    south: u64,
}

/// A connection whose ends and listener are attached.
pub struct Managed<'a> {
    pub managers: Managers<'a>,
    pub kernels: Kernels<'a>,
    pub listener: u64,
}

impl<'a> Managers<'a> {
    /// Creates them, each with its chain.
    pub async fn new(lab: &'a Lab, family: Family, north: &[Key], south: &[Key]) -> Result<Self> {
        let south_guest = lab.south().await?;
        let new = |own: Port, peer: Port, keys: &[Key]| {
            Ok(NewManager { peers: vec![(peer.address(family).into(), None, chain(own, keys)?)] })
        };
        let of_north = new(Port::North, Port::South, north)?;
        let of_south: Result<_> = new(Port::South, Port::North, south);
        let (north, south) = tokio::try_join!(lab.north.call(of_north), south_guest.call(of_south?))?;
        Ok(Self { lab, south_guest, family, north, south })
    }

    /// Attaches a socket of north's that listens or was accepted.
    pub async fn attach_north(&self, socket: u64, now: i64) -> Result<()> {
        self.lab.north.call(Attach { manager: self.north, socket, remote: None, now: START + now }).await
    }

    /// Attaches a socket of south's that will connect to north.
    pub async fn attach_south(&self, socket: u64, now: i64) -> Result<()> {
        let remote = Some(Port::North.address(self.family));
        let attach = Attach { manager: self.south, socket, remote, now: START + now - BEHIND };
        self.south_guest.call(attach).await
    }

    /// Steps both; fails when something could not be done.
    pub async fn step(&self, now: i64) -> Result<[Stepped; 2]> {
        tokio::try_join!(self.step_north(now), self.step_south(now)).map(Into::into)
    }

    pub async fn step_north(&self, now: i64) -> Result<Stepped> {
        self.lab.north.call(Step { manager: self.north, now: START + now }).await
    }

    pub async fn step_south(&self, now: i64) -> Result<Stepped> {
        self.south_guest.call(Step { manager: self.south, now: START + now - BEHIND }).await
    }

    /// Detaches both ends of a connection, so that closing them ends it.
    pub async fn detach(&self, kernels: &Kernels<'_>) -> Result<()> {
        self.lab.north.call(Detach { socket: kernels.north }).await?;
        self.south_guest.call(Detach { socket: kernels.south }).await
    }

    /// A session opened at a moment, with keys only from the managers.
    pub async fn open(self, mkts: &[Mkt], now: i64) -> Result<Managed<'a>> {
        let listener = open_socket(&self.lab.north, self.family, 0, Vec::new()).await?;
        self.attach_north(listener, now).await?;
        let south = open_socket(self.south_guest, self.family, 0, Vec::new()).await?;
        self.attach_south(south, now).await?;
        let kernels = Kernels::connect(self.lab, self.family, mkts, (listener, south)).await?;
        self.attach_north(kernels.north, now).await?;
        Ok(Managed { managers: self, kernels, listener })
    }
}

impl<'a> Managed<'a> {
    /// Steps both ends during traffic both ways, and lets more traffic follow.
    pub async fn step_under_traffic(&mut self, now: i64) -> Result<[Stepped; 2]> {
        let managers = self.managers;
        let ((), steps) = tokio::try_join!(self.kernels.exchange(SOME, SOME), managers.step(now))?;
        self.kernels.exchange(SOME, SOME).await?;
        Ok(steps)
    }

    /// Detaches all sockets.
    pub async fn detach(self) -> Result<Kernels<'a>> {
        let Self { managers, kernels, listener } = self;
        managers.lab.north.call(Detach { socket: listener }).await?;
        managers.detach(&kernels).await?;
        Ok(kernels)
    }
}

/// The moments at which the managers are stepped: before, at and after each change, and one step back in time.
const MOMENTS: [i64; 18] =
    [10, 65, 72, 80, 101, 99, 106, 109, 125, 138, 150, 169, 180, 199, 203, 208, 229, 240];
/// When the send lifetime of south's second key ends.
const SECOND_SENT_UNTIL: i64 = 200 + BEHIND;

pub fn rolling() -> Vec<Row> {
    let mut rows: Vec<Row> = Family::ALL.into_iter().map(row).collect();
    // An accepted socket has the keys of its handshake, and gets the current ones when it is attached.
    rows.push(Row::new(
        "manager-accepted-while-keys-change",
        "a second key comes to the listener between the handshake and the accepting; then the session is \
         accepted and attached, and goes over to the second (AO-43)",
        ao_43_a_session_accepted_while_keys_change,
        "the accepted session is not attached, and keeps the first key alone",
        accept_unattached,
    ));
    rows
}

fn row(family: Family) -> Row {
    Row::new(
        format!("manager-rolling-{family}"),
        format!(
            "a KeyManager in each kernel's guest rolls three keys over on a live session over {family}; they are of three \
             algorithms, south's clock is {BEHIND} s behind, both stepped {} times under traffic",
            MOMENTS.len()
        ),
        async move |lab| roll(lab, family).await,
        "south's chain is without the third key: the session goes on under the second until north accepts it no longer",
        async move |lab| roll_without_the_third(lab, family).await,
    )
}

async fn roll(lab: &Lab, family: Family) -> Result<Evidence> {
    let keys = three_keys()?;
    let mkts = mkts(&keys);
    let managers = Managers::new(lab, family, &keys, &keys).await?;
    let mut managed = managers.open(&mkts, 0).await?;
    for now in MOMENTS {
        managed.step_under_traffic(now).await?;
    }
    let third = mkts.last().context("there are no keys")?;
    let kernels = &managed.kernels;
    let left =
        [send_ids(&lab.north, kernels.north).await?, send_ids(kernels.south_guest, kernels.south).await?];
    ensure!(left == [[third.recv_id().0], [third.send_id().0]], "the keys left are {left:?}");
    let evidence = managed.detach().await?.close(true).await?;
    let by_key = &evidence.wire.by_key;
    for mkt in &mkts {
        for id in [mkt.send_id().0, mkt.recv_id().0] {
            ensure!(by_key.contains_key(&id), "no segment has KeyID {id}");
        }
    }
    let used: Vec<String> = by_key.iter().map(|(id, segments)| format!("{id}: {segments}")).collect();
    let figures = format!("segments by KeyID {}; the third key alone is left", used.join(", "));
    Ok(evidence.with_figures(figures))
}

async fn roll_without_the_third(lab: &Lab, family: Family) -> Result<Refusal> {
    let keys = three_keys()?;
    let (mkts, two) = (mkts(&keys), &keys[..2]);
    let managers = Managers::new(lab, family, &keys, two).await?;
    let mut managed = managers.open(&mkts, 0).await?;
    for now in MOMENTS.into_iter().filter(|now| *now < SECOND_SENT_UNTIL) {
        managed.step_under_traffic(now).await?;
    }
    let second = two.last().map(|key| key.mkt().send_id().0);
    let [north, south] = managed.kernels.info().await?;
    ensure!(
        south.current_key == second
            && (north.counted.bad, north.counted.key_not_found, south.counted.bad) == (0, 0, 0),
        "after the first change: north {north:?}, south {south:?}"
    );
    // A later acknowledgment would ask for the key valid then.
    managed.kernels.quiet().await?;
    let before = managers.south_guest.counters().await?;
    // North changes to the third key by itself when it accepts the second no longer: the peer has not moved.
    let [_, south] = managers.step(240).await?;
    ensure!(south.expired == 1, "south does not say that it has expired: {south:?}");
    let counted = managers.south_guest.await_counted(&before, Counted::key_not_found(1));
    // Only north sends: what south sent would ask for the second key again.
    Ok(Refusal::by("south", &refused(counted, managed.kernels.exchange(0, SOME)).await?))
}

/// When the listener gets the second key.
const CHANGE: i64 = 75;
/// When both ends have it, and when they have changed to it.
const BEFORE: [i64; 2] = [80, 109];
/// When the first key is removed.
const AFTER: i64 = 140;

/// A session that is accepted after the listener's keys have changed.
async fn accept_after_change<'a>(lab: &'a Lab, managers: &Managers<'a>) -> Result<(Kernels<'a>, u64)> {
    let keys = three_keys()?;
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    managers.attach_north(listener, 0).await?;
    let south = open_socket(managers.south_guest, FAMILY, 0, Vec::new()).await?;
    managers.attach_south(south, 0).await?;
    let step = async { managers.step_north(CHANGE).await.map(drop) };
    let kernels = Kernels::connect_and_accept(lab, FAMILY, &mkts(&keys), (listener, south), step).await?;
    let ids = send_ids(&lab.north, kernels.north).await?;
    let first = keys.first().map(|key| key.mkt().recv_id().0);
    ensure!(first.is_some_and(|first| ids == [first]), "it was accepted with the keys {ids:?}");
    Ok((kernels, listener))
}

async fn ao_43_a_session_accepted_while_keys_change(lab: &Lab) -> Result<Evidence> {
    let keys = three_keys()?;
    let managers = Managers::new(lab, FAMILY, &keys, &keys).await?;
    let (kernels, listener) = accept_after_change(lab, &managers).await?;
    managers.attach_north(kernels.north, CHANGE).await?;
    let mut managed = Managed { managers, kernels, listener };
    for now in BEFORE.into_iter().chain([AFTER]) {
        managed.step_under_traffic(now).await?;
    }
    let ids = send_ids(&lab.north, managed.kernels.north).await?;
    let evidence = managed.detach().await?.close(true).await?;
    Ok(evidence.with_figures(format!("accepted with the first key alone, went on with {ids:?}")))
}

async fn accept_unattached(lab: &Lab) -> Result<Refusal> {
    let keys = three_keys()?;
    let managers = Managers::new(lab, FAMILY, &keys, &keys).await?;
    let (mut kernels, _) = accept_after_change(lab, &managers).await?;
    for now in BEFORE {
        managers.step_south(now).await?;
        kernels.exchange(SOME, SOME).await?;
    }
    managers.step_south(AFTER).await?;
    Ok(Refusal::by("north", &kernels.refuses_octet(Counted::key_not_found(1)).await?))
}

async fn send_ids(guest: &Guest, socket: u64) -> Result<Vec<u8>> {
    Ok(guest.call(ListKeys { socket }).await?.iter().map(|key| key.0).collect())
}

/// What the caller without keys sends.
const UNSIGNED: Amount = Amount::of(64);

pub fn accepting() -> Vec<Row> {
    vec![
        Row::new(
            "reset-before-accept",
            "a caller without keys is reset before a TcpAoListener takes its listener over: what it sent is not handed out, and the \
             peer's session that comes after it is",
            hand_out_the_peers,
            "an ordinary accept hands the caller's connection out, with what it sent, and the key manager refuses it",
            hand_out_the_callers,
        ),
        Row::new(
            "neighbour-of-a-network",
            "a TcpAoListener has a key for a router and another for the network around it; the router calls with its own (AO-44)",
            ao_44_a_neighbour_calls_with_its_own_key,
            "the router calls with the network's: the handshake passes, and the connection is reset and not handed out",
            ao_44_a_neighbour_calls_with_the_networks_key,
        ),
    ]
}

fn mkt() -> Result<Mkt> {
    key(1, TcpAoAlgorithm::Aes128Cmac)
}

/// A listener, and its port. A caller without keys has connected to it, sent something, and reset the connection.
async fn with_caller(lab: &Lab) -> Result<(u64, u16)> {
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let port = lab.north.call(Listen { socket: listener }).await?.port();
    let caller = Setup::with_keys(FAMILY, End::Userspace, &[]).userspace(lab)?;
    let mut stream = caller.connect(End::Kernel.port().at(FAMILY, port)).await?;
    stream.write_all(&agent::Pattern::of(UNSIGNED).take(64)).await?;
    let end_of_data = |recording: &Recording| {
        let mut sent = recording.delivered_from(Port::Userspace);
        sent.find(|segment| !segment.payload().is_empty()).map(|segment| segment.end())
    };
    let end = lab.wire.await_recorded("what the caller sends", end_of_data).await?;
    stream.abort();
    // Linux answers a reset before the end of what it has received with a challenge, and obeys the reset that follows (RFC 5961 §3.2).
    let is_reset = |recording: &Recording| {
        let mut sent = recording.delivered_from(Port::Userspace);
        sent.any(|segment| segment.flags().rst() && segment.sequence() == end).then_some(())
    };
    lab.wire.await_recorded("the caller's reset", is_reset).await?;
    lab.take_in(Port::North).await?;
    drop(caller);
    lab.wire.take_recording();
    Ok((listener, port))
}

async fn manager(lab: &Lab) -> Result<u64> {
    let chain = chain(Port::North, &[Key::new(1, mkt()?)])?;
    lab.north.call(NewManager { peers: vec![(End::Userspace.address(FAMILY).into(), None, chain)] }).await
}

async fn hand_out_the_peers(lab: &Lab) -> Result<Evidence> {
    let (listener, port) = with_caller(lab).await?;
    let manager = manager(lab).await?;
    lab.north.call(Manage { manager, socket: listener }).await?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[mkt()?]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let connect = userspace.connect(End::Kernel.port().at(FAMILY, port));
    let accept = lab.north.call(AcceptManaged { socket: listener });
    let (stream, socket) = tokio::try_join!(connect, accept)?;
    let mut session = Session::established(lab, setup, before, userspace, stream, (socket, Some(listener)))?;
    session.exchange(SOME, SOME).await?;
    lab.north.call(Detach { socket }).await?;
    Ok(session.close().await?.with_figures("the peer's session is the first that is handed out"))
}

async fn hand_out_the_callers(lab: &Lab) -> Result<Refusal> {
    let (listener, _) = with_caller(lab).await?;
    let manager = manager(lab).await?;
    lab.north.call(Attach { manager, socket: listener, remote: None, now: 0 }).await?;
    let socket = lab.north.call(Accept { socket: listener }).await?;
    let attach = lab.north.call(Attach { manager, socket, remote: None, now: 0 }).await;
    let error = attach.err().context("the caller's connection was attached")?;
    ensure!(error.to_string().contains("ended before it was attached"), "{error:#}");
    lab.north.call(Transfer { socket, send: Amount::NONE, receive: UNSIGNED }).await?;
    lab.north.call(Detach { socket: listener }).await?;
    Ok(Refusal::of("octets of the caller", UNSIGNED.octets).and(Refusal::of("the key manager", 1)))
}

/// The network around the userspace end, which has a key of its own.
const NETWORK: &str = "192.0.2.0/24";

fn network_key() -> Result<Mkt> {
    key(9, TcpAoAlgorithm::HmacSha1)
}

/// A managed listener with the keys of the userspace end and of the network around it, and its port.
async fn with_network(lab: &Lab) -> Result<(u64, u16)> {
    let listener = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let port = lab.north.call(Listen { socket: listener }).await?.port();
    let peer = |remote, mkt| Ok((remote, None, chain(Port::North, &[Key::new(1, mkt)])?));
    let peers = [peer(End::Userspace.address(FAMILY).into(), mkt()?), peer(NETWORK.parse()?, network_key()?)];
    let peers = peers.into_iter().collect::<Result<_>>()?;
    let manager = lab.north.call(NewManager { peers }).await?;
    lab.north.call(Manage { manager, socket: listener }).await?;
    Ok((listener, port))
}

async fn ao_44_a_neighbour_calls_with_its_own_key(lab: &Lab) -> Result<Evidence> {
    let (listener, port) = with_network(lab).await?;
    let setup = Setup::with_keys(FAMILY, End::Userspace, &[mkt()?]);
    let before = lab.north.counters().await?;
    let userspace = setup.userspace(lab)?;
    let connect = userspace.connect(End::Kernel.port().at(FAMILY, port));
    let accept = lab.north.call(AcceptManaged { socket: listener });
    let (stream, socket) = tokio::try_join!(connect, accept)?;
    let mut session = Session::established(lab, setup, before, userspace, stream, (socket, Some(listener)))?;
    session.exchange(SOME, SOME).await?;
    lab.north.call(Detach { socket }).await?;
    session.close().await
}

async fn ao_44_a_neighbour_calls_with_the_networks_key(lab: &Lab) -> Result<Refusal> {
    let (listener, port) = with_network(lab).await?;
    let remote = End::Kernel.port().at(FAMILY, port);
    let call = async {
        let caller = Setup::with_keys(FAMILY, End::Userspace, &[network_key()?]).userspace(lab)?;
        let mut stream = caller.connect(remote).await?;
        ensure!(stream.read_u8().await.is_err(), "the connection was not reset");
        drop(caller);
        // The next call, with its own key, is the first that is handed out.
        let caller = Setup::with_keys(FAMILY, End::Userspace, &[mkt()?]).userspace(lab)?;
        let stream = caller.connect(remote).await?;
        Ok((caller, stream))
    };
    let accept = lab.north.call(AcceptManaged { socket: listener });
    let (socket, _second) = tokio::try_join!(accept, call)?;
    lab.north.call(Detach { socket }).await?;
    Ok(Refusal::of("TcpAoListener: connections reset", 1))
}

/// Keys on one listener.
const MANY: u8 = 200;
/// `net.core.optmem_max` in octets: enough for that many keys, and too little.
const MEMORY: u32 = 1 << 18;
const LITTLE_MEMORY: u32 = 20_480;
/// An id that no key has.
const NO_KEY: u8 = 250;

/// Calls that the kernel refuses (`guest/src/provoke.rs`).
const ERRORS: u64 = 13;

pub fn calls() -> Vec<Row> {
    vec![
        // EMSGSIZE is missing: it takes a MAC longer than 16 octets, which the API does not accept.
        Row::new(
            "errors-of-a-real-kernel",
            format!("{ERRORS} calls that the kernel refuses, each with the error that says so (AO-40)"),
            ao_40_every_errno_from_a_real_kernel,
            "the connection has no key, so that nothing can be provoked on it",
            provoke_without_key,
        ),
        Row::new(
            "choosing-a-key-keeps-the-flags",
            "current and rnext key of a live connection are changed to and fro while ao_required and accept_icmps are each on and \
             off; all four combinations stay as they were (AO-41)",
            ao_41_choosing_a_key_keeps_the_flags,
            "a key is chosen that the connection does not have: it is refused, and nothing has changed",
            choose_none,
        ),
        Row::new(
            "many-keys",
            format!(
                "{MANY} keys on a listener are all listed; they are more than the first buffer of TCP_AO_GET_KEYS holds (AO-42), \
                 and a session under the last of them is accepted with all of them"
            ),
            ao_42_more_keys_than_the_first_buffer_holds,
            format!("net.core.optmem_max is {LITTLE_MEMORY}: the kernel has no room for them"),
            list_too_many,
        ),
    ]
}

fn two_keys() -> Result<Vec<Mkt>> {
    Ok(vec![key(1, TcpAoAlgorithm::Aes128Cmac)?, key(2, TcpAoAlgorithm::HmacSha1)?])
}

async fn ao_40_every_errno_from_a_real_kernel(lab: &Lab) -> Result<Evidence> {
    let mkts = [key(1, TcpAoAlgorithm::Aes128Cmac)?];
    let mut kernels = Kernels::open(lab, FAMILY, &mkts).await?;
    let errors = lab.north.call(ProvokeErrors { connection: kernels.north }).await?;
    ensure!(errors == ERRORS, "{errors} errors");
    // The connection still works.
    kernels.exchange(SOME, SOME).await?;
    Ok(kernels.close(true).await?.with_figures(format!("{errors} errors")))
}

async fn provoke_without_key(lab: &Lab) -> Result<Refusal> {
    let kernels = Kernels::open(lab, FAMILY, &[]).await?;
    let refused = lab.north.call(ProvokeErrors { connection: kernels.north }).await;
    let has_no_key = matches!(&refused, Err(error) if error.to_string().contains("has 0 keys"));
    ensure!(has_no_key, "on a connection without keys: {refused:?}");
    Ok(Refusal::of("north: keys missing", 1))
}

async fn ao_41_choosing_a_key_keeps_the_flags(lab: &Lab) -> Result<Evidence> {
    let mkts = two_keys()?;
    let mut kernels = Kernels::open(lab, FAMILY, &mkts).await?;
    let socket = kernels.north;
    let mut changes = 0;
    for (required, accept_icmps) in [(false, false), (true, false), (false, true), (true, true)] {
        lab.north
            .call(SetFlags { socket, required: Some(required), accept_icmps: Some(accept_icmps) })
            .await?;
        for mkt in mkts.iter().rev() {
            let (current, rnext) = (mkt.recv_id().0, mkt.send_id().0);
            for (current, rnext) in [(Some(current), None), (None, Some(rnext)), (Some(current), Some(rnext))]
            {
                lab.north.call(SetKeys { socket, current, rnext }).await?;
                changes += 1;
                let [info, _] = kernels.info().await?;
                let is_as_asked = current.is_none_or(|id| info.current_key == Some(id))
                    && rnext.is_none_or(|id| info.rnext_key == Some(id));
                ensure!(
                    is_as_asked && (info.required, info.accept_icmps) == (required, accept_icmps),
                    "set {current:?} and {rnext:?} with {required} and {accept_icmps}, got {info:?}"
                );
            }
            kernels.exchange(SOME, SOME).await?;
        }
    }
    Ok(kernels.close(true).await?.with_figures(format!("{changes} changes of keys")))
}

async fn choose_none(lab: &Lab) -> Result<Refusal> {
    let mkts = two_keys()?;
    let mut kernels = Kernels::open(lab, FAMILY, &mkts).await?;
    let socket = kernels.north;
    lab.north.call(SetFlags { socket, required: Some(true), accept_icmps: Some(true) }).await?;
    kernels.exchange(SOME, SOME).await?;
    kernels.quiet().await?;
    let [before, _] = kernels.info().await?;
    let mut refused = 0;
    for (current, rnext) in [(Some(NO_KEY), None), (None, Some(NO_KEY)), (Some(NO_KEY), Some(NO_KEY))] {
        refused += u64::from(lab.north.call(SetKeys { socket, current, rnext }).await.is_err());
    }
    let [after, _] = kernels.info().await?;
    let is_same = |SocketInfo { current_key, rnext_key, required, accept_icmps, .. }: &SocketInfo| {
        (*current_key, *rnext_key, *required, *accept_icmps)
            == (before.current_key, before.rnext_key, before.required, before.accept_icmps)
    };
    ensure!(refused == 3 && is_same(&after), "{refused} refused; {before:?} became {after:?}");
    Ok(Refusal::of("north: no such key", refused))
}

fn numbered(id: u8) -> Result<Mkt> {
    Ok(Mkt::new(KeyId(id), KeyId(id), TcpAoAlgorithm::Aes128Cmac, MasterKey::new(&[id; 16])?)?)
}

/// Sets north's `net.core.optmem_max`; returns what it was.
pub async fn set_memory(lab: &Lab, octets: u32) -> Result<u32> {
    let line = format!("sysctl -n net.core.optmem_max && sysctl -q -w net.core.optmem_max={octets}");
    Ok(lab.north.shell(&line).await?.trim().parse()?)
}

async fn ao_42_more_keys_than_the_first_buffer_holds(lab: &Lab) -> Result<Evidence> {
    let before = set_memory(lab, MEMORY).await?;
    let evidence = list(lab).await;
    set_memory(lab, before).await?;
    evidence
}

async fn list(lab: &Lab) -> Result<Evidence> {
    let mkts = (1..=MANY).map(numbered).collect::<Result<Vec<_>, _>>()?;
    let last = mkts.last().cloned().context("there are no keys")?;
    let listener = open_socket(&lab.north, FAMILY, 0, north_keys(FAMILY, &mkts)?).await?;
    lab.north.call(Listen { socket: listener }).await?;
    let on_listener = ids(&lab.north.call(ListKeys { socket: listener }).await?);
    let south =
        open_socket(lab.south().await?, FAMILY, 0, south_keys(FAMILY, std::slice::from_ref(&last))?).await?;
    let mut kernels = Kernels::connect(lab, FAMILY, &[last], (listener, south)).await?;
    let on_connection = ids(&lab.north.call(ListKeys { socket: kernels.north }).await?);
    let all: Vec<u8> = (1..=MANY).collect();
    ensure!(
        on_listener == all && on_connection == all,
        "the listener has {on_listener:?}, the connection {on_connection:?}"
    );
    kernels.exchange(SOME, SOME).await?;
    Ok(kernels.close(true).await?.with_figures(format!(
        "{} keys on the listener, {} on the connection",
        on_listener.len(),
        on_connection.len()
    )))
}

async fn list_too_many(lab: &Lab) -> Result<Refusal> {
    let before = set_memory(lab, LITTLE_MEMORY).await?;
    let socket = open_socket(&lab.north, FAMILY, 0, Vec::new()).await?;
    let mut refused = 0;
    let mut last = String::new();
    for id in 1..=MANY {
        let keys = north_keys(FAMILY, &[numbered(id)?])?;
        if let Err(failure) = lab.north.call(AddKeys { socket, keys }).await {
            refused += 1;
            last = failure.to_string();
        }
    }
    let listed = lab.north.call(ListKeys { socket }).await?.len() as u64;
    set_memory(lab, before).await?;
    ensure!(
        listed + refused == u64::from(MANY) && last.contains("optmem_max"),
        "{listed} keys listed, {refused} refused: {last}"
    );
    Ok(Refusal::of("north: no memory for a key", refused))
}

/// The SendIDs, in order.
fn ids(keys: &[(u8, Option<u32>)]) -> Vec<u8> {
    let mut ids: Vec<u8> = keys.iter().map(|key| key.0).collect();
    ids.sort_unstable();
    ids
}
