/* SPDX-License-Identifier: BSD-3-Clause */

/* options.c -- a server's options: their defaults, and what is wrong with them */

#include "server/options.h"

#include "base/cancel.h"
#include "base/defaults.h"
#include "base/key.h"
#include "base/sized.h"
#include "outlast_tensor.h"
#include "policy/kind.h"
#include "replication/coord/lease.h"
#include "replication/view.h"
#include "server/pool.h"
#include "server/rule.h"
#include "server/serve.h"
#include "wire/auth.h"

void ol_server_opts_init_sized(struct ol_server_opts *opts, size_t opts_bytes)
{
	const struct ol_server_opts defaults = {
		.size = opts_bytes,
		.listen = OL_DEFAULT_LISTEN,
		.shard_count = 1,
		.epoch = 1,
		.consistency = OL_CONSISTENCY_ASYNC,
		.workers = 1,
		.workers_max = OL_DEFAULT_WORKERS_MAX,
		.observers_max = OL_DEFAULT_OBSERVERS_MAX,
		.window = OL_DEFAULT_WINDOW,
		.rule = { .optimizer = OL_OPTIMIZER_SGD,
			  .lr = (float)OL_DEFAULT_LR,
			  .momentum = (float)OL_DEFAULT_MOMENTUM,
			  .beta1 = (float)OL_DEFAULT_BETA1,
			  .beta2 = (float)OL_DEFAULT_BETA2,
			  .epsilon = (float)OL_DEFAULT_EPSILON },
		.cancel_fd = -1,
		.spin_us = OL_DEFAULT_SPIN_US,
		.heartbeat_ms = OL_DEFAULT_HEARTBEAT_MS,
		.retry_timeout_ms = OL_DEFAULT_RETRY_TIMEOUT_MS,
		.threads = OL_DEFAULT_THREADS,
		.pin_timeout_ms = OL_DEFAULT_PIN_TIMEOUT_MS,
		.lease_ms = OL_DEFAULT_LEASE_MS,
		.restore_wait_ms = 3000,
		.replay = OL_REPLAY_MEAN,
		.replay_clip = OL_DEFAULT_REPLAY_CLIP,
		.checkpoint_keep = OL_DEFAULT_CHECKPOINT_KEEP,
		.fraction = 1.0,
		.replicas = OL_DEFAULT_REPLICAS,
		.coordinator_timeout_ms = OL_DEFAULT_CONNECT_MS,
		.rule_groups = OL_DEFAULT_RULE_GROUPS,
		.lr_gamma = (float)OL_DEFAULT_LR_GAMMA,
		.lr_power = 1,
	};

	ol_sized_give(opts, opts_bytes, &defaults, sizeof(defaults));
}

/* The fault of the options for checkpoints' blocks; NULL: none */
static const char *selection_check(const struct ol_server_opts *opts)
{
	if (opts->selection == OL_SELECT_FULL)
		return opts->extrapolate != 0.0 ? "extrapolate is of running checkpoints"
		       : opts->checkpoint_format != OL_FORMAT_FP32
			       ? "checkpoint_format is of running checkpoints"
			       : NULL;
	if (opts->selection > OL_SELECT_RANDOM)
		return "selection has no such value";
	if (!(opts->extrapolate >= 0.0 && opts->extrapolate <= 1.0))
		return "extrapolate is not from 0 to 1";
	if (opts->checkpoint_format != OL_FORMAT_FP32 && opts->checkpoint_format != OL_FORMAT_INT8)
		return "checkpoint_format is neither FP32 nor INT8";
	if (!(opts->fraction > 0.0 && opts->fraction <= 1.0))
		return "fraction is not above 0 and at most 1";
	if (opts->checkpoint_steps != 0 && opts->fraction * (double)opts->checkpoint_steps < 1.0)
		return "fraction times checkpoint_steps is less than a step";
	if (opts->checkpoint_ms != 0 && opts->fraction * (double)opts->checkpoint_ms < 1.0)
		return "fraction times checkpoint_ms is less than a millisecond";
	return NULL;
}

static struct ol_policy_opts policy_asked(const struct ol_server_opts *opts)
{
	struct ol_policy_opts policy;
	uint64_t first, count;

	ol_policy_opts_init(&policy);
	if (ol_shard_span(opts->param_count, opts->shard_count, opts->shard, &first, &count) == 0)
		policy.share = (double)count / (double)opts->param_count;
	policy.consistency = opts->consistency;
	policy.wait = opts->wait;
	policy.workers = opts->workers;
	policy.workers_max = opts->workers_max;
	policy.k = opts->wait_k;
	policy.grace_ms = opts->grace_ms;
	policy.late = opts->late;
	policy.late_steps = opts->late_steps;
	policy.staleness = opts->staleness;
	policy.lr = (double)opts->rule.lr;
	return policy;
}

bool ol_server_decided(const struct ol_server_opts *opts)
{
	const struct ol_policy_opts policy = policy_asked(opts);

	return opts->shard_count > 1 && opts->consistency == OL_CONSISTENCY_SYNC &&
	       ol_policy_one_decides(&policy);
}

/* Shards that do not decide make the steps that shard 0 has made (follow.h); of ssp each gradient is one,
 * and who is ahead waits at shard 0 */
struct ol_policy_opts ol_server_policy_opts(const struct ol_server_opts *opts)
{
	struct ol_policy_opts policy = policy_asked(opts);

	if (opts->shard == 0 || !ol_policy_one_decides(&policy))
		return policy;
	policy.consistency = OL_CONSISTENCY_ASYNC;
	policy.wait = OL_WAIT_ALL;
	policy.late = OL_LATE_DROP;
	return policy;
}

/* An observer's key serves observers, who have the same */
static bool key_serves(const char *job_key, bool observers)
{
	enum ol_holder holder;
	uint32_t worker;

	return ol_auth_holder(job_key != NULL ? job_key : "", &holder, &worker) == 0 &&
	       (holder == OL_HOLDER_JOB || (observers && holder == OL_HOLDER_OBSERVER));
}

static const char *chain_fault(const struct ol_server_opts *opts)
{
	if (opts->replicas == 0 || opts->replicas > OL_REPLICAS_MAX)
		return "replicas is not between 1 and 8";
	if (opts->checkpoint_dir != NULL && opts->selection != OL_SELECT_FULL)
		return "selection beside a coordinator: a chain has full checkpoints only";
	if (opts->checkpoint_dir != NULL && opts->replicate_every != 0)
		return "checkpoint_dir beside replicate_every: only a strict chain, whose versions are "
		       "committed, has checkpoints";
	return ol_lease_fault(opts->lease_ms, opts->heartbeat_ms, opts->refound != 0);
}

const char *ol_server_opts_fault(const struct ol_server_opts *opts, bool read_only,
				 char why[OL_OPTS_WHY_MAX])
{
	const char *what = NULL;

	if (opts->listen == NULL || opts->listen[0] == '\0')
		what = "listen is not given";
	else if (ol_rule_name(opts->rule.optimizer) == NULL)
		what = "optimizer has no such value";
	else if (opts->observers_max > OL_OBSERVERS_MAX)
		what = "observers_max is over 1024";
	else if (opts->workers_max == 0 || opts->workers_max > OL_WORKERS_MAX)
		what = "workers_max is not between 1 and 1024";
	else if (opts->window == 0 || opts->window > OL_WINDOW_MAX)
		what = "window is not between 1 and 64";
	else if (ol_key_fault(opts->job_key) != NULL)
		what = ol_key_fault(opts->job_key);
	else if (!key_serves(opts->job_key, read_only))
		what = read_only
			       ? "job key: a worker's credential, or a damaged one: a relay needs an "
				 "observer's, or the job key"
			       : "job key: a worker's or an observer's credential, or a damaged one: a "
				 "server needs the job key, or outlast keygen --server";
	else if (opts->epoch >= OL_EPOCH_MAX)
		what = "epoch is not below 2147483647";
	else if (opts->heartbeat_ms == 0)
		what = "heartbeat_ms is 0";
	else if (opts->lease_ms != 0 && opts->lease_ms < 4 * opts->heartbeat_ms)
		what = "lease_ms is less than 4 times heartbeat_ms";
	else if (opts->coordinator != NULL && chain_fault(opts) != NULL)
		what = chain_fault(opts);
	else if (opts->checkpoint_by > OL_CHECKPOINT_BY_EACH)
		what = "checkpoint_by has no such value";
	else if (opts->checkpoint_by != OL_CHECKPOINT_BY_TAIL && opts->coordinator == NULL)
		what = "checkpoint_by is of a chain, and coordinator is not given";
	else if (opts->restore > OL_RESTORE_FRESHEST || opts->replay > OL_REPLAY_STALENESS)
		what = "restore or replay has no such value";
	else if (opts->checkpoint_dir != NULL && opts->checkpoint_keep == 0)
		what = "checkpoint_keep is 0";
	else if (opts->restore == OL_RESTORE_CHECKPOINT && opts->checkpoint_dir == NULL)
		what = "restore wants a checkpoint, and checkpoint_dir is not given";
	else if (opts->shard_count == 0 || opts->shard_count > OL_SHARDS_MAX)
		what = "shard_count is not between 1 and 64";
	else if (opts->shard >= opts->shard_count)
		what = "shard is not below shard_count: shards count from 0";
	else if (opts->threads == 0 || opts->threads > OL_POOL_THREADS_MAX)
		what = "threads is not between 1 and 64";
	else if (opts->weights_bf16 > 1)
		what = "weights_bf16 is 0 or 1";
	else if (!ol_cancel_fd_is_good(opts->cancel_fd))
		what = "cancel_fd is no open descriptor: give an eventfd, or -1";
	if (what == NULL)
		what = selection_check(opts);
	if (what == NULL) {
		struct ol_policy_opts policy = policy_asked(opts);

		what = ol_policy_fault(&policy);
	}
	if (what == NULL) /* the policy's own error is clearer */
		what = ol_server_rule_fault(opts);
	if (what == NULL && opts->init_worker && opts->tensors != NULL)
		what = "tensors beside init_worker: the table of tensors is worker 0's";
	if (what == NULL && opts->tensors_room > OL_TENSORS_BYTES_MAX)
		what = "tensors_room is over 2^20";
	if (what == NULL && opts->tensors != NULL &&
	    ol_tensor_fault(opts->tensors, opts->param_count, why, OL_OPTS_WHY_MAX))
		what = why;
	return what;
}
