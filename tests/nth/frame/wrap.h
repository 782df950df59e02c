/* SPDX-License-Identifier: BSD-3-Clause */

/* wrap.h -- names that the linker makes: __wrap_x stands for x, __real_x is what x was */
#ifndef OL_TESTS_NTH_FRAME_WRAP_H
#define OL_TESTS_NTH_FRAME_WRAP_H

#include "nth/frame/fail.h"

/* The head of a __wrap_x; CMake makes --wrap=x of every line that begins with it. */
#define WRAP(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

#endif /* OL_TESTS_NTH_FRAME_WRAP_H */
