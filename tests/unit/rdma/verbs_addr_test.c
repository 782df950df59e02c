/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * verbs_addr_test.c -- "host:port" is parsed as documented, and nothing else is
 */
/* cmocka.h wants these before it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "rdma/verbs/addr.h"

static void a_good_address_survives_the_round_trip(void **state)
{
	static const char *const texts[] = {
		"10.0.0.1:7471", "0.0.0.0:0",         "127.0.0.1:65535",
		"[::1]:1",       "[2001:db8::7]:443", "[::]:0",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char back[OL_XPORT_ADDR_MAX];
		union ol_verbs_addr addr;

		assert_int_equal(ol_verbs_addr_parse(texts[i], &addr), 0);
		assert_int_equal(addr.sa.sa_family, texts[i][0] == '[' ? AF_INET6 : AF_INET);
		ol_verbs_addr_text(&addr.sa, back);
		assert_string_equal(back, texts[i]);
	}
}

static void malformed_addresses_are_refused(void **state)
{
	static const char *const texts[] = {
		"",
		":",
		":7471",
		"10.0.0.1",
		"10.0.0.1:",
		"10.0.0.1:x",
		"10.0.0.1:-1",
		"10.0.0.1:65536",
		"10.0.0.1:99999999999",
		"10.0.0.1:7 ",
		"::1:7471",
		"[::1]",
		"[::1:7471",
		"[]:7471",
		"[:7471",
		"[::1]x:7471",
		"@name",
	};
	union ol_verbs_addr addr;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (ol_verbs_addr_parse(texts[i], &addr) != -EINVAL)
			fail_msg("\"%s\" was taken", texts[i]);
}

static void a_host_longer_than_any_name_is_refused(void **state)
{
	union ol_verbs_addr addr;
	char text[4096];

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text + sizeof(text) - 4, ":77", 4);
	assert_int_equal(ol_verbs_addr_parse(text, &addr), -EINVAL);
}

static void an_unknown_host_is_unreachable(void **state)
{
	union ol_verbs_addr addr;

	(void)state;
	assert_int_equal(ol_verbs_addr_parse("no.such.host.invalid:1", &addr), -EHOSTUNREACH);
}

static void wildcards_are_known(void **state)
{
	union ol_verbs_addr addr;

	(void)state;
	assert_int_equal(ol_verbs_addr_parse("0.0.0.0:1", &addr), 0);
	assert_true(ol_verbs_addr_is_any(&addr));
	assert_int_equal(ol_verbs_addr_parse("[::]:1", &addr), 0);
	assert_true(ol_verbs_addr_is_any(&addr));
	assert_int_equal(ol_verbs_addr_parse("0.0.0.1:1", &addr), 0);
	assert_false(ol_verbs_addr_is_any(&addr));
	assert_int_equal(ol_verbs_addr_parse("[::1]:1", &addr), 0);
	assert_false(ol_verbs_addr_is_any(&addr));
}

static void an_address_of_tcp_keeps_its_prefix(void **state)
{
	union ol_verbs_addr addr;
	char text[OL_XPORT_ADDR_MAX];
	const char *rest;

	(void)state;
	assert_true(ol_verbs_addr_is_oob("oob:10.0.0.1:7", &rest));
	assert_string_equal(rest, "10.0.0.1:7");
	assert_int_equal(ol_verbs_addr_parse(rest, &addr), 0);
	ol_verbs_addr_oob_text(&addr.sa, text);
	assert_string_equal(text, "oob:10.0.0.1:7");
	assert_true(ol_verbs_addr_is_oob("oob:[fd77::1]:7", &rest));
	assert_int_equal(ol_verbs_addr_parse(rest, &addr), 0);
	ol_verbs_addr_oob_text(&addr.sa, text);
	assert_string_equal(text, "oob:[fd77::1]:7");
	assert_false(ol_verbs_addr_is_oob("oob", &rest));
	assert_false(ol_verbs_addr_is_oob("10.0.0.1:7", &rest));
	assert_string_equal(rest, "10.0.0.1:7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_address_survives_the_round_trip),
		cmocka_unit_test(malformed_addresses_are_refused),
		cmocka_unit_test(a_host_longer_than_any_name_is_refused),
		cmocka_unit_test(an_unknown_host_is_unreachable),
		cmocka_unit_test(wildcards_are_known),
		cmocka_unit_test(an_address_of_tcp_keeps_its_prefix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
