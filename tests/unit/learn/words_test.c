/* SPDX-License-Identifier: BSD-3-Clause */

/* words_test.c -- UCI's bags of words are read, and refused if malformed; generated documents are a
 * function of their specification; workers divide documents without gap or overlap */

#include "learn/data.h"
#include "unit/learn/learn_util.h"

/* Ten documents have words, number 3 has none. */
static const char good[] = "11\n4\n11\n1 1 2\n1 4 1\n2 2 1\n4 1 1\n5 1 1\n6 1 1\n7 1 1\n8 1 1\n"
			   "9 3 1\n10 1 1\n11 4 3\n";

static void a_bag_becomes_documents(void **state)
{
	struct learn_data *data = open_good(spec_write("bow", *state, good));
	static const uint32_t first[] = { 0, 0, 3, 1 };

	assert_int_equal(data->shape.kind, LEARN_WORDS);
	assert_int_equal(data->shape.features, 4);
	assert_int_equal(data->train.count, 9);
	assert_int_equal(data->test.count, 1);
	assert_memory_equal(data->train.words, first, sizeof(first));
	assert_int_equal(data->train.starts[0], 0);
	assert_int_equal(data->train.starts[1], 3);
	assert_int_equal(data->train.starts[9], 11);
	assert_int_equal(data->test.starts[1], 3);
	assert_int_equal(data->test.words[2], 3);
	learn_data_close(data);
}

static void a_bag_may_be_packed(void **state)
{
	const char *dir = *state;
	char spec[PATH_LEN];
	struct learn_data *data;

	file_write_gz(dir, "docword.txt", good, sizeof(good) - 1);
	(void)snprintf(spec, sizeof(spec), "bow:%s/docword.txt", dir);
	data = open_good(spec);
	assert_int_equal(data->train.starts[9], 11);
	learn_data_close(data);
}

static void what_is_malformed_is_refused_in_one_line(void **state)
{
	static const struct malformed bad[] = {
		{ "", -EBADMSG, "f: line 1, offset 0: a number is expected" },
		{ "2\n", -EBADMSG, "line 2" },
		{ "0\n4\n1\n", -EBADMSG, "the number of documents is not a whole number from 1" },
		{ "2 4\n1\n", -EBADMSG, "the end of the line is expected" },
		{ "2\n9999999\n1\n1 1 1\n", -EBADMSG, "line 2, offset 2: the number of words is" },
		{ "2\n4\n1\n3 1 1\n", -EBADMSG, "line 4, offset 6: the document is not" },
		{ "2\n4\n1\n1 5 1\n", -EBADMSG,
		  "offset 8: the word is not a whole number from 1 to 4" },
		{ "2\n4\n1\n1 1 0\n", -EBADMSG, "the count is not a whole number from 1" },
		{ "2\n4\n1\n1 1\n", -EBADMSG, "line 4, offset 9: a number is expected" },
		{ "2\n4\n2\n2 1 1\n1 1 1\n", -EBADMSG, "line 5, offset 13: the document is below" },
		{ "2\n4\n2\n1 1 1\n", -EBADMSG, "the file ends before the number of pairs" },
		{ "2\n4\n1\n1 1 1\n2 1 1\n", -EBADMSG, "more pairs than the file's third line" },
		{ "2\n4\n1\n1 1 16777216\n", -EINVAL, "1 documents are too few" },
		{ "2\n4\n2\n1 1 16777216\n1 2 1\n", -EFBIG, "line 6: more words than" },
	};

	open_malformed("bow", *state, bad, sizeof(bad) / sizeof(bad[0]));
	open_bad("bow:/nowhere/docword.txt", -ENOENT, "/nowhere/docword.txt: no such file");
	open_bad("topics:topics=1", -EINVAL, "\"topics=1\" should have a number between 2 and");
	open_bad("topics:vocabulary=2", -EINVAL,
		 "is none of topics=, words=, docs=, length=, seed=");
	open_bad("topics:docs=1000000", -EFBIG, "the limit is 16777216 words");
}

static void a_vocabulary_must_be_of_the_bag(void **state)
{
	const char *dir = *state;
	char spec[2 * PATH_LEN];
	struct learn_data *data;

	(void)spec_write("bow", dir, good);
	(void)snprintf(spec, sizeof(spec), "bow:%s/f,%s/v", dir, dir);
	file_write(dir, "v", "a\nb\nc\nd", 7);
	data = open_good(spec);
	learn_data_close(data);
	file_write(dir, "v", "a\nb\nc\n", 6);
	open_bad(spec, -EBADMSG, "3 lines; the bag of words has 4 words");
}

static void a_refusal_leaves_no_memory_behind(void **state)
{
	char spec[PATH_LEN];

	(void)snprintf(spec, sizeof(spec), "%s",
		       spec_write("bow", *state, "11\n4\n12\n1 1 2\n1 4 1\n2 2 1\n4 1 1\n"));
	assert_no_leak(open_failing, spec);
}

static void made_documents_are_a_function_of_their_specification(void **state)
{
	const char *spec = "topics:topics=3,words=50,docs=40,length=20,seed=5";
	struct learn_data *a = open_good(spec), *b = open_good(spec);
	struct learn_data *c = open_good("topics:topics=3,words=50,docs=40,length=20,seed=6");
	size_t tokens = a->train.starts[40];

	(void)state;
	assert_int_equal(a->train.count, 40);
	assert_int_equal(a->test.count, 4);
	assert_int_equal(a->shape.cols, 50);
	assert_memory_equal(a->train.starts, b->train.starts, 41 * sizeof(*a->train.starts));
	assert_memory_equal(a->train.words, b->train.words, tokens * sizeof(*a->train.words));
	assert_true(tokens > 600 && tokens < 1000);
	assert_memory_not_equal(a->train.words, c->train.words, 20 * sizeof(*a->train.words));
	for (unsigned k = 0; k < 3; k++) {
		double sum = 0;

		for (unsigned v = 0; v < 50; v++)
			sum += (double)a->planted.topics[k * 50 + v];
		assert_true(fabs(sum - 1) < 1e-5);
	}
	learn_data_close(a);
	learn_data_close(b);
	learn_data_close(c);
}

/* With many words of few topics, how often each word occurs follows from the planted shares. */
static void words_occur_as_often_as_was_planted(void **state)
{
	struct learn_data *data = open_good("topics:topics=2,words=10,docs=4000,length=50");
	size_t tokens = data->train.starts[4000];
	double occurs[10] = { 0 };

	(void)state;
	for (size_t i = 0; i < tokens; i++)
		occurs[data->train.words[i]] += 1.0 / (double)tokens;
	for (unsigned v = 0; v < 10; v++) {
		double want =
			((double)data->planted.topics[v] + (double)data->planted.topics[10 + v]) /
			2;

		assert_true(fabs(occurs[v] - want) < 0.02);
	}
	learn_data_close(data);
}

static void workers_share_documents_out(void **state)
{
	struct learn_data *data = open_good("topics:docs=11,length=5");
	unsigned seen[11] = { 0 };
	struct learn_batch *batch = NULL;

	(void)state;
	assert_int_equal(learn_batch_create(&data->shape, 2, &batch), 0);
	batch->workers = 3;
	for (uint32_t worker = 0; worker < 3; worker++) {
		unsigned own = worker < 2 ? 4 : 3;

		for (uint64_t step = 0; step < own; step++) { /* each of its own twice */
			struct learn_key key = { .step = step, .worker = worker };

			assert_int_equal(learn_batch_draw(data, &key, 2, batch), 0);
			for (unsigned i = 0; i < 2; i++) {
				assert_int_equal(batch->index[i] % 3, worker);
				seen[batch->index[i]]++;
			}
		}
	}
	for (unsigned d = 0; d < 11; d++)
		assert_int_equal(seen[d], 2);
	assert_int_equal(learn_batch_draw(data, &(struct learn_key){ .worker = 3 }, 2, batch),
			 -EINVAL);
	learn_batch_destroy(batch);
	learn_data_close(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_bag_becomes_documents, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(a_bag_may_be_packed, tmp_setup, tmp_teardown),
		cmocka_unit_test_setup_teardown(what_is_malformed_is_refused_in_one_line, tmp_setup,
						tmp_teardown),
		cmocka_unit_test_setup_teardown(a_vocabulary_must_be_of_the_bag, tmp_setup,
						tmp_teardown),
		cmocka_unit_test_setup_teardown(a_refusal_leaves_no_memory_behind, tmp_setup,
						tmp_teardown),
		cmocka_unit_test(made_documents_are_a_function_of_their_specification),
		cmocka_unit_test(words_occur_as_often_as_was_planted),
		cmocka_unit_test(workers_share_documents_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
