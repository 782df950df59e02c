/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * blas_test.c -- products of any shape are right with any kernels, and a program that calls
 * learn_blas_start() gets the right kernels and no threads that it did not ask for
 *
 * That program is this one, executed as "blas_test probe": it prints the result on stdout.
 */

#include "learn/blas.h"

#include <cblas.h>
#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "unit/learn/learn_util.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED true
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

enum {
	DIM = 96,
	CPU_S = 10, /* seconds */
	SPARE_BYTES = 4 << 20, /* for whatever else takes some */
	GUARD = 16, /* floats after each output that must stay as they are */
	SAID_LEN = 200
};

/* What a probe says of itself. */
struct said {
	char core[40];
	int blas_threads;
	int threads;
	char word[40]; /* its argument */
};

static int thread_count(void)
{
	DIR *dir = opendir("/proc/self/task");
	int count = 0;

	if (dir == NULL)
		return -1;
	while (readdir(dir) != NULL)
		count++;
	(void)closedir(dir);
	return count - 2; /* . and .. */
}

static int probe(char **argv)
{
	learn_blas_start(argv);
	printf("%s %d %d %s\n", openblas_get_corename(), openblas_get_num_threads(), thread_count(),
	       argv[2]);
	return 0;
}

/* env_set -- value NULL: not in the environment */
static void env_set(const char *name, const char *value)
{
	if ((value != NULL ? setenv(name, value, 1) : unsetenv(name)) != 0)
		_exit(1);
}

static struct said probe_run(const char *coretype, const char *threads)
{
	struct said said;
	char text[SAID_LEN] = "";
	size_t len = 0;
	ssize_t got;
	int status, fds[2];
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		env_set("OPENBLAS_CORETYPE", coretype);
		env_set("OPENBLAS_NUM_THREADS", threads);
		(void)dup2(fds[1], STDOUT_FILENO);
		(void)execl("/proc/self/exe", "blas_test", "probe", "a-word", (char *)NULL);
		_exit(1);
	}
	(void)close(fds[1]);
	while ((got = read(fds[0], text + len, SAID_LEN - 1 - len)) > 0)
		len += (size_t)got;
	(void)close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(sscanf(text, "%39s %d %d %39s", said.core, &said.blas_threads,
				&said.threads, said.word),
			 4);
	return said;
}

static void a_program_gets_the_kernels_of_its_processor(void **state)
{
	struct said said = probe_run(NULL, NULL);
	bool avx2 = false, avx512 = false;

	(void)state;
#if defined(__x86_64__)
	avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
		 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
		 __builtin_cpu_supports("avx512vl");
#endif
	assert_null(learn_blas_coretype(said.core, avx2, avx512));
	assert_string_equal(said.word, "a-word");
}

/* A sanitizer may have a thread of its own: the program that was told beforehand has it too. */
static void no_pool_of_threads_is_started(void **state)
{
	struct said said = probe_run(NULL, NULL);
	struct said told = probe_run(NULL, "1");

	(void)state;
	assert_int_equal(said.blas_threads, 1);
	assert_int_equal(said.threads, told.threads);
}

static void what_the_user_has_set_stays(void **state)
{
	struct said said = probe_run("Nehalem", "2");

	(void)state;
#if defined(__x86_64__)
	assert_string_equal(said.core, "Nehalem");
#endif
	assert_int_equal(said.blas_threads, 1);
}

static void older_cores_are_replaced_and_no_others(void **state)
{
	(void)state;
	assert_string_equal(learn_blas_coretype("Prescott", true, true), "SkylakeX");
	assert_string_equal(learn_blas_coretype("Haswell", true, true), "SkylakeX");
	assert_string_equal(learn_blas_coretype("Zen", true, true), "SkylakeX");
	assert_string_equal(learn_blas_coretype("Prescott", true, false), "Haswell");
	assert_string_equal(learn_blas_coretype("Sandybridge", true, false), "Haswell");
	assert_null(learn_blas_coretype("Prescott", false, false));
	assert_null(learn_blas_coretype("Haswell", true, false));
	assert_null(learn_blas_coretype("Zen", true, false));
	assert_null(learn_blas_coretype("SkylakeX", true, true));
	assert_null(learn_blas_coretype("cooperlake", true, true));
	assert_null(learn_blas_coretype("SapphireRapids", true, true));
}

static float *noise(size_t count, uint32_t seed)
{
	float *p = floats(count);

	for (size_t i = 0; i < count; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
	}
	return p;
}

/* product_case -- one shape: against sums in double; where nothing is kept, c is full of NaN */
static void product_case(unsigned turned, size_t m, size_t n, size_t k, float keep)
{
	float *a = noise(m * k, 1);
	float *b = noise(k * n, 2);
	float *before = noise(m * n + GUARD, 3);
	float *c = noise(m * n + GUARD, 3);

	for (size_t i = 0; keep == 0.0f && i < m * n; i++)
		c[i] = NAN;
	learn_blas_product(turned, m, n, k, a, b, keep, c);
	for (size_t i = 0; i < m * n; i++) {
		double want = (double)keep * (double)before[i];

		for (size_t j = 0; j < k; j++) {
			size_t row = i / n;
			size_t col = i % n;
			float x = (turned & LEARN_TURNED_A) != 0 ? a[j * m + row] : a[row * k + j];
			float y = (turned & LEARN_TURNED_B) != 0 ? b[col * k + j] : b[j * n + col];

			want += (double)x * (double)y;
		}
		assert_true(fabs(want - (double)c[i]) < 1e-4);
	}
	assert_memory_equal(c + m * n, before + m * n, GUARD * sizeof(*c));
	free(a);
	free(b);
	free(before);
	free(c);
}

static void products_take_any_shape(void **state)
{
	static const size_t shapes[][3] = { { 1, 1, 1 },      { 1, 10, 37 },   { 7, 1, 5 },
					    { 17, 33, 65 },   { 784, 16, 9 },  { 9, 16, 784 },
					    { 196, 32, 144 }, { 32, 130, 300 } };

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		for (unsigned turned = 0; turned < 4; turned++) {
			product_case(turned, shapes[i][0], shapes[i][1], shapes[i][2], 0);
			product_case(turned, shapes[i][0], shapes[i][1], shapes[i][2], 1);
		}
	}
}

/* Bytes of addresses that this process has */
static size_t addresses(void)
{
	unsigned long pages = 0;
	FILE *in = fopen("/proc/self/statm", "re");

	if (in == NULL || fscanf(in, "%lu", &pages) != 1)
		_exit(1);
	(void)fclose(in);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* So many more from now on */
static void addresses_limit(size_t more)
{
	struct rlimit limit = { .rlim_cur = addresses() + more, .rlim_max = RLIM_INFINITY };

	if (setrlimit(RLIMIT_AS, &limit) != 0)
		_exit(1);
}

/*
 * In a process that has made no product: half of what OpenBLAS takes is refused, all of it is
 * enough, and what comes later needs no more. Where that does not hold OpenBLAS never returns.
 */
static int reserve_probe(void)
{
	const struct rlimit cpu = { .rlim_cur = CPU_S, .rlim_max = CPU_S };
	float a[DIM * DIM] = { 0 }, c[DIM * DIM];

	if (setrlimit(RLIMIT_CPU, &cpu) != 0)
		return 1;
	openblas_set_num_threads(1);
	addresses_limit(LEARN_BLAS_BYTES / 2);
	if (learn_blas_reserve() != -ENOMEM)
		return 2;
	addresses_limit(LEARN_BLAS_BYTES + SPARE_BYTES);
	if (learn_blas_reserve() != 0)
		return 3;
	addresses_limit(SPARE_BYTES);
	learn_blas_product(LEARN_TURNED_NONE, DIM, DIM, DIM, a, a, 0, c);
	return 0;
}

static void without_memory_for_products_there_is_a_code_and_no_endless_loop(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (SANITIZED) /* its memory is not the program's */
		skip();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execl("/proc/self/exe", "blas_test", "reserve", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_gets_the_kernels_of_its_processor),
		cmocka_unit_test(no_pool_of_threads_is_started),
		cmocka_unit_test(what_the_user_has_set_stays),
		cmocka_unit_test(older_cores_are_replaced_and_no_others),
		cmocka_unit_test(products_take_any_shape),
		cmocka_unit_test(without_memory_for_products_there_is_a_code_and_no_endless_loop),
	};

	if (argc == 3 && strcmp(argv[1], "probe") == 0)
		return probe(argv);
	if (argc == 2 && strcmp(argv[1], "reserve") == 0)
		return reserve_probe();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
