/*
 * The one list of what Weir interposes. Each entry is named once and yields the slot for the real pointer,
 * the loader's work, the replacement table and the check of exports.map.
 *
 *   X(symbol, prototype, need)                    symbol: as the driver exports it, variant included
 *   X(symbol, prototype, need, (params), (args))  the uncovered ones, which are all defined from their list
 *
 * `prototype` is the name under which cuda.h or nvml.h declares the same signature. REQUIRED symbols exist in
 * every driver that Weir supports, and a driver without one is complained of; a symbol that is missing answers
 * "not found" when it is called.
 * A hook is the function of the same name in this library; inside a hook, WEIR_REAL(symbol)(…) is the driver's.
 * This file decides nothing about what a hook does.
 */
#ifndef WEIR_HOOKS_H
#define WEIR_HOOKS_H

#define __CUDA_API_VERSION_INTERNAL /* every name means exactly itself: cuMemAlloc is the first version */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cuda.h>
#include <nvml.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fills.h"
#include "uncovered.h"

/* What cudaVDPAU.h declares, which needs VDPAU's own headers. */
typedef CUresult weir_vdpau_context(CUcontext *context, unsigned int flags, CUdevice device, uint32_t vdpau,
                                    void *lookup);

/* How a program gets at everything else: what it is given are our hooks (interpose.c). */
#define WEIR_LOOKUP_HOOKS(X)                                                                                 \
    X(cuGetProcAddress, cuGetProcAddress, OPTIONAL)                                                          \
    X(cuGetProcAddress_v2, cuGetProcAddress_v2, OPTIONAL)

/* Device memory that is charged to the slice (memory.c, pools.c, vmm.c, ipc.c, contexts.c and others). */
#define WEIR_MEMORY_HOOKS(X)                                                                                 \
    X(cuMemAlloc_v2, cuMemAlloc_v2, REQUIRED)                                                                \
    X(cuMemAllocPitch_v2, cuMemAllocPitch_v2, REQUIRED)                                                      \
    X(cuMemAllocManaged, cuMemAllocManaged, REQUIRED)                                                        \
    X(cuMemFree_v2, cuMemFree_v2, REQUIRED)                                                                  \
    X(cuMemAlloc, cuMemAlloc, OPTIONAL)                                                                      \
    X(cuMemAllocPitch, cuMemAllocPitch, OPTIONAL)                                                            \
    X(cuMemFree, cuMemFree, OPTIONAL)                                                                        \
    X(cuArrayCreate, cuArrayCreate, OPTIONAL)                                                                \
    X(cuArrayCreate_v2, cuArrayCreate_v2, OPTIONAL)                                                          \
    X(cuArray3DCreate, cuArray3DCreate, OPTIONAL)                                                            \
    X(cuArray3DCreate_v2, cuArray3DCreate_v2, OPTIONAL)                                                      \
    X(cuArrayDestroy, cuArrayDestroy, OPTIONAL)                                                              \
    X(cuMipmappedArrayCreate, cuMipmappedArrayCreate, OPTIONAL)                                              \
    X(cuMipmappedArrayDestroy, cuMipmappedArrayDestroy, OPTIONAL)                                            \
    X(cuModuleLoad, cuModuleLoad, OPTIONAL)                                                                  \
    X(cuModuleLoadData, cuModuleLoadData, OPTIONAL)                                                          \
    X(cuModuleLoadDataEx, cuModuleLoadDataEx, OPTIONAL)                                                      \
    X(cuModuleLoadFatBinary, cuModuleLoadFatBinary, OPTIONAL)                                                \
    X(cuModuleUnload, cuModuleUnload, OPTIONAL)                                                              \
    X(cuLibraryLoadData, cuLibraryLoadData, OPTIONAL)                                                        \
    X(cuLibraryLoadFromFile, cuLibraryLoadFromFile, OPTIONAL)                                                \
    X(cuLibraryUnload, cuLibraryUnload, OPTIONAL)                                                            \
    X(cuMemAllocAsync, cuMemAllocAsync, OPTIONAL)                                                            \
    X(cuMemAllocAsync_ptsz, cuMemAllocAsync, OPTIONAL)                                                       \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, OPTIONAL)                                            \
    X(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, OPTIONAL)                                       \
    X(cuMemFreeAsync, cuMemFreeAsync, OPTIONAL)                                                              \
    X(cuMemFreeAsync_ptsz, cuMemFreeAsync, OPTIONAL)                                                         \
    X(cuMemPoolCreate, cuMemPoolCreate, OPTIONAL)                                                            \
    X(cuMemPoolDestroy, cuMemPoolDestroy, OPTIONAL)                                                          \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, OPTIONAL)                                                            \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, OPTIONAL)                                                \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, OPTIONAL)                                        \
    X(cuDeviceGetMemPool, cuDeviceGetMemPool, OPTIONAL)                                                      \
    X(cuMemGetDefaultMemPool, cuMemGetDefaultMemPool, OPTIONAL)                                              \
    X(cuMemGetMemPool, cuMemGetMemPool, OPTIONAL)                                                            \
    X(cuMemCreate, cuMemCreate, OPTIONAL)                                                                    \
    X(cuMemRelease, cuMemRelease, OPTIONAL)                                                                  \
    X(cuMemMap, cuMemMap, OPTIONAL)                                                                          \
    X(cuMemUnmap, cuMemUnmap, OPTIONAL)                                                                      \
    X(cuMemMapArrayAsync, cuMemMapArrayAsync, OPTIONAL)                                                      \
    X(cuMemMapArrayAsync_ptsz, cuMemMapArrayAsync, OPTIONAL)                                                 \
    X(cuMemRetainAllocationHandle, cuMemRetainAllocationHandle, OPTIONAL)                                    \
    X(cuMemExportToShareableHandle, cuMemExportToShareableHandle, OPTIONAL)                                  \
    X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle, OPTIONAL)                              \
    X(cuIpcGetMemHandle, cuIpcGetMemHandle, OPTIONAL)                                                        \
    X(cuIpcOpenMemHandle, cuIpcOpenMemHandle, OPTIONAL)                                                      \
    X(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, OPTIONAL)                                                   \
    X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, OPTIONAL)                                                    \
    X(cuMemPoolImportPointer, cuMemPoolImportPointer, OPTIONAL)                                              \
    X(cuImportExternalMemory, cuImportExternalMemory, OPTIONAL)                                              \
    X(cuDestroyExternalMemory, cuDestroyExternalMemory, OPTIONAL)                                            \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, REQUIRED)                                          \
    X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, OPTIONAL)                                        \
    X(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v2, OPTIONAL)                                  \
    X(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset, OPTIONAL)                                            \
    X(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset_v2, OPTIONAL)                                      \
    X(cuCtxCreate, cuCtxCreate, OPTIONAL)                                                                    \
    X(cuCtxCreate_v2, cuCtxCreate_v2, REQUIRED)                                                              \
    X(cuCtxCreate_v3, cuCtxCreate_v3, OPTIONAL)                                                              \
    X(cuCtxCreate_v4, cuCtxCreate_v4, OPTIONAL)                                                              \
    X(cuGLCtxCreate, cuCtxCreate, OPTIONAL)                                                                  \
    X(cuGLCtxCreate_v2, cuCtxCreate_v2, OPTIONAL)                                                            \
    X(cuVDPAUCtxCreate, weir_vdpau_context, OPTIONAL)                                                        \
    X(cuVDPAUCtxCreate_v2, weir_vdpau_context, OPTIONAL)                                                     \
    X(cuCtxSetLimit, cuCtxSetLimit, OPTIONAL)                                                                \
    X(cuGreenCtxCreate, cuGreenCtxCreate, OPTIONAL)                                                          \
    X(cuCtxFromGreenCtx, cuCtxFromGreenCtx, OPTIONAL)                                                        \
    X(cuGreenCtxDestroy, cuGreenCtxDestroy, OPTIONAL)                                                        \
    X(cuCtxDestroy, cuCtxDestroy, OPTIONAL)                                                                  \
    X(cuCtxDestroy_v2, cuCtxDestroy_v2, REQUIRED)                                                            \
    X(cuCtxAttach, cuCtxAttach, OPTIONAL)                                                                    \
    X(cuCtxDetach, cuCtxDetach, OPTIONAL)

/* Graphs: what their allocation nodes take is charged; their code and parameters are counted (graphs.c). */
#define WEIR_GRAPH_HOOKS(X)                                                                                  \
    X(cuGraphAddMemAllocNode, cuGraphAddMemAllocNode, OPTIONAL)                                              \
    X(cuGraphAddNode, cuGraphAddNode, OPTIONAL)                                                              \
    X(cuGraphAddNode_v2, cuGraphAddNode_v2, OPTIONAL)                                                        \
    X(cuGraphInstantiate, cuGraphInstantiate, OPTIONAL)                                                      \
    X(cuGraphInstantiate_v2, cuGraphInstantiate_v2, OPTIONAL)                                                \
    X(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, OPTIONAL)                                    \
    X(cuGraphInstantiateWithParams, cuGraphInstantiateWithParams, OPTIONAL)                                  \
    X(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams, OPTIONAL)                             \
    X(cuGraphUpload, cuGraphUpload, OPTIONAL)                                                                \
    X(cuGraphUpload_ptsz, cuGraphUpload, OPTIONAL)                                                           \
    X(cuGraphExecDestroy, cuGraphExecDestroy, OPTIONAL)                                                      \
    X(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, OPTIONAL)

/* Kernel launches, the calls that wait for them, those after which they are captured, ends of streams (pacing.c). */
#define WEIR_LAUNCH_HOOKS(X)                                                                                 \
    X(cuLaunchKernel, cuLaunchKernel, REQUIRED)                                                              \
    X(cuLaunchKernel_ptsz, cuLaunchKernel, OPTIONAL)                                                         \
    X(cuLaunchKernelEx, cuLaunchKernelEx, OPTIONAL)                                                          \
    X(cuLaunchKernelEx_ptsz, cuLaunchKernelEx, OPTIONAL)                                                     \
    X(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, OPTIONAL)                                        \
    X(cuLaunchCooperativeKernel_ptsz, cuLaunchCooperativeKernel, OPTIONAL)                                   \
    X(cuLaunchCooperativeKernelMultiDevice, cuLaunchCooperativeKernelMultiDevice, OPTIONAL)                  \
    X(cuLaunch, cuLaunch, OPTIONAL)                                                                          \
    X(cuLaunchGrid, cuLaunchGrid, OPTIONAL)                                                                  \
    X(cuLaunchGridAsync, cuLaunchGridAsync, OPTIONAL)                                                        \
    X(cuGraphLaunch, cuGraphLaunch, OPTIONAL)                                                                \
    X(cuGraphLaunch_ptsz, cuGraphLaunch, OPTIONAL)                                                           \
    X(cuStreamSynchronize, cuStreamSynchronize, REQUIRED)                                                    \
    X(cuStreamSynchronize_ptsz, cuStreamSynchronize, OPTIONAL)                                               \
    X(cuCtxSynchronize, cuCtxSynchronize, REQUIRED)                                                          \
    X(cuCtxSynchronize_v2, cuCtxSynchronize_v2, OPTIONAL)                                                    \
    X(cuEventSynchronize, cuEventSynchronize, REQUIRED)                                                      \
    X(cuStreamBeginCapture, cuStreamBeginCapture, OPTIONAL)                                                  \
    X(cuStreamBeginCapture_ptsz, cuStreamBeginCapture, OPTIONAL)                                             \
    X(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2, OPTIONAL)                                            \
    X(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2, OPTIONAL)                                       \
    X(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, OPTIONAL)                                    \
    X(cuStreamBeginCaptureToGraph_ptsz, cuStreamBeginCaptureToGraph, OPTIONAL)                               \
    X(cuStreamDestroy, cuStreamDestroy, OPTIONAL)                                                            \
    X(cuStreamDestroy_v2, cuStreamDestroy_v2, OPTIONAL)

/* Questions about memory, answered with the slice's numbers (query.c). */
#define WEIR_QUERY_HOOKS(X)                                                                                  \
    X(cuMemGetInfo, cuMemGetInfo, OPTIONAL)                                                                  \
    X(cuMemGetInfo_v2, cuMemGetInfo_v2, REQUIRED)                                                            \
    X(cuDeviceTotalMem, cuDeviceTotalMem, OPTIONAL)                                                          \
    X(cuDeviceTotalMem_v2, cuDeviceTotalMem_v2, REQUIRED)

#define WEIR_NVML_HOOKS(X)                                                                                   \
    X(nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo, REQUIRED)                                            \
    X(nvmlDeviceGetMemoryInfo_v2, nvmlDeviceGetMemoryInfo_v2, OPTIONAL)

/* Not interposed: functions of the driver that Weir itself calls. */
#define WEIR_CALLED_CUDA(X)                                                                                  \
    X(cuCtxGetCurrent, cuCtxGetCurrent, REQUIRED)                                                            \
    X(cuCtxGetDevice, cuCtxGetDevice, REQUIRED)                                                              \
    X(cuCtxPushCurrent_v2, cuCtxPushCurrent_v2, OPTIONAL)                                                    \
    X(cuCtxPopCurrent_v2, cuCtxPopCurrent_v2, OPTIONAL)                                                      \
    X(cuCtxGetLimit, cuCtxGetLimit, OPTIONAL)                                                                \
    X(cuDeviceGetAttribute, cuDeviceGetAttribute, REQUIRED)                                                  \
    X(cuDeviceGetCount, cuDeviceGetCount, REQUIRED)                                                          \
    X(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, OPTIONAL)                                  \
    X(cuDeviceGetUuid, cuDeviceGetUuid, OPTIONAL)                                                            \
    X(cuDeviceGetUuid_v2, cuDeviceGetUuid_v2, OPTIONAL)                                                      \
    X(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, REQUIRED)                                      \
    X(cuGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, OPTIONAL)                                \
    X(cuGraphGetNodes, cuGraphGetNodes, OPTIONAL)                                                            \
    X(cuGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams, OPTIONAL)                                  \
    X(cuGraphNodeGetType, cuGraphNodeGetType, OPTIONAL)                                                      \
    X(cuMemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle, OPTIONAL)              \
    X(cuMemGetAddressRange_v2, cuMemGetAddressRange_v2, OPTIONAL)                                            \
    X(cuPointerGetAttribute, cuPointerGetAttribute, OPTIONAL)                                                \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, OPTIONAL)                                                \
    X(cuStreamGetCtx, cuStreamGetCtx, OPTIONAL)                                                              \
    X(cuStreamGetDevice, cuStreamGetDevice, OPTIONAL)                                                        \
    X(cuStreamIsCapturing, cuStreamIsCapturing, OPTIONAL)                                                    \
    X(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, OPTIONAL)                        \
    X(cuEventCreate, cuEventCreate, REQUIRED)                                                                \
    X(cuEventDestroy_v2, cuEventDestroy_v2, REQUIRED)                                                        \
    X(cuEventRecord, cuEventRecord, REQUIRED)                                                                \
    X(cuEventQuery, cuEventQuery, REQUIRED)                                                                  \
    X(cuEventElapsedTime, cuEventElapsedTime, REQUIRED)                                                      \
    X(cuStreamQuery, cuStreamQuery, REQUIRED)                                                                \
    X(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2, OPTIONAL)                                              \
    X(cuMemHostRegister_v2, cuMemHostRegister_v2, OPTIONAL)                                                  \
    X(cuMemHostUnregister, cuMemHostUnregister, OPTIONAL)                                                    \
    X(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer_v2, OPTIONAL)

#define WEIR_CALLED_NVML(X) X(nvmlDeviceGetUUID, nvmlDeviceGetUUID, REQUIRED)

#define WEIR_CUDA_HOOKS(X)                                                                                   \
    WEIR_LOOKUP_HOOKS(X) WEIR_MEMORY_HOOKS(X) WEIR_GRAPH_HOOKS(X) WEIR_LAUNCH_HOOKS(X)                     \
    WEIR_FILL_HOOKS(X) WEIR_QUERY_HOOKS(X) WEIR_UNCOVERED_HOOKS(X)
#define WEIR_ALL_HOOKS(X) WEIR_CUDA_HOOKS(X) WEIR_NVML_HOOKS(X)
#define WEIR_ALL_SYMBOLS(X) WEIR_ALL_HOOKS(X) WEIR_CALLED_CUDA(X) WEIR_CALLED_NVML(X)

/* Every symbol is declared with its own type; hooks are exported by this library, the rest only called. */
#define WEIR_DECLARE_HOOK(symbol, prototype, ...)                                                            \
    extern __typeof__(prototype) symbol __attribute__((visibility("default")));
#define WEIR_DECLARE_CALLED(symbol, prototype, ...) extern __typeof__(prototype) symbol;
WEIR_ALL_HOOKS(WEIR_DECLARE_HOOK)
WEIR_CALLED_CUDA(WEIR_DECLARE_CALLED)
WEIR_CALLED_NVML(WEIR_DECLARE_CALLED)

#define WEIR_NAME_ID(symbol, ...) WEIR_ID_##symbol,
enum weir_symbol_id {
    WEIR_CUDA_HOOKS(WEIR_NAME_ID) WEIR_CALLED_CUDA(WEIR_NAME_ID) WEIR_CUDA_SYMBOLS,
    WEIR_NVML_BASE = WEIR_CUDA_SYMBOLS - 1, /* keeps the enumeration dense */
    WEIR_NVML_HOOKS(WEIR_NAME_ID) WEIR_CALLED_NVML(WEIR_NAME_ID) WEIR_SYMBOLS
};

extern void *_Atomic weir_reals[WEIR_SYMBOLS];

/* Loads the driver's library if it must; gives the real function, or one that answers "not found". Keeps errno. */
void *weir_load_real(enum weir_symbol_id id);
/* Whether the driver that is loaded has this symbol. */
bool weir_has_real(enum weir_symbol_id id);

static inline void *weir_real_pointer(enum weir_symbol_id id)
{
    void *real = atomic_load_explicit(&weir_reals[id], memory_order_acquire);
    return __builtin_expect(real != NULL, 1) ? real : weir_load_real(id);
}

/* The driver's own function, typed. It never leads back into a hook. */
#define WEIR_REAL(symbol) ((__typeof__(&symbol))weir_real_pointer(WEIR_ID_##symbol))

/*
 * A driver may call its own exported functions through the dynamic linker and meet our hooks there. Every hook
 * that keeps accounts calls the driver through WEIR_CALL, and passes straight on while it is inside another: while
 * its own frame lies deeper than that of the hook that went in. A plain flag would stay set for good when a signal
 * handler leaves the driver by siglongjmp, and the thread would be limited no more.
 */
extern __thread const char *weir_entered; /* the frame that went in; NULL: none */

#define weir_inside ((const char *)__builtin_frame_address(0) < weir_entered)

#define WEIR_CALL(symbol, ...)                                                                               \
    __extension__({                                                                                          \
        const char *outer_ = weir_inside ? weir_entered : NULL;                                              \
        weir_entered = __builtin_frame_address(0);                                                           \
        __auto_type result_ = WEIR_REAL(symbol)(__VA_ARGS__);                                                \
        weir_entered = outer_;                                                                               \
        result_;                                                                                             \
    })

/*
 * A call that the program did not make, and that a driver may take for unsafe while a stream captures. In the
 * thread's relaxed mode it neither fails because of a capture under way, of this thread or another, nor ends it. What
 * a driver answers from its own tables needs no such care; a stream that captures is not touched at all (streams.h).
 */
#define WEIR_ASK(symbol, ...)                                                                                \
    __extension__({                                                                                          \
        CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;                                          \
        bool exchanged_ = WEIR_REAL(cuThreadExchangeStreamCaptureMode)(&mode_) == CUDA_SUCCESS;              \
        CUresult asked_ = WEIR_CALL(symbol, __VA_ARGS__);                                                    \
        if (exchanged_)                                                                                      \
            WEIR_REAL(cuThreadExchangeStreamCaptureMode)(&mode_);                                            \
        asked_;                                                                                              \
    })

#endif
