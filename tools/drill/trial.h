/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * trial.h -- `outlast trial`: computes in one process for the drill's Python program
 *
 * --help does not list it. A description is one JSON object on stdin: "experiment" chooses the
 * code, "name" is used in error lines. Each record is a line of JSON on stdout.
 */
#ifndef DRILL_TRIAL_H
#define DRILL_TRIAL_H

#include <jansson.h>
#include <stddef.h>

/* dbw/trial.c, scar/trial.c; 0 or an exit code, after an error line */
int dbw_trial(json_t *of);
int scar_trial(json_t *of);

/* trial_unpack -- read members of a description, as json_unpack(); 0 or an exit code */
int trial_unpack(json_t *of, const char *format, ...);

/* trial_say -- print a record, and release it; 0 or an exit code */
int trial_say(json_t *record);

/* trial_number, trial_list -- null for values that are not finite */
json_t *trial_number(double value);
json_t *trial_list(const double *values, size_t count);

#endif /* DRILL_TRIAL_H */
