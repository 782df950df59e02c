/* SPDX-License-Identifier: BSD-3-Clause */

/* alternate.c -- time several arms in turns, so that drift of the machine affects all of them */

#include "bench/alternate.h"

#include "base/clock.h"

/* Run up to iters steps (0: any number) within ns (0: any time), at least one */
static int block(struct bench_arm *arm, uint64_t iters, uint64_t ns)
{
	struct bench_samples *samples = &arm->samples;
	size_t first = samples->count;
	uint64_t start_ns = ol_clock_ns(), last_ns = start_ns;

	while (!bench_samples_full(samples)) {
		int rc = arm->rest != NULL ? arm->rest(arm->arg) : 0;
		uint64_t now_ns;

		if (arm->rest != NULL)
			last_ns = ol_clock_ns();
		if (rc == 0)
			rc = arm->step(arm->arg);
		now_ns = ol_clock_ns();
		if (rc != 0)
			return rc;
		bench_samples_add(samples, now_ns - last_ns);
		last_ns = now_ns;
		if (iters != 0 && samples->count - first >= iters)
			break;
		if (iters == 0 && now_ns - start_ns >= ns)
			break;
	}
	return 0;
}

static int warm(struct bench_arm *arm, uint64_t steps, uint64_t bound_ns)
{
	uint64_t start_ns = ol_clock_ns();

	for (uint64_t i = 0; i < steps; i++) {
		int rc = arm->rest != NULL ? arm->rest(arm->arg) : 0;

		if (rc == 0)
			rc = arm->step(arm->arg);
		if (rc != 0)
			return rc;
		if (bound_ns != 0 && ol_clock_ns() - start_ns >= bound_ns)
			break;
	}
	return 0;
}

static int arms_start(struct bench_arm *arms, unsigned arm_count, const struct bench_plan *plan)
{
	uint64_t max = plan->iters != 0 ? plan->iters : plan->samples_max;
	int rc = 0;

	for (unsigned i = 0; i < arm_count && rc == 0; i++) {
		rc = bench_samples_init(&arms[i].samples, (size_t)max);
	}
	for (unsigned i = 0; i < arm_count && rc == 0; i++)
		rc = warm(&arms[i], plan->warmup, plan->ns / 4);
	return rc;
}

/* The steps of one round; 0 only if there are fewer steps than rounds */
static uint64_t round_iters(const struct bench_plan *plan, unsigned round)
{
	return plan->iters * (round + 1) / plan->rounds - plan->iters * round / plan->rounds;
}

int bench_alternate(struct bench_arm *arms, unsigned arm_count, const struct bench_plan *plan)
{
	int rc = arms_start(arms, arm_count, plan);

	for (unsigned round = 0; round < plan->rounds && rc == 0; round++) {
		uint64_t iters = round_iters(plan, round);

		if (plan->iters != 0 && iters == 0)
			continue;
		for (unsigned i = 0; i < arm_count && rc == 0; i++)
			rc = block(&arms[(round + i) % arm_count], iters, plan->ns / plan->rounds);
	}
	return rc;
}
