/* msg/daemon.c: the broker as a whole: set up, signals, the end. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "msg/daemon_internal.h"
#include "msg/state.h"

#define TICK_MS 1000
#define TICK_LEAST_MS 50

void sc_daemon_say(const struct sc_daemon *d, enum sc_level level, const char *format, ...)
{
	char text[1600];
	va_list args;

	if (!d->o->say)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	d->o->say(level, NULL, "%s", text);
}

void sc_daemon_now(struct sc_daemon *d)
{
	sc_broker_time(d->broker, sc_wall_us(), sc_mono_us());
}

/* The end. */

static void on_shut_down(void *arg)
{
	sc_loop_stop(((struct sc_daemon *)arg)->loop);
}

static void on_end(void *arg)
{
	struct sc_daemon *d = arg;

	d->closing = true;
	sc_server_shutdown(d->server, 1001, "broker stopping", d->o->grace_ms, on_shut_down, d);
}

/* The notice is for nodes: when there is none (any more), nobody needs it. */
static void look_at_end(struct sc_daemon *d)
{
	struct sc_broker_stats s;

	if (!d->stopping) {
		d->stopping = true;
		sc_daemon_say(d, SC_INFO, "stopping");
		sc_timer_start(d->end, d->o->notice_ms);
	}
	sc_broker_stats(d->broker, &s);
	if (s.nodes == 0 && !d->closing)
		sc_timer_start(d->end, 0);
}

void sc_daemon_look(struct sc_daemon *d)
{
	if (sc_broker_stopping(d->broker))
		look_at_end(d);
	if (sc_broker_busy(d->broker) && !sc_timer_runs(d->work))
		sc_timer_start(d->work, 0);
}

static void on_signal(void *arg, int signo)
{
	struct sc_daemon *d = arg;

	if (d->signo) { /* the second one ends it now */
		sc_loop_stop(d->loop);
		return;
	}
	d->signo = signo;
	sc_daemon_say(d, SC_INFO, "ending on signal %d", signo);
	sc_daemon_now(d);
	sc_broker_stop(d->broker);
	sc_daemon_look(d);
}

static void on_reload(void *arg, int signo)
{
	struct sc_daemon *d = arg;
	struct sc_err err;
	char line[1200];

	(void)signo;
	if (d->o->server.cert && sc_server_reload_tls(d->server, &err) < 0) {
		sc_err_line(&err, line, sizeof(line));
		sc_daemon_say(d, SC_WARNING, "%s; the old certificate stays", line);
	}
	sc_daemon_tokens_refresh(d);
}

/* Timers. */

static int64_t tick_ms(const struct sc_daemon *d)
{
	int64_t ms = d->o->broker.ack_timeout_us / 4000;

	if (ms == 0 || ms > TICK_MS)
		return TICK_MS;
	return ms < TICK_LEAST_MS ? TICK_LEAST_MS : ms;
}

static void on_tick(void *arg)
{
	struct sc_daemon *d = arg;

	sc_daemon_now(d);
	sc_broker_tick(d->broker);
	sc_daemon_look(d);
	sc_timer_start(d->tick, tick_ms(d));
}

static void on_work(void *arg)
{
	struct sc_daemon *d = arg;

	sc_daemon_now(d);
	sc_broker_work(d->broker);
	sc_daemon_look(d);
}

static void on_stats(void *arg)
{
	struct sc_daemon *d = arg;

	sc_daemon_now(d);
	sc_bytes_clear(&d->body);
	if (sc_daemon_stats_line(d, &d->body) == 0)
		d->o->stats(d->body.data, d->body.len);
	sc_timer_start(d->stats, d->o->stats_ms);
}

/* The beginning. */

/* The usual place may be that of another broker, which has the same port at another address; a
 * place that a person named must be ours. */
static int lock_state(struct sc_daemon *d, struct sc_err *err)
{
	char line[1200];
	int rc = sc_state_lock(d->state, &d->state_lock, err);

	if (rc == 0 || d->o->state_asked)
		return rc;
	sc_err_line(err, line, sizeof(line));
	sc_daemon_say(d, SC_WARNING,
		      "%s; messages that are not delivered when it stops will be lost", line);
	d->state = NULL;
	return 0;
}

/* What an earlier run left; its file goes when we listen. */
static int load(struct sc_daemon *d, struct sc_err *err)
{
	struct sc_broker_stats s;
	int rc = d->state ? lock_state(d, err) : 0;

	if (rc < 0 || !d->state)
		return rc;
	sc_daemon_now(d);
	rc = sc_state_read(d->state, d->broker, err);
	if (rc == SC_E_DATA && err)
		err->code = SC_E_PARTIAL; /* status 1 is what wsmsg 13 asks for */
	if (rc <= 0)
		return rc == SC_E_DATA ? SC_E_PARTIAL : rc;
	sc_broker_stats(d->broker, &s);
	sc_daemon_say(d, SC_NOTICE, "%llu message%s and %llu subscription%s from '%s'",
		      (unsigned long long)s.queued, s.queued == 1 ? "" : "s",
		      (unsigned long long)s.subscriptions, s.subscriptions == 1 ? "" : "s",
		      d->state);
	return 0;
}

/* Without a token only this machine may connect. */
static int check_door(const struct sc_daemon *d, struct sc_err *err)
{
	if (d->o->no_auth || sc_daemon_guarded(d) || !sc_daemon_is_open(d))
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot listen",
		   "without a token, other machines may not connect");
	return sc_err_next(err, "give --token-file, or --no-auth to let everybody in");
}

static int set_timers(struct sc_daemon *d, struct sc_err *err)
{
	int rc = sc_timer_new(d->loop, on_tick, d, &d->tick, err);

	if (rc == 0)
		rc = sc_timer_new(d->loop, on_work, d, &d->work, err);
	if (rc == 0)
		rc = sc_timer_new(d->loop, on_end, d, &d->end, err);
	if (rc == 0)
		rc = sc_timer_new(d->loop, on_stats, d, &d->stats, err);
	if (rc == 0)
		rc = sc_loop_signal(d->loop, SIGINT, on_signal, d, err);
	if (rc == 0)
		rc = sc_loop_signal(d->loop, SIGTERM, on_signal, d, err);
	if (rc == 0)
		rc = sc_loop_signal(d->loop, SIGHUP, on_reload, d, err);
	return rc;
}

/* It cannot run after all. */
static void put_back(const struct sc_daemon *d)
{
	struct sc_err err;
	char line[1200];

	if (!d->state || sc_state_write(d->state, d->broker, &err) == 0)
		return;
	sc_err_line(&err, line, sizeof(line));
	sc_daemon_say(d, SC_ERROR, "%s; what it held is lost", line);
}

static int open_door(struct sc_daemon *d, struct sc_err *err)
{
	int rc = d->state ? sc_state_remove(d->state, err) : 0;

	if (rc == 0)
		rc = sc_server_tell(d->server, SC_SPAN(""), "", d->o->ready_fd, d->o->say, err);
	if (rc < 0)
		put_back(d);
	return rc;
}

static int set_up(struct sc_daemon *d, struct sc_err *err)
{
	int rc;

	sc_raise_descriptors();
	rc = sc_loop_new(&d->loop, err);
	if (rc == 0)
		rc = sc_daemon_tokens_open(d, err);
	if (rc == 0)
		rc = sc_broker_new(&d->o->broker, &sc_daemon_broker_hooks, d, &d->broker, err);
	if (rc == 0) {
		sc_daemon_now(d); /* from here on it is up */
		rc = set_timers(d, err);
	}
	/* Bound now, but nobody is let in before the loop runs: so an address that cannot be had
	 * does not cost what the state file holds. */
	if (rc == 0)
		rc = sc_server_new(d->loop, &d->o->server, &sc_daemon_server_hooks, d, &d->server,
				   err);
	if (rc == 0)
		rc = check_door(d, err);
	if (rc == 0)
		rc = load(d, err);
	return rc == 0 ? open_door(d, err) : rc;
}

/* What could not be delivered, for the next run. */
static int save(struct sc_daemon *d, struct sc_err *err)
{
	int rc;

	if (!d->state)
		return 0;
	sc_daemon_now(d);
	rc = sc_state_write(d->state, d->broker, err);
	if (rc < 0 && err)
		err->code = SC_E_PARTIAL;
	return rc < 0 ? SC_E_PARTIAL : 0;
}

static void tear_down(struct sc_daemon *d)
{
	sc_broker_free(d->broker);
	sc_timer_free(d->tick);
	sc_timer_free(d->work);
	sc_timer_free(d->end);
	sc_timer_free(d->stats);
	for (int i = 0; i < 3; i++)
		sc_tokens_close(d->tokens[i]);
	sc_loop_free(d->loop);
	sc_close(&d->state_lock);
	sc_bytes_done(&d->body);
	sc_bytes_done(&d->frame);
}

int sc_daemon_run(const struct sc_daemon_options *options, int *ret_signo, struct sc_err *err)
{
	struct sc_daemon d = { .o = options, .state = options->state, .state_lock = -1 };
	int rc;

	sc_bytes_init(&d.body, 64u << 20);
	sc_bytes_init(&d.frame, 1u << 20);
	rc = set_up(&d, err);
	if (rc == 0) {
		sc_daemon_look(&d);
		sc_timer_start(d.tick, tick_ms(&d));
		if (options->stats_ms > 0)
			sc_timer_start(d.stats, options->stats_ms);
		rc = sc_loop_run(d.loop, err);
		sc_broker_stop(d.broker); /* nothing is delivered to those that are cut now */
		sc_server_free(d.server);
		d.server = NULL;
		if (rc == 0)
			rc = save(&d, err);
		else
			(void)save(&d, NULL);
	}
	sc_server_free(d.server);
	*ret_signo = d.signo;
	tear_down(&d);
	return rc;
}
