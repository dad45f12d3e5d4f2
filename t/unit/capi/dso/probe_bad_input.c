/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-bad-input"
#include "probe.h"

/* What no data matches, whatever follows. */
static const char* const bad_formats[] = {"", "{", "{s:", "{s:i", "{s:i]", "[", "}", "q", "s s", "{s:i}x", "{i:i}"};
#define EACH_BAD(i) for (size_t i = 0; i < sizeof bad_formats / sizeof bad_formats[0]; ++i)

/* The job's options are {"color":"red","nested":{"n":3}}. */
PROBE(formats_to_unpack) {
  int a = 7, b = 7;
  EACH_BAD(i) {
    const char* bad = bad_formats[i];
    FAILS(flux_shell_getopt_unpack(shell, "nested", bad, "n", &a, "n", &b) == -1, EINVAL);
    FAILS(flux_shell_info_unpack(shell, bad, "rank", &a, "size", &b) == -1, EINVAL);
    FAILS(flux_shell_rank_info_unpack(shell, 0, bad, "id", &a, "ntasks", &b) == -1, EINVAL);
    FAILS(flux_shell_jobspec_info_unpack(shell, bad, "version", &a, "ntasks", &b) == -1, EINVAL);
    FAILS(flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, bad, "n", &a, "n", &b) == -1, EINVAL);
  }
}

/* The formats are well-formed, the data is other. Nothing is written for the member that does not fit. */
PROBE(formats_that_do_not_match) {
  int n = 7, none = 7;
  const char* text = "kept";
  FAILS(flux_shell_getopt_unpack(shell, "color", "i", &n) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(shell, "color", "{s:i}", "n", &n) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(shell, "nested", "s", &text) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(shell, "nested", "{s:i}", "m", &none) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(shell, "nested", "{s:s}", "n", &text) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(shell, "nested", "[i]", &none) == -1, EINVAL);
  FAILS(flux_shell_getopt_unpack(shell, "nested", "{!}") == -1, EINVAL);       /* there is more in it */
  EXPECT(flux_shell_getopt_unpack(shell, "nested", "{s?i}", "m", &none) == 1); /* need not be there */
  FAILS(flux_shell_info_unpack(shell, "{s:s}", "ntasks", &text) == -1, EINVAL);
  FAILS(flux_shell_info_unpack(shell, "[o]", NULL) == -1, EINVAL);
  FAILS(flux_shell_rank_info_unpack(shell, 0, "{s:s}", "id", &text) == -1, EINVAL);
  FAILS(flux_shell_jobspec_info_unpack(shell, "{s:s}", "ntasks", &text) == -1, EINVAL);
  FAILS(flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i}", "missing", &none) == -1, EINVAL);
  EXPECT(same(flux_plugin_arg_strerror(args), "Object item not found: missing"));
  EXPECT(n == 7 && none == 7 && same(text, "kept"));
}

PROBE(formats_to_pack) {
  EACH_BAD(i) {
    FAILS(flux_shell_setopt_pack(shell, "made", bad_formats[i], "n", 1, "n", 2) == -1, EINVAL);
    FAILS(flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, bad_formats[i], "n", 1, "n", 2) == -1, EINVAL);
    FAILS(flux_shell_add_event_context(shell, "shell.init", 0, bad_formats[i], "n", 1, "n", 2) == -1, EINVAL);
  }
  FAILS(flux_shell_setopt_pack(shell, "made", "{s:s}", "n", "\xff") == -1, EINVAL); /* no UTF-8 */
  FAILS(flux_shell_setopt_pack(shell, "made", "{s:s}", "n", NULL) == -1, EINVAL);
  FAILS(flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "s", "no object") == -1, EINVAL);
  FAILS(flux_shell_add_event_context(shell, "shell.init", 0, "[i]", 1) == -1, EINVAL);
  EXPECT(flux_shell_getopt(shell, "made", NULL) == 0);
}

/* Another plugin's handlers of these topics fail. */
PROBE(refused) {
  const char* xml = NULL;
  flux_plugin_arg_t* mine = flux_plugin_arg_create();
  FAILS(flux_shell_get_hwloc_xml(shell, &xml) == -1, EINVAL);
  EXPECT(xml == NULL);
  FAILS(flux_shell_log_setlevel(FLUX_SHELL_NOTICE, NULL) == -1, EINVAL);
  FAILS(flux_shell_mustache_render(shell, "a {{refused}} tag") == NULL, EINVAL);
  FAILS(flux_shell_plugstack_call(shell, "refused", mine) == -1, EINVAL);
  flux_plugin_arg_destroy(mine);
}

static int freed[3];
static flux_plugin_t* owner;
static void count(void* item) { ++*(int*)item; }
static void attach_another(void* item) {
  ++*(int*)item;
  if (item != &freed[2]) flux_plugin_aux_set(owner, "key", &freed[2], count);
}
static void remove_itself(void* item) {
  ++*(int*)item;
  flux_plugin_aux_delete_value(owner, item);
  flux_plugin_aux_set(owner, "key", NULL, NULL);
}

PROBE(freeing) {
  owner = p;
  memset(freed, 0, sizeof freed);
  EXPECT(flux_plugin_aux_set(p, "key", &freed[0], count) == 0 &&
         flux_plugin_aux_set(p, "key", &freed[0], count) == 0);
  EXPECT(freed[0] == 1); /* replaced, by itself */
  EXPECT(flux_plugin_aux_set(p, NULL, &freed[0], count) == 0);
  flux_plugin_aux_delete_value(p, &freed[0]);
  flux_plugin_aux_delete_value(p, &freed[0]);
  flux_plugin_aux_delete_value(p, &freed[0]);
  EXPECT(freed[0] == 3); /* it was there twice */
  flux_plugin_aux_delete_value(p, NULL);
  flux_plugin_aux_delete_value(NULL, p);
  flux_plugin_aux_delete_value(p, &freed[1]); /* was never there */
  EXPECT(freed[1] == 0);

  EXPECT(flux_plugin_aux_set(p, "key", &freed[1], attach_another) == 0);
  EXPECT(flux_plugin_aux_set(p, "key", NULL, NULL) == 0);
  EXPECT(freed[1] == 1 && flux_plugin_aux_get(p, "key") == &freed[2]);
  EXPECT(flux_plugin_aux_set(p, "key", &freed[0], remove_itself) == 0 && freed[2] == 1);
  flux_plugin_aux_delete_value(p, &freed[0]);
  EXPECT(freed[0] == 4 && flux_plugin_aux_get(p, "key") == NULL);
}

static int never(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)p, (void)topic, (void)args, (void)data;
  return -1;
}

static int once(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)args;
  ++*(int*)data;
  /* Itself twice, and the one that the other plugin made for this topic is not its to remove. */
  return flux_plugin_remove_handler(p, topic) < 0 ? -1 : flux_plugin_remove_handler(p, topic);
}

PROBE(changing_handlers) {
  int calls = 0;
  EXPECT(flux_plugin_add_handler(p, "made.on.the.way", never, NULL) == 0);
  EXPECT(flux_plugin_add_handler(p, "made.on.the.way", once, &calls) == 0); /* instead */
  EXPECT(flux_shell_plugstack_call(shell, "made.on.the.way", NULL) == 0 && calls == 1);
  EXPECT(flux_shell_plugstack_call(shell, "made.on.the.way", NULL) == 0 && calls == 1);
  EXPECT(flux_plugin_add_handler(p, "made.on.*", once, &calls) == 0);
  EXPECT(flux_shell_plugstack_call(shell, "made.on.the.way", NULL) == 0 && calls == 2);
  EXPECT(flux_plugin_match_handler(p, "made.on.the.way") == once); /* it is by another name there */
  EXPECT(flux_plugin_remove_handler(p, "made.on.*") == 0);
  EXPECT(flux_plugin_remove_handler(p, "probe.changing-handlers") == 0); /* which runs */
  EXPECT(flux_plugin_get_handler(p, "probe.changing-handlers") == NULL);
}

PROBE(outside_of_tasks) {
  int rank = 7;
  char* json = NULL;
  flux_shell_task_t* task = flux_shell_current_task(shell);
  EXPECT(task == NULL);
  FAILS(flux_shell_task_info_unpack(task, "{s:i}", "rank", &rank) == -1, EINVAL);
  FAILS(flux_shell_task_get_info(task, &json) == -1, EINVAL);
  FAILS(flux_shell_task_cmd(task) == NULL, EINVAL);
  FAILS(flux_shell_task_mustache_render(shell, task, "{{task.id}}") == NULL, EINVAL);
  EXPECT(rank == 7 && json == NULL);
}

static const struct flux_plugin_handler table[] = {
    {"probe.formats-to-unpack", formats_to_unpack, NULL},
    {"probe.formats-that-do-not-match", formats_that_do_not_match, NULL},
    {"probe.formats-to-pack", formats_to_pack, NULL},
    {"probe.refused", refused, NULL},
    {"probe.freeing", freeing, NULL},
    {"probe.changing-handlers", changing_handlers, NULL},
    {"probe.outside-of-tasks", outside_of_tasks, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
