/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-idset-text"
#include "probe.h"

#define GROWS IDSET_FLAG_AUTOGROW

/* What the text stands for, in ranges. */
static int means(const char* text, const char* expected) {
  struct idset* set = idset_decode(text);
  int equal = set != NULL && same_text(idset_encode(set, IDSET_FLAG_RANGE), expected);
  idset_destroy(set);
  return equal;
}

static int encodes(const char* text, int flags, const char* expected) {
  struct idset* set = idset_decode(text);
  int equal = set != NULL && same_text(idset_encode(set, flags), expected);
  idset_destroy(set);
  return equal;
}

PROBE(decoding) {
  /* RFC 22 and idset_decode(3). */
  EXPECT(means("1,2,3,5,6,42", "1-3,5-6,42") && means("1-3,5-6,42", "1-3,5-6,42"));
  EXPECT(means("[1-3,5-6,42]", "1-3,5-6,42") && means("1-4,7,9-10", "1-4,7,9-10"));
  EXPECT(means("42", "42") && means("[99-101]", "99-101") && means("", "") && means("[]", ""));
  EXPECT(means("2147483647", "2147483647"));
  static const char* const bad[] = {"0-",  "-1",  "x",   "1,", ",1", "1,,2",  "01",  " 1",   "1 2",
                                    "3,2", "3-0", "2,2", "[1", "1]", "1-2-3", "1;2", "[1],2"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) FAILS(idset_decode(bad[i]) == NULL, EINVAL);
  FAILS(idset_decode(NULL) == NULL, EINVAL);
  FAILS(idset_decode("2147483648") == NULL, ERANGE);
  FAILS(idset_decode("0-4294967293") == NULL, ERANGE);
  FAILS(idset_decode("99999999999999999999999") == NULL, ERANGE);
}

PROBE(decoding_grows) {
  struct idset* set = idset_decode("3000");
  EXPECT(idset_universe_size(set) == 4096 && idset_set(set, 4096) == 0 && idset_universe_size(set) == 8192);
  idset_destroy(set);
}

PROBE(decoding_part) {
  struct idset* set;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT((set = idset_ndecode("1-23", 3)) != NULL && idset_count(set) == 2);
  idset_destroy(set);
  FAILS(idset_ndecode("1-2", 2) == NULL, EINVAL);
  FAILS(idset_ndecode(NULL, 0) == NULL, EINVAL);
#pragma GCC diagnostic pop
  EXPECT((set = idset_decode_ex("7,8,x", 3, 0, 0, NULL)) != NULL && idset_count(set) == 2);
  idset_destroy(set);
  EXPECT((set = idset_decode_ex("7", 100, 0, 0, NULL)) != NULL && idset_count(set) == 1);
  idset_destroy(set);
  EXPECT((set = idset_decode_ex("7", 0, 0, 0, NULL)) != NULL && idset_empty(set));
  idset_destroy(set);
}

/* Whether the set that is made has the universe, and then. */
static int made(const char* text, ssize_t size, int flags, size_t universe, const char* expected) {
  struct idset* set = idset_decode_ex(text, -1, size, flags, NULL);
  int as_expected = set != NULL && idset_universe_size(set) == universe &&
                    same_text(idset_encode(set, IDSET_FLAG_RANGE), expected);
  idset_destroy(set);
  return as_expected;
}

PROBE(decoding_as_created) {
  EXPECT(made("1,9", -1, 0, 10, "1,9") && made("1,9", -1, GROWS, 10, "1,9"));
  EXPECT(made("1,9", 0, 0, 1024, "1,9") && made("1,9", 64, 0, 64, "1,9"));
  EXPECT(made("1,9", 3, GROWS, 12, "1,9") && made("1", 3, IDSET_FLAG_INITFULL, 3, "0-2"));
  EXPECT(made("", -1, GROWS, 1, "") && made("", 0, 0, 1024, "") && made("", 5, 0, 5, ""));
  EXPECT(made("2147483647", -1, 0, IDSET_MAX_UNIVERSE, "2147483647"));

  idset_error_t error;
  FAILS(idset_decode_ex("", -1, -1, 0, &error) == NULL, EINVAL);
  EXPECT(same(error.text, "a set for no ids has no room at all"));
  FAILS(idset_decode_ex("3,10", -1, 10, 0, &error) == NULL, EINVAL);
  EXPECT(same(error.text, "no room for id 10, only up to 9"));
  FAILS(idset_decode_ex("1024", -1, 0, 0, NULL) == NULL, EINVAL);
  FAILS(idset_decode_ex("1-x", -1, 0, 0, &error) == NULL, EINVAL);
  EXPECT(same(error.text, "idset '1-x': expected an id, got 'x'"));
  FAILS(idset_decode_ex("3000000000", -1, 0, GROWS, &error) == NULL, ERANGE);
  EXPECT(same(error.text, "expected ids up to 2147483647, got 3000000000"));
  FAILS(idset_decode_ex("1", -1, (ssize_t)IDSET_MAX_UNIVERSE + 1, 0, &error) == NULL, ERANGE);
  EXPECT(same(error.text, "a size of 2147483649; at most 2147483648"));
  FAILS(idset_decode_ex("1", -1, 0, IDSET_FLAG_RANGE, &error) == NULL, EINVAL);
  EXPECT(same(error.text, "unknown flags in 0x4"));
  FAILS(idset_decode_ex(NULL, -1, 0, 0, &error) == NULL, EINVAL);
  EXPECT(same(error.text, "no text given"));
}

PROBE(decoding_nothing) {
  EXPECT(idset_decode_empty("", -1) && idset_decode_empty("[]", -1) && idset_decode_empty("1", 0));
  EXPECT(!idset_decode_empty("0", -1) && !idset_decode_empty("x", -1) && !idset_decode_empty("[", -1));
  EXPECT(!idset_decode_empty(NULL, -1));
}

PROBE(decoding_facts) {
  size_t count = 0;
  unsigned int maxid = 0;
  idset_error_t error;
  EXPECT(idset_decode_info("1-3,2000", -1, &count, &maxid, &error) == 0 && count == 4 && maxid == 2000);
  EXPECT(idset_decode_info("0-2147483647", -1, &count, &maxid, NULL) == 0);
  EXPECT(count == IDSET_MAX_UNIVERSE && maxid == 2147483647);
  EXPECT(idset_decode_info("1-3,2000", 3, &count, NULL, &error) == 0 && count == 3);
  EXPECT(idset_decode_info("", -1, NULL, &maxid, &error) == 0 && maxid == IDSET_INVALID_ID);
  EXPECT(idset_decode_info("5", -1, NULL, NULL, NULL) == 0);
  count = 7;
  FAILS(idset_decode_info("5,", -1, &count, &maxid, &error) == -1, EINVAL);
  EXPECT(count == 7 && same(error.text, "idset '5,': expected an id, got nothing"));
  FAILS(idset_decode_info("2147483648", -1, &count, &maxid, &error) == -1, ERANGE);
  FAILS(idset_decode_info(NULL, -1, &count, &maxid, NULL) == -1, EINVAL);
}

PROBE(decoding_into) {
  idset_error_t error;
  struct idset *set = idset_create(10, 0), *grows = idset_create(10, GROWS);
  EXPECT(idset_decode_add(set, "1-5", -1, &error) == 0 && idset_decode_add(set, "", -1, NULL) == 0);
  EXPECT(idset_decode_subtract(set, "2,4,77", -1, &error) == 0 && idset_decode_add(set, "9,8", 1, NULL) == 0);
  EXPECT(same_text(idset_encode(set, 0), "1,3,5,9"));
  EXPECT(idset_decode_subtract(set, "9x", 1, NULL) == 0 && idset_decode_subtract(set, "", -1, NULL) == 0);
  FAILS(idset_decode_add(set, "0,10", -1, &error) == -1, EINVAL);
  EXPECT(same(error.text, "no room for id 10, only up to 9"));
  FAILS(idset_decode_add(set, "0,", -1, &error) == -1, EINVAL);
  EXPECT(same(error.text, "idset '0,': expected an id, got nothing"));
  FAILS(idset_decode_subtract(set, "1,,3", -1, &error) == -1, EINVAL);
  EXPECT(same(error.text, "idset '1,,3': expected an id, got nothing"));
  FAILS(idset_decode_add(set, NULL, -1, NULL) == -1, EINVAL);
  FAILS(idset_decode_subtract(set, NULL, -1, NULL) == -1, EINVAL);
  FAILS(idset_decode_add(NULL, "1", -1, &error) == -1, EINVAL);
  EXPECT(same(error.text, "no set given"));
  FAILS(idset_decode_subtract(NULL, "1", -1, &error) == -1, EINVAL);
  FAILS(idset_decode_add(grows, "2147483648", -1, &error) == -1, ERANGE);
  FAILS(idset_decode_subtract(grows, "2147483648", -1, &error) == -1, ERANGE);
  EXPECT(same_text(idset_encode(set, 0), "1,3,5"));
  EXPECT(idset_decode_add(grows, "10", -1, NULL) == 0 && idset_universe_size(grows) == 20);
  idset_destroy(set);
  idset_destroy(grows);
}

PROBE(long_errors) {
  char text[401];
  idset_error_t error;
  memset(text, '1', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  memset(error.text, 'x', sizeof error.text);
  FAILS(idset_decode_info(text, -1, NULL, NULL, &error) == -1, ERANGE);
  EXPECT(memchr(error.text, '\0', sizeof error.text) != NULL && strlen(error.text) > 100);
}

PROBE(encoding) {
  EXPECT(encodes("2-4,8", 0, "2,3,4,8") && encodes("2-4,8", IDSET_FLAG_RANGE, "2-4,8"));
  EXPECT(encodes("2-4,8", IDSET_FLAG_BRACKETS, "[2,3,4,8]"));
  EXPECT(encodes("2-4,8", IDSET_FLAG_BRACKETS | IDSET_FLAG_RANGE, "[2-4,8]"));
  EXPECT(encodes("5", IDSET_FLAG_BRACKETS | IDSET_FLAG_RANGE, "5") && encodes("5", IDSET_FLAG_BRACKETS, "5"));
  EXPECT(encodes("", 0, "") && encodes("", IDSET_FLAG_RANGE, "") && encodes("", IDSET_FLAG_BRACKETS, ""));
  struct idset* set = idset_create(5, 0);
  FAILS(idset_encode(NULL, 0) == NULL, EINVAL);
  FAILS(idset_encode(set, IDSET_FLAG_AUTOGROW) == NULL, EINVAL);
  FAILS(idset_encode(set, 64) == NULL, EINVAL);
  idset_destroy(set);

  char* text;
  set = idset_create(0, GROWS);
  EXPECT(idset_range_set(set, 1, 1048576) == 0);
  EXPECT((text = idset_encode(set, 0)) != NULL && strcmp(text + strlen(text) - 16, ",1048575,1048576") == 0);
  free(text);
  EXPECT(idset_set(set, 0) == 0);
  FAILS(idset_encode(set, 0) == NULL, ENOMEM); /* too many to list */
  EXPECT(same_text(idset_encode(set, IDSET_FLAG_RANGE), "0-1048576"));
  idset_destroy(set);
}

static const struct flux_plugin_handler table[] = {
    {"probe.decoding", decoding, NULL},
    {"probe.decoding-grows", decoding_grows, NULL},
    {"probe.decoding-part", decoding_part, NULL},
    {"probe.decoding-as-created", decoding_as_created, NULL},
    {"probe.decoding-nothing", decoding_nothing, NULL},
    {"probe.decoding-facts", decoding_facts, NULL},
    {"probe.decoding-into", decoding_into, NULL},
    {"probe.long-errors", long_errors, NULL},
    {"probe.encoding", encoding, NULL},
    {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
