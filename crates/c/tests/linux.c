/* Linux's sockets, key chains and the key manager: on a kernel without TCP-AO each call says so and changes nothing; all else works. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wireseal.h"

#define HOLDS(condition) ((condition) ? (void)0 : (fprintf(stderr, "linux.c:%d: not so: %s (%s)\n", __LINE__, #condition, message), exit(1)))
#define GIVES(wanted, call) gives(WIRESEAL_STATUS_##wanted, call, #call, __LINE__)

static char message[512];
static const char SECRET[] = "a secret that nobody shows, 32 octets";

static void gives(enum wireseal_status wanted, enum wireseal_status found, const char *call, int line)
{
    if (wanted == found)
        return;
    fprintf(stderr, "linux.c:%d: %s\n  gave \"%s\", not \"%s\": %s\n", line, call, wireseal_status_text((uint32_t)found),
            wireseal_status_text((uint32_t)wanted), message);
    exit(1);
}

static int has(const char *words)
{
    return strstr(message, words) != NULL;
}

/* A call with null for one pointer after another, each of them in P(). */
static int null, pointers;

static int is_null(void)
{
    return pointers++ == null;
}

#define P(pointer) (is_null() ? NULL : (pointer))
#define NULLS(call)                                                                                                             \
    for (null = 0, pointers = 1; null < pointers; null++) {                                                                     \
        pointers = 0;                                                                                                           \
        GIVES(NULL_POINTER, call);                                                                                              \
    }                                                                                                                           \
    null = -1

static struct wireseal_network network(uint8_t last, uint8_t prefix_length)
{
    struct wireseal_network network;

    memset(&network, 0, sizeof network);
    network.address.version = 4;
    network.address.octets[0] = 192;
    network.address.octets[2] = 2;
    network.address.octets[3] = last;
    network.prefix_length = prefix_length;
    return network;
}

static struct wireseal_mkt mkt(uint8_t id, enum wireseal_tcp_ao_algorithm algorithm)
{
    struct wireseal_mkt mkt;

    memset(&mkt, 0, sizeof mkt);
    mkt.send_id = mkt.recv_id = id;
    mkt.algorithm = (uint32_t)algorithm;
    mkt.master_key = (const uint8_t *)SECRET;
    mkt.master_key_length = sizeof SECRET - 1;
    return mkt;
}

/* A chain of one key that is over at a moment, or never for 0. */
static struct wireseal_chains *chain(const char *name, uint8_t id, int64_t until)
{
    struct wireseal_chains *chains;
    struct wireseal_chain_key key;

    memset(&key, 0, sizeof key);
    key.key_id = id;
    key.mkt = mkt(id, WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1);
    key.send.until = until;
    GIVES(OK, wireseal_chains_from_keys(name, &key, 1, 0, NULL, message, sizeof message, &chains));
    return chains;
}

static enum wireseal_status from_text(const char *text, const char *format, struct wireseal_chains **chains)
{
    return wireseal_chains_from_text("keys.toml", (const uint8_t *)text, strlen(text), format, 0, message, sizeof message, chains);
}

static const char TOML[] = "[[key-chain]]\nname = \"core\"\n"
                           "[[key-chain.key]]\nsend-id = 1\nrecv-id = 2\nalgorithm = \"HMAC-SHA-1-96\"\nsecret = \"a secret that nobody shows\"\n"
                           "send = { until = 2026-01-01T00:00:00Z }\naccept = { until = 2027-01-01T00:00:00Z }\n"
                           "[[key-chain.key]]\nsend-id = 3\nalgorithm = \"AES-128-CMAC-96\"\nsecret = \"another secret\"\n"
                           "send = { from = 2025-01-01T00:00:00Z }\n";

static void key_chains(void)
{
    struct wireseal_chains *chains, *ended;
    struct wireseal_chain_key keys[2];
    struct wireseal_mkt mkts[2];
    char name[8], wrong[sizeof TOML + 8];
    uint8_t text[2048];
    size_t count, length;
    int64_t next;
    const uint64_t preferred = 9;

    GIVES(OK, from_text(TOML, NULL, &chains));
    HOLDS(message[0] == 0);
    GIVES(OK, wireseal_chains_name(chains, 0, name, sizeof name));
    HOLDS(strcmp(name, "core") == 0);
    GIVES(NO_SUCH_CHAIN, wireseal_chains_name(chains, 1, name, sizeof name));
    GIVES(TOO_SMALL, wireseal_chains_name(chains, 0, name, 4));

    /* 2025-07-01: both may be signed with, the second is preferred. */
    GIVES(OK, wireseal_chains_at(chains, "core", 1751328000, mkts, 2, &count, &next));
    HOLDS(count == 2 && mkts[0].send_id == 3 && mkts[1].recv_id == 2 && mkts[1].accept_only == 0 && next == 1767225600);
    HOLDS(mkts[1].master_key_length == 26 && memcmp(mkts[1].master_key, "a secret that nobody shows", 26) == 0 && mkts[1].mac_length == 12);
    GIVES(OK, wireseal_chains_at(chains, NULL, 1767225600, mkts, 2, &count, NULL));
    HOLDS(count == 2 && mkts[1].accept_only != 0 && mkts[1].algorithm == WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1);
    count = 77;
    GIVES(TOO_SMALL, wireseal_chains_at(chains, NULL, 1767225600, mkts, 1, &count, NULL));
    HOLDS(count == 2);
    GIVES(TOO_SMALL, wireseal_chains_at(chains, NULL, 1767225600, NULL, 0, &count, NULL));
    GIVES(OK, wireseal_chains_at(chains, NULL, 1900000000, mkts, 2, &count, &next));
    HOLDS(count == 1 && next == INT64_MAX);
    GIVES(NO_SUCH_CHAIN, wireseal_chains_at(chains, "edge", 0, mkts, 2, &count, NULL));
    NULLS(wireseal_chains_at(P(chains), NULL, 0, P(mkts), 2, P(&count), NULL));
    NULLS(wireseal_chains_name(P(chains), 0, P(name), sizeof name));
    GIVES(OK, wireseal_chains_end(chains));
    GIVES(NOT_A_HANDLE, wireseal_chains_end(chains));
    GIVES(NOT_A_HANDLE, wireseal_chains_name(chains, 0, name, sizeof name));
    GIVES(NULL_POINTER, wireseal_chains_end(NULL));

    /* The line, and no secret. */
    memcpy(wrong, TOML, sizeof TOML);
    memcpy(strstr(wrong, "send-id = 3"), "send-id = x", 11);
    ended = chains;
    GIVES(KEYS, from_text(wrong, NULL, &chains));
    HOLDS(chains == NULL && has("keys.toml: line 11, column 11") && !has("secret") && strchr(message, '\n') == NULL);
    GIVES(KEYS, wireseal_chains_from_file("/no/such/file", 0, message, sizeof message, &chains));
    HOLDS(has("/no/such/file: No such file"));
    GIVES(KEYS, wireseal_chains_from_text("keys", (const uint8_t *)"\xff", 1, NULL, 0, message, sizeof message, &chains));
    GIVES(BAD_ARGUMENT, from_text(TOML, "yaml", &chains));
    HOLDS(has("\"yaml\" is no format of keys; these are: toml, json"));
    GIVES(KEYS, from_text(TOML, "json", &chains));
    GIVES(OK, from_text("", NULL, &chains));
    GIVES(NO_SUCH_CHAIN, wireseal_chains_at(chains, NULL, 0, mkts, 2, &count, NULL));
    GIVES(OK, wireseal_chains_end(chains));
    NULLS(wireseal_chains_from_text(P("keys"), P((const uint8_t *)TOML), 5, NULL, 0, NULL, 0, P(&chains)));
    NULLS(wireseal_chains_from_file(P("keys"), 0, NULL, 0, P(&chains)));

    memset(keys, 0, sizeof keys);
    keys[0].key_id = 1;
    keys[0].mkt = mkt(1, WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC);
    keys[1] = keys[0];
    keys[1].key_id = 2;
    GIVES(KEYS, wireseal_chains_from_keys("twice", keys, 2, 0, NULL, message, sizeof message, &chains));
    HOLDS(has("key 2, send-id: key 1 has this id too"));
    keys[1].mkt.send_id = keys[1].mkt.recv_id = 2;
    GIVES(KEYS, wireseal_chains_from_keys("fits", keys, 2, 0, &preferred, message, sizeof message, &chains));
    keys[1].send.from = 5;
    keys[1].accept.from = 6;
    GIVES(KEYS, wireseal_chains_from_keys("fits", keys, 2, 0, NULL, message, sizeof message, &chains));
    HOLDS(has("key 2: ") && has("must cover the send lifetime"));
    keys[1].accept.from = 0;
    keys[1].mkt.algorithm = 77;
    GIVES(UNKNOWN_ALGORITHM, wireseal_chains_from_keys("fits", keys, 2, 0, NULL, message, sizeof message, &chains));
    GIVES(KEYS, wireseal_chains_from_keys("none", keys, 0, 0, NULL, message, sizeof message, &chains));
    NULLS(wireseal_chains_from_keys(P("fits"), P(keys), 1, 0, NULL, NULL, 0, P(&chains)));
    HOLDS(ended != NULL);

    /* To JSON and back; what another format cannot say is said. */
    GIVES(TOO_SMALL, wireseal_keys_convert("keys", (const uint8_t *)TOML, strlen(TOML), NULL, "json", text, 8, &length, message, sizeof message));
    HOLDS(length > 100 && length < sizeof text);
    GIVES(OK, wireseal_keys_convert("keys", (const uint8_t *)TOML, strlen(TOML), NULL, "json", text, sizeof text, &length, message, sizeof message));
    GIVES(OK, wireseal_chains_from_text("keys.json", text, length, "json", 1, message, sizeof message, &chains));
    GIVES(OK, wireseal_chains_at(chains, NULL, 1900000000, mkts, 2, &count, NULL));
    HOLDS(count == 1 && mkts[0].send_id == 3);
    GIVES(OK, wireseal_chains_end(chains));
    GIVES(OK, wireseal_keys_convert("keys", (const uint8_t *)TOML, strlen(TOML), "toml", "bird", text, sizeof text, &length, message, sizeof message));
    HOLDS(message[0] != 0 && !has("nobody shows"));
    GIVES(KEYS, wireseal_keys_convert("keys", (const uint8_t *)TOML, strlen(TOML), "toml", "frr", text, sizeof text, &length, message, sizeof message));
    NULLS(wireseal_keys_convert(P("keys"), P((const uint8_t *)TOML), 5, NULL, P("json"), P(text), 9, P(&length), NULL, 0));
}

/* The same calls on a socket, each with its result. */
static void calls(int fd, enum wireseal_status wanted)
{
    const struct wireseal_mkt key = mkt(1, WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1);
    struct wireseal_key_name name;
    struct wireseal_socket_info info;
    struct wireseal_socket_key listed[4];
    size_t count = 77;
    const uint8_t next = 2;

    memset(&name, 0, sizeof name);
    name.remote = network(7, 32);
    HOLDS(wireseal_socket_add_key(fd, &name.remote, &key, NULL, 0, message, sizeof message) == wanted && message[0] != 0);
    HOLDS(wireseal_socket_delete_key(fd, &name, &next, NULL, message, sizeof message) == wanted && message[0] != 0);
    HOLDS(wireseal_socket_set_current_key(fd, 1, message, sizeof message) == wanted);
    HOLDS(wireseal_socket_set_rnext_key(fd, 1, NULL, 0) == wanted);
    HOLDS(wireseal_socket_set_required(fd, 1, message, sizeof message) == wanted);
    HOLDS(wireseal_socket_set_accept_icmps(fd, 1, message, sizeof message) == wanted);
    HOLDS(wireseal_socket_get_info(fd, message, sizeof message, &info) == wanted);
    HOLDS(wireseal_socket_keys(fd, message, sizeof message, listed, 4, &count) == wanted && count == 77);
}

static void sockets(const struct wireseal_linux_support *support)
{
    const int tcp = socket(AF_INET, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct wireseal_network remote = network(7, 32);
    struct wireseal_mkt key = mkt(1, WIRESEAL_TCP_AO_ALGORITHM_KMAC256_128);
    struct wireseal_key_name name;
    struct wireseal_socket_info info;
    struct wireseal_socket_key listed[1];
    const uint32_t no_vrf = 99999;
    size_t count;

    if (!support->tcp_ao)
        calls(tcp, WIRESEAL_STATUS_NOT_SUPPORTED);
    calls(udp, WIRESEAL_STATUS_NOT_A_TCP_SOCKET);
    calls(-1, WIRESEAL_STATUS_SYSTEM);
    calls(9999, WIRESEAL_STATUS_SYSTEM);
    GIVES(NOT_IN_KERNEL, wireseal_socket_add_key(tcp, &remote, &key, NULL, 0, message, sizeof message));
    HOLDS(has("Linux has no") && !has(SECRET));
    GIVES(BAD_ARGUMENT, wireseal_socket_add_key(tcp, &remote, &key, NULL, 4, message, sizeof message));
    remote.address.octets[3] = 8, remote.prefix_length = 24;
    GIVES(BAD_ADDRESS, wireseal_socket_add_key(tcp, &remote, &key, NULL, 0, message, sizeof message));
    remote = network(7, 33);
    GIVES(BAD_ADDRESS, wireseal_socket_add_key(tcp, &remote, &key, NULL, 0, message, sizeof message));
    remote = network(7, 32);
    key.algorithm = 0;
    GIVES(UNKNOWN_ALGORITHM, wireseal_socket_add_key(tcp, &remote, &key, NULL, 0, message, sizeof message));

    GIVES(OK, wireseal_socket_reset(tcp, message, sizeof message));
    if (support->md5) {
        GIVES(OK, wireseal_socket_set_md5_key(tcp, &remote, NULL, (const uint8_t *)SECRET, 9, message, sizeof message));
        GIVES(OK, wireseal_socket_delete_md5_key(tcp, &remote, NULL, message, sizeof message));
        GIVES(UNKNOWN_KEY, wireseal_socket_delete_md5_key(tcp, &remote, NULL, message, sizeof message));
        GIVES(REFUSED_BY_KERNEL, wireseal_socket_set_md5_key(tcp, &remote, &no_vrf, (const uint8_t *)SECRET, 9, message, sizeof message));
        HOLDS(has("interface 99999 is not a VRF device"));
    }
    GIVES(MASTER_KEY_LENGTH, wireseal_socket_set_md5_key(tcp, &remote, NULL, NULL, 0, message, sizeof message));

    memset(&name, 0, sizeof name);
    name.remote = remote;
    name.reserved = 1;
    GIVES(BAD_ARGUMENT, wireseal_socket_delete_key(tcp, &name, NULL, NULL, message, sizeof message));
    name.reserved = 0;
    NULLS(wireseal_socket_add_key(tcp, P(&remote), P(&key), NULL, 0, NULL, 0));
    NULLS(wireseal_socket_delete_key(tcp, P(&name), NULL, NULL, NULL, 0));
    NULLS(wireseal_socket_get_info(tcp, NULL, 0, P(&info)));
    NULLS(wireseal_socket_keys(tcp, NULL, 0, P(listed), 1, P(&count)));
    NULLS(wireseal_socket_set_md5_key(tcp, P(&remote), NULL, P((const uint8_t *)SECRET), 9, NULL, 0));
    NULLS(wireseal_socket_delete_md5_key(tcp, P(&remote), NULL, NULL, 0));
    GIVES(NULL_POINTER, wireseal_linux_probe(NULL));
    close(tcp);
    close(udp);
}

static struct wireseal_manager *manager;
static int step_fd;

static int readable(int timeout_ms)
{
    struct pollfd polled;

    polled.fd = step_fd;
    polled.events = POLLIN;
    return poll(&polled, 1, timeout_ms) == 1;
}

/* What a step has reported: how many times, and the line about a peer. */
struct seen {
    int reports;
    char peer[96], line[128];
};

static void look(void *context, const struct wireseal_report *report)
{
    struct seen *seen = (struct seen *)context;

    HOLDS(report->kind == WIRESEAL_REPORT_KIND_PEER && report->line_count == 1 && report->lines[0].is_warning && report->state.expired);
    seen->reports++;
    strcpy(seen->peer, report->state.peer);
    snprintf(seen->line, sizeof seen->line, "%s", report->lines[0].text);
}

static void *set_a_peer(void *chains)
{
    GIVES(OK, wireseal_manager_set_peer(manager, "192.0.2.7", (const struct wireseal_chains *)chains, NULL, message, sizeof message, NULL));
    return NULL;
}

static void count_line(void *context, const char *line)
{
    HOLDS(line[0] != 0);
    ++*(int *)context;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void event_loop(void)
{
    struct wireseal_chains *ends, *lasts;
    struct seen seen;
    pthread_t thread;
    int64_t soon, due;

    memset(&seen, 0, sizeof seen);
    GIVES(OK, wireseal_manager_new(&manager));
    GIVES(OK, wireseal_manager_fd(manager, &step_fd));
    HOLDS(readable(0));
    GIVES(OK, wireseal_manager_step(manager, look, &seen));
    HOLDS(!readable(0) && seen.reports == 0);
    GIVES(OK, wireseal_manager_deadline(manager, &due));
    HOLDS(due > now_ms() && due <= now_ms() + 30000);

    /* Another thread sets a peer, whose key is over soon. */
    soon = now_ms() / 1000 + 2;
    ends = chain("ends", 1, soon);
    lasts = chain("lasts", 1, 0);
    HOLDS(pthread_create(&thread, NULL, set_a_peer, ends) == 0 && readable(10000));
    pthread_join(thread, NULL);
    GIVES(OK, wireseal_manager_deadline(manager, &due));
    HOLDS(due == 0);
    GIVES(OK, wireseal_manager_step(manager, look, &seen));
    GIVES(OK, wireseal_manager_deadline(manager, &due));
    HOLDS(!readable(0) && seen.reports == 0 && due == soon * 1000);
    HOLDS(readable(10000) && now_ms() >= soon * 1000);
    GIVES(OK, wireseal_manager_step(manager, look, &seen));
    HOLDS(!readable(0) && seen.reports == 1 && strcmp(seen.peer, "192.0.2.7") == 0 && strstr(seen.line, "no key is valid for sending"));

    /* It is said once, until the peer has a key again. */
    GIVES(OK, wireseal_manager_set_peer(manager, "192.0.2.8", lasts, "lasts", message, sizeof message, NULL));
    GIVES(OK, wireseal_manager_step(manager, look, &seen));
    HOLDS(seen.reports == 1);
    GIVES(OK, wireseal_manager_set_peer(manager, "192.0.2.7", lasts, NULL, message, sizeof message, NULL));
    GIVES(OK, wireseal_manager_step(manager, look, &seen));
    GIVES(OK, wireseal_manager_block_peer(manager, "192.0.2.7", message, sizeof message, NULL));
    GIVES(OK, wireseal_manager_step(manager, look, &seen));
    HOLDS(seen.reports == 2);
    GIVES(OK, wireseal_chains_end(ends));
    GIVES(OK, wireseal_chains_end(lasts));
}

/* Whether the manager has 192.0.2.`last`: a peer is there, or attaching finds that it is not before anything else. */
static int has_peer(uint8_t last)
{
    const int tcp = socket(AF_INET, SOCK_STREAM, 0);
    const struct wireseal_address remote = network(last, 32).address;
    struct wireseal_attachment *attachment;
    const enum wireseal_status status = wireseal_manager_attach_connecting(manager, tcp, &remote, 0, message, sizeof message, &attachment);

    if (attachment != NULL)
        GIVES(OK, wireseal_attachment_end(attachment));
    close(tcp);
    return status != WIRESEAL_STATUS_NO_PEER;
}

static int listed;

/* For two peers: 192.0.2.8, with the chain "one", and 192.0.2.10, which the newest change has blocked. */
static void list_peer(void *newest, const struct wireseal_peer *peer)
{
    if (listed++ == 0)
        HOLDS(strcmp(peer->peer, "192.0.2.8") == 0 && strcmp(peer->chain, "one") == 0 && peer->generation < *(uint64_t *)newest);
    else
        HOLDS(strcmp(peer->peer, "192.0.2.10") == 0 && peer->chain == NULL && peer->generation == *(uint64_t *)newest);
}

/* Every error has a message. */
static void messages(void)
{
    struct wireseal_chains *chains, *wrong = (struct wireseal_chains *)manager;
    struct wireseal_chain_key key;
    struct wireseal_mkt one = mkt(1, (enum wireseal_tcp_ao_algorithm)77);
    struct wireseal_network remote = network(7, 33);
    struct wireseal_attachment *attachment;

    memset(&key, 0, sizeof key);
    key.reserved[0] = 1;
    GIVES(BAD_ARGUMENT, wireseal_chains_from_keys("one", &key, 1, 0, NULL, message, sizeof message, &chains));
    HOLDS(has("key 0: reserved is not zero"));
    key.reserved[0] = 0;
    key.mkt = one;
    GIVES(UNKNOWN_ALGORITHM, wireseal_chains_from_keys("one", &key, 1, 0, NULL, message, sizeof message, &chains));
    HOLDS(has("key 0: no algorithm has this number"));
    message[0] = 0;
    GIVES(BAD_ADDRESS, wireseal_socket_add_key(0, &remote, &one, NULL, 0, message, sizeof message));
    HOLDS(has("invalid version, text or prefix"));
    GIVES(NOT_A_HANDLE, wireseal_manager_set_peer((struct wireseal_manager *)message, "192.0.2.7", wrong, NULL, message, sizeof message, NULL));
    HOLDS(has("not such a handle"));
    message[0] = 0;
    GIVES(NOT_A_HANDLE, wireseal_manager_set_peer(manager, "192.0.2.7", wrong, NULL, message, sizeof message, NULL));
    HOLDS(has("not such a handle"));
    message[0] = 0;
    GIVES(BAD_ARGUMENT, wireseal_manager_set_peer(manager, "\xff", wrong, NULL, message, sizeof message, NULL));
    HOLDS(has("does not accept this number, text or combination"));
    message[0] = 0;
    GIVES(NULL_POINTER, wireseal_chains_from_file("keys", 0, message, sizeof message, NULL));
    HOLDS(has("a pointer is null"));
    message[0] = 0;
    GIVES(NULL_POINTER, wireseal_manager_attach_accepted(manager, 0, NULL, message, sizeof message, &attachment));
    HOLDS(has("a pointer is null"));
    attachment = (struct wireseal_attachment *)manager;
    GIVES(TOO_LONG, wireseal_manager_attach_listener(manager, 0, message, SIZE_MAX, &attachment));
    HOLDS(attachment == NULL);
}

static void peers(void)
{
    struct wireseal_chains *one = chain("one", 1, 0), *other = chain("other", 1, 0), *none;
    struct wireseal_peer_change changes[3];
    struct wireseal_policy policy;
    struct wireseal_progress progress;
    uint64_t generation = 0, later = 77;
    int lines = 0;

    /* A peer that is not there is a change of its own: who undoes it undoes no other. */
    GIVES(OK, wireseal_manager_remove_peer(manager, "192.0.2.7", message, sizeof message, &generation));
    GIVES(OK, wireseal_manager_remove_peer(manager, "192.0.2.7", message, sizeof message, &later));
    HOLDS(later == generation + 1 && !has_peer(7));
    GIVES(OK, wireseal_manager_undo(manager, later, message, sizeof message, NULL));
    HOLDS(!has_peer(7));
    later = 77;
    GIVES(NOT_A_PEER, wireseal_manager_set_peer(manager, "192.0.2.7/33", one, NULL, message, sizeof message, NULL));
    HOLDS(has("\"192.0.2.7/33\" is no peer"));
    GIVES(NO_SUCH_CHAIN, wireseal_manager_set_peer(manager, "192.0.2.7", one, "two", message, sizeof message, NULL));
    HOLDS(has("there is no key chain \"two\""));
    GIVES(OK, wireseal_chains_from_text("keys.toml", NULL, 0, "toml", 0, message, sizeof message, &none));
    GIVES(NO_SUCH_CHAIN, wireseal_manager_set_peer(manager, "192.0.2.7", none, NULL, message, sizeof message, NULL));
    HOLDS(strcmp(message, "there is no key chain") == 0);
    GIVES(OK, wireseal_chains_end(none));
    GIVES(OK, wireseal_manager_set_peer(manager, "fe80::1%lo in VRF 0", one, NULL, message, sizeof message, &generation));

    memset(changes, 0, sizeof changes);
    memset(&policy, 0, sizeof policy);
    policy.on_failure = WIRESEAL_ON_FAILURE_HOLD_OLD_KEYS;
    policy.patience = 30;
    changes[0].peer = "198.51.100.0/24";
    changes[0].kind = WIRESEAL_PEER_CHANGE_KIND_SET;
    changes[0].chains = one;
    changes[0].policy = &policy;
    changes[1] = changes[0];
    changes[1].peer = "198.51.100.7";
    changes[1].chains = other;
    changes[2].peer = "203.0.113.1";
    changes[2].kind = WIRESEAL_PEER_CHANGE_KIND_BLOCK;
    /* Both have SendID 1, and a connection could belong to either. */
    GIVES(PEERS_OVERLAP, wireseal_manager_change(manager, changes, 3, 0, NULL, NULL, message, sizeof message, &later));
    HOLDS(later == 77 && has("have a SendID or RecvID in common"));
    changes[1].peer = "::ffff:198.51.100.0/120";
    GIVES(PEER_TWICE, wireseal_manager_change(manager, changes, 3, 0, NULL, NULL, message, sizeof message, &later));
    changes[1].peer = "192.0.2.99";
    GIVES(OK, wireseal_manager_change(manager, changes, 3, WIRESEAL_CHANGE_DRY_RUN, count_line, &lines, message, sizeof message, &later));
    HOLDS(lines == 0 && later == 77);
    GIVES(CANNOT_UNDO, wireseal_manager_undo(manager, generation + 1, message, sizeof message, &later));
    GIVES(OK, wireseal_manager_change(manager, changes, 3, WIRESEAL_CHANGE_REMOVE_OTHERS, NULL, NULL, message, sizeof message, &later));
    HOLDS(later == generation + 1);
    GIVES(OK, wireseal_manager_progress(manager, generation, count_line, &lines, &progress));
    HOLDS(progress.is_superseded && !progress.is_held && progress.sockets == 0);
    GIVES(OK, wireseal_manager_progress(manager, later, count_line, &lines, &progress));
    HOLDS(!progress.is_superseded && progress.is_held && progress.has_moved && !progress.is_undone && lines == 0);
    GIVES(OK, wireseal_manager_undo(manager, later, message, sizeof message, &generation));
    HOLDS(generation == later + 1);
    GIVES(OK, wireseal_manager_progress(manager, later, NULL, NULL, &progress));
    HOLDS(progress.is_undone);

    GIVES(BAD_ARGUMENT, wireseal_manager_progress(manager, generation + 1, NULL, NULL, &progress));
    GIVES(BAD_ARGUMENT, wireseal_manager_progress(manager, UINT64_MAX, NULL, NULL, &progress));

    /* The peer that is kept stays when the others go, and must be there. */
    changes[0].kind = WIRESEAL_PEER_CHANGE_KIND_KEEP;
    GIVES(NO_PEER, wireseal_manager_change(manager, changes, 1, 0, NULL, NULL, message, sizeof message, NULL));
    HOLDS(has("no peer 198.51.100.0/24 to keep"));
    GIVES(OK, wireseal_manager_set_peer(manager, "192.0.2.8", one, NULL, message, sizeof message, NULL));
    GIVES(OK, wireseal_manager_set_peer(manager, "192.0.2.9", one, NULL, message, sizeof message, NULL));
    changes[0].peer = "192.0.2.8";
    changes[1] = changes[0];
    GIVES(PEER_TWICE, wireseal_manager_change(manager, changes, 2, 0, NULL, NULL, message, sizeof message, NULL));
    changes[1].kind = WIRESEAL_PEER_CHANGE_KIND_REMOVE;
    GIVES(PEER_TWICE, wireseal_manager_change(manager, changes, 2, 0, NULL, NULL, message, sizeof message, NULL));
    GIVES(OK, wireseal_manager_change(manager, changes, 1, WIRESEAL_CHANGE_REMOVE_OTHERS, NULL, NULL, message, sizeof message, NULL));
    HOLDS(has_peer(8) && !has_peer(9));
    GIVES(OK, wireseal_manager_change(manager, NULL, 0, 0, NULL, NULL, NULL, 0, NULL));
    changes[0].reserved[1] = 1;
    GIVES(BAD_ARGUMENT, wireseal_manager_change(manager, changes, 1, 0, NULL, NULL, message, sizeof message, NULL));
    HOLDS(has("the change of 192.0.2.8: reserved is not zero"));
    changes[0].reserved[1] = 0;
    policy.reserved[0] = 1;
    GIVES(BAD_ARGUMENT, wireseal_manager_change(manager, changes, 1, 0, NULL, NULL, message, sizeof message, NULL));
    HOLDS(has("a policy: reserved is not zero"));
    policy.reserved[0] = 0;

    /* The list of peers, with the changes that set them. */
    listed = 0;
    GIVES(OK, wireseal_manager_generation(manager, &generation));
    GIVES(OK, wireseal_manager_block_peer(manager, "192.0.2.10", message, sizeof message, &later));
    HOLDS(later == generation + 1);
    GIVES(OK, wireseal_manager_peers(manager, list_peer, &later));
    HOLDS(listed == 2);
    GIVES(OK, wireseal_manager_remove_peer(manager, "192.0.2.10", message, sizeof message, NULL));
    NULLS(wireseal_manager_generation(P(manager), P(&generation)));
    GIVES(NULL_POINTER, wireseal_manager_peers(NULL, list_peer, NULL));
    GIVES(NULL_POINTER, wireseal_manager_peers(manager, NULL, NULL));

    changes[0].kind = 5;
    GIVES(BAD_ARGUMENT, wireseal_manager_change(manager, changes, 1, 0, NULL, NULL, message, sizeof message, NULL));
    HOLDS(has("no change is of the kind 5"));
    changes[0].kind = WIRESEAL_PEER_CHANGE_KIND_SET;
    GIVES(BAD_ARGUMENT, wireseal_manager_change(manager, changes, 1, 4, NULL, NULL, NULL, 0, NULL));
    policy.on_failure = 4;
    GIVES(BAD_ARGUMENT, wireseal_manager_change(manager, changes, 1, 0, NULL, NULL, NULL, 0, NULL));
    changes[0].policy = NULL;
    changes[0].chains = (const struct wireseal_chains *)manager;
    GIVES(NOT_A_HANDLE, wireseal_manager_change(manager, changes, 1, 0, NULL, NULL, NULL, 0, NULL));
    GIVES(OK, wireseal_chains_end(one));
    GIVES(NOT_A_HANDLE, wireseal_manager_set_peer(manager, "192.0.2.7", one, NULL, NULL, 0, NULL));

    NULLS(wireseal_manager_set_peer(P(manager), P("192.0.2.7"), P(other), NULL, NULL, 0, NULL));
    NULLS(wireseal_manager_remove_peer(P(manager), P("192.0.2.7"), NULL, 0, NULL));
    NULLS(wireseal_manager_block_peer(P(manager), P("192.0.2.7"), NULL, 0, NULL));
    NULLS(wireseal_manager_change(P(manager), P(changes), 1, 0, NULL, NULL, NULL, 0, NULL));
    GIVES(NULL_POINTER, wireseal_manager_undo(NULL, 0, NULL, 0, NULL));
    NULLS(wireseal_manager_progress(P(manager), 0, NULL, NULL, P(&progress)));
    GIVES(OK, wireseal_chains_end(other));
}

static void attaching(const struct wireseal_linux_support *support)
{
    struct wireseal_chains *chains = chain("core", 1, 0);
    struct wireseal_attachment *attachment;
    struct wireseal_socket_state state;
    struct wireseal_socket_key listed[1];
    struct wireseal_address remote = network(7, 32).address;
    const enum wireseal_status wanted = support->tcp_ao ? WIRESEAL_STATUS_OK : WIRESEAL_STATUS_NOT_SUPPORTED;
    const int tcp = socket(AF_INET, SOCK_STREAM, 0);
    size_t count;

    GIVES(OK, wireseal_manager_set_peer(manager, "192.0.2.7", chains, NULL, message, sizeof message, NULL));
    HOLDS(wireseal_manager_attach_listener(manager, tcp, message, sizeof message, &attachment) == wanted);
    if (attachment != NULL) {
        GIVES(ALREADY_ATTACHED, wireseal_manager_attach_listener(manager, tcp, message, sizeof message, &attachment));
        GIVES(OK, wireseal_attachment_state(attachment, &state));
        HOLDS(state.user == NULL);
        GIVES(OK, wireseal_attachment_set_user(attachment, message));
        GIVES(OK, wireseal_attachment_state(attachment, &state));
        HOLDS(state.user == message);
        exit(0);
    }
    HOLDS(has("this kernel has no TCP-AO"));
    GIVES(NOT_SUPPORTED, wireseal_manager_attach_mixed(manager, tcp, message, sizeof message, &attachment));
    GIVES(NOT_SUPPORTED, wireseal_manager_attach_connecting(manager, tcp, &remote, 0, message, sizeof message, &attachment));
    HOLDS(attachment == NULL);
    GIVES(CONNECTION_ENDED, wireseal_manager_attach_accepted(manager, tcp, &remote, message, sizeof message, &attachment));
    remote.octets[3] = 200;
    GIVES(NO_PEER, wireseal_manager_attach_connecting(manager, tcp, &remote, 0, message, sizeof message, &attachment));
    remote.version = 5;
    GIVES(BAD_ADDRESS, wireseal_manager_attach_connecting(manager, tcp, &remote, 0, message, sizeof message, &attachment));
    GIVES(SYSTEM, wireseal_manager_attach_listener(manager, -1, message, sizeof message, &attachment));

    NULLS(wireseal_manager_attach_listener(P(manager), tcp, NULL, 0, P(&attachment)));
    NULLS(wireseal_manager_attach_mixed(P(manager), tcp, NULL, 0, P(&attachment)));
    NULLS(wireseal_manager_attach_connecting(P(manager), tcp, P(&remote), 0, NULL, 0, P(&attachment)));
    NULLS(wireseal_manager_attach_accepted(P(manager), tcp, P(&remote), NULL, 0, P(&attachment)));
    GIVES(NULL_POINTER, wireseal_attachment_state(NULL, &state));
    GIVES(NULL_POINTER, wireseal_attachment_set_user(NULL, NULL));
    GIVES(NOT_A_HANDLE, wireseal_attachment_set_user((const struct wireseal_attachment *)manager, message));
    GIVES(NOT_A_HANDLE, wireseal_attachment_state((const struct wireseal_attachment *)manager, &state));
    GIVES(NOT_A_HANDLE, wireseal_attachment_keys((const struct wireseal_attachment *)&state, NULL, 0, listed, 1, &count));
    GIVES(NOT_A_HANDLE, wireseal_attachment_end((struct wireseal_attachment *)(void *)message));
    GIVES(OK, wireseal_chains_end(chains));
    close(tcp);
}

/* Ends the manager during its own step. */
static void end_it(void *context, const struct wireseal_report *report)
{
    HOLDS(report->kind == WIRESEAL_REPORT_KIND_PEER);
    ++*(int *)context;
    GIVES(OK, wireseal_manager_end(manager));
    GIVES(NOT_A_HANDLE, wireseal_manager_step(manager, NULL, NULL));
}

static void *step_and_change(void *chains)
{
    int turn, lines = 0;

    for (turn = 0; turn < 200; turn++) {
        enum wireseal_status status;
        char text[64];

        snprintf(text, sizeof text, "192.0.2.%d", turn);
        GIVES(OK, wireseal_manager_set_peer(manager, text, (const struct wireseal_chains *)chains, NULL, NULL, 0, NULL));
        GIVES(OK, wireseal_manager_step(manager, NULL, NULL));
        do
            status = wireseal_manager_change(manager, NULL, 0, WIRESEAL_CHANGE_DRY_RUN, count_line, &lines, NULL, 0, NULL);
        while (status == WIRESEAL_STATUS_CHANGED_MEANWHILE);
        GIVES(OK, status);
    }
    return NULL;
}

/* Steps until another thread has ended the manager. */
static void *step_to_the_end(void *unused)
{
    enum wireseal_status status;

    (void)unused;
    do {
        status = wireseal_manager_step(manager, NULL, NULL);
        HOLDS(status == WIRESEAL_STATUS_OK || status == WIRESEAL_STATUS_NOT_A_HANDLE);
    } while (status == WIRESEAL_STATUS_OK);
    return NULL;
}

static void threads_and_ends(void)
{
    struct wireseal_chains *chains = chain("core", 1, 0);
    pthread_t threads[4];
    int index, ended = 0;

    GIVES(OK, wireseal_manager_block_peer(manager, "203.0.113.9", message, sizeof message, NULL));
    GIVES(OK, wireseal_manager_step(manager, end_it, &ended));
    HOLDS(ended == 1);
    GIVES(NOT_A_HANDLE, wireseal_manager_end(manager));
    GIVES(NOT_A_HANDLE, wireseal_manager_fd(manager, &step_fd));

    GIVES(OK, wireseal_manager_new(&manager));
    for (index = 0; index < 4; index++)
        HOLDS(pthread_create(&threads[index], NULL, step_and_change, chains) == 0);
    for (index = 0; index < 4; index++)
        pthread_join(threads[index], NULL);
    for (index = 0; index < 4; index++)
        HOLDS(pthread_create(&threads[index], NULL, step_to_the_end, NULL) == 0);
    GIVES(OK, wireseal_manager_end(manager));
    for (index = 0; index < 4; index++)
        pthread_join(threads[index], NULL);
    GIVES(NULL_POINTER, wireseal_manager_new(NULL));
    GIVES(OK, wireseal_chains_end(chains));
}

/* Makes and ends chains until `stop`. */
static volatile int stop;

static void *make_and_end(void *unused)
{
    (void)unused;
    while (!stop)
        GIVES(OK, wireseal_chains_end(chain("core", 1, 0)));
    return NULL;
}

/* A child works with handles, whatever other threads were doing when its parent forked. */
static void forks(void)
{
    struct wireseal_chains *chains = chain("core", 1, 0);
    pthread_t thread;
    int turn, status;

    HOLDS(pthread_create(&thread, NULL, make_and_end, NULL) == 0);
    for (turn = 0; turn < 100; turn++) {
        const pid_t child = fork();
        if (child == 0) {
            char name[8];
            alarm(20);
            if (wireseal_chains_name(chains, 0, name, sizeof name) == WIRESEAL_STATUS_OK && wireseal_chains_end(chains) == WIRESEAL_STATUS_OK)
                /* Not exit, at which valgrind would miss what the other thread had. */
                execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        HOLDS(waitpid(child, &status, 0) == child && status == 0);
    }
    stop = 1;
    pthread_join(thread, NULL);
    GIVES(OK, wireseal_chains_end(chains));
}

static int has_returned;

static void *read_a_pipe(void *path)
{
    struct wireseal_chains *chains;

    GIVES(OK, wireseal_chains_from_file((const char *)path, 0, message, sizeof message, &chains));
    GIVES(OK, wireseal_chains_end(chains));
    has_returned = 1;
    pthread_testcancel();
    return NULL;
}

/* A thread that is cancelled in a call ends after it. */
static void cancellation(void)
{
    char directory[] = "/tmp/wireseal.XXXXXX", path[64];
    const struct timespec moment = {0, 50000000};
    pthread_t thread;
    void *result;
    int writer;

    HOLDS(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/keys.toml", directory);
    HOLDS(mkfifo(path, 0600) == 0 && pthread_create(&thread, NULL, read_a_pipe, path) == 0);
    /* It opens the pipe, and waits there. */
    writer = open(path, O_WRONLY);
    nanosleep(&moment, NULL);
    HOLDS(writer >= 0 && pthread_cancel(thread) == 0 && write(writer, TOML, strlen(TOML)) == (ssize_t)strlen(TOML) && close(writer) == 0);
    HOLDS(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && has_returned);
    unlink(path);
    rmdir(directory);
}

int main(void)
{
    struct wireseal_linux_support support;

    null = -1;
    GIVES(OK, wireseal_linux_probe(&support));
    HOLDS(support.kernel[0] != 0 && (support.algorithms == 0) == !support.tcp_ao);
    key_chains();
    sockets(&support);
    event_loop();
    messages();
    peers();
    attaching(&support);
    threads_and_ends();
    forks();
    cancellation();
    return 0;
}
