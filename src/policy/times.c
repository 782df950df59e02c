/* SPDX-License-Identifier: BSD-3-Clause */

/* times.c -- time samples, and their isotonic fit */

#include "policy/times.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policy/isotonic.h"

enum {
	/* Steps whose stragglers are still counted. A straggler that comes later gives no sample,
	 * so a long wait would look short: with n workers and k = 1 it is about n steps late. */
	STEPS = 1024,
	LEVELS_ALL = 16, /* every k up to here is a level */
	LEVELS_PART = 8, /* then each is larger by 1 / 8 */
	SWEEPS = 1, /* for each update: the fit begins with the last one */
	WORD_BITS = 64
};

/* No step is taken as shorter, as scores are divided by its time. */
#define SECONDS_MIN 1e-9

/* The time from one update to the next, and after it for its stragglers */
struct step {
	uint64_t version;
	uint64_t start_ns;
	uint32_t landed; /* gradients computed at version */
	uint32_t row;
	bool known;
};

struct ol_times {
	uint32_t workers;
	uint32_t workers_max;
	uint32_t levels;
	uint32_t words; /* of a step's part of pushed */
	double decay;
	bool carries;
	uint64_t version; /* newest */
	uint32_t *level_k;
	uint32_t *level_of; /* by k up to workers: the last level that is not above it */
	struct step *steps;
	uint64_t *pushed; /* a bit a step and worker: its gradient has landed */
	/* A row a level of h, so that it rises downwards: the largest first, or the smallest if gradients are carried */
	struct ol_isotonic grid;
};

static uint32_t level_after(uint32_t k, uint32_t workers)
{
	uint32_t next = k < LEVELS_ALL ? k + 1 : k + k / LEVELS_PART;

	return next < workers ? next : workers;
}

static uint32_t levels_count(uint32_t workers)
{
	uint32_t count = 1;

	for (uint32_t k = 1; k < workers; k = level_after(k, workers))
		count++;
	return count;
}

static void levels_fill(struct ol_times *times)
{
	uint32_t k = 1;

	for (uint32_t level = 0; level < times->levels; level++) {
		uint32_t next = level_after(k, times->workers);

		times->level_k[level] = k;
		times->level_of[k] = level;
		for (uint32_t i = k + 1; i < next; i++)
			times->level_of[i] = level;
		k = next;
	}
}

int ol_times_create(uint32_t workers, uint32_t workers_max, double decay, bool carries,
		    struct ol_times **ret_times)
{
	struct ol_times *times = calloc(1, sizeof(*times));

	if (times == NULL)
		return -ENOMEM;
	times->workers = workers;
	times->workers_max = workers_max;
	times->decay = decay;
	times->carries = carries;
	times->levels = levels_count(workers);
	times->words = (workers_max + WORD_BITS - 1) / WORD_BITS;
	times->level_k = calloc(times->levels, sizeof(*times->level_k));
	times->level_of = calloc((size_t)workers + 1, sizeof(*times->level_of));
	times->steps = calloc(STEPS, sizeof(*times->steps));
	times->pushed = calloc((size_t)STEPS * times->words, sizeof(*times->pushed));
	if (times->level_k == NULL || times->level_of == NULL || times->steps == NULL ||
	    times->pushed == NULL || ol_isotonic_init(&times->grid, times->levels) != 0) {
		ol_times_destroy(times);
		return -ENOMEM;
	}
	levels_fill(times);
	*ret_times = times;
	return 0;
}

void ol_times_destroy(struct ol_times *times)
{
	if (times == NULL)
		return;
	ol_isotonic_fini(&times->grid);
	free(times->level_k);
	free(times->level_of);
	free(times->steps);
	free(times->pushed);
	free(times);
}

uint32_t ol_times_level(const struct ol_times *times, uint32_t k)
{
	if (k == 0)
		return 0;
	return times->level_of[k < times->workers ? k : times->workers];
}

static uint32_t row_of(const struct ol_times *times, uint32_t h)
{
	const uint32_t level = ol_times_level(times, h);

	return times->carries ? level : times->levels - 1 - level;
}

static void sample(struct ol_times *times, const struct step *step, uint64_t now_ns)
{
	uint32_t level = times->level_of[step->landed];

	if (times->level_k[level] == step->landed)
		ol_isotonic_add(&times->grid, step->row, level,
				now_ns < step->start_ns ? 0.0
							: (double)(now_ns - step->start_ns) * 1e-9);
}

/* A gradient is there for the step that is made of weights of this version */
static void land(struct ol_times *times, uint32_t worker, uint64_t version, uint64_t now_ns)
{
	size_t slot = version % STEPS;
	struct step *step = &times->steps[slot];
	uint64_t *word = &times->pushed[slot * times->words + worker / WORD_BITS];
	uint64_t bit = (uint64_t)1 << worker % WORD_BITS;

	if (!step->known || step->version != version || (*word & bit) != 0 ||
	    step->landed == times->workers)
		return;
	*word |= bit;
	step->landed++;
	sample(times, step, now_ns);
}

void ol_times_on_gradient(struct ol_times *times, uint32_t worker, uint64_t base_version,
			  uint64_t last_version, uint64_t now_ns)
{
	const struct step *own = &times->steps[base_version % STEPS];

	/* what is carried may land before the weights of its step are there, but not before its own */
	if (own->known && own->version == base_version && now_ns < own->start_ns)
		return;
	if (base_version < last_version && last_version - base_version >= STEPS)
		base_version = last_version - STEPS + 1; /* older steps are forgotten */
	for (uint64_t i = 0; base_version <= last_version && i <= last_version - base_version; i++)
		land(times, worker, base_version + i, now_ns);
}

void ol_times_on_update(struct ol_times *times, uint64_t version, uint64_t now_ns, uint32_t count)
{
	size_t slot = version % STEPS;

	/* a restored server counts anew: earlier steps do not count */
	if (version < times->version) {
		for (uint32_t i = 0; i < STEPS; i++)
			times->steps[i].known = false;
	}
	times->version = version;
	memset(&times->pushed[slot * times->words], 0, times->words * sizeof(*times->pushed));
	times->steps[slot] = (struct step){
		.version = version,
		.start_ns = now_ns,
		.row = row_of(times, count),
		.known = count > 0,
	};
	if (count == 0)
		return;
	ol_isotonic_fade(&times->grid, times->decay);
	ol_isotonic_fit(&times->grid, SWEEPS);
}

uint32_t ol_times_levels(const struct ol_times *times)
{
	return times->levels;
}

uint32_t ol_times_k(const struct ol_times *times, uint32_t level)
{
	return times->level_k[level];
}

double ol_times_expect(const struct ol_times *times, uint32_t h, uint32_t level)
{
	double seconds = times->grid.fit[(size_t)row_of(times, h) * times->levels + level];

	return seconds < SECONDS_MIN ? SECONDS_MIN : seconds;
}

bool ol_times_seen(const struct ol_times *times, uint32_t h, uint32_t level)
{
	return ol_isotonic_seen(&times->grid, row_of(times, h), level);
}
