/*
 * A program with no GPU that looks symbols up in every way the linker tells callers apart. It checks that what it
 * finds is what it would find without the limiter, and prints the files of the slice that are mapped.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../programs/require.h"

int probe(void);          /* in libcaller.so, which asks RTLD_NEXT for the one in libinner.so */
void *open_by_name(void); /* in libcaller.so, which finds it by its own RUNPATH only */

void curl_easy_init(void);
void curl_easy_init(void) {}
int cublasCreate_v2(void);
int cublasCreate_v2(void)
{
    return 3;
}

static void print_mapped(const char *directory)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps);
    while (directory && fgets(line, sizeof line, maps))
        if (strstr(line, directory))
            fputs(line, stdout);
    fclose(maps);
}

int main(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    REQUIRE(libc);
    for (int again = 0; again < 2; again++)
        REQUIRE(dlsym(RTLD_NEXT, "malloc") == dlsym(libc, "malloc"));
    REQUIRE(dlvsym(libc, "memcpy", "GLIBC_2.14") || dlvsym(libc, "memcpy", "GLIBC_2.17"));
    REQUIRE(dlsym(RTLD_DEFAULT, "curl_easy_init") == (void *)curl_easy_init);
    REQUIRE(dlsym(RTLD_DEFAULT, "cublasCreate_v2") == (void *)cublasCreate_v2);
    REQUIRE(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == NULL); /* there is no driver, so there is no such function */
    REQUIRE(dlsym(libc, "cuMemAlloc_v2") == NULL);
    REQUIRE(strstr(dlerror(), "cuMemAlloc_v2"));
    errno = 123;
    REQUIRE(dlsym(RTLD_DEFAULT, "malloc") && errno == 123);
    REQUIRE(probe() == 1 + 2);
    REQUIRE(open_by_name());
    print_mapped(getenv("WEIR_SLICE_DIR"));
    return 0;
}
