/* TCP-AO under an unchanged lwIP: wraps any netif with the shim of libwireseal. */
#ifndef WIRESEAL_NETIF_H
#define WIRESEAL_NETIF_H

#include <stdint.h>

#include <wireseal.h>

#include "lwip/netif.h"

/* Memory for one wrapped netif; you keep it as long as the netif. Its fields are for wireseal_netif.c alone. */
struct wireseal_netif {
    struct wireseal_netif *next;
    struct netif *netif;
    struct wireseal_shim *shim;
    netif_input_fn input;
#if LWIP_IPV4
    netif_output_fn output;
#endif
#if LWIP_IPV6
    netif_output_ip6_fn output_ip6;
#endif
};

/* Puts `shim` between lwIP and `netif`: signs what is sent, verifies what is received, drops what is refused and counts it
 * (wireseal_shim_refused()). Connections without a peer in the shim pass unchanged.
 *
 * Call it after netif_add() and before netif_set_up(), on the thread that runs lwIP: with NO_SYS 0 the tcpip thread, or one
 * that holds LOCK_TCPIP_CORE(). The shim works on that thread, and your own calls of the shim belong there too. The driver
 * may go on calling netif->input from a thread of its own.
 *
 * Several netifs may share one shim, which then needs the smallest of their MTUs. netif->mtu is lower by
 * WIRESEAL_OPTION_ROOM from now on. Uses one timeout: add one to MEMP_NUM_SYS_TIMEOUT for each wrapped netif. */
void wireseal_netif_wrap(struct wireseal_netif *wrapper, struct netif *netif, struct wireseal_shim *shim);

/* Takes the shim away again, on the thread that runs lwIP, after netif_set_down() and before netif_remove(). With NO_SYS 0 a driver's
 * thread must be still, and its last frames processed. The shim is yours again; the peers' connections are left without protection. */
void wireseal_netif_unwrap(struct wireseal_netif *wrapper);

/* The time that the shim is given, in milliseconds, for your own calls of it. Unlike sys_now(), it does not begin anew after
 * 49 days. Only on the thread that runs lwIP. */
uint64_t wireseal_netif_now(void);

#endif
