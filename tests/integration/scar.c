/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * scar.c -- partial recovery from running checkpoints: when one of four servers is killed, it comes
 * back with its blocks as last saved, the others' weights do not change, bit for bit, and training
 * goes on; or, with a worker's older mirror beside that, with what costs least of the two: real processes,
 * OL_TRANSPORT shm or verbs
 */

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/format.h"
#include "support/check.h"
#include "support/folder.h"
#include "support/stage.h"

enum {
	SHARDS = 4,
	LEN = 14000, /* shards of 4096, 4096, 3072 and 2736 */
	BLOCK = 137, /* floats of the job's blocks: they cross the shards' ends */
	BLOCKS = (LEN + BLOCK - 1) / BLOCK,
	VICTIM = 1,
	STEPS = 20,
	LENT = STEPS - 4, /* version of the mirror that lends */
	WAIT_MS = 300 /* restore_wait_ms: for a worker that does not come back */
};

static const uint64_t job_id = 0x5ca4;
static char folder[64];
static uint64_t lengths[BLOCKS];

static double extrapolate; /* of the servers */
static enum ol_format format; /* of their blocks */

static struct ol_server_opts server_opts(enum ol_selection selection)
{
	struct ol_server_opts opts;

	for (unsigned i = 0; i < BLOCKS; i++)
		lengths[i] = i < BLOCKS - 1 ? BLOCK : LEN - i * BLOCK;
	ol_server_opts_init(&opts);
	opts.lease_ms = JOB_LEASE_MS;
	opts.window = JOB_WINDOW;
	opts.param_count = LEN;
	opts.shard_count = SHARDS;
	opts.workers_max = 2;
	opts.restore_wait_ms = WAIT_MS;
	opts.rule.lr = 0.125f;
	opts.rule.optimizer = OL_OPTIMIZER_MOMENTUM;
	opts.job_id = job_id;
	opts.checkpoint_dir = folder;
	opts.checkpoint_steps = 8;
	opts.selection = selection;
	opts.fraction = 0.125;
	opts.extrapolate = extrapolate;
	opts.checkpoint_format = format;
	opts.blocks = lengths;
	opts.block_count = BLOCKS;
	return opts;
}

static struct ol_ckpt_meta victim_meta(uint32_t epoch, uint64_t version)
{
	struct ol_ckpt_meta meta = {
		.geo = { .param_count = LEN,
			 .shard = VICTIM,
			 .shard_count = SHARDS,
			 .workers_max = 2,
			 .window = 1,
			 .groups = 1,
			 .state_vectors = 1,
			 .consistency = OL_CONSISTENCY_ASYNC },
		.job_id = job_id,
		.version = version,
		.epoch = epoch,
		.optimizer = OL_OPTIMIZER_MOMENTUM,
	};

	check_ok(ol_shard_span(LEN, SHARDS, VICTIM, &meta.geo.shard_first, &meta.geo.shard_len));
	return meta;
}

static struct ol_worker *open_worker(const struct job *job, long id)
{
	struct ol_worker_opts opts;

	ol_worker_opts_init(&opts);
	opts.outage = OL_OUTAGE_WAIT;
	opts.mirror_state = 1;
	opts.lease_ms = 0; /* a busy machine is no death */
	return job_worker_with(job, (int)id, opts);
}

/* A shard has saved `version`, or one since */
static struct ol_server_stat saved(struct ol_worker *worker, uint32_t shard, uint64_t version)
{
	struct ol_server_stat stat;

	do {
		check_ok(ol_stat(worker, shard, &stat));
	} while (stat.checkpoint_version < version || stat.checkpoints == 0);
	return stat;
}

/* Blocks move unevenly: each by its own power of two, those of odd steps in the other half */
static void push(struct ol_worker *worker, uint64_t at)
{
	struct ol_push_info info = { .samples = 1 };
	struct ol_op op = { 0 };
	float *grad;
	int rc;

	while ((rc = ol_grad_try_acquire(worker, &grad)) == -EAGAIN)
		(void)ol_worker_poll(worker);
	check_ok(rc);
	(void)ol_weights(worker, &info.base_version);
	for (unsigned i = 0; i < LEN; i++)
		grad[i] =
			ldexpf(1.0f, -(int)(i / BLOCK * 7 % 11)) * (float)(i / BLOCK % 2 == at % 2);
	check_ok(ol_push(worker, grad, &info, &op));
	check_ok(stage_done(worker, &op));
}

static void step(struct ol_worker *worker, uint64_t at)
{
	struct ol_op op = { 0 };

	push(worker, at);
	check_ok(ol_pull(worker, OL_PULL_NEWEST, &op));
	check_ok(stage_done(worker, &op));
}

/* Steps `from` up to `to`, each saved by the victim before the next */
static void steps_saved(struct ol_worker *worker, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i < to; i++) {
		step(worker, i);
		saved(worker, VICTIM, i + 1);
	}
}

static float *weights_copy(const struct ol_worker *worker)
{
	float *copy = malloc(LEN * sizeof(*copy));

	check(copy != NULL);
	memcpy(copy, ol_weights(worker, NULL), LEN * sizeof(*copy));
	return copy;
}

/* All weights, once the victim runs again and everything that was pushed is in them */
static float *weights_back(struct ol_worker *worker, enum ol_restore restore)
{
	stage_restart(VICTIM, restore);
	stage_down(worker, VICTIM);
	stage_flush(worker);
	return weights_copy(worker);
}

static bool same(const float *a, const float *b, uint64_t first, uint64_t count)
{
	return memcmp(a + first, b + first, count * sizeof(*a)) == 0;
}

/* The victim's weights as its files have them, and the versions of its blocks; all the rest is 0 */
static uint64_t block_versions[BLOCKS];

static float *weights_saved(double by, uint64_t *ret_version)
{
	struct ol_ckpt_meta meta = victim_meta(0, 0);
	float *weights = calloc(LEN, sizeof(*weights));
	struct ol_ckpt_blocks blocks;
	char err[256] = "";
	uint8_t *content;

	check_ok(ol_ckpt_blocks_make(lengths, BLOCKS, &meta.geo, &blocks, err, sizeof(err)));
	content = malloc(ol_layout_content_bytes(&meta.geo));
	check(weights != NULL && content != NULL);
	meta.block_versions = block_versions;
	check_ok(ol_ckpt_read_running(folder, &blocks, NULL, by, &meta, content));
	memcpy(weights + meta.geo.shard_first, content + ol_layout_table_bytes(&meta.geo),
	       meta.geo.shard_len * sizeof(*weights));
	*ret_version = meta.version;
	ol_ckpt_blocks_fini(&blocks);
	free(content);
	return weights;
}

/* How many of the victim's blocks are in both the same */
static unsigned blocks_same(const float *a, const float *b, unsigned *ret_all)
{
	uint64_t first, count, at = 0;
	unsigned alike = 0, all = 0;

	check_ok(ol_shard_span(LEN, SHARDS, VICTIM, &first, &count));
	for (unsigned i = 0; i < BLOCKS; at += lengths[i++]) {
		if (at < first || at + lengths[i] > first + count)
			continue;
		all++;
		alike += same(a, b, at, lengths[i]);
	}
	*ret_all = all;
	return alike;
}

static int partial(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);
	float *before, *after, *expect, *plain;
	struct ol_server_stat stat[SHARDS], now;
	uint64_t version, first, count;
	unsigned alike, all;

	saved(worker, VICTIM, 0); /* a turn that is due while another is written is skipped */
	steps_saved(worker, 0, STEPS);
	for (uint32_t s = 0; s < SHARDS; s++)
		check_ok(ol_stat(worker, s, &stat[s]));
	check_eq(stat[VICTIM].checkpoints_skipped + stat[VICTIM].checkpoints_failed, 0);
	before = weights_copy(worker);
	stage_kill(VICTIM);
	expect = weights_saved(extrapolate, &version);
	check_eq(version, STEPS);
	plain = weights_saved(0.0, &version);
	check(same(plain, expect, 0, LEN) == (extrapolate == 0.0));
	free(plain);
	after = weights_back(worker, OL_RESTORE_CHECKPOINT);
	for (uint32_t s = 0; s < SHARDS; s++) {
		check_ok(ol_shard_span(LEN, SHARDS, s, &first, &count));
		check(same(after, s == VICTIM ? expect : before, first, count));
		check_ok(ol_stat(worker, s, &now));
		check_eq(now.version, STEPS);
		check_eq(now.epoch, s == VICTIM ? 2 : 1);
		check_eq(now.restored_from, s == VICTIM ? OL_RESTORE_CHECKPOINT : OL_RESTORE_NONE);
	}
	/* some blocks as they were, if deltas say it exactly, and some older: or nothing was chosen at all */
	alike = blocks_same(before, after, &all);
	printf("   %u of %u lost blocks came back as they were\n", alike, all);
	check((alike > 0 || format != OL_FORMAT_FP32) && alike < all);
	for (uint64_t i = 0; i < 5; i++)
		step(worker, STEPS + i);
	for (uint32_t s = 0; s < SHARDS; s++) {
		check_ok(ol_stat(worker, s, &now));
		check_eq(now.version, STEPS + 5);
	}
	check_eq(ol_applied_grads(worker, VICTIM, 0), STEPS + 5);
	check_eq(stage_stat(worker, VICTIM).lost, 0); /* what its table has is not pushed again */
	free(before);
	free(after);
	free(expect);
	ol_worker_close(worker);
	return 0;
}

/* A server that ends in order leaves all it has: nothing is older */
static int ended(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);
	float *before, *after;
	uint64_t first, count;

	for (uint64_t i = 0; i < 5; i++)
		step(worker, i);
	before = weights_copy(worker);
	stage_stop(VICTIM);
	after = weights_back(worker, OL_RESTORE_CHECKPOINT);
	check_ok(ol_shard_span(LEN, SHARDS, VICTIM, &first, &count));
	check(same(before, after, 0, LEN));
	(void)job;
	free(before);
	free(after);
	ol_worker_close(worker);
	return 0;
}

/* A worker has older weights, all of one version, and who pushed what came since is gone: the table is the
 * checkpoint's, and each block the newer of the two */
static int lent(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id), *other;
	float *mirror, *kept, *after;
	uint64_t first, count, at = 0, version;
	unsigned renewed = 0, stayed = 0;
	struct ol_server_stat stat;

	saved(worker, VICTIM, 0);
	steps_saved(worker, 0, LENT);
	mirror = weights_copy(worker);
	other = open_worker(job, 1);
	steps_saved(other, LENT, STEPS);
	ol_worker_close(other);
	stage_kill(VICTIM);
	kept = weights_saved(extrapolate, &version);
	check_eq(version, STEPS);
	after = weights_back(worker, OL_RESTORE_FRESHEST);
	check_ok(ol_stat(worker, VICTIM, &stat));
	check_eq(stat.restored_from, OL_RESTORE_CHECKPOINT);
	check_eq(stat.version, STEPS);
	check_ok(ol_shard_span(LEN, SHARDS, VICTIM, &first, &count));
	for (unsigned i = 0, b = 0; i < BLOCKS; at += lengths[i++]) {
		const uint64_t from = at > first ? at : first;
		const uint64_t end =
			at + lengths[i] < first + count ? at + lengths[i] : first + count;
		bool older;

		if (from >= end)
			continue;
		older = block_versions[b++] < LENT;
		check(same(after, older ? mirror : kept, from, end - from));
		renewed += older;
		stayed += !older;
	}
	printf("   %u of %u lost blocks are those of the mirror\n", renewed, renewed + stayed);
	check(renewed > 0 && stayed > 0);
	step(worker, STEPS);
	check_eq(ol_applied_grads(worker, VICTIM, 0), LENT + 1);
	check_eq(ol_applied_grads(worker, VICTIM, 1), STEPS - LENT);
	check_eq(stage_stat(worker, VICTIM).lost, 0);
	free(mirror);
	free(kept);
	free(after);
	ol_worker_close(worker);
	return 0;
}

/* The checkpoint is newer than the worker's weights, but the worker keeps all that these lack: nothing is lost, and no block is
 * older */
static int pushed_again(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id), *other;
	float *before, *after;
	struct ol_server_stat stat;

	saved(worker, VICTIM, 0);
	for (uint64_t i = 0; i < STEPS / 2; i++) {
		step(worker, i);
		saved(worker, VICTIM, i + 1);
	}
	for (uint64_t i = STEPS / 2; i < STEPS / 2 + JOB_WINDOW; i++) {
		push(worker, i);
		saved(worker, VICTIM, i + 1);
	}
	other = open_worker(job, 1); /* it looks, and pushes nothing */
	stage_flush(other);
	before = weights_copy(other);
	ol_worker_close(other);
	stage_kill(VICTIM);
	after = weights_back(worker, OL_RESTORE_FRESHEST);
	check_ok(ol_stat(worker, VICTIM, &stat));
	check_eq(stat.restored_from, OL_RESTORE_MIRROR);
	check_eq(stat.restored_version, STEPS / 2);
	check_eq(stat.version, STEPS / 2 + JOB_WINDOW);
	check(same(before, after, 0, LEN));
	check_eq(stage_stat(worker, VICTIM).lost, 0);
	free(before);
	free(after);
	ol_worker_close(worker);
	return 0;
}

/* Killed before its first turn was over or after: the first weights are in it */
static int at_once(const struct job *job, long id)
{
	struct ol_worker *worker = open_worker(job, id);
	struct ol_server_stat stat = saved(worker, VICTIM, 0);
	float *after;

	check_eq(stat.checkpoints, 1);
	stage_kill(VICTIM);
	after = weights_back(worker, OL_RESTORE_CHECKPOINT);
	check_ok(ol_stat(worker, VICTIM, &stat));
	check_eq(stat.restored_from, OL_RESTORE_CHECKPOINT);
	check_eq(stat.restored_version, 0);
	check(after[LEN / 2] == job->initial);
	free(after);
	ol_worker_close(worker);
	return 0;
}

static void run(enum ol_selection selection, int (*story)(const struct job *job, long id),
		const char *name)
{
	check_ok(folder_drop(folder));
	stage_play(server_opts(selection), 100.0f, 1, story, name);
	check_ok(folder_drop(folder));
}

static struct ol_server_stat opened; /* what open_here() found */

/* ol_server_open() of the victim, in this process; closed again at once */
static int open_here(struct ol_server_opts opts, char *err, size_t err_bytes)
{
	float *weights = calloc(LEN, sizeof(*weights));
	struct ol_server *server = NULL;
	char listen[96];
	int rc;

	check(weights != NULL);
	snprintf(listen, sizeof(listen), "@ol-test-scar-%d", (int)getpid());
	opts.listen = listen;
	opts.transport = "shm";
	opts.shard = VICTIM;
	err[0] = '\0';
	rc = ol_server_open(&opts, weights, &server, err, err_bytes);
	if (rc == 0)
		ol_server_get_stat(server, &opened);
	ol_server_close(server);
	free(weights);
	return rc;
}

static void check_refused(struct ol_server_opts opts, int want, const char *says)
{
	char err[512];

	check_eq(open_here(opts, err, sizeof(err)), want);
	check_msg(strstr(err, says) != NULL, "said \"%.200s\", not \"%s\"", err, says);
	check(strchr(err, '\n') == NULL);
}

/* Options that cannot be: one line each */
static int refusals(const struct job *job, long arg)
{
	struct ol_server_opts good = server_opts(OL_SELECT_PRIORITY), opts = good;
	char err[512];

	(void)job;
	(void)arg;
	opts.fraction = 0.0;
	check_refused(opts, -EINVAL, "fraction is not above 0");
	opts.fraction = 1.01;
	check_refused(opts, -EINVAL, "fraction is not above 0 and at most 1");
	opts.fraction = (double)NAN;
	check_refused(opts, -EINVAL, "fraction is not above 0");
	opts.fraction = 0.125;
	opts.extrapolate = 1.01;
	check_refused(opts, -EINVAL, "extrapolate is not from 0 to 1");
	opts.extrapolate = (double)NAN;
	check_refused(opts, -EINVAL, "extrapolate is not from 0 to 1");
	opts.extrapolate = 1.0;
	opts.selection = OL_SELECT_FULL;
	check_refused(opts, -EINVAL, "extrapolate is of running checkpoints");
	opts.extrapolate = 0.0;
	opts.checkpoint_format = OL_FORMAT_INT8;
	check_refused(opts, -EINVAL, "checkpoint_format is of running checkpoints");
	opts.checkpoint_format = OL_FORMAT_FP32;
	opts.selection = OL_SELECT_PRIORITY;
	opts.fraction = 0.1;
	check_refused(opts, -EINVAL, "fraction times checkpoint_steps");
	opts = good;
	opts.selection = (enum ol_selection)9;
	check_refused(opts, -EINVAL, "selection has no such value");
	opts = good;
	opts.block_count--;
	check_refused(opts, -EINVAL, "and the vector has 14000");
	check_ok(open_here(good, err, sizeof(err)));
	return 0;
}

static void full_put(uint32_t epoch, uint64_t version)
{
	struct ol_ckpt_meta meta = victim_meta(epoch, version);
	void *content = calloc(1, ol_layout_content_bytes(&meta.geo));
	char err[512];

	check(content != NULL);
	check_ok(ol_ckpt_write(folder, &meta, content, 10, err, sizeof(err)));
	free(content);
}

static uint32_t choose_none(void *arg, const double *distance, uint32_t *chosen)
{
	(void)arg;
	(void)distance;
	(void)chosen;
	return 0;
}

static void running_put(uint32_t epoch, uint64_t version)
{
	struct ol_ckpt_meta meta = victim_meta(epoch, version);
	void *content = calloc(1, ol_layout_content_bytes(&meta.geo));
	struct ol_ckpt_running_opts opts = { .choose = choose_none };
	struct ol_ckpt_blocks blocks;
	struct ol_ckpt_writer *writer;
	struct ol_ckpt_result result;
	char err[512];

	check(content != NULL);
	check_ok(ol_ckpt_blocks_make(lengths, BLOCKS, &meta.geo, &blocks, err, sizeof(err)));
	opts.blocks = &blocks;
	check_ok(ol_ckpt_writer_start_running(folder, &meta, &opts, &writer, err, sizeof(err)));
	check(ol_ckpt_writer_begin(writer, content, version, epoch));
	ol_ckpt_writer_wait(writer);
	check_eq(ol_ckpt_writer_poll(writer, &result), OL_CKPT_DONE);
	check_ok(result.status);
	ol_ckpt_writer_stop(writer);
	ol_ckpt_blocks_fini(&blocks);
	free(content);
}

/* Both copies of the last blocks of a running file are nonsense */
static void running_break(uint32_t epoch)
{
	char path[192], junk[16384];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/run-%016lx-s%d-e%010u.olc", folder, (unsigned long)job_id,
		 VICTIM, epoch);
	memset(junk, 0x77, sizeof(junk));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	check(fd >= 0 && fstat(fd, &st) == 0);
	check_eq(pwrite(fd, junk, sizeof(junk), st.st_size - (off_t)sizeof(junk)), sizeof(junk));
	close(fd);
}

static void check_restores(struct ol_server_opts opts, uint64_t version)
{
	char err[512];

	opts.restore = OL_RESTORE_CHECKPOINT;
	check_eq(open_here(opts, err, sizeof(err)), 0);
	check_eq(opened.restored_from, OL_RESTORE_CHECKPOINT);
	check_eq(opened.restored_version, version);
}

/* Full and running ones beside each other: the newest whole one that fits; none: nothing begins */
static int fallbacks(const struct job *job, long arg)
{
	struct ol_server_opts opts = server_opts(OL_SELECT_PRIORITY), other = opts;

	(void)job;
	(void)arg;
	ol_log_level_set(OL_LOG_ERROR);
	opts.restore = OL_RESTORE_CHECKPOINT;
	check_ok(mkdir(folder, 0700));
	running_put(1, 5);
	check_restores(opts, 5);
	check_eq(opened.epoch, 2);
	other.selection = OL_SELECT_FULL;
	check_restores(other, 5);
	other.blocks = NULL; /* not what it was written with */
	other.restore = OL_RESTORE_CHECKPOINT;
	check_refused(other, OL_E_NO_CHECKPOINT, "cannot restore shard 1 from");
	running_break(1);
	check_refused(opts, OL_E_NO_CHECKPOINT, "cannot restore shard 1 from");
	full_put(1, 3);
	check_restores(opts, 3);
	check_restores(other, 3);
	full_put(1, 7);
	running_put(1, 5);
	check_restores(opts, 7);
	running_put(2, 5);
	check_restores(opts, 5);
	check_eq(opened.epoch, 3);
	full_put(3, 2);
	check_restores(opts, 2);
	/* back to no later than; a running one is where it is */
	opts.restore_version = 3;
	check_restores(opts, 2);
	opts.restore_version = 1;
	check_refused(opts, OL_E_NO_CHECKPOINT, "cannot restore shard 1 from");
	return 0;
}

int main(void)
{
	snprintf(folder, sizeof(folder), "/tmp/ol-scar-%d", (int)getpid());
	job_join(job_fork(refusals, NULL, 0));
	check_ok(folder_drop(folder));
	printf("ok what cannot be is refused\n");
	job_join(job_fork(fallbacks, NULL, 0));
	check_ok(folder_drop(folder));
	printf("ok full and running ones beside each other\n");
	run(OL_SELECT_PRIORITY, partial, "one of four: the survivors are untouched, by priority");
	run(OL_SELECT_ROUND_ROBIN, partial, "the same, round-robin");
	run(OL_SELECT_RANDOM, partial, "the same, random");
	extrapolate = 1.0;
	run(OL_SELECT_PRIORITY, partial, "the same by priority, extrapolated");
	format = OL_FORMAT_INT8;
	run(OL_SELECT_PRIORITY, partial, "the same, of int8 deltas");
	extrapolate = 0.0;
	run(OL_SELECT_PRIORITY, partial, "of int8 deltas, not extrapolated");
	run(OL_SELECT_RANDOM, partial, "of int8 deltas, random");
	run(OL_SELECT_PRIORITY, ended,
	    "of int8 deltas, a server that ends in order leaves everything");
	format = OL_FORMAT_FP32;
	run(OL_SELECT_PRIORITY, ended, "a server that ends in order leaves everything");
	run(OL_SELECT_PRIORITY, at_once, "killed at once: the first weights");
	run(OL_SELECT_PRIORITY, lent,
	    "of a checkpoint and an older mirror the newer of each block");
	run(OL_SELECT_PRIORITY, pushed_again,
	    "a mirror that lacks nothing is better than older blocks");
	format = OL_FORMAT_INT8;
	extrapolate = 1.0;
	run(OL_SELECT_RANDOM, lent,
	    "of int8 deltas, extrapolated, and a mirror the newer of each block");
	return 0;
}
