/* SPDX-License-Identifier: BSD-3-Clause */

/* neighbours_test.c -- by heartbeats and connections a replica takes the right neighbours for dead */

#include <sys/eventfd.h>
#include <unistd.h>

#include "unit/replica/replica_util.h"
#include "wire/auth.h"

/* ---- heartbeats ---- */

static bool watch(uint64_t now_ns)
{
	enum ol_watch_says says = ol_replica_watch(&server.replica, OL_NEIGHBOUR_SUCCESSOR, NULL,
						   (struct ol_xport_rkey){ 0 }, now_ns);

	return says == OL_WATCH_SILENT || says == OL_WATCH_STILL;
}

static void beat(uint64_t value, int status, uint64_t now_ns)
{
	ol_word_store((_Atomic uint64_t *)(void *)beats, value);
	ol_replica_on_beat(&server.replica, OL_NEIGHBOUR_SUCCESSOR, status, now_ns);
}

static void a_heartbeat_is_read_four_times_a_lease(void **state)
{
	(void)state;
	assert_false(watch(start));
	assert_int_equal(reads, 1);
	assert_false(watch(start + MS(1))); /* the first is under way */
	assert_int_equal(reads, 1);
	beat(5, 0, start + MS(1));
	assert_false(watch(start + MS(LEASE_MS / 4) - 1));
	assert_int_equal(reads, 1);
	assert_false(watch(start + MS(LEASE_MS / 4)));
	assert_int_equal(reads, 2);
}

static void a_heartbeat_that_moves_keeps_its_server(void **state)
{
	(void)state;
	for (uint64_t at = 0; at < 20; at++) {
		assert_false(watch(start + MS(LEASE_MS / 2 * at)));
		beat(at, 0, start + MS(LEASE_MS / 2 * at));
	}
	assert_int_equal(reads, 20);
}

static void a_heartbeat_that_stands_still_for_a_lease_ends_its_server(void **state)
{
	(void)state;
	assert_false(watch(start));
	beat(5, 0, start);
	assert_false(watch(start + MS(LEASE_MS / 2)));
	beat(5, 0, start + MS(LEASE_MS / 2));
	assert_false(watch(start + MS(LEASE_MS - 1)));
	beat(5, 0, start + MS(LEASE_MS - 1));
	assert_false(watch(start + MS(LEASE_MS - 1 + LEASE_MS / 4)));
	beat(5, 0, start + MS(LEASE_MS - 1 + LEASE_MS / 4));
	assert_true(watch(start + MS(2 * LEASE_MS)));
}

static void a_heartbeat_that_never_began_stands_still_as_well(void **state)
{
	(void)state;
	assert_false(watch(start));
	beat(0, 0, start);
	assert_false(watch(start + MS(LEASE_MS)));
	beat(0, 0, start + MS(LEASE_MS));
	assert_true(watch(start + MS(LEASE_MS) + 1));
}

static void each_neighbour_has_a_heartbeat_of_its_own(void **state)
{
	(void)state;
	assert_false(watch(start));
	assert_int_equal(ol_replica_watch(&server.replica, OL_NEIGHBOUR_PREDECESSOR, NULL,
					  (struct ol_xport_rkey){ 0 }, start),
			 OL_WATCH_FINE);
	assert_int_equal(reads, 2);
	beat(5, 0, start);
	assert_false(server.replica.succ.dial.watch.posted);
	assert_true(server.replica.pred.watch.posted);
}

static void who_was_away_itself_asks_once_more(void **state)
{
	(void)state;
	assert_false(watch(start));
	beat(5, 0, start);
	/* this loop stood still: the heartbeat was not asked for in between */
	assert_false(watch(start + MS(10 * LEASE_MS)));
	assert_int_equal(reads, 2);
	beat(6, 0, start + MS(10 * LEASE_MS));
	assert_false(watch(start + MS(10 * LEASE_MS + 1)));
}

static void a_read_that_never_ends_is_no_heartbeat(void **state)
{
	(void)state;
	assert_false(watch(start));
	assert_false(watch(start + MS(LEASE_MS)));
	assert_true(watch(start + MS(LEASE_MS) + 1));
}

static void a_read_that_fails_is_no_heartbeat(void **state)
{
	(void)state;
	assert_false(watch(start));
	beat(5, 0, start);
	assert_false(watch(start + MS(LEASE_MS / 2)));
	beat(6, -EIO, start + MS(LEASE_MS / 2));
	assert_false(watch(start + MS(LEASE_MS)));
	assert_true(watch(start + MS(LEASE_MS + 1)) || server.replica.succ.dial.watch.posted);
	beat(5, 0, start + MS(LEASE_MS + 1));
	assert_true(watch(start + MS(LEASE_MS + 2)));
}

static void a_read_that_was_not_posted_is_posted_later(void **state)
{
	(void)state;
	read_rc = -EAGAIN;
	assert_false(watch(start));
	read_rc = 0;
	assert_false(watch(start + MS(LEASE_MS / 4)));
	assert_int_equal(reads, 2);
	assert_true(server.replica.succ.dial.watch.posted);
}

static void without_a_lease_no_heartbeat_is_read(void **state)
{
	(void)state;
	server.opts.lease_ms = 0;
	assert_false(watch(start));
	assert_false(watch(start + MS(100000)));
	assert_int_equal(reads, 0);
}

/* ---- connections ---- */

static struct ol_session sessions[2];
static uint64_t places[4]; /* sets of them */

static void session_live(uint32_t i, enum ol_wire_role role)
{
	sessions[i] = (struct ol_session){ .state = OL_SESSION_LIVE, .role = role };
	server.sessions.all = sessions;
	server.sessions.count = 2;
	server.sessions.taken = (struct ol_places){ .words = &places[0], .size = 2 };
	server.sessions.owing = (struct ol_places){ .words = &places[1], .size = 2 };
	server.sessions.pinning = (struct ol_places){ .words = &places[2], .size = 2 };
	server.sessions.arriving = (struct ol_places){ .words = &places[3], .size = 2 };
}

/* Does a reader's connection outlive the change from one chain to another? */
static bool reader_stays(const uint64_t *from, const uint64_t *to)
{
	setup(NULL);
	adopt(5, 0, from, start);
	session_live(0, OL_ROLE_READER);
	session_live(1, OL_ROLE_OBSERVER);
	sessions[1].state = OL_SESSION_JOINED;
	adopt(6, 0, to, start);
	assert_int_equal(sessions[1].state, OL_SESSION_JOINED); /* it has read nothing yet */
	return sessions[0].state == OL_SESSION_LIVE;
}

static void readers_end_where_another_is_the_tail(void **state)
{
	(void)state;
	assert_false(reader_stays(IDS(SELF), IDS(SELF, B)));
	assert_false(reader_stays(IDS(A, SELF), IDS(A, SELF, B)));
	assert_false(reader_stays(IDS(A, SELF), IDS(SELF, B)));
	/* all that was ordered is committed now: a new welcome says so */
	assert_false(reader_stays(IDS(SELF, B), IDS(SELF)));
	assert_true(reader_stays(IDS(A, SELF), IDS(SELF)));
	assert_true(reader_stays(IDS(A, SELF), IDS(B, SELF)));
	assert_true(reader_stays(IDS(A, SELF, C), IDS(SELF, C)));
}

static void a_predecessor_that_does_not_connect_is_suspected(void **state)
{
	(void)state;
	adopt(5, 0, IDS(A, SELF, C), start);
	ol_predecessor_tick(&server.replica, start + MS(5 * LEASE_MS));
	assert_int_equal(coord.proposals, 0); /* without weights this one cannot judge */
	server.replica.chain.loaded = true;
	ol_predecessor_tick(&server.replica, start + MS(2 * LEASE_MS));
	assert_int_equal(coord.proposals, 0);
	server.replica.pred.missed_ns = start + 1; /* its connection broke */
	ol_predecessor_tick(&server.replica, start + MS(2 * LEASE_MS) + 1);
	assert_int_equal(coord.proposals, 0);
	ol_predecessor_tick(&server.replica, start + MS(2 * LEASE_MS) + 2);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

static void a_predecessor_is_not_missed_while_its_memory_is_made(void **state)
{
	static struct ol_memory_job job = { .busy = true };
	uint64_t made = start + MS(10 * LEASE_MS);

	(void)state;
	adopt(5, 0, IDS(A, SELF), start);
	server.replica.chain.loaded = true;
	server.replica.pred.memory = &job;
	ol_predecessor_tick(&server.replica, start + MS(2 * LEASE_MS) + 1);
	ol_predecessor_tick(&server.replica, made);
	job.busy = false;
	ol_predecessor_tick(&server.replica, made + MS(2 * LEASE_MS));
	assert_int_equal(coord.proposals, 0);
	ol_predecessor_tick(&server.replica, made + MS(2 * LEASE_MS) + 1);
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
}

static void a_successor_that_does_not_answer_is_suspected(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	server.replica.succ.dial.state = OL_DIAL_KNOCKING;
	server.replica.succ.dial.since_ns = start;
	ol_successor_tick(&server.replica, start + MS(LEASE_MS));
	assert_int_equal(coord.proposals, 0);
	ol_successor_tick(&server.replica, start + MS(LEASE_MS) + 1);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
	assert_int_equal(server.replica.succ.dial.state, OL_DIAL_IDLE);
}

static void a_successor_whose_heartbeat_stands_still_is_suspected(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	ol_replica_tick(&server.replica, start + MS(LEASE_MS));
	assert_int_equal(coord.proposals, 0);
	ol_replica_tick(&server.replica, start + MS(LEASE_MS) + 1);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
	assert_false(server.replica.chain.succ_up);
}

static void who_refuses_connections_is_suspected_and_who_is_busy_is_not(void **state)
{
	(void)state;
	connect_rc = -EAGAIN;
	adopt(5, 0, IDS(SELF, B, C), start);
	assert_int_equal(coord.proposals, 0);
	connect_rc = -ECONNREFUSED;
	ol_successor_tick(&server.replica, start + 1);
	assert_int_equal(coord.proposals, 0); /* it is not yet time to try again */
	ol_successor_tick(&server.replica, start + MS(LEASE_MS));
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

static void assert_serves(bool worker, bool reader)
{
	assert_int_equal(ol_replica_serves(&server.replica, OL_ROLE_WORKER), worker);
	assert_int_equal(ol_replica_serves(&server.replica, OL_ROLE_READER), reader);
	assert_true(ol_replica_serves(&server.replica, OL_ROLE_OBSERVER));
	assert_false(ol_replica_serves(&server.replica, OL_ROLE_REPLICA));
}

static void the_head_takes_pushes_and_the_tail_is_read(void **state)
{
	(void)state;
	assert_serves(false, false); /* it is nothing yet */
	server.replica.chain.loaded = true;
	adopt(5, 0, IDS(SELF, B), start);
	connect_all();
	assert_serves(true, false);
	adopt(6, 0, IDS(SELF), start);
	assert_serves(true, true);
	setup(state);
	server.replica.chain.loaded = true;
	adopt(5, 0, IDS(A, SELF), start);
	connect_all();
	assert_serves(false, true);
	setup(state);
	server.replica.chain.loaded = true;
	adopt(5, 0, IDS(A, SELF, B), start);
	connect_all();
	assert_serves(false, false);
}

/* Nothing goes to a server any more that is not in the view, or is elsewhere in it */
static void who_is_no_successor_any_more_is_let_go(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B), start);
	connect_all();
	server.replica.succ.dial.watch.posted = true;
	adopt(6, 0, IDS(SELF), start);
	assert_int_equal(server.replica.succ.dial.state, OL_DIAL_NONE);
	assert_false(server.replica.succ.dial.watch.posted);
	adopt(7, 1, IDS(SELF, B), start);
	connect_all();
	adopt(8, 0, IDS(B, SELF), start);
	assert_int_equal(server.replica.succ.dial.state, OL_DIAL_NONE);
}

static int wake_fd;
static uint64_t told_ns; /* when a connection that this end began tells its end */

/* A predecessor's session, whose hello waits; until hello_over() */
static void hello_comes(uint64_t id, uint32_t epoch)
{
	static const struct ol_geometry geo = { .param_count = 16,
						.shard_len = 16,
						.shard_count = 1,
						.workers_max = 1,
						.window = 2,
						.groups = 1 };

	setup(NULL);
	told_ns = start;
	wake_fd = eventfd(0, EFD_CLOEXEC);
	memset(&server.replica.ring, 0, sizeof(server.replica.ring));
	memset(&server.memory, 0, sizeof(server.memory));
	assert_int_equal(ol_memory_start(&server.memory, &ops, wake_fd), 0);
	assert_int_equal(ol_ring_open(&server.replica.ring, &ops, NULL, &server.memory, &geo,
				      OL_SLAB_NODE_ANY),
			 0);
	adopt(5, 0, IDS(A, SELF), start);
	server.replica.chain.loaded = true;
	session_live(0, OL_ROLE_REPLICA);
	sessions[0].state = OL_SESSION_JOINED;
	server.replica.pred.state = OL_PREDECESSOR_JOINED;
	server.replica.pred.hello = (struct ol_chain_hello){ .id = id, .epoch = epoch };
	server.replica.suspects[OL_NEIGHBOUR_PREDECESSOR] = A;
	ol_replica_tick(&server.replica, start);
}

static void hello_over(void)
{
	ol_ring_close(&server.replica.ring);
	ol_memory_stop(&server.memory);
	close(wake_fd);
}

static enum ol_predecessor_state hello_waits(uint64_t id, uint32_t epoch)
{
	hello_comes(id, epoch);
	hello_over();
	assert_int_equal(sessions[0].state == OL_SESSION_FREE,
			 server.replica.pred.state == OL_PREDECESSOR_NONE);
	return server.replica.pred.state;
}

static void a_hello_waits_for_the_view_that_it_is_of(void **state)
{
	(void)state;
	assert_int_equal(hello_waits(A, 6), OL_PREDECESSOR_JOINED);
	assert_int_equal(hello_waits(C, 6), OL_PREDECESSOR_JOINED);
	assert_int_equal(hello_waits(C, 5), OL_PREDECESSOR_NONE); /* is not the predecessor */
	assert_int_equal(hello_waits(C, 4), OL_PREDECESSOR_NONE);
	assert_int_equal(hello_waits(A, 5), OL_PREDECESSOR_LIVE);
	assert_int_equal(hello_waits(A, 4), OL_PREDECESSOR_LIVE);
	assert_true(server.replica.chain.pred_up);
	assert_int_equal(server.replica.suspects[OL_NEIGHBOUR_PREDECESSOR], 0);
}

static void an_old_predecessor_can_write_no_more(void **state)
{
	const struct ol_slab *old;

	(void)state;
	hello_comes(A, 5);
	old = server.replica.ring.slab;
	assert_int_equal(server.replica.pred.state, OL_PREDECESSOR_LIVE);
	adopt(6, 0, IDS(SELF), start + 1);
	assert_int_equal(sessions[0].state, OL_SESSION_FREE);
	assert_ptr_not_equal(server.replica.ring.slab, old);
	assert_int_equal(server.replica.pred.state, OL_PREDECESSOR_NONE);
	assert_false(server.replica.chain.pred_up);
	hello_over();

	/* its connection breaks: what was on its way lands in memory that nobody reads */
	hello_comes(A, 5);
	old = server.replica.ring.slab;
	server.replica.now_ns = start + 7;
	ol_serve_end(&server, &sessions[0], NULL, false);
	assert_ptr_not_equal(server.replica.ring.slab, old);
	assert_false(server.replica.chain.pred_up);
	assert_int_equal(server.replica.pred.missed_ns, start + 7);
	assert_int_equal(server.replica.end_rc, 0);
	hello_over();
}

static void the_next_predecessor_is_not_fenced_off(void **state)
{
	(void)state;
	hello_comes(C, 6); /* it has adopted a view that is not yet seen here */
	adopt(6, 0, IDS(C, SELF), start + 1);
	assert_int_equal(server.replica.pred.state, OL_PREDECESSOR_LIVE);
	assert_int_equal(server.replica.chain.view.epoch, 6);
	hello_over();
}

static void a_predecessor_whose_heartbeat_stands_still_is_suspected(void **state)
{
	(void)state;
	hello_comes(A, 5);
	ol_replica_tick(&server.replica,
			start); /* asks for its heartbeat, and the read does not end */
	ol_replica_tick(&server.replica, start + MS(LEASE_MS));
	assert_int_equal(coord.proposals, 0);
	ol_replica_tick(&server.replica, start + MS(LEASE_MS) + 1);
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	assert_int_equal(sessions[0].state, OL_SESSION_FREE);
	hello_over();
}

/* What the transport tells of the predecessor's connection */
static void pred_tells(enum ol_xport_event_type type, uint64_t cookie, int status)
{
	struct ol_xport_conn conn = { .user = &sessions[0] };
	struct ol_xport_event event = {
		.type = type, .conn = &conn, .cookie = cookie, .status = status
	};

	ol_server_on_event(&server, &event, start);
}

/* The end of a connection that this end began */
static void call_ends(int status, const void *priv, uint32_t priv_len)
{
	struct ol_xport_event event = { .type = OL_XPORT_CONN_DOWN,
					.conn = &called,
					.status = status,
					.priv = priv,
					.priv_len = priv_len };

	ol_server_on_event(&server, &event, told_ns);
}

/* As a live predecessor would answer a knock */
static void call_is_challenged(void)
{
	uint8_t bytes[OL_WIRE_REJECT_BYTES];
	struct ol_wire_reject reject = { .code = OL_REJECT_CHALLENGE };

	ol_auth_reject(server.job_key, &server.replica.lost.call.said, &reject);
	ol_wire_reject_encode(&reject, bytes);
	call_ends(-ECONNREFUSED, bytes, sizeof(bytes));
}

/* As somebody without the key answers a knock */
static void knock_is_answered_by(const char *whose, const struct ol_dial *dial)
{
	uint8_t bytes[OL_WIRE_REJECT_BYTES];
	struct ol_wire_reject reject = { .code = OL_REJECT_CHALLENGE };

	ol_auth_reject(whose, &dial->said, &reject);
	ol_wire_reject_encode(&reject, bytes);
	call_ends(-ECONNREFUSED, bytes, sizeof(bytes));
}

static void a_stranger_in_the_predecessors_place_does_not_end_it(void **state)
{
	(void)state;
	hello_comes(A, 5);
	connect_rc = 0;
	pred_tells(OL_XPORT_CONN_DOWN, 0, -ETIMEDOUT);
	for (uint64_t at = 1; at <= LEASE_MS; at++) {
		told_ns = start + MS(at);
		if (server.replica.lost.call.conn != NULL)
			knock_is_answered_by("another key", &server.replica.lost.call);
		ol_replica_tick(&server.replica, told_ns);
	}
	assert_int_equal(coord.proposals, 0);
	/* nor does it keep it in the chain */
	ol_replica_tick(&server.replica, start + MS(LEASE_MS + 1));
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	hello_over();
}

static void a_predecessor_whose_connection_breaks_is_suspected(void **state)
{
	(void)state;
	hello_comes(A, 5);
	assert_int_equal(coord.proposals, 0);
	connect_rc = -ECONNREFUSED; /* nobody listens at its address */
	pred_tells(OL_XPORT_CONN_DOWN, 0, -ECONNRESET);
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	assert_int_equal(coord.proposals, 1);
	assert_int_equal(sessions[0].state, OL_SESSION_FREE);
	hello_over();
}

/* Called within the event: what tells of a death does not wait for a timer */
static void a_predecessor_that_left_is_dead_once_nobody_answers_for_it(void **state)
{
	(void)state;
	hello_comes(A, 5);
	connect_rc = 0;
	pred_tells(OL_XPORT_CONN_DOWN, 0, 0);
	assert_int_equal(calls, 1);
	assert_int_equal(coord.proposals, 0);
	call_ends(-ECONNREFUSED, "zeros", 5); /* its host has one, which is short of places */
	assert_int_equal(coord.proposals, 0);
	ol_replica_tick(&server.replica, start + MS(3));
	assert_int_equal(calls, 2);
	call_ends(-ECONNREFUSED, NULL, 0);
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	hello_over();
}

static void a_predecessor_that_lives_has_two_leases_to_come_back(void **state)
{
	uint64_t at;

	(void)state;
	hello_comes(A, 5);
	connect_rc = 0;
	pred_tells(OL_XPORT_CONN_DOWN, 0, -ETIMEDOUT);
	call_is_challenged();
	for (at = 1; at <= 2 * LEASE_MS; at++) {
		told_ns = start + MS(at);
		ol_replica_tick(&server.replica, told_ns);
		if (server.replica.lost.call.conn != NULL && at % 7 == 0)
			call_is_challenged();
	}
	assert_int_equal(coord.proposals, 0);
	assert_in_range(calls, 4, 10); /* it may die meanwhile */
	ol_replica_tick(&server.replica, start + MS(2 * LEASE_MS + 1));
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	hello_over();
}

static void a_predecessor_that_does_not_answer_has_one(void **state)
{
	(void)state;
	hello_comes(A, 5);
	connect_rc = 0;
	pred_tells(OL_XPORT_CONN_DOWN, 0, -ETIMEDOUT);
	for (uint64_t at = 1; at <= LEASE_MS; at++)
		ol_replica_tick(&server.replica, start + MS(at));
	assert_int_equal(coord.proposals, 0);
	ol_replica_tick(&server.replica, start + MS(LEASE_MS + 1));
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	assert_null(server.replica.lost.call.conn);
	hello_over();
}

static void a_predecessor_that_came_back_is_called_no_more(void **state)
{
	(void)state;
	hello_comes(A, 5);
	connect_rc = 0;
	pred_tells(OL_XPORT_CONN_DOWN, 0, -ETIMEDOUT);
	assert_non_null(server.replica.lost.call.conn);
	session_live(0, OL_ROLE_REPLICA);
	server.replica.pred.state = OL_PREDECESSOR_JOINED;
	server.replica.pred.hello = (struct ol_chain_hello){ .id = A, .epoch = 5 };
	ol_replica_tick(&server.replica, start + MS(LEASE_MS / 2));
	assert_int_equal(server.replica.pred.state, OL_PREDECESSOR_LIVE);
	assert_null(server.replica.lost.call.conn);
	server.replica.pred.watch.posted = true;
	server.replica.pred.watch.post_ns = start + MS(2 * LEASE_MS);
	ol_replica_tick(&server.replica, start + MS(2 * LEASE_MS));
	assert_int_equal(coord.proposals, 0);
	hello_over();
}

static void a_predecessor_that_broke_a_rule_is_suspected_at_once(void **state)
{
	(void)state;
	hello_comes(A, 5);
	pred_tells(OL_XPORT_CONN_DOWN, 0, -EACCES);
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	hello_over();
}

/* In a folder a registration ends with its process */
static void a_lost_neighbour_that_is_registered_no_more_is_dead(void **state)
{
	(void)state;
	coord.state.lease_ns = UINT64_MAX;
	hello_comes(A, 5);
	coord.state.lease_ns = UINT64_MAX;
	connect_rc = 0;
	pred_tells(OL_XPORT_CONN_DOWN, 0, 0);
	call_is_challenged(); /* by another process, which has its address now */
	registered(IDS(SELF));
	ol_replica_tick(&server.replica, start + MS(1));
	assert_view(&coord.proposed, 6, 0, IDS(SELF));
	hello_over();
}

/* The connection to the successor ends with this status */
static void succ_ends(int status)
{
	struct ol_xport_event event = { .type = OL_XPORT_CONN_DOWN,
					.conn = &called,
					.status = status };

	server.replica.succ.dial.conn = &called;
	ol_server_on_event(&server, &event, start);
}

static void a_successor_whose_connection_breaks_is_dialled_again(void **state)
{
	static const int reasons[] = { 0, -ETIMEDOUT, -EIO, -ECONNABORTED };

	for (unsigned i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		setup(state);
		adopt(5, 0, IDS(SELF, B, C), start);
		connect_all();
		server.replica.succ.lost_ns = 0;
		connect_rc = 0;
		calls = 0;
		succ_ends(reasons[i]);
		assert_false(server.replica.chain.succ_up);
		ol_successor_tick(&server.replica, start + MS(3));
		assert_int_equal(calls, 1);
		assert_int_equal(server.replica.succ.dial.state, OL_DIAL_KNOCKING);
		/* the network is away: each attempt is given up, and the next one made */
		for (uint64_t at = 4; at < LEASE_MS; at++)
			ol_successor_tick(&server.replica, start + MS(at));
		assert_in_range(calls, 3, 6);
		assert_int_equal(coord.proposals, 0);
		while (coord.proposals == 0)
			ol_successor_tick(&server.replica, start + MS(LEASE_MS) + 1);
		assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
	}
}

/* A knock of this end is answered without the key, or a proof accepted without it */
static void a_stranger_in_the_successors_place_does_not_end_it(void **state)
{
	struct ol_dial *dial = &server.replica.succ.dial;
	uint8_t bytes[OL_WIRE_ACCEPT_BYTES] = { 0 };
	struct ol_xport_event up = {
		.type = OL_XPORT_CONN_UP, .conn = &called, .priv = bytes, .priv_len = sizeof(bytes)
	};

	(void)state;
	connect_rc = 0;
	adopt(5, 0, IDS(SELF, B, C), start);
	told_ns = start;
	assert_int_equal(dial->state, OL_DIAL_KNOCKING);
	knock_is_answered_by("another key", dial);
	assert_int_equal(dial->state, OL_DIAL_IDLE);
	ol_successor_tick(&server.replica, start + MS(3));
	assert_int_equal(dial->state, OL_DIAL_KNOCKING);
	dial->state = OL_DIAL_PROVING;
	ol_server_on_event(&server, &up, start + MS(4)); /* malformed */
	assert_int_equal(dial->state, OL_DIAL_IDLE);
	assert_int_equal(coord.proposals, 0);
	/* nor does it keep it in the chain */
	ol_successor_tick(&server.replica, start + MS(LEASE_MS) + 1);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

static void a_successor_is_dead_once_nobody_listens_there(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	connect_rc = 0;
	succ_ends(0);
	ol_successor_tick(&server.replica, start + MS(3));
	succ_ends(-ECONNREFUSED);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

static void a_successor_that_broke_a_rule_is_suspected_at_once(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start);
	connect_all();
	succ_ends(-EACCES);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

/* How long it was silent before its connection broke is a part of the lease */
static void a_lost_neighbour_has_been_silent_since_its_heartbeat_was_asked_for(void **state)
{
	(void)state;
	adopt(5, 0, IDS(SELF, B, C), start - MS(LEASE_MS / 2));
	connect_all();
	server.replica.succ.lost_ns = 0;
	server.replica.succ.dial.watch.post_ns = start - MS(LEASE_MS / 2);
	connect_rc = 0;
	succ_ends(-ETIMEDOUT);
	assert_int_equal(server.replica.succ.lost_ns, start - MS(LEASE_MS / 2));
	ol_successor_tick(&server.replica, start + MS(LEASE_MS / 2));
	assert_int_equal(coord.proposals, 0);
	ol_successor_tick(&server.replica, start + MS(LEASE_MS / 2) + 1);
	assert_view(&coord.proposed, 6, 0, IDS(SELF, C));
}

static void a_heartbeat_of_the_predecessor_that_was_read_is_taken(void **state)
{
	(void)state;
	hello_comes(A, 5);
	ol_replica_tick(&server.replica, start);
	assert_true(server.replica.pred.watch.posted);
	pred_tells(OL_XPORT_DONE, OL_REPLICA_COOKIE_BEAT, 0);
	assert_false(server.replica.pred.watch.posted);
	hello_over();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(a_heartbeat_is_read_four_times_a_lease),
		TEST(a_heartbeat_that_moves_keeps_its_server),
		TEST(a_heartbeat_that_stands_still_for_a_lease_ends_its_server),
		TEST(who_was_away_itself_asks_once_more),
		TEST(a_read_that_never_ends_is_no_heartbeat),
		TEST(a_read_that_fails_is_no_heartbeat),
		TEST(a_read_that_was_not_posted_is_posted_later),
		TEST(without_a_lease_no_heartbeat_is_read),
		TEST(readers_end_where_another_is_the_tail),
		TEST(a_predecessor_that_does_not_connect_is_suspected),
		TEST(a_predecessor_is_not_missed_while_its_memory_is_made),
		TEST(a_successor_that_does_not_answer_is_suspected),
		TEST(a_successor_whose_heartbeat_stands_still_is_suspected),
		TEST(who_refuses_connections_is_suspected_and_who_is_busy_is_not),
		TEST(the_head_takes_pushes_and_the_tail_is_read),
		TEST(a_stranger_in_the_predecessors_place_does_not_end_it),
		TEST(a_predecessor_whose_connection_breaks_is_suspected),
		TEST(a_predecessor_that_left_is_dead_once_nobody_answers_for_it),
		TEST(a_predecessor_that_lives_has_two_leases_to_come_back),
		TEST(a_predecessor_that_does_not_answer_has_one),
		TEST(a_predecessor_that_came_back_is_called_no_more),
		TEST(a_predecessor_that_broke_a_rule_is_suspected_at_once),
		TEST(a_lost_neighbour_that_is_registered_no_more_is_dead),
		TEST(a_successor_whose_connection_breaks_is_dialled_again),
		TEST(a_stranger_in_the_successors_place_does_not_end_it),
		TEST(a_successor_is_dead_once_nobody_listens_there),
		TEST(a_successor_that_broke_a_rule_is_suspected_at_once),
		TEST(a_lost_neighbour_has_been_silent_since_its_heartbeat_was_asked_for),
		TEST(a_heartbeat_of_the_predecessor_that_was_read_is_taken),
		TEST(who_is_no_successor_any_more_is_let_go),
		TEST(a_heartbeat_that_never_began_stands_still_as_well),
		TEST(each_neighbour_has_a_heartbeat_of_its_own),
		TEST(an_old_predecessor_can_write_no_more),
		TEST(the_next_predecessor_is_not_fenced_off),
		TEST(a_predecessor_whose_heartbeat_stands_still_is_suspected),
		TEST(a_hello_waits_for_the_view_that_it_is_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
