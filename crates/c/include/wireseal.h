/*
 * libwireseal: TCP-AO (RFC 5925) and QUIC packet protection (RFC 9001, RFC 9369).
 *
 * This file is made from the comments in crates/c; do not edit it.
 *
 * Results
 *   Each function returns a status, WIRESEAL_STATUS_OK if it has done what it says, except those that return a size or a text. Results go to
 *   the pointers at the end of its parameters. If it fails, it has changed nothing and written nothing, unless its comment says otherwise; a
 *   function that makes a handle then sets the pointer to it to null.
 *
 * Pointers
 *   None may be null, unless a comment says so; a null pointer is then an error, WIRESEAL_STATUS_NULL_POINTER. Where a length is zero, its
 *   pointer may be null. What cannot be checked is yours to keep: a pointer leads to as many octets as its length says, and during a call
 *   nobody else writes what it reads, nor touches what it writes. Buffers of one call do not overlap, unless a comment says they may.
 *   Nothing keeps a pointer after the call, unless a comment says so.
 *
 * Handles
 *   A handle, such as a struct wireseal_connection, lies in memory that you give: ask wireseal_..._size() and wireseal_..._align() for its
 *   octets and alignment, or take the constants WIRESEAL_..._SIZE and WIRESEAL_ALIGN. Do not copy or move it. Its end wipes that memory, which
 *   is yours again. Handles of Linux's key manager and of key chains are on the heap instead; their end frees them.
 *   A pointer that is no such handle is an error, WIRESEAL_STATUS_NOT_A_HANDLE: never made in zeroed memory, ended before, moved, or of
 *   another kind. After its memory is freed or used for something else, that cannot be told.
 *
 * Threads
 *   Different handles can be used by different threads at the same time. If a thread uses a handle while another does, its call returns
 *   WIRESEAL_STATUS_BUSY and does nothing. Comments say which handles any number of threads may use at once.
 *
 * Faults in the library
 *   A fault (a panic of Rust) never unwinds into C: the call returns WIRESEAL_STATUS_INTERNAL, and the handle refuses all further calls but
 *   its end. In a library that was built without an operating system, the processor traps instead.
 *
 * Secrets
 *   Keys are wiped when their handle ends, and when they are replaced. Your own copies of them, such as the octets that a struct wireseal_mkt
 *   points to, are yours to wipe.
 */


#ifndef WIRESEAL_H
#define WIRESEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The text for a status: a line in English, for logs. It lives as long as the program, and may be called with any number.
 */
const char *wireseal_status_text(int32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIRESEAL_H */
