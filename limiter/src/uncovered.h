/*
 * Calls that take device memory, or open a way to it, which the ledger does not account for, with their
 * parameters, so that uncovered.c can define all of them from these lists (hooks.h includes them; see there for
 * the columns). docs/coverage.md is written from them and from the comment above each.
 *
 * Each is counted in the stats page, by the WEIR_API that its list says. When the control page says
 * refuse_unknown it is refused, except what no program can do without. To cover one: move it to WEIR_MEMORY_HOOKS.
 */
#ifndef WEIR_UNCOVERED_H
#define WEIR_UNCOVERED_H

/* Memory from elsewhere, or that others may keep, unaccounted for: counted, or refused as not supported. */
#define WEIR_UNCOVERED_SHARED(X)                                                                             \
    X(cuMulticastCreate, cuMulticastCreate, OPTIONAL,                                                        \
      (CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *properties), (handle, properties)) \
    X(cuMemGetHandleForAddressRange, cuMemGetHandleForAddressRange, OPTIONAL,                                \
      (void *handle, CUdeviceptr pointer, size_t size, CUmemRangeHandleType type, unsigned long long flags), \
      (handle, pointer, size, type, flags))

/* Loads code when it is first asked for; no program runs without it: counted only. */
#define WEIR_UNCOVERED_CODE(X)                                                                               \
    X(cuModuleGetFunction, cuModuleGetFunction, OPTIONAL,                                                    \
      (CUfunction *function, CUmodule module, const char *name), (function, module, name))                   \
    X(cuModuleGetGlobal, cuModuleGetGlobal, OPTIONAL,                                                        \
      (CUdeviceptr_v1 *pointer, unsigned int *size, CUmodule module, const char *name),                      \
      (pointer, size, module, name))                                                                         \
    X(cuModuleGetGlobal_v2, cuModuleGetGlobal_v2, OPTIONAL,                                                  \
      (CUdeviceptr *pointer, size_t *size, CUmodule module, const char *name), (pointer, size, module, name)) \
    X(cuLibraryGetModule, cuLibraryGetModule, OPTIONAL, (CUmodule *module, CUlibrary library),               \
      (module, library))                                                                                     \
    X(cuLibraryGetGlobal, cuLibraryGetGlobal, OPTIONAL,                                                      \
      (CUdeviceptr *pointer, size_t *size, CUlibrary library, const char *name),                             \
      (pointer, size, library, name))                                                                        \
    X(cuLibraryGetManaged, cuLibraryGetManaged, OPTIONAL,                                                    \
      (CUdeviceptr *pointer, size_t *size, CUlibrary library, const char *name),                             \
      (pointer, size, library, name))                                                                        \
    X(cuKernelGetFunction, cuKernelGetFunction, OPTIONAL, (CUfunction *function, CUkernel kernel),           \
      (function, kernel))                                                                                    \
    X(cuLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction, OPTIONAL,                                    \
      (void **function, CUlibrary library, const char *name), (function, library, name))                     \
    X(cuFuncLoad, cuFuncLoad, OPTIONAL, (CUfunction function), (function))

/* Tables of the driver's hidden functions, which reach everything unseen; cudart needs them: counted only. */
#define WEIR_UNCOVERED_TABLES(X)                                                                             \
    X(cuGetExportTable, cuGetExportTable, OPTIONAL, (const void **table, const CUuuid *id), (table, id))

/* Defined by hand: only a move to another card counts, or is refused as not supported. */
#define WEIR_UNCOVERED_RESTORES(X) X(cuCheckpointProcessRestore, cuCheckpointProcessRestore, OPTIONAL)

#define WEIR_UNCOVERED_HOOKS(X)                                                                              \
    WEIR_UNCOVERED_SHARED(X) WEIR_UNCOVERED_CODE(X) WEIR_UNCOVERED_TABLES(X) WEIR_UNCOVERED_RESTORES(X)

#endif
