/*
 * The timeline in virtual time: who waits for what, what a crash leaves, what the past looks like.
 *
 * To the nanosecond, as in timeline.c.
 */
#include "virtual.h"

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

static void a_wait_for_a_word_takes_nothing_of_the_card(void)
{
    static uint32_t word; /* nobody's here: no process looks at it */
    machine_with(1);
    uint32_t a = channel(0), b = channel(1), c = channel(0);
    struct sim_op wait = {.type = SIM_OP_WAIT_VALUE, .function = (uintptr_t)&word, .argument = 1};
    sim_channel_push(a, &wait, START);
    struct sim_ticket behind = push(a, SIM_OP_KERNEL, MS, 0);
    push(b, SIM_OP_KERNEL, 10 * MS, 0);
    uint32_t end = record(b, 0);
    advance(5 * MS);
    sim_timeline_rebuild(sim_machine, sim_hardware, START + 5 * MS);
    EQUAL(sim_machine->channels[a].words, 1);
    EQUAL(sim_machine->devices[0].competitors, 1);
    advance(20 * MS);
    EQUAL(when(end), 10 * MS);
    EQUAL(work_of(0), 0);
    REQUIRE(!sim_ticket_done(behind));
    sim_channel_abandon(a, START + 20 * MS);
    REQUIRE(sim_ticket_done(behind));
    push(c, SIM_OP_KERNEL, MS, 20 * MS);
    advance(21 * MS + EXCHANGE);
    EQUAL(work_of(0), MS);
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

CASES(CASE(a_stream_waits_for_an_event_of_another) CASE(a_card_waits_for_an_event_of_another)
      CASE(a_wait_is_for_the_record_before_it) CASE(a_killed_recorder_holds_nobody_back)
      CASE(a_destroyed_stream_still_does_its_work) CASE(a_wait_for_a_word_takes_nothing_of_the_card)
      CASE(an_estimate_is_never_too_late)
      CASE(what_is_derived_can_be_made_anew_at_any_moment) CASE(history_forgets_what_is_long_past))
