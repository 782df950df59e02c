/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * flush.c -- in builds with OL_COVERAGE: a child that ends by _exit() writes its coverage counts first
 */

#include <stdlib.h>
#include <unistd.h>

void __gcov_dump(void);
void __wrap__exit(int status) __attribute__((noreturn));
void __real__exit(int status) __attribute__((noreturn));

void __wrap__exit(int status)
{
	__gcov_dump();
	__real__exit(status);
}
