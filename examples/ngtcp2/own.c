/* ngtcp2's own cryptography: what libngtcp2_crypto_gnutls has. */

#include "crypto.h"

static void set_callbacks(ngtcp2_callbacks *callbacks) {
    callbacks->client_initial = ngtcp2_crypto_client_initial_cb;
    callbacks->recv_client_initial = ngtcp2_crypto_recv_client_initial_cb;
    callbacks->recv_retry = ngtcp2_crypto_recv_retry_cb;
    callbacks->encrypt = ngtcp2_crypto_encrypt_cb;
    callbacks->decrypt = ngtcp2_crypto_decrypt_cb;
    callbacks->hp_mask = ngtcp2_crypto_hp_mask_cb;
    callbacks->update_key = ngtcp2_crypto_update_key_cb;
    callbacks->delete_crypto_aead_ctx = ngtcp2_crypto_delete_crypto_aead_ctx_cb;
    callbacks->delete_crypto_cipher_ctx = ngtcp2_crypto_delete_crypto_cipher_ctx_cb;
    callbacks->version_negotiation = ngtcp2_crypto_version_negotiation_cb;
}

static void prepare_tls(gnutls_session_t tls) {
    (void)tls; /* the helper has done all */
}

static ngtcp2_ssize write_retry(uint8_t *packet, size_t size, const ngtcp2_pkt_hd *initial, const ngtcp2_cid *new_id,
                                const uint8_t *token, size_t token_length) {
    return ngtcp2_crypto_write_retry(packet, size, initial->version, &initial->scid, new_id, &initial->dcid, token,
                                     token_length);
}

const struct crypto own_crypto = {"GnuTLS", set_callbacks, prepare_tls, write_retry};
