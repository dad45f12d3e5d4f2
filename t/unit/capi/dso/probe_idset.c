/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-idset"
#include "probe.h"

#define NONE IDSET_INVALID_ID
#define MAX_ID ((unsigned int)(IDSET_MAX_UNIVERSE - 1))

/* What the set holds, in ranges. */
static int holds(const struct idset* set, const char* expected) {
  return same_text(idset_encode(set, IDSET_FLAG_RANGE), expected);
}

static int size_is(const struct idset* set, size_t expected) {
  size_t size = idset_universe_size(set);
  if (size != expected) shell_log_error("universe of %zu", size);
  return size == expected;
}

PROBE(names) {
  EXPECT(IDSET_INVALID_ID == 4294967294u && IDSET_MAX_UNIVERSE == 2147483648u);
  EXPECT(IDSET_FLAG_AUTOGROW == 1 && IDSET_FLAG_BRACKETS == 2 && IDSET_FLAG_RANGE == 4);
  EXPECT(IDSET_FLAG_INITFULL == 8 && IDSET_FLAG_COUNT_LAZY == 16 && IDSET_FLAG_ALLOC_RR == 32);
  EXPECT(sizeof((idset_error_t*)0)->text == 160);
  EXPECT(MAX(1, 2) == 2); /* of <sys/param.h> */
}

PROBE(creating) {
  struct idset *fixed = idset_create(5, 0), *usual = idset_create(0, 0),
               *full = idset_create(5, IDSET_FLAG_INITFULL);
  EXPECT(size_is(fixed, 5) && idset_empty(fixed));
  EXPECT(size_is(usual, 1024) && idset_empty(usual));
  EXPECT(size_is(full, 5) && holds(full, "0-4"));
  idset_destroy(fixed);
  idset_destroy(usual);
  idset_destroy(full);

  struct idset* all = idset_create(IDSET_MAX_UNIVERSE, IDSET_FLAG_INITFULL | IDSET_FLAG_COUNT_LAZY);
  EXPECT(idset_count(all) == IDSET_MAX_UNIVERSE && holds(all, "0-2147483647"));
  errno = ENOENT;
  idset_destroy(all);
  idset_destroy(NULL);
  EXPECT(errno == ENOENT); /* destroy keeps it */

  FAILS(idset_create(IDSET_MAX_UNIVERSE + 1, 0) == NULL, ERANGE);
  FAILS(idset_create(5, IDSET_FLAG_RANGE) == NULL, EINVAL);
  FAILS(idset_create(5, IDSET_FLAG_BRACKETS) == NULL, EINVAL);
  FAILS(idset_create(5, 64) == NULL, EINVAL);
  FAILS(idset_copy(NULL) == NULL, EINVAL);
  EXPECT(idset_universe_size(NULL) == 0);
}

PROBE(copying) {
  struct idset* set = idset_create(8, IDSET_FLAG_AUTOGROW | IDSET_FLAG_INITFULL | IDSET_FLAG_ALLOC_RR);
  unsigned int id;
  EXPECT(idset_alloc(set, &id) == 0 && id == 0);
  idset_free(set, 0);
  struct idset* copy = idset_copy(set);
  EXPECT(size_is(copy, 8) && idset_equal(set, copy));
  EXPECT(idset_alloc(copy, &id) == 0 && id == 1); /* after the one that was taken last */
  EXPECT(idset_clear(copy, 8) == 0 && size_is(copy, 16) && holds(copy, "0,2-7,9-15"));
  EXPECT(size_is(set, 8) && holds(set, "0-7"));
  idset_destroy(set);
  idset_destroy(copy);
}

PROBE(changing) {
  struct idset* set = idset_create(10, 0);
  EXPECT(idset_set(set, 3) == 0 && idset_set(set, 3) == 0 && idset_set(set, 9) == 0 && holds(set, "3,9"));
  EXPECT(idset_range_set(set, 5, 7) == 0 && idset_range_set(set, 1, 0) == 0 && holds(set, "0-1,3,5-7,9"));
  EXPECT(idset_clear(set, 3) == 0 && idset_clear(set, 4) == 0 && holds(set, "0-1,5-7,9"));
  EXPECT(idset_range_clear(set, 6, 9) == 0 && idset_range_clear(set, 0, 0) == 0 && holds(set, "1,5"));
  EXPECT(idset_range_clear(set, 5, 1) == 0 && idset_empty(set));

  EXPECT(idset_range_set(set, 2, 9) == 0);
  FAILS(idset_set(set, 10) == -1, EINVAL); /* beyond its universe */
  FAILS(idset_range_set(set, 0, 10) == -1, EINVAL);
  EXPECT(idset_clear(set, 10) == 0 && idset_range_clear(set, 8, MAX_ID) == 0); /* not in it */
  EXPECT(holds(set, "2-7") && size_is(set, 10));

  FAILS(idset_set(NULL, 1) == -1, EINVAL);
  FAILS(idset_set(set, NONE) == -1, EINVAL);
  FAILS(idset_set(set, UINT_MAX) == -1, EINVAL);
  FAILS(idset_range_set(NULL, 1, 2) == -1, EINVAL);
  FAILS(idset_range_set(set, NONE, 2) == -1, EINVAL);
  FAILS(idset_range_set(set, 1, NONE) == -1, EINVAL);
  FAILS(idset_clear(NULL, 1) == -1, EINVAL);
  FAILS(idset_clear(set, NONE) == -1, EINVAL);
  FAILS(idset_range_clear(NULL, 1, 2) == -1, EINVAL);
  FAILS(idset_range_clear(set, NONE, 2) == -1, EINVAL);
  FAILS(idset_range_clear(set, 1, NONE) == -1, EINVAL);
  EXPECT(holds(set, "2-7"));
  idset_destroy(set);
}

PROBE(growing) {
  struct idset* set = idset_create(3, IDSET_FLAG_AUTOGROW);
  EXPECT(idset_set(set, 2) == 0 && size_is(set, 3));
  EXPECT(idset_set(set, 3) == 0 && size_is(set, 6));
  EXPECT(idset_range_set(set, 20, 30) == 0 && size_is(set, 48) && holds(set, "2-3,20-30"));
  EXPECT(idset_clear(set, 100) == 0 && idset_range_clear(set, 30, 4000000000u) == 0);
  EXPECT(size_is(set, 48) && holds(set, "2-3,20-29")); /* clearing does not grow it */
  EXPECT(idset_set(set, MAX_ID) == 0 && size_is(set, IDSET_MAX_UNIVERSE));
  FAILS(idset_set(set, MAX_ID + 1) == -1, ERANGE);
  FAILS(idset_set(set, (unsigned int)-586) == -1, ERANGE);
  FAILS(idset_range_set(set, 0, 3999999998u) == -1, ERANGE);
  FAILS(idset_set(set, NONE) == -1, EINVAL);
  FAILS(idset_range_set(set, 0, NONE) == -1, EINVAL);
  EXPECT(holds(set, "2-3,20-29,2147483647"));
  idset_destroy(set);
}

PROBE(growing_full) {
  struct idset* set = idset_create(4, IDSET_FLAG_AUTOGROW | IDSET_FLAG_INITFULL);
  EXPECT(idset_clear(set, 1) == 0 && size_is(set, 4) && holds(set, "0,2-3"));
  EXPECT(idset_clear(set, 9) == 0 && size_is(set, 16) && holds(set, "0,2-8,10-15"));
  EXPECT(idset_set(set, 16) == 0 && size_is(set, 32) && holds(set, "0,2-8,10-31"));
  EXPECT(idset_range_clear(set, 40, 2) == 0 && size_is(set, 64) && holds(set, "0,41-63"));
  FAILS(idset_clear(set, MAX_ID + 1) == -1, ERANGE);
  FAILS(idset_range_clear(set, 0, 4000000000u) == -1, ERANGE);
  FAILS(idset_range_clear(set, 0, NONE) == -1, EINVAL);
  EXPECT(size_is(set, 64) && holds(set, "0,41-63"));
  EXPECT(idset_clear(set, MAX_ID) == 0 && holds(set, "0,41-2147483646"));
  idset_destroy(set);

  set = idset_create(4, IDSET_FLAG_INITFULL);
  EXPECT(idset_clear(set, 9) == 0 && size_is(set, 4) && holds(set, "0-3"));
  FAILS(idset_set(set, 4) == -1, EINVAL);
  idset_destroy(set);
}

PROBE(asking) {
  struct idset *set = idset_decode("0-3,7"), *empty = idset_create(5, 0);
  EXPECT(idset_count(set) == 5 && idset_count(empty) == 0 && idset_count(NULL) == 0);
  EXPECT(!idset_empty(set) && idset_empty(empty) && idset_empty(NULL));
  EXPECT(idset_test(set, 2) && !idset_test(set, 4) && !idset_test(set, NONE) && !idset_test(NULL, 0));
  EXPECT(idset_first(set) == 0 && idset_last(set) == 7);
  EXPECT(idset_next(set, 0) == 1 && idset_next(set, 3) == 7 && idset_next(set, 7) == NONE);
  EXPECT(idset_prev(set, 7) == 3 && idset_prev(set, 1) == 0 && idset_prev(set, 0) == NONE);
  EXPECT(idset_next(set, NONE) == NONE && idset_next(set, UINT_MAX) == NONE);
  EXPECT(idset_prev(set, NONE) == NONE && idset_prev(set, UINT_MAX) == NONE && idset_prev(set, 5000) == 7);
  EXPECT(idset_first(empty) == NONE && idset_last(empty) == NONE);
  EXPECT(idset_next(empty, 0) == NONE && idset_prev(empty, 5) == NONE);
  EXPECT(idset_first(NULL) == NONE && idset_last(NULL) == NONE);
  EXPECT(idset_next(NULL, 0) == NONE && idset_prev(NULL, 1) == NONE);
  idset_destroy(set);
  idset_destroy(empty);
}

PROBE(combining) {
  struct idset *a = idset_decode("0-3,10"), *b = idset_create(3000, IDSET_FLAG_INITFULL), *result;
  EXPECT(idset_range_clear(b, 4, 2998) == 0 && idset_clear(b, 0) == 0 && holds(b, "1-3,2999"));
  EXPECT((result = idset_union(a, b)) != NULL && holds(result, "0-3,10,2999") && size_is(result, 3000));
  EXPECT(idset_set(result, 3000) == 0 && holds(result, "0-3,10,2999-3000")); /* grows, and not full */
  idset_destroy(result);
  EXPECT((result = idset_difference(a, b)) != NULL && holds(result, "0,10"));
  idset_destroy(result);
  EXPECT((result = idset_intersect(a, b)) != NULL && holds(result, "1-3") && size_is(result, 3000));
  idset_destroy(result);
  EXPECT((result = idset_difference(a, a)) != NULL && idset_empty(result) && size_is(result, 1024));
  EXPECT(!idset_has_intersection(a, result) && idset_has_intersection(a, b));
  EXPECT(!idset_has_intersection(a, NULL) && !idset_has_intersection(NULL, a));
  EXPECT(!idset_equal(a, b) && !idset_equal(a, NULL) && !idset_equal(NULL, a) && !idset_equal(NULL, NULL));
  EXPECT(idset_add(result, a) == 0 && idset_equal(a, result)); /* of another universe */
  idset_destroy(result);
  EXPECT((result = idset_union(a, NULL)) != NULL && idset_equal(result, a));
  idset_destroy(result);
  FAILS(idset_union(NULL, a) == NULL, EINVAL);
  EXPECT((result = idset_difference(a, NULL)) != NULL && idset_equal(result, a));
  FAILS(idset_difference(NULL, a) == NULL, EINVAL);
  FAILS(idset_intersect(a, NULL) == NULL, EINVAL);
  FAILS(idset_intersect(NULL, a) == NULL, EINVAL);
  idset_destroy(a);
  idset_destroy(b);
  idset_destroy(result);
}

PROBE(adding) {
  struct idset *a = idset_create(8, 0), *b = idset_decode("2-3"), *large = idset_decode("1,8");
  EXPECT(idset_add(a, b) == 0 && idset_add(a, a) == 0 && holds(a, "2-3"));
  FAILS(idset_add(a, large) == -1, EINVAL);
  EXPECT(holds(a, "2-3"));
  EXPECT(idset_set(a, 1) == 0 && idset_subtract(a, large) == 0 && holds(a, "2-3") && size_is(a, 8));
  EXPECT(idset_add(b, large) == 0 && holds(b, "1-3,8"));
  EXPECT(idset_subtract(b, a) == 0 && holds(b, "1,8"));
  EXPECT(idset_clear_all(b) == 0 && idset_empty(b));
  EXPECT(idset_add(a, b) == 0 && idset_subtract(a, b) == 0 && holds(a, "2-3"));
  struct idset* full = idset_create(4, IDSET_FLAG_AUTOGROW | IDSET_FLAG_INITFULL);
  EXPECT(idset_subtract(full, large) == 0 && size_is(full, 16) && holds(full, "0,2-7,9-15"));
  FAILS(idset_add(NULL, a) == -1, EINVAL);
  EXPECT(idset_add(a, NULL) == 0);
  FAILS(idset_subtract(NULL, a) == -1, EINVAL);
  EXPECT(idset_subtract(a, NULL) == 0);
  idset_destroy(a);
  idset_destroy(b);
  idset_destroy(large);
  idset_destroy(full);
}

PROBE(storing) {
  unsigned int id;
  struct idset* store = idset_create(3, IDSET_FLAG_INITFULL);
  EXPECT(idset_alloc(store, &id) == 0 && id == 0);
  idset_free(store, 0);
  for (unsigned int each = 0; each < 3; ++each) EXPECT(idset_alloc(store, &id) == 0 && id == each);
  FAILS(idset_alloc(store, &id) == -1, EINVAL); /* none left */
  idset_free(store, 1);
  FAILS(idset_free_check(store, 1) == -1, EEXIST);
  idset_free(store, 1);
  EXPECT(idset_free_check(store, 2) == 0 && holds(store, "1-2"));
  EXPECT(idset_alloc(store, &id) == 0 && id == 1); /* the first that is free */
  FAILS(idset_free_check(store, 3) == -1, EINVAL);
  FAILS(idset_free_check(store, NONE) == -1, EINVAL);
  FAILS(idset_free_check(NULL, 1) == -1, EINVAL);
  idset_free(NULL, 1);
  FAILS(idset_alloc(NULL, &id) == -1, EINVAL);
  FAILS(idset_alloc(store, NULL) == -1, EINVAL);
  idset_destroy(store);

  struct idset* no_store = idset_create(3, IDSET_FLAG_AUTOGROW);
  EXPECT(idset_set(no_store, 1) == 0);
  FAILS(idset_alloc(no_store, &id) == -1, EINVAL);
  FAILS(idset_free_check(no_store, 2) == -1, EINVAL);
  idset_free(no_store, 2);
  EXPECT(holds(no_store, "1"));
  idset_destroy(no_store);
}

PROBE(storing_more) {
  unsigned int id;
  struct idset* store = idset_create(2, IDSET_FLAG_INITFULL | IDSET_FLAG_AUTOGROW);
  for (unsigned int each = 0; each < 5; ++each) EXPECT(idset_alloc(store, &id) == 0 && id == each);
  EXPECT(size_is(store, 8) && holds(store, "5-7"));
  EXPECT(idset_range_clear(store, 0, MAX_ID) == 0);
  FAILS(idset_alloc(store, &id) == -1, ERANGE);
  idset_destroy(store);

  store = idset_create(3, IDSET_FLAG_INITFULL | IDSET_FLAG_ALLOC_RR);
  EXPECT(idset_alloc(store, &id) == 0 && id == 0);
  idset_free(store, 0);
  EXPECT(idset_alloc(store, &id) == 0 && id == 1);
  EXPECT(idset_alloc(store, &id) == 0 && id == 2);
  EXPECT(idset_alloc(store, &id) == 0 && id == 0); /* round */
  FAILS(idset_alloc(store, &id) == -1, EINVAL);
  idset_destroy(store);
}

static const struct flux_plugin_handler table[] = {
    {"probe.names", names, NULL},
    {"probe.creating", creating, NULL},
    {"probe.copying", copying, NULL},
    {"probe.changing", changing, NULL},
    {"probe.growing", growing, NULL},
    {"probe.growing-full", growing_full, NULL},
    {"probe.asking", asking, NULL},
    {"probe.combining", combining, NULL},
    {"probe.adding", adding, NULL},
    {"probe.storing", storing, NULL},
    {"probe.storing-more", storing_more, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
