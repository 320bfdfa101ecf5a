/* The shim of this program: its keys, its one peer, what it counts and says. Everything here runs on lwIP's thread. */
#ifndef PROTECTION_H
#define PROTECTION_H

#include <stdbool.h>

#include <wireseal.h>

#include "lwip/tcp.h"

/* A shim for connections between two addresses, on a link with this MTU, with the keys of a file. Null, after a line that
 * says why. */
struct wireseal_shim *protection_start(
    const char *key_file, const ip_addr_t *local, const ip_addr_t *remote, u16_t mtu);

/* Asks the peer of a connection to sign with the next key of the file, after the last the first. False without a
 * connection. */
bool protection_roll(struct wireseal_shim *shim, const struct tcp_pcb *pcb);

/* Prints on standard output, without the end of the line: the verdicts on received segments, and the KeyIDs with which
 * both ends of a connection sign. */
void protection_report(struct wireseal_shim *shim, const struct tcp_pcb *pcb);

#endif
