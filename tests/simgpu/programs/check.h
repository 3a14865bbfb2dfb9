/*
 * How the test programs here are run: `program CASE` runs one case and exits 0, or says which line failed.
 *
 * A program lists its cases once, in CASES; the tests ask for them by name. What it does not do: isolate cases
 * from each other; each run is a process of its own.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../programs/require.h"

#define EQUAL(have, want)                                                                               \
    do {                                                                                                \
        long long have_ = (long long)(have), want_ = (long long)(want);                                 \
        if (have_ != want_) {                                                                           \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #have, have_, want_); \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

#define OK(call) EQUAL(call, 0)

#define CASE(name) {#name, name},

#define CASES(...)                                                                 \
    int main(int argc, char **argv)                                                \
    {                                                                              \
        const struct {                                                             \
            const char *name;                                                      \
            void (*run)(void);                                                     \
        } cases[] = {__VA_ARGS__};                                                 \
        for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) \
            if (strcmp(cases[i].name, argv[1]) == 0) {                             \
                cases[i].run();                                                    \
                return 0;                                                          \
            }                                                                      \
        fprintf(stderr, "usage: %s CASE\n", argv[0]);                              \
        return 2;                                                                  \
    }

#endif
