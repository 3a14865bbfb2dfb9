/*
 * The driver's own functions behind the hooks.
 *
 * The driver is the libcuda.so.1 or libnvidia-ml.so.1 that the program itself has loaded, or whatever library it
 * has loaded that exports as much; only a program that reaches a hook before it has one makes us load it. It is
 * held from then on, so that dlclose() cannot take it from under the hooks. Nothing here is linked against the
 * driver, so a program without a GPU starts as it always did. The real dlsym is found in linker.c.
 */
#define _GNU_SOURCE
#include "real.h"
#include "slice.h"
#include "symbols.h"

#include <errno.h>
#include <limits.h>

#define NAME(symbol, prototype, ...) [WEIR_ID_##symbol] = #symbol,
#define HOOK(symbol, prototype, ...) [WEIR_ID_##symbol] = (void *)symbol,
#define NEED(symbol, prototype, need, ...) [WEIR_ID_##symbol] = need,

enum need { OPTIONAL, REQUIRED };

static const enum need needs[WEIR_SYMBOLS] = {WEIR_ALL_SYMBOLS(NEED)};
static const char *const names[WEIR_SYMBOLS] = {WEIR_ALL_SYMBOLS(NAME)};
void *const weir_replacements[WEIR_SYMBOLS] = {WEIR_ALL_HOOKS(HOOK)};
void *_Atomic weir_reals[WEIR_SYMBOLS];
__thread const char *weir_entered;

/* What makes a library a driver, whatever its name: each of these has been in every one for a decade. */
static const char *const cuda_signature[] = {"cuInit",          "cuDriverGetVersion", "cuMemAlloc_v2",
                                             "cuCtxCreate_v2",  "cuLaunchKernel",     "cuGetExportTable",
                                             "cuMemcpyHtoD_v2", "cuModuleLoadData",   NULL};
static const char *const nvml_signature[] = {"nvmlInit_v2", "nvmlSystemGetDriverVersion",
                                             "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMemoryInfo", NULL};
static const char *const *const signatures[] = {cuda_signature, nvml_signature};
static const char *const files[] = {"libcuda.so.1", "libnvidia-ml.so.1"};
static void *_Atomic drivers[2]; /* handles, never closed */

static CUresult cuda_missing(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

static nvmlReturn_t nvml_missing(void)
{
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static bool is_nvml(enum weir_symbol_id id)
{
    return id >= WEIR_CUDA_SYMBOLS;
}

static void *missing(enum weir_symbol_id id)
{
    return is_nvml(id) ? (void *)nvml_missing : (void *)cuda_missing;
}

static void *open_driver(bool nvml, bool load)
{
    char path[PATH_MAX];
    void *library = weir_linker.dlopen(files[nvml], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (!library && weir_find_object(signatures[nvml], path, sizeof path))
        library = weir_linker.dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return library || !load ? library : weir_linker.dlopen(files[nvml], RTLD_LAZY | RTLD_NODELETE);
}

/*
 * Fills the slots of one library, the first last: it tells other threads that all are filled. Any number of threads may
 * do it at once: they store the same values.
 */
static bool load_library(bool nvml, bool load)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    weir_find_linker();
    void *none = NULL, *library = open_driver(nvml, load);
    int first = nvml ? WEIR_CUDA_SYMBOLS : 0, end = nvml ? WEIR_SYMBOLS : WEIR_CUDA_SYMBOLS;
    if (!library)
        return false;
    if (!atomic_compare_exchange_strong(&drivers[nvml], &none, library))
        library = none;
    for (int id = end - 1; id >= first; id--) {
        void *real = weir_linker.dlsym(library, names[id]);
        if (real && weir_replacements[id])
            weir_remember((enum weir_symbol_id)id, real);
        if (!real && needs[id] == REQUIRED)
            weir_complain(&said, "weir: %s: no %s: this driver is older than Weir knows", files[nvml], names[id]);
        atomic_store_explicit(&weir_reals[id], real ? real : missing((enum weir_symbol_id)id), memory_order_release);
    }
    return true;
}

bool weir_load_loaded(bool nvml)
{
    enum weir_symbol_id first = nvml ? WEIR_CUDA_SYMBOLS : 0;
    return atomic_load_explicit(&weir_reals[first], memory_order_acquire) || load_library(nvml, false);
}

void *weir_driver(bool nvml)
{
    return atomic_load(&drivers[nvml]);
}

void *weir_only_driver(bool nvml, void *found, const char *name)
{
    void *own = weir_linker.dlsym(weir_driver(nvml), name);
    return own == found || !weir_object_defines(found, signatures[nvml]) ? found : own;
}

void *weir_load_real(enum weir_symbol_id id)
{
    int saved = errno;
    bool nvml = is_nvml(id);
    bool loaded = weir_load_loaded(nvml) || load_library(nvml, true);
    void *real = loaded ? atomic_load_explicit(&weir_reals[id], memory_order_acquire) : NULL;
    errno = saved;
    return real ? real : missing(id);
}

bool weir_has_real(enum weir_symbol_id id)
{
    return weir_real_pointer(id) != missing(id);
}
