/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * fuzz.h -- what a fuzz target defines; libFuzzer or fuzz/replay.c calls it
 */
#ifndef OL_TESTS_FUZZ_H
#define OL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* data is exactly `bytes` long; returns 0 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif /* OL_TESTS_FUZZ_H */
