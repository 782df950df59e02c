/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * kernels.h -- update rules over plain arrays, compiled once for each vector width
 *
 * They work element by element, without reduction or contraction, with division and square root of
 * IEEE 754: so every width gives the same bits. Gradients of one update are summed in the order
 * given.
 */
#ifndef OL_STORE_KERNELS_H
#define OL_STORE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "outlast_server.h"

/* Squared Euclidean norms of an update's gradients */
struct ol_norms {
	double sum; /* of the gradients' own, added up */
	double mean; /* of the gradients' mean */
};

enum {
	/* Floats: an update in pieces of whole blocks gives the bits of one update. All
	   arrays of a block stay in the first-level cache, and the block is short enough that the
	   processor fetches the next one's inputs meanwhile. */
	OL_KERNEL_BLOCK = 256,
	OL_KERNEL_STATES = 2, /* vectors of state at most */
};

/* Arrays do not overlap, except inputs with inputs. */
struct ol_kernel_args {
	const struct ol_update_rule *rule;
	uint64_t step; /* 1 for the first update: Adam's bias correction */
	const void *const *grads; /* where each begins */
	const uint8_t *formats; /* of each: enum ol_format; NULL: all are fp32 */
	const float *scales; /* a factor on each; NULL: all 1 */
	unsigned grad_count; /* at least 1 */
	size_t first, len; /* of every array, the floats first … first + len */
	const float *weights;
	float *new_weights;
	uint16_t *new_bf16; /* an update: these once more, as bf16; NULL: not wanted */
	const float *state[OL_KERNEL_STATES]; /* momentum: u; Adam: m, v */
	float *new_state[OL_KERNEL_STATES];
	float shrink; /* an update: a factor on the gradients' sum or mean; 0: 1; below 0: the update
			 is made without them */
	float clip; /* … whose elements are then cut to -clip … clip; 0: they are not */
	struct ol_norms *norms; /* added up while summing; NULL: not wanted */
	/* 1: an update's outputs go past the caches. It is quicker if they would not stay there till
	   they are read. They are in memory before what is stored after the call. Not with norms. */
	int stream;
};

/*
 * An update. Returns grad_count, or, when the rule rejects non-finite values, the index of a
 * gradient that has one; the outputs are then garbage.
 */
typedef unsigned ol_kernel_fn(const struct ol_kernel_args *args);

/*
 * Only the gradients' sum or mean, as `update` computes it, into new_weights (weights and state are
 * not read). Returns as an update does.
 */
typedef unsigned ol_kernel_gather_fn(const struct ol_kernel_args *args);

/* 1 if no value is a NaN or an infinity; grad: in this enum ol_format */
typedef int ol_kernel_finite_fn(const void *grad, uint32_t format, size_t len);

/*
 * Squared Euclidean distance of two arrays, in doubles, so that squares too small or too large for a
 * float count. Infinities and NaNs give a result that is not finite.
 */
typedef double ol_kernel_moved2_fn(const float *now, const float *before, size_t len);

/* Squared Euclidean norm, likewise */
typedef double ol_kernel_norm2_fn(const float *x, size_t len);

struct ol_kernels {
	const char *isa;
	ol_kernel_fn *update;
	ol_kernel_gather_fn *gather;
	ol_kernel_finite_fn *finite;
	ol_kernel_moved2_fn *moved2;
	ol_kernel_norm2_fn *norm2;
};

/* ol_kernels_best -- the widest that this processor runs */
const struct ol_kernels *ol_kernels_best(void);

/* ol_kernels_at -- the index-th that this processor runs, from narrow to wide; NULL at the end */
const struct ol_kernels *ol_kernels_at(unsigned index);

/* ol_kernels_cache_bytes -- of this processor's largest cache; 0: not known */
uint64_t ol_kernels_cache_bytes(void);

/* ol_rule_name -- of an optimizer; NULL: there is none of that number */
const char *ol_rule_name(uint32_t optimizer);

/* ol_rule_state_vectors -- how many vectors of state a valid optimizer keeps */
unsigned ol_rule_state_vectors(enum ol_optimizer optimizer);

#endif /* OL_STORE_KERNELS_H */
