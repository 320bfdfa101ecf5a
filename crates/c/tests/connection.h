/* A connection that this end opens, for programs that misuse it. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <string.h>

#include "wireseal.h"

/* For a fault: only in a library that was built for tests. */
#ifdef __cplusplus
extern "C"
#endif
enum wireseal_status wireseal_connection_panic(struct wireseal_connection *connection);

/* From port 50000 of 192.0.2.1 to port 179 of 192.0.2.2. */
static inline struct wireseal_pair a_pair(void)
{
    struct wireseal_pair pair;
    const uint8_t network[4] = {192, 0, 2, 1};

    memset(&pair, 0, sizeof pair);
    pair.local.address.version = pair.remote.address.version = 4;
    memcpy(pair.local.address.octets, network, 4);
    memcpy(pair.remote.address.octets, network, 3);
    pair.remote.address.octets[3] = 2;
    pair.local.port = 50000;
    pair.remote.port = 179;
    return pair;
}

/* Of HMAC-SHA-1, which every library has. */
static inline struct wireseal_mkt an_mkt(uint8_t id)
{
    struct wireseal_mkt mkt;

    memset(&mkt, 0, sizeof mkt);
    mkt.send_id = mkt.recv_id = id;
    mkt.algorithm = WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1;
    mkt.master_key = (const uint8_t *)"first-secret";
    mkt.master_key_length = 12;
    return mkt;
}

/* Null, if it fails. */
static inline struct wireseal_connection *a_connection(void)
{
    static uint8_t memory[WIRESEAL_CONNECTION_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));
    const struct wireseal_pair pair = a_pair();
    const struct wireseal_mkt mkt = an_mkt(100);
    struct wireseal_connection *connection;

    wireseal_connection_active(memory, sizeof memory, &pair, 1, &mkt, 1, &connection);
    return connection;
}

#endif
