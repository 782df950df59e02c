/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * addr.h -- "host:port" as text and as a socket address
 */
#ifndef OL_RDMA_VERBS_ADDR_H
#define OL_RDMA_VERBS_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "rdma/transport.h"

union ol_verbs_addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage storage;
};

#define OL_VERBS_OOB_PREFIX "oob:" /* the address is one of TCP: see oob.c */

/* ol_verbs_addr_is_oob -- true if text begins so; ret_text: what follows, or text itself */
bool ol_verbs_addr_is_oob(const char *text, const char **ret_text);

/*
 * ol_verbs_addr_parse -- "10.0.0.1:7471", "[fe80::1%eth0]:7471", "host:0"
 *
 * Blocks:  while a name that is not a number is looked up
 * Errors:  -EINVAL malformed, -EHOSTUNREACH no such host
 */
int ol_verbs_addr_parse(const char *text, union ol_verbs_addr *ret_addr);

/* ol_verbs_addr_text -- the reverse; numbers only */
void ol_verbs_addr_text(const struct sockaddr *addr, char ret_text[OL_XPORT_ADDR_MAX]);

/* ol_verbs_addr_oob_text -- the same as an address of oob.c */
void ol_verbs_addr_oob_text(const struct sockaddr *addr, char ret_text[OL_XPORT_ADDR_MAX]);

/* ol_verbs_addr_bytes -- of its family's structure */
socklen_t ol_verbs_addr_bytes(const union ol_verbs_addr *addr);

/* ol_verbs_addr_is_any -- true for 0.0.0.0 and [::] */
bool ol_verbs_addr_is_any(const union ol_verbs_addr *addr);

#endif /* OL_RDMA_VERBS_ADDR_H */
