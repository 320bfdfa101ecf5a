/* The functions that src/lib.rs calls. A context belongs to one thread at a time. */
#include <stddef.h>
#include <stdint.h>

enum algorithm { HMAC_SHA1, HMAC_SHA256, AES_128_CMAC, POLY1305 };

/* A context with its key set, or NULL: unknown algorithm, key of another length, no memory, or no library. */
void *wireseal_nettle_new(int algorithm, const uint8_t *key, size_t key_length);
void wireseal_nettle_update(void *context, const uint8_t *octets, size_t length);
/* Writes 12 octets of the MAC, after which the context is ready for the next message. */
void wireseal_nettle_digest(void *context, uint8_t *mac);
void wireseal_nettle_free(void *context);
/* Major and minor version. */
int wireseal_nettle_version(int is_major);

void *wireseal_openssl_new(int algorithm, const uint8_t *key, size_t key_length);
/* Poly1305 only: sets the key of the next message, 32 octets. */
void wireseal_openssl_key(void *context, const uint8_t *key);
void wireseal_openssl_update(void *context, const uint8_t *octets, size_t length);
void wireseal_openssl_digest(void *context, uint8_t *mac);
void wireseal_openssl_free(void *context);
/* The library's version text, or NULL without the library. */
const char *wireseal_openssl_version(void);
