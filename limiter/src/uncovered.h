/*
 * Calls that take device memory in ways that are not accounted for yet, with their parameters, so that
 * uncovered.c can define all of them from this list (hooks.h includes it; see there for the columns).
 *
 * Each is counted in the stats page's `uncovered`; when the control page says refuse_unknown it is refused,
 * except loading code, without which no program runs at all. To cover one: move it to WEIR_MEMORY_HOOKS.
 */
#ifndef WEIR_UNCOVERED_H
#define WEIR_UNCOVERED_H

#define WEIR_UNCOVERED_MEMORY(X)                                                                             \
    X(cuMemAlloc, cuMemAlloc, OPTIONAL, (CUdeviceptr_v1 *pointer, unsigned int size), (pointer, size))       \
    X(cuMemAllocPitch, cuMemAllocPitch, OPTIONAL,                                                            \
      (CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int width, unsigned int height,                \
       unsigned int element),                                                                                \
      (pointer, pitch, width, height, element))                                                              \
    X(cuArrayCreate, cuArrayCreate, OPTIONAL, (CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *shape),       \
      (array, shape))                                                                                        \
    X(cuArrayCreate_v2, cuArrayCreate_v2, OPTIONAL, (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape),    \
      (array, shape))                                                                                        \
    X(cuArray3DCreate, cuArray3DCreate, OPTIONAL,                                                            \
      (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape), (array, shape))                             \
    X(cuArray3DCreate_v2, cuArray3DCreate_v2, OPTIONAL,                                                      \
      (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape), (array, shape))                                \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, OPTIONAL,                                              \
      (CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels),                  \
      (array, shape, levels))                                                                                \
    X(cuMemMapArrayAsync, cuMemMapArrayAsync, OPTIONAL,                                                      \
      (CUarrayMapInfo *maps, unsigned int count, CUstream stream), (maps, count, stream))                    \
    X(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync, OPTIONAL,                                                 \
      (CUarrayMapInfo *maps, unsigned int count, CUstream stream), (maps, count, stream))                    \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, OPTIONAL,                                              \
      (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count,                             \
       CUDA_MEM_ALLOC_NODE_PARAMS *params),                                                                  \
      (node, graph, after, count, params))                                                                   \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle, OPTIONAL,                                                      \
      (CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags), (pointer, handle, flags))           \
    X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, OPTIONAL,                                                   \
      (CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags), (pointer, handle, flags))           \
    X(cuImportExternalMemory, cuImportExternalMemory, OPTIONAL,                                              \
      (CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description),                       \
      (memory, description))                                                                                 \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, OPTIONAL,                              \
      (CUmemGenericAllocationHandle *handle, void *shared, CUmemAllocationHandleType type),                  \
      (handle, shared, type))                                                                                \
    X(cuMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle, OPTIONAL,                      \
      (CUmemoryPool *pool, void *shared, CUmemAllocationHandleType type, unsigned long long flags),          \
      (pool, shared, type, flags))                                                                           \
    X(cuMemPoolImportPointer, cuMemPoolImportPointer, OPTIONAL,                                              \
      (CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *shared), (pointer, pool, shared))    \
    X(cuMulticastCreate, cuMulticastCreate, OPTIONAL,                                                        \
      (CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *properties), (handle, properties)) \
    X(cuGreenCtxCreate, cuGreenCtxCreate, OPTIONAL,                                                          \
      (CUgreenCtx *context, CUdevResourceDesc resources, CUdevice device, unsigned int flags),               \
      (context, resources, device, flags))

#define WEIR_UNCOVERED_CODE(X)                                                                               \
    X(cuModuleLoad, cuModuleLoad, OPTIONAL, (CUmodule *module, const char *file), (module, file))            \
    X(cuModuleLoadData, cuModuleLoadData, OPTIONAL, (CUmodule *module, const void *image), (module, image))  \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, OPTIONAL,                                                      \
      (CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values),       \
      (module, image, count, options, values))                                                               \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, OPTIONAL, (CUmodule *module, const void *image),         \
      (module, image))                                                                                       \
    X(cuLibraryLoadData, cuLibraryLoadData, OPTIONAL,                                                        \
      (CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values, unsigned int jit_count,   \
       CUlibraryOption *options, void **values, unsigned int count),                                         \
      (library, code, jit, jit_values, jit_count, options, values, count))                                   \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, OPTIONAL,                                                \
      (CUlibrary *library, const char *file, CUjit_option *jit, void **jit_values, unsigned int jit_count,   \
       CUlibraryOption *options, void **values, unsigned int count),                                         \
      (library, file, jit, jit_values, jit_count, options, values, count))

/* Defined by hand: a graph node takes memory only if it is an allocation node. */
#define WEIR_UNCOVERED_NODES(X)                                                                              \
    X(cuGraphAddNode, cuGraphAddNode, OPTIONAL)                                                              \
    X(cuGraphAddNode_v2, cuGraphAddNode_v2, OPTIONAL)

#define WEIR_UNCOVERED_HOOKS(X) WEIR_UNCOVERED_MEMORY(X) WEIR_UNCOVERED_CODE(X) WEIR_UNCOVERED_NODES(X)

#endif
