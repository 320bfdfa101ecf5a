/* A netif over a file descriptor: IP packets of a TUN device, or Ethernet frames of a TAP device or a datagram socket. */
#ifndef LINK_H
#define LINK_H

#include <stdbool.h>

#include "lwip/netif.h"
#include "lwip/sys.h"

struct link {
    int descriptor;
    bool is_ethernet;
    /* Loses every so many frames that come from the link, and as many that go to it; 0: none. */
    unsigned lose;
    unsigned received, sent;
    /* Between link_start() and link_stop(): what tells the thread to end, and what it tells then. */
    int stop;
    sys_sem_t stopped;
};

/* Opens a TAP device, if it is to be Ethernet, or a TUN device, which is there already. False, with errno, if that fails. */
bool link_open_device(struct link *link, const char *device, bool is_ethernet);

/* Sends frames to the datagram socket `peer`, and receives them at `own`, which replaces a file of that name. False, with
 * errno, if that fails. */
bool link_open_socket(struct link *link, const char *own, const char *peer);

/* For netif_add(), with a struct link as state. */
err_t link_init(struct netif *netif);

/* Begins to receive, in a thread of its own. The netif is up. */
void link_start(struct netif *netif);

/* Ends that thread; not on the thread that runs lwIP. Frames that were received are on their way to lwIP: what you have it do from now on by
 * tcpip_callback() comes after them. */
void link_stop(struct netif *netif);

#endif
