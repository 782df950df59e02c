/* SPDX-License-Identifier: BSD-3-Clause */

/* waits.h -- what a server without a place in its chain waits for, in words */
#ifndef OUTLAST_WAITS_H
#define OUTLAST_WAITS_H

#include <stdbool.h>
#include <stdint.h>

#include "outlast_server.h"

enum {
	WAITS_TEXT_MAX = 400
};

/* The server that waits */
struct waits_about {
	uint32_t shard;
	uint32_t replicas; /* that its chain is to have */
	bool refound;
	uint64_t id; /* of its process, as in views */
};

/* waits_text -- info: of its chain */
void waits_text(const struct ol_chain_info *info, const struct waits_about *about,
		char text[WAITS_TEXT_MAX]);
/* waits_gone -- no replica of the chain is left, and it is not founded anew */
void waits_gone(const struct ol_chain_info *info, uint32_t shard, char text[WAITS_TEXT_MAX]);

#endif /* OUTLAST_WAITS_H */
