/* What the programs of TCP-AO share: checks, keys, and a TCP stack's packets over IPv4. */
#ifndef PACKETS_H
#define PACKETS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wireseal.h"

/* Ends the program unless this holds. */
#define CHECK(holds)                                                                                                                       \
    do {                                                                                                                                   \
        if (!(holds)) {                                                                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #holds);                                                            \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

/* Ends the program unless a call returns this status. */
#define EXPECT(wanted, call)                                                                                                               \
    do {                                                                                                                                   \
        const int status_ = (int)(call);                                                                                                   \
        if (status_ != (int)(wanted)) {                                                                                                    \
            fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call, wireseal_status_text(status_), status_);                    \
            exit(1);                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

#define OK(call) EXPECT(WIRESEAL_STATUS_OK, call)

#define ALIGNED __attribute__((aligned(WIRESEAL_ALIGN)))

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };
enum { IP_HEADER = 20, TCP_HEADER = 20 };

static inline struct wireseal_mkt key_of(uint8_t send_id, uint8_t recv_id, uint32_t algorithm, const char *secret)
{
    struct wireseal_mkt mkt;
    memset(&mkt, 0, sizeof mkt);
    mkt.send_id = send_id;
    mkt.recv_id = recv_id;
    mkt.algorithm = algorithm;
    mkt.master_key = (const uint8_t *)secret;
    mkt.master_key_length = strlen(secret);
    return mkt;
}

/* 192.0.2.host */
static inline struct wireseal_endpoint end_of(uint8_t host, uint16_t port)
{
    struct wireseal_endpoint end;
    memset(&end, 0, sizeof end);
    end.address.version = 4;
    end.address.octets[0] = 192;
    end.address.octets[2] = 2;
    end.address.octets[3] = host;
    end.port = port;
    return end;
}

static inline struct wireseal_pair pair_of(struct wireseal_endpoint local, struct wireseal_endpoint remote)
{
    struct wireseal_pair pair;
    pair.local = local;
    pair.remote = remote;
    return pair;
}

static inline void put16(uint8_t *octets, uint32_t number)
{
    octets[0] = (uint8_t)(number >> 8);
    octets[1] = (uint8_t)number;
}

static inline void put32(uint8_t *octets, uint32_t number)
{
    put16(octets, number >> 16);
    put16(octets + 2, number);
}

static inline uint32_t get16(const uint8_t *octets)
{
    return (uint32_t)octets[0] << 8 | octets[1];
}

static inline uint32_t get32(const uint8_t *octets)
{
    return get16(octets) << 16 | get16(octets + 2);
}

/* Writes a TCP header without options, and returns its length. */
static inline size_t tcp_header(uint8_t *tcp, struct wireseal_pair pair, uint32_t sequence, uint32_t acknowledgment, uint8_t flags)
{
    memset(tcp, 0, TCP_HEADER);
    put16(tcp, pair.local.port);
    put16(tcp + 2, pair.remote.port);
    put32(tcp + 4, sequence);
    put32(tcp + 8, acknowledgment);
    tcp[12] = TCP_HEADER / 4 << 4;
    tcp[13] = flags;
    put16(tcp + 14, 0xffff);
    return TCP_HEADER;
}

/* The Internet checksum, which begins with `sum`. */
static inline uint16_t checksum(uint32_t sum, const uint8_t *octets, size_t length)
{
    size_t at;
    for (at = 0; at + 1 < length; at += 2)
        sum += get16(octets + at);
    if (length % 2 != 0)
        sum += (uint32_t)octets[length - 1] << 8;
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

/* The checksum of the TCP segment in an IPv4 packet: 0 if it has a right one. */
static inline uint16_t tcp_checksum(const uint8_t *packet, size_t length)
{
    uint32_t sum = 6 + (uint32_t)(length - IP_HEADER);
    size_t at;
    for (at = 12; at < IP_HEADER; at += 2)
        sum += get16(packet + at);
    return checksum(sum, packet + IP_HEADER, length - IP_HEADER);
}

/* Writes an IPv4 packet with a TCP segment, as a stack without TCP-AO makes it, and returns its length. */
static inline size_t packet_of(uint8_t *packet, struct wireseal_pair pair, uint32_t sequence, uint32_t acknowledgment, uint8_t flags,
                               const char *payload)
{
    const size_t length = IP_HEADER + TCP_HEADER + strlen(payload);
    memset(packet, 0, IP_HEADER);
    packet[0] = 0x45;
    put16(packet + 2, (uint32_t)length);
    packet[8] = 64;
    packet[9] = 6;
    memcpy(packet + 12, pair.local.address.octets, 4);
    memcpy(packet + 16, pair.remote.address.octets, 4);
    put16(packet + 10, checksum(0, packet, IP_HEADER));
    tcp_header(packet + IP_HEADER, pair, sequence, acknowledgment, flags);
    memcpy(packet + IP_HEADER + TCP_HEADER, payload, strlen(payload));
    put16(packet + IP_HEADER + 16, tcp_checksum(packet, length));
    return length;
}

#endif
