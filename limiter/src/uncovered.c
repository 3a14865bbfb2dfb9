/*
 * The hooks of every call that takes device memory unaccounted: counted, so that the gap shows as a number, or
 * refused where the control page asks for that (with one line on stderr for each function). Nearly all are made
 * from the lists in uncovered.h. A call on a card outside the slice is refused in any case, unless it only loads
 * code.
 */
#include "account.h"
#include "unaccounted.h"

static bool refusable(enum weir_api api)
{
    return api != WEIR_API_CODE && api != WEIR_API_TABLE;
}

bool weir_unaccounted_call(enum weir_api api, const char *symbol, atomic_flag *said)
{
    const struct weir_slice *slice = weir_slice();
    if (weir_inside || !slice)
        return !(refusable(api) && weir_refusing());
    int device = weir_current_device();
    struct weir_stats_device *stats = weir_stats_device(slice, device >= 0 ? (uint32_t)device : 0);
    bool unknown = weir_refuse_unknown(slice);
    if (refusable(api) && (unknown || device == WEIR_OTHER_DEVICE)) {
        atomic_fetch_add(&stats->denied_policy, 1);
        if (unknown)
            weir_complain(said, "weir: %s: refused: the memory it takes cannot be accounted for", symbol);
        return false;
    }
    atomic_fetch_add(&stats->uncovered, 1);
    atomic_fetch_add(&slice->stats->uncovered_calls[api], 1);
    return true;
}

#define DEFINE(symbol, api, refusal, params, args)                                                           \
    CUresult symbol params                                                                                   \
    {                                                                                                        \
        return WEIR_UNACCOUNTED(api, #symbol) ? WEIR_CALL(symbol, WEIR_SPREAD args) : refusal;               \
    }
#define WEIR_SPREAD(...) __VA_ARGS__
#define SHARED(symbol, prototype, need, params, args)                                                        \
    DEFINE(symbol, WEIR_API_SHARED, CUDA_ERROR_NOT_SUPPORTED, params, args)
#define CODE(symbol, prototype, need, params, args)                                                          \
    DEFINE(symbol, WEIR_API_CODE, CUDA_ERROR_UNKNOWN, params, args)
#define TABLE(symbol, prototype, need, params, args)                                                         \
    DEFINE(symbol, WEIR_API_TABLE, CUDA_ERROR_UNKNOWN, params, args)

WEIR_UNCOVERED_SHARED(SHARED)
WEIR_UNCOVERED_CODE(CODE)
WEIR_UNCOVERED_TABLES(TABLE)

CUresult cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
    bool moves = args && args->gpuPairsCount;
    if (moves && !WEIR_UNACCOUNTED(WEIR_API_SHARED, "cuCheckpointProcessRestore"))
        return CUDA_ERROR_NOT_SUPPORTED;
    return WEIR_CALL(cuCheckpointProcessRestore, pid, args);
}
