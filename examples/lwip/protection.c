#include "protection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "session.h"

/* The longest line of a key file, in octets. */
#define LINE 256
/* As many keys as a peer can have. */
#define KEYS 4
/* There is one session at a time; the others are connections that have ended, and handshakes. */
#define PEERS 1
#define CONNECTIONS 8
#define SHIM_SIZE (WIRESEAL_SHIM_SIZE + PEERS * WIRESEAL_SHIM_PEER_SIZE + CONNECTIONS * WIRESEAL_SHIM_CONNECTION_SIZE)

/* The keys of the file, in its order. The secrets are wiped as soon as the shim has them. */
static struct wireseal_mkt mkts[KEYS];
static size_t mkt_count;

static bool read_key(char *line, char *secret)
{
    struct wireseal_mkt *mkt = &mkts[mkt_count];
    char name[32];
    int start = 0;

    if (mkt_count == KEYS || sscanf(line, "%hhu %hhu %31s %n", &mkt->send_id, &mkt->recv_id, name, &start) != 3) {
        return false;
    }
    if (wireseal_tcp_ao_algorithm_from_name(name, &mkt->algorithm) != WIRESEAL_STATUS_OK) {
        return false;
    }
    mkt->master_key_length = strlen(strcpy(secret, line + start));
    mkt->master_key = (const uint8_t *)secret;
    mkt_count++;
    return mkt->master_key_length > 0;
}

static bool read_keys(const char *path, char secrets[KEYS][LINE])
{
    char line[LINE];
    unsigned number = 0;
    bool is_good = true;
    FILE *file = fopen(path, "r");
    struct stat status;

    if (file == NULL) {
        say("%s: %s", path, strerror(errno));
        return false;
    }
    if (fstat(fileno(file), &status) == 0 && (status.st_mode & (S_IRGRP | S_IROTH)) != 0) {
        say("%s: other users can read it; chmod 600", path);
    }
    while (is_good && fgets(line, sizeof line, file) != NULL) {
        number++;
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0' && line[0] != '#' && !read_key(line, secrets[mkt_count % KEYS])) {
            say("%s:%u: write SendID, RecvID, algorithm and secret, such as 1 2 AES-128-CMAC-96 secret, in at most %d lines",
                path, number, KEYS);
            is_good = false;
        }
    }
    fclose(file);
    explicit_bzero(line, sizeof line);
    if (is_good && mkt_count == 0) {
        say("%s: there is no key", path);
    }
    return is_good && mkt_count > 0;
}

static struct wireseal_address address(const ip_addr_t *of)
{
    struct wireseal_address address = {.version = IP_IS_V6(of) ? 6 : 4};

    if (IP_IS_V6(of)) {
        memcpy(address.octets, ip_2_ip6(of)->addr, 16);
    } else {
        memcpy(address.octets, &ip_2_ip4(of)->addr, 4);
    }
    return address;
}

/* Called by the shim, within a call of it. */
static void observe(void *context, const struct wireseal_event *event)
{
    LWIP_UNUSED_ARG(context);
    switch (event->kind) {
    case WIRESEAL_EVENT_KIND_REFUSED:
        say("TCP-AO: packet %s refused: %s",
            event->direction == WIRESEAL_DIRECTION_INBOUND ? "from the link" : "of lwIP",
            wireseal_status_text(event->reason));
        break;
    case WIRESEAL_EVENT_KIND_OPENED:
        say("TCP-AO: protected connection");
        break;
    case WIRESEAL_EVENT_KIND_KEY_SWITCHED:
        say("TCP-AO: signs with key %u instead of %u", event->to_key, event->from_key);
        break;
    case WIRESEAL_EVENT_KIND_PEER_ON_OLD_KEY:
        say("TCP-AO: asked for key %u, but the peer still signs with %u", event->to_key, event->from_key);
        break;
    default:
        break;
    }
}

struct wireseal_shim *protection_start(
    const char *key_file, const ip_addr_t *local, const ip_addr_t *remote, u16_t mtu)
{
    static uint8_t memory[SHIM_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));
    static char secrets[KEYS][LINE];
    const struct wireseal_shim_config config = {.mtu = mtu};
    const struct wireseal_connection_identifier connections = {
        .local = {address(local), IP_IS_V6(local) ? 128 : 32},
        .remote = {address(remote), IP_IS_V6(remote) ? 128 : 32},
    };
    struct wireseal_shim *shim = NULL;
    uint8_t hash_key[16];
    size_t index;

    if (getrandom(hash_key, sizeof hash_key, 0) != sizeof hash_key) {
        abort();
    }
    if (read_keys(key_file, secrets)) {
        enum wireseal_status status =
            wireseal_shim_new(memory, sizeof memory, &config, hash_key, PEERS, CONNECTIONS, &shim);

        if (status == WIRESEAL_STATUS_OK) {
            wireseal_shim_set_observer(shim, observe, NULL);
            status = wireseal_shim_add_peer(shim, &connections, mkts, mkt_count, &index);
        }
        if (status != WIRESEAL_STATUS_OK) {
            say("%s: %s", key_file, wireseal_status_text(status));
            wireseal_shim_end(shim);
            shim = NULL;
        }
    }
    explicit_bzero(secrets, sizeof secrets);
    return shim;
}

static bool find(struct wireseal_shim *shim, const struct tcp_pcb *pcb, struct wireseal_connection_info *info)
{
    struct wireseal_pair pair;

    if (pcb == NULL) {
        return false;
    }
    pair.local = (struct wireseal_endpoint){address(&pcb->local_ip), pcb->local_port};
    pair.remote = (struct wireseal_endpoint){address(&pcb->remote_ip), pcb->remote_port};
    return wireseal_shim_connection(shim, &pair, info) == WIRESEAL_STATUS_OK;
}

bool protection_roll(struct wireseal_shim *shim, const struct tcp_pcb *pcb)
{
    struct wireseal_connection_info info;
    size_t place = 0;

    if (!find(shim, pcb, &info)) {
        return false;
    }
    while (mkts[place].recv_id != info.rnext_key) {
        place++;
    }
    return wireseal_shim_set_rnext_key(shim, &info.pair, mkts[(place + 1) % mkt_count].recv_id) == WIRESEAL_STATUS_OK;
}

void protection_report(struct wireseal_shim *shim, const struct tcp_pcb *pcb)
{
    struct wireseal_counters counters;
    struct wireseal_connection_info info;

    wireseal_shim_counters(shim, &counters);
    printf("good %" PRIu64 ", bad %" PRIu64 ", key not found %" PRIu64 ", required %" PRIu64 ", dropped ICMPs %" PRIu64,
        counters.good, counters.bad, counters.key_not_found, counters.required, counters.dropped_icmp);
    if (find(shim, pcb, &info)) {
        printf(", key %u, peer's key %u", info.current_key, info.peers_key);
    }
}
