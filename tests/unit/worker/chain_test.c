/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * chain_test.c -- at a shard's chain each push of a worker takes effect once, only the tail's answer
 * completes it, and a server has only the role of its view
 *
 * The servers A, B, C, D are puppets: the test decides what they send, and when. The coordinator is
 * the real one.
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "replication/coord/coord.h"
#include "unit/worker/worker_util.h"
#include "wire/auth.h"

enum {
	STEPS = 2000 /* of everybody: whatever can happen has happened */
};

static struct {
	struct ol_folder views;
	char addr[OL_FOLDER_MAX + 8];
	struct ol_coord *coord;
	uint32_t epoch;
	uint32_t founded;
	uint32_t every;
} chain;

static char no_key[] = "";

static void settle(void)
{
	for (unsigned i = 0; i < STEPS; i++)
		step();
}

/* The chain is `who` from now on, "AB" for instance; anew: with another history */
static void view_set(const char *who, bool anew)
{
	struct ol_coord_state state;
	struct ol_view view = { .epoch = chain.epoch + 1,
				.founded = anew ? chain.epoch + 1 : chain.founded,
				.history = anew ? chain.epoch + 1 : chain.founded,
				.origin = 1,
				.shard_count = 1,
				.wanted = 3,
				.every = chain.every,
				.count = (uint32_t)strlen(who) };

	for (uint32_t i = 0; i < view.count; i++) {
		const struct puppet *puppet = &world.puppets[who[i] - 'A'];

		view.replicas[i] = (struct ol_member){ .id = puppet->id,
						       .job = 1,
						       .proto = ol_wire_own.proto };
		snprintf(view.replicas[i].addr, sizeof(view.replicas[i].addr), "%s", puppet->addr);
	}
	ol_coord_look(chain.coord, 0, &state);
	ol_coord_propose(chain.coord, 0, state.version, &view);
	alarm(DEADLINE_S);
	do {
		sched_yield();
		ol_coord_look(chain.coord, 0, &state);
	} while (state.view.epoch != view.epoch);
	alarm(0);
	chain.epoch = view.epoch;
	chain.founded = view.founded;
}

static int world_open(void **unused)
{
	struct ol_coord_opts copts = { .job = "outlast",
				       .shard_count = 1,
				       .lease_ms = 60000,
				       .open_timeout_ms = 10000,
				       .mac = ol_auth_coord_mac,
				       .owner_mac = ol_auth_coord_owner_mac,
				       .mac_arg = no_key };
	char err[256];

	(void)unused;
	memset(&chain, 0, sizeof(chain));
	check_ok(ol_folder_make(&chain.views, "ol-chain-test-"));
	snprintf(chain.addr, sizeof(chain.addr), "dir:%s", chain.views.path);
	copts.addr = chain.addr;
	check_ok(ol_coord_open(&copts, &chain.coord, err, sizeof(err)));
	world_init();
	world.level = OL_LEVEL_COMMITTED;
	world.opts.coordinator = copts.addr;
	world.opts.outage = OL_OUTAGE_WAIT;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	ol_coord_close(chain.coord);
	ol_folder_drop(&chain.views);
	return 0;
}

/* Open the worker; all puppets let it in, with nothing of it applied */
static void worker_open(const char *who)
{
	if (who != NULL)
		view_set(who, true);
	open_welcomed(chain.epoch);
}

static struct puppet *server(unsigned which)
{
	return &world.puppets[which];
}

/* In which slot a push was, wherever it landed */
static uint32_t slot_of(uint64_t seq)
{
	for (unsigned i = 0; i < PUPPETS; i++) {
		for (unsigned k = 0; k < world.puppets[i].push_count; k++) {
			if (world.puppets[i].pushes[k].seq == seq)
				return world.puppets[i].pushes[k].slot;
		}
	}
	check(false);
	return 0;
}

/* The tail has applied up to seq, and says so of seq */
static void commit(struct puppet *tail, enum ol_wire_role role, uint64_t seq)
{
	puppet_publish(tail, tail->version + 1, (float)seq, seq);
	puppet_ack(tail, role, seq, slot_of(seq), 0);
}

static void drop(struct puppet *head, uint64_t seq)
{
	puppet_ack(head, OL_ROLE_WORKER, seq, slot_of(seq), OL_E_LATE);
}

static void let_in(unsigned which, enum ol_wire_role role, uint64_t seq)
{
	until(puppet_waits(server(which), role));
	puppet_welcome(server(which), role, chain.epoch, seq);
}

/* A server dies: whoever was connected to it finds the connection broken */
static void dies(unsigned which)
{
	for (unsigned role = OL_ROLE_WORKER; role < PUPPET_ROLES; role++)
		puppet_cut(server(which), role);
}

static void the_head_takes_pushes_and_the_tail_says_what_is_done(void **unused)
{
	struct ol_op one, two, three;

	(void)unused;
	worker_open("AB");
	check_ok(world.open_rc);
	push(1.0f, &one);
	push(2.0f, &two);
	push(3.0f, &three);
	until(server(A)->push_count == 3);
	settle();
	check(!one.done && !two.done);
	check_eq(server(B)->push_count, 0);
	commit(server(B), OL_ROLE_READER, 1);
	until(one.done);
	check_ok(one.status);
	check_eq(one.version, 1);
	drop(server(A), 1); /* it was done already */
	drop(server(A), 2);
	until(two.done);
	check_eq(two.status, OL_E_LATE);
	commit(server(B), OL_ROLE_READER, 3);
	until(three.done);
	check_ok(three.status);
	check_eq(link_stat().applied, 2);
	check_eq(link_stat().late, 1);
	pull(OL_PULL_NEWEST);
	check(ol_weights(world.worker, NULL)[0] == 3.0f); /* the tail's */
}

static void a_head_that_is_lost_is_replaced_and_its_pushes_go_out_once(void **unused)
{
	struct ol_op ops[4];

	(void)unused;
	worker_open("ABC");
	for (unsigned i = 0; i < 4; i++)
		push((float)i, &ops[i]);
	until(server(A)->push_count == 4);
	commit(server(C), OL_ROLE_READER, 1);
	until(ops[0].done);
	dies(A);
	until(link_stat().down);
	commit(server(C), OL_ROLE_READER, 2); /* what was on its way down the chain */
	until(ops[1].done);
	view_set("BC", false);
	let_in(B, OL_ROLE_WORKER, 3); /* push 3 had come to B */
	until(server(B)->push_count == 1);
	check_eq(server(B)->pushes[0].seq, 4);
	check(server(B)->pushes[0].value == 3.0f);
	check_eq(link_stat().resent, 1);
	check(!ops[2].done);
	commit(server(C), OL_ROLE_READER, 3);
	commit(server(C), OL_ROLE_READER, 4);
	until(ops[2].done && ops[3].done);
	settle();
	check_eq(server(B)->push_count, 1);
	check_eq(server(C)->sessions[OL_ROLE_READER].hellos, 1); /* it kept its connection */
	check_eq(link_stat().applied, 4);
	check_eq(link_stat().outages, 1);
}

static void what_a_dead_head_dropped_is_found_out_by_the_tails_silence(void **unused)
{
	struct ol_op ops[3];

	(void)unused;
	worker_open("ABC");
	for (unsigned i = 0; i < 3; i++)
		push(1.0f, &ops[i]);
	until(server(A)->push_count == 3);
	dies(A); /* it dropped 1 and ordered 2; nobody heard of it */
	view_set("BC", false);
	let_in(B, OL_ROLE_WORKER, 2);
	until(server(B)->push_count == 1);
	check_eq(server(B)->pushes[0].seq, 3);
	check(!ops[0].done);
	commit(server(C), OL_ROLE_READER, 2);
	until(ops[0].done && ops[1].done);
	check_eq(ops[0].status, OL_E_LATE);
	check_ok(ops[1].status);
	check(!ops[2].done); /* it was pushed to the head that is there */
	commit(server(C), OL_ROLE_READER, 3);
	until(ops[2].done);
	check_eq(link_stat().applied, 2);
	check_eq(link_stat().late, 1);
}

static void what_the_tail_had_passed_over_before_a_head_died_is_found_out_too(void **unused)
{
	struct ol_op ops[3];

	(void)unused;
	worker_open("ABC");
	for (unsigned i = 0; i < 3; i++)
		push(1.0f, &ops[i]);
	until(server(A)->push_count == 3);
	commit(server(C), OL_ROLE_READER, 2); /* A dropped 1, and its word for it is on its way */
	until(ops[1].done);
	check(!ops[0].done);
	dies(A);
	view_set("BC", false);
	let_in(B, OL_ROLE_WORKER, 2);
	until(ops[0].done);
	check_eq(ops[0].status, OL_E_LATE);
	until(server(B)->push_count == 1);
	check_eq(server(B)->pushes[0].seq, 3);
	check(!ops[2].done);
	commit(server(C), OL_ROLE_READER, 3);
	until(ops[2].done);
	check_eq(link_stat().applied, 2);
	check_eq(link_stat().late, 1);
}

static void the_tails_silence_says_nothing_of_what_the_new_head_has(void **unused)
{
	struct ol_op ops[4];

	(void)unused;
	worker_open("ABCD");
	push(1.0f, &ops[0]);
	push(1.0f, &ops[1]);
	until(server(A)->push_count == 2);
	dies(A);
	view_set("BCD", false);
	let_in(B, OL_ROLE_WORKER, 2);
	until(!link_stat().down);
	dies(D);
	view_set("BC", false);
	puppet_publish(server(C), 2, 1.0f, 2);
	let_in(C, OL_ROLE_READER, 2);
	until(ops[0].done && ops[1].done);
	push(1.0f, &ops[2]);
	push(1.0f, &ops[3]);
	until(server(B)->push_count == 2);
	commit(server(C), OL_ROLE_READER, 4);
	until(ops[3].done);
	check(!ops[2].done);
	puppet_ack(server(B), OL_ROLE_WORKER, 3, slot_of(3), OL_E_NONFINITE);
	until(ops[2].done);
	check_eq(ops[2].status, OL_E_NONFINITE);
}

static void a_tail_that_is_lost_changes_nothing_at_the_head(void **unused)
{
	struct ol_op ops[3];

	(void)unused;
	worker_open("ABC");
	push(1.0f, &ops[0]);
	push(2.0f, &ops[1]);
	until(server(A)->push_count == 2);
	dies(C); /* its ack of 1 was lost */
	until(link_stat().down);
	push(3.0f, &ops[2]);
	until(server(A)->push_count == 3); /* the head goes on taking pushes */
	view_set("AB", false);
	puppet_publish(server(B), 1, 1.0f, 1);
	let_in(B, OL_ROLE_READER, 1);
	until(ops[0].done);
	check_ok(ops[0].status);
	check(!ops[1].done);
	commit(server(B), OL_ROLE_READER, 2);
	commit(server(B), OL_ROLE_READER, 3);
	until(ops[1].done && ops[2].done);
	settle();
	check_eq(server(A)->push_count, 3);
	check_eq(server(A)->sessions[OL_ROLE_WORKER].hellos, 1);
	check_eq(link_stat().resent, 0);
	check_eq(link_stat().applied, 3);
}

static void a_tail_behind_what_is_committed_is_not_taken(void **unused)
{
	struct ol_op op;

	(void)unused;
	worker_open("AB");
	puppet_publish(server(B), 4, 0.0f, 0);
	push(1.0f, &op);
	until(server(A)->push_count == 1);
	commit(server(B), OL_ROLE_READER, 1);
	until(op.done);
	check_eq(op.version, 5);
	dies(B);
	view_set("AC", false);
	puppet_publish(server(C), 4, -1.0f, 0);
	let_in(C, OL_ROLE_READER, 0);
	until(server(C)->sessions[OL_ROLE_READER].hellos == 2);
	check_eq(link_stat().down, 1);
	puppet_publish(server(C), 5, 1.0f, 1);
	let_in(C, OL_ROLE_READER, 1);
	until(!link_stat().down);
	pull(OL_PULL_NEWEST);
	check(ol_weights(world.worker, NULL)[0] == 1.0f);
	check_eq(link_stat().lost, 0);
}

static void a_view_that_changes_while_joining_is_followed(void **unused)
{
	struct ol_op op;

	(void)unused;
	worker_open("ABC");
	dies(A);
	view_set("BC", false);
	until(puppet_waits(server(B), OL_ROLE_WORKER)); /* and B never answers */
	view_set("C", false);
	until(!puppet_connected(server(B), OL_ROLE_WORKER));
	until(!puppet_connected(server(C), OL_ROLE_READER)); /* one connection does for both */
	let_in(C, OL_ROLE_WORKER, 0);
	until(!link_stat().down);
	push(1.0f, &op);
	until(server(C)->push_count == 1);
	commit(server(C), OL_ROLE_WORKER, 1);
	until(op.done);
	check_ok(op.status);
}

static void a_chain_that_grows_gets_nothing_twice(void **unused)
{
	struct ol_op one, two, three;

	(void)unused;
	worker_open("A");
	push(1.0f, &one);
	push(2.0f, &two);
	until(server(A)->push_count == 2);
	commit(server(A), OL_ROLE_WORKER, 1);
	until(one.done);
	/* A knows already that it is the tail no more: what it has of 2 is not committed */
	puppet_cut(server(A), OL_ROLE_WORKER);
	puppet_publish(server(A), 2, 2.0f, 2);
	until(puppet_waits(server(A), OL_ROLE_WORKER));
	puppet_welcome(server(A), OL_ROLE_WORKER, chain.epoch + 1, 2);
	settle();
	check(!two.done);
	check_eq(link_stat().down, 1);
	view_set("AB", false);
	let_in(A, OL_ROLE_WORKER, 2);
	push(3.0f, &three);
	settle();
	check_eq(server(A)->push_count, 2); /* the tail's word comes first */
	puppet_publish(server(B), 1, 1.0f, 1);
	let_in(B, OL_ROLE_READER, 1);
	until(server(A)->push_count == 3);
	check_eq(server(A)->pushes[2].seq, 3);
	check(!two.done);
	commit(server(B), OL_ROLE_READER, 2);
	until(two.done);
	check_ok(two.status);
	commit(server(B), OL_ROLE_READER, 3);
	until(three.done);
	check_eq(link_stat().applied, 3);
}

static void a_chain_that_shrinks_to_its_head_is_asked_anew(void **unused)
{
	struct ol_op one, two;

	(void)unused;
	worker_open("AB");
	push(1.0f, &one);
	push(2.0f, &two);
	until(server(A)->push_count == 2);
	puppet_publish(server(A), 2, 2.0f, 2);
	dies(B);
	view_set("A", false);
	until(puppet_waits(server(A), OL_ROLE_WORKER));
	/* it does not know yet that it is alone: its word is a head's, and does not commit */
	puppet_welcome(server(A), OL_ROLE_WORKER, chain.epoch - 1, 2);
	until(server(A)->sessions[OL_ROLE_WORKER].hellos == 3);
	check(!one.done && !two.done);
	let_in(A, OL_ROLE_WORKER, 2);
	until(one.done && two.done);
	check_ok(one.status);
	check_ok(two.status);
	settle();
	check_eq(server(A)->push_count, 2);
	pull(OL_PULL_NEWEST);
	check(ol_weights(world.worker, NULL)[0] == 2.0f);
}

/* Which of them was dropped nobody can tell any more; how many the table does. */
static void a_welcome_tells_how_many_took_effect(void **unused)
{
	unsigned late = 0;
	struct ol_op ops[4];

	(void)unused;
	worker_open("ABC");
	for (unsigned i = 0; i < 4; i++)
		push(1.0f, &ops[i]);
	until(server(A)->push_count == 4);
	dies(A); /* it dropped 2 */
	dies(C); /* it committed 1 and 3 */
	view_set("B", false);
	puppet_publish(server(B), 2, 2.0f, 3);
	server(B)->dropped = 1;
	let_in(B, OL_ROLE_WORKER, 3);
	until(ops[0].done && ops[1].done && ops[2].done);
	for (unsigned i = 0; i < 3; i++)
		late += ops[i].status == OL_E_LATE;
	check_eq(late, 1);
	check_ok(ops[2].status); /* the newest is what the table names */
	until(server(B)->push_count == 1);
	check_eq(server(B)->pushes[0].seq, 4);
	commit(server(B), OL_ROLE_WORKER, 4);
	until(ops[3].done);
	check_eq(link_stat().applied, 3);
	check_eq(link_stat().late, 1);
	check_eq(link_stat().lost, 0);
}

static void a_chain_that_was_lost_is_founded_from_the_mirror(void **unused)
{
	struct ol_op one, two, three;
	const struct ol_hello *hello = &server(D)->sessions[OL_ROLE_WORKER].hello;

	(void)unused;
	worker_open("AC");
	view_set("AB", false);
	let_in(B, OL_ROLE_READER, 0);
	push(1.0f, &one);
	until(server(A)->push_count == 1);
	commit(server(B), OL_ROLE_READER, 1);
	until(one.done);
	pull(OL_PULL_NEWEST);
	puppet_cut(server(A), OL_ROLE_WORKER);
	let_in(A, OL_ROLE_WORKER, 1);
	check_eq(server(A)->sessions[OL_ROLE_WORKER].hello.mirror.bytes, 0); /* B has it all */
	push(2.0f, &two);
	until(server(A)->push_count == 2);
	commit(server(B), OL_ROLE_READER, 2);
	until(two.done); /* but only the dead know */
	dies(A);
	dies(B);
	view_set("D", true);
	until(puppet_waits(server(D), OL_ROLE_WORKER));
	check(hello->mirror.bytes != 0);
	check_eq(hello->mirror_version, 1);
	check_eq(hello->mirror_epoch, 1); /* of the history: sessions may be of any view in it */
	puppet_publish(server(D), 1, 1.0f, 1);
	let_in(D, OL_ROLE_WORKER, 1);
	until(server(D)->push_count == 1);
	check_eq(server(D)->pushes[0].seq, 2);
	check(server(D)->pushes[0].value == 2.0f);
	commit(server(D), OL_ROLE_WORKER, 2);
	until(link_stat().applied == 2);
	pull(OL_PULL_NEWEST);
	check(ol_weights(world.worker, NULL)[0] == 2.0f);
	push(3.0f, &three);
	until(server(D)->push_count == 2);
	dies(D);
	view_set("C", true); /* and this one found nothing */
	let_in(C, OL_ROLE_WORKER, 0);
	until(!link_stat().down);
	until(three.done); /* it was of weights that are gone */
	check_eq(three.status, OL_E_LOST);
	check_eq(link_stat().lost, 3);
	check_eq(link_stat().applied, 0);
	check_eq(server(C)->push_count, 0);
}

static void with_periodic_replication_the_head_is_read_and_may_go_back(void **unused)
{
	struct ol_op op = { .level = OL_LEVEL_COMMITTED };
	struct ol_push_info info = { .samples = 1 };
	float *grad;

	(void)unused;
	chain.every = 4;
	worker_open("AB");
	check_eq(server(B)->sessions[OL_ROLE_READER].hellos, 0);
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	grad[0] = grad[1] = 1.0f;
	check_eq(ol_push(world.worker, grad, &info, &op), -EINVAL); /* nothing is ever committed */
	op.level = OL_LEVEL_APPLIED;
	check_ok(ol_push(world.worker, grad, &info, &op));
	until(server(A)->push_count == 1);
	commit(server(A), OL_ROLE_WORKER, 1);
	until(op.done);
	pull(OL_PULL_NEWEST);
	dies(A);
	view_set("B", false);
	let_in(B, OL_ROLE_WORKER, 0);
	until(!link_stat().down);
	check_eq(link_stat().lost, 1);
	check_eq(server(B)->push_count, 0);
}

static void an_observer_reads_at_the_tail(void **unused)
{
	(void)unused;
	world.opts.observer = 1;
	puppet_publish(server(B), 1, 7.0f, 0);
	worker_open("AB");
	check(!puppet_connected(server(A), OL_ROLE_OBSERVER));
	pull(OL_PULL_NEWEST);
	check(ol_weights(world.worker, NULL)[0] == 7.0f);
	view_set("A", false);
	puppet_publish(server(A), 2, 8.0f, 0);
	let_in(A, OL_ROLE_OBSERVER, 0);
	until(!puppet_connected(server(B), OL_ROLE_OBSERVER));
	until(!link_stat().down);
	pull(OL_PULL_NEWEST);
	check(ol_weights(world.worker, NULL)[0] == 8.0f);
	check_eq(ol_worker_redirect(world.worker, 0, "@elsewhere"), -EPERM);
}

static void a_server_in_the_place_of_another_is_not_taken_for_it(void **unused)
{
	struct ol_op op;

	(void)unused;
	worker_open("A");
	push(1.0f, &op);
	until(server(A)->push_count == 1);
	dies(A);
	server(A)->id = 200; /* started again at its address, before there is a view with it */
	until(link_stat().down);
	settle();
	check_eq(server(A)->sessions[OL_ROLE_WORKER].hellos, 1);
	view_set("A", true);
	let_in(A, OL_ROLE_WORKER, 0);
	until(server(A)->push_count == 2);
	check_eq(server(A)->pushes[1].seq, 1);
	commit(server(A), OL_ROLE_WORKER, 1);
	until(op.done);
	check_ok(op.status);
}

static void opening_says_what_is_missing(void **unused)
{
	(void)unused;
	world.opts.connect_timeout_ms = 50;
	worker_open(NULL);
	check_eq(world.open_rc, OL_E_NO_SERVER);
	check(strstr(world.err, "shard 0 has no chain") != NULL);
	world.opts.outage = OL_OUTAGE_END;
	opener(NULL);
	check_eq(world.open_rc, -EINVAL);
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.servers = "@somewhere";
	opener(NULL);
	check_eq(world.open_rc, -EINVAL);
	check(strstr(world.err, "coordinator alone") != NULL);
	world.opts.servers = NULL;
	world.opts.coordinator = "dir:/tmp/ol-nobody-is-here";
	opener(NULL);
	check_eq(world.open_rc, OL_E_NO_SERVER);
	check(strstr(world.err, "coordinator dir:/tmp/ol-nobody-is-here") != NULL);
}

#define story(fn) cmocka_unit_test_setup_teardown(fn, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		story(the_head_takes_pushes_and_the_tail_says_what_is_done),
		story(a_head_that_is_lost_is_replaced_and_its_pushes_go_out_once),
		story(what_a_dead_head_dropped_is_found_out_by_the_tails_silence),
		story(what_the_tail_had_passed_over_before_a_head_died_is_found_out_too),
		story(the_tails_silence_says_nothing_of_what_the_new_head_has),
		story(a_tail_that_is_lost_changes_nothing_at_the_head),
		story(a_welcome_tells_how_many_took_effect),
		story(a_tail_behind_what_is_committed_is_not_taken),
		story(a_view_that_changes_while_joining_is_followed),
		story(a_chain_that_grows_gets_nothing_twice),
		story(a_chain_that_shrinks_to_its_head_is_asked_anew),
		story(a_chain_that_was_lost_is_founded_from_the_mirror),
		story(with_periodic_replication_the_head_is_read_and_may_go_back),
		story(an_observer_reads_at_the_tail),
		story(a_server_in_the_place_of_another_is_not_taken_for_it),
		story(opening_says_what_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
