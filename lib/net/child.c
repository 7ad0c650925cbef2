/* net/child.c: a child process on the loop. */
#include "net/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

extern char **environ;

#define READ_SIZE (64u << 10)
#define READ_TURN (1u << 20) /* before others get their turn */

/* One of its outputs. */
struct gather {
	int fd;
	struct sc_watch *watch;
	struct sc_bytes bytes;
	size_t max;
	bool cut;
};

struct sc_child {
	struct sc_loop *loop;
	void (*ended)(void *arg, const struct sc_child_end *end);
	void *arg;
	pid_t pid;
	int pid_fd, in_fd;
	struct sc_watch *end_watch, *in_watch;
	struct sc_bytes input;
	size_t written;
	struct gather output, errors;
};

static void close_input(struct sc_child *c)
{
	sc_watch_free(c->in_watch);
	c->in_watch = NULL;
	sc_close(&c->in_fd);
}

static void close_gather(struct gather *g)
{
	sc_watch_free(g->watch);
	g->watch = NULL;
	sc_close(&g->fd);
}

void sc_child_free(struct sc_child *c)
{
	if (!c)
		return;
	close_input(c);
	close_gather(&c->output);
	close_gather(&c->errors);
	sc_watch_free(c->end_watch);
	sc_close(&c->pid_fd);
	sc_bytes_done(&c->input);
	sc_bytes_done(&c->output.bytes);
	sc_bytes_done(&c->errors.bytes);
	free(c);
}

pid_t sc_child_pid(const struct sc_child *c)
{
	return c->pid;
}

static void on_input(void *arg, int events)
{
	struct sc_child *c = arg;

	(void)events;
	while (c->written < c->input.len) {
		ssize_t n = sc_sys_write(c->in_fd, c->input.data + c->written,
					 c->input.len - c->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break; /* it does not read on: its status says whether that is well */
		c->written += (size_t)n;
	}
	close_input(c);
}

/* What is there, about MOST of it: whoever writes fast enough has always more. What is over the
 * limit is read and dropped, so that the child does not stand still. */
static void read_some(struct gather *g, size_t most)
{
	char buf[READ_SIZE];
	size_t done = 0;

	while (g->fd >= 0 && done < most) {
		ssize_t n = read(g->fd, buf, sizeof(buf));
		size_t room = g->max - g->bytes.len, take;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			close_gather(g);
			return;
		}
		done += (size_t)n;
		take = (size_t)n < room ? (size_t)n : room;
		if (sc_bytes_put(&g->bytes, buf, take) < 0 || take < (size_t)n)
			g->cut = true;
	}
}

static void on_output(void *arg, int events)
{
	(void)events;
	read_some(arg, READ_TURN);
}

/* What it left in the pipe; what others write there now is not its own. */
static void read_rest(struct gather *g)
{
	int there = 0;

	if (g->fd >= 0 && ioctl(g->fd, FIONREAD, &there) == 0 && there > 0)
		read_some(g, (size_t)there);
}

static void on_end(void *arg, int events)
{
	struct sc_child *c = arg;
	struct sc_child_end end = { 0 };
	pid_t got;

	(void)events;
	got = waitpid(c->pid, &end.status, WNOHANG);
	if (got == 0 || (got < 0 && errno == EINTR))
		return;
	if (got < 0)
		end.errnum = errno;
	read_rest(&c->output);
	read_rest(&c->errors);
	close_input(c);
	close_gather(&c->output);
	close_gather(&c->errors);
	sc_watch_free(c->end_watch);
	c->end_watch = NULL;
	end.output = sc_span(c->output.bytes.data, c->output.bytes.len);
	end.errors = sc_span(c->errors.bytes.data, c->errors.bytes.len);
	end.output_cut = c->output.cut;
	end.errors_cut = c->errors.cut;
	c->ended(c->arg, &end);
}

static bool replaced(const char *ours, const char *const *more)
{
	for (; more && *more; more++) {
		size_t name = strcspn(*more, "=");

		if (strncmp(ours, *more, name) == 0 && ours[name] == '=')
			return true;
	}
	return false;
}

/* Our environment with MORE over it. NULL when memory is out. */
static char **make_environment(const char *const *more)
{
	size_t count = 0, used = 0;
	char **env;

	for (size_t i = 0; environ[i]; i++)
		count++;
	for (size_t i = 0; more && more[i]; i++)
		count++;
	env = sc_malloc((count + 1) * sizeof(*env));
	if (!env)
		return NULL;
	for (size_t i = 0; environ[i]; i++)
		if (!replaced(environ[i], more))
			env[used++] = environ[i];
	for (size_t i = 0; more && more[i]; i++)
		if (strchr(more[i], '='))
			env[used++] = (char *)(uintptr_t)more[i];
	env[used] = NULL;
	return env;
}

/* The child's ends of the pipes; -1: it has ours. */
struct ends {
	int in, out, err;
};

static int spawn_as(struct sc_child *c, const struct sc_child_options *o, const struct ends *ends,
		    posix_spawn_file_actions_t *files, posix_spawnattr_t *attr, char **env)
{
	sigset_t none, normal;
	int rc;

	sigemptyset(&none);
	sigemptyset(&normal);
	sigaddset(&normal, SIGPIPE); /* what the frame ignores */
	sigaddset(&normal, SIGXFSZ);
	posix_spawnattr_setsigmask(attr, &none);
	posix_spawnattr_setsigdefault(attr, &normal);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawn_file_actions_adddup2(files, ends->in, STDIN_FILENO);
	if (rc == 0 && ends->out >= 0)
		rc = posix_spawn_file_actions_adddup2(files, ends->out, STDOUT_FILENO);
	if (rc == 0 && ends->err >= 0)
		rc = posix_spawn_file_actions_adddup2(files, ends->err, STDERR_FILENO);
	return rc ? rc : posix_spawnp(&c->pid, o->argv[0], files, attr, o->argv, env);
}

/* An errno. */
static int spawn(struct sc_child *c, const struct sc_child_options *o, const struct ends *ends)
{
	char **env = make_environment(o->env);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int rc = ENOMEM;

	if (!env)
		return rc;
	if (posix_spawn_file_actions_init(&files) == 0) {
		if (posix_spawnattr_init(&attr) == 0) {
			rc = spawn_as(c, o, ends, &files, &attr, env);
			posix_spawnattr_destroy(&attr);
		}
		posix_spawn_file_actions_destroy(&files);
	}
	free(env);
	return rc;
}

/* A pipe whose end *OURS does not block; an errno. */
static int make_pipe(int *ours, int *theirs, bool ours_reads)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return errno;
	*ours = fds[ours_reads ? 0 : 1];
	*theirs = fds[ours_reads ? 1 : 0];
	return sc_set_nonblock(*ours, true) < 0 ? errno : 0;
}

/*
 * What becomes readable when it ends; an errno. Where nobody is asked for its end (SIGCHLD is
 * ignored) it may be gone by now, and its number with it: then that is so at once.
 */
static int open_pid(struct sc_child *c)
{
	c->pid_fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pid_fd < 0 && errno == ESRCH)
		c->pid_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	return c->pid_fd < 0 ? errno : 0;
}

static int start(struct sc_child *c, const struct sc_child_options *o)
{
	struct ends ends = { -1, -1, -1 };
	int rc = make_pipe(&c->in_fd, &ends.in, false);

	if (rc == 0 && o->output_max)
		rc = make_pipe(&c->output.fd, &ends.out, true);
	if (rc == 0 && o->errors_max)
		rc = make_pipe(&c->errors.fd, &ends.err, true);
	if (rc == 0)
		rc = spawn(c, o, &ends);
	sc_close(&ends.in);
	sc_close(&ends.out);
	sc_close(&ends.err);
	return rc ? rc : open_pid(c);
}

static int watch(struct sc_child *c, struct sc_err *err)
{
	int rc = sc_watch_new(c->loop, c->pid_fd, SC_READABLE, on_end, c, &c->end_watch, err);

	if (rc == 0)
		rc = sc_watch_new(c->loop, c->in_fd, SC_WRITABLE, on_input, c, &c->in_watch, err);
	if (rc == 0 && c->output.fd >= 0)
		rc = sc_watch_new(c->loop, c->output.fd, SC_READABLE, on_output, &c->output,
				  &c->output.watch, err);
	if (rc == 0 && c->errors.fd >= 0)
		rc = sc_watch_new(c->loop, c->errors.fd, SC_READABLE, on_output, &c->errors,
				  &c->errors.watch, err);
	return rc;
}

static void gather_init(struct gather *g, size_t max)
{
	g->fd = -1;
	g->max = max;
	sc_bytes_init(&g->bytes, max);
}

int sc_child_start(struct sc_loop *loop, const struct sc_child_options *options,
		   void (*ended)(void *arg, const struct sc_child_end *end), void *arg,
		   struct sc_child **ret_child, struct sc_err *err)
{
	struct sc_child *c = sc_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return sc_err_nomem(err, "cannot start a command");
	c->loop = loop;
	c->ended = ended;
	c->arg = arg;
	c->pid_fd = c->in_fd = -1;
	gather_init(&c->output, options->output_max);
	gather_init(&c->errors, options->errors_max);
	sc_bytes_init(&c->input, SIZE_MAX / 2);
	if (sc_bytes_put(&c->input, options->input.data, options->input.len) < 0) {
		sc_child_free(c);
		return sc_err_nomem(err, "cannot start a command");
	}
	rc = start(c, options);
	if (rc != 0) {
		sc_err_sys(err, SC_E_INTERNAL, rc, "cannot start");
		rc = sc_err_on(err, "command", options->argv[0]);
	} else {
		rc = watch(c, err);
	}
	if (rc < 0)
		sc_child_free(c);
	else
		*ret_child = c;
	return rc;
}
