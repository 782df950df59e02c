/* SPDX-License-Identifier: BSD-3-Clause */

/* needs.h -- settings that an additive model needs: its changes are to be made as they are, each
 * once */
#ifndef CMD_NEEDS_H
#define CMD_NEEDS_H

#include "cmd/job.h"
#include "cmd/settings.h"

/* ol_needs_one -- give a setting a value, unless the user has; that is said. 0 or an exit code */
int ol_needs_one(struct ol_settings *settings, const char *model, const char *name,
		 const char *value);

/*
 * ol_needs_take -- all that the model of a job needs, of the settings that the subcommand has
 *
 * What the user wants otherwise is refused before anything is set. 0 or an exit code.
 */
int ol_needs_take(struct ol_settings *settings, const char *model, const struct ol_job *job);

#endif /* CMD_NEEDS_H */
