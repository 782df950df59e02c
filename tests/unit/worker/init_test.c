/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * init_test.c -- worker 0 offers first weights to servers that wait for them, and never to some of a job's
 * servers while others have begun with other ones; what cannot be offered is refused in words
 *
 * The servers are puppets: the test decides what they send, and when.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/log.h"
#include "unit/worker/worker_util.h"

enum {
	EPOCH = 1,
	PARAMS = OL_SHARD_ALIGN + PUPPET_LEN, /* of two shards */
	TURNS = 3000 /* of everybody: whatever can happen has happened */
};

static float init[PARAMS];
static char servers[2 * OL_XPORT_ADDR_MAX];
static unsigned mixtures; /* lines of the log that say that others have begun */
static pthread_t thread;

static void count_mixtures(void *unused, enum ol_log_level level, const char *text)
{
	(void)unused;
	(void)level;
	mixtures += strstr(text, "shard 1 has begun with others") != NULL;
}

static int world_open(void **unused)
{
	(void)unused;
	mixtures = 0;
	ol_log_sink_set(count_mixtures, NULL);
	world_init();
	for (unsigned i = 0; i < PARAMS; i++)
		init[i] = (float)i;
	world.opts.init = init;
	world.opts.param_count = PARAMS;
	world.opts.servers = servers;
	for (unsigned i = A; i <= B; i++) {
		world.puppets[i].init = OL_INIT_AWAITED;
		world.puppets[i].geo.workers_max = 2;
		puppet_shard(&world.puppets[i], i - A, 2);
	}
	snprintf(servers, sizeof(servers), "%s,%s", world.puppets[A].addr, world.puppets[B].addr);
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	ol_log_sink_set(NULL, NULL);
	return 0;
}

static void open_begin(void)
{
	atomic_store(&world.opened, 0);
	check_ok(pthread_create(&thread, NULL, opener, NULL));
}

static void puppets_go_on(void)
{
	for (unsigned i = A; i <= B; i++)
		puppet_poll(&world.puppets[i]);
}

static const struct ol_hello *hello_of(unsigned which)
{
	return &world.puppets[which].sessions[OL_ROLE_WORKER].hello;
}

/* Until it has said hello to both, and they let it in */
static void open_end(void)
{
	alarm(DEADLINE_S);
	while (!puppet_waits(&world.puppets[A], OL_ROLE_WORKER) ||
	       !puppet_waits(&world.puppets[B], OL_ROLE_WORKER))
		puppets_go_on();
	for (unsigned i = A; i <= B; i++)
		puppet_welcome(&world.puppets[i], OL_ROLE_WORKER, EPOCH, 0);
	while (!atomic_load(&world.opened))
		puppets_go_on();
	alarm(0);
	opener_join(thread);
	check_ok(world.open_rc);
}

/* Open the worker, and close it: with what it offers at A. 0: with nothing */
static uint64_t offered(void)
{
	uint64_t found;

	open_begin();
	open_end();
	found = hello_of(A)->init;
	assert_int_equal(found != 0, hello_of(A)->mirror.bytes != 0);
	ol_worker_close(world.worker);
	world.worker = NULL;
	until(!puppet_connected(&world.puppets[A], OL_ROLE_WORKER) &&
	      !puppet_connected(&world.puppets[B], OL_ROLE_WORKER));
	return found;
}

static void nothing_is_offered_before_all_servers_have_spoken(void **unused)
{
	struct puppet *b = &world.puppets[B];

	(void)unused;
	b->scarce = true;
	open_begin();
	alarm(DEADLINE_S);
	while (b->scarcities < 3 || !puppet_connected(&world.puppets[A], OL_ROLE_WORKER))
		puppets_go_on();
	for (unsigned i = 0; i < TURNS; i++)
		puppets_go_on();
	alarm(0);
	assert_true(puppet_connected(&world.puppets[A], OL_ROLE_WORKER));
	assert_false(puppet_waits(&world.puppets[A], OL_ROLE_WORKER)); /* no hello */
	b->scarce = false;
	open_end();
	assert_true(hello_of(A)->init != 0 && hello_of(A)->init == hello_of(B)->init);
	assert_true(hello_of(A)->mirror.bytes != 0 && hello_of(B)->mirror.bytes != 0);
}

static void of_two_first_weights_no_job_is_mixed(void **unused)
{
	uint64_t mine = offered();

	(void)unused;
	assert_true(mine != 0);
	assert_int_equal(mixtures, 0);
	world.puppets[B].init = mine; /* it has read these: its neighbour may have them, too */
	assert_true(offered() == mine);
	world.puppets[B].init = mine + 2;
	assert_true(offered() == 0);
	world.puppets[B].init = 0; /* a job with weights of whatever kind */
	assert_true(offered() == 0);
	assert_int_equal(mixtures, 2);
	world.puppets[B].init = OL_INIT_AWAITED;
	init[PARAMS - 1] += 1.0f;
	assert_true(offered() != mine && offered() != 0);
}

static void only_worker_0_offers_and_only_where_it_is_asked(void **unused)
{
	(void)unused;
	world.puppets[A].init = world.puppets[B].init = 0;
	assert_true(offered() == 0);
	world.puppets[A].init = world.puppets[B].init = OL_INIT_AWAITED;
	world.opts.worker = 1;
	assert_true(offered() == 0);
	assert_int_equal(mixtures, 0);
}

/* The servers were let in with nothing pulled: whatever dies before gets the same again */
static void the_same_is_offered_until_there_is_a_mirror(void **unused)
{
	struct puppet *a = &world.puppets[A];
	uint64_t first;

	(void)unused;
	world.opts.outage = OL_OUTAGE_WAIT;
	open_begin();
	open_end();
	first = hello_of(A)->init;
	memset(init, 0, sizeof(init)); /* the caller's again */
	puppet_cut(a, OL_ROLE_WORKER);
	until(puppet_waits(a, OL_ROLE_WORKER));
	assert_true(hello_of(A)->init == first && first != 0);
	puppet_welcome(a, OL_ROLE_WORKER, EPOCH, 0);
	until(!link_stat().down);
	pull(OL_PULL_NEWEST);
	puppet_cut(a, OL_ROLE_WORKER);
	until(puppet_waits(a, OL_ROLE_WORKER));
	assert_true(hello_of(A)->init == 0 && hello_of(A)->mirror.bytes != 0);
	assert_true(hello_of(A)->mirror_history != 0);
}

static void who_waits_in_vain_is_told_for_whom(void **unused)
{
	(void)unused;
	world.opts.connect_timeout_ms = 200;
	world.opts.worker = 1;
	open_begin();
	alarm(DEADLINE_S);
	while (!atomic_load(&world.opened))
		puppets_go_on();
	alarm(0);
	opener_join(thread);
	assert_int_equal(world.open_rc, OL_E_NO_SERVER);
	assert_non_null(strstr(world.err, "waits for the first ones of worker 0"));
}

static void refused(int rc, const char *why)
{
	open_begin();
	alarm(DEADLINE_S);
	while (!atomic_load(&world.opened))
		puppets_go_on();
	alarm(0);
	opener_join(thread);
	assert_int_equal(world.open_rc, rc);
	if (strstr(world.err, why) == NULL)
		fail_msg("\"%s\", not \"%s\"", world.err, why);
	until(!puppet_connected(&world.puppets[A], OL_ROLE_WORKER) &&
	      !puppet_connected(&world.puppets[B], OL_ROLE_WORKER));
}

static void what_cannot_be_first_weights_is_refused(void **unused)
{
	(void)unused;
	world.opts.init_tensors = "F32 1025 a\n";
	refused(-EINVAL, "init_tensors: the tensors have 1025 parameters, and the job 1026");
	world.opts.init_tensors = "F32 1026 a\n"; /* the servers have no room for names */
	refused(OL_E_GEOMETRY, "takes 12 bytes, and it has room for 0");
	world.opts.init = NULL;
	refused(-EINVAL, "init_tensors is given without init");
	world.opts.init_tensors = NULL;
	world.opts.init = init;
	init[PARAMS - 1] = NAN;
	refused(-EINVAL, "init: parameter 1025 is a NaN or an infinity");
	world.opts.param_count = 0;
	refused(-EINVAL, "init is given without param_count");
	world.opts.param_count = PARAMS - 1;
	refused(OL_E_GEOMETRY, "its job has 1026 parameters, this worker's model 1025");
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(nothing_is_offered_before_all_servers_have_spoken),
		test(of_two_first_weights_no_job_is_mixed),
		test(only_worker_0_offers_and_only_where_it_is_asked),
		test(the_same_is_offered_until_there_is_a_mirror),
		test(who_waits_in_vain_is_told_for_whom),
		test(what_cannot_be_first_weights_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
