/* SPDX-License-Identifier: BSD-3-Clause */

/* speaks.c -- the protocols and features of this build (wire.h, VERSIONS) */
#include "wire/wire.h"

const struct ol_wire_speaks ol_wire_own = {
	.proto = OL_WIRE_PROTO,
	.oldest = 15, /* builds before it could speak one protocol only */
	.features = 0,
};
