/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * content_test.c -- a file whose checksums are right and whose content no server can have had is
 * passed over: the log names file and field, and the next older one is used
 *
 * not under tsan: one thread
 */
#include "running_util.h"

#include <math.h>

/* Write one with this content, of version 2 unless meta says so, beside a sound one of version 1 */
static void lie_put(const char *dir, const struct ol_ckpt_meta *meta, const uint8_t *content)
{
	struct ol_ckpt_meta old = meta_of(1, 1);
	char err[CKPT_ERR] = "";

	put(dir, &old, 100);
	check_ok(ol_ckpt_write(dir, meta, content, 100, err, sizeof(err)));
}

/* The older one is what is found, and one line names the other and says this. It is removed */
static void check_passed_over(const char *dir, const struct ol_ckpt_meta *lie, const char *says)
{
	struct ol_ckpt_name name = ol_ckpt_name_of(lie);
	struct ol_ckpt_meta meta = meta_of(0, 0);
	char text[OL_CKPT_NAME_MAX], path[CKPT_PATH];

	ol_ckpt_name_format(&name, text);
	log_forget();
	check_ok(newest(dir, &meta));
	check_eq(meta.version, 1);
	check_eq(meta.epoch, 1);
	check_msg(logged.lines == 1 && strstr(logged.text, text) != NULL &&
			  strstr(logged.text, says) != NULL,
		  "want \"%s\", got %.300s", says, logged.text);
	path_of(dir, lie, path);
	check_ok(unlink(path));
}

static void a_version_or_an_epoch_that_would_wrap_is_passed_over(void **state)
{
	static const uint64_t versions[] = { OL_VERSION_MAX + 1, UINT64_MAX };
	static const uint32_t epochs[] = { OL_EPOCH_MAX, UINT32_MAX };
	struct ol_ckpt_meta meta = meta_of(1, OL_VERSION_MAX);
	uint8_t *content = content_of(&meta.geo, OL_VERSION_MAX);

	for (size_t i = 0; i < 2; i++) {
		meta = meta_of(1, versions[i]);
		lie_put(*state, &meta, content);
		check_passed_over(*state, &meta, "header: version ");
		meta = meta_of(epochs[i], 2);
		lie_put(*state, &meta, content);
		check_passed_over(*state, &meta, "header: epoch ");
	}
	meta = meta_of(OL_EPOCH_MAX - 1, OL_VERSION_MAX);
	lie_put(*state, &meta, content);
	check_ok(newest(*state, &meta));
	check_eq(meta.version, OL_VERSION_MAX);
	check_eq(meta.epoch, OL_EPOCH_MAX - 1);
	free(content);
}

static void a_table_that_no_server_can_have_is_passed_over(void **state)
{
	struct ol_ckpt_meta meta = meta_of(1, 2);
	uint8_t *content = content_of(&meta.geo, 2);
	uint8_t *at = content + sizeof(struct ol_snapshot_head) + 3 * sizeof(struct ol_applied);
	struct ol_snapshot_head head = { .optimizer_steps = UINT64_MAX };
	struct ol_applied sound, applied;

	memcpy(&sound, at, sizeof(sound));
	applied = sound;
	applied.seq = UINT64_MAX;
	memcpy(at, &applied, sizeof(applied));
	lie_put(*state, &meta, content);
	check_passed_over(*state, &meta, "table: worker 3: impossible seq");
	applied = sound;
	applied.grads = UINT64_MAX - 7;
	memcpy(at, &applied, sizeof(applied));
	lie_put(*state, &meta, content);
	check_passed_over(*state, &meta, "table: worker 3: impossible grads");
	applied = sound;
	applied.earlier = sound.grads + 1;
	memcpy(at, &applied, sizeof(applied));
	lie_put(*state, &meta, content);
	check_passed_over(*state, &meta, "table: worker 3: impossible earlier");
	memcpy(at, &sound, sizeof(sound));
	memcpy(content, &head, sizeof(head));
	lie_put(*state, &meta, content);
	check_passed_over(*state, &meta, "table: optimizer_steps is 18446744073709551615");
	free(content);
}

static void a_value_that_is_not_finite_is_passed_over(void **state)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	struct ol_ckpt_meta meta = meta_of(1, 2);
	uint8_t *content = content_of(&meta.geo, 2), *read;
	uint64_t bytes = ol_layout_content_bytes(&meta.geo);
	char says[80];

	for (uint32_t v = 0; v < 3; v++) {
		uint8_t *at = content + ol_layout_table_bytes(&meta.geo) +
			      v * ol_layout_vector_bytes(&meta.geo) + 5 * sizeof(float);
		uint8_t sound[sizeof(float)];

		memcpy(sound, at, sizeof(sound));
		memcpy(at, &bad[v], sizeof(bad[v]));
		lie_put(*state, &meta, content);
		snprintf(says, sizeof(says), "NaN or an infinity: weight %ju of the job",
			 (uintmax_t)meta.geo.shard_first + 5);
		if (v > 0)
			snprintf(says, sizeof(says), "optimizer state %u of weight %ju of the job",
				 v, (uintmax_t)meta.geo.shard_first + 5);
		check_passed_over(*state, &meta, says);
		if (v < 2)
			memcpy(at, sound, sizeof(sound));
	}
	/* a job that allows such values has them back */
	read = malloc(bytes);
	check(read != NULL);
	lie_put(*state, &meta, content);
	meta = meta_of(0, 0);
	meta.nonfinite = true;
	check_ok(ol_ckpt_read_newest(*state, &meta, read));
	check_eq(meta.version, 2);
	check_ok(memcmp(read, content, bytes));
	free(read);
	free(content);
}

/* The content of the next turn of a running checkpoint, which is all of it */
static void turn_of(struct ol_running *running, const uint8_t *content, uint64_t version)
{
	struct ol_ckpt_result result = { .status = 1 };

	ol_running_take(running, content, version, 1, true);
	ol_running_write(running, &result);
	check_ok(result.status);
}

static void a_running_one_of_such_a_content_is_passed_over(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(1);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct choice choice = { .count = 1, .blocks = { 3 } };
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	uint8_t *content = content_clean(&meta.geo, 1), *read = content_of(&meta.geo, 2);
	const uint64_t table = sizeof(struct ol_snapshot_head);
	const struct {
		uint64_t off;
		uint32_t word;
		const char *says;
	} lies[] = {
		{ 4, UINT32_MAX, "table: optimizer_steps" },
		{ table + 4, 0, "table: worker 0: impossible seq" },
		{ table + 12, UINT32_MAX, "table: worker 0: impossible grads" },
		{ ol_layout_table_bytes(&meta.geo), 0x7fc00000, "NaN or an infinity: weight 1024" },
		{ ol_layout_table_bytes(&meta.geo) + 2 * ol_layout_vector_bytes(&meta.geo) + 140,
		  0xff800000, "NaN or an infinity: optimizer state 2 of weight 1059" },
	};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		uint32_t sound;

		memcpy(&sound, content + lies[i].off, sizeof(sound));
		memcpy(content + lies[i].off, &lies[i].word, sizeof(sound));
		turn_of(running, content, 2 + i);
		log_forget();
		check_eq(restored(*state, &blocks, &meta, read), OL_E_NO_CHECKPOINT);
		check_msg(logged.lines == 1 && strstr(logged.text, lies[i].says) != NULL,
			  "want \"%s\", got %.300s", lies[i].says, logged.text);
		memcpy(content + lies[i].off, &sound, sizeof(sound));
	}
	turn_of(running, content, UINT64_MAX);
	log_forget();
	check_eq(restored(*state, &blocks, &meta, read), OL_E_NO_CHECKPOINT);
	check(strstr(logged.text, "table: version 18446744073709551615 is above") != NULL);
	turn_of(running, content, OL_VERSION_MAX);
	check_ok(restored(*state, &blocks, &meta, read));
	check_eq(meta.version, OL_VERSION_MAX);
	ol_running_destroy(running);
	free(content);
	free(read);
	ol_ckpt_blocks_fini(&blocks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(a_version_or_an_epoch_that_would_wrap_is_passed_over),
		ckpt_test(a_table_that_no_server_can_have_is_passed_over),
		ckpt_test(a_value_that_is_not_finite_is_passed_over),
		ckpt_test(a_running_one_of_such_a_content_is_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
