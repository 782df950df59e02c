/* SPDX-License-Identifier: BSD-3-Clause */

/* kernels_body.c -- the update rules; compiled once for each OL_KERNELS_ISA */

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/power.h"
#include "store/kernels.h"
#include "wire/format.h"

#ifndef OL_KERNELS_ISA
#define OL_KERNELS_ISA generic
#endif
#define OL_CAT2(a, b)    a##b
#define OL_CAT(a, b)     OL_CAT2(a, b)
#define OL_KERNEL_NAME   OL_CAT(ol_kernel_update_, OL_KERNELS_ISA)
#define OL_KERNEL_GATHER OL_CAT(ol_kernel_gather_, OL_KERNELS_ISA)
#define OL_KERNEL_FINITE OL_CAT(ol_kernel_finite_, OL_KERNELS_ISA)
#define OL_KERNEL_MOVED  OL_CAT(ol_kernel_moved2_, OL_KERNELS_ISA)
#define OL_KERNEL_NORM   OL_CAT(ol_kernel_norm2_, OL_KERNELS_ISA)

enum {
	LANES = 16, /* partial sums of a norm or a distance: the same whatever the vector width */
	LINE = 64, /* bytes of a cache line, and of the widest vector */
	BLOCK = OL_KERNEL_BLOCK,
	BLOCK_STREAM =
		2 * BLOCK /* streaming stores fill lines one after the other: fewer changes of
				    array are quicker */
};

/* Aligned, as a vector across two lines takes twice the time */
#define BLOCK_MEMORY _Alignas(LINE) float

/* The arguments of one block of an update, with the step's constants computed. */
struct block {
	const float *g;
	const float *w;
	float *w2;
	const float *s[OL_KERNEL_STATES];
	float *s2[OL_KERNEL_STATES];
	size_t n;
	float lr, mu, wd;
	float b1, b2, eps;
	float c1, c2; /* Adam: 1 - beta^step */
};

ol_kernel_fn OL_KERNEL_NAME;
ol_kernel_gather_fn OL_KERNEL_GATHER;
ol_kernel_finite_fn OL_KERNEL_FINITE;
ol_kernel_moved2_fn OL_KERNEL_MOVED;
ol_kernel_norm2_fn OL_KERNEL_NORM;

/* 1 if an exponent is all ones, which 1 added carries over: a NaN or an infinity */
static int has_nonfinite(const float *g, size_t n)
{
	uint32_t all = 0, bits;

	for (size_t i = 0; i < n; i++) {
		memcpy(&bits, &g[i], sizeof(bits));
		all |= (bits & 0x7fffffff) + 0x00800000;
	}
	return (int)(all >> 31);
}

/* Copy n floats of gradient k from `at` on, times its factor, to private memory */
static void copy_block(float *restrict out, const struct ol_kernel_args *args, unsigned k,
		       size_t at, size_t n)
{
	if (args->formats == NULL)
		memcpy(out, (const float *)args->grads[k] + at, n * sizeof(*out));
	else
		ol_format_decode(args->formats[k], out, args->grads[k], at, n);
	if (args->scales == NULL || args->scales[k] == 1.0f)
		return;
	for (size_t i = 0; i < n; i++)
		out[i] *= args->scales[k];
}

/* Squared Euclidean norm of a block, in an order that every vector width keeps */
static double norm2_block(const float *restrict x, size_t n)
{
	float part[LANES] = { 0 };
	double sum = 0.0;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++)
			part[k] += x[i + k] * x[i + k];
	for (size_t k = 0; k < LANES; k++)
		sum += (double)part[k];
	for (; i < n; i++)
		sum += (double)(x[i] * x[i]);
	return sum;
}

/*
 * Sum or mean of one block of the gradients. Each gradient is copied, and the copy is checked and
 * used, as the worker can still write to its slot. Returns grad_count, or the index of a gradient
 * that is not finite.
 */
static unsigned gather_block(float *restrict sum, const struct ol_kernel_args *args, size_t at,
			     size_t n)
{
	float scale = args->rule->sum ? 1.0f : 1.0f / (float)args->grad_count;
	int check = !args->rule->allow_nonfinite;
	BLOCK_MEMORY copy[BLOCK_STREAM];

	copy_block(sum, args, 0, at, n);
	if (check && has_nonfinite(sum, n))
		return 0;
	if (args->norms != NULL)
		args->norms->sum += norm2_block(sum, n);
	if (args->grad_count == 1) {
		if (args->norms != NULL)
			args->norms->mean = args->norms->sum;
		return 1;
	}
	for (unsigned k = 1; k < args->grad_count; k++) {
		copy_block(copy, args, k, at, n);
		if (check && has_nonfinite(copy, n))
			return k;
		if (args->norms != NULL)
			args->norms->sum += norm2_block(copy, n);
		for (size_t i = 0; i < n; i++)
			sum[i] += copy[i];
	}
	if (args->norms != NULL)
		args->norms->mean +=
			norm2_block(sum, n) / ((double)args->grad_count * args->grad_count);
	for (size_t i = 0; i < n; i++)
		sum[i] *= scale;
	return args->grad_count;
}

/* What is cut off a sum: by its norm, then by value */
static __attribute__((noinline)) void clip_block(float *restrict sum,
						 const struct ol_kernel_args *args, size_t n)
{
	const float clip = args->clip;

	if (args->shrink < 0.0f)
		memset(sum, 0, n * sizeof(*sum));
	for (size_t i = 0; args->shrink > 0.0f && i < n; i++)
		sum[i] *= args->shrink;
	for (size_t i = 0; clip != 0.0f && i < n; i++) {
		sum[i] = sum[i] > clip ? clip : sum[i];
		sum[i] = sum[i] < -clip ? -clip : sum[i];
	}
}

static void decay_block(float *restrict out, const float *restrict g, const float *restrict w,
			float wd, size_t n)
{
	for (size_t i = 0; i < n; i++)
		out[i] = g[i] + wd * w[i];
}

/*
 * One loop a rule. Its arrays are parameters, as compilers keep `restrict` of those: a rule of seven
 * arrays has more pairs that could overlap than they check when the loop runs.
 */
static void sgd_loop(const struct block *b, size_t n, const float *restrict g,
		     const float *restrict w, float *restrict w2)
{
	float lr = b->lr;

	for (size_t i = 0; i < n; i++)
		w2[i] = w[i] - lr * g[i];
}

static void momentum_loop(const struct block *b, size_t n, const float *restrict g,
			  const float *restrict w, const float *restrict u, float *restrict w2,
			  float *restrict u2)
{
	float lr = b->lr, mu = b->mu;

	for (size_t i = 0; i < n; i++) {
		float velocity = mu * u[i] + g[i];

		u2[i] = velocity;
		w2[i] = w[i] - lr * velocity;
	}
}

static void nesterov_loop(const struct block *b, size_t n, const float *restrict g,
			  const float *restrict w, const float *restrict u, float *restrict w2,
			  float *restrict u2)
{
	float lr = b->lr, mu = b->mu;

	for (size_t i = 0; i < n; i++) {
		float velocity = mu * u[i] + g[i];

		u2[i] = velocity;
		w2[i] = w[i] - lr * (g[i] + mu * velocity);
	}
}

/* wd: AdamW's decoupled decay, 0 for Adam */
static void adam_loop(const struct block *b, size_t n, const float *restrict g,
		      const float *restrict w, const float *restrict m, const float *restrict v,
		      float *restrict w2, float *restrict m2, float *restrict v2)
{
	float lr = b->lr, b1 = b->b1, b2 = b->b2, eps = b->eps, wd = b->wd;
	float c1 = b->c1, c2 = b->c2;

	for (size_t i = 0; i < n; i++) {
		float first = b1 * m[i] + (1.0f - b1) * g[i];
		float second = b2 * v[i] + (1.0f - b2) * (g[i] * g[i]);
		float shrunk = w[i] - lr * wd * w[i];

		m2[i] = first;
		v2[i] = second;
		w2[i] = shrunk - lr * ((first / c1) / (sqrtf(second / c2) + eps));
	}
}

static void update_block(const struct block *b, enum ol_optimizer optimizer)
{
	switch (optimizer) {
	case OL_OPTIMIZER_SGD:
		sgd_loop(b, b->n, b->g, b->w, b->w2);
		break;
	case OL_OPTIMIZER_MOMENTUM:
		momentum_loop(b, b->n, b->g, b->w, b->s[0], b->w2, b->s2[0]);
		break;
	case OL_OPTIMIZER_NESTEROV:
		nesterov_loop(b, b->n, b->g, b->w, b->s[0], b->w2, b->s2[0]);
		break;
	case OL_OPTIMIZER_ADAM:
	case OL_OPTIMIZER_ADAMW:
		adam_loop(b, b->n, b->g, b->w, b->s[0], b->s[1], b->w2, b->s2[0], b->s2[1]);
		break;
	}
}

static struct block block_init(const struct ol_kernel_args *args)
{
	const struct ol_update_rule *rule = args->rule;
	struct block b = {
		.lr = rule->lr,
		.mu = rule->momentum,
		.b1 = rule->beta1,
		.b2 = rule->beta2,
		.eps = rule->epsilon,
	};

	if (rule->optimizer == OL_OPTIMIZER_ADAM || rule->optimizer == OL_OPTIMIZER_ADAMW) {
		b.c1 = (float)(1.0 - ol_power((double)rule->beta1, args->step));
		b.c2 = (float)(1.0 - ol_power((double)rule->beta2, args->step));
	}
	if (rule->optimizer == OL_OPTIMIZER_ADAMW)
		b.wd = rule->weight_decay;
	return b;
}

/*
 * Copy n floats past the caches, where the processor can and `out` begins a line: a plain store would
 * read the line first. stream_end() orders them before later stores.
 */
static void stream_block(float *restrict out, const float *restrict in, size_t n)
{
	size_t i = 0;

#if defined(__AVX512F__)
	for (; (uintptr_t)out % LINE == 0 && i + 16 <= n; i += 16)
		_mm512_stream_ps(out + i, _mm512_load_ps(in + i));
#elif defined(__AVX2__)
	for (; (uintptr_t)out % LINE == 0 && i + 8 <= n; i += 8)
		_mm256_stream_ps(out + i, _mm256_load_ps(in + i));
#elif defined(__x86_64__)
	for (; (uintptr_t)out % LINE == 0 && i + 4 <= n; i += 4)
		_mm_stream_ps(out + i, _mm_load_ps(in + i));
#endif
	for (; i < n; i++)
		out[i] = in[i];
}

static void stream_end(void)
{
#if defined(__x86_64__)
	_mm_sfence();
#endif
}

/* The outputs of one block, where a streaming update makes them first */
struct outputs {
	BLOCK_MEMORY of[1 + OL_KERNEL_STATES][BLOCK_STREAM];
};

/* Point the block's outputs to where they are made: their place, or the copy that is streamed */
static void outputs_set(struct block *b, const struct ol_kernel_args *args, size_t at,
			unsigned states, struct outputs *copy)
{
	b->w2 = args->stream ? copy->of[0] : args->new_weights + at;
	for (unsigned s = 0; s < states; s++)
		b->s2[s] = args->stream ? copy->of[1 + s] : args->new_state[s] + at;
}

static void outputs_stream(const struct block *b, const struct ol_kernel_args *args, size_t at,
			   unsigned states)
{
	stream_block(args->new_weights + at, b->w2, b->n);
	for (unsigned s = 0; s < states; s++)
		stream_block(args->new_state[s] + at, b->s2[s], b->n);
}

int OL_KERNEL_FINITE(const void *grad, uint32_t format, size_t len)
{
	BLOCK_MEMORY copy[BLOCK];

	if (format == OL_FORMAT_FP32)
		return !has_nonfinite(grad, len);
	for (size_t at = 0; at < len; at += BLOCK) {
		size_t n = len - at < BLOCK ? len - at : BLOCK;

		ol_format_decode(format, copy, grad, at, n);
		if (has_nonfinite(copy, n))
			return 0;
	}
	return 1;
}

double OL_KERNEL_MOVED(const float *restrict now, const float *restrict before, size_t len)
{
	double part[LANES] = { 0 }, sum = 0.0;
	size_t i = 0;

	for (; i + LANES <= len; i += LANES) {
		for (size_t k = 0; k < LANES; k++) {
			double d = (double)now[i + k] - (double)before[i + k];

			part[k] += d * d;
		}
	}
	for (size_t k = 0; k < LANES; k++)
		sum += part[k];
	for (; i < len; i++) {
		double d = (double)now[i] - (double)before[i];

		sum += d * d;
	}
	return sum;
}

double OL_KERNEL_NORM(const float *x, size_t len)
{
	double part[LANES] = { 0 }, sum = 0.0;
	size_t i = 0;

	for (; i + LANES <= len; i += LANES) {
		for (size_t k = 0; k < LANES; k++)
			part[k] += (double)x[i + k] * (double)x[i + k];
	}
	for (size_t k = 0; k < LANES; k++)
		sum += part[k];
	for (; i < len; i++)
		sum += (double)x[i] * (double)x[i];
	return sum;
}

unsigned OL_KERNEL_GATHER(const struct ol_kernel_args *args)
{
	const size_t end = args->first + args->len;
	unsigned found;

	for (size_t at = args->first; at < end; at += BLOCK) {
		found = gather_block(args->new_weights + at, args, at,
				     end - at < BLOCK ? end - at : BLOCK);
		if (found != args->grad_count)
			return found;
	}
	return args->grad_count;
}

/* A block's new weights once more */
static __attribute__((noinline)) void bf16_block(const struct ol_kernel_args *args,
						 const float *weights, size_t at, size_t n)
{
	ol_format_encode(OL_FORMAT_BF16, args->new_bf16 + at, weights, NULL, n);
}

/* True if `args` are one block of plain gradient descent, for which all that the other rules need costs more than it */
static int is_short(const struct ol_kernel_args *args)
{
	return args->rule->optimizer == OL_OPTIMIZER_SGD && args->rule->weight_decay == 0.0f &&
	       args->len <= BLOCK && !args->stream && args->clip == 0.0f && args->shrink == 0.0f;
}

static __attribute__((noinline)) unsigned update_short(const struct ol_kernel_args *args)
{
	const struct block b = { .lr = args->rule->lr };
	BLOCK_MEMORY sum[BLOCK];
	unsigned found = 1;

	if (args->grad_count == 1 && args->norms == NULL) { /* gather_block() of one */
		copy_block(sum, args, 0, args->first, args->len);
		if (!args->rule->allow_nonfinite && has_nonfinite(sum, args->len))
			found = 0;
	} else {
		found = gather_block(sum, args, args->first, args->len);
	}
	if (found == args->grad_count)
		sgd_loop(&b, args->len, sum, args->weights + args->first,
			 args->new_weights + args->first);
	if (found == args->grad_count && args->new_bf16 != NULL)
		bf16_block(args, args->new_weights + args->first, args->first, args->len);
	return found;
}

/*
 * Fetch the next block, of n elements, while the one at `at` is worked on. SGD does so little with a block that the
 * processor alone does not fetch far enough ahead: on an EPYC (Zen 4) 64 MiB take two thirds of the
 * time. The rules with state are slower with it.
 */
static void block_fetch(const struct ol_kernel_args *args, size_t at, size_t n)
{
	for (size_t i = at + n; i < at + 2 * n; i += LINE / sizeof(float)) {
		for (unsigned k = 0; k < args->grad_count; k++)
			__builtin_prefetch((const float *)args->grads[k] + i);
		__builtin_prefetch(args->weights + i);
	}
}

static __attribute__((noinline)) unsigned update_long(const struct ol_kernel_args *args)
{
	const struct ol_update_rule *rule = args->rule;
	int decay = rule->optimizer != OL_OPTIMIZER_ADAMW && rule->weight_decay != 0.0f;
	unsigned states = ol_rule_state_vectors(rule->optimizer);
	const size_t end = args->first + args->len;
	const size_t most = args->stream ? BLOCK_STREAM : BLOCK;
	const int clips = args->clip != 0.0f || args->shrink != 0.0f;
	BLOCK_MEMORY sum[BLOCK_STREAM], decayed[BLOCK_STREAM];
	struct block b = block_init(args);
	struct outputs copy;
	unsigned found;

	for (size_t at = args->first; at < end; at += b.n) {
		b.n = end - at < most ? end - at : most;
		if (at % LANES != 0 && b.n > LANES - at % LANES)
			b.n = LANES - at % LANES; /* from here on blocks begin lines */
		if (args->stream && states == 0 && args->formats == NULL && end - at >= 2 * most)
			block_fetch(args, at, most);
		found = gather_block(sum, args, at, b.n);
		if (found != args->grad_count)
			return found;
		if (clips)
			clip_block(sum, args, b.n);
		b.g = sum;
		b.w = args->weights + at;
		if (decay) {
			decay_block(decayed, b.g, b.w, rule->weight_decay, b.n);
			b.g = decayed;
		}
		for (unsigned s = 0; s < states; s++)
			b.s[s] = args->state[s] + at;
		outputs_set(&b, args, at, states, &copy);
		update_block(&b, rule->optimizer);
		if (args->new_bf16 != NULL)
			bf16_block(args, b.w2, at, b.n);
		if (args->stream)
			outputs_stream(&b, args, at, states);
	}
	if (args->stream)
		stream_end();
	return args->grad_count;
}

unsigned OL_KERNEL_NAME(const struct ol_kernel_args *args)
{
	return is_short(args) ? update_short(args) : update_long(args);
}
