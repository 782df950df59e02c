/* SPDX-License-Identifier: BSD-3-Clause */

/* fail.c -- chooses the call that fails next */

#include "nth/frame/fail.h"

#include <stdatomic.h>
#include <string.h>

static const struct {
	const char *call;
	int error;
	bool often;
} faults[FAIL_FAULTS] = {
#define X(name, call, error, often) [FAIL_##name] = { call, error, often },
	FAIL_MAP(X)
#undef X
};

/* Threads of the program under test come by here at once. */
static struct {
	atomic_bool armed;
	atomic_bool failed;
	enum fail_fault fault;
	unsigned n;
	bool all; /* from the n-th on */
	atomic_uint counts[FAIL_FAULTS];
} state;

void fail_arm(enum fail_fault fault, unsigned n, bool all)
{
	for (unsigned i = 0; i < FAIL_FAULTS; i++)
		atomic_store(&state.counts[i], 0);
	atomic_store(&state.failed, false);
	state.fault = fault;
	state.n = n;
	state.all = all;
	atomic_store(&state.armed, true);
}

struct fail_seen fail_disarm(void)
{
	struct fail_seen seen = { .failed = false };

	atomic_store(&state.armed, false);
	for (unsigned i = 0; i < FAIL_FAULTS; i++)
		seen.counts[i] = atomic_load(&state.counts[i]);
	seen.failed = atomic_load(&state.failed);
	return seen;
}

bool fail_now(enum fail_fault fault)
{
	unsigned count;

	if (!atomic_load(&state.armed))
		return false;
	count = atomic_fetch_add(&state.counts[fault], 1) + 1;
	if (fault != state.fault || state.n == 0 || count < state.n ||
	    (count > state.n && !state.all))
		return false;
	atomic_store(&state.failed, true);
	if (faults[fault].error > 0)
		errno = faults[fault].error;
	return true;
}

const char *fail_call(enum fail_fault fault)
{
	return faults[fault].call;
}

const char *fail_how(enum fail_fault fault)
{
	if (faults[fault].error == FAIL_SHORT)
		return "short";
	if (faults[fault].error == FAIL_OWN)
		return "no memory";
	return strerrorname_np(faults[fault].error);
}

bool fail_often(enum fail_fault fault)
{
	return faults[fault].often;
}
