/* net/client_options.c: a copy of the options that is the client's own. */
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "net/client_internal.h"

static const size_t texts[] = {
	offsetof(struct sc_client_options, url),
	offsetof(struct sc_client_options, origin),
	offsetof(struct sc_client_options, subprotocol),
	offsetof(struct sc_client_options, user_agent),
	offsetof(struct sc_client_options, token_file),
	offsetof(struct sc_client_options, user_file),
	offsetof(struct sc_client_options, ca),
	offsetof(struct sc_client_options, cert),
	offsetof(struct sc_client_options, key),
	offsetof(struct sc_client_options, server_name),
	offsetof(struct sc_client_options, proxy),
};

static char **text_at(struct sc_client_options *o, size_t i)
{
	return (char **)((char *)o + texts[i]);
}

static char *copy_text(const char *text)
{
	size_t size = strlen(text) + 1;
	char *s = sc_malloc(size);

	if (s)
		memcpy(s, text, size);
	return s;
}

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

static void list_done(const char *const *list, size_t count)
{
	char **items = (char **)(uintptr_t)list;

	for (size_t i = 0; items && i < count; i++)
		wipe(items[i]);
	free(items);
}

static int list_copy(const char *const **list, size_t *count, const char *const *from,
		     size_t from_count)
{
	char **items = sc_calloc(from_count ? from_count : 1, sizeof(*items));

	if (!items)
		return SC_E_NOMEM;
	*list = (const char *const *)items;
	*count = 0;
	for (size_t i = 0; i < from_count; i++) {
		items[i] = copy_text(from[i]);
		if (!items[i])
			return SC_E_NOMEM;
		(*count)++;
	}
	return 0;
}

void sc_client_options_done(struct sc_client_options *o)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		wipe(*text_at(o, i));
	list_done(o->headers, o->header_count);
	list_done(o->header_files, o->header_file_count);
	memset(o, 0, sizeof(*o));
}

/* These go into the request as they are. */
static int check_value(const char *what, const char *value, struct sc_err *err)
{
	for (const char *p = value; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f) {
			sc_err_set(err, SC_E_USAGE, "cannot use the",
				   "it holds a control character");
			return sc_err_on(err, "value", what);
		}
	return 0;
}

static int check(const struct sc_client_options *o, struct sc_err *err)
{
	struct sc_proxy proxy = { 0 };
	struct sc_url url = { 0 };
	int rc = sc_url_parse(o->url, &url, err);

	sc_url_done(&url);
	if (rc == 0 && o->proxy) {
		rc = sc_proxy_parse(o->proxy, &proxy, err);
		sc_proxy_done(&proxy);
	}
	if (rc == 0)
		rc = check_value("Origin", o->origin, err);
	if (rc == 0)
		rc = check_value("subprotocol", o->subprotocol, err);
	if (rc == 0)
		rc = check_value("User-Agent", o->user_agent, err);
	if (rc == 0 && o->message_max < 1)
		rc = sc_err_set(err, SC_E_USAGE, "cannot use the message limit", "it is 0");
	return rc;
}

int sc_client_options_copy(const struct sc_client_options *from, struct sc_client_options *ret_copy,
			   struct sc_err *err)
{
	struct sc_client_options o = *from;
	int rc = check(from, err);

	if (rc < 0)
		return rc;
	if (o.raw)
		o.ping_ms = 0;
	o.headers = o.header_files = NULL;
	o.header_count = o.header_file_count = 0;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char **to = text_at(&o, i);

		if (!*to)
			continue;
		if (rc == 0)
			*to = copy_text(*to);
		else
			*to = NULL;
		if (!*to)
			rc = SC_E_NOMEM;
	}
	if (rc == 0)
		rc = list_copy(&o.headers, &o.header_count, from->headers, from->header_count);
	if (rc == 0)
		rc = list_copy(&o.header_files, &o.header_file_count, from->header_files,
			       from->header_file_count);
	if (rc < 0) {
		sc_client_options_done(&o);
		return sc_err_nomem(err, "cannot set up the client");
	}
	*ret_copy = o;
	return 0;
}
