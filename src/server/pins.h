/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * pins.h -- which snapshots readers hold, and for how long they may hold steps up by it
 *
 * A reader that is overtaken pins a version (struct ol_pin), and a step that finds no free snapshot
 * waits. One wait is bounded by pin_timeout_ms. Peers that pin again and again would stretch every
 * step to that; so the waits that a kind of peers causes are added up, as a debt that runs off with
 * time. Once the debt is pin_timeout_ms the kind's pins do not count, until half of it has run off: then
 * those who read are overtaken, and read again.
 */
#ifndef OL_SERVER_PINS_H
#define OL_SERVER_PINS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/session.h"
#include "store/store.h"

enum ol_pins_kind {
	OL_PINS_MEMBERS, /* workers, which a step needs anyway */
	OL_PINS_OBSERVERS,
	OL_PINS_KINDS
};

struct ol_pins {
	uint64_t blocked_ns; /* since when pins delay the step; 0: they do not delay it */
	unsigned blockers; /* kinds whose pins did so, as a mask */
	unsigned spent; /* kinds whose pins do not count for now */
	uint64_t run_ns; /* the debts have run off up to this time */
	uint64_t debt_ns[OL_PINS_KINDS];
};

/* ol_pins_word -- what a peer has pinned: 1 + version; 0: nothing */
uint64_t ol_pins_word(const struct ol_session *session);

/* ol_pins_mask -- the snapshots that pins hold, of kinds with credit; ret_kinds: these kinds */
unsigned ol_pins_mask(const struct ol_pins *pins, const struct ol_sessions *sessions,
		      const struct ol_store *store, unsigned *ret_kinds);

/* ol_pins_wait -- a step waits for pins of these kinds (0: for something else as well); true: for too
 * long */
bool ol_pins_wait(struct ol_pins *pins, unsigned kinds, uint64_t timeout_ns, uint64_t now_ns);

/* ol_pins_owe -- false, as almost always: nobody holds a step up, or did so lately */
static inline bool ol_pins_owe(const struct ol_pins *pins)
{
	return (pins->blocked_ns | pins->debt_ns[OL_PINS_MEMBERS] |
		pins->debt_ns[OL_PINS_OBSERVERS]) != 0;
}

/* ol_pins_pass -- a step has found its snapshot: whoever held it up is charged */
void ol_pins_pass(struct ol_pins *pins, uint64_t timeout_ns, uint64_t now_ns);

#endif /* OL_SERVER_PINS_H */
