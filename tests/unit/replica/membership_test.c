/* SPDX-License-Identifier: BSD-3-Clause */

/* membership_test.c -- a replica removes and adds the right members, proposes the right views, and
 * ends when it must */

#include "unit/replica/replica_util.h"

/* ---- who is left out ---- */

static void a_suspect_is_not_in_the_next_view(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	assert_null(proposes(start));
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_SUCCESSOR, "test", start);
	assert_int_equal(coord.proposals, 1);
	assert_int_equal(coord.version, 5);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
	assert_int_equal(ol_word_load(&board.suspicions), 1);
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_SUCCESSOR, "test", start + 1);
	assert_int_equal(ol_word_load(&board.suspicions), 1); /* of the same */
	assert_int_equal(coord.proposals, 1);
}

static void a_predecessor_is_suspected_as_well(void **state)
{
	(void)state;
	adopt(5, 0, IDS(A, SELF, C), start);
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_PREDECESSOR, NULL, start);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

static void a_suspicion_ends_with_the_neighbour(void **state)
{
	(void)state;
	wanted = 4;
	adopt(5, 0, IDS(A, SELF, B, C), start);
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_SUCCESSOR, "test", start);
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_PREDECESSOR, "test", start);
	/* another had its way: both are neighbours still, and nothing was heard of them */
	adopt(6, 0, IDS(A, SELF, B), start + 1);
	assert_int_equal(server.replica.suspects[OL_NEIGHBOUR_SUCCESSOR], B);
	assert_int_equal(server.replica.suspects[OL_NEIGHBOUR_PREDECESSOR], A);
	adopt(7, 0, IDS(SELF, C), start + 2);
	assert_int_equal(server.replica.suspects[OL_NEIGHBOUR_SUCCESSOR], 0);
	assert_int_equal(server.replica.suspects[OL_NEIGHBOUR_PREDECESSOR], 0);
}

static void what_a_joining_replica_suspected_is_forgotten(void **state)
{
	(void)state;
	server.opts.refound = 1;
	adopt(5, 1, IDS(A, SELF), start);
	coord.state.lease_ns = UINT64_MAX;
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_PREDECESSOR, "test", start);
	assert_int_equal(coord.proposals, 0); /* A is registered: this alone takes nobody's place */
	adopt(6, 0, IDS(A, SELF), start + 1);
	assert_int_equal(server.replica.suspects[OL_NEIGHBOUR_PREDECESSOR], 0);
}

/* An old head may commit for a while after its session is over: coord/lease.h */
static void a_joining_replica_founds_anew_when_no_head_can_commit(void **state)
{
	(void)state;
	server.opts.refound = 1;
	adopt(5, 1, IDS(A, SELF), start);
	coord.state.lease_ns = start + MS(100 * LEASE_MS);
	registered(IDS(SELF));
	assert_null(proposes(start));
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_PREDECESSOR, "test", start + 1);
	assert_int_equal(coord.proposals, 0);
	assert_null(proposes(start + MS(2 * LEASE_MS) - 1));
	assert_view(proposes(start + MS(2 * LEASE_MS)), 6, 0, IDS(SELF));
}

static void in_a_folder_it_waits_for_a_lease_alone(void **state)
{
	(void)state;
	server.opts.refound = 1;
	adopt(5, 1, IDS(A, SELF), start);
	coord.state.lease_ns = UINT64_MAX; /* a registration ends with its process */
	registered(IDS(SELF));
	assert_null(proposes(start));
	assert_null(proposes(start + MS(LEASE_MS) - 1));
	assert_view(proposes(start + MS(LEASE_MS)), 6, 0, IDS(SELF));
}

static void two_suspects_are_two_proposals(void **state)
{
	(void)state;
	adopt(5, 0, IDS(A, SELF, C), start);
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_SUCCESSOR, "test", start);
	assert_view(&coord.proposed, 6, 0, IDS(A, SELF));
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_PREDECESSOR, "test", start + 1);
	assert_int_equal(coord.proposals, 2);
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
}

static void without_a_coordinator_nothing_is_proposed(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	coord.state.connected = false;
	coord.generation++;
	ol_replica_view_read(&server.replica, start);
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_SUCCESSOR, "test", start);
	assert_int_equal(coord.proposals, 0);
	coord.state.connected = true;
	coord.generation++;
	ol_replica_view_read(&server.replica, start);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

static void a_server_does_not_leave_itself_out(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	registered(IDS(B, C)); /* its own session is not there yet */
	assert_null(proposes(start));
	assert_null(proposes(start + MS(2 * LEASE_MS)));
}

static void who_has_no_session_is_left_out_after_a_lease(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	registered(IDS(SELF, B));
	assert_null(proposes(start));
	assert_null(proposes(start + MS(LEASE_MS) - 1));
	assert_view(proposes(start + MS(LEASE_MS)), 6, 0, IDS(SELF, B));
}

static void who_is_back_in_time_stays(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	registered(IDS(SELF, B));
	assert_null(proposes(start));
	registered(IDS(SELF, B, C));
	assert_null(proposes(start + MS(LEASE_MS / 2)));
	registered(IDS(SELF, B));
	assert_null(proposes(start + MS(LEASE_MS)));
	assert_null(proposes(start + MS(2 * LEASE_MS) - 1));
	assert_view(proposes(start + MS(2 * LEASE_MS)), 6, 0, IDS(SELF, B));
}

static void a_new_view_begins_to_count_anew(void **state)
{
	(void)state;
	adopt(5, 0, IDS(A, SELF, C), start);
	connect_all();
	registered(IDS(A, SELF));
	assert_null(proposes(start));
	coord.state.view = view_of(6, 0, IDS(SELF, A, C));
	coord.state.version = 6;
	coord.generation++;
	ol_replica_view_read(&server.replica, start + MS(LEASE_MS));
	assert_int_equal(server.replica.chain.view.epoch, 6);
	assert_int_equal(coord.proposals, 0);
}

static void while_the_coordinator_is_away_nobody_is_left_out(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	registered(IDS(SELF, B));
	assert_null(proposes(start));
	coord.state.connected = false;
	coord.generation++;
	assert_null(proposes(start + MS(LEASE_MS / 2)));
	assert_null(proposes(start + MS(5 * LEASE_MS)));
	coord.state.connected = true;
	coord.generation++;
	/* it has not been seen to be away before now */
	assert_null(proposes(start + MS(6 * LEASE_MS)));
	assert_view(proposes(start + MS(7 * LEASE_MS)), 6, 0, IDS(SELF, B));
}

/* ---- who is taken in ---- */

static void who_waits_joins(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B), start);
	connect_all();
	registered(IDS(SELF, B, C));
	assert_view(proposes(start), 6, 1, IDS(SELF, B, C));
}

static void who_is_not_connected_with_its_neighbours_adds_nobody(void **state)
{
	(void)state;
	wanted = 4;
	adopt(5, 0, IDS(A, SELF, B), start);
	registered(IDS(A, SELF, B, C));
	assert_null(proposes(start));
	server.replica.chain.pred_up = true;
	assert_null(proposes(start));
	connect_all();
	server.replica.chain.pred_up = false;
	assert_null(proposes(start));
	connect_all();
	assert_view(proposes(start), 6, 1, IDS(A, SELF, B, C));
}

static void a_process_has_one_life_in_a_chain(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	adopt(6, 0, IDS(SELF, B), start + 1);
	connect_all();
	registered(IDS(SELF, B, C));
	assert_null(proposes(start + 2));
}

static void a_server_of_another_job_is_not_taken(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B), start);
	connect_all();
	registered(IDS(SELF, B, C));
	coord.state.members[2].job = JOB + 1;
	assert_null(proposes(start));
	coord.state.members[2].job = JOB;
	coord.state.members[2].proto = coord.state.members[2].oldest = PROTO + 1;
	coord.generation++;
	assert_null(proposes(start));
}

/* ---- who proposes ---- */

static void who_does_not_count_leaves_it_to_who_does(void **state)
{
	(void)state;
	adopt(5, 0, IDS(A, B), start);
	registered(IDS(A, B, SELF));
	assert_null(proposes(start));
	assert_int_equal(server.opts.epoch, 0); /* it speaks for no epoch */
}

static void a_joining_replica_leaves_it_to_who_counts(void **state)
{
	(void)state;
	adopt(5, 1, IDS(A, B, SELF), start);
	registered(IDS(A, SELF));
	assert_null(proposes(start));
	assert_null(proposes(start + MS(2 * LEASE_MS)));
}

static void who_joins_does_not_count(void **state)
{
	(void)state;
	server.opts.refound = 1;
	adopt(5, 1, IDS(A, B), start);
	registered(IDS(B, SELF)); /* B joins, and has nothing that A had */
	coord.state.lease_ns = UINT64_MAX;
	assert_null(proposes(start));
	assert_view(proposes(start + MS(LEASE_MS)), 6, 0, IDS(SELF));
}

static void without_refound_nobody_founds_anew(void **state)
{
	(void)state;
	adopt(5, 0, IDS(A, B), start);
	registered(IDS(SELF));
	assert_null(proposes(start));
	assert_null(proposes(start + MS(2 * LEASE_MS)));
}

static void who_has_caught_up_becomes_the_tail(void **state)
{
	(void)state;
	adopt(5, 1, IDS(A, SELF, B), start);
	connect_all();
	server.replica.chain.loaded = true;
	ol_replica_progress(&server.replica, start);
	assert_int_equal(coord.proposals, 0); /* B has acknowledged nothing */
	assert_int_equal(ol_chain_on_ack(&server.replica.chain, 0), 0);
	ol_replica_progress(&server.replica, start);
	assert_view(&coord.proposed, 6, 0, IDS(A, SELF, B));
}

static void periodic_who_has_read_weights_once_counts(void **state)
{
	(void)state;
	server.replica.periodic = true;
	server.opts.replicate_every = 10;
	adopt(5, 1, IDS(A, SELF, B), start);
	connect_all();
	server.replica.succ.pinned = 0; /* it reads */
	server.replica.succ.member = member_of(B);
	assert_null(proposes(start));
	server.replica.succ.told = true;
	server.replica.chain.pred_up = false;
	assert_null(proposes(start));
	server.replica.chain.pred_up = true;
	assert_view(proposes(start), 6, 0, IDS(A, SELF, B));
}

static void a_view_that_is_not_adopted_is_not_replaced(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	registered(IDS(SELF, B));
	assert_null(proposes(start));
	coord.generation++;
	coord.state.view.epoch = 4; /* what the coordinator has is not the view in force here */
	coord.state.view.founded = 1;
	assert_null(proposes(start + MS(2 * LEASE_MS)));
}

static void a_founder_puts_itself_forward_alone(void **state)
{
	(void)state;
	server.opts.replicas = 2;
	registered(IDS(A, SELF));
	assert_null(proposes(start)); /* A is first */
	server.opts.replicas = 1;
	registered(IDS(SELF, B));
	assert_view(proposes(start), 1, 0, IDS(SELF));
}

static void a_proposal_is_repeated_after_a_while(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	ol_membership_suspect(&server.replica, OL_NEIGHBOUR_SUCCESSOR, "test", start);
	assert_int_equal(coord.proposals, 1);
	ol_replica_tick(&server.replica, start + MS(49));
	assert_int_equal(coord.proposals, 1);
	ol_replica_tick(&server.replica, start + MS(50));
	assert_int_equal(coord.proposals, 2);
}

/* ---- when it ends ---- */

static void news_are_looked_at_once(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	assert_false(ol_replica_has_news(&server.replica));
	coord.state.version = 6;
	coord.state.view = view_of(6, 0, IDS(SELF, C));
	ol_replica_view_read(&server.replica, start); /* nobody said that there is anything new */
	assert_int_equal(server.replica.chain.view.epoch, 5);
	coord.generation++;
	assert_true(ol_replica_has_news(&server.replica));
	ol_replica_view_read(&server.replica, start);
	assert_int_equal(server.replica.chain.view.epoch, 6);
}

static void who_has_a_part_is_not_passed_over(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B), start);
	connect_all();
	ol_replica_tick(&server.replica, start + MS(SESSION_MS));
	assert_int_equal(server.replica.end_rc, 0);
}

static void who_is_removed_ends(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	assert_int_equal(server.replica.end_rc, 0);
	adopt(6, 0, IDS(B, C), start + 1);
	assert_int_equal(server.replica.end_rc, OL_E_FENCED);
}

static void who_is_ordered_to_leave_has_not_failed(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	coord.state.view = view_of(6, 0, IDS(B, C));
	coord.state.view.left = SELF;
	coord.state.version = 6;
	registered(IDS(SELF, B, C));
	ol_replica_view_read(&server.replica, start + 1);
	assert_int_equal(server.replica.end_rc, OL_REPLICA_LEFT);
}

static uint32_t found_count;

static int found_once(void *arg, char *err, size_t err_bytes)
{
	(void)arg;
	(void)err;
	(void)err_bytes;
	found_count++;
	return 0;
}

/* An operator's view has followed the founding one before its founder looked */
static void a_founder_founds_whatever_view_it_sees_first(void **state)
{
	struct ol_replica_host host = *server.replica.host;

	(void)state;
	host.found = found_once;
	server.replica.host = &host;
	found_count = 0;
	for (uint32_t epoch = 2; epoch < 5; epoch++) {
		coord.state.view = view_of(epoch, epoch < 4, IDS(SELF, C));
		coord.state.view.history = coord.state.view.origin = SELF;
		coord.state.version = epoch;
		registered(IDS(SELF, C));
		ol_replica_view_read(&server.replica, start + epoch);
		assert_int_equal(server.replica.chain.view.epoch, epoch);
		assert_int_equal(found_count, 1);
	}
}

static void an_older_view_is_not_adopted(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	assert_int_equal(server.opts.epoch, 5);
	assert_int_equal(ol_word_load(&board.epoch), 5);
	assert_int_equal(ol_word_load(&board.role), OL_CHAIN_HEAD);
	coord.state.version = 6;
	coord.state.view = view_of(4, 0, IDS(B, C));
	coord.generation++;
	ol_replica_view_read(&server.replica, start + 1);
	assert_int_equal(server.replica.end_rc, 0);
	assert_int_equal(server.replica.chain.view.epoch, 5);
}

/* The coordinator comes back empty, and others have begun a chain of theirs */
static void another_view(uint32_t epoch, uint64_t origin, uint64_t now_ns)
{
	coord.state.version = 1;
	coord.state.view = view_of(epoch, 0, IDS(B));
	coord.state.view.history = coord.state.view.origin = origin;
	registered(IDS(SELF, B));
	ol_replica_view_read(&server.replica, now_ns);
}

static void who_holds_what_was_committed_stays_when_it_is_forgotten(void **state)
{
	static const uint32_t epochs[] = { 1, 4, 9 };

	(void)state;
	adopt(4, 0, IDS(SELF), start);
	server.replica.chain.loaded = true;
	for (unsigned i = 0; i < 3; i++) {
		another_view(epochs[i], 77, start + 1 + i);
		assert_int_equal(server.replica.end_rc, 0);
		assert_int_equal(server.replica.chain.view.epoch, 4);
		assert_int_equal(server.replica.chain.role, OL_CHAIN_ONLY);
		assert_null(
			proposes(start + MS(LEASE_MS * (i + 1)))); /* nor does it touch theirs */
	}
}

/* A goes on alone in epoch 4 and commits; B, cut off, makes its own epoch 4 of the same history */
static void another_view_of_its_epoch_ends_no_holder(void **state)
{
	(void)state;
	adopt(3, 0, IDS(SELF, B), start);
	adopt(4, 0, IDS(SELF), start);
	server.replica.chain.loaded = true;
	another_view(4, 0, start + 1);
	assert_int_equal(server.replica.end_rc, 0);
	assert_int_equal(server.replica.chain.view.replicas[0].id, SELF);
	assert_null(proposes(start + MS(2 * LEASE_MS)));
}

static void who_holds_nothing_yields(void **state)
{
	(void)state;
	adopt(4, 1, IDS(A, SELF), start);
	another_view(9, 77, start + 1);
	assert_int_equal(server.replica.end_rc, OL_E_FENCED);
}

static void with_refound_a_server_ends_with_its_lease(void **state)
{
	(void)state;
	server.opts.refound = 1;
	adopt(5, 0, IDS(SELF, B, C), start);
	coord.state.lease_ns = start + MS(10);
	ol_replica_tick(&server.replica, start + MS(10) - 1);
	assert_int_equal(server.replica.end_rc, 0);
	coord.state.lease_ns = start + MS(20); /* renewed: no change that has a generation */
	ol_replica_tick(&server.replica, start + MS(20) - 1);
	assert_int_equal(server.replica.end_rc, 0);
	ol_replica_tick(&server.replica, start + MS(20));
	assert_int_equal(server.replica.end_rc, OL_E_FENCED);
}

static void with_refound_a_server_ends_with_its_session(void **state)
{
	(void)state;
	server.opts.refound = 1;
	coord.state.losses = 3; /* before it had a part: nobody counts on it */
	coord.state.lease_ns = start + MS(100);
	ol_replica_tick(&server.replica, start);
	adopt(5, 0, IDS(SELF, B, C), start);
	ol_replica_tick(&server.replica, start + 1);
	assert_int_equal(server.replica.end_rc, 0);
	coord.state.losses++; /* and it is in the next one already */
	ol_replica_tick(&server.replica, start + 2);
	assert_int_equal(server.replica.end_rc, OL_E_FENCED);
}

/* A turn may take long: what it commits must lie within the lease, not only its last tick */
static void with_refound_nothing_is_committed_after_the_lease(void **state)
{
	uint64_t now_ns = ol_clock_ns();

	(void)state;
	server.opts.refound = 1;
	adopt(5, 0, IDS(SELF, B, C), start);
	server.replica.state.lease_ns = now_ns + MS(1000000);
	assert_true(ol_replica_is_leased(&server.replica));
	server.replica.state.lease_ns = now_ns;
	coord.state.lease_ns = now_ns + MS(1000000); /* renewed since the last tick */
	assert_true(ol_replica_is_leased(&server.replica));
	assert_int_equal(server.replica.end_rc, 0);
	server.replica.state.lease_ns = coord.state.lease_ns = now_ns;
	assert_false(ol_replica_is_leased(&server.replica));
	assert_int_equal(server.replica.end_rc, OL_E_FENCED);
	assert_false(ol_replica_is_leased(&server.replica));
}

static void a_founder_that_was_away_ends(void **state)
{
	(void)state;
	server.opts.refound = 1;
	server.replica.proposed.founded = 1; /* it may be in force by now */
	ol_replica_tick(&server.replica, start);
	assert_int_equal(server.replica.end_rc, 0);
	coord.state.losses++;
	ol_replica_tick(&server.replica, start + 1);
	assert_int_equal(server.replica.end_rc, OL_E_FENCED);
}

static void without_refound_a_lease_means_nothing(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	coord.state.lease_ns = start;
	ol_replica_tick(&server.replica, start + MS(10));
	assert_int_equal(server.replica.end_rc, 0);
	assert_true(ol_replica_is_leased(&server.replica));
}

static void who_has_no_part_yet_needs_no_lease(void **state)
{
	(void)state;
	server.opts.refound = 1;
	ol_replica_tick(&server.replica, start);
	assert_int_equal(server.replica.end_rc, 0);
}

static void who_is_passed_over_ends_after_a_session(void **state)
{
	(void)state;
	adopt(5, 0, IDS(A, B), start);
	registered(IDS(A, B, SELF));
	ol_replica_tick(&server.replica, start + MS(SESSION_MS) - 1);
	assert_int_equal(server.replica.end_rc, 0);
	ol_replica_tick(&server.replica, start + MS(SESSION_MS));
	assert_int_equal(server.replica.end_rc, OL_E_FENCED);
}

static void who_waits_for_its_turn_is_not_passed_over(void **state)
{
	(void)state;
	adopt(5, 1, IDS(A, B, C), start); /* another joins first */
	registered(IDS(A, B, C, SELF));
	ol_replica_tick(&server.replica, start + MS(2 * SESSION_MS));
	assert_int_equal(server.replica.end_rc, 0);
	adopt(6, 0, IDS(A, B, C), start + MS(3 * SESSION_MS)); /* whole: it is to spare */
	ol_replica_tick(&server.replica, start + MS(5 * SESSION_MS));
	assert_int_equal(server.replica.end_rc, 0);
	adopt(7, 0, IDS(A, B), start + MS(6 * SESSION_MS));
	registered(IDS(SELF)); /* nobody is there who could take it */
	ol_replica_tick(&server.replica, start + MS(8 * SESSION_MS));
	assert_int_equal(server.replica.end_rc, 0);
	registered(IDS(A, SELF));
	coord.state.connected = false;
	ol_replica_tick(&server.replica, start + MS(8 * SESSION_MS));
	assert_int_equal(server.replica.end_rc, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(a_suspect_is_not_in_the_next_view),
		TEST(a_predecessor_is_suspected_as_well),
		TEST(a_suspicion_ends_with_the_neighbour),
		TEST(what_a_joining_replica_suspected_is_forgotten),
		TEST(who_has_no_session_is_left_out_after_a_lease),
		TEST(who_is_back_in_time_stays),
		TEST(a_new_view_begins_to_count_anew),
		TEST(while_the_coordinator_is_away_nobody_is_left_out),
		TEST(who_waits_joins),
		TEST(who_is_not_connected_with_its_neighbours_adds_nobody),
		TEST(a_process_has_one_life_in_a_chain),
		TEST(a_server_of_another_job_is_not_taken),
		TEST(who_does_not_count_leaves_it_to_who_does),
		TEST(a_view_that_is_not_adopted_is_not_replaced),
		TEST(a_founder_puts_itself_forward_alone),
		TEST(a_proposal_is_repeated_after_a_while),
		TEST(a_joining_replica_founds_anew_when_no_head_can_commit),
		TEST(in_a_folder_it_waits_for_a_lease_alone),
		TEST(who_holds_what_was_committed_stays_when_it_is_forgotten),
		TEST(another_view_of_its_epoch_ends_no_holder),
		TEST(who_holds_nothing_yields),
		TEST(two_suspects_are_two_proposals),
		TEST(without_a_coordinator_nothing_is_proposed),
		TEST(a_server_does_not_leave_itself_out),
		TEST(a_joining_replica_leaves_it_to_who_counts),
		TEST(who_joins_does_not_count),
		TEST(without_refound_nobody_founds_anew),
		TEST(periodic_who_has_read_weights_once_counts),
		TEST(news_are_looked_at_once),
		TEST(who_has_a_part_is_not_passed_over),
		TEST(who_has_caught_up_becomes_the_tail),
		TEST(who_is_removed_ends),
		TEST(who_is_ordered_to_leave_has_not_failed),
		TEST(a_founder_founds_whatever_view_it_sees_first),
		TEST(an_older_view_is_not_adopted),
		TEST(with_refound_a_server_ends_with_its_lease),
		TEST(with_refound_a_server_ends_with_its_session),
		TEST(with_refound_nothing_is_committed_after_the_lease),
		TEST(a_founder_that_was_away_ends),
		TEST(without_refound_a_lease_means_nothing),
		TEST(who_has_no_part_yet_needs_no_lease),
		TEST(who_is_passed_over_ends_after_a_session),
		TEST(who_waits_for_its_turn_is_not_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
