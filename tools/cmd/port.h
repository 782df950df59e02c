/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * port.h -- what the ports of this host's RDMA devices have counted of trouble since their driver was loaded
 *
 * Names are those of /sys/class/infiniband/DEVICE/ports/PORT/{counters,hw_counters}, as they differ
 * from driver to driver and an operator looks them up in its manual.
 */
#ifndef CMD_PORT_H
#define CMD_PORT_H

#include <stdint.h>

#include "cmd/series.h"

/* Where the kernel shows devices */
#define OL_PORT_ROOT "/sys/class/infiniband"

enum ol_port_kind {
	OL_PORT_AGAIN, /* sent again, or came out of order: costs time */
	OL_PORT_NOT_READY, /* a message found no receive */
	OL_PORT_BROKEN /* connections ended, or the link is bad */
};

struct ol_port_counter {
	const char *folder;
	const char *name;
	enum ol_port_kind kind;
};

typedef void (*ol_port_fn)(void *arg, const struct ol_port_counter *counter, uint64_t value);

/* ol_port_read -- each counter that the port has, in the order in which they are always told */
void ol_port_read(const char *root, const char *device, uint32_t port, ol_port_fn take, void *arg);

/*
 * ol_ports_series -- the counters of all ports, as metrics with these labels and device, port, counter
 *
 * Nothing is written where there is no port.
 */
void ol_ports_series(const char *root, const struct ol_series_label *labels,
		     const struct ol_series *to);

#endif /* CMD_PORT_H */
