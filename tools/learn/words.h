/* SPDX-License-Identifier: BSD-3-Clause */

/* words.h -- inside the room: collects documents */
#ifndef LEARN_WORDS_H
#define LEARN_WORDS_H

#include "learn/source.h"

/* Documents one after another; zeroed at first. */
struct learn_words {
	uint32_t *words;
	size_t count; /* words, of all documents */
	size_t cap;
	size_t *starts; /* documents + 1 of them are used */
	size_t documents;
	size_t starts_cap;
};

/* learn_words_add -- one more word of the last document; -ENOMEM, -EFBIG */
int learn_words_add(struct learn_words *list, uint32_t word);

/* learn_words_end -- the last document is complete; one without a word does not count. -ENOMEM */
int learn_words_end(struct learn_words *list);

/* learn_words_give -- make a set of them, whose memory the caller keeps in memory[0] and [1] */
void learn_words_give(struct learn_words *list, struct learn_set *set, void **memory);

/* learn_words_fini -- free them, unless they were given away */
void learn_words_fini(struct learn_words *list);

#endif /* LEARN_WORDS_H */
