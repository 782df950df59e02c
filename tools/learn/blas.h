/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * blas.h -- matrix products by OpenBLAS, on one thread and with the best kernels for this processor
 *
 * OpenBLAS chooses its kernels and starts its threads while it is loaded, before main(), from the
 * processor's model number and from the environment. A processor younger than the library gets the
 * kernels of 2004, several times slower than those it can run; only OPENBLAS_CORETYPE, set before
 * the library is loaded, changes that.
 */
#ifndef LEARN_BLAS_H
#define LEARN_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* OPENBLAS_NUM_THREADS as learn_blas_start() sets it: 1, as no person writes it. Who starts programs that are none of
 * ours takes it out of their environment by that. */
#define LEARN_BLAS_THREADS "01"

/*
 * learn_blas_start -- the first call of main(): best kernels, no threads of OpenBLAS
 *
 * If the environment must change for that, this call changes it and executes the program once more,
 * with the same arguments; children inherit it. The user's own settings stay, except that products
 * always run on one thread. If executing fails, the program goes on.
 *
 * Threading: before any other thread and any open file that is not to be inherited
 */
void learn_blas_start(char **argv);

/*
 * learn_blas_coretype -- the OPENBLAS_CORETYPE that beats the kernels named core; NULL: none does
 *
 * avx2 (with FMA) and avx512 (F, CD, BW, DQ, VL): the processor has them.
 */
const char *learn_blas_coretype(const char *core, bool avx2, bool avx512);

enum {
	/* Address space that OpenBLAS takes at the first product, at most */
	LEARN_BLAS_BYTES = (128 << 20) + (64 << 10)
};

/*
 * learn_blas_reserve -- make the first product of this thread, if there is memory for it; else
 * -ENOMEM
 *
 * If memory is short, OpenBLAS asks for it again and again, without end. So this call first tries
 * to get the same amount. OpenBLAS keeps its memory, and later products need no more.
 */
int learn_blas_reserve(void);

/* Which factors of a product are transposed in memory */
enum learn_turned {
	LEARN_TURNED_NONE = 0,
	LEARN_TURNED_A = 1 << 0,
	LEARN_TURNED_B = 1 << 1
};

/*
 * learn_blas_product -- c[m][n] = keep * c + a[m][k] * b[k][n]
 *
 * Row-major without gaps, aligned as float, each dimension from 1 to INT_MAX. keep 0: c is only
 * written. Same bits in, same bits out, whatever the alignment, for one kind of kernels.
 * Call learn_blas_reserve() once before.
 */
void learn_blas_product(unsigned turned, size_t m, size_t n, size_t k, const float *a,
			const float *b, float keep, float *c);

#endif /* LEARN_BLAS_H */
