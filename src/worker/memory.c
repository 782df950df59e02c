/* SPDX-License-Identifier: BSD-3-Clause */

/* memory.c -- gradient buffers, mirrors and all other memory of a worker that the NIC uses */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker/worker_internal.h"

/* Bytes from one gradient buffer to the next: the flat vector, padded as its last shard is */
uint64_t ol_worker_flat_bytes(const struct ol_worker *worker)
{
	const struct ol_geometry *last = &worker->links[worker->link_count - 1].geo;

	return ol_round_up(ol_layout_shard_off(last) + ol_layout_vector_bytes(last), OL_PAGE_BYTES);
}

static uint64_t hdrs_bytes(const struct ol_worker *worker)
{
	return (uint64_t)worker->slots * worker->link_count * OL_LINE_BYTES;
}

struct ol_version_line *ol_worker_line(struct ol_worker *worker, uint32_t link)
{
	uint8_t *at = (uint8_t *)worker->work_slab->addr + hdrs_bytes(worker);

	return &((struct ol_version_line *)(void *)at)[link];
}

struct ol_board *ol_worker_board(struct ol_worker *worker)
{
	return (struct ol_board *)(void *)ol_worker_line(worker, 2 * worker->link_count);
}

/* A cache line each, as one is read while others are written */
_Atomic uint64_t *ol_worker_beat(const struct ol_peer *peer)
{
	const struct ol_link *link = peer->link;
	uint32_t index = link->index * OL_PEERS + (uint32_t)(peer - link->peers);
	uint8_t *at =
		(uint8_t *)(void *)(ol_worker_board(link->worker) + 1) + index * OL_LINE_BYTES;

	return (_Atomic uint64_t *)(void *)at;
}

struct ol_rule *ol_worker_rule(struct ol_worker *worker, uint32_t grad, uint32_t link)
{
	uint8_t *at = (uint8_t *)(void *)(ol_worker_board(worker) + 1) +
		      worker->link_count * OL_PEERS * OL_LINE_BYTES;
	uint64_t index = (uint64_t)grad * worker->link_count + link;

	return (struct ol_rule *)(void *)(at + index * worker->rule_bytes);
}

/* Behind the rules */
struct ol_version_line *ol_worker_carry_line(struct ol_worker *worker, uint32_t link)
{
	uint8_t *at = (uint8_t *)(void *)ol_worker_rule(worker, worker->slots, 0);

	return &((struct ol_version_line *)(void *)at)[link];
}

struct ol_decision *ol_worker_decision(struct ol_worker *worker)
{
	return (struct ol_decision *)(void *)(ol_worker_carry_line(worker, worker->link_count) + 1);
}

static uint64_t decision_bytes(const struct ol_worker *worker)
{
	if (!ol_worker_decided(worker))
		return 0;
	return (worker->link_count + 1) * sizeof(struct ol_version_line) +
	       sizeof(struct ol_decision) + ol_layout_table_bytes(&worker->links[0].geo);
}

uint64_t ol_worker_mirrored(const struct ol_link *link)
{
	uint64_t vectors = link->worker->opts.mirror_state ? 1 + link->geo.state_vectors : 1;

	return ol_layout_table_bytes(&link->geo) + vectors * ol_layout_vector_bytes(&link->geo);
}

uint64_t ol_worker_read(const struct ol_link *link)
{
	if (link->read_bf16 == NULL)
		return ol_worker_mirrored(link);
	return ol_layout_table_bytes(&link->geo) + ol_layout_bf16_bytes(&link->geo);
}

/*
 * Servers that come back may read the mirrors. One registration serves every connection, later ones
 * too: a registration takes long if the mirrors are large, and an outage is no time for it. Where
 * that would give them to whoever is called, each connection gets its own: mirror_share() in peer.c.
 */
static unsigned mirrors_access(const struct ol_worker *worker)
{
	return worker->opts.observer || worker->opts.outage == OL_OUTAGE_END ||
			       worker->caps.announces
		       ? OL_XPORT_ACCESS_RELAXED
		       : OL_XPORT_ACCESS_RELAXED | OL_XPORT_ACCESS_PEER_READ;
}

/* Unless it is registered, or there is no such memory */
static int slab_reg(struct ol_rail *rail, struct ol_slab *slab, unsigned access,
		    struct ol_xport_region **region)
{
	if (slab == NULL || *region != NULL)
		return 0;
	return rail->worker->ops->reg(rail->xport, NULL, slab, 0, slab->bytes, access, region);
}

static void slab_dereg(const struct ol_rail *rail, struct ol_xport_region **region)
{
	if (*region != NULL)
		rail->worker->ops->dereg(*region);
	*region = NULL;
}

int ol_worker_memory_reg(struct ol_rail *rail)
{
	const struct ol_worker *worker = rail->worker;
	int rc = slab_reg(rail, worker->work_slab, OL_XPORT_ACCESS_LOCAL, &rail->work_region);

	if (rc == 0)
		rc = slab_reg(rail, worker->mirror_slab, mirrors_access(worker),
			      &rail->mirror_region);
	if (rc == 0)
		rc = slab_reg(rail, worker->grad_slab, OL_XPORT_ACCESS_RELAXED, &rail->grad_region);
	return rc;
}

void ol_worker_memory_dereg(struct ol_rail *rail)
{
	slab_dereg(rail, &rail->grad_region);
	slab_dereg(rail, &rail->mirror_region);
	slab_dereg(rail, &rail->work_region);
}

/* As much of each shard as bf16 takes, behind the mirrors */
static uint64_t bf16_bytes(const struct ol_worker *worker)
{
	uint64_t bytes = 0;

	if (worker->opts.weights_format != OL_FORMAT_BF16)
		return 0;
	for (uint32_t i = 0; i < worker->link_count; i++)
		bytes += ol_layout_bf16_bytes(&worker->links[i].geo);
	return bytes;
}

static int rails_reg(struct ol_worker *worker)
{
	int rc = 0;

	for (uint32_t i = 0; i < worker->rail_count && rc == 0; i++) {
		if (worker->rails[i].xport != NULL)
			rc = ol_worker_memory_reg(&worker->rails[i]);
	}
	return rc;
}

static int slab_start(struct ol_worker *worker, uint64_t bytes, struct ol_slab **ret_slab)
{
	return ol_slab_create(bytes, worker->caps.numa_node, worker->caps.slab_flags, ret_slab);
}

/* Slot i of every shard, mapped one behind the other: then it is the gradient buffer */
static int grad_map(struct ol_worker *worker, uint32_t grad, uint8_t *at)
{
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];
		const struct ol_peer *head = ol_link_head(link);
		uint64_t bytes = ol_round_up(ol_layout_vector_bytes(&link->geo), OL_PAGE_BYTES);
		int rc;

		rc = worker->ops->map(head->dial.conn, head->dial.landing_key,
				      ol_layout_slot_off(&link->geo, grad), bytes,
				      at + ol_layout_shard_off(&link->geo));
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Map the servers' slots as gradient buffers. -EOPNOTSUPP: the transport cannot map. */
static int grads_map(struct ol_worker *worker)
{
	uint64_t stride = ol_worker_flat_bytes(worker);
	int rc = 0;

	worker->grad_range_bytes = stride * worker->slots;
	worker->grad_range = mmap(NULL, worker->grad_range_bytes, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (worker->grad_range == MAP_FAILED) {
		worker->grad_range = NULL;
		return -errno;
	}
	for (uint32_t i = 0; i < worker->slots && rc == 0; i++) {
		uint8_t *at = (uint8_t *)worker->grad_range + i * stride;

		worker->grads[i].data = (float *)(void *)at;
		rc = grad_map(worker, i, at);
	}
	if (rc == 0) {
		worker->zero_copy = true;
		return 0;
	}
	munmap(worker->grad_range, worker->grad_range_bytes);
	worker->grad_range = NULL;
	return rc;
}

/* Gradient buffers in memory of the worker's own */
static int grads_place(struct ol_worker *worker, struct ol_slab **slab)
{
	uint64_t stride = ol_worker_flat_bytes(worker);
	int rc = slab_start(worker, stride * worker->slots, slab);

	for (uint32_t i = 0; rc == 0 && i < worker->slots; i++) {
		uint8_t *at = (uint8_t *)(*slab)->addr + i * stride;

		worker->grads[i].data = (float *)(void *)at;
	}
	return rc;
}

uint64_t ol_worker_payload_off(const struct ol_link *link, uint32_t index)
{
	const struct ol_worker *worker = link->worker;

	if (!ol_worker_encodes(worker))
		return index * ol_worker_flat_bytes(worker) + ol_layout_shard_off(&link->geo);
	return index * worker->payloads_bytes + link->payload_off;
}

void ol_worker_encode(struct ol_link *link, uint32_t index)
{
	struct ol_worker *worker = link->worker;
	const uint64_t first = link->geo.shard_first;

	ol_format_encode(worker->opts.gradient_format,
			 (uint8_t *)worker->grad_slab->addr + ol_worker_payload_off(link, index),
			 worker->grads[index].data + first,
			 worker->residual != NULL ? worker->residual + first : NULL,
			 link->geo.shard_len);
}

static int grads_start(struct ol_worker *worker)
{
	int rc;

	if (worker->opts.observer)
		return 0;
	if (!ol_worker_encodes(worker)) {
		rc = worker->opts.own_buffers ? -EOPNOTSUPP : grads_map(worker);
		return rc != -EOPNOTSUPP ? rc : grads_place(worker, &worker->grad_slab);
	}
	rc = grads_place(worker, &worker->plain_slab);
	if (rc == 0)
		rc = slab_start(worker, worker->payloads_bytes * worker->slots, &worker->grad_slab);
	if (rc == 0 && worker->opts.gradient_format == OL_FORMAT_INT8) {
		worker->residual =
			calloc(worker->links[0].geo.param_count, sizeof(*worker->residual));
		rc = worker->residual == NULL ? -ENOMEM : 0;
	}
	return rc;
}

static int mirrors_start(struct ol_worker *worker)
{
	uint64_t flat = ol_worker_flat_bytes(worker), bytes = flat;
	uint8_t *at;
	int rc;

	for (uint32_t i = 0; i < worker->link_count; i++)
		bytes += ol_worker_mirrored(&worker->links[i]) -
			 ol_layout_vector_bytes(&worker->links[i].geo);
	rc = slab_start(worker, bytes * OL_MIRRORS + bf16_bytes(worker), &worker->mirror_slab);
	if (rc != 0)
		return rc;
	at = worker->mirror_slab->addr;
	for (uint32_t m = 0; m < OL_MIRRORS; m++) {
		worker->mirrors[m].weights = (float *)(void *)at;
		at += flat;
		for (uint32_t i = 0; i < worker->link_count; i++) {
			const struct ol_geometry *geo = &worker->links[i].geo;

			worker->mirrors[m].applied[i] = at;
			at += ol_layout_table_bytes(geo);
			if (!worker->opts.mirror_state || geo->state_vectors == 0)
				continue;
			worker->mirrors[m].state[i] = (float *)(void *)at;
			at += geo->state_vectors * ol_layout_vector_bytes(geo);
		}
	}
	for (uint32_t i = 0; bf16_bytes(worker) > 0 && i < worker->link_count; i++) {
		worker->links[i].read_bf16 = (uint16_t *)(void *)at;
		at += ol_layout_bf16_bytes(&worker->links[i].geo);
	}
	return 0;
}

int ol_worker_memory_start(struct ol_worker *worker)
{
	uint64_t work_bytes;
	int rc;

	worker->window = worker->opts.window != 0 ? worker->opts.window : OL_WINDOW_MAX;
	for (uint32_t i = 0; i < worker->link_count; i++) {
		struct ol_link *link = &worker->links[i];
		uint64_t rule = ol_layout_rule_bytes(&link->geo);

		link->payload_bytes =
			ol_format_bytes(worker->opts.gradient_format, link->geo.shard_len);
		link->payload_off = worker->payloads_bytes;
		link->part_bytes = ol_format_bytes(worker->opts.gradient_format, OL_PART_FLOATS);
		worker->payloads_bytes += link->payload_bytes;
		if (link->geo.window < worker->window)
			worker->window = link->geo.window;
		worker->rule_bytes = rule > worker->rule_bytes ? rule : worker->rule_bytes;
	}
	worker->slots = worker->window + ol_worker_queues(worker);
	work_bytes = hdrs_bytes(worker) + 2 * worker->link_count * sizeof(struct ol_version_line) +
		     sizeof(struct ol_board) + worker->link_count * OL_PEERS * OL_LINE_BYTES +
		     (uint64_t)worker->slots * worker->link_count * worker->rule_bytes +
		     decision_bytes(worker);
	rc = slab_start(worker, work_bytes, &worker->work_slab);
	if (rc == 0 && worker->opts.observer != OL_OBSERVER_COUNTERS)
		rc = mirrors_start(worker);
	if (rc == 0)
		rc = grads_start(worker);
	if (rc == 0)
		rc = rails_reg(worker);
	if (rc == 0 && worker->opts.local_progress && !worker->opts.observer &&
	    worker->opts.outage == OL_OUTAGE_CONTINUE && worker->links[0].lr > 0.0f) {
		worker->local = malloc(worker->links[0].geo.param_count * sizeof(float));
		rc = worker->local == NULL ? -ENOMEM : 0;
	}
	return rc;
}

/* True if this shard's part of the buffer is still needed: being filled, or not yet applied */
static bool content_matters(const struct ol_link *link, const struct ol_grad *grad)
{
	return grad->state == OL_GRAD_LENT ||
	       (grad->state == OL_GRAD_PUSHED &&
		((grad->open | grad->kept) & UINT64_C(1) << link->index) != 0);
}

int ol_worker_remap(struct ol_link *link)
{
	struct ol_worker *worker = link->worker;
	const struct ol_peer *head = ol_link_head(link);
	uint64_t vector = ol_layout_vector_bytes(&link->geo);
	uint64_t bytes = ol_round_up(vector, OL_PAGE_BYTES);
	void *copy = malloc(vector);
	int rc = copy == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; i < worker->slots && rc == 0; i++) {
		const struct ol_grad *grad = &worker->grads[i];
		float *at = grad->data + link->geo.shard_first;

		if (content_matters(link, grad))
			memcpy(copy, at, vector);
		rc = worker->ops->map(head->dial.conn, head->dial.landing_key,
				      ol_layout_slot_off(&link->geo, i), bytes, at);
		if (rc == 0 && content_matters(link, grad))
			memcpy(at, copy, vector);
	}
	free(copy);
	return rc;
}

void ol_worker_memory_free(struct ol_worker *worker)
{
	free(worker->local);
	free(worker->extra.data);
	for (uint32_t i = 0; i < worker->rail_count; i++)
		ol_worker_memory_dereg(&worker->rails[i]);
	free(worker->residual);
	ol_slab_destroy(worker->plain_slab);
	ol_slab_destroy(worker->grad_slab);
	ol_slab_destroy(worker->mirror_slab);
	ol_slab_destroy(worker->work_slab);
	if (worker->grad_range != NULL)
		munmap(worker->grad_range, worker->grad_range_bytes);
}

bool ol_worker_finite(const struct ol_worker *worker, const float *grad, uint64_t first,
		      uint64_t end)
{
	return ol_format_largest(grad + first, end - first) <
	       ol_format_peak(worker->opts.gradient_format);
}
