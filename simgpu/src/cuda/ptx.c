/*
 * The little of PTX that a driver without a compiler needs: entries, their parameters, variables.
 *
 * It walks the text by keywords and skips what it does not know; comments are not code. Sizes follow the PTX
 * ISA: parameters are laid out in order, each aligned to its own alignment.
 * What it does not do: check the text. Only a text without .version is refused (image.c).
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

static bool identifier(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static const char *skip_space(const char *at)
{
    for (;;) {
        while (isspace((unsigned char)*at))
            at++;
        if (strncmp(at, "//", 2) == 0) {
            at += strcspn(at, "\n");
        } else if (strncmp(at, "/*", 2) == 0) {
            const char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
        } else {
            return at;
        }
    }
}

/* The word at `at` (a directive, a name, a number) and where it ends. */
static size_t word_length(const char *at)
{
    size_t length = *at == '.';
    while (identifier(at[length]))
        length++;
    return length ? length : (*at != '\0');
}

static const char *next_word(const char *at, size_t *length)
{
    at = skip_space(at);
    *length = word_length(at);
    return at;
}

static bool is(const char *word, size_t length, const char *text)
{
    return strlen(text) == length && strncmp(word, text, length) == 0;
}

/* .u64 is 8 bytes, .b8 is 1, .f16x2 is 4, .pred is none */
static size_t type_size(const char *word, size_t length)
{
    if (length < 3 || word[0] != '.' || !strchr("busf", word[1]) || !isdigit((unsigned char)word[2]))
        return 0;
    size_t bits = strtoul(word + 2, NULL, 10);
    return word[length - 2] == 'x' ? bits / 4 : bits / 8;
}

/*
 * A declaration from behind its state space up to its end: `.align 8 .b8 name[64]`, `.u64 name`. Gives the
 * name and the size in bytes; returns where it stopped.
 */
static const char *declaration(const char *at, const char **name, size_t *name_length, size_t *size, size_t *align)
{
    size_t length, unit = 0, count = 1;
    *align = 0;
    *name = NULL;
    for (at = next_word(at, &length); length; at = next_word(at + length, &length)) {
        if (is(at, length, ".align")) {
            at = next_word(at + length, &length);
            *align = strtoul(at, NULL, 10);
        } else if (*at == '.') {
            size_t found = type_size(at, length);
            unit = found ? found : unit;
        } else if (*at == '[') {
            at = skip_space(at + 1);
            length = strcspn(at, "]");
            count *= length ? strtoul(at, NULL, 10) : 1;
            length += at[length] == ']';
        } else if (!*name && identifier(*at)) {
            *name = at;
            *name_length = length;
        } else {
            break;
        }
    }
    *size = unit * count;
    *align = *align ? *align : unit;
    return at;
}

static void read_parameters(struct sim_function *function, const char *at)
{
    size_t length, offset = 0;
    for (at = next_word(at, &length); length && *at != ')' && *at != '{'; at = next_word(at, &length)) {
        const char *name;
        size_t name_length, size, align;
        if (!is(at, length, ".param")) {
            at += length;
            continue;
        }
        at = declaration(at + length, &name, &name_length, &size, &align);
        offset = align ? (offset + align - 1) / align * align : offset;
        if (function->parameter_count < SIM_PARAMETERS)
            function->parameters[function->parameter_count++] = (struct sim_parameter){offset, size};
        offset += size;
    }
}

void sim_ptx_parse(struct sim_image *image)
{
    size_t length;
    for (const char *at = next_word(image->bytes, &length); length; at = next_word(at + length, &length)) {
        if (!is(at, length, ".entry"))
            continue;
        at = next_word(at + length, &length);
        struct sim_function *function = length ? sim_function_add(image, at, length) : NULL;
        if (!function)
            return;
        const char *open = skip_space(at + length);
        if (*open == '(')
            read_parameters(function, open + 1);
        function->parameters_known = true;
    }
}

const char *sim_ptx_next_variable(const char *at, struct sim_variable *variable)
{
    size_t length;
    const char *last = NULL; /* where the word before ended: `ld.global` is no declaration */
    for (at = next_word(at, &length); length; at = next_word(at, &length)) {
        variable->constant = is(at, length, ".const");
        bool found = variable->constant || is(at, length, ".global");
        bool part = at == last && identifier(at[-1]);
        last = at += length;
        if (!found || part)
            continue;
        at = declaration(at, &variable->name, &variable->name_length, &variable->size, &variable->align);
        if (variable->name)
            return at;
    }
    return NULL;
}
