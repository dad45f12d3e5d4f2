/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-plugin"
#include "probe.h"

static int freed;
static void count(void* value) {
  (void)value;
  ++freed;
}

static int nothing(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)p, (void)topic, (void)args, (void)data;
  return 0;
}

PROBE(identity) {
  EXPECT(same(flux_plugin_get_name(p), "probe-plugin"));
  EXPECT(strstr(flux_plugin_get_path(p), "/dso/probe_plugin.so") != NULL);
  EXPECT(strlen(flux_plugin_get_uuid(p)) == 36 && flux_plugin_get_uuid(p)[14] == '4');
  EXPECT((flux_plugin_get_flags(p) & FLUX_PLUGIN_RTLD_NOW) != 0);
  EXPECT(flux_plugin_set_flags(p, FLUX_PLUGIN_RTLD_LAZY) == 0 && flux_plugin_get_flags(p) == 1);
  FAILS(flux_plugin_set_flags(p, 64) == -1, EINVAL);
  EXPECT(same(flux_plugin_strerror(p), "unknown flags in 0x40"));
  FAILS(flux_plugin_set_name(p, NULL) == -1, EINVAL);
  FAILS(flux_plugin_set_name(p, "") == -1, EINVAL);
  FAILS(flux_plugin_set_name(NULL, "x") == -1, EINVAL);
  FAILS(flux_plugin_get_name(NULL) == NULL, EINVAL);
  FAILS(flux_plugin_get_path(NULL) == NULL, EINVAL);
  FAILS(flux_plugin_get_uuid(NULL) == NULL, EINVAL);
  FAILS(flux_plugin_get_flags(NULL) == -1, EINVAL);
  FAILS(flux_plugin_get_shell(NULL) == NULL, EINVAL);
}

PROBE(handlers) {
  EXPECT(flux_plugin_get_handler(p, "probe.handlers") == handlers);
  EXPECT(flux_plugin_match_handler(p, "any.thing") == NULL && errno == ENOENT);
  EXPECT(flux_plugin_add_handler(p, "any.*", nothing, NULL) == 0);
  EXPECT(flux_plugin_match_handler(p, "any.thing") == nothing);
  EXPECT(flux_plugin_get_handler(p, "any.thing") == NULL && errno == ENOENT);
  EXPECT(flux_plugin_get_handler(p, "any.*") == nothing);
  EXPECT(flux_plugin_remove_handler(p, "any.*") == 0);
  EXPECT(flux_plugin_match_handler(p, "any.thing") == NULL);
  FAILS(flux_plugin_add_handler(p, NULL, nothing, NULL) == -1, EINVAL);
  FAILS(flux_plugin_add_handler(p, "any.*", NULL, NULL) == -1, EINVAL);
  FAILS(flux_plugin_add_handler(NULL, "any.*", nothing, NULL) == -1, EINVAL);
  FAILS(flux_plugin_remove_handler(p, NULL) == -1, EINVAL);
  FAILS(flux_plugin_get_handler(p, NULL) == NULL, EINVAL);
  FAILS(flux_plugin_match_handler(NULL, "x") == NULL, EINVAL);
  FAILS(flux_plugin_register(p, NULL, NULL) == -1, EINVAL);
  FAILS(flux_plugin_register(NULL, "x", NULL) == -1, EINVAL);
}

PROBE(attached) {
  int a = 1, b = 2;
  freed = 0;
  FAILS(flux_plugin_aux_get(p, "key") == NULL, ENOENT);
  EXPECT(flux_plugin_aux_set(p, "key", &a, count) == 0);
  EXPECT(flux_plugin_aux_get(p, "key") == &a);
  EXPECT(flux_plugin_aux_set(p, "key", &b, count) == 0 && freed == 1);
  EXPECT(flux_plugin_aux_get(p, "key") == &b);
  EXPECT(flux_plugin_aux_set(p, "key", NULL, NULL) == 0 && freed == 2);
  FAILS(flux_plugin_aux_get(p, "key") == NULL, ENOENT);
  EXPECT(flux_plugin_aux_set(p, NULL, &a, count) == 0);
  flux_plugin_aux_delete_value(p, &a);
  EXPECT(freed == 3);
  FAILS(flux_plugin_aux_set(p, NULL, NULL, NULL) == -1, EINVAL);
  FAILS(flux_plugin_aux_set(p, NULL, &a, NULL) == -1, EINVAL);
  FAILS(flux_plugin_aux_set(p, "key", NULL, count) == -1, EINVAL);
  FAILS(flux_plugin_aux_set(NULL, "key", &a, NULL) == -1, EINVAL);
  FAILS(flux_plugin_aux_get(p, NULL) == NULL, EINVAL);
  FAILS(flux_plugin_aux_get(NULL, "key") == NULL, EINVAL);
}

PROBE(configuration) {
  const char* mode = NULL;
  int level = 0;
  EXPECT(same(flux_plugin_get_conf(p), "{\"level\":7,\"mode\":\"fast\"}"));
  EXPECT(flux_plugin_conf_unpack(p, "{s:s s:i}", "mode", &mode, "level", &level) == 0);
  EXPECT(same(mode, "fast") && level == 7);
  FAILS(flux_plugin_conf_unpack(p, "{s:i}", "mode", &level) == -1, EINVAL);
  EXPECT(same(flux_plugin_strerror(p), "configuration: Expected integer, got string"));
  FAILS(flux_plugin_conf_unpack(p, NULL) == -1, EINVAL);
  FAILS(flux_plugin_set_conf(p, "{") == -1, EINVAL);
  FAILS(flux_plugin_set_conf(p, "[]") == -1, EINVAL);
  FAILS(flux_plugin_set_conf(p, NULL) == -1, EINVAL);
  FAILS(flux_plugin_get_conf(NULL) == NULL, EINVAL);
}

PROBE(no_configuration) {
  FAILS(flux_plugin_get_conf(p) == NULL, ENOENT);
  FAILS(flux_plugin_conf_unpack(p, "{}") == -1, ENOENT);
}

/* Called with in {"number":5,"text":"five"} and out {"old":1}. */
PROBE(arguments) {
  int number = 0;
  const char* text = NULL;
  char* json = NULL;
  EXPECT(flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i s:s}", "number", &number, "text", &text) == 0);
  EXPECT(number == 5 && same(text, "five"));
  EXPECT(flux_plugin_arg_get(args, FLUX_PLUGIN_ARG_OUT, &json) == 0 && same_text(json, "{\"old\":1}"));
  EXPECT(flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s s:[i,i]}", "text", text, "list", 1, 2) == 0);
  EXPECT(flux_plugin_arg_set(args, FLUX_PLUGIN_ARG_OUT, "{\"flag\":true}") == 0);
  EXPECT(flux_plugin_arg_get(args, FLUX_PLUGIN_ARG_OUT, &json) == 0 &&
         same_text(json, "{\"flag\":true,\"list\":[1,2],\"old\":1,\"text\":\"five\"}"));
  FAILS(flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i}", "text", &number) == -1, EINVAL);
  EXPECT(same(flux_plugin_arg_strerror(args), "Expected integer, got string"));
  FAILS(flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, NULL) == -1, EINVAL);
  FAILS(flux_plugin_arg_unpack(args, 8, "{}") == -1, EINVAL);
  FAILS(flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "[i]", 1) == -1, EINVAL);
  FAILS(flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{") == -1, EINVAL);
  FAILS(flux_plugin_arg_set(args, FLUX_PLUGIN_ARG_OUT, "{") == -1, EINVAL);
  FAILS(flux_plugin_arg_get(args, FLUX_PLUGIN_ARG_OUT, NULL) == -1, EINVAL);
  flux_plugin_arg_t* empty = flux_plugin_arg_create();
  FAILS(flux_plugin_arg_get(empty, FLUX_PLUGIN_ARG_OUT, &json) == -1, ENOENT);
  flux_plugin_arg_destroy(empty);
  FAILS(flux_plugin_arg_get(NULL, FLUX_PLUGIN_ARG_OUT, &json) == -1, EINVAL);
  FAILS(flux_plugin_arg_pack(NULL, FLUX_PLUGIN_ARG_OUT, "{}") == -1, EINVAL);
}

PROBE(replaced_arguments) {
  EXPECT(flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT | FLUX_PLUGIN_ARG_REPLACE, "{s:i}", "new", 2) == 0);
}

PROBE(cleared_arguments) { EXPECT(flux_plugin_arg_set(args, FLUX_PLUGIN_ARG_OUT, NULL) == 0); }

/* The topic probe.answer, as another plugin might offer it. */
PROBE(answer) {
  int question = 0;
  EXPECT(flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:i}", "question", &question) == 0);
  EXPECT(flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:i}", "answer", question + 1) == 0);
}

static int refuse(flux_plugin_t* p, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)p, (void)topic, (void)args, (void)data;
  return -1;
}

PROBE(nested_calls) {
  int answer = 0;
  flux_plugin_arg_t* mine = flux_plugin_arg_create();
  EXPECT(flux_plugin_arg_pack(mine, FLUX_PLUGIN_ARG_IN, "{s:i}", "question", 41) == 0);
  EXPECT(flux_shell_plugstack_call(shell, "probe.answer", mine) == 0);
  EXPECT(flux_plugin_arg_unpack(mine, FLUX_PLUGIN_ARG_OUT, "{s:i}", "answer", &answer) == 0 && answer == 42);
  flux_plugin_arg_destroy(mine);
  EXPECT(flux_shell_plugstack_call(shell, "nobody.listens", NULL) == 0);
  FAILS(flux_shell_plugstack_call(shell, "probe.refuse", NULL) == -1, EINVAL);
  FAILS(flux_shell_plugstack_call(shell, NULL, NULL) == -1, EINVAL);
  FAILS(flux_shell_plugstack_call(NULL, "x", NULL) == -1, EINVAL);
}

PROBE(leave_aux_behind) {
  static int value;
  freed = 0;
  EXPECT(flux_plugin_aux_set(p, "left", &value, count) == 0);
  EXPECT(flux_shell_aux_set(shell, "left", &value, count) == 0);
}

static const struct flux_plugin_handler table[] = {
    {"probe.identity", identity, NULL},
    {"probe.handlers", handlers, NULL},
    {"probe.attached", attached, NULL},
    {"probe.configuration", configuration, NULL},
    {"probe.no-configuration", no_configuration, NULL},
    {"probe.arguments", arguments, NULL},
    {"probe.replaced-arguments", replaced_arguments, NULL},
    {"probe.cleared-arguments", cleared_arguments, NULL},
    {"probe.answer", answer, NULL},
    {"probe.refuse", refuse, NULL},
    {"probe.nested-calls", nested_calls, NULL},
    {"probe.leave-aux-behind", leave_aux_behind, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
