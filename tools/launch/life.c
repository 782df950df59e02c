/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * life.c -- restarts with a pause that doubles, and their limit
 */
#include "launch/life.h"

#include <stdio.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cmd/cmd.h"

enum {
	NO_PROGRAM = 126, /* as a shell says it: it cannot be run */
	NO_COMMAND = 127, /* it is not there */
	ADDRESS_S = 60, /* what is left of a server may have its address for so long */
};

void launch_life_begin(struct launch_life *life, uint64_t now_ns)
{
	life->state = LAUNCH_STARTS;
	life->starts++;
	life->begun_ns = now_ns;
}

void launch_life_runs(struct launch_life *life)
{
	if (life->state == LAUNCH_STARTS)
		life->state = LAUNCH_RUNS;
	life->has_run = true;
}

/* No restart mends what this program says with such a status. */
static bool status_is_final(int status)
{
	if (!WIFEXITED(status))
		return false;
	switch (WEXITSTATUS(status)) {
	case OL_EXIT_USAGE:
	case OL_EXIT_DATA:
	case OL_EXIT_REFUSED:
	case OL_EXIT_DEVICE:
	case OL_EXIT_RESOURCES:
		return true;
	default:
		return false;
	}
}

/* Nor does one mend what a server says so after it has listened: it has looked for its weights since */
static bool status_is_of_weights(int status)
{
	return WIFEXITED(status) &&
	       (WEXITSTATUS(status) == OL_EXIT_DATA || WEXITSTATUS(status) == OL_EXIT_REFUSED);
}

static uint64_t pause_of(const struct launch_policy *policy, uint32_t spent)
{
	uint64_t pause_ns = policy->pause_ns;

	for (uint32_t i = 0; i < spent && pause_ns < policy->pause_max_ns; i++)
		pause_ns *= 2;
	return pause_ns < policy->pause_max_ns ? pause_ns : policy->pause_max_ns;
}

void launch_life_end(struct launch_life *life, const struct launch_policy *policy,
		     enum launch_kind kind, int status, uint64_t now_ns)
{
	bool had_run = life->state == LAUNCH_RUNS;

	life->status = status;
	life->state = LAUNCH_DONE;
	if (had_run)
		life->down_ns = now_ns;
	if (life->is_asked || (kind == LAUNCH_WORKER && status == 0))
		return;
	life->state = LAUNCH_FAILED;
	if (kind == LAUNCH_SERVER &&
	    (life->has_run ? status_is_of_weights(status) : status_is_final(status)))
		return;
	if (kind == LAUNCH_KEEPER && WIFEXITED(status))
		return;
	if (kind == LAUNCH_WORKER && WIFEXITED(status) &&
	    (WEXITSTATUS(status) == NO_COMMAND || WEXITSTATUS(status) == NO_PROGRAM))
		return;
	if (life->has_run && now_ns - life->begun_ns >= policy->calm_ns)
		life->spent = 0;
	if (kind == LAUNCH_SERVER && !had_run && WIFEXITED(status) &&
	    WEXITSTATUS(status) == OL_EXIT_RESOURCES &&
	    now_ns - life->down_ns < ADDRESS_S * OL_NS_PER_S) {
		life->state = LAUNCH_WAITS;
		life->due_ns = now_ns + policy->pause_max_ns / 8;
		return;
	}
	if (life->spent >= policy->restarts)
		return;
	life->state = LAUNCH_WAITS;
	life->due_ns = now_ns + pause_of(policy, life->spent);
	life->spent++;
}

const char *launch_status_text(int status, char *text, size_t text_bytes)
{
	if (WIFSIGNALED(status))
		snprintf(text, text_bytes, "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(text, text_bytes, "ended with exit status %d", WEXITSTATUS(status));
	return text;
}
