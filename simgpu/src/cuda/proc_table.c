/*
 * Fills the table of proc_table.h.
 *
 * cuda.h is left out on purpose: here a symbol is an address and nothing else, and the list is the only
 * place that names it. The library is linked with -Bsymbolic, so these are its own functions even where
 * something that is preloaded has the same names.
 */
#include "proc_table.h"

#define ENTRY(name, symbol, version, per_thread) extern char symbol[];
#include "generated_entry_points.h"
#undef ENTRY

#define ENTRY(name, symbol, version, per_thread) {#name, symbol, version, per_thread},
const struct sim_proc sim_proc_table[] = {
#include "generated_entry_points.h"
};

const size_t sim_proc_count = sizeof sim_proc_table / sizeof *sim_proc_table;
