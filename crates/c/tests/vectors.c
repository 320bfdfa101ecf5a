/* The packets of RFC 9235, and the same under the algorithms of draft-ietf-tcpm-tcp-ao-algs: derived, signed and verified. */
#include "packets.h"

struct vector {
    char algorithm[32], options[32];
    uint8_t master_key[80], traffic_key[WIRESEAL_TRAFFIC_KEY_MAX], mac[16], packet[512];
    size_t master_key_length, traffic_key_length, mac_length, packet_length;
    uint32_t source_isn, destination_isn, sne;
};

/* Reads hexadecimal digits, and returns how many octets they are. */
static size_t octets(uint8_t *place, size_t size, const char *text)
{
    size_t length = strlen(text) / 2, at;
    CHECK(length <= size);
    for (at = 0; at < length; at++) {
        char digits[3];
        memcpy(digits, text + 2 * at, 2);
        digits[2] = 0;
        place[at] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return length;
}

static void field(struct vector *vector, const char *name, const char *value)
{
    if (strcmp(name, "algorithm") == 0)
        strcpy(vector->algorithm, value);
    else if (strcmp(name, "options") == 0)
        strcpy(vector->options, value);
    else if (strcmp(name, "master_key") == 0)
        vector->master_key_length = octets(vector->master_key, sizeof vector->master_key, value);
    else if (strcmp(name, "traffic_key") == 0)
        vector->traffic_key_length = octets(vector->traffic_key, sizeof vector->traffic_key, value);
    else if (strcmp(name, "mac") == 0)
        vector->mac_length = octets(vector->mac, sizeof vector->mac, value);
    else if (strcmp(name, "source_isn") == 0)
        vector->source_isn = (uint32_t)strtoul(value, NULL, 16);
    else if (strcmp(name, "destination_isn") == 0)
        vector->destination_isn = (uint32_t)strtoul(value, NULL, 16);
    else if (strcmp(name, "sne") == 0)
        vector->sne = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "packet") == 0)
        vector->packet_length = octets(vector->packet, sizeof vector->packet, value);
}

static uint32_t algorithm_of(const char *name)
{
    if (strcmp(name, "HMAC-SHA-1-96") == 0)
        return WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA1;
    if (strcmp(name, "AES-128-CMAC-96") == 0)
        return WIRESEAL_TCP_AO_ALGORITHM_AES128_CMAC;
    if (strcmp(name, "HMAC-SHA256-128") == 0)
        return WIRESEAL_TCP_AO_ALGORITHM_HMAC_SHA256_128;
    CHECK(strcmp(name, "KMAC256-128") == 0);
    return WIRESEAL_TCP_AO_ALGORITHM_KMAC256_128;
}

static void check(struct vector *vector)
{
    const bool is_ipv4 = vector->packet[0] >> 4 == 4;
    const size_t headers = is_ipv4 ? 20 : 40, octets_of_address = is_ipv4 ? 4 : 16;
    uint8_t *tcp = vector->packet + headers, signed_before[512], traffic_key[WIRESEAL_TRAFFIC_KEY_MAX];
    const size_t length = vector->packet_length - headers;
    struct wireseal_mkt mkts[2];
    struct wireseal_kdf_context context;
    size_t got, ao = TCP_HEADER, index = 99;

    memset(mkts, 0, sizeof mkts);
    memset(&context, 0, sizeof context);
    context.source.address.version = context.destination.address.version = is_ipv4 ? 4 : 6;
    memcpy(context.source.address.octets, vector->packet + (is_ipv4 ? 12 : 8), octets_of_address);
    memcpy(context.destination.address.octets, vector->packet + (is_ipv4 ? 16 : 24), octets_of_address);
    context.source.port = (uint16_t)get16(tcp);
    context.destination.port = (uint16_t)get16(tcp + 2);
    context.source_isn = vector->source_isn;
    context.destination_isn = vector->destination_isn;
    while (tcp[ao] != 29)
        ao += tcp[ao] == 1 ? 1 : tcp[ao + 1];
    mkts[1].send_id = mkts[1].recv_id = tcp[ao + 2];
    mkts[1].mac_length = (uint8_t)vector->mac_length;
    mkts[1].algorithm = algorithm_of(vector->algorithm);
    mkts[1].options_excluded = strcmp(vector->options, "covered") != 0;
    mkts[1].allow_short_master_key = 1;
    mkts[1].master_key = vector->master_key;
    mkts[1].master_key_length = vector->master_key_length;
    /* Another key, for another id. */
    mkts[0] = mkts[1];
    mkts[0].send_id = mkts[0].recv_id = (uint8_t)(mkts[1].recv_id + 1);

    OK(wireseal_traffic_key(&mkts[1], &context, traffic_key, sizeof traffic_key, &got));
    CHECK(got == vector->traffic_key_length && memcmp(traffic_key, vector->traffic_key, got) == 0);
    EXPECT(WIRESEAL_STATUS_TOO_SMALL, wireseal_traffic_key(&mkts[1], &context, traffic_key, got - 1, &got));

    OK(wireseal_segment_verify(mkts, 2, &context, vector->sne, tcp, length, &index));
    CHECK(index == 1);
    EXPECT(WIRESEAL_STATUS_UNKNOWN_KEY_ID, wireseal_segment_verify(mkts, 1, &context, vector->sne, tcp, length, NULL));
    EXPECT(WIRESEAL_STATUS_BAD_MAC, wireseal_segment_verify(mkts, 2, &context, vector->sne + 1, tcp, length, NULL));
    context.source_isn++;
    EXPECT(WIRESEAL_STATUS_BAD_MAC, wireseal_segment_verify(mkts, 2, &context, vector->sne, tcp, length, NULL));
    context.source_isn--;

    memcpy(signed_before, tcp, length);
    memset(tcp + ao + 2, 0, 2 + vector->mac_length);
    OK(wireseal_segment_sign(&mkts[1], &context, vector->sne, signed_before[ao + 3], tcp, length));
    CHECK(memcmp(tcp, signed_before, length) == 0);

    context.source.port++;
    EXPECT(WIRESEAL_STATUS_OTHER_CONNECTION, wireseal_segment_verify(mkts, 2, &context, vector->sne, tcp, length, NULL));
    EXPECT(WIRESEAL_STATUS_OTHER_CONNECTION, wireseal_segment_sign(&mkts[1], &context, vector->sne, 0, tcp, length));
    CHECK(memcmp(tcp, signed_before, length) == 0);
}

/* Checks every vector of a file, each of which ends with its packet. */
static unsigned file(const char *path)
{
    static char line[4096];
    struct vector vector;
    unsigned count = 0;
    FILE *lines = fopen(path, "r");
    CHECK(lines != NULL);
    memset(&vector, 0, sizeof vector);
    while (fgets(line, sizeof line, lines) != NULL) {
        char name[32], value[2048];
        if (sscanf(line, " \"%31[^\"]\": \"%2047[^\"]\"", name, value) != 2 && sscanf(line, " \"%31[^\"]\": %2047[0-9]", name, value) != 2)
            continue;
        field(&vector, name, value);
        if (strcmp(name, "packet") == 0) {
            check(&vector);
            count++;
        }
    }
    fclose(lines);
    return count;
}

int main(void)
{
    uint8_t options[40];
    size_t used = 0;

    CHECK(file("crates/tcp-ao/tests/data/vectors/rfc9235.json") == 32);
    CHECK(file("crates/tcp-ao/tests/data/vectors/draft-tcp-ao-algs.json") == 64);

    memset(options, 0x5a, sizeof options);
    OK(wireseal_segment_append_ao(options, sizeof options, 2, 12, &used));
    CHECK(used == 20 && options[1] == 0x5a && options[2] == 29 && options[3] == 16 && options[18] == 1 && options[20] == 0x5a);
    EXPECT(WIRESEAL_STATUS_MAC_LENGTH, wireseal_segment_append_ao(options, sizeof options, 0, 17, &used));
    EXPECT(WIRESEAL_STATUS_MAC_LENGTH, wireseal_segment_append_ao(options, sizeof options, 0, 3, &used));
    EXPECT(WIRESEAL_STATUS_NO_ROOM, wireseal_segment_append_ao(options, sizeof options, 24, 16, &used));
    CHECK(used == 20);
    puts("96 packets: derived, verified, signed");
    return 0;
}
