/*
 * Goal: the frame answers --help and its like, takes options from all their places in order,
 * reports errors in its form, and ends with the right status whatever becomes of its three
 * descriptors. Method: a small program with one verb and one with several run in a child; output,
 * words and status are compared.
 */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

#include "../check.h"

struct opts {
	struct sc_common common;
	int64_t count;
	bool follow;
	int64_t every_ms;
	struct sc_opt_list headers;
};

#define INTO(member) .into = offsetof(struct opts, member)
static const struct sc_opt options[] = {
	{ .name = "count",
	  .letter = 'n',
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  INTO(count),
	  .standard = "10",
	  .min = 1,
	  .max = 100,
	  .help = "stop after N messages" },
	{ .name = "header",
	  .letter = 'H',
	  .kind = SC_OPT_LIST,
	  .arg = "HEADER",
	  INTO(headers),
	  .help = "send this header" },
	{ 0 },
};
static const struct sc_opt append_options[] = {
	{ .name = "follow", .letter = 'f', .kind = SC_OPT_FLAG, INTO(follow), .help = "go on" },
	{ .name = "every",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  INTO(every_ms),
	  .bare = "2s",
	  .help = "so often" },
	{ .name = "quiet",
	  .letter = 'q',
	  .kind = SC_OPT_FLAG,
	  INTO(common.quiet),
	  .help = "print no lines, say only errors" },
	{ 0 },
};

/* What to do is the first operand. */
static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	const char *what = operands[0];
	int rc = 0;

	if (strcmp(what, "show") == 0) {
		printf("count %" PRId64 " follow %d quiet %d headers", o->count, o->follow,
		       o->common.quiet);
		for (size_t i = 0; i < o->headers.count; i++)
			printf(" <%s>", o->headers.items[i]);
		puts("");
	} else if (strcmp(what, "flood") == 0) {
		while (rc == 0)
			rc = sc_write_all(STDOUT_FILENO, "line\n", 5, "standard output", err);
	} else if (strcmp(what, "fail") == 0) {
		sc_err_set(err, SC_E_BUSY, "cannot seal", "another seal runs as process %d", 812);
		sc_err_on(err, "log", "data/trades");
		rc = sc_err_next(err, "wait for it to end");
	} else if (strcmp(what, "silent") == 0) {
		rc = SC_E_PROTOCOL;
	} else if (strcmp(what, "epipe") == 0) {
		/* A broken pipe that is not stdout is an error as any other. */
		rc = sc_err_sys(err, SC_E_IO, EPIPE, "cannot write to the command");
	} else if (strcmp(what, "part") == 0) {
		rc = 1;
	} else if (strcmp(what, "say") == 0) {
		for (int i = 0; i < 4; i++)
			sc_say(SC_WARNING, "cannot reach\n%s", "it");
		sc_say(SC_INFO, "info");
		sc_say(SC_DEBUG, "debug");
		sc_say_fields(SC_NOTICE, "\"port\":8765", "ready");
		sc_err_set(err, SC_E_NOLOG, "cannot open", "no such log");
		sc_say_err(SC_ERROR, err);
	} else if (strcmp(what, "open") == 0) {
		printf("%d\n", open("/dev/null", O_RDONLY));
	} else if (strcmp(what, "read") == 0) {
		char c;

		if (read(STDIN_FILENO, &c, 1) < 0)
			rc = sc_err_sys(err, SC_E_IO, errno, "cannot read standard input");
	}
	return rc;
}

static const struct sc_example examples[] = {
	{ "show it", "sc-one show" },
	{ "append to it", "sc-many append show" },
	{ "a long one",
	  "sc-one --header 'a | b' --header cccccccccccccccccccccccccc | sc-one show | cat" },
	{ 0 },
};
static const int statuses[] = { 1, 74, 75, 0 };
static const struct sc_verb one_verb = { NULL,    "WHAT...",           1,  2, "one",
					 options, sizeof(struct opts), run };
static const struct sc_program one = { "sc-one",  "one thing", "It does one thing.",
				       &one_verb, 1,           examples,
				       statuses,  false,       "half of it is done" };
static const struct sc_verb many_verbs[] = {
	{ "read", "LOG", 1, 1, "print rows", options, sizeof(struct opts), run },
	{ "append", "LOG", 1, 1, "append rows", append_options, sizeof(struct opts), run },
	{ "info", "", 0, 0, "say something", NULL, sizeof(struct sc_common), run },
};
static const struct sc_program many = { "sc-many", "many things", "It does many.", many_verbs, 3,
					examples,  statuses,      false,           NULL };
/* The same, with a verb that is meant where none is named. */
static const struct sc_program meant = { "sc-meant", "many things", "It does many.", many_verbs,
					 3,          examples,      statuses,        true,
					 NULL };

static struct {
	int status;
	char out[16384], err[16384];
} child;

static void drain(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1 && (n = read(fd, text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(fd);
}

enum { OUT_PIPE, OUT_FULL, OUT_CLOSED, OUT_LEFT, ALL_CLOSED };

/* Run PROGRAM in a child with its stdout as OUT says, and keep what it wrote. */
static void run_out(const struct sc_program *program, int out_kind, char *const *argv)
{
	int out[2], err[2], argc = 0, status;
	pid_t pid;

	while (argv[argc])
		argc++;
	CHECK(pipe(out) == 0 && pipe(err) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		int full = open("/dev/full", O_WRONLY);

		if (out_kind == OUT_LEFT)
			close(out[0]);
		dup2(err[1], STDERR_FILENO);
		dup2(out_kind == OUT_FULL ? full : out[1], STDOUT_FILENO);
		if (out_kind == OUT_CLOSED || out_kind == ALL_CLOSED)
			close(STDOUT_FILENO);
		if (out_kind == ALL_CLOSED) {
			close(STDIN_FILENO);
			close(STDERR_FILENO);
		}
		for (int fd = 3; fd < 20; fd++)
			if (out_kind != OUT_LEFT || fd != out[0])
				close(fd);
		/* As a program finds it, not as check.h has set it. */
		setvbuf(stdout, NULL, _IOFBF, BUFSIZ);
		/* No leak check by _exit: the parse tests do that. */
		_exit(sc_program_main(program, argc, (char **)(uintptr_t)argv));
	}
	close(out[1]);
	close(err[1]);
	if (out_kind == OUT_LEFT)
		close(out[0]);
	else
		drain(out[0], child.out, sizeof(child.out));
	drain(err[0], child.err, sizeof(child.err));
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	child.status = WEXITSTATUS(status);
}
#define RUN(PROGRAM, ...) \
	run_out(&(PROGRAM), OUT_PIPE, (char *const[]){ (char *)"x", ##__VA_ARGS__, NULL })
#define RUN_OUT(OUT, ...) run_out(&one, OUT, (char *const[]){ (char *)"x", ##__VA_ARGS__, NULL })

static void expect(int status, const char *out, const char *err)
{
	CHECK_STR(child.err, err);
	CHECK_STR(child.out, out);
	CHECK_INT(child.status, status);
}

TEST(runs)
{
	RUN(one, "show");
	expect(0, "count 10 follow 0 quiet 0 headers\n", "");
	RUN(one, "-n5", "show", "-H", "a b");
	expect(0, "count 5 follow 0 quiet 0 headers <a b>\n", "");
	RUN(one, "part");
	expect(1, "", "");
	RUN(one, "fail");
	expect(75, "",
	       "sc-one: cannot seal log 'data/trades': another seal runs as process 812; wait for "
	       "it to end\n");
	RUN(one, "fail", "--json");
	expect(75, "",
	       "{\"error\":\"busy\",\"status\":75,\"tried\":\"cannot seal\",\"object\":\"log "
	       "'data/trades'\","
	       "\"reason\":\"another seal runs as process 812\",\"next\":\"wait for it to "
	       "end\"}\n");
	RUN(one, "silent");
	expect(76, "", "sc-one: cannot finish: protocol\n");
}

TEST(usage_errors)
{
	RUN(one);
	expect(64, "", "sc-one: cannot start: WHAT... is missing; see 'sc-one --help'\n");
	RUN(one, "a", "b", "c");
	expect(64, "",
	       "sc-one: cannot start: there is nothing to do with 'c'; see 'sc-one --help'\n");
	RUN(one, "--count", "x", "show");
	expect(64, "",
	       "sc-one: cannot start: --count takes a number from 1 to 100, not 'x'; see 'sc-one "
	       "--help'\n");
	RUN(one, "--json", "--bogus");
	expect(64, "",
	       "{\"error\":\"usage\",\"status\":64,\"tried\":\"cannot start\",\"reason\":\"there "
	       "is no option --bogus\","
	       "\"next\":\"see 'sc-one --help'\"}\n");
}

static void check_help(void)
{
	size_t columns = 0;

	CHECK_STR(child.err, "");
	CHECK_INT(child.status, 0);
	for (const char *c = child.out; *c; c++) {
		columns = *c == '\n' ? 0 : columns + 1;
		CHECK(columns <= 80);
	}
}

TEST(help)
{
	RUN(one, "--help");
	check_help();
	CHECK(strncmp(child.out, "Usage: sc-one [OPTION]... WHAT...\n", 34) == 0);
	CHECK(strstr(
		child.out,
		"  -n, --count N             stop after N messages (from 1 to 100; default 10)\n"));
	CHECK(strstr(child.out,
		     "  -H, --header HEADER       send this header (may be repeated)\n"));
	CHECK(strstr(child.out, "      --options-file FILE"));
	CHECK(strstr(child.out, "--print") == NULL);
	CHECK(strstr(child.out, "  # show it\n  sc-one show\n"));
	/* Broken in front of a pipe, not inside quotes. */
	CHECK(strstr(child.out, "'a | b'"));
	CHECK(strstr(child.out, " \\\n      | sc-one show"));
	CHECK(strstr(child.out, "  75   busy"));
	CHECK(strstr(child.out, "  1    half of it is done\n"));
	/* Also where nothing else is right. */
	setenv("SC_ONE_OPTIONS", "--bogus", 1);
	RUN(one, "a", "b", "c", "-h");
	unsetenv("SC_ONE_OPTIONS");
	check_help();
	RUN(one, "--version");
	expect(0, "sc-one " SC_VERSION "\n", "");
}

TEST(verbs)
{
	RUN(many, "append", "-f", "show");
	expect(0, "count 0 follow 1 quiet 0 headers\n", "");
	RUN(many, "-q", "--json", "read", "-n3", "show");
	expect(0, "count 3 follow 0 quiet 1 headers\n", "");
	RUN(many, "append", "-q", "show");
	expect(0, "count 0 follow 0 quiet 1 headers\n", "");
	RUN(many);
	expect(64, "", "sc-many: cannot start: the verb is missing; one of read, append, info\n");
	RUN(many, "apend", "x");
	expect(64, "", "sc-many: cannot start: there is no verb 'apend'; did you mean 'append'?\n");
	RUN(many, "write", "x");
	expect(64, "",
	       "sc-many: cannot start: there is no verb 'write'; it is one of read, append, "
	       "info\n");
	RUN(many, "append", "--count", "4", "x");
	expect(64, "",
	       "sc-many: cannot start: there is no option --count; see 'sc-many append --help'\n");
	RUN(many, "append");
	expect(64, "", "sc-many: cannot start: LOG is missing; see 'sc-many append --help'\n");
	RUN(many, "--", "read", "show");
	expect(0, "count 10 follow 0 quiet 0 headers\n", "");
}

TEST(a_verb_that_is_meant)
{
	RUN(meant, "read", "-n3", "show");
	expect(0, "count 3 follow 0 quiet 0 headers\n", "");
	RUN(meant, "-n3", "show");
	expect(0, "count 3 follow 0 quiet 0 headers\n", "");
	/* the value of an option is no verb, an operand may be one behind another option */
	RUN(meant, "-n", "3", "show");
	expect(0, "count 3 follow 0 quiet 0 headers\n", "");
	RUN(meant, "--header", "append", "show");
	expect(0, "count 10 follow 0 quiet 0 headers <append>\n", "");
	RUN(meant, "append", "-f", "show");
	expect(0, "count 0 follow 1 quiet 0 headers\n", "");
	RUN(meant, "--", "append", "show");
	expect(0, "count 0 follow 0 quiet 0 headers\n", "");
	RUN(meant);
	expect(64, "", "sc-meant: cannot start: LOG is missing; see 'sc-meant --help'\n");
	RUN(meant, "show", "append");
	expect(64, "",
	       "sc-meant: cannot start: there is nothing to do with 'append'; see 'sc-meant "
	       "--help'\n");
	RUN(meant, "--help");
	check_help();
	CHECK(strncmp(child.out, "Usage: sc-meant [OPTION]... LOG\n", 32) == 0);
	CHECK(strstr(child.out, "Verbs:") && strstr(child.out, "--count"));
	RUN(meant, "help", "append");
	check_help();
	CHECK(strncmp(child.out, "Usage: sc-meant append", 22) == 0);
}

TEST(help_of_verbs)
{
	RUN(many, "--help");
	check_help();
	CHECK(strstr(child.out, "  append LOG                append rows\n"));
	CHECK(strstr(child.out, "--count") == NULL);
	RUN(many, "append", "--help");
	check_help();
	CHECK(strncmp(child.out, "Usage: sc-many append [OPTION]... LOG\n", 38) == 0);
	CHECK(strstr(child.out, "print no lines, say only errors"));
	CHECK(strstr(child.out, "      --every [DUR]         so often\n"));
	CHECK(strstr(child.out, "  1    done in part:"));
	/* The program's own word for a common option stands in for the frame's. */
	CHECK(strstr(child.out, "--quiet") && !strstr(strstr(child.out, "--quiet") + 1, "--quiet"));
	CHECK(strstr(child.out, "sc-many append show") && !strstr(child.out, "sc-one show"));
	RUN(many, "help", "append");
	check_help();
	CHECK(strncmp(child.out, "Usage: sc-many append", 21) == 0);
	RUN(many, "help");
	check_help();
	CHECK(strstr(child.out, "Verbs:"));
	RUN(many, "help", "nothing");
	CHECK_INT(child.status, 64);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	CHECK(f != NULL);
	fputs(text, f);
	CHECK(fclose(f) == 0);
}

TEST(options_from_file_and_environment)
{
	const char *folder = getenv("TMPDIR");
	char path[200], text[400];
	int fd;

	snprintf(path, sizeof(path), "%s/sc-options.XXXXXX", folder ? folder : "/tmp");
	fd = mkstemp(path);
	CHECK(fd >= 0);
	close(fd);
	write_file(path, "# ours\n--count 20\n--header 'from file'\n");
	RUN(one, "--options-file", path, "show");
	expect(0, "count 20 follow 0 quiet 0 headers <from file>\n", "");
	setenv("SC_ONE_OPTIONS", "-n 30 -H \"from env\"", 1);
	RUN(one, "--options-file", path, "show");
	expect(0, "count 30 follow 0 quiet 0 headers <from file> <from env>\n", "");
	RUN(one, "--options-file", path, "show", "-n40", "--no-header", "-H", "mine");
	expect(0, "count 40 follow 0 quiet 0 headers <mine>\n", "");
	snprintf(text, sizeof(text), "--options-file %s", path);
	setenv("SC_ONE_OPTIONS", text, 1);
	RUN(one, "show");
	expect(0, "count 20 follow 0 quiet 0 headers <from file>\n", "");
	unsetenv("SC_ONE_OPTIONS");
	write_file(path, "--options-file x");
	RUN(one, "--options-file", path, "show");
	CHECK_INT(child.status, 64);
	CHECK(strstr(child.err, "an options file cannot name another"));
	write_file(path, "--count 'x");
	RUN(one, "--options-file", path, "show");
	CHECK_INT(child.status, 64);
	CHECK(strstr(child.err, "the quote ' opened in line 1 is never closed"));
	unlink(path);
	RUN(one, "--options-file", path, "show");
	CHECK_INT(child.status, 66);
	setenv("SC_ONE_OPTIONS", "--count 700", 1);
	RUN(one, "show");
	unsetenv("SC_ONE_OPTIONS");
	expect(64, "",
	       "sc-one: cannot use environment variable 'SC_ONE_OPTIONS': --count takes a number "
	       "from 1 to 100, not "
	       "'700'\n");
	/* Of another verb: passed over. Of none: refused. */
	setenv("SC_MANY_OPTIONS", "--follow -n9", 1);
	RUN(many, "read", "show");
	expect(0, "count 9 follow 0 quiet 0 headers\n", "");
	setenv("SC_MANY_OPTIONS", "--bogus", 1);
	RUN(many, "read", "show");
	CHECK_INT(child.status, 64);
	unsetenv("SC_MANY_OPTIONS");
}

TEST(a_failed_stdout_is_an_error)
{
	RUN_OUT(OUT_FULL, "show");
	CHECK_STR(child.err,
		  "sc-one: cannot write to standard output: No space left on device; make "
		  "room, and try again\n");
	CHECK_INT(child.status, 74);
	RUN_OUT(OUT_FULL, "--help");
	CHECK_INT(child.status, 74);
	RUN_OUT(OUT_FULL, "flood");
	CHECK_INT(child.status, 74);
	RUN_OUT(OUT_CLOSED, "show");
	CHECK_STR(child.err, "sc-one: cannot write to standard output: Bad file descriptor\n");
	CHECK_INT(child.status, 74);
	RUN_OUT(OUT_CLOSED, "part");
	expect(1, "", "");
}

TEST(a_reader_that_left_is_none)
{
	RUN_OUT(OUT_LEFT, "flood");
	CHECK_STR(child.err, "");
	CHECK_INT(child.status, 0);
	RUN_OUT(OUT_LEFT, "show");
	CHECK_STR(child.err, "");
	CHECK_INT(child.status, 0);
	RUN_OUT(OUT_LEFT, "--help");
	CHECK_STR(child.err, "");
	CHECK_INT(child.status, 0);
	RUN_OUT(OUT_LEFT, "fail");
	CHECK_INT(child.status, 75);
	RUN(one, "epipe");
	expect(74, "", "sc-one: cannot write to the command: Broken pipe\n");
}

TEST(closed_descriptors_are_not_used_again)
{
	RUN_OUT(ALL_CLOSED, "open");
	CHECK_INT(child.status, 74); /* the number cannot be printed */
	RUN_OUT(ALL_CLOSED, "part");
	CHECK_INT(child.status, 1);
	RUN_OUT(ALL_CLOSED, "read");
	CHECK_INT(child.status, 74);
	RUN_OUT(OUT_CLOSED, "say");
	CHECK_INT(child.status, 0);
}

/* Lines of child.err with their times taken out. */
static void strip_times(void)
{
	static const char form[] = "0000-00-00T00:00:00.000Z";
	char *to = child.err;

	for (const char *from = child.err; *from;) {
		size_t i = 0;

		while (form[i] &&
		       (form[i] == '0' ? (from[i] >= '0' && from[i] <= '9') : from[i] == form[i]))
			i++;
		if (form[i]) {
			*to++ = *from++;
		} else {
			*to++ = 'T';
			from += i;
		}
	}
	*to = '\0';
}

TEST(messages)
{
	RUN(one, "say");
	strip_times();
	expect(0, "",
	       "sc-one: T warning: cannot reach\\x0ait\nsc-one: T notice: ready\n"
	       "sc-one: T error: cannot open: no such log\n"
	       "sc-one: T warning: cannot reach\\x0ait (3 times more)\n");
	RUN(one, "say", "-q");
	strip_times();
	expect(0, "", "sc-one: T error: cannot open: no such log\n");
	RUN(one, "say", "-vv");
	strip_times();
	CHECK(strstr(child.err, "sc-one: T info: info\nsc-one: T debug: debug\n"));
	RUN(one, "say", "-v");
	CHECK(strstr(child.err, "info: info\n") && !strstr(child.err, "debug"));
	RUN(one, "say", "--json");
	strip_times();
	expect(0, "",
	       "{\"time\":\"T\",\"program\":\"sc-one\",\"level\":\"warning\",\"text\":\"cannot "
	       "reach\\nit\"}\n"
	       "{\"time\":\"T\",\"program\":\"sc-one\",\"level\":\"notice\",\"text\":\"ready\","
	       "\"port\":8765}\n"
	       "{\"time\":\"T\",\"program\":\"sc-one\",\"level\":\"error\",\"text\":\"cannot open: "
	       "no such log\","
	       "\"error\":\"not_found\",\"status\":66,\"tried\":\"cannot open\",\"reason\":\"no "
	       "such log\"}\n"
	       "{\"time\":\"T\",\"program\":\"sc-one\",\"level\":\"warning\",\"text\":\"cannot "
	       "reach\\nit (3 times more)\"}\n");
}

TEST(generated_documents)
{
	RUN(one, "--print-man-options");
	CHECK_INT(child.status, 0);
	CHECK(strstr(child.out, ".It Fl n , Fl \\-count Ar N\nStop after N messages (from 1 to "
				"100; default 10).\n"));
	CHECK(strstr(child.out, "print-man") == NULL);
	RUN(many, "append", "--print-man-options");
	CHECK(strstr(child.out, "Fl \\-follow") && !strstr(child.out, "Fl \\-version"));
	CHECK(strstr(child.out, ".It Fl \\-every Op Ar DUR\nSo often.\n"));
	RUN(many, "--print-man-options");
	CHECK(strstr(child.out, "Fl \\-version") && !strstr(child.out, "Fl \\-follow"));
	RUN(one, "--print-man-statuses");
	CHECK(strstr(child.out, ".It 75\nBusy"));
	CHECK(strstr(child.out, ".It 1\nHalf of it is done.\n"));
	RUN(many, "--print-completion", "bash");
	CHECK(strstr(child.out, "complete -F _sc_many sc-many\n") && strstr(child.out, "--follow"));
	RUN(many, "--print-completion", "zsh");
	CHECK(strncmp(child.out, "#compdef sc-many\n", 17) == 0);
	RUN(one, "--print-completion", "fish");
	CHECK_INT(child.status, 64);
}
