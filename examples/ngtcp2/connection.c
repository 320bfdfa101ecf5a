#include "connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#define ID_LENGTH 8
#define MAX_DATAGRAM 1452
#define RETRY_SECONDS 10

/* The idle timeout: longer than any peer in the lab takes to answer. */
#define IDLE_SECONDS 10

static bool fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return false;
}

static ngtcp2_tstamp now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (ngtcp2_tstamp)time.tv_sec * NGTCP2_SECONDS + (ngtcp2_tstamp)time.tv_nsec;
}

static void random_octets(uint8_t *octets, size_t length) {
    if (gnutls_rnd(GNUTLS_RND_RANDOM, octets, length) != 0) abort();
}

static ngtcp2_cid new_id(void) {
    uint8_t octets[ID_LENGTH];
    ngtcp2_cid id;
    random_octets(octets, sizeof octets);
    ngtcp2_cid_init(&id, octets, sizeof octets);
    return id;
}

/* Callbacks that have nothing to do with packet protection. */

static void on_random(uint8_t *octets, size_t length, const ngtcp2_rand_ctx *context) {
    (void)context;
    random_octets(octets, length);
}

static int on_new_id(ngtcp2_conn *quic, ngtcp2_cid *id, uint8_t *token, size_t length, void *user_data) {
    (void)quic, (void)user_data;
    id->datalen = length;
    random_octets(id->data, length);
    random_octets(token, NGTCP2_STATELESS_RESET_TOKENLEN);
    return 0;
}

static int on_stream_data(ngtcp2_conn *quic, uint32_t flags, int64_t stream, uint64_t offset, const uint8_t *data,
                          size_t length, void *user_data, void *stream_data) {
    struct connection *connection = user_data;
    (void)quic, (void)stream_data;
    /* A client has opened its stream; a server takes the first. */
    if (connection->stream < 0) connection->stream = stream;
    if (stream != connection->stream || length > connection->task->payload_length - offset) {
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    if (length > 0) memcpy(connection->received + offset, data, length);
    connection->received_length = offset + length;
    connection->received_all = flags & NGTCP2_STREAM_DATA_FLAG_FIN;
    return 0;
}

static ngtcp2_conn *quic_of(ngtcp2_crypto_conn_ref *reference) {
    return ((struct connection *)reference->user_data)->quic;
}

struct usage *usage_of(void *user_data) {
    return &((struct connection *)user_data)->usage;
}

static bool tls_new(struct connection *connection) {
    const struct task *task = connection->task;
    gnutls_datum_t alpn = {(unsigned char *)ALPN, sizeof ALPN - 1};
    char priority[128];
    int error;

    snprintf(priority, sizeof priority, "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+%s:%%DISABLE_TLS13_COMPAT_MODE",
             task->cipher);
    gnutls_init(&connection->tls, task->is_server ? GNUTLS_SERVER | GNUTLS_NO_AUTO_SEND_TICKET : GNUTLS_CLIENT);
    error = gnutls_priority_set_direct(connection->tls, priority, NULL);
    if (error < 0) return fail(task->cipher, gnutls_strerror(error));
    gnutls_credentials_set(connection->tls, GNUTLS_CRD_CERTIFICATE, task->credentials);
    gnutls_alpn_set_protocols(connection->tls, &alpn, 1, GNUTLS_ALPN_MANDATORY);
    if (task->is_server) {
        ngtcp2_crypto_gnutls_configure_server_session(connection->tls);
    } else {
        ngtcp2_crypto_gnutls_configure_client_session(connection->tls);
        gnutls_server_name_set(connection->tls, GNUTLS_NAME_DNS, "localhost", strlen("localhost"));
        gnutls_session_set_verify_cert(connection->tls, "localhost", 0);
    }
    connection->reference.get_conn = quic_of;
    connection->reference.user_data = connection;
    gnutls_session_set_ptr(connection->tls, &connection->reference);
    task->crypto->prepare_tls(connection->tls);
    return true;
}

static ngtcp2_path path_of(struct connection *connection) {
    ngtcp2_path path = {{(struct sockaddr *)&connection->local, sizeof connection->local},
                        {(struct sockaddr *)&connection->remote, sizeof connection->remote},
                        NULL};
    return path;
}

/* A client's connection if `initial` is NULL, otherwise a server's that answers it. `original_id` is where the client sent its first packet,
   before a Retry. */
static bool quic_new(struct connection *connection, const ngtcp2_pkt_hd *initial, const ngtcp2_cid *original_id) {
    const struct task *task = connection->task;
    ngtcp2_path path = path_of(connection);
    ngtcp2_cid id = new_id(), destination = new_id();
    ngtcp2_callbacks callbacks;
    ngtcp2_settings settings;
    ngtcp2_transport_params parameters;
    int error;

    memset(&callbacks, 0, sizeof callbacks);
    callbacks.rand = on_random;
    callbacks.get_new_connection_id = on_new_id;
    callbacks.recv_stream_data = on_stream_data;
    callbacks.recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb;
    callbacks.get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb;
    task->crypto->set_callbacks(&callbacks);

    ngtcp2_settings_default(&settings);
    settings.initial_ts = now();
    ngtcp2_transport_params_default(&parameters);
    /* The peer cannot send more than there is room for. */
    parameters.initial_max_data = task->payload_length;
    parameters.initial_max_stream_data_bidi_local = task->payload_length;
    parameters.initial_max_stream_data_bidi_remote = task->payload_length;
    parameters.initial_max_streams_bidi = 1;
    parameters.max_idle_timeout = IDLE_SECONDS * NGTCP2_SECONDS;

    if (!tls_new(connection)) return false;
    if (initial == NULL) {
        error = ngtcp2_conn_client_new(&connection->quic, &destination, &id, &path, NGTCP2_PROTO_VER_V1, &callbacks,
                                       &settings, &parameters, NULL, connection);
    } else {
        settings.token = initial->token;
        parameters.original_dcid = *original_id;
        if (connection->retry) {
            parameters.retry_scid_present = 1;
            parameters.retry_scid = initial->dcid;
        }
        error = ngtcp2_conn_server_new(&connection->quic, &initial->scid, &id, &path, initial->version, &callbacks,
                                       &settings, &parameters, NULL, connection);
    }
    if (error != 0) return fail("ngtcp2", ngtcp2_strerror(error));
    ngtcp2_conn_set_tls_native_handle(connection->quic, connection->tls);
    return true;
}

static void send_datagram(struct connection *connection, const uint8_t *datagram, size_t length) {
    /* A datagram that the kernel refuses is lost like any other. */
    (void)!sendto(connection->socket, datagram, length, 0, (struct sockaddr *)&connection->remote,
                  sizeof connection->remote);
}

/* Handles a client's first datagram at a server. It is answered with a Retry if one is wanted and the client has no token yet. */
static bool accept_first(struct connection *connection, const uint8_t *datagram, size_t length) {
    uint8_t packet[MAX_DATAGRAM], token[NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN];
    const struct sockaddr *remote = (struct sockaddr *)&connection->remote;
    ngtcp2_pkt_hd initial;
    ngtcp2_cid original_id, id;
    ngtcp2_ssize written;

    if (ngtcp2_accept(&initial, datagram, length) != 0) return true; /* not a client's first packet: dropped */
    original_id = initial.dcid;
    if (connection->task->retry && initial.token.len == 0) {
        id = new_id();
        written = ngtcp2_crypto_generate_retry_token(token, connection->token_secret, sizeof connection->token_secret,
                                                     initial.version, remote, sizeof connection->remote, &id,
                                                     &initial.dcid, now());
        if (written < 0) return fail("Retry", "no token could be made");
        written = connection->task->crypto->write_retry(packet, sizeof packet, &initial, &id, token, (size_t)written);
        if (written < 0) return fail("Retry", ngtcp2_strerror((int)written));
        send_datagram(connection, packet, (size_t)written);
        connection->retry = true;
        return true;
    }
    if (connection->task->retry &&
        ngtcp2_crypto_verify_retry_token(&original_id, initial.token.base, initial.token.len, connection->token_secret,
                                         sizeof connection->token_secret, initial.version, remote,
                                         sizeof connection->remote, &initial.dcid, RETRY_SECONDS * NGTCP2_SECONDS,
                                         now()) != 0) {
        return true; /* a token that is not ours */
    }
    return quic_new(connection, &initial, &original_id);
}

/* Reads all datagrams that have arrived. */
static bool receive(struct connection *connection) {
    uint8_t datagram[65536];
    for (;;) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t length = recvfrom(connection->socket, datagram, sizeof datagram, MSG_DONTWAIT, (struct sockaddr *)&from, &size);
        ngtcp2_path path = path_of(connection);
        ngtcp2_pkt_info info = {0};
        int error;
        if (length < 0) return errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED || fail("recvfrom", strerror(errno));
        if (connection->quic == NULL) {
            connection->remote = from;
        } else if (from.sin_addr.s_addr != connection->remote.sin_addr.s_addr || from.sin_port != connection->remote.sin_port) {
            continue; /* neither end moves */
        }
        if (connection->quic == NULL && !accept_first(connection, datagram, (size_t)length)) return false;
        if (connection->quic == NULL) continue;
        error = ngtcp2_conn_read_pkt(connection->quic, &path, &info, datagram, (size_t)length, now());
        if (error == NGTCP2_ERR_DRAINING) {
            connection->closed = true;
            return true;
        }
        if (error == NGTCP2_ERR_CRYPTO) return fail("TLS", gnutls_alert_get_name(ngtcp2_conn_get_tls_alert(connection->quic)));
        if (error != 0) return fail("ngtcp2", ngtcp2_strerror(error));
    }
}

/* A key update falls due after a quarter and after three quarters of the payload. Until ngtcp2 starts it, which it refuses for three
   probe timeouts after the last, no more is sent. */
static size_t limit_of(struct connection *connection) {
    static const size_t due_after_quarters[] = {1, 3};
    size_t total = connection->task->payload_length;
    while (connection->task->update_keys && connection->updates_started < 2) {
        size_t due = total / 4 * due_after_quarters[connection->updates_started];
        if (connection->sent < due || ngtcp2_conn_initiate_key_update(connection->quic, now()) != 0) return due;
        connection->updates_started += 1;
    }
    return total;
}

/* Writes all that may be sent now: a client's payload, or what a server has received. */
static bool transmit(struct connection *connection) {
    const struct task *task = connection->task;
    const uint8_t *octets = task->is_server ? connection->received : task->payload;
    uint8_t datagram[MAX_DATAGRAM];
    ngtcp2_ssize length, taken;
    bool is_blocked = false;

    if (!task->is_server && connection->stream < 0) {
        /* Possible once the handshake has told how many streams the server allows. */
        ngtcp2_conn_open_bidi_stream(connection->quic, &connection->stream, NULL);
    }
    do {
        ngtcp2_path path = path_of(connection);
        ngtcp2_pkt_info info;
        size_t complete = task->is_server ? connection->received_length : task->payload_length;
        size_t limit = limit_of(connection);
        size_t end = complete < limit ? complete : limit;
        bool is_last = end == complete && (!task->is_server || connection->received_all);
        bool has_data =
            !is_blocked && connection->stream >= 0 && !connection->sent_all && (connection->sent < end || is_last);
        taken = -1;
        length = ngtcp2_conn_write_stream(connection->quic, &path, &info, datagram, sizeof datagram, &taken,
                                          is_last ? NGTCP2_WRITE_STREAM_FLAG_FIN : NGTCP2_WRITE_STREAM_FLAG_NONE,
                                          has_data ? connection->stream : -1, octets + connection->sent,
                                          has_data ? end - connection->sent : 0, now());
        if (length == NGTCP2_ERR_STREAM_DATA_BLOCKED) {
            /* The peer allows no more of the stream, but what it waits for can be sent. */
            is_blocked = true;
            continue;
        }
        if (length < 0) return fail("ngtcp2", ngtcp2_strerror((int)length));
        if (taken >= 0) {
            connection->sent += (size_t)taken;
            connection->sent_all = is_last && connection->sent == end;
        }
        if (length > 0) send_datagram(connection, datagram, (size_t)length);
    } while (length > 0 || length == NGTCP2_ERR_STREAM_DATA_BLOCKED);
    ngtcp2_conn_update_pkt_tx_time(connection->quic, now());
    return true;
}

static void close_connection(struct connection *connection) {
    uint8_t datagram[MAX_DATAGRAM];
    ngtcp2_path path = path_of(connection);
    ngtcp2_pkt_info info;
    ngtcp2_connection_close_error reason;
    ngtcp2_ssize length;
    ngtcp2_connection_close_error_default(&reason);
    ngtcp2_connection_close_error_set_application_error(&reason, 0, NULL, 0);
    length = ngtcp2_conn_write_connection_close(connection->quic, &path, &info, datagram, sizeof datagram, &reason, now());
    if (length > 0) send_datagram(connection, datagram, (size_t)length);
}

/* How long to wait for a datagram, in milliseconds: until a timer of ngtcp2, or until a key update may be possible. */
static int patience(struct connection *connection) {
    ngtcp2_tstamp expiry, time = now();
    if (connection->quic == NULL) return -1;
    expiry = ngtcp2_conn_get_expiry(connection->quic);
    if (expiry <= time) return 0;
    expiry = (expiry - time) / NGTCP2_MILLISECONDS + 1;
    return connection->task->update_keys && expiry > 5 ? 5 : expiry > 1000 ? 1000 : (int)expiry;
}

bool connection_run(struct connection *connection, const struct task *task) {
    socklen_t size = sizeof connection->local;
    memset(connection, 0, sizeof *connection);
    connection->task = task;
    connection->stream = -1;
    random_octets(connection->token_secret, sizeof connection->token_secret);
    connection->received = malloc(task->payload_length);
    connection->socket = socket(AF_INET, SOCK_DGRAM, 0);
    if (connection->received == NULL || connection->socket < 0) return fail("socket", strerror(errno));

    connection->local.sin_family = AF_INET;
    connection->local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (task->is_server) connection->local = task->address;
    if (bind(connection->socket, (struct sockaddr *)&connection->local, size) != 0) return fail("bind", strerror(errno));
    getsockname(connection->socket, (struct sockaddr *)&connection->local, &size);
    if (task->is_server) {
        printf("listening %u\n", ntohs(connection->local.sin_port));
        fflush(stdout);
    } else {
        connection->remote = task->address;
        if (!quic_new(connection, NULL, NULL)) return false;
    }

    for (;;) {
        struct pollfd readable = {connection->socket, POLLIN, 0};
        int error;
        if (connection->quic != NULL && !transmit(connection)) return false;
        if (!task->is_server && connection->received_all && connection->sent_all) {
            connection->retry = ngtcp2_conn_get_remote_transport_params(connection->quic)->retry_scid_present;
            close_connection(connection);
            return true;
        }
        poll(&readable, 1, patience(connection));
        if (!receive(connection)) return false;
        if (connection->closed) return connection->received_all || fail("ngtcp2", "the peer closed the connection early");
        if (connection->quic != NULL && ngtcp2_conn_get_expiry(connection->quic) <= now()) {
            error = ngtcp2_conn_handle_expiry(connection->quic, now());
            if (error != 0) return fail("ngtcp2", ngtcp2_strerror(error));
        }
    }
}

void connection_free(struct connection *connection) {
    if (connection->quic != NULL) ngtcp2_conn_del(connection->quic);
    if (connection->tls != NULL) gnutls_deinit(connection->tls);
    if (connection->socket >= 0) close(connection->socket);
    free(connection->received);
}
