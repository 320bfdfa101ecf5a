/* MACs of nettle. */
#include "peers.h"

#include <nettle/cmac.h>
#include <nettle/hmac.h>
#include <nettle/version.h>
#include <stdlib.h>

struct context {
	enum algorithm algorithm;
	union {
		struct hmac_sha1_ctx hmac_sha1;
		struct hmac_sha256_ctx hmac_sha256;
		struct cmac_aes128_ctx cmac_aes128;
	};
};

void *wireseal_nettle_new(int algorithm, const uint8_t *key, size_t key_length)
{
	struct context *context = calloc(1, sizeof *context);

	if (!context)
		return NULL;
	context->algorithm = algorithm;
	switch (context->algorithm) {
	case HMAC_SHA1:
		hmac_sha1_set_key(&context->hmac_sha1, key_length, key);
		return context;
	case HMAC_SHA256:
		hmac_sha256_set_key(&context->hmac_sha256, key_length, key);
		return context;
	case AES_128_CMAC:
		if (key_length != 16)
			break;
		cmac_aes128_set_key(&context->cmac_aes128, key);
		return context;
	case POLY1305:
		break;
	}
	free(context);
	return NULL;
}

void wireseal_nettle_update(void *of, const uint8_t *octets, size_t length)
{
	struct context *context = of;

	if (context->algorithm == HMAC_SHA1)
		hmac_sha1_update(&context->hmac_sha1, length, octets);
	else if (context->algorithm == HMAC_SHA256)
		hmac_sha256_update(&context->hmac_sha256, length, octets);
	else
		cmac_aes128_update(&context->cmac_aes128, length, octets);
}

void wireseal_nettle_digest(void *of, uint8_t *mac)
{
	struct context *context = of;

	if (context->algorithm == HMAC_SHA1)
		hmac_sha1_digest(&context->hmac_sha1, 12, mac);
	else if (context->algorithm == HMAC_SHA256)
		hmac_sha256_digest(&context->hmac_sha256, 12, mac);
	else
		cmac_aes128_digest(&context->cmac_aes128, 12, mac);
}

void wireseal_nettle_free(void *context)
{
	free(context);
}

int wireseal_nettle_version(int is_major)
{
	return is_major ? nettle_version_major() : nettle_version_minor();
}
