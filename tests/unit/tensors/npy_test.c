/* SPDX-License-Identifier: BSD-3-Clause */

/* npy_test.c -- .npy files are read bit for bit, and every damaged or foreign one is refused */

#include "unit/tensors/tensors_util.h"

enum {
	FILE_MAX = 4096,
	FLOATS = 6
};

static const float floats[FLOATS] = { 1.0f, -0.0f, 3.4e38f, 1e-45f, -2.5f, 0.1f };

/* A file of format `major`.0 with this dictionary, then `count` of the floats; returns its length */
static size_t npy_make(uint8_t *p, unsigned major, const char *dictionary, size_t count)
{
	size_t len = strlen(dictionary), at = major > 1 ? 12 : 10;

	memcpy(p, "\x93NUMPY", 6);
	p[6] = (uint8_t)major;
	p[7] = 0;
	p[8] = (uint8_t)(len & 0xff);
	p[9] = (uint8_t)(len >> 8);
	p[10] = p[11] = 0;
	memcpy(p + at, dictionary, len);
	memcpy(p + at + len, floats, count * sizeof(float));
	return at + len + count * sizeof(float);
}

static const char *npy_write(const char *dir, unsigned major, const char *dictionary, size_t count)
{
	const char *path = path_of(dir, "f.npy");
	uint8_t bytes[FILE_MAX];

	file_write(path, bytes, npy_make(bytes, major, dictionary, count));
	return path;
}

static void every_format_and_shape_is_read_as_it_lies(void **state)
{
	static const char *const dictionaries[] = {
		"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }          \n",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n",
		"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3)}",
		"{\"shape\":(6,),\"fortran_order\":False,\"descr\":\"<f4\"}",
		" { 'shape' : ( 3 , 2 , ) , 'descr' : '<f4' , 'fortran_order' : False } ",
	};

	for (size_t i = 0; i < sizeof(dictionaries) / sizeof(dictionaries[0]); i++) {
		for (unsigned major = 1; major <= 3; major++)
			check_floats(npy_write(*state, major, dictionaries[i], FLOATS), floats,
				     FLOATS);
	}
	check_floats(
		npy_write(*state, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 1),
		floats, 1);
}

#define REST ", 'fortran_order': False, 'shape': (6,)}"

static void what_is_not_float32_in_c_order_is_refused(void **state)
{
	static const struct {
		const char *dictionary;
		const char *say;
	} cases[] = {
		{ "{'descr': '>f4'" REST, "type >f4: only little-endian float32" },
		{ "{'descr': '<f8'" REST, "type <f8" },
		{ "{'descr': '|O'" REST, "type |O" },
		{ "{'descr': '<f4 '" REST, "type <f4 " },
		{ "{'descr': [('a', '<f4')]" REST, "records" },
		{ "{'descr': '\n'" REST, "type ?:" },
		{ "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", "Fortran order" },
		{ "{'descr': '<f4', 'fortran_order': None, 'shape': (6,)}", "neither True" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "no tuple" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "no tuple" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "no tuple" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}", "list of numbers" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (6.0,)}", "no tuple" },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (6,", "list of numbers" },
		{ "{'descr': '<f4', 'fortran_order': False}", "lacks one" },
		{ "{'descr': '<f4', 'descr': '<f4'" REST, "a key twice" },
		{ "{'descr': '<f4', 'other': '<f4'" REST, "a key that is none" },
		{ "{'descr': '<f4'" REST " x", "goes on" },
		{ "{'descr' '<f4'" REST, "no dictionary" },
		{ "{'descr': '<f4'" REST "}", "goes on" },
		{ "{'descr': '<f4", "records" },
		{ "'descr'", "no dictionary" },
		{ "", "no dictionary" },
		{ "{", "no dictionary" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_refused(npy_write(*state, 1, cases[i].dictionary, FLOATS), -EBADMSG,
			      cases[i].say);
}

static void a_shape_that_lies_is_refused_without_memory_for_it(void **state)
{
	static const struct {
		const char *shape;
		const char *say;
	} cases[] = {
		{ "(5,)", "20 bytes of numbers, and 24 are there" },
		{ "(7,)", "28 bytes of numbers, and 24 are there" },
		{ "(1099511627776,)", "and 24 are there" },
		{ "(1099511627777,)", "more than 2^40" },
		{ "(1048576, 1048577)", "more than 2^40" },
		{ "(4294967296, 4294967296)", "more than 2^40" },
		{ "(99999999999999999999999999999999999,)", "more than 2^40" },
		{ "(0,)", "0 bytes of numbers" },
	};
	char dictionary[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(dictionary, sizeof(dictionary),
			 "{'descr': '<f4', 'fortran_order': False, 'shape': %s}", cases[i].shape);
		check_refused(npy_write(*state, 1, dictionary, FLOATS), -EBADMSG, cases[i].say);
	}
	check_refused(
		npy_write(*state, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", 0),
		-EBADMSG, "no numbers in it");
}

static void a_file_cut_off_anywhere_is_refused(void **state)
{
	const char *path = path_of(*state, "f.npy");
	uint8_t bytes[FILE_MAX];
	size_t len = npy_make(bytes, 1, "{'descr': '<f4'" REST, FLOATS);

	for (size_t cut = 0; cut < len; cut++) {
		file_write(path, bytes, cut);
		check_refused(path, -EBADMSG, "");
	}
	file_write(path, bytes, len);
	check_floats(path, floats, FLOATS);
}

static void a_header_that_is_longer_than_the_file_or_of_another_format_is_refused(void **state)
{
	const char *path = path_of(*state, "f.npy");
	uint8_t bytes[FILE_MAX];
	size_t len = npy_make(bytes, 2, "{'descr': '<f4'" REST, FLOATS);

	bytes[9] = 4;
	file_write(path, bytes, len);
	check_refused(path, -EBADMSG, "the file is shorter");
	bytes[11] = 0xff;
	file_write(path, bytes, len);
	check_refused(path, -EBADMSG, "at most 65536");
	bytes[6] = 4;
	file_write(path, bytes, len);
	check_refused(path, -EBADMSG, "format 4.0");
	bytes[0] = 'N';
	file_write(path, bytes, len);
	check_refused(path, -EBADMSG, "does not begin as a .npy file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_format_and_shape_is_read_as_it_lies,
						tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(what_is_not_float32_in_c_order_is_refused,
						tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(a_shape_that_lies_is_refused_without_memory_for_it,
						tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(a_file_cut_off_anywhere_is_refused, tmp_setup,
						tmp_teardown),
		cmocka_unit_test_setup_teardown(
			a_header_that_is_longer_than_the_file_or_of_another_format_is_refused,
			tmp_setup, tmp_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
