/* SPDX-License-Identifier: BSD-3-Clause */

/* liar_wrap.h -- names that the linker makes: __wrap_x stands for x, __real_x is what x was */
#ifndef OL_TESTS_FUZZ_LIAR_WRAP_H
#define OL_TESTS_FUZZ_LIAR_WRAP_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "rdma/transport.h"
#include "replication/coord/coord.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
ssize_t __real_getrandom(void *bytes, size_t count, unsigned flags);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

const struct ol_xport_ops *__wrap_ol_xport_find(const char *name);
int __wrap_ol_slab_create(size_t bytes, int node, bool want_huge, struct ol_slab **ret_slab);
int __wrap_ol_slab_map(size_t bytes, int node, struct ol_slab **ret_slab);
int __wrap_ol_slab_touch(struct ol_slab *slab, size_t off, size_t bytes);
void __wrap_ol_slab_destroy(struct ol_slab *slab);
int __wrap_ol_thread_start(void *(*run)(void *), void *arg, pthread_t *ret_thread);
int __wrap_pthread_join(pthread_t thread, void **ret_value);

int __wrap_ol_coord_open(const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
			 size_t err_bytes);
void __wrap_ol_coord_close(struct ol_coord *coord);
int __wrap_ol_coord_join(struct ol_coord *coord, uint32_t shard, const struct ol_member *member);
uint64_t __wrap_ol_coord_generation(const struct ol_coord *coord);
void __wrap_ol_coord_look(struct ol_coord *coord, uint32_t shard, struct ol_coord_state *ret_state);
void __wrap_ol_coord_propose(struct ol_coord *coord, uint32_t shard, uint64_t version,
			     const struct ol_view *next);

#endif /* OL_TESTS_FUZZ_LIAR_WRAP_H */
