/* base/program.c: the frame of every program. */
#include "base/program.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/usage.h"
#include "base/words.h"

#define OPTIONS_FILE_MAX (1u << 20)
#define VERBS_MAX 32

static const char *const shells[] = { "bash", "zsh", NULL };

#define COMMON(member) offsetof(struct sc_common, member)
static const struct sc_opt common_options[] = {
	SC_OPT_GROUP("Common options"),
	{ .name = "verbose",
	  .letter = 'v',
	  .kind = SC_OPT_COUNT,
	  .into = COMMON(verbose),
	  .help = "say more on stderr; twice for debugging" },
	{ .name = "quiet",
	  .letter = 'q',
	  .kind = SC_OPT_FLAG,
	  .into = COMMON(quiet),
	  .help = "say only errors" },
	{ .name = "json",
	  .kind = SC_OPT_FLAG,
	  .into = COMMON(json),
	  .help = "reports, messages and errors as JSON" },
	{ .name = "options-file",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = COMMON(options_file),
	  .help = "take options from FILE, before those of the environment and the command line" },
	{ .name = "help",
	  .letter = 'h',
	  .kind = SC_OPT_FLAG,
	  .into = COMMON(help),
	  .help = "print this help" },
	{ .name = "version",
	  .kind = SC_OPT_FLAG,
	  .into = COMMON(version),
	  .help = "print the version" },
	{ .name = "print-completion",
	  .kind = SC_OPT_CHOICE,
	  .arg = "SHELL",
	  .into = COMMON(print_completion),
	  .choices = shells,
	  .seen = COMMON(completion_asked),
	  .hidden = true },
	{ .name = "print-man-options",
	  .kind = SC_OPT_FLAG,
	  .into = COMMON(print_man_options),
	  .hidden = true },
	{ .name = "print-man-statuses",
	  .kind = SC_OPT_FLAG,
	  .into = COMMON(print_man_statuses),
	  .hidden = true },
	{ 0 },
};

/* A program's run, from its arguments to its status. */
struct frame {
	const struct sc_program *program;
	struct sc_opt *tables[VERBS_MAX]; /* each verb's options with the common ones behind them */
	struct sc_opt *foreign;           /* all verbs' options */
	char environment[80];             /* SC_SEAL_OPTIONS */
	char **environment_words, **file_words;
	size_t environment_count, file_count;
	struct sc_bytes file;
	int verb;     /* index, -1 for none */
	bool unnamed; /* the verb is the one that is meant without a name */
	bool help;    /* the word "help" in front of the verb */
	int argc;     /* without the verb */
	char **argv;
	void *opts;
	char **operands;
	size_t operand_count;
};

const char *sc_version(void)
{
	return SC_VERSION;
}

/*
 * Files opened later must not become 0, 1 or 2. What was closed is opened the wrong way round, so
 * that its use is an error and not silence.
 */
static void open_standard(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
		    open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
			_exit(sc_code_status(SC_E_INTERNAL));
}

/* A person or a program that waits for a line gets it at once. */
static void set_buffering(void)
{
	struct stat st;

	if (fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		setvbuf(stdout, NULL, _IOLBF, 0);
}

static size_t table_size(const struct sc_opt *table)
{
	size_t n = 0;

	while (table && table[n].name)
		n++;
	return n;
}

static bool table_has(const struct sc_opt *table, const char *name)
{
	for (; table && table->name; table++)
		if (table->kind != SC_OPT_TITLE && strcmp(table->name, name) == 0)
			return true;
	return false;
}

/* FIRST, and what SECOND has besides; *RET grows out of nothing or out of a table that was joined
 * before. */
static int join(struct sc_opt **ret, const struct sc_opt *first, const struct sc_opt *second,
		struct sc_err *err)
{
	size_t n = table_size(first);
	struct sc_opt *table = sc_calloc(n + table_size(second) + 1, sizeof(*table));

	if (!table)
		return sc_err_nomem(err, "cannot start");
	if (n)
		memcpy(table, first, n * sizeof(*table));
	for (; second && second->name; second++)
		if (!table_has(first, second->name))
			table[n++] = *second;
	*ret = table;
	return 0;
}

static int make_tables(struct frame *f, struct sc_err *err)
{
	const struct sc_program *p = f->program;
	int rc = 0;

	if (p->verb_count == 0 || p->verb_count > VERBS_MAX)
		return sc_err_set(err, SC_E_INTERNAL, "cannot start", "a program has 1 to %d verbs",
				  VERBS_MAX);
	for (size_t i = 0; rc == 0 && i < p->verb_count; i++) {
		struct sc_opt *all = NULL;

		rc = join(&f->tables[i], p->verbs[i].options, common_options, err);
		if (rc == 0)
			rc = join(&all, f->foreign, p->verbs[i].options, err);
		if (rc == 0) {
			free(f->foreign);
			f->foreign = all;
		}
	}
	return rc;
}

static void frame_done(struct frame *f)
{
	for (size_t i = 0; i < VERBS_MAX; i++)
		free(f->tables[i]);
	free(f->foreign);
	sc_words_free(f->environment_words);
	sc_words_free(f->file_words);
	sc_bytes_done(&f->file);
	free(f->argv);
	free(f->opts);
	free(f->operands);
}

static const struct sc_opt *table_of(const struct frame *f)
{
	return f->verb < 0 ? common_options : f->tables[f->verb];
}

static int with_help(const struct frame *f, struct sc_err *err)
{
	const char *verb = f->verb < 0 || f->unnamed ? NULL : f->program->verbs[f->verb].name;

	return sc_err_next(err, "see '%s%s%s --help'", f->program->name, verb ? " " : "",
			   verb ? verb : "");
}

/* Whether WORD is an option of TABLE that takes the next word for its value. */
static bool takes_next(const struct sc_opt *table, const char *word)
{
	for (const struct sc_opt *o = table; o->name; o++) {
		if (!sc_opt_has_value(o))
			continue;
		if (strncmp(word, "--", 2) == 0 ? strcmp(word + 2, o->name) == 0
						: o->letter && word[1] == o->letter && !word[2])
			return true;
	}
	return false;
}

/* The next word that is not an option; the value of one of TABLE's is none. */
static int find_word(const struct sc_opt *table, int argc, char *const *argv, int from)
{
	for (int i = from; i < argc; i++) {
		if (argv[i][0] != '-' || argv[i][1] == '\0')
			return i;
		if (strcmp(argv[i], "--") == 0)
			return i + 1;
		i += takes_next(table, argv[i]);
	}
	return argc;
}

static int no_such_verb(const struct frame *f, const char *word, struct sc_err *err)
{
	const char *names[VERBS_MAX], *near;
	char list[240] = "";
	size_t len = 0;

	for (size_t i = 0; i < f->program->verb_count; i++) {
		names[i] = f->program->verbs[i].name;
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
						i ? ", " : "", names[i]);
	}
	if (!word) {
		sc_err_set(err, SC_E_USAGE, "cannot start", "the verb is missing");
		return sc_err_next(err, "one of %s", list);
	}
	sc_err_set(err, SC_E_USAGE, "cannot start", "there is no verb '%s'", word);
	near = sc_opt_nearest(word, names, f->program->verb_count);
	return near ? sc_err_next(err, "did you mean '%s'?", near)
		    : sc_err_next(err, "it is one of %s", list);
}

static void drop_word(struct frame *f, int at)
{
	memmove(f->argv + at, f->argv + at + 1, (size_t)(f->argc - at) * sizeof(*f->argv));
	f->argc--;
}

/* Take the verb, and "help" in front of it, out of the arguments. */
static int take_verb(struct frame *f, int argc, char **argv, struct sc_err *err)
{
	const struct sc_opt *table = f->program->first_meant ? f->tables[0] : common_options;
	int at;

	f->argv = sc_calloc((size_t)argc + 2, sizeof(*f->argv));
	if (!f->argv)
		return sc_err_nomem(err, "cannot start");
	if (argc > 0)
		memcpy(f->argv, argv, (size_t)argc * sizeof(*argv));
	else
		f->argv[0] = (char *)f->program->name;
	f->argc = argc > 0 ? argc : 1;
	if (!f->program->verbs[0].name)
		return 0;
	f->verb = -1;
	at = find_word(table, f->argc, f->argv, 1);
	if (at < f->argc && strcmp(f->argv[at], "help") == 0) {
		f->help = true;
		drop_word(f, at);
		at = find_word(table, f->argc, f->argv, at);
	}
	for (size_t i = 0; at < f->argc && f->verb < 0 && i < f->program->verb_count; i++)
		if (strcmp(f->program->verbs[i].name, f->argv[at]) == 0)
			f->verb = (int)i;
	f->unnamed = f->verb < 0 && f->program->first_meant && (at >= f->argc || !f->help);
	if (f->unnamed)
		f->verb = 0;
	else if (f->verb >= 0)
		drop_word(f, at);
	else if (at < f->argc)
		return no_such_verb(f, f->argv[at], err);
	return 0;
}

/* Options from the defaults, then the options file, the environment (as far as they were read), the
 * arguments. */
static int fill(struct frame *f, struct sc_err *err)
{
	const struct sc_opt *table = table_of(f);
	const struct sc_common *common;
	size_t size = f->verb < 0 ? sizeof(struct sc_common) : f->program->verbs[f->verb].opts_size;
	int rc;

	if (f->opts)
		sc_opt_done(table, f->opts);
	free(f->opts);
	free(f->operands);
	f->operands = NULL;
	f->opts = sc_calloc(1, size > sizeof(*common) ? size : sizeof(*common));
	if (!f->opts)
		return sc_err_nomem(err, "cannot start");
	rc = sc_opt_defaults(table, f->opts, err);
	if (rc == 0 && f->file_words) {
		common = f->opts;
		rc = sc_opt_words(table, f->foreign, "options file",
				  f->file.data ? f->file.data : "", f->file_count, f->file_words,
				  f->opts, err);
		if (rc == 0 && common->options_file) {
			sc_err_set(err, SC_E_USAGE, "cannot use",
				   "an options file cannot name another");
			rc = sc_err_on(err, "options file", f->file.data);
		}
	}
	if (rc == 0 && f->environment_words)
		rc = sc_opt_words(table, f->foreign, "environment variable", f->environment,
				  f->environment_count, f->environment_words, f->opts, err);
	if (rc == 0)
		rc = sc_opt_parse(table, f->argc, f->argv, f->opts, &f->operands, &f->operand_count,
				  err);
	return rc;
}

static int read_environment(struct frame *f, struct sc_err *err)
{
	const char *text;
	size_t n = 0;
	int rc;

	for (const char *c = f->program->name;
	     *c && n < sizeof(f->environment) - sizeof("_OPTIONS"); c++)
		f->environment[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	memcpy(f->environment + n, "_OPTIONS", sizeof("_OPTIONS"));
	text = getenv(f->environment);
	if (!text || !*text)
		return 0;
	rc = sc_words_split(sc_span_str(text), &f->environment_words, &f->environment_count, err);
	if (rc < 0)
		return sc_err_on(err, "of environment variable", f->environment);
	return fill(f, err);
}

static int read_options_file(struct frame *f, struct sc_err *err)
{
	const struct sc_common *common = f->opts;
	struct sc_bytes text;
	int rc;

	if (!common->options_file)
		return 0;
	sc_bytes_init(&text, OPTIONS_FILE_MAX);
	sc_bytes_init(&f->file, 8192);
	rc = sc_read_file(common->options_file, &text, err);
	if (rc == 0) {
		rc = sc_words_split(sc_span(text.data, text.len), &f->file_words, &f->file_count,
				    err);
		if (rc < 0)
			sc_err_on(err, "of options file", common->options_file);
	}
	sc_bytes_done(&text);
	if (rc == 0 &&
	    (sc_bytes_puts(&f->file, common->options_file) < 0 || !sc_bytes_str(&f->file)))
		rc = sc_err_nomem(err, "cannot start");
	return rc < 0 ? rc : fill(f, err);
}

static int check_operands(const struct frame *f, struct sc_err *err)
{
	const struct sc_verb *v = &f->program->verbs[f->verb];

	if (f->operand_count < (size_t)v->operands_min) {
		if (f->operand_count == 0 && v->operands_min == 1)
			sc_err_set(err, SC_E_USAGE, "cannot start", "%s is missing", v->operands);
		else
			sc_err_set(err, SC_E_USAGE, "cannot start", "%s: %zu given, %d needed",
				   v->operands, f->operand_count, v->operands_min);
		return with_help(f, err);
	}
	if (v->operands_max >= 0 && f->operand_count > (size_t)v->operands_max) {
		sc_err_set(err, SC_E_USAGE, "cannot start", "there is nothing to do with '%s'",
			   f->operands[v->operands_max]);
		return with_help(f, err);
	}
	return 0;
}

/* --help and its like. True when one was asked for: it is printed, there is nothing to run. */
static bool answer(const struct frame *f)
{
	const struct sc_common *common = f->opts;
	struct sc_usage u = { f->program, (const struct sc_opt *const *)f->tables, common_options };
	int verb = f->unnamed ? -1 : f->verb;

	if (f->help || common->help)
		sc_usage_help(stdout, &u, verb);
	else if (common->version)
		printf("%s %s\n", f->program->name, sc_version());
	else if (common->completion_asked && common->print_completion == 0)
		sc_usage_bash(stdout, &u);
	else if (common->completion_asked)
		sc_usage_zsh(stdout, &u);
	else if (common->print_man_options)
		sc_usage_man_options(stdout, &u, verb);
	else if (common->print_man_statuses)
		sc_usage_man_statuses(stdout, &u);
	else
		return false;
	return true;
}

static void speak(const struct frame *f)
{
	const struct sc_common *common = f->opts;
	enum sc_level level = SC_NOTICE;

	if (common->verbose)
		level = common->verbose > 1 ? SC_DEBUG : SC_INFO;
	if (common->quiet)
		level = SC_ERROR;
	sc_say_setup(f->program->name, level, common->json);
}

/* Everything up to run; *RET_RUN is false when the program has answered already. */
static int prepare(struct frame *f, int argc, char **argv, bool *ret_run, struct sc_err *err)
{
	int rc = make_tables(f, err);

	*ret_run = false;
	if (rc == 0)
		rc = take_verb(f, argc, argv, err);
	/* The arguments alone first: --help must work whatever the environment holds. */
	if (rc == 0)
		rc = fill(f, err);
	if (rc < 0) {
		if (err->code == SC_E_USAGE && !err->next[0])
			with_help(f, err);
		return rc;
	}
	if (answer(f))
		return 0;
	if (f->verb < 0)
		return no_such_verb(f, NULL, err);
	rc = read_environment(f, err);
	if (rc == 0)
		rc = read_options_file(f, err);
	if (rc == 0)
		rc = check_operands(f, err);
	if (rc < 0)
		return rc;
	speak(f);
	*ret_run = true;
	return 0;
}

static bool stdout_is_left(void)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

/* What stdio still holds must get out, and the file must have taken all of it. */
static int finish_stdout(struct sc_err *err)
{
	int errnum = 0;
	bool left = stdout_is_left();

	/* The errno of an early failure is gone by now; ferror still tells that there was one. */
	if (fflush(stdout) != 0)
		errnum = errno;
	else if (ferror(stdout) && !left)
		return sc_err_set(err, SC_E_IO, "cannot write to standard output",
				  "part of the output was not taken");
	if (close(STDOUT_FILENO) != 0 && errnum == 0 && errno != EINTR)
		errnum = errno;
	/* Nothing that is opened from here on may get the number. */
	if (open("/dev/null", O_WRONLY) < 0)
		errno = 0;
	if (errnum == 0 || errnum == EPIPE || left)
		return 0;
	return sc_err_sys(err, SC_E_IO, errnum, "cannot write to standard output");
}

/* What to do about what the system refused, where nobody who met it knew better. */
static void usual_move(struct sc_err *err)
{
	if (err->next[0])
		return;
	switch (err->errnum) {
	case ENOSPC:
	case EDQUOT:
		sc_err_next(err, "make room, and try again");
		break;
	case ENOENT:
	case ENOTDIR:
		sc_err_next(err, "check the path");
		break;
	case EADDRNOTAVAIL:
		sc_err_next(err, "give an address of this machine");
		break;
	case EACCES:
	case EPERM:
		sc_err_next(err, "give this user the right to it");
		break;
	case EMFILE:
	case ENFILE:
		sc_err_next(err, "allow more open files (ulimit -n)");
		break;
	case EIO:
		sc_err_next(err, "look at the disk, and at what the kernel says of it");
		break;
	}
}

static int finish(int rc, struct sc_err *err)
{
	struct sc_err output;

	sc_say_finish();
	sc_err_clear(&output);
	if (rc == SC_E_IO && err->errnum == EPIPE && stdout_is_left())
		rc = 0;
	if (rc < 0) {
		if (err->code == 0)
			sc_err_set(err, rc, "cannot finish", "%s", sc_code_word(rc));
		usual_move(err);
		sc_say_last(err);
		finish_stdout(NULL);
		return sc_code_status(rc);
	}
	if (finish_stdout(&output) < 0) {
		usual_move(&output);
		sc_say_last(&output);
		return rc > 1 ? rc : sc_code_status(output.code);
	}
	return rc;
}

int sc_program_main(const struct sc_program *program, int argc, char **argv)
{
	struct frame f = { .program = program };
	struct sc_err err;
	bool runs, json = false;
	int rc;

	sc_err_clear(&err);
	open_standard();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ,
	       SIG_IGN); /* a limit on file sizes is an error with words, EFBIG, like a full disk */
	set_buffering();
	/* Also what is wrong with the arguments is told as JSON. */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		json |= strcmp(argv[i], "--json") == 0;
	sc_say_setup(program->name, SC_NOTICE, json);
	rc = prepare(&f, argc, argv, &runs, &err);
	if (rc == 0 && runs)
		rc = program->verbs[f.verb].run(f.opts, f.operands, &err);
	rc = finish(rc, &err);
	if (f.opts)
		sc_opt_done(table_of(&f), f.opts);
	frame_done(&f);
	return rc;
}
