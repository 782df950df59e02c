/* SPDX-License-Identifier: BSD-3-Clause */

/* format.c -- in a third of the runs, without a draw of its own: so all else is what it was */

#include "sim/world/format.h"

#include <stdlib.h>

#include "sim/world/cluster.h"
#include "sim/world/wrap.h"
#include "wire/format.h"

bool formats_differ(void)
{
	return cluster.scenario.age >= CLUSTER_AGE_FORMATS && cluster.scenario.lease_ms % 3 == 0;
}

/* The one right way knows a residual only where each gradient is pushed once, by one process */
static bool residual_is_known(void)
{
	const struct scenario *s = &cluster.scenario;

	return s->exact && !s->back && !s->workers_die && !s->mirrors && !s->returns &&
	       s->lasting == LASTING_NOTHING;
}

uint32_t format_of(uint32_t worker)
{
	static const enum ol_format formats[] = { OL_FORMAT_BF16, OL_FORMAT_FP16, OL_FORMAT_INT8 };

	enum ol_format format;

	if (!formats_differ())
		return OL_FORMAT_FP32;
	format = formats[(worker + cluster.scenario.pushes) % (residual_is_known() ? 3 : 2)];
	/* a crowd's gradients are summed up, and grow beyond what fp16 can hold */
	return cluster.scenario.workers > CLUSTER_WORKERS_FEW && format == OL_FORMAT_FP16
		       ? OL_FORMAT_BF16
		       : format;
}

const float *format_gradient(float *memory, uint32_t worker, uint32_t i, const float *weights,
			     uint32_t shard)
{
	const uint32_t format = format_of(worker);
	float *grad = memory + (size_t)worker * cluster.params;
	float *residual = grad + (size_t)cluster.ids * cluster.params + cluster_first(shard);
	float *part = grad + cluster_first(shard);
	uint8_t *payload;

	worker_gradient(worker, i, weights, grad);
	if (format == OL_FORMAT_FP32)
		return part;
	payload = __real_calloc(1, ol_format_bytes(format, cluster_len(shard)));
	if (payload == NULL)
		abort();
	ol_format_encode(format, payload, part, residual, cluster_len(shard));
	ol_format_decode(format, part, payload, 0, cluster_len(shard));
	__real_free(payload);
	return part;
}
