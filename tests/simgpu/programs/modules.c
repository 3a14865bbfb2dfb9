/*
 * What is found in modules and libraries: kernels and their parameters, variables and their memory.
 *
 * What it does not do: ask what large variables take from the card (memory_kinds.c), or launch (execution.c).
 */
#include "client.h"

static void kernels_are_found_by_name(void)
{
    CUfunction function;
    CUlibrary library;
    CUkernel kernel;
    const char *name;
    size_t offset, size;
    unsigned count;
    start();
    EQUAL(cuModuleGetFunction(&function, module, "in_a_comment"), CUDA_ERROR_NOT_FOUND);
    EQUAL(cuModuleGetFunction(&function, module, "weir_spi"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunctionCount(&count, module));
    EQUAL(count, 3);
    OK(cuModuleGetFunction(&function, module, "with_parameters"));
    OK(cuFuncGetParamInfo(function, 1, &offset, &size));
    EQUAL(offset, 8);
    EQUAL(size, 8);
    OK(cuFuncGetParamInfo(function, 2, &offset, &size));
    EQUAL(offset, 16);
    EQUAL(size, 48);
    OK(cuFuncGetParamInfo(function, 3, &offset, &size));
    EQUAL(offset, 64);
    EQUAL(cuFuncGetParamInfo(function, 4, &offset, &size), CUDA_ERROR_INVALID_VALUE);
    OK(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kernel, library, "plain"));
    OK(cuKernelGetName(&name, kernel));
    REQUIRE(strcmp(name, "plain") == 0);
    EQUAL(cuLibraryGetKernel(&kernel, library, "absent"), CUDA_ERROR_NOT_FOUND);
    OK(cuLibraryGetKernel(&kernel, library, "plain"));
    OK(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL));
    EQUAL(cuModuleLoadData(&module, "int main;"), CUDA_ERROR_INVALID_IMAGE);
    EQUAL(cuModuleLoad(&module, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
}

static void a_variable_of_a_module_has_memory(void)
{
    CUdeviceptr address;
    size_t size;
    char written[96], read[96];
    start();
    OK(cuModuleGetGlobal(&address, &size, module, "table"));
    EQUAL(size, 96);
    memset(written, 42, sizeof(written));
    OK(cuMemcpyHtoD(address, written, size));
    OK(cuMemcpyDtoH(read, address, size));
    REQUIRE(memcmp(written, read, size) == 0);
    EQUAL(cuModuleGetGlobal(&address, &size, module, "weir_spin"), CUDA_ERROR_NOT_FOUND);
    EQUAL(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
}

static void variables_are_zeros_apart_and_aligned_and_cost_the_card_nothing_where_they_are_few(void)
{
    static const char source[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                                 ".global .u8 first;\n"
                                 ".global .align 64 .b8 second[64];\n"
                                 ".const .align 8 .u64 third;\n";
    CUmodule loaded;
    CUdeviceptr first, second, third;
    size_t before, after, total, size;
    uint64_t value = 1;
    start();
    OK(cuMemGetInfo(&before, &total));
    OK(cuModuleLoadData(&loaded, source));
    OK(cuModuleGetGlobal(&first, &size, loaded, "first"));
    EQUAL(size, 1);
    OK(cuModuleGetGlobal(&second, &size, loaded, "second"));
    EQUAL(second % 64, 0);
    OK(cuModuleGetGlobal(&third, &size, loaded, "third"));
    EQUAL(size, 8);
    OK(cuMemsetD8(first, 1, 1));
    OK(cuMemsetD8(second, 2, 64));
    OK(cuMemcpyDtoH(&value, third, sizeof(value)));
    EQUAL(value, 0);
    OK(cuMemcpyDtoH(&value, first, 1));
    EQUAL(value, 1);
    OK(cuMemGetInfo(&after, &total));
    EQUAL(before, after);
    OK(cuModuleUnload(loaded));
    EQUAL(cuMemcpyDtoH(&value, third, sizeof(value)), CUDA_ERROR_INVALID_VALUE);
}

CASES(CASE(kernels_are_found_by_name) CASE(a_variable_of_a_module_has_memory)
      CASE(variables_are_zeros_apart_and_aligned_and_cost_the_card_nothing_where_they_are_few))
