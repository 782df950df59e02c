/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * draw.c -- random numbers by their purpose
 */
#include <math.h>

#include "drill/scar/scar.h"
#include "learn/rng.h"

enum {
	PURPOSE = 64 /* above those of tools/learn */
};

static uint64_t bits(struct scar_rng *rng)
{
	struct learn_rng_block counter = { .word = {
						   rng->used++,
						   (uint32_t)PURPOSE << 24 | rng->stream,
						   (uint32_t)rng->trial,
						   (uint32_t)(rng->trial >> 32),
					   } };
	struct learn_rng_block block =
		learn_philox(counter, (uint32_t)rng->seed, (uint32_t)(rng->seed >> 32));

	return (uint64_t)block.word[0] << 32 | block.word[1];
}

double scar_uniform(struct scar_rng *rng)
{
	return ((double)(bits(rng) >> 12) + 0.5) * 0x1p-52;
}

double scar_normal(struct scar_rng *rng)
{
	double radius = sqrt(-2.0 * log(scar_uniform(rng)));

	return radius * cos(2.0 * M_PI * scar_uniform(rng));
}

uint32_t scar_below(struct scar_rng *rng, uint32_t limit)
{
	uint64_t word = bits(rng);

	return learn_rng_below((uint32_t)(word >> 32), (uint32_t)word, limit);
}
