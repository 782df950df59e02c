/* SPDX-License-Identifier: BSD-3-Clause */

/* place_test.c -- servers and workers are spread evenly, and replicas of a shard share no host or rack */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "launch/place.h"

#define ANY LAUNCH_ANY

enum {
	MAX = 16
};

struct bed {
	struct launch_host hosts[MAX];
	uint32_t count;
	struct launch_shape shape;
	uint32_t servers[MAX * 4], workers[MAX * 4];
	char err[256];
	int rc;
};

/* racks: a letter a host, '-' none */
static struct bed bed_of(const char *racks)
{
	struct bed bed = {
		.count = (uint32_t)strlen(racks),
		.shape = { .shards = 1, .replicas = 1, .workers = 1, .apart = LAUNCH_APART_HOST }
	};

	for (uint32_t i = 0; i < bed.count; i++) {
		bed.hosts[i].slots = ANY;
		bed.hosts[i].servers = ANY;
		snprintf(bed.hosts[i].name, sizeof(bed.hosts[i].name), "h%u", i);
		if (racks[i] != '-')
			snprintf(bed.hosts[i].rack, sizeof(bed.hosts[i].rack), "%c", racks[i]);
	}
	return bed;
}

static void place(struct bed *bed, uint32_t shards, uint32_t replicas, uint32_t workers)
{
	bed->shape.shards = shards;
	bed->shape.replicas = replicas;
	bed->shape.workers = workers;
	bed->err[0] = '\0';
	bed->rc = launch_place(bed->hosts, bed->count, &bed->shape, bed->servers, bed->workers,
			       bed->err, sizeof(bed->err));
}

#define assert_places(got, ...) \
	do { \
		const uint32_t want[] = { __VA_ARGS__ }; \
		for (size_t i_ = 0; i_ < sizeof(want) / sizeof(want[0]); i_++) \
			assert_int_equal((got)[i_], want[i_]); \
	} while (0)

static void a_single_host_takes_all(void **state)
{
	struct bed bed = bed_of("-");

	(void)state;
	place(&bed, 2, 1, 3);
	assert_int_equal(bed.rc, 0);
	assert_places(bed.servers, 0, 0);
	assert_places(bed.workers, 0, 0, 0);
}

static void servers_and_workers_are_spread(void **state)
{
	struct bed bed = bed_of("----");

	(void)state;
	place(&bed, 4, 1, 6);
	assert_int_equal(bed.rc, 0);
	assert_places(bed.servers, 0, 1, 2, 3);
	assert_places(bed.workers, 0, 0, 1, 1, 2, 3); /* ids of a host are adjacent */
}

static void heads_are_spread_first(void **state)
{
	struct bed bed = bed_of("---");

	(void)state;
	place(&bed, 3, 2, 1);
	assert_int_equal(bed.rc, 0);
	for (uint32_t shard = 0; shard < 3; shard++) {
		assert_int_equal(bed.servers[2 * shard], shard);
		assert_int_not_equal(bed.servers[2 * shard + 1], shard);
	}
	for (uint32_t host = 0; host < 3; host++) {
		unsigned servers = 0;

		for (uint32_t i = 0; i < 6; i++)
			servers += bed.servers[i] == host;
		assert_int_equal(servers, 2);
	}
}

static void replicas_share_no_host(void **state)
{
	struct bed bed = bed_of("---");

	(void)state;
	place(&bed, 1, 3, 1);
	assert_int_equal(bed.rc, 0);
	assert_places(bed.servers, 0, 1, 2);
	place(&bed, 1, 4, 1);
	assert_int_equal(bed.rc, -EINVAL);
	assert_non_null(strstr(bed.err, "4 replicas of a shard need 4 hosts, and there are 3"));
	bed.shape.apart = LAUNCH_APART_NONE;
	place(&bed, 1, 4, 1);
	assert_int_equal(bed.rc, 0);
	assert_places(bed.servers, 0, 1, 2, 1); /* not with the head */
}

static void racks_are_shared_only_where_there_is_no_other_place(void **state)
{
	struct bed bed = bed_of("aabb");

	(void)state;
	place(&bed, 1, 2, 1);
	assert_places(bed.servers, 0, 2);
	place(&bed, 1, 3, 1);
	assert_int_equal(bed.rc, 0);
	assert_places(bed.servers, 0, 2, 3);
	bed.shape.apart = LAUNCH_APART_RACK;
	place(&bed, 2, 2, 1);
	assert_int_equal(bed.rc, 0);
	for (uint32_t shard = 0; shard < 2; shard++)
		assert_int_not_equal(bed.servers[2 * shard] / 2, bed.servers[2 * shard + 1] / 2);
	place(&bed, 1, 3, 1);
	assert_int_equal(bed.rc, -EINVAL);
	assert_non_null(strstr(bed.err, "need 3 racks, and there are 2"));
}

static void a_host_without_a_rack_is_a_rack_of_its_own(void **state)
{
	struct bed bed = bed_of("a--");

	(void)state;
	bed.shape.apart = LAUNCH_APART_RACK;
	place(&bed, 1, 3, 1);
	assert_int_equal(bed.rc, 0);
	assert_places(bed.servers, 0, 1, 2);
}

static void limits_of_hosts_hold(void **state)
{
	struct bed bed = bed_of("---");

	(void)state;
	bed.hosts[0].slots = 0; /* servers alone */
	bed.hosts[1].servers = 0; /* workers alone */
	bed.hosts[1].slots = 3;
	bed.hosts[2].slots = 1;
	bed.hosts[2].servers = 1;
	place(&bed, 3, 1, 4);
	assert_int_equal(bed.rc, 0);
	assert_places(bed.servers, 0, 2, 0);
	assert_places(bed.workers, 1, 1, 1, 2);
	place(&bed, 3, 1, 5);
	assert_int_equal(bed.rc, -EINVAL);
	assert_non_null(strstr(bed.err, "5 workers, and the hosts take 4"));
	bed.hosts[0].servers = 1;
	place(&bed, 3, 1, 4);
	assert_int_equal(bed.rc, -EINVAL);
	assert_non_null(strstr(bed.err, "3 servers have no room"));
}

static void what_ran_on_a_lost_host_goes_to_another(void **state)
{
	struct bed bed = bed_of("abcd");

	(void)state;
	place(&bed, 1, 3, 4);
	assert_places(bed.servers, 0, 1, 2);
	assert_places(bed.workers, 0, 1, 2, 3);
	bed.hosts[1].is_lost = true;
	assert_int_equal(launch_place_server(bed.hosts, 4, &bed.shape, bed.servers, 1), 3);
	bed.servers[1] = 3;
	assert_int_equal(launch_place_worker(bed.hosts, 4, &bed.shape, bed.workers, 1), 0);
	bed.hosts[2].is_lost = true; /* no host is left that has no replica */
	assert_int_equal(launch_place_server(bed.hosts, 4, &bed.shape, bed.servers, 2), ANY);
	bed.hosts[0].slots = 1;
	bed.hosts[3].slots = 1;
	assert_int_equal(launch_place_worker(bed.hosts, 4, &bed.shape, bed.workers, 1), ANY);
}

static void zookeepers_of(const char *racks, uint32_t servers, uint32_t *ret_hosts, int rc)
{
	struct bed bed = bed_of(racks);

	assert_int_equal(launch_place_ensemble(bed.hosts, bed.count, servers, ret_hosts, bed.err,
					       sizeof(bed.err)),
			 rc);
}

static void an_ensemble_is_on_different_hosts_and_racks(void **state)
{
	uint32_t hosts[5];

	(void)state;
	zookeepers_of("aabbc", 3, hosts, 0);
	assert_int_equal(hosts[0], 0);
	assert_int_equal(hosts[1], 2);
	assert_int_equal(hosts[2], 4);
	zookeepers_of("aab", 3, hosts, 0);
	assert_int_equal(hosts[0], 0);
	assert_int_equal(hosts[1], 2);
	assert_int_equal(hosts[2], 1);
	zookeepers_of("-", 3, hosts, 0);
	assert_int_equal(hosts[2], 0);
	zookeepers_of("--", 3, hosts, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_single_host_takes_all),
		cmocka_unit_test(servers_and_workers_are_spread),
		cmocka_unit_test(heads_are_spread_first),
		cmocka_unit_test(replicas_share_no_host),
		cmocka_unit_test(racks_are_shared_only_where_there_is_no_other_place),
		cmocka_unit_test(a_host_without_a_rack_is_a_rack_of_its_own),
		cmocka_unit_test(limits_of_hosts_hold),
		cmocka_unit_test(what_ran_on_a_lost_host_goes_to_another),
		cmocka_unit_test(an_ensemble_is_on_different_hosts_and_racks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
