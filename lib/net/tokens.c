/* net/tokens.c: who may do what. */
#include "net/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/file.h"

#define FILE_MAX (1u << 20)
#define TOKENS_MAX 10000u
#define CREDENTIALS_MAX 8192u

struct token {
	struct sc_span text;
	unsigned may;
};

struct sc_tokens {
	char *path;
	const struct sc_token_word *words;
	struct sc_bytes file; /* tokens point into it */
	struct token *list;
	size_t count;
	struct stat seen;
};

/* The words, as a sentence says them: "read, publish" LAST "all". */
static void list_words(const struct sc_tokens *t, const char *last, char *ret_text, size_t size)
{
	size_t used = 0;

	ret_text[0] = 0;
	for (const struct sc_token_word *w = t->words; w->word && used < size; w++) {
		const char *joint = w == t->words ? "" : w[1].word ? ", " : last;

		used += (size_t)snprintf(ret_text + used, size - used, "%s%s", joint, w->word);
	}
}

static int refuse(struct sc_err *err, const struct sc_tokens *t, unsigned line, const char *reason)
{
	char words[120];

	list_words(t, " or ", words, sizeof(words));
	sc_err_set(err, SC_E_CONFIG, "cannot use", "line %u: %s", line, reason);
	sc_err_on(err, "token file", t->path);
	return sc_err_next(err, "write one token a line, with %s in front", words);
}

/* What WORD stands for, NULL: for what no word does; 0: nothing. */
static unsigned word_may(const struct sc_tokens *t, const struct sc_span *word)
{
	const struct sc_token_word *w = t->words;

	for (; w->word; w++)
		if (word ? sc_span_is(*word, w->word) : !w[1].word)
			return w->may;
	return 0;
}

/* The next word of a line. */
static struct sc_span take_word(struct sc_span *line)
{
	size_t start = 0, end;

	while (start < line->len && (line->data[start] == ' ' || line->data[start] == '\t'))
		start++;
	for (end = start; end < line->len && line->data[end] != ' ' && line->data[end] != '\t';)
		end++;
	struct sc_span word = sc_span(line->data + start, end - start);

	*line = sc_span(line->data + end, line->len - end);
	return word;
}

static bool printable(struct sc_span text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < 0x21 || (unsigned char)text.data[i] > 0x7e)
			return false;
	return text.len > 0;
}

static int parse_line(struct sc_tokens *t, struct sc_span line, unsigned number, struct sc_err *err)
{
	struct sc_span first = take_word(&line), second = take_word(&line),
		       third = take_word(&line);
	struct token token = { second.len ? second : first,
			       word_may(t, second.len ? &first : NULL) };
	char words[120], reason[160];

	if (!token.may) {
		list_words(t, ", ", words, sizeof(words));
		snprintf(reason, sizeof(reason), "the first word is none of %s", words);
		return refuse(err, t, number, reason);
	}
	if (third.len > 0)
		return refuse(err, t, number, "more than a word and a token");
	if (!printable(token.text))
		return refuse(err, t, number, "a token is made of printable ASCII characters");
	t->list[t->count++] = token;
	return 0;
}

static int parse(struct sc_tokens *t, struct sc_err *err)
{
	const char *at = t->file.data, *end = at + t->file.len;
	unsigned number = 0;
	int rc;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct sc_span line = sc_span(at, (size_t)((stop ? stop : end) - at));
		struct token *grown;

		number++;
		at += line.len + 1;
		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		if (line.len == 0 || line.data[0] == '#' || strspn(line.data, " \t") >= line.len)
			continue;
		if (t->count == TOKENS_MAX)
			return refuse(err, t, number, "more than 10000 tokens");
		grown = sc_realloc(t->list, (t->count + 1) * sizeof(*grown));
		if (!grown)
			return sc_err_nomem(err, "cannot read the token file");
		t->list = grown;
		rc = parse_line(t, line, number, err);
		if (rc < 0)
			return rc;
	}
	return t->count ? 0 : refuse(err, t, number, "no token in the file");
}

static int load(struct sc_tokens *t, struct sc_err *err)
{
	int rc;

	sc_bytes_init(&t->file, FILE_MAX);
	if (stat(t->path, &t->seen) < 0)
		memset(&t->seen, 0, sizeof(t->seen));
	rc = sc_read_file(t->path, &t->file, err);
	if (rc == 0 && !sc_bytes_str(&t->file)) /* strspn needs an end */
		rc = sc_err_nomem(err, "cannot read the token file");
	return rc < 0 ? rc : parse(t, err);
}

static void forget(struct sc_tokens *t)
{
	if (t->file.data)
		explicit_bzero(t->file.data, t->file.len);
	sc_bytes_done(&t->file);
	free(t->list);
	t->list = NULL;
	t->count = 0;
}

int sc_tokens_open(const char *path, const struct sc_token_word *words,
		   struct sc_tokens **ret_tokens, struct sc_err *err)
{
	struct sc_tokens *t = sc_calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return sc_err_nomem(err, "cannot read the token file");
	t->path = sc_malloc(strlen(path) + 1);
	if (!t->path) {
		free(t);
		return sc_err_nomem(err, "cannot read the token file");
	}
	memcpy(t->path, path, strlen(path) + 1);
	t->words = words;
	rc = load(t, err);
	if (rc < 0) {
		sc_tokens_close(t);
		return rc;
	}
	*ret_tokens = t;
	return 0;
}

int sc_tokens_one(const char *name, const char *token, unsigned may, struct sc_tokens **ret_tokens,
		  struct sc_err *err)
{
	struct sc_tokens *t;

	if (!printable(sc_span_str(token))) {
		sc_err_set(err, SC_E_CONFIG, "cannot use",
			   "a token is made of printable ASCII characters");
		return sc_err_on(err, "token of", name);
	}
	t = sc_calloc(1, sizeof(*t));
	if (!t)
		return sc_err_nomem(err, "cannot keep the token");
	sc_bytes_init(&t->file, FILE_MAX);
	t->list = sc_calloc(1, sizeof(*t->list));
	if (!t->list || sc_bytes_puts(&t->file, token) < 0) {
		sc_tokens_close(t);
		return sc_err_nomem(err, "cannot keep the token");
	}
	t->list[t->count++] = (struct token){ sc_span(t->file.data, t->file.len), may };
	*ret_tokens = t;
	return 0;
}

void sc_tokens_close(struct sc_tokens *t)
{
	if (!t)
		return;
	forget(t);
	free(t->path);
	free(t);
}

int sc_tokens_refresh(struct sc_tokens *t, struct sc_err *err)
{
	struct sc_tokens fresh = { .path = t->path, .words = t->words };
	struct stat now;
	int rc;

	if (!t->path)
		return 0;
	if (stat(t->path, &now) == 0 && now.st_ino == t->seen.st_ino &&
	    now.st_size == t->seen.st_size && now.st_mtim.tv_sec == t->seen.st_mtim.tv_sec &&
	    now.st_mtim.tv_nsec == t->seen.st_mtim.tv_nsec)
		return 0;
	rc = load(&fresh, err);
	if (rc < 0) {
		t->seen = fresh.seen; /* so that it is told once, not at each request */
		forget(&fresh);
		return rc;
	}
	forget(t);
	*t = fresh;
	return 1;
}

/* As long for every token of a length, wherever they differ. */
static bool same(struct sc_span a, struct sc_span b)
{
	unsigned char differ = 0;

	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		differ |= (unsigned char)a.data[i] ^ (unsigned char)b.data[i];
	return differ == 0;
}

static unsigned allow_token(const struct sc_tokens *t, struct sc_span token)
{
	unsigned may = 0;

	for (size_t i = 0; i < t->count; i++)
		if (same(t->list[i].text, token))
			may |= t->list[i].may;
	return may;
}

unsigned sc_tokens_allow(const struct sc_tokens *t, struct sc_span authorization)
{
	struct sc_span scheme = take_word(&authorization), value = take_word(&authorization);
	struct sc_bytes plain;
	const char *colon;
	unsigned may = 0;

	if (scheme.len == 6 && !strncasecmp(scheme.data, "Bearer", 6))
		return allow_token(t, value);
	if (scheme.len != 5 || strncasecmp(scheme.data, "Basic", 5))
		return 0;
	sc_bytes_init(&plain, CREDENTIALS_MAX);
	if (sc_base64_get(&plain, value) == 0 && plain.len > 0 &&
	    (colon = memchr(plain.data, ':', plain.len)))
		may = allow_token(t,
				  sc_span(colon + 1, plain.len - (size_t)(colon + 1 - plain.data)));
	sc_bytes_done(&plain);
	return may;
}
