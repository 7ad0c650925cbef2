/* msg/daemon_door.c: who may come, and where to. */
#include <string.h>

#include "json/scan.h"
#include "msg/daemon_internal.h"
#include "net/http.h"

static const struct sc_token_word node_words[] = { { "node", SC_DAEMON_NODE }, { NULL, 0 } };
static const struct sc_token_word admin_words[] = { { "admin", SC_DAEMON_NODE | SC_DAEMON_ADMIN },
						    { NULL, 0 } };

int sc_daemon_tokens_open(struct sc_daemon *d, struct sc_err *err)
{
	int rc = 0;

	if (d->o->token_file)
		rc = sc_tokens_open(d->o->token_file, node_words, &d->tokens[0], err);
	if (rc == 0 && d->o->admin_token_file)
		rc = sc_tokens_open(d->o->admin_token_file, admin_words, &d->tokens[1], err);
	if (rc == 0 && d->o->token)
		rc = sc_tokens_one("SC_TOKEN", d->o->token, SC_DAEMON_NODE, &d->tokens[2], err);
	return rc;
}

void sc_daemon_tokens_refresh(struct sc_daemon *d)
{
	for (int i = 0; i < 2; i++) {
		struct sc_err err;
		char line[1200];

		if (!d->tokens[i] || sc_tokens_refresh(d->tokens[i], &err) >= 0)
			continue;
		sc_err_line(&err, line, sizeof(line));
		sc_daemon_say(d, SC_WARNING, "%s; the old tokens stay", line);
	}
}

bool sc_daemon_guarded(const struct sc_daemon *d)
{
	return d->tokens[0] || d->tokens[1] || d->tokens[2];
}

unsigned sc_daemon_allow(struct sc_daemon *d, struct sc_span authorization)
{
	unsigned may = 0;

	if (!sc_daemon_guarded(d))
		return SC_DAEMON_NODE | SC_DAEMON_ADMIN;
	sc_daemon_tokens_refresh(d);
	for (int i = 0; i < 3 && authorization.data; i++) {
		if (d->tokens[i])
			may |= sc_tokens_allow(d->tokens[i], authorization);
	}
	return may;
}

void sc_daemon_authorise(void *arg, const struct sc_request *request, struct sc_reply *reply)
{
	struct sc_daemon *d = arg;

	if (!request->upgrade && sc_span_is(sc_http_path(request->target), "/healthz"))
		return; /* for machines that watch */
	if (sc_daemon_allow(d, request->authorization))
		return;
	reply->status = 401;
	reply->fields = request->authorization.data
				? "WWW-Authenticate: Bearer error=\"invalid_token\"\r\n"
				: "WWW-Authenticate: Bearer\r\n";
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What is behind the root: false when the path is not below it. */
static bool below(struct sc_span path, const char *root, struct sc_span *ret_rest)
{
	size_t len = strlen(root);

	while (len > 0 && root[len - 1] == '/')
		len--;
	if (path.len < len + 1 || memcmp(path.data, root, len) != 0 || path.data[len] != '/')
		return false;
	*ret_rest = sc_span(path.data + len + 1, path.len - len - 1);
	return true;
}

bool sc_daemon_endpoint(const struct sc_daemon *d, struct sc_span target,
			char ret_name[SC_MSG_NAME_MAX], unsigned char *ret_len)
{
	struct sc_span rest;
	size_t len = 0;

	if (!below(sc_http_path(target), d->o->root, &rest))
		return false;
	for (size_t i = 0; i < rest.len; i++) {
		char c = rest.data[i];

		if (c == '%') {
			int high = i + 2 < rest.len ? digit(rest.data[i + 1]) : -1;
			int low = high < 0 ? -1 : digit(rest.data[i + 2]);

			if (low < 0)
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		/* an escaped slash would be two segments to whoever decodes first */
		if (c == '/' || len == SC_MSG_NAME_MAX)
			return false;
		ret_name[len++] = c;
	}
	*ret_len = (unsigned char)len;
	return len > 0 && sc_utf8_valid(sc_span(ret_name, len));
}

bool sc_daemon_is_open(const struct sc_daemon *d)
{
	const char *address;

	for (size_t i = 0; (address = sc_server_address(d->server, i)); i++) {
		if (strncmp(address, "127.", 4) && strncmp(address, "[::1]:", 6) &&
		    strncmp(address, "unix", 4))
			return true;
	}
	return false;
}
