/* MACs of OpenSSL 3, loaded at run time, because its symbols have the same names as BoringSSL's. */
#include "peers.h"

#define OPENSSL_SUPPRESS_DEPRECATED
#include <dlfcn.h>
#include <openssl/cmac.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#define FUNCTIONS(F) \
	F(OpenSSL_version) F(EVP_sha1) F(EVP_sha256) F(EVP_aes_128_cbc) \
	F(HMAC_CTX_new) F(HMAC_CTX_free) F(HMAC_Init_ex) F(HMAC_Update) F(HMAC_Final) \
	F(CMAC_CTX_new) F(CMAC_CTX_free) F(CMAC_Init) F(CMAC_Update) F(CMAC_Final) \
	F(EVP_MAC_fetch) F(EVP_MAC_free) F(EVP_MAC_CTX_new) F(EVP_MAC_CTX_free) \
	F(EVP_MAC_init) F(EVP_MAC_update) F(EVP_MAC_final)

static struct {
	int is_loaded;
#define POINTER(name) __typeof__(&name) name;
	FUNCTIONS(POINTER)
} lib;

static int load(void)
{
	void *handle;

	if (lib.is_loaded)
		return 1;
	/* RTLD_DEEPBIND: the library's own symbols come first for it, whatever else is loaded. */
	handle = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	if (!handle)
		return 0;
#define FIND(name) \
	*(void **)&lib.name = dlsym(handle, #name); \
	if (!lib.name) \
		return 0;
	FUNCTIONS(FIND)
	lib.is_loaded = 1;
	return 1;
}

struct context {
	enum algorithm algorithm;
	HMAC_CTX *hmac;
	CMAC_CTX *cmac;
	EVP_MAC_CTX *mac;
};

void *wireseal_openssl_new(int algorithm, const uint8_t *key, size_t key_length)
{
	struct context *context;
	EVP_MAC *poly1305;

	if (!load())
		return NULL;
	context = calloc(1, sizeof *context);
	if (!context)
		return NULL;
	context->algorithm = algorithm;
	switch (context->algorithm) {
	case HMAC_SHA1:
	case HMAC_SHA256:
		/* EVP_MAC_ calls HMAC_ and CMAC_ after its own checks, so this is the shorter way to the same code. */
		context->hmac = lib.HMAC_CTX_new();
		if (context->hmac
		    && lib.HMAC_Init_ex(context->hmac, key, (int)key_length,
					algorithm == HMAC_SHA1 ? lib.EVP_sha1() : lib.EVP_sha256(), NULL))
			return context;
		break;
	case AES_128_CMAC:
		context->cmac = lib.CMAC_CTX_new();
		if (context->cmac && lib.CMAC_Init(context->cmac, key, key_length, lib.EVP_aes_128_cbc(), NULL))
			return context;
		break;
	case POLY1305:
		poly1305 = lib.EVP_MAC_fetch(NULL, "POLY1305", NULL);
		if (poly1305) {
			context->mac = lib.EVP_MAC_CTX_new(poly1305);
			lib.EVP_MAC_free(poly1305);
		}
		if (context->mac && lib.EVP_MAC_init(context->mac, key, key_length, NULL))
			return context;
		break;
	}
	wireseal_openssl_free(context);
	return NULL;
}

void wireseal_openssl_key(void *of, const uint8_t *key)
{
	struct context *context = of;

	if (context->mac)
		lib.EVP_MAC_init(context->mac, key, 32, NULL);
}

void wireseal_openssl_update(void *of, const uint8_t *octets, size_t length)
{
	struct context *context = of;

	if (context->hmac)
		lib.HMAC_Update(context->hmac, octets, length);
	else if (context->cmac)
		lib.CMAC_Update(context->cmac, octets, length);
	else
		lib.EVP_MAC_update(context->mac, octets, length);
}

void wireseal_openssl_digest(void *of, uint8_t *mac)
{
	struct context *context = of;
	unsigned char whole[EVP_MAX_MD_SIZE];
	unsigned int short_length;
	size_t length;

	if (context->hmac) {
		lib.HMAC_Final(context->hmac, whole, &short_length);
		lib.HMAC_Init_ex(context->hmac, NULL, 0, NULL, NULL);
	} else if (context->cmac) {
		lib.CMAC_Final(context->cmac, whole, &length);
		lib.CMAC_Init(context->cmac, NULL, 0, NULL, NULL);
	} else {
		lib.EVP_MAC_final(context->mac, whole, &length, sizeof whole);
	}
	__builtin_memcpy(mac, whole, 12);
}

void wireseal_openssl_free(void *of)
{
	struct context *context = of;

	if (context->hmac)
		lib.HMAC_CTX_free(context->hmac);
	if (context->cmac)
		lib.CMAC_CTX_free(context->cmac);
	if (context->mac)
		lib.EVP_MAC_CTX_free(context->mac);
	free(context);
}

const char *wireseal_openssl_version(void)
{
	return load() ? lib.OpenSSL_version(OPENSSL_VERSION) : NULL;
}
