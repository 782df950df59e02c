/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * mutate.h -- the switch of mutants: all mutants are in the program, and at most one is on
 *
 * OL_MUTANT is the number of the active one. OL_MUTANT_HITS is a file with one byte a number, which
 * is set to 1 when the mutant is reached. mutants.py writes the calls into a copy of the sources.
 */
#ifndef OL_TESTS_MUTATE_H
#define OL_TESTS_MUTATE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One of each for a program or library, however many files include this. */
__attribute__((weak, visibility("hidden"))) unsigned ol_mutant_on;
__attribute__((weak, visibility("hidden"))) char *ol_mutant_hits;

/* By raw calls: simulations put their own open() and close() in between. */
__attribute__((constructor(101))) static void ol_mutant_start(void)
{
	const char *on = getenv("OL_MUTANT"), *hits = getenv("OL_MUTANT_HITS");
	const char *bytes = getenv("OL_MUTANT_BYTES");
	long fd;
	void *at;

	if (on != NULL)
		ol_mutant_on = (unsigned)strtoul(on, NULL, 10);
	if (hits == NULL || bytes == NULL || ol_mutant_hits != NULL)
		return;
	fd = syscall(SYS_openat, AT_FDCWD, hits, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return;
	at = (void *)syscall(SYS_mmap, NULL, strtoul(bytes, NULL, 10), PROT_READ | PROT_WRITE,
			     MAP_SHARED, fd, 0L);
	syscall(SYS_close, fd);
	if (at != MAP_FAILED)
		ol_mutant_hits = (char *)at;
}

static inline void ol_mutant_reached(unsigned id)
{
	if (__builtin_expect(ol_mutant_hits != NULL, 0))
		ol_mutant_hits[id] = 1;
}

/* ol_mutant_if -- a condition: `id` inverts it, `id` + 1 forces true, `id` + 2 forces false */
__attribute__((unused)) static inline bool ol_mutant_if(unsigned id, bool value)
{
	unsigned on = ol_mutant_on - id;

	ol_mutant_reached(id);
	if (__builtin_expect(on > 2, 1))
		return value;
	return on == 0 ? !value : on == 1;
}

/* ol_mutant_without -- is the call or assignment `id` left out? */
__attribute__((unused)) static inline bool ol_mutant_without(unsigned id)
{
	ol_mutant_reached(id);
	return __builtin_expect(ol_mutant_on == id, 0);
}

#endif /* OL_TESTS_MUTATE_H */
