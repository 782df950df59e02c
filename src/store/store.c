/* SPDX-License-Identifier: BSD-3-Clause */

/* store.c -- out-of-place updates and their publication */

#include "store/store.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "rdma/order.h"
#include "store/weigh.h"
#include "wire/format.h"
#include "wire/seq.h"
#include "wire/tensor.h"

enum {
	PIECE_FLOATS = 1 << 17, /* of an update, over all gradients */
	NORM_FLOATS = 1 << 16, /* whose squares are added up before they join a norm */
	ROUND_PIECES = 64 /* run at once: their norms are added up in order then */
};

static struct ol_store_parts parts_of(const struct ol_geometry *geo, uint8_t *at)
{
	struct ol_store_parts parts = { 0 };

	parts.head = (struct ol_snapshot_head *)(void *)at;
	parts.applied = (struct ol_applied *)(void *)(parts.head + 1);
	parts.rule = (struct ol_rule *)(void *)(at + ol_layout_rule_off(geo));
	at += ol_layout_table_bytes(geo);
	parts.weights = (float *)(void *)at;
	for (unsigned i = 0; i < geo->state_vectors; i++) {
		at += ol_layout_vector_bytes(geo);
		parts.state[i] = (float *)(void *)at;
	}
	if (geo->weights_bf16)
		parts.bf16 = (uint16_t *)(void *)(at + ol_layout_vector_bytes(geo));
	return parts;
}

/* Those of the published snapshot */
static const struct ol_store_parts *parts_now(const struct ol_store *store)
{
	return &store->parts[store->snapshot];
}

/* Make this snapshot, whose content is whole, the only whole one */
static void publish_first(struct ol_store *store, uint32_t snapshot, uint64_t version)
{
	struct ol_version_line *line = &store->board->line;
	const struct ol_store_parts *parts = &store->parts[snapshot];

	if (parts->bf16 != NULL)
		ol_format_encode(OL_FORMAT_BF16, parts->bf16, parts->weights, NULL,
				 store->geo.shard_len);
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++) {
		ol_word_begin(&line->begin[i], i == snapshot ? version + 1 : 0);
		ol_word_store(&line->end[i], i == snapshot ? version + 1 : 0);
	}
	ol_word_store(&line->published, ol_published_make(version, snapshot));
	store->version = version;
	store->snapshot = snapshot;
}

/* Copy a snapshot's rule to the other ones: then equal versions mean equal rules */
static void rule_spread(struct ol_store *store, uint32_t snapshot)
{
	const uint64_t bytes = ol_layout_rule_bytes(&store->geo);

	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++) {
		if (i != snapshot)
			memcpy(store->parts[i].rule, store->parts[snapshot].rule, bytes);
	}
	store->next = NULL;
	store->groups_stale = true;
}

void ol_store_rule_first(struct ol_store *store, const struct ol_rule *rule)
{
	const struct ol_store_parts *now = parts_now(store);

	memset(&store->first, 0, sizeof(store->first));
	memcpy(&store->first, rule, ol_rule_bytes_used(rule));
	store->first.version = 0;
	if (now->rule->version != 0)
		return;
	memcpy(now->rule, &store->first, ol_layout_rule_bytes(&store->geo));
	rule_spread(store, store->snapshot);
}

void ol_store_rule_next(struct ol_store *store, const struct ol_rule *rule)
{
	store->groups_stale = store->groups_stale || store->next != NULL;
	store->next = rule;
}

void ol_store_tensors(struct ol_store *store, const char *table)
{
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++)
		ol_tensors_put(&store->geo, ol_store_content(store, i), table);
	(void)ol_tensors_digest(table, &store->geo.tensors_digest); /* on an error: not known */
	store->board->geo.tensors_digest = store->geo.tensors_digest;
}

uint64_t ol_store_began(const struct ol_store *store)
{
	return ol_word_load(&store->board->ready_ns) == 0 ? OL_INIT_AWAITED
							  : parts_now(store)->head->init;
}

const struct ol_rule *ol_store_rule(const struct ol_store *store)
{
	return parts_now(store)->rule;
}

bool ol_store_needs_whole(const struct ol_store *store)
{
	const struct ol_rule *rule = ol_store_rule(store);

	for (uint32_t i = 0; i < rule->group_count; i++) {
		if (rule->groups[i].clip_norm > 0.0f)
			return true;
	}
	return false;
}

int ol_store_init(struct ol_store *store, const struct ol_geometry *geo,
		  const struct ol_update_rule *rule, void *memory, const float *weights)
{
	struct ol_rule first = { 0 };
	uint64_t cache_bytes;

	if (ol_geometry_check(geo) != 0 ||
	    geo->state_vectors != ol_rule_state_vectors(rule->optimizer))
		return OL_E_GEOMETRY;
	memset(store, 0, sizeof(*store));
	store->geo = *geo;
	store->rule = *rule;
	store->kernels = ol_kernels_best();
	cache_bytes = ol_kernels_cache_bytes();
	store->large_vectors =
		cache_bytes != 0 ? cache_bytes / 2 / ol_layout_vector_bytes(geo) : UINT64_MAX;
	store->memory = memory;
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++)
		store->parts[i] = parts_of(geo, store->memory + ol_layout_snapshot_off(geo, i));
	store->board = memory;
	store->board->magic = OL_WIRE_MAGIC;
	store->board->proto = ol_wire_own.proto;
	store->board->geo = *geo;
	if (weights != NULL)
		memcpy(parts_now(store)->weights, weights, geo->shard_len * sizeof(float));
	publish_first(store, 0, 0);
	ol_rule_first(rule, geo, &first);
	ol_store_rule_first(store, &first);
	return 0;
}

void *ol_store_content(const struct ol_store *store, uint32_t snapshot)
{
	return store->memory + ol_layout_snapshot_off(&store->geo, snapshot);
}

void ol_store_restore(struct ol_store *store, uint32_t snapshot, uint64_t version, bool with_state)
{
	const struct ol_store_parts *parts = &store->parts[snapshot];

	if (!with_state) {
		parts->head->optimizer_steps = 0;
		for (unsigned i = 0; i < store->geo.state_vectors; i++)
			memset(parts->state[i], 0, ol_layout_vector_bytes(&store->geo));
	}
	if (parts->rule->version == 0)
		memcpy(parts->rule, &store->first, ol_layout_rule_bytes(&store->geo));
	publish_first(store, snapshot, version);
	rule_spread(store, snapshot);
}

float ol_store_norm(const struct ol_store *store, const void *grad, uint32_t format)
{
	const uint64_t len = store->geo.shard_len;
	float part[OL_FORMAT_BLOCK];
	double sum = 0.0;

	for (uint64_t at = 0; at < len; at += OL_FORMAT_BLOCK) {
		size_t n = len - at < OL_FORMAT_BLOCK ? len - at : OL_FORMAT_BLOCK;

		ol_format_decode(format, part, grad, at, n);
		for (size_t i = 0; i < n; i++)
			sum += (double)part[i] * (double)part[i];
	}
	return (float)sqrt(sum);
}

static uint64_t snapshot_end(const struct ol_store *store, uint32_t index)
{
	return ol_word_load(&store->board->line.end[index]);
}

int ol_store_target(const struct ol_store *store, unsigned pinned_mask)
{
	int target = -1;

	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++) {
		if (i == store->snapshot || (pinned_mask & 1u << i) != 0)
			continue;
		if (target < 0 || snapshot_end(store, i) < snapshot_end(store, (uint32_t)target))
			target = (int)i;
	}
	return target;
}

int ol_store_find(const struct ol_store *store, uint64_t version)
{
	for (uint32_t i = 0; i < OL_SNAPSHOTS; i++) {
		if (snapshot_end(store, i) == version + 1 &&
		    ol_word_load(&store->board->line.begin[i]) == version + 1)
			return (int)i;
	}
	return -1;
}

/* The kernel's arguments for floats first … first + len of an update into target */
static inline __attribute__((always_inline)) struct ol_kernel_args
kernel_args(const struct ol_store *store, unsigned target, uint64_t first, uint64_t len)
{
	const struct ol_store_parts *from = parts_now(store), *to = &store->parts[target];
	struct ol_kernel_args args = {
		.rule = &store->rule,
		.clip = store->groups.of[0].clip,
		.shrink = store->groups.of[0].shrink,
		.step = from->head->optimizer_steps + 1,
		.first = first,
		.len = len,
		.weights = from->weights,
		.new_weights = to->weights,
		.new_bf16 = to->bf16,
	};

	for (unsigned i = 0; i < store->geo.state_vectors; i++) {
		args.state[i] = from->state[i];
		args.new_state[i] = to->state[i];
	}
	return args;
}

static void pieces_run(const struct ol_store *store, ol_store_piece_fn *piece, void *arg,
		       unsigned count)
{
	if (store->run != NULL) {
		store->run(store->run_arg, piece, arg, count);
		return;
	}
	for (unsigned i = 0; i < count; i++)
		piece(arg, i);
}

/* A kernel's work, some pieces of which run at once */
struct round {
	ol_kernel_fn *kernel;
	const struct ol_kernel_args *args; /* of the whole */
	size_t first; /* float of the round's first piece */
	size_t most; /* floats of a piece */
	struct ol_norms norms[ROUND_PIECES];
	_Atomic unsigned bad; /* a gradient found not to be finite, the least; or grad_count */
};

static void round_piece(void *arg, unsigned index)
{
	struct round *round = arg;
	struct ol_kernel_args piece = *round->args;
	const size_t end = piece.first + piece.len;
	unsigned bad, found;

	piece.first = round->first + index * round->most;
	piece.len = end - piece.first < round->most ? end - piece.first : round->most;
	round->norms[index] = (struct ol_norms){ 0 };
	if (piece.norms != NULL)
		piece.norms = &round->norms[index];
	bad = atomic_load_explicit(&round->bad, memory_order_relaxed);
	if (bad != piece.grad_count)
		return;
	found = round->kernel(&piece);
	while (found < bad &&
	       !atomic_compare_exchange_weak_explicit(&round->bad, &bad, found,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

/* A multiple of a block's */
static size_t piece_floats(unsigned grads)
{
	size_t most = PIECE_FLOATS / grads;

	return most < OL_KERNEL_BLOCK ? OL_KERNEL_BLOCK : most - most % OL_KERNEL_BLOCK;
}

/*
 * Run a kernel in pieces. Bits and norms do not depend on who runs them, or when. Returns grad_count, or a gradient
 * that is not finite: which one may depend on that.
 */
static unsigned run_rounds(const struct ol_store *store, ol_kernel_fn *kernel,
			   const struct ol_kernel_args *args)
{
	const size_t end = args->first + args->len;
	const size_t most = piece_floats(args->grad_count);
	struct round round;

	round.kernel = kernel;
	round.args = args;
	round.most = most;
	round.bad = args->grad_count;
	for (round.first = args->first; round.first < end; round.first += ROUND_PIECES * most) {
		size_t pieces = (end - round.first + most - 1) / most;

		pieces = pieces < ROUND_PIECES ? pieces : ROUND_PIECES;
		pieces_run(store, round_piece, &round, (unsigned)pieces);
		if (round.bad != args->grad_count)
			break;
		for (size_t i = 0; args->norms != NULL && i < pieces; i++) {
			args->norms->sum += round.norms[i].sum;
			args->norms->mean += round.norms[i].mean;
		}
	}
	return round.bad;
}

/* The same; what is one piece alone needs no round, and its norms are already as they are added up */
static unsigned run_pieces(const struct ol_store *store, ol_kernel_fn *kernel,
			   const struct ol_kernel_args *args)
{
	if (args->len <= PIECE_FLOATS / OL_WORKERS_MAX ||
	    args->len <= piece_floats(args->grad_count))
		return kernel(args);
	return run_rounds(store, kernel, args);
}

typedef unsigned run_fn(const struct ol_store *store, ol_kernel_fn *kernel,
			const struct ol_kernel_args *args);

/* Run an update's kernel by `run`, on each group that args' span has a part of, with its numbers */
static __attribute__((noinline)) unsigned run_groups(const struct ol_store *store,
						     ol_kernel_fn *kernel,
						     const struct ol_kernel_args *args, run_fn *run)
{
	const size_t end = args->first + args->len;
	unsigned found = args->grad_count;

	for (uint32_t i = 0; i < store->groups.count && found == args->grad_count; i++) {
		const struct ol_group *group = &store->groups.of[i];
		struct ol_update_rule rule = group->rule;
		struct ol_kernel_args part = *args;

		rule.allow_nonfinite = args->rule->allow_nonfinite;
		part.rule = &rule;
		part.clip = group->clip;
		part.shrink = group->shrink;
		part.first = args->first > group->first ? args->first : group->first;
		part.len = (end < group->end ? end : group->end) - part.first;
		if (part.first < end && group->end > args->first)
			found = run(store, kernel, &part);
	}
	return found;
}

/* Run a kernel by `run`; what gathers has no groups */
static inline __attribute__((always_inline)) unsigned run_by(const struct ol_store *store,
							     ol_kernel_fn *kernel,
							     const struct ol_kernel_args *args,
							     run_fn *run)
{
	return store->groups.count == 1 || kernel != store->kernels->update
		       ? run(store, kernel, args)
		       : run_groups(store, kernel, args, run);
}

/* The contributions of an update that are looked at one by one */
struct looks {
	const struct ol_store *store;
	struct ol_contribution *contributions;
	const unsigned *index;
};

static void look_piece(void *arg, unsigned index)
{
	const struct looks *looks = arg;
	struct ol_contribution *contribution = &looks->contributions[looks->index[index]];

	if (!looks->store->kernels->finite(contribution->grad, contribution->format,
					   looks->store->geo.shard_len))
		contribution->status = OL_E_NONFINITE;
}

/*
 * Run a kernel on the gradients that are not known to be bad. Returns how many gradients are in the
 * result. If it finds a bad one, it marks that and all other bad ones, and sets *ret_again.
 */
static unsigned run_once(const struct ol_store *store, ol_kernel_fn *kernel,
			 struct ol_kernel_args *args, struct ol_contribution *contributions,
			 unsigned count, int *ret_again)
{
	const void *grads[OL_WORKERS_MAX];
	uint8_t formats[OL_WORKERS_MAX], any = OL_FORMAT_FP32;
	float scales[OL_WORKERS_MAX];
	unsigned index[OL_WORKERS_MAX];
	struct looks looks = { store, contributions, index };
	unsigned good = 0, done;

	*ret_again = 0;
	for (unsigned i = 0; i < count; i++) {
		if (contributions[i].status != 0)
			continue;
		grads[good] = contributions[i].grad;
		formats[good] = contributions[i].format;
		any |= contributions[i].format;
		index[good++] = i;
	}
	if (good == 0)
		return 0;
	ol_weigh(contributions, index, good, store->rule.sum != 0, scales);
	args->grads = grads;
	args->formats = any != OL_FORMAT_FP32 ? formats : NULL;
	args->scales = scales;
	args->grad_count = good;
	done = run_by(store, kernel, args, run_pieces);
	if (done == good)
		return good;
	pieces_run(store, look_piece, &looks, good);
	contributions[index[done]].status = OL_E_NONFINITE; /* it may have changed since */
	*ret_again = 1;
	return 0;
}

/* kernel_run() of one gradient */
static unsigned kernel_run_one(struct ol_store *store, ol_kernel_fn *kernel,
			       struct ol_kernel_args *args, struct ol_contribution *contribution)
{
	const void *grad = contribution->grad;
	const float scale = ol_weigh_one(contribution, store->rule.sum != 0);
	unsigned good;

	contribution->status = OL_E_NONFINITE;
	if (contribution->is_void)
		return 0;
	args->grads = &grad;
	args->formats = contribution->format != OL_FORMAT_FP32 ? &contribution->format : NULL;
	args->scales = &scale;
	args->grad_count = 1;
	good = run_by(store, kernel, args, run_pieces);
	if (good == 1)
		contribution->status = 0;
	return good;
}

/* An update whose data would not stay in the caches till the next one: of its gradients, and of three snapshots in turn */
static int is_large(const struct ol_store *store, unsigned grads)
{
	return grads + OL_SNAPSHOTS * (1 + (uint64_t)store->geo.state_vectors) >
	       store->large_vectors;
}

/* Say what the rule makes of the next update */
static __attribute__((noinline)) void groups_prepare(struct ol_store *store)
{
	const struct ol_rule *rule = store->next != NULL ? store->next : ol_store_rule(store);

	ol_groups_make(&store->groups, &store->geo, &store->rule, rule, store->version);
	if (store->groups.count == 1)
		store->rule = store->groups.of[0].rule;
	store->groups_stale = false;
}

static inline void update_begin(struct ol_store *store, unsigned target)
{
	assert(target < OL_SNAPSHOTS && target != store->snapshot);
	if (store->groups_stale || store->groups.varies || store->next != NULL)
		groups_prepare(store);
	ol_word_begin(&store->board->line.begin[target], store->version + 2);
}

void ol_store_begin(struct ol_store *store, unsigned target)
{
	update_begin(store, target);
}

/* Run a kernel on a part of an update. A caller of many makes a long update, too: `run` hears of each */
static unsigned run_part(const struct ol_store *store, ol_kernel_fn *kernel,
			 const struct ol_kernel_args *args)
{
	return args->len < OL_PART_FLOATS ? run_pieces(store, kernel, args)
					  : run_rounds(store, kernel, args);
}

/* Run a kernel on a span of the contributions. False: one of them is not finite there */
static bool contributions_run(const struct ol_store *store, ol_kernel_fn *kernel,
			      struct ol_kernel_args *args,
			      const struct ol_contribution *contributions, unsigned count)
{
	const void *grads[OL_WORKERS_MAX];
	uint8_t formats[OL_WORKERS_MAX], any = OL_FORMAT_FP32;
	float scales[OL_WORKERS_MAX];

	for (unsigned i = 0; i < count; i++) {
		grads[i] = contributions[i].grad;
		formats[i] = contributions[i].format;
		any |= contributions[i].format;
	}
	ol_weigh(contributions, NULL, count, store->rule.sum != 0, scales);
	args->grads = grads;
	args->formats = any != OL_FORMAT_FP32 ? formats : NULL;
	args->scales = scales;
	args->grad_count = count;
	return run_by(store, kernel, args, run_part) == count;
}

bool ol_store_part(struct ol_store *store, const struct ol_contribution *contributions,
		   unsigned count, struct ol_span span, unsigned target)
{
	struct ol_kernel_args args = kernel_args(store, target, span.first, span.len);

	args.stream = is_large(store, count);
	return contributions_run(store, store->kernels->update, &args, contributions, count);
}

bool ol_store_gather_part(struct ol_store *store, const struct ol_contribution *contributions,
			  unsigned count, struct ol_span span, float *sum)
{
	struct ol_kernel_args args = {
		.rule = &store->rule, .first = span.first, .len = span.len, .new_weights = sum
	};

	return contributions_run(store, store->kernels->gather, &args, contributions, count);
}

/* Squared norms of spans of a vector, NORM_FLOATS each */
struct spans {
	const struct ol_store *store;
	const float *vector;
	uint64_t first, end;
	double norm2[ROUND_PIECES];
};

static void norm_piece(void *arg, unsigned index)
{
	struct spans *spans = arg;
	const uint64_t first = spans->first + (uint64_t)index * NORM_FLOATS;
	const uint64_t left = spans->end - first;

	spans->norm2[index] = spans->store->kernels->norm2(spans->vector + first,
							   left < NORM_FLOATS ? left : NORM_FLOATS);
}

/* The norm of a group's gradient, whose bits do not depend on who adds up what */
static double group_norm(const struct ol_store *store, const float *sum,
			 const struct ol_group *group)
{
	struct spans spans = { .store = store, .vector = sum, .first = group->first };
	double norm2 = 0.0;

	for (spans.end = group->end; spans.first < spans.end;
	     spans.first += (uint64_t)ROUND_PIECES * NORM_FLOATS) {
		uint64_t pieces = (spans.end - spans.first + NORM_FLOATS - 1) / NORM_FLOATS;

		pieces = pieces < ROUND_PIECES ? pieces : ROUND_PIECES;
		pieces_run(store, norm_piece, &spans, (unsigned)pieces);
		for (uint64_t i = 0; i < pieces; i++)
			norm2 += spans.norm2[i];
	}
	return sqrt(norm2);
}

/* As torch.nn.utils.clip_grad_norm_(); a norm beyond all numbers leaves nothing of its gradient */
static void groups_shrink(struct ol_store *store, const float *sum)
{
	for (uint32_t i = 0; i < store->groups.count; i++) {
		struct ol_group *group = &store->groups.of[i];
		double factor = 1.0;

		if (group->clip_norm > 0.0f)
			factor = (double)group->clip_norm / (group_norm(store, sum, group) + 1e-6);
		group->shrink = factor < 1.0 ? (float)factor : 0.0f;
		if (!(factor > (double)FLT_MIN))
			group->shrink = -1.0f;
	}
}

void ol_store_enter_part(struct ol_store *store, const float *sum, struct ol_span span,
			 unsigned target)
{
	struct ol_update_rule rule = store->rule;
	struct ol_kernel_args args;
	const void *grad = sum;

	if (store->groups.needs_whole) {
		assert(span.first == 0 && span.len == store->geo.shard_len);
		groups_shrink(store, sum);
	}
	args = kernel_args(store, target, span.first, span.len);
	rule.allow_nonfinite = 1; /* a sum of finite gradients may overflow; it is applied as it
				     is */
	args.rule = &rule;
	args.grads = &grad;
	args.grad_count = 1;
	args.stream = is_large(store, 1);
	run_by(store, store->kernels->update, &args, run_part);
}

/* The target gets the rule that its update was made by */
static __attribute__((noinline)) void rule_publish(struct ol_store *store,
						   const struct ol_store_parts *from,
						   const struct ol_store_parts *to)
{
	const uint64_t bytes = ol_layout_rule_bytes(&store->geo);

	if (store->next == NULL) {
		memcpy(to->rule, from->rule, bytes);
		return;
	}
	memset(to->rule, 0, bytes);
	memcpy(to->rule, store->next, ol_rule_bytes_used(store->next));
	to->rule->version = from->rule->version + 1;
	store->next = NULL;
	if (store->voucher != NULL)
		ol_voucher_rule(store->voucher, to->rule);
}

void ol_store_publish(struct ol_store *store, const struct ol_contribution *contributions,
		      unsigned count, unsigned target)
{
	const struct ol_store_parts *from = parts_now(store), *to = &store->parts[target];
	struct ol_version_line *line = &store->board->line;
	uint64_t next = store->version + 1;

	assert(target < OL_SNAPSHOTS && target != store->snapshot);
	assert(ol_word_load(&line->begin[target]) == next + 1);
	memcpy(to->head, from->head, ol_layout_rule_off(&store->geo));
	if (store->next != NULL || to->rule->version != from->rule->version)
		rule_publish(store, from, to);
	to->head->optimizer_steps++;
	for (unsigned i = 0; i < count; i++) {
		struct ol_applied *applied = &to->applied[contributions[i].worker];
		const struct ol_applied before = *applied;

		if (contributions[i].status != 0)
			continue;
		if (ol_seq_tag(applied->seq) != ol_seq_tag(contributions[i].seq))
			applied->earlier = applied->grads;
		applied->seq = contributions[i].seq;
		applied->grads += contributions[i].grads;
		if (store->voucher != NULL)
			ol_voucher_change(store->voucher, contributions[i].worker, &before,
					  applied);
	}
	if (store->voucher != NULL)
		ol_voucher_next(store->voucher, to->head);
	ol_word_store(&line->end[target], next + 1);
	ol_word_store(&line->published, ol_published_make(next, target));
	store->version = next;
	store->snapshot = target;
}

static unsigned kernel_run(struct ol_store *store, ol_kernel_fn *kernel,
			   struct ol_kernel_args *args, struct ol_contribution *contributions,
			   unsigned count)
{
	unsigned good;
	int again;

	args->norms = store->want_norms ? &store->norms : NULL;
	if (count == 1) {
		store->norms = (struct ol_norms){ 0 };
		return kernel_run_one(store, kernel, args, contributions);
	}
	for (unsigned i = 0; i < count; i++)
		contributions[i].status = contributions[i].is_void ? OL_E_NONFINITE : 0;
	do {
		store->norms = (struct ol_norms){ 0 };
		good = run_once(store, kernel, args, contributions, count, &again);
	} while (again);
	return good;
}

unsigned ol_store_gather(struct ol_store *store, struct ol_contribution *contributions,
			 unsigned count, float *sum)
{
	struct ol_kernel_args args = { .rule = &store->rule,
				       .len = store->geo.shard_len,
				       .new_weights = sum };

	return kernel_run(store, store->kernels->gather, &args, contributions, count);
}

/* In one pass over the gradients */
static unsigned apply_once(struct ol_store *store, struct ol_contribution *contributions,
			   unsigned count, unsigned target)
{
	struct ol_kernel_args args = kernel_args(store, target, 0, store->geo.shard_len);

	args.stream = !store->want_norms && is_large(store, count);
	return kernel_run(store, store->kernels->update, &args, contributions, count);
}

/* Put the gradients together where the new weights will be, and make those of that */
static unsigned apply_whole(struct ol_store *store, struct ol_contribution *contributions,
			    unsigned count, unsigned target)
{
	float *sum = store->parts[target].weights;
	unsigned applied = ol_store_gather(store, contributions, count, sum);

	if (applied > 0)
		ol_store_enter_part(store, sum, (struct ol_span){ 0, store->geo.shard_len },
				    target);
	return applied;
}

unsigned ol_store_apply(struct ol_store *store, struct ol_contribution *contributions,
			unsigned count, unsigned target)
{
	unsigned applied;

	update_begin(store, target);
	if (store->groups.needs_whole)
		applied = apply_whole(store, contributions, count, target);
	else
		applied = apply_once(store, contributions, count, target);
	if (applied > 0)
		ol_store_publish(store, contributions, count, target);
	return applied;
}

struct ol_applied ol_store_applied(const struct ol_store *store, uint32_t worker)
{
	return parts_now(store)->applied[worker];
}

const float *ol_store_weights(const struct ol_store *store)
{
	return parts_now(store)->weights;
}
