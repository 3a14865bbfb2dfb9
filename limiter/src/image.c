/*
 * The reader of image.h. An image is the program's own and as trusted as the program, yet where a size is known
 * nothing beyond it is read. Of a fat binary's entries, each for another architecture, the largest counts.
 *
 * What it does not do: decompress, compile, or check that an image is valid; that is the driver's.
 */
#define _GNU_SOURCE /* memmem */
#include "image.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "calls.h"

#define FATBIN_MAGIC 0xba55ed50u
#define WRAPPER_MAGIC 0x466243b1u
#define CUDA_MACHINE 190 /* EM_CUDA */

struct wrapper { /* what nvcc puts around a fat binary in a program */
    uint32_t magic, version;
    const void *data;
};

struct fatbin {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size; /* of the entries behind the header */
};

struct entry {
    uint16_t kind, version;
    uint32_t header_size;
    uint32_t payload_size; /* padded: the next entry follows */
};

/* ---- PTX ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' || c == '$' || c == '.';
}

static bool starts(const char *at, const char *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

static uint64_t number(const char *at, const char *end)
{
    uint64_t value = 0;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    return value;
}

/* `.b8` is 1, `.f64` is 8, `.f16x2` is 4, `.v4` multiplies by 4; 0: not of these. */
static uint64_t type_size(const char *at, const char *end)
{
    if (end - at < 3 || !strchr("busf", at[1]))
        return 0;
    uint64_t bits = number(at + 2, end);
    const char *rest = at + 2;
    while (rest < end && *rest >= '0' && *rest <= '9')
        rest++;
    return rest < end && *rest == 'x' ? bits / 4 : bits / 8;
}

/* The bytes of a declaration from behind `.global` to its `;`, such as `.align 8 .b8 name[64]`. */
static uint64_t declared(const char *at, const char *end)
{
    uint64_t unit = 0, lanes = 1, count = 1, sum = 0;
    while (at < end && *at != ';' && *at != '=' && *at != '{' && *at != '}') {
        const char *word = at;
        while (at < end && is_word(*at))
            at++;
        if (starts(word, at, ".attribute") && at < end && starts(at, end, "(.managed)"))
            return 0; /* managed memory is not this process's on the card */
        if (starts(word, at, ".v"))
            lanes = number(word + 2, at);
        else if (type_size(word, at))
            unit = type_size(word, at);
        if (at < end && *at == '[') /* of no size when it is declared elsewhere */
            count *= number(at + 1, end);
        if (at < end && *at == ',') {
            sum += unit * lanes * count;
            count = 1;
        }
        at += at == word || (at < end && *at != ';' && *at != '=');
    }
    return sum + unit * lanes * count;
}

static bool in_comment(const char *text, const char *at)
{
    while (at > text && at[-1] != '\n')
        if (*--at == '/' && at[1] == '/')
            return true;
    return false;
}

static uint64_t text_bytes(const char *text, const char *end)
{
    static const char word[] = ".global";
    uint64_t sum = 0;
    for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, sizeof word - 1));) {
        bool alone = (at == text || !is_word(at[-1])) && !in_comment(text, at);
        at += sizeof word - 1;
        if (alone && at < end && is_space(*at))
            sum += declared(at, end);
    }
    return sum;
}

/* ---- cubins ---- */

/* The sections `.nv.global` and `.nv.global.init`. `size`: of what may be read. */
static uint64_t cubin_bytes(const char *image, uint64_t size)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
    if (size < sizeof *header || header->e_machine != CUDA_MACHINE || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shstrndx >= header->e_shnum)
        return 0;
    uint64_t table = (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
    if (header->e_shoff > size || table > size - header->e_shoff)
        return 0;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + header->e_shoff);
    const Elf64_Shdr *names = &sections[header->e_shstrndx];
    if (names->sh_offset > size || names->sh_size > size - names->sh_offset)
        return 0;
    const char *first = image + names->sh_offset, *end = first + names->sh_size;
    uint64_t sum = 0;
    for (int i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_name < names->sh_size && starts(first + sections[i].sh_name, end, ".nv.global"))
            sum += sections[i].sh_size;
    return sum;
}

/* ---- fat binaries, and which of the three it is ---- */

static uint64_t bytes_of(const char *image, uint64_t size);

static uint64_t fatbin_bytes(const char *image, uint64_t size)
{
    struct fatbin header;
    struct entry entry;
    uint64_t most = 0;
    if (size < sizeof header)
        return 0;
    memcpy(&header, image, sizeof header);
    uint64_t end = header.header_size + header.size;
    end = end < size ? end : size;
    for (uint64_t at = header.header_size; at < end && end - at >= sizeof entry;) {
        memcpy(&entry, image + at, sizeof entry);
        if (entry.header_size < sizeof entry || entry.header_size > end - at ||
            entry.payload_size > end - at - entry.header_size)
            break;
        uint64_t bytes = bytes_of(image + at + entry.header_size, entry.payload_size);
        most = bytes > most ? bytes : most;
        at += (uint64_t)entry.header_size + entry.payload_size;
    }
    return most;
}

static uint64_t bytes_of(const char *image, uint64_t size)
{
    uint32_t magic = 0;
    if (size < sizeof magic)
        return 0;
    memcpy(&magic, image, sizeof magic);
    if (magic == FATBIN_MAGIC)
        return fatbin_bytes(image, size);
    if (memcmp(image, ELFMAG, SELFMAG) == 0)
        return cubin_bytes(image, size);
    uint64_t length = size == UINT64_MAX ? strlen(image) : strnlen(image, size);
    return memmem(image, length, ".version", 8) ? text_bytes(image, image + length) : 0;
}

uint64_t weir_image_bytes(const void *image)
{
    struct wrapper wrapper;
    if (!image)
        return 0;
    if (memcmp(image, &(uint32_t){WRAPPER_MAGIC}, sizeof wrapper.magic) == 0) {
        memcpy(&wrapper, image, sizeof wrapper);
        image = wrapper.data;
    }
    return image ? bytes_of(image, UINT64_MAX) : 0;
}

uint64_t weir_image_file_bytes(const char *path)
{
    int saved = errno, fd = path ? weir_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat file;
    uint64_t bytes = 0;
    if (fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size > 0) {
        void *image = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (image != MAP_FAILED) {
            bytes = bytes_of(image, (uint64_t)file.st_size);
            munmap(image, (size_t)file.st_size);
        }
    }
    if (fd >= 0)
        weir_close(fd);
    errno = saved;
    return bytes;
}
