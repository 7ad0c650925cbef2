/* tests/lib/fuzz_main.c: a main for fuzz targets without libFuzzer: runs the target on each file it
 * is given. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
	FILE *in = fopen(path, "rb");
	uint8_t *data = NULL;
	long size;
	int rc = -1;

	if (!in) {
		perror(path);
		return -1;
	}
	/* Memory of exactly the input's size, so that a sanitizer sees a read beyond it. */
	if (fseek(in, 0, SEEK_END) == 0 && (size = ftell(in)) >= 0 && fseek(in, 0, SEEK_SET) == 0) {
		data = malloc(size ? (size_t)size : 1);
		if (data && fread(data, 1, (size_t)size, in) == (size_t)size) {
			LLVMFuzzerTestOneInput(data, (size_t)size);
			rc = 0;
		}
	}
	if (rc < 0)
		perror(path);
	free(data);
	fclose(in);
	return rc;
}

int main(int argc, char **argv)
{
	int failed = 0;

	for (int i = 1; i < argc; i++)
		if (run_file(argv[i]) < 0)
			failed = 1;
	printf("%d inputs\n", argc - 1);
	return failed;
}
