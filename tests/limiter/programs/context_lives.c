/*
 * A context is destroyed while another one with the same handle is made and used by somebody else: what the first held
 * is set apart before, so that the second keeps its own. Prints, for each step, what was taken out or found.
 */
#include <stdio.h>

#include "objects.h"

static void *const context = (void *)0x7000;

static void put(uint64_t pointer, uint64_t bytes)
{
    struct weir_object object = {.size = bytes, .charged = bytes, .context = context};
    if (!weir_object_put(WEIR_TAG_POINTER, pointer, &object))
        printf("no room\n");
}

static void gone(enum weir_tag tag, uint64_t name, const struct weir_object *object)
{
    printf("gone %d %#llx %llu\n", (int)tag, (unsigned long long)name, (unsigned long long)object->charged);
}

static void show(uint64_t pointer)
{
    const struct weir_object *found = weir_object_find(WEIR_TAG_POINTER, pointer);
    printf("at %#llx %llu\n", (unsigned long long)pointer, found ? (unsigned long long)found->charged : 0);
}

int main(void)
{
    put(0x1000, 1);
    put(0x2000, 2);
    weir_objects_condemn(context);
    show(0x1000);
    weir_objects_spare(context); /* the driver refused */
    show(0x1000);
    weir_objects_condemn(context);
    put(0x1000, 3); /* the driver has reused handle and address */
    weir_objects_of_context(context, gone);
    show(0x1000);
    show(0x2000);
    return 0;
}
