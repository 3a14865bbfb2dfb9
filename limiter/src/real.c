/*
 * The real functions behind the hooks: the dynamic linker's own, and the driver's.
 *
 * We export dlsym ourselves, so the real one is read from the symbol tables of libc (or libdl, where it lived
 * before glibc 2.34) as the linker has them in memory. The driver is the libcuda.so.1 or libnvidia-ml.so.1 that
 * the program itself has loaded; only a program that reaches a hook before it has one makes us load it.
 * Nothing here is linked against the driver, so a program without a GPU starts as it always did.
 */
#define _GNU_SOURCE
#include "real.h"
#include "slice.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#define NAME(symbol, prototype, ...) [WEIR_ID_##symbol] = #symbol,
#define HOOK(symbol, prototype, ...) [WEIR_ID_##symbol] = (void *)symbol,
#define NEED(symbol, prototype, need, ...) [WEIR_ID_##symbol] = need,

enum need { OPTIONAL, REQUIRED };

static const enum need needs[WEIR_SYMBOLS] = {WEIR_ALL_SYMBOLS(NEED)};
static const char *const names[WEIR_SYMBOLS] = {WEIR_ALL_SYMBOLS(NAME)};
void *const weir_replacements[WEIR_SYMBOLS] = {WEIR_ALL_HOOKS(HOOK)};
void *_Atomic weir_reals[WEIR_SYMBOLS];
__thread bool weir_inside;

struct weir_linker weir_linker;

extern const char __ehdr_start[] __attribute__((visibility("hidden"))); /* where this library is mapped */

struct wanted {
    const char *name;
    bool anywhere; /* not only in libc or libdl */
    void *found;
};

/* The linker relocates the pointers of a dynamic section in place, except where that is read-only. */
static const void *absolute(const struct dl_phdr_info *object, ElfW(Addr) pointer)
{
    return (const void *)(pointer < object->dlpi_addr ? pointer + object->dlpi_addr : pointer);
}

/* The number of symbols: a GNU hash table only tells the last one of each chain. */
static size_t symbol_count(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], bloom = hash[2], last = 0;
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(hash + 4) + bloom);
    const uint32_t *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static void *find_in(const struct dl_phdr_info *object, const ElfW(Dyn) *entry, const char *name)
{
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    size_t count = 0;
    for (; entry->d_tag != DT_NULL; entry++) {
        const void *pointer = absolute(object, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            symbols = pointer;
        else if (entry->d_tag == DT_STRTAB)
            strings = pointer;
        else if (entry->d_tag == DT_GNU_HASH)
            count = symbol_count(pointer);
        else if (entry->d_tag == DT_HASH && !count)
            count = ((const uint32_t *)pointer)[1];
    }
    for (size_t i = 0; symbols && strings && i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[i];
        bool function = (symbol->st_info & 0xf) == STT_FUNC && symbol->st_shndx != SHN_UNDEF;
        if (function && strcmp(strings + symbol->st_name, name) == 0)
            return (void *)(object->dlpi_addr + symbol->st_value);
    }
    return NULL;
}

static bool is_libc(const struct dl_phdr_info *object)
{
    const char *base = strrchr(object->dlpi_name, '/');
    base = base ? base + 1 : object->dlpi_name;
    return strcmp(base, "libc.so.6") == 0 || strcmp(base, "libdl.so.2") == 0;
}

static int visit(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct wanted *wanted = argument;
    bool ours = object->dlpi_addr == (ElfW(Addr))(uintptr_t)__ehdr_start;
    bool asked = wanted->anywhere ? !ours : is_libc(object);
    (void)size;
    for (int i = 0; asked && i < object->dlpi_phnum && !wanted->found; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC)
            wanted->found = find_in(object, (const void *)(object->dlpi_addr + part->p_vaddr), wanted->name);
    }
    return wanted->found != NULL;
}

static void *from_libc(const char *name)
{
    struct wanted wanted = {.name = name};
    dl_iterate_phdr(visit, &wanted);
    wanted.anywhere = true; /* a libc of another name */
    if (!wanted.found)
        dl_iterate_phdr(visit, &wanted);
    return wanted.found;
}

void weir_find_linker(void)
{
    if (atomic_load_explicit(&weir_linker.ready, memory_order_acquire))
        return;
    weir_linker.dlopen = (__typeof__(weir_linker.dlopen))from_libc("dlopen");
    weir_linker.dlvsym = (__typeof__(weir_linker.dlvsym))from_libc("dlvsym");
    weir_linker.dlsym = (__typeof__(weir_linker.dlsym))from_libc("dlsym");
    atomic_store_explicit(&weir_linker.ready, true, memory_order_release);
}

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
