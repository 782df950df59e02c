/* SPDX-License-Identifier: BSD-3-Clause */

/* tensor_test.c -- a table of tensors is read line by line, judged, compared, and put into a content */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "outlast_tensor.h"
#include "wire/tensor.h"

static const char table[] = "F32 2,3 first.weight\n"
			    "F32 3 first.bias\n"
			    "F32 - a scale, with blanks\n"
			    "F32 0,5 nothing\n"
			    "F32 1,1,1,1,1,1,1,2 \xc3\xa9t\xc3\xa9\n";

static void lines_are_read_in_order(void **unused)
{
	struct ol_tensor tensor = { .first = 0 };
	const char *at = table;

	(void)unused;
	assert_int_equal(ol_tensor_next(&at, &tensor), 1);
	assert_string_equal(tensor.name, "first.weight");
	assert_int_equal(tensor.dims, 2);
	assert_int_equal(tensor.shape[0], 2);
	assert_int_equal(tensor.shape[1], 3);
	assert_int_equal(tensor.first, 0);
	assert_int_equal(tensor.count, 6);
	assert_int_equal(ol_tensor_next(&at, &tensor), 1);
	assert_int_equal(tensor.first, 6);
	assert_int_equal(tensor.dims, 1);
	assert_int_equal(ol_tensor_next(&at, &tensor), 1);
	assert_string_equal(tensor.name, "a scale, with blanks");
	assert_int_equal(tensor.dims, 0);
	assert_int_equal(tensor.count, 1);
	assert_int_equal(ol_tensor_next(&at, &tensor), 1);
	assert_int_equal(tensor.count, 0);
	assert_int_equal(ol_tensor_next(&at, &tensor), 1);
	assert_int_equal(tensor.first, 10);
	assert_int_equal(tensor.dims, OL_TENSOR_DIMS_MAX);
	assert_int_equal(ol_tensor_next(&at, &tensor), 0);
	assert_int_equal(ol_tensor_next(&at, &tensor), 0);
}

/* Each of these is no line */
static void what_is_no_line_is_refused(void **unused)
{
	static const char *const lines[] = {
		"F16 2 a\n",
		"F32  2 a\n",
		"F32 2\n",
		"F32 2 \n",
		"F32 2 a",
		"F32 2, a\n",
		"F32 ,2 a\n",
		"F32 -1 a\n",
		"F32 -,1 a\n",
		"F32 a\n",
		"F32 2  a\tb\n",
		"F32 2 a\x7f\n",
		"F32 2 \xff\n",
		"f32 2 a\n",
		"\n",
		"F32",
		"F32 2 \xc3\n",
		"F32 +2 a\n",
		"F32 -- a\n",
		"F32 1,1,1,1,1,1,1,1,1 a\n",
		"F32 2 \xc2\x85\n",
		"F32 2 \xc0\xaf\n",
		"F32 2 \xed\xa0\x80\n",
		"F32 2 \xf4\x90\x80\x80\n",
		"F32 1099511627777 a\n",
		"F32 1099511627776,2 a\n",
		"F32 99999999999999999999999 a\n",
	};
	char why[256];

	(void)unused;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct ol_tensor tensor = { .first = 7 };
		const char *at = lines[i];

		if (ol_tensor_next(&at, &tensor) != -EBADMSG)
			fail_msg("\"%s\" is taken", lines[i]);
		assert_int_equal(tensor.first, 7);
		assert_true(ol_tensor_fault(lines[i], 2, why, sizeof(why)));
		assert_non_null(strstr(why, "line 1 "));
	}
}

static void other_names_stand_behind_the_tensors(void **unused)
{
	static const char with[] = "F32 2 a\nF32 3 b\n= 1 c d\n= 0 e\n";
	static const struct {
		const char *table;
		const char *say;
	} wrong[] = {
		{ "F32 2 a\nF32 3 b\n= 2 c\n",
		  "\"c\" is another name of tensor 2, and there are 2" },
		{ "F32 2 a\nF32 3 b\n= 1 a\n", "\"a\" is there twice" },
		{ "F32 2 a\nF32 3 b\n= 1 c\n= 0 c\n", "\"c\" is there twice" },
		{ "F32 2 a\n= 0 c\nF32 3 b\n", "the tensors have 2 parameters" },
		{ "F32 2 a\nF32 3 b\n= 0 c\nF32 0 d\n", "line 4 " },
		{ "F32 2 a\nF32 3 b\n= x c\n", "line 3 " },
		{ "F32 2 a\nF32 3 b\n= 0 c", "line 3 " },
		{ "F32 2 a\nF32 3 b\n= 0 \n", "line 3 " },
		{ "F32 2 a\nF32 3 b\n=0 c\n", "line 3 " },
	};
	char name[OL_TENSOR_NAME_MAX] = "", why[256];
	struct ol_tensor tensor = { .first = 0 };
	const char *at = with;
	uint64_t number = 9;

	(void)unused;
	assert_false(ol_tensor_fault(with, 5, why, sizeof(why)));
	while (ol_tensor_next(&at, &tensor) == 1)
		assert_true(tensor.name[0] == 'a' || tensor.name[0] == 'b');
	assert_int_equal(ol_tensor_other_next(&at, &number, name), 1);
	assert_int_equal(number, 1);
	assert_string_equal(name, "c d");
	assert_int_equal(ol_tensor_other_next(&at, &number, name), 1);
	assert_int_equal(number, 0);
	assert_string_equal(name, "e");
	assert_int_equal(ol_tensor_other_next(&at, &number, name), 0);
	assert_false(ol_tensor_differ(with, "F32 2 a\nF32 3 b\n", why, sizeof(why)));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_true(ol_tensor_fault(wrong[i].table, 5, why, sizeof(why)));
		if (strstr(why, wrong[i].say) == NULL)
			fail_msg("\"%s\" does not say \"%s\"", why, wrong[i].say);
	}
}

static void faults_name_the_tensor(void **unused)
{
	char why[256], name[OL_TENSOR_NAME_MAX + 16];

	(void)unused;
	assert_false(ol_tensor_fault(table, 12, why, sizeof(why)));
	assert_true(ol_tensor_fault(table, 11, why, sizeof(why)));
	assert_non_null(strstr(why, "\"\xc3\xa9t\xc3\xa9\" ends at 12"));
	assert_true(ol_tensor_fault(table, 13, why, sizeof(why)));
	assert_non_null(strstr(why, "12 parameters, and the job 13"));
	assert_true(ol_tensor_fault("F32 2 a\nF32 1 ab\nF32 1 a\n", 4, why, sizeof(why)));
	assert_non_null(strstr(why, "\"a\" is there twice"));
	assert_false(ol_tensor_fault("F32 2 a\nF32 1 ab\nF32 1 b\n", 4, why, sizeof(why)));
	assert_true(ol_tensor_fault("F32 2 __metadata__\n", 2, why, sizeof(why)));
	assert_true(ol_tensor_fault("", 1, why, sizeof(why)));
	for (int len = OL_TENSOR_NAME_MAX - 1; len <= OL_TENSOR_NAME_MAX; len++) {
		snprintf(name, sizeof(name), "F32 2 %0*d\n", len, 0);
		assert_int_equal(ol_tensor_fault(name, 2, why, sizeof(why)) != 0,
				 len == OL_TENSOR_NAME_MAX);
	}
}

static void long_tables_are_refused(void **unused)
{
	static const char line[] = "F32 1 tensor.0000000\n";
	const size_t len = sizeof(line) - 1;
	const size_t most = (OL_TENSORS_BYTES_MAX - 1) / len;
	char *text = malloc((most + 1) * len + 1), why[256];

	(void)unused;
	assert_non_null(text);
	for (size_t i = 0; i <= most; i++)
		snprintf(text + i * len, len + 1, "F32 1 tensor.%07zu\n", i);
	assert_true(ol_tensor_fault(text, most + 1, why, sizeof(why)));
	text[most * len] = '\0';
	assert_false(ol_tensor_fault(text, most, why, sizeof(why)));
	memcpy(text, text + (most - 1) * len, len); /* the last one's name */
	assert_true(ol_tensor_fault(text, most, why, sizeof(why)));
	free(text);
}

static void differences_name_the_first_tensor(void **unused)
{
	static const struct {
		const char *theirs, *says;
	} cases[] = {
		{ "F32 2,3 first.weight\n", "\"first.bias\" is not there" },
		{ "F32 2,3 first.weight\nF32 3 first.bias\nF32 1 more\n",
		  "\"more\" is not wanted" },
		{ "F32 2,3 first.weight\nF32 3 other\n",
		  "\"first.bias\" is wanted, and \"other\" is there" },
		{ "F32 3,2 first.weight\nF32 3 first.bias\n",
		  "\"first.weight\" is (3,2), and (2,3) is wanted" },
		{ "F32 6 first.weight\nF32 3 first.bias\n",
		  "\"first.weight\" is (6), and (2,3) is wanted" },
		{ "F32 2,3 first.weight\nX", "damaged" },
	};
	static const char mine[] = "F32 2,3 first.weight\nF32 3 first.bias\n";
	char why[256];

	(void)unused;
	assert_false(ol_tensor_differ(mine, mine, why, sizeof(why)));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(ol_tensor_differ(mine, cases[i].theirs, why, sizeof(why)));
		if (strstr(why, cases[i].says) == NULL)
			fail_msg("\"%s\", not \"%s\"", why, cases[i].says);
	}
}

/* What a peer wrote in its place is a table only if it ends. */
static void a_table_lies_in_a_content(void **unused)
{
	struct ol_geometry geo = { .param_count = 12,
				   .shard_len = 12,
				   .shard_count = 1,
				   .workers_max = 3,
				   .window = 1,
				   .consistency = OL_CONSISTENCY_ASYNC,
				   .groups = 2 };
	size_t bytes;
	uint8_t *content;

	(void)unused;
	assert_int_equal(ol_tensors_bytes(NULL), 0);
	assert_int_equal(ol_tensors_bytes(""), OL_LINE_BYTES);
	geo.tensors_bytes = ol_tensors_bytes(table);
	assert_int_equal(ol_geometry_check(&geo), 0);
	bytes = ol_layout_content_bytes(&geo);
	content = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(content != MAP_FAILED);
	memset(content, 0xa5, bytes);
	assert_null(ol_tensors_of(&geo, content));
	ol_tensors_put(&geo, content, table);
	assert_string_equal(ol_tensors_of(&geo, content), table);
	assert_int_equal(content[ol_layout_tensors_off(&geo) - 1], 0xa5);
	assert_int_equal(content[ol_layout_table_bytes(&geo)], 0xa5);
	assert_int_equal(content[ol_layout_table_bytes(&geo) - 1], 0);
	assert_int_equal(mprotect(content, bytes, PROT_READ), 0);
	ol_tensors_put(&geo, content, table); /* it is there: peers may read it */
	assert_int_equal(mprotect(content, bytes, PROT_READ | PROT_WRITE), 0);
	ol_tensors_put(&geo, content, NULL);
	assert_null(ol_tensors_of(&geo, content));
	geo.tensors_bytes += 1;
	assert_int_equal(ol_geometry_check(&geo), OL_E_GEOMETRY);
	geo.tensors_bytes = OL_TENSORS_BYTES_MAX + OL_LINE_BYTES;
	assert_int_equal(ol_geometry_check(&geo), OL_E_GEOMETRY);
	geo.tensors_bytes = 0;
	assert_null(ol_tensors_of(&geo, content));
	munmap(content, bytes);
}

static void tables_of_other_names_have_another_digest(void **unused)
{
	uint64_t none, one, again, other;

	(void)unused;
	assert_int_equal(ol_tensors_digest(NULL, &none), 0);
	assert_int_equal(ol_tensors_digest("F32 2 a\n", &one), 0);
	assert_int_equal(ol_tensors_digest("F32 2 a\n", &again), 0);
	assert_int_equal(ol_tensors_digest("F32 2 b\n", &other), 0);
	assert_true(none == 0 && one != 0 && one == again && one != other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_of_other_names_have_another_digest),
		cmocka_unit_test(lines_are_read_in_order),
		cmocka_unit_test(what_is_no_line_is_refused),
		cmocka_unit_test(other_names_stand_behind_the_tensors),
		cmocka_unit_test(faults_name_the_tensor),
		cmocka_unit_test(long_tables_are_refused),
		cmocka_unit_test(differences_name_the_first_tensor),
		cmocka_unit_test(a_table_lies_in_a_content),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
