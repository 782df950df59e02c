/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * xport.c -- a transport alone: two ends in one process, a connection, memory of each that the
 * other reaches, writes, reads, doorbells, sleep; OL_TRANSPORT shm or verbs
 *
 * A connection that cannot be made is tried again, as a transport's users do: three times.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "nth/frame/warm.h"
#include "nth/scenarios.h"
#include "rdma/order.h"
#include "rdma/slab.h"
#include "rdma/transport.h"
#include "support/check.h"
#include "support/job.h"

enum {
	BYTES = 8192,
	TRIES = 3,
	WORD = 0x5ca1ab1e,
};

/* One end. */
struct end {
	struct ol_xport *xport;
	struct ol_slab *slab;
	struct ol_xport_region *region;
	struct ol_xport_conn *conn;
	bool up;
	bool down;
	int status; /* why it is down */
	unsigned bells, dones;
	int done_status;
};

static const struct ol_xport_ops *ops;

static void before(void)
{
	ops = ol_xport_find(job_transport());
	warm_transport();
}

static void xport_log(void *arg, enum ol_xport_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	ol_log(OL_LOG_INFO, "%s", text);
}

static int end_open(struct end *end)
{
	struct ol_xport_opts opts;
	int rc;

	ol_xport_opts_init(&opts);
	opts.log = xport_log;
	opts.conns_max = 4;
	rc = ops->open(&opts, &end->xport);
	if (rc == 0)
		rc = ol_slab_create(BYTES, OL_SLAB_NODE_ANY, false, &end->slab);
	if (rc == 0)
		rc = ops->reg(end->xport, NULL, end->slab, 0, BYTES,
			      OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE, &end->region);
	return rc;
}

static void end_close(struct end *end)
{
	if (end->conn != NULL)
		ops->conn_free(end->conn);
	if (end->region != NULL)
		ops->dereg(end->region);
	if (end->xport != NULL)
		ops->close(end->xport);
	ol_slab_destroy(end->slab);
}

static void conn_drop(struct end *end)
{
	if (end->conn != NULL)
		ops->conn_free(end->conn);
	end->conn = NULL;
	end->up = end->down = false;
	end->status = 0;
	end->bells = end->dones = 0;
}

/* A request that cannot be accepted is turned away: its peer hears of it. */
static void request(struct end *end, struct ol_xport_conn *conn)
{
	int rc;

	if (end->conn != NULL) {
		ops->reject(conn, NULL, 0);
		return;
	}
	rc = ops->accept(conn, NULL, 0);
	if (rc == 0)
		end->conn = conn;
	else
		ops->reject(conn, NULL, 0);
}

static int progress(struct end *end)
{
	struct ol_xport_event events[8];
	int count = ops->poll(end->xport, events, 8);

	for (int i = 0; i < count; i++) {
		const struct ol_xport_event *event = &events[i];

		if (event->type == OL_XPORT_CONN_REQUEST) {
			request(end, event->conn);
		} else if (event->type == OL_XPORT_CONN_UP) {
			end->up = true;
		} else if (event->type == OL_XPORT_CONN_DOWN) {
			end->down = true;
			end->status = event->status;
		} else if (event->type == OL_XPORT_DOORBELL_RUNG) {
			end->bells += event->imm == WORD;
		} else {
			end->dones++;
			if (event->status != 0)
				end->done_status = event->status;
		}
	}
	return count;
}

/* Sleep on both, unless there is something already */
static int rest(struct end *a, struct end *b)
{
	struct pollfd fds[2] = { { .fd = ops->event_fd(a->xport), .events = POLLIN },
				 { .fd = ops->event_fd(b->xport), .events = POLLIN } };
	int rc = ops->arm(a->xport);

	if (rc == 0)
		rc = ops->arm(b->xport);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	return poll(fds, 2, 20) >= 0 || errno == EINTR ? 0 : -errno;
}

static bool both_up(const struct end *a, const struct end *b)
{
	return a->up && b->up;
}

static bool both_done(const struct end *a, const struct end *b)
{
	return a->bells >= 1 && b->bells >= 1 && a->dones >= 1 && b->dones >= 2;
}

/* Until it is so: 0; or one is down, or patience ends: why */
static int wait_until(struct end *a, struct end *b, unsigned attempt,
		      bool (*so)(const struct end *a, const struct end *b))
{
	uint64_t until_ns = ol_clock_ns() + nth_patience_ms(attempt) * OL_NS_PER_MS;

	while (!so(a, b)) {
		int rc = progress(a);

		if (rc >= 0)
			rc = progress(b);
		if (rc == 0)
			rc = rest(a, b);
		if (rc < 0)
			return rc;
		if (a->down || b->down)
			return a->status != 0   ? a->status
			       : b->status != 0 ? b->status
						: -ECONNRESET;
		if (ol_clock_ns() > until_ns)
			return -ETIMEDOUT;
	}
	return a->done_status != 0 ? a->done_status : b->done_status;
}

static int connect_both(struct end *a, struct end *b, const char *addr, unsigned attempt)
{
	int rc = -EIO;

	for (unsigned i = 0; i < TRIES && rc != 0; i++) {
		conn_drop(a);
		conn_drop(b);
		rc = ops->connect(b->xport, addr, "hello", 5, NULL, &b->conn);
		if (rc == 0)
			rc = wait_until(a, b, attempt, both_up);
	}
	return rc;
}

/* One write with a bell each way, and a read */
static int move_bytes(struct end *a, struct end *b, unsigned attempt)
{
	struct ol_xport_write write = { .segs = { { a->region, 0, 1024 } },
					.seg_count = 1,
					.flags = OL_XPORT_SIGNALED | OL_XPORT_DOORBELL,
					.imm = WORD,
					.dst = ops->rkey(b->region, NULL),
					.dst_off = 4096 };
	struct ol_xport_read read = { .segs = { { b->region, 2048, 512 } },
				      .seg_count = 1,
				      .flags = OL_XPORT_SIGNALED,
				      .src = ops->rkey(a->region, a->conn) };
	int rc;

	memset(a->slab->addr, 1, 1024);
	rc = ops->post_write(a->conn, &write);
	if (rc != 0)
		return rc;
	write.segs[0].region = b->region;
	write.dst = read.src;
	rc = ops->post_write(b->conn, &write);
	if (rc == 0)
		rc = ops->post_read(b->conn, &read);
	if (rc == 0)
		rc = wait_until(a, b, attempt, both_done);
	if (rc == 0 && (((const uint8_t *)b->slab->addr)[4096 + 1023] != 1 ||
			((const uint8_t *)b->slab->addr)[2048 + 511] != 1))
		run_wrong("what is said to have landed is not there");
	return rc;
}

static int run(unsigned attempt, char text[RUN_TEXT_MAX])
{
	char listen[OL_XPORT_ADDR_MAX], addr[OL_XPORT_ADDR_MAX];
	struct end a = { .xport = NULL }, b = { .xport = NULL };
	const char *host = getenv("OL_ADDR");
	int rc = end_open(&a);

	if (strcmp(ops->name, "shm") == 0)
		snprintf(listen, sizeof(listen), "%s/listen-%d", run_folder(), (int)getpid());
	else
		snprintf(listen, sizeof(listen), "%s:0", host != NULL ? host : "0.0.0.0");
	if (rc == 0)
		rc = ops->listen(a.xport, listen, addr);
	if (rc == 0)
		rc = end_open(&b);
	if (rc == 0)
		rc = connect_both(&a, &b, addr, attempt);
	if (rc == 0)
		rc = move_bytes(&a, &b, attempt);
	snprintf(text, RUN_TEXT_MAX, "%s", rc != 0 ? ol_status_str(rc) : "");
	end_close(&b);
	end_close(&a);
	return rc;
}

const struct run_scenario nth_xport = { .name = "xport", .before = before, .run = run, .max = 5 };
