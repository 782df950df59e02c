/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * words.c -- documents as lists of words: UCI's bags of words, and documents of planted topics
 *
 * docword.txt begins with three lines, how many documents, words and pairs there are, and has a
 * pair a line: "document word count", both numbered from 1, documents in ascending order.
 */

#include "learn/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	HOLD_OUT = 10, /* one document in so many is for the test */
	COUNT_MAX = 1 << 24
};

/* Documents one after another; zeroed at first. */
struct list {
	uint32_t *words;
	size_t count; /* words, of all documents */
	size_t cap;
	size_t *starts; /* documents + 1 of them are used */
	size_t documents;
	size_t starts_cap;
};

/* One more word of the last document; -ENOMEM, -EFBIG */
static int list_add(struct list *list, uint32_t word)
{
	if (list->count == LEARN_TOKENS_MAX)
		return -EFBIG;
	if (list->count == list->cap) {
		size_t more = list->cap == 0 ? 1 << 16 : list->cap * 2;
		uint32_t *bigger;

		bigger = realloc(list->words, more * sizeof(*bigger));
		if (bigger == NULL)
			return -ENOMEM;
		list->words = bigger;
		list->cap = more;
	}
	list->words[list->count++] = word;
	return 0;
}

/* The last document is complete; one without a word does not count. -ENOMEM */
static int list_end(struct list *list)
{
	if (list->documents + 2 > list->starts_cap) {
		size_t more = list->starts_cap == 0 ? 1024 : list->starts_cap * 2;
		size_t *bigger = realloc(list->starts, more * sizeof(*bigger));

		if (bigger == NULL)
			return -ENOMEM;
		bigger[0] = 0;
		list->starts = bigger;
		list->starts_cap = more;
	}
	if (list->starts[list->documents] != list->count)
		list->starts[++list->documents] = list->count;
	return 0;
}

/* Make a set of them, whose memory the caller keeps in memory[0] and [1] */
static void list_give(struct list *list, struct learn_set *set, void **memory)
{
	*set = (struct learn_set){ .count = list->documents,
				   .words = list->words,
				   .starts = list->starts };
	memory[0] = list->words;
	memory[1] = list->starts;
	*list = (struct list){ 0 };
}

static void list_fini(struct list *list)
{
	free(list->words);
	free(list->starts);
}

/* The two sets of a file, and its reader's position */
struct bow {
	struct list train;
	struct list test;
	uint32_t document; /* of the pair before; 0: none */
	size_t seen; /* documents with a word */
};

static bool bow_held(const struct bow *bow)
{
	return bow->seen % HOLD_OUT == 0;
}

static int pair_add(struct bow *bow, uint32_t document, uint32_t word, uint32_t count)
{
	int rc = 0;

	if (document != bow->document) {
		rc = list_end(&bow->train);
		if (rc == 0)
			rc = list_end(&bow->test);
		bow->document = document;
		bow->seen++;
	}
	while (rc == 0 && count-- > 0)
		rc = list_add(bow_held(bow) ? &bow->test : &bow->train, word - 1);
	return rc;
}

static int pair_read(struct learn_cursor *c, struct bow *bow, uint32_t documents, uint32_t words)
{
	uint32_t document = 0, word = 0, count = 0;
	int rc = learn_cursor_whole(c, "the document", 1, documents, &document);

	if (rc == 0 && document < bow->document)
		return learn_cursor_bad(c,
					"the document is below the one before it; sort the file");
	while (rc == 0 && *c->at == ' ')
		c->at++;
	if (rc == 0)
		rc = learn_cursor_whole(c, "the word", 1, words, &word);
	while (rc == 0 && *c->at == ' ')
		c->at++;
	if (rc == 0)
		rc = learn_cursor_whole(c, "the count", 1, COUNT_MAX, &count);
	if (rc == 0)
		rc = learn_cursor_newline(c);
	if (rc != 0)
		return rc;
	rc = pair_add(bow, document, word, count);
	if (rc != 0)
		return learn_err(c->err, rc,
				 "%s: line %zu: more words than there is room for; the limit is %d",
				 c->file->path, c->line, LEARN_TOKENS_MAX);
	return 0;
}

static int bow_read(const struct learn_file *file, struct bow *bow, unsigned *ret_words,
		    struct learn_line *err)
{
	struct learn_cursor c = learn_cursor_at(file, err);
	static const char *const names[] = { "the number of documents", "the number of words",
					     "the number of pairs" };
	uint32_t head[3] = { 0 };
	uint32_t max[3] = { 1 << 30, LEARN_FEATURES_MAX, UINT32_MAX };
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < 3; i++) {
		rc = learn_cursor_whole(&c, names[i], 1, max[i], &head[i]);
		if (rc == 0)
			rc = learn_cursor_newline(&c);
	}
	for (uint32_t i = 0; rc == 0 && i < head[2]; i++) {
		if (learn_cursor_end(&c))
			return learn_cursor_bad(&c, "the file ends before the number of pairs that "
						    "its third line says");
		rc = pair_read(&c, bow, head[0], head[1]);
	}
	if (rc == 0 && !learn_cursor_end(&c))
		return learn_cursor_bad(&c, "more pairs than the file's third line says");
	*ret_words = head[1];
	return rc;
}

/* vocab_check -- a word a line, as many as there are */
static int vocab_check(const char *path, unsigned words, struct learn_line *err)
{
	struct learn_file file = { 0 };
	size_t lines = 0;
	int rc = learn_file_load(path, &file, err);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < file.len; i++)
		lines += file.bytes[i] == '\n' || i + 1 == file.len;
	if (lines != words)
		rc = learn_err(err, -EBADMSG,
			       "%s: %zu lines; the bag of words has %u words: give the vocabulary "
			       "that belongs to it",
			       file.path, lines, words);
	learn_file_fini(&file);
	return rc;
}

static void shape_set(struct learn_data *data, unsigned words)
{
	data->shape = (struct learn_shape){
		.kind = LEARN_WORDS, .rows = 1, .cols = words, .features = words
	};
}

int learn_bow_load(const char *path, const char *vocab_path, struct learn_data *data,
		   struct learn_line *err)
{
	struct learn_file file = { 0 };
	struct bow bow = { 0 };
	unsigned words = 0;
	int rc = learn_file_load(path, &file, err);

	if (rc == 0)
		rc = bow_read(&file, &bow, &words, err);
	if (rc == 0 && (list_end(&bow.train) != 0 || list_end(&bow.test) != 0))
		rc = learn_err(err, -ENOMEM, "%s: out of memory", path);
	if (rc == 0 && bow.test.documents == 0)
		rc = learn_err(
			err, -EINVAL,
			"%s: %zu documents are too few to keep every tenth back for the test",
			file.path, bow.train.documents);
	if (rc == 0 && vocab_path != NULL)
		rc = vocab_check(vocab_path, words, err);
	if (rc == 0) {
		shape_set(data, words);
		list_give(&bow.train, &data->train, &data->memory[0]);
		list_give(&bow.test, &data->test, &data->memory[2]);
	}
	list_fini(&bow.train);
	list_fini(&bow.test);
	learn_file_fini(&file);
	return rc;
}

struct plant {
	uint32_t topics;
	uint32_t words;
	uint32_t docs;
	uint32_t length;
	uint64_t seed;
};

static const struct ol_conf_field plant_fields[] = {
	OL_ROW_U32(plant, topics, NULL, 2, 1024, NULL),
	OL_ROW_U32(plant, words, NULL, 2, LEARN_FEATURES_MAX, NULL),
	OL_ROW_U32(plant, docs, NULL, 1, COUNT_MAX, NULL),
	OL_ROW_U32(plant, length, NULL, 2, 1 << 20, NULL),
	OL_ROW_U64(plant, seed, NULL, 0, 0, NULL),
};

/* Uses of a draw of LEARN_RNG_PLANT_DRAW; test documents have the next three numbers. */
enum {
	DRAW_LENGTH,
	DRAW_MIX,
	DRAW_WORD,
	DRAWS
};

/* peaked -- a number in [0, 1] that is mostly near 0, so that a few words, or topics, stand out */
static double peaked(double u)
{
	double u2 = u * u, u4 = u2 * u2, u8 = u4 * u4;

	return u8 * u8;
}

/* pick -- the index that u in [0, 1) falls on among ascending sums, the last of which is the total */
static uint32_t pick(const double *sums, size_t count, double u)
{
	double at = u * sums[count - 1];
	size_t low = 0, high = count - 1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sums[middle] > at)
			high = middle;
		else
			low = middle + 1;
	}
	return (uint32_t)low;
}

/* topics_make -- draw the words' shares, and sum them for pick() */
static void topics_make(const struct plant *plant, float *shares, double *sums)
{
	size_t words = plant->words;

	for (size_t k = 0; k < plant->topics; k++) {
		struct learn_key key = { .seed = plant->seed, .step = k };
		double *to = sums + k * words, last = 0;

		for (size_t v = 0; v < words; v++) {
			struct learn_rng_block b =
				learn_rng_draw(&key, LEARN_RNG_PLANT, (uint32_t)v);

			last += peaked(learn_rng_unit(b.word[0], b.word[1]));
			to[v] = last;
		}
		for (size_t v = 0; v < words; v++)
			shares[k * words + v] = (float)((to[v] - (v > 0 ? to[v - 1] : 0.0)) / last);
	}
}

/* document_make -- mix has room for one number a topic */
static int document_make(const struct plant *plant, const double *sums, struct learn_key key,
			 double *mix, struct list *list)
{
	size_t topics = plant->topics, words = plant->words;
	uint32_t half = key.worker * DRAWS;
	struct learn_rng_block b;
	uint32_t length;
	double last = 0;
	int rc = 0;

	key.worker = half + DRAW_LENGTH;
	b = learn_rng_draw(&key, LEARN_RNG_PLANT_DRAW, 0);
	length = plant->length;
	length = length - length / 2 + learn_rng_below(b.word[0], b.word[1], length / 2 * 2 + 1);
	key.worker = half + DRAW_MIX;
	for (size_t k = 0; k < topics; k++) {
		b = learn_rng_draw(&key, LEARN_RNG_PLANT_DRAW, (uint32_t)k);
		last += peaked(learn_rng_unit(b.word[0], b.word[1]));
		mix[k] = last;
	}
	key.worker = half + DRAW_WORD;
	for (uint32_t i = 0; rc == 0 && i < length; i++) {
		uint32_t k;

		b = learn_rng_draw(&key, LEARN_RNG_PLANT_DRAW, i);
		k = pick(mix, topics, learn_rng_unit(b.word[0], b.word[1]));
		rc = list_add(list,
			      pick(sums + k * words, words, learn_rng_unit(b.word[2], b.word[3])));
	}
	return rc != 0 ? rc : list_end(list);
}

static int documents_make(const struct plant *plant, const double *sums, struct learn_data *data)
{
	size_t counts[2] = { (size_t)plant->docs, ((size_t)plant->docs + 9) / 10 };
	struct learn_set *sets[2] = { &data->train, &data->test };
	double *mix = calloc(plant->topics, sizeof(*mix));
	int rc = mix == NULL ? -ENOMEM : 0;

	for (uint32_t half = 0; rc == 0 && half < 2; half++) {
		struct list list = { 0 };

		for (size_t d = 0; rc == 0 && d < counts[half]; d++) {
			struct learn_key key = { .seed = plant->seed, .step = d, .worker = half };

			rc = document_make(plant, sums, key, mix, &list);
		}
		list_give(&list, sets[half], &data->memory[(size_t)2 * half]);
	}
	free(mix);
	return rc;
}

int learn_topics_make(const char *args, struct learn_data *data, struct learn_line *err)
{
	struct plant plant = { .topics = 10, .words = 500, .docs = 1000, .length = 100, .seed = 1 };
	size_t cells;
	double *sums;
	int rc = learn_args_parse("topics", OL_FIELDS(plant_fields), args, &plant, err);

	if (rc != 0)
		return rc;
	if (1.5 * plant.docs * plant.length > LEARN_TOKENS_MAX)
		return learn_err(
			err, -EFBIG,
			"topics: %u documents of up to %g words are too many; the limit is "
			"%d words",
			plant.docs, 1.5 * plant.length, LEARN_TOKENS_MAX);
	cells = (size_t)plant.topics * plant.words;
	if (cells * sizeof(*sums) > LEARN_SET_BYTES_MAX)
		return learn_err(err, -EFBIG,
				 "topics: %u topics of %u words are too large; the limit is %zu "
				 "bytes",
				 plant.topics, plant.words, LEARN_SET_BYTES_MAX);
	data->memory[4] = learn_alloc(cells, sizeof(float));
	sums = learn_alloc(cells, sizeof(*sums));
	rc = data->memory[4] == NULL || sums == NULL ? -ENOMEM : 0;
	if (rc == 0) {
		topics_make(&plant, data->memory[4], sums);
		rc = documents_make(&plant, sums, data);
	}
	free(sums);
	if (rc != 0)
		return learn_err(err, rc, "topics: out of memory");
	data->planted = (struct learn_planted){ .rank = plant.topics, .topics = data->memory[4] };
	shape_set(data, plant.words);
	return 0;
}
