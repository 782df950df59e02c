/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * life.h -- when a process that ended is started again: pure, its end and the time in, a verdict out
 *
 * Each process may be started again `restarts` times, each time after twice the pause. One that ran
 * for `calm_ns` has all of them back: what fails once a day is not what fails at once.
 */
#ifndef LAUNCH_LIFE_H
#define LAUNCH_LIFE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct launch_policy {
	uint32_t restarts;
	uint64_t pause_ns; /* before the first one */
	uint64_t pause_max_ns;
	uint64_t calm_ns;
};

enum launch_state {
	LAUNCH_WAITS, /* not started yet, or again from due_ns on */
	LAUNCH_STARTS, /* ordered; a server does not listen yet */
	LAUNCH_RUNS,
	LAUNCH_DONE, /* ended as it should */
	LAUNCH_FAILED /* ended, and is not started again */
};

struct launch_life {
	enum launch_state state;
	uint32_t starts;
	uint32_t spent; /* restarts, since it last ran calmly */
	uint64_t down_ns; /* it last ran until then */
	uint64_t begun_ns; /* this start */
	uint64_t due_ns; /* WAITS: not before */
	int status; /* of its last end, as wait() has it */
	bool has_run; /* it was once seen to work: a server listened, a worker was started */
	bool is_asked; /* was told to end */
};

/* What an end means for whom */
enum launch_kind {
	LAUNCH_SERVER, /* is to run until it is asked to end */
	LAUNCH_WORKER, /* is done when it ends with status 0 */
	LAUNCH_KEEPER, /* of a ZooKeeper server: as a server; what it ends with by itself is final */
	LAUNCH_AGENT /* as a server */
};

void launch_life_begin(struct launch_life *life, uint64_t now_ns);
void launch_life_runs(struct launch_life *life);

/*
 * launch_life_end -- it has ended, with this status; the state says what comes next: WAITS, DONE or FAILED
 *
 * A server of this program that never listened, and says that its words or its data are wrong, or its address in use,
 * fails at once; so does one that has listened, and says that its weights cannot be used, and a worker whose command is not found, or cannot be run (status 127 or 126). A server that has
 * listened, and whose address is in use when it comes back, tries again for a minute, and that counts as no restart.
 */
void launch_life_end(struct launch_life *life, const struct launch_policy *policy,
		     enum launch_kind kind, int status, uint64_t now_ns);

/* launch_life_lives -- it was started, and has not ended */
static inline bool launch_life_lives(const struct launch_life *life)
{
	return life->state == LAUNCH_STARTS || life->state == LAUNCH_RUNS;
}

/* launch_life_is_due -- it is to be started now */
static inline bool launch_life_is_due(const struct launch_life *life, uint64_t now_ns)
{
	return life->state == LAUNCH_WAITS && now_ns >= life->due_ns;
}

/* launch_status_text -- "ended with exit status 4", "was killed by signal 9" */
const char *launch_status_text(int status, char *text, size_t text_bytes);

#endif /* LAUNCH_LIFE_H */
