/*
 * Kernel nodes: their parameters, taken when they are set, and their attributes.
 *
 * The values of the kernel's parameters are copied into the node where their sizes are known (from PTX; of a
 * timed kernel at least its duration), and the node's params then point at the copy, so they can be read back
 * and set again when the program's own are gone. Of a binary's kernel only the program's pointers are kept.
 */
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "launch.h"

static size_t storage_size(const struct sim_parameter *parameters, unsigned count)
{
    size_t size = count * sizeof(void *);
    for (unsigned i = 0; i < count; i++)
        size += (parameters[i].size + 15) / 16 * 16;
    return size + 16;
}

static const void *value_of(const CUDA_KERNEL_NODE_PARAMS *params, unsigned index, size_t offset)
{
    if (params->kernelParams)
        return params->kernelParams[index];
    return (const char *)sim_launch_buffer(params->extra) + offset;
}

/* One block: the array of pointers, then the values they point at. */
static void **copy_parameters(const struct sim_function *function, const CUDA_KERNEL_NODE_PARAMS *params)
{
    static const struct sim_parameter duration = {0, sizeof(uint64_t)};
    bool known = function->parameters_known;
    unsigned count = known ? function->parameter_count : 1;
    const struct sim_parameter *parameters = known ? function->parameters : &duration;
    void **copy = malloc(storage_size(parameters, count));
    if (!copy)
        return NULL;
    char *value = (char *)(copy + (count + 1) / 2 * 2); /* values start at a multiple of 16 */
    for (unsigned i = 0; i < count; i++) {
        memcpy(value, value_of(params, i, parameters[i].offset), parameters[i].size);
        copy[i] = value;
        value += (parameters[i].size + 15) / 16 * 16;
    }
    return copy;
}

CUresult sim_node_set_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_function *function;
    CUresult result = sim_launch_check(params, &function);
    if (result)
        return result;
    void **copy = NULL;
    bool given = params->kernelParams || sim_launch_buffer(params->extra);
    if (given && (function->timed || function->parameters_known)) {
        copy = copy_parameters(function, params);
        if (!copy)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t duration = sim_launch_duration(function, params->kernelParams, params->extra);
    void *before = node->kernel.storage;
    node->kernel.params = *params;
    node->kernel.duration = duration;
    node->kernel.storage = copy;
    if (copy) {
        node->kernel.params.kernelParams = copy;
        node->kernel.params.extra = NULL;
    }
    free(before); /* last: `params` may be what was read from this node */
    return CUDA_SUCCESS;
}

static CUresult kernel_node(const char *function, CUgraphNode handle, const void *params,
                            struct sim_node **node)
{
    CUresult result = sim_enter(function);
    if (!result)
        result = sim_node_resolve(handle, node);
    if (!result && (!params || (*node)->type != CU_GRAPH_NODE_TYPE_KERNEL))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_node *node;
    CUresult result = kernel_node(__func__, handle, params, &node);
    if (!result)
        *params = node->kernel.params;
    return result;
}

CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_node *node;
    CUresult result = kernel_node(__func__, handle, params, &node);
    return result ? result : sim_node_set_kernel(node, params);
}

/* The first version's struct is the head of the second's. */
CUresult CUDAAPI cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    struct sim_node *node;
    CUresult result = kernel_node(__func__, handle, params, &node);
    if (!result)
        memcpy(params, &node->kernel.params, sizeof(*params));
    return result;
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS whole = {0};
    if (params)
        memcpy(&whole, params, sizeof(*params));
    return cuGraphKernelNodeSetParams_v2(handle, params ? &whole : NULL);
}

CUresult CUDAAPI cuGraphAddKernelNode_v2(CUgraphNode *added, CUgraph handle, const CUgraphNode *dependencies,
                                         size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_node like = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .kernel = {.params = *params}};
    return sim_graph_add_call(__func__, added, handle, dependencies, count, &like);
}

CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *added, CUgraph graph, const CUgraphNode *dependencies,
                                      size_t count, const CUDA_KERNEL_NODE_PARAMS_v1 *params)
{
    CUDA_KERNEL_NODE_PARAMS whole = {0};
    if (params)
        memcpy(&whole, params, sizeof(*params));
    return cuGraphAddKernelNode_v2(added, graph, dependencies, count, params ? &whole : NULL);
}

/* ---- attributes: kept by the program, without effect here ---- */

CUresult CUDAAPI cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    struct sim_node *node;
    CUresult result = kernel_node(__func__, to, from, &node);
    return result ? result : kernel_node(__func__, from, to, &node);
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                               CUkernelNodeAttrValue *value)
{
    struct sim_node *node;
    CUresult result = kernel_node(__func__, handle, value, &node);
    if (result || attribute >= CU_LAUNCH_ATTRIBUTE_MAX)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    memset(value, 0, sizeof(*value));
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID attribute,
                                               const CUkernelNodeAttrValue *value)
{
    struct sim_node *node;
    CUresult result = kernel_node(__func__, handle, value, &node);
    return result || attribute < CU_LAUNCH_ATTRIBUTE_MAX ? result : CUDA_ERROR_INVALID_VALUE;
}
