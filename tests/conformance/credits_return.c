/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * credits_return.c -- doorbells that nobody has polled when their connection ends take nothing away
 * from the connections that come later
 */
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	BELLS = 16,
	CONNS = 4,
	ROUNDS = 3 * CONNS,
};

/* All bells have arrived, and the end that they came to has not looked. */
static void ring_unheard(struct xp_pair *pair)
{
	const uint64_t deadline = xp_now_ms() + XP_WAIT_MS;
	struct xp_event event;

	for (uint32_t i = 0; i < BELLS; i++) {
		struct ol_xport_write bell = { .flags = OL_XPORT_DOORBELL, .imm = i, .cookie = i };

		if (i == BELLS - 1)
			bell.flags |= OL_XPORT_SIGNALED;
		check_ok(pair->b.ops->post_write(pair->b_conn, &bell));
	}
	while (pair->b.queue_count == 0) {
		check(xp_now_ms() < deadline);
		xp_progress_end(&pair->b);
		xp_relax();
	}
	check(xp_take(&pair->b, OL_XPORT_DONE, pair->b_conn, &event));
	check_eq(event.ev.status, 0);
}

static void ends_unheard(void)
{
	struct ol_xport_opts opts = xp_opts();
	struct xp_pair pair;

	opts.doorbells_max = BELLS;
	opts.conns_max = CONNS;
	xp_end_open(&pair.a, &opts);
	xp_end_open(&pair.b, &opts);
	xp_end_listen(&pair.a);
	for (unsigned round = 0; round < ROUNDS; round++) {
		xp_connect(&pair.a, &pair.b, &pair.a_conn, &pair.b_conn);
		ring_unheard(&pair);
		xp_conn_free(&pair.a, pair.a_conn);
		xp_conn_free(&pair.b, pair.b_conn);
	}
	xp_connect(&pair.a, &pair.b, &pair.a_conn, &pair.b_conn);
	for (uint32_t i = 0; i < BELLS; i++)
		xp_bell(pair.b_conn, i);
	for (uint32_t i = 0; i < BELLS; i++)
		xp_wait_bell(&pair.a, pair.a_conn, i);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("after connections that ended with bells unheard, a later one's are heard",
		ends_unheard);
	return xp_result();
}
