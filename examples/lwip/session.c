#include "session.h"

#include <stdarg.h>
#include <stdio.h>

static const struct application *application;
static struct tcp_pcb *current;
static ip_addr_t expected;
int session_status = 1;

void say(const char *format, ...)
{
    char line[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* In one call, because two threads write lines. */
    fprintf(stderr, "%s\n", line);
}

static void over(bool is_in_order, const char *why)
{
    current = NULL;
    application->ended();
    session_status = is_in_order ? 0 : 1;
    say("connection over: %s", why);
}

err_t session_close(struct tcp_pcb *pcb, bool is_in_order, const char *why)
{
    err_t error = ERR_OK;

    tcp_recv(pcb, NULL);
    tcp_sent(pcb, NULL);
    tcp_err(pcb, NULL);
    tcp_poll(pcb, NULL, 0);
    if (tcp_close(pcb) != ERR_OK) {
        tcp_abort(pcb);
        error = ERR_ABRT;
    }
    over(is_in_order, why);
    return error;
}

/* lwIP has freed the connection. */
static void failed(void *argument, err_t error)
{
    LWIP_UNUSED_ARG(argument);
    over(false, error == ERR_RST ? "reset by the peer" : "given up");
}

/* Of a connection that was dialled, and of one that was accepted. */
static err_t opened(void *argument, struct tcp_pcb *pcb, err_t error)
{
    LWIP_UNUSED_ARG(argument);
    if (error != ERR_OK || pcb == NULL) {
        return ERR_VAL;
    }
    if (current != NULL || !ip_addr_cmp(&pcb->remote_ip, &expected)) {
        say("call from %s refused", ipaddr_ntoa(&pcb->remote_ip));
        tcp_abort(pcb);
        return ERR_ABRT;
    }
    current = pcb;
    tcp_err(pcb, failed);
    say("connected with %s port %u", ipaddr_ntoa(&pcb->remote_ip), pcb->remote_port);
    application->opened(pcb);
    return ERR_OK;
}

err_t session_listen(const struct application *chosen, const ip_addr_t *local, const ip_addr_t *remote, u16_t port)
{
    struct tcp_pcb *pcb = tcp_new_ip_type(IP_GET_TYPE(local));
    err_t error = pcb == NULL ? ERR_MEM : tcp_bind(pcb, local, port);

    application = chosen;
    expected = *remote;
    if (error == ERR_OK) {
        pcb = tcp_listen_with_backlog_and_err(pcb, 1, &error);
        if (pcb != NULL) {
            tcp_accept(pcb, opened);
        }
    }
    return error;
}

err_t session_dial(const struct application *chosen, const ip_addr_t *local, const ip_addr_t *remote, u16_t port)
{
    struct tcp_pcb *pcb = tcp_new_ip_type(IP_GET_TYPE(local));
    err_t error = pcb == NULL ? ERR_MEM : tcp_bind(pcb, local, 0);

    application = chosen;
    expected = *remote;
    if (error == ERR_OK) {
        tcp_err(pcb, failed);
        error = tcp_connect(pcb, remote, port, opened);
    }
    return error;
}

const struct tcp_pcb *session_current(void)
{
    return current;
}

void session_leave(void)
{
    if (current == NULL) {
        return;
    }
    if (application->leaving != NULL) {
        application->leaving(current);
    }
    session_close(current, true, "closed by this end");
}
