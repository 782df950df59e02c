/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * worker_util.h -- a worker and its servers, for tests that decide what the servers send, and when
 *
 * The servers A, B, C, D are puppets. All are in one thread: a wait lets the others go on.
 */
#ifndef OL_TESTS_UNIT_WORKER_WORKER_UTIL_H
#define OL_TESTS_UNIT_WORKER_WORKER_UTIL_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "outlast.h"
#include "support/check.h"
#include "support/puppet.h"
#include "support/stage.h"

enum {
	A,
	B,
	C,
	D,
	PUPPETS,
	DEADLINE_S = 60
};

static struct world {
	struct puppet puppets[PUPPETS];
	struct ol_worker_opts opts;
	struct ol_worker *worker; /* NULL: not open */
	enum ol_level level; /* of pushes */
	int open_rc;
	char err[384];
	_Atomic int opened;
} world;

static inline void step(void)
{
	if (world.worker != NULL)
		check(ol_worker_poll(world.worker) >= 0);
	for (unsigned i = 0; i < PUPPETS; i++)
		puppet_poll(&world.puppets[i]);
}

/* until -- everybody goes on until condition holds */
#define until(cond) \
	do { \
		alarm(DEADLINE_S); \
		while (!(cond)) \
			step(); \
		alarm(0); \
	} while (0)

/* world_init -- the puppets listen; the worker's options are for a test to complete */
static inline void world_init(void)
{
	memset(&world, 0, sizeof(world));
	for (unsigned i = 0; i < PUPPETS; i++)
		puppet_open(&world.puppets[i], 100 + i);
	ol_worker_opts_init(&world.opts);
	world.opts.lease_ms = 0; /* puppets have no heart */
}

static inline void world_fini(void)
{
	ol_worker_close(world.worker);
	for (unsigned i = 0; i < PUPPETS; i++)
		puppet_close(&world.puppets[i]);
}

/* opener -- open the worker, which waits for the puppets: in a thread, where one is to answer */
static inline void *opener(void *unused)
{
	(void)unused;
	world.open_rc = ol_worker_open(&world.opts, &world.worker, world.err, sizeof(world.err));
	atomic_store(&world.opened, 1);
	return NULL;
}

/* opener_join -- what it opened is this thread's from now on */
static inline void opener_join(pthread_t thread)
{
	check_ok(pthread_join(thread, NULL));
	if (world.worker != NULL)
		check_ok(ol_worker_adopt(world.worker));
}

/* open_welcomed -- whomever the worker calls lets it in, with nothing of it applied */
static inline void open_welcomed(uint32_t epoch)
{
	pthread_t thread;

	check_ok(pthread_create(&thread, NULL, opener, NULL));
	alarm(DEADLINE_S);
	while (!atomic_load(&world.opened)) {
		for (unsigned i = 0; i < PUPPETS; i++) {
			puppet_poll(&world.puppets[i]);
			for (unsigned role = OL_ROLE_WORKER; role < PUPPET_ROLES; role++) {
				if (puppet_waits(&world.puppets[i], role))
					puppet_welcome(&world.puppets[i], role, epoch, 0);
			}
		}
	}
	alarm(0);
	opener_join(thread);
}

/* two_shards_open -- open the worker at A and B, servers of a shard each */
static inline void two_shards_open(uint32_t epoch)
{
	static char servers[2 * OL_XPORT_ADDR_MAX];

	puppet_shard(&world.puppets[A], 0, 2);
	puppet_shard(&world.puppets[B], 1, 2);
	snprintf(servers, sizeof(servers), "%s,%s", world.puppets[A].addr, world.puppets[B].addr);
	world.opts.servers = servers;
	open_welcomed(epoch);
	check_ok(world.open_rc);
}

/* push -- start one of a gradient of all `value` */
static inline void push(float value, struct ol_op *op)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	float *grad;

	*op = (struct ol_op){ .level = world.level };
	(void)ol_weights(world.worker, &info.base_version);
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	for (unsigned i = 0; i < PUPPET_LEN; i++)
		grad[i] = value;
	check_ok(ol_push(world.worker, grad, &info, op));
}

static inline void pull(unsigned flags)
{
	struct ol_op op = { 0 };

	check_ok(ol_pull(world.worker, flags, &op));
	until(op.done);
	check_ok(op.status);
}

/* link_stat -- ol_link_get_stat(), with its sum checked */
static inline struct ol_link_stat link_stat(void)
{
	return stage_stat(world.worker, 0);
}

#endif /* OL_TESTS_UNIT_WORKER_WORKER_UTIL_H */
