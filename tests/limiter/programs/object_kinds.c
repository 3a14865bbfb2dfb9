/*
 * Takes and gives device memory of kinds that have no address, at random or as told:
 *
 *   object_kinds do COMMAND…     prints the result of each: KIND:BYTES takes, free:N gives the N-th back, faraway:N
 *                                while a context of the second card is current; context, destroycontext;
 *                                stack|print|heap:BYTES sets a limit; wait (for a byte on stdin)
 *   object_kinds random SEED N   N random steps; after each the slice's own figure must be NVML's for this process
 *   object_kinds crowd SEED N    the same, from a byte on stdin on, without small arrays; nothing is compared
 *
 * Kinds are in object_kinds.h. What it does not do: judge anything else; the test does.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "object_kinds.h"
#include "shown.h"

#define OBJECTS 512

static struct object objects[OBJECTS];
static int made;

#define KINDS (sizeof kinds / sizeof *kinds)

static CUresult take(const struct kind *kind, size_t size)
{
    struct object object = {.kind = kind};
    CUresult result = kind->take(&object, size);
    REQUIRE(made < OBJECTS);
    if (result == CUDA_SUCCESS)
        objects[made++] = object;
    return result;
}

static CUresult give(int number)
{
    CUresult result = objects[number].kind->give(&objects[number]);
    objects[number].kind = NULL;
    return result;
}

static void agree(int step, const char *what)
{
    size_t left, total;
    REQUIRE(GPU(cuMemGetInfo_v2)(&left, &total) == CUDA_SUCCESS);
    if (total - left == shown())
        return;
    fprintf(stderr, "step %d, %s: the slice says %zu, NVML %llu\n", step, what, total - left, shown());
    exit(1);
}

/* Small ones share pages, and which do can be told only while nobody else frees memory. */
static bool packed_unseen(const struct kind *kind)
{
    return kind->give == give_array || kind->give == give_mipmap;
}

static size_t random_size(void)
{
    return 1 + (size_t)rand() % ((size_t)1 << (9 + rand() % 15));
}

static void random_steps(unsigned seed, int steps, bool alone)
{
    int refused = 0;
    srand(seed);
    for (int step = 0; step < steps; step++) {
        const struct kind *kind = &kinds[(size_t)rand() % KINDS];
        int slot = rand() % (OBJECTS / 8);
        if (rand() % 16 == 0) {
            CUresult result = GPU(cuCtxSetLimit)((CUlimit)(1 + rand() % 2), random_size());
            REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        } else if (objects[slot].kind) {
            kind = objects[slot].kind;
            REQUIRE(give(slot) == CUDA_SUCCESS);
        } else {
            made = slot;
            size_t least = alone || !packed_unseen(kind) ? 0 : 1 << 20;
            CUresult result = take(kind, least + random_size());
            REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
            refused += result != CUDA_SUCCESS;
        }
        if (alone)
            agree(step, kind->name);
    }
    for (int i = 0; i < OBJECTS; i++)
        REQUIRE(!objects[i].kind || give(i) == CUDA_SUCCESS);
    if (alone)
        agree(steps, "the end");
    printf("%d\n", refused);
}

static int wait_for_byte(void)
{
    char byte;
    printf("waiting\n");
    fflush(stdout);
    return (int)read(STDIN_FILENO, &byte, 1);
}

static CUresult give_from_the_second_card(int number)
{
    CUcontext other;
    REQUIRE(!GPU(cuDevicePrimaryCtxRetain)(&other, 1) && !GPU(cuCtxPushCurrent_v2)(other));
    CUresult result = give(number);
    REQUIRE(!GPU(cuCtxPopCurrent_v2)(&other));
    return result;
}

static bool is_limit(const char *name, CUlimit *limit)
{
    static const char *const names[] = {"stack", "print", "heap"};
    for (*limit = 0; *limit < 3; ++*limit)
        if (!strcmp(name, names[*limit]))
            return true;
    return false;
}

static int run(const char *command)
{
    static CUcontext context;
    char name[32] = "";
    unsigned long long value = 0;
    CUlimit limit;
    sscanf(command, "%31[^:]:%llu", name, &value);
    if (!strcmp(name, "free"))
        return (int)give((int)value);
    if (!strcmp(name, "faraway"))
        return (int)give_from_the_second_card((int)value);
    if (!strcmp(name, "context"))
        return (int)GPU(cuCtxCreate_v2)(&context, 0, 0);
    if (!strcmp(name, "destroycontext"))
        return (int)GPU(cuCtxDestroy_v2)(context);
    if (is_limit(name, &limit))
        return (int)GPU(cuCtxSetLimit)(limit, value);
    if (!strcmp(name, "wait"))
        return wait_for_byte();
    for (size_t i = 0; i < KINDS; i++)
        if (!strcmp(kinds[i].name, name))
            return (int)take(&kinds[i], value);
    fprintf(stderr, "%s: not a command\n", command);
    exit(2);
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 2 && !nvmlInit_v2());
    gpu_open();
    if (!strcmp(argv[1], "crowd"))
        wait_for_byte();
    if (strcmp(argv[1], "do") && argc == 4)
        random_steps((unsigned)atoi(argv[2]), atoi(argv[3]), !strcmp(argv[1], "random"));
    else
        for (int i = 2; i < argc; i++)
            printf("%s %d\n", argv[i], run(argv[i]));
    return 0;
}
