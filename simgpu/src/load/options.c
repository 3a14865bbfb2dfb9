/*
 * The command line: one table is the parser, the limits and the help.
 *
 * A refused value ends the process with status 2 and one line that names option, value and what is allowed.
 * Sizes are bytes, or read as weir run reads them: 2GiB or 2Gi, 2GB or 2G.
 */
#include <getopt.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

enum kind { NUMBER, COUNT, FLAG, TEXT, SIZE, SIZES, UNTIL };

struct option_row {
    const char *name, *value; /* as help shows it */
    enum kind kind;
    size_t offset;
    double low, high;
    const char *help;
};

#define AT(member) offsetof(struct options, member)

static const struct option_row rows[] = {
    {"kernel-us", "F", NUMBER, AT(kernel_us), 0, 1e9, "duration of a kernel; 0: an empty one (1000)"},
    {"seconds", "F", NUMBER, AT(seconds), 0.001, 1e9, "launch for so long (until SIGTERM)"},
    {"launches", "N", COUNT, AT(launches), 1, 1e15, "launch so often"},
    {"warmup", "F", NUMBER, AT(warmup), 0, 1e6, "launch for so long before counting (0)"},
    {"queue", "N", COUNT, AT(queue), 1, 1e6, "launches under way at most, on each stream (64)"},
    {"wait", "", FLAG, AT(wait), 0, 0, "synchronize after each launch"},
    {"wait-every", "N", COUNT, AT(wait_every), 1, 1e6, "synchronize after each N launches of a stream"},
    {"graph", "N", COUNT, AT(graph), 1, 10000, "launch graphs of N kernels"},
    {"cooperative", "", FLAG, AT(cooperative), 0, 0, "use cuLaunchCooperativeKernel"},
    {"extended", "", FLAG, AT(extended), 0, 0, "use cuLaunchKernelEx"},
    {"streams", "N", COUNT, AT(streams), 1, LOAD_MAX_STREAMS, "launch on N streams in turn (1)"},
    {"ptds", "", FLAG, AT(ptds), 0, 0, "use the per-thread default stream"},
    {"grid", "N", COUNT, AT(grid), 1, 2147483647, "blocks of a kernel, of 32 threads each (1)"},
    {"idle-ms", "F", NUMBER, AT(idle_ms), 0, 1e6, "sleep after each launch (0)"},
    {"think-us", "F", NUMBER, AT(think_us), 0, 1e6, "compute on the CPU for so long after each launch (0)"},
    {"every-ms", "F", NUMBER, AT(every_ms), 0.001, 1e6, "launches come at random, one in so long (with --wait)"},
    {"memory", "SIZE,...", SIZES, AT(sizes), 1, 0, "allocate these at the start"},
    {"allocate-step", "SIZE", SIZE, AT(allocate_step), 1, 0, "then allocate in such steps"},
    {"allocate-until", "refused|SIZE", UNTIL, AT(allocate_until), 1, 0, "where the steps end (refused)"},
    {"hold", "F", NUMBER, AT(hold), 0, 1e9, "keep context and memory for so long at the end (0)"},
    {"device", "N", COUNT, AT(device), 0, 1023, "ordinal of the device (0)"},
    {"processes", "N", COUNT, AT(processes), 1, LOAD_MAX_PROCESSES, "so many processes do all this (1)"},
    {"report", "FILE|-", TEXT, AT(report), 0, 0, "append JSON lines to FILE (-: stdout)"},
    {"report-every", "F", NUMBER, AT(report_every), 0, 1e6, "a line every so many seconds (0: at the end)"},
    {"events", "", FLAG, AT(events), 0, 0, "measure kernel time with events as well"},
    {"latency", "", FLAG, AT(latency), 0, 0, "report what launches took, p50 and p99 (with --wait)"},
    {"no-calibrate", "", FLAG, AT(no_calibrate), 0, 0, "spin by the clock: no launch but those asked for"},
    {"dlsym", "", FLAG, AT(dlsym), 0, 0, "look symbols up without cuGetProcAddress"},
};

#define HELP_COLUMN 28
#define ROWS (sizeof rows / sizeof rows[0])

static void refuse(const char *name, const char *value, const char *allowed) {
    fprintf(stderr, "weir-load: --%s: %s: not allowed; %s\n", name, *value ? value : "''", allowed);
    exit(2);
}

static double number(const struct option_row *row, const char *text, bool whole) {
    char *end, allowed[96];
    double value = strtod(text, &end);
    if (end != text && !*end && value >= row->low && value <= row->high && (!whole || value == floor(value)))
        return value;
    snprintf(allowed, sizeof allowed, "%s from %.15g to %.15g", whole ? "a whole number" : "a number",
             row->low, row->high);
    refuse(row->name, text, allowed);
    return 0;
}

/* Bytes of the size that `text` begins with; *end is what follows it. 0 where there is none. */
static uint64_t size_prefix(const char *text, const char **end) {
    static const char units[] = "KMGT";
    char *after;
    double value = strtod(text, &after);
    bool any = after != text;
    const char *unit = *after ? strchr(units, *after) : NULL;
    if (unit) {
        after++;
        bool binary = *after == 'i';
        after += binary;
        value *= pow(binary ? 1024 : 1000, (double)(unit - units + 1));
    }
    if (any && *after == 'B')
        after++;
    *end = after;
    return value >= 1 && value < 1e18 && any ? (uint64_t)value : 0;
}

static uint64_t size(const struct option_row *row, const char *text) {
    const char *end;
    uint64_t bytes = size_prefix(text, &end);
    if (!bytes || *end)
        refuse(row->name, text, "bytes, as 1048576, 512KiB, 64MiB or 2GiB");
    return bytes;
}

static void sizes(struct options *options, const struct option_row *row, const char *text) {
    for (const char *rest = text;; rest++) {
        uint64_t bytes = size_prefix(rest, &rest);
        if (!bytes || (*rest && *rest != ',') || options->size_count == LOAD_MAX_SIZES)
            refuse(row->name, text, "up to 64 sizes separated by commas, as 64MiB,2GiB");
        options->sizes[options->size_count++] = bytes;
        if (!*rest)
            return;
    }
}

static void store(struct options *options, const struct option_row *row, const char *text) {
    char *member = (char *)options + row->offset;
    switch (row->kind) {
    case NUMBER:
        *(double *)member = number(row, text, false);
        break;
    case COUNT:
        *(uint64_t *)member = (uint64_t)number(row, text, true);
        break;
    case FLAG:
        *(bool *)member = true;
        break;
    case TEXT:
        *(const char **)member = text;
        break;
    case SIZE:
        *(uint64_t *)member = size(row, text);
        break;
    case SIZES:
        sizes(options, row, text);
        break;
    case UNTIL:
        *(uint64_t *)member = strcmp(text, "refused") == 0 ? 0 : size(row, text);
        break;
    }
}

static void print_help(void) {
    puts("usage: weir-load [OPTION]...\n"
         "Keeps a GPU busy, or full, in a known way and writes what it got as JSON lines.\n"
         "Without --seconds or --launches it launches until SIGTERM, or not at all where it is asked to\n"
         "allocate or hold.\n");
    for (size_t i = 0; i < ROWS; i++)
        printf("  --%s %-*s %s\n", rows[i].name, (int)(HELP_COLUMN - strlen(rows[i].name)), rows[i].value,
               rows[i].help);
}

static void check_together(const struct options *options) {
    if (options->ptds && options->streams > 1)
        refuse("streams", "more than 1", "one stream with --ptds: the thread's own");
    if (options->cooperative && options->extended)
        refuse("extended", "with --cooperative", "one of the two");
    if (options->wait && options->wait_every)
        refuse("wait-every", "with --wait", "one of the two");
    if (options->latency && !options->wait)
        refuse("latency", "without --wait", "together with --wait");
    if (options->every_ms > 0 && !options->wait)
        refuse("every-ms", "without --wait", "together with --wait");
    if (options->allocate_until && !options->allocate_step)
        refuse("allocate-until", "alone", "together with --allocate-step");
}

bool options_launches(const struct options *options) {
    bool other_purpose = options->hold > 0 || options->allocate_step || options->size_count;
    return options->seconds > 0 || options->launches > 0 || !other_purpose;
}

void options_parse(struct options *options, int argc, char **argv) {
    struct option table[ROWS + 2] = {{0}};
    for (size_t i = 0; i < ROWS; i++)
        table[i] = (struct option){rows[i].name, rows[i].kind == FLAG ? no_argument : required_argument, NULL,
                                   (int)i};
    table[ROWS] = (struct option){"help", no_argument, NULL, 'h'};
    _Static_assert(ROWS < '?', "a row's index must not be taken for an answer of getopt");
    *options = (struct options){.kernel_us = 1000, .queue = 64, .streams = 1, .grid = 1, .processes = 1,
                                .report = "-"};
    for (int found; (found = getopt_long(argc, argv, "h", table, NULL)) != -1;) {
        if (found == '?') /* getopt has said which */
            exit(2);
        if (found == 'h') {
            print_help();
            output_flush(stdout, "-");
            exit(0);
        }
        store(options, &rows[found], optarg);
    }
    if (optind < argc) {
        fprintf(stderr, "weir-load: argument: %s: not allowed; options only, see --help\n", argv[optind]);
        exit(2);
    }
    check_together(options);
    if (options->wait)
        options->wait_every = 1;
}
