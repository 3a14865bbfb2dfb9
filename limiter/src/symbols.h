/*
 * Symbols as the linker sees them, without asking it: what one loaded object defines, and which of the loaded
 * objects are drivers.
 *
 * weir_symbol_in() calls nobody and may be used before anything in the process works. The others hold the
 * linker's own lock while they look, so an object cannot leave meanwhile; they must not be called under it. All see
 * the namespace (dlmopen) that this copy of the library lives in, and no other.
 */
#ifndef WEIR_SYMBOLS_H
#define WEIR_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Where this library is mapped. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

/* The address of a name that the object defines and exports; NULL: it does not. */
void *weir_symbol_in(ElfW(Addr) base, const ElfW(Dyn) *dynamic, const char *name);

/* The first definition in the objects loaded after the one that holds `caller`, this library left out. */
void *weir_next_definition(const void *caller, const char *name);

/* Whether the object that holds `address` has every one of these names (NULL ends the list). */
bool weir_object_defines(const void *address, const char *const names[]);

/* The path of the first object, other than this library, that has every one of these names; false: none has. */
bool weir_find_object(const char *const names[], char *path, size_t size);

#endif
