/*
 * The driver's own functions behind the hooks.
 *
 * The driver is the libcuda.so.1 or libnvidia-ml.so.1 that the program itself has loaded; only a program that
 * reaches a hook before it has one makes us load it. Nothing here is linked against the driver, so a program
 * without a GPU starts as it always did. The real dlsym is found in linker.c.
 */
#define _GNU_SOURCE
#include "real.h"
#include "slice.h"

#include <errno.h>

#define NAME(symbol, prototype, ...) [WEIR_ID_##symbol] = #symbol,
#define HOOK(symbol, prototype, ...) [WEIR_ID_##symbol] = (void *)symbol,
#define NEED(symbol, prototype, need, ...) [WEIR_ID_##symbol] = need,

enum need { OPTIONAL, REQUIRED };

static const enum need needs[WEIR_SYMBOLS] = {WEIR_ALL_SYMBOLS(NEED)};
static const char *const names[WEIR_SYMBOLS] = {WEIR_ALL_SYMBOLS(NAME)};
void *const weir_replacements[WEIR_SYMBOLS] = {WEIR_ALL_HOOKS(HOOK)};
void *_Atomic weir_reals[WEIR_SYMBOLS];
__thread bool weir_inside;

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

/* Fills the slots of one library. Any number of threads may do it at once: they store the same values. */
static bool load_library(bool nvml, int flags)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const char *file = nvml ? "libnvidia-ml.so.1" : "libcuda.so.1";
    weir_find_linker();
    void *library = weir_linker.dlopen(file, flags);
    enum weir_symbol_id end = nvml ? WEIR_SYMBOLS : WEIR_CUDA_SYMBOLS;
    if (!library)
        return false;
    for (enum weir_symbol_id id = nvml ? WEIR_CUDA_SYMBOLS : 0; id < end; id++) {
        void *real = weir_linker.dlsym(library, names[id]);
        if (real && weir_replacements[id])
            weir_remember(id, real);
        if (!real && needs[id] == REQUIRED)
            weir_complain(&said, "weir: %s: no %s: this driver is older than Weir knows", file, names[id]);
        atomic_store_explicit(&weir_reals[id], real ? real : missing(id), memory_order_release);
    }
    return true;
}

bool weir_load_loaded(bool nvml)
{
    enum weir_symbol_id first = nvml ? WEIR_CUDA_SYMBOLS : 0;
    return atomic_load_explicit(&weir_reals[first], memory_order_acquire) ||
           load_library(nvml, RTLD_LAZY | RTLD_NOLOAD);
}

void *weir_load_real(enum weir_symbol_id id)
{
    int saved = errno;
    bool nvml = is_nvml(id);
    bool loaded = weir_load_loaded(nvml) || load_library(nvml, RTLD_LAZY);
    void *real = loaded ? atomic_load_explicit(&weir_reals[id], memory_order_acquire) : NULL;
    errno = saved;
    return real ? real : missing(id);
}

bool weir_has_real(enum weir_symbol_id id)
{
    return weir_real_pointer(id) != missing(id);
}
