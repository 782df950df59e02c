/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * later.c -- registrations that another thread makes and frees
 *
 * A registration is made in a domain of its own. The domain belongs to no connection until
 * reg_end() gives it to one, so it outlives the request that it was begun for. At the end strip()
 * detaches the domain and its regions from the connection, whose queue pair is destroyed next. No
 * other queue pair is in that domain, so its keys are dead (the fence) while they wait to be
 * deregistered.
 *
 * The common domain has other queue pairs. There the key of a slab that is no longer read may wait,
 * as a late write does no harm; the key of a slab that is still read may not.
 */
#include "rdma/verbs/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "rdma/verbs/verbs_rc.h"

static uint32_t commons_of(const struct ol_xport *xport)
{
	uint32_t count = 0;

	for (const struct ol_xport_region *region = xport->regions; region != NULL;
	     region = region->next)
		count += region->common;
	return count;
}

static struct ol_xport_later *later_make(struct ol_xport *xport)
{
	struct ol_xport_later *later =
		calloc(1, sizeof(*later) + commons_of(xport) * sizeof(later->commons[0]));

	if (later != NULL)
		later->xport = xport;
	return later;
}

int ol_verbs_reg_begin(struct ol_xport *xport, unsigned access, struct ol_xport_later **ret_later)
{
	struct ol_xport_later *later;

	if (ol_verbs_dead(xport))
		return -ENODEV;
	later = later_make(xport);
	if (later == NULL)
		return -ENOMEM;
	later->access = access;
	later->own_domain = !xport->opts.shared_domain;
	for (struct ol_xport_region *region = later->own_domain ? xport->regions : NULL;
	     region != NULL; region = region->next) {
		if (region->common)
			later->commons[later->common_count++].region = region;
	}
	xport->pinned = true;
	*ret_later = later;
	return 0;
}

int ol_verbs_reg_run(struct ol_xport_later *later, struct ol_slab *slab, size_t off, size_t bytes)
{
	const struct ol_xport *xport = later->xport;
	int rc = 0;

	if (!ol_xport_reg_valid(slab, off, bytes, later->access))
		return -EINVAL;
	if (later->own_domain) {
		errno = 0;
		later->pd = ibv_alloc_pd(xport->ctx);
		rc = ol_rc_null(later->pd);
	}
	for (uint32_t i = 0; rc == 0 && i < later->common_count; i++) {
		const struct ol_xport_region *region = later->commons[i].region;

		rc = ol_verbs_mr_create(xport, later->pd, &region->span, region->access,
					&later->commons[i].mr);
	}
	later->span = ol_verbs_span_of(slab, off, bytes);
	if (rc == 0)
		rc = ol_verbs_mr_create(xport, later->own_domain ? later->pd : xport->pd,
					&later->span, ol_verbs_access_flags(xport, later->access),
					&later->mr);
	return rc;
}

int ol_verbs_reg_end(struct ol_xport_later *later, struct ol_xport_conn *base,
		     struct ol_xport_region **ret_region)
{
	struct ol_verbs_conn *conn = ol_verbs_conn(base);
	struct ol_xport_region *region;

	if (ol_verbs_dead(later->xport))
		return -ENODEV;
	if (later->own_domain && (!conn->passive || conn->pd != NULL))
		return -EINVAL;
	region = ol_verbs_region_make(later->xport, conn, &later->span,
				      ol_verbs_access_flags(later->xport, later->access));
	if (region == NULL)
		return -ENOMEM;
	region->mr = later->mr;
	if (later->own_domain) {
		conn->pd = later->pd;
		conn->domain = conn->slot + 1;
		for (uint32_t i = 0; i < later->common_count; i++)
			later->commons[i].region->mrs[conn->domain] = later->commons[i].mr;
	}
	free(later);
	*ret_region = region;
	return 0;
}

struct ol_xport_later *ol_verbs_strip(struct ol_xport_conn *base, struct ol_xport_region *region,
				      int kept)
{
	struct ol_verbs_conn *conn = ol_verbs_conn(base);
	struct ol_xport *xport = base->xport;
	struct ol_xport_later *later = later_make(xport);

	if (later == NULL)
		return NULL;
	if (region != NULL && !(kept && conn->domain == 0)) {
		later->mr = region->mr;
		region->mr = NULL;
	}
	if (conn->domain == 0)
		return later;
	for (struct ol_xport_region *at = xport->regions; at != NULL; at = at->next) {
		if (!at->common)
			continue;
		later->commons[later->common_count++].mr = at->mrs[conn->domain];
		at->mrs[conn->domain] = NULL;
	}
	later->pd = conn->pd;
	conn->pd = NULL;
	conn->domain = 0;
	return later;
}

void ol_verbs_drop(struct ol_xport_later *later)
{
	int rc;

	if (later == NULL)
		return;
	ol_verbs_mr_destroy(later->xport, &later->mr);
	for (uint32_t i = 0; i < later->common_count; i++)
		ol_verbs_mr_destroy(later->xport, &later->commons[i].mr);
	rc = later->pd != NULL ? ol_rc_positive(ibv_dealloc_pd(later->pd)) : 0;
	if (rc != 0)
		ol_xport_log(&later->xport->opts, ol_verbs_undo_level(later->xport),
			     "cannot free a protection domain: error %d", -rc);
	free(later);
}
