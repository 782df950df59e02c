/* SPDX-License-Identifier: BSD-3-Clause */

/* engine.c -- virtual time: events in the order of their times; random numbers; the trace of a run */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world/sim.h"
#include "sim/world/wrap.h"

enum {
	EVENTS_FIRST = 1024,
	EVENTS_MAX = 1 << 20, /* more are a run that has gone mad */
	ARENA_BYTES = 1 << 18
};

struct event {
	uint64_t at_ns;
	uint64_t order; /* of two at the same time the first made is the first */
	sim_event_fn *fn;
	void *arg;
	uint64_t tag;
};

struct arena {
	struct arena *next;
	size_t used;
	size_t bytes;
};

static struct {
	bool active;
	bool trace;
	uint64_t random;
	uint64_t now_ns;
	uint64_t order;
	struct event *heap;
	size_t count;
	size_t room;
	struct arena *arena;
	int64_t leaps_ns[SIM_PLACES_MAX];
	char failure[SIM_TEXT_MAX];
	char check[64];
	void (*line)(const char *text);
} sim;

void sim_begin(uint64_t seed, bool trace)
{
	sim.active = true;
	sim.trace = trace;
	sim.random = (seed + 1) * 0x9e3779b97f4a7c15ULL;
	sim.now_ns = 1000 * SIM_S;
	sim.order = 0;
	sim.count = 0;
	memset(sim.leaps_ns, 0, sizeof(sim.leaps_ns));
	sim.failure[0] = '\0';
	sim.check[0] = '\0';
	for (unsigned i = 0; i < 8; i++) /* seeds that are alike part ways */
		sim_random();
	sim_processes_begin();
}

void sim_end(void)
{
	sim_processes_end();
	while (sim.arena != NULL) {
		struct arena *next = sim.arena->next;

		__real_free(sim.arena);
		sim.arena = next;
	}
	__real_free(sim.heap);
	sim.heap = NULL;
	sim.room = 0;
	sim.active = false;
}

bool sim_active(void)
{
	return sim.active;
}

uint64_t sim_now(void)
{
	return sim.now_ns;
}

void sim_clock_leap(uint32_t place, int64_t ns)
{
	sim.leaps_ns[place] += ns;
}

uint64_t sim_clock_of(uint32_t place, uint64_t at_ns)
{
	return at_ns + (uint64_t)sim.leaps_ns[place];
}

void sim_clock_move(uint64_t ns)
{
	sim.now_ns += ns;
}

uint64_t sim_random(void)
{
	/* xorshift64* */
	sim.random ^= sim.random >> 12;
	sim.random ^= sim.random << 25;
	sim.random ^= sim.random >> 27;
	return sim.random * 0x2545f4914f6cdd1dULL;
}

uint32_t sim_below(uint32_t limit)
{
	return (uint32_t)((sim_random() >> 32) * limit >> 32);
}

uint64_t sim_between(uint64_t low, uint64_t high)
{
	return low + (sim_random() >> 8) % (high - low + 1);
}

bool sim_ppm(uint32_t parts)
{
	return parts != 0 && sim_below(1000000) < parts;
}

static bool sooner(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

void sim_at(uint64_t delay_ns, sim_event_fn *fn, void *arg, uint64_t tag)
{
	struct event event = { .at_ns = sim.now_ns + delay_ns,
			       .order = sim.order++,
			       .fn = fn,
			       .arg = arg,
			       .tag = tag };
	size_t at = sim.count;

	if (at == EVENTS_MAX) {
		sim_fail("check_bounded", "%zu events are to come", at);
		return;
	}
	sim.count++;
	if (at == sim.room) {
		sim.room = sim.room == 0 ? EVENTS_FIRST : sim.room * 2;
		sim.heap = __real_realloc(sim.heap, sim.room * sizeof(*sim.heap));
		if (sim.heap == NULL)
			abort();
	}
	for (; at > 0 && sooner(&event, &sim.heap[(at - 1) / 2]); at = (at - 1) / 2)
		sim.heap[at] = sim.heap[(at - 1) / 2];
	sim.heap[at] = event;
}

static struct event next_event(void)
{
	struct event first = sim.heap[0], last = sim.heap[--sim.count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < sim.count) {
		if (child + 1 < sim.count && sooner(&sim.heap[child + 1], &sim.heap[child]))
			child++;
		if (sooner(&last, &sim.heap[child]))
			break;
		sim.heap[at] = sim.heap[child];
		at = child;
	}
	sim.heap[at] = last;
	return first;
}

bool sim_step(void)
{
	struct event event;

	if (sim.count == 0 || sim.failure[0] != '\0')
		return false;
	event = next_event();
	if (event.at_ns > sim.now_ns)
		sim.now_ns = event.at_ns;
	event.fn(event.arg, event.tag);
	return sim.failure[0] == '\0';
}

void *sim_alloc(size_t bytes)
{
	size_t want = (bytes + 15) & ~(size_t)15;
	struct arena *arena = sim.arena;

	if (arena == NULL || arena->bytes - arena->used < want) {
		size_t room = want > ARENA_BYTES ? want : ARENA_BYTES;

		arena = __real_calloc(1, sizeof(*arena) + 16 + room);
		if (arena == NULL)
			abort();
		arena->bytes = room;
		arena->next = sim.arena;
		sim.arena = arena;
	}
	arena->used += want;
	return (char *)(arena + 1) + (16 - sizeof(*arena) % 16) % 16 + arena->used - want;
}

static void say(const char *text)
{
	char line[SIM_TEXT_MAX + 64];
	const struct sim_process *self = sim_process_self();
	uint64_t ns = sim.now_ns - 1000 * SIM_S;

	snprintf(line, sizeof(line), "%4u.%06u %-10s %s", (unsigned)(ns / SIM_S),
		 (unsigned)(ns % SIM_S / SIM_US), self != NULL ? sim_process_name(self) : "-",
		 text);
	if (sim.line != NULL)
		sim.line(line);
	else
		puts(line);
}

bool sim_tracing(void)
{
	return sim.trace;
}

void sim_say(const char *format, ...)
{
	char text[SIM_TEXT_MAX];
	va_list args;

	if (!sim.trace)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	say(text);
}

void sim_trace_to(void (*line)(const char *text))
{
	sim.line = line;
}

void sim_fail(const char *check, const char *format, ...)
{
	char text[SIM_TEXT_MAX - 80];
	va_list args;

	if (sim.failure[0] == '\0') {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
		snprintf(sim.check, sizeof(sim.check), "%s", check);
		snprintf(sim.failure, sizeof(sim.failure), "%s: %s", check, text);
		sim_say("FAILED: %s", sim.failure);
	}
	if (sim_process_self() != NULL)
		sim_process_leave();
}

const char *sim_failure(void)
{
	return sim.failure[0] != '\0' ? sim.failure : NULL;
}

const char *sim_failed_check(void)
{
	return sim.check;
}
