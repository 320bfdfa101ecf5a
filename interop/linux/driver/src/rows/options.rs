//! What the kernel refuses on sockets that are closed or listen, call by call; where `wireseal-linux` would not make the call, as the guest's
//! [`CallOption`].

use std::net::IpAddr;

use agent::AoCall::{self, AddKey, DeleteKey, GetInfo, GetKeys, SetInfo};
use agent::Field::{self, *};
use agent::{Buffer, CallOption, Called, Close, Listen, SetMd5Key};

use crate::row::prelude::*;
use crate::rows::kernels::open_socket;
use crate::rows::session::End;

const DONE: i32 = 0;
const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const EFAULT: i32 = 14;
const EINVAL: i32 = 22;
const EMSGSIZE: i32 = 90;
const EKEYREJECTED: i32 = 129;

/// The ids of every key, unless a case says otherwise.
const ID: u64 = 100;
const ADDRESS_FAMILY_UNIX: u64 = 1;
/// The name of no algorithm.
const IMAGINED: u64 = u64::from_le_bytes(*b"imagined");
/// `TCP_AO_KEYF_IFINDEX`, and flags that do not exist.
const WITH_INTERFACE: u64 = 1;
const BAD_FLAGS: u64 = 0xff;
/// An interface index that nothing has.
const NO_INTERFACE: u64 = 4000;
/// `struct tcp_ao_add` from its secret on; the last field of `struct tcp_ao_del`, and of `struct tcp_ao_info_opt`.
const SECRET: u32 = 80;
const LAST_OCTET: u32 = 1;
const LAST_COUNTER: u32 = 8;

/// The address in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Remote {
    Peer,
    /// One that no key is for.
    Other,
    /// All zeros.
    Any,
}

/// What the socket has besides what the call needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beside {
    Nothing,
    /// Another key, with ids 0.
    Key,
    /// A TCP-MD5 key for another peer.
    Md5Key,
    /// Not even what the call needs.
    NoKey,
}

/// A call and its errno. Only its faults are listed; without them the call succeeds.
#[derive(Clone, Copy, Debug)]
struct Case {
    what: &'static str,
    call: AoCall,
    fields: &'static [(Field, u64)],
    errno: i32,
    /// The errno of Linux 6.18, if it is another.
    older: Option<i32>,
    remote: Option<Remote>,
    listens: bool,
    beside: Beside,
    buffer: Buffer,
}

const fn case(what: &'static str, call: AoCall, fields: &'static [(Field, u64)], errno: i32) -> Case {
    let beside = Beside::Nothing;
    Case { what, call, fields, errno, older: None, remote: None, listens: false, beside, buffer: Buffer::Own }
}

impl Case {
    const fn but_older(self, errno: i32) -> Self {
        Self { older: Some(errno), ..self }
    }

    const fn to(self, remote: Remote) -> Self {
        Self { remote: Some(remote), ..self }
    }

    const fn on_listener(self) -> Self {
        Self { listens: true, ..self }
    }

    const fn beside(self, beside: Beside) -> Self {
        Self { beside, ..self }
    }

    const fn within(self, buffer: Buffer) -> Self {
        Self { buffer, ..self }
    }
}

const ADDING: &[Case] = &[
    case("a secret of 81 octets", AddKey, &[(KeyLength, 81)], EINVAL),
    case("an unused bit", AddKey, &[(Reserved, 1)], EINVAL),
    case("the unused octets", AddKey, &[(Reserved2, 1)], EINVAL),
    case("an address of no IP", AddKey, &[(AddressFamily, ADDRESS_FAMILY_UNIX)], EINVAL),
    case("a port", AddKey, &[(Port, 1234)], EINVAL),
    case("an address without a prefix", AddKey, &[(Prefix, 0)], EINVAL),
    case("all addresses", AddKey, &[(Prefix, 0)], DONE).to(Remote::Any),
    case("a prefix without an address", AddKey, &[(Prefix, 32)], EINVAL).to(Remote::Any),
    case("a prefix of 129 bits", AddKey, &[(Prefix, 129)], EINVAL),
    case("a prefix shorter than the address", AddKey, &[(Prefix, 2)], EINVAL),
    case("flags that do not exist", AddKey, &[(KeyFlags, BAD_FLAGS)], EINVAL),
    case("a current key of a listener", AddKey, &[(IsCurrent, 1)], EINVAL).on_listener(),
    case("an rnext key of a listener", AddKey, &[(IsRnext, 1)], EINVAL).on_listener(),
    case("both of a listener", AddKey, &[(IsCurrent, 1), (IsRnext, 1)], EINVAL).on_listener(),
    case("a key of a listener", AddKey, &[], DONE).on_listener(),
    case("a current key", AddKey, &[(IsCurrent, 1)], DONE),
    case("an rnext key", AddKey, &[(IsRnext, 1)], DONE),
    case("both", AddKey, &[(IsCurrent, 1), (IsRnext, 1)], DONE),
    case("an interface without its flag", AddKey, &[(Interface, 42)], EINVAL),
    case(
        "a VRF that does not exist",
        AddKey,
        &[(KeyFlags, WITH_INTERFACE), (Interface, NO_INTERFACE)],
        EINVAL,
    ),
    case("no VRF", AddKey, &[(KeyFlags, WITH_INTERFACE)], DONE),
    case("a MAC of 100 octets", AddKey, &[(MacLength, 100)], EMSGSIZE),
    case("a MAC of 17 octets", AddKey, &[(MacLength, 17)], EMSGSIZE),
    case("a MAC of an octet", AddKey, &[(MacLength, 1)], DONE),
    case("an algorithm that does not exist", AddKey, &[(Algorithm, IMAGINED)], ENOENT),
];

const DELETING: &[Case] = &[
    case("the key", DeleteKey, &[], DONE),
    case("an unused bit", DeleteKey, &[(Reserved, 1)], EINVAL),
    case("the unused octets", DeleteKey, &[(Reserved2, 1)], EINVAL),
    case("a current key of a listener", DeleteKey, &[(IsCurrent, 1)], EINVAL)
        .on_listener()
        .beside(Beside::Key),
    case("an rnext key of a listener", DeleteKey, &[(IsRnext, 1)], EINVAL).on_listener().beside(Beside::Key),
    case("both of a listener", DeleteKey, &[(IsCurrent, 1), (IsRnext, 1)], EINVAL)
        .on_listener()
        .beside(Beside::Key),
    case("a listener's key", DeleteKey, &[], DONE).on_listener(),
    case("a listener's key, without waiting", DeleteKey, &[(Async, 1)], DONE).on_listener(),
    case("without waiting", DeleteKey, &[(Async, 1)], EINVAL),
    case("flags that do not exist", DeleteKey, &[(KeyFlags, BAD_FLAGS)], EINVAL),
    case("an interface without its flag", DeleteKey, &[(Interface, 42)], EINVAL),
    case(
        "a VRF that does not exist",
        DeleteKey,
        &[(KeyFlags, WITH_INTERFACE), (Interface, NO_INTERFACE)],
        ENOENT,
    ),
    case("a current key that is missing", DeleteKey, &[(IsCurrent, 1)], ENOENT),
    case("an rnext key that is missing", DeleteKey, &[(IsRnext, 1)], ENOENT),
    case("both are missing", DeleteKey, &[(IsCurrent, 1), (IsRnext, 1)], ENOENT),
    case("a current key", DeleteKey, &[(IsCurrent, 1)], DONE).beside(Beside::Key),
    case("an rnext key", DeleteKey, &[(IsRnext, 1)], DONE).beside(Beside::Key),
    case("both", DeleteKey, &[(IsCurrent, 1), (IsRnext, 1)], DONE).beside(Beside::Key),
    case("itself as the current key", DeleteKey, &[(IsCurrent, 1), (Current, ID)], ENOENT),
    case("itself as the rnext key", DeleteKey, &[(IsRnext, 1), (Rnext, ID)], ENOENT),
    case("another SendID", DeleteKey, &[(SendId, ID + 1)], ENOENT),
    case("another RecvID", DeleteKey, &[(RecvId, ID + 1)], ENOENT),
    case("another address", DeleteKey, &[], ENOENT).to(Remote::Other),
];

const INFO: &[Case] = &[
    case("nothing", SetInfo, &[], DONE),
    case("a current key of a listener", SetInfo, &[(IsCurrent, 1), (Current, ID)], EINVAL).on_listener(),
    case("an rnext key of a listener", SetInfo, &[(IsRnext, 1), (Rnext, ID)], EINVAL).on_listener(),
    case("both of a listener", SetInfo, &[(IsCurrent, 1), (Current, ID), (IsRnext, 1), (Rnext, ID)], EINVAL)
        .on_listener(),
    case("an unused bit", SetInfo, &[(Reserved, 1)], EINVAL),
    case("the unused octets", SetInfo, &[(Reserved2, 1)], EINVAL),
    case("accept_icmps", SetInfo, &[(AcceptIcmps, 1)], DONE),
    case("ao_required", SetInfo, &[(Required, 1)], DONE),
    case("ao_required beside a TCP-MD5 key", SetInfo, &[(Required, 1)], EKEYREJECTED).beside(Beside::Md5Key),
    case("a current key that is missing", SetInfo, &[(IsCurrent, 1)], ENOENT),
    case("an rnext key that is missing", SetInfo, &[(IsRnext, 1)], ENOENT),
    case("both are missing", SetInfo, &[(IsCurrent, 1), (IsRnext, 1)], ENOENT),
    case("a current key", SetInfo, &[(IsCurrent, 1), (Current, ID)], DONE),
    case("an rnext key", SetInfo, &[(IsRnext, 1), (Rnext, ID)], DONE),
    case("both", SetInfo, &[(IsCurrent, 1), (Current, ID), (IsRnext, 1), (Rnext, ID)], DONE),
    case("counters", SetInfo, &[(SetCounters, 1), (Good, 321), (Bad, 888)], DONE),
    case("got without TCP-AO", GetInfo, &[], ENOENT).beside(Beside::NoKey),
];

/// Without a fault, all keys are asked for.
const GETTING: &[Case] = &[
    case("without TCP-AO", GetKeys, &[], ENOENT).beside(Beside::NoKey),
    case("all", GetKeys, &[], DONE),
    case("a counter", GetKeys, &[(Good, 643)], EINVAL),
    case("the other counter", GetKeys, &[(Bad, 94)], EINVAL),
    case("flags that do not exist", GetKeys, &[(KeyFlags, BAD_FLAGS)], EINVAL),
    case("an interface without its flag", GetKeys, &[(Interface, 42)], EINVAL),
    case("an unused bit", GetKeys, &[(Reserved, 1)], EINVAL),
    case("an address without a prefix", GetKeys, &[(GetAll, 0), (Prefix, 0)], EINVAL).to(Remote::Peer),
    case("all addresses", GetKeys, &[(GetAll, 0)], DONE).to(Remote::Any),
    case("a prefix without an address", GetKeys, &[(GetAll, 0), (Prefix, 32)], EINVAL).to(Remote::Any),
    case("a prefix of 129 bits", GetKeys, &[(GetAll, 0), (Prefix, 129)], EINVAL).to(Remote::Peer),
    case("a prefix shorter than the address", GetKeys, &[(GetAll, 0), (Prefix, 2)], EINVAL).to(Remote::Peer),
    case("all with a prefix", GetKeys, &[(Prefix, 32)], EINVAL),
    case("all with an address", GetKeys, &[], EINVAL).to(Remote::Peer),
    case("all with a SendID", GetKeys, &[(SendId, 1)], EINVAL),
    case("all with a RecvID", GetKeys, &[(RecvId, 1)], EINVAL),
    case("the current key with a prefix", GetKeys, &[(GetAll, 0), (IsCurrent, 1), (Prefix, 32)], EINVAL),
    case("the current key with an address", GetKeys, &[(GetAll, 0), (IsCurrent, 1)], EINVAL).to(Remote::Peer),
    case("the current key with a SendID", GetKeys, &[(GetAll, 0), (IsCurrent, 1), (SendId, 1)], EINVAL),
    case("the current key with a RecvID", GetKeys, &[(GetAll, 0), (IsCurrent, 1), (RecvId, 1)], EINVAL),
    case("the rnext key with a prefix", GetKeys, &[(GetAll, 0), (IsRnext, 1), (Prefix, 32)], EINVAL),
    case("the rnext key with an address", GetKeys, &[(GetAll, 0), (IsRnext, 1)], EINVAL).to(Remote::Peer),
    case("the rnext key with a SendID", GetKeys, &[(GetAll, 0), (IsRnext, 1), (SendId, 1)], EINVAL),
    case("the rnext key with a RecvID", GetKeys, &[(GetAll, 0), (IsRnext, 1), (RecvId, 1)], EINVAL),
    case("all and the current key", GetKeys, &[(IsCurrent, 1)], EINVAL),
    case("all and the rnext key", GetKeys, &[(IsRnext, 1)], EINVAL),
    case("current and rnext key", GetKeys, &[(GetAll, 0), (IsCurrent, 1), (IsRnext, 1)], DONE),
];

/// Structs of an older program, which are shorter, and of a newer one, which are longer. Linux 6.18 looks only at the octets that it knows.
const SIZES: &[Case] = &[
    case("without a secret", AddKey, &[], EINVAL).within(Buffer::Cut(SECRET)),
    case("grown", AddKey, &[], DONE).within(Buffer::Grown(0)),
    case("grown, and used", AddKey, &[], E2BIG).within(Buffer::Grown(1)).but_older(DONE),
    case("a null pointer", AddKey, &[], EFAULT).within(Buffer::Null),
    case("without the last field", DeleteKey, &[], EINVAL).within(Buffer::Cut(LAST_OCTET)),
    case("grown", DeleteKey, &[], DONE).within(Buffer::Grown(0)),
    case("grown, and used", DeleteKey, &[], E2BIG).within(Buffer::Grown(1)).but_older(DONE),
    case("a null pointer", DeleteKey, &[], EFAULT).within(Buffer::Null),
    case("without the last counter", SetInfo, &[], EINVAL).within(Buffer::Cut(LAST_COUNTER)),
    case("grown", SetInfo, &[], DONE).within(Buffer::Grown(0)),
    case("grown, and used", SetInfo, &[], E2BIG).within(Buffer::Grown(1)).but_older(DONE),
    case("a null pointer", SetInfo, &[], EFAULT).within(Buffer::Null),
    case("a negative length", GetInfo, &[], EINVAL).within(Buffer::NegativeLength),
    case("grown", GetInfo, &[], DONE).within(Buffer::Grown(0)),
    case("a null pointer", GetInfo, &[], EFAULT).within(Buffer::Null),
    case("a null pointer to the length", GetInfo, &[], EFAULT).within(Buffer::NullLength),
    case("a negative length", GetKeys, &[], EINVAL).within(Buffer::NegativeLength),
    case("grown", GetKeys, &[], DONE).within(Buffer::Grown(0)),
    case("a null pointer", GetKeys, &[], EFAULT).within(Buffer::Null),
    case("a null pointer to the length", GetKeys, &[], EFAULT).within(Buffer::NullLength),
];

pub fn rows() -> Vec<Row> {
    let row = |name: &str, what: &str, cases: &'static [Case]| {
        Row::new(
            format!("options-{name}"),
            format!(
                "{} calls of {what}, over both versions of IP: each fault has its errno, and what is allowed is done",
                cases.len()
            ),
            async move |lab| make_all(lab, cases).await,
            "the same calls without their faults: all are done",
            async move |lab| make_without_faults(lab, cases).await,
        )
    };
    vec![
        row("add-key", "TCP_AO_ADD_KEY on closed and listening sockets", ADDING),
        row("delete-key", "TCP_AO_DEL_KEY on closed and listening sockets", DELETING),
        row("info", "TCP_AO_INFO on closed and listening sockets", INFO),
        row("get-keys", "TCP_AO_GET_KEYS with filters that exclude each other", GETTING),
        row("sizes", "all four options with structs that are shorter or longer than the kernel's", SIZES),
        Row::new(
            "options-filters",
            "TCP_AO_GET_KEYS with each filter, over both versions of IP: by address, network and ids, current and rnext key, and with too \
             little room",
            filter_all,
            "filters that match no key: none is found",
            filter_nothing,
        ),
    ]
}

const OTHERS: [&str; 2] = ["198.51.100.1", "2001:db8:1::1"];

impl Remote {
    fn address(self, family: Family) -> Result<IpAddr> {
        Ok(match self {
            Self::Peer => End::Userspace.address(family),
            Self::Other => OTHERS[usize::from(family == Family::Ipv6)].parse()?,
            Self::Any => family.any(0).ip(),
        })
    }
}

/// Makes a call on a socket of the guest's.
async fn make(
    lab: &Lab,
    socket: u64,
    call: AoCall,
    remote: Option<IpAddr>,
    fields: Vec<(Field, u64)>,
    buffer: Buffer,
) -> Result<Called> {
    lab.north.call(CallOption { socket, call, remote, fields, buffer }).await
}

/// Adds a key for the peer, or for this address, without `wireseal-linux`.
async fn add(lab: &Lab, socket: u64, family: Family, remote: IpAddr, more: &[(Field, u64)]) -> Result<()> {
    let fields = [&[(Prefix, bits(family)), (SendId, ID), (RecvId, ID), (KeyLength, 16)], more].concat();
    let called = make(lab, socket, AddKey, Some(remote), fields, Buffer::Own).await?;
    ensure!(called.errno == DONE, "a key for {remote} was refused with errno {}", called.errno);
    Ok(())
}

const fn bits(family: Family) -> u64 {
    match family {
        Family::Ipv4 => 32,
        Family::Ipv6 => 128,
    }
}

/// Makes a case's call on a socket of its own, perhaps without the faults; returns its errno.
async fn attempt(lab: &Lab, family: Family, case: &Case, is_faulty: bool) -> Result<i32> {
    let beside = if is_faulty || case.beside == Beside::Key { case.beside } else { Beside::Nothing };
    let peer = Remote::Peer.address(family)?;
    let socket = open_socket(&lab.north, family, 0, Vec::new()).await?;
    if case.call != AddKey && beside != Beside::NoKey {
        add(lab, socket, family, peer, &[]).await?;
    }
    match beside {
        Beside::Key => add(lab, socket, family, peer, &[(SendId, 0), (RecvId, 0)]).await?,
        Beside::Md5Key => {
            let remote = Remote::Other.address(family)?.into();
            let secret = "a TCP-MD5 key".to_owned();
            lab.north.call(SetMd5Key { socket, remote, vrf: None, secret }).await?;
        }
        Beside::Nothing | Beside::NoKey => {}
    }
    if is_faulty && case.listens {
        lab.north.call(Listen { socket }).await?;
    }
    let (mut fields, default) = match case.call {
        AddKey => {
            (vec![(Prefix, bits(family)), (SendId, ID), (RecvId, ID), (KeyLength, 16)], Some(Remote::Peer))
        }
        DeleteKey => (vec![(Prefix, bits(family)), (SendId, ID), (RecvId, ID)], Some(Remote::Peer)),
        GetKeys => (vec![(GetAll, 1), (Room, 1)], None),
        SetInfo | GetInfo => (Vec::new(), None),
    };
    let mut remote = default;
    let mut buffer = Buffer::Own;
    if is_faulty {
        fields.extend(case.fields);
        remote = case.remote.or(default);
        buffer = case.buffer;
    }
    let remote = remote.map(|remote| remote.address(family)).transpose()?;
    let called = make(lab, socket, case.call, remote, fields, buffer).await?;
    lab.north.call(Close { socket }).await?;
    Ok(called.errno)
}

async fn make_all(lab: &Lab, cases: &[Case]) -> Result<Evidence> {
    let (mut refused, mut as_older) = (0, 0);
    let mut wrong = Vec::new();
    for family in Family::ALL {
        for case in cases {
            let errno = attempt(lab, family, case, true).await?;
            let is_as_older = Some(errno) == case.older;
            as_older += u64::from(is_as_older);
            if errno != case.errno && !is_as_older {
                wrong.push(format!(
                    "{:?}, {} ({family}): errno {errno} instead of {}",
                    case.call, case.what, case.errno
                ));
            }
            refused += u64::from(errno != DONE);
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    let done = 2 * cases.len() as u64 - refused;
    let mut figures = format!("{refused} refused, {done} done");
    if as_older > 0 {
        figures += &format!(", {as_older} of them as by Linux 6.18");
    }
    Ok(Evidence::default().with_figures(figures))
}

async fn make_without_faults(lab: &Lab, cases: &[Case]) -> Result<Refusal> {
    let mut done = 0;
    for family in Family::ALL {
        for case in cases {
            let errno = attempt(lab, family, case, false).await?;
            ensure!(
                errno == DONE,
                "{:?}, {} ({family}) without its fault: errno {errno}",
                case.call,
                case.what
            );
            done += 1;
        }
    }
    Ok(Refusal::of("done", done))
}

/// A question, and the SendIDs of the answer. The address is the peer's, unless the question is for all addresses.
type Question = (&'static str, Option<Remote>, Vec<(Field, u64)>, &'static [u8]);

/// The keys on the socket that is asked about: two for the peer, of which the second is the current and the first the rnext key; one for
/// another address with ids of the first; one for all addresses.
async fn open_with_keys(lab: &Lab, family: Family) -> Result<u64> {
    let peer = Remote::Peer.address(family)?;
    let socket = open_socket(&lab.north, family, 0, Vec::new()).await?;
    add(lab, socket, family, peer, &[(SendId, 1), (RecvId, 11), (IsRnext, 1)]).await?;
    add(lab, socket, family, peer, &[(SendId, 2), (RecvId, 12), (IsCurrent, 1)]).await?;
    add(lab, socket, family, Remote::Other.address(family)?, &[(SendId, 1), (RecvId, 11)]).await?;
    let any = Remote::Any.address(family)?;
    add(lab, socket, family, any, &[(SendId, 3), (RecvId, 13), (Prefix, 0)]).await?;
    Ok(socket)
}

fn questions(family: Family) -> Vec<Question> {
    let room = (Room, 8);
    let one = (Prefix, bits(family));
    let peer = Some(Remote::Peer);
    vec![
        ("all", None, vec![room, (GetAll, 1)], &[1, 1, 2, 3]),
        ("the current key", None, vec![room, (IsCurrent, 1)], &[2]),
        ("the rnext key", None, vec![room, (IsRnext, 1)], &[1]),
        ("both", None, vec![room, (IsCurrent, 1), (IsRnext, 1)], &[1, 2]),
        ("the peer's first", peer, vec![room, one, (SendId, 1), (RecvId, 11)], &[1]),
        ("the peer's second", peer, vec![room, one, (SendId, 2), (RecvId, 12)], &[2]),
        ("another's", Some(Remote::Other), vec![room, one, (SendId, 1), (RecvId, 11)], &[1]),
        ("of all addresses", Some(Remote::Any), vec![room, (SendId, 3), (RecvId, 13)], &[3]),
    ]
}

async fn ask(
    lab: &Lab,
    socket: u64,
    family: Family,
    remote: Option<Remote>,
    fields: Vec<(Field, u64)>,
) -> Result<Called> {
    let remote = remote.map(|remote| remote.address(family)).transpose()?;
    let called = make(lab, socket, GetKeys, remote, fields, Buffer::Own).await?;
    ensure!(called.errno == DONE, "errno {}", called.errno);
    Ok(called)
}

async fn filter_all(lab: &Lab) -> Result<Evidence> {
    let mut asked = 0;
    for family in Family::ALL {
        let socket = open_with_keys(lab, family).await?;
        for (what, remote, fields, wanted) in questions(family) {
            let called = ask(lab, socket, family, remote, fields).await.with_context(|| what)?;
            let mut ids: Vec<u8> = called.keys.iter().map(|key| key.0).collect();
            ids.sort_unstable();
            ensure!(
                ids == wanted && called.found as usize == ids.len(),
                "{what} ({family}): {called:?} instead of {wanted:?}"
            );
            asked += 1;
        }
        // Without room for all, the kernel says how many there are.
        let called = ask(lab, socket, family, None, vec![(Room, 2), (GetAll, 1)]).await?;
        ensure!((called.keys.len(), called.found) == (2, 4), "with room for 2: {called:?}");
        asked += 1;
    }
    Ok(Evidence::default().with_figures(format!("{asked} questions")))
}

async fn filter_nothing(lab: &Lab) -> Result<Refusal> {
    let mut unanswered = 0;
    for family in Family::ALL {
        let room = (Room, 8);
        let one = (Prefix, bits(family));
        let socket = open_with_keys(lab, family).await?;
        let peer = Some(Remote::Peer);
        let questions = [
            ("ids of two keys", peer, vec![room, one, (SendId, 1), (RecvId, 12)]),
            ("another's ids", Some(Remote::Other), vec![room, one, (SendId, 2), (RecvId, 12)]),
            ("the network's ids", peer, vec![room, one, (SendId, 3), (RecvId, 14)]),
        ];
        for (what, remote, fields) in questions {
            let called = ask(lab, socket, family, remote, fields).await.with_context(|| what)?;
            ensure!((called.found, called.keys.len()) == (0, 0), "{what} ({family}): {called:?}");
            unanswered += 1;
        }
        // A socket without either.
        let socket = open_socket(&lab.north, family, 0, Vec::new()).await?;
        add(lab, socket, family, Remote::Peer.address(family)?, &[]).await?;
        let called = ask(lab, socket, family, None, vec![room, (IsCurrent, 1), (IsRnext, 1)]).await?;
        ensure!(called.found == 0, "neither current nor rnext key ({family}): {called:?}");
        unanswered += 1;
    }
    Ok(Refusal::of("no key found", unanswered))
}
