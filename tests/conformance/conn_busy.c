/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conn_busy.c -- a new connection is noticed within few polls, even if every poll gives events and
 * the caller takes milliseconds for each
 *
 * An idle poll is quick, so an idle transport looks for new connections only every so many polls. If
 * the caller is then slow with every event, these must not become minutes.
 */
#include "support/check.h"
#include "support/xport_pair.h"

enum {
	KNOCKS = 6,
	IDLE_POLLS = 4000, /* a transport that finds nothing looks as seldom as it ever does */
	TURN_MS = 2, /* what the caller takes for its events */
	POLLS_SHM = 8, /* until a knock is heard, where it is there at once … */
	POLLS_VERBS = 300, /* … and where it takes its time through a network that is emulated */
	POLLS_ENOUGH =
		20000, /* no knock is worth more, though a datagram of it was lost and said again */
};

static void idle(struct xp_end *end)
{
	for (unsigned i = 0; i < IDLE_POLLS; i++)
		xp_progress_end(end);
}

/* The caller at work: nothing is polled */
static void work(void)
{
	uint64_t until = xp_now_ms() + TURN_MS;

	while (xp_now_ms() < until)
		xp_pause();
}

/* Polls of the end that listens until it hears the knock, with a bell in each */
static unsigned polls_until_heard(struct xp_pair *pair, struct xp_end *knocker)
{
	struct xp_event event;
	unsigned polls = 0;
	bool heard = false;

	for (; !heard; polls++) {
		check_msg(polls < POLLS_ENOUGH, "a knock is not heard within %u polls", polls);
		xp_bell(pair->b_conn, polls);
		work();
		xp_progress_end(knocker);
		xp_progress_end(&pair->a);
		for (unsigned i = pair->a.queue_count; i > 0 && !heard; i--)
			heard = pair->a.queue[i - 1].ev.type == OL_XPORT_CONN_REQUEST;
	}
	while (xp_take(&pair->a, OL_XPORT_DOORBELL_RUNG, NULL, &event))
		;
	return polls;
}

/* Shared memory hears each at once. A network may lose a knock, and a machine may stall: that is not
 * the transport, which is slow with every knock if it is slow with one. */
static void a_knock_is_heard_however_slow_the_turns_are(void)
{
	unsigned polls_max = xp_is_shm() ? POLLS_SHM : POLLS_VERBS,
		 late_max = xp_is_shm() ? 0 : KNOCKS / 2;
	unsigned late = 0;
	struct xp_end knocker;
	struct xp_pair pair;

	xp_pair_open(&pair, NULL);
	xp_end_open(&knocker, NULL);
	for (unsigned i = 0; i < KNOCKS; i++) {
		struct ol_xport_conn *conn;
		unsigned polls;

		idle(&pair.a);
		check_ok(knocker.ops->connect(knocker.xport, pair.a.addr, NULL, 0, NULL, &conn));
		polls = polls_until_heard(&pair, &knocker);
		late += polls > polls_max;
		check_msg(late <= late_max, "%u knocks were heard late, the last after %u polls",
			  late, polls);
		xp_reject(&pair.a, xp_wait(&pair.a, OL_XPORT_CONN_REQUEST, NULL).ev.conn, NULL, 0);
		xp_wait_down(&knocker, conn);
		xp_conn_free(&knocker, conn);
	}
	xp_end_close(&knocker);
	xp_pair_close(&pair);
}

int main(int argc, char **argv)
{
	xp_init(argc, argv);
	xp_run1("a knock is heard however slow the turns are",
		a_knock_is_heard_however_slow_the_turns_are);
	return xp_result();
}
