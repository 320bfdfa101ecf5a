/* What src/lib.rs calls. A context belongs to one thread at a time. */
#include <stddef.h>
#include <stdint.h>

enum algorithm { HMAC_SHA1, HMAC_SHA256, AES_128_CMAC, UMAC96, POLY1305 };

/* A context with its key set, or NULL: unknown algorithm, key of another length, no memory, or no library. */
void *wireseal_nettle_new(int algorithm, const uint8_t *key, size_t key_length);
void wireseal_nettle_update(void *context, const uint8_t *octets, size_t length);
/* Writes 12 octets of the MAC, after which the context is ready for the next message. */
void wireseal_nettle_digest(void *context, uint8_t *mac);
/* Octets of the context's own state. */
size_t wireseal_nettle_octets(const void *context);
void wireseal_nettle_free(void *context);
/* Major and minor version. */
int wireseal_nettle_version(int is_major);

void *wireseal_openssl_new(int algorithm, const uint8_t *key, size_t key_length);
/* Poly1305 alone: the key of the message that follows, of 32 octets. */
void wireseal_openssl_key(void *context, const uint8_t *key);
void wireseal_openssl_update(void *context, const uint8_t *octets, size_t length);
void wireseal_openssl_digest(void *context, uint8_t *mac);
void wireseal_openssl_free(void *context);
/* The version as its own text says it, or NULL without the library. */
const char *wireseal_openssl_version(void);

/* AES-128-GCM, or AES-128-CTR, under a key of 16 octets; NULL without memory or library. */
void *wireseal_openssl_cipher_new(int is_gcm, const uint8_t *key);
/* Encrypts in place under a nonce: 12 octets for GCM, whose tag of 16 octets is written, and 16 for CTR. */
void wireseal_openssl_encrypt(void *context, int is_gcm, const uint8_t *nonce, uint8_t *octets, int length, uint8_t *tag);
void wireseal_openssl_cipher_free(void *context);

/* Has CPUID say, in this thread and those it starts, that there is no AVX-512 and, unless with_vaes, no VAES.
 * Whether it could be done. */
int wireseal_mask_cpuid(int with_vaes);
