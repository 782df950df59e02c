/* SPDX-License-Identifier: BSD-3-Clause */

/* needs.h -- settings that an additive model needs: each of its changes must be applied unscaled
 * and once */
#ifndef CMD_NEEDS_H
#define CMD_NEEDS_H

#include "cmd/job.h"
#include "cmd/settings.h"

/* ol_needs_one -- give a setting a value unless the user has, and say so. 0 or an exit code */
int ol_needs_one(struct ol_settings *settings, const char *model, const char *name,
		 const char *value);

/*
 * ol_needs_take -- set all that the job's model needs, as far as the subcommand has the settings
 *
 * Contrary values of the user are refused before anything is set. 0 or an exit code.
 */
int ol_needs_take(struct ol_settings *settings, const char *model, const struct ol_job *job);

#endif /* CMD_NEEDS_H */
