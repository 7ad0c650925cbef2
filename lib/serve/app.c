/* serve/app.c: the server as a whole: set up, signals, end. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "serve/app.h"

#define TICK_MS 1000
#define KEEP_ALIVE_TICKS 15u
#define FEED_THREADS 4u /* half of them for one archive that does not answer */

void sc_app_say(const struct sc_app *app, enum sc_level level, const char *format, ...)
{
	char text[1600];
	va_list args;

	if (!app->o->say)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	app->o->say(level, NULL, "%s", text);
}

void sc_app_fail(struct sc_app *app, const struct sc_err *err)
{
	if (app->rc == 0) {
		app->rc = err->code;
		app->err = *err;
	}
	sc_app_end(app, SC_CLOSE_FAILED, "the server failed");
}

static void on_shut_down(void *arg)
{
	sc_loop_stop(((struct sc_app *)arg)->loop);
}

void sc_app_end(struct sc_app *app, int code, const char *reason)
{
	if (app->ending)
		return;
	app->ending = true;
	sc_server_shutdown(app->server, code, reason, app->o->grace_ms, on_shut_down, app);
}

struct sc_host *sc_app_host(const struct sc_app *app, struct sc_span name)
{
	for (size_t i = 0; i < app->host_count; i++)
		if (sc_span_is(name, app->hosts[i].name))
			return &app->hosts[i];
	return NULL;
}

static void on_signal(void *arg, int signo)
{
	struct sc_app *app = arg;

	if (app->signo) { /* the second one ends it now */
		sc_loop_stop(app->loop);
		return;
	}
	app->signo = signo;
	sc_app_say(app, SC_INFO, "ending on signal %d", signo);
	sc_app_end(app, SC_CLOSE_SHUTDOWN, "server shutting down");
}

static void on_reload(void *arg, int signo)
{
	struct sc_app *app = arg;
	struct sc_err err;
	char line[1200];

	(void)signo;
	if (app->o->server.cert && sc_server_reload_tls(app->server, &err) < 0) {
		sc_err_line(&err, line, sizeof(line));
		sc_app_say(app, SC_WARNING, "%s; the old certificate stays", line);
	}
	if (app->tokens && sc_tokens_refresh(app->tokens, &err) < 0) {
		sc_err_line(&err, line, sizeof(line));
		sc_app_say(app, SC_WARNING, "%s; the old tokens stay", line);
	}
}

static void on_tick(void *arg)
{
	struct sc_app *app = arg;

	for (size_t i = 0; i < app->host_count; i++) {
		sc_stream_tick(app->hosts[i].stream);
		sc_host_look_at_archive(&app->hosts[i]);
	}
	if (++app->ticks % KEEP_ALIVE_TICKS == 0)
		sc_events_keep_alive(app);
	sc_timer_start(app->tick, TICK_MS);
}

static void on_read(void *arg) /* in a thread of the feeds */
{
	sc_wake_up(((struct sc_app *)arg)->fed);
}

static void on_fed(void *arg)
{
	sc_stream_fed(((struct sc_app *)arg)->feeds);
}

static int open_feeds(struct sc_app *app, struct sc_err *err)
{
	int rc = sc_wake_new(app->loop, on_fed, app, &app->fed, err);

	return rc < 0 ? rc : sc_feed_pool_new(FEED_THREADS, on_read, app, &app->feeds, err);
}

static int compare_names(const void *a, const void *b)
{
	const struct sc_span *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = len ? memcmp(x->data, y->data, len) : 0;

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static int open_hosts(struct sc_app *app, struct sc_err *err)
{
	size_t count = app->o->stream_count;

	app->hosts = sc_calloc(count, sizeof(*app->hosts));
	app->names = sc_calloc(count, sizeof(*app->names));
	if (!app->hosts || !app->names)
		return sc_err_nomem(err, "cannot serve");
	for (size_t i = 0; i < count; i++) {
		struct sc_host *host = &app->hosts[i];
		int rc = sc_host_open(app, app->o->streams[i], host, err);

		if (rc < 0)
			return rc;
		if (sc_app_host(app, sc_span_str(host->name))) {
			app->host_count++;
			sc_err_set(err, SC_E_USAGE, "cannot serve", "another stream has that name");
			sc_err_on(err, "stream", host->name);
			return sc_err_next(err, "name one of them otherwise: NAME=LOG");
		}
		app->host_count++;
		app->names[i] = sc_span_str(host->name);
	}
	qsort(app->names, count, sizeof(*app->names), compare_names);
	return 0;
}

static int put_names(const struct sc_app *app, struct sc_bytes *out)
{
	int rc = sc_bytes_puts(out, ",\"streams\":[");

	for (size_t i = 0; rc == 0 && i < app->host_count; i++) {
		rc = i ? sc_bytes_putc(out, ',') : 0;
		if (rc == 0)
			rc = sc_bytes_put_json(out, app->names[i]);
	}
	return rc < 0 ? rc : sc_bytes_putc(out, ']');
}

static int tell_ready(struct sc_app *app, struct sc_err *err)
{
	struct sc_bytes names;
	char about[60];
	int rc;

	sc_bytes_init(&names, 1 << 20);
	snprintf(about, sizeof(about), ", %zu stream%s", app->host_count,
		 app->host_count == 1 ? "" : "s");
	rc = put_names(app, &names) < 0
		     ? sc_err_nomem(err, "cannot tell that it is ready")
		     : sc_server_tell(app->server, sc_span(names.data, names.len), about,
				      app->o->ready_fd, app->o->say, err);
	sc_bytes_done(&names);
	return rc;
}

static const struct sc_token_word token_words[] = {
	{ "read", SC_MAY_READ },
	{ "publish", SC_MAY_PUBLISH },
	{ "all", SC_MAY_READ | SC_MAY_PUBLISH },
	{ NULL, 0 },
};

static int set_up(struct sc_app *app, struct sc_err *err)
{
	int rc;

	sc_raise_descriptors();
	rc = sc_loop_new(&app->loop, err);

	if (rc == 0 && app->o->token_file)
		rc = sc_tokens_open(app->o->token_file, token_words, &app->tokens, err);
	if (rc == 0 && app->o->replay_archive)
		rc = open_feeds(app, err);
	if (rc == 0)
		rc = open_hosts(app, err);
	if (rc == 0)
		rc = sc_timer_new(app->loop, on_tick, app, &app->tick, err);
	if (rc == 0)
		rc = sc_loop_signal(app->loop, SIGINT, on_signal, app, err);
	if (rc == 0)
		rc = sc_loop_signal(app->loop, SIGTERM, on_signal, app, err);
	if (rc == 0)
		rc = sc_loop_signal(app->loop, SIGHUP, on_reload, app, err);
	if (rc == 0)
		rc = sc_server_new(app->loop, &app->o->server, &sc_visit_hooks, app, &app->server,
				   err);
	for (size_t i = 0; rc == 0 && i < app->host_count; i++)
		rc = sc_host_start(&app->hosts[i], err);
	if (rc == 0)
		rc = tell_ready(app, err);
	return rc;
}

int sc_serve_run(const struct sc_serve_options *options, int *ret_signo, struct sc_err *err)
{
	struct sc_app app = { .o = options, .started_us = sc_wall_us() };
	int rc;

	sc_bytes_init(&app.body, 64u << 20);
	rc = set_up(&app, err);
	if (rc == 0) {
		sc_timer_start(app.tick, TICK_MS);
		rc = sc_loop_run(app.loop, err);
	}
	if (rc == 0 && app.rc < 0) {
		rc = app.rc;
		if (err)
			*err = app.err;
	}
	sc_server_free(app.server);
	for (size_t i = 0; i < app.host_count; i++)
		sc_host_close(&app.hosts[i]);
	sc_feed_pool_free(app.feeds);
	sc_wake_free(app.fed);
	sc_timer_free(app.tick);
	sc_tokens_close(app.tokens);
	sc_loop_free(app.loop);
	sc_bytes_done(&app.body);
	free(app.hosts);
	free(app.names);
	*ret_signo = app.signo;
	return rc;
}
