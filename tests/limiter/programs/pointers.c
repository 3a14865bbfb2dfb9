/*
 * Shows what a program gets when it looks the driver's functions up: the name of the function that each pointer
 * leads to, and whose it is, one a line.
 *
 *   pointers trace FILE    every call of a recorded start of the CUDA runtime, through cuGetProcAddress
 *   pointers deepbind LIB  dlsym from inside a library opened with RTLD_DEEPBIND
 *   pointers names NAME…   dlsym
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef CUresult (*get_proc)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void show(const char *asked, int result, void *pointer)
{
    Dl_info info = {0};
    const char *file = "-";
    if (pointer && dladdr(pointer, &info) && strrchr(info.dli_fname, '/'))
        file = strrchr(info.dli_fname, '/') + 1;
    printf("%s %d %s %s\n", asked, result, pointer && info.dli_sname ? info.dli_sname : "-", file);
}

static int trace(void *cuda, const char *path)
{
    get_proc ask = (get_proc)dlsym(cuda, "cuGetProcAddress_v2");
    FILE *file = fopen(path, "r");
    char line[256], name[128];
    if (!ask || !file)
        return 1;
    while (fgets(line, sizeof line, file)) {
        int version = 0;
        unsigned long long flags = 0;
        void *pointer = NULL;
        if (sscanf(line, "%127s ver=%d flags=%llu", name, &version, &flags) != 3)
            continue; /* the first line asks for an empty name */
        CUresult result = ask(name, &pointer, version, flags, NULL);
        show(name, (int)result, pointer);
        if (strcmp(name, "cuGetProcAddress") == 0 && version >= 12000)
            ask = (get_proc)pointer; /* as the runtime does: go on through the pointer that was given */
    }
    return 0;
}

int main(int argc, char **argv)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!cuda || argc < 3)
        return 1;
    if (strcmp(argv[1], "trace") == 0)
        return trace(cuda, argv[2]);
    if (strcmp(argv[1], "deepbind") == 0) {
        void *library = dlopen(argv[2], RTLD_LAZY | RTLD_DEEPBIND);
        void *(*look)(const char *) = library ? (void *(*)(const char *))dlsym(library, "look_up") : NULL;
        show("cuMemAlloc_v2", 0, look ? look("cuMemAlloc_v2") : NULL);
        return 0;
    }
    for (int i = 2; i < argc; i++)
        show(argv[i], 0, dlsym(cuda, argv[i]));
    return 0;
}
