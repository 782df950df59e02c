/* SPDX-License-Identifier: BSD-3-Clause */

/* models.h -- inside the room: the kinds of models */
#ifndef LEARN_MODELS_H
#define LEARN_MODELS_H

#include "learn/kind.h"

/*
 * Each makes a model of a kind whose name has been recognised. args is the text after the name and
 * its colon, or "". The caller fills in shape and batch_max.
 */
int learn_classifier_create(const char *name, const struct learn_shape *shape,
			    const struct learn_model_opts *opts, struct learn_model **ret_model,
			    char *err, size_t err_len);
int learn_mf_create(const char *args, const struct learn_shape *shape,
		    struct learn_model **ret_model, char *err, size_t err_len);
int learn_lda_create(const char *args, const struct learn_shape *shape,
		     struct learn_model **ret_model, char *err, size_t err_len);

#endif /* LEARN_MODELS_H */
