/*
 * durable/http.h: Durable Streams over HTTP: the engine's face on sockets.
 *
 * Owns      everything it opens, until sc_ds_http_run returns; the engine stays the caller's.
 * Units     bytes; ms as the names say.
 * Errors    SC_E_CONFIG, SC_E_UNAVAILABLE (addresses), SC_E_NOLOG, SC_E_IO, SC_E_NOMEM.
 * Safety    threads of its own (one a core); blocks INT, TERM and HUP for the process.
 * Source    durable-streams 3, 10 to 12, 17, 18; RFC 9110, RFC 9112; man/sc-streams.1.
 */
#ifndef SC_DURABLE_HTTP_H
#define SC_DURABLE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/say.h"
#include "durable/engine.h"

struct sc_ds_http_options { /* 0 and NULL: the standard value, where one is named */
	const char *const *listen;    /* net/listen.h */
	size_t listen_count;
	bool activation;              /* also take the sockets that the service manager passed */
	const char *cert, *key;       /* both: TLS */
	const char *client_ca;        /* NULL: clients need no certificate */
	const char *token_file;       /* NULL: everybody may */
	const char *prefix;           /* "/v1/stream/" */
	const char *cors;             /* "*"; "": no CORS fields */
	bool private_cache;           /* Cache-Control says private instead of public */
	bool trust_forwarded;         /* Location from X-Forwarded-Proto and -Host */
	bool access_log;              /* a line for each request */
	const char *const *logs;      /* "NAME=LOG": served read-only */
	size_t log_count;
	bool subscriptions;           /* PREFIX/__ds: subscriptions, and deliveries to webhooks */
	const char *webhook_ca;       /* webhooks' certificates are signed by these; NULL: the system's */
	int64_t webhook_ms;           /* 30 s: how long a webhook may take to answer */
	int64_t long_poll_ms, sse_ms; /* 30 s, 60 s */
	int64_t head_ms, idle_ms;     /* 10 s, 60 s */
	int64_t grace_ms;             /* at the end: how long answers may take */
	uint64_t body_max;            /* 64 MiB */
	uint64_t held_max;            /* request bodies (and, apart, answers) in memory: 512 MiB */
	size_t path_max;              /* 512 */
	size_t clients_max;           /* 0: any number */
	size_t per_address_max;       /* 0: any number */
	unsigned threads;             /* one a core */
	int ready_fd;                 /* -1: none */
	void (*say)(enum sc_level level, const char *fields, const char *format, ...);
};

/* Serves until a signal ends it; *ret_signo is that signal. */
int sc_ds_http_run(struct sc_ds *ds, const struct sc_ds_http_options *options, int *ret_signo,
		   struct sc_err *err);

#endif
