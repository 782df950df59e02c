/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * vouch.h -- a server's word for the version and the applied table of a snapshot
 *
 * A worker's mirror may be all that is left of a shard, and a worker may lie. So each snapshot has in
 * its head a mac under a key that only servers have. A server that restores a mirror checks it: no
 * worker can bring in a version, a history, a rule, or a table of applied pushes that no server ever
 * published. The mac does not cover weights and optimizer state: a pass over them would cost as much
 * as an update. A worker that lies can still bring in false ones, with the version that it read.
 *
 * Servers make a mac for each update, so it has to be cheap: a Wegman-Carter mac (Wegman and Carter
 * 1981), a sum that follows the table as it changes, hidden by a pad:
 *
 *	p      = 2^61 - 1
 *	sum    = r[0] m[0] + r[1] m[1] + … mod p	m: the words below, each less than p
 *	tag    = sum + pad[number] mod 2^64
 *
 *	words: shard, founded, history (2), version, optimizer steps, the digest of the job's first
 *	weights (2), one of its table of tensors (2), one of the rule (2), then of each worker seq (2), gradients, earlier
 *	gradients	(2): its halves, as it has all 64 bits
 *
 * r and the pads come from AES-128-CTR under a key of this server's process, which is derived from
 * the servers' key and the process's id. Two different messages have the same sum with a chance of
 * 1/p, whatever their difference is; each pad is used once; so what a worker has read tells it
 * nothing, and a guess succeeds with a chance of at most 2/p. A server that restores looks at one
 * guess of a worker, and remembers that it was wrong.
 *
 * Not for threads: the server's loop owns a voucher.
 */
#ifndef OL_WIRE_VOUCH_H
#define OL_WIRE_VOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/layout.h"

__extension__ typedef unsigned __int128 ol_uint128;

#define OL_VOUCHER_PRIME ((UINT64_C(1) << 61) - 1)

enum {
	OL_VOUCHER_PADS = 128 /* made at once */
};

/* The words of a sum, and those of each worker behind them */
enum {
	OL_VOUCHER_SHARD,
	OL_VOUCHER_FOUNDED,
	OL_VOUCHER_HISTORY,
	OL_VOUCHER_HISTORY_HIGH,
	OL_VOUCHER_VERSION,
	OL_VOUCHER_STEPS,
	OL_VOUCHER_INIT,
	OL_VOUCHER_INIT_HIGH,
	OL_VOUCHER_TENSORS,
	OL_VOUCHER_TENSORS_HIGH,
	OL_VOUCHER_RULE,
	OL_VOUCHER_RULE_2,
	OL_VOUCHER_FIXED,
};
enum {
	OL_VOUCHER_SEQ,
	OL_VOUCHER_SEQ_HIGH,
	OL_VOUCHER_GRADS,
	OL_VOUCHER_EARLIER,
	OL_VOUCHER_OF_WORKER,
};

struct evp_cipher_ctx_st;

/* Its fields are this header's and vouch.c's: what each update does is inline */
struct ol_voucher {
	struct ol_geometry geo;
	uint64_t process; /* 0: it vouches for nothing any more */
	uint64_t sum; /* of the published snapshot's words */
	ol_uint128 change; /* of the next one's, not reduced */
	uint64_t step; /* what the sum grows by from a version to the next */
	uint64_t rule; /* the part of the sum that is of the rule */
	uint64_t number; /* of the last word */
	struct evp_cipher_ctx_st *stream; /* of pads */
	uint64_t pads[OL_VOUCHER_PADS]; /* of numbers that are equal modulo OL_VOUCHER_PADS */
	uint64_t factors[]; /* r: each less than p */
};

/* What a mirror is said to be, beside its table */
struct ol_vouched {
	uint64_t history; /* identity of it: wire.h, struct ol_hello */
	uint32_t founded; /* its epoch */
	uint64_t version;
};

/*
 * ol_voucher_open -- process: the server's random id; key: the job's, or the servers' credential
 *
 * Errors: -ENOMEM; -EPERM: the key is of a worker or an observer; -EIO: the crypto library fails
 */
int ol_voucher_open(const char *key, uint64_t process, const struct ol_geometry *geo,
		    struct ol_voucher **ret_voucher);
void ol_voucher_close(struct ol_voucher *voucher);

/* ol_voucher_begin -- vouch for a snapshot from elsewhere, of a history that begins or is joined:
 * its head is filled in. table: head, applied table, rule and tensors */
void ol_voucher_begin(struct ol_voucher *voucher, const struct ol_vouched *what, void *table);

/* ol_voucher_rule -- the next version has this rule: ol_layout_rule_bytes() */
void ol_voucher_rule(struct ol_voucher *voucher, const struct ol_rule *rule);

/* Parts of the functions below; pads: the next ones. change_any: any change of an entry */
void ol_voucher_pads(struct ol_voucher *voucher);
void ol_voucher_change_any(struct ol_voucher *voucher, uint32_t worker,
			   const struct ol_applied *from, const struct ol_applied *to);

/* x is less than 2^122 */
static inline uint64_t ol_voucher_reduce(ol_uint128 x)
{
	const uint64_t sum = (uint64_t)(x & OL_VOUCHER_PRIME) + (uint64_t)(x >> 61);

	return sum >= OL_VOUCHER_PRIME ? sum - OL_VOUCHER_PRIME : sum;
}

static inline const uint64_t *ol_voucher_factors(const struct ol_voucher *voucher, uint32_t worker)
{
	return voucher->factors + OL_VOUCHER_FIXED + (size_t)worker * OL_VOUCHER_OF_WORKER;
}

static inline void ol_voucher_fill(struct ol_voucher *voucher, struct ol_snapshot_head *head)
{
	const uint64_t number = ++voucher->number;

	if (number % OL_VOUCHER_PADS == 0)
		ol_voucher_pads(voucher);
	head->voucher = voucher->process;
	head->number = number;
	head->tag =
		voucher->process != 0 ? voucher->sum + voucher->pads[number % OL_VOUCHER_PADS] : 0;
}

/* ol_voucher_change -- a worker's entry in the table changes, for the next version */
static inline void ol_voucher_change(struct ol_voucher *voucher, uint32_t worker,
				     const struct ol_applied *from, const struct ol_applied *to)
{
	const uint64_t *factors = ol_voucher_factors(voucher, worker);

	if (to->seq >> 32 != from->seq >> 32 || to->earlier != from->earlier) {
		ol_voucher_change_any(voucher, worker, from, to);
		return;
	}
	/* as almost always: the next push of the same process. Both differences are less than 2^54 */
	voucher->change += (ol_uint128)factors[OL_VOUCHER_SEQ] * (to->seq - from->seq);
	voucher->change += (ol_uint128)factors[OL_VOUCHER_GRADS] * (to->grads - from->grads);
}

/* ol_voucher_next -- vouch for the next version, which has one more optimizer step */
static inline void ol_voucher_next(struct ol_voucher *voucher, struct ol_snapshot_head *head)
{
	/* at most OL_WORKERS_MAX changes, each of less than 2^61 2^54 */
	voucher->sum = ol_voucher_reduce(voucher->sum + voucher->step + voucher->change);
	voucher->change = 0;
	ol_voucher_fill(voucher, head);
}

/*
 * ol_voucher_check -- 0: some server of the job published this table as that; -EACCES: none did
 *
 * table: head, applied table, rule and tensors, in memory that nobody changes. Blocks for as long as a pass over
 * the table takes. It cannot tell, and may later: -ENOMEM, -EIO
 */
int ol_voucher_check(const char *key, const struct ol_geometry *geo, const struct ol_vouched *what,
		     const void *table);

#endif /* OL_WIRE_VOUCH_H */
