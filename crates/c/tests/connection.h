/* A connection that this end opens, for programs that misuse it. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "packets.h"

/* A fault: only in a library that was built for tests. */
#ifdef __cplusplus
extern "C"
#endif
enum wireseal_status wireseal_connection_panic(struct wireseal_connection *connection);

static inline struct wireseal_pair a_pair(void)
{
    return pair_of(end_of(1, 50000), end_of(2, 179));
}

/* Of the algorithm that every library has. */
static inline struct wireseal_mkt an_mkt(uint8_t id)
{
    return key_of(id, id, WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1, "first-secret");
}

static inline struct wireseal_connection *a_connection(void)
{
    static uint8_t memory[WIRESEAL_CONNECTION_SIZE] ALIGNED;
    const struct wireseal_pair pair = a_pair();
    const struct wireseal_mkt mkt = an_mkt(100);
    struct wireseal_connection *connection;

    OK(wireseal_connection_active(memory, sizeof memory, &pair, 1, &mkt, 1, &connection));
    return connection;
}

#endif
