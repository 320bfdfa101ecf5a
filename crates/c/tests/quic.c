/* QUIC packets and AEADs: published vectors, and what forged and unfitting packets leave behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quic_vectors.h"
#include "wireseal.h"

#define HOLDS(condition) ((condition) ? (void)0 : (fprintf(stderr, "quic.c:%d: not so: %s\n", __LINE__, #condition), exit(1)))
#define IS(status, call) HOLDS((call) == WIRESEAL_STATUS_##status)

enum { TAG = 16, ROOM = 2048 };

static const uint32_t ALGORITHMS[] = {WIRESEAL_AEAD_ALGORITHM_AES128_GCM, WIRESEAL_AEAD_ALGORITHM_AES256_GCM,
                                      WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305, WIRESEAL_AEAD_ALGORITHM_AES128_CCM};

/* Memory for the keys of one direction, and the handles in it. */
struct keys {
    uint8_t packet_memory[WIRESEAL_QUIC_PACKET_KEY_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));
    uint8_t header_memory[WIRESEAL_QUIC_HEADER_KEY_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));
    struct wireseal_quic_packet_key *packet;
    struct wireseal_quic_header_key *header;
};

/* Writes the octets of hexadecimal digits, and returns how many there are. */
static size_t octets(const char *digits, uint8_t *into)
{
    size_t length = strlen(digits) / 2, i;

    for (i = 0; i < length; i++) {
        const char pair[3] = {digits[2 * i], digits[2 * i + 1], 0};
        into[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return length;
}

static int are(const uint8_t *found, size_t length, const char *digits)
{
    uint8_t wanted[ROOM];

    return length == octets(digits, wanted) && memcmp(found, wanted, length) == 0;
}

static int are_all(const uint8_t *found, size_t length, uint8_t octet)
{
    size_t i;

    for (i = 0; i < length; i++)
        if (found[i] != octet)
            return 0;
    return 1;
}

static void make_keys(struct keys *keys, uint32_t version, uint32_t algorithm, const uint8_t *secret, size_t length)
{
    memset(keys, 0, sizeof *keys);
    IS(OK, wireseal_quic_packet_key_from_secret(keys->packet_memory, sizeof keys->packet_memory, version, algorithm, secret, length, &keys->packet));
    IS(OK, wireseal_quic_header_key_from_secret(keys->header_memory, sizeof keys->header_memory, version, algorithm, secret, length, &keys->header));
}

static void end_keys(struct keys *keys)
{
    IS(OK, wireseal_quic_packet_key_end(keys->packet));
    IS(OK, wireseal_quic_header_key_end(keys->header));
    HOLDS(are_all(keys->packet_memory, wireseal_quic_packet_key_size(), 0));
    HOLDS(are_all(keys->header_memory, wireseal_quic_header_key_size(), 0));
    IS(NOT_A_HANDLE, wireseal_quic_packet_key_end(keys->packet));
}

/* The octets of the keys derived from a secret; keys made from them do the same as keys made from the secret. */
static void key_octets(uint32_t version, uint32_t algorithm, const char *secret, const char *key, const char *iv, const char *header_key,
                       const struct packet_vector *vector)
{
    uint8_t secret_octets[48], octets_of_key[32], octets_of_iv[12], octets_of_header_key[32], packet[ROOM];
    const size_t secret_length = octets(secret, secret_octets), key_length = wireseal_aead_key_length(algorithm);
    size_t header_length, length;
    struct keys keys;
    struct wireseal_quic_opened opened;

    memset(&keys, 0, sizeof keys);
    HOLDS(secret_length == wireseal_quic_secret_length(algorithm));
    IS(OK, wireseal_quic_key_octets(version, algorithm, secret_octets, secret_length, octets_of_key, octets_of_iv, octets_of_header_key));
    HOLDS(are(octets_of_key, key_length, key) && are(octets_of_iv, 12, iv) && are(octets_of_header_key, key_length, header_key));
    IS(OK, wireseal_quic_key_octets(version, algorithm, secret_octets, secret_length, NULL, NULL, NULL));
    IS(KEY_LENGTH, wireseal_quic_key_octets(version, algorithm, secret_octets, secret_length - 1, NULL, NULL, NULL));

    IS(KEY_LENGTH, wireseal_quic_packet_key_new(keys.packet_memory, sizeof keys.packet_memory, algorithm, octets_of_key, key_length - 1, octets_of_iv,
                                                &keys.packet));
    HOLDS(keys.packet == NULL);
    IS(OK, wireseal_quic_packet_key_new(keys.packet_memory, sizeof keys.packet_memory, algorithm, octets_of_key, key_length, octets_of_iv, &keys.packet));
    IS(OK, wireseal_quic_header_key_new(keys.header_memory, sizeof keys.header_memory, algorithm, octets_of_header_key, key_length, &keys.header));
    length = octets(vector->packet, packet);
    header_length = strlen(vector->header) / 2;
    IS(OK, wireseal_quic_open(keys.packet, keys.header, 0, packet, length, 0, vector->number - 1, WIRESEAL_QUIC_PHASE_ZERO, &opened));
    HOLDS(opened.number == vector->number && opened.packet_length == length && opened.phase == 0);
    HOLDS(opened.payload_offset == header_length && opened.payload_length == length - header_length - TAG);
    HOLDS(are(packet, header_length, vector->header));
    end_keys(&keys);
}

/* Sealing header and payload gives the published packet, and opening it gives them back. */
static void packet_vector(uint32_t version, uint32_t algorithm, const char *secret, const struct packet_vector *vector)
{
    uint8_t secret_octets[48], packet[ROOM] = {0};
    const size_t secret_length = octets(secret, secret_octets), length = strlen(vector->packet) / 2;
    const size_t header_length = octets(vector->header, packet), payload_length = octets(vector->payload, packet + header_length);
    struct keys keys;
    struct wireseal_quic_opened opened;

    make_keys(&keys, version, algorithm, secret_octets, secret_length);
    IS(OK, wireseal_quic_seal(keys.packet, keys.header, 0, vector->number, packet, length, header_length));
    HOLDS(are(packet, length, vector->packet));
    IS(OK, wireseal_quic_open(keys.packet, keys.header, 0, packet, length, 0, vector->number - 1, WIRESEAL_QUIC_PHASE_ANY, &opened));
    HOLDS(opened.number == vector->number);
    HOLDS(are(packet + header_length, payload_length, vector->payload));
    HOLDS(are_all(packet + header_length + payload_length, opened.payload_length - payload_length, 0));
    end_keys(&keys);
}

static void published(const struct quic_vectors *vectors)
{
    const uint32_t gcm = WIRESEAL_AEAD_ALGORITHM_AES128_GCM, chacha = WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305;
    uint8_t destination[20], secret[48], datagram[ROOM];
    const size_t destination_length = octets(vectors->destination, destination);
    struct wireseal_quic_packet read;
    uint32_t side;

    for (side = WIRESEAL_QUIC_SIDE_CLIENT; side <= WIRESEAL_QUIC_SIDE_SERVER; side++) {
        IS(OK, wireseal_quic_initial_secret(vectors->version, destination, destination_length, side, secret));
        HOLDS(are(secret, 32, vectors->secret[side]));
        key_octets(vectors->version, gcm, vectors->secret[side], vectors->key[side], vectors->iv[side], vectors->header_key[side], &vectors->initial[side]);
        packet_vector(vectors->version, gcm, vectors->secret[side], &vectors->initial[side]);
    }
    IS(BAD_ARGUMENT, wireseal_quic_initial_secret(vectors->version, destination, destination_length, 2, secret));
    IS(UNKNOWN_VERSION, wireseal_quic_initial_secret(2, destination, destination_length, 0, secret));
    IS(TOO_LONG, wireseal_quic_initial_secret(vectors->version, datagram, 21, 0, secret));

    key_octets(vectors->version, chacha, vectors->chacha_secret, vectors->chacha_key, vectors->chacha_iv, vectors->chacha_header_key, &vectors->chacha);
    packet_vector(vectors->version, chacha, vectors->chacha_secret, &vectors->chacha);
    octets(vectors->chacha_secret, secret);
    IS(OK, wireseal_quic_next_secret(vectors->version, chacha, secret, 32, secret));
    HOLDS(are(secret, 32, vectors->chacha_next_secret));

    /* Both Initial packets in one datagram. */
    {
        const size_t first = octets(vectors->initial[0].packet, datagram), second = octets(vectors->initial[1].packet, datagram + first);
        IS(OK, wireseal_quic_packet_read(datagram, first + second, 0, &read));
        HOLDS(read.version == vectors->version && read.packet_type == WIRESEAL_QUIC_PACKET_TYPE_INITIAL && read.length == first);
        HOLDS(are(datagram + read.destination_id_offset, read.destination_id_length, vectors->destination));
        HOLDS(read.source_id_length == 0 && read.token_length == 0);
        IS(OK, wireseal_quic_packet_read(datagram + first, second, 0, &read));
        HOLDS(read.length == second && read.destination_id_length == 0 && read.source_id_length == 8 && read.source_id_offset == 7);
        IS(NOT_A_PACKET, wireseal_quic_packet_read(datagram, first - 1, 0, &read));
    }
}

static void retry(const struct quic_vectors *vectors)
{
    uint8_t original[20], packet[64], tag[TAG], payload[ROOM];
    const size_t original_length = octets(vectors->destination, original), length = octets(vectors->retry, packet);
    struct wireseal_quic_retry found;
    struct wireseal_quic_packet read;
    size_t i;

    IS(OK, wireseal_quic_retry_tag(vectors->version, original, original_length, packet, length - TAG, tag));
    HOLDS(memcmp(tag, packet + length - TAG, TAG) == 0);
    IS(OK, wireseal_quic_retry_verify(vectors->version, original, original_length, packet, length, &found));
    HOLDS(are(packet + found.source_id_offset, found.source_id_length, "f067a5502a4262b5"));
    HOLDS(found.token_length == 5 && memcmp(packet + found.token_offset, "token", 5) == 0);

    memset(&found, 0xa5, sizeof found);
    for (i = length - TAG; i < length; i++) {
        packet[i] ^= 1;
        IS(RETRY_TAG, wireseal_quic_retry_verify(vectors->version, original, original_length, packet, length, &found));
        packet[i] ^= 1;
    }
    original[0] ^= 1;
    IS(RETRY_TAG, wireseal_quic_retry_verify(vectors->version, original, original_length, packet, length, &found));
    original[0] ^= 1;
    IS(NOT_RETRY, wireseal_quic_retry_verify(vectors->version ^ WIRESEAL_QUIC_VERSION_V1 ^ WIRESEAL_QUIC_VERSION_V2, original, original_length, packet,
                                             length, &found));
    IS(NOT_A_PACKET, wireseal_quic_retry_verify(vectors->version, original, original_length, packet, 15, &found));
    i = octets(vectors->initial[0].packet, payload);
    IS(NOT_RETRY, wireseal_quic_retry_verify(vectors->version, original, original_length, payload, i, &found));
    /* One that leads back to the same connection ID, with the right tag. */
    IS(OK, wireseal_quic_retry_tag(vectors->version, packet + 7, 8, packet, length - TAG, packet + length - TAG));
    IS(SAME_CONNECTION_ID, wireseal_quic_retry_verify(vectors->version, packet + 7, 8, packet, length, &found));
    HOLDS(are_all((const uint8_t *)&found, sizeof found, 0xa5));
    IS(NOT_PROTECTED, wireseal_quic_packet_read(packet, length, 0, &read));
    HOLDS(read.version == vectors->version && read.packet_type == WIRESEAL_QUIC_PACKET_TYPE_RETRY && read.length == length);
    HOLDS(read.destination_id_length == 0 && read.source_id_offset == 7 && read.source_id_length == 8 && read.token_length == 0);
}

/* A client's first packet of another version, a server's answer to it, and what the client makes of that. */
static void versions(void)
{
    const uint32_t offered[] = {WIRESEAL_QUIC_VERSION_V1, 0x1a2a3a4a, WIRESEAL_QUIC_VERSION_V2}, other = 0xbabababa;
    uint8_t asked[1200] = {0xc0, 0xba, 0xba, 0xba, 0xba, 21}, answer[64];
    const uint8_t *destination = asked + 6, *source = asked + 28;
    struct wireseal_quic_packet read;
    uint32_t found[3] = {0};
    size_t length = 0, count = 0, i;

    memset(asked + 6, 'd', 21);
    asked[27] = 4;
    memset(asked + 28, 's', 4);
    memset(&read, 0xa5, sizeof read);
    IS(UNKNOWN_VERSION, wireseal_quic_packet_read(asked, sizeof asked, 8, &read));
    HOLDS(read.version == other && read.packet_type == WIRESEAL_QUIC_PACKET_TYPE_OTHER_VERSION && read.length == sizeof asked);
    HOLDS(read.destination_id_offset == 6 && read.destination_id_length == 21 && read.source_id_offset == 28 && read.source_id_length == 4);
    HOLDS(read.token_offset == 0 && read.token_length == 0 && read.reserved[0] == 0 && read.reserved[1] == 0);
    for (i = 0; i < 32; i++)
        IS(NOT_A_PACKET, wireseal_quic_packet_read(asked, i, 31, &read));

    IS(OK, wireseal_quic_version_negotiation_write(0xff, asked, sizeof asked, offered, 3, answer, sizeof answer, &length));
    HOLDS(length == 5 + 5 + 22 + 12 && answer[0] == 0xff);
    IS(NOT_PROTECTED, wireseal_quic_packet_read(answer, length, 4, &read));
    HOLDS(read.version == 0 && read.packet_type == WIRESEAL_QUIC_PACKET_TYPE_VERSION_NEGOTIATION && read.length == length);
    HOLDS(read.destination_id_length == 4 && memcmp(answer + read.destination_id_offset, source, 4) == 0);
    HOLDS(read.source_id_length == 21 && memcmp(answer + read.source_id_offset, destination, 21) == 0);

    IS(OK, wireseal_quic_version_negotiation_read(other, destination, 21, source, 4, answer, length, found, 3, &count));
    HOLDS(count == 3 && memcmp(found, offered, sizeof found) == 0);
    memset(found, 0, sizeof found);
    count = 0;
    IS(TOO_SMALL, wireseal_quic_version_negotiation_read(other, destination, 21, source, 4, answer, length, found, 2, &count));
    HOLDS(count == 3 && found[0] == 0);
    count = 0;
    /* It names the client's version, or has other IDs, or ends too early. */
    IS(NOT_VERSION_NEGOTIATION, wireseal_quic_version_negotiation_read(offered[1], destination, 21, source, 4, answer, length, found, 3, &count));
    IS(NOT_VERSION_NEGOTIATION, wireseal_quic_version_negotiation_read(other, source, 4, destination, 21, answer, length, found, 3, &count));
    IS(NOT_VERSION_NEGOTIATION, wireseal_quic_version_negotiation_read(other, destination, 20, source, 4, answer, length, found, 3, &count));
    IS(NOT_VERSION_NEGOTIATION, wireseal_quic_version_negotiation_read(other, destination, 21, source, 3, answer, length, found, 3, &count));
    IS(NOT_VERSION_NEGOTIATION, wireseal_quic_version_negotiation_read(other, destination, 21, source, 4, answer, length - 1, found, 3, &count));
    IS(NOT_VERSION_NEGOTIATION, wireseal_quic_version_negotiation_read(other, destination, 21, source, 4, asked, sizeof asked, found, 3, &count));
    HOLDS(count == 0 && found[0] == 0);
}

/* A packet with a short header, the connection ID "id", packet number 0x0102, and octets of 0x55. */
static size_t draft(uint8_t *packet, size_t payload_length, uint8_t bits)
{
    const uint8_t header[] = {0x41, 'i', 'd', 0x01, 0x02};

    memcpy(packet, header, sizeof header);
    packet[0] |= bits;
    memset(packet + sizeof header, 0x55, payload_length);
    memset(packet + sizeof header + payload_length, 0xa5, TAG);
    return sizeof header + payload_length + TAG;
}

static void packets_of(uint32_t algorithm)
{
    uint8_t secret[48], packet[ROOM], sealed[ROOM], before[ROOM], mask[5];
    const size_t secret_length = wireseal_quic_secret_length(algorithm);
    const uint32_t version = WIRESEAL_QUIC_VERSION_V1;
    struct wireseal_quic_opened opened;
    struct keys keys, next;
    size_t length, i;

    memset(secret, 0x17, sizeof secret);
    make_keys(&keys, version, algorithm, secret, secret_length);
    IS(OK, wireseal_quic_next_secret(version, algorithm, secret, secret_length, secret));
    make_keys(&next, version, algorithm, secret, secret_length);

    length = draft(packet, 100, 0);
    IS(OK, wireseal_quic_seal(keys.packet, keys.header, 0, 0x0102, packet, length, 5));
    memcpy(sealed, packet, length);
    /* The mask is the one of the sample, four octets after the start of the packet number. */
    IS(OK, wireseal_quic_mask(keys.header, packet + 3 + 4, mask));
    HOLDS((packet[0] ^ (mask[0] & 0x1f)) == 0x41 && (packet[3] ^ mask[1]) == 0x01 && (packet[4] ^ mask[2]) == 0x02);
    HOLDS(!are_all(packet + 5, 100, 0x55));

    /* Any octet changed: the header stays, the plaintext does not. */
    for (i = 0; i < length; i++) {
        enum wireseal_status status;
        memset(&opened, 0xa5, sizeof opened);
        packet[i] ^= 0x20;
        memcpy(before, packet, length);
        status = wireseal_quic_open(keys.packet, keys.header, 0, packet, length, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened);
        HOLDS(status == WIRESEAL_STATUS_NOT_AUTHENTIC);
        HOLDS(memcmp(packet, before, 3) == 0 && memcmp(packet + length - TAG, before + length - TAG, TAG) == 0);
        HOLDS(are_all(packet + 7, length - 7 - TAG, 0));
        HOLDS(are_all((const uint8_t *)&opened, sizeof opened, 0xa5));
        memcpy(packet, sealed, length);
    }
    /* Another path, another number, another key. */
    IS(NOT_AUTHENTIC, wireseal_quic_open(keys.packet, keys.header, 1, packet, length, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened));
    memcpy(packet, sealed, length);
    IS(NOT_AUTHENTIC, wireseal_quic_open(keys.packet, keys.header, 0, packet, length, 2, 0x40000, WIRESEAL_QUIC_PHASE_ANY, &opened));
    memcpy(packet, sealed, length);
    IS(NOT_AUTHENTIC, wireseal_quic_open(next.packet, keys.header, 0, packet, length, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened));
    memcpy(packet, sealed, length);
    IS(BAD_ARGUMENT, wireseal_quic_open(keys.packet, keys.header, 0, packet, length, 2, 0x0101, 3, &opened));
    IS(OK, wireseal_quic_open(keys.packet, keys.header, 0, packet, length, 2, WIRESEAL_QUIC_NONE, WIRESEAL_QUIC_PHASE_ZERO, &opened));
    HOLDS(opened.number == 0x0102 && opened.payload_offset == 5 && opened.payload_length == 100 && are_all(packet + 5, 100, 0x55));

    /* A key update: the first header key, the next packet key, and another path. */
    length = draft(packet, 100, 0x04);
    IS(OK, wireseal_quic_seal(next.packet, keys.header, 7, 0x0102, packet, length, 5));
    memcpy(sealed, packet, length);
    IS(OTHER_PHASE, wireseal_quic_open(keys.packet, keys.header, 7, packet, length, 2, 0x0101, WIRESEAL_QUIC_PHASE_ZERO, &opened));
    HOLDS(memcmp(packet, sealed, length) == 0 && opened.number == 0x0102 && opened.phase == 1 && opened.packet_length == length);
    IS(OK, wireseal_quic_open(next.packet, keys.header, 7, packet, length, 2, 0x0101, opened.phase, &opened));
    HOLDS(opened.phase == 1 && are_all(packet + 5, 100, 0x55));

    /* What the peer must not send, and what cannot be sealed. */
    length = draft(packet, 100, 0x08);
    IS(OK, wireseal_quic_seal(keys.packet, keys.header, 0, 0x0102, packet, length, 5));
    IS(RESERVED_BITS, wireseal_quic_open(keys.packet, keys.header, 0, packet, length, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened));
    HOLDS(are_all(packet + 5, 100 + TAG, 0));
    length = draft(packet, 0, 0x02);
    memcpy(before, packet, length);
    IS(NO_FRAMES, wireseal_quic_seal(keys.packet, keys.header, 0, 0x0102, packet, length, 5));
    IS(TOO_SMALL, wireseal_quic_seal(keys.packet, keys.header, 0, 0x0102, packet, 20, 5));
    IS(BAD_ARGUMENT, wireseal_quic_seal(keys.packet, keys.header, 0, 0x0102, packet, length, 4));
    IS(BAD_ARGUMENT, wireseal_quic_seal(keys.packet, keys.header, 0, 0x0102, packet, length, 3));
    IS(NUMBER_TOO_LARGE, wireseal_quic_seal(keys.packet, keys.header, 0, (uint64_t)1 << 62, packet, length, 5));
    IS(TOO_SHORT_FOR_SAMPLE, wireseal_quic_open(keys.packet, keys.header, 0, packet, 21, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened));
    IS(NOT_A_PACKET, wireseal_quic_open(keys.packet, keys.header, 0, packet, 2, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened));
    IS(NOT_A_PACKET, wireseal_quic_open(keys.packet, keys.header, 0, NULL, 0, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened));
    IS(NULL_POINTER, wireseal_quic_open(keys.packet, keys.header, 0, NULL, 1, 2, 0x0101, WIRESEAL_QUIC_PHASE_ANY, &opened));
    HOLDS(memcmp(packet, before, length) == 0);
    /* Two octets of packet number and one of payload: a sample starts four octets after the number's first. */
    length = draft(packet, 1, 0);
    memcpy(before, packet, length);
    IS(TOO_SHORT_FOR_SAMPLE, wireseal_quic_seal(keys.packet, keys.header, 0, 0x0102, packet, length, 5));
    HOLDS(memcmp(packet, before, length) == 0);
    end_keys(&keys);
    end_keys(&next);
}

static void aead(const struct aead_vector *vector)
{
    static uint8_t memory[WIRESEAL_AEAD_KEY_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));
    static uint8_t mask_memory[WIRESEAL_MASK_KEY_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));
    uint8_t key_octets[32], nonce[12], aad[32], text[ROOM], other[ROOM], mask[5], other_mask[5];
    const size_t key_length = octets(vector->key, key_octets), aad_length = octets(vector->aad, aad);
    const size_t length = octets(vector->text, text), nonce_length = octets(vector->nonce, nonce);
    struct wireseal_aead_key *key;
    struct wireseal_mask_key *mask_key;
    char served_by[64];
    size_t i;

    HOLDS(nonce_length == sizeof nonce && key_length == wireseal_aead_key_length(vector->algorithm));
    IS(KEY_LENGTH, wireseal_aead_key_new(memory, sizeof memory, vector->algorithm, key_octets, key_length + 1, &key));
    IS(OK, wireseal_aead_key_new(memory, sizeof memory, vector->algorithm, key_octets, key_length, &key));
    IS(KEY_LENGTH, wireseal_mask_key_new(mask_memory, sizeof mask_memory, vector->algorithm, key_octets, key_length - 1, &mask_key));
    IS(OK, wireseal_mask_key_new(mask_memory, sizeof mask_memory, vector->algorithm, key_octets, key_length, &mask_key));
    IS(OK, wireseal_aead_key_served_by(key, served_by, sizeof served_by));
    HOLDS(strlen(served_by) > 0);
    IS(TOO_SMALL, wireseal_aead_key_served_by(key, served_by, strlen(served_by)));

    IS(OK, wireseal_aead_seal(key, nonce, aad, aad_length, text, length, text + length));
    HOLDS(are(text, length + TAG, vector->sealed));
    IS(OK, wireseal_aead_open(key, nonce, aad, aad_length, text, length, text + length));
    HOLDS(are(text, length, vector->text));

    /* From one buffer to another, and to a place that overlaps. */
    IS(OK, wireseal_aead_seal_to(key, nonce, aad, aad_length, text, length, other));
    HOLDS(are(other, length + TAG, vector->sealed) && are(text, length, vector->text));
    memset(text, 0, length);
    IS(OK, wireseal_aead_open_to(key, nonce, aad, aad_length, other, length + TAG, text));
    HOLDS(are(other, length + TAG, vector->sealed) && are(text, length, vector->text));
    other[length] ^= 1;
    IS(NOT_AUTHENTIC, wireseal_aead_open_to(key, nonce, aad, aad_length, other, length + TAG, text));
    other[length] ^= 1;
    HOLDS(are(other, length + TAG, vector->sealed) && are_all(text, length, 0));
    octets(vector->text, text);
    for (i = 0; i < 2 * TAG; i++) {
        octets(vector->text, other + TAG);
        IS(OK, wireseal_aead_seal_to(key, nonce, aad, aad_length, other + TAG, length, other + i));
        HOLDS(are(other + i, length + TAG, vector->sealed));
        IS(OK, wireseal_aead_open_to(key, nonce, aad, aad_length, other + i, length + TAG, other + TAG));
        HOLDS(are(other + TAG, length, vector->text));
    }
    IS(BAD_ARGUMENT, wireseal_aead_seal_to(key, nonce, other + length + TAG - 1, 5, text, length, other));
    IS(BAD_ARGUMENT, wireseal_aead_open_to(key, nonce, text + length - 1, 5, other, length + TAG, text));
    HOLDS(are(text, length, vector->text));

    /* The mask of a sample that reaches into the tag is the same in one pass and in two. */
    IS(OK, wireseal_aead_seal_with_mask(key, mask_key, nonce, aad, aad_length, text, length, length - 3, mask));
    HOLDS(are(text, length + TAG, vector->sealed));
    IS(OK, wireseal_mask(mask_key, text + length - 3, other_mask));
    HOLDS(memcmp(mask, other_mask, sizeof mask) == 0);
    IS(TOO_SHORT_FOR_SAMPLE, wireseal_aead_seal_with_mask(key, mask_key, nonce, aad, aad_length, text, length, length + 1, mask));
    HOLDS(are(text, length + TAG, vector->sealed));

    /* Buffers that overlap by one octet: nothing is changed. */
    IS(BAD_ARGUMENT, wireseal_aead_seal(key, nonce, aad, aad_length, text, length, text + length - 1));
    IS(BAD_ARGUMENT, wireseal_aead_seal(key, nonce, text + length - 1, 20, text, length, aad));
    IS(BAD_ARGUMENT, wireseal_aead_seal(key, nonce, text, 5, text + 4, length - 4, aad));
    IS(BAD_ARGUMENT, wireseal_aead_seal_with_mask(key, mask_key, nonce, text + length + TAG - 1, 20, text, length, 0, mask));
    IS(BAD_ARGUMENT, wireseal_aead_open(key, nonce, aad, aad_length, text + 15, length - 15, text));
    IS(BAD_ARGUMENT, wireseal_aead_open(key, nonce, text, 5, text + 4, length - 4, aad));
    HOLDS(are(text, length + TAG, vector->sealed));

    for (i = 0; i < length + TAG; i++) {
        octets(vector->sealed, text);
        text[i] ^= 1;
        IS(NOT_AUTHENTIC, wireseal_aead_open(key, nonce, aad, aad_length, text, length, text + length));
        HOLDS(are_all(text, length, 0));
    }
    octets(vector->sealed, text);
    IS(NOT_AUTHENTIC, wireseal_aead_open(key, nonce, aad, aad_length - 1, text, length, text + length));
    /* Nothing to encrypt, nothing to authenticate: a tag all the same. */
    IS(OK, wireseal_aead_seal(key, nonce, NULL, 0, NULL, 0, text));
    IS(OK, wireseal_aead_open(key, nonce, NULL, 0, NULL, 0, text));
    IS(OK, wireseal_aead_key_end(key));
    IS(OK, wireseal_mask_key_end(mask_key));
    HOLDS(are_all(memory, wireseal_aead_key_size(), 0) && are_all(mask_memory, wireseal_mask_key_size(), 0));
}

int main(void)
{
    size_t i;

    for (i = 0; i < sizeof QUIC_VECTORS / sizeof *QUIC_VECTORS; i++) {
        published(&QUIC_VECTORS[i]);
        retry(&QUIC_VECTORS[i]);
    }
    versions();
    for (i = 0; i < sizeof ALGORITHMS / sizeof *ALGORITHMS; i++)
        packets_of(ALGORITHMS[i]);
    for (i = 0; i < sizeof AEAD_VECTORS / sizeof *AEAD_VECTORS; i++)
        aead(&AEAD_VECTORS[i]);
    HOLDS(wireseal_quic_confidentiality_limit(WIRESEAL_AEAD_ALGORITHM_AES128_GCM) == 1 << 23);
    HOLDS(wireseal_quic_confidentiality_limit(WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305) == UINT64_MAX);
    HOLDS(wireseal_quic_integrity_limit(WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305) == (uint64_t)1 << 36);
    HOLDS(wireseal_quic_confidentiality_limit(0) == 0 && wireseal_quic_integrity_limit(0x1305) == 0);
    HOLDS(wireseal_quic_secret_length(0x1302) == 48 && wireseal_quic_secret_length(0x11301) == 0 && wireseal_aead_key_length(0x1305) == 0);
    return 0;
}
