/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * coord_store_test.c -- a session's member lives as long as its lease, a view changes by
 * compare-and-set alone, and every limit is kept
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "replication/coord_store.h"

#define MS   UINT64_C(1000000)
#define BASE (UINT64_C(7) << 32)

/* What an owner was told. */
struct owner {
	unsigned views[4];
	unsigned members[4];
	unsigned expired;
};

static void on_view(void *arg, uint32_t shard)
{
	((struct owner *)arg)->views[shard]++;
}

static void on_members(void *arg, uint32_t shard)
{
	((struct owner *)arg)->members[shard]++;
}

static void on_expired(void *arg)
{
	((struct owner *)arg)->expired++;
}

static const struct ol_coord_store_ops ops = { on_view, on_members, on_expired };

static struct ol_member member(uint64_t id)
{
	struct ol_member m = { .id = id, .job = 1, .proto = 1 };

	snprintf(m.addr, sizeof(m.addr), "@m%u", (unsigned)id);
	return m;
}

static struct ol_view view(uint32_t epoch, uint64_t head, uint64_t tail)
{
	struct ol_view v = { .epoch = epoch,
			     .founded = 1,
			     .shard_count = 1,
			     .wanted = 2,
			     .count = tail != 0 ? 2 : 1 };

	v.replicas[0] = member(head);
	if (tail != 0)
		v.replicas[1] = member(tail);
	return v;
}

static struct ol_coord_store *store_new(void)
{
	struct ol_coord_store *store;

	assert_int_equal(ol_coord_store_create(BASE, &ops, &store), 0);
	return store;
}

static struct ol_coord_session *begin(struct ol_coord_store *store, const char *job,
				      uint32_t lease_ms, uint64_t now, struct owner *owner)
{
	struct ol_coord_session *session;

	assert_int_equal(ol_coord_session_begin(store, job, 4, lease_ms, now, owner, &session), 0);
	return session;
}

static int join(struct ol_coord_session *session, uint32_t shard, uint64_t id)
{
	struct ol_member m = member(id);

	return ol_coord_session_join(session, shard, &m);
}

static int propose(struct ol_coord_session *session, uint64_t version, uint32_t epoch,
		   uint64_t head)
{
	struct ol_view v = view(epoch, head, 0);

	return ol_coord_session_propose(session, 0, version, &v);
}

/* ids of the members, as digits, in order */
static uint64_t ids(const struct ol_coord_session *session, uint32_t shard)
{
	struct ol_member members[OL_MEMBERS_MAX];
	uint32_t count = ol_coord_session_members(session, shard, members);
	uint64_t digits = 0;

	for (uint32_t i = 0; i < count; i++)
		digits = digits * 10 + members[i].id;
	return digits;
}

static void test_a_member_lives_with_its_session(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 }, b = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "j", 100, 0, &a);
	struct ol_coord_session *second = begin(store, "j", 100, 0, &b);

	(void)unused;
	assert_int_equal(join(first, 1, 3), 0);
	assert_int_equal(join(second, 1, 4), 0);
	assert_int_equal(ids(second, 1), 34);
	assert_int_equal(a.members[1], 2);
	assert_int_equal(b.members[1], 2);
	assert_int_equal(b.members[0] + b.views[1], 0);
	ol_coord_session_end(first);
	assert_int_equal(ids(second, 1), 4);
	assert_int_equal(b.members[1], 3);
	assert_int_equal(a.expired, 0); /* it knows */
	ol_coord_store_destroy(store);
}

static void test_a_lease_ends_where_it_ends(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 }, b = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "j", 100, 0, &a);
	struct ol_coord_session *second = begin(store, "j", 1000, 0, &b);

	(void)unused;
	assert_int_equal(join(first, 0, 3), 0);
	assert_true(ol_coord_store_expire(store, 0) <= 100 * MS);
	assert_true(ol_coord_store_expire(store, 100 * MS - 1) <= 100 * MS);
	assert_int_equal(a.expired, 0);
	ol_coord_session_renew(first, 50 * MS);
	assert_int_equal(ol_coord_store_expire(store, 100 * MS), 150 * MS);
	assert_int_equal(ids(second, 0), 3);
	assert_int_equal(ol_coord_store_expire(store, 150 * MS), 1000 * MS);
	assert_int_equal(a.expired, 1);
	assert_int_equal(ids(second, 0), 0);
	assert_int_equal(b.members[0], 2);
	assert_int_equal(ol_coord_store_expire(store, 1000 * MS), UINT64_MAX);
	assert_int_equal(b.expired, 1);
	ol_coord_store_destroy(store);
}

static void test_an_orphan_lives_until_its_lease_is_over(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 }, b = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "j", 100, 0, &a);
	struct ol_coord_session *second = begin(store, "j", 1000, 0, &b);

	(void)unused;
	assert_int_equal(join(first, 0, 3), 0);
	ol_coord_session_orphan(first);
	assert_int_equal(join(second, 0, 4), 0);
	assert_int_equal(a.members[0], 1); /* the one before it was an orphan */
	assert_int_equal(ids(second, 0), 34);
	ol_coord_store_expire(store, 100 * MS);
	assert_int_equal(ids(second, 0), 4);
	assert_int_equal(a.expired, 0);
	ol_coord_store_destroy(store);
}

static void test_a_process_that_comes_again_takes_its_place(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 }, b = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "j", 100, 0, &a);
	struct ol_coord_session *second = begin(store, "j", 1000, 0, &b);

	(void)unused;
	assert_int_equal(join(first, 0, 3), 0);
	assert_int_equal(join(second, 0, 3), 0);
	assert_int_equal(ids(second, 0), 3);
	ol_coord_session_end(first); /* its member is the other one's now */
	assert_int_equal(ids(second, 0), 3);
	assert_int_equal(join(second, 0, 3), 0); /* again: the same */
	assert_int_equal(join(second, 0, 4), -EBUSY);
	assert_int_equal(join(second, 1, 3), -EBUSY);
	assert_int_equal(ids(second, 0), 3);
	ol_coord_store_destroy(store);
}

static void test_one_of_two_proposals_wins(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 }, b = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "j", 100, 0, &a);
	struct ol_coord_session *second = begin(store, "j", 100, 0, &b);
	const struct ol_view *v;
	uint64_t version, later;

	(void)unused;
	assert_null(ol_coord_session_view(first, 0, &version));
	assert_int_equal(version, 0);
	assert_int_equal(propose(first, 0, 1, 3), 0);
	assert_int_equal(propose(second, 0, 1, 4), -ESTALE);
	v = ol_coord_session_view(second, 0, &version);
	assert_int_equal(v->replicas[0].id, 3);
	assert_true(version > BASE);
	assert_int_equal(a.views[0], 1);
	assert_int_equal(b.views[0], 1);
	assert_int_equal(propose(second, version, 2, 4), 0);
	assert_int_equal(propose(first, version, 2, 3), -ESTALE);
	assert_int_equal(ol_coord_session_view(first, 0, &later)->replicas[0].id, 4);
	assert_true(later > version);
	assert_int_equal(propose(first, later, 2, 3), -EINVAL); /* no epoch comes twice */
	assert_int_equal(propose(first, later, 1, 3), -EINVAL);
	assert_int_equal(propose(first, BASE + 100, 3, 3), -ESTALE);
	assert_int_equal(a.views[0], 2);
	ol_coord_store_destroy(store);
}

static void test_views_outlive_sessions(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 };
	struct ol_coord_session *session = begin(store, "j", 100, 0, &a);
	uint64_t version;

	(void)unused;
	assert_int_equal(propose(session, 0, 1, 3), 0);
	ol_coord_session_end(session);
	session = begin(store, "j", 100, 0, &a);
	assert_int_equal(ol_coord_session_view(session, 0, &version)->replicas[0].id, 3);
	ol_coord_store_destroy(store);
}

static void test_the_highest_epoch_that_is_offered_wins(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "j", 100, 0, &a);
	struct ol_view five = view(5, 1, 2), six = view(6, 1, 3);
	uint64_t version, later;

	(void)unused;
	assert_int_equal(ol_coord_session_offer(first, 0, &five, 0), 0);
	assert_int_equal(ol_coord_session_view(first, 0, &version)->epoch, 5);
	assert_int_equal(ol_coord_session_offer(first, 0, &five, 0), -EEXIST);
	assert_int_equal(ol_coord_session_offer(first, 0, &six, 0), 0);
	assert_int_equal(ol_coord_session_view(first, 0, &later)->epoch, 6);
	assert_true(later > version); /* who would replace the old one is late */
	assert_int_equal(ol_coord_session_offer(first, 0, &five, 0), -EEXIST);
	assert_int_equal(a.views[0], 2);
	ol_coord_store_destroy(store);
}

static void test_who_is_in_an_offered_view_has_a_lease_to_come_back(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 }, b = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "j", 100, 0, &a), *second;
	struct ol_view five = view(5, 1, 2);

	(void)unused;
	five.joining = 1;
	five.replicas[2] = member(3);
	assert_int_equal(ol_coord_session_offer(first, 0, &five, 10 * MS), 0);
	assert_int_equal(ids(first, 0), 123);
	assert_int_equal(join(first, 0, 1), 0);
	second = begin(store, "j", 1000, 50 * MS, &b);
	assert_int_equal(join(second, 0, 2), 0);
	assert_int_equal(ids(first, 0), 123);
	ol_coord_session_renew(first, 100 * MS);
	ol_coord_store_expire(store, 110 * MS - 1);
	assert_int_equal(ids(first, 0), 123);
	a.members[0] = 0;
	assert_int_equal(ol_coord_store_expire(store, 110 * MS), 200 * MS);
	assert_int_equal(ids(first, 0), 12); /* 3 did not come */
	assert_int_equal(a.members[0], 1);
	ol_coord_session_end(first); /* and who did come is a member like any other */
	assert_int_equal(ids(second, 0), 2);
	ol_coord_store_destroy(store);
}

static void test_jobs_do_not_see_each_other(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 }, b = { .expired = 0 };
	struct ol_coord_session *first = begin(store, "one", 100, 0, &a);
	struct ol_coord_session *second = begin(store, "two", 100, 0, &b);
	uint64_t version;

	(void)unused;
	assert_int_equal(join(first, 0, 3), 0);
	assert_int_equal(propose(first, 0, 1, 3), 0);
	assert_int_equal(ids(second, 0), 0);
	assert_null(ol_coord_session_view(second, 0, &version));
	assert_int_equal(b.members[0] + b.views[0], 0);
	assert_string_equal(ol_coord_session_job(second), "two");
	ol_coord_store_destroy(store);
}

static void test_shards_that_are_not_watched_are_not_there(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct owner a = { .expired = 0 };
	struct ol_coord_session *wide = begin(store, "j", 100, 0, NULL), *narrow;
	struct ol_view five = view(5, 1, 2);
	uint64_t version;

	(void)unused;
	assert_int_equal(ol_coord_session_begin(store, "j", 1, 100, 0, &a, &narrow), 0);
	assert_int_equal(join(wide, 3, 3), 0);
	assert_int_equal(a.members[3], 0);
	assert_int_equal(join(narrow, 1, 4), -EINVAL);
	assert_int_equal(ol_coord_session_propose(narrow, 1, 0, &five), -EINVAL);
	assert_int_equal(ol_coord_session_offer(narrow, 1, &five, 0), -EINVAL);
	assert_null(ol_coord_session_view(narrow, 3, &version));
	assert_int_equal(ids(narrow, 3), 0);
	assert_int_equal(ids(wide, 3), 3);
	assert_int_equal(join(wide, 4, 3), -EINVAL);
	ol_coord_store_destroy(store);
}

static void test_a_shard_has_sixteen_members_at_most(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct ol_coord_session *sessions[OL_MEMBERS_MAX + 1];
	struct ol_member members[OL_MEMBERS_MAX];
	struct ol_view five = view(5, 100, 101);

	(void)unused;
	for (uint64_t i = 0; i <= OL_MEMBERS_MAX; i++) {
		sessions[i] = begin(store, "j", 100, 0, NULL);
		assert_int_equal(join(sessions[i], 0, i + 1), i < OL_MEMBERS_MAX ? 0 : -ENOSPC);
	}
	assert_int_equal(ol_coord_session_offer(sessions[0], 0, &five, 0), 0);
	assert_int_equal(ol_coord_session_members(sessions[0], 0, members), OL_MEMBERS_MAX);
	ol_coord_session_end(sessions[7]);
	assert_int_equal(join(sessions[OL_MEMBERS_MAX], 0, 99), 0);
	assert_int_equal(ol_coord_session_members(sessions[0], 0, members), OL_MEMBERS_MAX);
	assert_int_equal(members[OL_MEMBERS_MAX - 1].id, 99);
	ol_coord_store_destroy(store);
}

static void test_sessions_and_jobs_have_limits(void **unused)
{
	struct ol_coord_store *store = store_new();
	struct ol_coord_session *session, *first = NULL;
	char job[OL_COORD_JOB_MAX];

	(void)unused;
	for (unsigned i = 0; i < OL_COORD_JOBS_MAX; i++) {
		snprintf(job, sizeof(job), "job-%u", i);
		session = begin(store, job, 100, 0, NULL);
		first = first != NULL ? first : session;
	}
	assert_int_equal(ol_coord_session_begin(store, "more", 1, 100, 0, NULL, &session),
			 -ENOBUFS);
	ol_coord_session_end(first); /* nothing is known of that job: there is room for another */
	first = begin(store, "more", 100, 0, NULL);
	assert_int_equal(propose(first, 0, 1, 3), 0);
	ol_coord_session_end(first); /* of this one something is */
	assert_int_equal(ol_coord_session_begin(store, "job-0", 1, 100, 0, NULL, &session),
			 -ENOBUFS);
	for (unsigned i = OL_COORD_JOBS_MAX - 1; i < OL_COORD_SESSIONS_MAX; i++)
		begin(store, "more", 100, 0, NULL);
	assert_int_equal(ol_coord_session_begin(store, "more", 1, 100, 0, NULL, &session), -ENOSPC);
	assert_int_equal(ol_coord_store_expire(store, 100 * MS), UINT64_MAX);
	for (unsigned i = 1; i < OL_COORD_JOBS_MAX; i++) {
		snprintf(job, sizeof(job), "again-%u", i);
		begin(store, job, 100, 0, NULL);
	}
	ol_coord_store_destroy(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_member_lives_with_its_session),
		cmocka_unit_test(test_a_lease_ends_where_it_ends),
		cmocka_unit_test(test_an_orphan_lives_until_its_lease_is_over),
		cmocka_unit_test(test_a_process_that_comes_again_takes_its_place),
		cmocka_unit_test(test_one_of_two_proposals_wins),
		cmocka_unit_test(test_views_outlive_sessions),
		cmocka_unit_test(test_the_highest_epoch_that_is_offered_wins),
		cmocka_unit_test(test_who_is_in_an_offered_view_has_a_lease_to_come_back),
		cmocka_unit_test(test_jobs_do_not_see_each_other),
		cmocka_unit_test(test_shards_that_are_not_watched_are_not_there),
		cmocka_unit_test(test_a_shard_has_sixteen_members_at_most),
		cmocka_unit_test(test_sessions_and_jobs_have_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
