//! What every function returns, and its text.

use core::ffi::{CStr, c_char};

/// The result of a call. Later versions of the library may add numbers, and change none.
///
/// 1 to 39: a mistake of the caller, or a limit. 40 to 59: a received segment is at fault. 60 to 99: a mistake of the caller with a segment or
/// a connection. 100 to 139: QUIC and AEADs. 140 on: Linux, peers of a manager, and key files.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum wireseal_status {
    /// It worked.
    Ok = 0,
    /// A pointer is null, but must not be.
    NullPointer = 1,
    /// Memory for a handle, or a buffer for a result, is too small.
    TooSmall = 2,
    /// A pointer is not aligned for what it points to.
    Misaligned = 3,
    /// The pointer does not point to such a handle: it was never made, has ended, was moved, or is of another kind.
    NotAHandle = 4,
    /// Another call is using the handle: in another thread, or the one that this callback was called from. Nothing was done.
    Busy = 5,
    /// A fault in this library. Only ending the handle works from now on.
    Internal = 6,
    /// A length is longer than any buffer can be, or than the function accepts.
    TooLong = 7,
    /// A number, a text or a combination of parameters is not one that the function accepts.
    BadArgument = 8,
    /// An address or a network is invalid: its version is neither 4 nor 6, its prefix is longer than the address, or its text is malformed.
    BadAddress = 9,
    /// No algorithm has this number.
    UnknownAlgorithm = 10,
    /// The algorithm, or the format of a key file, was left out when the library was built.
    NotBuiltIn = 11,
    /// A master key is empty, has more than 80 octets, or fewer than its algorithm requires.
    MasterKeyLength = 20,
    /// The length of a MAC is not 4 to 16 octets.
    MacLength = 21,
    /// Another key for the same connections has this SendID or RecvID (RFC 5925 §3.1).
    IdInUse = 22,
    /// There is no room for another key.
    TooManyKeys = 23,
    /// There is no key to sign with.
    NoKey = 24,
    /// No key has this SendID or RecvID.
    UnknownKey = 25,
    /// The key is the current or the rnext key, and no other was named to take over.
    KeyInUse = 26,
    /// The key is the connection's last.
    LastKey = 27,
    /// There is no peer with this index.
    NoSuchPeer = 28,
    /// There is no room for another peer.
    TooManyPeers = 29,
    /// Another peer covers the same connections, neither is more specific, and a key of each has the same SendID or RecvID.
    PeersOverlap = 30,
    /// Not an IP packet with a whole TCP segment.
    Malformed = 40,
    /// The TCP options are malformed, or break RFC 5925 §2.2.
    BadOptions = 41,
    /// The segment has no AO option.
    Unsigned = 42,
    /// No key has the segment's KeyID.
    UnknownKeyId = 43,
    /// The segment's MAC does not have the key's length.
    WrongMacLength = 44,
    /// The segment's MAC is wrong: signed with another key or for another connection, or changed on the way.
    BadMac = 45,
    /// The segment belongs to another connection.
    OtherConnection = 46,
    /// The segment does not fit the connection's state.
    WrongState = 47,
    /// A checksum of TCP, ICMP or IPv4 is wrong.
    Checksum = 48,
    /// A verified SYN for a connection that is open: a replay, or the peer has restarted.
    ConnectionExists = 49,
    /// A segment of a protected connection whose handshake was not seen. Of a function: it knows no such connection.
    NoConnection = 50,
    /// A packet to or from a protected address, with a routing header that has segments left, or a home address option.
    SourceRouted = 51,
    /// No peer is configured for the connection, or there is no such peer.
    NoPeer = 52,
    /// The table of connections is full.
    TableFull = 53,
    /// A hard ICMP error about a protected connection (RFC 5925 §7.8).
    Icmp = 54,
    /// The options leave no room for AO.
    NoRoom = 60,
    /// The header has no AO option to fill in, or one of another length.
    NoOption = 61,
    /// The stack's segment has an AO or TCP-MD5 option already.
    AlreadySigned = 62,
    /// The signed packet would be longer than the MTU, or would not fit the room before the packet.
    TooLongForLink = 63,
    /// The handshake is not complete.
    NotEstablished = 80,
    /// The octets are not a connection's state, or its keys are missing.
    BadState = 81,
    /// A key or a secret does not have its algorithm's length.
    KeyLength = 100,
    /// Forged, damaged, or sealed with another key, number or associated data: these look the same. No plaintext is left.
    NotAuthentic = 101,
    /// The packet is of another key phase than expected: open it with the keys of that phase.
    OtherPhase = 102,
    /// The peer set a reserved bit: close the connection with PROTOCOL_VIOLATION (RFC 9000 §17.2 and §17.3.1).
    ReservedBits = 103,
    /// The payload is empty, but a packet needs a frame. If received, close the connection with PROTOCOL_VIOLATION (RFC 9000 §12.4).
    NoFrames = 104,
    /// Too short for a header protection sample (RFC 9001 §5.4.2). To seal it, add PADDING frames; if received, drop it.
    TooShortForSample = 105,
    /// A packet number is above 2^62-1 (RFC 9000 §12.3).
    NumberTooLarge = 106,
    /// The library does not know this version of QUIC.
    UnknownVersion = 107,
    /// The octets are not a QUIC packet: they end inside its header or before its length, or a connection ID is longer than 20 octets.
    NotAPacket = 108,
    /// A Retry or a Version Negotiation packet, which no key protects.
    NotProtected = 109,
    /// Not a Retry packet of this version.
    NotRetry = 110,
    /// The integrity tag of a Retry packet is wrong (RFC 9001 §5.8).
    RetryTag = 111,
    /// The Retry packet does not change the connection ID (RFC 9000 §17.2.5.1).
    SameConnectionId = 112,
    /// Not a Version Negotiation packet that answers the client's first packet (RFC 9000 §6.2).
    NotVersionNegotiation = 113,
    /// The kernel has no TCP-AO.
    NotSupported = 140,
    /// Linux does not have the algorithm, or this kernel was built without it.
    NotInKernel = 141,
    /// The operating system refused something. The message says what.
    System = 142,
    /// The process lacks CAP_NET_ADMIN over the network namespace.
    NoPermission = 143,
    /// The kernel has no memory for it: raise net.core.optmem_max, or delete keys.
    NoMemory = 144,
    /// Not a TCP socket over IPv4 or IPv6; Multipath TCP has no TCP-AO.
    NotATcpSocket = 145,
    /// Linux accepts no key for this network on this socket.
    UnusableNetwork = 146,
    /// The socket has a TCP-MD5 key, which excludes TCP-AO, or the other way round.
    OtherKindOfKey = 147,
    /// Linux does not delete this key. It stays valid until the socket is closed.
    KeyStays = 148,
    /// The kernel refused the call. The message says why, if that is known.
    RefusedByKernel = 149,
    /// The connection was opened without TCP-AO. Close it.
    OpenedUnsigned = 150,
    /// The connection ended before it was attached. Close it without reading from it.
    ConnectionEnded = 151,
    /// The connection was opened with a key of another peer, or one that is not accepted any more. Close it without reading from it.
    WrongKey = 152,
    /// The socket is attached to this manager already.
    AlreadyAttached = 153,
    /// A text is not a peer, as wireseal_manager_set_peer() reads it.
    NotAPeer = 160,
    /// One call names the same peer twice.
    PeerTwice = 161,
    /// Another thread changed the manager's peers during the call. Call again.
    ChangedMeanwhile = 162,
    /// Only the newest change can be undone.
    CannotUndo = 163,
    /// There is no key chain with this name.
    NoSuchChain = 170,
    /// A key file has a mistake or cannot be read, or keys do not fit together. The message says where.
    Keys = 171,
    /// Never returned: it makes the enum 32 bits wide with every compiler.
    Max = 0x7fff_ffff,
}

impl wireseal_status {
    /// All of them, each with its text.
    const TEXTS: &[(Self, &CStr)] = &[
        (Self::Ok, c"success"),
        (Self::NullPointer, c"a pointer is null, but must not be"),
        (Self::TooSmall, c"the memory for a handle, or a buffer, is too small"),
        (Self::Misaligned, c"a pointer is not aligned for what it points to"),
        (Self::NotAHandle, c"not such a handle: never made, ended, moved, or of another kind"),
        (Self::Busy, c"another call is using the handle"),
        (Self::Internal, c"a fault in libwireseal"),
        (Self::TooLong, c"a length is too long"),
        (Self::BadArgument, c"the function does not accept this number, text or combination"),
        (Self::BadAddress, c"an address has an invalid version, text or prefix"),
        (Self::UnknownAlgorithm, c"no algorithm has this number"),
        (Self::NotBuiltIn, c"this was left out when libwireseal was built"),
        (Self::MasterKeyLength, c"a master key is empty, too short or too long"),
        (Self::MacLength, c"the length of a MAC is not 4 to 16 octets"),
        (Self::IdInUse, c"another key for the same connections has this SendID or RecvID"),
        (Self::TooManyKeys, c"there is no room for another key"),
        (Self::NoKey, c"there is no key to sign with"),
        (Self::UnknownKey, c"no key has this SendID or RecvID"),
        (Self::KeyInUse, c"the key is in use, and no other was named to take over"),
        (Self::LastKey, c"the key is the connection's last"),
        (Self::NoSuchPeer, c"there is no peer with this index"),
        (Self::TooManyPeers, c"there is no room for another peer"),
        (Self::PeersOverlap, c"two peers cover the same connections, and share a SendID or RecvID"),
        (Self::Malformed, c"not an IP packet with a whole TCP segment"),
        (Self::BadOptions, c"the TCP options are malformed, or break the rules of RFC 5925"),
        (Self::Unsigned, c"the segment is unsigned"),
        (Self::UnknownKeyId, c"no key has the segment's KeyID"),
        (Self::WrongMacLength, c"the MAC does not have the key's length"),
        (Self::BadMac, c"the MAC is wrong"),
        (Self::OtherConnection, c"the segment belongs to another connection"),
        (Self::WrongState, c"the segment does not fit the connection's state"),
        (Self::Checksum, c"a checksum is wrong"),
        (Self::ConnectionExists, c"a SYN for a connection that is open"),
        (Self::NoConnection, c"a segment of a protected connection whose handshake was not seen"),
        (Self::SourceRouted, c"a routing header or a home address option, to or from a protected address"),
        (Self::NoPeer, c"no peer is configured for the connection"),
        (Self::TableFull, c"the table of connections is full"),
        (Self::Icmp, c"an ICMP error about a protected connection"),
        (Self::NoRoom, c"the options leave no room for AO"),
        (Self::NoOption, c"the header has no AO option of this key's length to fill in"),
        (Self::AlreadySigned, c"the segment is signed already"),
        (Self::TooLongForLink, c"the signed packet is too long"),
        (Self::NotEstablished, c"the connection is not established"),
        (Self::BadState, c"the octets are not a connection's state, or its keys are missing"),
        (Self::KeyLength, c"a key or a secret does not have its algorithm's length"),
        (Self::NotAuthentic, c"the packet or message is not authentic"),
        (Self::OtherPhase, c"the packet is of another key phase"),
        (Self::ReservedBits, c"the peer set a reserved bit (PROTOCOL_VIOLATION)"),
        (Self::NoFrames, c"the payload is empty, but a packet needs a frame (PROTOCOL_VIOLATION)"),
        (Self::TooShortForSample, c"the packet is too short for a header protection sample"),
        (Self::NumberTooLarge, c"a packet number is above 2^62-1"),
        (Self::UnknownVersion, c"unknown QUIC version"),
        (Self::NotAPacket, c"the octets are not a QUIC packet"),
        (Self::NotProtected, c"a Retry or Version Negotiation packet, which no key protects"),
        (Self::NotRetry, c"not a Retry packet of this version"),
        (Self::RetryTag, c"the integrity tag of the Retry packet is wrong"),
        (Self::SameConnectionId, c"the Retry packet does not change the connection ID"),
        (
            Self::NotVersionNegotiation,
            c"not a Version Negotiation packet that answers the client's first packet",
        ),
        (Self::NotSupported, c"this kernel has no TCP-AO"),
        (Self::NotInKernel, c"this kernel does not have the algorithm"),
        (Self::System, c"the operating system refused it"),
        (Self::NoPermission, c"this needs CAP_NET_ADMIN over the network namespace"),
        (Self::NoMemory, c"the kernel has no memory for it"),
        (Self::NotATcpSocket, c"not a TCP socket"),
        (Self::UnusableNetwork, c"Linux accepts no key for this network on this socket"),
        (Self::OtherKindOfKey, c"TCP-MD5 and TCP-AO exclude each other here"),
        (Self::KeyStays, c"Linux does not delete this key"),
        (Self::RefusedByKernel, c"the kernel refused it"),
        (Self::OpenedUnsigned, c"the connection was opened without TCP-AO"),
        (Self::ConnectionEnded, c"the connection ended before it was attached"),
        (Self::WrongKey, c"the connection was opened with a key of another peer, or an old one"),
        (Self::AlreadyAttached, c"the socket is attached already"),
        (Self::NotAPeer, c"the text is not a peer"),
        (Self::PeerTwice, c"the same peer is named twice"),
        (Self::ChangedMeanwhile, c"another thread changed the peers during the call"),
        (Self::CannotUndo, c"only the newest change can be undone"),
        (Self::NoSuchChain, c"there is no key chain with this name"),
        (Self::Keys, c"a key file has a mistake, or keys do not fit together"),
    ];
}

/// Returns the text for a status: one line in English, for logs, which stays valid as long as the program runs. `status` may be any number.
#[unsafe(no_mangle)]
pub extern "C" fn wireseal_status_text(status: u32) -> *const c_char {
    let found = wireseal_status::TEXTS.iter().find(|(known, _)| *known as u32 == status);
    found.map_or(c"no status has this number", |(_, text)| *text).as_ptr()
}
