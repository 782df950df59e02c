/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * peek_test.c -- a program that is no server reads the newest whole checkpoint of a shard, of a job that it
 * does not know, and is told why there is none
 */

#include "ckpt_util.h"

static struct ol_checkpoint *opened(const char *dir, uint64_t job_id)
{
	struct ol_checkpoint *checkpoint = NULL;
	char err[CKPT_ERR] = "";

	if (ol_checkpoint_open(dir, job_id, 1, &checkpoint, err, sizeof(err)) != 0)
		fail_msg("%s", err);
	return checkpoint;
}

static void check_none(const char *dir, uint64_t job_id, int code, const char *say)
{
	struct ol_checkpoint *checkpoint = NULL;
	char err[CKPT_ERR] = "";

	assert_int_equal(ol_checkpoint_open(dir, job_id, 1, &checkpoint, err, sizeof(err)), code);
	assert_null(checkpoint);
	if (strstr(err, say) == NULL || strchr(err, '\n') != NULL)
		fail_msg("\"%s\" does not say \"%s\"", err, say);
}

/* check_is -- it is the one that put() wrote for meta */
static void check_is(const char *dir, uint64_t job_id, const struct ol_ckpt_meta *meta)
{
	struct ol_checkpoint *checkpoint = opened(dir, job_id);
	uint8_t *content = content_of(&meta->geo, meta->version);
	struct ol_checkpoint_info info;

	ol_checkpoint_info(checkpoint, &info);
	assert_int_equal(info.job_id, meta->job_id);
	assert_int_equal(info.version, meta->version);
	assert_int_equal(info.epoch, meta->epoch);
	assert_int_equal(info.param_count, meta->geo.param_count);
	assert_int_equal(info.shard_count, meta->geo.shard_count);
	assert_int_equal(info.shard_first, meta->geo.shard_first);
	assert_int_equal(info.shard_len, meta->geo.shard_len);
	assert_memory_equal(ol_checkpoint_weights(checkpoint),
			    content + ol_layout_table_bytes(&meta->geo),
			    meta->geo.shard_len * sizeof(float));
	ol_checkpoint_close(checkpoint);
	free(content);
}

static void damage(const char *dir, const struct ol_ckpt_meta *meta, uint64_t at)
{
	struct ol_ckpt_name name = ol_ckpt_name_of(meta);
	char path[CKPT_PATH], text[OL_CKPT_NAME_MAX];
	int fd;

	ol_ckpt_name_format(&name, text);
	snprintf(path, sizeof(path), "%s/%s", dir, text);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	flip(fd, at, 0);
	close(fd);
}

static void the_newest_whole_one_is_read(void **state)
{
	struct ol_ckpt_meta old = meta_of(1, 5), newer = meta_of(2, 4), newest = meta_of(2, 6);

	put(*state, &old, 9);
	check_is(*state, 0, &old);
	put(*state, &newer, 9);
	put(*state, &newest, 9);
	check_is(*state, 0, &newest);
	check_is(*state, CKPT_JOB, &newest);
	damage(*state, &newest, 100000);
	check_is(*state, 0, &newer);
	assert_non_null(strstr(logged.text, "not used"));
	damage(*state, &newer, 100);
	check_is(*state, 0, &old);
	damage(*state, &old, 20);
	check_none(*state, 0, OL_E_NO_CHECKPOINT, "ckpt-");
}

static void a_folder_of_several_jobs_is_asked_which(void **state)
{
	struct ol_ckpt_meta mine = meta_of(1, 5), other = meta_of(2, 6);

	other.job_id++;
	put(*state, &mine, 9);
	put(*state, &other, 9);
	check_none(*state, 0, -EINVAL, "several jobs");
	check_is(*state, CKPT_JOB, &mine);
	check_is(*state, CKPT_JOB + 1, &other);
	check_none(*state, CKPT_JOB + 2, -ENOENT, "no full checkpoint of shard 1");
}

static void a_folder_without_one_is_said_to_be_so(void **state)
{
	char path[CKPT_PATH];

	check_none(*state, 0, -ENOENT, "no full checkpoint of shard 1");
	snprintf(path, sizeof(path), "%s/nowhere", (char *)*state);
	check_none(path, 0, -ENOENT, "nowhere");
	ol_checkpoint_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(the_newest_whole_one_is_read),
		ckpt_test(a_folder_of_several_jobs_is_asked_which),
		ckpt_test(a_folder_without_one_is_said_to_be_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
