/* Header and library are of the same version, and nothing was left out of it. */
#include <stdio.h>
#include <string.h>

#include <wireseal.h>

int main(void)
{
    const uint32_t all = WIRESEAL_FEATURE_LINUX | WIRESEAL_FEATURE_QUIC | WIRESEAL_FEATURE_STD;
    char version[32];

    snprintf(version, sizeof version, "%d.%d.%d", WIRESEAL_VERSION_MAJOR, WIRESEAL_VERSION_MINOR, WIRESEAL_VERSION_PATCH);
    if (strcmp(version, wireseal_version()) != 0 || wireseal_features() != all) {
        fprintf(stderr, "header of %s, library of %s with features %u\n", version, wireseal_version(), (unsigned)wireseal_features());
        return 1;
    }
    return sizeof(enum wireseal_status) != 4;
}
