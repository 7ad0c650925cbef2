/* serve.c: the folder over HTTP, until a signal. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/say.h"
#include "durable/http.h"
#include "net/port.h"
#include "sc-streams.h"

#define STANDARD_ADDRESS "127.0.0.1:4437"

const struct sc_opt serve_options[] = {
	SC_OPT_GROUP("Where to listen"),
	SC_PORT_LISTEN_OPTIONS(struct serve_opts, port, STANDARD_ADDRESS),
	{ .name = "prefix",
	  .kind = SC_OPT_TEXT,
	  .arg = "PATH",
	  .into = offsetof(struct serve_opts, prefix),
	  .standard = "/v1/stream/",
	  .help = "the path under which streams are" },
	SC_PORT_TLS_OPTIONS(struct serve_opts, port, "", "clients"),
	SC_OPT_GROUP("Who may come"),
	SC_PORT_TOKEN_OPTION(struct serve_opts, port,
			     ": one a line, with read, write, admin or all in front"),
	{ .name = "cors",
	  .kind = SC_OPT_TEXT,
	  .arg = "ORIGIN|none",
	  .into = offsetof(struct serve_opts, cors),
	  .standard = "*",
	  .help = "the origin whose pages may read the answers, * for all" },
	SC_OPT_GROUP("What is served"),
	{ .name = "log",
	  .kind = SC_OPT_LIST,
	  .arg = "NAME=LOG",
	  .into = offsetof(struct serve_opts, logs),
	  .help = "serve a log of sc-log as the JSON stream NAME, to read only" },
	{ .name = "long-poll",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct serve_opts, long_poll_ms),
	  .standard = "30s",
	  .min = 1,
	  .max = 86400000,
	  .help = "how long a long-poll waits for data" },
	{ .name = "sse",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct serve_opts, sse_ms),
	  .standard = "60s",
	  .min = 1,
	  .max = 86400000,
	  .help = "how long a response of server-sent events lasts" },
	{ .name = "private-cache",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct serve_opts, private_cache),
	  .help = "let only the reader's own cache keep answers, no shared one" },
	{ .name = "trust-forwarded",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct serve_opts, trust_forwarded),
	  .help = "take scheme and host of a Location from X-Forwarded-Proto and "
		  "X-Forwarded-Host" },
	SC_OPT_GROUP("Subscriptions"),
	{ .name = "subscriptions",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct serve_opts, subscriptions),
	  .help = "serve subscriptions under PREFIX__ds/, and deliver to their webhooks" },
	{ .name = "webhook-ca",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct serve_opts, webhook_ca),
	  .help = "trust only certificates of webhooks that are signed by one of these" },
	{ .name = "webhook-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct serve_opts, webhook_ms),
	  .standard = "30s",
	  .min = 1,
	  .max = 600000,
	  .help = "how long a webhook may take to answer" },
	{ .name = "max-subscriptions",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct serve_opts, max_subscriptions),
	  .standard = "10000",
	  .min = 1,
	  .max = 1000000,
	  .help = "most subscriptions" },
	{ .name = "max-links",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct serve_opts, max_links),
	  .standard = "100000",
	  .min = 1,
	  .max = 10000000,
	  .help = "most streams of one subscription" },
	SC_OPT_GROUP("Limits"),
	{ .name = "max-body",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct serve_opts, max_body),
	  .standard = "64MiB",
	  .min = 1,
	  .max = (int64_t)1 << 30,
	  .help = "longest body of a request; longer ones get 413" },
	{ .name = "max-held",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct serve_opts, max_held),
	  .standard = "512MiB",
	  .min = 1 << 20,
	  .max = (int64_t)1 << 40,
	  .help = "most bytes of request bodies in memory, and of answers; beyond it 503" },
	{ .name = "max-read",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct serve_opts, max_read),
	  .standard = "1MiB",
	  .min = 1,
	  .max = (int64_t)1 << 28,
	  .help = "about how much one read returns" },
	{ .name = "max-path",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct serve_opts, max_path),
	  .standard = "512",
	  .min = 1,
	  .max = SC_DS_PATH_MAX,
	  .help = "longest path in bytes, prefix included; longer ones get 414" },
	SC_PORT_CLIENTS_OPTION(struct serve_opts, port, "max-clients", "connections", "20000"),
	SC_PORT_ADDRESS_OPTIONS(struct serve_opts, port),
	{ .name = "head-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct serve_opts, head_ms),
	  .standard = "10s",
	  .min = 1,
	  .max = 86400000,
	  .help = "cut connections whose request head takes longer" },
	{ .name = "idle-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct serve_opts, idle_ms),
	  .standard = "60s",
	  .min = 1,
	  .max = 86400000,
	  .help = "cut connections that ask for nothing, give a body or take an answer too slowly "
		  "for this long" },
	{ .name = "grace",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct serve_opts, grace_ms),
	  .standard = "5s",
	  .help = "at the end, give answers this long to be taken" },
	{ .name = NULL },
};

static int check(const struct serve_opts *o, struct sc_err *err)
{
	if (!o->cors[0]) {
		sc_err_set(err, SC_E_USAGE, "cannot serve", "--cors names no origin");
		return sc_err_next(err, "name one, * for all, or none");
	}
	if (o->webhook_ca && !o->subscriptions) {
		sc_err_set(err, SC_E_USAGE, "cannot use --webhook-ca",
			   "no webhooks are delivered without --subscriptions");
		return sc_err_next(err, "add --subscriptions");
	}
	return sc_port_opts_check(&o->port, "", err);
}

static void fill(const struct serve_opts *o, struct sc_ds_http_options *s)
{
	static const char *const standard[] = { STANDARD_ADDRESS };

	*s = (struct sc_ds_http_options){
		.cert = o->port.cert,
		.key = o->port.key,
		.client_ca = o->port.client_ca,
		.token_file = o->port.token_file,
		.prefix = o->prefix,
		.cors = strcmp(o->cors, "none") == 0 ? "" : o->cors,
		.private_cache = o->private_cache,
		.trust_forwarded = o->trust_forwarded,
		.access_log = sc_says(SC_INFO),
		.logs = o->logs.items,
		.log_count = o->logs.count,
		.subscriptions = o->subscriptions,
		.webhook_ca = o->webhook_ca,
		.webhook_ms = o->webhook_ms,
		.long_poll_ms = o->long_poll_ms,
		.sse_ms = o->sse_ms,
		.head_ms = o->head_ms,
		.idle_ms = o->idle_ms,
		.grace_ms = o->grace_ms,
		.body_max = o->max_body,
		.held_max = o->max_held,
		.path_max = (size_t)o->max_path,
		.clients_max = (size_t)o->port.clients,
		.per_address_max = (size_t)o->port.per_address,
		.ready_fd = o->port.ready_fd,
		.say = sc_say_fields,
	};
	sc_port_opts_listen(&o->port, standard, &s->listen, &s->listen_count, &s->activation);
}

/*
 * One server a folder: a long-poll at one would not hear of what another takes. The verbs need no
 * lock. The lock goes with the process.
 */
static int lock_folder(const char *folder, struct sc_err *err)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/serving", folder) >= (int)sizeof(path)) {
		sc_err_set(err, SC_E_USAGE, "cannot serve", "its path is too long");
		return sc_err_on(err, "folder", folder);
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0 && fcntl(fd, F_SETLK, &lock) == 0)
		return fd;
	if (fd < 0 || (errno != EACCES && errno != EAGAIN)) {
		sc_err_sys(err, SC_E_IO, errno, "cannot lock");
		if (fd >= 0)
			close(fd);
		return sc_err_on(err, "file", path);
	}
	lock.l_pid = 0;
	(void)fcntl(fd, F_GETLK, &lock);
	close(fd);
	sc_err_set(err, SC_E_BUSY, "cannot serve", "sc-streams serves it already, as process %ld",
		   (long)lock.l_pid);
	sc_err_on(err, "folder", folder);
	return sc_err_next(err, "end that one, or give this one a folder of its own");
}

static void on_trouble(void *arg, const struct sc_err *err)
{
	(void)arg;
	sc_say_err(SC_WARNING, err);
}

int run_serve(const void *given, char *const *operands, struct sc_err *err)
{
	const struct serve_opts *o = given;
	struct sc_ds_settings settings = {
		.read_bytes = o->max_read,
		.subs_max = (unsigned)o->max_subscriptions,
		.links_max = (unsigned)o->max_links,
		.trouble = on_trouble,
	};
	struct sc_ds_http_options s;
	struct sc_ds *ds = NULL;
	sigset_t signals;
	int lock_fd = -1, signo = 0, rc = check(o, err);

	/* before there are threads: the one that waits for them takes them */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	fill(o, &s);
	if (rc == 0)
		rc = sc_ds_open(operands[0], &settings, &ds, err);
	if (rc == 0) {
		lock_fd = lock_folder(operands[0], err);
		rc = lock_fd < 0 ? lock_fd : 0;
	}
	if (rc == 0)
		rc = sc_ds_http_run(ds, &s, &signo, err);
	sc_ds_close(ds);
	if (lock_fd >= 0)
		close(lock_fd);
	return rc; /* a signal is how a server ends: status 0 */
}
