/* run.c: start programs under the recorder, feed them, read their acknowledgements. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace.h"

#define WAIT_MS 60000

static char home[PATH_MAX], record_var[2 * PATH_MAX];
static int trace_fd = -1;

__attribute__((format(printf, 1, 2))) _Noreturn static void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": %s\n", strerror(errno));
	fflush(stdout);
	_exit(3);
}

void run_init(const char *argv0)
{
	char *slash;

	if (!realpath(argv0, home))
		give_up("cannot find %s", argv0);
	slash = strrchr(home, '/');
	*slash = 0;
	signal(SIGPIPE, SIG_IGN);
}

void run_record(const char *folder, const char *trace)
{
	if (trace_fd >= 0)
		close(trace_fd);
	trace_fd = -1;
	record_var[0] = 0;
	if (!folder)
		return;
	snprintf(record_var, sizeof(record_var), "%s:%s", folder, trace);
	trace_fd = open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (trace_fd < 0)
		give_up("cannot make %s", trace);
}

static void put_record(enum rec_kind kind, const char *path, const char *data)
{
	char buf[sizeof(struct rec) + 256];
	struct rec head = { .kind = kind,
			    .pid = (uint32_t)getpid(),
			    .path_len = (uint32_t)strlen(path),
			    .data_len = (uint32_t)strlen(data) };

	memcpy(buf, &head, sizeof(head));
	memcpy(buf + sizeof(head), path, head.path_len);
	memcpy(buf + sizeof(head) + head.path_len, data, head.data_len);
	if (write(trace_fd, buf, sizeof(head) + head.path_len + head.data_len) < 0)
		give_up("cannot write the trace");
}

void run_mark(const char *text)
{
	put_record(REC_MARK, "", text);
}

void run_folder_made(const char *name)
{
	put_record(REC_MKDIR, name, "");
	put_record(REC_DIRSYNC, ".", "");
}

static void be_program(const char *const *argv)
{
	char path[PATH_MAX + 64], preload[PATH_MAX + 64], asan[512];
	const char *old = getenv("ASAN_OPTIONS");

	snprintf(path, sizeof(path), "%s/../bin/%s", home, argv[0]);
	if (record_var[0]) {
		snprintf(preload, sizeof(preload), "%s/record.so", home);
		snprintf(asan, sizeof(asan), "%s%sverify_asan_link_order=0", old ? old : "",
			 old ? ":" : "");
		setenv("ASAN_OPTIONS", asan, 1);
		setenv("LD_PRELOAD", preload, 1);
		setenv("SC_RECORD", record_var, 1);
	}
	signal(SIGPIPE, SIG_DFL);
	execv(path, (char *const *)(uintptr_t)argv);
	fprintf(stderr, "cannot run %s: %s\n", path, strerror(errno));
	_exit(127);
}

void run_start(struct run *run, const char *const *argv)
{
	int in[2], out[2];

	memset(run, 0, sizeof(*run));
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		give_up("cannot make a pipe");
	fflush(stdout);
	run->pid = fork();
	if (run->pid < 0)
		give_up("cannot fork");
	if (run->pid == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		be_program(argv);
	}
	close(in[0]);
	close(out[1]);
	run->in = in[1];
	run->out = out[0];
	fcntl(run->in, F_SETFL, O_NONBLOCK);
	fcntl(run->in, F_SETPIPE_SZ, 1 << 20);
}

/* Take what it prints; false at the end of its output. */
static int take(struct run *run)
{
	char buf[65536];
	ssize_t n = read(run->out, buf, sizeof(buf));

	if (n <= 0)
		return 0;
	for (ssize_t i = 0; i < n; i++) {
		if (buf[i] == '\n') {
			run->lines++;
			run->tail_len = 0;
		} else if (run->tail_len < sizeof(run->tail) - 1) {
			run->tail[run->tail_len++] = buf[i];
		}
	}
	return 1;
}

void run_feed(struct run *run, const char *data, size_t len)
{
	while (len > 0) {
		struct pollfd fds[2] = { { run->in, POLLOUT, 0 }, { run->out, POLLIN, 0 } };

		if (poll(fds, 2, WAIT_MS) <= 0)
			give_up("a program takes no input");
		if (fds[1].revents && !take(run))
			give_up("a program ended before its input");
		if (fds[0].revents) {
			ssize_t n = write(run->in, data, len);

			if (n < 0 && errno != EAGAIN)
				give_up("cannot feed a program");
			if (n > 0) {
				data += n;
				len -= (size_t)n;
			}
		}
	}
}

void run_feed_at_once(struct run *run, const char *data, size_t len)
{
	int status;

	if (kill(run->pid, SIGSTOP) < 0 || waitpid(run->pid, &status, WUNTRACED) < 0 ||
	    !WIFSTOPPED(status))
		give_up("cannot stop a program");
	if (write(run->in, data, len) != (ssize_t)len)
		give_up("a pipe does not take %zu bytes", len);
	kill(run->pid, SIGCONT);
}

void run_wait_lines(struct run *run, size_t lines)
{
	while (run->lines < lines) {
		struct pollfd fd = { run->out, POLLIN, 0 };

		if (poll(&fd, 1, WAIT_MS) <= 0)
			give_up("a program acknowledged %zu lines, not %zu", run->lines, lines);
		if (!take(run))
			give_up("a program ended after %zu lines of %zu", run->lines, lines);
	}
}

int run_end(struct run *run)
{
	int status;

	close(run->in);
	while (take(run))
		;
	close(run->out);
	if (waitpid(run->pid, &status, 0) < 0)
		give_up("cannot wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_once(const char *const *argv)
{
	struct run run;

	run_start(&run, argv);
	return run_end(&run);
}
