/*
 * The few instructions that C cannot say: leave a function for another with all arguments, and the return
 * address, as they came. One macro for each shape of function, for x86-64 and AArch64.
 *
 * A helper in C gets the arguments, as they are kept on the stack meanwhile and may be changed there, and the
 * return address. It returns a struct of two words, which both calling conventions return in two registers: the
 * answer, or the function to jump to instead with the arguments as they are now.
 * The linker's functions take up to three integers and pointers, so no floating-point register is saved.
 */
#ifndef WEIR_ARCH_H
#define WEIR_ARCH_H

#include <stdint.h>

struct weir_arguments { /* in the order in which the assembly below leaves them on the stack */
#if defined(__x86_64__)
    intptr_t third, second, first;
#else
    intptr_t first, second, third;
#endif
};

struct weir_way {
    void *answer;
    void *next; /* not NULL: jump there */
};

struct weir_way weir_way_of_dlsym(struct weir_arguments *arguments, const void *caller);
struct weir_way weir_way_of_dlvsym(struct weir_arguments *arguments, const void *caller);
struct weir_way weir_way_of_dlopen(struct weir_arguments *arguments);
struct weir_way weir_way_of_dlmopen(struct weir_arguments *arguments);

#define WEIR_ARCH_BEGIN(symbol)                                                                              \
    ".pushsection .text\n.globl " #symbol "\n.type " #symbol ", %function\n" #symbol ":\n.cfi_startproc\n"
#define WEIR_ARCH_END(symbol) ".cfi_endproc\n.size " #symbol ", .-" #symbol "\n.popsection\n"

#if defined(__x86_64__)

#define WEIR_ARCH_SAVE                                                                                       \
    "endbr64\n"                                                                                              \
    "push %rdi\n.cfi_adjust_cfa_offset 8\n"                                                                  \
    "push %rsi\n.cfi_adjust_cfa_offset 8\n"                                                                  \
    "push %rdx\n.cfi_adjust_cfa_offset 8\n" /* the stack is aligned to 16 again */
#define WEIR_ARCH_RESTORE                                                                                    \
    "pop %rdx\n.cfi_adjust_cfa_offset -8\n"                                                                  \
    "pop %rsi\n.cfi_adjust_cfa_offset -8\n"                                                                  \
    "pop %rdi\n.cfi_adjust_cfa_offset -8\n"

#define WEIR_ARCH_FORWARD(symbol, helper)                                                                    \
    __asm__(WEIR_ARCH_BEGIN(symbol) WEIR_ARCH_SAVE                                                           \
            "mov %rsp, %rdi\nmov 24(%rsp), %rsi\ncall " #helper "\n"                                         \
            "mov %rdx, %r11\n" WEIR_ARCH_RESTORE                                                             \
            "test %r11, %r11\njnz 1f\nret\n1: jmp *%r11\n" WEIR_ARCH_END(symbol));

#elif defined(__aarch64__)

#define WEIR_ARCH_SAVE                                                                                       \
    "hint #34\n" /* bti c */                                                                                 \
    "stp x29, x30, [sp, #-48]!\n.cfi_def_cfa_offset 48\n.cfi_offset x29, -48\n.cfi_offset x30, -40\n"        \
    "stp x0, x1, [sp, #16]\nstr x2, [sp, #32]\n"
#define WEIR_ARCH_RESTORE                                                                                    \
    "ldp x0, x1, [sp, #16]\nldr x2, [sp, #32]\n"                                                             \
    "ldp x29, x30, [sp], #48\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n"

#define WEIR_ARCH_FORWARD(symbol, helper)                                                                    \
    __asm__(WEIR_ARCH_BEGIN(symbol) WEIR_ARCH_SAVE "mov x1, x30\nadd x0, sp, #16\nbl " #helper "\n"          \
            "mov x16, x1\nmov x17, x0\n" WEIR_ARCH_RESTORE                                                   \
            "cbnz x16, 1f\nmov x0, x17\nret\n1: br x16\n" WEIR_ARCH_END(symbol));

#else
#error "Weir's limiter knows x86-64 and AArch64"
#endif

#endif
