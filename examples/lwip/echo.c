/* The echo service (RFC 862). What does not fit into lwIP's send buffer waits here, and closes the peer's window. */
#include "session.h"

static struct pbuf *waiting;
static bool is_closing;

static err_t pump(struct tcp_pcb *pcb)
{
    while (waiting != NULL && tcp_sndbuf(pcb) > 0) {
        u16_t length = LWIP_MIN(waiting->len, tcp_sndbuf(pcb));

        if (tcp_write(pcb, waiting->payload, length, TCP_WRITE_FLAG_COPY) != ERR_OK) {
            break;
        }
        tcp_recved(pcb, length);
        waiting = pbuf_free_header(waiting, length);
    }
    if (waiting == NULL && is_closing) {
        return session_close(pcb, true, "closed by the peer");
    }
    tcp_output(pcb);
    return ERR_OK;
}

static err_t received(void *argument, struct tcp_pcb *pcb, struct pbuf *data, err_t error)
{
    LWIP_UNUSED_ARG(argument);
    LWIP_UNUSED_ARG(error);
    if (data == NULL) {
        is_closing = true;
    } else if (waiting == NULL) {
        waiting = data;
    } else {
        pbuf_cat(waiting, data);
    }
    return pump(pcb);
}

static err_t sent(void *argument, struct tcp_pcb *pcb, u16_t length)
{
    LWIP_UNUSED_ARG(argument);
    LWIP_UNUSED_ARG(length);
    return pump(pcb);
}

static void ended(void)
{
    if (waiting != NULL) {
        pbuf_free(waiting);
    }
    waiting = NULL;
    is_closing = false;
}

static void opened(struct tcp_pcb *pcb)
{
    tcp_recv(pcb, received);
    tcp_sent(pcb, sent);
}

const struct application echo_application = {.opened = opened, .ended = ended};
