/* Threads that share a handle: one at a time works with a connection, and the others get BUSY; QUIC keys work for all at once. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "connection.h"

enum { THREADS = 4, CALLS = 5000 };

static struct wireseal_connection *connection;
/* From the peer: the connection counts it and refuses it. */
static uint8_t unsigned_segment[TCP_HEADER];

/* Calls until the connection has ended, or often enough. Returns how many calls were served. */
static void *verify(void *unused)
{
    size_t served = 0, call;

    (void)unused;
    for (call = 0; call < CALLS; call++) {
        const enum wireseal_status status = wireseal_connection_verify(connection, unsigned_segment, sizeof unsigned_segment, NULL);
        if (status == WIRESEAL_STATUS_NOT_A_HANDLE)
            break;
        CHECK(status == WIRESEAL_STATUS_UNSIGNED || status == WIRESEAL_STATUS_BUSY);
        served += status == WIRESEAL_STATUS_UNSIGNED;
    }
    return (void *)served;
}

static struct wireseal_quic_packet_key *packet_key;
static struct wireseal_quic_header_key *header_key;

/* Seals and opens packets with the numbers from `first` on. */
static void *protect(void *first)
{
    uint64_t number;

    for (number = (uint64_t)(size_t)first; number < (uint64_t)(size_t)first + CALLS / 10; number++) {
        uint8_t packet[200] = {0x43, 0, 0, 0, 0};
        struct wireseal_quic_opened opened;

        packet[3] = (uint8_t)(number >> 8);
        packet[4] = (uint8_t)number;
        memset(packet + 5, (uint8_t)number, sizeof packet - 5);
        CHECK(wireseal_quic_seal(packet_key, header_key, 0, number, packet, sizeof packet, 5) == WIRESEAL_STATUS_OK);
        CHECK(wireseal_quic_open(packet_key, header_key, 0, packet, sizeof packet, 0, WIRESEAL_QUIC_NONE, WIRESEAL_QUIC_PHASE_ZERO, &opened) ==
              WIRESEAL_STATUS_OK);
        CHECK(opened.number == number && packet[opened.payload_offset] == (uint8_t)number);
    }
    return NULL;
}

int main(void)
{
    static uint8_t packet_memory[WIRESEAL_QUIC_PACKET_KEY_SIZE] ALIGNED;
    static uint8_t header_memory[WIRESEAL_QUIC_HEADER_KEY_SIZE] ALIGNED;
    static const uint8_t secret[32] = {5};
    pthread_t threads[THREADS];
    struct wireseal_connection_info info;
    enum wireseal_status ended;
    size_t thread, served = 0;

    /* Each call that says it was served has been counted, and no other. */
    connection = a_connection();
    tcp_header(unsigned_segment, pair_of(a_pair().remote, a_pair().local), 1, 2, ACK);
    for (thread = 0; thread < THREADS; thread++)
        CHECK(pthread_create(&threads[thread], NULL, verify, NULL) == 0);
    for (thread = 0; thread < THREADS; thread++) {
        void *result;
        CHECK(pthread_join(threads[thread], &result) == 0);
        served += (size_t)result;
    }
    CHECK(wireseal_connection_get_info(connection, &info) == WIRESEAL_STATUS_OK);
    CHECK(served > 0 && info.counters.required == served);

    /* The end comes between two calls, never during one. The memory stays until the threads have ended. */
    for (thread = 0; thread < THREADS; thread++)
        CHECK(pthread_create(&threads[thread], NULL, verify, NULL) == 0);
    while ((ended = wireseal_connection_end(connection)) == WIRESEAL_STATUS_BUSY)
        continue;
    CHECK(ended == WIRESEAL_STATUS_OK);
    for (thread = 0; thread < THREADS; thread++)
        CHECK(pthread_join(threads[thread], NULL) == 0);
    CHECK(wireseal_connection_end(connection) == WIRESEAL_STATUS_NOT_A_HANDLE);

    CHECK(wireseal_quic_packet_key_from_secret(packet_memory, sizeof packet_memory, WIRESEAL_QUIC_VERSION_V1,
                                               WIRESEAL_AEAD_ALGORITHM_AES128_GCM, secret, sizeof secret, &packet_key) == WIRESEAL_STATUS_OK);
    CHECK(wireseal_quic_header_key_from_secret(header_memory, sizeof header_memory, WIRESEAL_QUIC_VERSION_V1,
                                               WIRESEAL_AEAD_ALGORITHM_AES128_GCM, secret, sizeof secret, &header_key) == WIRESEAL_STATUS_OK);
    for (thread = 0; thread < THREADS; thread++)
        CHECK(pthread_create(&threads[thread], NULL, protect, (void *)(thread * 10000)) == 0);
    for (thread = 0; thread < THREADS; thread++)
        CHECK(pthread_join(threads[thread], NULL) == 0);
    return 0;
}
