/* Tokens: what a file may say, what a header allows, that a change of the file counts at once. */
#include "net/tokens.h"

#include <unistd.h>

#include "../check.h"
#include "base/file.h"

enum { MAY_READ = 1, MAY_PUBLISH = 2 };

static const struct sc_token_word words[] = {
	{ "read", MAY_READ },
	{ "publish", MAY_PUBLISH },
	{ "all", MAY_READ | MAY_PUBLISH },
	{ NULL, 0 },
};

static void write_text(const char *path, const char *text)
{
	struct sc_err err;

	CHECK_OK(sc_replace_file(path, text, strlen(text), 0600, false, &err), &err);
}

TEST(tokens_allow_what_they_say)
{
	char folder[] = "/tmp/sc-tokens-XXXXXX", path[64];
	struct sc_tokens *t = NULL;
	struct sc_err err;

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/t", folder);
	write_text(path, "# mine\nread r1\n\n  publish\tp1\r\nall a1\nbare\n");
	CHECK_OK(sc_tokens_open(path, words, &t, &err), &err);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer r1")), MAY_READ);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("bearer  p1")), MAY_PUBLISH);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer a1")), MAY_READ | MAY_PUBLISH);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer bare")), MAY_READ | MAY_PUBLISH);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Basic dXNlcjpyMQ==")), MAY_READ); /* user:r1 */
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Basic cjE=")), 0);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Basic !")), 0);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer r")), 0);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer")), 0);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("r1")), 0);
	CHECK_INT(sc_tokens_allow(t, sc_span(NULL, 0)), 0);
	CHECK_INT(sc_tokens_refresh(t, &err), 0);
	write_text(path, "read r2\n");
	CHECK_INT(sc_tokens_refresh(t, &err), 1);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer r1")), 0);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer r2")), MAY_READ);
	write_text(path, "write x\n");
	CHECK_INT(sc_tokens_refresh(t, &err), SC_E_CONFIG);
	CHECK_STR(err.reason, "line 1: the first word is none of read, publish, all");
	CHECK_INT(sc_tokens_refresh(t, &err), 0); /* told once */
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer r2")), MAY_READ);
	sc_tokens_close(t);
	unlink(path);
	CHECK_INT(rmdir(folder), 0);
}

TEST(files_that_say_nothing_are_refused)
{
	char folder[] = "/tmp/sc-tokens-XXXXXX", path[64];
	struct sc_tokens *t = NULL;
	struct sc_err err;

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/t", folder);
	CHECK_INT(sc_tokens_open(path, words, &t, &err), SC_E_NOLOG);
	write_text(path, "");
	CHECK_INT(sc_tokens_open(path, words, &t, &err), SC_E_CONFIG);
	write_text(path, "# nothing\n");
	CHECK_INT(sc_tokens_open(path, words, &t, &err), SC_E_CONFIG);
	write_text(path, "read one two\n");
	CHECK_INT(sc_tokens_open(path, words, &t, &err), SC_E_CONFIG);
	write_text(path, "read a\x01"
			 "b\n");
	CHECK_INT(sc_tokens_open(path, words, &t, &err), SC_E_CONFIG);
	CHECK(!t);
	unlink(path);
	CHECK_INT(rmdir(folder), 0);
}

TEST(one_token_that_is_in_no_file)
{
	struct sc_tokens *t = NULL;
	struct sc_err err;

	CHECK_OK(sc_tokens_one("SC_TOKEN", "secret", 5, &t, &err), &err);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer secret")), 5);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer secre")), 0);
	CHECK_INT(sc_tokens_allow(t, SC_SPAN("Bearer secrets")), 0);
	CHECK_INT(sc_tokens_refresh(t, &err), 0);
	sc_tokens_close(t);
	CHECK_INT(sc_tokens_one("SC_TOKEN", "a b", 1, &t, &err), SC_E_CONFIG);
	CHECK_INT(sc_tokens_one("SC_TOKEN", "", 1, &t, &err), SC_E_CONFIG);
}
