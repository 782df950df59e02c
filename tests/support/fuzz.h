/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * fuzz.h -- the functions of a fuzz target, which libFuzzer or fuzz/replay.c calls, and its checks
 */
#ifndef OL_TESTS_FUZZ_H
#define OL_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* data is exactly `bytes` long; returns 0 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* must -- an input for which a promise is not kept ends the process, and is kept */
static inline void must(bool held)
{
	if (!held)
		abort();
}

/*
 * log_drop -- for ol_log_sink_set(): lines are made, as that is where what the other side says is
 * printed, and thrown away; none has another one in it
 */
static inline void log_drop(void *arg, enum ol_log_level level, const char *text)
{
	(void)arg;
	(void)level;
	must(strchr(text, '\n') == NULL);
}

#endif /* OL_TESTS_FUZZ_H */
