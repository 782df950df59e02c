/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chains_test.c -- a watcher of chains sees the view, the waiting servers, and the loss of the
 * folder of views
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/folder.h"
#include "outlast_server.h"
#include "replication/coord/coord.h"
#include "wire/auth.h"

enum {
	TIMEOUT_MS = 30000
};

static struct ol_member server_make(uint64_t id)
{
	struct ol_member m = { .id = id, .job = 1, .proto = 1 };

	snprintf(m.addr, sizeof(m.addr), "@server-%u", (unsigned)id);
	return m;
}

/* server_join -- as a server does, with the key of the job */
static struct ol_coord *server_join(const char *addr, char *key, uint64_t id)
{
	struct ol_coord_opts opts = { .addr = addr,
				      .job = "outlast",
				      .shard_count = 2,
				      .lease_ms = TIMEOUT_MS,
				      .open_timeout_ms = TIMEOUT_MS,
				      .mac = ol_auth_coord_mac,
				      .owner_mac = ol_auth_coord_owner_mac,
				      .mac_arg = key };
	struct ol_member member = server_make(id);
	struct ol_coord *coord;

	assert_int_equal(ol_coord_open(&opts, &coord, NULL, 0), 0);
	assert_int_equal(ol_coord_join(coord, 1, &member), 0);
	return coord;
}

/* look -- until so many wait and there is a view, or until the coordinator is gone */
static void look(struct ol_chains *chains, uint32_t waiting, uint32_t epoch, uint32_t connected,
		 struct ol_chain_info *ret_info)
{
	do {
		sched_yield();
		assert_int_equal(ol_chains_get(chains, 1, ret_info), 0);
	} while (ret_info->waiting != waiting || ret_info->epoch != epoch ||
		 ret_info->connected != connected);
}

static void chains_are_seen(void **unused)
{
	char key[] = "the key of this job", addr[OL_FOLDER_MAX + 8], err[256] = "";
	struct ol_folder folder;
	struct ol_chains *chains = NULL;
	struct ol_chain_info info;
	struct ol_coord *one, *two;
	struct ol_view view = { .epoch = 4,
				.founded = 3,
				.history = 7,
				.origin = 5,
				.shard_count = 2,
				.wanted = 2,
				.every = 9,
				.count = 1,
				.replicas = { server_make(7) } };

	(void)unused;
	assert_int_equal(ol_folder_make(&folder, "ol-chains-test-"), 0);
	snprintf(addr, sizeof(addr), "dir:%s", folder.path);
	assert_int_equal(ol_chains_open(addr, NULL, key, 2, TIMEOUT_MS, &chains, err, sizeof(err)),
			 0);
	assert_int_equal(ol_chains_get(chains, 2, &info), -EINVAL);
	look(chains, 0, 0, 1, &info);
	one = server_join(addr, key, 7);
	two = server_join(addr, key, 8);
	look(chains, 2, 0, 1, &info);
	ol_coord_propose(one, 1, 0, &view);
	look(chains, 1, 4, 1, &info);
	assert_int_equal(info.founded, 3);
	assert_int_equal(info.shard_count, 2);
	assert_int_equal(info.wanted, 2);
	assert_int_equal(info.every, 9);
	assert_int_equal(info.count, 1);
	assert_int_equal(info.joining, 0);
	assert_int_equal(info.gone, 0);
	assert_int_equal(info.ids[0], 7);
	assert_string_equal(info.addrs[0], "@server-7");
	ol_coord_close(one);
	do {
		look(chains, 1, 4, 1, &info);
	} while (info.gone != 1);
	assert_int_equal(info.count, 1);
	ol_coord_close(two);
	look(chains, 0, 4, 1, &info);
	assert_int_equal(info.gone, 1);

	ol_folder_drop(&folder);
	look(chains, 0, 4, 0, &info); /* the last that was known */
	ol_chains_close(chains);
}

/* Of this process */
static unsigned threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

static void who_has_looked_leaves_no_thread(void **unused)
{
	char key[] = "", addr[OL_FOLDER_MAX + 8], err[256] = "";
	struct ol_chains *chains = NULL;
	struct ol_folder folder;
	unsigned before;

	(void)unused;
	assert_int_equal(ol_folder_make(&folder, "ol-chains-test-"), 0);
	snprintf(addr, sizeof(addr), "dir:%s", folder.path);
	before = threads();
	assert_int_equal(ol_chains_open(addr, NULL, key, 1, TIMEOUT_MS, &chains, err, sizeof(err)),
			 0);
	assert_int_equal(threads(), before + 1);
	ol_chains_close(chains);
	alarm(TIMEOUT_MS / 1000);
	while (threads() != before) /* one that was joined may be listed for a moment */
		sched_yield();
	alarm(0);
	ol_folder_drop(&folder);
}

static void what_cannot_be_is_refused_in_a_line(void **unused)
{
	struct ol_chains *chains;
	char key[300], err[256];

	(void)unused;
	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	assert_int_equal(ol_chains_open("dir:/tmp", NULL, key, 1, 1, &chains, err, sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "job key is longer than"));
	assert_int_equal(ol_chains_open("dir:/tmp", NULL, "fifteen bytes !", 1, 1, &chains, err,
					sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "job key has fewer than 128 bits"));
	assert_int_equal(ol_chains_open("dir:/tmp/ol-chains-nobody", NULL, NULL, 1, 20, &chains,
					err, sizeof(err)),
			 -ENOENT);
	assert_non_null(strstr(err, "nobody"));
	assert_int_equal(ol_chains_open("@x", NULL, NULL, 1, 1, &chains, err, sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "dir:PATH"));
	assert_int_equal(ol_chains_open("dir:/tmp", NULL, NULL, 0, 1, &chains, err, sizeof(err)),
			 -EINVAL);
	ol_chains_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains_are_seen),
		cmocka_unit_test(who_has_looked_leaves_no_thread),
		cmocka_unit_test(what_cannot_be_is_refused_in_a_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
