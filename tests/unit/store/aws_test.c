/* Goal: credentials, region and endpoint are found where AWS's own tools find them. Method: an environment and files of ours. */
#include "store/aws.h"

#include <sys/stat.h>
#include <unistd.h>

#include "../check.h"

static char folder[] = "/tmp/sc-aws.XXXXXX";
static struct sc_err err;

static void put_file(const char *name, const char *text)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* A home with these two files, and an empty environment. */
static void begin(const char *credentials, const char *config)
{
	static const char *const names[] = {
		"AWS_ACCESS_KEY_ID",
		"AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN",
		"AWS_PROFILE",
		"AWS_DEFAULT_PROFILE",
		"AWS_REGION",
		"AWS_DEFAULT_REGION",
		"AWS_ENDPOINT_URL",
		"AWS_ENDPOINT_URL_S3",
		"AWS_CA_BUNDLE",
		"AWS_SHARED_CREDENTIALS_FILE",
		"AWS_CONFIG_FILE",
		"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
		"SC_S3_PATH_STYLE",
		"SC_S3_ANONYMOUS",
	};
	static bool made;
	char path[100];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unsetenv(names[i]);
	if (!made) {
		CHECK(mkdtemp(folder));
		snprintf(path, sizeof(path), "%s/.aws", folder);
		CHECK(mkdir(path, 0700) == 0);
		made = true;
	}
	setenv("HOME", folder, 1);
	put_file(".aws/credentials", credentials);
	put_file(".aws/config", config);
}

static const char *loaded(void)
{
	static char out[1024];
	struct sc_aws a;
	int rc = sc_aws_load(false, &a, &err);

	if (rc < 0) {
		snprintf(out, sizeof(out), "%s", sc_code_word(rc));
		return out;
	}
	snprintf(out, sizeof(out), "%s|%s|%s|%s|%s|%d", a.key_id ? a.key_id : "-",
		 a.secret ? a.secret : "-", a.token ? a.token : "-", a.region,
		 a.endpoint ? a.endpoint : "-", (int)a.style);
	sc_aws_done(&a);
	return out;
}

TEST(the_environment_comes_first)
{
	begin("[default]\naws_access_key_id=F\naws_secret_access_key=G\n",
	      "[default]\nregion=eu-west-1\n");
	CHECK_STR(loaded(), "F|G|-|eu-west-1|-|0");
	setenv("AWS_ACCESS_KEY_ID", "A", 1);
	CHECK_STR(loaded(), "configuration");
	setenv("AWS_SECRET_ACCESS_KEY", "B", 1);
	setenv("AWS_SESSION_TOKEN", "C", 1);
	setenv("AWS_DEFAULT_REGION", "us-west-2", 1);
	setenv("AWS_ENDPOINT_URL", "http://h:9000/", 1);
	CHECK_STR(loaded(), "A|B|C|us-west-2|http://h:9000|0");
	setenv("AWS_REGION", "eu-north-1", 1);
	setenv("AWS_ENDPOINT_URL_S3", "https://s3.h", 1);
	setenv("SC_S3_PATH_STYLE", "no", 1);
	CHECK_STR(loaded(), "A|B|C|eu-north-1|https://s3.h|2");
	setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", 1);
	CHECK_STR(loaded(), "A|B|C|eu-north-1|-|2");
	setenv("AWS_SESSION_TOKEN", "C\r\nX: y", 1);
	CHECK_STR(loaded(), "configuration");
}

TEST(profiles)
{
	begin("# all\n[ default ]\naws_access_key_id = D\naws_secret_access_key = E ; "
	      "mine\n\n[work]\n"
	      "aws_access_key_id = W\r\naws_secret_access_key = w/+=\r\naws_session_token = "
	      "t#1\r\n",
	      "[profile  work]\nregion = ap-south-1 # far\ns3 =\n  addressing_style = path\n  max "
	      "= 3\nservices = mine\n"
	      "endpoint_url = http://general\n[services mine]\ndynamodb =\n  endpoint_url = "
	      "http://d\ns3 =\n"
	      "  endpoint_url = http://special\n[profile "
	      "keys]\naws_access_key_id=K\naws_secret_access_key=L\n"
	      "endpoint_url = http://general\n");
	CHECK_STR(loaded(), "D|E|-|us-east-1|-|0");
	setenv("AWS_DEFAULT_PROFILE", "keys", 1);
	CHECK_STR(loaded(), "K|L|-|us-east-1|http://general|0");
	setenv("AWS_PROFILE", "work", 1);
	CHECK_STR(loaded(), "W|w/+=|t#1|ap-south-1|http://special|1");
	setenv("AWS_PROFILE", "none", 1);
	CHECK_STR(loaded(), "not_authorised");
}

TEST(what_is_not_done_is_said)
{
	struct sc_aws a;

	begin("", "[default]\nrole_arn = arn:x\nsource_profile = y\n");
	CHECK_STR(loaded(), "configuration");
	CHECK(strstr(err.reason, "role_arn") && strstr(err.next, "export-credentials"));
	begin("", "");
	CHECK_STR(loaded(), "not_authorised");
	CHECK_INT(sc_aws_load(true, &a, &err), 0);
	CHECK(!a.key_id);
	sc_aws_done(&a);
	setenv("SC_S3_ANONYMOUS", "1", 1);
	CHECK_STR(loaded(), "-|-|-|us-east-1|-|0");
	setenv("SC_S3_PATH_STYLE", "maybe", 1);
	CHECK_STR(loaded(), "configuration");
	unsetenv("SC_S3_PATH_STYLE");
	setenv("AWS_REGION", "a/b", 1);
	CHECK_STR(loaded(), "configuration");
	unsetenv("AWS_REGION");
	setenv("AWS_ENDPOINT_URL", "h:9000", 1);
	CHECK_STR(loaded(), "configuration");
	setenv("AWS_ENDPOINT_URL", "http://u:p@h", 1);
	CHECK_STR(loaded(), "configuration");
	unsetenv("AWS_ENDPOINT_URL");
	setenv("AWS_CONFIG_FILE", "/nowhere/config", 1);
	CHECK_STR(loaded(), "configuration");
}

TEST(bucket_urls)
{
	char region[] = "eu-west-1", cn[] = "cn-north-1", plain[] = "http://h:9000",
	     path[] = "https://h/base";
	struct {
		struct sc_aws aws;
		const char *bucket, *want;
	} cases[] = {
		{ { .region = region }, "bucket", "https://bucket.s3.eu-west-1.amazonaws.com" },
		{ { .region = cn }, "bucket", "https://bucket.s3.cn-north-1.amazonaws.com.cn" },
		{ { .region = region },
		  "my.bucket",
		  "https://s3.eu-west-1.amazonaws.com/my.bucket" },
		{ { .region = region }, "Old_One", "https://s3.eu-west-1.amazonaws.com/Old_One" },
		{ { .region = region, .style = SC_AWS_PATH },
		  "bucket",
		  "https://s3.eu-west-1.amazonaws.com/bucket" },
		{ { .region = region, .endpoint = plain }, "bucket", "http://h:9000/bucket" },
		{ { .region = region, .endpoint = plain, .style = SC_AWS_VIRTUAL },
		  "bucket",
		  "http://bucket.h:9000" },
		{ { .region = region, .endpoint = path }, "bucket", "https://h/base/bucket" },
	};
	struct sc_bytes out;

	sc_bytes_init(&out, 1000);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sc_bytes_clear(&out);
		CHECK_OK(sc_aws_bucket_url(&cases[i].aws, cases[i].bucket, &out, &err), &err);
		CHECK_MEM(out.data, out.len, cases[i].want);
	}
	sc_bytes_done(&out);
}

TEST(zz_clean)
{
	char command[4][100];

	snprintf(command[0], 100, "%s/.aws/credentials", folder);
	snprintf(command[1], 100, "%s/.aws/config", folder);
	snprintf(command[2], 100, "%s/.aws", folder);
	unlink(command[0]);
	unlink(command[1]);
	rmdir(command[2]);
	CHECK(rmdir(folder) == 0);
}
