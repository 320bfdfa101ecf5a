/* The time for each packet with Wireseal's callbacks for ngtcp2 and with its own (GnuTLS). What both make of the same packets is compared
   first. They take turns, in rounds of 100 packets; the best round of each is printed. */

#include <stdio.h>
#include <time.h>

#include <gnutls/crypto.h>

/* For its functions that make keys. */
#include "wireseal.c"

#define PACKETS 100
#define ROUNDS 4000
#define HEADER_LENGTH 11
#define MAX_PAYLOAD 1400

static struct usage usage;

struct usage *usage_of(void *user_data) {
    (void)user_data;
    return &usage;
}

/* What ngtcp2 has when it calls: callbacks, contexts of one direction for either end, and the IV. */
struct side {
    ngtcp2_callbacks callbacks;
    ngtcp2_crypto_aead aead;
    ngtcp2_crypto_cipher cipher;
    ngtcp2_crypto_aead_ctx seal, open;
    ngtcp2_crypto_cipher_ctx seal_mask, open_mask;
    uint8_t iv[NONCE_LENGTH];
    double best_seal, best_open;
};

static void die(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void side_new(struct side *side, const struct crypto *crypto, uint32_t algorithm) {
    static uint64_t count;
    const uint8_t secret[48] = {7};
    size_t secret_length = wireseal_quic_secret_length(algorithm);
    memset(side, 0, sizeof *side);
    crypto->set_callbacks(&side->callbacks);
    side->aead.max_overhead = TAG_LENGTH;
    side->best_seal = side->best_open = 1e9;
    if (crypto == &wireseal_crypto) {
        struct keys seal, open;
        if (!keys_derive(&seal, algorithm, secret, secret_length, false, &count) ||
            !keys_derive(&open, algorithm, secret, secret_length, false, &count)) {
            die("no keys");
        }
        set_header_key(&seal.aead, seal.mask.native_handle);
        side->seal = seal.aead;
        side->seal_mask = seal.mask;
        side->open = open.aead;
        side->open_mask = open.mask;
        memcpy(side->iv, seal.iv, sizeof seal.iv);
    } else {
        /* As ngtcp2's helper makes them. */
        bool is_chacha = algorithm == WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305;
        gnutls_cipher_algorithm_t aead = is_chacha ? GNUTLS_CIPHER_CHACHA20_POLY1305 : GNUTLS_CIPHER_AES_128_GCM;
        gnutls_cipher_algorithm_t cipher = is_chacha ? GNUTLS_CIPHER_CHACHA20_32 : GNUTLS_CIPHER_AES_128_CBC;
        uint8_t key[MAX_KEY_LENGTH], mask_key[MAX_KEY_LENGTH];
        gnutls_datum_t key_datum = {key, (unsigned)wireseal_aead_key_length(algorithm)};
        gnutls_datum_t mask_datum = {mask_key, key_datum.size};
        wireseal_quic_key_octets(NGTCP2_PROTO_VER_V1, algorithm, secret, secret_length, key, side->iv, mask_key);
        side->aead.native_handle = (void *)(uintptr_t)aead;
        side->cipher.native_handle = (void *)(uintptr_t)cipher;
        if (gnutls_aead_cipher_init((gnutls_aead_cipher_hd_t *)&side->seal.native_handle, aead, &key_datum) != 0 ||
            gnutls_aead_cipher_init((gnutls_aead_cipher_hd_t *)&side->open.native_handle, aead, &key_datum) != 0 ||
            gnutls_cipher_init((gnutls_cipher_hd_t *)&side->seal_mask.native_handle, cipher, &mask_datum, NULL) != 0 ||
            gnutls_cipher_init((gnutls_cipher_hd_t *)&side->open_mask.native_handle, cipher, &mask_datum, NULL) != 0) {
            die("no keys of GnuTLS");
        }
    }
}

static void nonce_of(const struct side *side, uint64_t number, uint8_t *nonce) {
    memcpy(nonce, side->iv, NONCE_LENGTH);
    for (size_t i = 0; i < 8; i++) nonce[NONCE_LENGTH - 1 - i] ^= (uint8_t)(number >> 8 * i);
}

/* A short header with a connection ID of eight octets, and a packet number of two. */
static void header_of(uint64_t number, uint8_t *packet) {
    static const uint8_t header[HEADER_LENGTH] = {0x41, 1, 2, 3, 4, 5, 6, 7, 8};
    memcpy(packet, header, HEADER_LENGTH);
    packet[9] = (uint8_t)(number >> 8);
    packet[10] = (uint8_t)number;
}

/* As ngtcp2 writes a packet: the AEAD in place, then the mask. */
static void seal(const struct side *side, uint64_t number, uint8_t *packet, size_t length) {
    uint8_t nonce[NONCE_LENGTH], mask[SAMPLE_LENGTH];
    header_of(number, packet);
    nonce_of(side, number, nonce);
    if (side->callbacks.encrypt(packet + HEADER_LENGTH, &side->aead, &side->seal, packet + HEADER_LENGTH, length, nonce,
                                NONCE_LENGTH, packet, HEADER_LENGTH) != 0 ||
        side->callbacks.hp_mask(mask, &side->cipher, &side->seal_mask, packet + HEADER_LENGTH + 2) != 0) {
        die("a packet was not sealed");
    }
    packet[0] ^= mask[0] & 0x1f;
    packet[9] ^= mask[1];
    packet[10] ^= mask[2];
}

/* As ngtcp2 reads one: the mask over a copy of the header, then the AEAD into another buffer. */
static void open(const struct side *side, uint64_t number, const uint8_t *packet, size_t length, uint8_t *payload) {
    uint8_t nonce[NONCE_LENGTH], mask[SAMPLE_LENGTH], header[HEADER_LENGTH];
    if (side->callbacks.hp_mask(mask, &side->cipher, &side->open_mask, packet + HEADER_LENGTH + 2) != 0) die("no mask");
    memcpy(header, packet, HEADER_LENGTH);
    header[0] ^= mask[0] & 0x1f;
    header[9] ^= mask[1];
    header[10] ^= mask[2];
    nonce_of(side, number, nonce);
    if (side->callbacks.decrypt(payload, &side->aead, &side->open, packet + HEADER_LENGTH, length + TAG_LENGTH, nonce,
                                NONCE_LENGTH, header, HEADER_LENGTH) != 0) {
        die("a packet was not opened");
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Seals and opens packets with both, and compares octet by octet. */
static void compare(const struct side *ours, const struct side *theirs, size_t length) {
    uint8_t a[HEADER_LENGTH + MAX_PAYLOAD + TAG_LENGTH], b[sizeof a], payload[MAX_PAYLOAD];
    for (uint64_t number = 0; number < 300; number++) {
        memset(a, (int)number, sizeof a);
        memset(b, (int)number, sizeof b);
        seal(ours, number, a, length);
        seal(theirs, number, b, length);
        if (memcmp(a, b, HEADER_LENGTH + length + TAG_LENGTH) != 0) die("packets differ");
        open(ours, number, b, length, payload);
        for (size_t i = 0; i < length; i++) {
            if (payload[i] != (uint8_t)number) die("payloads differ");
        }
        open(theirs, number, a, length, payload);
    }
}

static void measure(struct side *side, size_t length) {
    static uint8_t packet[HEADER_LENGTH + MAX_PAYLOAD + TAG_LENGTH], payload[MAX_PAYLOAD];
    double start = now(), time;
    for (uint64_t number = 0; number < PACKETS; number++) seal(side, number, packet, length);
    time = (now() - start) / PACKETS;
    if (time < side->best_seal) side->best_seal = time;
    start = now();
    for (uint64_t number = 0; number < PACKETS; number++) open(side, PACKETS - 1, packet, length, payload);
    time = (now() - start) / PACKETS;
    if (time < side->best_open) side->best_open = time;
}

int main(void) {
    static const struct {
        uint32_t algorithm;
        const char *name;
    } ALGORITHMS[] = {{WIRESEAL_AEAD_ALGORITHM_AES128_GCM, "AES-128-GCM"},
                      {WIRESEAL_AEAD_ALGORITHM_CHACHA20_POLY1305, "ChaCha20-Poly1305"}};
    static const size_t LENGTHS[] = {64, 1200};
    printf("| AEAD | octets | | Wireseal, ns | GnuTLS, ns | Wireseal / GnuTLS |\n");
    printf("| ---- | ------ | - | ------------ | ---------- | ----------------- |\n");
    for (size_t i = 0; i < sizeof ALGORITHMS / sizeof *ALGORITHMS; i++) {
        for (size_t j = 0; j < sizeof LENGTHS / sizeof *LENGTHS; j++) {
            struct side ours, theirs;
            side_new(&ours, &wireseal_crypto, ALGORITHMS[i].algorithm);
            side_new(&theirs, &own_crypto, ALGORITHMS[i].algorithm);
            compare(&ours, &theirs, LENGTHS[j]);
            for (int round = 0; round < ROUNDS; round++) {
                measure(&ours, LENGTHS[j]);
                measure(&theirs, LENGTHS[j]);
            }
            printf("| %s | %zu | seal | %.0f | %.0f | %.2f |\n", ALGORITHMS[i].name, LENGTHS[j], ours.best_seal,
                   theirs.best_seal, ours.best_seal / theirs.best_seal);
            printf("| | | open | %.0f | %.0f | %.2f |\n", ours.best_open, theirs.best_open,
                   ours.best_open / theirs.best_open);
        }
    }
    return 0;
}
