/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-hostlist"
#include "probe.h"

PROBE(of_the_job) {
  const struct hostlist* hosts = flux_shell_get_hostlist(shell);
  struct hostlist* copy = hostlist_copy(hosts);
  EXPECT(flux_shell_get_hostlist(shell) == hosts);
  EXPECT(same_text(hostlist_encode(copy), "fake0"));
  FAILS(flux_shell_get_hostlist(NULL) == NULL, EINVAL);
  hostlist_destroy(copy);
}

PROBE(text) {
  struct hostlist *list = hostlist_decode("node[0-3],login"), *empty = hostlist_create();
  EXPECT(hostlist_count(list) == 5 && hostlist_count(empty) == 0 && hostlist_count(NULL) == 0);
  EXPECT(!hostlist_is_empty(list) && hostlist_is_empty(empty));
  EXPECT(same_text(hostlist_encode(list), "node[0-3],login"));
  EXPECT(same_text(hostlist_encode(empty), ""));
  FAILS(hostlist_encode(NULL) == NULL, EINVAL);
  FAILS(hostlist_decode(NULL) == NULL, EINVAL);
  FAILS(hostlist_decode("node[0-") == NULL, EINVAL);
  FAILS(hostlist_decode("node[0-99999999]") == NULL, ERANGE);
  FAILS(hostlist_decode("node[0-9999999999999999999]") == NULL, ERANGE);
  FAILS(hostlist_copy(NULL) == NULL, EINVAL);
  errno = ENOENT;
  hostlist_destroy(NULL);
  hostlist_destroy(list);
  EXPECT(errno == ENOENT); /* destroy keeps it */
  hostlist_destroy(empty);
}

PROBE(cursor) {
  struct hostlist *list = hostlist_decode("a,b,c"), *empty = hostlist_create();
  EXPECT(same(hostlist_current(list), "a"));
  EXPECT(same(hostlist_next(list), "b") && same(hostlist_current(list), "b"));
  EXPECT(same(hostlist_last(list), "c"));
  FAILS(hostlist_next(list) == NULL, ENOENT);
  FAILS(hostlist_next(list) == NULL, ENOENT);
  FAILS(hostlist_current(list) == NULL, ENOENT);
  EXPECT(same(hostlist_first(list), "a"));
  EXPECT(same(hostlist_nth(list, 2), "c") && same(hostlist_current(list), "c"));
  FAILS(hostlist_nth(list, 3) == NULL, ENOENT);
  EXPECT(same(hostlist_current(list), "c"));
  FAILS(hostlist_nth(list, -1) == NULL, EINVAL);
  EXPECT(hostlist_find(list, "b") == 1 && same(hostlist_current(list), "b"));
  FAILS(hostlist_find(list, "x") == -1, ENOENT);
  FAILS(hostlist_find(list, NULL) == -1, EINVAL);
  FAILS(hostlist_find(NULL, "a") == -1, EINVAL);
  FAILS(hostlist_first(empty) == NULL, ENOENT);
  FAILS(hostlist_last(empty) == NULL, ENOENT);
  FAILS(hostlist_next(empty) == NULL, ENOENT);
  FAILS(hostlist_first(NULL) == NULL, EINVAL);
  FAILS(hostlist_last(NULL) == NULL, EINVAL);
  FAILS(hostlist_next(NULL) == NULL, EINVAL);
  FAILS(hostlist_current(NULL) == NULL, EINVAL);
  FAILS(hostlist_nth(NULL, 0) == NULL, EINVAL);
  hostlist_destroy(list);
  hostlist_destroy(empty);
}

PROBE(finding) {
  struct hostlist *list = hostlist_decode("a,n[1-3],n2"), *other = hostlist_decode("n2");
  struct hostlist_hostname *n2 = hostlist_hostname_create("n2"), *x = hostlist_hostname_create("x");
  EXPECT(hostlist_find_hostname(list, n2) == 2 && same(hostlist_current(list), "n2"));
  EXPECT(hostlist_find_hostname(other, n2) == 0);
  FAILS(hostlist_find_hostname(list, x) == -1, ENOENT);
  EXPECT(same(hostlist_current(list), "n2"));
  FAILS(hostlist_find_hostname(list, NULL) == -1, EINVAL);
  FAILS(hostlist_find_hostname(NULL, n2) == -1, EINVAL);
  FAILS(hostlist_hostname_create(NULL) == NULL, EINVAL);
  errno = ENOENT;
  hostlist_hostname_destroy(n2);
  hostlist_hostname_destroy(x);
  hostlist_hostname_destroy(NULL);
  EXPECT(errno == ENOENT); /* destroy keeps it */
  hostlist_destroy(list);
  hostlist_destroy(other);
}

PROBE(appending) {
  struct hostlist *list = hostlist_create(), *more = hostlist_decode("n[1-2]");
  EXPECT(hostlist_append(list, "n0") == 1 && hostlist_append(list, "") == 0);
  EXPECT(hostlist_append_list(list, more) == 2);
  EXPECT(hostlist_append_list(list, list) == 3);
  EXPECT(same_text(hostlist_encode(list), "n[0-2,0-2]"));
  FAILS(hostlist_append(list, "n[") == -1, EINVAL);
  FAILS(hostlist_append(list, "n[0-99999999]") == -1, ERANGE);
  EXPECT(hostlist_append(list, NULL) == 0);
  FAILS(hostlist_append(NULL, "n0") == -1, EINVAL);
  FAILS(hostlist_append_list(list, NULL) == -1, EINVAL);
  FAILS(hostlist_append_list(NULL, list) == -1, EINVAL);
  EXPECT(hostlist_count(list) == 6);
  EXPECT(hostlist_append(more, "m[0-1048573]") == 1048574);
  FAILS(hostlist_append(more, "x") == -1, ERANGE); /* over the limit of a list */
  hostlist_destroy(list);
  hostlist_destroy(more);
}

PROBE(removing) {
  struct hostlist* list = hostlist_decode("n[0-9],n3");
  EXPECT(same(hostlist_nth(list, 5), "n5"));
  EXPECT(hostlist_delete(list, "n[0-1],n5,x") == 3);
  EXPECT(same(hostlist_current(list), "n6")); /* the next that is left */
  EXPECT(same_text(hostlist_encode(list), "n[2-4,6-9,3]"));
  EXPECT(hostlist_delete(list, "n3") == 1); /* the first of two */
  EXPECT(same_text(hostlist_encode(list), "n[2,4,6-9,3]"));
  EXPECT(same(hostlist_current(list), "n6"));
  EXPECT(hostlist_remove_current(list) == 1 && same(hostlist_current(list), "n7"));
  EXPECT(same(hostlist_last(list), "n3") && hostlist_remove_current(list) == 1);
  FAILS(hostlist_current(list) == NULL, ENOENT);
  EXPECT(hostlist_remove_current(list) == 0); /* there is none */
  EXPECT(same_text(hostlist_encode(list), "n[2,4,7-9]"));
  int visits = 0; /* each host, though it is removed on the way */
  for (const char* host = hostlist_first(list); host != NULL; host = hostlist_next(list)) {
    ++visits;
    if (same(host, "n4") || same(host, "n7") || same(host, "n9")) EXPECT(hostlist_remove_current(list) == 1);
  }
  EXPECT(visits == 5 && same_text(hostlist_encode(list), "n[2,8]"));
  FAILS(hostlist_remove_current(NULL) == -1, EINVAL);
  FAILS(hostlist_delete(list, NULL) == -1, EINVAL);
  FAILS(hostlist_delete(list, "n[") == -1, EINVAL);
  FAILS(hostlist_delete(list, "n[0-99999999]") == -1, ERANGE);
  FAILS(hostlist_delete(NULL, "n") == -1, EINVAL);
  hostlist_destroy(list);
}

PROBE(sorting) {
  struct hostlist* list = hostlist_decode("n10,n9,m1,n9");
  hostlist_last(list);
  hostlist_sort(list);
  EXPECT(same(hostlist_current(list), "m1"));
  EXPECT(same_text(hostlist_encode(list), "m1,n[9,9-10]"));
  hostlist_uniq(list);
  EXPECT(same_text(hostlist_encode(list), "m1,n[9-10]"));
  hostlist_destroy(list);
  list = hostlist_decode("n100,n[0-20],n45,n12,n015"); /* by width, then by number */
  hostlist_uniq(list);
  EXPECT(same_text(hostlist_encode(list), "n[0-20,45],n[015,100]"));
  hostlist_sort(NULL);
  hostlist_uniq(NULL);
  hostlist_destroy(list);
}

static const struct flux_plugin_handler table[] = {
    {"probe.of-the-job", of_the_job, NULL}, {"probe.text", text, NULL},
    {"probe.cursor", cursor, NULL},         {"probe.finding", finding, NULL},
    {"probe.appending", appending, NULL},   {"probe.removing", removing, NULL},
    {"probe.sorting", sorting, NULL},       {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
