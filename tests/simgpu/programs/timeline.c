/*
 * The timeline in virtual time: what runs when, to the nanosecond, on a machine that exists in this process only.
 *
 * It is compiled together with the engine's own sources. Each case builds channels, pushes operations at chosen
 * moments and asks when they were done. No clock is read.
 */
#include "check.h"
#include "timeline.h"
#include "state.h"

#include <sys/mman.h>

#define MS UINT64_C(1000000)
#define START UINT64_C(1000000000)

static void machine_with(uint32_t cards)
{
    uint32_t unused;
    sim_hardware = sim_model_find("h200", &unused);
    sim_machine = mmap(NULL, sizeof(*sim_machine), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(sim_machine != MAP_FAILED);
    sim_state_initialise(sim_machine, cards, START);
    sim_machine->process_limit = 8;
    for (uint32_t p = 0; p < 8; p++)
        sim_machine->processes[p].in_use = 1;
}

static void advance(uint64_t to)
{
    sim_advance(sim_machine, sim_hardware, START + to);
}

static uint32_t channel(uint32_t process)
{
    return sim_channel_create(process, 0, 0, 1);
}

static struct sim_ticket push(uint32_t where, enum sim_op_type type, uint64_t duration, uint64_t at)
{
    struct sim_op op = {.type = type, .duration = duration};
    advance(at);
    return sim_channel_push(where, &op, START + at);
}

/* Records an event behind what is queued; `when` tells when it was reached. */
static uint32_t record(uint32_t where, uint64_t at)
{
    uint32_t event = sim_event_create(0);
    advance(at);
    sim_event_record(event, where, START + at);
    return event;
}

static uint64_t when(uint32_t event)
{
    REQUIRE(sim_event_done(event));
    return sim_machine->events[event].time - START;
}

static uint64_t work_of(uint32_t process)
{
    return sim_machine->processes[process].device[0].history.total;
}

/* A kernel ends at a whole nanosecond, so a turn at nine tenths of the speed loses up to one for each. */
static void about(uint64_t have, uint64_t want)
{
    REQUIRE(have <= want && have + 1000 > want);
}

/* ---- one process ---- */

static void alone_gets_all_of_the_card(void)
{
    machine_with(1);
    uint32_t a = channel(0);
    for (int i = 0; i < 200; i++)
        push(a, SIM_OP_KERNEL, MS, 0);
    advance(100 * MS);
    EQUAL(work_of(0), 100 * MS);
    EQUAL(sim_machine->channels[a].completed, 100);
}

static void events_are_exact(void)
{
    machine_with(1);
    uint32_t a = channel(0);
    uint32_t before = record(a, 10);
    push(a, SIM_OP_KERNEL, 12345, 10);
    uint32_t after = record(a, 10);
    advance(12354);
    REQUIRE(!sim_event_done(after));
    advance(MS);
    EQUAL(when(before), 10);
    EQUAL(when(after), 12355);
}

static void kernels_of_one_process_take_turns_in_order_of_arrival(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(0);
    push(a, SIM_OP_KERNEL, 3 * MS, 0);
    uint32_t first = record(a, 0);
    push(b, SIM_OP_KERNEL, 2 * MS, 1);
    uint32_t second = record(b, 1);
    advance(10 * MS);
    EQUAL(when(first), 3 * MS);
    EQUAL(when(second), 5 * MS);
}

static void the_urgent_stream_goes_first(void)
{
    machine_with(1);
    uint32_t running = channel(0), patient = channel(0), urgent = sim_channel_create(0, 0, -5, 1);
    push(running, SIM_OP_KERNEL, MS, 0);
    push(patient, SIM_OP_KERNEL, MS, 0);
    uint32_t last = record(patient, 0);
    push(urgent, SIM_OP_KERNEL, MS, 0);
    uint32_t next = record(urgent, 0);
    advance(10 * MS);
    EQUAL(when(next), 2 * MS);
    EQUAL(when(last), 3 * MS);
}

static void copies_run_beside_kernels(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(0);
    push(a, SIM_OP_KERNEL, 5 * MS, 0);
    push(b, SIM_OP_COPY, 4 * MS, 0);
    uint32_t copied = record(b, 0);
    advance(10 * MS);
    EQUAL(when(copied), 4 * MS);
    EQUAL(work_of(0), 5 * MS);
}

/* ---- several processes ---- */

static void two_greedy_processes_get_45_percent_each(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(1);
    for (int i = 0; i < 1000; i++) {
        push(a, SIM_OP_KERNEL, MS, 0);
        push(b, SIM_OP_KERNEL, 44000, 0);
    }
    advance(40 * MS); /* ten turns each, of which a tenth is lost */
    about(work_of(0), 18 * MS);
    about(work_of(1), 18 * MS);
}

static void three_greedy_processes_get_30_percent_each(void)
{
    machine_with(1);
    for (uint32_t p = 0; p < 3; p++)
        for (uint32_t a = channel(p), i = 0; i < 100; i++)
            push(a, SIM_OP_KERNEL, MS, 0);
    advance(60 * MS);
    for (uint32_t p = 0; p < 3; p++)
        about(work_of(p), 18 * MS);
}

static void a_turn_ends_inside_a_long_kernel(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(1);
    push(a, SIM_OP_KERNEL, 20 * MS, 0);
    uint32_t long_end = record(a, 0);
    push(b, SIM_OP_KERNEL, 900000, 0);
    uint32_t short_end = record(b, 0);
    advance(30 * MS);
    EQUAL(when(short_end), 3 * MS); /* from 2 ms on, at nine tenths of the speed */
    EQUAL(when(long_end), 3 * MS + 20 * MS - 1800000);
}

static void a_newcomer_does_not_wait_for_a_turn_that_is_long_over(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(1);
    push(a, SIM_OP_KERNEL, 100 * MS, 0);
    push(b, SIM_OP_KERNEL, 900000, 50 * MS);
    uint32_t end = record(b, 50 * MS);
    advance(200 * MS);
    EQUAL(when(end), 51 * MS);
}

static void one_card_does_not_slow_another(void)
{
    machine_with(2);
    uint32_t a = sim_channel_create(0, 0, 0, 1), b = sim_channel_create(1, 1, 0, 1);
    push(a, SIM_OP_KERNEL, 10 * MS, 0);
    push(b, SIM_OP_KERNEL, 10 * MS, 0);
    uint32_t first = record(a, 0), second = record(b, 0);
    advance(20 * MS);
    EQUAL(when(first), 10 * MS);
    EQUAL(when(second), 10 * MS);
}

static void what_a_dead_process_queued_is_dropped(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(1);
    push(a, SIM_OP_KERNEL, 50 * MS, 0);
    push(b, SIM_OP_KERNEL, 10 * MS, 0);
    uint32_t end = record(b, 0);
    sim_machine->processes[0].device[0].memory[SIM_MEMORY_BUFFER] = 7;
    sim_machine->devices[0].used = 7;
    advance(4 * MS); /* a turn each */
    sim_process_forget(sim_machine, sim_hardware, 0, START + 4 * MS);
    advance(100 * MS);
    EQUAL(when(end), 4 * MS + 10 * MS - 1800000);
    EQUAL(sim_machine->devices[0].used, 0);
}

/* ---- waiting ---- */

static void a_stream_waits_for_an_event_of_another(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(0);
    push(a, SIM_OP_COPY, 5 * MS, 0);
    uint32_t event = record(a, 0);
    sim_event_wait(event, b, START);
    push(b, SIM_OP_KERNEL, MS, 0);
    uint32_t end = record(b, 0);
    advance(4 * MS);
    EQUAL(sim_machine->channels[b].completed, 0);
    advance(10 * MS);
    EQUAL(when(end), 6 * MS);
}

static void a_card_waits_for_an_event_of_another(void)
{
    machine_with(2);
    uint32_t a = sim_channel_create(0, 0, 0, 1), b = sim_channel_create(0, 1, 0, 1);
    push(a, SIM_OP_KERNEL, 5 * MS, 0);
    uint32_t event = record(a, 0);
    sim_event_wait(event, b, START);
    push(b, SIM_OP_KERNEL, MS, 0);
    uint32_t end = record(b, 0);
    advance(10 * MS);
    EQUAL(when(end), 6 * MS);
}

static void a_wait_is_for_the_record_before_it(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(0);
    push(a, SIM_OP_COPY, MS, 0);
    uint32_t event = record(a, 0);
    sim_event_wait(event, b, START);
    uint32_t passed = record(b, 0);
    push(a, SIM_OP_COPY, 50 * MS, 0);
    sim_event_record(event, a, START); /* again */
    advance(2 * MS);
    EQUAL(when(passed), MS);
    REQUIRE(!sim_event_done(event));
}

static void a_killed_recorder_holds_nobody_back(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(1);
    push(a, SIM_OP_KERNEL, 50 * MS, 0);
    uint32_t event = record(a, 0);
    sim_event_wait(event, b, START);
    uint32_t passed = record(b, 0);
    sim_process_forget(sim_machine, sim_hardware, 0, START + MS);
    advance(2 * MS);
    EQUAL(when(passed), MS);
}

static void a_destroyed_stream_still_does_its_work(void)
{
    machine_with(1);
    uint32_t a = channel(0);
    struct sim_ticket ticket = push(a, SIM_OP_KERNEL, 5 * MS, 0);
    sim_channel_destroy(a, START);
    REQUIRE(!sim_ticket_done(ticket));
    advance(5 * MS);
    REQUIRE(sim_ticket_done(ticket));
    EQUAL(work_of(0), 5 * MS);
    EQUAL(channel(0), a); /* its slot is free again … */
    push(a, SIM_OP_KERNEL, 5 * MS, 5 * MS);
    REQUIRE(sim_ticket_done(ticket)); /* … and the old ticket is not for the new work */
}

static void an_estimate_is_never_too_late(void)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(1);
    push(a, SIM_OP_KERNEL, 3 * MS, 0);
    struct sim_ticket ticket = push(a, SIM_OP_COPY, 2 * MS, 0);
    advance(MS);
    EQUAL(sim_ticket_estimate(ticket, START + MS), START + 5 * MS);
    push(b, SIM_OP_KERNEL, 10 * MS, MS);
    for (uint64_t at = MS; !sim_ticket_done(ticket); at += 100000) {
        advance(at);
        REQUIRE(sim_ticket_done(ticket) || sim_ticket_estimate(ticket, START + at) > START + at);
    }
}

/* ---- after a crash ---- */

static void what_is_derived_can_be_made_anew_at_any_moment(void)
{
    for (uint64_t crash = 0; crash < 12 * MS; crash += MS / 3) {
        machine_with(1);
        uint32_t a = channel(0), b = channel(1), c = channel(1);
        for (int i = 0; i < 4; i++) {
            push(a, SIM_OP_KERNEL, MS, 0);
            push(b, SIM_OP_KERNEL, MS, 0);
        }
        uint32_t event = record(b, 0);
        sim_event_wait(event, c, START);
        uint32_t end = record(c, 0);
        sim_machine->processes[1].device[0].memory[SIM_MEMORY_BUFFER] = 4096;
        advance(crash);
        memset(sim_machine->devices[0].active, 0xff, 64);
        sim_machine->devices[0].competitors = 99;
        sim_machine->devices[0].active_count = 77;
        sim_timeline_rebuild(sim_machine, sim_hardware, START + crash);
        advance(20 * MS);
        REQUIRE(sim_event_done(end) && sim_event_done(event));
        EQUAL(work_of(0) + work_of(1), 8 * MS);
        EQUAL(sim_machine->devices[0].used, 4096);
        EQUAL(sim_machine->devices[0].competitors, 0);
    }
}

/* ---- history ---- */

static void history_forgets_what_is_long_past(void)
{
    static struct sim_history history;
    sim_history_add(&history, 5 * MS, 25 * MS);
    EQUAL(sim_history_busy(&history, 0, 10 * MS), 5 * MS);
    EQUAL(sim_history_busy(&history, 0, 30 * MS), 20 * MS);
    EQUAL(sim_history_busy(&history, 10 * MS, 20 * MS), 10 * MS);
    sim_history_add(&history, 10000 * MS, 10004 * MS);
    EQUAL(sim_history_busy(&history, 0, 20000 * MS), 4 * MS);
    EQUAL(history.total, 24 * MS);
}

CASES(CASE(alone_gets_all_of_the_card) CASE(events_are_exact)
      CASE(kernels_of_one_process_take_turns_in_order_of_arrival) CASE(the_urgent_stream_goes_first)
      CASE(copies_run_beside_kernels) CASE(two_greedy_processes_get_45_percent_each)
      CASE(three_greedy_processes_get_30_percent_each) CASE(a_turn_ends_inside_a_long_kernel)
      CASE(a_newcomer_does_not_wait_for_a_turn_that_is_long_over) CASE(one_card_does_not_slow_another)
      CASE(what_a_dead_process_queued_is_dropped) CASE(a_stream_waits_for_an_event_of_another)
      CASE(a_card_waits_for_an_event_of_another) CASE(a_wait_is_for_the_record_before_it)
      CASE(a_killed_recorder_holds_nobody_back) CASE(a_destroyed_stream_still_does_its_work)
      CASE(an_estimate_is_never_too_late) CASE(what_is_derived_can_be_made_anew_at_any_moment)
      CASE(history_forgets_what_is_long_past))
