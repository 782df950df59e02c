/* SPDX-License-Identifier: BSD-3-Clause */

/* models.c -- models by name */

#include <errno.h>
#include <string.h>

#include "learn/kind.h"

enum {
	BATCH_DEFAULT = 32
};

void learn_model_opts_init(struct learn_model_opts *opts)
{
	*opts = (struct learn_model_opts){ .size = sizeof(*opts),
					   .batch_max = BATCH_DEFAULT,
					   .dropout = -1 };
}

static int opts_check(const struct learn_model_opts *opts, struct learn_line *err)
{
	if (opts->size != sizeof(*opts))
		return learn_err(err, -EINVAL,
				 "model options are %zu bytes; call learn_model_opts_init()",
				 opts->size);
	if (opts->batch_max < 1 || opts->batch_max > LEARN_BATCH_MAX)
		return learn_err(err, -EINVAL, "batch of %u; it must be 1 to %d", opts->batch_max,
				 LEARN_BATCH_MAX);
	if (!(opts->dropout <= 0.9f))
		return learn_err(err, -EINVAL, "dropout of %g; it must be 0 to 0.9",
				 (double)opts->dropout);
	return 0;
}

/* args_of -- the text after a name and its colon, or ""; NULL: another name */
static const char *args_of(const char *spec, const char *name)
{
	size_t len = strlen(name);

	if (strncmp(spec, name, len) != 0 || (spec[len] != 0 && spec[len] != ':'))
		return NULL;
	return spec[len] == 0 ? spec + len : spec + len + 1;
}

int learn_model_create(const char *name, const struct learn_shape *shape,
		       const struct learn_model_opts *opts, struct learn_model **ret_model,
		       char *err, size_t err_len)
{
	struct learn_line line = { err, err_len };
	const char *mf = args_of(name, "mf"), *lda = args_of(name, "lda");
	struct learn_model_opts dflt;
	struct learn_model *model;
	int rc;

	learn_model_opts_init(&dflt);
	opts = opts != NULL ? opts : &dflt;
	rc = opts_check(opts, &line);
	if (rc != 0)
		return rc;
	if ((mf != NULL || lda != NULL) && opts->final_relu)
		return learn_err(&line, -EINVAL,
				 "model \"%s\": a final ReLU is for classifiers only", name);
	if (mf != NULL || lda != NULL)
		rc = learn_kind_check(name, mf != NULL ? LEARN_RATINGS : LEARN_WORDS, shape, &line);
	if (rc != 0)
		return rc;
	if (mf != NULL)
		rc = learn_mf_create(mf, shape, &model, &line);
	else if (lda != NULL)
		rc = learn_lda_create(lda, shape, &model, &line);
	else
		rc = learn_classifier_create(name, shape, opts, &model, &line);
	if (rc != 0)
		return rc;
	model->shape = *shape;
	model->batch_max = opts->batch_max;
	*ret_model = model;
	return 0;
}
