/* SPDX-License-Identifier: BSD-3-Clause */

/* wrap.h -- names that the linker makes: __wrap_x stands for x, __real_x is what x was */
#ifndef OL_TESTS_SUPPORT_WRAP_H
#define OL_TESTS_SUPPORT_WRAP_H

#include <stddef.h> /* size_t: most that is wrapped takes one */

/*
 * The head of a __wrap_x, or with a ; its declaration. CMake makes --wrap=x of every line of a
 * program's sources that begins with it, so type and name are on that line.
 */
#define WRAP(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

#endif /* OL_TESTS_SUPPORT_WRAP_H */
