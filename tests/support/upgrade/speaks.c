/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * speaks.c -- in the place of src/wire/speaks.c: a program of a version to come, AHEAD of today's, which speaks the one
 * before it too and has a feature more
 */
#include "wire/wire.h"

const struct ol_wire_speaks ol_wire_own = {
	.proto = OL_WIRE_PROTO + AHEAD,
	.oldest = OL_WIRE_PROTO + AHEAD - 1,
	.features = UINT32_C(1) << 15,
};
