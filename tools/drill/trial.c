/* SPDX-License-Identifier: BSD-3-Clause */

/* trial.c -- shared by trials: members of a description, records */

#include "drill/trial.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"

int trial_unpack(json_t *of, const char *format, ...)
{
	json_error_t error;
	va_list list;
	int rc;

	va_start(list, format);
	rc = json_vunpack_ex(of, &error, 0, format, list);
	va_end(list);
	return rc == 0 ? 0 : ol_cmd_error(OL_EXIT_USAGE, "trial", "description", error.text, NULL);
}

json_t *trial_number(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

json_t *trial_list(const double *values, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, trial_number(values[i]));
	return list;
}

int trial_say(json_t *record)
{
	int rc;

	if (record == NULL)
		return ol_cmd_error(OL_EXIT_RESOURCES, "drill", "no memory", NULL, NULL);
	errno = 0;
	rc = json_dumpf(record, stdout, JSON_COMPACT);
	json_decref(record);
	if (rc == 0 && putchar('\n') == '\n' && fflush(stdout) == 0)
		return 0;
	return ol_cmd_error(OL_EXIT_FAILED, "drill", "cannot write a record", strerror(errno),
			    NULL);
}
