/* The programs of docs/c.md, which tests/run takes from the page: each does what the page says of it. */
#include "connection.h"

/* From target/c. */
#define main app
#include "page/app.c"
#undef main
#include "page/connection.c"
#include "page/daemon.c"
#include "page/quic.c"
#include "page/shim.c"

/* What was sent last, and what a stack got. */
static uint8_t wire[1500], received[1500];
static size_t on_wire, in_stack;

void transmit(const struct wireseal_pair *pair, uint8_t *tcp, size_t length)
{
    CHECK(pair->local.port != 0);
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

/* A handshake and data between two stacks that call for each segment. */
static void stacks_of_ones_own(const struct wireseal_mkt *mkt)
{
    static struct connection client, server;
    uint8_t tcp[100];

    client.pair = a_pair();
    server.pair = pair_of(end_of(2, 179), end_of(1, 50000));
    CHECK(open_to(&client, 1, mkt, 1) == WIRESEAL_STATUS_OK);
    tcp_header(tcp, client.pair, 1, 0, SYN);
    CHECK(send_segment(&client, tcp, 0, "", 0) == WIRESEAL_STATUS_OK && on_wire == 36);
    CHECK(open_from(&server, wire, on_wire, mkt, 1) == WIRESEAL_STATUS_OK);
    tcp_header(tcp, server.pair, 7, 2, SYN | ACK);
    CHECK(send_segment(&server, tcp, 0, "", 0) == WIRESEAL_STATUS_OK);
    CHECK(may_pass(&client, wire, on_wire));
    tcp_header(tcp, client.pair, 2, 8, ACK);
    CHECK(send_segment(&client, tcp, 0, "hello", 5) == WIRESEAL_STATUS_OK && on_wire == 41);
    CHECK(may_pass(&server, wire, on_wire) && memcmp(wire + 36, "hello", 5) == 0);
    wire[40] ^= 1;
    CHECK(!may_pass(&server, wire, on_wire));
    CHECK(wireseal_connection_end(client.ao) == WIRESEAL_STATUS_OK && wireseal_connection_end(server.ao) == WIRESEAL_STATUS_OK);
}

/* The page's shim under a client; the server has another. */
static void under_a_stack(const struct wireseal_mkt *mkt)
{
    static uint8_t servers_memory[WIRESEAL_SHIM_SIZE + WIRESEAL_SHIM_PEER_SIZE + WIRESEAL_SHIM_CONNECTION_SIZE] ALIGNED;
    const struct wireseal_pair pair = a_pair(), servers = pair_of(pair.remote, pair.local);
    struct wireseal_connection_identifier peer;
    struct wireseal_connection_info info;
    struct wireseal_shim_config config;
    struct wireseal_shim *server;
    uint8_t buffer[ROOM + 100];
    size_t offset, length;

    memset(&peer, 0, sizeof peer);
    peer.local.prefix_length = peer.remote.prefix_length = 32;
    CHECK(start_shim() == WIRESEAL_STATUS_OK);
    CHECK(protect("192.0.2.1", "192.0.2.0/33", "HMAC-SHA-1-96", 100, "first-secret", &offset) == WIRESEAL_STATUS_BAD_ADDRESS);
    CHECK(protect("192.0.2.1", "192.0.2.0/24", "HMAC-SHA-1-96", 100, "first-secret", &offset) == WIRESEAL_STATUS_OK);
    CHECK(protect("192.0.2.1", "198.51.100.0/24", "HMAC-SHA-1-96", 100, "first-secret", &offset) == WIRESEAL_STATUS_OK && offset == 1);
    memset(&config, 0, sizeof config);
    config.mtu = 1500;
    CHECK(wireseal_shim_new(servers_memory, sizeof servers_memory, &config, NULL, 1, 1, &server) == WIRESEAL_STATUS_OK);
    peer.local.address = servers.local.address;
    peer.remote.address = servers.remote.address;
    CHECK(wireseal_shim_add_peer(server, &peer, mkt, 1, &offset) == WIRESEAL_STATUS_OK);

    on_send(buffer, packet_of(buffer + ROOM, pair, 1, 0, SYN, ""));
    CHECK(on_wire == 56);
    CHECK(wireseal_shim_inbound(server, 0, wire, on_wire, &offset, &length) == WIRESEAL_STATUS_OK);
    length = ROOM + packet_of(buffer + ROOM, servers, 7, 2, SYN | ACK, "");
    CHECK(wireseal_shim_outbound(server, 0, buffer, length, ROOM, &offset, &length) == WIRESEAL_STATUS_OK && length == 56);

    /* Damaged, it does not reach the stack. */
    buffer[offset + 55] ^= 1;
    on_receive(buffer + offset, length);
    CHECK(in_stack == 0);
    buffer[offset + 55] ^= 1;
    on_receive(buffer + offset, length);
    /* With an MSS option, because the stack is to leave room for AO. */
    CHECK(in_stack == 44 && received[33] == (SYN | ACK));
    CHECK(wireseal_shim_connection(shim, &pair, &info) == WIRESEAL_STATUS_OK && info.is_established);
    CHECK(wireseal_shim_end(shim) == WIRESEAL_STATUS_OK && wireseal_shim_end(server) == WIRESEAL_STATUS_OK);
}

static void quic(void)
{
    static const uint8_t secret[32] = {9}, id[8] = {1};
    static struct keys keys;
    struct wireseal_quic_opened opened;
    uint8_t packet[100];
    size_t length;

    CHECK(make_keys(&keys, WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305, secret, sizeof secret) == WIRESEAL_STATUS_OK);
    CHECK(seal(&keys, 70000, id, sizeof id, "frames", 7, packet, 13 + 7 + 15) == 0);
    length = seal(&keys, 70000, id, sizeof id, "frames", 7, packet, sizeof packet);
    CHECK(length == 13 + 7 + 16);
    CHECK(open_packet(&keys, WIRESEAL_QUIC_NONE, packet, length, sizeof id, &opened) == WIRESEAL_STATUS_OK);
    CHECK(opened.number == 70000 && opened.payload_length == 7 && memcmp(packet + opened.payload_offset, "frames", 7) == 0);
    CHECK(wireseal_quic_packet_key_end(keys.packet) == WIRESEAL_STATUS_OK && wireseal_quic_header_key_end(keys.header) == WIRESEAL_STATUS_OK);
}

void serve(int connection, struct wireseal_attachment *attachment)
{
    CHECK(wireseal_attachment_end(attachment) == WIRESEAL_STATUS_OK && close(connection) == 0);
}

/* Where the kernel has no TCP-AO the daemon says so, and does not listen. examples/c is tested where it has. */
static void a_daemon(void)
{
    const char *const keys = "target/c/keys.toml";
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct wireseal_linux_support support;
    struct wireseal_attachment *attachment;
    FILE *const file = fopen(keys, "w");

    CHECK(file != NULL && listener >= 0);
    fputs("[[key-chain]]\nname = \"core\"\n[[key-chain.key]]\nsend-id = 100\nalgorithm = \"HMAC-SHA-1-96\"\nsecret = \"first-secret\"\n", file);
    CHECK(fclose(file) == 0);
    OK(start_manager());
    CHECK(add_peer("192.0.2.0/24", "/no/such/file") == WIRESEAL_STATUS_KEYS && strstr(message, "/no/such/file") != NULL);
    CHECK(add_peer("192.0.2.0/33", keys) == WIRESEAL_STATUS_NOT_A_PEER && strstr(message, "is no peer") != NULL);
    OK(add_peer("192.0.2.0/24", keys));
    OK(add_peer("198.51.100.1", keys));
    OK(wireseal_linux_probe(&support));
    if (support.tcp_ao) {
        OK(add_listener(listener, &attachment));
        OK(wireseal_attachment_end(attachment));
    } else {
        CHECK(add_listener(listener, &attachment) == WIRESEAL_STATUS_NOT_SUPPORTED && strstr(message, "TCP-AO") != NULL);
    }
    turn(listener, 0);
    OK(wireseal_manager_end(manager));
    close(listener);
}

int main(void)
{
    const struct wireseal_mkt mkt = an_mkt(100);

    CHECK(app() == 0);
    stacks_of_ones_own(&mkt);
    under_a_stack(&mkt);
    quic();
    a_daemon();
    return 0;
}
