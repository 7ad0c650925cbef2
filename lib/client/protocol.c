/* client/protocol.c: see client/protocol.h. */
#include "client/protocol.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const sc_protocol_words[] = { [SC_PROTOCOL_AUTO] = "auto",
					  [SC_PROTOCOL_STREAMCAST] = "streamcast",
					  [SC_PROTOCOL_DURABLE] = "durable",
					  NULL };

static const char usual[] = "/v1/stream/"; /* where servers of Durable Streams have their streams */

static bool is_http(const char *url)
{
	return !strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8);
}

/* The URL, which may have no scheme, has the usual path. */
static bool is_usual(const char *url)
{
	const char *host = strstr(url, "://"), *path;
	size_t len;

	host = host ? host + 3 : url;
	path = strpbrk(host, "/?#");
	len = path ? strcspn(path, "?#") : 0;
	return len && memmem(path, len, usual, sizeof(usual) - 1);
}

static bool has_scheme(const char *url)
{
	return strstr(url, "://") || !strncasecmp(url, "ws+unix:", 8);
}

/* curl needs none. */
static int no_scheme(const char *url, struct sc_err *err)
{
	sc_err_set(err, SC_E_USAGE, "cannot use the URL",
		   "it does not begin with http:// or https://");
	return sc_err_next(err, "write it as http://%.200s", url);
}

static int not_for_it(const char *option, const char *next, struct sc_err *err)
{
	char tried[80];

	snprintf(tried, sizeof(tried), "cannot use %s", option);
	return sc_opt_clash(err, tried, "it is for Durable Streams servers", next);
}

int sc_protocol_choose(const char *url, enum sc_protocol said, const char *option,
		       bool *ret_durable, struct sc_err *err)
{
	bool durable = said == SC_PROTOCOL_DURABLE;

	if (said == SC_PROTOCOL_AUTO)
		durable = (is_usual(url) && (is_http(url) || !has_scheme(url))) ||
			  (option && is_http(url));
	if (durable && !has_scheme(url))
		return no_scheme(url, err);
	if (!durable && option)
		return not_for_it(option,
				  said == SC_PROTOCOL_STREAMCAST
					  ? "leave it out, or say --protocol durable"
					  : "leave it out, or give the URL of one, as "
					    "http://HOST:PORT/NAME",
				  err);
	*ret_durable = durable;
	return 0;
}

bool sc_protocol_other(struct sc_span fields, struct sc_err *err)
{
	const struct sc_httphead head = { .fields = fields };
	struct sc_span value;

	if (!sc_httphead_find(&head, "Stream-Next-Offset", 0, &value))
		return false;
	sc_err_next(err, "it is a Durable Streams server: say --protocol durable");
	return true;
}
