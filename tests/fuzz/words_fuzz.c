/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * words_fuzz.c -- any words on a command line are refused with one line, or give a value within the
 * limits of the function that reads them, and the same value when read again
 *
 * The first byte selects the function that reads the rest.
 */

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/size.h"
#include "cmd/consistency.h"
#include "cmd/counters.h"
#include "cmd/delay.h"
#include "cmd/durable.h"
#include "cmd/job.h"
#include "cmd/kill.h"
#include "fuzz/folder.h"
#include "support/fuzz.h"

enum {
	TEXT_MAX = 4096
};

static void one_line(const char *err)
{
	must(err[0] != '\0' && strchr(err, '\n') == NULL);
}

static void try_kills(const char *text)
{
	struct ol_kills kills, again;
	char err[512] = "";

	if (ol_kills_parse(text, &kills, err, sizeof(err)) != 0) {
		one_line(err);
		return;
	}
	must(kills.count <= OL_KILLS_MAX);
	for (uint32_t i = 0; i < kills.count; i++) {
		const struct ol_kill *kill = &kills.list[i];

		must(ol_kills_parse(kill->text, &again, err, sizeof(err)) == 0);
		must(again.count == 1 && memcmp(&again.list[0], kill, sizeof(*kill)) == 0);
		must(ol_kill_role(kill) != NULL);
		(void)ol_kill_due(kill, kill->at_ns, kill->at_step, kill->loss, NAN);
	}
}

static void try_sizes(const char *text)
{
	char err[512] = "", word[BENCH_SIZE_TEXT_MAX];
	struct bench_sizes sizes;

	if (bench_sizes_parse(text, &sizes, err, sizeof(err)) != 0) {
		one_line(err);
		return;
	}
	must(sizes.count >= 1 && sizes.count <= BENCH_SIZES_MAX);
	for (unsigned i = 0; i < sizes.count; i++) {
		must(sizes.bytes[i] >= BENCH_SIZE_MIN && sizes.bytes[i] <= BENCH_SIZE_MAX &&
		     sizes.bytes[i] % BENCH_SIZE_MIN == 0);
		bench_size_format(sizes.bytes[i], word);
		must(strlen(word) < sizeof(word));
	}
}

static void try_checkpoints(const char *text)
{
	struct ol_ckpt_set set;
	char err[512] = "";

	if (ol_ckpt_set_parse(text, &set, err, sizeof(err)) != 0) {
		one_line(err);
		return;
	}
	must((set.steps == 0) != (set.ms == 0) && set.keep >= 1 && set.keep <= OL_CKPT_KEEP_MAX);
	must(memchr(set.dir, '\0', sizeof(set.dir)) != NULL);
}

static void try_shape(const char *text)
{
	struct learn_shape shape;
	uint64_t features;

	if (ol_shape_parse(text, &shape) != 0)
		return;
	features = shape.kind == LEARN_RATINGS ? (uint64_t)shape.rows + shape.cols
					       : (uint64_t)shape.rows * shape.cols;
	must(shape.rows >= 1 && shape.cols >= 1 && features == shape.features &&
	     shape.features <= LEARN_FEATURES_MAX);
	must(shape.kind != LEARN_SAMPLES ||
	     (shape.classes >= 2 && shape.classes <= LEARN_CLASSES_MAX));
}

static void try_duration(const char *text)
{
	uint64_t ns;

	if (ol_duration_parse(text, &ns) == 0)
		must(ns <= UINT64_C(366) * 24 * 3600 * 1000000000);
}

/* What a process that was started says of its server */
static void try_counters(const char *text)
{
	json_t *json = json_loads(text, 0, NULL), *made;
	struct ol_server_stat stat, again;

	if (json == NULL)
		return;
	ol_counters_take(json, &stat);
	made = ol_counters_json(&stat);
	must(made != NULL);
	ol_counters_take(made, &again);
	must(again.version == stat.version && again.applied == stat.applied);
	json_decref(made);
	json_decref(json);
}

static void delay_check(const char *text)
{
	struct ol_delay delay;
	char err[OL_DELAY_ERR_MAX] = "";

	if (ol_delay_parse(text, &delay, err, sizeof(err)) != 0) {
		one_line(err);
		return;
	}
	for (uint32_t i = 0; i < 4; i++) {
		struct learn_key key = { .worker = i, .step = i * UINT64_C(1000000007) };
		double drawn = ol_delay_draw(&delay, &key);

		must(isfinite(drawn) && drawn >= 0.0);
		must(ol_delay_factor(&delay, i, 4, 60.0) >= 1.0);
	}
	ol_delay_fini(&delay);
}

static void try_delay(const char *text)
{
	if (strstr(text, "trace:") == NULL) /* that names a file: any that there is */
		delay_check(text);
}

static void try_trace(const char *text)
{
	static const char *const names[] = { "trace" };
	char spec[128];

	snprintf(spec, sizeof(spec), "trace:%s/trace", folder_make(names, 1));
	folder_write(0, text, strlen(text));
	delay_check(spec);
}

static void try_consistency(const char *text)
{
	struct ol_consistency_set set;
	char err[512] = "";

	if (ol_consistency_parse(text, 4, &set, err, sizeof(err)) != 0) {
		one_line(err);
		return;
	}
	must(set.k <= 4 && set.staleness <= OL_STALENESS_MAX);
	must(!ol_consistency_all(&set) || !ol_consistency_backup(&set));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static void (*const readers[])(const char *) = { try_kills, try_sizes,    try_checkpoints,
							 try_shape, try_duration, try_counters,
							 try_delay, try_trace,    try_consistency };
	char *text;

	if (bytes == 0 || bytes > TEXT_MAX || data[0] >= sizeof(readers) / sizeof(readers[0]))
		return 0;
	text = malloc(bytes); /* of its own size, so that a sanitizer sees a read behind the end */
	must(text != NULL);
	memcpy(text, data + 1, bytes - 1);
	for (size_t i = 0; i < bytes - 1 && readers[data[0]] != try_trace; i++) {
		if (data[i + 1] < ' ') /* an error line shows a word as it is */
			text[i] = ' ';
	}
	text[bytes - 1] = '\0';
	readers[data[0]](text);
	free(text);
	return 0;
}
