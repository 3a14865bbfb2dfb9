/*
 * Card memory that several processes hold in common: charged once, to one of them.
 *
 * The charge is in the sums of the process that pays. When that one lets go or dies, another holder pays;
 * with the last holder the memory goes back to the card. What it does not do: know which bytes they are.
 */
#include "engine.h"

static bool holds(const struct sim_share *share, uint32_t process)
{
    return share->holders[process / 64] >> process % 64 & 1;
}

static uint32_t any_holder(const struct sim_share *share)
{
    for (uint32_t word = 0; word < SIM_PROCESSES / 64; word++)
        if (share->holders[word])
            return word * 64 + (uint32_t)__builtin_ctzll(share->holders[word]);
    return SIM_NONE;
}

static uint64_t *charge_of(struct sim_state *machine, const struct sim_share *share, uint32_t process)
{
    return &machine->processes[process].device[share->device].memory[SIM_MEMORY_BUFFER];
}

static void let_go(struct sim_state *machine, struct sim_share *share, uint32_t process)
{
    share->holders[process / 64] &= ~(UINT64_C(1) << process % 64);
    if (share->payer != process)
        return;
    uint32_t heir = any_holder(share);
    *charge_of(machine, share, process) -= share->bytes;
    if (heir != SIM_NONE) {
        *charge_of(machine, share, heir) += share->bytes;
        share->payer = heir;
    } else {
        machine->devices[share->device].used -= share->bytes;
        share->in_use = 0;
    }
}

static struct sim_share *find(struct sim_share_ref ref)
{
    if (ref.share >= SIM_SHARES)
        return NULL;
    struct sim_share *share = &sim_machine->shares[ref.share];
    return share->in_use && share->generation == ref.generation ? share : NULL;
}

struct sim_share_ref sim_share_begin(uint32_t device, uint64_t bytes)
{
    struct sim_share_ref ref = {SIM_NONE, 0};
    uint32_t self = sim_self_index(), i = 0;
    sim_lock();
    while (i < SIM_SHARES && sim_machine->shares[i].in_use)
        i++;
    if (i < SIM_SHARES) {
        struct sim_share *share = &sim_machine->shares[i];
        ref = (struct sim_share_ref){i, share->generation + 1};
        *share = (struct sim_share){
            .in_use = 1, .generation = ref.generation, .device = device, .payer = self, .bytes = bytes};
        share->holders[self / 64] = UINT64_C(1) << self % 64;
        if (sim_machine->share_limit <= i)
            sim_machine->share_limit = i + 1;
    }
    sim_unlock();
    return ref;
}

bool sim_share_join(struct sim_share_ref ref)
{
    uint32_t self = sim_self_index();
    sim_lock();
    struct sim_share *share = find(ref);
    if (share)
        share->holders[self / 64] |= UINT64_C(1) << self % 64;
    sim_unlock();
    return share != NULL;
}

void sim_share_leave(struct sim_share_ref ref)
{
    sim_lock();
    struct sim_share *share = find(ref);
    if (share && holds(share, sim_self_index()))
        let_go(sim_machine, share, sim_self_index());
    sim_unlock();
}

void sim_share_forget(struct sim_state *machine, uint32_t process)
{
    for (uint32_t i = 0; i < machine->share_limit; i++)
        if (machine->shares[i].in_use && holds(&machine->shares[i], process))
            let_go(machine, &machine->shares[i], process);
}
