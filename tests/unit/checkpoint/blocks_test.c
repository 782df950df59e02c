/* SPDX-License-Identifier: BSD-3-Clause */

/* blocks_test.c -- which versions the blocks of a running checkpoint are of, and what newer ones are put over */

#include "running_util.h"

/* What a file says of its blocks, and of which history they are; and which of them a content of one version renews */
static void blocks_that_are_older_than_a_mirror_become_its_own(void **state)
{
	struct ol_ckpt_meta meta = tiny_meta(1);
	struct ol_ckpt_blocks blocks = tiny_blocks(&meta); /* of 5, 1, 20 and 10 floats */
	struct choice choice = { .count = 1, .blocks = { 2 } };
	struct ol_running *running = running_of(*state, &meta, &blocks, &choice);
	const struct ol_geometry *geo = &meta.geo;
	uint8_t *content = malloc(ol_layout_content_bytes(geo));
	uint8_t *mirror = content_clean(geo, 5), *expect = content_clean(geo, 3);
	uint64_t versions[4] = { 0 };

	check(content != NULL);
	ol_running_history(running, 77, 1);
	assert_int_equal(turn(running, geo, 3, 1, false).status, 0);
	assert_int_equal(turn(running, geo, 4, 1, false).status, 0);
	choice.blocks[0] = 0;
	assert_int_equal(turn(running, geo, 7, 1, false).status, 0);
	meta.block_versions = versions;
	check_ok(ol_ckpt_read_running(*state, &blocks, NULL, 0.0, &meta, content));
	assert_int_equal(meta.version, 7);
	assert_int_equal(meta.history, 77);
	assert_int_equal(meta.founded, 1);
	assert_true(versions[0] == 7 && versions[1] == 3 && versions[2] == 4 && versions[3] == 3);
	assert_true(ol_ckpt_blocks_behind(&blocks, versions, 0, 7) ==
		    (1 * 4.0 + 20 * 3.0 + 10 * 4.0) / 36.0);
	assert_true(ol_ckpt_blocks_behind(&blocks, versions, 5, 7) == 31 * 2.0 / 36.0);
	assert_true(ol_ckpt_blocks_behind(&blocks, versions, 8, 7) == 0.0);

	memcpy(expect, content, ol_layout_content_bytes(geo));
	assert_int_equal(ol_ckpt_blocks_renew(geo, &blocks, versions, mirror, 4, false, content),
			 2);
	for (uint32_t b = 1; b < 4; b += 2)
		memcpy(expect + ol_running_part_off(geo, &blocks, b, 0),
		       mirror + ol_running_part_off(geo, &blocks, b, 0),
		       ol_ckpt_block_floats(&blocks, b) * sizeof(float));
	assert_memory_equal(content, expect, ol_layout_content_bytes(geo));
	assert_true(versions[0] == 7 && versions[1] == 4 && versions[2] == 4 && versions[3] == 4);
	assert_int_equal(ol_ckpt_blocks_renew(geo, &blocks, versions, mirror, 5, true, content), 3);
	for (uint32_t b = 1; b < 4; b++)
		ol_running_copy(geo, &blocks, b, mirror, expect);
	assert_memory_equal(content, expect, ol_layout_content_bytes(geo));

	/* of another history it is another file */
	ol_running_history(running, 78, 1);
	assert_int_equal(turn(running, geo, 8, 1, false).blocks, 4);
	check_ok(ol_ckpt_read_running(*state, &blocks, NULL, 0.0, &meta, content));
	assert_int_equal(meta.history, 78);
	assert_true(versions[1] == 8);
	ol_running_destroy(running);
	ol_ckpt_blocks_fini(&blocks);
	free(content);
	free(mirror);
	free(expect);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ckpt_test(blocks_that_are_older_than_a_mirror_become_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
