/*
 * libwireseal: TCP-AO (RFC 5925) and QUIC packet protection (RFC 9001, RFC 9369).
 *
 * This file is made from the comments in crates/c; do not edit it.
 *
 * Results
 *   Each function returns a status, WIRESEAL_STATUS_OK if it has done what it says, except those that return a size or a text. Results go to
 *   the pointers at the end of its parameters. If it fails, it has changed nothing and written nothing, unless its comment says otherwise; a
 *   function that makes a handle then sets the pointer to it to null.
 *
 * Pointers
 *   None may be null, unless a comment says so; a null pointer is then an error, WIRESEAL_STATUS_NULL_POINTER. Where a length is zero, its
 *   pointer may be null. What cannot be checked is yours to keep: a pointer leads to as many octets as its length says, and during a call
 *   nobody else writes what it reads, nor touches what it writes. Buffers of one call do not overlap, unless a comment says they may.
 *   Nothing keeps a pointer after the call, unless a comment says so.
 *
 * Handles
 *   A handle, such as a struct wireseal_connection, lies in memory that you give: ask wireseal_..._size() and wireseal_..._align() for its
 *   octets and alignment, or take the constants WIRESEAL_..._SIZE and WIRESEAL_ALIGN. Do not copy or move it. Its end wipes that memory, which
 *   is yours again. Handles of Linux's key manager and of key chains are on the heap instead; their end frees them.
 *   A pointer that is no such handle is an error, WIRESEAL_STATUS_NOT_A_HANDLE: never made in zeroed memory, ended before, moved, or of
 *   another kind. After its memory is freed or used for something else, that cannot be told.
 *
 * Threads
 *   Different handles can be used by different threads at the same time. If a thread uses a handle while another does, its call returns
 *   WIRESEAL_STATUS_BUSY and does nothing. Comments say which handles any number of threads may use at once.
 *
 * Faults in the library
 *   A fault (a panic of Rust) never unwinds into C: the call returns WIRESEAL_STATUS_INTERNAL, and the handle refuses all further calls but
 *   its end. In a library that was built without an operating system, the processor traps instead.
 *
 * Secrets
 *   Keys are wiped when their handle ends, and when they are replaced. Your own copies of them, such as the octets that a struct wireseal_mkt
 *   points to, are yours to wipe.
 */


#ifndef WIRESEAL_H
#define WIRESEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 Octets of memory that are enough for a struct wireseal_aead_key, aligned to WIRESEAL_ALIGN.
 */
#define WIRESEAL_AEAD_KEY_SIZE 640

/*
 Octets of memory that are enough for a struct wireseal_mask_key, aligned to WIRESEAL_ALIGN.
 */
#define WIRESEAL_MASK_KEY_SIZE 384

/*
 The alignment that is enough for every handle, in octets. `malloc` gives less: use `aligned_alloc`, or `_Alignas` for static memory.
 */
#define WIRESEAL_ALIGN 64

/*
 Octets of memory that are enough for a struct wireseal_quic_packet_key, aligned to WIRESEAL_ALIGN.
 */
#define WIRESEAL_QUIC_PACKET_KEY_SIZE 640

/*
 Octets of memory that are enough for a struct wireseal_quic_header_key, aligned to WIRESEAL_ALIGN.
 */
#define WIRESEAL_QUIC_HEADER_KEY_SIZE 384

/*
 No packet was opened yet, for wireseal_quic_open().
 */
#define WIRESEAL_QUIC_NONE UINT64_MAX

/*
 What became of a call. Numbers do not change from one version of the library to the next; new ones may come.

 1 to 39: the caller is at fault, or a limit of the caller's was reached. 40 to 59: who sent the segment. 60 to 99: the caller. 100 to
 139: QUIC and AEADs. 140 on: Linux and key files.
 */
enum wireseal_status {
    /*
     It worked.
     */
    WIRESEAL_STATUS_OK = 0,
    /*
     A pointer is null that must not be.
     */
    WIRESEAL_STATUS_NULL_POINTER = 1,
    /*
     Memory for a handle, or a buffer for a result, is too small.
     */
    WIRESEAL_STATUS_TOO_SMALL = 2,
    /*
     A pointer is not aligned for what it points to.
     */
    WIRESEAL_STATUS_MISALIGNED = 3,
    /*
     The pointer is not to such a handle: it was never made, has ended, is of another kind, or was moved in memory.
     */
    WIRESEAL_STATUS_NOT_A_HANDLE = 4,
    /*
     Another call is in the handle: of another thread, or the one that has called back. Nothing was done.
     */
    WIRESEAL_STATUS_BUSY = 5,
    /*
     A fault in this library. The handle refuses everything from now on but its end.
     */
    WIRESEAL_STATUS_INTERNAL = 6,
    /*
     A length is longer than any buffer, or than what the function takes.
     */
    WIRESEAL_STATUS_TOO_LONG = 7,
    /*
     A number that says what to do, such as a version or a kind, has no meaning.
     */
    WIRESEAL_STATUS_BAD_ARGUMENT = 8,
    /*
     The version of an address is neither 4 nor 6, or a prefix is longer than the address.
     */
    WIRESEAL_STATUS_BAD_ADDRESS = 9,
    /*
     No algorithm has this number.
     */
    WIRESEAL_STATUS_UNKNOWN_ALGORITHM = 10,
    /*
     The algorithm was left out when the library was built.
     */
    WIRESEAL_STATUS_NOT_BUILT_IN = 11,
    /*
     A master key is empty, has more than 80 octets, or fewer than its algorithm requires.
     */
    WIRESEAL_STATUS_MASTER_KEY_LENGTH = 20,
    /*
     A MAC has 4 to 16 octets.
     */
    WIRESEAL_STATUS_MAC_LENGTH = 21,
    /*
     Another key for the same connections has this SendID or RecvID (RFC 5925 §3.1).
     */
    WIRESEAL_STATUS_ID_IN_USE = 22,
    /*
     There is no room for another key.
     */
    WIRESEAL_STATUS_TOO_MANY_KEYS = 23,
    /*
     There is no key to sign with.
     */
    WIRESEAL_STATUS_NO_KEY = 24,
    /*
     No key has this SendID or RecvID.
     */
    WIRESEAL_STATUS_UNKNOWN_KEY = 25,
    /*
     The key is the current or the rnext key, and no other was named to take over.
     */
    WIRESEAL_STATUS_KEY_IN_USE = 26,
    /*
     The key is the connection's last.
     */
    WIRESEAL_STATUS_LAST_KEY = 27,
    /*
     There is no peer with this index.
     */
    WIRESEAL_STATUS_NO_SUCH_PEER = 28,
    /*
     There is no room for another peer.
     */
    WIRESEAL_STATUS_TOO_MANY_PEERS = 29,
    /*
     Another peer covers the same connections, neither is more specific, and two of their keys share an id.
     */
    WIRESEAL_STATUS_PEERS_OVERLAP = 30,
    /*
     Not an IP packet with a whole TCP segment.
     */
    WIRESEAL_STATUS_MALFORMED = 40,
    /*
     The TCP options are malformed, or break RFC 5925 §2.2.
     */
    WIRESEAL_STATUS_BAD_OPTIONS = 41,
    /*
     It has no AO option.
     */
    WIRESEAL_STATUS_UNSIGNED = 42,
    /*
     No key has its KeyID.
     */
    WIRESEAL_STATUS_UNKNOWN_KEY_ID = 43,
    /*
     Its MAC does not have the key's length.
     */
    WIRESEAL_STATUS_WRONG_MAC_LENGTH = 44,
    /*
     Its MAC is wrong: another key, another connection, or changed on the way.
     */
    WIRESEAL_STATUS_BAD_MAC = 45,
    /*
     It belongs to another connection.
     */
    WIRESEAL_STATUS_OTHER_CONNECTION = 46,
    /*
     It does not fit the connection's state.
     */
    WIRESEAL_STATUS_WRONG_STATE = 47,
    /*
     A checksum of TCP, ICMP or IPv4 is wrong.
     */
    WIRESEAL_STATUS_CHECKSUM = 48,
    /*
     A verified SYN for a connection that is open: a replay, or the peer has restarted.
     */
    WIRESEAL_STATUS_CONNECTION_EXISTS = 49,
    /*
     Of a protected connection whose handshake was not seen.
     */
    WIRESEAL_STATUS_NO_CONNECTION = 50,
    /*
     With a routing header that leads on, or a home address, to or from a protected address.
     */
    WIRESEAL_STATUS_SOURCE_ROUTED = 51,
    /*
     No peer is configured for its connection.
     */
    WIRESEAL_STATUS_NO_PEER = 52,
    /*
     The table of connections is full.
     */
    WIRESEAL_STATUS_TABLE_FULL = 53,
    /*
     A hard ICMP error about a protected connection (RFC 5925 §7.8).
     */
    WIRESEAL_STATUS_ICMP = 54,
    /*
     The options leave no room for AO.
     */
    WIRESEAL_STATUS_NO_ROOM = 60,
    /*
     The header has no AO option to fill in, or one of another length.
     */
    WIRESEAL_STATUS_NO_OPTION = 61,
    /*
     The stack's segment has an AO or TCP-MD5 option already.
     */
    WIRESEAL_STATUS_ALREADY_SIGNED = 62,
    /*
     The signed packet would exceed the MTU, or the room before the packet.
     */
    WIRESEAL_STATUS_TOO_LONG_FOR_LINK = 63,
    /*
     The handshake is not complete.
     */
    WIRESEAL_STATUS_NOT_ESTABLISHED = 80,
    /*
     The octets are not a connection's state, or its keys are missing.
     */
    WIRESEAL_STATUS_BAD_STATE = 81,
    /*
     A key or a secret does not have its algorithm's length.
     */
    WIRESEAL_STATUS_KEY_LENGTH = 100,
    /*
     Forged, damaged, or sealed with another key, number or associated data, which cannot be told apart. No plaintext is left.
     */
    WIRESEAL_STATUS_NOT_AUTHENTIC = 101,
    /*
     The packet is of another key phase than expected: open it with the keys of that phase.
     */
    WIRESEAL_STATUS_OTHER_PHASE = 102,
    /*
     The peer set a reserved bit: close the connection with PROTOCOL_VIOLATION (RFC 9000 §17.2 and §17.3.1).
     */
    WIRESEAL_STATUS_RESERVED_BITS = 103,
    /*
     The payload is empty, but a packet has frames. Received: PROTOCOL_VIOLATION (RFC 9000 §12.4).
     */
    WIRESEAL_STATUS_NO_FRAMES = 104,
    /*
     Too short for a header protection sample. To seal, add PADDING frames; received, drop it (RFC 9001 §5.4.2).
     */
    WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE = 105,
    /*
     A packet number is above 2^62-1 (RFC 9000 §12.3).
     */
    WIRESEAL_STATUS_NUMBER_TOO_LARGE = 106,
    /*
     No QUIC version that is built in has this number.
     */
    WIRESEAL_STATUS_UNKNOWN_VERSION = 107,
    /*
     The octets are not a QUIC packet: it ends inside its header, before its own end, or has a connection ID above 20 octets.
     */
    WIRESEAL_STATUS_NOT_A_PACKET = 108,
    /*
     A Retry or a Version Negotiation packet, which no key protects.
     */
    WIRESEAL_STATUS_NOT_PROTECTED = 109,
    /*
     Not a Retry packet of this version.
     */
    WIRESEAL_STATUS_NOT_RETRY = 110,
    /*
     The integrity tag of a Retry packet is wrong (RFC 9001 §5.8).
     */
    WIRESEAL_STATUS_RETRY_TAG = 111,
    /*
     The Retry packet does not change the connection ID (RFC 9000 §17.2.5.1).
     */
    WIRESEAL_STATUS_SAME_CONNECTION_ID = 112,
};

/*
 An AEAD with nonces of 12 octets and tags of 16, by the number of its TLS 1.3 cipher suite (RFC 8446 appendix B.4).
 */
enum wireseal_aead_algorithm {
    /*
     AES-128-GCM; QUIC with SHA-256.
     */
    WIRESEAL_AEAD_ALGORITHM_AES128_GCM = 4865,
    /*
     AES-256-GCM; QUIC with SHA-384.
     */
    WIRESEAL_AEAD_ALGORITHM_AES256_GCM = 4866,
    /*
     ChaCha20-Poly1305; QUIC with SHA-256.
     */
    WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305 = 4867,
    /*
     AES-128-CCM; QUIC with SHA-256.
     */
    WIRESEAL_AEAD_ALGORITHM_AES128_CCM = 4868,
};

/*
 A version of QUIC, by its number on the wire.
 */
enum wireseal_quic_version {
    /*
     Version 1 (RFC 9000, RFC 9001).
     */
    WIRESEAL_QUIC_VERSION_V1 = 1,
    /*
     Version 2 (RFC 9369).
     */
    WIRESEAL_QUIC_VERSION_V2 = 1798521807,
};

/*
 An end of a connection.
 */
enum wireseal_quic_side {
    /*
     The end that opens the connection.
     */
    WIRESEAL_QUIC_SIDE_CLIENT = 0,
    /*
     The other.
     */
    WIRESEAL_QUIC_SIDE_SERVER = 1,
};

/*
 The type of a packet that keys protect, which says which keys (RFC 9001 §4).
 */
enum wireseal_quic_packet_type {
    /*
     Long header; the keys of the initial secrets.
     */
    WIRESEAL_QUIC_PACKET_TYPE_INITIAL = 0,
    /*
     Long header; the keys of early data.
     */
    WIRESEAL_QUIC_PACKET_TYPE_ZERO_RTT = 1,
    /*
     Long header; the keys of the handshake.
     */
    WIRESEAL_QUIC_PACKET_TYPE_HANDSHAKE = 2,
    /*
     Short header; the keys of its phase.
     */
    WIRESEAL_QUIC_PACKET_TYPE_ONE_RTT = 3,
};

/*
 The key phase that wireseal_quic_open() expects.
 */
enum wireseal_quic_phase {
    /*
     A key phase bit of 0, which long headers count as having.
     */
    WIRESEAL_QUIC_PHASE_ZERO = 0,
    /*
     A key phase bit of 1.
     */
    WIRESEAL_QUIC_PHASE_ONE = 1,
    /*
     Either.
     */
    WIRESEAL_QUIC_PHASE_ANY = 2,
};

/*
 An AEAD key. Any number of threads can seal and open with one at the same time; nobody else may use it when it ends.
 */
struct wireseal_aead_key;

/*
 A key for masks of packet numbers, as QUIC (RFC 9001 §5.4) and DTLS 1.3 (RFC 9147 §4.2.3) make them. Any number of threads can use one at
 the same time; nobody else may use it when it ends.
 */
struct wireseal_mask_key;

/*
 A header protection key: one direction of one level, for all key phases (RFC 9001 §5.4 and §6.1). Any number of threads can use one at the
 same time; nobody else may use it when it ends.
 */
struct wireseal_quic_header_key;

/*
 A packet protection key with its IV: one direction of one level, or of one key phase (RFC 9001 §5.3). Any number of threads can seal and open
 with one at the same time; nobody else may use it when it ends.
 */
struct wireseal_quic_packet_key;

/*
 A packet that was opened: all of it is authentic.
 */
struct wireseal_quic_opened {
    /*
     The packet number.
     */
    uint64_t number;
    /*
     The octets of header, payload and tag. Behind them may be another packet of the datagram.
     */
    size_t packet_length;
    /*
     Where the payload starts, and the header ends.
     */
    size_t payload_offset;
    /*
     The octets of the payload: at least one.
     */
    size_t payload_length;
    /*
     The key phase bit of a short header; 0 for a long one.
     */
    uint8_t phase;
};

/*
 What a packet says without keys. Nothing of it is authentic. Offsets are from the start of the packet.
 */
struct wireseal_quic_packet {
    /*
     The version of a long header; 0 for a short one.
     */
    uint32_t version;
    /*
     An enum wireseal_quic_packet_type.
     */
    uint32_t packet_type;
    /*
     The octets of the packet, tag included. Behind them may be another packet of the datagram.
     */
    size_t length;
    /*
     Where the destination connection ID starts.
     */
    size_t destination_id_offset;
    /*
     Its octets: at most 20 in a long header.
     */
    size_t destination_id_length;
    /*
     Where the source connection ID starts; 0 for a short header.
     */
    size_t source_id_offset;
    /*
     Its octets: at most 20.
     */
    size_t source_id_length;
    /*
     Where the token of an Initial packet starts; 0 if there is none.
     */
    size_t token_offset;
    /*
     Its octets.
     */
    size_t token_length;
};

/*
 Where the parts of a verified Retry packet are, in octets from its start.
 */
struct wireseal_quic_retry {
    /*
     Where the source connection ID starts: it becomes the destination of all that the client sends, and the next Initial keys are of it.
     */
    size_t source_id_offset;
    /*
     Its octets: at most 20.
     */
    size_t source_id_length;
    /*
     Where the token starts, which the client returns.
     */
    size_t token_offset;
    /*
     Its octets: at least one.
     */
    size_t token_length;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The octets of a key of an enum wireseal_aead_algorithm: 16 or 32; 0 if no algorithm has this number.
 */
size_t wireseal_aead_key_length(uint32_t algorithm);

/*
 The octets of a struct wireseal_aead_key.
 */
size_t wireseal_aead_key_size(void);

/*
 The alignment of a struct wireseal_aead_key.
 */
size_t wireseal_aead_key_align(void);

/*
 Makes a key in `size` octets of `memory`. `algorithm` is an enum wireseal_aead_algorithm, and `octets` has the length that
 wireseal_aead_key_length() tells. The processor's instructions are found out here; nothing later can fail for want of them.

 Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
 */
enum wireseal_status wireseal_aead_key_new(void *memory,
                                           size_t size,
                                           uint32_t algorithm,
                                           const uint8_t *octets,
                                           size_t octets_length,
                                           struct wireseal_aead_key **key);

/*
 Writes what computes the AEAD to `text`, with a zero at its end: Wireseal's own routines for the processor's instructions, or the name of a
 library. 64 octets are enough.

 Error: WIRESEAL_STATUS_TOO_SMALL.
 */
enum wireseal_status wireseal_aead_key_served_by(const struct wireseal_aead_key *key,
                                                 char *text,
                                                 size_t text_size);

/*
 Ends a key and wipes its memory.
 */
enum wireseal_status wireseal_aead_key_end(struct wireseal_aead_key *key);

/*
 Encrypts `text` in place and writes its tag to 16 octets at `tag`, which may lie right behind the text. `aad` is authenticated, but not sent.

 `nonce` has 12 octets, and must never be used twice with the same key: that would reveal both texts and let anyone forge others.

 Error: WIRESEAL_STATUS_TOO_LONG for a text above 2^24-1 octets with AES-128-CCM, 2^36-32 with AES-GCM, 2^38-64 with ChaCha20-Poly1305.
 */
enum wireseal_status wireseal_aead_seal(const struct wireseal_aead_key *key,
                                        const uint8_t *nonce,
                                        const uint8_t *aad,
                                        size_t aad_length,
                                        uint8_t *text,
                                        size_t text_length,
                                        uint8_t *tag);

/*
 Seals like wireseal_aead_seal(), and writes the mask for the sample of 16 octets that begins `sample_offset` octets after the start of the
 sealed text to 5 octets at `mask`. The tag goes right behind the text, where there must be room for its 16 octets; the sample may reach into
 it. With AES-GCM on processors whose instructions Wireseal uses, the mask comes out of the same pass over the text.

 Errors: WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE if the sample is not inside of text and tag, and those of wireseal_aead_seal().
 */
enum wireseal_status wireseal_aead_seal_with_mask(const struct wireseal_aead_key *key,
                                                  const struct wireseal_mask_key *mask_key,
                                                  const uint8_t *nonce,
                                                  const uint8_t *aad,
                                                  size_t aad_length,
                                                  uint8_t *text,
                                                  size_t text_length,
                                                  size_t sample_offset,
                                                  uint8_t *mask);

/*
 Decrypts `text` in place, if its `tag` of 16 octets is right for it, for the 12 octets of `nonce` and for `aad`.

 Errors: WIRESEAL_STATUS_NOT_AUTHENTIC, and the text is zeros; WIRESEAL_STATUS_TOO_LONG, as for wireseal_aead_seal().
 */
enum wireseal_status wireseal_aead_open(const struct wireseal_aead_key *key,
                                        const uint8_t *nonce,
                                        const uint8_t *aad,
                                        size_t aad_length,
                                        uint8_t *text,
                                        size_t text_length,
                                        const uint8_t *tag);

/*
 The octets of a struct wireseal_mask_key.
 */
size_t wireseal_mask_key_size(void);

/*
 The alignment of a struct wireseal_mask_key.
 */
size_t wireseal_mask_key_align(void);

/*
 Makes a key for masks in `size` octets of `memory`. `algorithm` is the AEAD that seals the packets, and `octets` as long as its keys
 (wireseal_aead_key_length()).

 Errors: those of wireseal_aead_key_new().
 */
enum wireseal_status wireseal_mask_key_new(void *memory,
                                           size_t size,
                                           uint32_t algorithm,
                                           const uint8_t *octets,
                                           size_t octets_length,
                                           struct wireseal_mask_key **key);

/*
 Writes the mask for a `sample` of 16 octets of ciphertext to 5 octets at `mask`. The protocol says which bits it covers.
 */
enum wireseal_status wireseal_mask(const struct wireseal_mask_key *key,
                                   const uint8_t *sample,
                                   uint8_t *mask);

/*
 Ends a key for masks and wipes its memory.
 */
enum wireseal_status wireseal_mask_key_end(struct wireseal_mask_key *key);

/*
 How many packets one key may seal (RFC 9001 §6.6): count them, and update the key before. UINT64_MAX if there is no limit
 (ChaCha20-Poly1305), 0 if no enum wireseal_aead_algorithm has this number.
 */
uint64_t wireseal_quic_confidentiality_limit(uint32_t algorithm);

/*
 How many packets of a connection may fail with WIRESEAL_STATUS_NOT_AUTHENTIC, counted over all its keys, before it must be closed with
 AEAD_LIMIT_REACHED (RFC 9001 §6.6). 0 if no enum wireseal_aead_algorithm has this number.
 */
uint64_t wireseal_quic_integrity_limit(uint32_t algorithm);

/*
 The octets of a traffic secret of an enum wireseal_aead_algorithm, those of its hash: 48 for AES-256-GCM, 32 for the others; 0 if no
 algorithm has this number. Keys have wireseal_aead_key_length() octets.
 */
size_t wireseal_quic_secret_length(uint32_t algorithm);

/*
 Writes the secret of the Initial packets that `sender`, an enum wireseal_quic_side, sends to 32 octets at `secret` (RFC 9001 §5.2). Its
 keys are of AES-128-GCM. `destination_id` is the destination connection ID of the client's first Initial packet, or the source connection ID
 of the Retry packet that answered it. `version` is a version's number on the wire.

 Errors: WIRESEAL_STATUS_UNKNOWN_VERSION; WIRESEAL_STATUS_TOO_LONG for an ID above 20 octets; WIRESEAL_STATUS_BAD_ARGUMENT for `sender`.
 */
enum wireseal_status wireseal_quic_initial_secret(uint32_t version,
                                                  const uint8_t *destination_id,
                                                  size_t destination_id_length,
                                                  uint32_t sender,
                                                  uint8_t *secret);

/*
 Writes the secret of the next key phase to `secret_length` octets at `next` (RFC 9001 §6.1, RFC 9369 §3.3.2), which may be where `secret` is.
 Only packet keys follow from it: the header key stays the one of the first secret.

 Errors: WIRESEAL_STATUS_UNKNOWN_VERSION, WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH.
 */
enum wireseal_status wireseal_quic_next_secret(uint32_t version,
                                               uint32_t algorithm,
                                               const uint8_t *secret,
                                               size_t secret_length,
                                               uint8_t *next);

/*
 Writes the octets of the keys that follow from a secret (RFC 9001 §5.1), for stacks that keep IVs themselves or make keys of them later:
 wireseal_aead_key_length() octets each at `key` and `header_protection_key`, and 12 at `iv`. Each of the three may be null.

 Errors: those of wireseal_quic_next_secret().
 */
enum wireseal_status wireseal_quic_key_octets(uint32_t version,
                                              uint32_t algorithm,
                                              const uint8_t *secret,
                                              size_t secret_length,
                                              uint8_t *key,
                                              uint8_t *iv,
                                              uint8_t *header_protection_key);

/*
 The octets of a struct wireseal_quic_packet_key.
 */
size_t wireseal_quic_packet_key_size(void);

/*
 The alignment of a struct wireseal_quic_packet_key.
 */
size_t wireseal_quic_packet_key_align(void);

/*
 The octets of a struct wireseal_quic_header_key.
 */
size_t wireseal_quic_header_key_size(void);

/*
 The alignment of a struct wireseal_quic_header_key.
 */
size_t wireseal_quic_header_key_align(void);

/*
 Makes a packet key in `size` octets of `memory` from a traffic secret: TLS's, wireseal_quic_initial_secret()'s or
 wireseal_quic_next_secret()'s. `version` is a version's number on the wire, `algorithm` an enum wireseal_aead_algorithm, and the secret has
 wireseal_quic_secret_length() octets.

 Errors: WIRESEAL_STATUS_UNKNOWN_VERSION, WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
 */
enum wireseal_status wireseal_quic_packet_key_from_secret(void *memory,
                                                          size_t size,
                                                          uint32_t version,
                                                          uint32_t algorithm,
                                                          const uint8_t *secret,
                                                          size_t secret_length,
                                                          struct wireseal_quic_packet_key **key);

/*
 Makes a packet key from its own octets, as many as wireseal_aead_key_length() tells, and its IV of 12 octets.

 Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
 */
enum wireseal_status wireseal_quic_packet_key_new(void *memory,
                                                  size_t size,
                                                  uint32_t algorithm,
                                                  const uint8_t *octets,
                                                  size_t octets_length,
                                                  const uint8_t *iv,
                                                  struct wireseal_quic_packet_key **key);

/*
 Ends a packet key and wipes its memory.
 */
enum wireseal_status wireseal_quic_packet_key_end(struct wireseal_quic_packet_key *key);

/*
 Makes a header key from the first secret of its level, with the parameters and errors of wireseal_quic_packet_key_from_secret().
 */
enum wireseal_status wireseal_quic_header_key_from_secret(void *memory,
                                                          size_t size,
                                                          uint32_t version,
                                                          uint32_t algorithm,
                                                          const uint8_t *secret,
                                                          size_t secret_length,
                                                          struct wireseal_quic_header_key **key);

/*
 Makes a header key from its own octets, as many as wireseal_aead_key_length() tells.

 Errors: WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_KEY_LENGTH, and those of `memory`.
 */
enum wireseal_status wireseal_quic_header_key_new(void *memory,
                                                  size_t size,
                                                  uint32_t algorithm,
                                                  const uint8_t *octets,
                                                  size_t octets_length,
                                                  struct wireseal_quic_header_key **key);

/*
 Ends a header key and wipes its memory.
 */
enum wireseal_status wireseal_quic_header_key_end(struct wireseal_quic_header_key *key);

/*
 Seals a whole packet in place: encrypts the payload, writes the tag and masks the header (RFC 9001 §5.3 and §5.4), in one pass over the packet
 where the processor's instructions serve the key.

 `packet` holds the header as it is authenticated, with reserved bits, key phase and packet number; the payload from `payload_offset` on; and
 16 octets of room for the tag, which `packet_length` and a long header's Length field include. The header ends with the packet number, whose
 length is in the two low bits of the first octet. `number` is the whole packet number, and must never be used twice with the same key and
 `path`: that would reveal both payloads and let anyone forge others. `path` is 0 but in draft-ietf-quic-multipath.

 Errors, with nothing written: WIRESEAL_STATUS_TOO_SMALL, WIRESEAL_STATUS_NO_FRAMES, WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE,
 WIRESEAL_STATUS_TOO_LONG above 65,535 octets of payload, WIRESEAL_STATUS_NUMBER_TOO_LARGE; WIRESEAL_STATUS_BAD_ARGUMENT if the packet number
 would start before the second octet.
 */
enum wireseal_status wireseal_quic_seal(const struct wireseal_quic_packet_key *packet_key,
                                        const struct wireseal_quic_header_key *header_key,
                                        uint32_t path,
                                        uint64_t number,
                                        uint8_t *packet,
                                        size_t packet_length,
                                        size_t payload_offset);

/*
 Opens the first packet of a datagram in place: removes the mask, decodes the packet number, decrypts, and checks the reserved bits and that
 there are frames (RFC 9001 §5.5 and §9.5).

 `destination_id_length` is the length of this end's connection IDs, which a short header does not say. `largest` is the largest number opened
 so far in the packet's number space and `path`, or WIRESEAL_QUIC_NONE. `phase` is the enum wireseal_quic_phase that `packet_key` is for. Yours
 are: the choice of keys by type and phase, duplicates, the order of key phases, the fixed bit, and the integrity limit.

 Errors:
   WIRESEAL_STATUS_NOT_AUTHENTIC: the payload is zeros, header and tag are as they were.
   WIRESEAL_STATUS_OTHER_PHASE: nothing was changed, but `number` and `phase` are written to `opened`, and are not authentic. Call again with
   the key of that phase.
   WIRESEAL_STATUS_RESERVED_BITS and WIRESEAL_STATUS_NO_FRAMES: the packet was authentic; payload and tag are zeros.
   WIRESEAL_STATUS_TOO_SHORT_FOR_SAMPLE, WIRESEAL_STATUS_NOT_A_PACKET, WIRESEAL_STATUS_NOT_PROTECTED, WIRESEAL_STATUS_UNKNOWN_VERSION: drop the
   datagram. WIRESEAL_STATUS_BAD_ARGUMENT: `phase` has no meaning. Nothing was changed.
 */
enum wireseal_status wireseal_quic_open(const struct wireseal_quic_packet_key *packet_key,
                                        const struct wireseal_quic_header_key *header_key,
                                        uint32_t path,
                                        uint8_t *datagram,
                                        size_t datagram_length,
                                        size_t destination_id_length,
                                        uint64_t largest,
                                        uint32_t phase,
                                        struct wireseal_quic_opened *opened);

/*
 Reads what the first packet of a datagram says without keys (RFC 9000 §17.2 and §17.3), to choose them. `destination_id_length` is the length of
 this end's connection IDs, which a short header does not say. The datagram is not changed. The fixed bit is yours to check.

 Errors: WIRESEAL_STATUS_NOT_A_PACKET, WIRESEAL_STATUS_NOT_PROTECTED, WIRESEAL_STATUS_UNKNOWN_VERSION.
 */
enum wireseal_status wireseal_quic_packet_read(uint8_t *datagram,
                                               size_t datagram_length,
                                               size_t destination_id_length,
                                               struct wireseal_quic_packet *packet);

/*
 Writes the integrity tag of a Retry packet to 16 octets at `tag` (RFC 9001 §5.8, RFC 9369 §3.3.3). `retry` is the packet without its tag,
 and `original_id` the destination connection ID of the Initial packet that it answers.

 Errors: WIRESEAL_STATUS_UNKNOWN_VERSION; WIRESEAL_STATUS_TOO_LONG for an ID above 20 octets.
 */
enum wireseal_status wireseal_quic_retry_tag(uint32_t version,
                                             const uint8_t *original_id,
                                             size_t original_id_length,
                                             const uint8_t *retry,
                                             size_t retry_length,
                                             uint8_t *tag);

/*
 Verifies a Retry packet, which fills its datagram (RFC 9001 §5.8). `version` and `original_id`, the destination connection ID, are those of the
 client's first Initial packet.

 Errors, on which a client drops the packet (RFC 9000 §17.2.5.2): WIRESEAL_STATUS_NOT_RETRY, WIRESEAL_STATUS_NOT_A_PACKET,
 WIRESEAL_STATUS_RETRY_TAG, WIRESEAL_STATUS_SAME_CONNECTION_ID. Also WIRESEAL_STATUS_UNKNOWN_VERSION, and WIRESEAL_STATUS_TOO_LONG for an ID
 above 20 octets.
 */
enum wireseal_status wireseal_quic_retry_verify(uint32_t version,
                                                const uint8_t *original_id,
                                                size_t original_id_length,
                                                const uint8_t *datagram,
                                                size_t datagram_length,
                                                struct wireseal_quic_retry *retry);

/*
 The text for a status: a line in English, for logs. It lives as long as the program, and may be called with any number.
 */
const char *wireseal_status_text(int32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIRESEAL_H */
