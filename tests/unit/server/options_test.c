/* SPDX-License-Identifier: BSD-3-Clause */

/* options_test.c -- a server accepts options up to each limit, and refuses those beyond with a line */

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "outlast_server.h"
#include "outlast_tensor.h"
#include "rdma/transport.h"
#include "replication/view.h"
#include "server/options.h"
#include "wire/bounds.h"

enum {
	WORKERS = 4,
	PARAMS = 16,
#define X(...) +1
	OPTIMIZERS = 0 OL_OPTIMIZER_MAP(X), /* how many there are */
	WAITS = 0 OL_WAIT_MAP(X)
#undef X
};

static struct ol_folder folder; /* for checkpoints */
static char listen_at[64], long_key[257], key[256];

static int setup(void **unused)
{
	(void)unused;
	snprintf(listen_at, sizeof(listen_at), "@ol-options-%d", (int)getpid());
	memset(long_key, 'k', sizeof(long_key) - 1);
	memset(key, 'k', sizeof(key) - 1);
	return ol_folder_make(&folder, "ol-options-test-");
}

static int teardown(void **unused)
{
	(void)unused;
	ol_folder_drop(&folder);
	return 0;
}

static struct ol_server_opts usual(void)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.listen = listen_at;
	opts.transport = "shm";
	opts.param_count = PARAMS;
	opts.workers_max = WORKERS;
	return opts;
}

/* Synchronous steps of all workers */
static struct ol_server_opts steps(void)
{
	struct ol_server_opts opts = usual();

	opts.consistency = OL_CONSISTENCY_SYNC;
	opts.workers = WORKERS;
	return opts;
}

static struct ol_server_opts saving(void)
{
	struct ol_server_opts opts = usual();

	opts.checkpoint_dir = folder.path;
	opts.checkpoint_ms = 1000;
	return opts;
}

static struct ol_server_opts running(void)
{
	struct ol_server_opts opts = saving();

	opts.selection = OL_SELECT_PRIORITY;
	opts.fraction = 0.5;
	return opts;
}

static struct ol_server_opts chain(void)
{
	struct ol_server_opts opts = usual();

	opts.coordinator = "dir:/proc/nothing"; /* it is not reached */
	opts.replicas = 3;
	opts.coordinator_timeout_ms = 1;
	return opts;
}

/* What a server says of them; "": it takes them */
static const char *said(const struct ol_server_opts *opts)
{
	static char err[512];
	float zero[PARAMS] = { 0 };
	struct ol_server *server;
	int rc;

	err[0] = '\0';
	rc = ol_server_open(opts, zero, &server, err, sizeof(err));
	if (rc == 0)
		ol_server_close(server);
	else if (strncmp(err, "server option ", strlen("server option ")) != 0)
		return ""; /* something behind the options */
	else
		assert_int_equal(rc, -EINVAL);
	return err;
}

#define taken(from, change) \
	do { \
		struct ol_server_opts o = from(); \
		change; \
		assert_string_equal(said(&o), ""); \
	} while (0)

#define refused(from, change, words) \
	do { \
		struct ol_server_opts o = from(); \
		change; \
		if (strstr(said(&o), words) == NULL) \
			fail_msg("%s: \"%s\"", words, said(&o)); \
	} while (0)

static void what_is_usual_is_taken(void **unused)
{
	(void)unused;
	taken(usual, (void)o);
	taken(steps, (void)o);
	taken(saving, (void)o);
	taken(running, (void)o);
	taken(chain, (void)o);
}

static void what_does_not_exist_is_refused(void **unused)
{
	(void)unused;
	refused(usual, o.size = 0, "size is not valid");
	refused(usual, o.size -= 1, "size is not valid");
	refused(usual, o.listen = NULL, "listen is not given");
	refused(usual, o.listen = "", "listen is not given");
	refused(usual, o.consistency = OL_CONSISTENCY_ASYNC - 1, "neither async, sync nor ssp");
	refused(usual, o.consistency = OL_CONSISTENCY_SSP + 1, "neither async, sync nor ssp");
	taken(usual, o.consistency = OL_CONSISTENCY_SSP);
	refused(steps, o.wait = (enum ol_wait)WAITS, "wait has no such value");
	refused(usual, o.rule.optimizer = OL_OPTIMIZER_SGD - 1, "optimizer has no such value");
	refused(usual, o.rule.optimizer = (enum ol_optimizer)(OPTIMIZERS + OL_OPTIMIZER_SGD),
		"optimizer has no such value");
	taken(usual, o.rule.optimizer = OL_OPTIMIZER_ADAMW);
	refused(saving, o.restore = OL_RESTORE_FRESHEST + 1, "restore or replay has no such value");
	refused(usual, o.replay = OL_REPLAY_STALENESS + 1, "restore or replay has no such value");
	taken(saving, o.restore = OL_RESTORE_FRESHEST);
	taken(usual, o.replay = OL_REPLAY_STALENESS);
	refused(running, o.selection = OL_SELECT_RANDOM + 1, "selection has no such value");
	taken(running, o.selection = OL_SELECT_RANDOM);
}

static void a_step_that_waits_for_some_has_its_numbers_checked(void **unused)
{
	(void)unused;
	refused(usual, o.wait = OL_WAIT_DBW, "wait is for sync");
	for (unsigned i = 0; i < 3; i++) {
		enum ol_wait wait = i == 0   ? OL_WAIT_FIXED
				    : i == 1 ? OL_WAIT_ADASYNC
					     : OL_WAIT_QUORUM;

		refused(steps, (o.wait = wait, o.wait_k = 0), "wait_k is not between");
		refused(steps, (o.wait = wait, o.wait_k = WORKERS + 1), "wait_k is not between");
		taken(steps, (o.wait = wait, o.wait_k = 1));
		taken(steps, (o.wait = wait, o.wait_k = WORKERS));
	}
	taken(steps, o.wait = OL_WAIT_DBW);
	taken(steps, o.wait = OL_WAIT_DBW_BLIND);
	refused(steps, (o.wait = OL_WAIT_DBW, o.rule.lr = 0.0f), "lr is not above 0");
	refused(steps, (o.wait = OL_WAIT_DBW, o.rule.lr = INFINITY), "lr is not above 0");
	taken(steps, (o.wait = OL_WAIT_DBW_BLIND, o.rule.lr = 0.0f));
	taken(steps, o.rule.lr = 0.0f);
}

static void what_is_late_waits_for_a_step_only_where_steps_wait_for_some(void **unused)
{
	(void)unused;
	taken(steps, (o.wait = OL_WAIT_FIXED, o.wait_k = 1, o.late = OL_LATE_NEXT));
	taken(steps, (o.wait = OL_WAIT_QUORUM, o.wait_k = 1, o.late = OL_LATE_NEXT));
	taken(steps, (o.wait = OL_WAIT_QUORUM, o.wait_k = 1, o.late = OL_LATE_AGED));
	refused(steps, (o.wait = OL_WAIT_FIXED, o.wait_k = 1, o.late = OL_LATE_AGED + 1),
		"late has no such value");
	refused(steps, o.late = OL_LATE_NEXT, "late is next");
	taken(steps, (o.wait = OL_WAIT_DBW, o.late = OL_LATE_NEXT));
	taken(steps, (o.wait = OL_WAIT_DBW_BLIND, o.late = OL_LATE_AGED));
	taken(steps, (o.wait = OL_WAIT_ADASYNC, o.wait_k = 1, o.late = OL_LATE_NEXT));
	refused(usual, o.late = OL_LATE_NEXT, "late is next");
}

static void of_several_shards_one_decides(void **unused)
{
	struct ol_server_opts opts = steps();

	(void)unused;
	taken(usual, o.shard_count = 2);
	taken(steps, o.shard_count = 2);
	taken(usual, (o.shard_count = 2, o.consistency = OL_CONSISTENCY_SSP));
	taken(steps, (o.shard_count = 2, o.wait = OL_WAIT_FIXED, o.wait_k = 2));
	taken(steps, (o.shard_count = 2, o.wait = OL_WAIT_QUORUM, o.wait_k = WORKERS));
	taken(steps,
	      (o.shard_count = 2, o.wait = OL_WAIT_QUORUM, o.wait_k = 1, o.late = OL_LATE_AGED));
	refused(steps, (o.shard_count = 2, o.shard = 1, o.wait = OL_WAIT_FIXED),
		"wait_k is not between"); /* whoever decides */

	assert_false(ol_server_decided(&opts));
	opts.shard_count = 2;
	assert_false(ol_server_decided(&opts)); /* each step is of all workers */
	opts.wait = OL_WAIT_DBW;
	assert_true(ol_server_decided(&opts));
	assert_int_equal(ol_server_policy_opts(&opts).wait, OL_WAIT_DBW);
	opts.shard = 1;
	assert_int_equal(ol_server_policy_opts(&opts).consistency, OL_CONSISTENCY_ASYNC);
	opts.consistency =
		OL_CONSISTENCY_SSP; /* steps are made by each shard, and shard 0 holds back */
	opts.wait = OL_WAIT_ALL;
	assert_false(ol_server_decided(&opts));
	assert_int_equal(ol_server_policy_opts(&opts).consistency, OL_CONSISTENCY_ASYNC);
	opts.shard = 0;
	assert_int_equal(ol_server_policy_opts(&opts).consistency, OL_CONSISTENCY_SSP);
}

static void numbers_have_limits(void **unused)
{
	(void)unused;
	refused(usual, o.observers_max = 1025, "observers_max is over 1024");
	taken(usual, o.observers_max = 1024);
	refused(usual, o.workers_max = 0, "workers_max is not between");
	refused(usual, o.workers_max = 1025, "workers_max is not between");
	taken(usual, o.workers_max = 1);
	taken(usual, o.workers_max = 1024);
	refused(usual, o.window = 0, "window is not between");
	refused(usual, o.window = 65, "window is not between");
	taken(usual, o.window = 1);
	taken(usual, o.window = 64);
	refused(steps, o.workers = 0, "workers is not between");
	refused(steps, o.workers = WORKERS + 1, "workers is not between");
	taken(steps, o.workers = 1);
	taken(usual, o.workers = 0);
	refused(usual, o.job_key = long_key, "job key is longer than 255 bytes");
	taken(usual, o.job_key = key);
	refused(usual, o.job_key = "0123456789abcdef", "job key has fewer than 128 bits");
	taken(usual, o.job_key = "");
	refused(usual, o.tensors_room = OL_TENSORS_BYTES_MAX + 1, "tensors_room is over 2^20");
	taken(usual, o.tensors_room = OL_TENSORS_BYTES_MAX);
	refused(usual, (o.init_worker = 1, o.tensors = "F32 16 a\n"), "tensors beside init_worker");
	taken(usual, o.init_worker = 1);
	refused(usual, o.epoch = OL_EPOCH_MAX, "epoch is not below 2147483647");
	refused(usual, o.epoch = UINT32_MAX, "epoch is not below 2147483647");
	taken(usual, o.epoch = OL_EPOCH_MAX - 1);
	refused(usual, o.heartbeat_ms = 0, "heartbeat_ms is 0");
	refused(usual, (o.heartbeat_ms = 50, o.lease_ms = 199), "less than 4 times");
	taken(usual, (o.heartbeat_ms = 50, o.lease_ms = 200));
	taken(usual, (o.heartbeat_ms = 50, o.lease_ms = 0));
}

static void a_rule_is_of_finite_numbers(void **unused)
{
	(void)unused;
	refused(usual, o.rule.lr = NAN, "rule.lr is not");
	refused(usual, o.rule.lr = INFINITY, "rule.lr is not");
	refused(usual, o.rule.lr = -0.5f, "rule.lr is not");
	refused(usual, o.rule.weight_decay = NAN, "rule.weight_decay is not");
	refused(usual, (o.rule.optimizer = OL_OPTIMIZER_MOMENTUM, o.rule.momentum = NAN),
		"rule.momentum is not");
	refused(usual, (o.rule.optimizer = OL_OPTIMIZER_NESTEROV, o.rule.momentum = 1.5f),
		"rule.momentum is not");
	refused(usual, (o.rule.optimizer = OL_OPTIMIZER_ADAM, o.rule.beta1 = 1.0f),
		"rule.beta1 or");
	refused(usual, (o.rule.optimizer = OL_OPTIMIZER_ADAMW, o.rule.beta2 = NAN),
		"rule.beta1 or");
	refused(usual, (o.rule.optimizer = OL_OPTIMIZER_ADAM, o.rule.epsilon = 0.0f),
		"rule.epsilon is not");
	taken(usual, (o.rule.optimizer = OL_OPTIMIZER_ADAM, o.rule.beta1 = 0.0f));
	taken(usual, (o.rule.momentum = NAN, o.rule.epsilon = 0.0f)); /* SGD has none */
	refused(usual, (o.replay = OL_REPLAY_CLIP, o.replay_clip = INFINITY), "replay_clip is not");
	refused(usual, (o.replay = OL_REPLAY_CLIP, o.replay_clip = 0.0f), "replay_clip is not");
	taken(usual, (o.replay = OL_REPLAY_CLIP, o.replay_clip = 2.0f));
}

static void a_shard_is_one_of_its_job(void **unused)
{
	(void)unused;
	refused(usual, o.shard = 1, "shard is not below shard_count");
	refused(usual, o.shard_count = 0, "shard_count is not between");
	refused(usual, o.shard_count = 65, "shard_count is not between");
	refused(usual, o.cancel_fd = 1 << 20, "cancel_fd is no open descriptor");
	refused(usual, o.cancel_fd = -5, "cancel_fd is no open descriptor");
	taken(usual, o.cancel_fd = STDIN_FILENO);
}

static void a_chain_has_replicas_a_lease_and_full_checkpoints(void **unused)
{
	(void)unused;
	refused(chain, o.replicas = 0, "replicas is not between");
	refused(chain, o.replicas = OL_REPLICAS_MAX + 1, "replicas is not between");
	taken(chain, o.replicas = OL_REPLICAS_MAX);
	taken(chain, o.replicas = 1);
	taken(usual, o.replicas = 0); /* there is none */
	refused(chain, (o.checkpoint_dir = folder.path, o.selection = OL_SELECT_PRIORITY),
		"a chain has full checkpoints only");
	refused(chain, (o.checkpoint_dir = folder.path, o.replicate_every = 5),
		"only a strict chain");
	refused(usual, o.checkpoint_by = OL_CHECKPOINT_BY_EACH, "checkpoint_by is of a chain");
	refused(chain, o.checkpoint_by = (enum ol_checkpoint_by)2,
		"checkpoint_by has no such value");
	refused(chain, o.lease_ms = 0, "never taken for dead");
	refused(chain, (o.heartbeat_ms = 3, o.lease_ms = 13, o.refound = 1), "no margin between");
	taken(chain, (o.heartbeat_ms = 3, o.lease_ms = 13));
	taken(chain, (o.heartbeat_ms = 3, o.lease_ms = 14, o.refound = 1));
	refused(chain, (o.lease_ms = UINT32_MAX, o.refound = 1), "no margin between");
}

static void checkpoints_have_their_numbers_checked(void **unused)
{
	(void)unused;
	refused(saving, o.checkpoint_keep = 0, "checkpoint_keep is 0");
	taken(usual, o.checkpoint_keep = 0);
	refused(usual, o.restore = OL_RESTORE_CHECKPOINT, "checkpoint_dir is not given");
	taken(saving, o.restore = OL_RESTORE_CHECKPOINT);
	refused(running, o.fraction = 0.0, "fraction is not above 0");
	refused(running, o.fraction = 1.01, "fraction is not above 0");
	refused(running, o.fraction = NAN, "fraction is not above 0");
	taken(running, o.fraction = 1.0);
	refused(running, (o.checkpoint_steps = 1, o.fraction = 0.5), "less than a step");
	taken(running, (o.checkpoint_steps = 2, o.fraction = 0.5));
	refused(running, (o.checkpoint_ms = 1, o.fraction = 0.5), "less than a millisecond");
	taken(running, (o.checkpoint_ms = 2, o.fraction = 0.5));
	taken(saving, o.fraction = 7.0); /* of running checkpoints alone */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_usual_is_taken),
		cmocka_unit_test(what_does_not_exist_is_refused),
		cmocka_unit_test(a_step_that_waits_for_some_has_its_numbers_checked),
		cmocka_unit_test(what_is_late_waits_for_a_step_only_where_steps_wait_for_some),
		cmocka_unit_test(of_several_shards_one_decides),
		cmocka_unit_test(numbers_have_limits),
		cmocka_unit_test(a_rule_is_of_finite_numbers),
		cmocka_unit_test(a_shard_is_one_of_its_job),
		cmocka_unit_test(a_chain_has_replicas_a_lease_and_full_checkpoints),
		cmocka_unit_test(checkpoints_have_their_numbers_checked),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
