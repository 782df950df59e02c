/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * set_test.c -- checkpoints of all shards of a job, written without a server: all are there, newer than
 * whatever was, or none is
 */

#include "ckpt_util.h"

#include <math.h>

#include "checkpoint/folder.h"
#include "checkpoint/owner.h"
#include "checkpoint/running.h"
#include "outlast_tensor.h"

enum {
	PARAMS = 5000,
	SHARDS = 3,
};

static const char table[] = "F32 10,100 first\nF32 4000 second\n";
static float weights[PARAMS];

static int setup(void **state)
{
	for (unsigned i = 0; i < PARAMS; i++)
		weights[i] = (float)i - 0.5f;
	return dir_setup(state);
}

#define set_test(name) cmocka_unit_test_setup_teardown(name, setup, dir_teardown)

static struct ol_server_opts opts_of(const char *dir)
{
	struct ol_server_opts opts;

	ol_server_opts_init(&opts);
	opts.checkpoint_dir = dir;
	opts.job_id = CKPT_JOB;
	opts.param_count = PARAMS;
	opts.shard_count = SHARDS;
	opts.rule.optimizer = OL_OPTIMIZER_ADAM;
	opts.tensors = table;
	return opts;
}

static struct ol_checkpoints *begun(const struct ol_server_opts *opts, uint64_t version,
				    uint32_t over)
{
	struct ol_checkpoints *set = NULL;
	char err[CKPT_ERR] = "";

	if (ol_checkpoints_open(opts, version, over, &set, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	return set;
}

static void refused(const struct ol_server_opts *opts, uint64_t version, uint32_t over, int code,
		    const char *say)
{
	struct ol_checkpoints *set = NULL;
	char err[CKPT_ERR] = "";

	assert_int_equal(ol_checkpoints_open(opts, version, over, &set, err, sizeof(err)), code);
	assert_null(set);
	if (strstr(err, say) == NULL || strchr(err, '\n') != NULL)
		fail_msg("\"%s\" does not say \"%s\"", err, say);
}

static int add(struct ol_checkpoints *set, const struct ol_server_opts *opts, uint32_t shard)
{
	uint64_t first, count;
	char err[CKPT_ERR] = "";

	check_ok(ol_shard_span(PARAMS, opts->shard_count, shard, &first, &count));
	return ol_checkpoints_add(set, weights + first, err, sizeof(err));
}

static void all_add(struct ol_checkpoints *set, const struct ol_server_opts *opts)
{
	for (uint32_t shard = 0; shard < opts->shard_count; shard++)
		check_ok(add(set, opts, shard));
}

static void write_all(const struct ol_server_opts *opts, uint64_t version, uint32_t over)
{
	struct ol_checkpoints *set = begun(opts, version, over);
	char err[CKPT_ERR] = "";

	all_add(set, opts);
	check_ok(ol_checkpoints_commit(set, err, sizeof(err)));
	ol_checkpoints_close(set);
}

/* What a server of a job with these options, and room for 4 workers, reads */
static struct ol_ckpt_meta server_of(const struct ol_server_opts *opts, uint32_t shard)
{
	struct ol_ckpt_meta meta = meta_of(0, 0);

	meta.geo.param_count = PARAMS;
	meta.geo.shard = shard;
	meta.geo.shard_count = opts->shard_count;
	meta.geo.workers_max = 4;
	meta.geo.tensors_bytes = ol_ckpt_tensors_bytes(opts->checkpoint_dir, &meta);
	check_ok(ol_shard_span(PARAMS, opts->shard_count, shard, &meta.geo.shard_first,
			       &meta.geo.shard_len));
	return meta;
}

static void read_all(const struct ol_server_opts *opts, uint32_t epoch, uint64_t version)
{
	for (uint32_t shard = 0; shard < opts->shard_count; shard++) {
		struct ol_ckpt_meta meta = server_of(opts, shard);
		const uint64_t vector = ol_layout_vector_bytes(&meta.geo);
		uint8_t *content = calloc(1, ol_layout_content_bytes(&meta.geo)), *at;
		struct ol_applied applied;

		assert_non_null(content);
		check_ok(ol_ckpt_read_newest(opts->checkpoint_dir, &meta, content));
		assert_int_equal(meta.epoch, epoch);
		assert_int_equal(meta.version, version);
		at = content + ol_layout_table_bytes(&meta.geo);
		assert_memory_equal(at, weights + meta.geo.shard_first,
				    meta.geo.shard_len * sizeof(float));
		for (uint64_t i = 0; i < 2 * vector; i++)
			assert_int_equal(at[vector + i], 0);
		assert_string_equal((char *)content + ol_layout_tensors_off(&meta.geo), table);
		memcpy(&applied, content + sizeof(struct ol_snapshot_head), sizeof(applied));
		assert_int_equal(applied.grads, version);
		assert_int_equal(applied.earlier, version);
		assert_int_equal(applied.seq, 0);
		free(content);
	}
}

static void check_files(const char *dir, unsigned count)
{
	unsigned dotted;

	assert_int_equal(files_in(dir, &dotted), count);
	assert_int_equal(dotted, 0);
}

static void servers_begin_with_what_was_written(void **state)
{
	struct ol_server_opts opts = opts_of(*state);

	write_all(&opts, 700, 0);
	read_all(&opts, 1, 700);
	check_files(*state, SHARDS);
	opts.shard_count = 2;
	refused(&opts, 701, 0, -EEXIST, "this job");
	check_files(*state, SHARDS);
	write_all(&opts, 2, 1);
	read_all(&opts, 2, 2); /* of a later epoch: newer, though its version is lower */
	opts.shard_count = SHARDS;
	write_all(&opts, 0, 1);
	read_all(&opts, 3, 0);
	check_files(*state, 2 * SHARDS + 2);
}

static void a_running_checkpoint_is_older_too(void **state)
{
	const struct ol_ckpt_name name = { .job_id = CKPT_JOB, .epoch = 8, .running = true };
	struct ol_server_opts opts = opts_of(*state);
	char text[OL_CKPT_NAME_MAX], path[CKPT_PATH];
	int fd;

	ol_ckpt_name_format(&name, text);
	snprintf(path, sizeof(path), "%s/%s", (char *)*state, text);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	refused(&opts, 1, 0, -EEXIST, "this job");
	write_all(&opts, 1, 1);
	read_all(&opts, 9, 1);
}

static void what_is_not_committed_leaves_nothing(void **state)
{
	struct ol_server_opts opts = opts_of(*state);
	char err[CKPT_ERR] = "";
	struct ol_checkpoints *set = begun(&opts, 5, 0);

	check_ok(add(set, &opts, 0));
	check_ok(add(set, &opts, 1));
	assert_int_equal(ol_checkpoints_commit(set, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "2 of 3 shards"));
	weights[PARAMS - 1] = NAN;
	assert_int_equal(add(set, &opts, 2), -EBADMSG);
	ol_checkpoints_close(set);
	check_files(*state, 0);
	opts.rule.allow_nonfinite = 1;
	write_all(&opts, 5, 0);
	check_files(*state, SHARDS);
	ol_checkpoints_close(NULL);
}

static void a_shard_too_many_is_refused(void **state)
{
	struct ol_server_opts opts = opts_of(*state);
	struct ol_checkpoints *set = begun(&opts, 5, 0);
	char err[CKPT_ERR] = "";

	all_add(set, &opts);
	assert_int_equal(ol_checkpoints_add(set, weights, err, sizeof(err)), -EINVAL);
	check_ok(ol_checkpoints_commit(set, err, sizeof(err)));
	ol_checkpoints_close(set);
	read_all(&opts, 1, 5);
}

/* A server of shard 2 takes the folder before the last step */
static void a_server_that_begins_meanwhile_keeps_the_folder(void **state)
{
	const struct ol_ckpt_name kind = { .job_id = CKPT_JOB, .shard = 2 };
	struct ol_server_opts opts = opts_of(*state);
	struct ol_checkpoints *set = begun(&opts, 5, 0);
	struct ol_ckpt_folder folder;
	struct ol_ckpt_owner owner;
	char err[CKPT_ERR] = "", why[OL_CKPT_WHY_MAX];
	unsigned dotted;

	all_add(set, &opts);
	check_ok(ol_ckpt_folder_open(*state, &folder, why));
	check_ok(ol_ckpt_owner_take(&folder, &kind, &owner));
	assert_int_equal(ol_checkpoints_commit(set, err, sizeof(err)), OL_E_FENCED);
	assert_non_null(strstr(err, "another server saves this shard now"));
	ol_checkpoints_close(set);
	assert_int_equal(files_in(*state, &dotted), 1); /* it was not to touch a file of shard 2 */
	assert_int_equal(dotted, 1);
	ol_ckpt_owner_drop(&owner);
	ol_ckpt_folder_close(&folder);
}

static void wrong_options_are_refused(void **state)
{
	struct ol_server_opts opts = opts_of(*state);
	struct ol_ckpt_meta other = meta_of(1, 5);
	char path[CKPT_PATH];

	opts.shard_count = 6;
	refused(&opts, 0, 0, -EINVAL, "5000 parameters in 6 shards");
	opts = opts_of(*state);
	opts.tensors = "F32 4000 first\n";
	refused(&opts, 0, 0, -EINVAL, "4000 parameters, and the job 5000");
	opts = opts_of(*state);
	refused(&opts, OL_VERSION_MAX + 1, 0, -EINVAL, "the highest");
	opts.checkpoint_dir = NULL;
	refused(&opts, 0, 0, -EINVAL, "checkpoint_dir");
	opts = opts_of(*state);
	opts.rule.optimizer = (enum ol_optimizer)99;
	refused(&opts, 0, 0, -EINVAL, "rule.optimizer");
	snprintf(path, sizeof(path), "%s/no/folder", (char *)*state);
	opts = opts_of(path);
	refused(&opts, 0, 0, -ENOENT, "No such file");
	check_files(*state, 0);
	other.job_id++;
	put(*state, &other, 9);
	opts = opts_of(*state);
	refused(&opts, 0, 1, -EINVAL, "another job");
	check_files(*state, 1);
}

static void no_epoch_is_later_than_the_last(void **state)
{
	struct ol_ckpt_meta last = meta_of(OL_EPOCH_MAX - 1, 5);
	struct ol_server_opts opts = opts_of(*state);

	put(*state, &last, 9);
	refused(&opts, 6, 1, -EOVERFLOW, "none can be later");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		set_test(servers_begin_with_what_was_written),
		set_test(a_running_checkpoint_is_older_too),
		set_test(what_is_not_committed_leaves_nothing),
		set_test(a_shard_too_many_is_refused),
		set_test(a_server_that_begins_meanwhile_keeps_the_folder),
		set_test(wrong_options_are_refused),
		set_test(no_epoch_is_later_than_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
