/* SPDX-License-Identifier: Apache-2.0
 *
 * What the PMIx clients of the tests share. `me` is the caller once begin() has returned.
 */
#ifndef CLIENT_H
#define CLIENT_H

#include <pmix.h>
#include <stdbool.h>
#include <stdint.h>

extern pmix_proc_t me;
extern uint32_t size;

/* Prints "WHAT: ERROR" to stderr and exits with 9 unless the status is PMIX_SUCCESS. */
void must(pmix_status_t status, const char* what);

/* As the standard has it, without PMIX_: PMIx_Error_string() has other words in each version. */
const char* name_of(pmix_status_t status);

void begin(void); /* PMIx_Init, and asks for the job's size */
void finish(void);

void put(const char* key, uint32_t value); /* and commits it */
uint32_t get(pmix_rank_t of, const char* key);
uint32_t get_from(const char* nspace, pmix_rank_t of, const char* key);
pmix_status_t fence(bool collect);               /* of all */
pmix_status_t fence_without(pmix_rank_t absent); /* of all but one, each by its rank */
uint32_t job_number(const char* key);

void say(const char* format, ...) __attribute__((format(printf, 1, 2))); /* one line in one write */
void say_what(const char* what, pmix_status_t status);                   /* "rank R: WHAT: NAME" */

/* Of the results of a group's construction; 0: there is none. Which others there are depends on libpmix's version. */
size_t group_id_in(const pmix_info_t* infos, size_t count);

/* Waits for the event `code`; what it is about comes in `affected`. listen first. */
void listen_for(pmix_status_t code);
void await_event(pmix_proc_t* affected);

#endif
