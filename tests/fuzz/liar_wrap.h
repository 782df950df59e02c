/* SPDX-License-Identifier: BSD-3-Clause */

/* liar_wrap.h -- calls of the product and the system that the linker sends to the liar */
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
#include "support/wrap.h"

WRAP(int, clock_gettime, clockid_t clock, struct timespec *ret_time);
WRAP(ssize_t, getrandom, void *bytes, size_t count, unsigned flags);
WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms);

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name);
WRAP(int, ol_slab_create, size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab);
WRAP(int, ol_slab_map, size_t bytes, int node, unsigned flags, struct ol_slab **ret_slab);
WRAP(int, ol_slab_touch, struct ol_slab *slab, size_t off, size_t bytes);
WRAP(void, ol_slab_destroy, struct ol_slab *slab);
WRAP(int, ol_thread_start, void *(*run)(void *), void *arg, pthread_t *ret_thread);
WRAP(int, pthread_join, pthread_t thread, void **ret_value);

WRAP(int, ol_coord_open, const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
     size_t err_bytes);
WRAP(void, ol_coord_close, struct ol_coord *coord);
WRAP(int, ol_coord_join, struct ol_coord *coord, uint32_t shard, const struct ol_member *member);
WRAP(uint64_t, ol_coord_generation, const struct ol_coord *coord);
WRAP(void, ol_coord_look, struct ol_coord *coord, uint32_t shard, struct ol_coord_state *ret_state);
WRAP(void, ol_coord_propose, struct ol_coord *coord, uint32_t shard, uint64_t version,
     const struct ol_view *next);

#endif /* OL_TESTS_FUZZ_LIAR_WRAP_H */
