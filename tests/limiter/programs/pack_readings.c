/*
 * Small arrays come and go (`pack_readings SEED STEPS`) while the card's free memory, which tells whether one of them
 * took or freed a page, says anything: a neighbour takes and frees pages between two readings.
 *
 * Whatever is read, an array larger than half a page is charged one for itself and gives one back where it has no
 * smaller ones beside it; and all arrays are charged a page each at most, all wide ones no less. What it does not
 * do: ask a card; that one is charged by what this says is tested with arrays (array_shapes.c).
 */
#include <stdbool.h>
#include <stdlib.h>

#include "account.h"
#include "packs.h"
#include "../../programs/require.h"

#define MOST 16
#define WIDE(size) ((size) > WEIR_BLOCK / 2)

static uint64_t sizes[MOST], pages;
static int count, wide;

static bool any(void)
{
    return rand() % 2;
}

static void add(uint64_t place, uint64_t size)
{
    bool only_wide = count == wide, page = weir_pack_add(place, size, any());
    REQUIRE(page || !(WIDE(size) && only_wide));
    sizes[count++] = size;
    wide += WIDE(size);
    pages += page;
}

static void drop(uint64_t place, int number)
{
    bool only_wide = count == wide;
    uint64_t size = sizes[number], given = weir_pack_remove(place, size, any());
    REQUIRE(given <= pages && (given == 1 || !only_wide));
    sizes[number] = sizes[--count];
    wide -= WIDE(size);
    pages -= given;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    srand((unsigned)atoi(argv[1]));
    uint64_t place = weir_pack_of(&pages, 0);
    bool small_too = false;
    for (int step = atoi(argv[2]); step; step--) {
        if (!count)
            small_too = any();
        if (count == MOST || (count && any()))
            drop(place, rand() % count);
        else
            add(place, small_too && any() ? WEIR_BLOCK / 64 : WEIR_BLOCK / 2 + 1);
        REQUIRE((uint64_t)wide <= pages && pages <= (uint64_t)count);
    }
    while (count)
        drop(place, 0);
    REQUIRE(!pages);
    return 0;
}
