/* As much of BGP-4 (RFC 4271) as a session needs: OPEN with four-octet AS numbers, KEEPALIVE, one route of the session's
 * own family, and NOTIFICATION. Routes that are received are counted and forgotten. */
#include <stdio.h>
#include <string.h>

#include "session.h"

#define HEADER 19
#define LONGEST_MESSAGE 4096
#define HOLD_TIME 90
#define AS_TRANS 23456
/* The beat of tcp_poll() is half a second. */
#define POLLS_PER_SECOND 2

enum message { OPEN = 1, UPDATE, NOTIFICATION, KEEPALIVE };

struct bgp_terms bgp_terms;

static struct {
    u8_t buffer[LONGEST_MESSAGE];
    u16_t filled;
    bool is_open, has_open, is_established;
    u16_t hold_time;
    /* Seconds since the peer has sent something, and since this end has. */
    u16_t heard, said;
} session;

/* A message that is being written. */
struct writer {
    u8_t octets[128];
    u16_t length;
};

static void put(struct writer *writer, const void *octets, u16_t length)
{
    memcpy(writer->octets + writer->length, octets, length);
    writer->length = (u16_t)(writer->length + length);
}

static void put_number(struct writer *writer, u32_t number, u16_t length)
{
    for (; length > 0; length--) {
        writer->octets[writer->length++] = (u8_t)(number >> 8 * (length - 1));
    }
}

static struct writer begin(enum message kind)
{
    struct writer writer = {.length = 16};

    memset(writer.octets, 0xff, 16);
    put_number(&writer, 0, 2);
    put_number(&writer, kind, 1);
    return writer;
}

static void finish(struct tcp_pcb *pcb, struct writer *writer)
{
    writer->octets[16] = (u8_t)(writer->length >> 8);
    writer->octets[17] = (u8_t)writer->length;
    session.said = 0;
    if (tcp_write(pcb, writer->octets, writer->length, TCP_WRITE_FLAG_COPY) != ERR_OK) {
        say("lwIP has no room for a message");
    }
    tcp_output(pcb);
}

static bool is_ip6(void)
{
    return IP_IS_V6(&bgp_terms.local);
}

/* The address as it is sent: 4 or 16 octets, of which the last four are this router's identifier. */
static const u8_t *address(void)
{
    const ip_addr_t *local = &bgp_terms.local;

    return is_ip6() ? (const u8_t *)ip_2_ip6(local)->addr : (const u8_t *)&ip_2_ip4(local)->addr;
}

static void send_open(struct tcp_pcb *pcb)
{
    struct writer writer = begin(OPEN);

    put_number(&writer, 4, 1);
    put_number(&writer, bgp_terms.local_as > UINT16_MAX ? AS_TRANS : bgp_terms.local_as, 2);
    put_number(&writer, HOLD_TIME, 2);
    put(&writer, address() + (is_ip6() ? 12 : 0), 4);
    /* One parameter with two capabilities: an address family (RFC 4760 §8), and four-octet AS numbers (RFC 6793 §3). */
    put(&writer, "\x0e\x02\x0c\x01\x04\x00", 6);
    put_number(&writer, is_ip6() ? 2 : 1, 1);
    put(&writer, "\x00\x01\x41\x04", 4);
    put_number(&writer, bgp_terms.local_as, 4);
    finish(pcb, &writer);
}

static void send_keepalive(struct tcp_pcb *pcb)
{
    struct writer writer = begin(KEEPALIVE);

    finish(pcb, &writer);
}

/* A documentation prefix (RFC 5737, RFC 3849), and the end of the table (RFC 4724 §2). */
static void send_routes(struct tcp_pcb *pcb)
{
    struct writer writer = begin(UPDATE);

    put_number(&writer, 0, 2);
    put_number(&writer, is_ip6() ? 44 : 20, 2);
    put(&writer, "\x40\x01\x01\x00\x40\x02\x06\x02\x01", 9);
    put_number(&writer, bgp_terms.local_as, 4);
    if (is_ip6()) {
        put(&writer, "\x80\x0e\x1c\x00\x02\x01\x10", 7);
        put(&writer, address(), 16);
        put(&writer, "\x00\x30\x20\x01\x0d\xb8\xff\xff", 8);
    } else {
        put(&writer, "\x40\x03\x04", 3);
        put(&writer, address(), 4);
        put(&writer, "\x18\xcb\x00\x71", 4);
    }
    finish(pcb, &writer);
    writer = begin(UPDATE);
    put_number(&writer, 0, 2);
    put_number(&writer, is_ip6() ? 6 : 0, 2);
    put(&writer, "\x80\x0f\x03\x00\x02\x01", is_ip6() ? 6 : 0);
    finish(pcb, &writer);
}

static err_t notify(struct tcp_pcb *pcb, u8_t code, u8_t subcode, const char *why)
{
    struct writer writer = begin(NOTIFICATION);

    put_number(&writer, code, 1);
    put_number(&writer, subcode, 1);
    finish(pcb, &writer);
    return session_close(pcb, false, why);
}

static u32_t number(const u8_t *octets, u16_t length)
{
    u32_t number = 0;

    for (; length > 0; length--) {
        number = number << 8 | *octets++;
    }
    return number;
}

/* The peer's AS number, from the capability of four-octet numbers; 0 without one. */
static u32_t remote_as(const u8_t *parameters, u16_t length)
{
    u32_t as = 0;
    u16_t at = 0, end;

    while (at + 2 <= length) {
        u8_t kind = parameters[at];

        end = (u16_t)(at + 2 + parameters[at + 1]);
        at += 2;
        if (end > length) {
            return 0;
        }
        for (; kind == 2 && at + 2 <= end; at = (u16_t)(at + 2 + parameters[at + 1])) {
            if (parameters[at] == 65 && parameters[at + 1] == 4 && at + 6 <= end) {
                as = number(parameters + at + 2, 4);
            }
        }
        at = end;
    }
    return as;
}

static err_t take_open(struct tcp_pcb *pcb, const u8_t *body, u16_t length)
{
    u16_t hold_time;

    if (session.has_open || length < 10 || length != 10 + body[9] || body[0] != 4) {
        return notify(pcb, 2, 0, "the peer's OPEN is malformed");
    }
    if (remote_as(body + 10, body[9]) != bgp_terms.remote_as) {
        return notify(pcb, 2, 2, "the peer has another AS number");
    }
    hold_time = (u16_t)number(body + 3, 2);
    if (hold_time == 1 || hold_time == 2) {
        return notify(pcb, 2, 6, "the peer's hold time is too short");
    }
    session.hold_time = LWIP_MIN(hold_time, HOLD_TIME);
    session.has_open = true;
    send_keepalive(pcb);
    return ERR_OK;
}

/* How many prefixes a list has; -1 if it is malformed. */
static int prefixes(const u8_t *list, u16_t length)
{
    int count = 0;
    u16_t at = 0;

    while (at < length) {
        at = (u16_t)(at + 1 + (list[at] + 7) / 8);
        count++;
    }
    return at == length ? count : -1;
}

/* How many prefixes an UPDATE announces, of either family; -1 if it is malformed. */
static int announced(const u8_t *body, u16_t length)
{
    u16_t at, end, size;
    int count, more;

    if (length < 4 || (at = (u16_t)(2 + number(body, 2))) + 2 > length) {
        return -1;
    }
    end = (u16_t)(at + 2 + number(body + at, 2));
    if (end > length || end < at) {
        return -1;
    }
    count = prefixes(body + end, (u16_t)(length - end));
    for (at += 2; count >= 0 && at < end; at = (u16_t)(at + size)) {
        u8_t flags = body[at], kind, width = flags & 0x10 ? 2 : 1;

        if (at + 2 + width > end) {
            return -1;
        }
        kind = body[at + 1];
        size = (u16_t)number(body + at + 2, width);
        at = (u16_t)(at + 2 + width);
        if (size > end - at) {
            return -1;
        }
        if (kind == 14) {
            /* Family, length of the next hop, the next hop, a reserved octet, and then the prefixes. */
            if (size < 5 || 5 + body[at + 3] > size) {
                return -1;
            }
            more = prefixes(body + at + 5 + body[at + 3], (u16_t)(size - 5 - body[at + 3]));
            count = more < 0 ? -1 : count + more;
        }
    }
    return count;
}

static err_t take(struct tcp_pcb *pcb, u8_t kind, const u8_t *body, u16_t length)
{
    char why[64];
    int count;

    session.heard = 0;
    switch (kind) {
    case OPEN:
        return take_open(pcb, body, length);
    case KEEPALIVE:
        if (session.has_open && !session.is_established) {
            session.is_established = true;
            say("session established, hold time %u s", session.hold_time);
            send_routes(pcb);
        }
        return ERR_OK;
    case UPDATE:
        count = announced(body, length);
        if (!session.is_established || count < 0) {
            return notify(pcb, 3, 1, "the peer's UPDATE is malformed or too early");
        }
        say("UPDATE with %d prefixes", count);
        return ERR_OK;
    case NOTIFICATION:
        if (length < 2) {
            return session_close(pcb, false, "the peer's NOTIFICATION is malformed");
        }
        snprintf(why, sizeof why, "NOTIFICATION %u/%u from the peer", body[0], body[1]);
        /* A Cease is an orderly end. */
        return session_close(pcb, body[0] == 6, why);
    default:
        return notify(pcb, 1, 3, "a message of unknown type");
    }
}

/* Takes the whole messages out of the buffer. */
static err_t take_all(struct tcp_pcb *pcb)
{
    static const u8_t marker[16] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    u16_t at = 0;

    while (session.filled - at >= HEADER) {
        const u8_t *message = session.buffer + at;
        u16_t length = (u16_t)number(message + 16, 2);

        if (memcmp(message, marker, sizeof marker) != 0 || length < HEADER || length > LONGEST_MESSAGE) {
            return notify(pcb, 1, 2, "a message is malformed");
        }
        if (session.filled - at < length) {
            break;
        }
        at = (u16_t)(at + length);
        err_t error = take(pcb, message[18], message + HEADER, (u16_t)(length - HEADER));
        if (error != ERR_OK || !session.is_open) {
            return error;
        }
    }
    session.filled = (u16_t)(session.filled - at);
    memmove(session.buffer, session.buffer + at, session.filled);
    return ERR_OK;
}

static err_t received(void *argument, struct tcp_pcb *pcb, struct pbuf *data, err_t error)
{
    u16_t at = 0;

    LWIP_UNUSED_ARG(argument);
    if (data == NULL) {
        return session_close(pcb, false, "closed by the peer");
    }
    tcp_recved(pcb, data->tot_len);
    error = ERR_OK;
    while (at < data->tot_len) {
        u16_t room = (u16_t)(LONGEST_MESSAGE - session.filled);
        u16_t taken = pbuf_copy_partial(data, session.buffer + session.filled, room, at);

        at = (u16_t)(at + taken);
        session.filled = (u16_t)(session.filled + taken);
        error = take_all(pcb);
        if (error != ERR_OK || !session.is_open) {
            break;
        }
    }
    pbuf_free(data);
    return error;
}

/* Once a second: the hold timer and KEEPALIVEs (RFC 4271 §4.4). */
static err_t tick(void *argument, struct tcp_pcb *pcb)
{
    LWIP_UNUSED_ARG(argument);
    session.heard++;
    session.said++;
    if (session.has_open && session.hold_time > 0) {
        if (session.heard >= session.hold_time) {
            return notify(pcb, 4, 0, "hold timer expired");
        }
        if (session.said >= session.hold_time / 3) {
            send_keepalive(pcb);
        }
    }
    return ERR_OK;
}

static void ended(void)
{
    memset(&session, 0, sizeof session);
}

static void leaving(struct tcp_pcb *pcb)
{
    struct writer writer = begin(NOTIFICATION);

    /* Cease, administrative shutdown (RFC 4486). */
    put(&writer, "\x06\x02", 2);
    finish(pcb, &writer);
}

static void opened(struct tcp_pcb *pcb)
{
    session.is_open = true;
    tcp_recv(pcb, received);
    tcp_poll(pcb, tick, POLLS_PER_SECOND);
    send_open(pcb);
}

const struct application bgp_application = {.opened = opened, .leaving = leaving, .ended = ended};
