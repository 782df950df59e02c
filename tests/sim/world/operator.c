/* SPDX-License-Identifier: BSD-3-Clause */

/* operator.c -- orders to chains, made of one view and put into force by compare-and-set, a while later */

#include "sim/world/operator.h"

#include <stdio.h>
#include <string.h>

#include "server/server.h"
#include "sim/world/cluster.h"
#include "sim/world/coord.h"
#include "sim/world/fault.h"
#include "sim/world/mutate.h"

enum {
	ONE_IN = 4, /* seeds have an operator */
};

#define ORDERS_NS (400 * SIM_MS) /* between two, on average */
#define WAY_NS    (20 * SIM_MS) /* from a look to the view that was made of it, at most */

/* A view on its way */
struct made {
	uint32_t shard;
	uint64_t version; /* that it was made of */
	uint64_t leave;
	struct ol_view view;
};

static struct {
	bool here;
	uint32_t joins, leaves, refused, late;
} operator;

static const struct server_slot *slot_of(uint64_t id)
{
	for (uint32_t i = 0; i < cluster.server_count; i++) {
		if (cluster.servers[i].server != NULL &&
		    cluster.servers[i].server->incarnation == id)
			return &cluster.servers[i];
	}
	return NULL;
}

/* A chain that waits for its last replica for ever keeps one that is well; who is gone may leave */
static bool may_leave(uint64_t id)
{
	const struct server_slot *slot = slot_of(id);

	return slot == NULL || fault_spared(slot);
}

static void arrives(void *arg, uint64_t tag)
{
	const struct made *made = arg;
	bool is_late = made->version != coord_version(made->shard);

	(void)tag;
	operator.late += is_late;
	if (cluster.calm || (is_late && !mutation(MUTATE_ORDER_BLIND)) ||
	    (made->leave != 0 && !may_leave(made->leave)) || !coord_set(made->shard, &made->view))
		return;
	if (made->leave != 0)
		operator.leaves++;
	else
		operator.joins++;
}

/* Somebody of the chain leaves, or of those who wait joins: whom the order names is drawn */
static struct ol_view_order draw(const struct ol_view *view, const struct ol_member *members,
				 uint32_t member_count)
{
	struct ol_view_order order = { .number = 1 + sim_below(UINT32_MAX) };

	if (sim_ppm(500000) && member_count > 0)
		order.join = members[sim_below(member_count)].id;
	if (order.join != 0)
		return order;
	order.leave = view->replicas[sim_below(view->count + view->joining)].id;
	return order;
}

static void give(void *arg, uint64_t tag)
{
	uint32_t shard = sim_below(cluster.scenario.shards), member_count;
	const struct ol_view *view = coord_view(shard);
	struct ol_member members[OL_MEMBERS_MAX];
	struct ol_view_order order;
	struct made *made;

	(void)arg;
	(void)tag;
	if (cluster.calm)
		return;
	sim_at(sim_between(0, 2 * ORDERS_NS), give, NULL, 0);
	if (view == NULL)
		return;
	member_count = coord_members(shard, members);
	order = draw(view, members, member_count);
	made = sim_alloc(sizeof(*made));
	made->shard = shard;
	made->version = coord_version(shard);
	made->leave = order.leave;
	if (ol_view_ordered(view, &order, members, member_count, &made->view) != 0) {
		operator.refused++;
		return;
	}
	if (mutation(MUTATE_ORDER_FULL) && order.join != 0) {
		made->view.count++;
		made->view.joining = 0;
	}
	sim_at(sim_between(0, WAY_NS), arrives, made, 0);
}

void operator_begin(uint64_t seed)
{
	const struct scenario *scenario = &cluster.scenario;

	memset(&operator, 0, sizeof(operator));
	operator.here = scenario->age >= CLUSTER_AGE_ORDERS && scenario->chain &&
		scenario->lasting == LASTING_NOTHING && seed % ONE_IN == 2;
	if (operator.here)
		give(NULL, 0);
}

uint32_t operator_wanted(const struct ol_view *view)
{
	return operator.here ? view->wanted : UINT32_MAX;
}

void operator_text(char *text, size_t bytes)
{
	text[0] = '\0';
	if (operator.here)
		snprintf(text, bytes,
			 "; orders: %u to join, %u to leave, %u refused, %u late",
			 operator.joins, operator.leaves, operator.refused, operator.late);
}
