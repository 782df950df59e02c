/* SPDX-License-Identifier: BSD-3-Clause */

/* isa.h -- how wide this processor's vectors are */
#ifndef OL_BASE_ISA_H
#define OL_BASE_ISA_H

/* ol_isa_count -- of the code that is compiled for generic, avx2 and avx512f processors, in this order,
 * this processor runs the first so many; at least 1 */
unsigned ol_isa_count(void);

#endif /* OL_BASE_ISA_H */
