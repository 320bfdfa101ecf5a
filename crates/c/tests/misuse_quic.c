/* QUIC and AEADs, misused. */
#include "misuse.h"

static const uint8_t octets[64] = {7};
/* No number, no version, no length. */
static const uint32_t NO_NUMBER = 0xffffffff;

static struct wireseal_aead_key *aead_key;
static struct wireseal_mask_key *mask_key;
static struct wireseal_quic_packet_key *packet_key;
static struct wireseal_quic_header_key *header_key;

static void aeads(void)
{
    static struct memory first, second;
    uint8_t text[64 + 16] = {0}, opened[64], tag[16], mask[5];
    char name[64];
    const uint32_t algorithm = WIRESEAL_AEAD_ALGORITHM_AES128_GCM;

    HOLDS(wireseal_aead_key_size() <= WIRESEAL_AEAD_KEY_SIZE && wireseal_aead_key_align() <= WIRESEAL_ALIGN);
    HOLDS(wireseal_mask_key_size() <= WIRESEAL_MASK_KEY_SIZE && wireseal_mask_key_align() <= WIRESEAL_ALIGN);
    HOLDS(wireseal_aead_key_length(algorithm) == 16 && wireseal_aead_key_length(NO_NUMBER) == 0 && wireseal_aead_key_length(0x11301) == 0);

    MAKES(wireseal_aead_key_size(), aead_key, wireseal_aead_key_new(P(AT(first)), misuse.size, algorithm, P(octets), 16, P(&aead_key)));
    MAKES(wireseal_mask_key_size(), mask_key, wireseal_mask_key_new(P(AT(second)), misuse.size, algorithm, P(octets), 16, P(&mask_key)));
    MISUSED(OK, wireseal_aead_key_served_by(H(aead_key), P(name), sizeof name));
    IS(TOO_SMALL, wireseal_aead_key_served_by(aead_key, name, strlen(name)));
    IS(TOO_SMALL, wireseal_aead_key_served_by(aead_key, NULL, 0));
    MISUSED(OK, wireseal_aead_seal(H(aead_key), P(octets), P(octets), 9, P(text), 64, P(tag)));
    MISUSED(OK, wireseal_aead_open(H(aead_key), P(octets), P(octets), 9, P(text), 64, P(tag)));
    MISUSED(OK, wireseal_aead_seal_with_mask(H(aead_key), H(mask_key), P(octets), P(octets), 9, P(text), 64, 20, P(mask)));
    MISUSED(OK, wireseal_mask(H(mask_key), P(octets), P(mask)));
    HOLDS(memcmp(octets, text, 64) != 0);
    MISUSED(OK, wireseal_aead_seal_to(H(aead_key), P(octets), P(octets), 9, P(octets), 64, P(text)));
    MISUSED(OK, wireseal_aead_open_to(H(aead_key), P(octets), P(octets), 9, P(text), 64 + 16, P(opened)));
    HOLDS(memcmp(octets, opened, 64) == 0);
    IS(NOT_AUTHENTIC, wireseal_aead_open_to(aead_key, octets, octets, 9, text, 15, opened));
    IS(TOO_LONG, wireseal_aead_open_to(aead_key, octets, octets, 9, text, (size_t)-1, opened));
    IS(TOO_LONG, wireseal_aead_seal_to(aead_key, octets, octets, 9, octets, (size_t)-1, text));
    IS(TOO_LONG, wireseal_aead_seal_to(aead_key, octets, octets, (size_t)-1, octets, 64, text));
    IS(NOT_AUTHENTIC, wireseal_aead_open(aead_key, octets, NULL, 0, text, 64, tag));
    IS(OK, wireseal_aead_seal(aead_key, octets, NULL, 0, NULL, 0, tag));
    IS(OK, wireseal_aead_open(aead_key, octets, NULL, 0, NULL, 0, tag));

    /* A length that went below zero, and samples outside of the text. */
    IS(TOO_LONG, wireseal_aead_seal(aead_key, octets, octets, (size_t)-1, text, 64, tag));
    IS(TOO_LONG, wireseal_aead_seal(aead_key, octets, NULL, 0, text, (size_t)-1, tag));
    IS(TOO_LONG, wireseal_aead_open(aead_key, octets, octets, (size_t)-1, text, 64, tag));
    IS(TOO_LONG, wireseal_aead_open(aead_key, octets, NULL, 0, text, (size_t)-9, tag));
    IS(TOO_LONG, wireseal_aead_seal_with_mask(aead_key, mask_key, octets, NULL, 0, text, (size_t)-9, 20, mask));
    IS(TOO_SHORT_FOR_SAMPLE, wireseal_aead_seal_with_mask(aead_key, mask_key, octets, NULL, 0, text, 64, 65, mask));
    IS(TOO_SHORT_FOR_SAMPLE, wireseal_aead_seal_with_mask(aead_key, mask_key, octets, NULL, 0, text, 64, (size_t)-1, mask));

    /* A mask key of another algorithm. */
    IS(OK, wireseal_mask_key_end(mask_key));
    IS(OK, wireseal_mask_key_new(&second, sizeof second, WIRESEAL_AEAD_ALGORITHM_AES128_CCM, octets, 16, &mask_key));
    memset(text, 1, sizeof text);
    IS(BAD_ARGUMENT, wireseal_aead_seal_with_mask(aead_key, mask_key, octets, NULL, 0, text, 64, 20, mask));
    HOLDS(text[0] == 1 && memcmp(text, text + 1, sizeof text - 1) == 0);

    /* Ended, used, ended again. */
    MISUSED(OK, wireseal_mask_key_end(H(mask_key)));
    IS(NOT_A_HANDLE, wireseal_mask_key_end(mask_key));
    IS(NOT_A_HANDLE, wireseal_mask(mask_key, octets, mask));
    MISUSED(OK, wireseal_aead_key_end(H(aead_key)));
    IS(NOT_A_HANDLE, wireseal_aead_key_end(aead_key));
    IS(NOT_A_HANDLE, wireseal_aead_open(aead_key, octets, octets, 9, text, 64, tag));

    /* Wrong numbers make nothing. */
    IS(UNKNOWN_ALGORITHM, wireseal_aead_key_new(&first, sizeof first, 0, octets, 16, &aead_key));
    IS(UNKNOWN_ALGORITHM, wireseal_mask_key_new(&second, sizeof second, NO_NUMBER, octets, 16, &mask_key));
    HOLDS(aead_key == NULL && mask_key == NULL);
    IS(KEY_LENGTH, wireseal_aead_key_new(&first, sizeof first, algorithm, octets, 15, &aead_key));
    IS(KEY_LENGTH, wireseal_aead_key_new(&first, sizeof first, algorithm, NULL, 0, &aead_key));
    IS(KEY_LENGTH, wireseal_mask_key_new(&second, sizeof second, algorithm, octets, 32, &mask_key));
    IS(TOO_LONG, wireseal_mask_key_new(&second, sizeof second, algorithm, octets, (size_t)-1, &mask_key));
}

static void secrets(void)
{
    const uint32_t version = WIRESEAL_QUIC_VERSION_V1, algorithm = WIRESEAL_AEAD_ALGORITHM_AES128_GCM;
    uint8_t secret[32], key[16], iv[12], header_protection_key[16];

    HOLDS(wireseal_quic_secret_length(WIRESEAL_AEAD_ALGORITHM_AES256_GCM) == 48 && wireseal_quic_secret_length(NO_NUMBER) == 0);
    HOLDS(wireseal_quic_integrity_limit(NO_NUMBER) == 0 && wireseal_quic_confidentiality_limit(NO_NUMBER) == 0);

    MISUSED(OK, wireseal_quic_initial_secret(version, P(octets), 8, WIRESEAL_QUIC_SIDE_CLIENT, P(secret)));
    IS(OK, wireseal_quic_initial_secret(version, NULL, 0, WIRESEAL_QUIC_SIDE_SERVER, secret));
    IS(UNKNOWN_VERSION, wireseal_quic_initial_secret(0, octets, 8, WIRESEAL_QUIC_SIDE_CLIENT, secret));
    IS(BAD_ARGUMENT, wireseal_quic_initial_secret(version, octets, 8, 2, secret));
    IS(TOO_LONG, wireseal_quic_initial_secret(version, octets, 21, WIRESEAL_QUIC_SIDE_CLIENT, secret));
    IS(TOO_LONG, wireseal_quic_initial_secret(version, octets, (size_t)-1, WIRESEAL_QUIC_SIDE_CLIENT, secret));

    MISUSED(OK, wireseal_quic_next_secret(version, algorithm, P(octets), 32, P(secret)));
    IS(UNKNOWN_VERSION, wireseal_quic_next_secret(NO_NUMBER, algorithm, octets, 32, secret));
    IS(UNKNOWN_ALGORITHM, wireseal_quic_next_secret(version, NO_NUMBER, octets, 32, secret));
    IS(KEY_LENGTH, wireseal_quic_next_secret(version, algorithm, octets, 48, secret));
    IS(KEY_LENGTH, wireseal_quic_next_secret(version, algorithm, NULL, 0, secret));

    MISUSED(OK, wireseal_quic_key_octets(version, algorithm, P(octets), 32, key, iv, header_protection_key));
    IS(OK, wireseal_quic_key_octets(version, algorithm, octets, 32, NULL, NULL, NULL));
    IS(UNKNOWN_VERSION, wireseal_quic_key_octets(2, algorithm, octets, 32, key, iv, header_protection_key));
    IS(KEY_LENGTH, wireseal_quic_key_octets(version, algorithm, octets, 31, key, iv, header_protection_key));
}

static void keys(void)
{
    static struct memory first, second;
    const uint32_t version = WIRESEAL_QUIC_VERSION_V2, algorithm = WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305;

    HOLDS(wireseal_quic_packet_key_size() <= WIRESEAL_QUIC_PACKET_KEY_SIZE && wireseal_quic_packet_key_align() <= WIRESEAL_ALIGN);
    HOLDS(wireseal_quic_header_key_size() <= WIRESEAL_QUIC_HEADER_KEY_SIZE && wireseal_quic_header_key_align() <= WIRESEAL_ALIGN);

    MAKES(wireseal_quic_packet_key_size(), packet_key,
          wireseal_quic_packet_key_new(P(AT(first)), misuse.size, algorithm, P(octets), 32, P(octets), P(&packet_key)));
    IS(KEY_LENGTH, wireseal_quic_packet_key_new(&first, sizeof first, algorithm, octets, 16, octets, &packet_key));
    IS(UNKNOWN_ALGORITHM, wireseal_quic_packet_key_new(&first, sizeof first, 0x1305, octets, 32, octets, &packet_key));
    HOLDS(packet_key == NULL);
    MAKES(wireseal_quic_header_key_size(), header_key,
          wireseal_quic_header_key_new(P(AT(second)), misuse.size, algorithm, P(octets), 32, P(&header_key)));
    IS(KEY_LENGTH, wireseal_quic_header_key_new(&second, sizeof second, algorithm, octets, 64, &header_key));
    HOLDS(header_key == NULL);

    MAKES(wireseal_quic_packet_key_size(), packet_key,
          wireseal_quic_packet_key_from_secret(P(AT(first)), misuse.size, version, algorithm, P(octets), 32, P(&packet_key)));
    MAKES(wireseal_quic_header_key_size(), header_key,
          wireseal_quic_header_key_from_secret(P(AT(second)), misuse.size, version, algorithm, P(octets), 32, P(&header_key)));
}

static void negotiation(void)
{
    const uint8_t asked[] = {0xc0, 0xba, 0xba, 0xba, 0xba, 2, 'd', 'd', 3, 's', 's', 's'};
    uint32_t versions[17] = {1, 0x6b3343cf};
    uint8_t packet[64];
    size_t length = 0, count;

    MISUSED(OK, wireseal_quic_version_negotiation_write(0, P(asked), sizeof asked, P(versions), 2, P(packet), sizeof packet, P(&length)));
    IS(TOO_SMALL, wireseal_quic_version_negotiation_write(0, asked, sizeof asked, versions, 2, packet, length - 1, &length));
    IS(TOO_LONG, wireseal_quic_version_negotiation_write(0, asked, sizeof asked, versions, 17, packet, sizeof packet, &length));
    IS(TOO_LONG, wireseal_quic_version_negotiation_write(0, asked, sizeof asked, versions, (size_t)-1, packet, sizeof packet, &length));
    IS(BAD_ARGUMENT, wireseal_quic_version_negotiation_write(0, asked, sizeof asked, NULL, 0, packet, sizeof packet, &length));
    IS(BAD_ARGUMENT, wireseal_quic_version_negotiation_write(0, packet, length, versions, 2, packet, sizeof packet, &length));
    IS(NOT_A_PACKET, wireseal_quic_version_negotiation_write(0, asked, sizeof asked - 1, versions, 2, packet, sizeof packet, &length));
    MISUSED(OK, wireseal_quic_version_negotiation_read(0xbabababa, P(asked + 6), 2, P(asked + 9), 3, P(packet), length, P(versions), 2, P(&count)));
    IS(NOT_VERSION_NEGOTIATION, wireseal_quic_version_negotiation_read(0, asked + 6, 2, asked + 9, 3, NULL, 0, versions, 2, &count));
    IS(TOO_LONG, wireseal_quic_version_negotiation_read(0, asked + 6, (size_t)-1, asked + 9, 3, packet, length, versions, 2, &count));
    IS(TOO_LONG, wireseal_quic_version_negotiation_read(0, asked + 6, 2, asked + 9, 3, packet, length, versions, (size_t)-1, &count));
}

/* What is left of a packet that is not opened is never read as one. */
static void packets(void)
{
    enum { HEADER = 1 + 8 + 2, LENGTH = HEADER + 30 + 16 };
    const uint8_t header[HEADER] = {0x41, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9};
    uint8_t packet[LENGTH], sealed[LENGTH], tag[16], mask[5];
    struct wireseal_quic_opened opened;
    struct wireseal_quic_packet read;
    struct wireseal_quic_retry retry;
    size_t length;

    memset(packet, 1, sizeof packet);
    memcpy(packet, header, sizeof header);
    MISUSED(OK, wireseal_quic_seal(H(packet_key), H(header_key), 0, 9, P(packet), LENGTH, HEADER));
    memcpy(sealed, packet, sizeof packet);
    MISUSED(OK, wireseal_quic_packet_read(P(packet), LENGTH, 8, P(&read)));
    HOLDS(read.packet_type == WIRESEAL_QUIC_PACKET_TYPE_ONE_RTT && read.length == LENGTH);
    MISUSED(OK, wireseal_quic_open(H(packet_key), H(header_key), 0, P(packet), LENGTH, 8, 8, WIRESEAL_QUIC_PHASE_ZERO, P(&opened)));
    HOLDS(opened.number == 9 && opened.payload_offset == HEADER && opened.payload_length == 30);

    /* Numbers and lengths that mean nothing. */
    memcpy(packet, sealed, sizeof packet);
    IS(BAD_ARGUMENT, wireseal_quic_open(packet_key, header_key, 0, packet, LENGTH, 8, 8, 3, &opened));
    IS(OTHER_PHASE, wireseal_quic_open(packet_key, header_key, 0, packet, LENGTH, 8, 8, WIRESEAL_QUIC_PHASE_ONE, &opened));
    IS(TOO_LONG, wireseal_quic_open(packet_key, header_key, 0, packet, (size_t)-1, 8, 8, WIRESEAL_QUIC_PHASE_ANY, &opened));
    IS(NOT_A_PACKET, wireseal_quic_open(packet_key, header_key, 0, packet, LENGTH, (size_t)-1, 8, WIRESEAL_QUIC_PHASE_ANY, &opened));
    HOLDS(memcmp(packet, sealed, sizeof packet) == 0);
    for (length = 0; length < LENGTH; length++) {
        memcpy(packet, sealed, sizeof packet);
        HOLDS(wireseal_quic_open(packet_key, header_key, 0, packet, length, 8, 8, WIRESEAL_QUIC_PHASE_ANY, &opened) != WIRESEAL_STATUS_OK);
        HOLDS(memcmp(packet + length, sealed + length, sizeof packet - length) == 0);
    }
    memcpy(packet, header, sizeof header);
    IS(NUMBER_TOO_LARGE, wireseal_quic_seal(packet_key, header_key, 0, (uint64_t)1 << 62, packet, LENGTH, HEADER));
    IS(TOO_SMALL, wireseal_quic_seal(packet_key, header_key, 0, 9, packet, LENGTH, LENGTH - 15));
    IS(TOO_SMALL, wireseal_quic_seal(packet_key, header_key, 0, 9, packet, LENGTH, (size_t)-1));
    IS(NO_FRAMES, wireseal_quic_seal(packet_key, header_key, 0, 9, packet, HEADER + 16, HEADER));
    IS(TOO_SHORT_FOR_SAMPLE, wireseal_quic_seal(packet_key, header_key, 0, 9, packet, HEADER + 17, HEADER));
    IS(BAD_ARGUMENT, wireseal_quic_seal(packet_key, header_key, 0, 9, packet, LENGTH, 2));
    IS(BAD_ARGUMENT, wireseal_quic_seal(packet_key, header_key, 0, 9, NULL, 0, 0));
    /* Another number than the header's. */
    IS(BAD_ARGUMENT, wireseal_quic_seal(packet_key, header_key, 0, 8, packet, LENGTH, HEADER));
    IS(BAD_ARGUMENT, wireseal_quic_seal(packet_key, header_key, 0, 0x109, packet, LENGTH, HEADER));
    HOLDS(memcmp(packet, header, sizeof header) == 0);
    IS(OK, wireseal_quic_seal(packet_key, header_key, 0, 0x70009, packet, LENGTH, HEADER));
    /* A header key of another algorithm. */
    {
        static struct memory memory;
        struct wireseal_quic_header_key *other;
        IS(OK, wireseal_quic_header_key_new(&memory, sizeof memory, WIRESEAL_AEAD_ALGORITHM_AES128_GCM, octets, 16, &other));
        memcpy(packet, header, sizeof header);
        IS(BAD_ARGUMENT, wireseal_quic_seal(packet_key, other, 0, 9, packet, LENGTH, HEADER));
        HOLDS(memcmp(packet, header, sizeof header) == 0);
        memcpy(packet, sealed, sizeof packet);
        IS(BAD_ARGUMENT, wireseal_quic_open(packet_key, other, 0, packet, LENGTH, 8, 8, WIRESEAL_QUIC_PHASE_ANY, &opened));
        HOLDS(memcmp(packet, sealed, sizeof packet) == 0);
        IS(OK, wireseal_quic_header_key_end(other));
    }

    MISUSED(OK, wireseal_quic_mask(H(header_key), P(octets), P(mask)));
    negotiation();

    MISUSED(OK, wireseal_quic_retry_tag(WIRESEAL_QUIC_VERSION_V1, P(octets), 8, P(octets), 20, P(tag)));
    IS(UNKNOWN_VERSION, wireseal_quic_retry_tag(NO_NUMBER, octets, 8, octets, 20, tag));
    IS(TOO_LONG, wireseal_quic_retry_tag(WIRESEAL_QUIC_VERSION_V1, octets, 21, octets, 20, tag));
    MISUSED(NOT_RETRY, wireseal_quic_retry_verify(WIRESEAL_QUIC_VERSION_V1, P(octets), 8, P(sealed), LENGTH, P(&retry)));
    IS(UNKNOWN_VERSION, wireseal_quic_retry_verify(NO_NUMBER, octets, 8, sealed, LENGTH, &retry));
    IS(NOT_A_PACKET, wireseal_quic_retry_verify(WIRESEAL_QUIC_VERSION_V1, octets, 8, NULL, 0, &retry));
}

int main(void)
{
    misuse.other = a_connection();
    secrets();
    keys();
    packets();
    aeads();
    MISUSED(OK, wireseal_quic_packet_key_end(H(packet_key)));
    IS(NOT_A_HANDLE, wireseal_quic_packet_key_end(packet_key));
    MISUSED(OK, wireseal_quic_header_key_end(H(header_key)));
    IS(NOT_A_HANDLE, wireseal_quic_header_key_end(header_key));
    return misuse.failures != 0;
}
