/* SPDX-License-Identifier: BSD-3-Clause */

/* early.h -- a step that is begun while its gradients are still on their way */
#ifndef OL_SERVER_EARLY_H
#define OL_SERVER_EARLY_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct ol_ingest;
struct ol_session;

/* A gradient that has landed and is not yet resolved. */
struct ol_landed {
	uint32_t session;
	uint32_t slot;
};

/* A gradient that is arriving, as far as its worker has announced it */
struct ol_arriving {
	uint32_t slot;
	bool follows; /* the rest comes without waiting for its worker's caller */
	bool tried; /* it was begun as a step, and another step came first: it is not begun again */
	uint64_t first; /* floats from here on have landed */
	uint64_t
		stamp; /* which arrival in that slot, also when it is whole: never the same twice */
};

/* A gradient of a step that is begun early */
struct ol_early_part {
	struct ol_landed landed;
	uint64_t stamp;
};

/*
 * A step whose gradients are known before they are whole: their ends have landed, and what all of
 * them have is summed up and applied meanwhile. It takes effect only when each push is whole and
 * checked, and the policy makes a step of just these gradients. Else this work is thrown away.
 */
struct ol_early {
	bool active;
	bool behind; /* more has landed than the last turn had room for */
	uint64_t version; /* published when it began */
	uint64_t
		spoiled; /* 1 + a version at which a gradient was found not to be finite: nothing more
			     is begun at it. 0: none */
	uint64_t first; /* floats from here on are done */
	bool uneven; /* the last step's gradients had different weights: so may the next one's, whose
			weights are not known before they are whole. It is not begun */
	unsigned target; /* snapshot that they are in, of a server that applies them there */
	uint32_t count;
	uint64_t stamps; /* the newest */
	struct ol_early_part *of; /* the gradients, in worker order */
	struct ol_contribution *contributions; /* theirs */
};

/* ol_early_open -- room for a gradient of each worker; -ENOMEM. ol_early_close -- also after that */
int ol_early_open(struct ol_early *early, uint32_t workers_max);
void ol_early_close(struct ol_early *early);

/* ol_early_on_part -- arg of OL_BELL_PART. NULL; or the part's fault */
const char *ol_early_on_part(struct ol_ingest *ingest, struct ol_session *session, uint32_t arg);
/* ol_early_on_push -- the slot's gradient is whole, and its push may be in a step */
void ol_early_on_push(struct ol_ingest *ingest, struct ol_session *session, uint32_t slot);
/* ol_early_forget -- the session's memory is about to go */
void ol_early_forget(struct ol_ingest *ingest, struct ol_session *session);
/* ol_early_progress -- begin a step, or go on with it, as far as its gradients have landed */
void ol_early_progress(struct ol_ingest *ingest);
/*
 * ol_early_take -- the batch makes a step now, with ingest->contributions: which floats of it are
 * done, from the one returned on; shard_len: none are
 */
uint64_t ol_early_take(struct ol_ingest *ingest);

#endif /* OL_SERVER_EARLY_H */
