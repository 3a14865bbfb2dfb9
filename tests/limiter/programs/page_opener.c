/*
 * Opens slice directories, one in a child each, and does with their pages whatever the limiter does. Prints for
 * each how the child ended: "used", "refused", or what killed it.
 *
 *   page_opener DIRECTORY…
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger_world.h"

#define PATIENCE 10 /* seconds */
#define REFUSED 3

static void use(const struct weir_slice *slice)
{
    int slot = weir_slot(slice);
    for (uint32_t device = 0; device < slice->device_count; device++) {
        struct weir_control_device control;
        uint32_t policy;
        weir_control_read(slice, device, &control, &policy);
        uint64_t limit = weir_memory_limit(slice, device);
        if (slot < 0)
            continue;
        bool fits = weir_ledger_take(slice, (uint32_t)slot, device, WEIR_KIND_BUFFER, 3 * MIB, limit);
        REQUIRE(!fits || weir_ledger_used(slice, device) <= limit);
        weir_ledger_take(slice, (uint32_t)slot, device, WEIR_KIND_POOL, 5 * MIB, WEIR_NO_LIMIT);
        weir_ledger_give(slice, (uint32_t)slot, device, WEIR_KIND_BUFFER, 3 * MIB);
    }
    weir_refuse_unknown(slice);
    weir_reap(slice);
}

static void child(const char *directory)
{
    alarm(PATIENCE);
    REQUIRE(setenv("WEIR_SLICE_DIR", directory, 1) == 0);
    const struct weir_slice *slice = weir_slice();
    if (!slice)
        _exit(weir_refusing() ? REFUSED : 1);
    use(slice);
    _exit(0);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0); /* a child must not print its parent's lines again */
    for (int i = 1; i < argc; i++) {
        int status;
        pid_t pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0)
            child(argv[i]);
        REQUIRE(waitpid(pid, &status, 0) == pid);
        if (WIFSIGNALED(status))
            printf("%s\n", strsignal(WTERMSIG(status)));
        else
            puts(WEXITSTATUS(status) == 0 ? "used" : WEXITSTATUS(status) == REFUSED ? "refused" : "failed");
    }
    return 0;
}
