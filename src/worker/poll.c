/* SPDX-License-Identifier: BSD-3-Clause */

/* poll.c -- progress and waiting */

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sized.h"
#include "rdma/order.h"
#include "worker/worker_internal.h"

enum {
	EVENTS_MAX = 32,
	QUIET_POLLS = 128, /* empty ones between two looks at the clock, which keeps news waiting */
	YIELD_POLLS = 16, /* as many, where others wait for the processor */
	LOOK_POLLS = 8, /* of a look: those with events, and one without */
	SLEEP_MAX_MS = 50, /* a wait looks at its deadline this often … */
	RETRY_MAX_MS = 2, /* … and at links to retry */
	NEWEST_MS = 10, /* between two questions for the newest version */
	ASKS_A_STEP = 8, /* such questions of a wait for a version … */
	ASK_MIN_US = 200, /* … and the time between two */
	ASK_MAX_MS = 50
};

static bool links_busy(const struct ol_link *link)
{
	return link->send_count > 0 || link->withdraw_due || link->carried.drops_due ||
	       link->carried.again_due || link->read_state == OL_READ_NEWEST ||
	       link->read_state == OL_READ_DATA || link->read_state == OL_READ_CHECK ||
	       link->state == OL_LINK_DOWN || link->pinned;
}

static bool lives_on(const struct ol_worker *worker)
{
	return worker->opts.outage != OL_OUTAGE_END;
}

static void outage_progress(struct ol_worker *worker)
{
	if (worker->pull_op != NULL)
		ol_outage_on_catch_up(worker);
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		ol_link_watch(link, worker->now_ns);
		if (link->queue.count > 0)
			ol_outage_replay(link);
	}
}

/* True while a connection is being made: a caller that polls seldom should not wait long for it */
static bool any_link_is_down(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (worker->links[i].state == OL_LINK_DOWN)
			return true;
	}
	return false;
}

static void link_progress(struct ol_link *link)
{
	if (link->state == OL_LINK_DOWN)
		ol_link_tick(link, ol_worker_now(link->worker));
	ol_push_progress(link);
	if (link->reader->dial.state != OL_DIAL_LIVE)
		return;
	ol_pull_progress(link);
	ol_pull_unpin(link);
}

/* Handle a rail's events: how many there were. 0 while it has no transport, as its device died */
static int rail_poll(struct ol_rail *rail)
{
	struct ol_worker *worker = rail->worker;
	struct ol_xport_event events[EVENTS_MAX];
	int count;

	if (rail->xport == NULL) {
		ol_rail_tick(rail);
		return 0;
	}
	/* a transport may look at rare events seldom, but a poll after arm() does look */
	if (any_link_is_down(worker))
		(void)worker->ops->arm(rail->xport);
	count = worker->ops->poll(rail->xport, events, EVENTS_MAX);
	if (count <= 0) {
		if (count != -ENODEV)
			return count;
		ol_worker_now(worker);
		return ol_rail_lost(rail);
	}
	if (lives_on(worker) || !worker->started)
		ol_worker_now(worker); /* else nothing is timed */
	for (int i = 0; i < count; i++) {
		worker->inbox = (struct ol_inbox){ &events[i + 1], count - i - 1 };
		if (events[i].conn != NULL) /* else it was freed meanwhile */
			ol_link_on_event(events[i].conn->user, &events[i], worker->now_ns);
	}
	worker->inbox = (struct ol_inbox){ 0 };
	return count;
}

static int rails_poll(struct ol_worker *worker)
{
	int total = rail_poll(&worker->rails[0]);

	for (uint32_t i = 1; i < worker->rail_count && total >= 0; i++) {
		int count = rail_poll(&worker->rails[i]);

		total = count < 0 ? count : total + count;
	}
	return total;
}

/* Progress; the ops it completed are counted in worker->completed */
static int poll_once(struct ol_worker *worker)
{
	int events_count;

	if (worker->coord != NULL)
		ol_route_look(worker);
	events_count = rails_poll(worker);
	if (events_count < 0)
		return events_count;
	if (events_count == 0 && lives_on(worker))
		ol_worker_now(worker);
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];

		if (links_busy(link))
			link_progress(link);
		ol_link_act_on_ends(link, worker->now_ns);
	}
	if (worker->started && ol_worker_decided(worker))
		ol_carry_progress(worker);
	if (lives_on(worker) && worker->started)
		outage_progress(worker);
	if (worker->flush_op != NULL)
		ol_outage_flush(worker);
	return events_count;
}

int ol_worker_look(struct ol_worker *worker)
{
	int rc = 1;

	for (uint32_t i = 0; i < worker->rail_count; i++) {
		if (worker->rails[i].xport != NULL)
			(void)worker->ops->arm(worker->rails[i].xport);
	}
	for (unsigned i = 0; i < LOOK_POLLS && rc > 0; i++)
		rc = poll_once(worker);
	return rc < 0 ? rc : 0;
}

/* Assert what holds for every gradient buffer between two polls */
static void grads_check(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->slots; i++) {
		const struct ol_grad *grad = &worker->grads[i];

		assert(grad->state != OL_GRAD_FREE || grad->op == NULL);
		assert(grad->state == OL_GRAD_PUSHED || (grad->open | grad->kept) == 0);
		assert((grad->acks_due & ~grad->open) == 0);
		assert((grad->reopened & ~grad->open) == 0);
		assert((grad->open & grad->kept) == 0);
		(void)grad;
	}
}

int ol_worker_poll(struct ol_worker *worker)
{
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	rc = poll_once(worker);
	grads_check(worker);
	if (rc < 0)
		return rc;
	rc = worker->completed;
	worker->completed = 0;
	return rc;
}

/* The longest sleep: lost servers are dialled, and heartbeats read, in sleep too */
static uint64_t sleep_max_ns(const struct ol_worker *worker)
{
	if (ol_worker_decided(worker) && (!worker->introduced || worker->even_ns != 0))
		return OL_NS_PER_MS;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		const struct ol_link *link = &worker->links[i];

		if (link->peers[OL_HEAD].dial.state == OL_DIAL_IDLE ||
		    link->peers[OL_TAIL].dial.state == OL_DIAL_IDLE)
			return RETRY_MAX_MS * OL_NS_PER_MS;
	}
	return SLEEP_MAX_MS * OL_NS_PER_MS;
}

int ol_worker_sleep(struct ol_worker *worker, uint64_t max_ns)
{
	struct pollfd fds[1 + OL_RAILS_MAX] = {
		{ .fd = worker->wake_fd, .events = POLLIN }, /* below 0: ignored */
	};
	nfds_t count = 1;
	uint64_t bound_ns = sleep_max_ns(worker);
	struct timespec timeout = { 0 };
	int rc;

	for (uint32_t i = 0; i < worker->rail_count; i++) {
		struct ol_xport *xport = worker->rails[i].xport;

		if (xport == NULL)
			continue;
		fds[count++] =
			(struct pollfd){ .fd = worker->ops->event_fd(xport), .events = POLLIN };
		rc = worker->ops->arm(xport);
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	timeout.tv_nsec = (long)(max_ns < bound_ns ? max_ns : bound_ns);
	if (ppoll(fds, count, &timeout, NULL) < 0 && errno != EINTR)
		return -errno;
	if (fds[0].revents != 0)
		ol_route_woken(worker);
	return 0;
}

/* poll_once() until it gives an event, so many times at most */
static int poll_some(struct ol_worker *worker)
{
	unsigned max = worker->opts.spin_yield ? YIELD_POLLS : QUIET_POLLS;
	int rc = poll_once(worker);

	for (unsigned i = 1; i < max && rc == 0; i++)
		rc = poll_once(worker);
	return rc;
}

/* After a silence: probe the servers, as one may be gone without notice */
static void peers_probe(struct ol_worker *worker, uint64_t now_ns)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		for (uint32_t k = 0; k < OL_PEERS; k++)
			ol_peer_probe(&worker->links[i].peers[k], now_ns);
	}
}

/* A wait without events */
struct idle {
	uint32_t timeout_ms; /* set at its start, when the times are 0 */
	uint64_t spin_ns; /* until when it spins; then it sleeps */
	uint64_t bound_ns;
};

/* No event has come: spin, or sleep until one does. -ETIMEDOUT after timeout_ms without one */
static int idle_more(struct ol_worker *worker, struct idle *idle)
{
	uint64_t now_ns = ol_clock_ns();

	if (idle->bound_ns == 0) {
		idle->spin_ns = now_ns + worker->opts.spin_us * OL_NS_PER_US;
		idle->bound_ns = now_ns + idle->timeout_ms * OL_NS_PER_MS;
	}
	if (now_ns >= idle->bound_ns)
		return -ETIMEDOUT;
	if (now_ns < idle->spin_ns) {
		if (worker->opts.spin_yield)
			sched_yield();
		else
			ol_cpu_relax();
		return 0;
	}
	peers_probe(worker, now_ns);
	return ol_worker_sleep(worker, idle->bound_ns - now_ns);
}

/* The bound of an idle wait, from op_timeout_ms: 0 means no bound there, and becomes 49 days */
static uint32_t patience_ms(const struct ol_worker *worker)
{
	return worker->opts.op_timeout_ms != 0 ? worker->opts.op_timeout_ms : UINT32_MAX;
}

/* Poll until op is done. Returns its status, or why the wait ended before: -ETIMEDOUT, an error */
static int done_wait(struct ol_worker *worker, struct ol_op *op, uint32_t timeout_ms)
{
	struct idle idle = { .timeout_ms = timeout_ms };
	int rc = poll_once(worker);

	while (!op->done && rc >= 0) {
		ol_outage_pull(worker);
		rc = poll_some(worker);
		if (rc == 0)
			rc = idle_more(worker, &idle);
	}
	if (!op->done)
		return rc;
	if (worker->completed > 0) /* a poll may have reported this op's completion already */
		worker->completed--; /* the next poll reports those of other ops */
	return op->status;
}

/* Give the op back to its caller; its push, pull or flush goes on without it */
static void op_detach(struct ol_worker *worker, struct ol_op *op, int status)
{
	ol_push_detach(worker, op);
	ol_pull_detach(worker, op);
	if (worker->flush_op == op)
		worker->flush_op = NULL;
	op->status = status;
	op->version = 0;
	op->done = 1;
}

int ol_worker_wait(struct ol_worker *worker, struct ol_op *op)
{
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	rc = done_wait(worker, op, patience_ms(worker));
	if (!op->done)
		op_detach(worker, op, rc);
	return rc;
}

int ol_worker_wait_for(struct ol_worker *worker, struct ol_op *op, uint32_t timeout_ms)
{
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	rc = done_wait(worker, op, timeout_ms);
	return !op->done && rc == -ETIMEDOUT ? -EAGAIN : rc;
}

/* Is a buffer on its way back? If not, the caller itself holds all that are lent. */
static bool any_pushed(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->window; i++) {
		if (worker->grads[i].state == OL_GRAD_PUSHED)
			return true;
	}
	return false;
}

/* Grows with each pull of newer weights; 0 where acquire does not pace */
static uint64_t versions_sum(const struct ol_worker *worker)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	uint64_t sum = 0;

	if (!ol_outage_paces(worker) || !mirror->whole)
		return 0;
	for (uint32_t k = 0; k < worker->link_count; k++)
		sum += mirror->versions[k];
	return sum;
}

/* Nothing has come while a step has no place for a gradient: was it the job's last one? */
static void newest_ask(struct ol_worker *worker, uint64_t *asked_ns)
{
	uint64_t now_ns = ol_clock_ns();

	if (now_ns - *asked_ns < NEWEST_MS * OL_NS_PER_MS || ol_outage_pace(worker) == 0)
		return;
	*asked_ns = now_ns;
	(void)ol_newest(worker);
}

int ol_grad_acquire(struct ol_worker *worker, float **ret_grad)
{
	struct idle idle = { .timeout_ms = patience_ms(worker) };
	uint64_t versions, asked_ns = 0;
	bool pulls = false; /* this call uses own_pull; the caller does not compute meanwhile */
	int rc = 0;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	versions = versions_sum(worker);
	while (rc >= 0) {
		if (pulls && worker->own_pull.done) {
			pulls = false;
			if (worker->own_pull.status != 0)
				return worker->own_pull.status;
		}
		if (!pulls) {
			rc = ol_push_lend(worker, versions_sum(worker) == versions, ret_grad);
			if (rc != -EAGAIN && rc != -ENOBUFS)
				return rc;
			if (!any_pushed(worker) && ol_outage_pace(worker) == 0)
				return -EBUSY;
			pulls = rc == -ENOBUFS && worker->pull_op == NULL &&
				ol_pull(worker, 0, &worker->own_pull) == 0;
		}
		rc = poll_some(worker);
		if (rc == 0) {
			newest_ask(worker, &asked_ns);
			rc = idle_more(worker, &idle);
		} else if (rc > 0 && idle.bound_ns != 0 && ol_clock_ns() >= idle.bound_ns) {
			rc = -ETIMEDOUT;
		}
	}
	return rc;
}

/* The newest version known, of the shard furthest behind; *ret_asking: an answer is due; *ret_there:
 * all servers are, so it can be read */
static uint64_t newest_known(const struct ol_worker *worker, bool *ret_asking, bool *ret_there)
{
	uint64_t newest = UINT64_MAX;

	*ret_asking = false;
	*ret_there = true;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		const struct ol_link *link = &worker->links[i];

		if (link->version < newest)
			newest = link->version;
		*ret_asking = *ret_asking || link->asking;
		*ret_there = *ret_there && ol_link_readable(link);
	}
	return newest;
}

static bool any_link_failed(const struct ol_worker *worker)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		if (worker->links[i].state == OL_LINK_FAILED)
			return true;
	}
	return false;
}

static void pace_note(struct ol_pace *pace, uint64_t newest, uint64_t now_ns)
{
	if (pace->since_ns != 0 && newest == pace->version)
		return;
	if (pace->since_ns != 0 && newest > pace->version)
		pace->step_ns = (now_ns - pace->since_ns) / (newest - pace->version);
	pace->version = newest;
	pace->since_ns = now_ns;
}

/* Until the next question. It follows the job's steps, so that neither many readers nor slow steps
 * make many questions, and the answer is late by a part of a step only. */
static uint64_t ask_pause_ns(const struct ol_pace *pace, uint64_t want, uint64_t now_ns)
{
	const uint64_t most_ns = ASK_MAX_MS * OL_NS_PER_MS, least_ns = ASK_MIN_US * OL_NS_PER_US;
	const uint64_t since_ns = now_ns - pace->since_ns,
		       steps = want > pace->version ? want - pace->version : 1;
	uint64_t pause_ns = (since_ns > pace->step_ns ? since_ns : pace->step_ns) / ASKS_A_STEP;

	if (pause_ns < least_ns)
		pause_ns = least_ns;
	if (steps > 1 && pace->step_ns > most_ns / (steps - 1))
		pause_ns = most_ns;
	else if (steps > 1 && pause_ns < (steps - 1) * pace->step_ns)
		pause_ns = (steps - 1) * pace->step_ns;
	return pause_ns < most_ns ? pause_ns : most_ns;
}

static void back_say(struct ol_worker *worker, uint64_t newest)
{
	if (!worker->pace.told)
		ol_log(OL_LOG_WARN,
		       "reader: a server came back with version %llu, and this reader has %llu: it "
		       "waits until the job has come that far again",
		       (unsigned long long)newest, (unsigned long long)worker->pace.handed);
	worker->pace.told = true;
}

/* A wait for a version */
struct version_wait {
	uint64_t want;
	uint64_t bound_ns;
	uint64_t ask_ns; /* the next question is due; 0: none was asked */
	bool once; /* one answer will do */
};

/* 1: go on; 0: the version is there; or why the wait ends */
static int version_look(struct ol_worker *worker, struct version_wait *wait)
{
	struct ol_pace *pace = &worker->pace;
	const uint64_t now_ns = ol_worker_now(worker);
	const bool asked = wait->ask_ns != 0;
	bool asking, there;
	uint64_t newest = newest_known(worker, &asking, &there);

	pace_note(pace, newest, now_ns);
	/* what was known before is no answer: the server may have died since */
	if (there && asked && !asking && newest >= wait->want) {
		if (worker->opts.observer)
			pace->handed = wait->want;
		pace->told = false;
		return 0;
	}
	if (any_link_failed(worker))
		return OL_E_NO_SERVER;
	if (there && newest < pace->handed)
		back_say(worker, newest);
	if (now_ns >= wait->bound_ns || (wait->once && (!there || (asked && !asking))))
		return there && newest < pace->handed ? OL_E_HISTORY : -ETIMEDOUT;
	if (now_ns >= wait->ask_ns && !asking) {
		(void)ol_newest(worker);
		(void)newest_known(worker, &asking, &there);
		if (asking) /* else a queue was full: again at the next look */
			wait->ask_ns = now_ns + ask_pause_ns(pace, wait->want, now_ns);
	}
	return 1;
}

int ol_wait_version(struct ol_worker *worker, uint64_t version, uint32_t timeout_ms)
{
	const uint64_t patience_ns =
		(timeout_ms != 0 ? timeout_ms : patience_ms(worker)) * OL_NS_PER_MS;
	struct version_wait wait = { .want = version, .once = timeout_ms == 0 };
	uint64_t due_ns, now_ns;
	int rc, events;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (version > OL_VERSION_MAX)
		return -EINVAL;
	if (wait.want < worker->pace.handed)
		wait.want = worker->pace.handed;
	wait.bound_ns = ol_clock_ns() + patience_ns;
	/* a transport looks for lost servers in every poll before a sleep */
	events = ol_worker_sleep(worker, 0);
	if (events >= 0)
		events = poll_once(worker);
	if (events < 0)
		return events;
	while ((rc = version_look(worker, &wait)) > 0) {
		events = poll_some(worker);
		due_ns = wait.ask_ns < wait.bound_ns ? wait.ask_ns : wait.bound_ns;
		now_ns = ol_clock_ns();
		if (events == 0) /* an answer that is due wakes it */
			events = ol_worker_sleep(worker,
						 now_ns < due_ns ? due_ns - now_ns : OL_NS_PER_MS);
		if (events < 0)
			return events;
	}
	return rc;
}

int ol_stat_sized(struct ol_worker *worker, uint32_t shard, struct ol_server_stat *ret_stat,
		  size_t stat_bytes)
{
	struct ol_board *board = ol_worker_board(worker);
	struct ol_xport_read read = {
		.segs = { { .off = ol_worker_work_off(worker, board), .bytes = sizeof(*board) } },
		.seg_count = 1,
		.flags = OL_XPORT_SIGNALED,
		.cookie = ol_cookie_make(OL_COOKIE_STAT, worker->stat_generation + 1),
	};
	const struct ol_peer *reader;
	struct ol_server_stat stat;
	struct idle idle = { .timeout_ms = patience_ms(worker) };
	bool posted = false;
	int rc = 0;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (shard >= worker->link_count)
		return -EINVAL;
	reader = worker->links[shard].reader;
	read.src = reader->dial.public_key;
	worker->stat_generation++;
	worker->stat_done = false;
	while (rc >= 0 && !worker->stat_done) {
		if (reader->dial.state != OL_DIAL_LIVE)
			return OL_E_NO_SERVER;
		read.segs[0].region = reader->rail->work_region;
		if (!posted)
			posted = worker->ops->post_read(reader->dial.conn, &read) == 0;
		rc = poll_some(worker);
		if (rc == 0)
			rc = idle_more(worker, &idle);
	}
	if (!worker->stat_done)
		return rc;
	if (worker->stat_status != 0)
		return OL_E_NO_SERVER;
	ol_board_stat(board, &stat);
	ol_sized_give(ret_stat, stat_bytes, &stat, sizeof(stat));
	return 0;
}
