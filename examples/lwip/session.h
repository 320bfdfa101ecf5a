/* One TCP connection at a time, dialled or accepted, and the protocol on it. Everything here runs on lwIP's thread. */
#ifndef SESSION_H
#define SESSION_H

#include <stdbool.h>

#include "lwip/ip_addr.h"
#include "lwip/tcp.h"

/* A protocol. */
struct application {
    /* A connection is open: sets lwIP's callbacks for data. */
    void (*opened)(struct tcp_pcb *pcb);
    /* This end is about to close the connection; may be NULL. */
    void (*leaving)(struct tcp_pcb *pcb);
    /* The connection is gone. */
    void (*ended)(void);
};

extern const struct application echo_application, bgp_application;

/* What bgp_application says and expects. */
struct bgp_terms {
    u32_t local_as, remote_as;
    ip_addr_t local;
};
extern struct bgp_terms bgp_terms;

/* Listens at `local`, for one connection at a time, from `remote` only. */
err_t session_listen(const struct application *application, const ip_addr_t *local, const ip_addr_t *remote, u16_t port);

/* Connects to `remote`, once. */
err_t session_dial(const struct application *application, const ip_addr_t *local, const ip_addr_t *remote, u16_t port);

/* For callbacks of lwIP: closes the connection and says why. Return what it returns. */
err_t session_close(struct tcp_pcb *pcb, bool is_in_order, const char *why);

/* Closes the connection, if there is one. */
void session_leave(void);

/* The connection; null if there is none. */
const struct tcp_pcb *session_current(void);

/* The program's exit code so far: 0 once a connection was closed in order. */
extern int session_status;

/* Prints a line on standard error. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
