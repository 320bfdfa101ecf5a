/*
 * libwireseal: TCP-AO (RFC 5925) and QUIC packet protection (RFC 9001, RFC 9369).
 *
 * This file is made from the comments in crates/c; do not edit it.
 *
 * Results
 *   A function returns a status, which is WIRESEAL_STATUS_OK after success; those that return a number or a text cannot fail. Results are
 *   written through the pointers at the end of the parameters. On an error nothing is changed or written, unless the function's comment says
 *   otherwise; a function that makes a handle then sets the pointer to it to null.
 *   Comments name the errors that are particular to a function; in such a list, _BAD_MAC is short for WIRESEAL_STATUS_BAD_MAC. Every function
 *   can return those of this introduction, too, and WIRESEAL_STATUS_TOO_LONG for a length that no buffer can have.
 *
 * Pointers
 *   No pointer may be null (WIRESEAL_STATUS_NULL_POINTER), unless a comment says so; if a length is zero, its pointer may be. The library
 *   cannot check the rest, so you must: a pointer points to as many octets as its length says, and during a call no other thread writes to
 *   what the call reads, or touches what it writes. Buffers of one call must not overlap, unless a comment allows it. The library keeps no
 *   pointer after the call, unless a comment says so. A text ends with a zero, and is UTF-8 (else WIRESEAL_STATUS_BAD_ARGUMENT).
 *
 * Handles
 *   A handle, such as a struct wireseal_connection, lies in memory that you provide. wireseal_..._size() and wireseal_..._align() return how
 *   many octets it needs, and their alignment (else WIRESEAL_STATUS_TOO_SMALL, _MISALIGNED); for static memory, WIRESEAL_..._SIZE and
 *   WIRESEAL_ALIGN are always enough. Do not copy or move a handle. wireseal_..._end() wipes the memory, which is then yours again.
 *   Key chains, key managers and attachments are on the heap instead, and wireseal_..._end() frees them. Their pointers are identifiers, and
 *   point to no memory: the library always recognizes one that has ended or never existed.
 *   Use the memory of a handle for nothing else: no thread may be in a call with an earlier handle in it, or begin one. End the earlier handle
 *   first: a function that makes a handle overwrites what is there, and does not wipe it.
 *   A pointer to anything but such a handle is an error, WIRESEAL_STATUS_NOT_A_HANDLE: zeroed memory, or a handle that has ended, was moved, or
 *   is of another kind. If the memory was freed or used for something else, the library cannot tell.
 *
 * Threads
 *   Different threads may use different handles at the same time. If two threads use one handle at once, the later call does nothing and
 *   returns WIRESEAL_STATUS_BUSY. This includes functions that only read: while one thread reads a shim's counters, a packet that another
 *   passes gets WIRESEAL_STATUS_BUSY, and is lost. Read the counters in the thread that passes the packets, or put a lock around both. The
 *   comment at a struct says if any number of threads may use its handles at once.
 *
 * Callbacks
 *   A callback must return: do not leave it by longjmp() or by a C++ exception. An exception ends the program.
 *
 * Processes, signals and memory: functions with handles on the heap
 *   If a thread is cancelled in such a call, it ends after the call; asynchronous cancellation is not allowed there. Do not call these functions
 *   in a signal handler. After fork() the child may call them, too, whatever other threads were doing. But only one of the two processes may
 *   go on to use a manager and its attachments; the child only if no other thread was in a call with one of them.
 *   If the heap has no memory left, the program is aborted. All other functions need no heap.
 *
 * Faults in the library
 *   A fault (a panic of Rust) never unwinds into C: the call returns WIRESEAL_STATUS_INTERNAL, and from then on every call with the handle does
 *   so, except the one that ends it. Keys of QUIC and AEADs stay usable, because no call changes them. In a library that was built without an
 *   operating system, the processor traps instead.
 *
 * Secrets
 *   Keys are wiped when their handle ends, and when they are replaced. Wipe your own copies, such as the octets that `master_key` of a
 *   struct wireseal_mkt points to. A call that takes or derives keys can leave copies of them, even whole ones, on the stack below its caller,
 *   where nothing wipes them: if that matters, make such calls on a stack that you wipe.
 */


#ifndef WIRESEAL_H
#define WIRESEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// An alignment that is enough for every handle, in octets. malloc() usually aligns to 16 only: use
// aligned_alloc(), or _Alignas for static memory.
#define WIRESEAL_ALIGN 64

// The version of this header: WIRESEAL_VERSION_MAJOR.WIRESEAL_VERSION_MINOR.WIRESEAL_VERSION_PATCH. wireseal_version() returns that of the
// library that the program runs with.
#define WIRESEAL_VERSION_MAJOR 0

// The second number. Until 1.0, every change that breaks programs raises it.
#define WIRESEAL_VERSION_MINOR 1

// The third number.
#define WIRESEAL_VERSION_PATCH 0

// In wireseal_features(): the library has the functions for keys on Linux sockets, key chains and the key manager.
#define WIRESEAL_FEATURE_LINUX 1

// In wireseal_features(): the library has the functions for QUIC and AEADs.
#define WIRESEAL_FEATURE_QUIC 2

// In wireseal_features(): the library was built for an operating system, so a fault in it is a status, not a trap.
#define WIRESEAL_FEATURE_STD 4

// The most master key tuples that a connection or a peer has at a time: the one in use, its successor, and two more while their lifetimes
// overlap.
#define WIRESEAL_MKTS 4

// The longest master key, in octets.
#define WIRESEAL_MASTER_KEY_MAX 80

// Octets of memory that are enough for a connection with all algorithms on any processor; wireseal_connection_size() returns how many this
// library needs.
#define WIRESEAL_CONNECTION_SIZE 1216

// Octets that are enough for the state that wireseal_connection_export() and wireseal_shim_export() write, also in later versions.
#define WIRESEAL_STATE_SIZE 192

// Stands for no key where a SendID or RecvID is expected.
#define WIRESEAL_NO_KEY_ID -1

// The most octets that TCP-AO adds to a segment: its longest option, padded to a multiple of four.
#define WIRESEAL_OPTION_ROOM 20

// The longest traffic key, in octets.
#define WIRESEAL_TRAFFIC_KEY_MAX 32

// Octets of memory that are enough for a shim, without its peers and connections, with all algorithms on any processor. Add
// WIRESEAL_SHIM_PEER_SIZE for each peer and WIRESEAL_SHIM_CONNECTION_SIZE for each connection. wireseal_shim_size() returns how many this
// library needs.
#define WIRESEAL_SHIM_SIZE 1856

// Octets of memory that are enough for each peer of a shim.
#define WIRESEAL_SHIM_PEER_SIZE 640

// Octets of memory that are enough for each connection of a shim.
#define WIRESEAL_SHIM_CONNECTION_SIZE 1536

// The smallest `stack_mtu`, which every link carries (RFC 791 §3.2).
#define WIRESEAL_STACK_MTU_MIN 68

// For wireseal_socket_add_key(): makes the key the current key at once, which this end signs with. Not on a listening socket.
#define WIRESEAL_SOCKET_CURRENT 1

// For wireseal_socket_add_key(): makes the key the rnext key at once, which this end asks the peer to sign with. Not on a listening socket.
#define WIRESEAL_SOCKET_RNEXT 2

// For wireseal_manager_change(): changes nothing, and reports what would be done.
#define WIRESEAL_CHANGE_DRY_RUN 1

// For wireseal_manager_change(): also removes all peers that no change names.
#define WIRESEAL_CHANGE_REMOVE_OTHERS 2

// Octets of memory that are enough for a struct wireseal_quic_packet_key, aligned to WIRESEAL_ALIGN.
#define WIRESEAL_QUIC_PACKET_KEY_SIZE 768

// Octets of memory that are enough for a struct wireseal_quic_header_key, aligned to WIRESEAL_ALIGN.
#define WIRESEAL_QUIC_HEADER_KEY_SIZE 640

// `largest` of wireseal_quic_open() if no packet was opened yet.
#define WIRESEAL_QUIC_NONE UINT64_MAX

// Octets of memory that are enough for a struct wireseal_aead_key, aligned to WIRESEAL_ALIGN.
#define WIRESEAL_AEAD_KEY_SIZE 768

// Octets of memory that are enough for a struct wireseal_mask_key, aligned to WIRESEAL_ALIGN.
#define WIRESEAL_MASK_KEY_SIZE 640

// The result of a call. Later versions of the library may add numbers, and change none.
//
// 1 to 39: a mistake of the caller, or a limit. 40 to 59: a received segment is at fault. 60 to 99: a mistake of the caller with a segment or
// a connection. 100 to 139: QUIC and AEADs. 140 on: Linux, peers of a manager, and key files.
enum wireseal_status {
    // It worked.
    WIRESEAL_STATUS_OK = 0,
    // A pointer is null, but must not be.
    WIRESEAL_STATUS_NULL_POINTER = 1,
    // Memory for a handle, or a buffer for a result, is too small.
    WIRESEAL_STATUS_TOO_SMALL = 2,
    // A pointer is not aligned for what it points to.
    WIRESEAL_STATUS_MISALIGNED = 3,
    // The pointer does not point to such a handle: it was never made, has ended, was moved, or is of another kind.
    WIRESEAL_STATUS_NOT_A_HANDLE = 4,
    // Another call is using the handle: in another thread, or the one that this callback was called from. Nothing was done.
    WIRESEAL_STATUS_BUSY = 5,
    // A fault in this library. Only ending the handle works from now on.
    WIRESEAL_STATUS_INTERNAL = 6,
    // A length is longer than any buffer can be, or than the function accepts.
    WIRESEAL_STATUS_TOO_LONG = 7,
    // A number, a text or a combination of parameters is not one that the function accepts.
    WIRESEAL_STATUS_BAD_ARGUMENT = 8,
    // An address or a network is invalid: its version is neither 4 nor 6, its prefix is longer than the address, or its text is malformed.
    WIRESEAL_STATUS_BAD_ADDRESS = 9,
    // No algorithm has this number.
    WIRESEAL_STATUS_UNKNOWN_ALGORITHM = 10,
    // The algorithm, or the format of a key file, was left out when the library was built.
    WIRESEAL_STATUS_NOT_BUILT_IN = 11,
    // A master key is empty, has more than 80 octets, or fewer than its algorithm requires.
    WIRESEAL_STATUS_MASTER_KEY_LENGTH = 20,
    // The length of a MAC is not 4 to 16 octets.
    WIRESEAL_STATUS_MAC_LENGTH = 21,
    // Another key for the same connections has this SendID or RecvID (RFC 5925 §3.1).
    WIRESEAL_STATUS_ID_IN_USE = 22,
    // There is no room for another key.
    WIRESEAL_STATUS_TOO_MANY_KEYS = 23,
    // There is no key to sign with.
    WIRESEAL_STATUS_NO_KEY = 24,
    // No key has this SendID or RecvID.
    WIRESEAL_STATUS_UNKNOWN_KEY = 25,
    // The key is the current or the rnext key, and no other was named to take over.
    WIRESEAL_STATUS_KEY_IN_USE = 26,
    // The key is the connection's last.
    WIRESEAL_STATUS_LAST_KEY = 27,
    // There is no peer with this index.
    WIRESEAL_STATUS_NO_SUCH_PEER = 28,
    // There is no room for another peer.
    WIRESEAL_STATUS_TOO_MANY_PEERS = 29,
    // Another peer covers the same connections, neither is more specific, and a key of each has the same SendID or RecvID.
    WIRESEAL_STATUS_PEERS_OVERLAP = 30,
    // Not an IP packet with a whole TCP segment.
    WIRESEAL_STATUS_MALFORMED = 40,
    // The TCP options are malformed, or break RFC 5925 §2.2.
    WIRESEAL_STATUS_BAD_OPTIONS = 41,
    // The segment has no AO option.
    WIRESEAL_STATUS_UNSIGNED = 42,
    // No key has the segment's KeyID.
    WIRESEAL_STATUS_UNKNOWN_KEY_ID = 43,
    // The segment's MAC does not have the key's length.
    WIRESEAL_STATUS_WRONG_MAC_LENGTH = 44,
    // The segment's MAC is wrong: signed with another key or for another connection, or changed on the way.
    WIRESEAL_STATUS_BAD_MAC = 45,
    // The segment belongs to another connection.
    WIRESEAL_STATUS_OTHER_CONNECTION = 46,
    // The segment does not fit the connection's state.
    WIRESEAL_STATUS_WRONG_STATE = 47,
    // A checksum of TCP, ICMP or IPv4 is wrong.
    WIRESEAL_STATUS_CHECKSUM = 48,
    // A verified SYN for a connection that is open: a replay, or the peer has restarted.
    WIRESEAL_STATUS_CONNECTION_EXISTS = 49,
    // A segment of a protected connection whose handshake was not seen. Of a function: it knows no such connection.
    WIRESEAL_STATUS_NO_CONNECTION = 50,
    // A packet to or from a protected address, with a routing header that has segments left, or a home address option.
    WIRESEAL_STATUS_SOURCE_ROUTED = 51,
    // No peer is configured for the connection, or there is no such peer.
    WIRESEAL_STATUS_NO_PEER = 52,
    // The table of connections is full.
    WIRESEAL_STATUS_TABLE_FULL = 53,
    // A hard ICMP error about a protected connection (RFC 5925 §7.8).
    WIRESEAL_STATUS_ICMP = 54,
    // The options leave no room for AO.
    WIRESEAL_STATUS_NO_ROOM = 60,
    // The header has no AO option to fill in, or one of another length.
    WIRESEAL_STATUS_NO_OPTION = 61,
    // The stack's segment has an AO or TCP-MD5 option already.
    WIRESEAL_STATUS_ALREADY_SIGNED = 62,
    // The signed packet would be longer than the MTU, or would not fit the room before the packet.
    WIRESEAL_STATUS_TOO_LONG_FOR_LINK = 63,
    // The handshake is not complete.
    WIRESEAL_STATUS_NOT_ESTABLISHED = 80,
    // The octets are not a connection's state, or its keys are missing.
    WIRESEAL_STATUS_BAD_STATE = 81,
    // A key or a secret does not have its algorithm's length.
    WIRESEAL_STATUS_KEY_LENGTH = 100,
    // Forged, damaged, or sealed with another key, number or associated data: these look the same. No plaintext is left.
    WIRESEAL_STATUS_NOT_AUTHENTIC = 101,
    // The packet is of another key phase than expected: open it with the keys of that phase.
    WIRESEAL_STATUS_OTHER_PHASE = 102,
    // The peer set a reserved bit: close the connection with PROTOCOL_VIOLATION (RFC 9000 §17.2 and §17.3.1).
    WIRESEAL_STATUS_RESERVED_BITS = 103,
    // The payload is empty, but a packet needs a frame. If received, close the connection with PROTOCOL_VIOLATION (RFC 9000 §12.4).
    WIRESEAL_STATUS_NO_FRAMES = 104,
    // Too short for a header protection sample (RFC 9001 §5.4.2). To seal it, add PADDING frames; if received, drop it.
    WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE = 105,
    // A packet number is above 2^62-1 (RFC 9000 §12.3).
    WIRESEAL_STATUS_NUMBER_TOO_LARGE = 106,
    // The library does not know this version of QUIC.
    WIRESEAL_STATUS_UNKNOWN_VERSION = 107,
    // The octets are not a QUIC packet: they end inside its header or before its length, or a connection ID is longer than 20 octets.
    WIRESEAL_STATUS_NOT_A_PACKET = 108,
    // A Retry or a Version Negotiation packet, which no key protects.
    WIRESEAL_STATUS_NOT_PROTECTED = 109,
    // Not a Retry packet of this version.
    WIRESEAL_STATUS_NOT_RETRY = 110,
    // The integrity tag of a Retry packet is wrong (RFC 9001 §5.8).
    WIRESEAL_STATUS_RETRY_TAG = 111,
    // The Retry packet does not change the connection ID (RFC 9000 §17.2.5.1).
    WIRESEAL_STATUS_SAME_CONNECTION_ID = 112,
    // Not a Version Negotiation packet that answers the client's first packet (RFC 9000 §6.2).
    WIRESEAL_STATUS_NOT_VERSION_NEGOTIATION = 113,
    // The kernel has no TCP-AO.
    WIRESEAL_STATUS_NOT_SUPPORTED = 140,
    // Linux does not have the algorithm, or this kernel was built without it.
    WIRESEAL_STATUS_NOT_IN_KERNEL = 141,
    // The operating system refused something. The message says what.
    WIRESEAL_STATUS_SYSTEM = 142,
    // The process lacks CAP_NET_ADMIN over the network namespace.
    WIRESEAL_STATUS_NO_PERMISSION = 143,
    // The kernel has no memory for it: raise net.core.optmem_max, or delete keys.
    WIRESEAL_STATUS_NO_MEMORY = 144,
    // Not a TCP socket over IPv4 or IPv6; Multipath TCP has no TCP-AO.
    WIRESEAL_STATUS_NOT_A_TCP_SOCKET = 145,
    // Linux accepts no key for this network on this socket.
    WIRESEAL_STATUS_UNUSABLE_NETWORK = 146,
    // The socket has a TCP-MD5 key, which excludes TCP-AO, or the other way round.
    WIRESEAL_STATUS_OTHER_KIND_OF_KEY = 147,
    // Linux does not delete this key. It stays valid until the socket is closed.
    WIRESEAL_STATUS_KEY_STAYS = 148,
    // The kernel refused the call. The message says why, if that is known.
    WIRESEAL_STATUS_REFUSED_BY_KERNEL = 149,
    // The connection was opened without TCP-AO. Close it.
    WIRESEAL_STATUS_OPENED_UNSIGNED = 150,
    // The connection ended before it was attached. Close it without reading from it.
    WIRESEAL_STATUS_CONNECTION_ENDED = 151,
    // The connection was opened with a key of another peer, or one that is not accepted any more. Close it without reading from it.
    WIRESEAL_STATUS_WRONG_KEY = 152,
    // The socket is attached to this manager already.
    WIRESEAL_STATUS_ALREADY_ATTACHED = 153,
    // A text is not a peer, as wireseal_manager_set_peer() reads it.
    WIRESEAL_STATUS_NOT_A_PEER = 160,
    // One call names the same peer twice.
    WIRESEAL_STATUS_PEER_TWICE = 161,
    // Another thread changed the manager's peers during the call. Call again.
    WIRESEAL_STATUS_CHANGED_MEANWHILE = 162,
    // Only the newest change can be undone.
    WIRESEAL_STATUS_CANNOT_UNDO = 163,
    // There is no key chain with this name.
    WIRESEAL_STATUS_NO_SUCH_CHAIN = 170,
    // A key file has a mistake or cannot be read, or keys do not fit together. The message says where.
    WIRESEAL_STATUS_KEYS = 171,
    // Never returned: it makes the enum 32 bits wide with every compiler.
    WIRESEAL_STATUS_MAX = 2147483647,
};

// A key derivation function and a MAC (RFC 5925 §3.1).
enum wireseal_tcp_ao_algorithm {
    // HMAC-SHA-1-96 (RFC 5926), which every implementation has. The MAC has 12 octets.
    WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1 = 1,
    // AES-128-CMAC-96 (RFC 5926). The MAC has 12 octets.
    WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC = 2,
    // Linux's hmac(sha256), which no RFC defines. The MAC has 12 octets.
    WIRESEAL_TCP_AO_ALGORITHM_LINUX_HMAC_SHA256 = 3,
    // HMAC-SHA256-128 (draft-ietf-tcpm-tcp-ao-algs-07). The MAC has 16 octets, the master key at least 32.
    WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA256_128 = 4,
    // KMAC256-128 (draft-ietf-tcpm-tcp-ao-algs-07). The MAC has 16 octets, the master key at least 32.
    WIRESEAL_TCP_AO_ALGORITHM_KMAC256_128 = 5,
};

// What to do with segments of a connection that belongs to no peer.
enum wireseal_unmatched {
    // Drop and count received segments that are signed: their sender expects them to be verified. All others pass unchanged.
    WIRESEAL_UNMATCHED_DROP = 0,
    // Pass all unchanged; the stack ignores the AO option of signed ones.
    WIRESEAL_UNMATCHED_PASS = 1,
    // Drop and count all, in both directions, signed or not.
    WIRESEAL_UNMATCHED_DROP_ALL = 2,
};

// The direction of a packet.
enum wireseal_direction {
    // From the link to the stack.
    WIRESEAL_DIRECTION_INBOUND = 1,
    // From the stack to the link.
    WIRESEAL_DIRECTION_OUTBOUND = 2,
};

// What happened.
enum wireseal_event_kind {
    // A packet was refused.
    WIRESEAL_EVENT_KIND_REFUSED = 1,
    // A packet would have been refused, but passed unprotected, because of wireseal_shim_accept_mismatches().
    WIRESEAL_EVENT_KIND_PASSED = 2,
    // A protected connection was established, or adopted.
    WIRESEAL_EVENT_KIND_OPENED = 3,
    // An established connection has ended.
    WIRESEAL_EVENT_KIND_ENDED = 4,
    // A handshake ended without a connection. Anyone who replays a recorded SYN can cause any number of these.
    WIRESEAL_EVENT_KIND_HANDSHAKE_ENDED = 5,
    // This end signs an established connection with another key from now on.
    WIRESEAL_EVENT_KIND_KEY_SWITCHED = 6,
    // The peer acknowledged data that was sent after this end asked for another key, but still signs with the old one. Reported once for each
    // request.
    WIRESEAL_EVENT_KIND_PEER_ON_OLD_KEY = 7,
    // The peer signs with the key that it was asked for, but goes on asking for one whose send lifetime is over at this end. Reported once
    // for each key.
    WIRESEAL_EVENT_KIND_PEER_INSISTS = 8,
};

// How a connection ended.
enum wireseal_ending {
    // It has not.
    WIRESEAL_ENDING_NONE = 0,
    // By FINs from both ends, or a reset.
    WIRESEAL_ENDING_CLOSED = 1,
    // A new connection of the same socket pair took its place.
    WIRESEAL_ENDING_REPLACED = 2,
    // It was removed from a full table, to make room for another handshake.
    WIRESEAL_ENDING_EVICTED = 3,
    // It reached its time limit.
    WIRESEAL_ENDING_EXPIRED = 4,
    // It was exported or forgotten, or its peer was removed.
    WIRESEAL_ENDING_FORGOTTEN = 5,
    // Its last key was removed.
    WIRESEAL_ENDING_NO_KEY = 6,
};

// An AEAD with nonces of 12 octets and tags of 16, by the number of its TLS 1.3 cipher suite (RFC 8446 appendix B.4).
enum wireseal_aead_algorithm {
    // AES-128-GCM. QUIC derives its keys with SHA-256.
    WIRESEAL_AEAD_ALGORITHM_AES128_GCM = 4865,
    // AES-256-GCM. QUIC derives its keys with SHA-384.
    WIRESEAL_AEAD_ALGORITHM_AES256_GCM = 4866,
    // ChaCha20-Poly1305. QUIC derives its keys with SHA-256.
    WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305 = 4867,
    // AES-128-CCM. QUIC derives its keys with SHA-256.
    WIRESEAL_AEAD_ALGORITHM_AES128_CCM = 4868,
};

// A version of QUIC, by its number on the wire.
enum wireseal_quic_version {
    // Version 1 (RFC 9000, RFC 9001).
    WIRESEAL_QUIC_VERSION_V1 = 1,
    // Version 2 (RFC 9369).
    WIRESEAL_QUIC_VERSION_V2 = 1798521807,
};

// An end of a QUIC connection.
enum wireseal_quic_side {
    // The end that opens the connection.
    WIRESEAL_QUIC_SIDE_CLIENT = 0,
    // The other.
    WIRESEAL_QUIC_SIDE_SERVER = 1,
};

// The type of a QUIC packet. For the first four, it says which keys protect the packet (RFC 9001 §4).
enum wireseal_quic_packet_type {
    // Long header; protected by the keys of the Initial secrets.
    WIRESEAL_QUIC_PACKET_TYPE_INITIAL = 0,
    // Long header; protected by the keys of early data.
    WIRESEAL_QUIC_PACKET_TYPE_ZERO_RTT = 1,
    // Long header; protected by the keys of the handshake.
    WIRESEAL_QUIC_PACKET_TYPE_HANDSHAKE = 2,
    // Short header; protected by the keys of its key phase.
    WIRESEAL_QUIC_PACKET_TYPE_ONE_RTT = 3,
    // Long header; has an integrity tag, which wireseal_quic_retry_verify() checks.
    WIRESEAL_QUIC_PACKET_TYPE_RETRY = 4,
    // Long header with version 0; nothing protects it. wireseal_quic_version_negotiation_read() reads it.
    WIRESEAL_QUIC_PACKET_TYPE_VERSION_NEGOTIATION = 5,
    // Long header of a version that is not built in.
    WIRESEAL_QUIC_PACKET_TYPE_OTHER_VERSION = 6,
};

// The key phase that wireseal_quic_open() expects.
enum wireseal_quic_phase {
    // A key phase bit of 0. Use it for long headers, too.
    WIRESEAL_QUIC_PHASE_ZERO = 0,
    // A key phase bit of 1.
    WIRESEAL_QUIC_PHASE_ONE = 1,
    // Either: do not check the bit.
    WIRESEAL_QUIC_PHASE_ANY = 2,
};

// What a manager does if it cannot put the keys of a peer on a socket, or the peer does not begin to use them.
enum wireseal_on_failure {
    // Try again in each step.
    WIRESEAL_ON_FAILURE_RETRY = 0,
    // Give the peer its keys from before the change again, until the next change.
    WIRESEAL_ON_FAILURE_HOLD_OLD_KEYS = 1,
    // Reset this connection, with a signed segment.
    WIRESEAL_ON_FAILURE_RESET_SESSION = 2,
    // Reset all connections of all peers of the cohort.
    WIRESEAL_ON_FAILURE_RESET_COHORT = 3,
};

// What happens to a peer in wireseal_manager_change().
enum wireseal_peer_change_kind {
    // It gets a chain: as a new peer, or in place of the chain that it has.
    WIRESEAL_PEER_CHANGE_KIND_SET = 1,
    // It is removed, if it is there, as by wireseal_manager_remove_peer().
    WIRESEAL_PEER_CHANGE_KIND_REMOVE = 2,
    // It is blocked, as by wireseal_manager_block_peer().
    WIRESEAL_PEER_CHANGE_KIND_BLOCK = 3,
    // It keeps its keys, also with WIRESEAL_CHANGE_REMOVE_OTHERS; only its policy is set. If there is no such peer, WIRESEAL_STATUS_NO_PEER.
    WIRESEAL_PEER_CHANGE_KIND_KEEP = 4,
};

// What a report is about.
enum wireseal_report_kind {
    // A socket whose state could not be read.
    WIRESEAL_REPORT_KIND_UNKNOWN = 0,
    // A socket that listens.
    WIRESEAL_REPORT_KIND_LISTENER = 1,
    // A socket that neither listens nor is connected; it may be connecting.
    WIRESEAL_REPORT_KIND_CLOSED = 2,
    // A connection.
    WIRESEAL_REPORT_KIND_CONNECTION = 3,
    // A connection that has ended: end its attachment, and close it.
    WIRESEAL_REPORT_KIND_ENDED = 4,
    // No socket: no key of the peer `state.peer` is valid for sending any more, so no connection with it can be opened. Reported once, and
    // again only after the peer has had a key.
    WIRESEAL_REPORT_KIND_PEER = 5,
};

// An AEAD key. Any number of threads may use it at once, but none while it is ended.
struct wireseal_aead_key;

// A socket that a key manager takes care of. Any number of threads may use it at once. The handle is on the heap.
struct wireseal_attachment;

// Key chains, each with a name. Any number of threads may use them at once. The handle is on the heap.
struct wireseal_chains;

// One TCP connection's keys, sequence number extensions and counters (RFC 5925 §4.2 to §7.5), from the first SYN to TIME-WAIT, with
// room for WIRESEAL_MKTS keys.
//
// Pass every outgoing segment to wireseal_connection_sign(), retransmissions, resets and TIME-WAIT's acknowledgments too, and every incoming
// one to wireseal_connection_verify() before TCP sees it. One thread at a time.
struct wireseal_connection;

// A key manager. It has peers, each with a key chain; puts the keys that are valid now on the sockets that are attached to it; and removes
// those that are not. Any number of threads may use it at once. The handle is on the heap.
struct wireseal_manager;

// A mask key, for the masks that hide packet numbers in QUIC (RFC 9001 §5.4) and DTLS 1.3 (RFC 9147 §4.2.3). Any number of threads may use it
// at once, but none while it is ended.
struct wireseal_mask_key;

// A header protection key, or header key: for one direction of one encryption level, and for all key phases (RFC 9001 §5.4 and §6.1). Any
// number of threads may use it at once, but none while it is ended.
struct wireseal_quic_header_key;

// A packet protection key with its IV, or packet key: for one direction of one encryption level, or of one key phase (RFC 9001 §5.3). Any
// number of threads may use it at once, but none while it is ended.
struct wireseal_quic_packet_key;

// TCP-AO between a TCP stack and its link. Pass every packet that the stack sends to wireseal_shim_outbound(), and every packet for it to
// wireseal_shim_inbound(). Connections of its peers are signed and verified; everything else passes unchanged.
//
// Tell the stack an MTU that is smaller by WIRESEAL_OPTION_ROOM, so that the option always fits. The shim adds the difference to the MSS that
// the stack advertises, and takes it off the MSS that the peer advertises. SACK blocks that do not fit next to the option are dropped, oldest
// first, and so is Multipath TCP's MP_CAPABLE.
//
// The shim reads no clock: `now_ms` is the time in milliseconds since a fixed moment of your choice, the same in all calls. It must not go
// back: if it does, time limits, and that of wireseal_shim_accept_mismatches() too, last longer by as much. One thread at a time.
struct wireseal_shim;

// An IP address. An IPv4-mapped IPv6 address means the IPv4 address.
struct wireseal_address {
    // 4 or 6.
    uint8_t version;
    // The address, in network byte order. IPv4 uses the first four octets; the others are ignored.
    uint8_t octets[16];
};

// A network, such as 192.0.2.0/24, or one host, such as 192.0.2.1/32.
struct wireseal_network {
    // Its first address: the bits after the prefix are zero.
    struct wireseal_address address;
    // Bits of the prefix: at most 32 for IPv4, 128 for IPv6. Zero means any address of that version.
    uint8_t prefix_length;
};

// One end of a connection.
struct wireseal_endpoint {
    // The address.
    struct wireseal_address address;
    // The port, in host byte order.
    uint16_t port;
};

// The two ends of a connection, as one of them sees it. Both addresses are of one version.
struct wireseal_pair {
    // This end.
    struct wireseal_endpoint local;
    // The other end.
    struct wireseal_endpoint remote;
};

// A master key tuple (MKT) without its connection identifier. Set all to zero first: what you do not set then has its usual value.
//
// In an array of MKTs, the first that is not accept-only is the preferred one, for sending. No two may share a SendID or a RecvID
// (WIRESEAL_STATUS_ID_IN_USE).
struct wireseal_mkt {
    // The KeyID in segments that this end signs with the key.
    uint8_t send_id;
    // The KeyID in segments that the peer signs with the key.
    uint8_t recv_id;
    // Octets of the MAC in a segment: 4 to 16, or 0 for the algorithm's usual length.
    uint8_t mac_length;
    // Not 0: the MAC covers no TCP options but AO's own. Both ends must agree.
    uint8_t options_excluded;
    // Not 0: this end accepts the key, but signs with it only while the peer asks for it. For a key outside its send lifetime.
    uint8_t accept_only;
    // Not 0: a master key that is shorter than the algorithm's specification requires is accepted.
    uint8_t allow_short_master_key;
    // An enum wireseal_tcp_ao_algorithm.
    uint32_t algorithm;
    // The secret. Functions copy it; wipe your own copy.
    const uint8_t *master_key;
    // Octets of the secret: 1 to WIRESEAL_MASTER_KEY_MAX.
    size_t master_key_length;
    // Must be zeros (else WIRESEAL_STATUS_BAD_ARGUMENT): for later versions.
    uint64_t reserved[2];
};

// What wireseal_connection_verify() found out about a segment.
struct wireseal_verified {
    // The RecvID of the key that signed it.
    uint8_t key_id;
    // Whether it changed the key that this end signs with, and so perhaps the result of wireseal_connection_option_length().
    bool current_key_changed;
    // Whether its sequence or acknowledgment number is higher than any before. Never true for a replay of a received segment.
    bool makes_progress;
    // Zeros: for later versions.
    uint8_t reserved[13];
};

// Received segments by verdict, counted as Linux counts them.
struct wireseal_counters {
    // Verified.
    uint64_t good;
    // A wrong MAC, a MAC of the wrong length, malformed options, or a segment that does not fit the connection's state.
    uint64_t bad;
    // A KeyID that no key has.
    uint64_t key_not_found;
    // Unsigned, although the connection is protected.
    uint64_t required;
    // ICMP errors that were ignored.
    uint64_t dropped_icmp;
    // Zeros: for later versions.
    uint64_t reserved[3];
};

// What is known of a connection.
struct wireseal_connection_info {
    // The two ends.
    struct wireseal_pair pair;
    // Whether the handshake is complete: the traffic keys are derived, and the master keys are wiped.
    bool is_established;
    // Whether `local_isn` is known. If the peer opens the connection, it is known once this end's SYN-ACK is signed.
    bool has_local_isn;
    // Whether `remote_isn` is known. If this end opens the connection, it is known once the peer's SYN-ACK is verified.
    bool has_remote_isn;
    // Whether `acknowledged` is known: once a verified segment has had an ACK.
    bool has_acknowledged;
    // Whether the peer has signed with the rnext key since this end asked for it: the peer has that key, and uses it.
    bool peer_uses_rnext_key;
    // Whether the peer keeps asking for a key whose send lifetime is over at this end, although it signs with the next one itself.
    bool peer_insists;
    // The SendID of the key that this end signs with.
    uint8_t current_key;
    // The RecvID of the key that this end asks the peer to sign with.
    uint8_t rnext_key;
    // The RecvID of the key that the peer signs with; before its first segment, of the one that this end asks for.
    uint8_t peers_key;
    // The SendID of the key that the peer asks for, or WIRESEAL_NO_KEY_ID before its first segment. It is that of the current key, unless this
    // end lacks the key or has chosen another since.
    int32_t asks_for;
    // This end's initial sequence number.
    uint32_t local_isn;
    // The peer's.
    uint32_t remote_isn;
    // The sequence number after the last octet sent; SYN and FIN count as one.
    uint32_t sent;
    // Its sequence number extension: how often the number has wrapped (RFC 5925 §6.2).
    uint32_t sent_sne;
    // The highest verified sequence number; at first the peer's initial one.
    uint32_t received;
    // Its sequence number extension.
    uint32_t received_sne;
    // The acknowledgment number of the newest verified segment.
    uint32_t acknowledged;
    // Received segments.
    struct wireseal_counters counters;
    // Zeros: for later versions.
    uint64_t reserved[4];
};

// What a traffic key is derived from besides the master key (RFC 5925 §5.2), in the direction of the segments that it protects.
struct wireseal_kdf_context {
    // The sender of the segments.
    struct wireseal_endpoint source;
    // Their receiver.
    struct wireseal_endpoint destination;
    // The sender's initial sequence number.
    uint32_t source_isn;
    // The receiver's; 0 for a SYN without ACK.
    uint32_t destination_isn;
};

// How a shim works. Set all but `mtu` to zero for the defaults.
struct wireseal_shim_config {
    // The link's MTU: octets of the longest IP packet.
    size_t mtu;
    // The MTU that the stack is told: from WIRESEAL_STACK_MTU_MIN to `mtu` - WIRESEAL_OPTION_ROOM; 0 means the latter.
    size_t stack_mtu;
    // An enum wireseal_unmatched.
    uint32_t unmatched;
    // Not 0: hard ICMP errors about established connections reach the stack; RFC 5925 §7.8 advises against it.
    uint8_t accept_icmp;
    // Not 0: the device has checked the TCP, ICMP and IPv4 checksums of received packets, so the shim need not.
    uint8_t checksums_are_checked;
    // How long a handshake that makes no progress is kept, in milliseconds; 0 means 75 seconds.
    uint32_t half_open_ms;
    // How long an unanswered handshake cannot be evicted from a full table, in milliseconds; 0 means 15 seconds.
    uint32_t unanswered_ms;
    // How long a handshake cannot be evicted for a peer that has none in the table, in milliseconds; 0 means 2 seconds.
    uint32_t turn_ms;
    // How long a closed connection is kept for late segments, in milliseconds; 0 means 240 seconds.
    uint32_t closed_ms;
    // How long a connection is kept whose peer does not acknowledge this end's FIN, in milliseconds; 0 means 240 seconds.
    uint32_t fin_ms;
    // How long an open connection without progress is kept, in milliseconds; 0 means three hours.
    uint32_t idle_ms;
    // Must be zeros (else WIRESEAL_STATUS_BAD_ARGUMENT): for later versions.
    uint64_t reserved[4];
};

// Something that happened to a packet or a connection. It has no secrets. Later versions may add fields at its end.
struct wireseal_event {
    // What happened: an enum wireseal_event_kind.
    uint32_t kind;
    // If a packet was refused or passed, its enum wireseal_direction; else 0.
    uint32_t direction;
    // If a packet was refused or passed, why: the enum wireseal_status with which it was, or would have been, refused.
    uint32_t reason;
    // How the connection or handshake ended: an enum wireseal_ending.
    uint32_t ending;
    // Whether a peer is configured for the connection.
    bool has_peer;
    // Whether the connection is known; not if the packet has no readable TCP header.
    bool has_pair;
    // The index of the peer.
    size_t peer;
    // The connection.
    struct wireseal_pair pair;
    // WIRESEAL_EVENT_KIND_KEY_SWITCHED: the SendID of the key before. _PEER_ON_OLD_KEY: the RecvID of the key that the peer uses.
    // _PEER_INSISTS: the SendID of the old key.
    uint8_t from_key;
    // WIRESEAL_EVENT_KIND_KEY_SWITCHED: the SendID of the key from now on. _PEER_ON_OLD_KEY: the RecvID of the key that was asked for.
    uint8_t to_key;
};

// Receives the events of a shim; may be null. It is called within the call that caused the event, in the same thread, and cannot call
// functions with the same shim (WIRESEAL_STATUS_BUSY). It must return: no longjmp(), no C++ exception. `event` is valid until it returns. Keep
// it fast: an attacker decides how many packets are refused.
typedef void (*wireseal_observer)(void *context, const struct wireseal_event *event);

// The connections that a peer's keys are for (RFC 5925 §3.1). A connection that several peers cover belongs to the one with the
// longest remote prefix, then the longest local one, then the most ports.
struct wireseal_connection_identifier {
    // This end's addresses.
    struct wireseal_network local;
    // The other end's addresses.
    struct wireseal_network remote;
    // This end's port, in host byte order; 0 means any.
    uint16_t local_port;
    // The other end's port, in host byte order; 0 means any.
    uint16_t remote_port;
    // Must be zeros (else WIRESEAL_STATUS_BAD_ARGUMENT): for later versions.
    uint32_t reserved[4];
};

// Packets that were refused, or passed unprotected, by reason. For what a reason means, see the enum wireseal_status of the same name.
struct wireseal_refusals {
    uint64_t malformed;
    uint64_t checksum;
    // Segments that did not verify: any of WIRESEAL_STATUS_BAD_OPTIONS to WIRESEAL_STATUS_WRONG_STATE.
    uint64_t verify;
    uint64_t connection_exists;
    uint64_t no_connection;
    uint64_t source_routed;
    uint64_t no_peer;
    uint64_t no_key;
    uint64_t table_full;
    uint64_t icmp;
    // The stack's segment could not be signed.
    uint64_t sign;
    uint64_t no_room;
    uint64_t already_signed;
    uint64_t too_long_for_link;
    // Zeros: for later versions.
    uint64_t reserved[6];
};

// One packet of a call of wireseal_shim_inbound_batch() or wireseal_shim_outbound_batch().
struct wireseal_packet {
    // The buffer. Those of one call must not overlap.
    uint8_t *buffer;
    // Octets of the buffer. The packet ends within them.
    size_t size;
    // Where the packet starts in the buffer, before the call and after it. Outbound, it grows into the octets before it.
    size_t offset;
    // Octets of the packet after the call; 0 if it is to be dropped.
    size_t length;
    // An enum wireseal_status after the call: WIRESEAL_STATUS_OK if the packet goes on.
    uint32_t status;
};

// A peer of a shim.
struct wireseal_shim_peer {
    // Its connections.
    struct wireseal_connection_identifier connections;
    // Its keys, the preferred one first, without their secrets: `master_key` is null.
    struct wireseal_mkt mkts[WIRESEAL_MKTS];
    // How many keys it has.
    size_t mkt_count;
    // Zeros: for later versions.
    uint64_t reserved[4];
};

// When a key is valid, in seconds since 1970-01-01T00:00:00Z. All zeros means always.
struct wireseal_lifetime {
    // The first second in which it is valid; 0 for no start.
    int64_t from;
    // The first second in which it is not valid any more; 0 for no end.
    int64_t until;
};

// A key of a chain. Set all to zero first: then what you do not set has its usual value.
struct wireseal_chain_key {
    // Identifies the key within its chain. It is never sent.
    uint64_t key_id;
    // The key. Its `accept_only` is ignored, because the lifetimes decide that.
    struct wireseal_mkt mkt;
    // When this end may choose to sign with it.
    struct wireseal_lifetime send;
    // When the peer may sign with it. It must cover `send`.
    struct wireseal_lifetime accept;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// What the running kernel can do.
struct wireseal_linux_support {
    // It has TCP-AO.
    bool tcp_ao;
    // It has TCP-MD5.
    bool md5;
    // The TCP-AO algorithms that it accepts in keys: a bit for each, 1 << WIRESEAL_TCP_AO_ALGORITHM_... .
    uint32_t algorithms;
    // Its release, as `uname -r` prints it.
    char kernel[65];
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// What identifies a key on a socket. Set all to zero first.
struct wireseal_key_name {
    // The peers that it is for.
    struct wireseal_network remote;
    // The KeyID in segments that this end signs with the key.
    uint8_t send_id;
    // The KeyID in segments that the peer signs with the key.
    uint8_t recv_id;
    // Not 0: the key is only for connections in the VRF `vrf`.
    uint8_t in_vrf;
    // The index of the VRF device, or 0 for connections in no VRF.
    uint32_t vrf;
    // Zeros: for later versions.
    uint32_t reserved;
};

// The state of TCP-AO on a socket.
struct wireseal_socket_info {
    // False if no key was ever put on the socket and it never required TCP-AO, or if the connection was opened without TCP-AO. The other
    // fields are then zero, and the ids WIRESEAL_NO_KEY_ID.
    bool has_tcp_ao;
    // Whether unsigned segments are refused from all peers, even those that have no key here.
    bool required;
    // Whether hard ICMP errors are obeyed. By default they are dropped and counted (RFC 5925 §7.8).
    bool accept_icmps;
    // The SendID of the current key, or WIRESEAL_NO_KEY_ID, as on a listening socket.
    int32_t current_key;
    // The RecvID of the rnext key, or WIRESEAL_NO_KEY_ID.
    int32_t rnext_key;
    // Received segments. A connection counts from its start; a listening socket counts those that belong to no connection.
    struct wireseal_counters counters;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// A key on a socket, without its secret.
struct wireseal_socket_key {
    // What identifies it.
    struct wireseal_key_name name;
    // Linux's name of the algorithm, such as "cmac(aes)".
    char algorithm[64];
    // Octets of the MAC.
    uint8_t mac_length;
    // The MAC covers no TCP options but AO's own.
    bool options_excluded;
    // This end signs with it.
    bool is_current;
    // This end asks the peer to sign with it.
    bool is_rnext;
    // Segments that verified under it on this socket.
    uint64_t good;
    // Segments that failed under it on this socket.
    uint64_t bad;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// What a manager's last step found out about a socket.
struct wireseal_socket_state {
    // The number of its attachment. The manager uses it for no other socket.
    uint64_t attachment;
    // The peer of a connection, or of a socket that will connect, as wireseal_manager_set_peer() reads it, with addresses in the form of
    // RFC 5952. Empty for a socket that listens.
    char peer[96];
    // The number of the newest change of the manager's peers at the time when the step set the keys.
    uint64_t generation;
    // True for a connection that you should shut down, because no key is valid for sending now, or because its peer was removed. Its keys are
    // still on the socket, so what you send last is signed.
    bool expired;
    // Whether the peer has not signed yet with the key that this end asks for. If it has the key, it does so in its next segment.
    bool is_peer_behind;
    // Received segments. All zero before the first step, and if the socket has no TCP-AO.
    struct wireseal_counters counters;
    // The pointer of wireseal_attachment_set_user(); null before that call.
    void *user;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// A line for the log, without secrets.
struct wireseal_line {
    // One line, without a line end.
    const char *text;
    // Whether somebody should look at it. Other lines say what was done.
    bool is_warning;
    // Zeros: for later versions.
    uint8_t reserved[7];
};

// What a step found and did about one socket. It and what it points to are valid until the callback returns.
struct wireseal_report {
    // An enum wireseal_report_kind.
    uint32_t kind;
    // The state, as wireseal_attachment_state() writes it from now on.
    struct wireseal_socket_state state;
    // Segments since the last report whose MAC was wrong.
    uint64_t refused_bad;
    // Segments since the last report with a KeyID that no key has.
    uint64_t refused_unknown;
    // Unsigned segments since the last report.
    uint64_t refused_unsigned;
    // `line_count` lines for the log, or null.
    const struct wireseal_line *lines;
    // How many lines there are.
    size_t line_count;
};

// Called for each report. `context` is the one given to wireseal_manager_step(). It may call any function of the manager.
typedef void (*wireseal_report_callback)(void *context, const struct wireseal_report *report);

// What a manager does if a peer does not follow a change of its keys. All zeros: it tries again.
struct wireseal_policy {
    // An enum wireseal_on_failure.
    uint32_t on_failure;
    // How many seconds the peer has to sign with the new key and ask for it, once its connection has the key. Set more than the interval of
    // its keepalives. 0: no limit; then only a key that cannot be set is a failure.
    uint32_t patience;
    // The name of the peer's cohort, for WIRESEAL_ON_FAILURE_RESET_COHORT, or null. Peers with the same name are in one cohort.
    const char *cohort;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// A change of one peer. Set all to zero first.
struct wireseal_peer_change {
    // The peer, as wireseal_manager_set_peer() reads it.
    const char *peer;
    // An enum wireseal_peer_change_kind.
    uint32_t kind;
    // For WIRESEAL_PEER_CHANGE_KIND_SET: the chains among which the peer's is. Otherwise null.
    const struct wireseal_chains *chains;
    // The name of the peer's chain; null for the only one.
    const char *chain;
    // The peer's policy from now on; null to leave it as it is.
    const struct wireseal_policy *policy;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// Called with a line of text, which is valid until the callback returns. `context` is the one given to the function.
typedef void (*wireseal_line_callback)(void *context, const char *line);

// A peer of a manager, from wireseal_manager_peers(). It and what it points to are valid until the callback returns.
struct wireseal_peer {
    // The peer, as wireseal_manager_set_peer() reads it.
    const char *peer;
    // The name of its key chain; null if it is blocked.
    const char *chain;
    // The number of the change that gave it this chain, or blocked it.
    uint64_t generation;
};

// Called for each peer. `context` is the one given to the function. It may call any function of the manager.
typedef void (*wireseal_peer_callback)(void *context, const struct wireseal_peer *peer);

// How far a change of a manager's peers has come, according to the steps so far.
struct wireseal_progress {
    // Whether a later change was made. Ask about that one instead.
    bool is_superseded;
    // Whether the change was undone.
    bool is_undone;
    // Whether all sockets that count have the keys.
    bool is_held;
    // Whether, in addition, the peer of each connection signs with its preferred key, and asks for it.
    bool has_moved;
    // How many sockets count: not connections that have ended, nor those of peers that hold their old keys.
    size_t sockets;
    // How many of them lack keys.
    size_t not_held;
    // How many of them have a peer that has not moved.
    size_t not_moved;
    // For how many peers a policy has acted since their last change.
    size_t given_up;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// A packet that was opened: all of it is authentic.
struct wireseal_quic_opened {
    // The packet number.
    uint64_t number;
    // The octets of header, payload and tag. Another packet of the datagram may follow.
    size_t packet_length;
    // Where the payload starts, and the header ends.
    size_t payload_offset;
    // The octets of the payload: at least one.
    size_t payload_length;
    // The key phase bit of a short header; 0 for a long one.
    uint8_t phase;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// What a packet says without keys. None of it is authentic. Offsets are from the start of the packet.
struct wireseal_quic_packet {
    // The version of a long header, which is 0 in a Version Negotiation packet; 0 for a short one.
    uint32_t version;
    // An enum wireseal_quic_packet_type.
    uint32_t packet_type;
    // The octets of the packet, tag included. Another packet of the datagram may follow.
    size_t length;
    // Where the destination connection ID starts.
    size_t destination_id_offset;
    // Its octets: at most 20 in a long header of a version that is built in, at most 255 in another.
    size_t destination_id_length;
    // Where the source connection ID starts; 0 for a short header.
    size_t source_id_offset;
    // Its octets, with the same limits.
    size_t source_id_length;
    // Where the token of an Initial packet starts; 0 if there is none.
    size_t token_offset;
    // Its octets.
    size_t token_length;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

// Where the parts of a verified Retry packet are, in octets from its start.
struct wireseal_quic_retry {
    // Where the source connection ID starts. It becomes the destination connection ID of the client's packets, and the next Initial keys are
    // derived from it.
    size_t source_id_offset;
    // Its octets: at most 20.
    size_t source_id_length;
    // Where the token starts, which the client returns.
    size_t token_offset;
    // Its octets: at least one.
    size_t token_length;
    // Zeros: for later versions.
    uint64_t reserved[2];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the text for a status: one line in English, for logs, which stays valid as long as the program runs. `status` may be any number.
const char *wireseal_status_text(uint32_t status);

// Returns the library's version, such as "0.1.0". The text stays valid as long as the program runs.
const char *wireseal_version(void);

// Returns what the library was built with: the sum of constants WIRESEAL_FEATURE_... . If an algorithm was left out, making a key for it
// returns WIRESEAL_STATUS_NOT_BUILT_IN.
uint32_t wireseal_features(void);

// Reads an address such as "192.0.2.1" or "2001:db8::1".
//
// Errors: WIRESEAL_STATUS_BAD_ADDRESS for any other text; _BAD_ARGUMENT if it is not UTF-8.
enum wireseal_status wireseal_address_from_text(const char *text, struct wireseal_address *address);

// Reads a network such as "192.0.2.0/24" or "2001:db8::/32", or one host such as "192.0.2.1".
//
// Errors: WIRESEAL_STATUS_BAD_ADDRESS for any other text, also if a bit after the prefix is set; _BAD_ARGUMENT if it is not UTF-8.
enum wireseal_status wireseal_network_from_text(const char *text,
                                                struct wireseal_network *network);

// Writes the number of the algorithm with this name, an enum wireseal_tcp_ao_algorithm, to `*algorithm`. The name is that of RFC 5926, the
// draft, Linux, BIRD, Junos or IOS XR, in upper or lower case: "HMAC-SHA-1-96", "hmac(sha1)", "aes-128-cmac-96".
//
// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM; _BAD_ARGUMENT if the text is not UTF-8.
enum wireseal_status wireseal_tcp_ao_algorithm_from_name(const char *name,
                                                         uint32_t *algorithm);

// Writes the usual length of an algorithm's MAC in octets to `*length`: that of a struct wireseal_mkt whose `mac_length` is 0.
//
// Error: WIRESEAL_STATUS_UNKNOWN_ALGORITHM.
enum wireseal_status wireseal_tcp_ao_mac_length(uint32_t algorithm,
                                                size_t *length);

// Returns how many octets of memory a connection needs.
size_t wireseal_connection_size(void);

// Returns the alignment of that memory, in octets.
size_t wireseal_connection_align(void);

// Makes a connection in `size` octets of `memory`, which this end opens with a SYN of sequence number `isn`. `mkts` points to its `count`
// keys, at most WIRESEAL_MKTS; the preferred one becomes the current and the rnext key.
//
// Errors: WIRESEAL_STATUS_NO_KEY if there is no key or all are accept-only; _TOO_MANY_KEYS, _ID_IN_USE; _BAD_ADDRESS; those of a key:
// _MASTER_KEY_LENGTH, _MAC_LENGTH, _UNKNOWN_ALGORITHM, _NOT_BUILT_IN, _BAD_ARGUMENT.
enum wireseal_status wireseal_connection_active(void *memory,
                                                size_t size,
                                                const struct wireseal_pair *pair,
                                                uint32_t isn,
                                                const struct wireseal_mkt *mkts,
                                                size_t count,
                                                struct wireseal_connection **connection);

// Makes a connection that the peer opens with a SYN, if the SYN verifies. A listener needs to keep nothing before that, so a flood of forged
// SYNs costs it no memory. Sign the SYN-ACK with the connection, which takes this end's initial sequence number from it.
//
// `syn` is the SYN, TCP header and payload, which came from `source` to `destination`. The key that signed it becomes the rnext key. The key
// that it asks for becomes the current key; if there is no such key, the one that signed it.
//
// A replayed SYN verifies at any time: do not end an open connection because of one.
//
// Errors: those of wireseal_connection_active() and wireseal_connection_verify(); WIRESEAL_STATUS_WRONG_STATE if the segment is not a SYN, or
// has ACK or RST.
enum wireseal_status wireseal_connection_passive(void *memory,
                                                 size_t size,
                                                 const struct wireseal_address *source,
                                                 const struct wireseal_address *destination,
                                                 const uint8_t *syn,
                                                 size_t length,
                                                 const struct wireseal_mkt *mkts,
                                                 size_t count,
                                                 struct wireseal_connection **connection);

// Ends an established connection, and writes its state to `state`, from which wireseal_connection_import() or wireseal_shim_adopt() continues
// it elsewhere. The state has `*length` octets, for which a `size` of WIRESEAL_STATE_SIZE is always enough, and no secrets. Move the keys
// separately.
//
// Errors, after which the connection goes on unchanged: WIRESEAL_STATUS_TOO_SMALL if `size` is too small; _NOT_ESTABLISHED if the handshake is
// not complete.
enum wireseal_status wireseal_connection_export(struct wireseal_connection *connection,
                                                uint8_t *state,
                                                size_t size,
                                                size_t *length);

// Makes a connection from an exported state of `length` octets and the keys that it had. Import each state only once: the sequence number
// extensions of two connections would soon differ.
//
// Errors: WIRESEAL_STATUS_BAD_STATE if the octets are not a state, or its current or rnext key is missing; those of the keys, as for
// wireseal_connection_active().
enum wireseal_status wireseal_connection_import(void *memory,
                                                size_t size,
                                                const uint8_t *state,
                                                size_t length,
                                                const struct wireseal_mkt *mkts,
                                                size_t count,
                                                struct wireseal_connection **connection);

// Ends a connection, and wipes its memory.
enum wireseal_status wireseal_connection_end(struct wireseal_connection *connection);

// Appends an AO option of the current key's size to the options of a header that will be signed, and pads it with NOPs to a multiple of four
// octets. Call it for every header, because any segment from the peer may change the current key.
//
// `options` is the header's option space of `size` octets, at most 40, of which `used` have options. Their new length goes to `*new_used`.
//
// Error: WIRESEAL_STATUS_NO_ROOM if option and padding do not fit.
enum wireseal_status wireseal_connection_append_ao(struct wireseal_connection *connection,
                                                   uint8_t *options,
                                                   size_t size,
                                                   size_t used,
                                                   size_t *new_used);

// Writes to `*length` how many octets the AO option and its padding take in a header without other options: 8 to WIRESEAL_OPTION_ROOM. Ask
// again after every wireseal_connection_verify(). Subtract them from the segment's data, never from the MSS that you advertise (RFC 9293
// §3.7.1).
enum wireseal_status wireseal_connection_option_length(struct wireseal_connection *connection,
                                                       size_t *length);

// Signs a TCP segment of `length` octets, header and payload, in place with the current key: fills the KeyID, RNextKeyID and MAC into the AO
// option that wireseal_connection_append_ao() has put into its header. Compute the checksum afterwards.
//
// Errors, after which segment and connection are unchanged: WIRESEAL_STATUS_MALFORMED, _BAD_OPTIONS; _NO_OPTION if there is no AO option of
// the current key's size; _OTHER_CONNECTION if the ports differ; _WRONG_STATE if the connection cannot send it now, such as a SYN when it is
// established.
enum wireseal_status wireseal_connection_sign(struct wireseal_connection *connection,
                                              uint8_t *tcp,
                                              size_t length);

// Verifies a TCP segment of `length` octets, header and payload, that came from the connection's peer to this end. Compare the addresses
// before; this function compares the ports. An authentic segment updates the peer's initial sequence number, the sequence number extension,
// and the current key if the peer asks for another. Checking windows remains TCP's job: a replayed segment verifies again.
//
// `verified` may be null.
//
// Errors, after which you drop the segment: WIRESEAL_STATUS_UNSIGNED, _BAD_OPTIONS, _UNKNOWN_KEY_ID, _WRONG_MAC_LENGTH, _BAD_MAC,
// _WRONG_STATE, and nothing but a counter has changed; _MALFORMED, _OTHER_CONNECTION if the ports differ, and nothing has changed.
enum wireseal_status wireseal_connection_verify(struct wireseal_connection *connection,
                                                const uint8_t *tcp,
                                                size_t length,
                                                struct wireseal_verified *verified);

// Adds a key, which the peer may now sign with. The current and the rnext key stay.
//
// Errors: WIRESEAL_STATUS_ID_IN_USE, _TOO_MANY_KEYS, and those of a key, as for wireseal_connection_active().
enum wireseal_status wireseal_connection_add_key(struct wireseal_connection *connection,
                                                 const struct wireseal_mkt *mkt);

// Removes the key with this SendID, and wipes it. If it is the current or the rnext key, the key with the SendID `replacement` takes its
// place; else `replacement` may be WIRESEAL_NO_KEY_ID. Remove such a key only when both ends have the replacement.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_KEY for either id; _LAST_KEY; _KEY_IN_USE if the key needs a replacement and none is given; _BAD_ARGUMENT if
// `replacement` is not an id.
enum wireseal_status wireseal_connection_remove_key(struct wireseal_connection *connection,
                                                    uint8_t send_id,
                                                    int32_t replacement);

// Signs with the key of this SendID from the next segment on, without waiting for the peer to ask.
//
// Error: WIRESEAL_STATUS_UNKNOWN_KEY.
enum wireseal_status wireseal_connection_set_current_key(struct wireseal_connection *connection,
                                                         uint8_t send_id);

// Asks the peer, from the next segment on, to sign with the key of this RecvID.
//
// Error: WIRESEAL_STATUS_UNKNOWN_KEY.
enum wireseal_status wireseal_connection_set_rnext_key(struct wireseal_connection *connection,
                                                       uint8_t recv_id);

// Replaces all keys in one step, to apply changes of a key chain, or to replace a secret under the same ids. The preferred key becomes the
// rnext key. The current key stays if a key at `mkts` has its SendID and is not accept-only; else the preferred one becomes the current key.
// An accept-only key, whose send lifetime is over, stays the current key until the peer has stopped using it.
//
// Errors: those of the keys, as for wireseal_connection_active().
enum wireseal_status wireseal_connection_replace_keys(struct wireseal_connection *connection,
                                                      const struct wireseal_mkt *mkts,
                                                      size_t count);

// Writes what is known of a connection to `*info`.
enum wireseal_status wireseal_connection_get_info(struct wireseal_connection *connection,
                                                  struct wireseal_connection_info *info);

// Writes to `*ignore` whether to drop a received IP packet of `length` octets, because it is a hard ICMP error about this connection, which is
// established: anyone can forge such errors (RFC 5925 §7.8). They are counted. False for any other packet.
enum wireseal_status wireseal_connection_ignores_icmp(struct wireseal_connection *connection,
                                                      const uint8_t *packet,
                                                      size_t length,
                                                      bool *ignore);

// Derives a traffic key (RFC 5926 §3.1) of 16, 20 or 32 octets, depending on the algorithm. Only to compare with test vectors and other
// implementations: no function takes a traffic key.
//
// Writes `*length` octets to `traffic_key`, which has room for `size`; WIRESEAL_TRAFFIC_KEY_MAX are always enough.
//
// Errors: WIRESEAL_STATUS_TOO_SMALL if the key is longer; those of a key, as for wireseal_connection_active().
enum wireseal_status wireseal_traffic_key(const struct wireseal_mkt *mkt,
                                          const struct wireseal_kdf_context *context,
                                          uint8_t *traffic_key,
                                          size_t size,
                                          size_t *length);

// Appends an AO option with a MAC of `mac_length` octets, all zeros, to the options of a TCP header, and pads it with NOPs to a multiple of
// four octets. wireseal_segment_sign() fills it in.
//
// `options` is the header's option space of `size` octets, at most 40, of which `used` have options. Their new length goes to `*new_used`.
//
// Error: WIRESEAL_STATUS_NO_ROOM if option and padding do not fit.
enum wireseal_status wireseal_segment_append_ao(uint8_t *options,
                                                size_t size,
                                                size_t used,
                                                size_t mac_length,
                                                size_t *new_used);

// Signs a TCP segment of `length` octets, header and payload, in place: fills the KeyID, RNextKeyID and MAC into the AO option that its header
// has. Compute the checksum afterwards.
//
// `sne` is the extension of its sequence number (RFC 5925 §6.2), `rnext_key_id` the RecvID of the key that the peer is asked to sign with.
//
// Errors, after which the segment is unchanged: WIRESEAL_STATUS_MALFORMED, _BAD_OPTIONS, _NO_OPTION; _OTHER_CONNECTION if its ports are not
// those of `context`; those of a key, as for wireseal_connection_active().
enum wireseal_status wireseal_segment_sign(const struct wireseal_mkt *mkt,
                                           const struct wireseal_kdf_context *context,
                                           uint32_t sne,
                                           uint8_t rnext_key_id,
                                           uint8_t *tcp,
                                           size_t length);

// Verifies a TCP segment of `length` octets, header and payload, with the one of the `count` keys at `mkts` whose RecvID is the segment's
// KeyID. `sne` is the extension of its sequence number. The index of the key goes to `*index`, which may be null.
//
// Errors: WIRESEAL_STATUS_UNSIGNED, _BAD_OPTIONS, _UNKNOWN_KEY_ID, _WRONG_MAC_LENGTH, _BAD_MAC, _MALFORMED; _OTHER_CONNECTION if its ports are
// not those of `context`; those of a key, as for wireseal_connection_active().
enum wireseal_status wireseal_segment_verify(const struct wireseal_mkt *mkts,
                                             size_t count,
                                             const struct wireseal_kdf_context *context,
                                             uint32_t sne,
                                             const uint8_t *tcp,
                                             size_t length,
                                             size_t *index);

// Returns how many octets of memory a shim needs that has room for `peers` peers and, at one time, `connections` connections; 0 if no memory
// is that large. Set `connections` higher than the number of peers and of open connections together, so that handshakes need not wait for one
// another.
size_t wireseal_shim_size(size_t peers,
                          size_t connections);

// Returns the alignment of that memory, in octets.
size_t wireseal_shim_align(void);

// Makes a shim without peers. It needs `size` octets of memory, as wireseal_shim_size() returns for these numbers.
//
// `hash_key` points to 16 random octets, new at every start: anyone who knows them can choose ports and addresses so that each packet takes as
// many steps as there are connections. In a library that was built for an operating system it may be null; the shim then gets them from the
// system.
//
// Error: WIRESEAL_STATUS_BAD_ARGUMENT if a value of the configuration is not allowed.
enum wireseal_status wireseal_shim_new(void *memory,
                                       size_t size,
                                       const struct wireseal_shim_config *config,
                                       const uint8_t *hash_key,
                                       size_t peers,
                                       size_t connections,
                                       struct wireseal_shim **shim);

// Ends a shim, and wipes all of its memory, with the keys of its peers and connections.
enum wireseal_status wireseal_shim_end(struct wireseal_shim *shim);

// Reports the shim's events to `observer`, with `context`, from now on. Both may be null; the shim keeps both pointers.
enum wireseal_status wireseal_shim_set_observer(struct wireseal_shim *shim,
                                                wireseal_observer observer,
                                                void *context);

// Adds a peer: the connections to protect from now on, and their `count` keys, at most WIRESEAL_MKTS. Without keys nothing gets through. Its
// index goes to `*index`. After the peer is removed, a later one may get the same index. Live connections of a less specific peer that now
// belong to this one get its keys.
//
// Errors: WIRESEAL_STATUS_TOO_MANY_PEERS; _BAD_ADDRESS, also if one network has only IPv4 addresses and the other only IPv6, so that nothing
// would be protected; _PEERS_OVERLAP if another peer covers the same connections, is as specific, and has a key with the same SendID or
// RecvID; those of the keys, as for wireseal_connection_active().
enum wireseal_status wireseal_shim_add_peer(struct wireseal_shim *shim,
                                            const struct wireseal_connection_identifier *connections,
                                            const struct wireseal_mkt *mkts,
                                            size_t count,
                                            size_t *index);

// Removes a peer and forgets its connections. They are not protected any more, unless another peer covers them.
//
// Error: WIRESEAL_STATUS_NO_SUCH_PEER.
enum wireseal_status wireseal_shim_remove_peer(struct wireseal_shim *shim,
                                               size_t index);

// Replaces the keys of a peer and of its live connections, as wireseal_connection_replace_keys() does. If `count` is 0, its connections are
// forgotten, and nothing gets through, because the peer is still protected.
//
// Errors: WIRESEAL_STATUS_NO_SUCH_PEER, _PEERS_OVERLAP, and those of the keys, as for wireseal_connection_active().
enum wireseal_status wireseal_shim_set_mkts(struct wireseal_shim *shim,
                                            size_t index,
                                            const struct wireseal_mkt *mkts,
                                            size_t count);

// Stops protecting a peer until the time `until_ms`, for the days in which both ends are being configured: until then anyone can forge
// segments, as without TCP-AO. Signed connections still sign and verify, but segments that are unsigned or do not verify pass to the stack,
// and segments that cannot be signed pass to the link. wireseal_shim_passed() counts them. Once `now_ms` of a call has reached `until_ms`,
// protection is back, even if the clock goes back later. 0 ends it at once.
//
// Error: WIRESEAL_STATUS_NO_SUCH_PEER.
enum wireseal_status wireseal_shim_accept_mismatches(struct wireseal_shim *shim,
                                                     size_t index,
                                                     uint64_t until_ms);

// Forgets connections that have reached a time limit: those that have ended, were never completed, or have been idle for hours. Call it once a
// minute, so that their keys are wiped, and a peer that restarted on the same ports can connect again.
enum wireseal_status wireseal_shim_expire(struct wireseal_shim *shim,
                                          uint64_t now_ms);

// Writes to `*counters` the verdicts on segments from all peers together, including segments of no connection.
enum wireseal_status wireseal_shim_counters(struct wireseal_shim *shim,
                                            struct wireseal_counters *counters);

// Writes to `*counters` the verdicts on segments from one peer.
//
// Error: WIRESEAL_STATUS_NO_SUCH_PEER.
enum wireseal_status wireseal_shim_peer_counters(struct wireseal_shim *shim,
                                                 size_t index,
                                                 struct wireseal_counters *counters);

// Writes to `*refusals` how many packets were refused in one `direction`, an enum wireseal_direction.
//
// Error: WIRESEAL_STATUS_BAD_ARGUMENT for another number.
enum wireseal_status wireseal_shim_refused(struct wireseal_shim *shim,
                                           uint32_t direction,
                                           struct wireseal_refusals *refusals);

// Writes to `*refusals` how many packets passed unprotected in both directions together, because of wireseal_shim_accept_mismatches(), by the
// reason for which they would have been refused.
enum wireseal_status wireseal_shim_passed(struct wireseal_shim *shim,
                                          struct wireseal_refusals *refusals);

// Writes what is known of a live connection to `*info`.
//
// Error: WIRESEAL_STATUS_NO_CONNECTION if the shim has none with this pair.
enum wireseal_status wireseal_shim_connection(struct wireseal_shim *shim,
                                              const struct wireseal_pair *pair,
                                              struct wireseal_connection_info *info);

// Asks a live connection's peer, from the next segment on, to sign with the key of this RecvID.
//
// Errors: WIRESEAL_STATUS_NO_CONNECTION, _UNKNOWN_KEY.
enum wireseal_status wireseal_shim_set_rnext_key(struct wireseal_shim *shim,
                                                 const struct wireseal_pair *pair,
                                                 uint8_t recv_id);

// Signs a live connection's segments with the key of this SendID from the next one on, without waiting for the peer to ask.
//
// Errors: WIRESEAL_STATUS_NO_CONNECTION, _UNKNOWN_KEY.
enum wireseal_status wireseal_shim_set_current_key(struct wireseal_shim *shim,
                                                   const struct wireseal_pair *pair,
                                                   uint8_t send_id);

// Forgets a connection, and wipes its keys, for example when the stack has dropped it without a segment. Its packets are refused from now on,
// until a new handshake.
//
// Error: WIRESEAL_STATUS_NO_CONNECTION if the shim has none with this pair.
enum wireseal_status wireseal_shim_forget(struct wireseal_shim *shim,
                                          const struct wireseal_pair *pair);

// Forgets a live connection, and writes the state from which it is continued elsewhere, as wireseal_connection_export() does.
//
// Errors, after which the connection goes on unchanged: WIRESEAL_STATUS_TOO_SMALL if `size` is too small; _NO_CONNECTION if the shim has none
// with this pair; _NOT_ESTABLISHED if its handshake is not complete, or one end has sent a FIN or RST.
enum wireseal_status wireseal_shim_export(struct wireseal_shim *shim,
                                          const struct wireseal_pair *pair,
                                          uint8_t *state,
                                          size_t size,
                                          size_t *length);

// Takes over a connection that was established elsewhere, from its exported state and the keys that it had there. It then gets the keys of its
// peer in this shim, as by wireseal_shim_set_mkts(), and replaces a connection of the same pair.
//
// Errors: WIRESEAL_STATUS_BAD_STATE as for wireseal_connection_import(), _NO_PEER, _NO_KEY if the peer has no key to sign with, _TABLE_FULL.
enum wireseal_status wireseal_shim_adopt(struct wireseal_shim *shim,
                                         uint64_t now_ms,
                                         const uint8_t *state,
                                         size_t length,
                                         const struct wireseal_mkt *mkts,
                                         size_t count);

// Takes an IP packet of `length` octets from the link. The packet for the stack is in the same buffer: `*new_length` octets from `packet +
// *offset` on.
//
// Packets of other protocols, and unsigned segments of connections without a peer, come back unchanged, the latter unless
// WIRESEAL_UNMATCHED_DROP_ALL is configured.
//
// Errors, after which you drop the packet: any of WIRESEAL_STATUS_MALFORMED to _ICMP, and _NO_KEY. The packet is unchanged, and only counters
// of the shim have changed.
enum wireseal_status wireseal_shim_inbound(struct wireseal_shim *shim,
                                           uint64_t now_ms,
                                           uint8_t *packet,
                                           size_t length,
                                           size_t *offset,
                                           size_t *new_length);

// Adjusts an ICMP error that this host made because its own packet does not fit the link: subtracts the room for the AO option from the MTU in
// it, and adjusts its checksum. Then pass it to the stack, not to wireseal_shim_inbound(). Any other packet is unchanged.
//
// Make sure that this host made it, by the device that it came from.
enum wireseal_status wireseal_shim_own_icmp(struct wireseal_shim *shim,
                                            uint8_t *packet,
                                            size_t length);

// Takes an IP packet from the stack, which starts at `buffer + room` and ends within the `size` octets of `buffer`. The packet for the link is
// `*new_length` octets from `buffer + *offset` on: it grows into the `room` octets before it, of which WIRESEAL_OPTION_ROOM are always enough.
//
// Packets of other protocols and of connections without a peer come back unchanged, the latter unless WIRESEAL_UNMATCHED_DROP_ALL is
// configured.
//
// Errors, after which you send nothing, and the contents of `buffer` are undefined: WIRESEAL_STATUS_BAD_ARGUMENT if `room` is more than
// `size`; any of WIRESEAL_STATUS_MALFORMED, _BAD_OPTIONS, _WRONG_STATE, _NO_CONNECTION to _TABLE_FULL, _NO_ROOM to _TOO_LONG_FOR_LINK, and
// _NO_KEY.
enum wireseal_status wireseal_shim_outbound(struct wireseal_shim *shim,
                                            uint64_t now_ms,
                                            uint8_t *buffer,
                                            size_t size,
                                            size_t room,
                                            size_t *offset,
                                            size_t *new_length);

// Takes `count` packets from the link, each as wireseal_shim_inbound() does, and writes to each its result. MACs are computed 16 at a time.
// Pass what has arrived; do not wait for more.
//
// The call returns WIRESEAL_STATUS_OK even if packets were refused.
//
// Errors, after which you drop all packets: each has the status of the call and the length 0. WIRESEAL_STATUS_NULL_POINTER, _TOO_LONG or
// _BAD_ARGUMENT if a buffer is null or too long, or a packet starts after its end: no packet was processed.
enum wireseal_status wireseal_shim_inbound_batch(struct wireseal_shim *shim,
                                                 uint64_t now_ms,
                                                 struct wireseal_packet *packets,
                                                 size_t count);

// Takes `count` packets from the stack, each as wireseal_shim_outbound() does, and writes to each its result. Otherwise as
// wireseal_shim_inbound_batch().
enum wireseal_status wireseal_shim_outbound_batch(struct wireseal_shim *shim,
                                                  uint64_t now_ms,
                                                  struct wireseal_packet *packets,
                                                  size_t count);

// Writes the first peer whose index is at least `*index` to `*peer`, and its index to `*index`. WIRESEAL_STATUS_NO_SUCH_PEER if there is none.
// To list all: for (index = 0; wireseal_shim_next_peer(shim, &index, &peer) == WIRESEAL_STATUS_OK; index++). Peers may be added and removed
// between the calls.
enum wireseal_status wireseal_shim_next_peer(struct wireseal_shim *shim,
                                             size_t *index,
                                             struct wireseal_shim_peer *peer);

// Writes what is known of the first connection whose place in the table is at least `*place` to `*info`, its place to `*place`, and the index
// of its peer to `*peer`, which may be null. WIRESEAL_STATUS_NO_CONNECTION if there is none. List all as with wireseal_shim_next_peer().
// Handshakes are included, and closed connections that are kept for late segments.
enum wireseal_status wireseal_shim_next_connection(struct wireseal_shim *shim,
                                                   size_t *place,
                                                   size_t *peer,
                                                   struct wireseal_connection_info *info);

// Reads the key chains of a file in any format that `wireseal keys` knows: TOML and JSON (RFC 8177), and the configurations of routers and BGP
// daemons. The format is recognized by the file's name and text; if neither tells, it is TOML.
//
// `of_peer`: 0 if the file was written for this end; else it was written for the peer, whose SendIDs are this end's RecvIDs.
// `message`: room for `message_size` octets with the zero at the end, or null. After an error it has one line, with the file, line and column.
// After success it is empty, or has a line for each warning: other users can read the file; a router's chain cannot be used, and why.
//
// Errors: WIRESEAL_STATUS_KEYS if the file cannot be read, or something in it is wrong. If the library was built without the feature
// `formats`, it reads only TOML and JSON (a name that ends in .json) written for this end, and returns WIRESEAL_STATUS_NOT_BUILT_IN for all
// else.
enum wireseal_status wireseal_chains_from_file(const char *path,
                                               uint8_t of_peer,
                                               char *message,
                                               size_t message_size,
                                               struct wireseal_chains **chains);

// Reads the key chains of a text, as wireseal_chains_from_file() reads those of a file.
//
// `name`: what messages call the text. Its ending may give the format, as in "keys.toml".
// `octets`: `length` octets, UTF-8. They hold secrets: wipe them afterwards.
// `format`: "toml", "json", "xml", "bird", "junos", "ios-xr", "ios-xe", "nx-os", "frr", "eos", "vrp", "sr-os", "sr-linux", "gobgp" or
// "openconfig" (else WIRESEAL_STATUS_BAD_ARGUMENT); null to recognize it by the name and text.
enum wireseal_status wireseal_chains_from_text(const char *name,
                                               const uint8_t *octets,
                                               size_t length,
                                               const char *format,
                                               uint8_t of_peer,
                                               char *message,
                                               size_t message_size,
                                               struct wireseal_chains **chains);

// Makes a chain of `count` keys. Two keys may share a SendID or RecvID only if their accept lifetimes do not overlap.
//
// `name`: the chain's name.
// `accept_tolerance`: by how many seconds each accept lifetime is extended, before and after, because clocks differ.
// `preferred`: the `key_id` of the key to sign with whenever it is valid; null for the key whose send lifetime began last.
// `message`: as for wireseal_chains_from_file().
//
// Errors: WIRESEAL_STATUS_KEYS, and those of a key, as for wireseal_connection_active().
enum wireseal_status wireseal_chains_from_keys(const char *name,
                                               const struct wireseal_chain_key *keys,
                                               size_t count,
                                               uint32_t accept_tolerance,
                                               const uint64_t *preferred,
                                               char *message,
                                               size_t message_size,
                                               struct wireseal_chains **chains);

// Writes the name of the chain with this index, counted from 0 in the order of the text. WIRESEAL_STATUS_NO_SUCH_CHAIN if there are
// fewer.
//
// `name`: room for `size` octets with the zero at the end. WIRESEAL_STATUS_TOO_SMALL if the name is longer.
enum wireseal_status wireseal_chains_name(const struct wireseal_chains *chains,
                                          size_t index,
                                          char *name,
                                          size_t size);

// Writes the MKTs of a chain that are valid at a moment, for wireseal_connection_replace_keys() or wireseal_shim_set_mkts(): the preferred one
// first; last, and accept-only, those that are valid only for accepting. There are none if no key is valid for sending: then nothing may get
// through.
//
// `chain`: the chain's name; null for the only one.
// `now`: seconds since 1970-01-01T00:00:00Z.
// `mkts`: room for `room` of them; `*count` is how many there are. If that is more than `room`, only `*count` is written, and the status is
// WIRESEAL_STATUS_TOO_SMALL. Their master keys point into the chains: do not use them after wireseal_chains_end().
// `next_change`: when to ask again, in the same seconds; INT64_MAX if never. It may be null.
enum wireseal_status wireseal_chains_at(const struct wireseal_chains *chains,
                                        const char *chain,
                                        int64_t now,
                                        struct wireseal_mkt *mkts,
                                        size_t room,
                                        size_t *count,
                                        int64_t *next_change);

// Ends key chains, and wipes them once no call uses them any more. A manager that was given a chain has its own copy.
enum wireseal_status wireseal_chains_end(struct wireseal_chains *chains);

// Writes the keys of a text in another format.
//
// `name`, `octets`, `length` and `from`: as for wireseal_chains_from_text().
// `to`: a format; "nx-os", "frr", "sr-linux" and "openconfig" are only read.
// `converted`: room for `size` octets. It gets the text, secrets included, without a zero at its end; wipe it after use. `*needed` is how many
// octets the text has. If that is more than `size`, nothing is written to `converted`, and the status is WIRESEAL_STATUS_TOO_SMALL.
// `message`: as for wireseal_chains_from_file(). After success it has a line for each thing that the other format cannot express.
// WIRESEAL_STATUS_NOT_BUILT_IN if the library was built without the feature `formats`.
enum wireseal_status wireseal_keys_convert(const char *name,
                                           const uint8_t *octets,
                                           size_t length,
                                           const char *from,
                                           const char *to,
                                           uint8_t *converted,
                                           size_t size,
                                           size_t *needed,
                                           char *message,
                                           size_t message_size);

// Finds out what the kernel can do, with sockets of its own that never connect. Call it before you configure the first peer.
//
// Error: WIRESEAL_STATUS_SYSTEM if no socket can be made.
enum wireseal_status wireseal_linux_probe(struct wireseal_linux_support *support);

// Puts a key on a TCP socket. A socket that will listen or connect accepts keys for any peers: put them on it before listen() or connect(). A
// connection accepts only keys for its peer, and only if it was opened with TCP-AO.
//
// `remote`: the peers that the key is for.
// `vrf`: null, or the index of a VRF device, if the key is only for connections in that VRF.
// `flags`: WIRESEAL_SOCKET_CURRENT, WIRESEAL_SOCKET_RNEXT, both or 0.
// `message`: room for `message_size` octets with the zero at the end, or null. After an error it has one line that says why, and what to do.
//
// Errors: WIRESEAL_STATUS_NOT_SUPPORTED, _NOT_IN_KERNEL (the algorithm), _ID_IN_USE, _OTHER_KIND_OF_KEY, _UNUSABLE_NETWORK, _OPENED_UNSIGNED,
// _NO_MEMORY, _REFUSED_BY_KERNEL; those of a key, as for wireseal_connection_active(). All functions with `fd` can return _NOT_A_TCP_SOCKET,
// and _SYSTEM, for example if it is closed.
enum wireseal_status wireseal_socket_add_key(int fd,
                                             const struct wireseal_network *remote,
                                             const struct wireseal_mkt *mkt,
                                             const uint32_t *vrf,
                                             uint32_t flags,
                                             char *message,
                                             size_t message_size);

// Deletes a key from a socket. If it is the current or the rnext key, others take over in the same step.
//
// Except on a listening socket, the kernel waits some milliseconds until nothing uses the key any more.
// `next_current`: null, or the SendID of the key to sign with from now on.
// `next_rnext`: null, or the RecvID of the key to ask the peer for. Neither on a listening socket.
// `message`: as for wireseal_socket_add_key().
//
// Errors: WIRESEAL_STATUS_UNKNOWN_KEY if the socket has no such key or successor; _KEY_IN_USE, also for the last key of a connection: the
// successors have then taken over all the same; _KEY_STAYS for a key in a VRF on Linux 6.18.
enum wireseal_status wireseal_socket_delete_key(int fd,
                                                const struct wireseal_key_name *name,
                                                const uint8_t *next_current,
                                                const uint8_t *next_rnext,
                                                char *message,
                                                size_t message_size);

// Makes a key the current key, which this end signs with. The peer's segments can choose another at any time.
//
// `message`: as for wireseal_socket_add_key().
// Errors: WIRESEAL_STATUS_UNKNOWN_KEY; _REFUSED_BY_KERNEL on a listening socket.
enum wireseal_status wireseal_socket_set_current_key(int fd,
                                                     uint8_t send_id,
                                                     char *message,
                                                     size_t message_size);

// Makes a key the rnext key, which this end asks the peer to sign with.
//
// `message` and errors: as for wireseal_socket_set_current_key().
enum wireseal_status wireseal_socket_set_rnext_key(int fd,
                                                   uint8_t recv_id,
                                                   char *message,
                                                   size_t message_size);

// Refuses unsigned segments from every peer; if `required` is 0, the default, only from those that the socket has a key for.
//
// `message`: as for wireseal_socket_add_key().
// Error: WIRESEAL_STATUS_OTHER_KIND_OF_KEY if a TCP-MD5 key is on the socket.
enum wireseal_status wireseal_socket_set_required(int fd,
                                                  uint8_t required,
                                                  char *message,
                                                  size_t message_size);

// Makes a connection obey hard ICMP errors; if `accept` is 0, the default, they are dropped and counted, because anyone can forge them (RFC
// 5925 §7.8).
//
// `message`: as for wireseal_socket_add_key().
enum wireseal_status wireseal_socket_set_accept_icmps(int fd,
                                                      uint8_t accept,
                                                      char *message,
                                                      size_t message_size);

// Writes the state of TCP-AO on a socket to `*info`.
//
// `message`: as for wireseal_socket_add_key().
enum wireseal_status wireseal_socket_get_info(int fd,
                                              char *message,
                                              size_t message_size,
                                              struct wireseal_socket_info *info);

// Lists the keys on a socket, whichever program put them there, without their secrets.
//
// `keys`: room for `room` of them; `*count` is how many there are. If that is more than `room`, only `*count` is written, and the status is
// WIRESEAL_STATUS_TOO_SMALL.
// `message`: as for wireseal_socket_add_key().
enum wireseal_status wireseal_socket_keys(int fd,
                                          char *message,
                                          size_t message_size,
                                          struct wireseal_socket_key *keys,
                                          size_t room,
                                          size_t *count);

// Resets a connection with a signed segment, even if there are other descriptors of it. Data that was not read is lost.
//
// `message`: as for wireseal_socket_add_key().
enum wireseal_status wireseal_socket_reset(int fd,
                                           char *message,
                                           size_t message_size);

// Puts a TCP-MD5 key (RFC 2385) on a listening socket, for a peer that does not use TCP-AO yet. It replaces a TCP-MD5 key for the same
// network.
//
// `secret`: `secret_length` octets, 1 to 80. `vrf` and `message`: as for wireseal_socket_add_key().
enum wireseal_status wireseal_socket_set_md5_key(int fd,
                                                 const struct wireseal_network *remote,
                                                 const uint32_t *vrf,
                                                 const uint8_t *secret,
                                                 size_t secret_length,
                                                 char *message,
                                                 size_t message_size);

// Deletes the TCP-MD5 key for this network and VRF. A connection goes on unsigned without its key: close it first.
//
// `vrf` and `message`: as for wireseal_socket_add_key().
enum wireseal_status wireseal_socket_delete_md5_key(int fd,
                                                    const struct wireseal_network *remote,
                                                    const uint32_t *vrf,
                                                    char *message,
                                                    size_t message_size);

// Makes a key manager. Call this after the process has forked for the last time, and in the network namespace of the sockets.
//
// Error: WIRESEAL_STATUS_SYSTEM if the process has no descriptor left.
enum wireseal_status wireseal_manager_new(struct wireseal_manager **manager);

// Ends a key manager. Remove its descriptor from your event loop first. The sockets keep the keys that they have. End the attachments, too.
enum wireseal_status wireseal_manager_end(struct wireseal_manager *manager);

// Writes the manager's descriptor to `*fd`, for poll(), epoll, libevent and the like. It is readable when a step is due: a key's lifetime
// begins or ends, a thread has changed a peer, the clock was set, or 30 seconds have passed. Then call wireseal_manager_step().
//
// The descriptor belongs to the manager: do not read from it or close it.
enum wireseal_status wireseal_manager_fd(const struct wireseal_manager *manager,
                                         int *fd);

// Writes to `*unix_ms` when the next step is due, for an event loop with its own timers: milliseconds since 1970-01-01T00:00:00Z, by
// CLOCK_REALTIME. A time in the past means now; so does 0, before the first step. Ask again after each step, each change of peers and each
// attached socket. It does not notice that the clock was set, so sleep for a few seconds at most.
enum wireseal_status wireseal_manager_deadline(const struct wireseal_manager *manager,
                                               int64_t *unix_ms);

// Takes a step, if one is due: puts the keys that are valid now on each socket that needs them, removes those that are not, and reports what
// it found and did. Afterwards the descriptor is not readable until the next step is due.
//
// You may call it at any time, even if no step is due: every call checks whether listening sockets have refused segments with a wrong MAC, and
// reports them. It makes a few system calls for each socket that needs a step.
// Linux takes some milliseconds to delete a key from a connection, and the call waits for it, once for each such key. If your event loop must
// not wait, call this function in a thread of its own that polls the descriptor and does nothing else. Only wireseal_manager_change() with
// WIRESEAL_CHANGE_DRY_RUN and wireseal_attachment_keys() wait for a step in progress; no other function does.
//
// `report`: called for each report, after the step, in this thread; null if you use wireseal_attachment_state() instead. It must return: no
// longjmp(), no C++ exception.
enum wireseal_status wireseal_manager_step(const struct wireseal_manager *manager,
                                           wireseal_report_callback report,
                                           void *context);

// Attaches a socket that listens, or will, and serves only the manager's peers: it gets the keys of all of them, and refuses unsigned segments
// from everybody else. Attach it before listen(): anyone who connects before gets in unsigned.
//
// The manager has a duplicate of the descriptor until wireseal_attachment_end(): until then, closing yours does not close the socket.
// `message`: as for wireseal_manager_set_peer().
//
// Errors: WIRESEAL_STATUS_ALREADY_ATTACHED; and those of wireseal_socket_add_key(), after which you must not listen on the socket.
enum wireseal_status wireseal_manager_attach_listener(const struct wireseal_manager *manager,
                                                      int fd,
                                                      char *message,
                                                      size_t message_size,
                                                      struct wireseal_attachment **attachment);

// Attaches a socket that listens, or will, and also serves peers that the manager does not have, with TCP-MD5 or with nothing. The manager's
// peers are still protected.
//
// Call wireseal_manager_attach_accepted() for every connection that it accepts. If that returns WIRESEAL_STATUS_NO_PEER, the other end is no
// peer of the manager's, and you may serve it; on any other error reset the connection.
// `message` and the duplicate: as for wireseal_manager_attach_listener().
enum wireseal_status wireseal_manager_attach_mixed(const struct wireseal_manager *manager,
                                                   int fd,
                                                   char *message,
                                                   size_t message_size,
                                                   struct wireseal_attachment **attachment);

// Attaches a socket that will connect to `remote`: it gets the keys of this peer. Call it before connect(). If the peer is in a VRF, first
// bind the socket to that.
//
// `interface_index`: the index of the interface of a link-local address (`sin6_scope_id`), or 0.
// `message` and the duplicate: as for wireseal_manager_attach_listener().
//
// Errors, after which you must not connect: WIRESEAL_STATUS_NO_PEER; _NO_KEY if no key of the peer is valid for sending now; and those of
// wireseal_manager_attach_listener().
enum wireseal_status wireseal_manager_attach_connecting(const struct wireseal_manager *manager,
                                                        int fd,
                                                        const struct wireseal_address *remote,
                                                        uint32_t interface_index,
                                                        char *message,
                                                        size_t message_size,
                                                        struct wireseal_attachment **attachment);

// Attaches a connection that was accepted from `remote`. It gets its peer's keys, in place of those from the handshake.
//
// On any error reset the connection (SO_LINGER with 0 seconds, and close) without reading from it: its data may come from somebody who has no
// key, or has another peer's. The only exception is at wireseal_manager_attach_mixed().
// `message` and the duplicate: as for wireseal_manager_attach_listener().
//
// Errors: WIRESEAL_STATUS_NO_PEER, _OPENED_UNSIGNED, _WRONG_KEY, _CONNECTION_ENDED, _NO_KEY, and those of wireseal_manager_attach_listener().
enum wireseal_status wireseal_manager_attach_accepted(const struct wireseal_manager *manager,
                                                      int fd,
                                                      const struct wireseal_address *remote,
                                                      char *message,
                                                      size_t message_size,
                                                      struct wireseal_attachment **attachment);

// Writes what the manager's last step found out about a socket to `*state`. It makes no system call.
enum wireseal_status wireseal_attachment_state(const struct wireseal_attachment *attachment,
                                               struct wireseal_socket_state *state);

// Sets `user` in a socket's states and reports: a pointer to your session, for example. The library never dereferences it. If another thread
// takes a step, its reports may still have null until this call returns, and still have the pointer after the attachment has ended.
enum wireseal_status wireseal_attachment_set_user(const struct wireseal_attachment *attachment,
                                                  void *user);

// Lists the keys that are on an attached socket now, as wireseal_socket_keys() does, without its descriptor. It waits for a step of the socket
// that is in progress.
enum wireseal_status wireseal_attachment_keys(const struct wireseal_attachment *attachment,
                                              char *message,
                                              size_t message_size,
                                              struct wireseal_socket_key *keys,
                                              size_t room,
                                              size_t *count);

// Ends an attachment: the manager closes its duplicate of the descriptor, and the socket keeps the keys that it has. End it before you close
// your descriptor. It does not wait for a step in progress. It waits only if it closes the last descriptor of a socket with SO_LINGER.
enum wireseal_status wireseal_attachment_end(struct wireseal_attachment *attachment);

// Adds a peer, or replaces its key chain; a key with the same ids but another secret is replaced, too. It takes effect with the next step,
// which is due at once.
//
// `peer`: an address, or a network of peers that share the chain. If the peer is only on one interface, add % and the name or index of the
// interface; if it is only in one VRF, add " in VRF " and the name or index of the VRF device: "192.0.2.7", "2001:db8::/64", "fe80::1%eth0",
// "192.0.2.7 in VRF red". A connection belongs to the peer with the longest prefix.
// `chains`: where the chain is; the manager copies it.
// `chain`: its name; null for the only one.
// `message`: room for `message_size` octets with the zero at the end, or null. After an error it has one line that says why, and what to do.
// `generation`: the number of the change, for wireseal_manager_progress(); it may be null.
//
// Errors: WIRESEAL_STATUS_NOT_A_PEER; _NO_SUCH_CHAIN; _NOT_IN_KERNEL if Linux does not have an algorithm of the chain; _PEERS_OVERLAP if a
// connection could belong to this peer or to another, and a key of each has the same SendID or RecvID.
enum wireseal_status wireseal_manager_set_peer(const struct wireseal_manager *manager,
                                               const char *peer,
                                               const struct wireseal_chains *chains,
                                               const char *chain,
                                               char *message,
                                               size_t message_size,
                                               uint64_t *generation);

// Removes a peer. If there is none, this still counts as a change. The next step, which is due at once, removes its keys from the listening
// sockets. Its connections keep theirs, and are reported as expired: shut them down.
//
// On a listening socket attached by wireseal_manager_attach_mixed(), the peer can connect unsigned from then on: block it instead.
// `peer`, `message` and `generation`: as for wireseal_manager_set_peer().
enum wireseal_status wireseal_manager_remove_peer(const struct wireseal_manager *manager,
                                                  const char *peer,
                                                  char *message,
                                                  size_t message_size,
                                                  uint64_t *generation);

// Blocks a peer, for example one whose keys are lost, and adds it if it is new: the next step, which is due at once, gives it a random key on
// listening sockets, which nobody knows. Its connections keep the keys that are in use, and are reported as expired: shut them down.
//
// `peer`, `message` and `generation`: as for wireseal_manager_set_peer().
enum wireseal_status wireseal_manager_block_peer(const struct wireseal_manager *manager,
                                                 const char *peer,
                                                 char *message,
                                                 size_t message_size,
                                                 uint64_t *generation);

// Changes several peers at once. On an error none of them is changed. It takes effect with the next step, which is due at once.
//
// `changes`: `count` of them, each for a different peer; `count` may be 0.
// `flags`: WIRESEAL_CHANGE_DRY_RUN, WIRESEAL_CHANGE_REMOVE_OTHERS, both or 0. A dry run reads the keys of all attached sockets, waits for a
// step in progress, and changes nothing.
// `plan`: called in a dry run with a line for each attached socket; may be null otherwise.
// `message` and `generation`: as for wireseal_manager_set_peer(). A dry run does not write `generation`.
//
// Errors: those of wireseal_manager_set_peer(); WIRESEAL_STATUS_NO_PEER, _PEER_TWICE; _CHANGED_MEANWHILE if another thread changed peers
// during the call: call again.
enum wireseal_status wireseal_manager_change(const struct wireseal_manager *manager,
                                             const struct wireseal_peer_change *changes,
                                             size_t count,
                                             uint32_t flags,
                                             wireseal_line_callback plan,
                                             void *context,
                                             char *message,
                                             size_t message_size,
                                             uint64_t *generation);

// Writes the number of the newest change of a manager's peers to `*generation`; 0 before the first change.
enum wireseal_status wireseal_manager_generation(const struct wireseal_manager *manager,
                                                 uint64_t *generation);

// Lists a manager's peers as they are now, in order: calls `peer` for each, in this thread.
enum wireseal_status wireseal_manager_peers(const struct wireseal_manager *manager,
                                            wireseal_peer_callback peer,
                                            void *context);

// Undoes the newest change of peers: gives the peers that it changed their chains from before. This counts as a new change.
//
// `generation`: the number of the newest change; WIRESEAL_STATUS_CANNOT_UNDO for any other.
// `message`: as for wireseal_manager_set_peer().
// `undoing`: the number of the new change; it may be null.
enum wireseal_status wireseal_manager_undo(const struct wireseal_manager *manager,
                                           uint64_t generation,
                                           char *message,
                                           size_t message_size,
                                           uint64_t *undoing);

// Writes to `*progress` how far the change with the number `generation` has come, according to the steps so far. It makes no system call.
//
// `pending`: called with a line for each socket that lacks keys or whose peer does not use the new key yet, and for each peer for which a
// policy has acted; may be null.
// Error: WIRESEAL_STATUS_BAD_ARGUMENT if no change has this number yet. The number 0 stands for the state before the first change.
enum wireseal_status wireseal_manager_progress(const struct wireseal_manager *manager,
                                               uint64_t generation,
                                               wireseal_line_callback pending,
                                               void *context,
                                               struct wireseal_progress *progress);

// Returns how many packets one key may seal (RFC 9001 §6.6): count them, and update the key before. UINT64_MAX if there is no limit
// (ChaCha20-Poly1305), 0 if no enum wireseal_aead_algorithm has this number.
uint64_t wireseal_quic_confidentiality_limit(uint32_t algorithm);

// Returns how many packets of a connection may fail with WIRESEAL_STATUS_NOT_AUTHENTIC, counted over all its keys, before you must close it
// with AEAD_LIMIT_REACHED (RFC 9001 §6.6). 0 if no enum wireseal_aead_algorithm has this number.
uint64_t wireseal_quic_integrity_limit(uint32_t algorithm);

// Returns how many octets a traffic secret has with this enum wireseal_aead_algorithm, as many as its hash: 48 for AES-256-GCM, 32 for the
// others; 0 if no algorithm has this number. Keys have wireseal_aead_key_length() octets.
size_t wireseal_quic_secret_length(uint32_t algorithm);

// Writes to 32 octets at `secret` the secret of the Initial packets that `sender`, an enum wireseal_quic_side, sends (RFC 9001 §5.2). Its keys
// are for AES-128-GCM. `destination_id` is the destination connection ID of the client's first Initial packet, or the source connection ID of
// the Retry packet that answered it. `version` is a version's number on the wire.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION; WIRESEAL_STATUS_TOO_LONG for an ID above 20 octets; WIRESEAL_STATUS_BAD_ARGUMENT if `sender` is no
// enum wireseal_quic_side.
enum wireseal_status wireseal_quic_initial_secret(uint32_t version,
                                                  const uint8_t *destination_id,
                                                  size_t destination_id_length,
                                                  uint32_t sender,
                                                  uint8_t *secret);

// Writes the secret of the next key phase to `secret_length` octets at `next` (RFC 9001 §6.1, RFC 9369 §3.3.2), which may be where `secret`
// is. Derive only packet keys from it: the header key of the first secret stays.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION, WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH.
enum wireseal_status wireseal_quic_next_secret(uint32_t version,
                                               uint32_t algorithm,
                                               const uint8_t *secret,
                                               size_t secret_length,
                                               uint8_t *next);

// Writes the octets of the keys that are derived from a secret (RFC 9001 §5.1), for stacks that keep IVs themselves or make the keys later:
// wireseal_aead_key_length() octets each to `key` and `header_protection_key`, and 12 to `iv`. Each of the three may be null.
//
// Errors: those of wireseal_quic_next_secret().
enum wireseal_status wireseal_quic_key_octets(uint32_t version,
                                              uint32_t algorithm,
                                              const uint8_t *secret,
                                              size_t secret_length,
                                              uint8_t *key,
                                              uint8_t *iv,
                                              uint8_t *header_protection_key);

// Returns how many octets of memory a struct wireseal_quic_packet_key needs.
size_t wireseal_quic_packet_key_size(void);

// Returns the alignment of that memory, in octets.
size_t wireseal_quic_packet_key_align(void);

// Returns how many octets of memory a struct wireseal_quic_header_key needs.
size_t wireseal_quic_header_key_size(void);

// Returns the alignment of that memory, in octets.
size_t wireseal_quic_header_key_align(void);

// Makes a packet key in `size` octets of `memory` from a traffic secret: from TLS, wireseal_quic_initial_secret() or
// wireseal_quic_next_secret(). `version` is a version's number on the wire, `algorithm` an enum wireseal_aead_algorithm, and the secret has
// wireseal_quic_secret_length() octets.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION, WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
enum wireseal_status wireseal_quic_packet_key_from_secret(void *memory,
                                                          size_t size,
                                                          uint32_t version,
                                                          uint32_t algorithm,
                                                          const uint8_t *secret,
                                                          size_t secret_length,
                                                          struct wireseal_quic_packet_key **key);

// Makes a packet key from the octets of the key, wireseal_aead_key_length() of them, and an IV of 12 octets.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
enum wireseal_status wireseal_quic_packet_key_new(void *memory,
                                                  size_t size,
                                                  uint32_t algorithm,
                                                  const uint8_t *octets,
                                                  size_t octets_length,
                                                  const uint8_t *iv,
                                                  struct wireseal_quic_packet_key **key);

// Ends a packet key and wipes its memory.
enum wireseal_status wireseal_quic_packet_key_end(struct wireseal_quic_packet_key *key);

// Makes a header key from the first secret of its encryption level, with the parameters and errors of wireseal_quic_packet_key_from_secret().
enum wireseal_status wireseal_quic_header_key_from_secret(void *memory,
                                                          size_t size,
                                                          uint32_t version,
                                                          uint32_t algorithm,
                                                          const uint8_t *secret,
                                                          size_t secret_length,
                                                          struct wireseal_quic_header_key **key);

// Makes a header key from the octets of the key, wireseal_aead_key_length() of them.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
enum wireseal_status wireseal_quic_header_key_new(void *memory,
                                                  size_t size,
                                                  uint32_t algorithm,
                                                  const uint8_t *octets,
                                                  size_t octets_length,
                                                  struct wireseal_quic_header_key **key);

// Writes the mask for a `sample` of 16 octets to 5 octets at `mask`: one for the first octet of the header, then four for the packet number
// (RFC 9001 §5.4). For stacks that mask headers in a separate step.
enum wireseal_status wireseal_quic_mask(const struct wireseal_quic_header_key *key,
                                        const uint8_t *sample,
                                        uint8_t *mask);

// Ends a header key and wipes its memory.
enum wireseal_status wireseal_quic_header_key_end(struct wireseal_quic_header_key *key);

// Seals a whole packet in place: encrypts the payload, writes the tag and masks the header (RFC 9001 §5.3 and §5.4), in one pass over the
// packet if Wireseal has routines for the processor's instructions.
//
// `packet` holds the unmasked header, with reserved bits, key phase and packet number; the payload from `payload_offset` on; and 16 octets of
// room for the tag, which `packet_length` and a long header's Length field include. The header ends with the packet number, whose length is in
// the two low bits of the first octet. `number` is the whole packet number, and must never be used twice with the same key and `path`: that
// would reveal both payloads and let anyone forge others. `path` is 0 except with draft-ietf-quic-multipath.
//
// Errors, with nothing written: WIRESEAL_STATUS_TOO_SMALL, WIRESEAL_STATUS_NO_FRAMES, WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE,
// WIRESEAL_STATUS_TOO_LONG above 65,535 octets of payload, WIRESEAL_STATUS_NUMBER_TOO_LARGE; WIRESEAL_STATUS_BAD_ARGUMENT if the packet number
// would start before the second octet, if the header does not end with the low octets of `number`, or if the two keys are of different
// algorithms.
enum wireseal_status wireseal_quic_seal(const struct wireseal_quic_packet_key *packet_key,
                                        const struct wireseal_quic_header_key *header_key,
                                        uint32_t path,
                                        uint64_t number,
                                        uint8_t *packet,
                                        size_t packet_length,
                                        size_t payload_offset);

// Opens the first packet of a datagram in place: removes the mask, decodes the packet number, decrypts, and checks the reserved bits and that
// there are frames (RFC 9001 §5.5 and §9.5).
//
// `destination_id_length` is the length of this end's connection IDs, which a short header does not say. `largest` is the largest number
// opened so far in the packet's number space and `path`, or WIRESEAL_QUIC_NONE. `phase` is the enum wireseal_quic_phase that `packet_key` is
// for. Left to you are: choosing keys by type and phase, dropping duplicates, the order of key phases, the fixed bit, and the integrity limit.
//
// Errors:
//   WIRESEAL_STATUS_NOT_AUTHENTIC: the payload is zeros; header and tag are unchanged.
//   WIRESEAL_STATUS_OTHER_PHASE: nothing was changed, but `number` and `phase` are written to `opened`, and are not authentic. Call again with
//   the key of that phase.
//   WIRESEAL_STATUS_RESERVED_BITS and WIRESEAL_STATUS_NO_FRAMES: the packet was authentic; payload and tag are zeros.
//   WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE, WIRESEAL_STATUS_NOT_A_PACKET, WIRESEAL_STATUS_NOT_PROTECTED, WIRESEAL_STATUS_UNKNOWN_VERSION: drop the
//   datagram. WIRESEAL_STATUS_BAD_ARGUMENT: `phase` has no meaning, or the two keys are of different algorithms. Nothing was changed.
enum wireseal_status wireseal_quic_open(const struct wireseal_quic_packet_key *packet_key,
                                        const struct wireseal_quic_header_key *header_key,
                                        uint32_t path,
                                        uint8_t *datagram,
                                        size_t datagram_length,
                                        size_t destination_id_length,
                                        uint64_t largest,
                                        uint32_t phase,
                                        struct wireseal_quic_opened *opened);

// Reads what the first packet of a datagram says without keys (RFC 9000 §17.2 and §17.3), so that you can choose them. `destination_id_length`
// is the length of this end's connection IDs, which a short header does not say. It does not check the fixed bit.
//
// Errors:
//   WIRESEAL_STATUS_NOT_A_PACKET.
//   WIRESEAL_STATUS_UNKNOWN_VERSION, and WIRESEAL_STATUS_NOT_PROTECTED for Retry and Version Negotiation packets: `packet` is written all the
//   same, with the version, the type and both connection IDs, which all versions of QUIC have (RFC 8999 §5.1). Its `length` is the rest of the
//   datagram. A server may answer an unknown version with wireseal_quic_version_negotiation_write().
enum wireseal_status wireseal_quic_packet_read(const uint8_t *datagram,
                                               size_t datagram_length,
                                               size_t destination_id_length,
                                               struct wireseal_quic_packet *packet);

// Writes a Version Negotiation packet (RFC 9000 §17.2.1), a server's answer to a client's first packet of a version that it does not support,
// to at most `packet_size` octets at `packet`, and their number to `packet_length`. `asked` is the datagram that it answers; a server answers
// none shorter than 1,200 octets (RFC 9000 §6.1). `versions` are those that the server supports, at most 16. `unused` is a random octet, whose
// low six bits become those of the first octet.
//
// Errors: WIRESEAL_STATUS_TOO_SMALL; WIRESEAL_STATUS_TOO_LONG for too many versions; WIRESEAL_STATUS_NOT_A_PACKET if `asked` has no long header;
// WIRESEAL_STATUS_BAD_ARGUMENT if there are no versions, or `asked` is a Version Negotiation packet itself.
enum wireseal_status wireseal_quic_version_negotiation_write(uint8_t unused,
                                                             const uint8_t *asked,
                                                             size_t asked_length,
                                                             const uint32_t *versions,
                                                             size_t versions_count,
                                                             uint8_t *packet,
                                                             size_t packet_size,
                                                             size_t *packet_length);

// Reads a Version Negotiation packet that a client has received, and checks that it answers the client's first packet, whose version and
// connection IDs are given: it has the same IDs, exchanged, and does not name that version (RFC 9000 §6.2). Writes the versions to `versions`,
// which has room for `versions_size`, and their number to `*count`. The packet is not authentic. A client that has received any other packet
// of the connection ignores it.
//
// Errors: WIRESEAL_STATUS_NOT_VERSION_NEGOTIATION: drop the packet; WIRESEAL_STATUS_TOO_SMALL: only `*count` is written.
enum wireseal_status wireseal_quic_version_negotiation_read(uint32_t version,
                                                            const uint8_t *destination_id,
                                                            size_t destination_id_length,
                                                            const uint8_t *source_id,
                                                            size_t source_id_length,
                                                            const uint8_t *datagram,
                                                            size_t datagram_length,
                                                            uint32_t *versions,
                                                            size_t versions_size,
                                                            size_t *count);

// Writes the integrity tag of a Retry packet to 16 octets at `tag` (RFC 9001 §5.8, RFC 9369 §3.3.3). `retry` is the packet without its tag,
// and `original_id` the destination connection ID of the Initial packet that it answers.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_VERSION; WIRESEAL_STATUS_TOO_LONG for an ID above 20 octets.
enum wireseal_status wireseal_quic_retry_tag(uint32_t version,
                                             const uint8_t *original_id,
                                             size_t original_id_length,
                                             const uint8_t *retry,
                                             size_t retry_length,
                                             uint8_t *tag);

// Verifies a Retry packet, which fills its datagram (RFC 9001 §5.8). `version` and `original_id`, its destination connection ID, are those of
// the client's first Initial packet.
//
// Errors, on which a client drops the packet (RFC 9000 §17.2.5.2): WIRESEAL_STATUS_NOT_RETRY, WIRESEAL_STATUS_NOT_A_PACKET,
// WIRESEAL_STATUS_RETRY_TAG, WIRESEAL_STATUS_SAME_CONNECTION_ID. Also WIRESEAL_STATUS_UNKNOWN_VERSION, and WIRESEAL_STATUS_TOO_LONG for an ID
// above 20 octets.
enum wireseal_status wireseal_quic_retry_verify(uint32_t version,
                                                const uint8_t *original_id,
                                                size_t original_id_length,
                                                const uint8_t *datagram,
                                                size_t datagram_length,
                                                struct wireseal_quic_retry *retry);

// Returns how many octets a key of this enum wireseal_aead_algorithm has: 16 or 32; 0 if no algorithm has this number.
size_t wireseal_aead_key_length(uint32_t algorithm);

// Returns how many octets of memory a struct wireseal_aead_key needs.
size_t wireseal_aead_key_size(void);

// Returns the alignment of that memory, in octets.
size_t wireseal_aead_key_align(void);

// Makes an AEAD key in `size` octets of `memory`. `algorithm` is an enum wireseal_aead_algorithm, and `octets` the key,
// wireseal_aead_key_length() octets. The routines for this processor are chosen here, once.
//
// Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
enum wireseal_status wireseal_aead_key_new(void *memory,
                                           size_t size,
                                           uint32_t algorithm,
                                           const uint8_t *octets,
                                           size_t octets_length,
                                           struct wireseal_aead_key **key);

// Writes to `text`, which has room for `text_size` octets with the zero at the end, what computes the AEAD: Wireseal's own routines for the
// processor's instructions, or the name of a library. 64 octets are enough.
//
// Error: WIRESEAL_STATUS_TOO_SMALL.
enum wireseal_status wireseal_aead_key_served_by(const struct wireseal_aead_key *key,
                                                 char *text,
                                                 size_t text_size);

// Ends an AEAD key and wipes its memory.
enum wireseal_status wireseal_aead_key_end(struct wireseal_aead_key *key);

// Encrypts `text` in place and writes its tag to 16 octets at `tag`, which may be directly after the text. `aad` is authenticated, but not
// encrypted.
//
// `nonce` has 12 octets, and must never be used twice with the same key: that would reveal both texts and let anyone forge others.
//
// Errors: WIRESEAL_STATUS_TOO_LONG for a text above 2^24-1 octets with AES-128-CCM, 2^36-32 with AES-GCM, 2^38-64 with ChaCha20-Poly1305;
// WIRESEAL_STATUS_BAD_ARGUMENT if the text overlaps its tag or `aad`.
enum wireseal_status wireseal_aead_seal(const struct wireseal_aead_key *key,
                                        const uint8_t *nonce,
                                        const uint8_t *aad,
                                        size_t aad_length,
                                        uint8_t *text,
                                        size_t text_length,
                                        uint8_t *tag);

// Seals like wireseal_aead_seal(), and writes the mask for the sample of 16 octets that begins `sample_offset` octets after the start of the
// sealed text to 5 octets at `mask`. The tag is written directly after the text, where there must be room for its 16 octets; the sample may
// reach into it. With AES-GCM, on processors whose instructions Wireseal uses, the mask is computed in the same pass over the text.
//
// Errors, with nothing changed: WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE if the sample is not inside text and tag; WIRESEAL_STATUS_BAD_ARGUMENT if
// the two keys are of different algorithms; and those of wireseal_aead_seal().
enum wireseal_status wireseal_aead_seal_with_mask(const struct wireseal_aead_key *key,
                                                  const struct wireseal_mask_key *mask_key,
                                                  const uint8_t *nonce,
                                                  const uint8_t *aad,
                                                  size_t aad_length,
                                                  uint8_t *text,
                                                  size_t text_length,
                                                  size_t sample_offset,
                                                  uint8_t *mask);

// Seals like wireseal_aead_seal() from one buffer to another: `text_length` octets at `text` become `text_length` + 16 at `sealed`, text and
// tag. The two may overlap or be the same. The text is copied to `sealed`, and sealed there.
//
// Errors, with nothing changed: WIRESEAL_STATUS_TOO_LONG, as for wireseal_aead_seal(); WIRESEAL_STATUS_BAD_ARGUMENT if `sealed` overlaps `aad`.
enum wireseal_status wireseal_aead_seal_to(const struct wireseal_aead_key *key,
                                           const uint8_t *nonce,
                                           const uint8_t *aad,
                                           size_t aad_length,
                                           const uint8_t *text,
                                           size_t text_length,
                                           uint8_t *sealed);

// Decrypts `text` in place, if the 16 octets at `tag` are its tag with the 12 octets at `nonce` and with `aad`.
//
// Errors: WIRESEAL_STATUS_NOT_AUTHENTIC: the text is zeros; WIRESEAL_STATUS_TOO_LONG and
// WIRESEAL_STATUS_BAD_ARGUMENT, as for wireseal_aead_seal().
enum wireseal_status wireseal_aead_open(const struct wireseal_aead_key *key,
                                        const uint8_t *nonce,
                                        const uint8_t *aad,
                                        size_t aad_length,
                                        uint8_t *text,
                                        size_t text_length,
                                        const uint8_t *tag);

// Opens like wireseal_aead_open() from one buffer to another: `sealed_length` octets at `sealed`, text and tag, become `sealed_length` - 16 at
// `text`. The two may overlap or be the same; if they do not, `sealed` is never changed.
//
// Errors: WIRESEAL_STATUS_NOT_AUTHENTIC: `text` is zeros, or unchanged if `sealed` is shorter than a tag. With nothing changed:
// WIRESEAL_STATUS_TOO_LONG, as for wireseal_aead_seal(); WIRESEAL_STATUS_BAD_ARGUMENT if `text` overlaps `aad`.
enum wireseal_status wireseal_aead_open_to(const struct wireseal_aead_key *key,
                                           const uint8_t *nonce,
                                           const uint8_t *aad,
                                           size_t aad_length,
                                           const uint8_t *sealed,
                                           size_t sealed_length,
                                           uint8_t *text);

// Returns how many octets of memory a struct wireseal_mask_key needs.
size_t wireseal_mask_key_size(void);

// Returns the alignment of that memory, in octets.
size_t wireseal_mask_key_align(void);

// Makes a mask key in `size` octets of `memory`. `algorithm` is the enum wireseal_aead_algorithm that seals the packets, and `octets` the key,
// as long as that algorithm's keys (wireseal_aead_key_length()).
//
// Errors: those of wireseal_aead_key_new().
enum wireseal_status wireseal_mask_key_new(void *memory,
                                           size_t size,
                                           uint32_t algorithm,
                                           const uint8_t *octets,
                                           size_t octets_length,
                                           struct wireseal_mask_key **key);

// Writes the mask for a `sample` of 16 octets of ciphertext to 5 octets at `mask`. The protocol defines which bits to apply it to.
enum wireseal_status wireseal_mask(const struct wireseal_mask_key *key,
                                   const uint8_t *sample,
                                   uint8_t *mask);

// Ends a mask key and wipes its memory.
enum wireseal_status wireseal_mask_key_end(struct wireseal_mask_key *key);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIRESEAL_H */
