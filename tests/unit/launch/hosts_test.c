/* SPDX-License-Identifier: BSD-3-Clause */

/* hosts_test.c -- files of hosts and Slurm's lists are read as written, and a fault is named with its line */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "launch/hosts.h"

static struct launch_hosts hosts;
static char err[256];

static void parsed(const char *text, uint32_t count)
{
	err[0] = '\0';
	hosts.are_given = false;
	assert_int_equal(launch_hosts_parse(&hosts, "f", text, err, sizeof(err)), 0);
	assert_string_equal(err, "");
	assert_int_equal(hosts.count, count);
}

static void refused(const char *text, const char *why)
{
	err[0] = '\0';
	hosts.are_given = false;
	assert_int_equal(launch_hosts_parse(&hosts, "f", text, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, why);
}

/* All names, with blanks between */
static const char *names(void)
{
	static char text[4096];
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < hosts.count; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? " " : "",
					hosts.list[i].name);
	return text;
}

static void slurm(const char *nodes, const char *tasks, const char *want)
{
	err[0] = '\0';
	assert_int_equal(launch_hosts_slurm(&hosts, nodes, tasks, err, sizeof(err)), 0);
	assert_string_equal(err, "");
	assert_string_equal(names(), want);
}

static void slurm_refused(const char *nodes, const char *tasks, const char *why)
{
	err[0] = '\0';
	assert_int_equal(launch_hosts_slurm(&hosts, nodes, tasks, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, why));
}

static void a_line_is_a_host(void **state)
{
	(void)state;
	parsed("a\n"
	       "# a comment\n\n"
	       "  user@b.c \t slots=4 rack=r1 # more\r\n"
	       "10.0.0.3 servers=0 address=oob:10.1.0.3 slots=0",
	       3);
	assert_string_equal(names(), "a user@b.c 10.0.0.3");
	assert_int_equal(hosts.list[0].slots, LAUNCH_ANY);
	assert_int_equal(hosts.list[0].servers, LAUNCH_ANY);
	assert_int_equal(hosts.list[1].slots, 4);
	assert_string_equal(hosts.list[1].rack, "r1");
	assert_int_equal(hosts.list[2].servers, 0);
	assert_int_equal(hosts.list[2].slots, 0);
	assert_string_equal(hosts.list[2].address, "oob:10.1.0.3");
}

static void a_host_that_comes_again_has_the_slots_of_all_its_lines(void **state)
{
	(void)state;
	parsed("a\na\nb\na\n", 2);
	assert_int_equal(hosts.list[0].slots, 3);
	assert_int_equal(hosts.list[1].slots, LAUNCH_ANY);
	parsed("a slots=2\na slots=3\n", 1);
	assert_int_equal(hosts.list[0].slots, 5);
}

static void a_fault_is_named_with_its_line(void **state)
{
	(void)state;
	refused("", "f: names no host");
	refused("# only this\n", "f: names no host");
	refused("a\n-oProxyCommand=x\n", "f:2: \"-oProxyCommand=x\" is no name of a host");
	refused("a;reboot", "f:1: \"a;reboot\" is no name of a host");
	refused("a slots=x", "f:1: \"slots=x\" has no number from 0 to 100000");
	refused("a slots=100001", "f:1: \"slots=100001\" has no number from 0 to 100000");
	refused("a\nb max=3",
		"f:2: \"max=3\" is none of slots=N, servers=N, rack=NAME, address=ADDR");
	refused("a 4", "f:1: \"4\" is none of slots=N, servers=N, rack=NAME, address=ADDR");
	refused("a address=@job",
		"f:1: \"address=@job\" is no address that other hosts can reach; where all are this "
		"machine, give --transport shm");
	refused("a rack=",
		"f:1: \"rack=\" has no name behind it, of letters, digits and . _ - @ : %");
}

static void more_hosts_than_there_may_be_are_refused(void **state)
{
	char text[4096];
	size_t len = 0;

	(void)state;
	for (unsigned i = 0; i < LAUNCH_HOSTS_MAX + 1; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "h%u\n", i);
	refused(text, "f:257: \"h256\" is one host too many: 256 can be given");
	slurm_refused("h[0-256]", NULL, "names more than 256 hosts");
}

static void slurms_lists_are_expanded(void **state)
{
	(void)state;
	slurm("a", NULL, "a");
	assert_int_equal(hosts.list[0].slots, LAUNCH_ANY);
	slurm("a,b.c,d", NULL, "a b.c d");
	slurm("n[1-3]", NULL, "n1 n2 n3");
	slurm("n[08-10,2],x", NULL, "n08 n09 n10 n2 x");
	slurm("n[1-2]-ib,m[007]", NULL, "n1-ib n2-ib m007");
	slurm("r[1-2]n[3,5-6]", NULL, "r1n3 r1n5 r1n6 r2n3 r2n5 r2n6");
}

static void slurms_tasks_are_slots(void **state)
{
	(void)state;
	slurm("n[1-4]", "2(x3),1", "n1 n2 n3 n4");
	assert_int_equal(hosts.list[2].slots, 2);
	assert_int_equal(hosts.list[3].slots, 1);
	slurm_refused("n[1-4]", "2(x3)", "fewer hosts");
	slurm_refused("n1", "2(y3)", "not as Slurm writes it");
	slurm_refused("n1", "many", "not as Slurm writes it");
}

static void a_file_says_more_of_hosts_that_are_given_and_adds_none(void **state)
{
	char text[8192];
	size_t len = 0;

	(void)state;
	slurm("n[1-3]", "2(x3)", "n1 n2 n3");
	for (unsigned i = 0; i < LAUNCH_HOSTS_MAX + 1; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "m%u slots=9\n", i);
	snprintf(text + len, sizeof(text) - len,
		 "n2 rack=r address=10.0.0.2 servers=1 slots=8\nn3 slots=1\n");
	assert_int_equal(launch_hosts_parse(&hosts, "f", text, err, sizeof(err)), 0);
	assert_string_equal(names(), "n1 n2 n3");
	assert_string_equal(hosts.list[0].address, "");
	assert_string_equal(hosts.list[1].address, "10.0.0.2");
	assert_string_equal(hosts.list[1].rack, "r");
	assert_int_equal(hosts.list[1].servers, 1);
	assert_int_equal(hosts.list[1].slots, 2);
	assert_int_equal(hosts.list[2].slots, 1);
	assert_int_equal(launch_hosts_parse(&hosts, "f", "m1\n", err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "f: names no host of the allocation");
	assert_int_equal(launch_hosts_parse(&hosts, "f", "m1 x=1\n", err, sizeof(err)), -EINVAL);
	assert_string_equal(err,
			    "f:1: \"x=1\" is none of slots=N, servers=N, rack=NAME, address=ADDR");
}

static void a_list_that_is_not_slurms_is_refused(void **state)
{
	(void)state;
	slurm_refused("", NULL, "is empty");
	slurm_refused("n[1-3", NULL, "lacks a ]");
	slurm_refused("n[]", NULL, "lacks a number");
	slurm_refused("n[3-1]", NULL, "lacks a number");
	slurm_refused("n[a]", NULL, "lacks a number");
	slurm_refused("n[1;2]", NULL, "has no , or ]");
	slurm_refused("a,,b", NULL, "has a name that no host can have");
	slurm_refused("-x", NULL, "has a name that no host can have");
	slurm_refused("n[9999999999]", NULL, "lacks a number");
	slurm_refused("n[0-999999999]", NULL, "more than 256");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_a_host),
		cmocka_unit_test(a_host_that_comes_again_has_the_slots_of_all_its_lines),
		cmocka_unit_test(a_fault_is_named_with_its_line),
		cmocka_unit_test(more_hosts_than_there_may_be_are_refused),
		cmocka_unit_test(slurms_lists_are_expanded),
		cmocka_unit_test(slurms_tasks_are_slots),
		cmocka_unit_test(a_file_says_more_of_hosts_that_are_given_and_adds_none),
		cmocka_unit_test(a_list_that_is_not_slurms_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
