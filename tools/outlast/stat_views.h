/* SPDX-License-Identifier: BSD-3-Clause */

/* stat_views.h -- `outlast stat --views`: all that a coordinator keeps */
#ifndef OUTLAST_STAT_VIEWS_H
#define OUTLAST_STAT_VIEWS_H

#include <jansson.h>
#include <stdio.h>

#include "server/coordinator.h"

/*
 * stat_views -- show what a coordinator keeps, as a table on `out` (NULL: not) and as an object
 *
 * 0, or an exit code after an error line. *ret_report, which may be NULL for want of memory, is the caller's.
 */
int stat_views(const struct ol_coordinator *coordinator, FILE *out, json_t **ret_report);

#endif /* OUTLAST_STAT_VIEWS_H */
