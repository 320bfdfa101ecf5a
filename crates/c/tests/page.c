/* The programs of docs/c.md, which tests/run takes from the page: each does what the page says of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"

/* From target/c/page. */
#include "connection.c"
#include "quic.c"
#include "shim.c"

#define HOLDS(condition) ((condition) ? (void)0 : (fprintf(stderr, "page.c:%d: not so: %s\n", __LINE__, #condition), exit(1)))

enum { SYN = 0x02, ACK = 0x10 };

/* What was sent last, and what a stack got. */
static uint8_t wire[1500], received[1500];
static size_t on_wire, in_stack;

void transmit(const struct wireseal_pair *pair, uint8_t *tcp, size_t length)
{
    HOLDS(pair->local.port != 0);
    memcpy(wire, tcp, on_wire = length);
}

void driver_send(const uint8_t *packet, size_t length)
{
    memcpy(wire, packet, on_wire = length);
}

void stack_receive(const uint8_t *packet, size_t length)
{
    memcpy(received, packet, in_stack = length);
}

uint64_t milliseconds(void)
{
    return 0;
}

/* A TCP header from one end of a pair to the other. */
static void header(const struct wireseal_pair *pair, uint8_t sequence, uint8_t acknowledged, int flags, uint8_t *tcp)
{
    memset(tcp, 0, 20);
    tcp[0] = (uint8_t)(pair->local.port >> 8), tcp[1] = (uint8_t)pair->local.port;
    tcp[2] = (uint8_t)(pair->remote.port >> 8), tcp[3] = (uint8_t)pair->remote.port;
    tcp[7] = sequence, tcp[11] = acknowledged, tcp[12] = 5 << 4, tcp[13] = (uint8_t)flags;
}

static struct wireseal_pair reversed(struct wireseal_pair pair)
{
    const struct wireseal_endpoint local = pair.local;

    pair.local = pair.remote;
    pair.remote = local;
    return pair;
}

/* A handshake and data between two stacks that call for each segment. */
static void stacks_of_ones_own(const struct wireseal_mkt *mkt)
{
    static struct connection client, server;
    uint8_t tcp[100];

    client.pair = a_pair();
    server.pair = reversed(a_pair());
    HOLDS(open_to(&client, 1, mkt, 1) == WIRESEAL_STATUS_OK);
    header(&client.pair, 1, 0, SYN, tcp);
    HOLDS(send_segment(&client, tcp, 0, "", 0) == WIRESEAL_STATUS_OK && on_wire == 36);
    HOLDS(open_from(&server, wire, on_wire, mkt, 1) == WIRESEAL_STATUS_OK);
    header(&server.pair, 7, 2, SYN | ACK, tcp);
    HOLDS(send_segment(&server, tcp, 0, "", 0) == WIRESEAL_STATUS_OK);
    HOLDS(may_pass(&client, wire, on_wire));
    header(&client.pair, 2, 8, ACK, tcp);
    HOLDS(send_segment(&client, tcp, 0, "hello", 5) == WIRESEAL_STATUS_OK && on_wire == 41);
    HOLDS(may_pass(&server, wire, on_wire) && memcmp(wire + 36, "hello", 5) == 0);
    wire[40] ^= 1;
    HOLDS(!may_pass(&server, wire, on_wire));
    HOLDS(wireseal_connection_end(client.ao) == WIRESEAL_STATUS_OK && wireseal_connection_end(server.ao) == WIRESEAL_STATUS_OK);
}

/* An IP packet with a TCP header; the shim makes the checksums. */
static size_t packet(const struct wireseal_pair *pair, uint8_t sequence, uint8_t acknowledged, int flags, uint8_t *ip)
{
    static const uint8_t start[12] = {0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6};

    memcpy(ip, start, 12);
    memcpy(ip + 12, pair->local.address.octets, 4);
    memcpy(ip + 16, pair->remote.address.octets, 4);
    header(pair, sequence, acknowledged, flags, ip + 20);
    return 40;
}

/* The page's shim under a client; the server has another. */
static void under_a_stack(const struct wireseal_mkt *mkt)
{
    static uint8_t servers_memory[WIRESEAL_SHIM_SIZE + WIRESEAL_SHIM_PEER_SIZE + WIRESEAL_SHIM_CONNECTION_SIZE]
        __attribute__((aligned(WIRESEAL_ALIGN)));
    const struct wireseal_pair pair = a_pair(), servers = reversed(pair);
    struct wireseal_connection_identifier peer;
    struct wireseal_connection_info info;
    struct wireseal_shim_config config;
    struct wireseal_shim *server;
    uint8_t buffer[ROOM + 100];
    size_t offset, length;

    memset(&peer, 0, sizeof peer);
    peer.local.address = pair.local.address;
    peer.remote.address = pair.remote.address;
    peer.local.prefix_length = peer.remote.prefix_length = 32;
    HOLDS(protect(&peer, mkt) == WIRESEAL_STATUS_OK);
    memset(&config, 0, sizeof config);
    config.mtu = 1500;
    HOLDS(wireseal_shim_new(servers_memory, sizeof servers_memory, &config, NULL, 1, 1, &server) == WIRESEAL_STATUS_OK);
    peer.local.address = servers.local.address;
    peer.remote.address = servers.remote.address;
    HOLDS(wireseal_shim_add_peer(server, &peer, mkt, 1, &offset) == WIRESEAL_STATUS_OK);

    on_send(buffer, packet(&pair, 1, 0, SYN, buffer + ROOM));
    HOLDS(on_wire == 56);
    HOLDS(wireseal_shim_inbound(server, 0, wire, on_wire, &offset, &length) == WIRESEAL_STATUS_OK);
    length = ROOM + packet(&servers, 7, 2, SYN | ACK, buffer + ROOM);
    HOLDS(wireseal_shim_outbound(server, 0, buffer, length, ROOM, &offset, &length) == WIRESEAL_STATUS_OK && length == 56);

    /* Damaged, it does not reach the stack. */
    buffer[offset + 55] ^= 1;
    on_receive(buffer + offset, length);
    HOLDS(in_stack == 0);
    buffer[offset + 55] ^= 1;
    on_receive(buffer + offset, length);
    /* With an MSS option, because the stack is to leave room for AO. */
    HOLDS(in_stack == 44 && received[33] == (SYN | ACK));
    HOLDS(wireseal_shim_connection(shim, &pair, &info) == WIRESEAL_STATUS_OK && info.is_established);
    HOLDS(wireseal_shim_end(shim) == WIRESEAL_STATUS_OK && wireseal_shim_end(server) == WIRESEAL_STATUS_OK);
}

static void quic(void)
{
    static const uint8_t secret[32] = {9}, id[8] = {1};
    static struct keys keys;
    struct wireseal_quic_opened opened;
    uint8_t packet[100];
    size_t length;

    HOLDS(make_keys(&keys, WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305, secret, sizeof secret) == WIRESEAL_STATUS_OK);
    HOLDS(seal(&keys, 70000, id, sizeof id, "frames", 7, packet, 13 + 7 + 15) == 0);
    length = seal(&keys, 70000, id, sizeof id, "frames", 7, packet, sizeof packet);
    HOLDS(length == 13 + 7 + 16);
    HOLDS(open_packet(&keys, WIRESEAL_QUIC_NONE, packet, length, sizeof id, &opened) == WIRESEAL_STATUS_OK);
    HOLDS(opened.number == 70000 && opened.payload_length == 7 && memcmp(packet + opened.payload_offset, "frames", 7) == 0);
    HOLDS(wireseal_quic_packet_key_end(keys.packet) == WIRESEAL_STATUS_OK && wireseal_quic_header_key_end(keys.header) == WIRESEAL_STATUS_OK);
}

int main(void)
{
    const struct wireseal_mkt mkt = an_mkt(100);

    stacks_of_ones_own(&mkt);
    under_a_stack(&mkt);
    quic();
    return 0;
}
