/* serve/host.c: one stream and what feeds it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "serve/app.h"

#define PUMP_BYTES (4u << 20)  /* taken into the ring before the sockets get their turn */
#define STARVED_MS 100         /* without descriptors: then it tries again */
#define SAY_AGAIN_US 600000000 /* what was said of an archive is said again then, if it goes on */

/* A name that no request target could spell is of no use. */
static int check_name(const char *name, struct sc_err *err)
{
	const char *reason = NULL;

	if (name[0] == '/')
		reason = "it begins with a slash";
	for (const char *p = name; *p && !reason; p++)
		if (*p == '?' || *p == '#' || (unsigned char)*p <= ' ' || *p == 0x7f)
			reason = "it holds '?', '#', a blank or a control character";
	if (!reason)
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot serve", "%s", reason);
	sc_err_on(err, "stream", name);
	return sc_err_next(err, "give the stream another name: NAME=LOG");
}

/* "[NAME=]LOG": a path may hold '=' behind a slash. */
static int split_spec(const char *spec, char *ret_name, const char **ret_path, struct sc_err *err)
{
	const char *equals = strchr(spec, '='), *slash = strchr(spec, '/');
	size_t len;

	if (!equals || (slash && slash < equals)) {
		*ret_path = spec;
		if (!strcmp(spec, "-")) {
			sc_err_set(err, SC_E_USAGE, "cannot serve standard input",
				   "it has no name");
			return sc_err_next(err, "name the stream: NAME=-");
		}
		if (sc_path_base(spec, ret_name, SC_HOST_NAME_MAX + 1) < 0) {
			sc_err_set(err, SC_E_NOLOG, "cannot serve", "no such log");
			sc_err_on(err, "log", spec);
			return sc_err_next(err, "create it with: sc-log create %s", spec);
		}
		return 0;
	}
	len = (size_t)(equals - spec);
	if (len > SC_HOST_NAME_MAX) {
		sc_err_set(err, SC_E_USAGE, "cannot serve", "its name is longer than %d bytes",
			   SC_HOST_NAME_MAX);
		sc_err_on(err, "stream", spec);
		return sc_err_next(err, "give the stream a shorter name");
	}
	memcpy(ret_name, spec, len);
	ret_name[len] = 0;
	*ret_path = equals + 1;
	return 0;
}

static int check_input(struct sc_app *app, struct sc_err *err)
{
	for (size_t i = 0; i < app->host_count; i++)
		if (!app->hosts[i].log) {
			sc_err_set(err, SC_E_USAGE, "cannot serve standard input twice",
				   "stream '%s' reads it already", app->hosts[i].name);
			return sc_err_next(err, "name '-' once");
		}
	return 0;
}

static void on_writer(void *arg)
{
	sc_wake_up(((struct sc_host *)arg)->wake);
}

static void on_wake(void *arg)
{
	sc_publish_replies(arg);
}

static int open_log(struct sc_host *host, const char *path, struct sc_err *err)
{
	int rc = sc_log_open(path, SC_LOG_READ, &host->log, err);

	if (rc == 0)
		rc = sc_follow_open(host->log, &host->follow, err);
	if (rc == 0 && host->app->o->stream.publish) {
		rc = sc_wake_new(host->app->loop, on_wake, host, &host->wake, err);
		if (rc == 0)
			rc = sc_writer_open(path, on_writer, host, &host->writer, err);
	}
	return rc;
}

static void pump(struct sc_host *host)
{
	struct sc_err err;
	int wait_ms = 0;
	int rc = sc_stream_pump(host->stream, PUMP_BYTES, &wait_ms, &err);

	if (rc < 0 && (err.errnum == EMFILE || err.errnum == ENFILE)) {
		/* It passes when clients leave, and a stream that is late is better than none. */
		if (!host->starved)
			sc_app_say(host->app, SC_WARNING, "stream '%s' waits: %s", host->name,
				   err.reason);
		host->starved = true;
		sc_timer_start(host->timer, STARVED_MS);
		return;
	}
	host->starved = false;
	if (rc < 0) {
		sc_app_fail(host->app, &err);
		return;
	}
	sc_timer_start(host->timer, rc == 1 ? wait_ms : sc_follow_poll_ms(host->follow));
}

static void on_timer(void *arg)
{
	struct sc_host *host = arg;

	if (host->app->ending)
		return;
	if (host->log) {
		sc_follow_clear(host->follow); /* its watches may have to be set anew */
		pump(host);
	} else {
		sc_input_due(host);
	}
}

static void on_change(void *arg, int events)
{
	struct sc_host *host = arg;

	(void)events;
	sc_follow_clear(host->follow);
	if (!host->app->ending)
		pump(host);
}

/* Say LINE of the archive, unless it was said just now: then it is counted. */
static void say_of_archive(struct sc_host *host, const char *line)
{
	int64_t now = sc_mono_us();

	if (host->archive_said && !strcmp(host->archive_said, line) &&
	    now - host->archive_said_us < SAY_AGAIN_US) {
		host->archive_unsaid++;
		return;
	}
	if (host->archive_unsaid)
		sc_app_say(host->app, SC_WARNING, "stream '%s': %s (%llu more)", host->name, line,
			   (unsigned long long)host->archive_unsaid);
	else
		sc_app_say(host->app, SC_WARNING, "stream '%s': %s", host->name, line);
	free(host->archive_said);
	host->archive_said = strdup(line); /* without memory it is said more often */
	host->archive_said_us = now;
	host->archive_unsaid = 0;
}

void sc_host_archive_failed(struct sc_host *host, const struct sc_err *err)
{
	char line[1200];

	sc_err_line(err, line, sizeof(line));
	say_of_archive(host, line);
}

/* --archive names the folder where the log's archive is. */
static int set_archive(struct sc_host *host, const char *folder, struct sc_err *err)
{
	struct sc_bytes url, shown;
	int rc;

	sc_bytes_init(&url, 1u << 16);
	sc_bytes_init(&shown, 1u << 16);
	rc = sc_archive_url(folder, sc_log_name(host->log), &url, &shown, err);
	if (rc == 0)
		rc = sc_stream_set_archive(host->stream, sc_bytes_str(&url), sc_bytes_str(&shown),
					   false, err);
	if (url.data)
		explicit_bzero(url.data, url.cap);
	sc_bytes_done(&url);
	sc_bytes_done(&shown);
	return rc;
}

void sc_host_look_at_archive(struct sc_host *host)
{
	struct sc_err err;
	int rc;

	if (!host->log || host->app->o->archive)
		return;
	rc = sc_archive_note_read(host->log, &host->note, &err);
	if (rc == 1 && host->note.url)
		rc = sc_stream_set_archive(host->stream, host->note.url, host->note.url, true,
					   &err);
	if (rc < 0)
		sc_host_archive_failed(host, &err);
}

int sc_host_attach(struct sc_host *host, const struct sc_target *target, void *owner,
		   struct sc_subscriber **ret_subscriber, struct sc_refusal *ret_refusal,
		   struct sc_err *err)
{
	if (!host->note.url)
		sc_host_look_at_archive(host);
	return sc_stream_attach(host->stream, target, owner, ret_subscriber, ret_refusal, err);
}

/* Which archive there is, as far as it is known now. */
static int find_archive(struct sc_host *host, struct sc_err *err)
{
	if (!host->log)
		return 0;
	if (host->app->o->archive)
		return set_archive(host, host->app->o->archive, err);
	sc_host_look_at_archive(host);
	if (host->app->o->replay_archive && !host->note.url)
		sc_app_say(host->app, SC_NOTICE,
			   "stream '%s' has no archive yet: sc-seal --archive makes one",
			   host->name);
	return 0;
}

int sc_host_open(struct sc_app *app, const char *spec, struct sc_host *host, struct sc_err *err)
{
	struct sc_stream_settings settings = app->o->stream;
	const char *path = NULL;
	int rc;

	host->app = app;
	sc_bytes_init(&host->input, SIZE_MAX / 4);
	sc_bytes_init(&host->line, SIZE_MAX / 4);
	rc = split_spec(spec, host->name, &path, err);
	if (rc == 0)
		rc = check_name(host->name, err);
	if (rc == 0)
		rc = sc_timer_new(app->loop, on_timer, host, &host->timer, err);
	if (rc == 0)
		rc = !strcmp(path, "-") ? check_input(app, err) : open_log(host, path, err);
	settings.name = host->name;
	settings.wake = sc_visit_wake;
	settings.dropped = sc_visit_dropped;
	settings.feeds = app->feeds;
	if (rc == 0)
		rc = sc_stream_open(&settings, host->log, &host->stream, err);
	if (rc == 0)
		rc = find_archive(host, err);
	if (rc < 0)
		sc_host_close(host);
	return rc;
}

int sc_host_start(struct sc_host *host, struct sc_err *err)
{
	int rc = 0;

	if (!host->log)
		return sc_input_start(host, err);
	if (sc_follow_fd(host->follow) >= 0)
		rc = sc_watch_new(host->app->loop, sc_follow_fd(host->follow), SC_READABLE,
				  on_change, host, &host->watch, err);
	sc_timer_start(host->timer, 0);
	return rc;
}

void sc_host_close(struct sc_host *host)
{
	sc_watch_free(host->watch);
	sc_timer_free(host->timer);
	sc_writer_close(host->writer);
	sc_wake_free(host->wake);
	sc_stream_close(host->stream);
	sc_follow_close(host->follow);
	sc_log_close(host->log);
	sc_bytes_done(&host->input);
	sc_bytes_done(&host->line);
	sc_archive_note_done(&host->note);
	free(host->archive_said);
	memset(host, 0, sizeof(*host));
}
