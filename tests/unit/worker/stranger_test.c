/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * stranger_test.c -- a server of another job at the worker's address is an error at the first open;
 * later the worker tries again until its own server is back, and logs each stranger once
 *
 * The servers are puppets: the test decides what they send, and when.
 */

#include "base/log.h"
#include "unit/worker/worker_util.h"

enum {
	EPOCH = 1,
	KNOCKS = 6, /* at a stranger, until its time is up */
	TABLE = 7 /* the digest of the job's table of tensors */
};

/* Lines that the log has got about strangers, and the last of them */
static unsigned told;
static char last[512];

static void count_strangers(void *unused, enum ol_log_level level, const char *text)
{
	(void)unused;
	(void)level;
	if (strstr(text, "no server of this job") == NULL)
		return;
	told++;
	snprintf(last, sizeof(last), "%s", text);
}

static int world_open(void **unused)
{
	(void)unused;
	told = 0;
	ol_log_sink_set(count_strangers, NULL);
	world_init();
	world.puppets[A].geo.tensors_bytes = OL_LINE_BYTES;
	world.puppets[A].geo.tensors_digest = TABLE;
	puppet_size(&world.puppets[A], PUPPET_LEN);
	world.opts.servers = world.puppets[A].addr;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	ol_log_sink_set(NULL, NULL);
	return 0;
}

static void key_is_another(struct puppet *puppet, bool on)
{
	puppet->key = on ? "of another job" : "";
}

static void geometry_is_another(struct puppet *puppet, bool on)
{
	puppet->geo.workers_max = on ? 2 : 1;
}

static void model_is_another(struct puppet *puppet, bool on)
{
	puppet->geo.param_count = on ? PUPPET_LEN + 1 : PUPPET_LEN;
	puppet->geo.shard_len = puppet->geo.param_count;
}

static void tensors_are_others(struct puppet *puppet, bool on)
{
	puppet->geo.tensors_digest = on ? TABLE + 1 : TABLE; /* the table is as long */
}

static void protocol_is_another(struct puppet *puppet, bool on)
{
	puppet->foreign = on;
}

static const struct {
	void (*be)(struct puppet *puppet, bool on);
	const char *says; /* the log, of a worker that had its weights */
	int at_open; /* 0: a worker is told so by its first server */
} ways[] = {
	{ key_is_another, "key", OL_E_AUTH },
	{ geometry_is_another, "another workers_max than the job has", 0 },
	{ model_is_another, "another number of parameters", OL_E_GEOMETRY },
	{ tensors_are_others, "another table of tensors (names or shapes)", 0 },
	{ protocol_is_another, "", OL_E_WIRE },
};

enum {
	WAYS = sizeof(ways) / sizeof(ways[0])
};

static void open_live(enum ol_outage outage)
{
	world.opts.outage = outage;
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	pull(OL_PULL_NEWEST);
}

/* A server dies, a stranger takes its address for a while, the server is back */
static void live_through_strangers(enum ol_outage outage)
{
	struct puppet *a = &world.puppets[A];

	open_live(outage);
	for (unsigned i = 0; i < WAYS; i++) {
		unsigned knocks = a->knocks;

		ways[i].be(a, true);
		puppet_cut(a, OL_ROLE_WORKER);
		until(a->knocks >= knocks + KNOCKS);
		assert_true(link_stat().down);
		assert_int_equal(told, i + 1);
		assert_non_null(strstr(last, ways[i].says));
		ways[i].be(a, false);
		until(puppet_waits(a, OL_ROLE_WORKER));
		puppet_welcome(a, OL_ROLE_WORKER, EPOCH, 0);
		until(!link_stat().down);
		pull(OL_PULL_NEWEST);
	}
	assert_int_equal(link_stat().outages, WAYS);
}

static void a_worker_that_goes_on_lives_through_strangers(void **state)
{
	(void)state;
	live_through_strangers(OL_OUTAGE_CONTINUE);
}

static void a_worker_that_waits_lives_through_strangers(void **state)
{
	(void)state;
	live_through_strangers(OL_OUTAGE_WAIT);
}

static void a_stranger_does_not_outlast_the_outage_timeout(void **state)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op = { 0 };

	(void)state;
	world.opts.outage_timeout_ms = 200;
	open_live(OL_OUTAGE_WAIT);
	geometry_is_another(a, true);
	puppet_cut(a, OL_ROLE_WORKER);
	until(link_stat().down);
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, &op));
	until(op.done);
	assert_int_equal(op.status, OL_E_NO_SERVER);
}

static void at_first_open_a_stranger_is_an_error(void **state)
{
	(void)state;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	world.opts.param_count = PUPPET_LEN;
	world.opts.connect_timeout_ms = 300;
	for (unsigned i = 0; i < WAYS; i++) {
		if (ways[i].at_open == 0)
			continue;
		ways[i].be(&world.puppets[A], true);
		atomic_store(&world.opened, 0);
		open_welcomed(EPOCH);
		assert_int_equal(world.open_rc, ways[i].at_open);
		/* one without the key is not believed: the worker tries again, and says so */
		assert_int_equal(told, ways[i].at_open == OL_E_AUTH);
		told = 0;
		ways[i].be(&world.puppets[A], false);
	}
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_worker_that_goes_on_lives_through_strangers),
		test(a_worker_that_waits_lives_through_strangers),
		test(a_stranger_does_not_outlast_the_outage_timeout),
		test(at_first_open_a_stranger_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
