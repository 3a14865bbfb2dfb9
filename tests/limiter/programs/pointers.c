/*
 * Shows what a program gets when it looks the driver's functions up: the name of the function that each pointer
 * leads to, and whose it is, one a line.
 *
 *   pointers trace FILE    every call of a recorded start of the CUDA runtime, through cuGetProcAddress
 *   pointers deepbind LIB NAME…  dlsym from inside a library opened with RTLD_DEEPBIND
 *   pointers space LIB NAME…     … from inside a library in a namespace of its own
 *   pointers spacedriver - NAME…  dlsym of a driver in a namespace of its own
 *   pointers next LIB NAME…      … with RTLD_NEXT, from a library opened after the driver
 *   pointers copy LIB NAME…      dlsym of another library
 *   pointers versions VERSION NAME…dlvsym of the driver
 *   pointers program - NAME…     dlsym of the handle that stands for the program
 *   pointers names - NAME…       dlsym of the driver
 *   pointers only LIB NAME…      as copy, and the driver by its own name is not opened first
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

typedef void *(*looker)(const char *);

/* The function of a plugin that looks a name up in its own way. */
static looker plugin(void *library, const char *function)
{
    looker look = library ? (looker)dlsym(library, function) : NULL;
    if (!look) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return look;
}

static void *find(void *cuda, const char *way, const char *library, const char *name)
{
    if (strcmp(way, "deepbind") == 0)
        return plugin(dlopen(library, RTLD_LAZY | RTLD_DEEPBIND), "look_up")(name);
    if (strcmp(way, "space") == 0)
        return plugin(dlmopen(LM_ID_NEWLM, library, RTLD_NOW), "look_up")(name);
    if (strcmp(way, "spacedriver") == 0)
        return dlsym(dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW), name);
    if (strcmp(way, "next") == 0)
        return plugin(dlopen(library, RTLD_LAZY), "look_up_next")(name);
    if (strcmp(way, "copy") == 0 || strcmp(way, "only") == 0)
        return dlsym(dlopen(library, RTLD_LAZY), name);
    if (strcmp(way, "versions") == 0)
        return dlvsym(cuda, name, library);
    return dlsym(strcmp(way, "program") == 0 ? dlopen(NULL, RTLD_LAZY) : cuda, name);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 1;
    void *cuda = strcmp(argv[1], "only") == 0 ? NULL : dlopen("libcuda.so.1", RTLD_LAZY);
    if (strcmp(argv[1], "trace") == 0)
        return trace(cuda, argv[2]);
    for (int i = 3; i < argc; i++)
        show(argv[i], 0, find(cuda, argv[1], argv[2], argv[i]));
    return 0;
}
