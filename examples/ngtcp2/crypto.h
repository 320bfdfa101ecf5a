/* Whose cryptography protects the packets of a connection: ngtcp2's own (GnuTLS), or Wireseal's. TLS itself is GnuTLS's with both. */

#ifndef CRYPTO_H
#define CRYPTO_H

#include <stdbool.h>

#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

/* The packets that Wireseal has sealed and opened with one pair of keys. */
struct used {
    uint64_t sealed, opened;
};

/* More key updates than an example or a test makes. */
#define MAX_GENERATIONS 16

/* By level, and for 1-RTT packets by the number of key updates before. */
struct usage {
    struct used initial, handshake, generations[MAX_GENERATIONS];
    size_t generation;
    /* The connection's enum wireseal_aead_algorithm, and what computes it. */
    uint32_t algorithm;
    char served_by[64];
    /* Wireseal's header key of the 1-RTT packets that this end sends, which key updates do not change. */
    void *header_key;
};

struct crypto {
    const char *name;
    /* Sets the callbacks that make keys and protect packets. */
    void (*set_callbacks)(ngtcp2_callbacks *callbacks);
    /* Called once the helper of ngtcp2 has prepared `tls`. */
    void (*prepare_tls)(gnutls_session_t tls);
    ngtcp2_ssize (*write_retry)(uint8_t *packet, size_t size, const ngtcp2_pkt_hd *initial,
                                const ngtcp2_cid *new_id, const uint8_t *token, size_t token_length);
};

extern const struct crypto wireseal_crypto, own_crypto;

/* Both get it from the pointer that a connection passes to its callbacks. */
struct usage *usage_of(void *user_data);

#endif
