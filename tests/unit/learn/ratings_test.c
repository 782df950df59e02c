/* SPDX-License-Identifier: BSD-3-Clause */

/* ratings_test.c -- MovieLens's three forms are read, and refused if malformed; generated ratings
 * are a function of their specification, and contain the planted factors */

#include "learn/data.h"
#include "unit/learn/learn_util.h"

enum {
	LINES = 20,
	TEXT_LEN = 1000
};

/* lines_make -- LINES ratings: user 7 or 9, items 100, 110 …, values 1 to 5 */
static const char *lines_make(const char *head, const char *separator, const char *tail)
{
	static char text[TEXT_LEN];
	size_t at = (size_t)snprintf(text, sizeof(text), "%s", head);

	for (unsigned i = 0; i < LINES; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%u%s%u%s%u%s\n",
				       9 - i % 2 * 2, separator, 100 + i % 5 * 10, separator,
				       1 + i % 5, tail);
	return text;
}

static void each_form_is_read_and_numbered_anew(void **state)
{
	const char *texts[4];
	char copies[4][TEXT_LEN];

	texts[0] = lines_make("", "\t", "\t881250949");
	(void)snprintf(copies[0], TEXT_LEN, "%s", texts[0]);
	(void)snprintf(copies[1], TEXT_LEN, "%s", lines_make("", "::", "::978300760"));
	(void)snprintf(copies[2], TEXT_LEN, "%s",
		       lines_make("userId,movieId,rating,timestamp\r\n", ",", ",9647\r"));
	(void)snprintf(copies[3], TEXT_LEN, "%s", lines_make("", ",", ""));
	for (unsigned i = 0; i < 4; i++) {
		struct learn_data *data = open_good(spec_write("movielens", *state, copies[i]));
		double sum = 0;

		assert_int_equal(data->shape.kind, LEARN_RATINGS);
		assert_int_equal(data->shape.rows, 2);
		assert_int_equal(data->shape.cols, 5);
		assert_int_equal(data->shape.features, 7);
		assert_int_equal(data->train.count, LINES - LINES / 10);
		assert_int_equal(data->test.count, LINES / 10);
		assert_int_equal(data->train.ratings[0].user, 1); /* 9 is above 7 */
		assert_int_equal(data->train.ratings[1].user, 0);
		assert_int_equal(data->train.ratings[3].item, 3);
		assert_true(data->train.ratings[3].value == 4);
		assert_int_equal(data->test.ratings[0].item, 4); /* the tenth line */
		for (size_t r = 0; r < data->train.count; r++)
			sum += (double)data->train.ratings[r].value;
		assert_true(fabs((double)data->mean - sum / (double)data->train.count) < 1e-6);
		assert_int_equal(data->planted.rank, 0);
		learn_data_close(data);
	}
}

static void what_is_malformed_is_refused_in_one_line(void **state)
{
	static const struct malformed bad[] = {
		{ "", -EBADMSG, "f: line 1, offset 0: the file holds no ratings" },
		{ "userId,movieId,rating\n", -EBADMSG, "line 2" },
		{ "1 2\n", -EBADMSG, "the rating is expected" },
		{ "1;2;3\n", -EBADMSG, "a tab, a comma or \"::\" is expected after the user" },
		{ "1:2:3\n", -EBADMSG, "is expected after the user" },
		{ "1\t2\t3\nx\t2\t3\n", -EBADMSG, "line 2, offset 6: a number is expected" },
		{ "1\t2\t3\n1,2,3\n", -EBADMSG, "line 2, offset 7: the item is expected, set off" },
		{ "1\t2\t3\n1\t2\n", -EBADMSG, "line 2, offset 9: the rating is expected" },
		{ "1\t2\t3\n\n1\t2\t3 4\n", -EBADMSG, "line 3" },
		{ "1\t2.5\t3\n", -EBADMSG, "the item is not a whole number from 0 to" },
		{ "-1\t2\t3\n", -EBADMSG, "the user is not a whole number from 0 to" },
		{ "1\t2\tnan\n", -EBADMSG, "a number is expected" },
		{ "1\t2\t1e99\n", -EBADMSG, "too large for a float" },
		{ "1\t2\t3\twhen\n", -EBADMSG, "a number is expected" },
		{ "1\t2\t3\t4\t5\n", -EBADMSG, "the end of the line is expected" },
		{ "1\t2\t3\n2\t2\t3\n", -EINVAL, "2 ratings are too few" },
	};

	open_malformed("movielens", *state, bad, sizeof(bad) / sizeof(bad[0]));
	open_bad("movielens:/nowhere/u.data", -ENOENT, "/nowhere/u.data: no such file");
	open_bad("movielens:", -EINVAL, "movielens:FILE");
	open_bad("ratings:users=0", -EINVAL, "\"users=0\" should have a number between 1 and");
	open_bad("ratings:density=2", -EINVAL, "a number between 0 and 1 behind density=");
	open_bad("ratings:factors=2", -EINVAL,
		 "is none of users=, items=, rank=, density=, noise=, seed=");
	open_bad("ratings:users=1,items=2,density=1", -EINVAL, "2 ratings are too few");
	open_bad("ratings:users=100000,items=100000", -EFBIG, "the limit is");
}

static void a_refusal_leaves_no_memory_behind(void **state)
{
	char spec[PATH_LEN];

	(void)snprintf(spec, sizeof(spec), "%s",
		       spec_write("movielens", *state, "1\t2\t3\n2\t2\t3\n3\t4\t5\nx\n"));
	assert_no_leak(open_failing, spec);
}

static void made_ratings_are_a_function_of_their_specification(void **state)
{
	const char *spec = "ratings:users=50,items=40,rank=3,density=0.25,seed=5";
	struct learn_data *a = open_good(spec), *b = open_good(spec);
	struct learn_data *c = open_good("ratings:users=50,items=40,rank=3,density=0.25,seed=6");
	size_t bytes = a->train.count * sizeof(*a->train.ratings);
	size_t all = a->train.count + a->test.count;

	(void)state;
	assert_int_equal(a->shape.rows, 50);
	assert_int_equal(a->shape.cols, 40);
	assert_true(all > 400 && all < 600);
	assert_int_equal(a->train.count, b->train.count);
	assert_memory_equal(a->train.ratings, b->train.ratings, bytes);
	assert_memory_equal(a->test.ratings, b->test.ratings,
			    a->test.count * sizeof(*a->test.ratings));
	assert_true(c->train.count != a->train.count ||
		    memcmp(a->train.ratings, c->train.ratings, bytes) != 0);
	learn_data_close(a);
	learn_data_close(b);
	learn_data_close(c);
}

/* spread -- mean square of what is left of ratings when the planted products are taken away */
static double spread(const struct learn_data *data, double *ret_products)
{
	double noise = 0, products = 0;

	for (size_t i = 0; i < data->train.count; i++) {
		const struct learn_rating *r = &data->train.ratings[i];
		double sum = 0;

		for (unsigned f = 0; f < data->planted.rank; f++)
			sum += (double)data->planted.rows[r->user * data->planted.rank + f] *
			       (double)data->planted.cols[r->item * data->planted.rank + f];
		noise += ((double)r->value - sum) * ((double)r->value - sum);
		products += sum * sum;
	}
	*ret_products = products / (double)data->train.count;
	return noise / (double)data->train.count;
}

static void planted_products_and_noise_have_the_size_asked_for(void **state)
{
	struct learn_data *data = open_good("ratings:users=400,items=300,rank=5,density=0.5,"
					    "noise=0.3");
	double products, noise = spread(data, &products);

	(void)state;
	assert_true(fabs(products - 1) < 0.15);
	assert_true(fabs(sqrt(noise) - 0.3) < 0.01);
	learn_data_close(data);
}

static void a_batch_is_a_function_of_its_key(void **state)
{
	struct learn_data *data = open_good("ratings:users=50,items=40");
	struct learn_key key = { .seed = 3, .step = 4, .worker = 1 };
	struct learn_batch *a = NULL, *b = NULL;

	(void)state;
	assert_int_equal(learn_batch_create(&data->shape, 8, &a), 0);
	assert_int_equal(learn_batch_create(&data->shape, 4, &b), 0);
	assert_int_equal(learn_batch_draw(data, &key, 8, a), 0);
	assert_int_equal(learn_batch_draw(data, &key, 4, b), 0);
	assert_memory_equal(a->index, b->index, 4 * sizeof(*a->index));
	for (unsigned i = 0; i < 8; i++)
		assert_true(a->index[i] < data->train.count);
	assert_int_equal(learn_batch_load(data, &data->test, 0, 1, a), -EINVAL);
	learn_batch_destroy(a);
	learn_batch_destroy(b);
	learn_data_close(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_form_is_read_and_numbered_anew, tmp_setup,
						tmp_teardown),
		cmocka_unit_test_setup_teardown(what_is_malformed_is_refused_in_one_line, tmp_setup,
						tmp_teardown),
		cmocka_unit_test_setup_teardown(a_refusal_leaves_no_memory_behind, tmp_setup,
						tmp_teardown),
		cmocka_unit_test(made_ratings_are_a_function_of_their_specification),
		cmocka_unit_test(planted_products_and_noise_have_the_size_asked_for),
		cmocka_unit_test(a_batch_is_a_function_of_its_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
