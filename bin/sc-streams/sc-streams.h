/*
 * sc-streams.h: what the verbs of sc-streams share.
 *
 * Owns      nothing.
 * Units     as base/opt.h.
 * Errors    runs return 0, a negative sc_code with err set, or an exit status above 0.
 * Safety    main thread.
 * Source    man/sc-streams.1.
 */
#ifndef SC_STREAMS_PROGRAM_H
#define SC_STREAMS_PROGRAM_H

#include "base/program.h"
#include "durable/engine.h"
#include "net/port.h"

struct serve_opts {
	struct sc_common common;
	struct sc_port_opts port;
	struct sc_opt_list logs;
	bool private_cache, trust_forwarded, subscriptions;
	const char *cors, *prefix, *webhook_ca;
	int64_t long_poll_ms, sse_ms, head_ms, idle_ms, grace_ms;
	int64_t max_path, max_subscriptions, max_links, webhook_ms;
	uint64_t max_body, max_held, max_read;
};
struct plain_opts {
	struct sc_common common;
};

extern const struct sc_opt serve_options[], plain_options[];

int run_serve(const void *given, char *const *operands, struct sc_err *err);
int run_ls(const void *given, char *const *operands, struct sc_err *err);
int run_trim(const void *given, char *const *operands, struct sc_err *err);
int run_seal(const void *given, char *const *operands, struct sc_err *err);
int run_verify(const void *given, char *const *operands, struct sc_err *err);

#endif
