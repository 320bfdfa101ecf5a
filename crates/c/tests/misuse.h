/* Calls every function with wrong arguments, for the programs misuse_*.c. */
#ifndef MISUSE_H
#define MISUSE_H

#include "connection.h"

/*
 * MISUSED(STATUS, f(H(handle), P(pointer), ...)) makes the call once with null for each H and P, which has to be WIRESEAL_STATUS_NULL_POINTER;
 * for each H with what is no such handle: zeros, garbage, a copy of the handle, a pointer that is not aligned, and misuse.other, a handle of
 * another kind; and at last as it stands, which has to give the status.
 */
#define P(pointer) (is_null() ? NULL : (pointer))
#define H(handle) (is_null() ? NULL : is_replaced() ? (__typeof__(handle))instead(handle) : (handle))
#define MISUSED(status, call) misused(status, call, #call)
#define misused(status, call, text)                                                                                             \
    do {                                                                                                                        \
        misuse.instead = -1;                                                                                                    \
        misuse.null = 0;                                                                                                        \
        do {                                                                                                                    \
            misuse.pointers = misuse.handles = 0;                                                                               \
            is(WIRESEAL_STATUS_NULL_POINTER, call, text, __FILE__, __LINE__);                                                   \
        } while (++misuse.null < misuse.pointers);                                                                              \
        misuse.null = -1;                                                                                                       \
        for (misuse.kind = 0; misuse.kind < 5; misuse.kind++)                                                                   \
            for (misuse.instead = 0; misuse.instead < misuse.handles; misuse.instead++) {                                       \
                const int handles = misuse.handles;                                                                             \
                misuse.pointers = misuse.handles = 0;                                                                           \
                is(WIRESEAL_STATUS_NOT_A_HANDLE, call, text, __FILE__, __LINE__);                                               \
                misuse.handles = handles;                                                                                       \
            }                                                                                                                   \
        misuse.instead = -1;                                                                                                    \
        is(WIRESEAL_STATUS_##status, call, text, __FILE__, __LINE__);                                                           \
    } while (0)

/*
 * MAKES(octets, handle, f(P(AT(memory)), misuse.size, ...)) for a function that makes a handle of so many octets in a struct memory: the same,
 * and before it too little memory, misaligned memory, and a size that is none. Each time the handle becomes null.
 */
#define AT(memory) ((memory).octets + misuse.offset)
#define MAKES(octets, handle, call) makes(octets, handle, call, #call)
#define makes(octets, handle, call, text)                                                                                       \
    do {                                                                                                                        \
        misuse.null = misuse.instead = -1;                                                                                      \
        misuse.offset = 0, misuse.size = (octets) - 1;                                                                          \
        is(WIRESEAL_STATUS_TOO_SMALL, call, text, __FILE__, __LINE__);                                                          \
        misuse.size = 0;                                                                                                        \
        is(WIRESEAL_STATUS_TOO_SMALL, call, text, __FILE__, __LINE__);                                                          \
        misuse.size = SIZE_MAX;                                                                                                 \
        is(WIRESEAL_STATUS_TOO_LONG, call, text, __FILE__, __LINE__);                                                           \
        misuse.offset = 1, misuse.size = (octets);                                                                              \
        is(WIRESEAL_STATUS_MISALIGNED, call, text, __FILE__, __LINE__);                                                         \
        HOLDS((handle) == NULL);                                                                                                \
        misuse.offset = 0;                                                                                                      \
        misused(OK, call, text);                                                                                                \
        HOLDS((handle) != NULL);                                                                                                \
    } while (0)

/* IS(STATUS, call): the call gives this status. */
#define IS(wanted, call) is(WIRESEAL_STATUS_##wanted, call, #call, __FILE__, __LINE__)
/* HOLDS(condition): what has to be true. */
#define HOLDS(condition) holds((condition) != 0, #condition, __FILE__, __LINE__)

static struct misuse {
    /* Which pointer is null, which handle is replaced, and by what. */
    int null, instead, kind;
    /* Those that the call has so far. */
    int pointers, handles;
    size_t offset, size;
    int failures;
    void *other;
} misuse;

/* Memory for handles, more than any needs in these programs. */
struct memory {
    uint8_t octets[1 << 16];
} ALIGNED;

/* Whether this pointer of the call is null this time. */
static int is_null(void)
{
    return misuse.pointers++ == misuse.null;
}

/* Whether this handle of the call is replaced this time. */
static int is_replaced(void)
{
    return misuse.handles++ == misuse.instead;
}

/* What H gives instead of a handle. */
static void *instead(void *handle)
{
    static struct memory memory;
    switch (misuse.kind) {
    case 0: memset(&memory, 0, sizeof memory); break;
    case 1: memset(&memory, 0xa5, sizeof memory); break;
    case 2: memcpy(&memory, handle, 64); break;
    case 3: return memory.octets + 1;
    default: return misuse.other;
    }
    return &memory;
}

static void is(enum wireseal_status wanted, enum wireseal_status found, const char *call, const char *file, int line)
{
    if (found == wanted)
        return;
    fprintf(stderr, "%s:%d: %s\n  gave \"%s\", not \"%s\"", file, line, call, wireseal_status_text((uint32_t)found), wireseal_status_text((uint32_t)wanted));
    fprintf(stderr, " (null: %d, instead: %d, kind: %d)\n", misuse.null, misuse.instead, misuse.kind);
    misuse.failures++;
}

static void holds(int condition, const char *text, const char *file, int line)
{
    if (condition)
        return;
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
    misuse.failures++;
}

#endif
