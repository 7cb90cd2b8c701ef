/* SPDX-License-Identifier: BSD-3-Clause */
/* simrun: run a program on the simulated CUDA device: sets what tests/cudasim/config.c reads, and
 * where the dynamic linker finds libcuda.so.1 and libcudart.so.13, then becomes the program. */
#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capabilities.h"

static const char usage[] =
	"usage: simrun [OPTION]... PROGRAM [ARGUMENT]...\n"
	"Run a program on a simulated CUDA device. No GPU is used, and no time that it shows is a "
	"GPU's.\n"
	"  --seed N           of the delays and of the order of graphs (default 1)\n"
	"  --delay-us N       at random up to N us before and after each piece of work (default "
	"0)\n"
	"  --queues N         hardware queues of a device, 1 to 128 (default 8)\n"
	"  --devices N        0 to 16 (default 1)\n"
	"  --mask CAPABILITY  take a capability away; may be repeated; --mask list shows them\n"
	"  --fail CALL:N[:E]  the Nth call of CALL fails, with CUDA's error number E; may be "
	"repeated\n"
	"  --limit S          a wait in a stream that is not over after S seconds fails (default: "
	"none)\n"
	"  --counts FILE      write the calls by name as JSON at the end; %p in FILE is the "
	"process\n"
	"  --twins LIB        library with the C twins of kernels (cudasim_twin.h); may be "
	"repeated\n";

static void die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	fprintf(stderr, "simrun: simulated device: ");
	vfprintf(stderr, format, list);
	fprintf(stderr, "\n");
	va_end(list);
	exit(2);
}

static void set(const char *name, const char *value)
{
	if (setenv(name, value, 1) != 0)
		die("%s: %s", name, strerror(errno));
}

static void set_number(const char *option, const char *name, const char *text, unsigned long min,
		       unsigned long max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (!*text || *text == '-' || *end || value < min || value > max)
		die("--%s %s: must be a number from %lu to %lu", option, text, min, max);
	set(name, text);
}

/* One more word of a list. */
static void append(const char *name, const char *word, const char *separator)
{
	const char *old = getenv(name);
	char *text;

	if (!old || !*old) {
		set(name, word);
		return;
	}
	if (asprintf(&text, "%s%s%s", old, separator, word) < 0)
		die("no memory");
	set(name, text);
	free(text);
}

static void mask(const char *word)
{
	static const char *const names[] = {
#define NAME(name, bit) name,
		CUDASIM_CAPABILITIES(NAME)
#undef NAME
	};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(word, names[i]) == 0) {
			append("CUDASIM_MASK", word, " ");
			return;
		}
		if (strcmp(word, "list") == 0)
			printf("simulated: %s\n", names[i]);
	}
	if (strcmp(word, "list") == 0)
		exit(0);
	die("--mask %s: unknown; --mask list shows what there is", word);
}

static void fail(const char *text)
{
	const char *colon = strchr(text, ':');
	unsigned long nth, error;
	int end = 0;

	if (!colon || colon == text ||
	    (sscanf(colon, ":%lu%n:%lu%n", &nth, &end, &error, &end), colon[end] || nth == 0))
		die("--fail %s: must be CALL:N or CALL:N:ERROR", text);
	append("CUDASIM_FAIL", text, " ");
}

/* Programs change their folder. The caller frees it. */
static char *full_path(const char *text)
{
	char *path;

	if (text[0] == '/')
		path = strdup(text);
	else if (asprintf(&path, "%s/%s", getcwd(NULL, 0), text) < 0)
		path = NULL;
	if (!path)
		die("no memory");
	return path;
}

static void counts(const char *text)
{
	char *path = full_path(text);

	set("CUDASIM_COUNTS", path);
	free(path);
}

static void twins(const char *text)
{
	char *path = full_path(text);

	if (access(path, R_OK) != 0)
		die("--twins %s: %s", text, strerror(errno));
	append("CUDASIM_TWINS", path, ":");
	free(path);
}

static const struct option options[] = {
	{"seed", required_argument, NULL, 's'},
	{"delay-us", required_argument, NULL, 'd'},
	{"queues", required_argument, NULL, 'q'},
	{"devices", required_argument, NULL, 'n'},
	{"mask", required_argument, NULL, 'm'},
	{"fail", required_argument, NULL, 'f'},
	{"limit", required_argument, NULL, 'l'},
	{"counts", required_argument, NULL, 'c'},
	{"twins", required_argument, NULL, 't'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static void option(int c)
{
	switch (c) {
	case 's':
		set_number("seed", "CUDASIM_SEED", optarg, 0, -1ul);
		break;
	case 'd':
		set_number("delay-us", "CUDASIM_DELAY_US", optarg, 0, 10000000);
		break;
	case 'q':
		set_number("queues", "CUDASIM_QUEUES", optarg, 1, 128);
		break;
	case 'n':
		set_number("devices", "CUDASIM_DEVICES", optarg, 0, 16);
		break;
	case 'l':
		set_number("limit", "CUDASIM_LIMIT", optarg, 0, 1000000);
		break;
	case 'm':
		mask(optarg);
		break;
	case 'f':
		fail(optarg);
		break;
	case 'c':
		counts(optarg);
		break;
	case 't':
		twins(optarg);
		break;
	case 'h':
		fputs(usage, stdout);
		exit(0);
	default:
		die("an option is unknown or lacks its value; --help shows the options");
	}
}

/* The folder of the simulator's libraries, beside this program. The caller frees it. */
static char *libraries(void)
{
	char self[4096], *path;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		die("/proc/self/exe: %s", strerror(errno));
	self[n] = '\0';
	if (asprintf(&path, "%s/.libs", dirname(self)) < 0)
		die("no memory");
	return path;
}

static void find_libraries(void)
{
	char *dir = libraries(), *text;
	const char *old = getenv("LD_LIBRARY_PATH");

	if (asprintf(&text, "%s%s%s", dir, old && *old ? ":" : "", old ? old : "") < 0)
		die("no memory");
	set("LD_LIBRARY_PATH", text);
	free(text);
	/* The kernels of the library for which all this was made. After the program's own. */
	if (asprintf(&text, "%s/libtwins_stmpi.so", dir) < 0)
		die("no memory");
	twins(text);
	free(text);
	free(dir);
}

/* A program that is not itself built with the simulator's sanitizer needs its library first. */
static void preload_sanitizer(void)
{
	const char *old = getenv("LD_PRELOAD");
	char *text;

	if (!CUDASIM_SANITIZER[0])
		return;
	if (asprintf(&text, "%s%s%s", CUDASIM_SANITIZER, old && *old ? " " : "", old ? old : "") <
	    0)
		die("no memory");
	set("LD_PRELOAD", text);
	free(text);
	if (!getenv("ASAN_OPTIONS")) /* of the program's memory, and of shells', we say nothing */
		set("ASAN_OPTIONS", "detect_leaks=0");
}

int main(int argc, char **argv)
{
	char pid[32];
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1)
		option(c);
	if (optind == argc)
		die("which program? --help shows the options");
	find_libraries();
	preload_sanitizer();
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	set("CUDASIM_PID", pid);
	execvp(argv[optind], argv + optind);
	die("%s: %s", argv[optind], strerror(errno));
}
