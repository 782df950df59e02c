/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * rng.h -- random numbers as a pure function of their purpose
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC
 *2011). The 128-bit counter says who draws, when and which draw it is; the seed is the key. There
 * is no state, so any step of any worker can be drawn again, in any order, on any machine, with the
 * same bits.
 *
 *	counter word  meaning
 *	0             index of the draw
 *	1             purpose (upper 8 bits), worker (lower 24)
 *	2, 3          step, low and high half
 */
#ifndef LEARN_RNG_H
#define LEARN_RNG_H

#include <stdint.h>

enum {
	LEARN_WORKER_MAX = (1 << 24) - 1 /* largest worker number that a draw can name */
};

/* Two purposes never share a number. */
enum learn_rng_purpose {
	LEARN_RNG_BATCH = 1, /* which samples a batch holds */
	LEARN_RNG_DROPOUT = 2, /* which activations a step drops */
	LEARN_RNG_INIT = 3, /* first weights; "worker" is the layer */
	LEARN_RNG_SYNTH_CENTRE = 4, /* synthetic data: class centres */
	LEARN_RNG_SYNTH_NOISE = 5, /* synthetic data: spread; "worker" is 0 train, 1 test */
	LEARN_RNG_SYNTH_LABEL = 6, /* synthetic data: labels */
	LEARN_RNG_GIBBS = 7, /* new topics of a step's tokens */
	LEARN_RNG_PLANT = 8, /* generated ratings and documents: true factors and topics; "worker"
				is the kind of thing */
	LEARN_RNG_PLANT_DRAW = 9, /* … and draws from these */
	LEARN_RNG_DELAY = 32 /* a gradient's delay, with --delay */
};

/* One step of one worker: the same key draws the same batch and the same dropout mask. */
struct learn_key {
	uint64_t seed;
	uint64_t step;
	uint32_t worker; /* at most LEARN_WORKER_MAX; higher bits are ignored */
};

struct learn_rng_block {
	uint32_t word[4];
};

/* learn_philox -- Philox4x32-10 itself: counter and key in, 128 random bits out */
static inline struct learn_rng_block learn_philox(struct learn_rng_block counter, uint32_t key0,
						  uint32_t key1)
{
	for (unsigned round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * counter.word[0];
		uint64_t p1 = (uint64_t)0xCD9E8D57u * counter.word[2];

		counter = (struct learn_rng_block){ .word = {
							    (uint32_t)(p1 >> 32) ^ counter.word[1] ^
								    key0,
							    (uint32_t)p1,
							    (uint32_t)(p0 >> 32) ^ counter.word[3] ^
								    key1,
							    (uint32_t)p0,
						    } };
		key0 += 0x9E3779B9u;
		key1 += 0xBB67AE85u;
	}
	return counter;
}

/* learn_rng_draw -- the 128 bits of draw `index` for a purpose and a step of a worker */
static inline struct learn_rng_block learn_rng_draw(const struct learn_key *key,
						    enum learn_rng_purpose purpose, uint32_t index)
{
	struct learn_rng_block counter = { .word = {
						   index,
						   (uint32_t)purpose << 24 |
							   (key->worker & LEARN_WORKER_MAX),
						   (uint32_t)key->step,
						   (uint32_t)(key->step >> 32),
					   } };

	return learn_philox(counter, (uint32_t)key->seed, (uint32_t)(key->seed >> 32));
}

/* learn_rng_below -- 64 random bits (hi, lo) to 0 .. limit - 1; bias below limit / 2^64 */
static inline uint32_t learn_rng_below(uint32_t hi, uint32_t lo, uint32_t limit)
{
	uint64_t low = (uint64_t)lo * limit;

	return (uint32_t)(((uint64_t)hi * limit + (low >> 32)) >> 32);
}

/* learn_rng_symmetric -- 24 of the 32 bits to a number in [-1, 1), exact in float */
static inline float learn_rng_symmetric(uint32_t bits)
{
	return (float)(bits >> 8) * 0x1p-23f - 1.0f;
}

/* learn_rng_unit -- 53 of 64 random bits (hi, lo) to a number in [0, 1), exact in double */
static inline double learn_rng_unit(uint32_t hi, uint32_t lo)
{
	return (double)(((uint64_t)hi << 32 | lo) >> 11) * 0x1p-53;
}

/* learn_rng_bell -- two numbers close to normal, of mean 0 and variance 1, from one draw */
static inline void learn_rng_bell(const struct learn_rng_block *block, float ret_value[2])
{
	for (unsigned i = 0; i < 2; i++) {
		uint32_t a = block->word[2 * i];
		uint32_t b = block->word[2 * i + 1];
		uint32_t sum = (a >> 16) + (a & 0xffff) + (b >> 16) + (b & 0xffff);

		/* four uniform numbers in [0, 1): mean 2, variance 1/3 */
		ret_value[i] = ((float)sum * 0x1p-16f - 2.0f) * 1.7320508f;
	}
}

#endif /* LEARN_RNG_H */
