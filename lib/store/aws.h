/*
 * store/aws.h: who asks S3, and where it is: environment and profile files.
 *
 * Owns      struct sc_aws owns its texts until sc_aws_done, which wipes the secrets.
 * Errors    SC_E_CONFIG: settings that contradict each other or cannot be used; SC_E_NOAUTH: no credentials. No secret is
 *           in an error.
 * Safety    reads the environment: not while another thread changes it.
 * Source    AWS SDKs and Tools Reference Guide, "Shared config and credentials files", "Credential provider chain".
 *
 * Credentials  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else those of the profile AWS_PROFILE (default)
 *              in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials), else in AWS_CONFIG_FILE (~/.aws/config). Roles, single
 *              sign-on, credential processes and the metadata of containers and machines are not asked: a profile that needs
 *              them is an error that says so.
 * Region       AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1.
 * Endpoint     AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's services section, its endpoint_url; Amazon's.
 * Style        SC_S3_PATH_STYLE (auto, yes, no), the profile's s3 addressing_style (auto, path, virtual). auto: path with
 *              an endpoint, or where the bucket's name is no host name.
 */
#ifndef SC_STORE_AWS_H
#define SC_STORE_AWS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

enum sc_aws_style { SC_AWS_AUTO, SC_AWS_PATH, SC_AWS_VIRTUAL };

struct sc_aws {
	char *key_id, *secret, *token; /* NULL: anonymous; token may be NULL */
	char *region;
	char *endpoint;                /* no trailing slash; NULL: Amazon's */
	char *ca_file;                 /* or NULL */
	enum sc_aws_style style;
};

/* ANONYMOUS asks for no credentials. */
int sc_aws_load(bool anonymous, struct sc_aws *ret_aws, struct sc_err *err);
void sc_aws_done(struct sc_aws *aws);
/* The URL of BUCKET's root: https://BUCKET.s3.REGION.amazonaws.com or ENDPOINT/BUCKET; no trailing slash. */
int sc_aws_bucket_url(const struct sc_aws *aws, const char *bucket, struct sc_bytes *out, struct sc_err *err);
/*
 * The value of KEY in [SECTION] of a profile file's TEXT; with SUB, of the nested key SUB below KEY. false: not there. The value
 * is a span of TEXT. Later lines win, as for the AWS command line.
 */
bool sc_aws_ini(struct sc_span text, const char *section, const char *key, const char *sub,
		struct sc_span *ret_value);

#endif
