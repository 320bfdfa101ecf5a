/* A netif over a file descriptor: IP packets of a TUN device, or Ethernet frames of a TAP device or a datagram socket. */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>

#include "lwip/netif.h"

struct link {
    int descriptor;
    bool is_ethernet;
    /* Loses every so many frames that come from the link, and as many that go to it; 0: none. */
    unsigned lose;
    unsigned received, sent;
};

/* Opens a TAP device, if it is to be Ethernet, or a TUN device. False, with errno, if that fails. */
bool link_open_device(struct link *link, const char *device, bool is_ethernet);

/* Sends frames to the datagram socket `peer`, and receives them at `own`, which replaces a file of that name. False, with
 * errno, if that fails. */
bool link_open_socket(struct link *link, const char *own, const char *peer);

/* For netif_add(), with a struct link as state. */
err_t link_init(struct netif *netif);

/* Begins to receive, in a thread of its own. The netif is up. */
void link_start(struct netif *netif);

#endif
