/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * fds.h -- what a child of a fork must not share: descriptors and mappings of transports, and
 * descriptors of checkpoints
 *
 * A peer learns that a process is dead when the last copy of its socket or device is closed, and
 * memory is freed with its last mapping. But a program may fork (a data loader), and its children
 * may outlive it. So the child of a fork() closes its copies of the descriptors added here, before
 * fork() returns in it, and has none of the mappings. A process made by posix_spawn() or exec() has
 * none of them anyway: they are close-on-exec.
 *
 * Threading: any thread. A descriptor that another thread makes or closes during the fork may be
 * missed.
 */
#ifndef OL_RDMA_FDS_H
#define OL_RDMA_FDS_H

#include <stddef.h>

enum {
	OL_FDS_MAX = 1 << 16 /* children keep copies of descriptors from this number on */
};

/* ol_fds_add -- close fd in children from now on; below 0: no effect. Returns fd */
int ol_fds_add(int fd);

/* ol_fds_add_device -- the same for an RDMA device: children lose its driver's mappings, too */
int ol_fds_add_device(int fd);

/* ol_fds_forget -- call it before fd's owner closes it */
void ol_fds_forget(int fd);

/* ol_fds_close -- forget it and close it */
void ol_fds_close(int fd);

/* ol_fds_unshare -- children do not get this mapping: its addresses are unmapped there */
void ol_fds_unshare(void *addr, size_t bytes);

#endif /* OL_RDMA_FDS_H */
