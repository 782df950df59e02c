/* SPDX-License-Identifier: BSD-3-Clause */

/* extrapolate_test.c -- blocks of a running checkpoint that go on by their last pace when they are read */

#include "running_util.h"

#include <math.h>

/* How a block of tiny_blocks() is expected back */
struct expected {
	uint64_t now; /* version of its newer copy */
	uint64_t then; /* … and of the older one; 0: it is as it was saved */
	double share;
};

static void choose(struct choice *choice, uint32_t first, uint32_t count)
{
	choice->count = count;
	for (uint32_t i = 0; i < count; i++)
		choice->blocks[i] = first + i;
}

/* Turns at versions 5 (all), 8 (blocks 0 and 1), 10 (block 0) and 11 (block 3) */
static void turns_make(const char *dir, const struct ol_ckpt_meta *meta,
		       const struct ol_ckpt_blocks *blocks)
{
	struct choice choice = { 0 };
	struct ol_running *running = running_of(dir, meta, blocks, &choice);

	check_ok(turn(running, &meta->geo, 5, 2, false).status);
	choose(&choice, 0, 2);
	check_ok(turn(running, &meta->geo, 8, 2, false).status);
	choose(&choice, 0, 1);
	check_ok(turn(running, &meta->geo, 10, 2, false).status);
	choose(&choice, 3, 1);
	check_ok(turn(running, &meta->geo, 11, 2, false).status);
	ol_running_destroy(running);
}

static const float *floats_of(const struct ol_ckpt_meta *meta, const uint8_t *content, uint32_t v)
{
	return (const float *)(const void *)(content + ol_layout_table_bytes(&meta->geo) +
					     v * ol_layout_vector_bytes(&meta->geo));
}

static void check_block(const struct ol_ckpt_meta *meta, const struct ol_ckpt_blocks *blocks,
			uint32_t index, const struct expected *expected, const uint8_t *content)
{
	uint8_t *now = content_clean(&meta->geo, expected->now);
	uint8_t *then = content_clean(&meta->geo, expected->then);
	const uint64_t first = blocks->first[index], count = ol_ckpt_block_floats(blocks, index);

	for (uint32_t v = 0; v <= meta->geo.state_vectors; v++) {
		const float *z = floats_of(meta, now, v) + first;
		const float *older = floats_of(meta, then, v) + first;
		const float *found = floats_of(meta, content, v) + first;

		for (uint64_t i = 0; i < count; i++) {
			float want = z[i];

			if (v == 0 && expected->then != 0)
				want = z[i] + (float)expected->share * (z[i] - older[i]);
			check(memcmp(&found[i], &want, sizeof(want)) == 0);
		}
	}
	free(then);
	free(now);
}

static void check_read(const char *dir, double by, const struct expected expected[4])
{
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	uint8_t *content = calloc(1, ol_layout_content_bytes(&meta.geo));

	check(content != NULL);
	check_ok(ol_ckpt_read_running(dir, &blocks, NULL, by, &meta, content));
	check_eq(meta.version, 11);
	for (uint32_t i = 0; i < 4; i++)
		check_block(&meta, &blocks, i, &expected[i], content);
	free(content);
	ol_ckpt_blocks_fini(&blocks);
}

static void weights_go_on_to_the_tables_version_and_state_stays(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);

	turns_make(*state, &meta, &blocks);
	ol_ckpt_blocks_fini(&blocks);
	check_read(*state, 0.0,
		   (const struct expected[]){
			   { .now = 10 }, { .now = 8 }, { .now = 5 }, { .now = 11 } });
	/* block 0: 1 of 2 versions; block 1: 3 of 3; block 2 has one copy; block 3 is of the last turn */
	check_read(*state, 1.0,
		   (const struct expected[]){
			   { 10, 8, 0.5 }, { 8, 5, 1.0 }, { .now = 5 }, { .now = 11 } });
	check_read(*state, 0.25,
		   (const struct expected[]){
			   { 10, 8, 0.25 }, { 8, 5, 0.25 }, { .now = 5 }, { .now = 11 } });
}

/* A copy that is torn is no pace: the block is as its other copy has it */
static void a_torn_copy_is_no_pace(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(2);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta);
	struct ol_ckpt_header header;
	char path[CKPT_PATH];
	const uint8_t rubbish = 0x5a;
	uint64_t off;
	FILE *file;

	turns_make(*state, &meta, &blocks);
	check_ok(ol_running_header_make(&meta, &blocks, &header));
	off = sizeof(header) + 2 * ol_running_stride(header.table_bytes);
	running_path(*state, &meta, path);
	file = fopen(path, "r+b");
	check(file != NULL);
	/* turns 0 and 2 wrote block 0's first copy, turn 1 its second */
	off += ol_running_stride(ol_running_bytes(&header, &blocks, 0)) +
	       sizeof(struct ol_running_head);
	check(fseek(file, (long)off, SEEK_SET) == 0);
	check(fwrite(&rubbish, 1, 1, file) == 1);
	check(fclose(file) == 0);
	ol_ckpt_blocks_fini(&blocks);
	check_read(*state, 1.0,
		   (const struct expected[]){
			   { .now = 10 }, { 8, 5, 1.0 }, { .now = 5 }, { .now = 11 } });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(weights_go_on_to_the_tables_version_and_state_stays),
		ckpt_test(a_torn_copy_is_no_pace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
