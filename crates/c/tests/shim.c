/* Two shims, each under a TCP stack that knows nothing of TCP-AO: handshake, refusals, a rollover, batches, a move, the table's limits. */
#include "packets.h"

enum { MTU = 1500, PEERS = 2, CONNECTIONS = 3, SIZE = 200 };

struct heard {
    struct wireseal_event last;
    unsigned count;
    struct wireseal_shim *shim;
};

/* One end: its shim, its view of the connection, and what the shim has reported. */
struct end {
    struct wireseal_shim *shim;
    struct wireseal_pair pair;
    uint32_t sent, received;
    struct heard heard;
    size_t peer;
};

/* A packet in a buffer, with the room before it that signing needs. */
struct buffer {
    uint8_t octets[SIZE];
    size_t start, length;
};

static uint8_t memories[2][WIRESEAL_SHIM_SIZE + PEERS * WIRESEAL_SHIM_PEER_SIZE + CONNECTIONS * WIRESEAL_SHIM_CONNECTION_SIZE] ALIGNED;
static uint64_t now = 1000;

#ifdef __cplusplus
extern "C" {
#endif
/* An observer cannot call back. */
static void hear(void *context, const struct wireseal_event *event)
{
    struct heard *heard = (struct heard *)context;
    struct wireseal_counters counters;
    heard->last = *event;
    heard->count++;
    EXPECT(WIRESEAL_STATUS_BUSY, wireseal_shim_counters(heard->shim, &counters));
    EXPECT(WIRESEAL_STATUS_BUSY, wireseal_shim_end(heard->shim));
}
#ifdef __cplusplus
}
#endif

static void begin(struct end *end, void *memory, size_t size, const struct wireseal_mkt *mkt)
{
    static const uint8_t hash_key[16] = {7};
    struct wireseal_shim_config config;
    struct wireseal_connection_identifier connections;
    const size_t needed = wireseal_shim_size(PEERS, CONNECTIONS);

    memset(&config, 0, sizeof config);
    config.mtu = MTU;
    memset(&end->heard, 0, sizeof end->heard);
    CHECK(needed > 0 && needed <= size && wireseal_shim_align() <= WIRESEAL_ALIGN);
    EXPECT(WIRESEAL_STATUS_TOO_SMALL, wireseal_shim_new(memory, needed - 1, &config, hash_key, PEERS, CONNECTIONS, &end->shim));
    EXPECT(WIRESEAL_STATUS_TOO_SMALL, wireseal_shim_new(memory, size, &config, hash_key, SIZE_MAX, SIZE_MAX, &end->shim));
    config.unmatched = 3;
    EXPECT(WIRESEAL_STATUS_BAD_ARGUMENT, wireseal_shim_new(memory, size, &config, hash_key, PEERS, CONNECTIONS, &end->shim));
    CHECK(end->shim == NULL);
    config.unmatched = WIRESEAL_UNMATCHED_DROP;
    OK(wireseal_shim_new(memory, needed, &config, hash_key, PEERS, CONNECTIONS, &end->shim));
    end->heard.shim = end->shim;
    OK(wireseal_shim_set_observer(end->shim, hear, &end->heard));

    memset(&connections, 0, sizeof connections);
    connections.local.address = end->pair.local.address;
    connections.remote.address = end->pair.remote.address;
    connections.local.prefix_length = connections.remote.prefix_length = 33;
    EXPECT(WIRESEAL_STATUS_BAD_ADDRESS, wireseal_shim_add_peer(end->shim, &connections, mkt, 1, &end->peer));
    connections.local.prefix_length = connections.remote.prefix_length = 32;
    OK(wireseal_shim_add_peer(end->shim, &connections, mkt, 1, &end->peer));
    EXPECT(WIRESEAL_STATUS_PEERS_OVERLAP, wireseal_shim_add_peer(end->shim, &connections, mkt, 1, &end->peer));
}

/* A packet that the stack of an end makes. */
static struct buffer made(struct end *end, uint8_t flags, const char *payload)
{
    struct buffer buffer;
    buffer.start = WIRESEAL_OPTION_ROOM;
    buffer.length = packet_of(buffer.octets + buffer.start, end->pair, end->sent, end->received, flags, payload);
    end->sent += (uint32_t)strlen(payload) + ((flags & (SYN | FIN)) != 0);
    return buffer;
}

static void sign(struct end *end, struct buffer *buffer)
{
    OK(wireseal_shim_outbound(end->shim, now, buffer->octets, buffer->start + buffer->length, buffer->start, &buffer->start,
                              &buffer->length));
    CHECK(tcp_checksum(buffer->octets + buffer->start, buffer->length) == 0);
}

/* The status of a packet at an end, whose stack takes note of it. */
static enum wireseal_status deliver(struct end *end, struct buffer buffer)
{
    size_t offset = 99, length = 99;
    const struct buffer before = buffer;
    const enum wireseal_status status =
        wireseal_shim_inbound(end->shim, now, buffer.octets + buffer.start, buffer.length, &offset, &length);
    if (status == WIRESEAL_STATUS_OK) {
        const uint8_t *packet = buffer.octets + buffer.start + offset, *tcp = packet + IP_HEADER;
        const size_t header = (size_t)(tcp[12] >> 4) * 4;
        CHECK(length == get16(packet + 2) && tcp_checksum(packet, length) == 0);
        end->received = get32(tcp + 4) + (uint32_t)(length - IP_HEADER - header) + ((tcp[13] & (SYN | FIN)) != 0);
    } else {
        CHECK(offset == 99 && length == 99);
        CHECK(memcmp(before.octets + before.start, buffer.octets + before.start, before.length) == 0);
    }
    return status;
}

static struct buffer sent(struct end *end, uint8_t flags, const char *payload)
{
    struct buffer buffer = made(end, flags, payload);
    sign(end, &buffer);
    return buffer;
}

static struct wireseal_connection_info info_of(const struct end *end)
{
    struct wireseal_connection_info info;
    OK(wireseal_shim_connection(end->shim, &end->pair, &info));
    return info;
}

static void handshake(struct end *a, struct end *b)
{
    struct wireseal_connection_info info;
    EXPECT(WIRESEAL_STATUS_NO_CONNECTION, wireseal_shim_connection(a->shim, &a->pair, &info));
    OK(deliver(b, sent(a, SYN, "")));
    OK(deliver(a, sent(b, SYN | ACK, "")));
    CHECK(a->heard.last.kind == WIRESEAL_EVENT_KIND_OPENED && a->heard.last.has_peer && a->heard.last.peer == a->peer);
    CHECK(a->heard.last.has_pair && a->heard.last.pair.remote.port == a->pair.remote.port);
    OK(deliver(b, sent(a, ACK, "")));
    CHECK(info_of(a).is_established && info_of(b).is_established);
    CHECK(info_of(b).counters.good == 2);
}

static void refusals(struct end *a, struct end *b)
{
    struct buffer good = sent(a, ACK, "data"), bad = good;
    struct wireseal_refusals refused;
    struct wireseal_counters counters;
    struct end stranger = *a;
    const unsigned heard = b->heard.count;

    bad.octets[bad.start + bad.length - 1] ^= 1;
    EXPECT(WIRESEAL_STATUS_CHECKSUM, deliver(b, bad));
    put16(bad.octets + bad.start + IP_HEADER + 16, 0);
    put16(bad.octets + bad.start + IP_HEADER + 16, tcp_checksum(bad.octets + bad.start, bad.length));
    EXPECT(WIRESEAL_STATUS_BAD_MAC, deliver(b, bad));
    CHECK(b->heard.count == heard + 2 && b->heard.last.kind == WIRESEAL_EVENT_KIND_REFUSED);
    CHECK(b->heard.last.reason == WIRESEAL_STATUS_BAD_MAC && b->heard.last.direction == WIRESEAL_DIRECTION_INBOUND);
    bad = made(&stranger, RST, "");
    EXPECT(WIRESEAL_STATUS_UNSIGNED, deliver(b, bad));
    bad.octets[bad.start] = 0x55;
    EXPECT(WIRESEAL_STATUS_MALFORMED, deliver(b, bad));
    CHECK(!b->heard.last.has_pair && !b->heard.last.has_peer);

    /* A connection without a peer is not touched; a peer's without a handshake is refused. */
    stranger.pair.local = end_of(77, 1);
    OK(deliver(b, made(&stranger, SYN, "")));
    stranger.pair = a->pair;
    stranger.pair.local.port = 1;
    bad = made(&stranger, ACK, "x");
    EXPECT(WIRESEAL_STATUS_NO_CONNECTION, wireseal_shim_outbound(a->shim, now, bad.octets, SIZE, bad.start, &bad.start, &bad.length));
    /* No room before the packet; and a packet that starts behind its buffer. */
    stranger = *a;
    bad = made(&stranger, ACK, "x");
    memmove(bad.octets, bad.octets + bad.start, bad.length);
    EXPECT(WIRESEAL_STATUS_TOO_LONG_FOR_LINK, wireseal_shim_outbound(a->shim, now, bad.octets, bad.length, 0, &bad.start, &bad.length));
    EXPECT(WIRESEAL_STATUS_BAD_ARGUMENT, wireseal_shim_outbound(a->shim, now, bad.octets, 10, 11, &bad.start, &bad.length));

    OK(wireseal_shim_refused(b->shim, WIRESEAL_DIRECTION_INBOUND, &refused));
    CHECK(refused.checksum == 1 && refused.verify == 2 && refused.malformed == 1 && refused.no_connection == 0);
    OK(wireseal_shim_refused(a->shim, WIRESEAL_DIRECTION_OUTBOUND, &refused));
    CHECK(refused.no_connection == 1 && refused.too_long_for_link == 1);
    EXPECT(WIRESEAL_STATUS_BAD_ARGUMENT, wireseal_shim_refused(b->shim, 0, &refused));
    OK(wireseal_shim_counters(b->shim, &counters));
    CHECK(counters.bad == 1 && counters.required == 1);
    OK(wireseal_shim_peer_counters(b->shim, b->peer, &counters));
    CHECK(counters.bad == 1);
    EXPECT(WIRESEAL_STATUS_NO_SUCH_PEER, wireseal_shim_peer_counters(b->shim, 1, &counters));
    OK(deliver(b, good));
    OK(deliver(a, sent(b, ACK, "seen")));
}

/* Both ends get a second key, preferred; then the first goes. No segment is lost. */
static void rollover(struct end *a, struct end *b, struct wireseal_mkt old, struct wireseal_mkt next)
{
    struct wireseal_mkt mkts[2];
    mkts[0] = next;
    mkts[1] = old;
    OK(wireseal_shim_set_mkts(b->shim, b->peer, mkts, 2));
    OK(deliver(a, sent(b, ACK, "1")));
    CHECK(info_of(a).current_key == old.send_id && info_of(a).asks_for == next.send_id);
    OK(wireseal_shim_set_mkts(a->shim, a->peer, mkts, 2));
    OK(deliver(b, sent(a, ACK, "2")));
    CHECK(b->heard.last.kind == WIRESEAL_EVENT_KIND_KEY_SWITCHED);
    CHECK(b->heard.last.from_key == old.send_id && b->heard.last.to_key == next.send_id);
    OK(deliver(a, sent(b, ACK, "3")));
    CHECK(info_of(a).current_key == next.send_id && info_of(a).peers_key == next.recv_id);
    OK(wireseal_shim_set_mkts(a->shim, a->peer, &next, 1));
    OK(wireseal_shim_set_mkts(b->shim, b->peer, &next, 1));
    OK(deliver(b, sent(a, ACK, "4")));
    EXPECT(WIRESEAL_STATUS_UNKNOWN_KEY, wireseal_shim_set_rnext_key(a->shim, &a->pair, old.recv_id));
    OK(wireseal_shim_set_rnext_key(a->shim, &a->pair, next.recv_id));
    EXPECT(WIRESEAL_STATUS_NO_CONNECTION, wireseal_shim_set_rnext_key(a->shim, &b->pair, next.recv_id));
    EXPECT(WIRESEAL_STATUS_NO_SUCH_PEER, wireseal_shim_set_mkts(a->shim, 9, &next, 1));
}

/* More packets than MACs are computed of at a time, with a forged and an unsigned one among them. */
static void batches(struct end *a, struct end *b)
{
    enum { COUNT = 37, FORGED = 5, UNSIGNED = 20 };
    static struct buffer buffers[COUNT];
    struct wireseal_packet packets[COUNT];
    const uint64_t good = info_of(b).counters.good;
    size_t at;

    for (at = 0; at < COUNT; at++) {
        struct end stack = *a;
        buffers[at] = made(at == UNSIGNED ? &stack : a, ACK, "payload");
        packets[at].buffer = buffers[at].octets;
        packets[at].size = buffers[at].start + buffers[at].length;
        packets[at].offset = buffers[at].start;
        packets[at].status = WIRESEAL_STATUS_OK;
    }
    packets[COUNT - 1].offset = packets[COUNT - 1].size + 1;
    EXPECT(WIRESEAL_STATUS_BAD_ARGUMENT, wireseal_shim_outbound_batch(a->shim, now, packets, COUNT));
    packets[COUNT - 1].offset = buffers[COUNT - 1].start;
    packets[COUNT - 1].buffer = NULL;
    EXPECT(WIRESEAL_STATUS_NULL_POINTER, wireseal_shim_outbound_batch(a->shim, now, packets, COUNT));
    CHECK(packets[0].status == WIRESEAL_STATUS_NULL_POINTER && packets[0].length == 0);
    packets[COUNT - 1].buffer = buffers[COUNT - 1].octets;
    OK(wireseal_shim_outbound_batch(a->shim, now, packets, UNSIGNED));
    packets[UNSIGNED].length = packets[UNSIGNED].size - packets[UNSIGNED].offset;
    packets[UNSIGNED].status = WIRESEAL_STATUS_OK;
    OK(wireseal_shim_outbound_batch(a->shim, now, packets + UNSIGNED + 1, COUNT - UNSIGNED - 1));
    for (at = 0; at < COUNT; at++) {
        EXPECT(WIRESEAL_STATUS_OK, packets[at].status);
        CHECK(packets[at].offset == (at == UNSIGNED ? WIRESEAL_OPTION_ROOM : WIRESEAL_OPTION_ROOM - 16));
        CHECK(packets[at].offset + packets[at].length == packets[at].size);
        CHECK(tcp_checksum(packets[at].buffer + packets[at].offset, packets[at].length) == 0);
    }

    packets[FORGED].buffer[packets[FORGED].size - 1] ^= 4;
    put16(packets[FORGED].buffer + packets[FORGED].offset + IP_HEADER + 16, 0);
    put16(packets[FORGED].buffer + packets[FORGED].offset + IP_HEADER + 16,
          tcp_checksum(packets[FORGED].buffer + packets[FORGED].offset, packets[FORGED].length));
    OK(wireseal_shim_inbound_batch(b->shim, now, packets, COUNT));
    for (at = 0; at < COUNT; at++) {
        const int wanted = at == FORGED ? WIRESEAL_STATUS_BAD_MAC : at == UNSIGNED ? WIRESEAL_STATUS_UNSIGNED : WIRESEAL_STATUS_OK;
        EXPECT(wanted, packets[at].status);
        CHECK(packets[at].length == (wanted == WIRESEAL_STATUS_OK ? IP_HEADER + TCP_HEADER + 7 : 0u));
        CHECK(wanted != WIRESEAL_STATUS_OK || tcp_checksum(packets[at].buffer + packets[at].offset, packets[at].length) == 0);
    }
    CHECK(info_of(b).counters.good == good + COUNT - 2);
    OK(wireseal_shim_inbound_batch(b->shim, now, NULL, 0));
    b->received = a->sent;
    OK(deliver(a, sent(b, ACK, "seen")));
}

/* The connection leaves its shim, and comes back. */
static void move(struct end *a, struct end *b, const struct wireseal_mkt *mkt)
{
    uint8_t state[WIRESEAL_STATE_SIZE];
    struct buffer lost;
    size_t length = 0;

    EXPECT(WIRESEAL_STATUS_NO_CONNECTION, wireseal_shim_export(b->shim, &a->pair, state, sizeof state, &length));
    EXPECT(WIRESEAL_STATUS_TOO_SMALL, wireseal_shim_export(b->shim, &b->pair, state, 100, &length));
    OK(wireseal_shim_export(b->shim, &b->pair, state, sizeof state, &length));
    CHECK(b->heard.last.kind == WIRESEAL_EVENT_KIND_ENDED && b->heard.last.ending == WIRESEAL_ENDING_FORGOTTEN);
    lost = sent(a, ACK, "lost");
    EXPECT(WIRESEAL_STATUS_NO_CONNECTION, deliver(b, lost));
    EXPECT(WIRESEAL_STATUS_BAD_STATE, wireseal_shim_adopt(b->shim, now, state, length - 1, mkt, 1));
    EXPECT(WIRESEAL_STATUS_NO_PEER, wireseal_shim_adopt(a->shim, now, state, length, mkt, 1));
    OK(wireseal_shim_adopt(b->shim, now, state, length, mkt, 1));
    OK(deliver(b, lost));
}

/* While mismatches are accepted, unsigned segments pass; they are counted. */
static void mismatches(struct end *a, struct end *b)
{
    struct end forger = *a;
    struct wireseal_refusals passed;
    struct buffer reset = made(&forger, ACK, "forged");

    EXPECT(WIRESEAL_STATUS_UNSIGNED, deliver(b, reset));
    OK(wireseal_shim_accept_mismatches(b->shim, b->peer, now + 1000));
    OK(deliver(b, reset));
    CHECK(b->heard.last.kind == WIRESEAL_EVENT_KIND_PASSED && b->heard.last.reason == WIRESEAL_STATUS_UNSIGNED);
    OK(wireseal_shim_passed(b->shim, &passed));
    CHECK(passed.verify == 1);
    now += 1000;
    EXPECT(WIRESEAL_STATUS_UNSIGNED, deliver(b, reset));
    /* It stays over, even if the clock goes back. */
    now -= 1000;
    EXPECT(WIRESEAL_STATUS_UNSIGNED, deliver(b, reset));
    OK(wireseal_shim_accept_mismatches(b->shim, b->peer, now + 1000));
    OK(wireseal_shim_expire(b->shim, now + 1000));
    EXPECT(WIRESEAL_STATUS_UNSIGNED, deliver(b, reset));
    now += 1000;
    EXPECT(WIRESEAL_STATUS_NO_SUCH_PEER, wireseal_shim_accept_mismatches(b->shim, 1, now));
    b->received = a->sent;
}

/* More connections than the table has room for; and they expire. */
static void limits(struct end *a)
{
    struct end other = *a;
    struct buffer buffer;
    int at;

    for (at = 0; at < CONNECTIONS; at++) {
        other.pair.local.port = (uint16_t)(1000 + at);
        buffer = made(&other, SYN, "");
        EXPECT(at < CONNECTIONS - 1 ? WIRESEAL_STATUS_OK : WIRESEAL_STATUS_TABLE_FULL,
               wireseal_shim_outbound(a->shim, now, buffer.octets, SIZE, buffer.start, &buffer.start, &buffer.length));
    }
    now += 76000;
    OK(wireseal_shim_expire(a->shim, now));
    CHECK(a->heard.last.kind == WIRESEAL_EVENT_KIND_HANDSHAKE_ENDED && a->heard.last.ending == WIRESEAL_ENDING_EXPIRED);
    CHECK(info_of(a).is_established);
}

/* Walks through peers and connections, chooses a key by hand, and forgets a connection. */
static void walk(struct end *a, const struct wireseal_mkt *mkt)
{
    struct wireseal_shim_peer peer;
    struct wireseal_connection_info info;
    struct wireseal_connection_identifier other;
    struct end stack = *a;
    struct buffer buffer;
    size_t index, place, peers = 0, found = 0;

    memset(&other, 0, sizeof other);
    OK(wireseal_network_from_text("192.0.2.0/24", &other.local));
    OK(wireseal_network_from_text("192.0.2.9", &other.remote));
    other.remote_port = 179;
    OK(wireseal_shim_add_peer(a->shim, &other, mkt, 1, &index));
    stack.pair.remote = end_of(9, 179);
    buffer = made(&stack, SYN, "");
    sign(&stack, &buffer);
    for (place = 0; wireseal_shim_next_connection(a->shim, &place, &peers, &info) == WIRESEAL_STATUS_OK; place++, found++)
        CHECK(peers == (info.pair.remote.address.octets[3] == 9 ? index : a->peer));
    CHECK(found == 2);
    for (place = peers = 0; wireseal_shim_next_peer(a->shim, &place, &peer) == WIRESEAL_STATUS_OK; place++, peers++) {
        CHECK(place == (peer.connections.remote_port == 179 ? index : a->peer));
        CHECK(peer.mkt_count == 1 && peer.mkts[0].send_id == mkt->send_id && peer.mkts[0].algorithm == mkt->algorithm);
        CHECK(peer.mkts[0].master_key == NULL && peer.mkts[0].master_key_length == 0);
    }
    CHECK(peers == 2);
    OK(wireseal_shim_forget(a->shim, &stack.pair));
    EXPECT(WIRESEAL_STATUS_NO_CONNECTION, wireseal_shim_connection(a->shim, &stack.pair, &info));
    OK(wireseal_shim_remove_peer(a->shim, index));
    CHECK(info_of(a).is_established);
}

/* Router 192.0.2.77 tells this host, in an ICMP error that the host sees as its own, that a packet of 1500 octets is longer than 1400. */
static void own_icmp(struct end *a)
{
    uint8_t icmp[IP_HEADER + 8 + IP_HEADER + TCP_HEADER] = {0}, *message = icmp + IP_HEADER, other[sizeof icmp];
    struct end stack = *a;

    packet_of(message + 8, stack.pair, stack.sent, stack.received, ACK, "");
    memcpy(icmp, message + 8, IP_HEADER);
    put16(icmp + 2, sizeof icmp);
    icmp[9] = 1;
    message[0] = 3, message[1] = 4;
    put16(message + 6, 1400);
    memcpy(other, icmp, sizeof icmp);
    OK(wireseal_shim_own_icmp(a->shim, icmp, sizeof icmp));
    CHECK(get16(message + 6) == 1400 - WIRESEAL_OPTION_ROOM);
    /* Of a connection that the shim does not have: unchanged. */
    put16(other + IP_HEADER + 8 + IP_HEADER, 1);
    memcpy(icmp, other, sizeof icmp);
    OK(wireseal_shim_own_icmp(a->shim, icmp, sizeof icmp));
    CHECK(memcmp(icmp, other, sizeof icmp) == 0);
}

/* Closed by FINs; the peer is removed, then the shim. */
static void end(struct end *a, struct end *b)
{
    const struct wireseal_connection_identifier *none = NULL;
    struct wireseal_connection_identifier wide;
    struct buffer buffer;
    uint8_t state[WIRESEAL_STATE_SIZE];
    size_t at, index, length;
    const size_t size = wireseal_shim_size(PEERS, CONNECTIONS);
    const uint8_t *memory = (const uint8_t *)a->shim;

    OK(deliver(b, sent(a, FIN | ACK, "")));
    EXPECT(WIRESEAL_STATUS_NOT_ESTABLISHED, wireseal_shim_export(b->shim, &b->pair, state, sizeof state, &length));
    OK(deliver(a, sent(b, FIN | ACK, "")));
    OK(deliver(b, sent(a, ACK, "")));
    CHECK(a->heard.last.kind == WIRESEAL_EVENT_KIND_ENDED && a->heard.last.ending == WIRESEAL_ENDING_CLOSED);

    /* Without keys nothing gets through; without the peer nothing is protected. */
    OK(wireseal_shim_set_mkts(b->shim, b->peer, NULL, 0));
    buffer = made(a, SYN, "");
    EXPECT(WIRESEAL_STATUS_NO_KEY, deliver(b, buffer));
    OK(wireseal_shim_remove_peer(b->shim, b->peer));
    EXPECT(WIRESEAL_STATUS_NO_SUCH_PEER, wireseal_shim_remove_peer(b->shim, b->peer));
    OK(deliver(b, buffer));

    EXPECT(WIRESEAL_STATUS_NULL_POINTER, wireseal_shim_add_peer(a->shim, none, NULL, 0, &index));
    memset(&wide, 0, sizeof wide);
    wide.local.address.version = wide.remote.address.version = 4;
    OK(wireseal_shim_add_peer(a->shim, &wide, NULL, 0, &index));
    wide.remote_port = 179;
    EXPECT(WIRESEAL_STATUS_TOO_MANY_PEERS, wireseal_shim_add_peer(a->shim, &wide, NULL, 0, &index));
    OK(wireseal_shim_set_observer(a->shim, NULL, NULL));
    OK(wireseal_shim_end(a->shim));
    EXPECT(WIRESEAL_STATUS_NOT_A_HANDLE, wireseal_shim_end(a->shim));
    for (at = 64; at < size; at++)
        CHECK(memory[at] == 0);
    OK(wireseal_shim_end(b->shim));
}

/* Whether memory has the first octets of a secret. The kernel reads it: valgrind would not let octets be looked at that no value uses. */
static int has(const uint8_t *memory, size_t size, const char *secret)
{
    uint8_t *octets = (uint8_t *)malloc(size);
    FILE *file = fopen("/proc/self/mem", "rb");
    size_t at;
    int found = 0;

    CHECK(octets != NULL && file != NULL && fseek(file, (long)(intptr_t)memory, SEEK_SET) == 0);
    CHECK(fread(octets, size, 1, file) == 1 && fclose(file) == 0);
    for (at = 0; at + 8 <= size; at++)
        found |= memcmp(octets + at, secret, 8) == 0;
    free(octets);
    return found;
}

/* Once its connections and its peer are gone, no copy of a key is left in a shim's memory. */
static void wiped(void)
{
    static uint8_t memory[WIRESEAL_SHIM_SIZE + PEERS * WIRESEAL_SHIM_PEER_SIZE + 4 * WIRESEAL_SHIM_CONNECTION_SIZE] ALIGNED;
    static const char secret[] = "a needle of thirty-two octets...";
    const struct wireseal_mkt key = key_of(1, 1, WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1, secret);
    struct wireseal_shim_config config;
    struct wireseal_connection_identifier any;
    struct wireseal_shim *shim;
    struct end stack;
    struct buffer buffer;
    size_t round, at, peer;

    memset(&config, 0, sizeof config);
    config.mtu = MTU;
    memset(&any, 0, sizeof any);
    any.local.address.version = any.remote.address.version = 4;
    memset(&stack, 0, sizeof stack);
    OK(wireseal_shim_new(memory, sizeof memory, &config, (const uint8_t *)secret + 16, PEERS, 4, &shim));
    for (round = 0; round < 3; round++) {
        OK(wireseal_shim_add_peer(shim, &any, &key, 1, &peer));
        for (at = 0; at < 4; at++) {
            stack.pair = pair_of(end_of(1, (uint16_t)(1000 + at)), end_of(2, 179));
            buffer = made(&stack, SYN, "");
            OK(wireseal_shim_outbound(shim, 0, buffer.octets, buffer.start + buffer.length, buffer.start, &buffer.start, &buffer.length));
        }
        CHECK(has(memory, sizeof memory, secret));
        OK(wireseal_shim_expire(shim, 100000));
        OK(wireseal_shim_remove_peer(shim, peer));
        CHECK(!has(memory, sizeof memory, secret));
    }
    OK(wireseal_shim_end(shim));
}

int main(void)
{
    const struct wireseal_mkt old = key_of(1, 1, WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC, "first secret");
    const struct wireseal_mkt next = key_of(2, 2, WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1, "second secret");
    struct end a, b;

    a.pair = pair_of(end_of(1, 50000), end_of(2, 179));
    b.pair = pair_of(a.pair.remote, a.pair.local);
    a.sent = 1000;
    b.sent = 5000;
    a.received = b.received = 0;
    begin(&a, memories[0], sizeof memories[0], &old);
    begin(&b, memories[1], sizeof memories[1], &old);
    handshake(&a, &b);
    refusals(&a, &b);
    rollover(&a, &b, old, next);
    batches(&a, &b);
    move(&a, &b, &next);
    mismatches(&a, &b);
    limits(&a);
    walk(&a, &next);
    own_icmp(&a);
    end(&a, &b);
    wiped();
    puts("shims: handshake, refusals, rollover, batches, move, mismatches, limits");
    return 0;
}
