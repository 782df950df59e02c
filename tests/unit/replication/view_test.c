/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * view_test.c -- the next view never loses committed state, and a text is a view or is refused
 *
 * A chain is written "AB+C": full replicas from head to tail, then the joining one. Letters a…f
 * are members of another job, 0…5 of another protocol. Lowest first: A, B, C …
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "replication/view.h"

#define TWICE \
	"full 0000000000000001 0000000000000001 1 1 0 0 0 0 @a\n" \
	"full 0000000000000001 0000000000000001 1 1 0 0 0 0 @b\n"

enum {
	JOB = 77,
#if defined(__SANITIZE_THREAD__) /* ten times as slow, and there is one thread */
	ROUNDS = 5000,
	FLIPS = 8,
#else
	ROUNDS = 200000,
	FLIPS = 256,
#endif
	FIRST_EPOCH = 9,
};

static struct ol_member member(char letter)
{
	struct ol_member m;

	memset(&m, 0, sizeof(m));
	m.id = (uint64_t)letter;
	m.job = letter >= 'a' ? JOB + 1 : JOB;
	m.proto = m.oldest = letter < 'A' ? 2 : 1;
	snprintf(m.addr, sizeof(m.addr), "@server-%c", letter);
	return m;
}

static uint32_t members(const char *letters, struct ol_member *ret)
{
	uint32_t count = 0;

	for (const char *c = letters; *c != '\0'; c++)
		ret[count++] = member(*c);
	return count;
}

static struct ol_view chain(const char *text, uint32_t wanted)
{
	struct ol_view view;
	const char *plus = strchr(text, '+');

	memset(&view, 0, sizeof(view));
	if (text[0] == '\0')
		return view;
	view.epoch = FIRST_EPOCH;
	view.founded = 3;
	view.history = 0x33;
	view.origin = 0x11;
	view.shard_count = 2;
	view.wanted = wanted;
	view.every = 4;
	view.order = 0x55;
	view.left = 'Z';
	for (const char *c = text; *c != '\0'; c++) {
		if (*c != '+')
			view.replicas[view.count++] = member(*c);
	}
	if (plus != NULL) {
		view.joining = 1;
		view.count--;
	}
	return view;
}

static void spell(const struct ol_view *view, char *text)
{
	for (uint32_t i = 0; i < view->count + view->joining; i++) {
		if (i == view->count)
			*text++ = '+';
		*text++ = (char)view->replicas[i].id;
	}
	*text = '\0';
}

static const struct rule_case {
	const char *name;
	const char *view;
	uint32_t wanted;
	bool refound;
	const char *alive;
	char caught_up;
	const char *next; /* NULL: it stays */
} cases[] = {
	/* rule 1 */
	{ "nobody is there", "", 1, false, "", 0, NULL },
	{ "too few to found", "", 3, false, "AB", 0, NULL },
	{ "the lowest founds", "", 3, false, "CAB", 0, "A" },
	{ "one is enough for one", "", 1, false, "B", 0, "B" },
	{ "others do not count for founding", "", 2, false, "Ab1", 0, NULL },
	{ "those who are enough found it", "", 2, false, "ABc", 0, "A" },
	{ "one who is named twice counts once", "", 2, false, "AA", 0, NULL },
	/* rule 2 */
	{ "all are there", "ABC", 3, false, "CBA", 0, NULL },
	{ "the head is gone", "ABC", 3, false, "BC", 0, "BC" },
	{ "the middle is gone", "ABC", 3, false, "CA", 0, "AC" },
	{ "the tail is gone", "ABC", 3, false, "AB", 0, "AB" },
	{ "two are gone", "ABC", 3, false, "B", 0, "B" },
	{ "all are gone, and the chain waits", "ABC", 3, false, "", 0, NULL },
	{ "nobody takes the last one's place", "A", 2, false, "BC", 0, NULL },
	{ "nor does the one that joins", "A+B", 2, false, "BC", 0, NULL },
	{ "nor if it says that it caught up", "A+B", 2, false, "B", 'B', NULL },
	{ "the last one comes back, others leave", "BAC", 3, false, "A", 0, "A" },
	{ "all gone: the lowest founds anew", "AB", 2, true, "DC", 0, "C" },
	{ "anew by the one that was joining", "A+B", 2, true, "CB", 0, "B" },
	{ "not anew by others", "AB", 2, true, "cd1", 0, NULL },
	{ "not anew by nobody", "AB", 2, true, "", 0, NULL },
	{ "not anew while one is alive", "AB", 2, true, "BC", 0, "B+C" },
	/* rule 3 */
	{ "the one that joins is gone", "A+B", 2, false, "A", 0, "A" },
	{ "another one joins instead", "A+B", 2, false, "AC", 0, "A+C" },
	{ "it is still behind", "A+B", 2, false, "AB", 0, NULL },
	{ "it has caught up", "A+B", 2, false, "AB", 'B', "AB" },
	{ "it has caught up, and the next joins", "A+B", 3, false, "CAB", 'B', "AB+C" },
	{ "somebody else has caught up", "A+B", 2, false, "ABC", 'C', NULL },
	{ "it caught up and is gone", "A+B", 2, false, "A", 'B', "A" },
	{ "the tail is gone, it goes on joining", "AB+C", 3, false, "AC", 0, "A+C" },
	/* rule 4 */
	{ "one joins", "A", 2, false, "AB", 0, "A+B" },
	{ "the lowest joins", "B", 3, false, "DBCA", 0, "B+A" },
	{ "enough are there", "AB", 2, false, "ABC", 0, NULL },
	{ "one joins at a time", "A+B", 3, false, "ABC", 0, NULL },
	{ "one is replaced at once", "ABC", 3, false, "ACD", 0, "AC+D" },
	{ "another job does not join", "A", 2, false, "Ab", 0, NULL },
	{ "another protocol does not join", "A", 2, false, "A1", 0, NULL },
	{ "a full chain of eight", "ABCDEFGH", 8, false, "ABCDEFGHI", 0, NULL },
	{ "one of eight is replaced", "ABCDEFGH", 8, false, "BCDEFGHI", 0, "BCDEFGH+I" },
};

static void the_next_view_follows_every_rule(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct rule_case *c = &cases[i];
		struct ol_view_rule rule = {
			.shard_count = 2, .wanted = c->wanted, .every = 4, .refound = c->refound
		};
		struct ol_view view = chain(c->view, c->wanted), next;
		struct ol_member alive[OL_MEMBERS_MAX];
		uint32_t alive_count = members(c->alive, alive);
		char text[32];

		memset(&next, 0x5a, sizeof(next));
		if (ol_view_next(&view, alive, alive_count, (uint64_t)c->caught_up, &rule, &next)) {
			spell(&next, text);
			if (c->next == NULL || strcmp(text, c->next) != 0)
				fail_msg("%s: became %s", c->name, text);
			if (next.epoch != view.epoch + 1)
				fail_msg("%s: epoch is %u", c->name, next.epoch);
			if (next.wanted != c->wanted || next.every != 4 || next.shard_count != 2 ||
			    next.order != view.order || next.left != view.left)
				fail_msg("%s: wanted, every or shards are others", c->name);
		} else if (c->next != NULL) {
			fail_msg("%s: stayed", c->name);
		} else if (next.epoch != 0x5a5a5a5a) {
			fail_msg("%s: stayed, and the output is written", c->name);
		}
	}
}

static const struct order_case {
	const char *name;
	const char *view;
	uint32_t wanted;
	const char *alive;
	char join, leave;
	const char *next; /* NULL: refused … */
	int rc; /* … with this */
} orders[] = {
	{ "one more", "AB", 2, "ABC", 'C', 0, "AB+C", 0 },
	{ "whoever it is", "AB", 2, "ABCD", 'D', 0, "AB+D", 0 },
	{ "where one is gone", "AB", 3, "ABC", 'C', 0, "AB+C", 0 },
	{ "where there are more than wanted", "ABC", 1, "ABCD", 'D', 0, "ABC+D", 0 },
	{ "it is one already", "AB", 2, "ABC", 'B', 0, NULL, -EALREADY },
	{ "it joins already", "A+B", 2, "AB", 'B', 0, NULL, -EALREADY },
	{ "another joins", "A+B", 3, "ABC", 'C', 0, NULL, -EAGAIN },
	{ "it is not there", "AB", 2, "AB", 'C', 0, NULL, -ENOENT },
	{ "of another job", "AB", 2, "ABc", 'c', 0, NULL, -EPERM },
	{ "of another protocol", "AB", 2, "AB1", '1', 0, NULL, -EPERM },
	{ "the ninth", "ABCDEFGH", 8, "ABCDEFGHI", 'I', 0, NULL, -EINVAL },
	{ "the ninth, though fewer are wanted", "ABCDEFGH", 7, "ABCDEFGHI", 'I', 0, NULL, -EINVAL },
	{ "the head leaves", "ABC", 3, "ABC", 0, 'A', "BC", 0 },
	{ "the middle leaves", "ABC", 3, "ABC", 0, 'B', "AC", 0 },
	{ "the tail leaves", "ABC", 3, "ABC", 0, 'C', "AB", 0 },
	{ "the tail leaves, one goes on joining", "AB+C", 3, "ABC", 0, 'B', "A+C", 0 },
	{ "the one that joins leaves", "AB+C", 3, "ABC", 0, 'C', "AB", 0 },
	{ "one that is gone leaves", "AB", 2, "A", 0, 'B', "A", 0 },
	{ "it has left", "AB", 3, "ABC", 0, 'C', "AB", 0 },
	{ "the last one stays", "A", 1, "AB", 0, 'A', NULL, -EBUSY },
	{ "the last full one stays", "A+B", 2, "AB", 0, 'A', NULL, -EBUSY },
	{ "the last live one stays", "ABC", 3, "BD", 0, 'B', NULL, -EBUSY },
	{ "no replica at all", "A+B", 1, "AB", 0, 'B', NULL, -EINVAL },
	{ "none is wanted any more", "A", 1, "A", 0, 'B', NULL, -EINVAL },
	{ "no chain", "", 2, "AB", 'A', 0, NULL, -EINVAL },
	{ "nobody", "AB", 2, "AB", 0, 0, NULL, -EINVAL },
	{ "both", "AB", 2, "ABC", 'C', 'A', NULL, -EINVAL },
};

static void an_order_is_one_view_or_refused(void **unused)
{
	(void)unused;
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		const struct order_case *c = &orders[i];
		const struct ol_view_order order = { 0x77, (uint64_t)c->join, (uint64_t)c->leave };
		struct ol_view view = chain(c->view, c->wanted), next, again;
		struct ol_member alive[OL_MEMBERS_MAX];
		uint32_t alive_count = members(c->alive, alive);
		char text[32], bytes[OL_VIEW_TEXT_MAX];

		memset(&next, 0x5a, sizeof(next));
		if (ol_view_ordered(&view, &order, alive, alive_count, &next) != c->rc)
			fail_msg("%s: not %d", c->name, c->rc);
		if (c->rc != 0) {
			if (next.epoch != 0x5a5a5a5a)
				fail_msg("%s: refused, and the output is written", c->name);
			continue;
		}
		spell(&next, text);
		if (strcmp(text, c->next) != 0)
			fail_msg("%s: became %s", c->name, text);
		if (next.epoch != view.epoch + 1 || next.every != 4 || next.shard_count != 2 ||
		    next.history != view.history || next.founded != view.founded ||
		    next.wanted != (c->join != 0 ? c->wanted + 1 : c->wanted - 1) ||
		    next.order != 0x77 ||
		    next.left != (c->leave != 0 ? (uint64_t)c->leave : view.left))
			fail_msg("%s: the rest of the view is another", c->name);
		/* what a coordinator keeps of it is the same, byte by byte */
		assert_int_equal(ol_view_decode(bytes, ol_view_encode(&next, bytes), &again), 0);
		assert_memory_equal(&again, &next, sizeof(next));
	}
}

/* A view takes another's place only if it is later, and whoever holds them has not begun anew */
static void only_the_next_epoch_of_one_history_follows_a_view(void **unused)
{
	struct ol_view view = chain("ABC", 3), next = view;

	(void)unused;
	assert_false(ol_view_follows(&view, &next));
	next.epoch++;
	assert_true(ol_view_follows(&view, &next));
	assert_false(ol_view_follows(&next, &view));
	next.history++; /* founded anew */
	assert_true(ol_view_follows(&view, &next));
	next.origin++;
	assert_false(ol_view_follows(&view, &next));
}

static void rank_goes_before_id(void **unused)
{
	struct ol_view_rule rule = { .shard_count = 1, .wanted = 2 };
	struct ol_view view = { .epoch = 0 }, next;
	struct ol_member alive[3];

	(void)unused;
	assert_int_equal(members("ABC", alive), 3);
	alive[0].rank = 2;
	alive[1].rank = 1;
	alive[2].rank = 1;
	assert_true(ol_view_next(&view, alive, 3, 0, &rule, &next));
	assert_int_equal(next.replicas[0].id, 'B');
	assert_int_equal(next.founded, 1);
	assert_int_equal(next.history, 'B');
	assert_int_equal(next.origin, 'B');
	assert_true(ol_view_next(&next, alive, 3, 0, &rule, &view));
	assert_int_equal(view.replicas[1].id, 'C');
	assert_int_equal(view.joining, 1);
}

/* Its checkpoints are of another history only: it joins, and waits where it would found */
static void who_has_another_history_only_does_not_found_anew(void **unused)
{
	const struct ol_view_rule rule = { .shard_count = 1, .wanted = 2, .refound = true };
	struct ol_view view = chain("A", 2), next;
	struct ol_member alive[2] = { member('B'), member('C') }, again;
	char text[OL_MEMBER_TEXT_MAX];

	(void)unused;
	alive[0].saved_version = OL_SAVED_FOREIGN;
	assert_int_equal(ol_member_decode(text, ol_member_encode(&alive[0], text), &again), 0);
	assert_memory_equal(&again, &alive[0], sizeof(again));
	assert_false(ol_view_next(&view, alive, 1, 0, &rule, &next));
	view.epoch = 0; /* the job was removed meanwhile */
	assert_true(ol_view_next(&view, alive, 2, 0, &rule, &next));
	assert_int_equal(next.history, 'C');
	view = chain("A", 2);
	assert_true(ol_view_next(&view, alive, 2, 0, &rule, &next));
	assert_int_equal(next.history, 'C');
	view = next;
	assert_true(ol_view_next(&view, alive, 2, 0, &rule, &next));
	assert_int_equal(next.joining, 1);
	assert_int_equal(next.replicas[1].id, 'B');
}

/* It founds the chain, and others join in their order */
static void who_has_the_newest_checkpoint_loses_least(void **unused)
{
	struct ol_view_rule rule = { .shard_count = 1, .wanted = 3, .refound = true };
	struct ol_view view = { .epoch = 0 }, next, dead;
	struct ol_member alive[3], again;
	char text[OL_MEMBER_TEXT_MAX];

	(void)unused;
	assert_int_equal(members("ABC", alive), 3);
	alive[1].saved_epoch = alive[2].saved_epoch = 2;
	alive[1].saved_version = 5;
	alive[2].saved_version = UINT64_MAX;
	assert_int_equal(ol_member_decode(text, ol_member_encode(&alive[2], text), &again), 0);
	assert_memory_equal(&again, &alive[2], sizeof(again));
	assert_true(ol_view_next(&view, alive, 3, 0, &rule, &next));
	assert_int_equal(next.history, 'C');
	assert_true(ol_view_next(&next, alive, 3, 0, &rule, &view));
	assert_int_equal(view.replicas[1].id, 'A');
	alive[1].saved_epoch = 3;
	view = (struct ol_view){ .epoch = 0 };
	assert_true(ol_view_next(&view, alive, 3, 0, &rule, &next));
	assert_int_equal(next.history, 'B');
	dead = chain("XY", 3);
	assert_true(ol_view_next(&dead, alive, 3, 0, &rule, &next));
	assert_int_equal(next.history, 'B');
	alive[0].saved_epoch = 3;
	alive[0].saved_version = 5;
	assert_true(ol_view_next(&dead, alive, 3, 0, &rule, &next));
	assert_int_equal(next.history, 'A'); /* of two that are alike the lowest */
}

/* Who founds a history has checkpoints of an earlier one */
static void a_history_is_founded_above_the_checkpoints(void **unused)
{
	struct ol_view_rule rule = { .shard_count = 1, .wanted = 2, .refound = true };
	struct ol_view view = { .epoch = 0 }, next;
	struct ol_member alive[3];

	(void)unused;
	assert_int_equal(members("ABC", alive), 3);
	alive[0].folder_epoch = 7;
	assert_true(ol_view_next(&view, alive, 2, 0, &rule, &next));
	assert_int_equal(next.epoch, 8);
	assert_int_equal(next.founded, 8);
	assert_int_equal(next.history, next.origin);
	assert_true(ol_view_next(&next, alive, 2, 0, &rule, &view)); /* B joins */
	assert_int_equal(view.epoch, 9);
	assert_int_equal(view.founded, 8);
	alive[2].folder_epoch = 19 + OL_EPOCH_LEAP_MAX;
	assert_true(ol_view_next(&view, alive, 3, 'B', &rule, &next)); /* nothing is founded */
	assert_int_equal(next.epoch, 10);
	assert_true(ol_view_next(&view, &alive[2], 1, 0, &rule, &next)); /* by C, anew */
	assert_int_equal(next.epoch, 20 + OL_EPOCH_LEAP_MAX);
	assert_int_equal(next.founded, next.epoch);
	assert_int_equal(next.history, 'C');
	assert_int_equal(next.origin, 'A');
	alive[2].folder_epoch = 4;
	assert_true(ol_view_next(&view, &alive[2], 1, 0, &rule, &next));
	assert_int_equal(next.epoch, 10);
	assert_int_equal(next.founded, 10);
}

/* Its folder has a history that the chain was founded without: what it saves as a replica is to be newer */
static void a_view_is_above_the_checkpoints_of_who_joins(void **unused)
{
	struct ol_view_rule rule = { .shard_count = 1, .wanted = 2 };
	struct ol_view_order order = { .number = 1, .join = 'C' };
	struct ol_view view = chain("A", 2), next;
	struct ol_member alive[3];

	(void)unused;
	assert_int_equal(members("ABC", alive), 3);
	view.epoch = 4;
	alive[1].folder_epoch = 7;
	assert_true(ol_view_next(&view, alive, 2, 0, &rule, &next));
	assert_int_equal(next.replicas[1].id, 'B');
	assert_int_equal(next.epoch, 8);
	assert_true(ol_view_next(&next, alive, 2, 'B', &rule, &view));
	assert_int_equal(view.epoch, 9);
	alive[2].folder_epoch = 9;
	assert_int_equal(ol_view_ordered(&view, &order, alive, 3, &next), 0);
	assert_int_equal(next.epoch, 10);
	alive[2].folder_epoch = 10;
	assert_int_equal(ol_view_ordered(&view, &order, alive, 3, &next), 0);
	assert_int_equal(next.epoch, 11);
	alive[2].folder_epoch = 10 + OL_EPOCH_LEAP_MAX; /* it is not believed */
	assert_int_equal(ol_view_ordered(&view, &order, alive, 3, &next), 0);
	assert_int_equal(next.epoch, 10);
}

/* A spare's folder has a history that the chain was founded without: who has lost the coordinator is to begin with what
 * the chain saves */
static void a_view_is_above_the_checkpoints_of_who_waits(void **unused)
{
	struct ol_view_rule rule = { .shard_count = 1, .wanted = 2 };
	struct ol_view view = chain("AB", 2), next;
	struct ol_member alive[4];

	(void)unused;
	assert_int_equal(members("ABCD", alive), 4);
	view.epoch = 4;
	assert_false(ol_view_next(&view, alive, 4, 0, &rule, &next));
	alive[2].folder_epoch = 3;
	assert_false(ol_view_next(&view, alive, 4, 0, &rule, &next));
	alive[2].folder_epoch = 4;
	alive[3].folder_epoch = 7;
	assert_true(ol_view_next(&view, alive, 4, 0, &rule, &next));
	assert_int_equal(next.epoch, 8);
	assert_int_equal(next.founded, view.founded);
	assert_int_equal(next.history, view.history);
	assert_int_equal(next.count, 2);
	assert_int_equal(next.joining, 0);
	assert_memory_equal(next.replicas, view.replicas, sizeof(view.replicas));
	assert_false(ol_view_next(&next, alive, 4, 0, &rule, &view)); /* once */
	next.epoch = 4;
	alive[3].folder_epoch = 5 + OL_EPOCH_LEAP_MAX; /* it is not believed */
	assert_true(ol_view_next(&next, alive, 4, 0, &rule, &view));
	assert_int_equal(view.epoch, 5);
	alive[2].folder_epoch = 0;
	alive[3].job++;
	assert_false(ol_view_next(&view, alive, 4, 0, &rule, &next)); /* nor is another job's */
}

static void a_place_in_the_chain_gives_role_and_neighbours(void **unused)
{
	struct ol_view view = chain("ABC+D", 4), only = chain("A", 1);

	(void)unused;
	assert_int_equal(ol_view_role(&view, 'A'), OL_CHAIN_HEAD);
	assert_int_equal(ol_view_role(&view, 'B'), OL_CHAIN_MIDDLE);
	assert_int_equal(ol_view_role(&view, 'C'), OL_CHAIN_TAIL);
	assert_int_equal(ol_view_role(&view, 'D'), OL_CHAIN_JOINING);
	assert_int_equal(ol_view_role(&view, 'E'), OL_CHAIN_NONE);
	assert_int_equal(ol_view_role(&only, 'A'), OL_CHAIN_ONLY);
	assert_null(ol_view_predecessor(&view, 'A'));
	assert_int_equal(ol_view_successor(&view, 'A')->id, 'B');
	assert_int_equal(ol_view_predecessor(&view, 'D')->id, 'C');
	assert_int_equal(ol_view_successor(&view, 'C')->id, 'D');
	assert_null(ol_view_successor(&view, 'D'));
	assert_null(ol_view_predecessor(&view, 'E'));
	assert_null(ol_view_successor(&view, 'E'));
	assert_null(ol_view_successor(&only, 'A'));
	assert_int_equal(ol_view_find(&view, 'D'), 3);
	assert_int_equal(ol_view_find(&view, 'E'), -1);
	for (int role = OL_CHAIN_NONE; role <= OL_CHAIN_ONLY; role++)
		assert_string_not_equal(ol_chain_role_str((enum ol_chain_role)role), "unknown");
}

static uint64_t rng_state = 88172645463325252u;

static uint32_t rng(uint32_t below)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)(rng_state >> 33) % below;
}

/* One of them has checkpoints of this epoch */
static bool folder_epoch_of(const struct ol_member *alive, uint32_t alive_count, uint32_t epoch)
{
	for (uint32_t i = 0; i < alive_count; i++) {
		if (alive[i].folder_epoch == epoch)
			return true;
	}
	return false;
}

static void check_step(const struct ol_view *view, const struct ol_view *next,
		       const struct ol_member *alive, uint32_t alive_count, uint64_t caught_up,
		       const struct ol_view_rule *rule)
{
	uint32_t full_alive = 0;
	int last = -1;

	assert_true(next->epoch > view->epoch);
	assert_true(next->epoch == view->epoch + 1 ||
		    folder_epoch_of(alive, alive_count, next->epoch - 1));
	for (uint32_t i = 0; i < alive_count; i++) /* all are of one job here, or ignored */
		assert_true(alive[i].folder_epoch < next->epoch ||
			    alive[i].job != next->replicas[0].job ||
			    alive[i].proto != next->replicas[0].proto);
	assert_true(next->count >= 1 && next->joining <= 1);
	assert_true(next->count + next->joining <= next->wanted || view->count > next->wanted);
	for (uint32_t i = 0; i < next->count + next->joining; i++) {
		bool there = false;

		assert_true(ol_view_find(next, next->replicas[i].id) == (int)i);
		for (uint32_t k = 0; k < alive_count; k++)
			there = there || alive[k].id == next->replicas[i].id;
		assert_true(there);
		if (view->epoch != 0) {
			assert_int_equal(next->replicas[i].job, view->replicas[0].job);
			assert_int_equal(next->replicas[i].proto, view->replicas[0].proto);
		}
	}
	if (view->epoch == 0)
		return;
	for (uint32_t k = 0; k < view->count; k++) {
		for (uint32_t i = 0; i < alive_count; i++)
			full_alive += alive[i].id == view->replicas[k].id;
	}
	if (full_alive == 0) { /* only by refounding, and that is written down */
		assert_true(rule->refound);
		assert_int_equal(next->founded, next->epoch);
		assert_int_equal(next->history, next->replicas[0].id);
		assert_int_equal(next->origin, view->origin);
		assert_int_equal(next->count, 1);
		return;
	}
	/* full are exactly the full that are alive, in their order, then the one that caught up */
	assert_int_equal(next->founded, view->founded);
	assert_int_equal(next->history, view->history);
	assert_int_equal(next->origin, view->origin);
	for (uint32_t i = 0; i < next->count; i++) {
		int at = ol_view_find(view, next->replicas[i].id);

		assert_true(at > last);
		last = at;
		if ((uint32_t)at == view->count)
			assert_int_equal(next->replicas[i].id, caught_up);
	}
	assert_true(next->count == full_alive ||
		    (next->count == full_alive + 1 && (uint32_t)last == view->count));
}

/* A world in which servers come and go, and whoever sees a reason proposes. */
static void a_random_history_keeps_every_promise(void **unused)
{
	static const char all[] = "ABCDEFGHIJab01";
	struct ol_view view, next, again;
	char text[OL_VIEW_TEXT_MAX];
	uint32_t changes = 0, refounds = 0;

	(void)unused;
	memset(&view, 0, sizeof(view));
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct ol_view_rule rule = { .shard_count = 1,
					     .wanted = 1 + rng(4),
					     .refound = rng(4) == 0 };
		struct ol_member alive[OL_MEMBERS_MAX];
		uint32_t alive_count = 0, density = 1 + rng(8);
		uint64_t caught_up = 0;
		size_t bytes;

		if (rng(500) == 0)
			memset(&view, 0, sizeof(view));
		for (uint32_t i = 0; i < sizeof(all) - 1; i++) {
			if (rng(8) >= density)
				continue;
			alive[alive_count] = member(all[i]);
			if (rng(8) == 0) /* a folder of an abandoned history */
				alive[alive_count].folder_epoch = view.epoch + rng(4);
			alive_count++;
		}
		for (uint32_t i = alive_count; i > 1; i--) { /* in any order */
			uint32_t k = rng(i);
			struct ol_member other = alive[k];

			alive[k] = alive[i - 1];
			alive[i - 1] = other;
		}
		if (view.joining != 0 && rng(2) == 0)
			caught_up = view.replicas[view.count].id;
		if (!ol_view_next(&view, alive, alive_count, caught_up, &rule, &next))
			continue;
		check_step(&view, &next, alive, alive_count, caught_up, &rule);
		refounds += next.founded != view.founded && view.epoch != 0;
		changes++;
		bytes = ol_view_encode(&next, text);
		assert_int_equal(strlen(text), bytes);
		assert_int_equal(ol_view_decode(text, bytes, &again), 0);
		assert_memory_equal(&again, &next, sizeof(next));
		/* what is settled stays: the same reasons are no reasons any more */
		if (next.joining == 0 && next.count >= next.wanted)
			assert_false(ol_view_next(&next, alive, alive_count, 0, &rule, &again));
		view = next;
	}
	assert_true(changes > ROUNDS / 10 && refounds > 100);
}

static void largest(struct ol_view *view)
{
	memset(view, 0, sizeof(*view));
	view->epoch = view->founded = view->every = UINT32_MAX;
	view->history = view->origin = view->order = view->left = UINT64_MAX;
	view->shard_count = 64;
	view->wanted = OL_REPLICAS_MAX;
	view->count = OL_REPLICAS_MAX - 1;
	view->joining = 1;
	for (uint32_t i = 0; i < OL_REPLICAS_MAX; i++) {
		struct ol_member *m = &view->replicas[i];

		m->id = m->job = UINT64_MAX - i;
		m->proto = m->oldest = m->rank = UINT32_MAX;
		m->saved_epoch = m->folder_epoch = UINT32_MAX;
		m->saved_version = UINT64_MAX;
		memset(m->addr, '~', sizeof(m->addr) - 1);
	}
}

/* A chain is upgraded server by server: who joins must meet each replica that stays, not only the head */
static void versions_follow_each_other(void **unused)
{
	const struct ol_view_rule rule = { .shard_count = 1, .wanted = 3 };
	struct ol_view view = chain("AB", 3), next;
	struct ol_member alive[3] = { view.replicas[0], view.replicas[1], member('C') };

	(void)unused;
	for (unsigned i = 0; i < 3; i++) {
		alive[i].proto = i == 2 ? 3 : 2 - i; /* A speaks 1 and 2, B 1, C 2 and 3 */
		alive[i].oldest = i == 2 ? 2 : 1;
		if (i < 2)
			view.replicas[i] = alive[i];
	}
	assert_false(ol_view_next(&view, alive, 3, 0, &rule, &next)); /* it waits for B's upgrade */
	assert_true(ol_view_next(&view, (struct ol_member[]){ alive[0], alive[2] }, 2, 0, &rule,
				 &next));
	assert_int_equal(next.count, 1);
	assert_int_equal(next.joining, 1);
	assert_int_equal(next.replicas[1].id, 'C');
	alive[2].oldest = 3; /* it does not meet A either */
	assert_true(ol_view_next(&view, (struct ol_member[]){ alive[0], alive[2] }, 2, 0, &rule,
				 &next));
	assert_int_equal(next.joining, 0);
}

/* try_text -- whatever is accepted is that text; a copy of its own shows reads behind the end */
static bool try_text(const char *text, size_t bytes)
{
	char *exact = malloc(bytes + 1);
	struct ol_view view;
	struct ol_member one;
	char again[OL_VIEW_TEXT_MAX];
	bool taken;

	assert_non_null(exact);
	memcpy(exact, text, bytes);
	exact = realloc(exact, bytes > 0 ? bytes : 1);
	assert_non_null(exact);
	taken = ol_view_decode(exact, bytes, &view) == 0;
	if (taken) {
		assert_int_equal(ol_view_encode(&view, again), bytes);
		assert_memory_equal(again, exact, bytes);
		assert_true(view.count >= 1 && view.count + view.joining <= OL_REPLICAS_MAX);
	}
	if (ol_member_decode(exact, bytes, &one) == 0) {
		assert_false(taken);
		assert_int_equal(ol_member_encode(&one, again), bytes);
		assert_memory_equal(again, exact, bytes);
		taken = true;
	}
	free(exact);
	return taken;
}

static void a_damaged_text_is_a_view_or_refused(void **unused)
{
	struct ol_view views[3] = { chain("A", 1), chain("AB+C", 3) };
	char text[OL_VIEW_TEXT_MAX], bad[OL_VIEW_TEXT_MAX];
	uint32_t refused = 0;

	(void)unused;
	largest(&views[2]);
	for (size_t v = 0; v < 4; v++) {
		size_t bytes = v < 3 ? ol_view_encode(&views[v], text)
				     : ol_member_encode(&views[1].replicas[0], text);

		assert_true(bytes < (v < 3 ? OL_VIEW_TEXT_MAX : OL_MEMBER_TEXT_MAX));
		assert_true(try_text(text, bytes));
		for (size_t cut = 0; cut < bytes; cut++) { /* only between lines can it be whole */
			if (try_text(text, cut))
				assert_int_equal(text[cut - 1], '\n');
		}
		for (size_t at = 0; at < bytes; at++) {
			for (unsigned flip = 1; flip < FLIPS; flip++) {
				memcpy(bad, text, bytes);
				bad[at] = (char)((unsigned char)bad[at] ^ flip);
				refused += !try_text(bad, bytes);
			}
		}
		assert_false(try_text(text, bytes + 1)); /* the end is not part of it */
	}
	assert_true(refused > 0);
}

#define ORDERS "order 0000000000000000\nleft 0000000000000000\n"
#define NAMES  "history 0000000000000001\norigin 0000000000000001\n"

static void texts_that_nobody_writes_are_refused(void **unused)
{
	static const char *const tails[] = {
		"", /* without a replica */
		"joining 0000000000000001 0000000000000001 1 1 0 0 0 0 @a\n",
		"full 0000000000000000 0000000000000001 1 1 0 0 0 0 @a\n", /* id 0 */
		"full 1 0000000000000001 1 1 0 0 0 0 @a\n",
		TWICE,
		"full 0000000000000001 0000000000000001 01 1 0 0 0 0 @a\n",
		"full 0000000000000001 0000000000000001 1 0 0 0 0 @a\n",
		"full 0000000000000001 0000000000000001 1 1 4294967296 0 0 0 @a\n",
		"full 0000000000000001 0000000000000001 1 1 0 0 0 0 @a b\n",
		"full 0000000000000001 0000000000000001 1 1 0 0 0 0 \n",
		"full 0000000000000001 0000000000000001 1 1 0 0 0 0 @a\r\n",
		"full 000000000000000A 0000000000000001 1 1 0 0 0 0 @a\n",
		"full 0000000000000001 0000000000000001 1 1 0 0 0 0 @a",
		"full 0000000000000001 0000000000000001 1 1 0 @a\n",
		"full 0000000000000001 0000000000000001 1 1 0 4294967296 0 0 @a\n",
		"full 0000000000000001 0000000000000001 1 1 0 0 18446744073709551616 0 @a\n",
		"full 0000000000000001 0000000000000001 1 1 0 0 0 4294967296 @a\n",
	};
	static const char *const heads[] = {
		"epoch 0\nfounded 0\n" NAMES "shards 1\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 2\n" NAMES "shards 1\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 0\n" NAMES "shards 1\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 1\n" NAMES "shards 0\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 1\n" NAMES "shards 65\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 1\n" NAMES "shards 1\nwanted 0\nevery 0\n" ORDERS,
		"epoch 1\nfounded 1\n" NAMES "shards 1\nwanted 9\nevery 0\n" ORDERS,
		"epoch 4294967296\nfounded 1\n" NAMES "shards 1\nwanted 1\nevery 0\n" ORDERS,
		"epoch -1\nfounded 1\n" NAMES "shards 1\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 1\nhistory 0000000000000000\norigin 0000000000000001\nshards 1\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 1\nhistory 0000000000000001\norigin 0000000000000000\nshards 1\nwanted 1\nevery 0\n" ORDERS,
		"epoch 1\nfounded 1\norigin 0000000000000001\nhistory 0000000000000001\nshards 1\nwanted 1\nevery 0\n" ORDERS,
		"founded 1\nepoch 1\n" NAMES "shards 1\nwanted 1\nevery 0\n" ORDERS,
	};
	const char *good = "epoch 1\nfounded 1\n" NAMES "shards 1\nwanted 1\nevery 0\n" ORDERS;
	const char *one = "full 0000000000000001 0000000000000001 1 1 0 0 0 0 @a\n";
	char text[1024];
	struct ol_view full;

	(void)unused;
	snprintf(text, sizeof(text), "%s%s", good, one);
	assert_true(try_text(text, strlen(text)));
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", good, tails[i]);
		if (try_text(text, strlen(text)))
			fail_msg("taken: %s", text);
	}
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", heads[i], one);
		if (try_text(text, strlen(text)))
			fail_msg("taken: %s", text);
	}
	/* one replica more than there is room for */
	largest(&full);
	full.count = OL_REPLICAS_MAX;
	full.joining = 0;
	{
		char nine[OL_VIEW_TEXT_MAX];
		size_t bytes = ol_view_encode(&full, nine);

		assert_true(try_text(nine, bytes));
		bytes += (size_t)snprintf(nine + bytes, sizeof(nine) - bytes, "%s", one);
		assert_false(try_text(nine, bytes));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_view_follows_every_rule),
		cmocka_unit_test(an_order_is_one_view_or_refused),
		cmocka_unit_test(only_the_next_epoch_of_one_history_follows_a_view),
		cmocka_unit_test(rank_goes_before_id),
		cmocka_unit_test(who_has_another_history_only_does_not_found_anew),
		cmocka_unit_test(who_has_the_newest_checkpoint_loses_least),
		cmocka_unit_test(a_history_is_founded_above_the_checkpoints),
		cmocka_unit_test(a_view_is_above_the_checkpoints_of_who_joins),
		cmocka_unit_test(a_view_is_above_the_checkpoints_of_who_waits),
		cmocka_unit_test(a_place_in_the_chain_gives_role_and_neighbours),
		cmocka_unit_test(a_random_history_keeps_every_promise),
		cmocka_unit_test(a_damaged_text_is_a_view_or_refused),
		cmocka_unit_test(versions_follow_each_other),
		cmocka_unit_test(texts_that_nobody_writes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
