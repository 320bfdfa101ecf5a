/* Connections, single segments and the shim, misused. */
#include "misuse.h"

static const uint8_t octets[64] = {7};
/* Master keys that are wrong in one way each. */
static struct wireseal_mkt wrong_mkt(int way)
{
    struct wireseal_mkt mkt = an_mkt(101);

    switch (way) {
    case 0: mkt.algorithm = 0; break;
    case 1: mkt.algorithm = 0xffffffff; break;
    case 2: mkt.master_key = NULL; break;
    case 3: mkt.master_key = NULL, mkt.master_key_length = 0; break;
    case 4: mkt.master_key_length = (size_t)-1; break;
    case 5: mkt.mac_length = 3; break;
    case 6: mkt.mac_length = 17; break;
    case 7: mkt.reserved[1] = 1; break;
    default: mkt.algorithm = WIRESEAL_TCP_AO_ALGORITHM_KMAC256_128; break;
    }
    return mkt;
}
static const enum wireseal_status wrong_mkt_is[] = {
    WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_UNKNOWN_ALGORITHM, WIRESEAL_STATUS_NULL_POINTER, WIRESEAL_STATUS_MASTER_KEY_LENGTH,
    WIRESEAL_STATUS_TOO_LONG,          WIRESEAL_STATUS_MAC_LENGTH,        WIRESEAL_STATUS_MAC_LENGTH,   WIRESEAL_STATUS_BAD_ARGUMENT,
    WIRESEAL_STATUS_MASTER_KEY_LENGTH,
};
enum { WRONG_MKTS = sizeof wrong_mkt_is / sizeof *wrong_mkt_is };

/* Gives a function each wrong key; the call has `mkt` in it. */
#define WRONG_MKTS_IN(mkt, call)                                                                                                \
    do {                                                                                                                        \
        int way;                                                                                                                \
        for (way = 0; way < WRONG_MKTS; way++) {                                                                                \
            mkt = wrong_mkt(way);                                                                                               \
            is(wrong_mkt_is[way], call, #call, __FILE__, __LINE__);                                                             \
        }                                                                                                                       \
    } while (0)

/* A header with its AO option, signed. */
static size_t header(struct wireseal_connection *connection, struct wireseal_pair pair, uint8_t sequence, uint8_t acknowledged, uint8_t flags, uint8_t tcp[60])
{
    size_t used = 0;

    tcp_header(tcp, pair, sequence, acknowledged, flags);
    IS(OK, wireseal_connection_append_ao(connection, tcp + TCP_HEADER, 40, 0, &used));
    tcp[12] = (uint8_t)((TCP_HEADER + used) / 4 << 4);
    IS(OK, wireseal_connection_sign(connection, tcp, TCP_HEADER + used));
    return TCP_HEADER + used;
}

static void connections(void)
{
    static struct memory first, second;
    struct wireseal_connection *active, *passive, *imported;
    const struct wireseal_pair pair = a_pair();
    struct wireseal_pair other = a_pair();
    struct wireseal_mkt mkts[5] = {an_mkt(100), an_mkt(1), an_mkt(2), an_mkt(3), an_mkt(4)}, mkt;
    struct wireseal_connection_info info;
    struct wireseal_verified verified;
    uint8_t tcp[60], syn[60], state[WIRESEAL_STATE_SIZE];
    size_t length, used, index;
    bool ignore = true;

    HOLDS(wireseal_connection_size() <= WIRESEAL_CONNECTION_SIZE && wireseal_connection_align() <= WIRESEAL_ALIGN);
    MAKES(wireseal_connection_size(), active,
          wireseal_connection_active(P(AT(first)), misuse.size, P(&pair), 10, P(mkts), 1, P(&active)));
    WRONG_MKTS_IN(mkt, wireseal_connection_active(&second, sizeof second, &pair, 10, &mkt, 1, &passive));
    HOLDS(passive == NULL);
    IS(NO_KEY, wireseal_connection_active(&second, sizeof second, &pair, 10, NULL, 0, &passive));
    IS(TOO_MANY_KEYS, wireseal_connection_active(&second, sizeof second, &pair, 10, mkts, 5, &passive));
    IS(TOO_LONG, wireseal_connection_active(&second, sizeof second, &pair, 10, mkts, (size_t)-1, &passive));
    IS(TOO_LONG, wireseal_connection_active(&second, sizeof second, &pair, 10, mkts, SIZE_MAX / sizeof *mkts + 2, &passive));
    IS(MISALIGNED, wireseal_connection_active(&second, sizeof second, (const struct wireseal_pair *)(const void *)((const uint8_t *)&pair + 1), 10, mkts, 1, &passive));
    other.local.address.version = 5;
    IS(BAD_ADDRESS, wireseal_connection_active(&second, sizeof second, &other, 10, mkts, 1, &passive));
    other.local.address.version = 6;
    IS(BAD_ADDRESS, wireseal_connection_active(&second, sizeof second, &other, 10, mkts, 1, &passive));

    MISUSED(OK, wireseal_connection_append_ao(H(active), P(tcp), 40, 0, P(&used)));
    IS(NO_ROOM, wireseal_connection_append_ao(active, tcp, 12, 0, &used));
    IS(NO_ROOM, wireseal_connection_append_ao(active, NULL, 0, 0, &used));
    HOLDS(wireseal_connection_append_ao(active, tcp, 40, 41, &used) != WIRESEAL_STATUS_OK);
    HOLDS(wireseal_connection_append_ao(active, tcp, 40, (size_t)-1, &used) != WIRESEAL_STATUS_OK);
    IS(TOO_LONG, wireseal_connection_append_ao(active, tcp, (size_t)-1, 0, &used));
    MISUSED(OK, wireseal_connection_option_length(H(active), P(&length)));
    HOLDS(length == 16);

    length = header(active, pair, 10, 0, SYN, syn);
    MISUSED(OK, wireseal_connection_sign(H(active), P(syn), length));
    for (index = 0; index < length; index++)
        HOLDS(wireseal_connection_sign(active, syn, index) != WIRESEAL_STATUS_OK);
    IS(TOO_LONG, wireseal_connection_sign(active, syn, (size_t)-1));

    MAKES(wireseal_connection_size(), passive,
          wireseal_connection_passive(P(AT(second)), misuse.size, P(&pair.local.address), P(&pair.remote.address), P(syn), length, P(mkts), 1, P(&passive)));
    IS(BAD_ADDRESS, wireseal_connection_passive(&second, sizeof second, &other.local.address, &pair.remote.address, syn, length, mkts, 1, &imported));
    HOLDS(imported == NULL);
    MAKES(wireseal_connection_size(), passive,
          wireseal_connection_passive(P(AT(second)), misuse.size, P(&pair.local.address), P(&pair.remote.address), P(syn), length, P(mkts), 1, P(&passive)));
    length = header(passive, pair_of(pair.remote, pair.local), 20, 11, SYN | ACK, tcp);
    misuse.null = -1;
    MISUSED(OK, wireseal_connection_verify(H(active), P(tcp), length, &verified));
    HOLDS(verified.key_id == 100);
    for (index = 0; index < length; index++)
        HOLDS(wireseal_connection_verify(active, tcp, index, &verified) != WIRESEAL_STATUS_OK);
    IS(OK, wireseal_connection_verify(active, tcp, length, NULL));
    IS(TOO_LONG, wireseal_connection_verify(active, tcp, (size_t)-1, NULL));

    /* Keys. */
    MISUSED(OK, wireseal_connection_add_key(H(active), P(&mkts[1])));
    IS(ID_IN_USE, wireseal_connection_add_key(active, &mkts[1]));
    WRONG_MKTS_IN(mkt, wireseal_connection_add_key(active, &mkt));
    MISUSED(OK, wireseal_connection_set_current_key(H(active), 1));
    IS(UNKNOWN_KEY, wireseal_connection_set_current_key(active, 9));
    MISUSED(OK, wireseal_connection_set_rnext_key(H(active), 1));
    IS(UNKNOWN_KEY, wireseal_connection_set_rnext_key(active, 9));
    IS(KEY_IN_USE, wireseal_connection_remove_key(active, 1, WIRESEAL_NO_KEY_ID));
    IS(BAD_ARGUMENT, wireseal_connection_remove_key(active, 1, 256));
    IS(BAD_ARGUMENT, wireseal_connection_remove_key(active, 1, -2));
    IS(UNKNOWN_KEY, wireseal_connection_remove_key(active, 1, 9));
    MISUSED(OK, wireseal_connection_remove_key(H(active), 1, 100));
    IS(LAST_KEY, wireseal_connection_remove_key(active, 100, WIRESEAL_NO_KEY_ID));
    MISUSED(OK, wireseal_connection_replace_keys(H(active), P(mkts), 2));
    IS(NO_KEY, wireseal_connection_replace_keys(active, NULL, 0));
    IS(TOO_MANY_KEYS, wireseal_connection_replace_keys(active, mkts, 5));
    WRONG_MKTS_IN(mkt, wireseal_connection_replace_keys(active, &mkt, 1));

    MISUSED(OK, wireseal_connection_get_info(H(active), P(&info)));
    HOLDS(info.is_established && info.current_key == 100 && info.local_isn == 10 && info.remote_isn == 20 && info.counters.good == 2);
    MISUSED(OK, wireseal_connection_ignores_icmp(H(active), P(octets), sizeof octets, P(&ignore)));
    HOLDS(!ignore);
    IS(OK, wireseal_connection_ignores_icmp(active, NULL, 0, &ignore));

    /* Wrong order: the other end is not established before it has seen an ACK. */
    IS(NOT_ESTABLISHED, wireseal_connection_export(passive, state, sizeof state, &length));
    IS(TOO_SMALL, wireseal_connection_export(active, state, 100, &length));
    MISUSED(OK, wireseal_connection_export(H(active), P(state), sizeof state, P(&length)));
    IS(NOT_A_HANDLE, wireseal_connection_export(active, state, sizeof state, &length));
    IS(NOT_A_HANDLE, wireseal_connection_end(active));
    IS(NOT_A_HANDLE, wireseal_connection_get_info(active, &info));
    MAKES(wireseal_connection_size(), imported,
          wireseal_connection_import(P(AT(first)), misuse.size, P(state), length, P(mkts), 2, P(&imported)));
    IS(OK, wireseal_connection_end(imported));
    IS(BAD_STATE, wireseal_connection_import(&first, sizeof first, state, length, &mkts[1], 1, &imported));
    for (index = 0; index < length; index++)
        IS(BAD_STATE, wireseal_connection_import(&first, sizeof first, state, index, mkts, 2, &imported));
    HOLDS(imported == NULL);

    MISUSED(OK, wireseal_connection_end(H(passive)));
    IS(NOT_A_HANDLE, wireseal_connection_end(passive));

    /* After a fault, only ending the handle works. */
    active = a_connection();
    IS(INTERNAL, wireseal_connection_panic(active));
    IS(INTERNAL, wireseal_connection_get_info(active, &info));
    IS(INTERNAL, wireseal_connection_sign(active, syn, sizeof syn));
    IS(OK, wireseal_connection_end(active));
    IS(NOT_A_HANDLE, wireseal_connection_end(active));
}

static void segments(void)
{
    struct wireseal_kdf_context context;
    struct wireseal_mkt mkt = an_mkt(100), wrong;
    uint8_t key[WIRESEAL_TRAFFIC_KEY_MAX], tcp[60];
    size_t used, index;

    memset(&context, 0, sizeof context);
    context.source = a_pair().local;
    context.destination = a_pair().remote;
    MISUSED(OK, wireseal_traffic_key(P(&mkt), P(&context), P(key), sizeof key, P(&used)));
    HOLDS(used == 20);
    IS(TOO_SMALL, wireseal_traffic_key(&mkt, &context, key, 19, &used));
    IS(TOO_SMALL, wireseal_traffic_key(&mkt, &context, NULL, 0, &used));
    WRONG_MKTS_IN(wrong, wireseal_traffic_key(&wrong, &context, key, sizeof key, &used));

    tcp_header(tcp, a_pair(), 1, 0, SYN);
    MISUSED(OK, wireseal_segment_append_ao(P(tcp + TCP_HEADER), 40, 0, 12, P(&used)));
    HOLDS(used == 16);
    tcp[12] = 9 << 4;
    IS(MAC_LENGTH, wireseal_segment_append_ao(key, sizeof key, 0, 3, &used));
    IS(MAC_LENGTH, wireseal_segment_append_ao(key, sizeof key, 0, (size_t)-1, &used));
    HOLDS(wireseal_segment_append_ao(key, sizeof key, (size_t)-1, 12, &used) != WIRESEAL_STATUS_OK);
    MISUSED(OK, wireseal_segment_sign(P(&mkt), P(&context), 0, 100, P(tcp), 36));
    MISUSED(OK, wireseal_segment_verify(P(&mkt), 1, P(&context), 0, P(tcp), 36, &index));
    HOLDS(index == 0);
    IS(OK, wireseal_segment_verify(&mkt, 1, &context, 0, tcp, 36, NULL));
    IS(UNKNOWN_KEY_ID, wireseal_segment_verify(NULL, 0, &context, 0, tcp, 36, NULL));
    WRONG_MKTS_IN(wrong, wireseal_segment_verify(&wrong, 1, &context, 0, tcp, 36, NULL));
    WRONG_MKTS_IN(wrong, wireseal_segment_sign(&wrong, &context, 0, 100, tcp, 36));
    for (index = 0; index < 36; index++) {
        HOLDS(wireseal_segment_verify(&mkt, 1, &context, 0, tcp, index, NULL) != WIRESEAL_STATUS_OK);
        HOLDS(wireseal_segment_sign(&mkt, &context, 0, 100, tcp, index) != WIRESEAL_STATUS_OK);
    }
    context.destination.address.version = 6;
    IS(BAD_ADDRESS, wireseal_segment_verify(&mkt, 1, &context, 0, tcp, 36, NULL));
    IS(BAD_ADDRESS, wireseal_traffic_key(&mkt, &context, key, sizeof key, &used));
}

/* Texts of addresses, networks and algorithms: valid and invalid ones. */
static void texts(void)
{
    struct wireseal_address address;
    struct wireseal_network network;
    uint32_t algorithm;
    size_t length;

    MISUSED(OK, wireseal_address_from_text(P("192.0.2.7"), P(&address)));
    HOLDS(address.version == 4 && address.octets[0] == 192 && address.octets[3] == 7 && address.octets[4] == 0);
    IS(OK, wireseal_address_from_text("2001:db8::1", &address));
    HOLDS(address.version == 6 && address.octets[0] == 0x20 && address.octets[15] == 1);
    IS(BAD_ADDRESS, wireseal_address_from_text("192.0.2", &address));
    IS(BAD_ADDRESS, wireseal_address_from_text("", &address));
    IS(BAD_ARGUMENT, wireseal_address_from_text("\xff", &address));
    MISUSED(OK, wireseal_network_from_text(P("192.0.2.0/24"), P(&network)));
    HOLDS(network.address.version == 4 && network.address.octets[0] == 192 && network.prefix_length == 24);
    IS(OK, wireseal_network_from_text("2001:db8::1", &network));
    HOLDS(network.address.version == 6 && network.prefix_length == 128);
    IS(BAD_ADDRESS, wireseal_network_from_text("192.0.2.1/24", &network));
    IS(BAD_ADDRESS, wireseal_network_from_text("192.0.2.0/33", &network));
    MISUSED(OK, wireseal_tcp_ao_algorithm_from_name(P("AES-128-CMAC-96"), P(&algorithm)));
    HOLDS(algorithm == WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC);
    IS(OK, wireseal_tcp_ao_algorithm_from_name("hmac(sha1)", &algorithm));
    HOLDS(algorithm == WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1);
    IS(UNKNOWN_ALGORITHM, wireseal_tcp_ao_algorithm_from_name("md5", &algorithm));
    MISUSED(OK, wireseal_tcp_ao_mac_length(WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1, P(&length)));
    HOLDS(length == 12);
    IS(OK, wireseal_tcp_ao_mac_length(WIRESEAL_TCP_AO_ALGORITHM_KMAC256_128, &length));
    HOLDS(length == 16);
    IS(UNKNOWN_ALGORITHM, wireseal_tcp_ao_mac_length(0, &length));
}

/* Calls back into its shim. */
static int observed;
static struct wireseal_shim *observed_shim;
#ifdef __cplusplus
extern "C"
#endif
void observe(void *context, const struct wireseal_event *event);
void observe(void *context, const struct wireseal_event *event)
{
    struct wireseal_counters counters;

    HOLDS(context == &observed_shim);
    HOLDS(event->kind == WIRESEAL_EVENT_KIND_REFUSED && event->reason == WIRESEAL_STATUS_UNSIGNED);
    IS(BUSY, wireseal_shim_counters(observed_shim, &counters));
    IS(BUSY, wireseal_shim_end(observed_shim));
    observed++;
}

/* A SYN from this end, or to it. */
static size_t syn(int inbound, uint8_t *packet)
{
    const struct wireseal_pair pair = a_pair();
    return packet_of(packet, inbound ? pair_of(pair.remote, pair.local) : pair, 1, 0, SYN, "");
}

static void shims(void)
{
    enum { ROOM = WIRESEAL_OPTION_ROOM };
    static struct memory memory;
    struct wireseal_shim *shim;
    struct wireseal_shim_config config;
    struct wireseal_connection_identifier peer, wrong_peer;
    struct wireseal_shim_peer known;
    struct wireseal_counters counters;
    struct wireseal_refusals refusals;
    struct wireseal_connection_info info;
    const struct wireseal_pair pair = a_pair();
    struct wireseal_pair wrong_pair = a_pair();
    struct wireseal_mkt mkts[5] = {an_mkt(100), an_mkt(1), an_mkt(2), an_mkt(3), an_mkt(4)}, mkt;
    struct wireseal_packet packets[2];
    uint8_t buffer[ROOM + 100], state[WIRESEAL_STATE_SIZE];
    size_t offset, length, index, peer_index;

    memset(&config, 0, sizeof config);
    config.mtu = 1500;
    memset(&peer, 0, sizeof peer);
    peer.local.address = pair.local.address;
    peer.remote.address = pair.remote.address;
    peer.local.prefix_length = peer.remote.prefix_length = 32;
    wrong_pair.local.address.version = 0;

    HOLDS(wireseal_shim_size(0, 0) <= WIRESEAL_SHIM_SIZE && wireseal_shim_align() <= WIRESEAL_ALIGN);
    HOLDS(wireseal_shim_size(2, 3) <= WIRESEAL_SHIM_SIZE + 2 * WIRESEAL_SHIM_PEER_SIZE + 3 * WIRESEAL_SHIM_CONNECTION_SIZE);
    HOLDS(wireseal_shim_size((size_t)-1, 1) == 0 && wireseal_shim_size(1, SIZE_MAX / 1000) == 0);
    MAKES(wireseal_shim_size(2, 3), shim, wireseal_shim_new(P(AT(memory)), misuse.size, P(&config), octets, 2, 3, P(&shim)));
    IS(OK, wireseal_shim_end(shim));
    IS(TOO_SMALL, wireseal_shim_new(&memory, sizeof memory, &config, octets, 2, (size_t)-1, &shim));
    config.unmatched = 3;
    IS(BAD_ARGUMENT, wireseal_shim_new(&memory, sizeof memory, &config, octets, 2, 3, &shim));
    config.unmatched = WIRESEAL_UNMATCHED_DROP, config.stack_mtu = 1481;
    IS(BAD_ARGUMENT, wireseal_shim_new(&memory, sizeof memory, &config, octets, 2, 3, &shim));
    config.stack_mtu = WIRESEAL_STACK_MTU_MIN - 1;
    IS(BAD_ARGUMENT, wireseal_shim_new(&memory, sizeof memory, &config, octets, 2, 3, &shim));
    config.stack_mtu = 0, config.reserved[3] = 1;
    IS(BAD_ARGUMENT, wireseal_shim_new(&memory, sizeof memory, &config, octets, 2, 3, &shim));
    config.reserved[3] = 0;
    for (config.mtu = 0; config.mtu < WIRESEAL_STACK_MTU_MIN + ROOM; config.mtu++)
        IS(BAD_ARGUMENT, wireseal_shim_new(&memory, sizeof memory, &config, octets, 2, 3, &shim));
    HOLDS(shim == NULL);
    config.mtu = 1500;
    IS(OK, wireseal_shim_new(&memory, sizeof memory, &config, NULL, 2, 3, &shim));

    MISUSED(OK, wireseal_shim_add_peer(H(shim), P(&peer), P(mkts), 1, P(&peer_index)));
    IS(PEERS_OVERLAP, wireseal_shim_add_peer(shim, &peer, mkts, 1, &index));
    IS(TOO_MANY_KEYS, wireseal_shim_add_peer(shim, &peer, mkts, 5, &index));
    WRONG_MKTS_IN(mkt, wireseal_shim_add_peer(shim, &peer, &mkt, 1, &index));
    wrong_peer = peer, wrong_peer.remote.prefix_length = 33;
    IS(BAD_ADDRESS, wireseal_shim_add_peer(shim, &wrong_peer, mkts, 1, &index));
    wrong_peer = peer, wrong_peer.remote.prefix_length = 24;
    IS(BAD_ADDRESS, wireseal_shim_add_peer(shim, &wrong_peer, mkts, 1, &index));
    wrong_peer = peer, wrong_peer.local.address.version = 255;
    IS(BAD_ADDRESS, wireseal_shim_add_peer(shim, &wrong_peer, mkts, 1, &index));
    /* 2000::/3 has no IPv4 address; ::/0 has all. */
    wrong_peer = peer, wrong_peer.local.address.version = 6, wrong_peer.local.prefix_length = 3;
    memset(wrong_peer.local.address.octets, 0, 16);
    wrong_peer.local.address.octets[0] = 0x20;
    IS(BAD_ADDRESS, wireseal_shim_add_peer(shim, &wrong_peer, mkts, 1, &index));
    wrong_peer.local.address.octets[0] = 0, wrong_peer.local.prefix_length = 0;
    IS(OK, wireseal_shim_add_peer(shim, &wrong_peer, mkts, 1, &index));
    IS(OK, wireseal_shim_remove_peer(shim, index));
    MISUSED(OK, wireseal_shim_set_mkts(H(shim), peer_index, P(mkts), 2));
    IS(NO_SUCH_PEER, wireseal_shim_set_mkts(shim, (size_t)-1, mkts, 2));
    WRONG_MKTS_IN(mkt, wireseal_shim_set_mkts(shim, peer_index, &mkt, 1));
    MISUSED(OK, wireseal_shim_accept_mismatches(H(shim), peer_index, 0));
    IS(NO_SUCH_PEER, wireseal_shim_accept_mismatches(shim, 2, 1000));

    /* Reserved fields must be zeros. */
    wrong_peer = peer, wrong_peer.reserved[3] = 1;
    IS(BAD_ARGUMENT, wireseal_shim_add_peer(shim, &wrong_peer, mkts, 1, &index));

    /* Unsigned, and reported; no packet is too short or too long to be looked at. */
    MISUSED(OK, wireseal_shim_set_observer(H(shim), observe, &observed_shim));
    observed_shim = shim;
    MISUSED(UNSIGNED, wireseal_shim_inbound(H(shim), 0, P(buffer), syn(1, buffer), P(&offset), P(&length)));
    HOLDS(observed == 1);
    IS(OK, wireseal_shim_set_observer(shim, NULL, NULL));
    for (index = 0; index < 40; index++) {
        syn(1, buffer);
        HOLDS(wireseal_shim_inbound(shim, 0, buffer, index, &offset, &length) != WIRESEAL_STATUS_OK);
    }
    IS(TOO_LONG, wireseal_shim_inbound(shim, 0, buffer, (size_t)-1, &offset, &length));
    MISUSED(OK, wireseal_shim_outbound(H(shim), 0, P(buffer), ROOM + syn(0, buffer + ROOM), ROOM, P(&offset), P(&length)));
    HOLDS(offset == ROOM - 16 && length == 56);
    IS(BAD_ARGUMENT, wireseal_shim_outbound(shim, 0, buffer, ROOM, ROOM + 1, &offset, &length));
    IS(BAD_ARGUMENT, wireseal_shim_outbound(shim, 0, buffer, ROOM, (size_t)-1, &offset, &length));
    IS(TOO_LONG_FOR_LINK, wireseal_shim_outbound(shim, 0, buffer, syn(0, buffer), 0, &offset, &length));
    for (index = 0; index < 40; index++) {
        syn(0, buffer + ROOM);
        HOLDS(wireseal_shim_outbound(shim, 0, buffer, ROOM + index, ROOM, &offset, &length) != WIRESEAL_STATUS_OK);
    }

    memset(packets, 0, sizeof packets);
    packets[0].buffer = buffer, packets[0].size = syn(1, buffer);
    MISUSED(OK, wireseal_shim_inbound_batch(H(shim), 0, P(packets), 2));
    HOLDS(packets[0].status == WIRESEAL_STATUS_UNSIGNED && packets[0].length == 0 && packets[1].status == WIRESEAL_STATUS_MALFORMED);
    packets[0].offset = ROOM, packets[0].size = ROOM + syn(0, buffer + ROOM);
    MISUSED(OK, wireseal_shim_outbound_batch(H(shim), 0, P(packets), 1));
    HOLDS(packets[0].status == WIRESEAL_STATUS_OK && packets[0].length == 56);
    packets[1].size = 1;
    IS(NULL_POINTER, wireseal_shim_inbound_batch(shim, 0, packets, 2));
    IS(NULL_POINTER, wireseal_shim_outbound_batch(shim, 0, packets, 2));
    packets[1].buffer = buffer, packets[1].offset = 2;
    IS(BAD_ARGUMENT, wireseal_shim_inbound_batch(shim, 0, packets, 2));
    IS(BAD_ARGUMENT, wireseal_shim_outbound_batch(shim, 0, packets, 2));
    IS(TOO_LONG, wireseal_shim_inbound_batch(shim, 0, packets, (size_t)-1));
    IS(OK, wireseal_shim_inbound_batch(shim, 0, NULL, 0));
    /* If the call fails as a whole, no packet goes on. */
    for (index = 0; index < 4; index++) {
        struct wireseal_shim *const no_shim = index < 2 ? NULL : shim;
        const uint32_t wanted = index < 2 ? WIRESEAL_STATUS_NULL_POINTER : WIRESEAL_STATUS_BAD_ARGUMENT;

        packets[0].status = packets[1].status = WIRESEAL_STATUS_OK, packets[0].length = packets[1].length = 1;
        is((enum wireseal_status)wanted, (index % 2 ? wireseal_shim_outbound_batch : wireseal_shim_inbound_batch)(no_shim, 0, packets, 2), "batch", __FILE__, __LINE__);
        HOLDS(packets[0].status == wanted && packets[0].length == 0 && packets[1].status == wanted && packets[1].length == 0);
    }

    MISUSED(OK, wireseal_shim_counters(H(shim), P(&counters)));
    HOLDS(counters.required == 2 && counters.good == 0);
    MISUSED(OK, wireseal_shim_peer_counters(H(shim), peer_index, P(&counters)));
    IS(NO_SUCH_PEER, wireseal_shim_peer_counters(shim, 2, &counters));
    MISUSED(OK, wireseal_shim_refused(H(shim), WIRESEAL_DIRECTION_INBOUND, P(&refusals)));
    IS(BAD_ARGUMENT, wireseal_shim_refused(shim, 0, &refusals));
    IS(BAD_ARGUMENT, wireseal_shim_refused(shim, 3, &refusals));
    MISUSED(OK, wireseal_shim_passed(H(shim), P(&refusals)));
    MISUSED(OK, wireseal_shim_connection(H(shim), P(&pair), P(&info)));
    IS(BAD_ADDRESS, wireseal_shim_connection(shim, &wrong_pair, &info));
    MISUSED(OK, wireseal_shim_set_current_key(H(shim), P(&pair), 1));
    IS(UNKNOWN_KEY, wireseal_shim_set_current_key(shim, &pair, 9));
    IS(BAD_ADDRESS, wireseal_shim_set_current_key(shim, &wrong_pair, 1));
    IS(OK, wireseal_shim_connection(shim, &pair, &info));
    HOLDS(info.current_key == 1);
    index = 0;
    MISUSED(OK, wireseal_shim_next_connection(H(shim), P(&index), &peer_index, P(&info)));
    HOLDS(info.pair.local.port == pair.local.port);
    index++;
    IS(NO_CONNECTION, wireseal_shim_next_connection(shim, &index, NULL, &info));
    index = (size_t)-1;
    IS(NO_CONNECTION, wireseal_shim_next_connection(shim, &index, NULL, &info));
    index = 0;
    MISUSED(OK, wireseal_shim_next_peer(H(shim), P(&index), P(&known)));
    HOLDS(index == peer_index);
    index++;
    IS(NO_SUCH_PEER, wireseal_shim_next_peer(shim, &index, &known));
    index = (size_t)-1;
    IS(NO_SUCH_PEER, wireseal_shim_next_peer(shim, &index, &known));
    MISUSED(OK, wireseal_shim_own_icmp(H(shim), P(buffer), sizeof buffer));
    IS(OK, wireseal_shim_own_icmp(shim, NULL, 0));
    MISUSED(OK, wireseal_shim_set_rnext_key(H(shim), P(&pair), 1));
    IS(UNKNOWN_KEY, wireseal_shim_set_rnext_key(shim, &pair, 9));
    IS(BAD_ADDRESS, wireseal_shim_set_rnext_key(shim, &wrong_pair, 1));
    MISUSED(NOT_ESTABLISHED, wireseal_shim_export(H(shim), P(&pair), P(state), sizeof state, P(&length)));
    IS(TOO_SMALL, wireseal_shim_export(shim, &pair, state, 100, &length));
    MISUSED(OK, wireseal_shim_forget(H(shim), P(&pair)));
    IS(NO_CONNECTION, wireseal_shim_forget(shim, &pair));
    IS(NO_CONNECTION, wireseal_shim_set_current_key(shim, &pair, 1));
    IS(BAD_ADDRESS, wireseal_shim_forget(shim, &wrong_pair));
    memset(state, 0xff, sizeof state), length = sizeof state;
    MISUSED(BAD_STATE, wireseal_shim_adopt(H(shim), 0, P(state), sizeof state, P(mkts), 1));
    MISUSED(OK, wireseal_shim_expire(H(shim), 1000000));
    IS(NO_CONNECTION, wireseal_shim_connection(shim, &pair, &info));
    IS(NO_CONNECTION, wireseal_shim_export(shim, &pair, state, sizeof state, &length));
    IS(NO_CONNECTION, wireseal_shim_set_rnext_key(shim, &pair, 1));
    MISUSED(OK, wireseal_shim_remove_peer(H(shim), peer_index));
    IS(NO_SUCH_PEER, wireseal_shim_remove_peer(shim, peer_index));
    MISUSED(OK, wireseal_shim_end(H(shim)));
    IS(NOT_A_HANDLE, wireseal_shim_end(shim));
    IS(NOT_A_HANDLE, wireseal_shim_expire(shim, 0));
}

int main(void)
{
    static struct memory memory;
    struct wireseal_shim_config config;
    struct wireseal_shim *shim;

    memset(&config, 0, sizeof config);
    config.mtu = 1500;
    IS(OK, wireseal_shim_new(&memory, sizeof memory, &config, octets, 0, 0, &shim));
    misuse.other = shim;
    connections();
    segments();
    texts();
    misuse.other = a_connection();
    shims();
    return misuse.failures != 0;
}
