/* SPDX-License-Identifier: BSD-3-Clause */

/* chain_test.c -- a replica forwards, applies, commits, acknowledges and fences when it must, and
 * not before. Actions are compared as text: f5 forward, a5 apply, c5 commit, k5 ack, <P and >P
 * fence predecessor and successor, +7 connect to replica 7 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "replication/chain.h"

enum {
	SLOTS = 4,
	DID_MAX = 512
};

struct probe {
	struct ol_chain chain;
	char did[DID_MAX];
	bool no_forward; /* -EAGAIN */
	bool no_apply;
	bool no_ack;
};

static void did(struct probe *probe, const char *what, uint64_t number)
{
	size_t used = strlen(probe->did);

	snprintf(probe->did + used, DID_MAX - used, "%s%s%llu", used > 0 ? " " : "", what,
		 (unsigned long long)number);
}

static int carry_out(struct probe *probe, const struct ol_chain_action *action)
{
	switch (action->what) {
	case OL_CHAIN_FORWARD:
		if (probe->no_forward)
			return -EAGAIN;
		did(probe, "f", action->version);
		break;
	case OL_CHAIN_APPLY:
		if (probe->no_apply)
			return -EAGAIN;
		did(probe, "a", action->version);
		break;
	case OL_CHAIN_ACK:
		if (probe->no_ack)
			return -EAGAIN;
		did(probe, "k", action->version);
		break;
	}
	ol_chain_on_done(&probe->chain, action);
	if (action->commits)
		did(probe, "c", action->version);
	return 0;
}

static void progress(struct probe *probe)
{
	struct ol_chain_action action;
	unsigned not_now = 0;

	while (ol_chain_next_action(&probe->chain, not_now, &action)) {
		if (carry_out(probe, &action) != 0)
			not_now |= action.what;
	}
}

static bool waits(const struct probe *probe)
{
	struct ol_chain_action action;

	return ol_chain_next_action(&probe->chain, 0, &action);
}

static void connects(struct probe *probe)
{
	did(probe, "+", ol_view_successor(&probe->chain.view, probe->chain.id)->id);
}

static void load(struct probe *probe, uint64_t version)
{
	if (ol_chain_on_load(&probe->chain, version))
		connects(probe);
}

static void start(struct probe *probe, uint64_t id)
{
	*probe = (struct probe){ .no_ack = false };
	ol_chain_init(&probe->chain, id, SLOTS);
}

/* Adopt a view of the replicas in `ids`; one after '+' joins: "123", "12+3" */
static int view_of(struct probe *probe, uint32_t epoch, const char *ids, uint32_t founded)
{
	struct ol_view view = { .epoch = epoch,
				.founded = founded,
				.history = founded,
				.origin = 1,
				.shard_count = 1,
				.wanted = 3 };
	const struct ol_view before = probe->chain.view;
	struct ol_chain_links links;
	int rc;

	for (; *ids != '\0'; ids++) {
		if (*ids == '+')
			view.joining = 1;
		else
			view.replicas[view.count++].id = (uint64_t)(*ids - '0');
	}
	view.count -= view.joining;
	rc = ol_chain_on_view(&probe->chain, &view, &links);
	if (links.fence_predecessor)
		did(probe, "<", ol_view_predecessor(&before, probe->chain.id)->id);
	if (links.fence_successor)
		did(probe, ">", ol_view_successor(&before, probe->chain.id)->id);
	if (links.connect)
		connects(probe);
	return rc;
}

static void adopt(struct probe *probe, uint32_t epoch, const char *ids)
{
	assert_int_equal(view_of(probe, epoch, ids, 1), 0);
}

/* What was done since the last time, as text */
static void check_did(struct probe *probe, const char *what, int line)
{
	if (strcmp(probe->did, what) != 0)
		fail_msg("line %d: did \"%s\", not \"%s\"", line, probe->did, what);
	probe->did[0] = '\0';
}
#define DID(probe, what) check_did(probe, what, __LINE__)

static void entry(struct probe *probe, uint64_t version)
{
	assert_int_equal(ol_chain_on_entry(&probe->chain, version), 0);
	progress(probe);
}

static void ack(struct probe *probe, uint64_t version)
{
	assert_int_equal(ol_chain_on_ack(&probe->chain, version), 0);
	progress(probe);
}

/* The predecessor offers `content`; `have` is the answer */
static void hello(struct probe *probe, uint64_t content, int rc, uint64_t have)
{
	uint64_t said;

	assert_int_equal(ol_chain_on_hello(&probe->chain, content, &said), rc);
	assert_int_equal(said, have);
	ol_chain_on_predecessor(&probe->chain, true);
}

static void order(struct probe *probe, uint64_t version)
{
	uint64_t ordered;

	assert_int_equal(ol_chain_order(&probe->chain, &ordered), 0);
	assert_int_equal(ordered, version);
	progress(probe);
}

static void up(struct probe *probe, uint64_t have)
{
	assert_int_equal(ol_chain_on_successor_up(&probe->chain, have), 0);
	progress(probe);
}

/* A replica `id`, full in the chain of `ids` with epoch 2, that has `version` */
static void member(struct probe *probe, uint64_t id, uint64_t version, const char *ids)
{
	char alone[2] = { (char)('0' + id), '\0' };

	start(probe, id);
	load(probe, version);
	adopt(probe, 1, alone); /* everyone was the tail once */
	adopt(probe, 2, ids);
	probe->did[0] = '\0';
	if (ids[0] - '0' != (int)id)
		hello(probe, 0, 0, version);
	progress(probe);
	probe->did[0] = '\0';
}

static void a_founder_serves_alone(void **unused)
{
	struct probe p;

	(void)unused;
	start(&p, 1);
	assert_int_equal(ol_chain_may_order(&p.chain), -EPERM);
	adopt(&p, 1, "1");
	assert_int_equal(ol_chain_may_order(&p.chain), -EPERM);
	assert_false(ol_chain_serves_push(&p.chain));
	assert_false(ol_chain_serves_pull(&p.chain));
	load(&p, 100);
	assert_true(ol_chain_serves_push(&p.chain));
	assert_true(ol_chain_serves_pull(&p.chain));
	for (uint64_t v = 101; v < 111; v++)
		order(&p, v);
	DID(&p, "a101 c101 a102 c102 a103 c103 a104 c104 a105 c105 a106 c106 a107 c107 a108 c108 "
		"a109 c109 a110 c110");
	assert_false(waits(&p));
}

static void a_founder_may_have_weights_before_it_has_a_view(void **unused)
{
	struct probe p;

	(void)unused;
	start(&p, 1);
	load(&p, 7);
	assert_int_equal(ol_chain_may_order(&p.chain), -EPERM);
	adopt(&p, 1, "1+2");
	DID(&p, "+2");
	assert_true(ol_chain_serves_push(&p.chain));
	assert_true(ol_chain_serves_pull(&p.chain));
	assert_int_equal(p.chain.committed, 7);
	/* one that joins is called when there is something to offer */
	start(&p, 1);
	adopt(&p, 1, "1+2");
	DID(&p, "");
	load(&p, 0);
	DID(&p, "+2");
}

static void a_head_orders_one_at_a_time_and_forwards_first(void **unused)
{
	struct probe p;
	uint64_t version;

	(void)unused;
	member(&p, 1, 10, "12");
	assert_int_equal(ol_chain_may_order(&p.chain), -EAGAIN); /* no successor is there */
	up(&p, 10);
	p.no_forward = true;
	order(&p, 11);
	DID(&p, ""); /* not applied: it is not forwarded */
	assert_true(waits(&p));
	assert_false(ol_chain_serves_push(&p.chain)); /* 11 is not in what it could say */
	assert_int_equal(ol_chain_order(&p.chain, &version), -EAGAIN);
	p.no_forward = false;
	p.no_apply = true;
	progress(&p);
	DID(&p, "f11");
	assert_int_equal(ol_chain_order(&p.chain, &version), -EAGAIN);
	p.no_apply = false;
	progress(&p);
	DID(&p, "a11"); /* no commit: that is the tail's */
	assert_true(ol_chain_serves_push(&p.chain));
	assert_false(ol_chain_serves_pull(&p.chain));
}

static void a_full_ring_holds_the_head(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 1, 10, "12");
	up(&p, 10);
	for (uint64_t v = 11; v < 11 + SLOTS; v++)
		order(&p, v);
	assert_int_equal(ol_chain_may_order(&p.chain), -EAGAIN);
	assert_false(waits(&p));
	ack(&p, 11);
	assert_int_equal(ol_chain_newest_free(&p.chain), 11);
	order(&p, 15);
	assert_int_equal(ol_chain_may_order(&p.chain), -EAGAIN);
}

static void a_middle_frees_what_is_committed_and_applied(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	up(&p, 10);
	p.no_apply = true;
	entry(&p, 11);
	entry(&p, 12);
	DID(&p, "f11 f12");
	ack(&p, 12); /* committed, but its own slots are still in use */
	assert_int_equal(p.chain.committed, 12);
	DID(&p, "");
	p.no_apply = false;
	progress(&p);
	DID(&p, "a11 a12 k12"); /* one ack for both */
	assert_int_equal(ol_chain_may_order(&p.chain), -EPERM);
	assert_false(ol_chain_serves_push(&p.chain));
	assert_false(ol_chain_serves_pull(&p.chain));
}

static void a_tail_commits_by_applying(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "12");
	assert_true(ol_chain_serves_pull(&p.chain));
	p.no_ack = true;
	entry(&p, 11);
	DID(&p, "a11 c11");
	assert_true(waits(&p));
	p.no_ack = false;
	entry(&p, 12);
	DID(&p, "a12 c12 k12");
	assert_false(waits(&p));
}

static void a_tail_acknowledges_a_quarter_of_its_ring_at_once(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "12");
	p.chain.slots = 16;
	entry(&p, 11);
	entry(&p, 12);
	entry(&p, 13);
	DID(&p, "a11 c11 a12 c12 a13 c13");
	assert_false(waits(&p));
	entry(&p, 14);
	DID(&p, "a14 c14 k14");
	ol_chain_settle(&p.chain);
	progress(&p);
	DID(&p, "");
	entry(&p, 15);
	DID(&p, "a15 c15");
	ol_chain_settle(&p.chain);
	assert_true(waits(&p));
	progress(&p);
	DID(&p, "k15");
	entry(&p, 16);
	DID(&p, "a16 c16");
	ol_chain_on_predecessor(&p.chain, false);
	ol_chain_on_predecessor(&p.chain, true);
	progress(&p);
	DID(&p, "k16");
}

static void a_middle_passes_each_ack_on_at_once(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	p.chain.slots = 16;
	up(&p, 10);
	entry(&p, 11);
	entry(&p, 12);
	DID(&p, "f11 a11 f12 a12");
	ack(&p, 11);
	DID(&p, "k11");
	ack(&p, 12);
	DID(&p, "k12");
}

static void entries_come_in_order_from_the_predecessor_within_the_ring(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	assert_int_equal(ol_chain_on_entry(&p.chain, 12), -EPROTO);
	assert_int_equal(ol_chain_on_entry(&p.chain, 10), -EPROTO);
	for (uint64_t v = 11; v < 11 + SLOTS; v++)
		entry(&p, v);
	assert_int_equal(ol_chain_on_entry(&p.chain, 15),
			 -EPROTO); /* no slot was said to be free */
	ol_chain_on_predecessor(&p.chain, false);
	assert_int_equal(ol_chain_on_entry(&p.chain, 15), -EPROTO);
	DID(&p, "");
}

static void acks_are_of_what_was_given(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 1, 10, "12");
	assert_int_equal(ol_chain_on_ack(&p.chain, 10), -EPROTO); /* it is not there */
	up(&p, 10);
	order(&p, 11);
	order(&p, 12);
	assert_int_equal(ol_chain_on_ack(&p.chain, 13), -EPROTO);
	ack(&p, 12);
	ack(&p, 11); /* late: it says nothing */
	assert_int_equal(p.chain.committed, 12);
}

static void a_successor_must_be_one_that_can_go_on(void **unused)
{
	struct probe p;
	uint64_t have;

	(void)unused;
	member(&p, 1, 10, "12");
	assert_int_equal(ol_chain_on_hello(&p.chain, 0, &have),
			 -EPROTO); /* it has none before it */
	assert_int_equal(ol_chain_on_offer(&p.chain, 3), 0); /* to a full one: nothing */
	assert_int_equal(ol_chain_on_successor_up(&p.chain, 11), -EPROTO); /* more than there is */
	assert_int_equal(ol_chain_on_successor_up(&p.chain, 9), -EPROTO); /* 10 is in no slot */
	up(&p, 10);
	for (uint64_t v = 11; v <= 14; v++)
		order(&p, v);
	ack(&p, 12);
	ol_chain_on_successor_down(&p.chain);
	assert_int_equal(ol_chain_may_order(&p.chain), -EAGAIN);
	p.did[0] = '\0';
	/* it had acknowledged 12 */
	assert_int_equal(ol_chain_on_successor_up(&p.chain, 11), -EPROTO);
	up(&p, 13);
	DID(&p, "f14");
}

static void a_link_stays_when_the_neighbour_does(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "1234");
	up(&p, 10);
	adopt(&p, 3, "123"); /* 4 is gone: no neighbour of 2 */
	adopt(&p, 4, "123+5");
	assert_int_equal(view_of(&p, 4, "2", 1), -ESTALE); /* views only grow */
	assert_int_equal(view_of(&p, 1, "13", 1), -ESTALE);
	DID(&p, "");
	entry(&p, 11);
	DID(&p, "f11 a11");
}

static void a_new_head_has_cut_off_the_old_one_and_applies_all_first(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	up(&p, 10);
	entry(&p, 11);
	p.no_forward = true;
	entry(&p, 12);
	DID(&p, "f11 a11");
	adopt(&p, 3, "23");
	DID(&p, "<1");
	assert_int_equal(p.chain.role, OL_CHAIN_HEAD);
	assert_int_equal(ol_chain_on_entry(&p.chain, 13), -EPROTO);
	progress(&p);
	assert_false(ol_chain_serves_push(&p.chain));
	p.no_forward = false;
	progress(&p);
	DID(&p, "f12 a12");
	assert_true(ol_chain_serves_push(&p.chain));
	order(&p, 13);
	DID(&p, "f13 a13");
}

static void past_a_dead_middle_entries_are_sent_again(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 1, 10, "123");
	up(&p, 10);
	order(&p, 11);
	order(&p, 12);
	order(&p, 13);
	ack(&p, 11);
	DID(&p, "f11 a11 f12 a12 f13 a13");
	adopt(&p, 3, "13");
	DID(&p, ">2 +3");
	progress(&p);
	assert_int_equal(ol_chain_on_ack(&p.chain, 12), -EPROTO); /* 3 has not said anything */
	up(&p, 11);
	DID(&p, "f12 f13"); /* they are applied already */
	order(&p, 14);
	DID(&p, "f14 a14");
	ack(&p, 14);
	assert_int_equal(p.chain.committed, 14);
}

static void a_new_predecessor_hears_again_what_is_free(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 3, 10, "123");
	entry(&p, 11);
	DID(&p, "a11 c11 k11");
	adopt(&p, 3, "13");
	DID(&p, "<2");
	hello(&p, 0, 0, 11);
	progress(&p);
	DID(&p, "k11");
}

static void a_new_tail_commits_all_that_it_has(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	up(&p, 10);
	entry(&p, 11);
	p.no_forward = true;
	entry(&p, 12);
	entry(&p, 13);
	DID(&p, "f11 a11");
	p.no_apply = true;
	adopt(&p, 3, "12");
	DID(&p, ">3");
	progress(&p);
	DID(&p, "k11"); /* for 11 no commit: it was applied before */
	assert_false(ol_chain_serves_pull(&p.chain)); /* 3 may have shown 13, if it had it */
	p.no_apply = false;
	progress(&p);
	DID(&p, "a12 c12 a13 c13 k13");
	assert_true(ol_chain_serves_pull(&p.chain));
	p.no_apply = true;
	entry(&p, 14);
	assert_true(ol_chain_serves_pull(&p.chain)); /* nobody had that */
}

static void the_last_one_is_head_and_tail(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	up(&p, 10);
	entry(&p, 11);
	adopt(&p, 3, "2");
	DID(&p, "f11 a11 <1 >3");
	assert_int_equal(p.chain.role, OL_CHAIN_ONLY);
	order(&p, 12);
	DID(&p, "a12 c12");
}

static void one_that_is_removed_cuts_itself_off_and_is_worth_nothing(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	up(&p, 10);
	entry(&p, 11);
	DID(&p, "f11 a11");
	assert_int_equal(view_of(&p, 3, "13", 1), OL_CHAIN_REMOVED);
	DID(&p, "<1 >3");
	progress(&p);
	DID(&p, "");
	assert_false(p.chain.loaded);
	assert_int_equal(ol_chain_may_order(&p.chain), -EPERM);
	/* also where it did not see the view without it */
	member(&p, 2, 10, "12");
	assert_int_equal(view_of(&p, 4, "1+2", 1), OL_CHAIN_REMOVED);
	DID(&p, "<1");
	assert_false(p.chain.loaded);
}

static void an_offer_keeps_what_comes_after_it(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 1, 10, "1+2");
	for (uint64_t v = 11; v <= 20; v++)
		order(&p, v); /* nobody is waited for yet */
	assert_int_equal(ol_chain_on_offer(&p.chain, 21), -EPROTO);
	assert_int_equal(ol_chain_on_offer(&p.chain, 15), -EPROTO);
	assert_int_equal(ol_chain_on_offer(&p.chain, 18), 0);
	order(&p, 21);
	order(&p, 22);
	assert_int_equal(ol_chain_may_order(&p.chain), -EAGAIN); /* 19 … 22 are kept */
	p.did[0] = '\0';
	ol_chain_on_successor_down(&p.chain);
	order(&p, 23); /* it was not there */
	DID(&p, "a23 c23");
	assert_int_equal(ol_chain_on_successor_up(&p.chain, 18), -EPROTO);
}

static void one_that_joins_loads_and_catches_up_behind_the_tail(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 1, 10, "1+2");
	assert_int_equal(ol_chain_on_offer(&p.chain, 10), 0);
	order(&p, 11);
	DID(&p, "a11 c11"); /* its commit does not wait */
	up(&p, 10);
	order(&p, 12);
	DID(&p, "f11 f12 a12 c12");
	assert_int_equal(ol_chain_caught_up(&p.chain), 0);
	ack(&p, 10); /* it has weights: from now on nothing is committed without it */
	order(&p, 13);
	DID(&p, "f13");
	assert_int_equal(ol_chain_caught_up(&p.chain), 0);
	ack(&p, 11);
	assert_int_equal(ol_chain_caught_up(&p.chain), 0);
	ack(&p, 12);
	assert_int_equal(ol_chain_caught_up(&p.chain), 2); /* 13 is committed nowhere */
	DID(&p, "");
	ack(&p, 13);
	DID(&p, "a13 c13");
	order(&p, 14);
	DID(&p, "f14");
	adopt(&p, 3, "12");
	assert_int_equal(p.chain.role, OL_CHAIN_HEAD);
	progress(&p);
	DID(&p, "a14"); /* the link stays; it commits no more */
}

static void a_handoff_ends_with_a_view_not_with_a_link(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "12+3");
	up(&p, 10);
	ack(&p, 10);
	assert_int_equal(ol_chain_caught_up(&p.chain), 3);
	entry(&p, 11);
	DID(&p, "f11");
	ol_chain_on_successor_down(&p.chain);
	progress(&p);
	DID(&p, ""); /* 3 may be the tail by now */
	assert_int_equal(ol_chain_caught_up(&p.chain), 0);
	assert_int_equal(ol_chain_on_successor_up(&p.chain, 9), -EPROTO);
	up(&p, 10);
	DID(&p, "f11");
	ol_chain_on_successor_down(&p.chain);
	adopt(&p, 3, "12");
	DID(&p, ">3");
	assert_false(ol_chain_serves_pull(&p.chain)); /* 3 may have been, and shown 11 */
	progress(&p);
	DID(&p, "a11 c11 k11");
	assert_true(ol_chain_serves_pull(&p.chain));
}

static void on_a_new_link_only_an_ack_counts(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 1, 10, "1+2");
	up(&p, 10);
	for (uint64_t v = 11; v <= 13; v++)
		order(&p, v);
	ack(&p, 10);
	ol_chain_on_successor_down(&p.chain);
	p.did[0] = '\0';
	up(&p, 13); /* it may be about to read 13 again, or be no longer the last */
	assert_int_equal(ol_chain_caught_up(&p.chain), 0);
	order(&p, 14);
	DID(&p, "f14");
	ack(&p, 13);
	assert_int_equal(ol_chain_caught_up(&p.chain), 2);
	DID(&p, "");
	ack(&p, 14);
	DID(&p, "a14 c14");
}

static void what_a_new_tail_has_acknowledged_is_committed(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "12+3");
	up(&p, 10);
	ack(&p, 10);
	entry(&p, 11);
	p.no_apply = true;
	ack(&p, 11);
	DID(&p, "f11");
	adopt(&p, 3, "123");
	p.no_apply = false;
	progress(&p);
	DID(&p, "a11 k11"); /* 3 will not say it again */
	assert_int_equal(p.chain.committed, 11);
}

static void one_has_caught_up_with_earlier_tails_too(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "123");
	up(&p, 10);
	p.no_apply = true;
	entry(&p, 11);
	adopt(&p, 3, "12+4"); /* 3 may have told a worker of 11 */
	DID(&p, "f11 >3 +4");
	up(&p, 10);
	ack(&p, 10);
	assert_int_equal(p.chain.committed, 10);
	assert_int_equal(ol_chain_caught_up(&p.chain), 0);
	ack(&p, 11);
	assert_int_equal(ol_chain_caught_up(&p.chain), 4);
}

static void a_tail_frees_what_one_that_joins_does_not_need(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "12+3");
	assert_int_equal(ol_chain_on_offer(&p.chain, 10), 0);
	entry(&p, 11);
	DID(&p, "a11 c11");
	up(&p, 10);
	DID(&p, "f11");
	ack(&p, 11);
	DID(&p, "k11");
	assert_int_equal(ol_chain_on_offer(&p.chain, 10), -EPROTO); /* 1 may overwrite 11 */
}

static void a_joining_replica_takes_entries_before_it_has_weights(void **unused)
{
	struct probe p;

	(void)unused;
	start(&p, 3);
	adopt(&p, 2, "12+3");
	assert_int_equal(ol_chain_on_entry(&p.chain, 1), -EPROTO);
	hello(&p, 10, OL_CHAIN_LOAD, 10);
	entry(&p, 11);
	entry(&p, 12);
	DID(&p, "");
	load(&p, 9); /* of a hello before */
	assert_false(p.chain.loaded);
	load(&p, 10);
	progress(&p);
	DID(&p, "a11 a12 k12");
	assert_false(ol_chain_serves_pull(&p.chain));
	adopt(&p, 3, "123");
	entry(&p, 13);
	DID(&p, "a13 c13 k13");
	assert_true(ol_chain_serves_pull(&p.chain));
	/* also of weights that are at version 0 */
	start(&p, 2);
	adopt(&p, 2, "1+2");
	hello(&p, 0, OL_CHAIN_LOAD, 0);
	load(&p, 0);
	progress(&p);
	DID(&p, "k0");
}

static void a_new_link_alone_makes_nobody_load_again(void **unused)
{
	struct probe p;

	(void)unused;
	start(&p, 2);
	adopt(&p, 2, "1+2");
	hello(&p, 10, OL_CHAIN_LOAD, 10);
	load(&p, 10);
	entry(&p, 11);
	p.no_apply = true;
	entry(&p, 12);
	DID(&p, "a11 k11");
	ol_chain_on_predecessor(&p.chain, false);
	hello(&p, 11, 0, 11); /* 12 comes again */
	progress(&p);
	DID(&p, "k11");
	assert_int_equal(ol_chain_on_entry(&p.chain, 13), -EPROTO);
	p.no_apply = false;
	entry(&p, 12);
	DID(&p, "a12 k12");
	ol_chain_on_predecessor(&p.chain, false);
	hello(&p, 20, OL_CHAIN_LOAD, 20); /* what is between is not in the ring any more */
	assert_int_equal(p.chain.applied, 0);
	assert_false(p.chain.loaded);
	entry(&p, 21);
	load(&p, 20);
	progress(&p);
	DID(&p, "a21 k21");
}

static void another_history_begins_with_nothing(void **unused)
{
	struct probe p;

	(void)unused;
	start(&p, 2);
	adopt(&p, 2, "1+2");
	hello(&p, 10, OL_CHAIN_LOAD, 10);
	load(&p, 10);
	entry(&p, 11);
	p.did[0] = '\0';
	assert_int_equal(view_of(&p, 3, "2", 3), 0);
	DID(&p, "<1");
	assert_false(ol_chain_serves_push(&p.chain));
	load(&p, 4);
	order(&p, 5);
	DID(&p, "a5 c5");
	/* one that counted in the old one has no place in the new */
	member(&p, 1, 10, "12");
	assert_int_equal(view_of(&p, 5, "12", 4), OL_CHAIN_REMOVED);
	assert_false(p.chain.loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_founder_serves_alone),
		cmocka_unit_test(a_founder_may_have_weights_before_it_has_a_view),
		cmocka_unit_test(a_head_orders_one_at_a_time_and_forwards_first),
		cmocka_unit_test(a_full_ring_holds_the_head),
		cmocka_unit_test(a_middle_frees_what_is_committed_and_applied),
		cmocka_unit_test(a_tail_commits_by_applying),
		cmocka_unit_test(a_tail_acknowledges_a_quarter_of_its_ring_at_once),
		cmocka_unit_test(a_middle_passes_each_ack_on_at_once),
		cmocka_unit_test(entries_come_in_order_from_the_predecessor_within_the_ring),
		cmocka_unit_test(acks_are_of_what_was_given),
		cmocka_unit_test(a_successor_must_be_one_that_can_go_on),
		cmocka_unit_test(a_link_stays_when_the_neighbour_does),
		cmocka_unit_test(a_new_head_has_cut_off_the_old_one_and_applies_all_first),
		cmocka_unit_test(past_a_dead_middle_entries_are_sent_again),
		cmocka_unit_test(a_new_predecessor_hears_again_what_is_free),
		cmocka_unit_test(a_new_tail_commits_all_that_it_has),
		cmocka_unit_test(the_last_one_is_head_and_tail),
		cmocka_unit_test(one_that_is_removed_cuts_itself_off_and_is_worth_nothing),
		cmocka_unit_test(an_offer_keeps_what_comes_after_it),
		cmocka_unit_test(one_that_joins_loads_and_catches_up_behind_the_tail),
		cmocka_unit_test(a_handoff_ends_with_a_view_not_with_a_link),
		cmocka_unit_test(on_a_new_link_only_an_ack_counts),
		cmocka_unit_test(what_a_new_tail_has_acknowledged_is_committed),
		cmocka_unit_test(one_has_caught_up_with_earlier_tails_too),
		cmocka_unit_test(a_tail_frees_what_one_that_joins_does_not_need),
		cmocka_unit_test(a_joining_replica_takes_entries_before_it_has_weights),
		cmocka_unit_test(a_new_link_alone_makes_nobody_load_again),
		cmocka_unit_test(another_history_begins_with_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
