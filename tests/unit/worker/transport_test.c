/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * transport_test.c -- a worker makes the right calls of its transport and coordinator, needs no more
 * messages than documented, and repeats a read or write that the transport does not take at once
 *
 * The test stands between the worker and these two: the linker sends ol_xport_find() and
 * ol_coord_open() here. The server A is a puppet with the plain transport.
 */
#include <errno.h>

#include "support/wrap.h"
#include "unit/worker/worker_util.h"
#include "worker/worker_internal.h"

enum {
	EPOCH = 3,
	DEFAULT_MARK = 77,
	STEPS = 1000, /* of everybody: whatever can happen has happened */
	LEASE_MS = 20
};

static struct {
	bool on; /* whoever asks for a transport gets the test's */
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops;
	struct ol_xport_opts asked; /* for, when it was opened */
	bool no_map;
	unsigned full; /* so many reads are not taken now */
	bool keeps_beats; /* reads of heartbeats are never done … */
	bool keeps_reads; /* … nor any other */
	int coord_rc; /* of opening the coordinator */
	unsigned writes;
	unsigned pins; /* writes of the word that keeps a version … */
	unsigned pins_full; /* … of which so many, behind the first, are not taken */
	unsigned overtakes; /* so many times the version is gone by when its line is read again */
} seam;

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	return seam.on ? &seam.ops : __real_ol_xport_find(name);
}

WRAP(void, ol_xport_opts_init, struct ol_xport_opts *opts)
{
	__real_ol_xport_opts_init(opts);
	if (seam.on)
		opts->inflight_max = DEFAULT_MARK;
}

/* It says nothing of its own */
WRAP(int, ol_coord_open, const struct ol_coord_opts *opts, struct ol_coord **ret_coord, char *err,
     size_t err_bytes)
{
	(void)opts;
	(void)ret_coord;
	(void)err;
	(void)err_bytes;
	return seam.coord_rc;
}

static int seam_open(const struct ol_xport_opts *opts, struct ol_xport **ret_xport)
{
	seam.asked = *opts;
	return seam.real->open(opts, ret_xport);
}

static int seam_map(struct ol_xport_conn *conn, struct ol_xport_rkey src, uint64_t off,
		    size_t bytes, void *at)
{
	return seam.no_map ? -EOPNOTSUPP : seam.real->map(conn, src, off, bytes, at);
}

static int seam_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	struct puppet *a = &world.puppets[A];

	if (seam.full > 0) {
		seam.full--;
		return -EAGAIN;
	}
	if (read->src_off == OL_BOARD_STAT_OFF ? seam.keeps_beats : seam.keeps_reads)
		return 0;
	if (seam.overtakes > 0 && (read->flags & OL_XPORT_AFTER_READS) != 0) {
		seam.overtakes--;
		for (unsigned i = 0; i < OL_SNAPSHOTS; i++)
			puppet_publish(a, a->version + 1, 4.0f, 0);
	}
	return seam.real->post_read(conn, read);
}

static int seam_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	seam.writes++;
	if (write->dst_off == OL_PIN_OFF && write->segs[0].bytes == sizeof(uint64_t) &&
	    seam.pins++ > 0 && seam.pins_full > 0) {
		seam.pins_full--;
		return -EAGAIN;
	}
	return seam.real->post_write(conn, write);
}

static int world_open(void **unused)
{
	(void)unused;
	memset(&seam, 0, sizeof(seam));
	world_init();
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	world.opts.servers = world.puppets[A].addr;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.level = OL_LEVEL_APPLIED;
	seam.real = __real_ol_xport_find("shm");
	seam.ops = *seam.real;
	seam.ops.open = seam_open;
	seam.ops.map = seam_map;
	seam.ops.post_read = seam_read;
	seam.ops.post_write = seam_write;
	seam.on = true;
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	return 0;
}

static void worker_open(void)
{
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
}

static void settle(void)
{
	for (unsigned i = 0; i < STEPS; i++)
		step();
}

static void a_worker_says_what_it_needs(void **unused)
{
	(void)unused;
	world.opts.device = "some";
	world.opts.retry_timeout_ms = 123;
	world.opts.ack_timeout = 20;
	world.opts.retries = 5;
	world.opts.rnr_timer = 14;
	world.opts.rnr_retries = 4;
	world.opts.traffic_class = 104;
	world.opts.path_mtu = 1024;
	worker_open();
	assert_string_equal(seam.asked.device, "some");
	assert_int_equal(seam.asked.retry_timeout_ms, 123);
	assert_int_equal(seam.asked.wire.ack_timeout, 20);
	assert_int_equal(seam.asked.wire.retries, 5);
	assert_int_equal(seam.asked.wire.rnr_timer, 14);
	assert_int_equal(seam.asked.wire.rnr_retries, 4);
	assert_int_equal(seam.asked.wire.traffic_class, 104);
	assert_int_equal(seam.asked.wire.path_mtu, 1024);
	assert_int_equal(seam.asked.conns_max, OL_PEERS);
	assert_int_equal(seam.asked.doorbells_max, OL_SLOTS_MAX + 2 * OL_WINDOW_MAX);
	assert_non_null(seam.asked.log);
	assert_int_equal(seam.asked.inflight_max, DEFAULT_MARK); /* of the rest, what is usual */
}

/* What a coordinator's failure is to who opens a worker */
static void coordinator_gives(int rc, int means)
{
	seam.coord_rc = rc;
	opener(NULL);
	assert_int_equal(world.open_rc, means);
	assert_non_null(strstr(world.err, "coordinator dir:/somewhere: "));
	assert_non_null(strstr(world.err, ol_strerror(means)));
}

static void what_a_coordinator_says_is_told(void **unused)
{
	(void)unused;
	world.opts.servers = NULL;
	world.opts.coordinator = "dir:/somewhere";
	coordinator_gives(-EACCES, OL_E_AUTH);
	coordinator_gives(-ENOENT, OL_E_NO_SERVER);
	coordinator_gives(-ETIMEDOUT, OL_E_NO_SERVER);
	coordinator_gives(-EIO, -EIO);
}

/* A pull is under way when the server goes: the weights that are here do */
static void a_pull_that_nobody_answers_ends_with_the_server(void **unused)
{
	struct ol_op op = { 0 };

	(void)unused;
	world.opts.outage = OL_OUTAGE_CONTINUE;
	worker_open();
	pull(OL_PULL_NEWEST);
	seam.keeps_reads = true;
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, &op));
	settle();
	assert_false(op.done);
	puppet_cut(&world.puppets[A], OL_ROLE_WORKER);
	until(op.done);
	check_ok(op.status);
	assert_true(op.local);
	assert_true(link_stat().down);
}

static void a_read_that_is_not_taken_now_is_made_later(void **unused)
{
	(void)unused;
	worker_open();
	for (unsigned i = 1; i <= 3; i++) {
		seam.full = i;
		pull(OL_PULL_NEWEST);
		assert_int_equal(seam.full, 0);
	}
	assert_int_equal(link_stat().outages, 0);
	assert_true(ol_weights(world.worker, NULL)[0] == 4.0f);
}

static void a_version_that_never_holds_still_is_told(void **unused)
{
	struct ol_op op = { 0 };

	(void)unused;
	world.opts.pull_retries_max = 3;
	worker_open();
	seam.overtakes = 4;
	check_ok(ol_pull(world.worker, OL_PULL_NEWEST, &op));
	until(op.done);
	assert_int_equal(op.status, OL_E_TORN);
	assert_int_equal(seam.overtakes, 0);
	pull(OL_PULL_NEWEST);
}

/* What keeps a version in its place is taken back, however often there is no room to say so */
static void a_version_is_not_kept_for_ever(void **unused)
{
	const struct puppet_session *session = &world.puppets[A].sessions[OL_ROLE_WORKER];
	const uint64_t *pin;

	(void)unused;
	worker_open();
	pin = (const uint64_t *)(const void *)((uint8_t *)session->landing->addr + OL_PIN_OFF);
	seam.overtakes = 1;
	seam.pins_full = 3;
	pull(OL_PULL_NEWEST);
	assert_int_not_equal(*pin, 0);
	settle();
	assert_int_equal(seam.pins_full, 0);
	assert_int_equal(seam.pins, 5);
	assert_int_equal(*pin, 0);
}

static void a_heartbeat_that_is_never_read_ends_the_link(void **unused)
{
	(void)unused;
	world.opts.lease_ms = LEASE_MS;
	worker_open();
	seam.keeps_beats = true;
	until(link_stat().down);
	assert_int_equal(link_stat().reason, -ETIMEDOUT);
}

/* To the only push */
static void answer(struct ol_op *op)
{
	struct puppet *a = &world.puppets[A];

	puppet_ack(a, OL_ROLE_WORKER, a->pushes[0].seq, a->pushes[0].slot, 0);
	until(op->done);
	check_ok(op->status);
}

static void overtaken(unsigned times, unsigned bells)
{
	seam.overtakes = times;
	pull(OL_PULL_NEWEST);
	settle();
	assert_int_equal(world.puppets[A].pins, bells);
}

/* So the server never has more bells of pins than it has sent acks, and one */
static void a_pin_rings_once_between_two_acks(void **unused)
{
	struct ol_op op = { .level = OL_LEVEL_APPLIED };

	(void)unused;
	worker_open();
	overtaken(0, 0);
	overtaken(3, 1);
	overtaken(2, 1);
	push(1.0f, &op);
	until(world.puppets[A].push_count == 1);
	answer(&op);
	settle();
	assert_int_equal(world.puppets[A].pins, 1); /* it has none now */
	overtaken(2, 2);
	overtaken(1, 2);
}

/* Say that all of a gradient from `first` on is there; the server has heard `parts` such words
 * then */
static void announce(float *grad, uint64_t first, unsigned parts)
{
	const struct puppet *a = &world.puppets[A];

	check_ok(ol_grad_ready(world.worker, grad, first));
	settle();
	assert_int_equal(a->parts, parts);
	assert_int_equal(a->part_first, first);
}

/* Of a gradient of so many parts the last ones are announced, and then it is pushed */
static void announced(unsigned parts)
{
	struct ol_push_info info = { .samples = 1, .loss = 1.0f };
	struct ol_op op = { .level = OL_LEVEL_APPLIED };
	struct puppet *a = &world.puppets[A];
	uint64_t first = (uint64_t)parts * OL_PART_FLOATS;
	float *grad;

	puppet_size(a, first);
	puppet_publish(a, 1, 4.0f, 0);
	worker_open();
	check_ok(ol_grad_try_acquire(world.worker, &grad));
	for (uint64_t i = 0; i < (uint64_t)parts * OL_PART_FLOATS; i++)
		grad[i] = 3.0f;
	for (unsigned i = 1; i < parts; i++) {
		first -= OL_PART_FLOATS;
		announce(grad, first, i);
		announce(grad, first, i); /* nothing is new */
	}
	(void)ol_weights(world.worker, &info.base_version);
	check_ok(ol_push(world.worker, grad, &info, &op));
	until(a->push_count == 1);
	assert_true(a->pushes[0].value == 3.0f);
	assert_int_equal(a->parts, parts - 1); /* for the first the push itself speaks */
	answer(&op);
}

static void parts_are_announced_once(void **unused)
{
	(void)unused;
	announced(4);
	assert_true(world.worker->zero_copy);
}

static void parts_that_are_sent_are_announced_once(void **unused)
{
	(void)unused;
	seam.no_map = true;
	announced(2);
	assert_false(world.worker->zero_copy);
}

static void a_small_gradient_is_one_message(void **unused)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;
	unsigned before;

	(void)unused;
	seam.no_map = true;
	worker_open();
	settle();
	before = seam.writes;
	push(3.0f, &op);
	until(a->push_count == 1);
	assert_int_equal(seam.writes, before + 1);
	assert_true(a->pushes[0].value == 3.0f);
	answer(&op);
}

#define test(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		test(a_worker_says_what_it_needs),
		test(what_a_coordinator_says_is_told),
		test(a_pull_that_nobody_answers_ends_with_the_server),
		test(a_read_that_is_not_taken_now_is_made_later),
		test(a_version_that_never_holds_still_is_told),
		test(a_version_is_not_kept_for_ever),
		test(a_pin_rings_once_between_two_acks),
		test(a_heartbeat_that_is_never_read_ends_the_link),
		test(parts_are_announced_once),
		test(parts_that_are_sent_are_announced_once),
		test(a_small_gradient_is_one_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
