/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * conf_test.c -- every source sets its values, later sources win, and bad input gets one line
 */
#include "base/conf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum mood {
	MOOD_CALM = 7,
	MOOD_WILD = 9
};

struct settings {
	uint32_t workers;
	uint64_t seed;
	double lr;
	bool verbose;
	const char *listen;
	const char *job_key;
	int mood;
	uint64_t ring_bytes;
	uint64_t lease_ns;
	uint32_t any_count;
};

static const struct ol_conf_choice moods[] = {
	{ "calm", MOOD_CALM },
	{ "wild", MOOD_WILD },
	{ NULL, 0 },
};

#define AT(member) .offset = offsetof(struct settings, member)

static const struct ol_conf_field fields[] = {
	{ .type = OL_CONF_GROUP, .help = "the job" },
	{ .name = "workers",
	  .dflt = "1",
	  .help = "how many",
	  .type = OL_CONF_U32,
	  AT(workers),
	  .min = 1,
	  .max = 64 },
	{ .name = "seed", .dflt = "1", .help = "of all", .type = OL_CONF_U64, AT(seed) },
	{ .name = "lr", .dflt = "0.1", .help = "step", .type = OL_CONF_F64, AT(lr), .f64_max = 10 },
	{ .name = "verbose", .dflt = "false", .help = "talk", .type = OL_CONF_BOOL, AT(verbose) },
	{ .name = "listen", .help = "where", .type = OL_CONF_STR, AT(listen) },
	{ .name = "job_key", .help = "k", .type = OL_CONF_STR, AT(job_key), .secret = true },
	{ .name = "mood",
	  .dflt = "calm",
	  .type = OL_CONF_CHOICE,
	  AT(mood),
	  .help = "of the weather",
	  .choices = moods },
	{ .name = "ring_size",
	  .dflt = "64KiB",
	  .type = OL_CONF_SIZE,
	  AT(ring_bytes),
	  .help = "bytes of a ring, and a text that is long enough to be wrapped onto a second line",
	  .min = 4096,
	  .max = UINT64_C(1) << 30 },
	{ .name = "lease", .dflt = "20ms", .help = "time", .type = OL_CONF_DURATION, AT(lease_ns) },
	{ .name = "any_count", .dflt = "0", .help = "n", .type = OL_CONF_U32, AT(any_count) },
};

static const struct ol_conf_spec spec = {
	.program = "outlast train",
	.purpose = "Trains.",
	.arguments = "[SERVER]",
	.examples = "  outlast train --workers 4\n",
	.fields = fields,
	.field_count = sizeof(fields) / sizeof(fields[0]),
	.arguments_max = 1,
};

static struct settings settings;
static struct ol_conf *conf;

static int setup(void **state)
{
	(void)state;
	memset(&settings, 0xa5, sizeof(settings));
	clearenv();
	return ol_conf_create(&spec, &settings, &conf);
}

static int teardown(void **state)
{
	(void)state;
	ol_conf_destroy(conf);
	return 0;
}

/* Words as a command line; NULL ends them. */
static int load(const char *word, ...)
{
	char *argv[16];
	int argc = 0;
	va_list words;

	argv[argc++] = strdup("program");
	va_start(words, word);
	for (; word != NULL && argc < 15; word = va_arg(words, const char *))
		argv[argc++] = strdup(word);
	va_end(words);
	argv[argc] = NULL;
	int rc = ol_conf_load(conf, argc, argv);

	for (int i = 0; i < argc; i++)
		free(argv[i]);
	return rc;
}

static int text(const char *lines)
{
	return ol_conf_load_text(conf, "job.conf", lines, strlen(lines));
}

#define assert_refused(call, line) \
	do { \
		assert_int_equal((call), -EINVAL); \
		assert_string_equal(ol_conf_error(conf), (line)); \
	} while (0)

static void every_member_gets_its_default(void **state)
{
	(void)state;
	assert_int_equal(load(NULL), 0);
	assert_int_equal(settings.workers, 1);
	assert_int_equal(settings.seed, 1);
	assert_true(settings.lr > 0.0999 && settings.lr < 0.1001);
	assert_false(settings.verbose);
	assert_null(settings.listen);
	assert_int_equal(settings.mood, MOOD_CALM);
	assert_int_equal(settings.ring_bytes, 65536);
	assert_int_equal(settings.lease_ns, 20000000);
	assert_false(ol_conf_is_set(conf, "workers"));
}

static void a_flag_takes_its_value_behind_an_equals_sign_or_as_the_next_word(void **state)
{
	(void)state;
	assert_int_equal(load("--workers=4", "--ring-size", "1MiB", "--listen=a=b", "--mood",
			      "wild", "--seed=18446744073709551615", "--lr", "1e-3", NULL),
			 0);
	assert_int_equal(settings.workers, 4);
	assert_int_equal(settings.ring_bytes, 1 << 20);
	assert_string_equal(settings.listen, "a=b");
	assert_int_equal(settings.mood, MOOD_WILD);
	assert_true(settings.seed == UINT64_MAX);
	assert_true(settings.lr > 0.000999 && settings.lr < 0.001001);
	assert_true(ol_conf_is_set(conf, "workers"));
}

static void a_switch_is_on_off_or_as_told(void **state)
{
	(void)state;
	assert_int_equal(load("--verbose", NULL), 0);
	assert_true(settings.verbose);
	assert_int_equal(load("--no-verbose", NULL), 0);
	assert_false(settings.verbose);
	assert_int_equal(load("--verbose=yes", NULL), 0);
	assert_true(settings.verbose);
	assert_refused(load("--no-verbose=yes", NULL),
		       "outlast train: --no-verbose: takes no value");
	assert_refused(load("--verbose=maybe", NULL),
		       "outlast train: --verbose: \"maybe\" is not true or false");
}

/* A place is that of the file that a value is from, whatever was read after it */
static void of_several_files_the_later_one_wins_and_each_value_names_its_own(void **state)
{
	char first[] = "/tmp/conf_test.XXXXXX", second[] = "/tmp/conf_test.XXXXXX";
	char want[64], at[64];
	FILE *file;

	(void)state;
	file = fdopen(mkstemp(first), "w");
	assert_non_null(file);
	fprintf(file, "workers = 2\nseed = 2\n");
	fclose(file);
	file = fdopen(mkstemp(second), "w");
	assert_non_null(file);
	fprintf(file, "\nseed = 3\n");
	fclose(file);
	assert_int_equal(load("--config", first, "--config", second, NULL), 0);
	assert_int_equal(settings.workers, 2);
	assert_int_equal(settings.seed, 3);
	ol_conf_source(conf, 1, at, sizeof(at));
	snprintf(want, sizeof(want), "%s:1: workers", first);
	assert_string_equal(at, want);
	ol_conf_source(conf, 2, at, sizeof(at));
	snprintf(want, sizeof(want), "%s:2: seed", second);
	assert_string_equal(at, want);
	assert_int_equal(load("--config", second, "--config", first, NULL), 0);
	assert_int_equal(settings.seed, 2);
	assert_refused(load("--config=a", "--config=a", "--config=a", "--config=a", "--config=a",
			    "--config=a", "--config=a", "--config=a", "--config=a", NULL),
		       "outlast train: --config: at most 8 files");
	unlink(first);
	unlink(second);
}

static void later_sources_win(void **state)
{
	char path[] = "/tmp/conf_test.XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");

	(void)state;
	assert_non_null(file);
	fprintf(file, "workers = 2\nseed = 2\nlr = 2\n");
	fclose(file);
	setenv("OUTLAST_SEED", "3", 1);
	setenv("OUTLAST_LR", "3", 1);
	setenv("OUTLAST_MOOD", "", 1);
	assert_int_equal(load("--lr", "4", "--config", path, NULL), 0);
	assert_int_equal(settings.workers, 2);
	assert_int_equal(settings.seed, 3);
	assert_true(settings.lr > 3.9 && settings.lr < 4.1);
	assert_int_equal(settings.mood, MOOD_CALM);

	setenv("OUTLAST_CONFIG", path, 1);
	settings.workers = 1;
	assert_int_equal(load(NULL), 0);
	assert_int_equal(settings.workers, 2);
	unlink(path);
}

static void a_file_has_comments_blanks_quotes_and_both_spellings(void **state)
{
	(void)state;
	assert_int_equal(text("# a comment\n\n  workers=3 # more\n\tring-size = 8KiB\t\r\n"
			      "listen = \"a # b \" # c\njob_key = x#y\nverbose = on"),
			 0);
	assert_int_equal(settings.workers, 3);
	assert_int_equal(settings.ring_bytes, 8192);
	assert_string_equal(settings.listen, "a # b ");
	assert_string_equal(settings.job_key, "x#y");
	assert_true(settings.verbose);
	assert_int_equal(text("listen = \"\"\n"), 0);
	assert_string_equal(settings.listen, "");
}

static void a_bad_file_names_its_line(void **state)
{
	(void)state;
	assert_refused(text("\nworkers = abc\n"), "outlast train: job.conf:2: workers: \"abc\" is "
						  "not a number between 1 and 64");
	assert_refused(text("\n\nworker = 1\n"),
		       "outlast train: job.conf:3: worker: no such setting; did you mean workers?");
	assert_refused(text("workers\n"),
		       "outlast train: job.conf:1: neither \"name = value\" nor a "
		       "# comment");
	assert_refused(
		text("listen = \"a\n"),
		"outlast train: job.conf:1: listen: a quote is left open, or text follows it");
	assert_refused(
		text("listen = \"a\" b\n"),
		"outlast train: job.conf:1: listen: a quote is left open, or text follows it");
	assert_int_equal(ol_conf_load_text(conf, "job.conf", "workers = 1\0\n", 13), -EINVAL);
	assert_string_equal(ol_conf_error(conf),
			    "outlast train: job.conf:1: a zero byte; settings are text");
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
	(void)state;
	assert_int_equal(load("--config=/nowhere/job.conf", NULL), -ENOENT);
	assert_string_equal(ol_conf_error(conf),
			    "outlast train: /nowhere/job.conf: No such file or directory");
	assert_int_equal(load("--config=/", NULL), -EISDIR);
	assert_refused(load("--config", NULL), "outlast train: --config: needs a value");
}

static void a_bad_variable_is_named(void **state)
{
	(void)state;
	setenv("OUTLAST_RING_SIZE", "64KB", 1);
	assert_refused(load(NULL),
		       "outlast train: OUTLAST_RING_SIZE: \"64KB\" is not a size between "
		       "4KiB and 1GiB, such as 64KiB");
}

static void a_number_must_be_one_and_in_range(void **state)
{
	static const char *const bad[] = { "abc",
					   "",
					   "0",
					   "65",
					   "-1",
					   "+1",
					   " 1",
					   "1 ",
					   "1.0",
					   "0x1",
					   "18446744073709551617",
					   "99999999999999999999" };
	char line[160];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line),
			 "outlast train: --workers: \"%s\" is not a number between 1 and 64",
			 bad[i]);
		assert_refused(load("--workers", bad[i], NULL), line);
	}
	assert_int_equal(settings.workers, 1);
	assert_int_equal(load("--workers", "64", "--any-count=4294967295", NULL), 0);
	assert_true(settings.any_count == UINT32_MAX);
	assert_refused(load("--any-count=4294967296", NULL),
		       "outlast train: --any-count: \"4294967296\" is not a whole number up to "
		       "4294967295");
	assert_refused(load("--seed=18446744073709551616", NULL),
		       "outlast train: --seed: \"18446744073709551616\" is not a whole number");
}

static void a_real_number_must_be_finite_and_in_range(void **state)
{
	static const char *const bad[] = { "nan", "inf", "1e999", "-0.1", "10.1", "", "1x", " 1" };
	char line[160];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line),
			 "outlast train: --lr: \"%s\" is not a number between 0 and 10", bad[i]);
		assert_refused(load("--lr", bad[i], NULL), line);
	}
}

static void sizes_and_times_have_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} sizes[] = { { "4096", 4096 },
		      { "4096B", 4096 },
		      { "1GiB", 1 << 30 },
		      { "1.5MiB", 1572864 },
		      { "0.25GiB", 268435456 } };
	static const struct {
		const char *text;
		uint64_t ns;
	} times[] = { { "0", 0 },
		      { "7ns", 7 },
		      { "200us", 200000 },
		      { "1.5s", 1500000000 },
		      { "2min", UINT64_C(120000000000) },
		      { "1h", UINT64_C(3600000000000) } };
	static const char *const bad[] = { "20",  "ms",    "20 ms",        "20MS",   "-1s",
					   "1.s", "1.5ns", "99999999999h", "1.2.3s", "0.0" };
	char line[160];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(load("--ring-size", sizes[i].text, NULL), 0);
		assert_true(settings.ring_bytes == sizes[i].bytes);
	}
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		assert_int_equal(load("--lease", times[i].text, NULL), 0);
		assert_true(settings.lease_ns == times[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(line, sizeof(line),
			 "outlast train: --lease: \"%s\" is not a time, such as 20ms", bad[i]);
		assert_refused(load("--lease", bad[i], NULL), line);
	}
}

static void a_choice_lists_what_there_is(void **state)
{
	(void)state;
	assert_refused(load("--mood=grim", NULL),
		       "outlast train: --mood: \"grim\" is not one of calm, wild");
}

static void an_unknown_option_names_the_nearest(void **state)
{
	(void)state;
	assert_refused(load("--wokers=3", NULL),
		       "outlast train: --wokers: no such option; did you mean --workers?");
	assert_refused(load("--ring_sise", "3", NULL),
		       "outlast train: --ring_sise: no such option; did you mean --ring-size?");
	assert_refused(load("--quite-different", NULL),
		       "outlast train: --quite-different: no such option; --help lists them");
	assert_refused(load("-x", NULL), "outlast train: -x: no such option; --help lists them");
	assert_refused(load("--no-workers", NULL),
		       "outlast train: --no-workers: no such option; did you mean --workers?");
}

static void a_missing_value_is_not_taken_from_the_next_option(void **state)
{
	(void)state;
	assert_refused(load("--workers", "--verbose", NULL),
		       "outlast train: --workers: needs a value");
	assert_refused(load("--workers", NULL), "outlast train: --workers: needs a value");
}

static void words_are_kept_up_to_the_limit(void **state)
{
	(void)state;
	assert_refused(load("a", "b", NULL),
		       "outlast train: unexpected argument \"b\"; --help shows the usage");
	assert_int_equal(load("--", "--workers", NULL), 0);
	assert_null(ol_conf_argument(conf, 1));
}

static void a_strange_value_is_shown_on_one_line(void **state)
{
	char longest[5000];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[0] = '\n';
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(load("--workers", longest, NULL), -EINVAL);
	assert_null(strchr(ol_conf_error(conf), '\n'));
	assert_non_null(strstr(ol_conf_error(conf), "...\" is not a number between 1 and 64"));
	memcpy(longest, "--", 2);
	assert_int_equal(load(longest, NULL), -EINVAL);
	assert_non_null(strstr(ol_conf_error(conf), "no such option; --help lists them"));
}

static void help_is_asked_for_not_printed(void **state)
{
	(void)state;
	assert_int_equal(load("--workers=900", "--help", NULL), 1);
	assert_int_equal(load("-h", NULL), 1);
	assert_int_equal(load("--", "--help", NULL), 0);
}

static char *printed(void (*print)(const struct ol_conf *, FILE *))
{
	char *buf = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&buf, &bytes);

	assert_non_null(out);
	print(conf, out);
	fclose(out);
	return buf;
}

static void help_shows_every_setting_within_the_columns(void **state)
{
	char *help = printed(ol_conf_print_help), *line, *rest = help;

	(void)state;
	assert_non_null(strstr(help, "usage: outlast train [OPTION...] [SERVER]\n"));
	assert_non_null(strstr(help, "\nthe job\n"));
	assert_non_null(strstr(help, "  --workers N       1        how many (1 to 64)\n"));
	assert_non_null(strstr(help, "  --listen TEXT     -        where\n"));
	assert_non_null(strstr(help, "  --mood NAME       calm     of the weather (calm, wild)\n"));
	assert_non_null(strstr(help, "(4KiB to 1GiB)"));
	assert_non_null(strstr(help, "examples:\n  outlast train --workers 4\n"));
	while ((line = strsep(&rest, "\n")) != NULL)
		assert_true(strlen(line) <= 100);
	free(help);
}

static void a_secret_leaves_the_environment_when_it_is_read(void **state)
{
	(void)state;
	setenv("OUTLAST_JOB_KEY", "hush", 1);
	setenv("OUTLAST_WORKERS", "7", 1);
	assert_int_equal(load(NULL), 0);
	assert_string_equal(settings.job_key, "hush");
	assert_null(getenv("OUTLAST_JOB_KEY"));
	assert_string_equal(getenv("OUTLAST_WORKERS"), "7");
	unsetenv("OUTLAST_WORKERS");
}

static void what_is_printed_reads_back_as_the_same(void **state)
{
	struct settings before;
	char *print;

	(void)state;
	assert_int_equal(load("--workers=5", "--lr=0.30000000000000004", "--listen= # x ",
			      "--ring-size=12KiB", "--lease=1500us", "--mood=wild", "--verbose",
			      "--job-key=hush", NULL),
			 0);
	before = settings;
	print = printed(ol_conf_print);
	assert_null(strstr(print, "hush"));
	assert_non_null(strstr(print, "workers = 5 # command line\n"));
	assert_non_null(strstr(print, "lease = 1500us"));

	teardown(state);
	assert_int_equal(ol_conf_create(&spec, &settings, &conf), 0);
	assert_int_equal(text(print), 0);
	assert_string_equal(settings.listen, " # x ");
	assert_int_equal(settings.workers, before.workers);
	assert_memory_equal(&settings.lr, &before.lr, sizeof(before.lr));
	assert_int_equal(settings.ring_bytes, before.ring_bytes);
	assert_int_equal(settings.lease_ns, before.lease_ns);
	assert_int_equal(settings.mood, before.mood);
	assert_true(settings.verbose);
	free(print);
}

static void a_program_sets_and_refuses_like_the_parser(void **state)
{
	(void)state;
	assert_int_equal(ol_conf_set(conf, "ring-size", "4KiB"), 0);
	assert_int_equal(settings.ring_bytes, 4096);
	assert_int_equal(ol_conf_set(conf, "listen", NULL), 0);
	assert_refused(ol_conf_set(conf, "wrkers", "1"),
		       "outlast train: wrkers: no such setting; did you mean workers?");
	assert_int_equal(text("\nworkers = 9\njob_key = hush\n"), 0);
	assert_refused(
		ol_conf_fail(conf, "workers", "is more than there are processors"),
		"outlast train: job.conf:2: workers: \"9\" is more than there are processors");
	assert_refused(ol_conf_fail(conf, "job_key", "is too short"),
		       "outlast train: job.conf:3: job_key: is too short");
}

static void a_wrong_table_is_refused(void **state)
{
	static const struct ol_conf_field twice[] = {
		{ .name = "a", .dflt = "1", .type = OL_CONF_U32 },
		{ .name = "a", .dflt = "1", .type = OL_CONF_U32 },
	};
	static const struct ol_conf_field outside[] = {
		{ .name = "a", .dflt = "9", .type = OL_CONF_U32, .max = 8 },
	};
	static const struct ol_conf_field untyped[] = {
		{ .name = "a", .dflt = "9" },
	};
	struct ol_conf_spec bad = {
		.program = "p", .purpose = "", .fields = twice, .field_count = 2
	};
	struct ol_conf *none = NULL;
	uint32_t target;

	(void)state;
	assert_int_equal(ol_conf_create(&bad, &target, &none), -EINVAL);
	bad.fields = outside;
	bad.field_count = 1;
	assert_int_equal(ol_conf_create(&bad, &target, &none), -EINVAL);
	bad.fields = untyped;
	assert_int_equal(ol_conf_create(&bad, &target, &none), -EINVAL);
	assert_null(none);
	ol_conf_destroy(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void words_of_a_list_go_to_their_members(void **state)
{
	static const struct {
		const char *text;
		const char *says; /* part of the line; NULL: it is taken */
	} cases[] = {
		{ "workers=3,lr=0.5", NULL },
		{ "lr=2,listen=@job0,mood=wild", NULL },
		{ "", "\"\" is none of workers=, lr=, listen=, mood=" },
		{ "workers", "\"workers\" is none of" },
		{ "workers=3,", "\"\" is none of" },
		{ "lrs=1", "\"lrs=1\" is none of" },
		{ "lr=1,workers=65",
		  "\"workers=65\" should have a number between 1 and 64 behind workers=" },
		{ "mood=glad,lr=1", "\"mood=glad\" should have one of calm, wild behind mood=" },
		{ "lr=0.00000000000000000000000000000000000000000000000000000000000000001",
		  "behind lr=" },
	};
	static const struct ol_conf_field list[] = {
		{ .name = "workers", .type = OL_CONF_U32, AT(workers), .min = 1, .max = 64 },
		{ .name = "lr", .type = OL_CONF_F64, AT(lr), .f64_max = 10 },
		{ .name = "listen", .type = OL_CONF_STR, AT(listen) },
		{ .name = "mood", .type = OL_CONF_CHOICE, AT(mood), .choices = moods },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct settings set = { .workers = 9, .lr = 9.0, .mood = 99 };
		char err[160] = "";
		int rc = ol_conf_words(OL_FIELDS(list), cases[i].text, &set, err, sizeof(err));

		assert_int_equal(rc, cases[i].says == NULL ? 0 : -EINVAL);
		if (cases[i].says != NULL && strstr(err, cases[i].says) == NULL)
			fail_msg("\"%s\": said \"%s\"", cases[i].text, err);
		if (i == 0)
			assert_true(set.workers == 3 && set.lr == 0.5 && set.mood == 99);
		if (i == 1)
			assert_true(set.workers == 9 && set.lr == 2.0 && set.mood == MOOD_WILD &&
				    set.listen == cases[i].text + strlen("lr=2,listen="));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_member_gets_its_default),
		TEST(a_flag_takes_its_value_behind_an_equals_sign_or_as_the_next_word),
		TEST(a_switch_is_on_off_or_as_told),
		TEST(of_several_files_the_later_one_wins_and_each_value_names_its_own),
		TEST(later_sources_win),
		TEST(a_file_has_comments_blanks_quotes_and_both_spellings),
		TEST(a_bad_file_names_its_line),
		TEST(a_file_that_cannot_be_read_is_named),
		TEST(a_bad_variable_is_named),
		TEST(a_number_must_be_one_and_in_range),
		TEST(a_real_number_must_be_finite_and_in_range),
		TEST(sizes_and_times_have_units),
		TEST(a_choice_lists_what_there_is),
		TEST(an_unknown_option_names_the_nearest),
		TEST(a_missing_value_is_not_taken_from_the_next_option),
		TEST(words_are_kept_up_to_the_limit),
		TEST(a_strange_value_is_shown_on_one_line),
		TEST(help_is_asked_for_not_printed),
		TEST(help_shows_every_setting_within_the_columns),
		TEST(a_secret_leaves_the_environment_when_it_is_read),
		TEST(what_is_printed_reads_back_as_the_same),
		TEST(a_program_sets_and_refuses_like_the_parser),
		TEST(a_wrong_table_is_refused),
		TEST(words_of_a_list_go_to_their_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
