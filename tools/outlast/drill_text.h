/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * drill_text.h -- growing text, lists as a person writes them, quantiles
 */
#ifndef OUTLAST_DRILL_TEXT_H
#define OUTLAST_DRILL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct drill_text {
	char *bytes; /* ends in a 0; NULL: nothing yet */
	size_t len;
	size_t room;
	bool failed; /* no memory: what was added last is missing */
};

void drill_add(struct drill_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void drill_text_fini(struct drill_text *text);

enum {
	DRILL_LIST_MAX = 64
};

struct drill_numbers {
	uint64_t value[DRILL_LIST_MAX];
	size_t count;
};

/* drill_numbers_parse -- "1,2,4" and "3..7", each number once and at most max; false: no such
 * list */
bool drill_numbers_parse(const char *text, uint64_t max, struct drill_numbers *ret_numbers);

/* drill_item -- the next word of a list with commas; moves *list on; false: no more */
bool drill_item(const char **list, char *word, size_t bytes);

/* drill_quantile -- nearest rank, q in 0..1; sorts values, none of which may be NAN */
double drill_quantile(double *values, size_t count, double q);

#endif /* OUTLAST_DRILL_TEXT_H */
