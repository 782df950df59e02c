/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * device.h -- the network address of an RDMA device, without opening it
 */
#ifndef CMD_DEVICE_H
#define CMD_DEVICE_H

#include <stddef.h>
#include <stdint.h>

enum {
	OL_HOST_MAX = 64,
	OL_LISTEN_MAX = OL_HOST_MAX + 16 /* a host and a port */
};

/* ol_interface_host -- first IPv4 address of a network interface; -ENODEV: it has none */
int ol_interface_host(const char *interface, char ret_host[OL_HOST_MAX]);

/*
 * ol_device_host -- first IPv4 address of a device
 *
 * list: "a,b": number `first` modulo their number, or the next that has an address; NULL: any device
 * that has one. Errors, with a line in err: -ENODEV: no device at all, none of these, or it has no
 * address; -EINVAL: list is none
 */
int ol_device_host(const char *list, uint32_t first, char ret_host[OL_HOST_MAX], char *err,
		   size_t err_bytes);

/*
 * ol_device_listen -- where a server listens: of ":PORT" at the first IPv4 address of a device (ol_device_host), of all
 * else where it says; room: what *ret_listen may point into
 *
 * Errors: as of ol_device_host()
 */
int ol_device_listen(const char *listen, const char *list, uint32_t first, char room[OL_LISTEN_MAX],
		     const char **ret_listen, char *err, size_t err_bytes);

#endif /* CMD_DEVICE_H */
