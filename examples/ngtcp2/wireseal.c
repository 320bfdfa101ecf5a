/* The cryptography of a connection by Wireseal: the callbacks of ngtcp2 that make keys and protect packets. */

#include <stdlib.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>
#include <wireseal.h>

#include "crypto.h"

#define NONCE_LENGTH 12
#define TAG_LENGTH 16
#define MAX_KEY_LENGTH 32
#define SAMPLE_LENGTH 16
#define MASK_LENGTH 5

/* ngtcp2 asks for a packet's AEAD and then, in another callback, for its header mask. Wireseal computes both in one pass when it seals, so the
   mask waits here, with the sample that it is for. */
struct header_key {
    struct wireseal_mask_key *key;
    uint8_t sample[SAMPLE_LENGTH], mask[MASK_LENGTH];
    bool has_mask;
};

/* What ngtcp2 calls a context: it hands back these in its callbacks. */
struct packet_key {
    struct wireseal_aead_key *key;
    /* For sealing, the header key of the same direction; NULL for opening, and for Retry packets. */
    struct header_key *header_key;
    /* Counts the packets. */
    uint64_t *count;
};

/* The keys of one direction of one encryption level. */
struct keys {
    ngtcp2_crypto_aead_ctx aead;
    ngtcp2_crypto_cipher_ctx mask;
    uint8_t iv[NONCE_LENGTH];
};

/* The memory of a handle, aligned for it. */
static void *memory_for(size_t size, size_t align) {
    void *memory = NULL;
    return posix_memalign(&memory, align, size) == 0 ? memory : NULL;
}

static bool packet_key_new(ngtcp2_crypto_aead_ctx *context, uint32_t algorithm, const uint8_t *octets, uint64_t *count) {
    size_t size = wireseal_aead_key_size();
    void *memory = memory_for(size, wireseal_aead_key_align());
    struct packet_key *made = malloc(sizeof *made);
    if (made == NULL || wireseal_aead_key_new(memory, size, algorithm, octets, wireseal_aead_key_length(algorithm),
                                              &made->key) != WIRESEAL_STATUS_OK) {
        free(memory);
        free(made);
        return false;
    }
    made->header_key = NULL;
    made->count = count;
    context->native_handle = made;
    return true;
}

static void packet_key_free(ngtcp2_conn *quic, ngtcp2_crypto_aead_ctx *context, void *user_data) {
    struct packet_key *packet_key = context->native_handle;
    (void)quic, (void)user_data;
    if (packet_key == NULL) return;
    wireseal_aead_key_end(packet_key->key);
    free(packet_key->key);
    free(packet_key);
}

static bool header_key_new(ngtcp2_crypto_cipher_ctx *context, uint32_t algorithm, const uint8_t *octets) {
    size_t size = wireseal_mask_key_size();
    void *memory = memory_for(size, wireseal_mask_key_align());
    struct header_key *made = malloc(sizeof *made);
    if (made == NULL || wireseal_mask_key_new(memory, size, algorithm, octets, wireseal_aead_key_length(algorithm),
                                              &made->key) != WIRESEAL_STATUS_OK) {
        free(memory);
        free(made);
        return false;
    }
    made->has_mask = false;
    context->native_handle = made;
    return true;
}

static void header_key_free(ngtcp2_conn *quic, ngtcp2_crypto_cipher_ctx *context, void *user_data) {
    struct header_key *header_key = context->native_handle;
    (void)quic, (void)user_data;
    if (header_key == NULL) return;
    wireseal_mask_key_end(header_key->key);
    free(header_key->key);
    free(header_key);
}

/* Derives the keys from a secret; no header key if the secret is from a key update. */
static bool keys_derive(struct keys *keys, uint32_t algorithm, const uint8_t *secret, size_t length, bool is_update,
                        uint64_t *count) {
    uint8_t key[MAX_KEY_LENGTH], mask_key[MAX_KEY_LENGTH];
    bool is_done;
    memset(keys, 0, sizeof *keys);
    is_done = wireseal_quic_key_octets(NGTCP2_PROTO_VER_V1, algorithm, secret, length, key, keys->iv, mask_key) ==
                  WIRESEAL_STATUS_OK &&
              packet_key_new(&keys->aead, algorithm, key, count) &&
              (is_update || header_key_new(&keys->mask, algorithm, mask_key));
    gnutls_memset(key, 0, sizeof key);
    gnutls_memset(mask_key, 0, sizeof mask_key);
    return is_done;
}

/* From now on, sealing with this packet key also computes the masks of this header key. */
static void set_header_key(ngtcp2_crypto_aead_ctx *packet_key, void *header_key) {
    ((struct packet_key *)packet_key->native_handle)->header_key = header_key;
}

static void keys_free(struct keys *keys) {
    packet_key_free(NULL, &keys->aead, NULL);
    header_key_free(NULL, &keys->mask, NULL);
}

/* What ngtcp2 needs to know about an algorithm. */
static ngtcp2_crypto_ctx crypto_context(uint32_t algorithm) {
    ngtcp2_crypto_ctx context;
    memset(&context, 0, sizeof context);
    context.aead.max_overhead = TAG_LENGTH;
    context.max_encryption = wireseal_quic_confidentiality_limit(algorithm);
    context.max_decryption_failure = wireseal_quic_integrity_limit(algorithm);
    return context;
}

static uint32_t algorithm_of(gnutls_session_t tls) {
    switch (gnutls_cipher_get(tls)) {
        case GNUTLS_CIPHER_AES_128_GCM:
            return WIRESEAL_AEAD_ALGORITHM_AES128_GCM;
        case GNUTLS_CIPHER_AES_256_GCM:
            return WIRESEAL_AEAD_ALGORITHM_AES256_GCM;
        case GNUTLS_CIPHER_CHACHA20_POLY1305:
            return WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305;
        case GNUTLS_CIPHER_AES_128_CCM:
            return WIRESEAL_AEAD_ALGORITHM_AES128_CCM;
        default:
            return 0;
    }
}

/* Initial keys of both directions, from the connection ID that the client has chosen or the server's Retry. */
static int install_initial(ngtcp2_conn *quic, const ngtcp2_cid *id, void *user_data) {
    const uint32_t algorithm = WIRESEAL_AEAD_ALGORITHM_AES128_GCM;
    bool is_server = ngtcp2_conn_is_server(quic);
    struct used *used = &usage_of(user_data)->initial;
    ngtcp2_crypto_ctx context = crypto_context(algorithm);
    struct keys receive, send;
    uint8_t client[32], server[32];
    memset(&receive, 0, sizeof receive);
    memset(&send, 0, sizeof send);
    if (wireseal_quic_initial_secret(NGTCP2_PROTO_VER_V1, id->data, id->datalen, WIRESEAL_QUIC_SIDE_CLIENT, client) !=
            WIRESEAL_STATUS_OK ||
        wireseal_quic_initial_secret(NGTCP2_PROTO_VER_V1, id->data, id->datalen, WIRESEAL_QUIC_SIDE_SERVER, server) !=
            WIRESEAL_STATUS_OK ||
        !keys_derive(&receive, algorithm, is_server ? client : server, sizeof client, false, &used->opened) ||
        !keys_derive(&send, algorithm, is_server ? server : client, sizeof client, false, &used->sealed)) {
        keys_free(&receive);
        keys_free(&send);
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    set_header_key(&send.aead, send.mask.native_handle);
    ngtcp2_conn_set_initial_crypto_ctx(quic, &context);
    if (ngtcp2_conn_install_initial_key(quic, &receive.aead, receive.iv, &receive.mask, &send.aead, send.iv, &send.mask,
                                        NONCE_LENGTH) != 0) {
        keys_free(&receive);
        keys_free(&send);
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

/* The key of Retry packets' tags, which is public. */
static bool retry_key_new(ngtcp2_crypto_aead_ctx *context) {
    static uint64_t count;
    return packet_key_new(context, WIRESEAL_AEAD_ALGORITHM_AES128_GCM, (const uint8_t *)NGTCP2_RETRY_KEY_V1, &count);
}

static int on_client_initial(ngtcp2_conn *quic, void *user_data) {
    ngtcp2_crypto_ctx context = crypto_context(WIRESEAL_AEAD_ALGORITHM_AES128_GCM);
    ngtcp2_crypto_aead_ctx retry_key;
    if (!retry_key_new(&retry_key)) return NGTCP2_ERR_CALLBACK_FAILURE;
    ngtcp2_conn_set_retry_aead(quic, &context.aead, &retry_key);
    if (install_initial(quic, ngtcp2_conn_get_dcid(quic), user_data) != 0) return NGTCP2_ERR_CALLBACK_FAILURE;
    /* Nothing was received: TLS writes the ClientHello. */
    return ngtcp2_crypto_read_write_crypto_data(quic, NGTCP2_CRYPTO_LEVEL_INITIAL, NULL, 0) == 0
               ? 0
               : NGTCP2_ERR_CALLBACK_FAILURE;
}

static int on_retry(ngtcp2_conn *quic, const ngtcp2_pkt_hd *retry, void *user_data) {
    return install_initial(quic, &retry->scid, user_data);
}

/* TLS has secrets for a level. 0-RTT is never offered. */
static int on_secrets(gnutls_session_t tls, gnutls_record_encryption_level_t gnutls_level, const void *receive_secret,
                      const void *send_secret, size_t length) {
    ngtcp2_crypto_conn_ref *reference = gnutls_session_get_ptr(tls);
    ngtcp2_conn *quic = reference->get_conn(reference);
    struct usage *usage = usage_of(reference->user_data);
    bool is_handshake =
        ngtcp2_crypto_gnutls_from_gnutls_record_encryption_level(gnutls_level) == NGTCP2_CRYPTO_LEVEL_HANDSHAKE;
    struct used *used = is_handshake ? &usage->handshake : &usage->generations[0];
    uint32_t algorithm = algorithm_of(tls);
    ngtcp2_crypto_ctx context = crypto_context(algorithm);
    struct keys keys;
    int error = 0;

    usage->algorithm = algorithm;
    ngtcp2_conn_set_crypto_ctx(quic, &context);
    if (receive_secret != NULL) {
        if (!keys_derive(&keys, algorithm, receive_secret, length, false, &used->opened)) {
            error = -1;
        } else if (is_handshake) {
            error = ngtcp2_conn_install_rx_handshake_key(quic, &keys.aead, keys.iv, NONCE_LENGTH, &keys.mask);
        } else {
            error = ngtcp2_conn_install_rx_key(quic, receive_secret, length, &keys.aead, keys.iv, NONCE_LENGTH,
                                               &keys.mask);
        }
        if (error == 0) {
            wireseal_aead_key_served_by(((struct packet_key *)keys.aead.native_handle)->key, usage->served_by,
                                        sizeof usage->served_by);
        } else {
            keys_free(&keys);
        }
    }
    if (error == 0 && send_secret != NULL) {
        if (!keys_derive(&keys, algorithm, send_secret, length, false, &used->sealed)) {
            error = -1;
        } else if (is_handshake) {
            set_header_key(&keys.aead, keys.mask.native_handle);
            error = ngtcp2_conn_install_tx_handshake_key(quic, &keys.aead, keys.iv, NONCE_LENGTH, &keys.mask);
        } else {
            set_header_key(&keys.aead, usage->header_key = keys.mask.native_handle);
            error = ngtcp2_conn_install_tx_key(quic, send_secret, length, &keys.aead, keys.iv, NONCE_LENGTH, &keys.mask);
        }
        if (error != 0) keys_free(&keys);
    }
    return error;
}

/* ngtcp2 makes the keys of the next phase before either end needs them. */
static int on_update(ngtcp2_conn *quic, uint8_t *receive_secret, uint8_t *send_secret,
                     ngtcp2_crypto_aead_ctx *receive_aead, uint8_t *receive_iv, ngtcp2_crypto_aead_ctx *send_aead,
                     uint8_t *send_iv, const uint8_t *current_receive_secret, const uint8_t *current_send_secret,
                     size_t length, void *user_data) {
    struct usage *usage = usage_of(user_data);
    struct used *used;
    struct keys receive, send;
    (void)quic;
    if (usage->generation + 1 == MAX_GENERATIONS) return NGTCP2_ERR_CALLBACK_FAILURE;
    used = &usage->generations[++usage->generation];
    memset(&receive, 0, sizeof receive);
    memset(&send, 0, sizeof send);
    if (wireseal_quic_next_secret(NGTCP2_PROTO_VER_V1, usage->algorithm, current_receive_secret, length,
                                  receive_secret) != WIRESEAL_STATUS_OK ||
        wireseal_quic_next_secret(NGTCP2_PROTO_VER_V1, usage->algorithm, current_send_secret, length, send_secret) !=
            WIRESEAL_STATUS_OK ||
        !keys_derive(&receive, usage->algorithm, receive_secret, length, true, &used->opened) ||
        !keys_derive(&send, usage->algorithm, send_secret, length, true, &used->sealed)) {
        keys_free(&receive);
        keys_free(&send);
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    set_header_key(&send.aead, usage->header_key);
    *receive_aead = receive.aead;
    *send_aead = send.aead;
    memcpy(receive_iv, receive.iv, NONCE_LENGTH);
    memcpy(send_iv, send.iv, NONCE_LENGTH);
    return 0;
}

static int on_encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead, const ngtcp2_crypto_aead_ctx *context,
                      const uint8_t *text, size_t length, const uint8_t *nonce, size_t nonce_length, const uint8_t *aad,
                      size_t aad_length) {
    struct packet_key *packet_key = context->native_handle;
    struct header_key *header_key = packet_key->header_key;
    enum wireseal_status status;
    (void)aead, (void)nonce_length;
    if (header_key == NULL) {
        status = wireseal_aead_seal_to(packet_key->key, nonce, aad, aad_length, text, length, dest);
    } else {
        /* The sample starts four octets after the packet number's first (RFC 9001 §5.4.2), whose length the header begins with. */
        size_t sample_offset = 3 - (aad[0] & 3);
        if (dest != text && length > 0) memmove(dest, text, length);
        status = wireseal_aead_seal_with_mask(packet_key->key, header_key->key, nonce, aad, aad_length, dest, length,
                                              sample_offset, header_key->mask);
        header_key->has_mask = status == WIRESEAL_STATUS_OK;
        if (header_key->has_mask) memcpy(header_key->sample, dest + sample_offset, SAMPLE_LENGTH);
    }
    if (status != WIRESEAL_STATUS_OK) return NGTCP2_ERR_CALLBACK_FAILURE;
    *packet_key->count += 1;
    return 0;
}

static int on_decrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead, const ngtcp2_crypto_aead_ctx *context,
                      const uint8_t *ciphertext, size_t length, const uint8_t *nonce, size_t nonce_length,
                      const uint8_t *aad, size_t aad_length) {
    struct packet_key *packet_key = context->native_handle;
    (void)aead, (void)nonce_length;
    if (wireseal_aead_open_to(packet_key->key, nonce, aad, aad_length, ciphertext, length, dest) != WIRESEAL_STATUS_OK) {
        return NGTCP2_ERR_DECRYPT;
    }
    *packet_key->count += 1;
    return 0;
}

static int on_mask(uint8_t *dest, const ngtcp2_crypto_cipher *cipher, const ngtcp2_crypto_cipher_ctx *context,
                   const uint8_t *sample) {
    struct header_key *header_key = context->native_handle;
    (void)cipher;
    if (header_key->has_mask && memcmp(header_key->sample, sample, SAMPLE_LENGTH) == 0) {
        memcpy(dest, header_key->mask, MASK_LENGTH);
        return 0;
    }
    return wireseal_mask(header_key->key, sample, dest) == WIRESEAL_STATUS_OK ? 0 : NGTCP2_ERR_CALLBACK_FAILURE;
}

static void set_callbacks(ngtcp2_callbacks *callbacks) {
    callbacks->client_initial = on_client_initial;
    callbacks->recv_client_initial = install_initial;
    callbacks->recv_retry = on_retry;
    callbacks->encrypt = on_encrypt;
    callbacks->decrypt = on_decrypt;
    callbacks->hp_mask = on_mask;
    callbacks->update_key = on_update;
    callbacks->delete_crypto_aead_ctx = packet_key_free;
    callbacks->delete_crypto_cipher_ctx = header_key_free;
}

static void prepare_tls(gnutls_session_t tls) {
    /* Instead of ngtcp2's own, which would make keys of GnuTLS. */
    gnutls_handshake_set_secret_function(tls, on_secrets);
}

static ngtcp2_ssize write_retry(uint8_t *packet, size_t size, const ngtcp2_pkt_hd *initial, const ngtcp2_cid *new_id,
                                const uint8_t *token, size_t token_length) {
    ngtcp2_crypto_ctx context = crypto_context(WIRESEAL_AEAD_ALGORITHM_AES128_GCM);
    ngtcp2_crypto_aead_ctx retry_key;
    ngtcp2_ssize written;
    if (!retry_key_new(&retry_key)) return NGTCP2_ERR_CALLBACK_FAILURE;
    written = ngtcp2_pkt_write_retry(packet, size, initial->version, &initial->scid, new_id, &initial->dcid, token,
                                     token_length, on_encrypt, &context.aead, &retry_key);
    packet_key_free(NULL, &retry_key, NULL);
    return written;
}

const struct crypto wireseal_crypto = {"Wireseal", set_callbacks, prepare_tls, write_retry};
