/* store/aws.c: who asks S3, and where it is: environment and profile files. */
#include "store/aws.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"

#define TRIED "cannot use the AWS settings"
#define FILE_MAX (1u << 20)

/* The profile's files, and which sections are its own. */
struct files {
	const char *profile;
	struct sc_bytes credentials, config;
	char section[300]; /* of the config file */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct sc_span trim(struct sc_span s)
{
	while (s.len > 0 && is_blank(s.data[s.len - 1]))
		s.len--;
	while (s.len > 0 && is_blank(s.data[0])) {
		s.data++;
		s.len--;
	}
	return s;
}

/* A comment behind a value begins with a blank and '#' or ';'. */
static struct sc_span uncomment(struct sc_span value)
{
	for (size_t i = 1; i < value.len; i++)
		if ((value.data[i] == '#' || value.data[i] == ';') && is_blank(value.data[i - 1]))
			return trim(sc_span(value.data, i));
	return trim(value);
}

static bool section_is(struct sc_span line, const char *section)
{
	const char *close = memchr(line.data, ']', line.len);
	struct sc_span name;

	if (!close)
		return false;
	name = trim(sc_span(line.data + 1, (size_t)(close - line.data) - 1));
	for (const char *want = section; *want || name.len;) {
		/* blanks between two words may be many; a name may be in quotes */
		if (name.len && (name.data[0] == '"' || name.data[0] == '\'')) {
			name = sc_span(name.data + 1, name.len - 1);
			continue;
		}
		if (!*want || !name.len)
			return false;
		if (is_blank(*want) && is_blank(name.data[0]))
			name = trim(name);
		else if (*want == name.data[0])
			name = sc_span(name.data + 1, name.len - 1);
		else
			return false;
		want++;
	}
	return true;
}

bool sc_aws_ini(struct sc_span text, const char *section, const char *key, const char *sub,
		struct sc_span *ret_value)
{
	bool inside = false, below = false, found = false;

	while (text.len > 0) {
		const char *newline = memchr(text.data, '\n', text.len);
		struct sc_span line = sc_span(text.data,
					      newline ? (size_t)(newline - text.data) : text.len);
		size_t used = line.len + (newline != NULL);
		bool nested = line.len > 0 && is_blank(line.data[0]);
		const char *equals;
		struct sc_span name, value;

		text = sc_span(text.data + used, text.len - used);
		line = trim(line);
		if (line.len == 0 || line.data[0] == '#' || line.data[0] == ';')
			continue;
		if (line.data[0] == '[' && !nested) {
			inside = section_is(line, section);
			below = false;
			continue;
		}
		equals = memchr(line.data, '=', line.len);
		if (!inside || !equals)
			continue;
		name = trim(sc_span(line.data, (size_t)(equals - line.data)));
		value = uncomment(sc_span(equals + 1, line.len - (size_t)(equals + 1 - line.data)));
		if (!nested)
			below = sub && value.len == 0 && sc_span_is(name, key);
		if (nested ? below && sc_span_is(name, sub) : !sub && sc_span_is(name, key)) {
			*ret_value = value;
			found = true;
		}
	}
	return found;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int keep(char **into, struct sc_span text, struct sc_err *err)
{
	char *made = sc_malloc(text.len + 1);

	if (!made)
		return sc_err_nomem(err, TRIED);
	if (text.len)
		memcpy(made, text.data, text.len);
	made[text.len] = 0;
	free(*into);
	*into = made;
	return 0;
}

/* A file named by VARIABLE must be there; the usual one below the home folder may be missing. */
static int read_profile_file(const char *name, const char *usual, struct sc_bytes *into,
			     struct sc_err *err)
{
	const char *path = variable(name), *home = variable("HOME");
	struct sc_bytes made;
	int rc;

	sc_bytes_init(&made, 8192);
	if (!path && home && sc_bytes_putf(&made, "%s/.aws/%s", home, usual) == 0)
		path = sc_bytes_str(&made);
	if (!path) {
		sc_bytes_done(&made);
		return 0;
	}
	rc = sc_read_file(path, into, err);
	if (rc == SC_E_NOLOG && !variable(name)) {
		sc_err_clear(err);
		rc = 0;
	} else if (rc == SC_E_NOLOG) {
		rc = sc_err_set(err, SC_E_CONFIG, TRIED, "%s names a file that is not there", name);
		sc_err_on(err, "file", path);
	}
	sc_bytes_done(&made);
	return rc;
}

static void files_done(struct files *f)
{
	if (f->credentials.data)
		explicit_bzero(f->credentials.data, f->credentials.cap);
	if (f->config.data)
		explicit_bzero(f->config.data, f->config.cap);
	sc_bytes_done(&f->credentials);
	sc_bytes_done(&f->config);
}

static int files_read(struct files *f, struct sc_err *err)
{
	int n, rc;

	sc_bytes_init(&f->credentials, FILE_MAX);
	sc_bytes_init(&f->config, FILE_MAX);
	f->profile = variable("AWS_PROFILE");
	if (!f->profile)
		f->profile = variable("AWS_DEFAULT_PROFILE");
	if (!f->profile)
		f->profile = "default";
	n = snprintf(f->section, sizeof(f->section), "%s%s",
		     strcmp(f->profile, "default") ? "profile " : "", f->profile);
	if (n < 0 || (size_t)n >= sizeof(f->section))
		return sc_err_set(err, SC_E_CONFIG, TRIED, "the profile's name is too long");
	rc = read_profile_file("AWS_SHARED_CREDENTIALS_FILE", "credentials", &f->credentials, err);
	return rc < 0 ? rc : read_profile_file("AWS_CONFIG_FILE", "config", &f->config, err);
}

static struct sc_span span_of(const struct sc_bytes *b)
{
	return sc_span(b->data, b->len);
}

static bool config_value(const struct files *f, const char *key, const char *sub,
			 struct sc_span *ret_value)
{
	return (sc_aws_ini(span_of(&f->config), f->section, key, sub, ret_value) ||
		(!strcmp(f->profile, "default") &&
		 sc_aws_ini(span_of(&f->config), "profile default", key, sub, ret_value))) &&
	       ret_value->len > 0;
}

static bool has_control(struct sc_span text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
			return true;
	return false;
}

/* 1: taken, 0: there are none. */
static int take_keys(struct sc_aws *aws, struct sc_span id, struct sc_span secret,
		     struct sc_span token, const char *where, struct sc_err *err)
{
	int rc;

	if (id.len == 0 && secret.len == 0)
		return 0;
	if (id.len == 0 || secret.len == 0) {
		sc_err_set(err, SC_E_CONFIG, TRIED, "%s has half of the credentials: %s without %s",
			   where, id.len ? "the access key id" : "the secret access key",
			   id.len ? "the secret access key" : "the access key id");
		return sc_err_next(err, "give both, or none");
	}
	/* they go into the heads of requests */
	if (has_control(id) || has_control(secret) || has_control(token))
		return sc_err_set(err, SC_E_CONFIG, TRIED,
				  "a control byte is in the credentials of %s", where);
	rc = keep(&aws->key_id, id, err);
	if (rc == 0)
		rc = keep(&aws->secret, secret, err);
	if (rc == 0 && token.len)
		rc = keep(&aws->token, token, err);
	return rc < 0 ? rc : 1;
}

static int keys_of_environment(struct sc_aws *aws, struct sc_err *err)
{
	const char *id = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
	const char *token = variable("AWS_SESSION_TOKEN");

	return take_keys(aws, sc_span_str(id ? id : ""), sc_span_str(secret ? secret : ""),
			 sc_span_str(token ? token : ""), "the environment", err);
}

static int keys_of_files(struct sc_aws *aws, const struct files *f, struct sc_err *err)
{
	static const char *const names[3] = { "aws_access_key_id", "aws_secret_access_key",
					      "aws_session_token" };
	struct sc_span found[3] = { { "", 0 }, { "", 0 }, { "", 0 } };
	int rc;

	for (int i = 0; i < 3; i++)
		sc_aws_ini(span_of(&f->credentials), f->profile, names[i], NULL, &found[i]);
	rc = take_keys(aws, found[0], found[1], found[2], "the profile in the credentials file",
		       err);
	if (rc != 0)
		return rc;
	for (int i = 0; i < 3; i++)
		if (!config_value(f, names[i], NULL, &found[i]))
			found[i] = SC_SPAN("");
	return take_keys(aws, found[0], found[1], found[2], "the profile in the config file", err);
}

/* Why a profile has no keys that we could use. */
static int no_keys(const struct files *f, struct sc_err *err)
{
	static const char *const elsewhere[] = { "role_arn",           "source_profile",
						 "sso_session",        "sso_start_url",
						 "credential_process", "web_identity_token_file",
						 "credential_source",  "login_session" };
	struct sc_span value;

	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
		if (!config_value(f, elsewhere[i], NULL, &value) &&
		    !sc_aws_ini(span_of(&f->credentials), f->profile, elsewhere[i], NULL, &value))
			continue;
		sc_err_set(err, SC_E_CONFIG, TRIED,
			   "profile '%s' gets its credentials by %s, which is not done here",
			   f->profile, elsewhere[i]);
		return sc_err_next(err, "put them into the environment: eval \"$(aws configure "
					"export-credentials --format env)\"");
	}
	sc_err_set(err, SC_E_NOAUTH, "cannot sign in to S3",
		   "there are no credentials (profile '%s')", f->profile);
	return sc_err_next(err, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
				"SC_S3_ANONYMOUS=1 for a public bucket");
}

static int take_region(struct sc_aws *aws, const struct files *f, struct sc_err *err)
{
	const char *given = variable("AWS_REGION");
	struct sc_span value = SC_SPAN("us-east-1");

	if (!given)
		given = variable("AWS_DEFAULT_REGION");
	if (given)
		value = sc_span_str(given);
	else
		config_value(f, "region", NULL, &value);
	/* it becomes part of a host name and of a signature's scope */
	for (size_t i = 0; i < value.len; i++) {
		char c = value.data[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '-' || c == '_'))
			return sc_err_set(err, SC_E_CONFIG, TRIED,
					  "a region has letters, digits and '-' only");
	}
	return value.len > 64 ? sc_err_set(err, SC_E_CONFIG, TRIED, "the region's name is too long")
			      : keep(&aws->region, value, err);
}

static bool find_endpoint(const struct files *f, struct sc_span *ret_value)
{
	const char *given = variable("AWS_ENDPOINT_URL_S3"),
		   *ignore = variable("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
	struct sc_span services;
	char section[300];
	int n;

	if (ignore && !strcasecmp(ignore, "true"))
		return false;
	if (!given)
		given = variable("AWS_ENDPOINT_URL");
	if (given) {
		*ret_value = sc_span_str(given);
		return true;
	}
	if (config_value(f, "services", NULL, &services)) {
		n = snprintf(section, sizeof(section), "services %.*s", (int)services.len,
			     services.data);
		if (n > 0 && (size_t)n < sizeof(section) &&
		    sc_aws_ini(span_of(&f->config), section, "s3", "endpoint_url", ret_value) &&
		    ret_value->len)
			return true;
	}
	return config_value(f, "s3", "endpoint_url", ret_value) ||
	       config_value(f, "endpoint_url", NULL, ret_value);
}

static int take_endpoint(struct sc_aws *aws, const struct files *f, struct sc_err *err)
{
	struct sc_span value, host;
	size_t scheme;

	if (!find_endpoint(f, &value))
		return 0;
	while (value.len > 0 && value.data[value.len - 1] == '/')
		value.len--;
	scheme = value.len > 8 && !strncasecmp(value.data, "https://", 8)  ? 8
		 : value.len > 7 && !strncasecmp(value.data, "http://", 7) ? 7
									   : 0;
	host = sc_span(value.data + scheme, value.len - scheme);
	for (size_t i = 0; i < host.len; i++)
		if ((unsigned char)host.data[i] <= 0x20 || strchr("?#@\"<>\\", host.data[i]))
			scheme = 0;
	if (scheme == 0) {
		sc_err_set(err, SC_E_CONFIG, TRIED,
			   "the endpoint is no http:// or https:// URL of a host");
		return sc_err_next(err, "write AWS_ENDPOINT_URL like http://127.0.0.1:9000");
	}
	return keep(&aws->endpoint, value, err);
}

static int take_style(struct sc_aws *aws, const struct files *f, struct sc_err *err)
{
	const char *given = variable("SC_S3_PATH_STYLE");
	struct sc_span value = SC_SPAN("auto");

	if (given)
		value = sc_span_str(given);
	else
		config_value(f, "s3", "addressing_style", &value);
	if (sc_span_is(value, "auto"))
		aws->style = SC_AWS_AUTO;
	else if (sc_span_is(value, given ? "yes" : "path"))
		aws->style = SC_AWS_PATH;
	else if (sc_span_is(value, given ? "no" : "virtual"))
		aws->style = SC_AWS_VIRTUAL;
	else
		return sc_err_set(err, SC_E_CONFIG, TRIED, "%s is '%.*s', not one of auto, %s",
				  given ? "SC_S3_PATH_STYLE" : "addressing_style", (int)value.len,
				  value.data, given ? "yes and no" : "path and virtual");
	return 0;
}

int sc_aws_load(bool anonymous, struct sc_aws *ret_aws, struct sc_err *err)
{
	const char *anyone = variable("SC_S3_ANONYMOUS"), *bundle = variable("AWS_CA_BUNDLE");
	struct sc_aws aws = { 0 };
	struct files f;
	struct sc_span value;
	int rc = files_read(&f, err);

	if (rc == 0 && !anonymous && !(anyone && !strcmp(anyone, "1"))) {
		rc = keys_of_environment(&aws, err);
		if (rc == 0)
			rc = keys_of_files(&aws, &f, err);
		rc = rc == 0 ? no_keys(&f, err) : rc < 0 ? rc : 0;
	}
	if (rc == 0)
		rc = take_region(&aws, &f, err);
	if (rc == 0)
		rc = take_endpoint(&aws, &f, err);
	if (rc == 0)
		rc = take_style(&aws, &f, err);
	if (rc == 0 && bundle)
		rc = keep(&aws.ca_file, sc_span_str(bundle), err);
	else if (rc == 0 && config_value(&f, "ca_bundle", NULL, &value))
		rc = keep(&aws.ca_file, value, err);
	files_done(&f);
	if (rc < 0)
		sc_aws_done(&aws);
	else
		*ret_aws = aws;
	return rc;
}

void sc_aws_done(struct sc_aws *aws)
{
	if (aws->secret)
		explicit_bzero(aws->secret, strlen(aws->secret));
	if (aws->token)
		explicit_bzero(aws->token, strlen(aws->token));
	free(aws->key_id);
	free(aws->secret);
	free(aws->token);
	free(aws->region);
	free(aws->endpoint);
	free(aws->ca_file);
	memset(aws, 0, sizeof(*aws));
}

/* Can be the first part of a host's name, also under a certificate for "*.". */
static bool is_host_label(const char *bucket)
{
	size_t len = strlen(bucket);

	return len <= 63 && strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

int sc_aws_bucket_url(const struct sc_aws *aws, const char *bucket, struct sc_bytes *out,
		      struct sc_err *err)
{
	bool path = aws->style == SC_AWS_PATH ||
		    (aws->style == SC_AWS_AUTO && (aws->endpoint || !is_host_label(bucket)));
	struct sc_bytes made;
	const char *host, *endpoint = aws->endpoint;
	int rc = 0;

	sc_bytes_init(&made, 4096);
	if (!endpoint) {
		rc = sc_bytes_putf(&made, "https://s3.%s.amazonaws.com%s", aws->region,
				   strncmp(aws->region, "cn-", 3) ? "" : ".cn");
		endpoint = rc == 0 ? sc_bytes_str(&made) : NULL;
	}
	if (endpoint && path) {
		rc = sc_bytes_putf(out, "%s/%s", endpoint, bucket);
	} else if (endpoint) {
		host = strstr(endpoint, "://") + 3;
		rc = sc_bytes_putf(out, "%.*s%s.%s", (int)(host - endpoint), endpoint, bucket,
				   host);
	}
	sc_bytes_done(&made);
	return rc < 0 || !endpoint ? sc_err_nomem(err, TRIED) : 0;
}
