/* SPDX-License-Identifier: BSD-3-Clause */

/* waits.c -- what a server without a place in its chain waits for, in words */

#include "outlast/waits.h"

#include <stdio.h>

void waits_gone(const struct ol_chain_info *info, uint32_t shard, char text[WAITS_TEXT_MAX])
{
	char who[48] = "the last replica of its chain is";

	if (info->count > 1)
		snprintf(who, sizeof(who), "all %u replicas of its chain are", info->count);
	snprintf(
		text, WAITS_TEXT_MAX,
		"shard %u: %s gone, and unless one still runs, so is what was committed; it waits "
		"for ever. To begin anew give the job another name (--job), with --restore checkpoint "
		"from its last one, or use --refound from the first start",
		shard, who);
}

static bool is_in(const struct ol_chain_info *info, uint64_t id)
{
	for (uint32_t i = 0; i < info->count; i++) {
		if (info->ids[i] == id)
			return true;
	}
	return false;
}

void waits_text(const struct ol_chain_info *info, const struct waits_about *about,
		char text[WAITS_TEXT_MAX])
{
	uint32_t shard = about->shard, wanted = about->replicas;
	uint32_t here = info->waiting > 0 ? info->waiting : 1; /* this server may be missing yet */

	if (!info->connected)
		snprintf(text, WAITS_TEXT_MAX, "shard %u: the coordinator cannot be reached",
			 shard);
	else if (info->epoch == 0 && here < wanted)
		snprintf(text, WAITS_TEXT_MAX,
			 "shard %u: %u of %u servers are here; waits for %u more", shard, here,
			 wanted, wanted - here);
	else if (info->epoch == 0)
		snprintf(text, WAITS_TEXT_MAX, "shard %u: %u of %u servers are here", shard, here,
			 wanted);
	else if (is_in(info, about->id))
		snprintf(text, WAITS_TEXT_MAX,
			 "shard %u: this server founds the chain, and looks for its weights",
			 shard);
	else if (about->refound && info->gone == info->count)
		snprintf(
			text, WAITS_TEXT_MAX,
			"shard %u: none of the chain's replicas runs any more; it is founded anew by "
			"the server that loses least",
			shard);
	else if (about->refound && info->waiting >= info->wanted)
		snprintf(
			text, WAITS_TEXT_MAX,
			"shard %u: the chain has %u of %u replicas; if none of them runs, it is "
			"founded anew once the coordinator has ended their sessions, at most 5 leases after "
			"they died",
			shard, info->count, info->wanted);
	else if (info->count < info->wanted)
		snprintf(text, WAITS_TEXT_MAX,
			 "shard %u: the chain has %u of %u replicas; waits for its turn to join",
			 shard, info->count, info->wanted);
	else
		snprintf(text, WAITS_TEXT_MAX,
			 "shard %u: the chain has its %u replicas; waits to take the place of one "
			 "that is lost",
			 shard, info->count);
}
