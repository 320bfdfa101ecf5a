/* A QUIC client and a server on ngtcp2, whose packets are protected by Wireseal or, with --crypto own, by ngtcp2's own cryptography.

   ngtcp2-wireseal client|server --address 127.0.0.1:4433 --certificates FOLDER --payload FILE [--suite TLS_AES_128_GCM_SHA256]
                                 [--crypto wireseal|own] [--update-keys] [--retry]

   In the folder are the server's certificate and key, server.pem and server.key, for localhost, and ca.pem, which the client trusts.
   The client sends the file over one stream and gets it back. The server needs a file of the same size. It prints "listening PORT" first. Both print a report as one line of
   JSON. The exit status is 0 if the exchange was completed, 1 if it was not, and 2 if the arguments or
   the files that they name are wrong. */

#include <arpa/inet.h>
#include <getopt.h>
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"

static const struct {
    const char *suite, *cipher;
} SUITES[] = {
    {"TLS_AES_128_GCM_SHA256", "AES-128-GCM"},
    {"TLS_AES_256_GCM_SHA384", "AES-256-GCM"},
    {"TLS_CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"},
    {"TLS_AES_128_CCM_SHA256", "AES-128-CCM"},
};
#define SUITES_LENGTH (sizeof SUITES / sizeof *SUITES)

static const char *cipher_of(const char *suite) {
    for (size_t i = 0; i < SUITES_LENGTH; i++) {
        if (strcmp(suite, SUITES[i].suite) == 0) return SUITES[i].cipher;
    }
    return NULL;
}

static const char *suite_of(const char *cipher) {
    for (size_t i = 0; i < SUITES_LENGTH; i++) {
        if (strcmp(cipher, SUITES[i].cipher) == 0) return SUITES[i].suite;
    }
    return cipher;
}

static bool read_file(const char *name, struct task *task) {
    FILE *file = fopen(name, "rb");
    long length;
    bool is_read = false;
    if (file == NULL) return false;
    if (fseek(file, 0, SEEK_END) == 0 && (length = ftell(file)) > 0 && fseek(file, 0, SEEK_SET) == 0) {
        task->payload_length = (size_t)length;
        task->payload = malloc(task->payload_length);
        is_read = task->payload != NULL && fread(task->payload, 1, task->payload_length, file) == task->payload_length;
    }
    fclose(file);
    return is_read;
}

static bool read_address(const char *text, struct sockaddr_in *address) {
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    char *end;
    unsigned long port;
    if (colon == NULL || (size_t)(colon - text) >= sizeof host) return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    port = strtoul(colon + 1, &end, 10);
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    return colon[1] != '\0' && *end == '\0' && port <= UINT16_MAX && inet_pton(AF_INET, host, &address->sin_addr) == 1;
}

/* The server's certificate and key, or what a client trusts. On failure prints the reason and returns false. */
static bool read_certificates(const char *folder, struct task *task) {
    char certificate[1024], key[1024];
    int error;
    gnutls_certificate_allocate_credentials(&task->credentials);
    snprintf(certificate, sizeof certificate, "%s/%s", folder, task->is_server ? "server.pem" : "ca.pem");
    if (task->is_server) {
        snprintf(key, sizeof key, "%s/server.key", folder);
        error = gnutls_certificate_set_x509_key_file(task->credentials, certificate, key, GNUTLS_X509_FMT_PEM);
    } else {
        error = gnutls_certificate_set_x509_trust_file(task->credentials, certificate, GNUTLS_X509_FMT_PEM);
    }
    if (error < 0) fprintf(stderr, "%s%s: %s\n", certificate, task->is_server ? " or server.key" : "", gnutls_strerror(error));
    return error >= 0;
}

/* Returns what is wrong with the arguments, or NULL. */
static const char *read_arguments(int count, char **arguments, struct task *task, const char **certificates) {
    static const struct option OPTIONS[] = {
        {"address", required_argument, NULL, 'a'}, {"certificates", required_argument, NULL, 'c'},
        {"payload", required_argument, NULL, 'p'}, {"suite", required_argument, NULL, 's'},
        {"crypto", required_argument, NULL, 'y'},  {"update-keys", no_argument, NULL, 'u'},
        {"retry", no_argument, NULL, 'r'},         {NULL, 0, NULL, 0},
    };
    int option;
    memset(task, 0, sizeof *task);
    *certificates = NULL;
    task->crypto = &wireseal_crypto;
    task->cipher = SUITES[0].cipher;
    while ((option = getopt_long(count, arguments, "", OPTIONS, NULL)) != -1) {
        switch (option) {
            case 'a':
                if (!read_address(optarg, &task->address)) return "--address is an IPv4 address and a port, such as 127.0.0.1:4433";
                break;
            case 'c':
                *certificates = optarg;
                break;
            case 'p':
                if (!read_file(optarg, task)) return "--payload is a file of at least one octet that can be read";
                break;
            case 's':
                task->cipher = cipher_of(optarg);
                if (task->cipher == NULL) return "--suite is one of TLS 1.3, such as TLS_AES_128_GCM_SHA256";
                break;
            case 'y':
                if (strcmp(optarg, "wireseal") != 0 && strcmp(optarg, "own") != 0) return "--crypto is wireseal or own";
                task->crypto = strcmp(optarg, "own") == 0 ? &own_crypto : &wireseal_crypto;
                break;
            case 'u':
                task->update_keys = true;
                break;
            case 'r':
                task->retry = true;
                break;
            default:
                return "see the start of main.c";
        }
    }
    if (optind + 1 != count) return "the first argument is client or server, and there is no other";
    task->is_server = strcmp(arguments[optind], "server") == 0;
    if (!task->is_server && strcmp(arguments[optind], "client") != 0) return "the first argument is client or server";
    if (task->address.sin_family == 0 || *certificates == NULL || task->payload == NULL) {
        return "--address, --certificates and --payload are required";
    }
    return NULL;
}

static void print_used(const struct used *used) {
    printf("{\"sealed\": %llu, \"opened\": %llu}", (unsigned long long)used->sealed, (unsigned long long)used->opened);
}

static void print_report(const struct connection *connection) {
    const struct usage *usage = &connection->usage;
    uint8_t digest[32];
    gnutls_hash_fast(GNUTLS_DIG_SHA256, connection->received, connection->received_length, digest);
    printf("{\"version\": \"%s\", \"suite\": \"%s\", \"backend\": \"%s\"", ngtcp2_version(0)->version_str,
           suite_of(gnutls_cipher_get_name(gnutls_cipher_get(connection->tls))),
           usage->served_by[0] == '\0' ? connection->task->crypto->name : usage->served_by);
    printf(", \"received\": %zu, \"sha256\": \"", connection->received_length);
    for (size_t i = 0; i < sizeof digest; i++) printf("%02x", digest[i]);
    printf("\", \"retry\": %s, \"updates_started\": %u, \"initial\": ", connection->retry ? "true" : "false",
           connection->updates_started);
    print_used(&usage->initial);
    printf(", \"handshake\": ");
    print_used(&usage->handshake);
    printf(", \"generations\": [");
    for (size_t i = 0; i <= usage->generation; i++) {
        if (i > 0) printf(", ");
        print_used(&usage->generations[i]);
    }
    printf("]}\n");
}

int main(int count, char **arguments) {
    struct task task;
    struct connection connection;
    const char *certificates, *mistake = read_arguments(count, arguments, &task, &certificates);
    bool is_done;
    if (mistake != NULL) {
        fprintf(stderr, "%s\n", mistake);
        return 2;
    }
    if (!read_certificates(certificates, &task)) return 2;
    is_done = connection_run(&connection, &task);
    if (is_done) print_report(&connection);
    connection_free(&connection);
    gnutls_certificate_free_credentials(task.credentials);
    free(task.payload);
    return is_done ? 0 : 1;
}
