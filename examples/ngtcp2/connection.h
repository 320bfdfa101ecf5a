/* One QUIC connection over a UDP socket, with one stream that carries octets to the server and back. */

#ifndef CONNECTION_H
#define CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>

#include "crypto.h"

#define ALPN "wireseal-interop"

struct task {
    const struct crypto *crypto;
    bool is_server;
    struct sockaddr_in address;
    /* The only suite offered or accepted, as GnuTLS names it. */
    const char *cipher;
    /* A server's certificate and key, or the CA that a client trusts. */
    gnutls_certificate_credentials_t credentials;
    /* Octets that a client sends, and a server receives. */
    uint8_t *payload;
    size_t payload_length;
    bool update_keys, retry;
};

struct connection {
    const struct task *task;
    int socket;
    struct sockaddr_in local, remote;
    ngtcp2_conn *quic;
    ngtcp2_crypto_conn_ref reference;
    gnutls_session_t tls;
    /* A server's, for the tokens in its Retry packets: one for all, because a client may send its first packet again before a Retry arrives. */
    uint8_t token_secret[32];
    /* The stream, or -1; what was received; what was handed to ngtcp2 to send. */
    int64_t stream;
    uint8_t *received;
    size_t received_length, sent;
    bool received_all, sent_all, closed;
    /* What happened. */
    struct usage usage;
    bool retry;
    unsigned updates_started;
};

/* Runs one connection to its end. On failure prints the reason and returns false. The caller frees it either way. */
bool connection_run(struct connection *connection, const struct task *task);
void connection_free(struct connection *connection);

#endif
