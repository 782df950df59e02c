/* SPDX-License-Identifier: BSD-3-Clause */

/* chain_rules.c -- names of the rules that chain_world.h can leave out */

#include "support/chain_world.h"

#include <string.h>

static const char *const names[WORLD_RULES] = {
	[WORLD_WHOLE] = "none",
	[WORLD_NO_FENCE] = "fence",
	[WORLD_NO_HANDOFF] = "handoff",
	[WORLD_EARLY_ACK] = "tail-acks",
	[WORLD_RELOAD] = "load-once",
	[WORLD_HANDOFF_BY_LINK] = "handoff-ends-by-view",
	[WORLD_READERS_STAY] = "end-readers",
	[WORLD_NO_HOLD] = "keep-for-joining",
	[WORLD_NO_FLOOR] = "floor",
	[WORLD_EARLY_WELCOME] = "welcome-when-applied",
	[WORLD_PROPOSE_AHEAD] = "propose-on-adopted",
	[WORLD_EPOCH_BACK] = "session-epoch",
	[WORLD_TAIL_BACK] = "session-version",
	[WORLD_HELLO_AHEAD] = "hello-epoch",
	[WORLD_REJOIN] = "removed-is-removed",
	[WORLD_FREE_UNAPPLIED] = "free-when-applied",
	[WORLD_HAVE_IS_ACK] = "have-is-no-ack",
	[WORLD_WELCOME_IS_ACK] = "loaded-before-tail",
	[WORLD_ORDER_FULL] = "order-joins",
	[WORLD_ORDER_BLIND] = "order-compares",
};

const char *world_rule_name(enum world_broken rule)
{
	return names[rule];
}

enum world_broken world_rule(const char *name)
{
	uint32_t rule = 0;

	while (rule < WORLD_RULES && strcmp(names[rule], name) != 0)
		rule++;
	return (enum world_broken)rule;
}
