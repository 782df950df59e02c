/* SPDX-License-Identifier: BSD-3-Clause */

/* rails.h -- the names of a list of devices, "a,b": one is a rail */
#ifndef OL_BASE_RAILS_H
#define OL_BASE_RAILS_H

#include <stdint.h>

enum {
	OL_RAILS_MAX = 8,
	OL_RAIL_NAME_MAX = 64 /* with its end */
};

#define OL_RAILS_HELP "give one name, or up to 8 different ones with commas between"

struct ol_rails {
	uint32_t count;
	char names[OL_RAILS_MAX][OL_RAIL_NAME_MAX];
};

/*
 * ol_rails_parse -- "a,b,c"; NULL: no names, count 0
 *
 * -EINVAL, and count 0: a name is empty, has a blank, is too long or there twice, or there are more than OL_RAILS_MAX
 */
int ol_rails_parse(const char *list, struct ol_rails *ret_rails);

#endif /* OL_BASE_RAILS_H */
