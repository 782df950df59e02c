/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * sha256_test.c -- the digests are those of FIPS 180-4's examples
 */
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void digests_are_those_of_the_standard(void **state)
{
	static const char *const vectors[][2] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	};
	char hex[OL_SHA256_HEX_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		assert_int_equal(ol_sha256_hex(vectors[i][0], strlen(vectors[i][0]), hex), 0);
		assert_string_equal(hex, vectors[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digests_are_those_of_the_standard),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
