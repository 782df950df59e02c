/* SPDX-License-Identifier: BSD-3-Clause */

/* settings_test.c -- a setting of the program has the default of the library's option for it; OUTLAST_JOB is where the
 * job is, or its name */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cmd/durable.h"
#include "cmd/settings.h"

struct all {
	struct ol_set_rule rule;
	struct ol_set_link link;
	struct ol_set_durable durable;
	struct ol_set_outage outage;
	struct ol_set_lease lease;
	struct ol_set_coord coord;
	struct ol_set_chain chain;
};

static void the_program_and_the_library_have_the_same_defaults(void **state)
{
	struct ol_settings settings = { .cmd = "test", .spec = { .program = "test" } };
	struct ol_worker_opts worker, said;
	struct ol_update_rule rule;
	struct ol_server_opts server;
	struct ol_ckpt_set ckpt;
	char name[] = "test";
	char *argv[] = { name, NULL };
	struct all all;
	int code = -1;

	(void)state;
	ol_settings_add(&settings, ol_rows_rule, offsetof(struct all, rule));
	ol_settings_add(&settings, ol_rows_link, offsetof(struct all, link));
	ol_settings_add(&settings, ol_rows_durable, offsetof(struct all, durable));
	ol_settings_add(&settings, ol_rows_restore_first, offsetof(struct all, durable));
	ol_settings_add(&settings, ol_rows_outage, offsetof(struct all, outage));
	ol_settings_add(&settings, ol_rows_lease, offsetof(struct all, lease));
	ol_settings_add(&settings, ol_rows_coord, offsetof(struct all, coord));
	ol_settings_add(&settings, ol_rows_chain, offsetof(struct all, chain));
	assert_true(ol_settings_load(&settings, &all, 1, argv, &code));
	assert_int_equal(ol_settings_rule_check(&settings, &all.rule, 1, 1), 0);
	assert_int_equal(ol_settings_durable_check(&settings, &all.durable, &ckpt), 0);

	ol_server_opts_init(&server);
	rule = ol_settings_rule(&all.rule);
	assert_memory_equal(&rule, &server.rule, sizeof(rule));
	assert_int_equal(all.rule.how.consistency, server.consistency);
	assert_int_equal(all.rule.how.wait, server.wait);
	assert_int_equal(all.rule.isolation, server.shared_domain);
	assert_int_equal(all.link.window, server.window);
	assert_int_equal(all.rule.threads, server.threads);
	assert_int_equal(all.link.spin_us, server.spin_us);
	assert_int_equal(all.lease.lease_ms, server.lease_ms);
	assert_int_equal(all.durable.restore, server.restore);
	assert_int_equal(all.durable.replay, server.replay);
	assert_true((float)all.durable.replay_clip == server.replay_clip);
	assert_int_equal(ckpt.selection, server.selection);
	assert_int_equal(ckpt.keep, server.checkpoint_keep);
	assert_int_equal(all.chain.replicas, server.replicas);
	assert_int_equal(all.chain.replicate_every, server.replicate_every);

	ol_worker_opts_init(&worker);
	said = worker;
	ol_settings_outage(&all.outage, &all.lease, &said);
	assert_int_equal(said.lease_ms, worker.lease_ms);
	assert_int_equal(said.outage_timeout_ms, worker.outage_timeout_ms);
	assert_int_equal(said.queue, worker.queue);
	assert_int_equal(said.queue_max, worker.queue_max);
	assert_int_equal(said.local_progress, worker.local_progress);
	assert_int_equal(said.mirror_state, worker.mirror_state);
	assert_int_equal(all.link.spin_us, worker.spin_us);
	ol_settings_fini(&settings);
}

struct place {
	const char *connect;
	struct ol_set_coord coord;
};

static const struct ol_conf_field place_fields[] = { OL_ROW_STR(place, connect, "@usual", "") };
static const struct ol_rows place_rows = OL_ROWS(place_fields);

/* What a program that connects, or does not, makes of OUTLAST_JOB, and of its word; NULL: none */
static void place_is(const char *job, const char *word, const char *addresses, const char *connect,
		     const char *coordinator, const char *name)
{
	struct ol_settings settings = { .cmd = "test",
					.addresses = addresses,
					.spec = { .program = "test" } };
	char program[] = "test", copy[64];
	char *argv[] = { program, copy, NULL };
	struct place place;
	int code = -1;

	snprintf(copy, sizeof(copy), "%s", word != NULL ? word : "");
	assert_int_equal(setenv("OUTLAST_JOB", job, 1), 0);
	ol_settings_add(&settings, place_rows, 0);
	ol_settings_add(&settings, ol_rows_coord, offsetof(struct place, coord));
	assert_true(ol_settings_load(&settings, &place, word != NULL ? 2 : 1, argv, &code));
	assert_string_equal(place.connect, connect);
	assert_string_equal(place.coord.job, name);
	if (coordinator != NULL)
		assert_string_equal(place.coord.coordinator, coordinator);
	else
		assert_null(place.coord.coordinator);
	ol_settings_fini(&settings);
	unsetenv("OUTLAST_JOB");
}

static void the_variable_says_where_the_job_is_or_its_name(void **state)
{
	(void)state;
	place_is("cnn7", NULL, "connect", "@usual", NULL, "cnn7");
	place_is("@a,10.0.0.1:7471", NULL, "connect", "@a,10.0.0.1:7471", NULL, "outlast");
	place_is("/run/s", NULL, "connect", "/run/s", NULL, "outlast");
	place_is("@a", NULL, NULL, "@usual", NULL, "outlast"); /* a server connects to no job */
	place_is("@a", "--connect=@b", "connect", "@b", NULL, "outlast");
	place_is("@a", "--coordinator=dir:/x", "connect", "@usual", "dir:/x", "outlast");
	place_is("zk:h:1", NULL, "connect", "@usual", "zk:h:1", "outlast");
	assert_int_equal(setenv("OUTLAST_JOB_NAME", "cnn8", 1), 0);
	place_is("zk:h:1", NULL, "connect", "@usual", "zk:h:1", "cnn8");
	place_is("zk:h:1", "--job=cnn9", "connect", "@usual", "zk:h:1", "cnn9");
	place_is("@a", NULL, "connect", "@a", NULL, "outlast");
	unsetenv("OUTLAST_JOB_NAME");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_program_and_the_library_have_the_same_defaults),
		cmocka_unit_test(the_variable_says_where_the_job_is_or_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
