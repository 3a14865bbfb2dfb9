/*
 * The timeline in virtual time: what runs when, to the nanosecond.
 *
 * Each case builds channels, pushes operations at chosen moments and asks when they were done. Waiting and crashes
 * are in timeline_waits.c.
 */
#include "virtual.h"

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
    EQUAL(when(long_end), 3 * MS + EXCHANGE + 20 * MS - 1800000);
}

/* 100 kernels of 2 us each of two processes, one after another in turn; when the last of them is done. */
static uint64_t in_turn(uint64_t apart)
{
    machine_with(1);
    uint32_t a = channel(0), b = channel(1), end = 0;
    for (uint64_t i = 0; i < 100; i++) {
        push(a, SIM_OP_KERNEL, 2000, 2 * i * apart);
        push(b, SIM_OP_KERNEL, 2000, (2 * i + 1) * apart);
        end = record(b, (2 * i + 1) * apart);
    }
    advance(199 * apart + 10 * MS);
    EQUAL(work_of(0) + work_of(1), 200 * 2000);
    return when(end);
}

static void to_turn_from_one_process_to_another_keeps_the_card_busy_and_works_for_neither(void)
{
    EQUAL(in_turn(500000), 199 * 500000 + EXCHANGE + 2000);
    EQUAL(sim_machine->devices[0].history.total, 200 * 2000 + 199 * EXCHANGE);
}

/* As an H200 that NVML showed never idle: two with 18,600 launches a second each, 7 % of them kernels. */
static void launches_that_come_faster_than_the_card_turns_are_worked_off_together(void)
{
    uint64_t done = in_turn(26900), last = 199 * 26900;
    REQUIRE(done > last && done < last + 3 * EXCHANGE);
    REQUIRE(sim_machine->devices[0].history.total > last * 98 / 100);
}

static void who_comes_back_to_an_idle_card_does_so_at_once(void)
{
    machine_with(1);
    uint32_t a = channel(0), end = 0;
    for (uint64_t i = 0; i < 10; i++) {
        push(a, SIM_OP_KERNEL, 2000, i * 20000);
        end = record(a, i * 20000);
    }
    advance(MS);
    EQUAL(when(end), 9 * 20000 + 2000);
    EQUAL(sim_machine->devices[0].history.total, 10 * 2000);
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
    EQUAL(when(end), 4 * MS + EXCHANGE + 10 * MS - 1800000);
    EQUAL(sim_machine->devices[0].used, 0);
}

CASES(CASE(alone_gets_all_of_the_card) CASE(events_are_exact)
      CASE(kernels_of_one_process_take_turns_in_order_of_arrival) CASE(the_urgent_stream_goes_first)
      CASE(copies_run_beside_kernels) CASE(two_greedy_processes_get_45_percent_each)
      CASE(three_greedy_processes_get_30_percent_each) CASE(a_turn_ends_inside_a_long_kernel)
      CASE(a_newcomer_does_not_wait_for_a_turn_that_is_long_over) CASE(one_card_does_not_slow_another)
      CASE(to_turn_from_one_process_to_another_keeps_the_card_busy_and_works_for_neither)
      CASE(launches_that_come_faster_than_the_card_turns_are_worked_off_together)
      CASE(who_comes_back_to_an_idle_card_does_so_at_once) CASE(what_a_dead_process_queued_is_dropped))
