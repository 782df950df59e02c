/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * loop.c -- a worker's training loop
 */
#include "cmd/loop.h"

#include <errno.h>
#include <math.h>

#include "base/clock.h"

enum {
	SAY_MS = 100, /* between two reports to the parent */
	IDLE_MS = 2, /* between two looks at the links while nothing else is done */
	PACE_LAG_MS = 20 /* a longer lag is not caught up with */
};

static bool give_up(const struct ol_control *control)
{
	if (control->quit)
		return true;
	return control->signal != 0 &&
	       ol_clock_ns() - control->signal_ns > OL_LOOP_GRACE_MS * OL_NS_PER_MS;
}

/* Report to the parent every SAY_MS */
static void step_say(struct ol_loop *loop)
{
	uint64_t now_ns;

	if (loop->control->parent_fd < 0)
		return;
	now_ns = ol_clock_ns();
	if (now_ns - loop->said_ns < SAY_MS * OL_NS_PER_MS)
		return;
	loop->said_ns = now_ns;
	ol_control_say(loop->control, "step", ol_loop_json(loop, false));
}

static void before_account(struct ol_loop *loop, uint64_t now_ns)
{
	struct ol_loop_stat *stat = &loop->stat;

	if (stat->before_ns != 0 || now_ns <= stat->start_ns)
		return;
	stat->before_ns = now_ns - stat->start_ns;
	stat->before_computed = stat->computed;
}

/* Account gradients and time with all servers, and with one missing */
static void outage_account(struct ol_loop *loop, unsigned down)
{
	struct ol_loop_stat *stat = &loop->stat;
	uint64_t now_ns = ol_clock_ns();

	if (loop->down == 0 && down > 0) {
		loop->down_from_ns = now_ns;
		loop->down_computed = stat->computed;
		before_account(loop, now_ns);
	} else if (loop->down > 0 && down == 0) {
		stat->outage_ns += now_ns - loop->down_from_ns;
		stat->outage_computed += stat->computed - loop->down_computed;
	}
	loop->down = down;
}

static void down_say(struct ol_loop *loop, uint32_t shard, const struct ol_link_stat *link)
{
	ol_control_say(loop->control, "down",
		       json_pack("{s:i, s:I, s:i}", "shard", (int)shard, "at_ns",
				 (json_int_t)link->down_ns, "reason", link->reason));
}

static void up_say(struct ol_loop *loop, uint32_t shard, const struct ol_link_stat *link)
{
	ol_control_say(loop->control, "up",
		       json_pack("{s:i, s:I, s:i}", "shard", (int)shard, "at_ns",
				 (json_int_t)link->up_ns, "epoch", (int)link->epoch));
}

/* Report when a server has its whole queue applied: its weights show the queue's effect now. */
static void settled_look(struct ol_loop *loop, uint32_t shard, const struct ol_link_stat *link)
{
	if (!loop->links[shard].unsettled || link->down || link->pending > 0)
		return;
	loop->links[shard].unsettled = false;
	ol_control_say(loop->control, "settled", json_pack("{s:i}", "shard", (int)shard));
}

/* Report changes of the links since the last look to the parent. */
static void links_look(struct ol_loop *loop)
{
	uint64_t queue_bytes = 0;
	unsigned down = 0;

	for (uint32_t i = 0; i < loop->shards; i++) {
		struct ol_link_stat link;

		if (ol_link_get_stat(loop->worker, i, &link) != 0)
			continue;
		down += link.down != 0;
		queue_bytes += link.queue_bytes;
		if (link.outages != loop->links[i].outages) {
			/* of several outages since the last look only the last is known */
			if (loop->links[i].down)
				up_say(loop, i, &link);
			down_say(loop, i, &link);
			loop->links[i].outages = link.outages;
			loop->links[i].down = true;
			loop->links[i].unsettled = true;
			loop->news = true;
			if (!link.down && !loop->resting && link.up_ns > link.down_ns) {
				/* the outage was over before this look */
				before_account(loop, link.down_ns);
				loop->stat.outage_ns += link.up_ns - link.down_ns;
			}
		}
		if (loop->links[i].down && !link.down) {
			up_say(loop, i, &link);
			loop->links[i].down = false;
			loop->news = true;
		}
		settled_look(loop, i, &link);
	}
	if (queue_bytes > loop->stat.queue_bytes_max)
		loop->stat.queue_bytes_max = queue_bytes;
	if (loop->resting)
		down = 0;
	if ((down > 0) != (loop->down > 0))
		outage_account(loop, down);
	loop->down = down;
}

/* Look at orders and links, and report; waits up to timeout_ms for an order. */
static void look(struct ol_loop *loop, int timeout_ms)
{
	ol_control_poll(loop->control, timeout_ms);
	links_look(loop);
	step_say(loop);
	if (loop->looked != NULL)
		loop->looked(loop->looked_arg);
}

/* Tell the parent when a wait for others begins, and when it ends. Pulls during a flush are part of
 * the flush's wait. */
static void waiting_say(struct ol_loop *loop, enum ol_loop_wait waits)
{
	if (loop->flushing)
		waits = OL_LOOP_WAITS_FLUSH;
	if (loop->waits == waits)
		return;
	loop->waits = waits;
	loop->said_ns = 0;
	step_say(loop);
}

/* As look(), with the links making progress meanwhile */
static void idle(struct ol_loop *loop, int timeout_ms)
{
	(void)ol_worker_poll(loop->worker);
	look(loop, timeout_ms);
}

/*
 * If all shards are up and at the wanted version, a held gradient is for a surplus step, to which
 * workers that know so do not contribute: withdraw it.
 */
static int surplus_withdraw(struct ol_loop *loop)
{
	for (uint32_t i = 0; i < loop->shards; i++) {
		struct ol_link_stat link;

		if (ol_link_get_stat(loop->worker, i, &link) != 0 || link.down)
			return 0;
	}
	if (!loop->by_version ||
	    ol_newest(loop->worker) + loop->stat.barren < loop->control->stop_at)
		return 0;
	return ol_withdraw(loop->worker);
}

/* Wait until op is done; only an order limits a wait for slower workers. */
static int op_wait(struct ol_loop *loop, struct ol_op *op)
{
	for (;;) {
		int rc = ol_worker_wait_for(loop->worker, op, OL_LOOP_LOOK_UP_MS);

		if (op->done || rc != -EAGAIN)
			waiting_say(loop, OL_LOOP_WAITS_NOT);
		if (op->done)
			return op->status;
		if (rc != -EAGAIN)
			return rc;
		waiting_say(loop, op == &loop->pull ? OL_LOOP_WAITS_PULL : OL_LOOP_WAITS_PUSH);
		look(loop, 0);
		if (give_up(loop->control))
			return -ECANCELED;
		rc = op == &loop->push ? surplus_withdraw(loop) : 0;
		if (rc != 0)
			return rc;
	}
}

/* Note how many gradients of this worker the shards had at its start: more, while none of its own is applied, as the
 * process before it may have had one under way; fewer after a rollback below that, which begins an epoch. (In one epoch
 * older weights are a snapshot from before: OL_PULL_EVEN.) */
static void base_take(struct ol_loop *loop)
{
	struct ol_link_stat link = { 0 };

	for (uint32_t i = 0; i < loop->shards; i++) {
		uint64_t applied = ol_applied_grads(loop->worker, i, loop->worker_id);

		(void)ol_link_get_stat(loop->worker, i, &link);
		if (loop->began && applied >= loop->base[i] &&
		    (link.applied > 0 || link.pending > 0))
			continue;
		if (loop->began && applied < loop->base[i] && link.epoch == loop->base_epochs[i])
			continue;
		loop->base[i] = applied;
		loop->base_epochs[i] = link.epoch;
	}
}

/* At the shard that has most: none is to have one twice */
static uint64_t base_most(const struct ol_loop *loop)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < loop->shards; i++)
		most = loop->base[i] > most ? loop->base[i] : most;
	return most;
}

static int weights_get(struct ol_loop *loop, unsigned flags)
{
	struct ol_loop_stat *stat = &loop->stat;
	int rc;

	loop->news = false;
	rc = ol_pull(loop->worker, flags | (loop->joined ? 0 : OL_PULL_EVEN), &loop->pull);
	if (rc == 0)
		rc = op_wait(loop, &loop->pull);
	if (rc != 0)
		return rc;
	(void)ol_weights(loop->worker, &stat->version);
	base_take(loop);
	if (!loop->pull.local)
		loop->since = 0;
	if (loop->by_version)
		stat->position = stat->version + stat->barren + loop->since;
	else if (!loop->began)
		stat->position = base_most(loop);
	if (!loop->began)
		rc = ol_job_begin(loop->job, stat->position);
	if (rc != 0)
		return rc;
	if (!loop->began && loop->steps != 0 &&
	    stat->position + loop->steps < loop->control->stop_at)
		loop->control->stop_at = stat->position + loop->steps;
	loop->began = true;
	return 0;
}

int ol_loop_pull_newest(struct ol_loop *loop)
{
	return weights_get(loop, OL_PULL_NEWEST);
}

/* As waiting_say(), if the wait since begin_ns is long enough to be reported */
static void waits_long(struct ol_loop *loop, enum ol_loop_wait waits, uint64_t begin_ns)
{
	if (ol_clock_ns() - begin_ns > OL_LOOP_LOOK_UP_MS * OL_NS_PER_MS)
		waiting_say(loop, waits);
}

/* Acquire a buffer; wait if all are taken. */
static int grad_acquire(struct ol_loop *loop, float **ret_grad)
{
	uint64_t begin_ns = ol_clock_ns();

	for (;;) {
		int rc = ol_grad_try_acquire(loop->worker, ret_grad);

		if (rc == -ENOBUFS) { /* a pull frees buffers whose gradients it contains */
			rc = weights_get(loop, OL_PULL_NEWEST);
		} else if (rc == -EAGAIN) { /* perhaps a step frees one, which nobody makes */
			rc = surplus_withdraw(loop);
		} else {
			waiting_say(loop, OL_LOOP_WAITS_NOT);
			return rc;
		}
		if (rc != 0 && rc != -EAGAIN)
			return rc;
		waits_long(loop, OL_LOOP_WAITS_BUFFER, begin_ns);
		idle(loop, 1);
		if (give_up(loop->control))
			return -ECANCELED;
	}
}

/* Release a buffer; parts that were sent ahead are cancelled as soon as the queue has room */
static int grad_release(struct ol_loop *loop, float *grad)
{
	int rc;

	while ((rc = ol_grad_release(loop->worker, grad)) == -EAGAIN) {
		idle(loop, 1);
		if (give_up(loop->control))
			return -ECANCELED;
	}
	return rc;
}

static int grad_push(struct ol_loop *loop, float *grad, const struct ol_push_info *info)
{
	uint64_t begin_ns = ol_clock_ns();

	for (;;) {
		int rc;

		loop->push = (struct ol_op){ .level = OL_LEVEL_APPLIED };
		rc = ol_push(loop->worker, grad, info, &loop->push);
		if (rc == -ENOBUFS) { /* a pull makes room in a queue */
			rc = weights_get(loop, OL_PULL_NEWEST);
			if (rc == 0)
				continue;
		}
		if (rc != -EAGAIN) {
			waiting_say(loop, OL_LOOP_WAITS_NOT);
			return rc;
		}
		waits_long(loop, OL_LOOP_WAITS_ROOM, begin_ns);
		idle(loop, 1);
		if (give_up(loop->control))
			return -ECANCELED;
	}
}

static void batch_draw(struct ol_loop *loop, uint64_t position)
{
	if (loop->has_drawn && loop->drawn == position)
		return;
	ol_job_draw(loop->job, loop->worker_id, position);
	loop->drawn = position;
	loop->has_drawn = true;
}

/* Account the result of a push. Nonzero: the loop cannot go on. */
static int push_account(struct ol_loop *loop, uint64_t base_version, int rc)
{
	struct ol_loop_stat *stat = &loop->stat;

	if (rc == 0 && loop->push.done && !loop->push.local)
		loop->joined = true;
	if (rc == OL_E_NONFINITE && loop->by_version && !loop->push.local &&
	    (!loop->sync || loop->push.version == base_version))
		stat->barren++;
	/* the servers counted what they dropped, the library what was lost */
	if (rc == OL_E_NONFINITE || rc == OL_E_LATE || rc == OL_E_LOST)
		rc = 0;
	return loop->push.done ? rc : (rc != 0 ? rc : -EIO);
}

/*
 * True if the step of a gradient at `base` has been made, and the loop interrupts for that. Not
 * while a server is gone: its last report must not keep the loop from computing at local weights.
 */
static bool overtaken(struct ol_loop *loop, uint64_t base)
{
	return loop->on_late == OL_ON_LATE_INTERRUPT && !loop->pull.local &&
	       ol_newest(loop->worker) > base;
}

/* Wait so long, or until the gradient is overtaken; links and orders get their turn. */
static void delay_wait(struct ol_loop *loop, uint64_t base, double seconds)
{
	uint64_t begin_ns = ol_clock_ns(), now_ns = begin_ns;
	uint64_t end_ns = begin_ns + (uint64_t)(fmax(seconds, 0.0) * 1e9);

	while (now_ns < end_ns && !give_up(loop->control) && !overtaken(loop, base)) {
		idle(loop, end_ns - now_ns < IDLE_MS * OL_NS_PER_MS ? 1 : IDLE_MS);
		now_ns = ol_clock_ns();
	}
	loop->stat.delay_ns += now_ns - begin_ns;
}

/* The gradient of the batch drawn last; takes as long as --delay says. False: thrown away */
static bool gradient(struct ol_loop *loop, float *grad, struct ol_push_info *info)
{
	struct ol_loop_stat *stat = &loop->stat;
	struct learn_key key = { .seed = loop->seed,
				 .step = stat->computed + stat->interrupted,
				 .worker = loop->worker_id };
	const float *weights = ol_weights(loop->worker, &info->base_version);
	double delay_s = ol_delay_draw(loop->delay, &key), factor;
	uint64_t begin_ns;

	delay_wait(loop, info->base_version, delay_s);
	if (give_up(loop->control) || overtaken(loop, info->base_version))
		return false;
	begin_ns = ol_clock_ns();
	ol_job_grad(loop->job, weights, grad, &info->loss);
	stat->grad_ns += ol_clock_ns() - begin_ns;
	factor = ol_delay_factor(loop->delay, loop->worker_id, loop->workers,
				 (double)(begin_ns - stat->start_ns) / 1e9);
	delay_s += (double)(ol_clock_ns() - begin_ns) / 1e9;
	delay_wait(loop, info->base_version, (factor - 1.0) * delay_s);
	return !give_up(loop->control) && !overtaken(loop, info->base_version);
}

/* sync: the version that the job ends with; 0: it is not known yet */
static uint64_t last_version(const struct ol_loop *loop)
{
	const uint64_t stop_at = loop->control->stop_at, barren = loop->stat.barren;

	return loop->sync && stop_at != UINT64_MAX && stop_at > barren ? stop_at - barren : 0;
}

/* One gradient, at the weights pulled last */
static int step(struct ol_loop *loop)
{
	struct ol_loop_stat *stat = &loop->stat;
	struct ol_push_info info = { .samples = loop->job->batch_count };
	float *grad;
	int rc;

	info.last_version = last_version(loop);
	rc = grad_acquire(loop, &grad);
	if (rc != 0)
		return rc;
	if (stat->position >= loop->control->stop_at) /* another pull has moved the position */
		return grad_release(loop, grad);
	batch_draw(loop, stat->position);
	if (!gradient(loop, grad, &info)) {
		stat->interrupted++;
		rc = grad_release(loop, grad);
		return rc == 0 && give_up(loop->control) ? -ECANCELED : rc;
	}
	stat->loss = info.loss;
	rc = grad_push(loop, grad, &info);
	if (rc != 0)
		return rc;
	stat->computed++;
	stat->position++;
	loop->since++;
	batch_draw(loop, stat->position);
	return push_account(loop, info.base_version, op_wait(loop, &loop->push));
}

static void hold(struct ol_loop *loop)
{
	ol_control_say(loop->control, "hold",
		       json_pack("{s:I}", "position", (json_int_t)loop->stat.position));
	while (loop->control->hold && !give_up(loop->control))
		idle(loop, IDLE_MS);
}

/* Keep the average rate at or below --pace */
static void pace_wait(struct ol_loop *loop)
{
	const struct ol_control *control = loop->control;
	uint64_t interval_ns = (uint64_t)(1e9 / loop->pace), now_ns = ol_clock_ns();
	uint64_t lag_ns = PACE_LAG_MS * OL_NS_PER_MS + interval_ns;

	if (loop->pace_ns + lag_ns < now_ns)
		loop->pace_ns = now_ns - lag_ns;
	while (now_ns < loop->pace_ns && !control->quit && control->signal == 0) {
		idle(loop, loop->pace_ns - now_ns < IDLE_MS * OL_NS_PER_MS ? 1 : IDLE_MS);
		now_ns = ol_clock_ns();
	}
	loop->pace_ns += interval_ns;
}

/* True if more is to be computed, as a server may have come back with fewer steps */
static bool wants_more(const struct ol_loop *loop)
{
	return loop->control->signal == 0 && loop->stat.position < loop->control->stop_at;
}

static int flush_step(struct ol_loop *loop)
{
	int rc = weights_get(loop, OL_PULL_NEWEST);

	if (rc == 0)
		rc = surplus_withdraw(loop);
	if (rc != 0 || loop->flush.done || wants_more(loop))
		return rc;
	rc = ol_worker_wait_for(loop->worker, &loop->flush, OL_LOOP_LOOK_UP_MS);
	if (loop->flush.done || rc != -EAGAIN)
		return rc;
	waiting_say(loop, OL_LOOP_WAITS_FLUSH);
	look(loop, 0);
	return give_up(loop->control) ? -ECANCELED : 0;
}

/* Wait until all pushes are resolved, or there is more to compute: then other workers may wait for
 * this one, which must not wait for them. The op stays in progress for the next call. */
static int flush(struct ol_loop *loop)
{
	int rc = 0;

	loop->flushing = true;
	if (!loop->flush_open || loop->flush.done)
		rc = ol_flush(loop->worker, &loop->flush);
	loop->flush_open = rc == 0;
	while (rc == 0 && !loop->flush.done && !wants_more(loop))
		rc = flush_step(loop);
	loop->flush_open = loop->flush_open && !loop->flush.done;
	loop->flushing = false;
	waiting_say(loop, OL_LOOP_WAITS_NOT);
	if (rc == 0 && loop->flush.done)
		rc = loop->flush.status;
	return rc == OL_E_LOST || rc == OL_E_NONFINITE || rc == OL_E_LATE ? 0 : rc;
}

/*
 * All requested gradients are computed: wait until they are resolved, and stay for the other
 * workers. *ret_again: the servers were rolled back, and there is more to compute.
 */
static int finish(struct ol_loop *loop, bool *ret_again)
{
	struct ol_control *control = loop->control;
	bool said = false;
	int rc;

	*ret_again = false;
	loop->resting = true;
	links_look(loop);
	for (;;) {
		rc = flush(loop);
		/* steps counted while a server was gone may not be versions yet */
		if (rc == 0 && (loop->news || loop->pull.local) && control->signal == 0)
			rc = weights_get(loop, OL_PULL_NEWEST);
		if (rc != 0)
			return rc;
		if (loop->pull.local && control->signal == 0 && !wants_more(loop))
			continue; /* a server is gone again */
		if (control->more && loop->stat.position >= control->stop_at)
			control->stop_at = loop->stat.position + 1;
		control->more = false;
		*ret_again = control->signal == 0 && loop->stat.position < control->stop_at;
		if (*ret_again || control->parent_fd < 0 || control->end || control->quit ||
		    control->signal != 0)
			break;
		if (!said)
			ol_control_say(control, "finished", ol_loop_json(loop, false));
		said = true;
		while (!loop->news && !control->more && !control->end && !control->quit &&
		       control->signal == 0)
			idle(loop, IDLE_MS);
	}
	if (*ret_again && said) { /* a former "end" does not count; it will come again */
		control->end = false;
		ol_control_say(control, "resumed", ol_loop_json(loop, false));
	}
	loop->resting = false;
	return 0;
}

static int loop_turn(struct ol_loop *loop)
{
	struct ol_control *control = loop->control;
	bool again = true;
	int rc = 0;

	while (rc == 0 && again) {
		look(loop, 0);
		if (control->hold)
			hold(loop);
		if (control->quit)
			return 0;
		if (loop->pace > 0.0 && loop->stat.position < control->stop_at)
			pace_wait(loop);
		if (control->signal != 0)
			return finish(loop, &again);
		/* the servers must be asked for the newest version at first, and after an
		 * outage */
		rc = weights_get(loop,
				 !loop->began || loop->news || loop->on_late != OL_ON_LATE_WAIT
					 ? OL_PULL_NEWEST
					 : 0);
		if (rc == 0 && loop->stat.position >= control->stop_at)
			rc = finish(loop, &again);
		else if (rc == 0)
			rc = step(loop);
	}
	return rc;
}

/* Send the final part of a gradient ahead while the rest is computed; poll links meanwhile. */
static void ready(void *arg, float *grad, size_t first)
{
	struct ol_loop *loop = arg;

	(void)ol_grad_ready(loop->worker, grad, first);
	(void)ol_worker_poll(loop->worker);
}

int ol_loop_run(struct ol_loop *loop)
{
	int rc;

	learn_model_ready_set(loop->job->model, ready, loop);
	loop->stat =
		(struct ol_loop_stat){ .start_ns = ol_clock_ns(), .barren = loop->control->barren };
	loop->said_ns = loop->stat.start_ns;
	loop->pace_ns = loop->stat.start_ns;
	rc = loop_turn(loop);
	learn_model_ready_set(loop->job->model, NULL, NULL);
	loop->stat.end_ns = ol_clock_ns();
	return rc;
}

/* True if a is further behind than b */
static bool link_worse(const struct ol_link_stat *a, const struct ol_link_stat *b)
{
	if (a->applied != b->applied)
		return a->applied < b->applied;
	if (a->lost != b->lost)
		return a->lost > b->lost;
	if (a->queued_total != b->queued_total)
		return a->queued_total > b->queued_total;
	return a->resent > b->resent;
}

struct ol_link_stat ol_loop_link(const struct ol_loop *loop)
{
	struct ol_link_stat worst = { 0 }, link;
	bool first = true;

	for (uint32_t i = 0; i < loop->shards; i++) {
		if (ol_link_get_stat(loop->worker, i, &link) != 0)
			continue;
		if (first || link_worse(&link, &worst))
			worst = link;
		first = false;
	}
	return worst;
}

/* What each shard has lost of this worker's gradients */
static json_t *lost_json(const struct ol_loop *loop)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < loop->shards; i++) {
		struct ol_link_stat link = { 0 };

		(void)ol_link_get_stat(loop->worker, i, &link);
		json_array_append_new(list, json_integer((json_int_t)link.lost));
	}
	return list;
}

static json_t *links_json(const struct ol_loop *loop)
{
	json_t *list = json_array();
	struct ol_link_stat link;

	for (uint32_t i = 0; i < loop->shards; i++) {
		if (ol_link_get_stat(loop->worker, i, &link) != 0)
			continue;
		json_array_append_new(
			list,
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i}", "base",
				  (json_int_t)loop->base[i], "pushed", (json_int_t)link.pushed,
				  "applied", (json_int_t)link.applied, "dropped_nonfinite",
				  (json_int_t)link.nonfinite, "dropped_late", (json_int_t)link.late,
				  "queue_dropped", (json_int_t)link.queue_dropped, "lost",
				  (json_int_t)link.lost, "pending", (json_int_t)link.pending,
				  "resent", (json_int_t)link.resent, "outages", (int)link.outages));
	}
	return list;
}

/* The wait in words: what for, and at which server */
static void waits_text(const struct ol_loop *loop, char *text, size_t bytes)
{
	static const char *const words[] = {
		[OL_LOOP_WAITS_NOT] = "",
		[OL_LOOP_WAITS_PUSH] = "its gradient is held at",
		[OL_LOOP_WAITS_PULL] = "it waits for weights of",
		[OL_LOOP_WAITS_BUFFER] = "its buffers are held at",
		[OL_LOOP_WAITS_ROOM] = "its queue is full of gradients for",
		[OL_LOOP_WAITS_FLUSH] = "its last gradients are held at",
	};
	size_t used = (size_t)snprintf(text, bytes, "%s", words[loop->waits]);
	unsigned named = 0;

	for (uint32_t i = 0; loop->waits != OL_LOOP_WAITS_NOT && i < loop->shards; i++) {
		struct ol_link_stat link;

		if (ol_link_get_stat(loop->worker, i, &link) != 0 ||
		    (link.pending == 0 && !link.down))
			continue;
		if (named++ < 3)
			used += (size_t)snprintf(text + used, bytes - used, "%s %u",
						 named == 1 ? " server" : " and", i);
	}
	if (loop->waits != OL_LOOP_WAITS_NOT && named == 0)
		snprintf(text + used, bytes - used, " a server");
}

/* Figures for the report's rates before the first outage and during outages, and more */
static json_t *outage_json(const struct ol_loop *loop)
{
	const struct ol_loop_stat *stat = &loop->stat;
	uint64_t outage_ns = stat->outage_ns, computed = stat->outage_computed;
	char waits[64];

	waits_text(loop, waits, sizeof(waits));
	if (loop->down > 0) {
		outage_ns += ol_clock_ns() - loop->down_from_ns;
		computed += stat->computed - loop->down_computed;
	}
	return json_pack("{s:f, s:I, s:f, s:I, s:I, s:s, s:I, s:f}", "before_s",
			 (double)stat->before_ns / 1e9, "before_computed",
			 (json_int_t)stat->before_computed, "outage_s", (double)outage_ns / 1e9,
			 "outage_computed", (json_int_t)computed, "queue_bytes_max",
			 (json_int_t)stat->queue_bytes_max, "waits", waits, "interrupted",
			 (json_int_t)stat->interrupted, "delay_s", (double)stat->delay_ns / 1e9);
}

json_t *ol_loop_json(const struct ol_loop *loop, bool links)
{
	const struct ol_loop_stat *stat = &loop->stat;
	struct ol_link_stat link = ol_loop_link(loop);
	uint64_t end_ns = stat->end_ns != 0 ? stat->end_ns : ol_clock_ns();
	double wall_s = (double)(end_ns - stat->start_ns) / 1e9;
	double grad_s = (double)stat->grad_ns / 1e9;
	json_t *json, *outage = outage_json(loop);

	/* JSON has no NaN: a loss that is none becomes null */
	json = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, "
		"s:f, s:f, s:o}",
		"computed", (json_int_t)stat->computed, "position", (json_int_t)stat->position,
		"barren", (json_int_t)stat->barren, "pushed", (json_int_t)link.pushed, "applied",
		(json_int_t)link.applied, "dropped_nonfinite", (json_int_t)link.nonfinite,
		"dropped_late", (json_int_t)link.late, "queue_dropped",
		(json_int_t)link.queue_dropped, "lost", (json_int_t)link.lost, "unresolved",
		(json_int_t)link.pending, "queued", (json_int_t)link.queued, "queued_total",
		(json_int_t)link.queued_total, "resent", (json_int_t)link.resent, "queue_bytes",
		(json_int_t)link.queue_bytes, "start_s", (double)stat->start_ns / 1e9, "wall_s",
		wall_s, "gradient_s", grad_s, "gradients_per_s",
		wall_s > 0.0 ? (double)stat->computed / wall_s : 0.0, "loss",
		isfinite(stat->loss) ? json_real((double)stat->loss) : json_null());
	if (json != NULL && outage != NULL)
		json_object_update(json, outage);
	json_decref(outage);
	if (json != NULL)
		json_object_set_new(json, "lost_by_shard", lost_json(loop));
	if (json != NULL && links)
		json_object_set_new(json, "links", links_json(loop));
	return json;
}
