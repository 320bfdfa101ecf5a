/* Preload this to hide the cryptographic instructions from programs that ask the C library for them. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/auxv.h>

static const unsigned long cryptographic = HWCAP_AES | HWCAP_PMULL | HWCAP_SHA1 | HWCAP_SHA2 | HWCAP_SHA3 | HWCAP_SHA512;

unsigned long getauxval(unsigned long type)
{
	unsigned long (*real)(unsigned long) = dlsym(RTLD_NEXT, "getauxval");
	unsigned long value = real(type);

	return type == AT_HWCAP ? value & ~cryptographic : value;
}
