/*
 * Goal: a child gets its input and environment, what it says is gathered up to the limits, and its
 * end is told whatever it does. Method: small shell commands.
 */
#include "net/child.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check.h"

static struct sc_loop *loop;
static struct sc_child *child;
static struct sc_err err;
static int status, end_errnum, ends;
static char output[200001], errors[300];
static bool output_cut;
static bool be_late; /* posix_spawnp returns when the child is gone */

/* This program's own stands before libc's. */
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *files,
		 const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	static int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *,
			   const posix_spawnattr_t *, char *const[], char *const[]);
	int rc;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "posix_spawnp");
	rc = real(pid, file, files, attr, argv, env);
	while (rc == 0 && be_late && kill(*pid, 0) == 0)
		usleep(1000);
	return rc;
}

static void on_end(void *arg, const struct sc_child_end *end)
{
	(void)arg;
	ends++;
	status = end->status;
	end_errnum = end->errnum;
	output_cut = end->output_cut;
	CHECK(end->output.len < sizeof(output) && end->errors.len < sizeof(errors));
	memcpy(output, end->output.len ? end->output.data : "", end->output.len);
	output[end->output.len] = '\0';
	memcpy(errors, end->errors.len ? end->errors.data : "", end->errors.len);
	errors[end->errors.len] = '\0';
	sc_child_free(child);
	child = NULL;
	sc_loop_stop(loop);
}

static void run(const char *command, struct sc_span input, size_t output_max)
{
	char *argv[] = { "sh", "-c", (char *)(uintptr_t)command, NULL };
	static const char *const env[] = { "SC_TEST=new=1", "SC_OTHER", NULL };
	struct sc_child_options o = { .argv = argv,
				      .env = env,
				      .input = input,
				      .output_max = output_max,
				      .errors_max = 256 };

	if (!loop)
		CHECK_OK(sc_loop_new(&loop, &err), &err);
	signal(SIGPIPE, SIG_IGN); /* as the frame of every program does */
	setenv("SC_TEST", "old", 1);
	setenv("SC_TES", "shorter", 1);
	setenv("SC_OTHER", "old", 1);
	ends = 0;
	CHECK_OK(sc_child_start(loop, &o, on_end, NULL, &child, &err), &err);
	CHECK(sc_child_pid(child) > 0);
	alarm(60);
	CHECK_OK(sc_loop_run(loop, &err), &err);
	alarm(0);
	CHECK_INT(ends, 1);
}

TEST(input_output_errors_environment_and_status)
{
	run("cat; echo \"$SC_TEST $SC_TES ${SC_OTHER-none}\"; echo bad >&2; exit 3",
	    SC_SPAN("in\n"), 1000);
	CHECK_STR(output, "in\nnew=1 shorter none\n");
	CHECK_STR(errors, "bad\n");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3 && !output_cut);
}

TEST(more_than_a_pipe_holds_goes_both_ways)
{
	char *input = malloc(200000);

	CHECK(input != NULL);
	memset(input, 'x', 200000);
	run("cat", sc_span(input, 200000), 200000);
	CHECK_INT(strlen(output), 200000);
	CHECK(!output_cut && status == 0);
	free(input);
}

TEST(what_is_over_the_limit_is_dropped_and_told)
{
	run("head -c 100000 /dev/zero | tr '\\0' y", SC_SPAN(""), 1000);
	CHECK_INT(strlen(output), 1000);
	CHECK(output_cut && status == 0);
}

TEST(a_child_that_reads_nothing_is_no_failure)
{
	char *input = calloc(1, 1000000);

	CHECK(input != NULL);
	run("exit 0", sc_span(input, 1000000), 10);
	CHECK_INT(status, 0);
	free(input);
}

TEST(a_signal_is_told)
{
	run("kill -9 $$", SC_SPAN(""), 10);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(a_process_left_behind_is_not_waited_for)
{
	run("sleep 50 & echo $!", SC_SPAN(""), 100);
	CHECK_INT(status, 0);
	CHECK(atoi(output) > 1 && kill(atoi(output), SIGKILL) == 0);
}

TEST(signals_are_as_in_a_shell)
{
	run("yes | head -n 1; trap", SC_SPAN(""), 100);
	CHECK_STR(output, "y\n");
}

TEST(an_end_that_nobody_can_learn_is_told)
{
	signal(SIGCHLD, SIG_IGN);
	run("exit 1", SC_SPAN(""), 100);
	CHECK_INT(end_errnum, ECHILD);
	be_late = true;
	run("echo gone", SC_SPAN("in"), 100);
	be_late = false;
	CHECK_INT(end_errnum, ECHILD);
	CHECK_STR(output, "gone\n");
	signal(SIGCHLD, SIG_DFL);
}

TEST(a_command_that_is_not_there)
{
	char *argv[] = { "/nowhere/command", NULL };
	struct sc_child_options o = { .argv = argv };
	char line[1200];

	if (!loop)
		CHECK_OK(sc_loop_new(&loop, &err), &err);
	CHECK_INT(sc_child_start(loop, &o, on_end, NULL, &child, &err), SC_E_INTERNAL);
	sc_err_line(&err, line, sizeof(line));
	CHECK_STR(line, "cannot start command '/nowhere/command': No such file or directory");
}
