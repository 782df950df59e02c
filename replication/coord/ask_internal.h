/* SPDX-License-Identifier: BSD-3-Clause */

/* ask_internal.h -- what the back ends share for ask.h */
#ifndef OL_REPLICATION_COORD_ASK_INTERNAL_H
#define OL_REPLICATION_COORD_ASK_INTERNAL_H

#include "replication/coord/ask.h"
#include "replication/coord/coord_internal.h"

enum {
	OL_ASK_FIGURES_MAX = 8,
	OL_ASK_ROUNDS_MAX = 1000,
	OL_ASK_SESSION_MS = 5000, /* in ZooKeeper, of whoever only asks */
};

/* A finding that is being made */
struct ol_asker {
	ol_coord_finding_fn *tell;
	void *arg;
	struct ol_coord_figure figures[OL_ASK_FIGURES_MAX];
	uint32_t figure_count;
	bool bad; /* there was a bad finding */
	bool warned;
};

/* ol_ask_figure -- for the next finding; those beyond the limit are dropped */
void ol_ask_figure(struct ol_asker *asker, const char *name, double value);
/* ol_ask_find -- tell a finding, with the figures since the last */
void ol_ask_find(struct ol_asker *asker, enum ol_coord_verdict verdict, const char *subject,
		 const char *remedy, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Jobs that are kept, counted as an ol_kept_fn is told of their shards, job by job; begins as zeros */
struct ol_ask_jobs {
	uint32_t jobs, dead, open;
	char last[OL_COORD_JOB_MAX]; /* that was told of … */
	uint32_t last_live;
	bool last_open;
	char a_dead[OL_COORD_JOB_MAX], an_open[OL_COORD_JOB_MAX]; /* the first of each */
};

/* ol_ask_jobs_on_kept -- an ol_kept_fn; arg: struct ol_ask_jobs */
void ol_ask_jobs_on_kept(void *arg, const struct ol_kept *kept);
/* ol_ask_jobs_tell -- all were told of: tell how many there are. open: a figure of those that anybody
 * may change, too */
void ol_ask_jobs_tell(struct ol_asker *asker, struct ol_ask_jobs *jobs, bool open);

/* ol_ask_latency -- tell how long `count` rounds of something took; sorts them. slow_ns: a median above
 * it is a warning; 0: none */
void ol_ask_latency(struct ol_asker *asker, const char *subject, const char *what,
		    uint64_t *times_ns, uint32_t count, uint64_t slow_ns, const char *remedy);

/* ol_ask_wall_ms -- CLOCK_REALTIME */
int64_t ol_ask_wall_ms(void);

#endif /* OL_REPLICATION_COORD_ASK_INTERNAL_H */
