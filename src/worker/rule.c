/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rule.c -- a rule's way to the servers: with pushes, until one of them has taken it along
 *
 *	worker->rule            what the caller wants, and how often it changed (rule_serial)
 *	rule of slot and link   what the push in the slot brings to that shard; it stays as it is
 *	                        until the push is resolved, as the push may be made again
 *	delta in a queue        that of its newest gradient that brought one
 *	link->rule_told         the newest serial that the shard's server has
 *	link->rule_sent         the newest that a push has taken along
 */

#include <errno.h>
#include <string.h>

#include "base/sized.h"
#include "wire/seq.h"
#include "worker/worker_internal.h"

/* No push has taken the caller's rule along yet; or the one that had it was dropped */
static bool is_due(const struct ol_link *link)
{
	return link->rule_sent != link->worker->rule_serial;
}

void ol_rule_attach(struct ol_link *link, struct ol_push_hdr *hdr)
{
	if (!is_due(link))
		return;
	hdr->flags |= OL_PUSH_RULE;
	link->rule_sent = link->worker->rule_serial;
}

bool ol_rule_is_old(const struct ol_link *link, uint32_t serial)
{
	return serial < link->rule_sent;
}

void ol_rule_place(struct ol_link *link, uint32_t index, const struct ol_rule *rule,
		   uint32_t serial)
{
	memcpy(ol_worker_rule(link->worker, index, link->index), rule, ol_rule_bytes_used(rule));
	link->worker->grads[index].rule_serials[link->index] = serial;
}

void ol_rule_dropped(struct ol_link *link)
{
	link->rule_sent = link->rule_told; /* the next push brings it */
}

void ol_rule_resolved(struct ol_link *link, uint32_t index, int status)
{
	const uint32_t serial = link->worker->grads[index].rule_serials[link->index];

	if (status == 0 && serial >= link->rule_told) {
		link->rule_told = serial;
		link->rule_seq = ol_worker_hdr(link->worker, index, link->index)->seq;
	} else if (status != 0 && serial == link->rule_sent) {
		ol_rule_dropped(link);
	}
}

void ol_rule_on_loss(struct ol_link *link, uint64_t own_seq)
{
	struct ol_worker *worker = link->worker;

	if (link->rule_told == 0 || ol_seq_contains(own_seq, link->rule_seq))
		return;
	link->rule_told = 0;
	link->rule_sent = 0;
	for (uint32_t i = 0; i < worker->slots; i++) { /* what is pushed again brings it again */
		const struct ol_grad *grad = &worker->grads[i];
		const bool open =
			grad->state == OL_GRAD_PUSHED && (grad->open >> link->index & 1) != 0;

		if (open && (ol_worker_hdr(worker, i, link->index)->flags & OL_PUSH_RULE) != 0 &&
		    grad->rule_serials[link->index] > link->rule_sent)
			link->rule_sent = grad->rule_serials[link->index];
	}
}

int ol_rule_post(struct ol_link *link, uint32_t index)
{
	struct ol_worker *worker = link->worker;
	const struct ol_rule *rule = ol_worker_rule(worker, index, link->index);
	struct ol_xport_write write = {
		.segs = { { .region = ol_link_head(link)->rail->work_region,
			    .off = ol_worker_work_off(worker, rule),
			    .bytes = (uint32_t)ol_layout_rule_bytes(&link->geo) } },
		.seg_count = 1,
		.dst = ol_link_head(link)->dial.landing_key,
		.dst_off = ol_layout_slot_off(&link->geo, index) +
			   ol_layout_vector_bytes(&link->geo) + sizeof(struct ol_push_hdr),
	};

	return worker->ops->post_write(ol_link_head(link)->dial.conn, &write);
}

/* The rule of a shard's weights in a mirror; NULL: no server can have made it */
static const struct ol_rule *mirrored(const struct ol_mirror *mirror, const struct ol_link *link)
{
	const void *at = mirror->applied[link->index] + ol_layout_rule_off(&link->geo);
	const struct ol_rule *rule = at;

	return ol_rule_fault(rule, &link->geo) == NULL ? rule : NULL;
}

void ol_rule_follow(const struct ol_link *link, float *weights, const float *grad)
{
	const struct ol_worker *worker = link->worker;
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];
	const struct ol_rule *rule =
		link->rule_told != worker->rule_serial ? &worker->rule : mirrored(mirror, link);
	const uint64_t end = link->geo.shard_first + link->geo.shard_len;
	const uint32_t groups = rule != NULL ? rule->group_count : 1;

	for (uint32_t i = 0; i < groups; i++) {
		uint64_t from = link->geo.shard_first, to = end;
		float lr = link->lr;

		if (rule != NULL) {
			lr = ol_rule_lr(rule, i, mirror->versions[link->index]);
			from = rule->groups[i].first > from ? rule->groups[i].first : from;
			if (i + 1 < groups && rule->groups[i + 1].first < to)
				to = rule->groups[i + 1].first;
		}
		for (uint64_t at = from; at < to; at++)
			weights[at] -= lr * grad[at];
	}
}

int ol_rule_get_sized(const struct ol_worker *worker, struct ol_rule *ret_rule, size_t rule_bytes)
{
	const struct ol_mirror *mirror;
	const struct ol_rule *rule;
	struct ol_rule whole = { 0 };

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	mirror = &worker->mirrors[worker->mirror];
	if (!mirror->whole)
		return -EAGAIN;
	rule = mirrored(mirror, &worker->links[0]);
	if (rule == NULL)
		return OL_E_WIRE;
	memcpy(&whole, rule, ol_rule_bytes_used(rule));
	ol_sized_give(ret_rule, rule_bytes, &whole, sizeof(whole));
	return 0;
}

/* 0, or why no server of the job would take the rule */
static int rule_check(const struct ol_worker *worker, struct ol_rule *rule)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		const struct ol_geometry *geo = &worker->links[i].geo;

		if (rule->group_count > geo->groups && rule->group_count <= OL_RULE_GROUPS_MAX)
			return -ENOSPC;
	}
	for (uint32_t i = 0; worker->link_count > 1 && i < rule->group_count; i++) {
		if (i < OL_RULE_GROUPS_MAX && rule->groups[i].clip_norm > 0.0f)
			return -EOPNOTSUPP;
	}
	return ol_rule_fault(rule, &worker->links[0].geo) == NULL &&
			       ol_rule_useless(rule, &worker->links[0].geo) == NULL
		       ? 0
		       : -EINVAL;
}

/* The caller has asked for this rule before, and either it is on its way, or the job has it still */
static bool is_known(const struct ol_worker *worker, const struct ol_rule *wanted)
{
	const struct ol_mirror *mirror = &worker->mirrors[worker->mirror];

	if (worker->rule_serial == 0 ||
	    memcmp(wanted, &worker->rule, ol_rule_bytes_used(wanted)) != 0)
		return false;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		const struct ol_link *link = &worker->links[i];
		const struct ol_rule *now = mirror->whole ? mirrored(mirror, link) : NULL;

		if (link->rule_told == worker->rule_serial &&
		    (now == NULL || ol_rule_is_news(now, wanted)))
			return false;
	}
	return true;
}

int ol_rule_set_sized(struct ol_worker *worker, const struct ol_rule *rule, size_t rule_bytes)
{
	struct ol_rule wanted = { 0 };
	int rc;

	if (!ol_worker_is_mine(worker))
		return OL_E_THREAD;
	if (worker->opts.observer)
		return -EPERM;
	if (ol_sized_take(&wanted, sizeof(wanted), rule, rule_bytes) != NULL)
		return -EINVAL;
	wanted.version = 0;
	rc = rule_check(worker, &wanted);
	if (rc != 0)
		return rc;
	if (is_known(worker, &wanted))
		return 0;
	memset(&worker->rule, 0, sizeof(worker->rule));
	memcpy(&worker->rule, &wanted, ol_rule_bytes_used(&wanted));
	worker->rule_serial++;
	return 0;
}
