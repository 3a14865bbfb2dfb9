"""The functions of the driver that need no hook, each in a family with the reason why.

A reason holds for every function of its family: no device memory is taken by it that is not charged or
counted elsewhere, no kernel is launched, and nobody gets a way around the hooks. A function that is hooked as
well may stay here: the hook counts. coverage.py holds this table against the headers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """Functions that are harmless for one reason; their names without version and stream variant."""

    title: str
    reason: str
    functions: tuple[str, ...]


def _family(title: str, reason: str, functions: str) -> Family:
    return Family(title, reason, tuple(functions.split()))


FAMILIES = (
    _family(
        "Start, versions, errors",
        "Opens the driver or asks it; a card has nothing of the process before its first context.",
        """cuInit cuDriverGetVersion cuGetErrorName cuGetErrorString
        cuLogsCurrent cuLogsDumpToFile cuLogsDumpToMemory cuLogsRegisterCallback cuLogsUnregisterCallback
        cuProfilerInitialize cuProfilerStart cuProfilerStop""",
    ),
    _family(
        "Questions about cards",
        "Answered from what the driver knows.",
        """cuDeviceCanAccessPeer cuDeviceComputeCapability cuDeviceGet cuDeviceGetAttribute
        cuDeviceGetByPCIBusId cuDeviceGetCount cuDeviceGetDevResource cuDeviceGetExecAffinitySupport
        cuDeviceGetGraphMemAttribute cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid cuDeviceGetName
        cuDeviceGetNvSciSyncAttributes cuDeviceGetP2PAtomicCapabilities cuDeviceGetP2PAttribute
        cuDeviceGetPCIBusId cuDeviceGetProperties cuDeviceGetTexture1DLinearMaxWidth cuDeviceGetUuid
        cuDevicePrimaryCtxGetState cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification
        cuDeviceSetGraphMemAttribute""",
    ),
    _family(
        "Contexts that exist",
        "Chooses, asks or sets up a context whose making was charged. Peer access maps memory that exists.",
        """cuCtxDisablePeerAccess cuCtxEnablePeerAccess cuCtxGetApiVersion cuCtxGetCacheConfig
        cuCtxGetCurrent cuCtxGetDevResource cuCtxGetDevice cuCtxGetExecAffinity cuCtxGetFlags cuCtxGetId
        cuCtxGetLimit cuCtxGetSharedMemConfig cuCtxGetStreamPriorityRange cuCtxPopCurrent cuCtxPushCurrent
        cuCtxResetPersistingL2Cache cuCtxSetCacheConfig cuCtxSetCurrent cuCtxSetFlags
        cuCtxSetSharedMemConfig cuDevicePrimaryCtxSetFlags cuFlushGPUDirectRDMAWrites""",
    ),
    _family(
        "Parts of a card",
        "Splits and describes multiprocessors on paper; the green context made of them is what takes memory, "
        "and its launches are hooked like any.",
        """cuCtxFromGreenCtx cuDevResourceGenerateDesc cuDevSmResourceSplitByCount cuGreenCtxDestroy
        cuGreenCtxGetDevResource cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxStreamCreate
        cuGreenCtxWaitEvent cuStreamGetGreenCtx""",
    ),
    _family(
        "Streams, events, capture",
        "Queues and marks of a context: they order work and launch none. What very many of them take beyond "
        "the context's own memory shows in NVML. What a capture records counts when the graph is launched.",
        """cuCtxRecordEvent cuCtxWaitEvent cuEventCreate cuEventDestroy cuEventElapsedTime cuEventQuery
        cuEventRecord cuEventRecordWithFlags cuStreamBeginCapture cuStreamBeginCaptureToGraph
        cuStreamCopyAttributes cuStreamCreate cuStreamCreateWithPriority cuStreamEndCapture
        cuStreamGetAttribute cuStreamGetCaptureInfo cuStreamGetCtx cuStreamGetDevice cuStreamGetFlags
        cuStreamGetId cuStreamGetPriority cuStreamIsCapturing cuStreamQuery cuStreamSetAttribute
        cuStreamUpdateCaptureDependencies cuStreamWaitEvent cuThreadExchangeStreamCaptureMode""",
    ),
    _family(
        "Words in a stream",
        "Writes or awaits single words by the queue's own front end: no kernel is on the card meanwhile.",
        """cuStreamBatchMemOp cuStreamWaitValue32 cuStreamWaitValue64 cuStreamWriteValue32
        cuStreamWriteValue64 cuSignalExternalSemaphoresAsync cuWaitExternalSemaphoresAsync
        cuImportExternalSemaphore cuDestroyExternalSemaphore""",
    ),
    _family(
        "Host functions in a stream", "Run on a thread of the host.", "cuLaunchHostFunc cuStreamAddCallback"
    ),
    _family(
        "Copies",
        "Copies memory that exists, by engines that run beside kernels. A share is the time in which a "
        "kernel is on the card: copies are no part of it, and the bandwidth that they take is not held.",
        """cuMemcpy cuMemcpy2D cuMemcpy2DAsync cuMemcpy2DUnaligned cuMemcpy3D cuMemcpy3DAsync
        cuMemcpy3DBatchAsync cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpyAsync cuMemcpyAtoA cuMemcpyAtoD
        cuMemcpyAtoH cuMemcpyAtoHAsync cuMemcpyBatchAsync cuMemcpyDtoA cuMemcpyDtoD cuMemcpyDtoDAsync
        cuMemcpyDtoH cuMemcpyDtoHAsync cuMemcpyHtoA cuMemcpyHtoAAsync cuMemcpyHtoD cuMemcpyHtoDAsync
        cuMemcpyPeer cuMemcpyPeerAsync""",
    ),
    _family(
        "Decompression",
        "Unpacks into memory that exists, by an engine of its own where the card has one; refused elsewhere.",
        "cuMemBatchDecompressAsync",
    ),
    _family(
        "Host memory",
        "Pages of the host, seen from the card; a limit is on the card's own memory.",
        """cuMemAllocHost cuMemFreeHost cuMemHostAlloc cuMemHostGetDevicePointer cuMemHostGetFlags
        cuMemHostRegister cuMemHostUnregister""",
    ),
    _family(
        "Questions about memory",
        "Answered from what the driver knows.",
        """cuArray3DGetDescriptor cuArrayGetDescriptor cuArrayGetMemoryRequirements cuArrayGetPlane
        cuArrayGetSparseProperties cuMemGetAccess cuMemGetAddressRange cuMemGetAllocationGranularity
        cuMemGetAllocationPropertiesFromHandle cuMemPoolGetAccess cuMemPoolGetAttribute
        cuMemRangeGetAttribute cuMemRangeGetAttributes cuMipmappedArrayGetLevel
        cuMipmappedArrayGetMemoryRequirements cuMipmappedArrayGetSparseProperties cuMulticastGetGranularity
        cuPointerGetAttribute cuPointerGetAttributes cuPointerSetAttribute""",
    ),
    _family(
        "Addresses and access",
        "Reserves addresses, or lets a card reach memory that exists: page tables, no memory behind them.",
        """cuMemAddressFree cuMemAddressReserve cuMemPoolSetAccess cuMemSetAccess""",
    ),
    _family(
        "Which pool is used",
        "Every pool is charged by what it has reserved, whichever one allocations are sent to.",
        "cuDeviceSetMemPool cuMemSetMemPool",
    ),
    _family(
        "Where managed memory lies",
        "Managed memory is charged in full when it is allocated, wherever its pages are.",
        """cuMemAdvise cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync cuMemPrefetchAsync
        cuMemPrefetchBatchAsync cuStreamAttachMemAsync""",
    ),
    _family(
        "Handles for others",
        "Memory that is given away stays charged to its maker. A pool that is opened gives nothing by "
        "itself; its pointers are charged.",
        """cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle cuMemExportToShareableHandle
        cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle""",
    ),
    _family(
        "Parts of what is counted",
        "Maps or binds memory whose creation or import is charged or counted.",
        """cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray cuMulticastAddDevice
        cuMulticastBindAddr cuMulticastBindMem cuMulticastUnbind""",
    ),
    _family(
        "Gives back",
        "Gives memory back that was charged or counted when it was taken.",
        """cuArrayDestroy cuDestroyExternalMemory cuDeviceGraphMemTrim cuGraphDestroy cuGraphExecDestroy
        cuIpcCloseMemHandle cuLibraryUnload cuMemFree cuMipmappedArrayDestroy cuModuleUnload""",
    ),
    _family(
        "Building graphs",
        "Describes work, or asks about it: nothing runs and nothing is taken before the graph is made ready "
        "and launched. Nodes that allocate are hooked.",
        """cuGraphAddBatchMemOpNode cuGraphAddChildGraphNode cuGraphAddDependencies cuGraphAddEmptyNode
        cuGraphAddEventRecordNode cuGraphAddEventWaitNode cuGraphAddExternalSemaphoresSignalNode
        cuGraphAddExternalSemaphoresWaitNode cuGraphAddHostNode cuGraphAddKernelNode cuGraphAddMemFreeNode
        cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphBatchMemOpNodeGetParams
        cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph cuGraphClone
        cuGraphConditionalHandleCreate cuGraphCreate cuGraphDebugDotPrint cuGraphDestroyNode
        cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent
        cuGraphEventWaitNodeSetEvent cuGraphExternalSemaphoresSignalNodeGetParams
        cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
        cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges cuGraphGetNodes cuGraphGetRootNodes
        cuGraphHostNodeGetParams cuGraphHostNodeSetParams cuGraphKernelNodeCopyAttributes
        cuGraphKernelNodeGetAttribute cuGraphKernelNodeGetParams cuGraphKernelNodeSetAttribute
        cuGraphKernelNodeSetParams cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams
        cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams
        cuGraphMemsetNodeSetParams cuGraphNodeFindInClone cuGraphNodeGetDependencies
        cuGraphNodeGetDependentNodes cuGraphNodeGetEnabled cuGraphNodeGetType cuGraphNodeSetEnabled
        cuGraphNodeSetParams cuGraphReleaseUserObject cuGraphRemoveDependencies cuGraphRetainUserObject
        cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain""",
    ),
    _family(
        "Changing graphs that are ready",
        "Changes what the next launch does; the launch is hooked.",
        """cuGraphExecBatchMemOpNodeSetParams cuGraphExecChildGraphNodeSetParams
        cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent
        cuGraphExecExternalSemaphoresSignalNodeSetParams cuGraphExecExternalSemaphoresWaitNodeSetParams
        cuGraphExecGetFlags cuGraphExecHostNodeSetParams cuGraphExecKernelNodeSetParams
        cuGraphExecMemcpyNodeSetParams cuGraphExecMemsetNodeSetParams cuGraphExecNodeSetParams
        cuGraphExecUpdate""",
    ),
    _family(
        "Functions, kernels, libraries",
        "Asks about code, or sets it up for a launch. Where the driver loads it only now, it is code that "
        "was counted with its library.",
        """cuFuncGetAttribute cuFuncGetModule cuFuncGetName cuFuncGetParamInfo cuFuncIsLoaded
        cuFuncSetAttribute cuFuncSetBlockShape cuFuncSetCacheConfig cuFuncSetSharedMemConfig
        cuFuncSetSharedSize cuKernelGetAttribute cuKernelGetLibrary cuKernelGetName cuKernelGetParamInfo
        cuKernelSetAttribute cuKernelSetCacheConfig cuLibraryEnumerateKernels cuLibraryGetKernel
        cuLibraryGetKernelCount cuModuleEnumerateFunctions cuModuleGetFunctionCount cuModuleGetLoadingMode
        cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv""",
    ),
    _family(
        "Linking",
        "Makes code in the host's memory.",
        "cuLinkAddData cuLinkAddFile cuLinkComplete cuLinkCreate cuLinkDestroy",
    ),
    _family(
        "Occupancy",
        "Arithmetic.",
        """cuOccupancyAvailableDynamicSMemPerBlock cuOccupancyMaxActiveBlocksPerMultiprocessor
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cuOccupancyMaxActiveClusters
        cuOccupancyMaxPotentialBlockSize cuOccupancyMaxPotentialBlockSizeWithFlags
        cuOccupancyMaxPotentialClusterSize""",
    ),
    _family(
        "Textures, surfaces, tensor maps",
        "Describes memory that exists, in tables of the context or in the host's memory.",
        """cuModuleGetSurfRef cuModuleGetTexRef cuSurfObjectCreate cuSurfObjectDestroy
        cuSurfObjectGetResourceDesc cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col
        cuTensorMapEncodeIm2colWide cuTensorMapEncodeTiled cuTensorMapReplaceAddress cuTexObjectCreate
        cuTexObjectDestroy cuTexObjectGetResourceDesc cuTexObjectGetResourceViewDesc
        cuTexObjectGetTextureDesc cuTexRefCreate cuTexRefDestroy cuTexRefGetAddress cuTexRefGetAddressMode
        cuTexRefGetArray cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat
        cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias
        cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray cuTexRefSetAddress cuTexRefSetAddress2D
        cuTexRefSetAddressMode cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode
        cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode
        cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray""",
    ),
    _family(
        "OpenGL, EGL, VDPAU",
        "Shares what the graphics driver has taken. That never passes through CUDA: NVML's figure of the "
        "card has it, and no slice is promised what it holds.",
        """cuEGLStreamConsumerAcquireFrame cuEGLStreamConsumerConnect cuEGLStreamConsumerConnectWithFlags
        cuEGLStreamConsumerDisconnect cuEGLStreamConsumerReleaseFrame cuEGLStreamProducerConnect
        cuEGLStreamProducerDisconnect cuEGLStreamProducerPresentFrame cuEGLStreamProducerReturnFrame
        cuEventCreateFromEGLSync cuGLGetDevices cuGLInit cuGLMapBufferObject cuGLMapBufferObjectAsync
        cuGLRegisterBufferObject cuGLSetBufferObjectMapFlags cuGLUnmapBufferObject
        cuGLUnmapBufferObjectAsync cuGLUnregisterBufferObject cuGraphicsEGLRegisterImage
        cuGraphicsGLRegisterBuffer cuGraphicsGLRegisterImage cuGraphicsMapResources
        cuGraphicsResourceGetMappedEglFrame cuGraphicsResourceGetMappedMipmappedArray
        cuGraphicsResourceGetMappedPointer cuGraphicsResourceSetMapFlags cuGraphicsSubResourceGetMappedArray
        cuGraphicsUnmapResources cuGraphicsUnregisterResource cuGraphicsVDPAURegisterOutputSurface
        cuGraphicsVDPAURegisterVideoSurface cuVDPAUGetDevice""",
    ),
    _family(
        "Checkpoints",
        "Stops a process and moves its memory to the host. It stays charged meanwhile, so that what comes "
        "back has its place; coming back on another card is hooked.",
        """cuCheckpointProcessCheckpoint cuCheckpointProcessGetRestoreThreadId cuCheckpointProcessGetState
        cuCheckpointProcessLock cuCheckpointProcessUnlock""",
    ),
    _family(
        "Core dumps",
        "Says what is written to a file of the host when a kernel fails.",
        """cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal cuCoredumpSetAttribute
        cuCoredumpSetAttributeGlobal""",
    ),
)
