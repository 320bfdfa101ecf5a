/* Connections: the handshake, forged segments, a rollover, the state moved elsewhere. */
#include "packets.h"

/* A TCP stack's own view of one end. */
struct end {
    struct wireseal_connection *connection;
    struct wireseal_pair pair;
    uint32_t sent, received;
};

static uint8_t memories[3][WIRESEAL_CONNECTION_SIZE] ALIGNED;

/* What a segment's MAC covers is in its octets, so that the other end gets them as they are here. */
struct segment {
    uint8_t tcp[100];
    size_t length;
};

/* A signed segment of an end. */
static struct segment segment_of(struct end *end, uint8_t flags, const char *payload)
{
    struct segment segment;
    size_t options, length;
    tcp_header(segment.tcp, end->pair, end->sent, end->received, flags);
    OK(wireseal_connection_append_ao(end->connection, segment.tcp + TCP_HEADER, 40, 0, &options));
    OK(wireseal_connection_option_length(end->connection, &length));
    CHECK(options == length);
    segment.tcp[12] = (uint8_t)((TCP_HEADER + options) / 4 << 4);
    memcpy(segment.tcp + TCP_HEADER + options, payload, strlen(payload));
    segment.length = TCP_HEADER + options + strlen(payload);
    OK(wireseal_connection_sign(end->connection, segment.tcp, segment.length));
    end->sent += (uint32_t)strlen(payload) + ((flags & SYN) != 0);
    return segment;
}

static struct wireseal_verified deliver(struct end *end, struct segment segment)
{
    struct wireseal_verified verified;
    const size_t payload = segment.length - (size_t)(segment.tcp[12] >> 4) * 4;
    OK(wireseal_connection_verify(end->connection, segment.tcp, segment.length, &verified));
    end->received = get32(segment.tcp + 4) + (uint32_t)payload + ((segment.tcp[13] & SYN) != 0);
    return verified;
}

static struct wireseal_connection_info info_of(const struct end *end)
{
    struct wireseal_connection_info info;
    OK(wireseal_connection_get_info(end->connection, &info));
    return info;
}

/* Opens a connection from `active` to `passive`. */
static void handshake(struct end *active, struct end *passive, const struct wireseal_mkt *mkts, const struct wireseal_mkt *peers_mkts,
                      size_t count)
{
    struct segment syn, forged;
    struct wireseal_connection *none;
    const struct wireseal_address source = active->pair.local.address, destination = active->pair.remote.address;

    OK(wireseal_connection_active(memories[0], sizeof memories[0], &active->pair, active->sent, mkts, count, &active->connection));
    CHECK(!info_of(active).is_established && !info_of(active).has_remote_isn && info_of(active).local_isn == active->sent);
    syn = segment_of(active, SYN, "");

    forged = syn;
    forged.tcp[forged.length - 1] ^= 1;
    none = active->connection;
    EXPECT(WIRESEAL_STATUS_BAD_MAC, wireseal_connection_passive(memories[1], sizeof memories[1], &source, &destination, forged.tcp,
                                                                forged.length, peers_mkts, count, &none));
    CHECK(none == NULL);
    OK(wireseal_connection_passive(memories[1], sizeof memories[1], &source, &destination, syn.tcp, syn.length, peers_mkts, count,
                                   &passive->connection));
    passive->received = active->sent;
    CHECK(!info_of(passive).has_local_isn && info_of(passive).counters.good == 1);
    CHECK(info_of(passive).pair.local.port == passive->pair.local.port);

    deliver(active, segment_of(passive, SYN | ACK, ""));
    CHECK(info_of(active).is_established && info_of(active).remote_isn == passive->sent - 1);
    deliver(passive, segment_of(active, ACK, ""));
    CHECK(info_of(passive).is_established);
}

static void forged_segments(struct end *from, struct end *to)
{
    struct segment good, bad;
    struct wireseal_verified untouched;
    struct wireseal_counters before, after;
    size_t at;

    deliver(to, segment_of(from, ACK, "one"));
    good = segment_of(from, ACK, "two");
    before = info_of(to).counters;
    /* Every octet is covered: ports, numbers, flags, payload. The checksum is zero for the MAC. */
    for (at = 0; at < good.length; at++) {
        enum wireseal_status wanted = WIRESEAL_STATUS_BAD_MAC;
        if (at == 16 || at == 17)
            continue;
        if (at < 4)
            wanted = WIRESEAL_STATUS_OTHER_CONNECTION;
        if (at == 12 || at == 20 || at == 21 || at == 22)
            continue;
        bad = good;
        bad.tcp[at] ^= at == 13 ? 0x08 : 0x10;
        EXPECT(wanted, wireseal_connection_verify(to->connection, bad.tcp, bad.length, NULL));
    }
    memset(&untouched, 0x5a, sizeof untouched);
    bad = good;
    bad.tcp[20] = 1; /* NOP in place of AO's kind: options that no one can parse */
    bad.tcp[21] = 1;
    memset(bad.tcp + 22, 1, 14);
    EXPECT(WIRESEAL_STATUS_UNSIGNED, wireseal_connection_verify(to->connection, bad.tcp, bad.length, &untouched));
    CHECK(untouched.key_id == 0x5a);
    bad = good;
    bad.tcp[21] = 99;
    EXPECT(WIRESEAL_STATUS_BAD_OPTIONS, wireseal_connection_verify(to->connection, bad.tcp, bad.length, NULL));
    bad = good;
    bad.tcp[22] = 77;
    EXPECT(WIRESEAL_STATUS_UNKNOWN_KEY_ID, wireseal_connection_verify(to->connection, bad.tcp, bad.length, NULL));
    bad = good;
    bad.tcp[21] = 15;
    bad.tcp[35] = 1;
    EXPECT(WIRESEAL_STATUS_WRONG_MAC_LENGTH, wireseal_connection_verify(to->connection, bad.tcp, bad.length, NULL));
    EXPECT(WIRESEAL_STATUS_MALFORMED, wireseal_connection_verify(to->connection, good.tcp, 19, NULL));
    EXPECT(WIRESEAL_STATUS_MALFORMED, wireseal_connection_verify(to->connection, NULL, 0, NULL));

    after = info_of(to).counters;
    CHECK(after.good == before.good && after.required == before.required + 1 && after.key_not_found == before.key_not_found + 1);
    CHECK(after.bad > before.bad);
    CHECK(deliver(to, good).makes_progress);
    CHECK(!deliver(to, good).makes_progress);
}

static void sending(struct end *end)
{
    uint8_t options[40];
    struct segment segment, before;
    size_t used = 99;

    EXPECT(WIRESEAL_STATUS_NO_ROOM, wireseal_connection_append_ao(end->connection, options, sizeof options, 28, &used));
    EXPECT(WIRESEAL_STATUS_NO_ROOM, wireseal_connection_append_ao(end->connection, options, sizeof options, 41, &used));
    CHECK(used == 99);
    segment.length = tcp_header(segment.tcp, end->pair, end->sent, end->received, ACK);
    EXPECT(WIRESEAL_STATUS_NO_OPTION, wireseal_connection_sign(end->connection, segment.tcp, segment.length));
    EXPECT(WIRESEAL_STATUS_MALFORMED, wireseal_connection_sign(end->connection, segment.tcp, 10));
    segment = segment_of(end, ACK, "");
    before = segment;
    segment.tcp[13] = SYN;
    EXPECT(WIRESEAL_STATUS_WRONG_STATE, wireseal_connection_sign(end->connection, segment.tcp, segment.length));
    segment.tcp[13] = ACK;
    segment.tcp[1] ^= 1;
    EXPECT(WIRESEAL_STATUS_OTHER_CONNECTION, wireseal_connection_sign(end->connection, segment.tcp, segment.length));
    segment.tcp[1] ^= 1;
    CHECK(memcmp(&segment, &before, segment.length) == 0);
}

/* Both ends get a second key; one asks for it. No segment is lost, and the first key goes. */
static void rollover(struct end *a, struct end *b, struct wireseal_mkt old, struct wireseal_mkt next, struct wireseal_mkt peers_next)
{
    struct wireseal_mkt all[2];

    CHECK(info_of(a).asks_for == old.send_id);
    OK(wireseal_connection_add_key(a->connection, &next));
    EXPECT(WIRESEAL_STATUS_ID_IN_USE, wireseal_connection_add_key(a->connection, &next));
    EXPECT(WIRESEAL_STATUS_UNKNOWN_KEY, wireseal_connection_set_rnext_key(a->connection, 99));
    OK(wireseal_connection_set_rnext_key(a->connection, next.recv_id));
    /* The peer does not have it yet. */
    CHECK(!deliver(b, segment_of(a, ACK, "1")).current_key_changed);
    CHECK(info_of(b).asks_for == peers_next.send_id && info_of(b).current_key == old.recv_id);
    OK(wireseal_connection_add_key(b->connection, &peers_next));
    CHECK(deliver(b, segment_of(a, ACK, "2")).current_key_changed);
    CHECK(info_of(b).current_key == peers_next.send_id);
    CHECK(!info_of(a).peer_uses_rnext_key);
    CHECK(deliver(a, segment_of(b, ACK, "3")).key_id == next.recv_id);
    CHECK(info_of(a).peer_uses_rnext_key && info_of(a).peers_key == next.recv_id);

    EXPECT(WIRESEAL_STATUS_KEY_IN_USE, wireseal_connection_remove_key(a->connection, old.send_id, WIRESEAL_NO_KEY_ID));
    EXPECT(WIRESEAL_STATUS_BAD_ARGUMENT, wireseal_connection_remove_key(a->connection, old.send_id, 256));
    EXPECT(WIRESEAL_STATUS_UNKNOWN_KEY, wireseal_connection_remove_key(a->connection, 99, WIRESEAL_NO_KEY_ID));
    OK(wireseal_connection_remove_key(a->connection, old.send_id, next.send_id));
    EXPECT(WIRESEAL_STATUS_LAST_KEY, wireseal_connection_remove_key(a->connection, next.send_id, WIRESEAL_NO_KEY_ID));
    CHECK(deliver(b, segment_of(a, ACK, "4")).key_id == peers_next.recv_id);

    /* An accept-only key is none to sign with; and one more key than there is room for. */
    all[0] = next;
    all[0].accept_only = 1;
    EXPECT(WIRESEAL_STATUS_NO_KEY, wireseal_connection_replace_keys(a->connection, all, 1));
    EXPECT(WIRESEAL_STATUS_NO_KEY, wireseal_connection_replace_keys(a->connection, NULL, 0));
    all[0] = next;
    all[1] = old;
    OK(wireseal_connection_replace_keys(a->connection, all, 2));
    CHECK(info_of(a).current_key == next.send_id && info_of(a).rnext_key == next.recv_id);
    EXPECT(WIRESEAL_STATUS_UNKNOWN_KEY, wireseal_connection_set_current_key(a->connection, 99));
    OK(wireseal_connection_set_current_key(a->connection, old.send_id));
    EXPECT(WIRESEAL_STATUS_OK, wireseal_connection_set_current_key(a->connection, next.send_id));
}

/* The connection goes on in other memory; there it forgets nothing. */
static void move(struct end *end, struct end *peer, const struct wireseal_mkt *mkts, size_t count)
{
    uint8_t state[WIRESEAL_STATE_SIZE];
    size_t length;
    const struct wireseal_connection_info before = info_of(end);
    struct wireseal_connection *old = end->connection, *none;
    size_t at;

    EXPECT(WIRESEAL_STATUS_TOO_SMALL, wireseal_connection_export(end->connection, state, 100, &length));
    OK(wireseal_connection_export(end->connection, state, sizeof state, &length));
    EXPECT(WIRESEAL_STATUS_NOT_A_HANDLE, wireseal_connection_end(old));
    for (at = 64; at < wireseal_connection_size(); at++)
        CHECK(((uint8_t *)old)[at] == 0);
    EXPECT(WIRESEAL_STATUS_BAD_STATE,
           wireseal_connection_import(memories[2], sizeof memories[2], state, length - 1, mkts, count, &none));
    EXPECT(WIRESEAL_STATUS_BAD_STATE, wireseal_connection_import(memories[2], sizeof memories[2], state, length, NULL, 0, &none));
    OK(wireseal_connection_import(memories[2], sizeof memories[2], state, length, mkts, count, &end->connection));
    CHECK(info_of(end).sent == before.sent && info_of(end).counters.bad == before.counters.bad);
    CHECK(info_of(end).is_established);
    deliver(peer, segment_of(end, ACK, "moved"));
    deliver(end, segment_of(peer, ACK, "seen"));
}

/* An ICMP "protocol unreachable" about the connection, which anyone can forge. */
static void icmp(struct end *end)
{
    uint8_t packet[20 + 8 + 40];
    struct wireseal_pair there = end->pair, reversed = pair_of(end->pair.remote, end->pair.local);
    const uint64_t before = info_of(end).counters.dropped_icmp;
    bool ignore = false;

    packet_of(packet + 28, there, 1, 1, ACK, "");
    memcpy(packet, packet + 28, 20);
    memcpy(packet + 12, reversed.local.address.octets, 4);
    memcpy(packet + 16, reversed.remote.address.octets, 4);
    put16(packet + 2, sizeof packet);
    packet[9] = 1;
    memset(packet + 20, 0, 8);
    packet[20] = 3;
    packet[21] = 2;
    OK(wireseal_connection_ignores_icmp(end->connection, packet, sizeof packet, &ignore));
    CHECK(ignore && info_of(end).counters.dropped_icmp == before + 1);
    packet[28 + 23] ^= 1; /* of another port */
    OK(wireseal_connection_ignores_icmp(end->connection, packet, sizeof packet, &ignore));
    CHECK(!ignore);
    OK(wireseal_connection_ignores_icmp(end->connection, packet, 10, &ignore));
    CHECK(!ignore);
}

int main(void)
{
    /* Two keys, with another id in each direction. */
    const struct wireseal_mkt old = key_of(1, 2, WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1, "first secret");
    const struct wireseal_mkt next = key_of(3, 4, WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC, "second secret");
    const struct wireseal_mkt peers_old = key_of(2, 1, WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1, "first secret");
    const struct wireseal_mkt peers_next = key_of(4, 3, WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC, "second secret");
    const struct wireseal_mkt both[2] = {next, old};
    struct end a, b;

    a.pair = pair_of(end_of(1, 50000), end_of(2, 179));
    b.pair = pair_of(a.pair.remote, a.pair.local);
    a.sent = 0xfffffff0u; /* The number wraps soon. */
    b.sent = 5000;
    a.received = b.received = 0;
    CHECK(wireseal_connection_size() <= WIRESEAL_CONNECTION_SIZE && wireseal_connection_align() <= WIRESEAL_ALIGN);
    handshake(&a, &b, &old, &peers_old, 1);
    forged_segments(&a, &b);
    deliver(&b, segment_of(&a, ACK, "more than sixteen octets"));
    CHECK(info_of(&a).sent_sne == 1 && info_of(&b).received_sne == 0);
    deliver(&a, segment_of(&b, ACK, "seen"));
    deliver(&b, segment_of(&a, ACK, "behind the wrap"));
    CHECK(info_of(&b).received_sne == 1);
    sending(&a);
    rollover(&a, &b, old, next, peers_next);
    move(&a, &b, both, 2);
    icmp(&a);
    OK(wireseal_connection_end(a.connection));
    OK(wireseal_connection_end(b.connection));
    puts("connections: handshake, forgeries, rollover, move");
    return 0;
}
