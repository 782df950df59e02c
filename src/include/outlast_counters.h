/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * outlast_counters.h -- what a server counts and times; outlast.h, which includes this, has ol_stat() to read it
 */
#ifndef OUTLAST_COUNTERS_H
#define OUTLAST_COUNTERS_H

#include <stdint.h>

/* A server's role in its shard's chain. */
enum ol_replica_role {
	OL_REPLICA_NONE, /* no chain, or not in one yet */
	OL_REPLICA_JOINING, /* being brought up to date */
	OL_REPLICA_HEAD, /* orders pushes */
	OL_REPLICA_MIDDLE,
	OL_REPLICA_TAIL, /* commits, answers pulls */
	OL_REPLICA_ONLY, /* the only replica: head and tail at once */
};

enum {
	OL_LATENCY_BUCKETS = 106
};

/*
 * How long something took, each time since its process started. There are as many times as the sum of
 * all buckets. A bucket that lies between two powers of two is a quarter of that, in ns:
 *
 *	0               less than 2^10
 *	1 + 4 o + s     from (4 + s) 2^(8 + o) to less than (5 + s) 2^(8 + o); o: 0 to 25, s: 0 to 3
 *	105             2^36 (68.7 s) or more
 */
struct ol_latency {
	uint64_t sum_ns; /* of all times; it may lack the last one that is in a bucket */
	uint64_t buckets[OL_LATENCY_BUCKETS];
};

/*
 * How long a worker's pushes and pulls at one shard took, as it saw them: ol_link_get_times().
 *
 * push: from ol_push() to when the worker learned that the shard has applied the gradient; in a chain that
 *       replicates each gradient, that it is committed there. The wait for a free place in a queue of
 *       the network, and an outage on the way, are part of it. A push that was dropped, that no slot
 *       took (it waited in the outage's queue), or that the server applies a second time, has no time.
 * pull: from when it began to when this shard was read. A pull that failed, or that took the last
 *       weights because the server was gone, has no time there.
 *
 * Where they follow each other in less than 100 us on the average, one of seven is timed.
 */
struct ol_link_times {
	struct ol_latency push;
	struct ol_latency pull;
};

/* Counters of one shard's server, read from its memory: its CPU takes no part. */
struct ol_server_stat {
	uint64_t version;
	uint64_t heartbeat; /* goes up while the server's loop turns */
	uint64_t applied; /* gradients that took effect */
	uint64_t dropped_nonfinite;
	uint64_t dropped_late;
	uint64_t duplicates; /* gradients that were pushed again and had been applied before */
	uint64_t staleness_sum; /* over applied gradients: version at apply - base version */
	uint64_t samples;
	uint64_t bytes_in;
	uint64_t refused; /* handshakes */
	uint64_t violations; /* sessions ended because the peer broke a rule */
	uint64_t replayed; /* of those applied: had waited in a worker's queue */
	uint64_t restored_version; /* the server began with weights of this version */
	uint64_t restored_lost; /* pushes reported as applied to workers that these weights lack */
	uint64_t ready_ns; /* when it had these weights, CLOCK_MONOTONIC of its host */
	uint64_t first_applied_ns; /* when it applied its first gradient; 0: none yet */
	uint64_t checkpoints; /* written */
	uint64_t checkpoints_failed;
	uint64_t checkpoints_skipped; /* due while one was being written, or thinned out since */
	uint64_t checkpoint_version; /* of the last one written */
	uint64_t checkpoint_bytes; /* written in total */
	uint32_t restored_from; /* enum ol_restore: CHECKPOINT, MIRROR, or NONE (first weights) */
	uint32_t epoch;
	uint32_t workers; /* connected now */
	/* Of a chain; all 0 where there is none. Entries are numbered as versions are. */
	uint64_t replica; /* id of this server process */
	uint64_t received; /* newest entry in its ring; of a head: newest that it ordered */
	uint64_t committed; /* newest entry that it knows the tail has */
	uint64_t forwarded; /* entries sent to successors, repeats included */
	uint64_t forwarded_bytes; /* bytes of those entries */
	uint64_t resent; /* of those: sent again, to a new successor */
	uint64_t resync_bytes; /* read from its predecessor when it joined */
	uint64_t resync_ns; /* how long it took to catch up; 0: it did not join */
	uint64_t views; /* adopted */
	uint64_t suspicions; /* of a neighbour: connection broke or heartbeat stood still */
	uint32_t role; /* enum ol_replica_role */
	uint32_t ring_slots;
	uint32_t ring_used;
	float loss; /* of recent gradients, exponentially averaged over 32 */
	/* Times in a chain, CLOCK_MONOTONIC of its host; 0: never. */
	uint64_t proposed_ns; /* when it first asked for the view that it proposed last */
	uint64_t adopted_ns; /* when it last adopted a view */
	uint64_t linked_ns; /* when it last got a successor that takes entries */
	uint32_t wait_for; /* gradients that the next step waits for; async, ssp: 1 */
	uint64_t turn_max_ns; /* longest turn of its loop, without sleep; no peer is served during
				 a turn */
	uint64_t sent_away; /* peers told to come back, as their memory was not ready */
	uint64_t
		early_bytes; /* of gradients, or of a chain's entries, worked on before all of them had
				 landed */
	uint64_t early_void_bytes; /* of these, in vain: another step was made than the one begun */
	/* Of the server's transport, at its last heartbeat */
	uint64_t conns; /* connections, whatever their state */
	uint64_t regions; /* of memory, registered */
	uint64_t region_bytes;
	uint64_t writes; /* posted, those that ring a doorbell included */
	uint64_t write_bytes;
	uint64_t doorbells; /* rung at peers */
	uint64_t reads;
	uint64_t read_bytes;
	uint64_t rung; /* doorbells of peers */
	uint64_t busy; /* posts that found a full queue */
	uint64_t carried; /* gradients of those applied: came too late for their step, and were held
			     for a later one (OL_LATE_NEXT) */
	uint64_t beat_ns; /* its last heartbeat, CLOCK_MONOTONIC of its host */
	uint64_t
		checkpoint_ns; /* when the weights of the last checkpoint that it wrote were in force, by
				   the same clock; 0: it has written none */
	/* Of pushes that took effect: from the server's first sight of the gradient to weights with it;
	   waiting for other workers is part of it. In a chain that replicates each gradient, at the
	   head that ordered them, and 0 elsewhere */
	struct ol_latency push_applied;
	/* One of these, slow: it stays until a slower one, and is replaced by the first one after 15 s. A
	   look at the moment at which it is replaced finds 0 */
	uint64_t slow_push; /* count of its worker's pushes at this shard; 0: none */
	uint64_t slow_worker;
	uint64_t slow_ns; /* how long it took */
	uint64_t slow_at_ns; /* when it took effect, CLOCK_REALTIME of its host */
};

#endif /* OUTLAST_COUNTERS_H */
