/*
 * The way to libcuda: dlopen by soname, one dlsym for cuGetProcAddress_v2, everything else through it with the
 * version whose ABI is meant and, with --ptds, the flag for per-thread default streams; that is how cudart
 * does it. --dlsym asks for each exported symbol instead, the way of older clients.
 *
 * Invariant: after driver_open every member of `driver` can be called. There is no link dependency on CUDA.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "load.h"

#define TEXT(name) #name
#define EXPANDED(name) TEXT(name) /* cuda.h maps cuMemAlloc to cuMemAlloc_v2: the exported symbol */

struct driver driver;

typedef CUresult (*get_proc_address)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void fail(const char *what, const char *why) {
    fprintf(stderr, "weir-load: %s: %s\n", what, why);
    exit(1);
}

static void *by_symbol(void *library, const char *name, const char *symbol, const char *suffix) {
    char variant[96];
    snprintf(variant, sizeof variant, "%s%s", symbol, suffix);
    void *found = dlsym(library, variant);
    if (!found) { /* an older driver may have the first version only */
        snprintf(variant, sizeof variant, "%s%s", name, suffix);
        found = dlsym(library, variant);
    }
    return found;
}

static void *by_version(get_proc_address get, const char *name, int version, bool ptds) {
    void *found = NULL;
    CUdriverProcAddressQueryResult status;
    cuuint64_t flags = ptds ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    return get(name, &found, version, flags, &status) == CUDA_SUCCESS ? found : NULL;
}

void driver_open(const struct options *options) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail("no GPU driver here (weir run --simulate h200 -- weir load runs on a simulated card)", dlerror());
    get_proc_address get = (get_proc_address)dlsym(library, "cuGetProcAddress_v2");
    bool symbols = options->dlsym || !get;
#define FIND(name, version, suffix)                                                                            \
    driver.name = symbols ? by_symbol(library, #name, EXPANDED(name), options->ptds ? suffix : "")             \
                          : by_version(get, #name, version, options->ptds);                                    \
    if (!driver.name)                                                                                          \
        fail(#name, "the driver does not have it");
    LOAD_DRIVER(FIND)
#undef FIND
}

const char *driver_error(CUresult result) {
    const char *name = NULL;
    if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
        return "CUDA_ERROR_WITHOUT_NAME";
    return name;
}

void driver_check(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS)
        return;
    size_t length = strcspn(call, "("); /* "driver.cuInit(0)" is told as "cuInit" */
    const char *dot = memchr(call, '.', length);
    const char *name = dot ? dot + 1 : call;
    fprintf(stderr, "weir-load: %.*s: %s\n", (int)(call + length - name), name, driver_error(result));
    exit(1);
}
