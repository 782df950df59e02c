/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * ratings.c -- ratings of items by users: MovieLens's files, and products of planted factors
 *
 * MovieLens has three forms of a line: "user<tab>item<tab>rating<tab>time" (u.data),
 * "user::item::rating::time" (ratings.dat), "user,item,rating,time" (ratings.csv, below a line of
 * names). Users and items are numbered anew, in the order of their numbers in the file, so that
 * none is without a rating.
 */

#include "learn/source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	HOLD_OUT = 10, /* one rating in so many is held out for the test */
	ID_MAX = 1 << 30,
	CELLS_MAX = 1 << 30, /* users times items, of generated ratings */
	SEPARATOR_MAX = 3 /* with its end */
};

/* Ratings in the making */
struct list {
	struct learn_rating *all;
	size_t count;
	size_t cap;
};

static int list_add(struct list *list, uint32_t user, uint32_t item, double value)
{
	if (list->count == list->cap) {
		size_t more = list->cap == 0 ? 4096 : list->cap * 2;
		struct learn_rating *bigger;

		if (more > LEARN_SET_BYTES_MAX / sizeof(*bigger))
			return -EFBIG;
		bigger = realloc(list->all, more * sizeof(*bigger));
		if (bigger == NULL)
			return -ENOMEM;
		list->all = bigger;
		list->cap = more;
	}
	list->all[list->count++] =
		(struct learn_rating){ .user = user, .item = item, .value = (float)value };
	return 0;
}

/* sets_fill -- put every tenth rating into the test set; shape's rows and cols are known */
static int sets_fill(const char *what, const struct list *list, struct learn_data *data,
		     struct learn_line *err)
{
	size_t held = list->count / HOLD_OUT, kept = list->count - held, to[2] = { 0 };
	struct learn_rating *train = learn_alloc(kept, sizeof(*train));
	struct learn_rating *test = learn_alloc(held, sizeof(*test));
	double sum = 0;

	data->memory[0] = train;
	data->memory[1] = test;
	if (train == NULL || test == NULL)
		return learn_err(err, -ENOMEM, "%s: out of memory", what);
	if (held == 0)
		return learn_err(
			err, -EINVAL,
			"%s: %zu ratings are too few to keep every tenth back for the test", what,
			list->count);
	for (size_t i = 0; i < list->count; i++) {
		if (i % HOLD_OUT == HOLD_OUT - 1) {
			test[to[1]++] = list->all[i];
			continue;
		}
		train[to[0]++] = list->all[i];
		sum += (double)list->all[i].value;
	}
	if ((uint64_t)data->shape.rows + data->shape.cols > LEARN_FEATURES_MAX)
		return learn_err(err, -EFBIG, "%s: %u users and %u items; the limit is %d together",
				 what, data->shape.rows, data->shape.cols, LEARN_FEATURES_MAX);
	data->shape.kind = LEARN_RATINGS;
	data->shape.features = data->shape.rows + data->shape.cols;
	data->train = (struct learn_set){ .count = kept, .ratings = train };
	data->test = (struct learn_set){ .count = held, .ratings = test };
	data->mean = (float)(sum / (double)kept);
	return 0;
}

/* separator_find -- the text after the first number of a file */
static int separator_find(struct learn_cursor c, char separator[SEPARATOR_MAX])
{
	uint32_t id;
	int rc = learn_cursor_whole(&c, "the user", 0, ID_MAX, &id);

	if (rc != 0)
		return rc;
	separator[0] = *c.at;
	if (c.at[0] == ':' && c.at[1] == ':')
		separator[1] = ':';
	else if (strchr("\t, ", *c.at) == NULL || *c.at == 0)
		return learn_cursor_bad(&c, "a tab, a comma or \"::\" is expected after the user");
	return 0;
}

static int separator_pass(struct learn_cursor *c, const char *separator, const char *what)
{
	size_t len = strlen(separator);

	if (strncmp(c->at, separator, len) != 0)
		return learn_cursor_bad(c, what);
	c->at += len;
	return 0;
}

/* rating_read -- read one line; a fourth field, the time, is checked and not kept */
static int rating_read(struct learn_cursor *c, const char *separator, struct list *list)
{
	uint32_t user = 0, item = 0;
	double value = 0, when;
	int rc = learn_cursor_whole(c, "the user", 0, ID_MAX, &user);

	if (rc == 0)
		rc = separator_pass(c, separator, "the item is expected, set off as in line 1");
	if (rc == 0)
		rc = learn_cursor_whole(c, "the item", 0, ID_MAX, &item);
	if (rc == 0)
		rc = separator_pass(c, separator, "the rating is expected, set off as in line 1");
	if (rc == 0)
		rc = learn_cursor_number(c, &value);
	if (rc == 0 && strncmp(c->at, separator, strlen(separator)) == 0) {
		c->at += strlen(separator);
		rc = learn_cursor_number(c, &when);
	}
	if (rc == 0)
		rc = learn_cursor_newline(c);
	if (rc != 0)
		return rc;
	rc = list_add(list, user, item, value);
	if (rc != 0)
		return learn_err(c->err, rc, "%s: line %zu: too many ratings for memory",
				 c->file->path, c->line);
	return 0;
}

static int file_read(const struct learn_file *file, struct list *list, struct learn_line *err)
{
	struct learn_cursor c = learn_cursor_at(file, err);
	char separator[SEPARATOR_MAX] = "";
	int rc;

	if (file->len > 0 && strchr("0123456789", *c.at) == NULL && strchr(c.at, ',') != NULL) {
		c.at += strcspn(c.at, "\n"); /* the names of ratings.csv's columns */
		rc = learn_cursor_newline(&c);
		if (rc != 0)
			return rc;
	}
	if (learn_cursor_end(&c))
		return learn_cursor_bad(&c, "the file holds no ratings");
	rc = separator_find(c, separator);
	while (rc == 0 && !learn_cursor_end(&c))
		rc = rating_read(&c, separator, list);
	return rc;
}

static int compare_ids(const void *a, const void *b)
{
	uint32_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

/* ids_renumber -- the numbers at `offset` of each rating become 0, 1 …; how many there are, or 0 */
static unsigned ids_renumber(struct list *list, size_t offset)
{
	uint32_t *ids = malloc(list->count * sizeof(*ids));
	size_t count = 0;

	if (ids == NULL)
		return 0;
	for (size_t i = 0; i < list->count; i++)
		memcpy(&ids[i], (char *)&list->all[i] + offset, sizeof(*ids));
	qsort(ids, list->count, sizeof(*ids), compare_ids);
	for (size_t i = 0; i < list->count; i++) {
		if (count == 0 || ids[count - 1] != ids[i])
			ids[count++] = ids[i];
	}
	for (size_t i = 0; i < list->count; i++) {
		char *id = (char *)&list->all[i] + offset;
		const uint32_t *at = bsearch(id, ids, count, sizeof(*ids), compare_ids);
		uint32_t index = (uint32_t)(at - ids);

		memcpy(id, &index, sizeof(index));
	}
	free(ids);
	return (unsigned)count;
}

int learn_movielens_load(const char *path, struct learn_data *data, struct learn_line *err)
{
	struct learn_file file = { 0 };
	struct list list = { 0 };
	int rc = learn_file_load(path, &file, err);

	if (rc == 0)
		rc = file_read(&file, &list, err);
	if (rc == 0) {
		data->shape.rows = ids_renumber(&list, offsetof(struct learn_rating, user));
		data->shape.cols = ids_renumber(&list, offsetof(struct learn_rating, item));
		if (data->shape.rows == 0 || data->shape.cols == 0)
			rc = learn_err(err, -ENOMEM, "%s: out of memory", path);
	}
	if (rc == 0)
		rc = sets_fill(path, &list, data, err);
	free(list.all);
	learn_file_fini(&file);
	return rc;
}

struct plant {
	uint32_t users;
	uint32_t items;
	uint32_t rank;
	double density;
	double noise;
	uint64_t seed;
};

static const struct ol_conf_field plant_fields[] = {
	OL_ROW_U32(plant, users, NULL, 1, LEARN_FEATURES_MAX, NULL),
	OL_ROW_U32(plant, items, NULL, 1, LEARN_FEATURES_MAX, NULL),
	OL_ROW_U32(plant, rank, NULL, 1, 1024, NULL),
	OL_ROW_F64(plant, density, NULL, 0, 1, NULL),
	OL_ROW_F64(plant, noise, NULL, 0, 1000, NULL),
	OL_ROW_U64(plant, seed, NULL, 0, 0, NULL),
};

/* factors_make -- count rows of rank numbers, scaled so that a product has variance 1 */
static float *factors_make(const struct plant *plant, uint32_t side, size_t count)
{
	size_t rank = plant->rank;
	float *rows = learn_alloc(count * rank, sizeof(*rows));
	float scale = (float)(1.0 / sqrt(sqrt(plant->rank)));

	for (size_t i = 0; rows != NULL && i < count * rank; i += 2) {
		struct learn_key key = { .seed = plant->seed, .worker = side };
		struct learn_rng_block block =
			learn_rng_draw(&key, LEARN_RNG_PLANT, (uint32_t)(i / 2));
		float value[2];

		learn_rng_bell(&block, value);
		rows[i] = value[0] * scale;
		if (i + 1 < count * rank)
			rows[i + 1] = value[1] * scale;
	}
	return rows;
}

/* user_rate -- draw a user's rated items and their ratings */
static int user_rate(const struct plant *plant, const struct learn_planted *planted, uint32_t user,
		     struct list *list)
{
	uint64_t below = (uint64_t)(plant->density * 0x1p32);
	struct learn_key which = { .seed = plant->seed, .step = user };
	struct learn_key noise = { .seed = plant->seed, .step = user, .worker = 1 };
	const float *row = planted->rows + (size_t)user * planted->rank;
	int rc = 0;

	for (uint32_t item = 0; rc == 0 && item < plant->items; item++) {
		struct learn_rng_block block = learn_rng_draw(&which, LEARN_RNG_PLANT_DRAW, item);
		const float *col = planted->cols + (size_t)item * planted->rank;
		float value[2];
		double sum = 0;

		if (block.word[0] >= below)
			continue;
		for (unsigned f = 0; f < planted->rank; f++)
			sum += (double)row[f] * (double)col[f];
		block = learn_rng_draw(&noise, LEARN_RNG_PLANT_DRAW, item);
		learn_rng_bell(&block, value);
		rc = list_add(list, user, item, sum + plant->noise * (double)value[0]);
	}
	return rc;
}

int learn_ratings_make(const char *args, struct learn_data *data, struct learn_line *err)
{
	struct plant plant = {
		.users = 1000, .items = 500, .rank = 8, .density = 0.2, .noise = 0.2, .seed = 1
	};
	struct learn_planted *planted = &data->planted;
	struct list list = { 0 };
	int rc = learn_args_parse("ratings", OL_FIELDS(plant_fields), args, &plant, err);

	if (rc != 0)
		return rc;
	if ((uint64_t)plant.users * plant.items > CELLS_MAX)
		return learn_err(err, -EFBIG,
				 "ratings: %u users times %u items are too many; the limit is %d",
				 plant.users, plant.items, CELLS_MAX);
	data->memory[2] = factors_make(&plant, 0, plant.users);
	data->memory[3] = factors_make(&plant, 1, plant.items);
	if (data->memory[2] == NULL || data->memory[3] == NULL)
		return learn_err(err, -ENOMEM, "ratings: out of memory");
	*planted = (struct learn_planted){ .rank = plant.rank,
					   .noise = plant.noise,
					   .rows = data->memory[2],
					   .cols = data->memory[3] };
	data->shape.rows = plant.users;
	data->shape.cols = plant.items;
	for (uint32_t user = 0; rc == 0 && user < data->shape.rows; user++)
		rc = user_rate(&plant, planted, user, &list);
	if (rc != 0)
		(void)learn_err(err, rc, "ratings: too many for memory");
	else
		rc = sets_fill("ratings", &list, data, err);
	free(list.all);
	return rc;
}
