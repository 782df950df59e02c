/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * init.c -- the job's first weights, which worker 0 offers to servers that begin without any
 *
 * They lie in memory as a mirror does, so that a server reads its shard with what reads mirrors; the
 * hello says that they are none. The worker keeps them until it has a mirror: if a server dies before,
 * it offers the same again.
 *
 * No job begins with a mixture of two workers' first weights, though worker 0 may die while one server
 * has read its shard and another has not. So the worker first hears from all servers: it offers only
 * while each of them waits, or has begun with these very weights, by their digest.
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "outlast_tensor.h"
#include "wire/tensor.h"
#include "worker/worker_internal.h"

enum {
	TELL_MS = 2000 /* a wait that is worth a line */
};

/* Of vector and table: never 0, nor OL_INIT_AWAITED. Two starts of a worker differ by accident */
static uint64_t digest_of(const struct ol_worker_opts *opts)
{
	const uint32_t vector = ol_record_crc(opts->init, opts->param_count * OL_ELEM_BYTES);
	const uint32_t table =
		opts->init_tensors != NULL
			? ol_record_crc(opts->init_tensors, strlen(opts->init_tensors))
			: 0;

	return (uint64_t)vector << 32 | (table & ~UINT32_C(2)) | 1;
}

int ol_init_open(struct ol_worker *worker)
{
	const struct ol_worker_opts *opts = &worker->opts;
	char why[256];

	if (opts->init == NULL && opts->init_tensors == NULL)
		return 0;
	if (opts->init == NULL || opts->param_count == 0) {
		snprintf(worker->err, sizeof(worker->err),
			 opts->init == NULL ? "init_tensors is given without init"
					    : "init is given without param_count");
		return -EINVAL;
	}
	for (uint64_t i = 0; i < opts->param_count; i++) {
		if (isfinite(opts->init[i]))
			continue;
		snprintf(worker->err, sizeof(worker->err),
			 "init: parameter %llu is a NaN or an infinity", (unsigned long long)i);
		return -EINVAL;
	}
	if (opts->init_tensors != NULL &&
	    ol_tensor_fault(opts->init_tensors, opts->param_count, why, sizeof(why))) {
		snprintf(worker->err, sizeof(worker->err), "init_tensors: %s", why);
		return -EINVAL;
	}
	if (opts->worker == 0 && !opts->observer)
		worker->init = digest_of(opts);
	return 0;
}

static bool is_awaited(const struct ol_peer *peer)
{
	const struct ol_link *link = peer->link;

	return link->worker->init != 0 && peer == link->reader &&
	       link->init_said == OL_INIT_AWAITED;
}

bool ol_init_waits(const struct ol_peer *peer)
{
	const struct ol_worker *worker = peer->link->worker;

	for (uint32_t i = 0; is_awaited(peer) && i < worker->link_count; i++) {
		if (!worker->links[i].init_known)
			return true;
	}
	return false;
}

const char *ol_init_fault(const struct ol_peer *peer, char *why, size_t why_bytes)
{
	const struct ol_worker *worker = peer->link->worker;
	const char *table = worker->opts.init_tensors;

	if (!is_awaited(peer) || table == NULL || strlen(table) < peer->link->geo.tensors_bytes)
		return NULL;
	snprintf(why, why_bytes,
		 "the table of tensors of init takes %zu bytes, and it has room for %u: raise "
		 "tensors_room there, or begin it with a file",
		 strlen(table) + 1, peer->link->geo.tensors_bytes);
	return why;
}

/* Lay out the shard's part as a mirror. The caller's memory is there while the worker opens */
static int slab_make(struct ol_link *link)
{
	const struct ol_worker *worker = link->worker;
	const struct ol_geometry *geo = &link->geo;
	const uint64_t table = ol_layout_table_bytes(geo);
	struct ol_slab *slab;
	int rc;

	ol_init_free(link);
	rc = ol_slab_create(table + ol_layout_vector_bytes(geo), worker->caps.numa_node, false,
			    &slab);
	if (rc != 0)
		return rc;
	ol_tensors_put(geo, slab->addr, worker->opts.init_tensors);
	memcpy((uint8_t *)slab->addr + table, worker->opts.init + geo->shard_first,
	       geo->shard_len * OL_ELEM_BYTES);
	link->init_slab = slab;
	return 0;
}

/* True unless a server of another shard has begun with other first weights */
static bool others_agree(struct ol_peer *peer)
{
	struct ol_link *link = peer->link;
	const struct ol_worker *worker = link->worker;

	for (uint32_t i = 0; i < worker->link_count; i++) {
		const uint64_t said = worker->links[i].init_said;

		if (said == OL_INIT_AWAITED || said == worker->init)
			continue;
		/* a worker with a mirror of this shard may come yet, so the server is not given up */
		peer->refusal_status = OL_E_GEOMETRY;
		snprintf(peer->refusal, sizeof(peer->refusal),
			 "it has no weights, and is not given this worker's first ones: shard %u "
			 "has begun with others, of an earlier worker 0; begin all servers anew",
			 i);
		if (!link->init_told)
			ol_log(OL_LOG_ERROR, "server %s (shard %u): %s", peer->dial.addr,
			       link->index, peer->refusal);
		link->init_told = true;
		return false;
	}
	return true;
}

int ol_init_offer(struct ol_peer *peer, struct ol_hello *hello)
{
	struct ol_link *link = peer->link;
	const struct ol_worker *worker = link->worker;
	int rc = worker->started || peer != link->reader ? 0 : slab_make(link);

	if (rc != 0 || !is_awaited(peer) || link->init_slab == NULL || !others_agree(peer))
		return rc;
	rc = worker->ops->reg(peer->rail->xport, peer->dial.conn, link->init_slab, 0,
			      link->init_slab->bytes, OL_XPORT_ACCESS_PEER_READ,
			      &peer->share_region);
	if (rc != 0)
		return rc;
	hello->mirror = ol_dial_wire_rkey(worker->ops->rkey(peer->share_region, peer->dial.conn));
	hello->weights_off = ol_layout_table_bytes(&link->geo);
	hello->init = worker->init;
	return 0;
}

void ol_init_tell(struct ol_peer *peer, uint64_t now_ns)
{
	struct ol_link *link = peer->link;

	if (link->init_told || peer != link->reader || peer->dial.state != OL_DIAL_JOINING ||
	    link->init_said != OL_INIT_AWAITED ||
	    now_ns - peer->dial.since_ns < TELL_MS * OL_NS_PER_MS)
		return;
	link->init_told = true;
	ol_log(OL_LOG_WARN,
	       "server %s (shard %u): it has no weights yet, and waits for the first ones of worker "
	       "0%s",
	       peer->dial.addr, link->index,
	       link->worker->opts.worker == 0 && !link->worker->opts.observer &&
			       link->worker->init == 0
		       ? ", which is this one and has none: give it some (init)"
		       : "");
}

void ol_init_free(struct ol_link *link)
{
	for (uint32_t i = 0; link->init_slab != NULL && i < OL_PEERS; i++) {
		struct ol_peer *peer = &link->peers[i];

		if (peer->share_region != NULL)
			link->worker->ops->dereg(peer->share_region);
		peer->share_region = NULL;
	}
	ol_slab_destroy(link->init_slab);
	link->init_slab = NULL;
}
