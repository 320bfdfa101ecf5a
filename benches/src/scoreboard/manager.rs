//! Many peers: the key manager of `wireseal-linux` without a kernel, and the shim, which needs none.

use std::hint::black_box;

use wireseal_algorithms::TcpAoAlgorithm;
use wireseal_benches::Contender;
use wireseal_benches::shim::{client, host, open};
use wireseal_benches::tcp_ao::mkt;
use wireseal_keys::{Key, KeyChain, Lifetime, Timestamp};
use wireseal_linux::{KeyManager, PeerName};
use wireseal_tcp_ao::{MktSet, Peer};

use crate::Result;
use crate::table::{Cell, Table};
use crate::timing::{Effort, alternate};

const ALGORITHM: TcpAoAlgorithm = TcpAoAlgorithm::Aes128Cmac;

/// Few and many peers.
const PEERS: [u32; 2] = [100, 10_000];

/// How much longer one peer may take with many peers than with few. Many do not fit in the caches.
const GOAL: f64 = 2.0;

/// When the preferred key of every chain changes.
const CHANGE: i64 = 1_000_000_000;

/// The row's name, the number of peers that one run covers, and the operation.
type Row = (&'static str, fn(u32) -> u32, fn(u32) -> Result<Contender>);

const ROWS: [Row; 5] = [
    ("key manager: a step without sockets; each peer", |peers| peers, step),
    ("key manager: is a step due? no", |_| 1, due),
    ("key manager: a peer is added and removed", |_| 1, add),
    ("shim: every peer, with a connection, gets its next key; each peer", |peers| peers, roll),
    ("shim: a peer is added and removed", |_| 1, add_to_shim),
];

pub(crate) fn table(effort: Effort) -> Result<Table> {
    let columns = ["what", "100 peers", "10,000 peers", "ratio", "goal", "mark"];
    let mut table = Table::new("manager", "Keys of many peers: nanoseconds", columns);
    for (what, of, contender) in ROWS {
        let mut contenders = [contender(PEERS[0])?, contender(PEERS[1])?];
        let times = alternate(effort, &mut contenders);
        let [few, many] = [0, 1].map(|index| times[index] / f64::from(of(PEERS[index])));
        table.rows.push(vec![
            Cell::text(what),
            Cell::ns(few),
            Cell::ns(many),
            Cell::ratio(many / few),
            Cell::ratio(GOAL),
            effort.mark(many / few <= GOAL),
        ]);
    }
    table.reading = "Lower is better. The key manager has no sockets here, because that needs a kernel with TCP-AO, so its steps \
                     change no keys; the lab's table of system calls is in results/emulated. A goal is missed if a peer among \
                     10,000 takes more than twice what it takes among 100."
        .to_owned();
    Ok(table)
}

/// A chain of two keys, of which the second is preferred from [`CHANGE`] on.
fn chain() -> Result<KeyChain> {
    let [before, after] = [-100, 100].map(|by| Timestamp::from_unix_seconds(CHANGE + by));
    let change = Timestamp::from_unix_seconds(CHANGE);
    let key = |id: u8, send: Lifetime, accept: Lifetime| {
        Key::new(id.into(), mkt(ALGORITHM, id)).with_lifetimes(send, accept)
    };
    let first = key(1, Lifetime::new(None, Some(change))?, Lifetime::new(None, Some(after))?)?;
    let second = key(2, Lifetime::starting(change), Lifetime::starting(before))?;
    Ok(KeyChain::new("measured", vec![first, second])?)
}

fn peer(number: u32) -> PeerName {
    PeerName::new(std::net::IpAddr::from(client(number)).into())
}

fn manager(peers: u32) -> Result<KeyManager> {
    let (manager, chain) = (KeyManager::default(), chain()?);
    manager.set_peers((0..peers).map(|number| (peer(number), chain.clone())))?;
    Ok(manager)
}

fn step(peers: u32) -> Result<Contender> {
    let (manager, now) = (manager(peers)?, Timestamp::from_unix_seconds(CHANGE - 500));
    Ok(Contender::new("wireseal", move || {
        assert!(manager.step(now).expired.is_empty(), "each chain has a key");
    }))
}

fn due(peers: u32) -> Result<Contender> {
    let (manager, now) = (manager(peers)?, Timestamp::from_unix_seconds(CHANGE - 500));
    drop(manager.step(now));
    Ok(Contender::new("wireseal", move || {
        assert!(manager.step_due(black_box(now)).is_none(), "nothing is due");
    }))
}

fn add(peers: u32) -> Result<Contender> {
    let (manager, chain, new) = (manager(peers)?, chain()?, peer(peers));
    Ok(Contender::new("wireseal", move || {
        manager.set_peer(new, chain.clone()).expect("no ids in each other's way");
        assert!(manager.remove_peer(new).is_some(), "it was added");
    }))
}

fn roll(peers: u32) -> Result<Contender> {
    let [mut clients, mut server] = [true, false].map(|is_client| host(ALGORITHM, peers, is_client));
    if !(0..peers).all(|number| open(&mut clients, &mut server, number)) {
        return Err("a connection does not open".into());
    }
    // One key is removed, and one is added.
    let sets = [[1, 2], [2, 3]].map(|ids| MktSet::from_mkts(ids.map(|id| mkt(ALGORITHM, id))));
    let [first, second] = sets;
    let mut sets = [first?, second?];
    Ok(Contender::new("wireseal", move || {
        sets.reverse();
        for index in 0..peers as usize {
            server.set_mkts(index, sets[0].clone()).expect("no ids in each other's way");
        }
    }))
}

fn add_to_shim(peers: u32) -> Result<Contender> {
    let mut server = host(ALGORITHM, peers + 1, false);
    let last = peers as usize;
    Ok(Contender::new("wireseal", move || {
        let Peer { connections, mkts } = server.remove_peer(last).expect("the last peer");
        assert_eq!(server.add_peer(Peer { connections, mkts }), Ok(last));
    }))
}
