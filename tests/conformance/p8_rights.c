/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * p8_rights.c -- a peer reaches only regions of its connection or of all, only with their rights. A
 * violation is an error at the violator, ends that connection and no other, and changes and rings
 * nothing
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "support/xport_pair.h"

enum {
	GUARD = 4096, /* of the slab before and behind the region */
	BYTES = 8192,
	SLAB = GUARD + BYTES + GUARD,
};

enum trick {
	PLAIN, /* the key as given */
	OTHER_CONN, /* the key of another connection */
	STALE, /* the region is deregistered before */
	FORGED_BYTES, /* the key says that there is more */
	FORGED_ADDR, /* the key says that it begins earlier */
	FORGED_RKEY,
	FROM_ZERO, /* off is what leads around to address 0 */
};

struct violation {
	const char *name;
	unsigned access;
	enum trick trick;
	bool read;
	uint64_t off;
	uint32_t bytes;
};

#define RO OL_XPORT_ACCESS_PEER_READ
#define WO OL_XPORT_ACCESS_PEER_WRITE
#define RW (OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE)

static const struct violation violations[] = {
	{ "write to read-only", RO, PLAIN, false, 0, 64 },
	{ "large write to read-only", RO, PLAIN, false, 0, BYTES },
	{ "read of write-only", WO, PLAIN, true, 0, 64 },
	{ "write to local", OL_XPORT_ACCESS_LOCAL, PLAIN, false, 0, 64 },
	{ "read of local", OL_XPORT_ACCESS_LOCAL, PLAIN, true, 0, 64 },
	{ "write beyond the end", RW, PLAIN, false, BYTES, 64 },
	{ "write across the end", RW, PLAIN, false, BYTES - 4, 8 },
	{ "large write across the end", RW, PLAIN, false, 64, BYTES },
	{ "write before the start", RW, PLAIN, false, (uint64_t)-8, 8 },
	{ "write across the start", RW, PLAIN, false, (uint64_t)-4, 8 },
	{ "write at half of all addresses", RW, PLAIN, false, (uint64_t)1 << 63, 8 },
	{ "write around to address 0", RW, FROM_ZERO, false, 0, 8 },
	{ "write far beyond the end", RW, PLAIN, false, (uint64_t)1 << 40, 8 },
	{ "read beyond the end", RW, PLAIN, true, BYTES, 64 },
	{ "read across the end", RW, PLAIN, true, BYTES - 4, 8 },
	{ "read before the start", RW, PLAIN, true, (uint64_t)-8, 8 },
	{ "read across the start", RW, PLAIN, true, (uint64_t)-4, 8 },
	{ "read around to address 0", RW, FROM_ZERO, true, 0, 8 },
	{ "write with another connection's key", RW, OTHER_CONN, false, 0, 64 },
	{ "read with another connection's key", RW, OTHER_CONN, true, 0, 64 },
	{ "write with a stale key", RW, STALE, false, 0, 64 },
	{ "read with a stale key", RW, STALE, true, 0, 64 },
	{ "write with forged length", RW, FORGED_BYTES, false, BYTES, 64 },
	{ "read with forged length", RW, FORGED_BYTES, true, BYTES, 64 },
	{ "write with forged address", RW, FORGED_ADDR, false, 0, 64 },
	{ "read with forged address", RW, FORGED_ADDR, true, 0, 64 },
	{ "write with forged key", RW, FORGED_RKEY, false, 0, 64 },
	{ "read with forged key", RW, FORGED_RKEY, true, 0, 64 },
};

/* Victim a, violator b, and two connections for each attempt, one of them used for it. */
struct stage {
	struct xp_pair pair;
	struct ol_xport_conn *a_other;
	struct ol_xport_conn *b_other;
	struct ol_slab *slab;
	struct ol_xport_region *region;
	struct ol_xport_rkey key;
	struct xp_mem src;
};

static void ends_open(struct stage *stage)
{
	xp_end_open(&stage->pair.a, NULL);
	xp_end_open(&stage->pair.b, NULL);
	xp_end_listen(&stage->pair.a);
	xp_mem_open(&stage->src, &stage->pair.b, NULL, 2 * BYTES, OL_XPORT_ACCESS_LOCAL);
}

static void ends_close(struct stage *stage)
{
	xp_mem_close(&stage->src);
	xp_end_close(&stage->pair.b);
	xp_end_close(&stage->pair.a);
}

static void stage_open(struct stage *stage, unsigned access)
{
	struct xp_pair *pair = &stage->pair;

	xp_connect(&pair->a, &pair->b, &pair->a_conn, &pair->b_conn);
	xp_connect(&pair->a, &pair->b, &stage->a_other, &stage->b_other);
	check_ok(ol_slab_create(SLAB, OL_SLAB_NODE_ANY, false, &stage->slab));
	memset(stage->slab->addr, XP_GUARD, SLAB);
	check_ok(pair->a.ops->reg(pair->a.xport, pair->a_conn, stage->slab, GUARD, BYTES, access,
				  &stage->region));
	stage->key = pair->a.ops->rkey(stage->region, pair->a_conn);
	memset(stage->src.p, 0x11, 2 * BYTES);
}

static void stage_close(struct stage *stage)
{
	xp_conn_free(&stage->pair.a, stage->a_other);
	xp_conn_free(&stage->pair.b, stage->b_other);
	if (stage->region != NULL)
		stage->pair.a.ops->dereg(stage->region);
	stage->region = NULL;
	xp_conn_free(&stage->pair.b, stage->pair.b_conn);
	xp_conn_free(&stage->pair.a, stage->pair.a_conn);
	ol_slab_destroy(stage->slab);
}

static int op_post(struct stage *stage, struct ol_xport_conn *conn, struct ol_xport_rkey key,
		   bool read, uint64_t off, uint32_t bytes)
{
	struct ol_xport_write write = xp_write(&stage->src, 0, bytes, key, off);
	struct ol_xport_read rd = xp_read(&stage->src, 0, bytes, key, off);

	write.flags = OL_XPORT_SIGNALED | OL_XPORT_DOORBELL;
	rd.flags = OL_XPORT_SIGNALED;
	write.cookie = rd.cookie = 42;
	if (read)
		return xp_ops()->post_read(conn, &rd);
	return xp_ops()->post_write(conn, &write);
}

/* refused -- what was posted on conns ends in -EACCES at b, and the connection ends at both */
static void refused(struct stage *stage, struct ol_xport_conn *a_conn, struct ol_xport_conn *b_conn,
		    int post_rc)
{
	struct xp_pair *pair = &stage->pair;
	struct xp_event event;
	int status;

	if (post_rc == 0) {
		event = xp_wait(&pair->b, OL_XPORT_DONE, b_conn);
		check_eq(event.ev.status, -EACCES);
		check_eq(event.ev.cookie, 42);
	} else {
		check_eq(post_rc, -EACCES);
	}
	check_eq(xp_wait_down(&pair->b, b_conn), -EACCES);
	status = xp_wait_down(&pair->a, a_conn);
	check_msg(status == -EACCES || status == 0, "CONN_DOWN at the victim: %d", status);
	if (status == 0)
		xp_note("the victim's CONN_DOWN says 0, as of an ordinary disconnect");
	xp_check_bytes(stage->slab->addr, SLAB, XP_GUARD, "the victim's memory");
	xp_check_bytes(stage->src.p, 2 * BYTES, 0x11, "the violator's memory");
}

/* still_good -- a connection that broke no rule works on, and nothing else was heard */
static void still_good(struct stage *stage, struct ol_xport_conn *a_conn,
		       struct ol_xport_conn *b_conn)
{
	xp_bell(b_conn, 7);
	xp_wait_bell(&stage->pair.a, a_conn, 7);
	xp_bell(a_conn, 8);
	xp_wait_bell(&stage->pair.b, b_conn, 8);
	xp_quiet(&stage->pair.a, NULL, 5);
	xp_quiet(&stage->pair.b, NULL, 1);
}

static void violate(struct stage *stage, const struct violation *row)
{
	struct ol_xport_rkey key;
	uint64_t off = row->off;

	stage_open(stage, row->access);
	key = stage->key;
	switch (row->trick) {
	case PLAIN:
	case OTHER_CONN:
		break;
	case STALE:
		stage->pair.a.ops->dereg(stage->region);
		stage->region = NULL;
		break;
	case FORGED_BYTES:
		key.bytes += GUARD;
		break;
	case FORGED_ADDR:
		key.addr -= GUARD;
		break;
	case FORGED_RKEY:
		key.rkey ^= 0x5a5a5a5a;
		break;
	case FROM_ZERO:
		off = 0 - key.addr;
		break;
	}
	if (row->trick == OTHER_CONN) {
		refused(stage, stage->a_other, stage->b_other,
			op_post(stage, stage->b_other, key, row->read, off, row->bytes));
		still_good(stage, stage->pair.a_conn, stage->pair.b_conn);
	} else {
		refused(stage, stage->pair.a_conn, stage->pair.b_conn,
			op_post(stage, stage->pair.b_conn, key, row->read, off, row->bytes));
		still_good(stage, stage->a_other, stage->b_other);
	}
	stage_close(stage);
}

static void violations_all(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));

	check(stage != NULL);
	ends_open(stage);
	for (size_t i = 0; i < sizeof(violations) / sizeof(violations[0]); i++) {
		xp_step(violations[i].name);
		violate(stage, &violations[i]);
	}
	ends_close(stage);
	free(stage);
}

/* What is allowed works, up to the last byte; a region for all connections serves each. */
static void what_is_allowed(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	struct xp_pair *pair = &stage->pair;
	struct xp_mem shared;
	uint8_t *target;

	check(stage != NULL);
	ends_open(stage);
	stage_open(stage, RW);
	target = (uint8_t *)stage->slab->addr + GUARD;
	check_ok(op_post(stage, pair->b_conn, stage->key, false, BYTES - 64, 64));
	xp_wait_done(&pair->b, pair->b_conn, 42);
	xp_wait_bell(&pair->a, pair->a_conn, 0);
	xp_check_bytes(stage->slab->addr, GUARD + BYTES - 64, XP_GUARD, "before the write");
	xp_check_bytes(target + BYTES - 64, 64, 0x11, "the last bytes");
	xp_check_bytes(target + BYTES, GUARD, XP_GUARD, "behind the region");
	check_ok(op_post(stage, pair->b_conn, stage->key, true, 0, BYTES - 64));
	xp_wait_done(&pair->b, pair->b_conn, 42);
	xp_check_bytes(stage->src.p, BYTES - 64, XP_GUARD, "what was read");

	xp_mem_open(&shared, &pair->a, NULL, BYTES, RW);
	memset(stage->src.p, 0x22, BYTES);
	check_ok(op_post(stage, pair->b_conn, xp_key(&shared, pair->a_conn), false, 0, 64));
	xp_wait_bell(&pair->a, pair->a_conn, 0);
	check_ok(op_post(stage, stage->b_other, xp_key(&shared, stage->a_other), false, 64, 64));
	xp_wait_bell(&pair->a, stage->a_other, 0);
	xp_check_bytes(shared.p, 128, 0x22, "a region for all, written by two connections");
	xp_check_bytes(shared.p + 128, BYTES - 128, 0, "the rest of it");
	xp_mem_close(&shared);
	stage_close(stage);
	ends_close(stage);
	free(stage);
}

/* The poster's own memory: a source or target outside its region is refused, nothing is sent. */
static void own_memory(void)
{
	static const struct {
		uint64_t off;
		uint32_t bytes;
	} bad[] = {
		{ 2 * BYTES, 8 },    { 2 * BYTES - 4, 8 }, { (uint64_t)-8, 8 },
		{ (uint64_t)-4, 8 }, { 0, 4 * BYTES },     { (uint64_t)1 << 63, 64 },
	};

	struct stage *stage = calloc(1, sizeof(*stage));

	check(stage != NULL);
	ends_open(stage);
	for (unsigned i = 0; i < 2 * sizeof(bad) / sizeof(bad[0]); i++) {
		struct ol_xport_write write;
		struct ol_xport_read read;
		struct xp_event event;
		int rc;

		stage_open(stage, RW);
		write = xp_write(&stage->src, bad[i / 2].off, bad[i / 2].bytes, stage->key, 0);
		read = xp_read(&stage->src, bad[i / 2].off, bad[i / 2].bytes, stage->key, 0);
		write.flags = read.flags = OL_XPORT_SIGNALED;
		rc = i % 2 == 0 ? xp_ops()->post_write(stage->pair.b_conn, &write)
				: xp_ops()->post_read(stage->pair.b_conn, &read);
		check(rc != -EAGAIN);
		if (rc == 0) {
			event = xp_wait(&stage->pair.b, OL_XPORT_DONE, stage->pair.b_conn);
			check(event.ev.status < 0);
			xp_wait_down(&stage->pair.b, stage->pair.b_conn);
		}
		if (i < 2)
			xp_note("%s from outside the own region: post returns %d",
				i % 2 == 0 ? "write" : "read", rc);
		xp_check_bytes(stage->slab->addr, SLAB, XP_GUARD, "the peer's memory");
		xp_check_bytes(stage->src.p, 2 * BYTES, 0x11, "the poster's memory");
		stage_close(stage);
	}
	ends_close(stage);
	free(stage);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a peer reaches what it was given the right to", what_is_allowed);
	xp_run1("a violation ends its connection and changes nothing", violations_all);
	xp_run1("a post outside its own region is refused, and sends nothing", own_memory);
	return xp_result();
}
