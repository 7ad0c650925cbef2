/* store/place.c: where a store is: its URL taken apart, and put together with a key. */
#include "store/place.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "store/store.h"

#define TRIED "cannot use archive"
#define URL_MAX 4096

static int refused(struct sc_err *err, const char *shown, const char *why)
{
	sc_err_set(err, SC_E_USAGE, TRIED, "%s", why);
	if (shown)
		sc_err_on(err, "URL", shown);
	sc_err_next(err,
		    "write file:///FOLDER, s3://BUCKET/PREFIX, or (to read) https://HOST/PATH");
	return SC_E_USAGE;
}

static char *copy(struct sc_span text)
{
	char *made = sc_malloc(text.len + 1);

	if (made) {
		if (text.len)
			memcpy(made, text.data, text.len);
		made[text.len] = 0;
	}
	return made;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool sc_place_decode(struct sc_bytes *out, struct sc_span text, bool plus)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (c == '+' && plus) {
			c = ' ';
		} else if (c == '%') {
			int high = i + 2 < text.len ? digit(text.data[i + 1]) : -1;
			int low = high >= 0 ? digit(text.data[i + 2]) : -1;

			if (low < 0)
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (sc_bytes_putc(out, c) < 0)
			return false;
	}
	return true;
}

int sc_place_encode(struct sc_bytes *out, struct sc_span text, bool slash)
{
	static const char hex[] = "0123456789ABCDEF";
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];
		char escape[3] = { '%', hex[c >> 4], hex[c & 15] };

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && slash))
			rc = sc_bytes_putc(out, (char)c);
		else
			rc = sc_bytes_put(out, escape, sizeof(escape));
	}
	return rc;
}

/* Why a text is no key or prefix; NULL: it is one. */
static const char *key_fault(const char *key, size_t max, bool dots)
{
	size_t len = strlen(key);

	if (len == 0)
		return "it is empty";
	if (len > max)
		return "it is too long";
	for (const char *part = key;; part++) {
		size_t n = strcspn(part, "/");

		if (n == 0)
			return "a part between two '/' is empty";
		if ((n == 1 && part[0] == '.') || (n == 2 && !memcmp(part, "..", 2)))
			return "it has a part '.' or '..'";
		if (!dots && part[0] == '.')
			return "a part begins with '.'";
		part += n;
		if (!*part)
			break;
	}
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)key[i] < 0x20 || key[i] == 0x7f)
			return "it has a control byte";
	return NULL;
}

int sc_place_check_key(const char *key, struct sc_err *err)
{
	const char *why = key_fault(key, SC_STORE_KEY_MAX, false);

	if (!why)
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot use key", "%s", why);
	sc_err_on(err, "object", key);
	return SC_E_USAGE;
}

int sc_place_show(const struct sc_place *place, const char *key, struct sc_bytes *out)
{
	size_t len = strlen(place->shown);
	int rc = sc_bytes_put(out, place->shown, len);

	if (rc == 0 && *key && place->shown[len - 1] != '/')
		rc = sc_bytes_putc(out, '/');
	return rc == 0 ? sc_bytes_puts(out, key) : rc;
}

static struct sc_span trim_slashes(struct sc_span text)
{
	while (text.len > 0 && text.data[text.len - 1] == '/')
		text.len--;
	return text;
}

static int parse_folder(const char *url, const char *rest, struct sc_place *p, struct sc_err *err)
{
	struct sc_span path;
	struct sc_bytes decoded;
	int rc = 0;

	if (!strncmp(rest, "//localhost/", 12))
		rest += 11;
	else if (!strncmp(rest, "///", 3))
		rest += 2;
	else
		return refused(err, url,
			       "a folder's URL has no host, and its path begins with '/'");
	path = trim_slashes(sc_span_str(rest));
	sc_bytes_init(&decoded, URL_MAX);
	if (path.len == 0)
		path = SC_SPAN("/");
	if (!sc_place_decode(&decoded, path, false) || memchr(decoded.data, 0, decoded.len)) {
		rc = refused(err, url,
			     "a '%' in it is not followed by two hexadecimal digits of a byte");
	} else {
		p->path = copy(sc_span(decoded.data, decoded.len));
		p->shown = sc_malloc(path.len + 8);
		if (p->shown) {
			memcpy(p->shown, "file://", 7);
			memcpy(p->shown + 7, path.data, path.len);
			p->shown[7 + path.len] = 0;
		}
		if (!p->path || !p->shown)
			rc = sc_err_nomem(err, TRIED);
	}
	sc_bytes_done(&decoded);
	return rc;
}

static const char *bucket_fault(struct sc_span name)
{
	if (name.len == 0)
		return "it names no bucket";
	if (name.len < 3 || name.len > 255)
		return "a bucket's name has 3 to 63 characters";
	for (size_t i = 0; i < name.len; i++) {
		char c = name.data[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '-' || c == '.' || c == '_'))
			return "a bucket's name has letters, digits, '-' and '.' only";
	}
	if (name.data[0] == '.' || name.data[0] == '-' || memmem(name.data, name.len, "..", 2))
		return "a bucket's name begins with a letter or digit, and has no '..'";
	return NULL;
}

static int parse_s3(const char *url, const char *rest, struct sc_place *p, struct sc_err *err)
{
	struct sc_span name, prefix = { "", 0 };
	const char *why;

	if (strncmp(rest, "//", 2) != 0)
		return refused(err, url, "it has no '//'");
	rest += 2;
	name = sc_span(rest, strcspn(rest, "/"));
	if (rest[name.len] == '/')
		prefix = trim_slashes(sc_span_str(rest + name.len + 1));
	why = bucket_fault(name);
	if (why)
		return refused(err, url, why);
	p->bucket = copy(name);
	p->prefix = copy(prefix);
	p->shown = copy(trim_slashes(sc_span_str(url)));
	if (!p->bucket || !p->prefix || !p->shown)
		return sc_err_nomem(err, TRIED);
	/* a key of S3 has at most 1,024 bytes, all told */
	why = prefix.len ? key_fault(p->prefix, 1023 - SC_STORE_KEY_MAX, true) : NULL;
	return why ? refused(err, url, why) : 0;
}

static int parse_web(const char *url, const char *rest, struct sc_place *p, struct sc_err *err)
{
	struct sc_bytes text;
	struct sc_span host, path, user = { NULL, 0 };
	const char *query, *at;
	int rc = 0;

	if (strncmp(rest, "//", 2) != 0 || strchr(rest, '#'))
		return refused(err, NULL, "it has no '//', or a '#'");
	rest += 2;
	query = rest + strcspn(rest, "?");
	host = sc_span(rest, strcspn(rest, "/?"));
	path = trim_slashes(sc_span(rest + host.len, (size_t)(query - rest) - host.len));
	at = memrchr(host.data, '@', host.len);
	if (at) {
		user = sc_span(host.data, (size_t)(at - host.data));
		host = sc_span(at + 1, host.len - user.len - 1);
	}
	if (host.len == 0)
		return refused(err, NULL, "it has no host");
	for (const char *c = url; *c; c++)
		if ((unsigned char)*c <= 0x20 || *c == 0x7f)
			return refused(err, NULL, "it has a blank or a control byte");
	sc_bytes_init(&text, URL_MAX);
	if (sc_bytes_putf(&text, "%s://%.*s%.*s", strncasecmp(url, "https:", 6) ? "http" : "https",
			  (int)host.len, host.data, (int)path.len, path.data) == 0)
		p->base = copy(sc_span(text.data, text.len));
	p->shown = p->base ? copy(sc_span_str(p->base)) : NULL;
	p->query = copy(sc_span_str(query));
	sc_bytes_clear(&text);
	if (user.data && sc_place_decode(&text, user, false) && sc_bytes_putc(&text, 0) == 0)
		p->user = copy(sc_span(text.data, text.len - 1));
	if (!p->base || !p->shown || !p->query)
		rc = sc_err_nomem(err, TRIED);
	else if (user.data && (!p->user || strlen(p->user) != text.len - 1))
		rc = refused(err, p->shown, "its user and password are not percent-encoded text");
	if (text.data)
		explicit_bzero(text.data, text.cap);
	sc_bytes_done(&text);
	return rc;
}

bool sc_store_is_url(const char *text)
{
	size_t len = 0;

	while ((text[len] >= 'a' && text[len] <= 'z') || (text[len] >= 'A' && text[len] <= 'Z') ||
	       (len > 0 && text[len] >= '0' && text[len] <= '9'))
		len++;
	return len > 1 && text[len] == ':' && text[len + 1] == '/';
}

int sc_place_parse(const char *url, struct sc_place *ret_place, struct sc_err *err)
{
	static const struct {
		const char *scheme;
		enum sc_place_kind kind;
		int (*parse)(const char *url, const char *rest, struct sc_place *p,
			     struct sc_err *err);
	} known[] = {
		{ "file:", SC_PLACE_FOLDER, parse_folder },
		{ "s3:", SC_PLACE_S3, parse_s3 },
		{ "https:", SC_PLACE_WEB, parse_web },
		{ "http:", SC_PLACE_WEB, parse_web },
	};
	struct sc_place place = { 0 };

	if (strlen(url) >= URL_MAX)
		return refused(err, NULL, "it is too long");
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t len = strlen(known[i].scheme);
		int rc;

		if (strncasecmp(url, known[i].scheme, len) != 0)
			continue;
		place.kind = known[i].kind;
		rc = known[i].parse(url, url + len, &place, err);
		if (rc < 0)
			sc_place_done(&place);
		else
			*ret_place = place;
		return rc;
	}
	/* not shown: it may hold a password */
	return refused(err, NULL, "its scheme is none of file, s3, https and http");
}

void sc_place_done(struct sc_place *place)
{
	if (place->user)
		explicit_bzero(place->user, strlen(place->user));
	if (place->query)
		explicit_bzero(place->query, strlen(place->query));
	free(place->shown);
	free(place->path);
	free(place->bucket);
	free(place->prefix);
	free(place->base);
	free(place->query);
	free(place->user);
	memset(place, 0, sizeof(*place));
}
