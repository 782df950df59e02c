/* SPDX-License-Identifier: BSD-3-Clause */

/* vouch.c -- the sum modulo 2^61 - 1, and its pads by libcrypto */

#include "wire/vouch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "wire/auth.h"
#include "wire/bounds.h"
#include "wire/rule.h"
#include "wire/tensor.h"

enum {
	AES_BLOCK_BYTES = 16
};

/* What the two streams of a key are for: the first byte of their counters */
enum stream {
	STREAM_FACTORS,
	STREAM_PADS,
};

static size_t factor_count(const struct ol_geometry *geo)
{
	return OL_VOUCHER_FIXED + (size_t)geo->workers_max * OL_VOUCHER_OF_WORKER;
}

/* Of two numbers below p */
static uint64_t plus(uint64_t a, uint64_t b)
{
	const uint64_t sum = a + b;

	return sum >= OL_VOUCHER_PRIME ? sum - OL_VOUCHER_PRIME : sum;
}

/* r m; m is less than p */
static uint64_t term(uint64_t factor, uint64_t word)
{
	return ol_voucher_reduce((ol_uint128)factor * word);
}

static uint64_t sum_of_entry(const struct ol_voucher *voucher, uint32_t worker,
			     const struct ol_applied *applied)
{
	const uint64_t *factors = ol_voucher_factors(voucher, worker);
	uint64_t sum = term(factors[OL_VOUCHER_SEQ], (uint32_t)applied->seq);

	sum = plus(sum, term(factors[OL_VOUCHER_SEQ_HIGH], applied->seq >> 32));
	sum = plus(sum, term(factors[OL_VOUCHER_GRADS], applied->grads));
	return plus(sum, term(factors[OL_VOUCHER_EARLIER], applied->earlier));
}

/* UINT64_MAX: libcrypto fails */
static uint64_t sum_of_rule(const struct ol_voucher *voucher, const void *rule)
{
	uint64_t words[OL_RULE_DIGEST_WORDS];

	if (!ol_rule_digest(rule, &voucher->geo, words))
		return UINT64_MAX;
	return plus(term(voucher->factors[OL_VOUCHER_RULE], words[0]),
		    term(voucher->factors[OL_VOUCHER_RULE_2], words[1]));
}

/* All but the rule */
static uint64_t sum_of(const struct ol_voucher *voucher, const struct ol_vouched *what,
		       const void *table)
{
	const uint64_t *factors = voucher->factors;
	struct ol_snapshot_head head;
	struct ol_applied applied;
	uint64_t sum = term(factors[OL_VOUCHER_SHARD], voucher->geo.shard), tensors;

	memcpy(&head, table, sizeof(head));
	/* if libcrypto fails it is 0, and the word holds nowhere else */
	(void)ol_tensors_digest(ol_tensors_of(&voucher->geo, table), &tensors);
	sum = plus(sum, term(factors[OL_VOUCHER_FOUNDED], what->founded));
	sum = plus(sum, term(factors[OL_VOUCHER_HISTORY], (uint32_t)what->history));
	sum = plus(sum, term(factors[OL_VOUCHER_HISTORY_HIGH], what->history >> 32));
	sum = plus(sum, term(factors[OL_VOUCHER_VERSION], what->version));
	sum = plus(sum, term(factors[OL_VOUCHER_STEPS], head.optimizer_steps));
	sum = plus(sum, term(factors[OL_VOUCHER_INIT], (uint32_t)head.init));
	sum = plus(sum, term(factors[OL_VOUCHER_INIT_HIGH], head.init >> 32));
	sum = plus(sum, term(factors[OL_VOUCHER_TENSORS], (uint32_t)tensors));
	sum = plus(sum, term(factors[OL_VOUCHER_TENSORS_HIGH], tensors >> 32));
	for (uint32_t i = 0; i < voucher->geo.workers_max; i++) {
		memcpy(&applied, (const uint8_t *)table + sizeof(head) + i * sizeof(applied),
		       sizeof(applied));
		sum = plus(sum, sum_of_entry(voucher, i, &applied));
	}
	return sum;
}

/* The stream from its block `block` on */
static bool stream_seek(EVP_CIPHER_CTX *ctx, const uint8_t *key, enum stream stream, uint64_t block)
{
	uint8_t counter[AES_BLOCK_BYTES] = { (uint8_t)stream };

	for (unsigned i = 0; i < sizeof(block); i++)
		counter[AES_BLOCK_BYTES - 1 - i] = (uint8_t)(block >> 8 * i);
	return EVP_EncryptInit_ex(ctx, EVP_aes_128_ctr(), NULL, key, counter) == 1;
}

static bool stream_read(EVP_CIPHER_CTX *ctx, uint64_t *words, size_t count)
{
	int bytes = (int)(count * sizeof(*words));

	memset(words, 0, (size_t)bytes);
	return EVP_EncryptUpdate(ctx, (uint8_t *)words, &bytes, (const uint8_t *)words, bytes) == 1;
}

/* number: the stream of pads begins at the OL_VOUCHER_PADS that it is among */
static int voucher_open(const char *key, uint64_t process, uint64_t number,
			const struct ol_geometry *geo, struct ol_voucher **ret_voucher)
{
	const size_t count = factor_count(geo);
	const uint64_t block =
		number / OL_VOUCHER_PADS * (OL_VOUCHER_PADS * sizeof(uint64_t) / AES_BLOCK_BYTES);
	struct ol_voucher *voucher = calloc(1, sizeof(*voucher) + count * sizeof(uint64_t));
	uint8_t secret[OL_SECRET_BYTES];
	int rc;

	if (voucher == NULL)
		return -ENOMEM;
	voucher->geo = *geo;
	voucher->process = process;
	voucher->number = number;
	rc = ol_auth_voucher_key(key, process, secret);
	if (rc == 0)
		voucher->stream = EVP_CIPHER_CTX_new();
	if (rc == 0 &&
	    (voucher->stream == NULL || !stream_seek(voucher->stream, secret, STREAM_FACTORS, 0) ||
	     !stream_read(voucher->stream, voucher->factors, count) ||
	     !stream_seek(voucher->stream, secret, STREAM_PADS, block) ||
	     !stream_read(voucher->stream, voucher->pads, OL_VOUCHER_PADS)))
		rc = -EIO;
	OPENSSL_cleanse(secret, sizeof(secret));
	for (size_t i = 0; i < count; i++)
		voucher->factors[i] = ol_voucher_reduce(voucher->factors[i]);
	voucher->step =
		plus(voucher->factors[OL_VOUCHER_VERSION], voucher->factors[OL_VOUCHER_STEPS]);
	if (rc == 0)
		*ret_voucher = voucher;
	else
		ol_voucher_close(voucher);
	return rc;
}

int ol_voucher_open(const char *key, uint64_t process, const struct ol_geometry *geo,
		    struct ol_voucher **ret_voucher)
{
	return voucher_open(key, process, 0, geo, ret_voucher);
}

void ol_voucher_close(struct ol_voucher *voucher)
{
	if (voucher == NULL)
		return;
	EVP_CIPHER_CTX_free(voucher->stream);
	OPENSSL_cleanse(voucher, sizeof(*voucher) + factor_count(&voucher->geo) * sizeof(uint64_t));
	free(voucher);
}

void ol_voucher_pads(struct ol_voucher *voucher)
{
	if (!stream_read(voucher->stream, voucher->pads, OL_VOUCHER_PADS))
		voucher->process = 0; /* no pads are left: from here on, its word holds nowhere */
}

static const uint8_t *rule_of(const struct ol_voucher *voucher, const void *table)
{
	return (const uint8_t *)table + ol_layout_rule_off(&voucher->geo);
}

void ol_voucher_begin(struct ol_voucher *voucher, const struct ol_vouched *what, void *table)
{
	voucher->sum = sum_of(voucher, what, table);
	voucher->change = 0;
	voucher->rule = sum_of_rule(voucher, rule_of(voucher, table));
	if (voucher->rule == UINT64_MAX)
		voucher->process = 0; /* from here on, its word holds nowhere */
	else
		voucher->sum = plus(voucher->sum, voucher->rule);
	ol_voucher_fill(voucher, table);
}

void ol_voucher_change_any(struct ol_voucher *voucher, uint32_t worker,
			   const struct ol_applied *from, const struct ol_applied *to)
{
	voucher->change += OL_VOUCHER_PRIME - sum_of_entry(voucher, worker, from);
	voucher->change += sum_of_entry(voucher, worker, to);
}

void ol_voucher_rule(struct ol_voucher *voucher, const struct ol_rule *rule)
{
	const uint64_t sum = sum_of_rule(voucher, rule);

	if (sum == UINT64_MAX) {
		voucher->process = 0;
		return;
	}
	voucher->change += OL_VOUCHER_PRIME - voucher->rule;
	voucher->change += sum;
	voucher->rule = sum;
}

/* Each word is less than p, as nobody else's sum may be the same */
static bool words_fit(const struct ol_geometry *geo, const struct ol_vouched *what,
		      const void *table)
{
	struct ol_snapshot_head head;
	struct ol_applied applied;

	memcpy(&head, table, sizeof(head));
	if (what->version > OL_VERSION_MAX || ol_snapshot_head_fault(&head) != NULL)
		return false;
	for (uint32_t i = 0; i < geo->workers_max; i++) {
		memcpy(&applied, (const uint8_t *)table + sizeof(head) + i * sizeof(applied),
		       sizeof(applied));
		if (ol_applied_fault(&applied) != NULL)
			return false;
	}
	return true;
}

int ol_voucher_check(const char *key, const struct ol_geometry *geo, const struct ol_vouched *what,
		     const void *table)
{
	struct ol_voucher *voucher = NULL;
	struct ol_snapshot_head head;
	uint64_t rule;
	int rc;

	memcpy(&head, table, sizeof(head));
	if (head.voucher == 0 || !words_fit(geo, what, table))
		return -EACCES;
	rc = voucher_open(key, head.voucher, head.number, geo, &voucher);
	if (rc != 0)
		return rc == -EPERM ? -EACCES : rc;
	rule = sum_of_rule(voucher, rule_of(voucher, table));
	if (rule == UINT64_MAX)
		rc = -EIO;
	else if (head.tag != plus(sum_of(voucher, what, table), rule) +
				     voucher->pads[head.number % OL_VOUCHER_PADS])
		rc = -EACCES;
	ol_voucher_close(voucher);
	return rc;
}
