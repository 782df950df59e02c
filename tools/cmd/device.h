/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * device.h -- the network address of an RDMA device, without opening it
 */
#ifndef CMD_DEVICE_H
#define CMD_DEVICE_H

#include <stddef.h>

enum {
	OL_HOST_MAX = 64
};

/* ol_interface_host -- first IPv4 address of a network interface; -ENODEV: it has none */
int ol_interface_host(const char *interface, char ret_host[OL_HOST_MAX]);

/*
 * ol_device_host -- first IPv4 address of device, or of the first device that has one if NULL
 *
 * Errors: -ENODEV, with a line in err: no device at all, not this one, or it has no address
 */
int ol_device_host(const char *device, char ret_host[OL_HOST_MAX], char *err, size_t err_bytes);

#endif /* CMD_DEVICE_H */
