/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * msg.h -- the messages on a connection's socket: one a packet, host byte order
 *
 *	connector                              acceptor
 *	HELLO                             ->
 *	                                  <-   REGION + slab, each that this peer may reach
 *	                                  <-   ACCEPT + control segment; or REJECT
 *	REGION + slab, each               ->
 *	CONFIRM                           ->
 *	... REGION and UNREGION in both directions as regions come and go ...
 *	WAKE                             <->   WAKE, to a peer that sleeps and was rung
 *	BYE                              <->   BYE, or the socket just ends
 *
 * A region's announcement is in the socket before any message that could carry its rkey. So a post
 * with an unknown rkey looks into the socket first. The acceptor is up with CONFIRM, the connector
 * with ACCEPT.
 *
 * A WAKE says nothing: that the socket can be read is what wakes. It is sent without waiting; a socket
 * that is full has something to read already. No descriptor but the socket wakes, as a peer can change
 * the flags of any that both share, and then let a write to it last for ever.
 */
#ifndef OL_RDMA_SHM_MSG_H
#define OL_RDMA_SHM_MSG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "rdma/transport.h"

#define OL_SHM_MSG_MAGIC 0x6d68734cU /* "Lshm" */

enum {
	OL_SHM_MSG_PROTO = 2,
	OL_SHM_MSG_FDS_MAX = 1,
};

enum ol_shm_msg_type {
	OL_SHM_MSG_HELLO = 1,
	OL_SHM_MSG_ACCEPT,
	OL_SHM_MSG_REJECT,
	OL_SHM_MSG_CONFIRM,
	OL_SHM_MSG_REGION,
	OL_SHM_MSG_UNREGION,
	OL_SHM_MSG_BYE,
	OL_SHM_MSG_WAKE,
	OL_SHM_MSG_TYPES
};

struct ol_shm_msg {
	uint32_t magic;
	uint16_t proto;
	uint16_t type;
	uint32_t capacity; /* HELLO, ACCEPT: of the ring that the sender consumes */
	int32_t status; /* BYE: why. REJECT: -EUSERS, its transport has no room; or 0 */
	uint32_t rkey; /* REGION, UNREGION */
	uint32_t access; /* REGION */
	uint64_t addr; /* REGION */
	uint64_t bytes; /* REGION */
	uint64_t fd_off; /* REGION: where in the slab it begins */
	uint32_t priv_len; /* HELLO, ACCEPT, REJECT */
	uint8_t priv[OL_XPORT_PRIV_ACCEPT_MAX]; /* only priv_len bytes travel */
};

static_assert(sizeof(struct ol_shm_msg) == 248, "message layout is shared with peers");

static inline size_t ol_shm_msg_bytes(const struct ol_shm_msg *msg)
{
	return offsetof(struct ol_shm_msg, priv) + msg->priv_len;
}

#endif /* OL_RDMA_SHM_MSG_H */
