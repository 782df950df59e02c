/* SPDX-License-Identifier: BSD-3-Clause */

/* content.c -- bounds and finiteness of a snapshot from elsewhere */

#include "store/content.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/kernels.h"
#include "wire/bounds.h"
#include "wire/rule.h"

/* A number of the table that no server can have made */
static bool table_fault(const struct ol_geometry *geo, const uint8_t *content, char *why,
			size_t why_bytes)
{
	struct ol_snapshot_head head;
	struct ol_applied applied;
	const char *field;

	memcpy(&head, content, sizeof(head));
	field = ol_snapshot_head_fault(&head);
	if (field != NULL) {
		snprintf(why, why_bytes, "table: %s is %" PRIu64 ", beyond its bound", field,
			 head.optimizer_steps);
		return true;
	}
	for (uint32_t i = 0; i < geo->workers_max; i++) {
		memcpy(&applied, content + sizeof(head) + i * sizeof(applied), sizeof(applied));
		field = ol_applied_fault(&applied);
		if (field == NULL)
			continue;
		snprintf(why, why_bytes,
			 "table: worker %" PRIu32 ": impossible %s (seq %" PRIx64 ", grads %" PRIu64
			 ", earlier %" PRIu64 ")",
			 i, field, applied.seq, applied.grads, applied.earlier);
		return true;
	}
	return false;
}

/* One of version 0 is not looked at: what the options say takes its place */
static bool rule_fault(const struct ol_geometry *geo, const uint8_t *content, char *why,
		       size_t why_bytes)
{
	const void *at = content + ol_layout_rule_off(geo);
	const struct ol_rule *rule = at;
	const char *field = rule->version != 0 ? ol_rule_fault(rule, geo) : NULL;

	if (field == NULL && rule->version != 0 && rule->begin == OL_RULE_NOW)
		field = "begin";
	if (field != NULL)
		snprintf(why, why_bytes, "rule: impossible %s", field);
	return field != NULL;
}

/* vector 0: the weights; 1 …: optimizer state */
static bool vector_fault(const struct ol_geometry *geo, const uint8_t *content, uint32_t vector,
			 char *why, size_t why_bytes)
{
	const float *values = (const float *)(const void *)(content + ol_layout_table_bytes(geo) +
							    vector * ol_layout_vector_bytes(geo));
	uint64_t at = 0;

	if (ol_kernels_best()->finite(values, OL_FORMAT_FP32, geo->shard_len) != 0)
		return false;
	while (at + 1 < geo->shard_len && isfinite(values[at]))
		at++;
	if (vector == 0)
		snprintf(why, why_bytes,
			 "it holds a NaN or an infinity: weight %" PRIu64 " of the job",
			 geo->shard_first + at);
	else
		snprintf(why, why_bytes,
			 "it holds a NaN or an infinity: optimizer state %" PRIu32
			 " of weight %" PRIu64 " of the job",
			 vector, geo->shard_first + at);
	return true;
}

bool ol_content_fault(const struct ol_geometry *geo, const void *content, struct ol_content_ask ask,
		      char *why, size_t why_bytes)
{
	uint32_t vectors = ask.no_state ? 1 : 1 + geo->state_vectors;

	if (table_fault(geo, content, why, why_bytes) || rule_fault(geo, content, why, why_bytes))
		return true;
	for (uint32_t v = 0; !ask.nonfinite && v < vectors; v++) {
		if (vector_fault(geo, content, v, why, why_bytes))
			return true;
	}
	return false;
}
