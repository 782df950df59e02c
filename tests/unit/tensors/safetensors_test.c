/* SPDX-License-Identifier: BSD-3-Clause */

/* safetensors_test.c -- .safetensors files are read bit for bit in the order of their bytes, and
 * every damaged or foreign one is refused */

#include "unit/tensors/tensors_util.h"

enum {
	FILE_MAX = 4096,
	FLOATS = 6
};

static const float floats[FLOATS] = { 1.0f, -0.0f, 3.4e38f, 1e-45f, -2.5f, 0.1f };

static size_t safe_make(uint8_t *p, const char *header, size_t bytes)
{
	size_t len = strlen(header);

	memset(p, 0, 8);
	p[0] = (uint8_t)(len & 0xff);
	p[1] = (uint8_t)(len >> 8);
	memcpy(p + 8, header, len);
	memcpy(p + 8 + len, floats, bytes);
	return 8 + len + bytes;
}

static const char *safe_write(const char *dir, const char *header, size_t bytes)
{
	const char *path = path_of(dir, "f.safetensors");
	uint8_t all[FILE_MAX];

	file_write(path, all, safe_make(all, header, bytes));
	return path;
}

static void tensors_are_read_in_the_order_of_their_bytes(void **state)
{
	static const char *const headers[] = {
		"{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
		"{\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]},"
		"\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}   ",
		"{\"__metadata__\":{\"format\":\"pt\"},"
		"\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]},"
		"\"one\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
		"\"five\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[4,24]}}",
	};

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		check_floats(safe_write(*state, headers[i], sizeof(floats)), floats, FLOATS);
}

/* As the library safetensors saves a model whose tensors share their numbers */
static void other_names_are_read_and_written(void **state)
{
	static const char header[] =
		"{\"__metadata__\":{\"format\":\"b\",\"head\":\"a\",\"b\":\"a\","
		"\"a\\nb\":\"a\",\"c\":\"nowhere\",\"tail\":\"b\"},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]},"
		"\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
	static const char table[] = "F32 2 a\nF32 4 b\n= 0 head\n= 1 tail\n";
	struct ol_tensors_about about = { .version = 8, .epoch = 1, .table = table };
	char err[ERR_LEN] = "", path[PATH_LEN];
	struct ol_tensors *tensors = NULL;
	uint64_t version;

	for (unsigned i = 0; i < 2; i++) { /* what was read is written, and read again */
		if (i == 0)
			snprintf(path, sizeof(path), "%s",
				 safe_write(*state, header, sizeof(floats)));
		else if (ol_tensors_save(path, true, floats, FLOATS, &about, err, sizeof(err)) != 0)
			fail_msg("%s", err);
		if (ol_tensors_open(path, &tensors, err, sizeof(err)) != 0)
			fail_msg("%s", err);
		assert_string_equal(ol_tensors_table(tensors), table);
		assert_int_equal(ol_tensors_version(tensors, &version), i);
		assert_int_equal(version, 8 * i);
		ol_tensors_close(tensors);
	}
}

#define OF(name, dtype, shape, offsets) \
	"\"" name "\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void a_header_that_does_not_fit_is_refused(void **state)
{
	static const struct {
		const char *header;
		const char *say;
	} cases[] = {
		{ "", "not JSON" },
		{ "{", "not JSON" },
		{ "weights", "not JSON" },
		{ "[1, 2]", "no JSON object" },
		{ "{\"a\":1,\"a\":1}", "not JSON: duplicate" },
		{ "{\"a\":1}", "\"a\" has no dtype" },
		{ "{\"a\\nb\":1}", "\"a?b\" has no dtype" },
		{ "{\"__metadata__\":{\"epoch\":1}}", "__metadata__" },
		{ "{\"__metadata__\":[]}", "__metadata__" },
		{ "{" OF("a", "\"F16\"", "[12]", "[0,24]") "}", "type F16: only F32" },
		{ "{" OF("a", "4", "[6]", "[0,24]") "}", "no dtype" },
		{ "{" OF("a", "\"F32\"", "6", "[0,24]") "}", "no shape" },
		{ "{" OF("a", "\"F32\"", "[-6]", "[0,24]") "}", "no shape" },
		{ "{" OF("a", "\"F32\"", "[6.0]", "[0,24]") "}", "no shape" },
		{ "{" OF("a", "\"F32\"", "[1099511627777]", "[0,24]") "}", "a job cannot have" },
		{ "{" OF("a", "\"F32\"", "[4294967296,4294967296]", "[0,24]") "}",
		  "a job cannot have" },
		{ "{" OF("a", "\"F32\"", "[9223372036854775808]", "[0,24]") "}", "not JSON" },
		{ "{" OF("a", "\"F32\"", "[5]", "[0,24]") "}", "do not fit its shape" },
		{ "{" OF("a", "\"F32\"", "[6]", "[24,0]") "}", "in order" },
		{ "{" OF("a", "\"F32\"", "[6]", "[0]") "}", "in order" },
		{ "{" OF("a", "\"F32\"", "[6]", "\"0,24\"") "}", "in order" },
		{ "{" OF("a", "\"F32\"", "[6]", "[-24,0]") "}", "in order" },
		{ "{" OF("a", "\"F32\"", "[7]", "[0,28]") "}", "was cut off" },
		{ "{" OF("a", "\"F32\"", "[5]", "[0,20]") "}", "something was added" },
		{ "{" OF("a", "\"F32\"", "[4]", "[0,16]") "," OF("b", "\"F32\"", "[4]",
								 "[8,24]") "}",
		  "\"b\" overlaps" },
		{ "{" OF("a", "\"F32\"", "[6]", "[0,24]") "," OF("b", "\"F32\"", "[6]",
								 "[0,24]") "}",
		  "overlaps" },
		{ "{" OF("a", "\"F32\"", "[2]", "[0,8]") "," OF("b", "\"F32\"", "[3]",
								"[12,24]") "}",
		  "\"b\" leaves a gap" },
		{ "{" OF("a", "\"F32\"", "[5]", "[4,24]") "}", "leaves a gap" },
		{ "{}", "something was added" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_refused(safe_write(*state, cases[i].header, sizeof(floats)), -EBADMSG,
			      cases[i].say);
	check_refused(safe_write(*state, "{}", 0), -EBADMSG, "no numbers in it");
	check_refused(safe_write(*state, "{" OF("a", "\"F32\"", "[0]", "[0,0]") "}", 0), -EBADMSG,
		      "no numbers in it");
}

static void a_length_that_lies_is_refused_without_memory_for_it(void **state)
{
	const char *path = path_of(*state, "f.safetensors");
	uint8_t bytes[FILE_MAX];
	size_t len = safe_make(bytes, "{" OF("a", "\"F32\"", "[6]", "[0,24]") "}", sizeof(floats));

	bytes[2] = 1;
	file_write(path, bytes, len);
	check_refused(path, -EBADMSG, "the file is shorter");
	memset(bytes, 0xff, 8);
	file_write(path, bytes, len);
	check_refused(path, -EBADMSG, "18446744073709551615 bytes: the file is shorter");
	memset(bytes, 0, 8);
	bytes[3] = 2; /* a file of that length is there, of holes */
	file_write(path, bytes, len);
	assert_int_equal(truncate(path, 1 << 26), 0);
	check_refused(path, -EBADMSG, "at most 2^24");
	for (size_t cut = 0; cut < len; cut++) {
		(void)safe_make(bytes, "{" OF("a", "\"F32\"", "[6]", "[0,24]") "}", sizeof(floats));
		file_write(path, bytes, cut);
		check_refused(path, -EBADMSG, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tensors_are_read_in_the_order_of_their_bytes,
						tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(other_names_are_read_and_written, tmp_setup,
						tmp_teardown),
		cmocka_unit_test_setup_teardown(a_header_that_does_not_fit_is_refused, tmp_setup,
						tmp_teardown),
		cmocka_unit_test_setup_teardown(a_length_that_lies_is_refused_without_memory_for_it,
						tmp_setup, tmp_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
