/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * trial.h -- `outlast trial`: what a drill computes inside one process, for the program in Python
 *
 * It has no place in --help. A description is one JSON object on stdin: "experiment" says whose it
 * is, "name" what an error line calls it. Each record is a line of JSON on stdout.
 */
#ifndef DRILL_TRIAL_H
#define DRILL_TRIAL_H

#include <jansson.h>
#include <stddef.h>

/* dbw/trial.c, scar/trial.c; 0 or an exit code, after saying why */
int dbw_trial(json_t *of);
int scar_trial(json_t *of);

/* trial_unpack -- members of a description, as of json_unpack(); 0 or an exit code */
int trial_unpack(json_t *of, const char *format, ...);

/* trial_say -- a record, which is given away, is printed; 0 or an exit code */
int trial_say(json_t *record);

/* trial_number, trial_list -- null for what is not finite */
json_t *trial_number(double value);
json_t *trial_list(const double *values, size_t count);

#endif /* DRILL_TRIAL_H */
