/* SPDX-License-Identifier: Apache-2.0
 *
 * groups WHAT [DIRECTORY]: process groups over nodes, and what becomes of them when a member does not come. Says what came of it.
 * DIRECTORY: where those who wait leave a file each.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

enum { kMost = 64 };

static const char* directory = ".";
static pmix_rank_t last;

/* A group that is constructed, or is going to be. */
struct group {
  const char* name;
  pmix_proc_t members[kMost];
  size_t count;
  bool has_id, is_optional, notifies;
  int timeout;
  /* What came of it. */
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool done;
  pmix_status_t status;
  size_t id;
};

static struct group* make(const char* name) {
  struct group* group = calloc(1, sizeof *group);
  pthread_mutex_init(&group->mutex, NULL);
  pthread_cond_init(&group->changed, NULL);
  group->name = name;
  group->has_id = true;
  return group;
}

static void add(struct group* group, const char* nspace, pmix_rank_t rank) {
  PMIX_LOAD_PROCID(&group->members[group->count], nspace, rank);
  ++group->count;
}

/* Of the ranks from `first` on, each `step`th. */
static struct group* group_of(const char* name, pmix_rank_t first, pmix_rank_t step) {
  struct group* group = make(name);
  for (pmix_rank_t rank = first; rank < size; rank += step) add(group, me.nspace, rank);
  return group;
}

static void ended(struct group* group, pmix_status_t status) {
  pthread_mutex_lock(&group->mutex);
  group->status = status;
  group->done = true;
  pthread_cond_broadcast(&group->changed);
  pthread_mutex_unlock(&group->mutex);
}

static void constructed(pmix_status_t status, pmix_info_t* info, size_t ninfo, void* data,
                        pmix_release_cbfunc_t release, void* kept) {
  struct group* group = data;
  group->id = group_id_in(info, ninfo);
  if (release != NULL) release(kept);
  ended(group, status);
}

static void destructed(pmix_status_t status, void* data) { ended(data, status); }

static size_t directives_of(const struct group* group, pmix_info_t* infos) {
  size_t count = 0;
  if (group->has_id) PMIX_INFO_LOAD(&infos[count++], PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
  if (group->is_optional) PMIX_INFO_LOAD(&infos[count++], PMIX_GROUP_OPTIONAL, NULL, PMIX_BOOL);
  if (group->notifies) PMIX_INFO_LOAD(&infos[count++], PMIX_GROUP_NOTIFY_TERMINATION, NULL, PMIX_BOOL);
  if (group->timeout > 0) PMIX_INFO_LOAD(&infos[count++], PMIX_TIMEOUT, &group->timeout, PMIX_INT);
  return count;
}

static void begin_construct(struct group* group) {
  pmix_info_t infos[4];
  size_t count = directives_of(group, infos);
  group->done = false;
  must(PMIx_Group_construct_nb(group->name, group->members, group->count, infos, count, constructed, group),
       "PMIx_Group_construct_nb");
}

static void begin_destruct(struct group* group) {
  group->done = false;
  must(PMIx_Group_destruct_nb(group->name, NULL, 0, destructed, group), "PMIx_Group_destruct_nb");
}

static pmix_status_t await(struct group* group) {
  pthread_mutex_lock(&group->mutex);
  while (!group->done) pthread_cond_wait(&group->changed, &group->mutex);
  pthread_mutex_unlock(&group->mutex);
  return group->status;
}

static pmix_status_t construct(struct group* group) {
  begin_construct(group);
  return await(group);
}

static pmix_status_t destruct(struct group* group) {
  begin_destruct(group);
  return await(group);
}

/* Without some members: from version 5 on libpmix knows which others they are, and misses none. */
static void say_destructed(pmix_status_t status) {
  pmix_status_t wanted = PMIX_VERSION_MAJOR < 5 ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_SUCCESS;
  say_what("destruct", status == wanted ? PMIX_SUCCESS : status);
}

/* The server answers one client's requests in turn: after this one it has seen the last. */
static void leave_file(const char* what) {
  char path[400];
  get(me.rank, PMIX_LOCAL_RANK);
  snprintf(path, sizeof path, "%s/%s.%u", directory, what, me.rank);
  close(open(path, O_CREAT | O_WRONLY, 0600));
}

static void await_file(const char* what, pmix_rank_t rank) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s.%u", directory, what, rank);
  while (access(path, F_OK) != 0) usleep(20000);
}

/* Until all others but the last have a file. */
static void await_others(const char* what) {
  for (pmix_rank_t rank = 0; rank < last; ++rank) {
    if (rank != me.rank) await_file(what, rank);
  }
}

static void die(void) { raise(SIGKILL); }

/* By blocking calls: what members have put can be read, and a group of that name can be made again. */
static void all(void) {
  struct group* group = group_of("all", 0, 1);
  size_t first = 0;
  for (int round = 0; round < 3; ++round) {
    pmix_info_t info, *results = NULL;
    size_t nresults = 0;
    char key[20];
    snprintf(key, sizeof key, "key%d", round);
    put(key, 10 * me.rank);
    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
    must(PMIx_Group_construct(group->name, group->members, group->count, &info, 1, &results, &nresults),
         "construct");
    size_t id = group_id_in(results, nresults);
    if (id == 0 || id == SIZE_MAX || id == first) say("rank %u: no new id", me.rank);
    first = id;
    for (pmix_rank_t rank = 0; rank < size; ++rank) {
      if (get(rank, key) != 10 * rank) say("rank %u: wrong value of %u", me.rank, rank);
    }
    must(PMIx_Group_destruct(group->name, NULL, 0), "destruct");
  }
  say("rank %u: all", me.rank);
}

static void say_id(const struct group* group, int round) {
  say("rank %u: %s%d %zu", me.rank, group->name, round, group->id);
}

/* Each is in one of halves and in the whole, which ranks begin in different orders. */
static void orders(void) {
  struct group* half = group_of(me.rank % 2 == 0 ? "even" : "odd", me.rank % 2, 2);
  struct group* whole = group_of("whole", 0, 1);
  bool is_half_first = me.rank < size / 2;
  for (int round = 0; round < 5; ++round) {
    begin_construct(is_half_first ? half : whole);
    begin_construct(is_half_first ? whole : half);
    must(await(half), "construct half");
    must(await(whole), "construct whole");
    say_id(half, round);
    say_id(whole, round);
    begin_destruct(is_half_first ? whole : half);
    begin_destruct(is_half_first ? half : whole);
    must(await(half), "destruct half");
    must(await(whole), "destruct whole");
  }
}

/* The namespace in place of its ranks, by some; and a group that needs no other node. */
static void wildcard(void) {
  struct group* group = me.rank < 2 ? make("wild") : group_of("wild", 0, 1);
  struct group* near = make(me.rank < 2 ? "near0" : "near1");
  if (me.rank < 2) add(group, me.nspace, PMIX_RANK_WILDCARD);
  say_what("wild", construct(group));
  say_what("gone", destruct(group));
  add(near, me.nspace, me.rank / 2 * 2);
  add(near, me.nspace, me.rank / 2 * 2 + 1);
  must(construct(near), "construct");
  say_id(near, 0);
  must(destruct(near), "destruct");
}

/* The last does not come before the others have given up; then all do. */
static void timeout(void) {
  struct group* group = group_of("timeout", 0, 1);
  group->timeout = me.rank == last ? 0 : 2;
  if (me.rank == last) await_others("late");
  say_what("first", construct(group));
  if (me.rank != last) leave_file("late");
  group->timeout = 0;
  say_what("then", construct(group));
  /* From version 5 on libpmix takes the first of that name, which has no members, for it. */
  if (PMIX_VERSION_MAJOR < 5) must(destruct(group), "destruct");
}

/* The last ends before the others begin, and properly, or it is killed. */
static void before(bool is_killed, bool is_optional) {
  struct group* group = group_of("before", 0, 1);
  group->is_optional = is_optional;
  must(fence(false), "fence");
  if (me.rank == last) {
    if (is_killed) die();
    return;
  }
  await_file("ended", last);
  say_what("construct", construct(group));
  if (is_optional) say_destructed(destruct(group));
}

/* The last ends while the others wait. */
static void amid(bool is_optional) {
  struct group* group = group_of("amid", 0, 1);
  group->is_optional = is_optional;
  if (me.rank == last) {
    await_others("waits");
    die();
  }
  begin_construct(group);
  leave_file("waits");
  say_what("construct", await(group));
  if (is_optional) say_destructed(destruct(group));
}

/* The last ends once there is a group, and the others destruct that. */
static void after(void) {
  struct group* group = group_of("after", 0, 1);
  pmix_proc_t gone;
  group->notifies = true;
  listen_for(PMIX_GROUP_MEMBER_FAILED);
  must(construct(group), "construct");
  if (me.rank == last) {
    await_others("waits");
    return;
  }
  begin_destruct(group);
  leave_file("waits");
  say_what("destruct", await(group));
  await_event(&gone);
  say("rank %u: rank %u has gone", me.rank, gone.rank);
}

/* The last finalizes, or is killed, while there is a group. */
static void notified(void) {
  struct group* group = group_of("notified", 0, 1);
  pmix_proc_t gone;
  group->notifies = true;
  listen_for(PMIX_GROUP_MEMBER_FAILED);
  must(construct(group), "construct");
  if (me.rank == last) return;
  await_event(&gone);
  say("rank %u: rank %u has gone", me.rank, gone.rank);
  must(fence_without(last), "fence"); /* else one that goes first may be the one that others find gone */
}

/* All but the last wait, until its shell is gone. */
static void lost(void) {
  struct group* group = group_of("lost", 0, 1);
  must(fence(false), "fence");
  if (me.rank != last) begin_construct(group);
  leave_file("waits");
  if (me.rank == last) pause();
  say_what("construct", await(group));
  await_file("end", last);
}

/* ---- by invitation ------------------------------------------------------------------------- */

static void invite(void) {
  struct group* group = group_of("invited", 0, 1);
  pmix_info_t* results = NULL;
  size_t nresults = 0;
  pmix_proc_t leader;
  listen_for(PMIX_GROUP_INVITED);
  must(fence(false), "fence");
  if (me.rank == 0) {
    say_what("invite",
             PMIx_Group_invite(group->name, &group->members[1], group->count - 1, NULL, 0, &results, &nresults));
  } else {
    await_event(&leader);
    say_what("join", PMIx_Group_join(group->name, &leader, PMIX_GROUP_ACCEPT, NULL, 0, &results, &nresults));
  }
  must(fence(false), "fence");
}

/* ---- with what a task spawns ------------------------------------------------------------------ */

static void spawned(char** argv) {
  pmix_value_t* value = NULL;
  pmix_value_t name = {.type = PMIX_STRING};
  pmix_proc_t everybody;
  pmix_nspace_t child;
  struct group* group = make("family");
  PMIX_LOAD_PROCID(&everybody, me.nspace, PMIX_RANK_WILDCARD);
  bool is_child = PMIx_Get(&everybody, PMIX_PARENT_ID, NULL, 0, &value) == PMIX_SUCCESS;
  if (is_child) {
    add(group, value->data.proc->nspace, PMIX_RANK_WILDCARD), add(group, me.nspace, PMIX_RANK_WILDCARD);
  } else {
    if (me.rank == 0) {
      pmix_app_t app;
      PMIX_APP_CONSTRUCT(&app);
      app.cmd = strdup(argv[0]);
      app.argv = argv;
      app.maxprocs = 3;
      must(PMIx_Spawn(NULL, 0, &app, 1, child), "PMIx_Spawn");
      name.data.string = child;
      must(PMIx_Put(PMIX_GLOBAL, "child", &name), "PMIx_Put");
      must(PMIx_Commit(), "PMIx_Commit");
    }
    must(fence(true), "fence with data");
    everybody.rank = 0;
    must(PMIx_Get(&everybody, "child", NULL, 0, &value), "child");
    add(group, me.nspace, PMIX_RANK_WILDCARD), add(group, value->data.string, PMIX_RANK_WILDCARD);
  }
  put("number", (is_child ? 200 : 100) + me.rank);
  pmix_status_t status = construct(group);
  const char* others = group->members[is_child ? 0 : 1].nspace;
  say("%s %u: %s, id %s, %u", is_child ? "child" : "task", me.rank, name_of(status),
      group->id > 0 && group->id < SIZE_MAX ? "yes" : "no", get_from(others, 0, "number"));
  must(destruct(group), "destruct");
}

/* All come, and the time runs out later, once there is a group. */
static void in_time(void) {
  struct group* group = group_of("in-time", 0, 1);
  group->timeout = 2;
  must(construct(group), "construct");
  sleep(3);
  must(destruct(group), "destruct");
  must(fence(false), "fence");
  say("rank %u: in time", me.rank);
}

/* The last comes when the time of the other of its node is over. */
static void late(void) {
  struct group* group = group_of("late", 0, 1);
  group->timeout = 1;
  if (me.rank == last) sleep(3);
  say_what("construct", construct(group));
}

static void before_killed(void) { before(true, false); }
static void before_ended(void) { before(false, false); }
static void before_optional(void) { before(true, true); }
static void amid_killed(void) { amid(false); }
static void amid_optional(void) { amid(true); }

static const struct {
  const char* name;
  void (*run)(void);
} kWays[] = {
    {"all", all},
    {"orders", orders},
    {"wildcard", wildcard},
    {"timeout", timeout},
    {"in-time", in_time},
    {"late", late},
    {"before-killed", before_killed},
    {"before-ended", before_ended},
    {"before-optional", before_optional},
    {"amid", amid_killed},
    {"amid-optional", amid_optional},
    {"after", after},
    {"notified", notified},
    {"lost", lost},
    {"invite", invite},
};

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 2) directory = argv[2];
  begin();
  last = size - 1;
  if (strcmp(argv[1], "spawned") == 0) spawned(argv);
  for (size_t way = 0; way < sizeof kWays / sizeof *kWays; ++way) {
    if (strcmp(argv[1], kWays[way].name) == 0) kWays[way].run();
  }
  finish();
}
