/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rails_test.c -- a worker with two devices goes on by the other one when one dies or is cut off
 *
 * The server is a puppet. The test stands between the worker and its transport, which is shm: a
 * device of the list is a transport there. It dies as verbs does (rdma/transport.h, promise 10), or
 * reaches nobody, when the test says so. What is registered with each is counted.
 */
#include <errno.h>

#include "support/wrap.h"
#include "unit/worker/worker_util.h"
#include "worker/worker_internal.h"

enum {
	EPOCH = 3,
	CONNS_MAX = 8,
	COMMON_REGIONS = 3, /* gradients, mirrors, the rest */
	X = 0,
	Y = 1,
	DEVICES
};

struct device {
	struct ol_xport *xport; /* NULL: not open */
	bool gone; /* it cannot be opened */
	bool dead;
	bool cut; /* nothing is reached through it */
	unsigned regions;
	unsigned knocks;
};

static struct {
	const struct ol_xport_ops *real;
	struct ol_xport_ops ops;
	struct device devices[DEVICES];
	struct {
		struct ol_xport_conn *conn; /* NULL: none */
		struct device *device;
		bool told; /* its end */
	} conns[CONNS_MAX];
	struct {
		const struct ol_xport_region *region;
		struct device *device;
	} regions[CONNS_MAX + DEVICES * COMMON_REGIONS];
	unsigned wrong; /* posts whose memory is of another device than the connection */
} seam;

WRAP(const struct ol_xport_ops *, ol_xport_find, const char *name)
{
	return seam.real != NULL ? &seam.ops : __real_ol_xport_find(name);
}

static struct device *device_of(const struct ol_xport *xport)
{
	check(xport != NULL);
	return xport == seam.devices[X].xport ? &seam.devices[X] : &seam.devices[Y];
}

static unsigned conn_at(const struct ol_xport_conn *conn)
{
	unsigned at = 0;

	while (at < CONNS_MAX && seam.conns[at].conn != conn)
		at++;
	check(at < CONNS_MAX);
	return at;
}

static int seam_open(const struct ol_xport_opts *opts, struct ol_xport **ret_xport)
{
	struct device *device = &seam.devices[strcmp(opts->device, "x") == 0 ? X : Y];
	int rc;

	check(strcmp(opts->device, "x") == 0 || strcmp(opts->device, "y") == 0);
	check(device->xport == NULL);
	if (device->gone)
		return -ENODEV;
	rc = seam.real->open(opts, ret_xport);
	check_ok(rc);
	device->xport = *ret_xport;
	device->dead = false;
	return 0;
}

static void seam_close(struct ol_xport *xport)
{
	struct device *device = device_of(xport);

	check(device->regions == 0);
	for (unsigned i = 0; i < CONNS_MAX; i++)
		check(seam.conns[i].conn == NULL || seam.conns[i].device != device);
	device->xport = NULL;
	seam.real->close(xport);
}

static int seam_reg(struct ol_xport *xport, struct ol_xport_conn *conn, struct ol_slab *slab,
		    size_t off, size_t bytes, unsigned access, struct ol_xport_region **ret_region)
{
	struct device *device = device_of(xport);
	unsigned at = 0;
	int rc;

	check(conn == NULL || seam.conns[conn_at(conn)].device == device);
	rc = device->dead ? -ENODEV
			  : seam.real->reg(xport, conn, slab, off, bytes, access, ret_region);
	if (rc != 0)
		return rc;
	device->regions++;
	while (seam.regions[at].region != NULL)
		at++;
	seam.regions[at].region = *ret_region;
	seam.regions[at].device = device;
	return 0;
}

static unsigned region_at(const struct ol_xport_region *region)
{
	unsigned at = 0;

	while (seam.regions[at].region != region)
		at++;
	return at;
}

static void seam_dereg(struct ol_xport_region *region)
{
	unsigned at = region_at(region);

	seam.regions[at].device->regions--;
	seam.regions[at].region = NULL;
	seam.real->dereg(region);
}

static int seam_connect(struct ol_xport *xport, const char *addr, const void *priv,
			uint32_t priv_len, const struct ol_xport_seal *seal,
			struct ol_xport_conn **ret_conn)
{
	struct device *device = device_of(xport);
	int rc;

	device->knocks++;
	if (device->dead || device->cut)
		return device->dead ? -ENODEV : -EHOSTUNREACH;
	rc = seam.real->connect(xport, addr, priv, priv_len, seal, ret_conn);
	if (rc == 0) {
		unsigned at = conn_at(NULL);

		seam.conns[at].conn = *ret_conn;
		seam.conns[at].device = device;
		seam.conns[at].told = false;
	}
	return rc;
}

static void seam_conn_free(struct ol_xport_conn *conn)
{
	seam.conns[conn_at(conn)].conn = NULL;
	seam.real->conn_free(conn);
}

static void segs_check(const struct ol_xport_conn *conn, const struct ol_xport_seg *segs,
		       unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		if (segs[i].region != NULL && seam.regions[region_at(segs[i].region)].device !=
						      seam.conns[conn_at(conn)].device)
			seam.wrong++;
	}
}

static int seam_write(struct ol_xport_conn *conn, const struct ol_xport_write *write)
{
	segs_check(conn, write->segs, write->seg_count);
	return seam.conns[conn_at(conn)].device->dead ? -ENOTCONN
						      : seam.real->post_write(conn, write);
}

static int seam_read(struct ol_xport_conn *conn, const struct ol_xport_read *read)
{
	segs_check(conn, read->segs, read->seg_count);
	return seam.conns[conn_at(conn)].device->dead ? -ENOTCONN
						      : seam.real->post_read(conn, read);
}

static int seam_poll(struct ol_xport *xport, struct ol_xport_event *events, int max)
{
	struct device *device = device_of(xport);
	int count;

	for (unsigned i = 0; (device->dead || device->cut) && i < CONNS_MAX; i++) {
		if (seam.conns[i].conn == NULL || seam.conns[i].told ||
		    seam.conns[i].device != device)
			continue;
		events[0] = (struct ol_xport_event){ .type = OL_XPORT_CONN_DOWN,
						     .status = device->dead ? -ENODEV : -ETIMEDOUT,
						     .conn = seam.conns[i].conn };
		seam.conns[i].told = true;
		return 1;
	}
	if (device->dead)
		return -ENODEV;
	count = seam.real->poll(xport, events, max);
	for (int i = 0; i < count; i++) {
		if (events[i].type == OL_XPORT_CONN_DOWN)
			seam.conns[conn_at(events[i].conn)].told = true;
	}
	return count;
}

static int seam_arm(struct ol_xport *xport)
{
	return device_of(xport)->dead ? 1 : seam.real->arm(xport);
}

static int world_open(void **unused)
{
	(void)unused;
	memset(&seam, 0, sizeof(seam));
	world_init();
	world.puppets[A].lr = 0.5f;
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	world.opts.servers = world.puppets[A].addr;
	world.opts.outage = OL_OUTAGE_WAIT;
	world.opts.device = "x,y";
	world.level = OL_LEVEL_APPLIED;
	seam.ops = *__real_ol_xport_find("shm");
	seam.ops.open = seam_open;
	seam.ops.close = seam_close;
	seam.ops.reg = seam_reg;
	seam.ops.dereg = seam_dereg;
	seam.ops.connect = seam_connect;
	seam.ops.conn_free = seam_conn_free;
	seam.ops.post_write = seam_write;
	seam.ops.post_read = seam_read;
	seam.ops.poll = seam_poll;
	seam.ops.arm = seam_arm;
	seam.ops.map = ol_xport_no_map;
	seam.real = __real_ol_xport_find("shm");
	return 0;
}

static int world_close(void **unused)
{
	(void)unused;
	world_fini();
	assert_null(seam.devices[X].xport);
	assert_null(seam.devices[Y].xport);
	assert_int_equal(seam.wrong, 0);
	return 0;
}

static void worker_open(void)
{
	open_welcomed(EPOCH);
	check_ok(world.open_rc);
	pull(OL_PULL_NEWEST);
}

/* The device that the worker's one connection leaves by */
static struct device *used(void)
{
	struct device *device = NULL;

	for (unsigned i = 0; i < CONNS_MAX; i++) {
		if (seam.conns[i].conn != NULL)
			device = seam.conns[i].device;
	}
	return device;
}

/* The server says again that it has the worker's pushes up to seq */
static void back(uint64_t seq)
{
	until(puppet_waits(&world.puppets[A], OL_ROLE_WORKER));
	puppet_welcome(&world.puppets[A], OL_ROLE_WORKER, EPOCH, seq);
	until(!link_stat().down);
}

/* A push arrives and is answered, and a pull reads what the server made of it */
static void training_goes_on(uint64_t version)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;
	unsigned before = a->push_count;

	push(3.0f, &op);
	until(a->push_count > before);
	puppet_publish(a, version, 4.0f + (float)version, a->pushes[a->push_count - 1].seq);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[a->push_count - 1].seq,
		   a->pushes[a->push_count - 1].slot, 0);
	until(op.done);
	check_ok(op.status);
	pull(OL_PULL_NEWEST);
	assert_true(ol_weights(world.worker, NULL)[0] == 4.0f + (float)version);
	assert_int_equal(link_stat().lost, 0);
}

/* Memory is registered with both from the start, as an outage is no time for it */
static void a_push_under_way_goes_on_by_the_other_device(void **unused)
{
	struct puppet *a = &world.puppets[A];
	struct ol_op op;

	(void)unused;
	worker_open();
	assert_ptr_equal(used(), &seam.devices[X]);
	assert_int_equal(seam.devices[X].regions, COMMON_REGIONS + 1); /* and the acks' */
	assert_int_equal(seam.devices[Y].regions, COMMON_REGIONS);
	push(3.0f, &op);
	until(a->push_count == 1);
	seam.devices[X].gone = seam.devices[X].dead = true;
	until(link_stat().down);
	back(0);
	assert_ptr_equal(used(), &seam.devices[Y]);
	assert_null(seam.devices[X].xport);
	until(a->push_count == 2);
	assert_true(a->pushes[1].value == 3.0f);
	puppet_publish(a, 2, 6.0f, a->pushes[1].seq);
	puppet_ack(a, OL_ROLE_WORKER, a->pushes[1].seq, a->pushes[1].slot, 0);
	until(op.done);
	check_ok(op.status);
	training_goes_on(3);
	/* it is opened again, and takes over when the other one dies */
	seam.devices[X].gone = false;
	until(seam.devices[X].xport != NULL);
	assert_ptr_equal(used(), &seam.devices[Y]);
	seam.devices[Y].dead = true;
	until(link_stat().down);
	back(a->pushes[a->push_count - 1].seq);
	assert_ptr_equal(used(), &seam.devices[X]);
	training_goes_on(4);
}

static void a_device_that_reaches_nobody_is_left(void **unused)
{
	(void)unused;
	worker_open();
	seam.devices[X].cut = true;
	until(link_stat().down);
	back(0);
	assert_ptr_equal(used(), &seam.devices[Y]);
	training_goes_on(2);
	assert_non_null(seam.devices[X].xport); /* it is not dead */
	assert_int_equal(seam.devices[X].knocks, 2); /* those of the start: it broke while live */
}

static void a_server_that_dies_is_dialled_by_its_own_device_again(void **unused)
{
	(void)unused;
	worker_open();
	seam.devices[X].cut = true;
	until(link_stat().down);
	back(0);
	seam.devices[X].cut = false;
	puppet_cut(&world.puppets[A], OL_ROLE_WORKER);
	until(link_stat().down);
	back(0);
	assert_ptr_equal(used(), &seam.devices[X]);
	training_goes_on(2);
}

static void a_device_that_is_not_there_at_the_start_is_done_without(void **unused)
{
	(void)unused;
	seam.devices[X].gone = true;
	worker_open();
	assert_ptr_equal(used(), &seam.devices[Y]);
	training_goes_on(2);
	seam.devices[X].gone = false;
	until(seam.devices[X].xport != NULL);
	training_goes_on(3);
}

static void without_any_device_the_worker_does_not_open(void **unused)
{
	(void)unused;
	seam.devices[X].gone = seam.devices[Y].gone = true;
	world.open_rc = ol_worker_open(&world.opts, &world.worker, world.err, sizeof(world.err));
	assert_int_equal(world.open_rc, -ENODEV);
}

/* The device of the connection to a puppet */
static const struct device *used_for(const struct ol_peer *peer)
{
	return seam.conns[conn_at(peer->dial.conn)].device;
}

static void each_shard_has_a_device_of_its_own(void **unused)
{
	const struct ol_link *links;

	(void)unused;
	two_shards_open(EPOCH);
	puppet_publish(&world.puppets[A], 1, 4.0f, 0);
	puppet_publish(&world.puppets[B], 1, 8.0f, 0);
	links = world.worker->links;
	assert_ptr_equal(used_for(&links[A].peers[OL_HEAD]), &seam.devices[X]);
	assert_ptr_equal(used_for(&links[B].peers[OL_HEAD]), &seam.devices[Y]);
	seam.devices[Y].gone = seam.devices[Y].dead = true;
	until(stage_stat(world.worker, B).down);
	assert_false(stage_stat(world.worker, A).down); /* the other shard knows of nothing */
	until(puppet_waits(&world.puppets[B], OL_ROLE_WORKER));
	puppet_welcome(&world.puppets[B], OL_ROLE_WORKER, EPOCH, 0);
	until(!stage_stat(world.worker, B).down);
	assert_ptr_equal(used_for(&links[B].peers[OL_HEAD]), &seam.devices[X]);
	assert_int_equal(stage_stat(world.worker, A).outages, 0);
	pull(OL_PULL_NEWEST);
	assert_true(ol_weights(world.worker, NULL)[0] == 4.0f);
}

static void a_wrong_list_is_refused(void **unused)
{
	(void)unused;
	world.opts.device = "x,x";
	world.open_rc = ol_worker_open(&world.opts, &world.worker, world.err, sizeof(world.err));
	assert_int_equal(world.open_rc, -EINVAL);
	assert_non_null(strstr(world.err, "device: give"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)
		T(a_push_under_way_goes_on_by_the_other_device),
		T(a_device_that_reaches_nobody_is_left),
		T(a_server_that_dies_is_dialled_by_its_own_device_again),
		T(a_device_that_is_not_there_at_the_start_is_done_without),
		T(each_shard_has_a_device_of_its_own),
		T(without_any_device_the_worker_does_not_open),
		T(a_wrong_list_is_refused),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
