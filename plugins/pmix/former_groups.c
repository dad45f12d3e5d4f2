/* SPDX-License-Identifier: Apache-2.0
 *
 * libpmix knows a group by its name only, and keeps those of its members that have come until all have; up to
 * version 4 also the group, with its members, until all these destruct it. So a group of that name, of tasks that
 * have started again, would get the members of the start before, and be waited for without end. This file takes
 * what belongs to former starts out of libpmix's lists. Its own headers, which are installed, have their layout;
 * nothing is done if the library that runs has another one, by the sizes that it gives. Those of version 6 do not
 * have what it keeps of groups.
 */
#define _GNU_SOURCE
#include "former_groups.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include <pmix_version.h>
#if PMIX_VERSION_MAJOR > 5
#error "libpmix's headers do not have what it keeps of groups"
#endif
#include <src/include/pmix_config.h>
/* needs the one above */
#include <src/server/pmix_server_ops.h>

/* Whether the running library is the one of these headers, and has begun. */
static bool is_as_compiled(void) {
  const ElfW(Sym)* symbol = NULL;
  Dl_info info;
  return dladdr1(&pmix_server_globals, &info, (void**)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL &&
         symbol->st_size == sizeof pmix_server_globals &&
         pmix_server_globals.collectives.pmix_list_sentinel.pmix_list_next != NULL;
}

static bool is_of_size(const pmix_list_item_t* item, size_t size) {
  return item->super.obj_class->cls_sizeof == size;
}

/* Whether a process is of this start's tasks, or of what they have spawned. */
static bool is_of(const char* home, const pmix_proc_t* procs, size_t count) {
  size_t length = strlen(home);
  for (size_t i = 0; i < count; ++i) {
    const char* name = procs[i].nspace;
    if (strncmp(name, home, length) == 0 && (name[length] == '\0' || name[length] == '-')) return true;
  }
  return count == 0;
}

/* A thread that has yet to answer may still use the item: like libpmix with finished ones, this does not free
 * it. */
static void take_out(pmix_list_t* list, pmix_list_item_t* item) {
  pmix_list_remove_item(list, item);
  item->pmix_list_next = item->pmix_list_prev = item;
}

static void forget_operations(const char* home) {
  pmix_list_t* const operations = &pmix_server_globals.collectives;
  pmix_server_trkr_t *operation, *next_operation;
  PMIX_LIST_FOREACH_SAFE(operation, next_operation, operations, pmix_server_trkr_t) {
    if (!is_of_size(&operation->super, sizeof *operation)) return;
    if (operation->id == NULL || is_of(home, operation->pcs, operation->npcs)) continue;
    operation->cbdata = NULL; /* its group */
    take_out(operations, &operation->super);
  }
}

#if PMIX_VERSION_MAJOR < 5
static void forget_groups(const char* home) {
  pmix_list_t* const groups = &pmix_server_globals.groups;
  pmix_group_t *group, *next_group;
  PMIX_LIST_FOREACH_SAFE(group, next_group, groups, pmix_group_t) {
    if (!is_of_size(&group->super, sizeof *group)) return;
    if (!is_of(home, group->members, group->nmbrs)) take_out(groups, &group->super);
  }
}
#else
/* This version keeps no groups. */
static void forget_groups(const char* home) { (void)home; }
#endif

void forget_former_groups(const char* home) {
  if (!is_as_compiled()) return;
  forget_operations(home);
  forget_groups(home);
}
