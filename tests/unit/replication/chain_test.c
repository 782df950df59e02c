/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_test.c -- a replica forwards, applies, commits, acknowledges and fences when it must, and not
 * before
 */
#include "unit/replication/chain_probe.h"

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

static void a_tail_acknowledges_several_entries_at_once(void **unused)
{
	struct probe p;

	(void)unused;
	member(&p, 2, 10, "12");
	p.chain.slots = 16;
	p.chain.ack_every = 4;
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
	p.chain.ack_every = 4;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_founder_serves_alone),
		cmocka_unit_test(a_founder_may_have_weights_before_it_has_a_view),
		cmocka_unit_test(a_head_orders_one_at_a_time_and_forwards_first),
		cmocka_unit_test(a_full_ring_holds_the_head),
		cmocka_unit_test(a_middle_frees_what_is_committed_and_applied),
		cmocka_unit_test(a_tail_commits_by_applying),
		cmocka_unit_test(a_tail_acknowledges_several_entries_at_once),
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
