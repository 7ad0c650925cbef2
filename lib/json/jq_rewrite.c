/*
 * json/jq_rewrite.c: reading a jq program's words, to find the numbers in it that libjq would
 * round.
 *
 * 9007199254740993 becomes ("9007199254740993"|__sc_literal), which the prelude defines. The words
 * are those of jq 1.6's lexer: strings with \( ) inside, comments, fields, names, numbers.
 */
#include <math.h>
#include <stdio.h>

#include "json/jq_internal.h"
#include "json/number_internal.h"
#include "json/scan_internal.h"

#define TRIED "cannot compile jq program"
#define NESTING_MAX 128

struct words {
	const char *p;
	struct sc_bytes *out;
	struct sc_err *err;
	bool inexact;
	bool begun;                 /* some word was seen */
	unsigned open[NESTING_MAX]; /* brackets that are open, in each \( ) */
	int nesting;
	bool in_string;
};

static bool name_begins(char c)
{
	return c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool name_goes_on(char c)
{
	return name_begins(c) || sc_scan_is_digit(c);
}

static int copy(struct words *w, size_t len)
{
	int rc = sc_bytes_put(w->out, w->p, len);

	w->p += len;
	return rc;
}

/* libjq's own names behind its operators, which the guards replace. */
static bool is_internal(struct sc_span name)
{
	static const char *const names[] = {
		"_plus",         "_minus",         "_multiply",       "_divide",
		"_mod",          "_negate",        "_equal",          "_notequal",
		"_less",         "_lesseq",        "_greater",        "_greatereq",
		"_sort_by_impl", "_group_by_impl", "_unique_by_impl", "_min_by_impl",
		"_max_by_impl",  "_strindices",    "_match_impl",     "_modify",
		"_assign",       "_flatten",       "_nwise",          "_stredit",
	};

	if (name.len > 5 && memcmp(name.data, "__sc_", 5) == 0)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (sc_span_is(name, names[i]))
			return true;
	}
	return false;
}

static int name(struct words *w)
{
	struct sc_span word = { .data = w->p };
	const char *after;

	while (name_goes_on(w->p[word.len]) ||
	       (w->p[word.len] == ':' && w->p[word.len + 1] == ':' &&
		name_begins(w->p[word.len + 2])))
		word.len += w->p[word.len] == ':' ? 2 : 1;
	for (after = w->p + word.len; sc_scan_is_blank(*after); after++)
		;
	if (*after != ':' && is_internal(word)) {
		sc_err_set(w->err, SC_E_CONFIG, TRIED, "'%.*s' is a name that is not for programs",
			   (int)word.len, word.data);
		return SC_E_CONFIG;
	}
	if (!w->begun && (sc_span_is(word, "import") || sc_span_is(word, "include") ||
			  sc_span_is(word, "module"))) {
		sc_err_set(w->err, SC_E_CONFIG, TRIED, "'%.*s': modules are not supported",
			   (int)word.len, word.data);
		return sc_err_next(w->err, "put the definitions into the program");
	}
	return copy(w, word.len);
}

/* The literal of LEN bytes as JSON spells it: jq also takes 1. and .5 and 007. */
static int put_literal(struct sc_bytes *json, const char *p, size_t len)
{
	size_t i = 0;
	int rc = 0;

	while (i + 1 < len && p[i] == '0' && sc_scan_is_digit(p[i + 1]))
		i++;
	if (p[i] == '.')
		rc = sc_bytes_putc(json, '0');
	for (; rc == 0 && i < len; i++) {
		if (p[i] != '.' || (i + 1 < len && sc_scan_is_digit(p[i + 1])))
			rc = sc_bytes_putc(json, p[i]);
	}
	return rc;
}

static size_t literal_length(const char *p)
{
	size_t len = 0, exponent;

	while (sc_scan_is_digit(p[len]))
		len++;
	if (p[len] == '.' && (len || sc_scan_is_digit(p[1]))) {
		len++;
		while (sc_scan_is_digit(p[len]))
			len++;
	}
	exponent = len + 1;
	if ((p[len] | 0x20) != 'e')
		return len;
	if (p[exponent] == '+' || p[exponent] == '-')
		exponent++;
	if (!sc_scan_is_digit(p[exponent]))
		return len;
	while (sc_scan_is_digit(p[exponent]))
		exponent++;
	return exponent;
}

static int number(struct words *w)
{
	size_t len = literal_length(w->p);
	struct sc_bytes json;
	double value;
	int rc;

	sc_bytes_init(&json, len + 2);
	rc = put_literal(&json, w->p, len);
	if (rc == 0 &&
	    (!sc_number_exact(sc_span(json.data, json.len), &value) || fabs(value) >= SC_JQ_BIG)) {
		w->inexact = true;
		rc = sc_bytes_putf(w->out, "(\"%.*s\"|__sc_literal)", (int)json.len, json.data);
		w->p += len;
	} else if (rc == 0) {
		rc = copy(w, len);
	}
	sc_bytes_done(&json);
	return rc;
}

/* Inside a string: to its end, or to the next \( */
static int string(struct words *w)
{
	while (*w->p && *w->p != '"') {
		size_t len = w->p[0] == '\\' && w->p[1] ? 2 : 1;
		bool opens = len == 2 && w->p[1] == '(';
		int rc = copy(w, len);

		if (rc < 0)
			return rc;
		if (!opens)
			continue;
		if (++w->nesting == NESTING_MAX)
			return sc_err_set(w->err, SC_E_CONFIG, TRIED,
					  "strings are nested too deeply");
		w->open[w->nesting] = 0;
		w->in_string = false;
		return 0;
	}
	w->in_string = false;
	return *w->p ? copy(w, 1) : 0;
}

static int bracket(struct words *w)
{
	if (*w->p == '(') {
		w->open[w->nesting]++;
	} else if (w->open[w->nesting] > 0) {
		w->open[w->nesting]--;
	} else if (w->nesting > 0) {
		w->nesting--;
		w->in_string = true;
	}
	return copy(w, 1);
}

static int word(struct words *w)
{
	char c = w->p[0], next = c ? w->p[1] : 0;
	size_t len = 1;

	if (c == '#')
		return copy(w, strcspn(w->p, "\n"));
	if (sc_scan_is_blank(c))
		return copy(w, 1);
	if (c == '"') {
		w->begun = w->in_string = true;
		return copy(w, 1);
	}
	if (name_begins(c)) {
		int rc = name(w);

		w->begun = true;
		return rc;
	}
	w->begun = true;
	if (sc_scan_is_digit(c) || (c == '.' && sc_scan_is_digit(next)))
		return number(w);
	if (c == '(' || c == ')')
		return bracket(w);
	if (c == '.' && next == '.')
		return copy(w, 2);
	if (c == '.' || c == '$' || c == '@') {
		while (name_goes_on(w->p[len]) && (len > 1 || c == '@' || name_begins(next)))
			len++;
		/* $a::b */
		while (c == '$' && w->p[len] == ':' && w->p[len + 1] == ':' &&
		       name_begins(w->p[len + 2])) {
			for (len += 2; name_goes_on(w->p[len]);)
				len++;
		}
	}
	return copy(w, len);
}

int sc_jq_rewrite(const char *program, struct sc_bytes *out, bool *ret_inexact, struct sc_err *err)
{
	struct words w = { .p = program, .out = out, .err = err };
	int rc = 0;

	while (rc == 0 && *w.p)
		rc = w.in_string ? string(&w) : word(&w);
	if (rc == SC_E_NOMEM)
		return sc_err_nomem(err, TRIED);
	if (rc == 0)
		*ret_inexact = w.inexact;
	return rc;
}
