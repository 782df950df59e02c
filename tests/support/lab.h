/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * lab.h -- shared by the hosts of a lab (tools/lab): a folder that cuts do not affect, and orders to
 * cut links and power
 */
#ifndef OL_TESTS_SUPPORT_LAB_H
#define OL_TESTS_SUPPORT_LAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* lab_write -- a file in the folder OL_OUT, whole or not at all: others look at it all the time */
void lab_write(const char *name, const char *text);

/* lab_read -- the text of a file there, cut to bytes with its 0; false: there is none */
bool lab_read(const char *name, char *text, size_t bytes);

bool lab_exists(const char *name);

/* lab_fault -- VERB of tools/lab/ctl for a host: cut, heal, poweroff … Blocks until it has
 * happened; when that was (CLOCK_MONOTONIC) */
uint64_t lab_fault(const char *verb, unsigned host);

#endif /* OL_TESTS_SUPPORT_LAB_H */
