/* SPDX-License-Identifier: BSD-3-Clause */

/* idx_test.c -- IDX data sets are read exactly, and every damaged one is refused with file and
 * offset */

#include <sys/stat.h>

#include "learn/data.h"
#include "learn/source.h"
#include "unit/learn/learn_util.h"

enum {
	ROWS = 3,
	COLS = 4,
	TRAIN = 5,
	TEST = 2,
	LEN_MAX = 200
};

static const char *const names[4] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
				      "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

static void put_be32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* idx_bytes -- a good file: which is an index of names; returns its length */
static size_t idx_bytes(unsigned which, uint8_t *p)
{
	uint32_t count = which < 2 ? TRAIN : TEST;
	bool labels = which % 2 == 1;
	size_t header = labels ? 8 : 16;
	size_t len = header + count * (labels ? 1 : ROWS * COLS);

	put_be32(p, labels ? 0x801 : 0x803);
	put_be32(p + 4, count);
	if (!labels) {
		put_be32(p + 8, ROWS);
		put_be32(p + 12, COLS);
	}
	for (size_t i = header; i < len; i++)
		p[i] = (uint8_t)(labels ? (i - header) * 2 : i * 37 + which);
	return len;
}

static void write_all(const char *dir, bool gz)
{
	for (unsigned i = 0; i < 4; i++) {
		uint8_t bytes[LEN_MAX];
		size_t len = idx_bytes(i, bytes);

		if (gz)
			file_write_gz(dir, names[i], bytes, len);
		else
			file_write(dir, names[i], bytes, len);
	}
}

static int open_dir(const char *dir, struct learn_data **ret_data, char *err)
{
	char spec[PATH_LEN];

	(void)snprintf(spec, sizeof(spec), "idx:%s", dir);
	err[0] = 0;
	return learn_data_open(spec, ret_data, err, ERR_LEN);
}

static void check_good(const char *dir)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN];
	uint8_t want[LEN_MAX];

	assert_int_equal(open_dir(dir, &data, err), 0);
	assert_int_equal(data->shape.rows, ROWS);
	assert_int_equal(data->shape.cols, COLS);
	assert_int_equal(data->shape.features, ROWS * COLS);
	assert_int_equal(data->shape.classes, 10);
	assert_int_equal(data->train.count, TRAIN);
	assert_int_equal(data->test.count, TEST);
	assert_null(data->train.values);
	(void)idx_bytes(0, want);
	assert_memory_equal(data->train.pixels, want + 16, TRAIN * ROWS * COLS);
	(void)idx_bytes(2, want);
	assert_memory_equal(data->test.pixels, want + 16, TEST * ROWS * COLS);
	for (unsigned i = 0; i < TRAIN; i++)
		assert_int_equal(data->train.labels[i], 2 * i);
	learn_data_close(data);
}

static void plain_files_are_read_exactly(void **state)
{
	write_all(*state, false);
	check_good(*state);
}

static void gzip_files_are_read_exactly(void **state)
{
	write_all(*state, true);
	check_good(*state);
}

/* check_bad -- opening fails with this code and line, and leaves no memory behind */
static void check_bad(const char *dir, int code, const char *say, const char *say_too)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN];
	char spec[PATH_LEN];

	assert_int_equal(open_dir(dir, &data, err), code);
	assert_null(data);
	assert_one_line(err, say);
	assert_one_line(err, say_too);
	(void)snprintf(spec, sizeof(spec), "idx:%s", dir);
	assert_no_leak(open_failing, spec);
}

/* One byte string put over a good file at an offset, the file then cut or filled to len. */
struct damage {
	const char *what;
	unsigned which;
	size_t offset;
	uint8_t bytes[4];
	size_t byte_count;
	size_t len; /* 0: as it is */
	const char *say;
};

static const struct damage damages[] = {
	{ "empty", 0, 0, { 0 }, 0, 1, "ends at offset 1, inside the 16-byte header" },
	{ "cut in the header", 0, 0, { 0 }, 0, 15, "ends at offset 15" },
	{ "cut in the label header", 1, 0, { 0 }, 0, 7, "ends at offset 7" },
	{ "magic of labels", 0, 3, { 1 }, 1, 0, "magic 0x00000801 at offset 0" },
	{ "magic of images", 3, 3, { 3 }, 1, 0, "magic 0x00000803 at offset 0" },
	{ "no samples", 0, 4, { 0, 0, 0, 0 }, 4, 0, "count 0 at offset 4" },
	{ "no rows", 0, 8, { 0, 0, 0, 0 }, 4, 0, "0 x 4 at offset 8" },
	{ "rows beyond the limit", 0, 8, { 0, 0, 4, 1 }, 4, 0, "1025 x 4 at offset 8" },
	{ "columns that overflow", 0, 12, { 255, 255, 255, 255 }, 4, 0, "4294967295 at offset 8" },
	{ "count that overflows", 0, 4, { 255, 255, 255, 255 }, 4, 0, "promises 51539607556" },
	{ "cut in the images", 0, 0, { 0 }, 0, 75, "ends at offset 75, its header promises 76" },
	{ "byte after the images", 0, 0, { 0 }, 0, 77, "1 bytes too many at offset 76" },
	{ "byte after the labels", 1, 0, { 0 }, 0, 14, "1 bytes too many at offset 13" },
	{ "cut in the labels", 1, 0, { 0 }, 0, 12, "ends at offset 12, its header promises 13" },
	{ "label out of range", 1, 10, { 10 }, 1, 0, "label 10 at offset 10; there are 10" },
	{ "test label out of range", 3, 9, { 255 }, 1, 0, "label 255 at offset 9" },
	{ "fewer labels than images", 1, 7, { 4 }, 1, 12, "4 labels at offset 4 for 5 images" },
	{ "test images of another shape", 2, 11, { 4, 0, 0, 0 }, 1, 0, "4 x 4 at offset 8" },
};

static void every_damaged_file_is_refused(void **state)
{
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		const struct damage *d = &damages[i];
		uint8_t bytes[LEN_MAX] = { 0 };
		size_t len;

		print_message("%s\n", d->what);
		write_all(*state, false);
		len = idx_bytes(d->which, bytes);
		memcpy(bytes + d->offset, d->bytes, d->byte_count);
		file_write(*state, names[d->which], bytes, d->len != 0 ? d->len : len);
		check_bad(*state, -EBADMSG, d->say, names[d->which]);
	}
}

static void every_missing_file_is_named_with_a_remedy(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		char path[PATH_LEN];

		write_all(*state, false);
		(void)snprintf(path, sizeof(path), "%s/%s", (char *)*state, names[i]);
		assert_int_equal(remove(path), 0);
		check_bad(*state, -ENOENT, *state, "give the directory that holds train-images");
	}
}

static void a_missing_package_is_named_with_its_command(void **state)
{
	struct learn_data data = { 0 };
	char err[ERR_LEN];
	struct learn_line line = { err, sizeof(err) };

	assert_int_equal(
		learn_idx_load(*state, 10, "install them: apt-get install x", &data, &line),
		-ENOENT);
	assert_one_line(err, "apt-get install x");
}

/* Every single cut and every flipped bit of a gzip file must be noticed. */
static void damaged_gzip_is_refused(void **state)
{
	uint8_t good[LEN_MAX];
	uint8_t packed[LEN_MAX + 64];
	char path[PATH_LEN];
	FILE *stream;
	size_t len;

	len = idx_bytes(0, good);
	write_all(*state, false);
	file_write_gz(*state, names[0], good, len);
	(void)snprintf(path, sizeof(path), "%s/%s.gz", (char *)*state, names[0]);
	stream = fopen(path, "rb");
	assert_non_null(stream);
	len = fread(packed, 1, sizeof(packed), stream);
	(void)fclose(stream);
	assert_int_equal(remove(path), 0);
	for (size_t cut = 2; cut < len; cut++) {
		file_write(*state, names[0], packed, cut);
		check_bad(*state, -EBADMSG, "gzip stream cut off at byte", names[0]);
	}
	/* bytes 4 to 9 of the header are time, flags and system: nothing depends on them */
	for (size_t at = 10; at < len; at++) {
		packed[at] ^= 0x10;
		file_write(*state, names[0], packed, len);
		check_bad(*state, -EBADMSG, "gzip stream", names[0]);
		packed[at] ^= 0x10;
	}
	packed[len] = 0;
	file_write(*state, names[0], packed, len + 1);
	check_bad(*state, -EBADMSG, "1 bytes after the gzip stream's end", names[0]);
	file_write(*state, names[0], packed, len);
	check_good(*state);
}

static void directories_and_wrong_options_are_refused(void **state)
{
	static const char *const specs[] = { "idx:/,classes=1", "idx:/,classes=257",
					     "idx:/,classes=",  "idx:/,classes=7x",
					     "idx:/,other=1",   "idx:",
					     "fashion-mnist:x", "",
					     "no-such-data-set" };
	struct learn_data *data = NULL;
	char err[ERR_LEN];
	char path[PATH_LEN];

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		assert_int_equal(learn_data_open(specs[i], &data, err, sizeof(err)), -EINVAL);
		assert_one_line(err, "");
		assert_null(data);
	}
	assert_int_equal(learn_data_open("no-such-data-set", &data, NULL, 0), -EINVAL);
	write_all(*state, false);
	(void)snprintf(path, sizeof(path), "%s/%s", (char *)*state, names[0]);
	assert_int_equal(remove(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	check_bad(*state, -EINVAL, "not a regular file", names[0]);
}

static void class_count_can_be_given(void **state)
{
	struct learn_data *data = NULL;
	char err[ERR_LEN];
	char spec[PATH_LEN];

	write_all(*state, false);
	(void)snprintf(spec, sizeof(spec), "idx:%s,classes=9", (char *)*state);
	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), 0);
	assert_int_equal(data->shape.classes, 9);
	learn_data_close(data);
	data = NULL;
	(void)snprintf(spec, sizeof(spec), "idx:%s,classes=8", (char *)*state);
	assert_int_equal(learn_data_open(spec, &data, err, sizeof(err)), -EBADMSG);
	assert_one_line(err, "label 8 at offset 12; there are 8 classes");
}

/* Skipped where the package dataset-fashion-mnist is not installed. */
static void fashion_mnist_is_whole(void **state)
{
	struct learn_data *data = NULL;
	unsigned hits[10] = { 0 };
	char err[ERR_LEN];
	int rc;

	(void)state;
	rc = learn_data_open("fashion-mnist", &data, err, sizeof(err));
	if (rc == -ENOENT) {
		assert_one_line(err, "apt-get install dataset-fashion-mnist");
		print_message("%s\n", err);
		skip();
	}
	assert_int_equal(rc, 0);
	assert_int_equal(data->shape.rows, 28);
	assert_int_equal(data->shape.cols, 28);
	assert_int_equal(data->train.count, 60000);
	assert_int_equal(data->test.count, 10000);
	for (size_t i = 0; i < data->train.count; i++)
		hits[data->train.labels[i]]++;
	for (unsigned c = 0; c < 10; c++)
		assert_int_equal(hits[c], 6000);
	learn_data_close(data);
}

#define IN_TMP(test) cmocka_unit_test_setup_teardown(test, tmp_setup, tmp_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TMP(plain_files_are_read_exactly),
		IN_TMP(gzip_files_are_read_exactly),
		IN_TMP(every_damaged_file_is_refused),
		IN_TMP(every_missing_file_is_named_with_a_remedy),
		IN_TMP(a_missing_package_is_named_with_its_command),
		IN_TMP(damaged_gzip_is_refused),
		IN_TMP(directories_and_wrong_options_are_refused),
		IN_TMP(class_count_can_be_given),
		cmocka_unit_test(fashion_mnist_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
