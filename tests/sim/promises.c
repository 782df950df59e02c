/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * promises.c -- the simulated transport keeps the promises of rdma/transport.h; and a promise that
 * is broken on purpose is found
 *
 * A giver writes, in rounds, into a slot of a taker, then rings a doorbell. It reads the taker's
 * board, where the taker stores the data before their number.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/world/mutate.h"
#include "sim/world/net.h"
#include "sim/world/sim.h"

enum {
	SEEDS = 300,
	ROUNDS = 30,
	SLOTS = 4,
	SLOT_BYTES = 1024,
	BOARD_BYTES = 1024, /* data; then their number */
	MEMORY_BYTES = SLOTS * SLOT_BYTES + BOARD_BYTES + 8,
	INFLIGHT = 8,
};

/* What both know without a transport */
static struct {
	struct ol_xport_rkey key;
	uint64_t seen; /* rounds that the taker has seen */
	bool over; /* the giver has posted all */
} table;

static void begin_xport(struct ol_xport **ret_xport)
{
	struct ol_xport_opts opts = { .inflight_max = INFLIGHT, .doorbells_max = ROUNDS + 1 };

	if (net_ops.open(&opts, ret_xport) != 0)
		sim_fail("open", "cannot be");
}

static struct ol_xport_region *memory_of(struct ol_xport *xport, struct ol_xport_conn *conn,
					 unsigned access, struct ol_slab **ret_slab)
{
	struct ol_xport_region *region = NULL;

	if (ol_slab_create(MEMORY_BYTES, OL_SLAB_NODE_ANY, false, ret_slab) != 0 ||
	    net_ops.reg(xport, conn, *ret_slab, 0, MEMORY_BYTES, access, &region) != 0)
		sim_fail("reg", "cannot be");
	return region;
}

static struct ol_xport_event next_event(struct ol_xport *xport)
{
	struct ol_xport_event event;
	int fd = net_ops.event_fd(xport);

	while (net_ops.poll(xport, &event, 1) == 0) {
		if (net_ops.arm(xport) == 0)
			sim_wait(&fd, 1, SIM_S);
	}
	return event;
}

/* 1, 2: a bell rings when its slot has landed, and all before it; in order */
static void bell(const uint8_t *memory, uint32_t imm)
{
	const uint8_t *slot = memory + imm % SLOTS * SLOT_BYTES;

	if (imm != table.seen)
		sim_fail("promise 1", "bell %u is number %u", imm, (unsigned)table.seen);
	for (uint32_t i = 0; i < SLOT_BYTES; i++) {
		if (slot[i] != (uint8_t)(imm + 1))
			sim_fail("promise 2", "bell %u: byte %u has not landed", imm, i);
	}
	table.seen++;
}

static void board_make(uint8_t *memory, uint64_t number)
{
	uint8_t *board = memory + SLOTS * SLOT_BYTES;

	memset(board, (int)(number & 0xff), BOARD_BYTES / 2);
	sim_pause(sim_between(0, 20 * SIM_US));
	memset(board + BOARD_BYTES / 2, (int)(number & 0xff), BOARD_BYTES / 2);
	memcpy(board + BOARD_BYTES, &number, sizeof(number));
}

/* 7: once both are freed nothing lands; where memory is not kept, nobody looks */
static void fence(struct ol_xport_conn *conn, struct ol_xport_region *region, const uint8_t *memory)
{
	uint8_t *before = sim_alloc(MEMORY_BYTES);

	net_ops.conn_free(conn);
	net_ops.dereg(region);
	memcpy(before, memory, MEMORY_BYTES);
	sim_pause(5 * SIM_S);
	if (sim_nature.fence_keeps && memcmp(before, memory, MEMORY_BYTES) != 0)
		sim_fail("promise 7", "something lands behind the fence");
}

static void taker(void *arg)
{
	uint64_t end = *(const uint64_t *)arg; /* rounds until it fences the giver off */
	struct ol_xport_region *region = NULL;
	struct ol_xport_conn *conn = NULL;
	char addr[OL_XPORT_ADDR_MAX];
	struct ol_slab *slab = NULL;
	struct ol_xport *xport;
	bool up = false;

	begin_xport(&xport);
	net_ops.listen(xport, "@sim-1", addr);
	while (conn == NULL || table.seen < end) {
		struct ol_xport_event event = next_event(xport);

		if (event.type == OL_XPORT_CONN_REQUEST) {
			conn = event.conn;
			region = memory_of(xport, conn,
					   OL_XPORT_ACCESS_PEER_READ | OL_XPORT_ACCESS_PEER_WRITE,
					   &slab);
			table.key = net_ops.rkey(region, conn);
			net_ops.accept(conn, "", 1);
		} else if (event.type == OL_XPORT_CONN_UP) {
			up = true;
		} else if (event.type == OL_XPORT_DOORBELL_RUNG) {
			if (!up)
				sim_fail("promise 5", "a bell before CONN_UP");
			bell(slab->addr, event.imm);
			board_make(slab->addr, table.seen);
		} else if (event.type == OL_XPORT_CONN_DOWN) {
			sim_fail("promise 5", "a connection that nobody ended is down");
		}
	}
	fence(conn, region, slab->addr);
	net_ops.close(xport);
	ol_slab_destroy(slab);
}

/* What a giver waits for: a DONE each, and the end of the connection, once, last */
struct giver {
	struct ol_xport *xport;
	struct ol_xport_conn *conn;
	uint8_t *memory;
	uint32_t posted;
	uint32_t done;
	bool failed; /* one of them */
	bool down;
};

static void giver_look(struct giver *giver)
{
	struct ol_xport_event event = next_event(giver->xport);

	if (giver->down)
		sim_fail("promise 5", "an event comes after CONN_DOWN");
	if (event.type == OL_XPORT_CONN_DOWN) {
		giver->down = true;
		if (giver->done != giver->posted)
			sim_fail("promise 5", "of %u posts %u are reported", giver->posted,
				 giver->done);
	} else if (event.type == OL_XPORT_DONE) {
		if (event.cookie != giver->done)
			sim_fail("promise 5", "post %u is reported as number %u",
				 (unsigned)event.cookie, giver->done);
		giver->done++;
		giver->failed = giver->failed || event.status != 0;
		/* 3: its memory is free again */
		if (event.status == 0 && event.cookie % 3 == 0)
			memset(giver->memory + event.cookie / 3 % SLOTS * SLOT_BYTES, 0xee,
			       SLOT_BYTES);
	}
}

/* 4: -EAGAIN, and nothing else while the connection is up; what was refused was not posted */
static bool giver_posted(struct giver *giver, int rc)
{
	if (rc == 0) {
		giver->posted++;
		if (giver->posted - giver->done > INFLIGHT)
			sim_fail("promise 4", "more are posted than may be");
		return true;
	}
	if (rc != -EAGAIN && rc != -ENOTCONN)
		sim_fail("promise 4", "a post ends with %d", rc);
	if (!giver->down)
		giver_look(giver);
	return false;
}

static void giver_write(struct giver *giver, const struct ol_xport_region *region, uint32_t round)
{
	uint32_t off = round % SLOTS * SLOT_BYTES;
	struct ol_xport_write write = {
		.segs = { { .region = region, .off = off, .bytes = SLOT_BYTES } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED | OL_XPORT_DOORBELL,
		.imm = round,
		.dst = table.key,
		.dst_off = off,
		.cookie = giver->posted,
	};

	/* the slot is the taker's until it has seen what was in it */
	while (!giver->down && (table.seen + SLOTS <= round || giver->done < giver->posted))
		giver->done < giver->posted ? giver_look(giver) : sim_pause(20 * SIM_US);
	memset(giver->memory + off, (int)(round + 1), SLOT_BYTES);
	while (!giver->down && !giver_posted(giver, net_ops.post_write(giver->conn, &write)))
		write.cookie = giver->posted;
}

/* 9: behind the data their number is read, which is then at least as new as any of them */
static void giver_read(struct giver *giver, const struct ol_xport_region *region)
{
	const uint8_t *board = giver->memory + SLOTS * SLOT_BYTES;
	struct ol_xport_read read = { .seg_count = 1, .src = table.key };
	uint64_t number;

	for (uint32_t i = 0; i < 2; i++) {
		read.src_off = read.segs[0].off = SLOTS * SLOT_BYTES + i * BOARD_BYTES;
		read.segs[0].region = region;
		read.segs[0].bytes = i == 0 ? BOARD_BYTES : sizeof(number);
		read.flags = OL_XPORT_SIGNALED | (i == 0 ? 0 : OL_XPORT_AFTER_READS);
		read.cookie = giver->posted;
		while (!giver->down && !giver_posted(giver, net_ops.post_read(giver->conn, &read)))
			read.cookie = giver->posted;
	}
	while (!giver->down && giver->done < giver->posted)
		giver_look(giver);
	if (giver->down || giver->failed)
		return;
	memcpy(&number, board + BOARD_BYTES, sizeof(number));
	for (uint32_t i = 0; i < BOARD_BYTES; i++) {
		if (board[i] > number + 1) /* its data may be under way already, not the next's */
			sim_fail("promise 9", "data of %u are read before number %u", board[i],
				 (unsigned)number);
	}
}

static void giver_main(void *arg)
{
	struct giver giver = { 0 };
	struct ol_xport_region *region;
	struct ol_slab *slab = NULL;

	(void)arg;
	begin_xport(&giver.xport);
	do { /* until somebody listens */
		if (net_ops.connect(giver.xport, "@sim-1", "", 1, NULL, &giver.conn) != 0)
			continue;
		if (next_event(giver.xport).type == OL_XPORT_CONN_UP)
			break;
		net_ops.conn_free(giver.conn);
		sim_pause(SIM_MS);
	} while (sim_now() != 0);
	region = memory_of(giver.xport, NULL, OL_XPORT_ACCESS_LOCAL, &slab);
	giver.memory = slab->addr;
	for (uint32_t round = 0; !giver.down && round < ROUNDS; round++) {
		giver_write(&giver, region, round);
		giver_read(&giver, region);
	}
	while (!giver.down)
		giver_look(&giver);
	table.over = true;
	net_ops.conn_free(giver.conn);
	net_ops.dereg(region);
	net_ops.close(giver.xport);
	ol_slab_destroy(slab);
}

static void on_exit_of(struct sim_process *process)
{
	net_process_gone(process, false);
}

/* NULL, or what is broken */
static const char *run(uint64_t seed)
{
	static const struct sim_hooks hooks = { .on_exit = on_exit_of };
	static char failure[SIM_TEXT_MAX];
	uint64_t rounds;

	sim_begin(seed, false);
	sim_hooks_set(&hooks);
	net_begin();
	memset(&table, 0, sizeof(table));
	sim_nature = (struct sim_nature){ .net_ns = 20 * SIM_US,
					  .net_slow_ppm = 10000,
					  .again_ppm = sim_below(3) * 20000,
					  .torn_ppm = sim_below(3) * 400000,
					  .early_ppm = sim_below(3) * 300000,
					  .preempt_ppm = sim_below(3) * 10000,
					  .fence_keeps = sim_ppm(500000) };
	rounds = 1 + sim_below(ROUNDS);
	sim_process_start("taker", 1, taker, &rounds);
	sim_process_start("giver", 2, giver_main, NULL);
	while (!table.over && sim_step())
		;
	while (sim_step()) /* to the end of all that is under way */
		;
	if (sim_failure() == NULL && !table.over)
		sim_fail("promise 5", "seed %u does not end", (unsigned)seed);
	snprintf(failure, sizeof(failure), "%s", sim_failure() != NULL ? sim_failure() : "");
	sim_end();
	return failure[0] != '\0' ? failure : NULL;
}

static int broken(enum mutation mutation)
{
	mutate_set(mutation);
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const char *what = run(seed);

		if (what != NULL) {
			printf("%-14s seed %u: %s\n", mutate_name(mutation), (unsigned)seed, what);
			mutate_set(MUTATE_NOTHING);
			return 0;
		}
	}
	printf("%s is not found in %u seeds\n", mutate_name(mutation), SEEDS);
	return 1;
}

int main(void)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const char *what = run(seed);

		if (what != NULL) {
			printf("seed %u: %s\n", (unsigned)seed, what);
			return 1;
		}
	}
	printf("%u seeds: all is kept\n", SEEDS);
	if (sim_is_slow()) /* a run that is broken off gives nothing back */
		return 0;
	return broken(MUTATE_NO_FENCE) | broken(MUTATE_NO_READ_FENCE) | broken(MUTATE_BELL_FIRST);
}
