/* SPDX-License-Identifier: BSD-3-Clause */

/* pins.c -- pin words, and the debts of those who hold steps up */

#include "server/pins.h"

#include "rdma/order.h"

/* A debt of 1 s runs off in this many seconds: the share of all time that a kind may hold steps up */
static const unsigned run_off[OL_PINS_KINDS] = {
	[OL_PINS_MEMBERS] = 2,
	[OL_PINS_OBSERVERS] = 4,
};

uint64_t ol_pins_word(const struct ol_session *session)
{
	const uint8_t *page = session->landing->addr;
	const struct ol_pin *word = (const struct ol_pin *)(const void *)(page + OL_PIN_OFF);

	return ol_word_load(&word->version_plus_1);
}

unsigned ol_pins_mask(const struct ol_pins *pins, const struct ol_sessions *sessions,
		      const struct ol_store *store, unsigned *ret_kinds)
{
	const struct ol_places *pinning = &sessions->pinning;
	unsigned mask = 0;

	*ret_kinds = 0;
	for (uint32_t i = 0; (i = ol_places_next(pinning, i)) < pinning->size; i++) {
		const struct ol_session *session = &sessions->all[i];
		const unsigned kind = 1u << (session->role == OL_ROLE_OBSERVER ? OL_PINS_OBSERVERS
									       : OL_PINS_MEMBERS);
		const uint64_t pin = ol_pins_word(session);
		const int at =
			pin != 0 && (pins->spent & kind) == 0 ? ol_store_find(store, pin - 1) : -1;

		if (at >= 0) {
			mask |= 1u << at;
			*ret_kinds |= kind;
		}
	}
	return mask;
}

bool ol_pins_wait(struct ol_pins *pins, unsigned kinds, uint64_t timeout_ns, uint64_t now_ns)
{
	if (pins->blocked_ns == 0)
		pins->blocked_ns = now_ns;
	pins->blockers |= kinds;
	return now_ns - pins->blocked_ns >= timeout_ns;
}

void ol_pins_pass(struct ol_pins *pins, uint64_t timeout_ns, uint64_t now_ns)
{
	const uint64_t past_ns = now_ns - pins->run_ns;
	const uint64_t wait_ns = pins->blocked_ns != 0 ? now_ns - pins->blocked_ns : 0;

	for (unsigned kind = 0; kind < OL_PINS_KINDS; kind++) {
		uint64_t *debt_ns = &pins->debt_ns[kind];
		const uint64_t off_ns = past_ns / run_off[kind];

		*debt_ns -= off_ns < *debt_ns ? off_ns : *debt_ns;
		if ((pins->blockers & 1u << kind) != 0)
			*debt_ns += wait_ns;
		if (*debt_ns >= timeout_ns)
			pins->spent |= 1u << kind;
		else if (*debt_ns <= timeout_ns / 2)
			pins->spent &= ~(1u << kind);
	}
	pins->run_ns = now_ns;
	pins->blocked_ns = 0;
	pins->blockers = 0;
}
