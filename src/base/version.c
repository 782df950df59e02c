/* SPDX-License-Identifier: BSD-3-Clause */

/* version.c -- the version that the library was built as */

#include "outlast.h"

const char *ol_version(uint32_t *ret_number)
{
	if (ret_number != NULL)
		*ret_number = OL_VERSION_NUMBER;
	return OL_VERSION_STRING;
}
