/* SPDX-License-Identifier: BSD-3-Clause */

/* text.c -- a scenario in words, as a seed's line has it */

#include <stdio.h>
#include <string.h>

#include "sim/world/cluster.h"
#include "sim/world/format.h"
#include "sim/world/lasting.h"
#include "sim/world/rule.h"

void cluster_text(char *text, size_t bytes)
{
	const struct scenario *s = &cluster.scenario;
	static const char *const queues[] = { "fold", "drop-oldest", "wait" };
	static const char *const exact[] = { ", exact", ", exact, momentum", ", exact, nesterov",
					     ", exact, adam", ", exact, adamw" };
	static const char *const waits[] = { "sync",          "sync, k",
					     "sync, dbw",     "sync, dbw-blind",
					     "sync, adasync", "sync, quorum" };
	static const char *const lates[] = { "drop", "next", "aged" };
	static const char *const selections[] = { "", "running checkpoint, priority",
						  "running checkpoint, round-robin",
						  "running checkpoint, random" };
	char chain[128] = "one server", consistency[64] = "async";

	if (s->chain)
		snprintf(chain, sizeof(chain), "%s of %u (%u servers)%s",
			 s->every != 0 ? "periodic chain" : "chain", s->replicas, s->servers,
			 s->refound ? ", refound" : "");
	if (s->saved && s->chain)
		snprintf(chain + strlen(chain), sizeof(chain) - strlen(chain),
			 ", checkpoints of %s (%u steps, %u ms; %u stay)",
			 s->by_each ? "each" : "the tail", s->save_steps, s->save_ms, s->save_keep);
	else if (s->saved)
		snprintf(chain, sizeof(chain), "%s%s (every %u steps, %u ms; %u stay), %s",
			 s->running ? selections[s->selection] : "checkpoint",
			 s->deltas ? ", int8 deltas" : "", s->save_steps, s->save_ms, s->save_keep,
			 s->back ? "back" : "freshest");
	if (s->sync)
		snprintf(consistency, sizeof(consistency), s->wait_k > 0 ? "%s %u" : "%s",
			 waits[s->wait], s->wait_k);
	if (s->late != OL_LATE_DROP || s->grace_ms > 0)
		snprintf(consistency + strlen(consistency),
			 sizeof(consistency) - strlen(consistency), " (%u ms, late %s %u)",
			 s->grace_ms, lates[s->late], s->late_steps);
	if (s->ssp)
		snprintf(consistency, sizeof(consistency), "ssp %u", s->staleness);
	snprintf(text, bytes,
		 "%s, %u shard%s, %u workers%s%s%s%s, %s%s, window %u, outage %s%s, %u pushes%s%s",
		 chain, s->shards, s->shards > 1 ? "s" : "", s->workers,
		 s->between       ? " that die between pushes"
		 : s->workers_die ? " that die"
				  : "",
		 s->holds ? " that push on" : "", s->ends ? " that end together" : "",
		 !s->observed ? ""
		 : s->reads   ? ", an observer"
			      : ", an observer of counters",
		 consistency, s->exact ? exact[s->optimizer - 1] : "", s->window,
		 s->outage == OL_OUTAGE_WAIT ? "wait" : "continue, ",
		 s->outage == OL_OUTAGE_WAIT ? "" : queues[s->queue], s->pushes,
		 s->lasting != LASTING_NOTHING ? "; for good: " : "", lasting_text());
	if (s->spans)
		snprintf(text + strlen(text), bytes - strlen(text), "; spans");
	if (rules_change())
		snprintf(text + strlen(text), bytes - strlen(text), "; the rule changes");
	if (formats_differ())
		snprintf(text + strlen(text), bytes - strlen(text), "; formats");
	if (s->parts_floats != 0)
		snprintf(text + strlen(text), bytes - strlen(text), "; gradients in parts");
	if (s->mirrors)
		snprintf(text + strlen(text), bytes - strlen(text), "; restores%s within %u ms%s%s",
			 s->restore_first ? " always" : "", s->restore_ms,
			 s->restore_all ? ", knows how many" : "",
			 s->newcomer ? ", one worker is late" : "");
}
