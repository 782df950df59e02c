/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_join_test.c -- what a chain does with a replica that joins, and that one itself
 */
#include "unit/replication/chain_probe.h"

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
