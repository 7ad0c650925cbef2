/* base/opt.c: the parser of option tables. */
#include "base/opt.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"

/*
 * The one register of letters: a letter means one thing in the whole toolkit. A table that uses a
 * letter otherwise is a mistake of ours, found when its program starts for the first time.
 */
static const struct {
	char letter;
	const char *name;
} letters[] = {
	{ 'A', "archive" },  { 'a', "after" },    { 'C', "catch-up" }, { 'c', "cursor" },
	{ 'd', "dry-run" },  { 'e', "exec" },     { 'F', "filter" },   { 'f', "follow" },
	{ 'H', "header" },   { 'h', "help" },     { 'i', "idle" },     { 'k', "insecure" },
	{ 'l', "listen" },   { 'm', "map" },      { 'N', "last" },     { 'n', "count" },
	{ 'o', "offset" },   { 'P', "producer" }, { 'p', "payload" },  { 'q', "quiet" },
	{ 'r', "raw" },      { 'S', "since" },    { 's', "send" },     { 'T', "token-file" },
	{ 't', "times" },    { 'U', "until" },    { 'v', "verbose" },  { 'w', "where" },
	{ 'z', "compress" },
};

/* Where the words come from. */
struct source {
	const struct sc_opt *table, *foreign;
	void *into;
	const char *kind, *name; /* NULL for the command line */
	struct sc_err *err;
};

/* One use of an option: its name as it was written, for messages. */
struct use {
	const struct sc_opt *o;
	char flag[80];
	bool no;      /* --no-NAME */
	bool foreign; /* passed over */
};

static void *member(const struct sc_opt *o, void *into)
{
	return (char *)into + o->into;
}

bool sc_opt_has_value(const struct sc_opt *o)
{
	return o->kind != SC_OPT_FLAG && o->kind != SC_OPT_COUNT && o->kind != SC_OPT_TITLE;
}

bool sc_opt_is_list(const struct sc_opt *o)
{
	return o->kind == SC_OPT_LIST || o->kind == SC_OPT_FILES;
}

static bool has_limits(const struct sc_opt *o)
{
	return o->min != 0 || o->max != 0;
}

static bool has_max(const struct sc_opt *o)
{
	return has_limits(o) && o->max >= o->min;
}

static int check_letter(const struct sc_opt *o, struct sc_err *err)
{
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
		if (letters[i].letter == o->letter && strcmp(letters[i].name, o->name) == 0)
			return 0;
	sc_err_set(err, SC_E_INTERNAL, "cannot use the options",
		   "the letter -%c is not --%s in this toolkit", o->letter, o->name);
	sc_err_next(err, "correct the table, or the register of letters in lib/base/opt.c");
	return SC_E_INTERNAL;
}

void sc_opt_choices(const struct sc_opt *o, char *ret_text, size_t size)
{
	size_t len = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; o->choices[i] && len < size; i++) {
		const char *between = o->choices[i + 1] ? ", " : " or ";

		len += (size_t)snprintf(ret_text + len, size - len, "%s%s", i == 0 ? "" : between,
					o->choices[i]);
	}
}

/* A limit as the kind writes its values: the largest unit that gives a whole number. */
static void limit_text(const struct sc_opt *o, int64_t value, char ret_text[32])
{
	static const struct unit {
		int64_t size;
		const char *name;
	} sizes[] = {
		{ 1LL << 40, "T" }, { 1 << 30, "G" }, { 1 << 20, "M" }, { 1 << 10, "K" }, { 1, "" },
	};
	static const struct unit times[] = {
		{ 86400000, "d" }, { 3600000, "h" }, { 60000, "m" }, { 1000, "s" }, { 1, "ms" },
	};
	const struct unit *unit = o->kind == SC_OPT_SIZE ? sizes : times;

	if (value == 0 || (o->kind != SC_OPT_SIZE && o->kind != SC_OPT_DURATION)) {
		snprintf(ret_text, 32, "%lld", (long long)value);
		return;
	}
	while (value % unit->size != 0)
		unit++;
	snprintf(ret_text, 32, "%lld%s", (long long)(value / unit->size), unit->name);
}

void sc_opt_limits(const struct sc_opt *o, char *ret_text, size_t size)
{
	char min[32], max[32];

	ret_text[0] = '\0';
	if (!has_limits(o))
		return;
	limit_text(o, o->min, min);
	limit_text(o, o->max, max);
	if (has_max(o))
		snprintf(ret_text, size, "from %s to %s", min, max);
	else
		snprintf(ret_text, size, "from %s up", min);
}

void sc_opt_takes(const struct sc_opt *o, char *ret_text, size_t size)
{
	static const struct {
		const char *what, *such;
	} kinds[] = {
		[SC_OPT_FLAG] = { "no value", "" },
		[SC_OPT_COUNT] = { "no value", "" },
		[SC_OPT_NUMBER] = { "a number", "" },
		[SC_OPT_OFFSET] = { "an offset", "" },
		[SC_OPT_FACTOR] = { "a factor above 0", ", such as 2, 0.5 or 10x" },
		[SC_OPT_SIZE] = { "a size", ", such as 1000, 64K or 8MiB" },
		[SC_OPT_DURATION] = { "a duration", ", such as 250ms, 30s or 1h30m" },
		[SC_OPT_TIME] = { "a time",
				  ", such as 2026-11-30T12:00:00Z, or 10m for ten minutes ago" },
		[SC_OPT_TEXT] = { "a value", "" },
		[SC_OPT_FILE] = { "a file's name", "" },
		[SC_OPT_CHOICE] = { "", "" },
		[SC_OPT_LIST] = { "a value", "" },
		[SC_OPT_FILES] = { "a file's name", "" },
		[SC_OPT_FD] = { "the number of an open descriptor", "" },
		[SC_OPT_TITLE] = { "no value", "" },
	};
	char limits[80], special[80] = "";

	if (o->kind == SC_OPT_CHOICE) {
		sc_opt_choices(o, ret_text, size);
		return;
	}
	sc_opt_limits(o, limits, sizeof(limits));
	if (o->special)
		snprintf(special, sizeof(special), "%s or '%s'", *kinds[o->kind].such ? "," : "",
			 o->special);
	snprintf(ret_text, size, "%s%s%s%s%s", kinds[o->kind].what, *limits ? " " : "", limits,
		 kinds[o->kind].such, special);
}

/* TRIED and OBJECT say where the words came from. */
static int located(const struct source *s)
{
	if (!s->err)
		return SC_E_USAGE;
	if (s->kind) {
		snprintf(s->err->tried, sizeof(s->err->tried), "cannot use");
		sc_err_on(s->err, s->kind, s->name);
	}
	return s->err->code;
}

static int refuse_value(const struct source *s, const struct use *u, const char *value,
			const char *next)
{
	char takes[400];

	sc_opt_takes(u->o, takes, sizeof(takes));
	sc_err_set(s->err, SC_E_USAGE, "cannot start", "%s takes %s, not '%s'", u->flag, takes,
		   value);
	if (next && *next)
		sc_err_next(s->err, "%s", next);
	return located(s);
}

static int list_add(const struct source *s, const struct sc_opt *o, const char *value)
{
	struct sc_opt_list *list = member(o, s->into);
	const char **items;

	/* Grows at powers of two. */
	if ((list->count & (list->count - 1)) == 0) {
		items = sc_realloc(list->items,
				   (list->count ? list->count * 2 : 1) * sizeof(*items));
		if (!items)
			return sc_err_nomem(s->err, "cannot take the options");
		list->items = items;
	}
	list->items[list->count++] = value;
	return 0;
}

static void list_empty(const struct sc_opt *o, void *into)
{
	struct sc_opt_list *list = member(o, into);

	free(list->items);
	*list = (struct sc_opt_list){ 0 };
}

static bool in_limits(const struct sc_opt *o, int64_t value)
{
	return !has_limits(o) || (value >= o->min && (!has_max(o) || value <= o->max));
}

static bool u64_in_limits(const struct sc_opt *o, uint64_t value)
{
	if (value > INT64_MAX)
		return !has_max(o);
	return in_limits(o, (int64_t)value);
}

static int set_choice(const struct source *s, const struct use *u, const char *value)
{
	size_t count = 0;
	const char *near;

	for (; u->o->choices[count]; count++) {
		if (strcmp(u->o->choices[count], value) == 0) {
			*(int *)member(u->o, s->into) = (int)count;
			return 0;
		}
	}
	near = sc_opt_nearest(value, u->o->choices, count);
	refuse_value(s, u, value, NULL);
	if (near)
		sc_err_next(s->err, "did you mean '%s'?", near);
	return SC_E_USAGE;
}

static int set_fd(const struct source *s, const struct use *u, const char *value)
{
	int64_t fd;

	if (!sc_i64_parse(sc_span_str(value), &fd) || fd < 0 || fd > INT_MAX)
		return refuse_value(s, u, value, NULL);
	if (fcntl((int)fd, F_GETFD) < 0)
		return refuse_value(s, u, value,
				    "nothing is open there: open it in the shell, as in 3>file");
	*(int *)member(u->o, s->into) = (int)fd;
	return 0;
}

/* Kinds whose value is a number in some writing. */
static int set_number(const struct source *s, const struct use *u, const char *value)
{
	void *at = member(u->o, s->into);
	bool special = u->o->special && strcmp(u->o->special, value) == 0;
	struct sc_err why = { 0 };
	uint64_t u64 = 0;
	int64_t i64 = 0;
	double factor = 0;
	bool good;

	switch (u->o->kind) {
	case SC_OPT_NUMBER:
		good = sc_i64_parse(sc_span_str(value), &i64) && in_limits(u->o, i64);
		if (good)
			*(int64_t *)at = i64;
		break;
	case SC_OPT_OFFSET:
		good = special ||
		       (sc_u64_parse(sc_span_str(value), &u64) && u64_in_limits(u->o, u64));
		if (good)
			*(uint64_t *)at = u64;
		break;
	case SC_OPT_SIZE:
		good = sc_parse_size(value, &u64, &why) == 0 && u64_in_limits(u->o, u64);
		if (good)
			*(uint64_t *)at = u64;
		break;
	case SC_OPT_DURATION:
		good = special ||
		       (sc_parse_duration(value, &i64, &why) == 0 && in_limits(u->o, i64));
		if (good)
			*(int64_t *)at = special ? -1 : i64;
		break;
	case SC_OPT_TIME:
		good = sc_parse_time(value, sc_wall_us(), &i64, &why) == 0;
		if (good)
			*(int64_t *)at = i64;
		break;
	default:
		good = sc_parse_factor(value, &factor, &why) == 0 &&
		       (!has_limits(u->o) || (factor >= (double)u->o->min &&
					      (!has_max(u->o) || factor <= (double)u->o->max)));
		if (good)
			*(double *)at = factor;
		break;
	}
	return good ? 0 : refuse_value(s, u, value, why.next);
}

static int set_value(const struct source *s, const struct use *u, const char *value)
{
	switch (u->o->kind) {
	case SC_OPT_TEXT:
		*(const char **)member(u->o, s->into) = value;
		return 0;
	case SC_OPT_FILE:
		if (*value == '\0')
			return refuse_value(s, u, value, NULL);
		*(const char **)member(u->o, s->into) = value;
		return 0;
	case SC_OPT_FILES:
		if (*value == '\0')
			return refuse_value(s, u, value, NULL);
		return list_add(s, u->o, value);
	case SC_OPT_LIST:
		return list_add(s, u->o, value);
	case SC_OPT_CHOICE:
		return set_choice(s, u, value);
	case SC_OPT_FD:
		return set_fd(s, u, value);
	default:
		return set_number(s, u, value);
	}
}

static void set_bare(const struct source *s, const struct use *u)
{
	void *at = member(u->o, s->into);

	if (sc_opt_is_list(u->o))
		list_empty(u->o, s->into);
	else if (u->o->kind == SC_OPT_FLAG)
		*(bool *)at = !u->no;
	else if (u->no)
		*(int *)at = 0;
	else if (*(int *)at < INT_MAX)
		++*(int *)at;
}

/* VALUE is NULL for an option without one. */
static int apply(const struct source *s, const struct use *u, const char *value)
{
	int rc = 0;

	if (u->foreign)
		return 0;
	if (value)
		rc = set_value(s, u, value);
	else
		set_bare(s, u);
	if (rc == 0 && u->o->seen)
		*((bool *)s->into + u->o->seen) = true;
	return rc;
}

int sc_opt_defaults(const struct sc_opt *table, void *into, struct sc_err *err)
{
	struct source s = { .table = table, .into = into, .err = err };
	int rc;

	for (const struct sc_opt *o = table; o->name; o++) {
		struct use u = { .o = o };

		if (o->kind == SC_OPT_TITLE)
			continue;
		if (o->letter) {
			rc = check_letter(o, err);
			if (rc < 0)
				return rc;
		}
		if (o->kind == SC_OPT_FD)
			*(int *)member(o, into) = -1;
		if (!o->standard || sc_opt_is_list(o))
			continue;
		snprintf(u.flag, sizeof(u.flag), "the default of --%s", o->name);
		if (o->kind == SC_OPT_FLAG) {
			*(bool *)member(o, into) = strcmp(o->standard, "true") == 0;
			continue;
		}
		if (o->kind != SC_OPT_COUNT && set_value(&s, &u, o->standard) < 0) {
			if (err)
				err->code = SC_E_INTERNAL;
			return SC_E_INTERNAL;
		}
	}
	return 0;
}

int sc_opt_clash(struct sc_err *err, const char *tried, const char *reason, const char *next)
{
	sc_err_set(err, SC_E_USAGE, tried, "%s", reason);
	return sc_err_next(err, "%s", next);
}

void sc_opt_done(const struct sc_opt *table, void *into)
{
	for (const struct sc_opt *o = table; o->name; o++)
		if (sc_opt_is_list(o))
			list_empty(o, into);
}

static const struct sc_opt *find_name(const struct sc_opt *table, const char *name, size_t len)
{
	for (const struct sc_opt *o = table; o && o->name; o++)
		if (o->kind != SC_OPT_TITLE && strlen(o->name) == len &&
		    memcmp(o->name, name, len) == 0)
			return o;
	return NULL;
}

static const struct sc_opt *find_letter(const struct sc_opt *table, char letter)
{
	for (const struct sc_opt *o = table; o && o->name; o++)
		if (o->kind != SC_OPT_TITLE && o->letter == letter)
			return o;
	return NULL;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap of neighbours) between two short words. */
static size_t distance(const char *a, const char *b)
{
	size_t row[3][66], *two = row[0], *last = row[1], *now = row[2], *free_row;
	size_t la = strlen(a), lb = strlen(b);

	if (la > 64 || lb > 64)
		return SIZE_MAX;
	for (size_t j = 0; j <= lb; j++)
		last[j] = two[j] = j;
	for (size_t i = 1; i <= la; i++) {
		now[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			now[j] = last[j - 1] + (a[i - 1] != b[j - 1]);
			now[j] = least(now[j], least(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], two[j - 2] + 1);
		}
		free_row = two;
		two = last;
		last = now;
		now = free_row;
	}
	return last[lb];
}

const char *sc_opt_nearest(const char *word, const char *const *names, size_t count)
{
	size_t best = 1 + strlen(word) / 4;
	const char *near = NULL;

	for (size_t i = 0; i < count; i++) {
		size_t d = distance(word, names[i]);

		/* Of a one-letter word everything short is near. */
		if (d <= best && d < strlen(names[i]) && (!near || d < best)) {
			best = d;
			near = names[i];
		}
	}
	return near;
}

static int refuse_name(const struct source *s, const char *word, const char *name, size_t len)
{
	const char *names[256], *near;
	char copy[80];
	size_t count = 0;

	sc_err_set(s->err, SC_E_USAGE, "cannot start", "there is no option %.*s",
		   (int)least(len + 2, 200), word);
	snprintf(copy, sizeof(copy), "%.*s", (int)least(len, sizeof(copy) - 1), name);
	for (const struct sc_opt *o = s->table; o->name && count < 256; o++)
		if (o->kind != SC_OPT_TITLE && !o->hidden)
			names[count++] = o->name;
	near = sc_opt_nearest(copy, names, count);
	if (near)
		sc_err_next(s->err, "did you mean --%s?", near);
	return located(s);
}

static int refuse_letter(const struct source *s, const char *word, char letter)
{
	const struct sc_opt *o = find_name(s->table, word + 1, strcspn(word + 1, "="));

	sc_err_set(s->err, SC_E_USAGE, "cannot start", "there is no option -%c", letter);
	if (o)
		sc_err_next(s->err, "long options take two dashes: --%s", o->name);
	return located(s);
}

/* A separate value that is an option, or was meant to be one: a flag never swallows the next
 * argument. */
static bool looks_like_option(const struct source *s, const char *value)
{
	if (value[0] != '-' || value[1] == '\0')
		return false;
	return value[1] == '-' || (value[2] == '\0' && (find_letter(s->table, value[1]) ||
							find_letter(s->foreign, value[1])));
}

/* A word that can be meant as one, and hardly as anything else. */
static bool is_duration(const char *word)
{
	int64_t ms;

	return word[0] >= '0' && word[0] <= '9' && sc_parse_duration(word, &ms, NULL) == 0;
}

/* The value of U: behind '=' or the letter (GIVEN), else the next word. */
static int take_value(const struct source *s, const struct use *u, const char *given, size_t count,
		      char *const *words, size_t *at, const char **ret_value)
{
	char takes[400];

	if (given) {
		*ret_value = given;
		return 0;
	}
	if (u->o->bare && (*at + 1 >= count || !is_duration(words[*at + 1]))) {
		*ret_value = u->o->bare;
		return 0;
	}
	sc_opt_takes(u->o, takes, sizeof(takes));
	if (*at + 1 >= count) {
		sc_err_set(s->err, SC_E_USAGE, "cannot start", "%s needs %s behind it", u->flag,
			   takes);
		return located(s);
	}
	if (looks_like_option(s, words[*at + 1])) {
		sc_err_set(s->err, SC_E_USAGE, "cannot start",
			   "%s needs %s, and the option %s is behind it", u->flag, takes,
			   words[*at + 1]);
		sc_err_next(s->err, "if that is the value, write --%s=%s", u->o->name,
			    words[*at + 1]);
		return located(s);
	}
	*ret_value = words[++*at];
	return 0;
}

static int take_long(const struct source *s, size_t count, char *const *words, size_t *at)
{
	const char *word = words[*at], *name = word + 2, *value = NULL;
	size_t len = strcspn(name, "=");
	const char *given = name[len] ? name + len + 1 : NULL;
	struct use u = { .o = find_name(s->table, name, len) };
	bool no = len > 3 && strncmp(name, "no-", 3) == 0;
	int rc;

	if (!u.o && no) {
		u.o = find_name(s->table, name + 3, len - 3);
		u.no = true;
	}
	if (!u.o && s->foreign) {
		u.foreign = true;
		u.no = false;
		u.o = find_name(s->foreign, name, len);
		if (!u.o && no) {
			u.o = find_name(s->foreign, name + 3, len - 3);
			u.no = true;
		}
	}
	if (!u.o || (u.no && sc_opt_has_value(u.o) && !sc_opt_is_list(u.o)))
		return refuse_name(s, word, name, len);
	snprintf(u.flag, sizeof(u.flag), "%.*s", (int)least(len + 2, sizeof(u.flag) - 1), word);
	if (u.no || !sc_opt_has_value(u.o)) {
		if (given) {
			sc_err_set(s->err, SC_E_USAGE, "cannot start",
				   "%s takes no value, and has '%s'", u.flag, given);
			return located(s);
		}
		return apply(s, &u, NULL);
	}
	rc = take_value(s, &u, given, count, words, at, &value);
	return rc < 0 ? rc : apply(s, &u, value);
}

/* "-vvn5": letters without a value, then perhaps one with. */
static int take_letters(const struct source *s, size_t count, char *const *words, size_t *at)
{
	const char *word = words[*at], *value = NULL;
	int rc;

	for (const char *letter = word + 1; *letter; letter++) {
		struct use u = { .o = find_letter(s->table, *letter) };

		if (!u.o && s->foreign) {
			u.foreign = true;
			u.o = find_letter(s->foreign, *letter);
		}
		if (!u.o)
			return refuse_letter(s, word, *letter);
		snprintf(u.flag, sizeof(u.flag), "-%c", *letter);
		if (sc_opt_has_value(u.o)) {
			rc = take_value(s, &u, letter[1] ? letter + 1 : NULL, count, words, at,
					&value);
			return rc < 0 ? rc : apply(s, &u, value);
		}
		rc = apply(s, &u, NULL);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* OPERANDS has room for all words, or is NULL: none are taken. */
static int parse(const struct source *s, size_t count, char *const *words, char **operands,
		 size_t *ret_count)
{
	size_t found = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		const char *word = words[i];
		bool ends = strcmp(word, "--") == 0;

		if (word[0] == '-' && word[1] == '-' && !ends) {
			rc = take_long(s, count, words, &i);
		} else if (word[0] == '-' && word[1] != '\0' && !ends) {
			rc = take_letters(s, count, words, &i);
		} else if (!operands) {
			sc_err_set(s->err, SC_E_USAGE, "cannot start", "'%s' is not an option",
				   word);
			sc_err_next(
				s->err,
				"only options have defaults; quote a value that has blanks in it");
			rc = located(s);
		} else if (ends) {
			while (++i < count)
				operands[found++] = words[i];
		} else {
			operands[found++] = words[i];
		}
	}
	*ret_count = found;
	return rc;
}

int sc_opt_parse(const struct sc_opt *table, int argc, char *const *argv, void *into,
		 char ***ret_operands, size_t *ret_count, struct sc_err *err)
{
	struct source s = { .table = table, .into = into, .err = err };
	size_t count = argc > 1 ? (size_t)argc - 1 : 0, found;
	char **operands = sc_calloc(count + 1, sizeof(*operands));
	int rc;

	if (!operands)
		return sc_err_nomem(err, "cannot take the options");
	rc = parse(&s, count, argv + (argc > 0), operands, &found);
	if (rc < 0) {
		free(operands);
		return rc;
	}
	*ret_operands = operands;
	*ret_count = found;
	return 0;
}

int sc_opt_words(const struct sc_opt *table, const struct sc_opt *foreign, const char *kind,
		 const char *name, size_t count, char *const *words, void *into, struct sc_err *err)
{
	struct source s = { table, foreign, into, kind, name, err };
	size_t found;

	return parse(&s, count, words, NULL, &found);
}
