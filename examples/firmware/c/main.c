/* Both ends of a TCP connection under TCP-AO on a microcontroller, in memory that was set aside when the program was linked. */
#include "board.h"
#include "wireseal.h"

#ifdef PANICS
/* In a library that was built with --cfg wireseal_panics. */
enum wireseal_status wireseal_connection_panic(struct wireseal_connection *connection);
#endif

enum { SYN = 2, ACK = 16, HEADER = 20 };

static uint8_t client_memory[WIRESEAL_CONNECTION_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));
static uint8_t server_memory[WIRESEAL_CONNECTION_SIZE] __attribute__((aligned(WIRESEAL_ALIGN)));

static const struct wireseal_pair pair = {
    {{4, {192, 0, 2, 1}}, 50000},
    {{4, {192, 0, 2, 2}}, 179},
};
/* For a laboratory. A product has keys of its own for each device, in a part of its flash that no one can read. */
static const struct wireseal_mkt key = {
    .send_id = 100,
    .recv_id = 100,
    .algorithm = ALGORITHM,
    .master_key = (const uint8_t *)"a secret of 24 octets ..",
    .master_key_length = 24,
};

/* A segment as a TCP stack makes it, with its AO option, signed; returns its length. The ports are in `tcp`. */
static size_t segment(struct wireseal_connection *from, uint8_t *tcp, uint8_t sequence, uint8_t acknowledgment, uint8_t flags)
{
    size_t options = 0, at;
    for (at = 4; at < HEADER; at++)
        tcp[at] = 0;
    tcp[7] = sequence;
    tcp[11] = acknowledgment;
    tcp[13] = flags;
    if (wireseal_connection_append_ao(from, tcp + HEADER, 40, 0, &options) != WIRESEAL_STATUS_OK)
        return 0;
    tcp[12] = (uint8_t)((HEADER + options) / 4 << 4);
    if (wireseal_connection_sign(from, tcp, HEADER + options) != WIRESEAL_STATUS_OK)
        return 0;
    return HEADER + options;
}

static int report(const char *what, enum wireseal_status status)
{
    print(what);
    print(": ");
    print(wireseal_status_text(status));
    print("\n");
    return status;
}

int run(void)
{
    uint8_t to_server[60] = {50000 >> 8, 50000 & 255, 0, 179}, to_client[60] = {0, 179, 50000 >> 8, 50000 & 255};
    struct wireseal_connection *client, *server;
    size_t length;
    int failed = 0;

    failed |= report("open", wireseal_connection_active(client_memory, sizeof client_memory, &pair, 10, &key, 1, &client));
    length = segment(client, to_server, 10, 0, SYN);
    failed |= report("SYN", wireseal_connection_passive(server_memory, sizeof server_memory, &pair.local.address, &pair.remote.address,
                                                        to_server, length, &key, 1, &server));
    length = segment(server, to_client, 20, 11, SYN | ACK);
    failed |= report("SYN-ACK", wireseal_connection_verify(client, to_client, length, NULL));
    length = segment(client, to_server, 11, 21, ACK);
    failed |= report("ACK", wireseal_connection_verify(server, to_server, length, NULL));
    to_server[7]++;
    failed |= report("changed", wireseal_connection_verify(server, to_server, length, NULL)) != WIRESEAL_STATUS_BAD_MAC;
#ifdef PANICS
    wireseal_connection_panic(client);
#endif
    failed |= report("end", wireseal_connection_end(client)) | wireseal_connection_end(server);

    print("octets: connection ");
    print_number(wireseal_connection_size());
    print(", shim ");
    print_number(wireseal_shim_size(0, 0));
    print(", its peer ");
    print_number(wireseal_shim_size(1, 0) - wireseal_shim_size(0, 0));
    print(", its connection ");
    print_number(wireseal_shim_size(0, 1) - wireseal_shim_size(0, 0));
    print(", deepest stack ");
    print_number(deepest_stack());
    print("\n");
    return failed;
}
