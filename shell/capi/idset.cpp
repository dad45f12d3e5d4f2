// SPDX-License-Identifier: Apache-2.0
//
// <flux/idset.h>: value::Idset for C, with the universe that Flux's sets have.

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "capi/capi.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr int kCreateFlags =
    IDSET_FLAG_AUTOGROW | IDSET_FLAG_INITFULL | IDSET_FLAG_COUNT_LAZY | IDSET_FLAG_ALLOC_RR;

bool is_id(unsigned int id) { return id < IDSET_INVALID_ID; }

unsigned int id_or_invalid(std::optional<value::Idset::Id> id) { return id.value_or(IDSET_INVALID_ID); }

const value::Idset& ids_of(const idset* set) {
  static const value::Idset kNone;
  return set != nullptr ? set->ids : kNone;
}

// A new set: `operation` applied to the ids of both; `b` may be null, for no ids.
template <typename Operation>
idset* combined(const idset* a, const idset* b, Operation operation) {
  if (a == nullptr) return none(EINVAL);
  return new idset(idset::of(operation(a->ids, ids_of(b)), std::max(a->universe, b != nullptr ? b->universe : 0)));
}

}  // namespace

// ---- making ------------------------------------------------------------------

idset idset::of(value::Idset ids, std::size_t at_least) {
  idset set;
  set.universe = at_least;
  if (auto last = ids.last(); last && *last >= set.universe) set.universe = std::size_t{*last} + 1;
  set.ids = std::move(ids);
  return set;
}

Result<idset> idset::create(std::size_t size, int flags) {
  if ((flags & ~kCreateFlags) != 0) return invalid(fmt::format("unknown flags in {:#x}", flags));
  if (size > IDSET_MAX_UNIVERSE) {
    return Error{ERANGE, fmt::format("a size of {}; at most {}", size, IDSET_MAX_UNIVERSE)};
  }
  idset set;
  if (size > 0) set.universe = size;
  set.flags = flags;
  if (set.has(IDSET_FLAG_INITFULL)) set.ids.insert(0, static_cast<unsigned int>(set.universe - 1));
  return set;
}

struct idset* idset_create(size_t size, int flags) noexcept {
  Result<idset> made = idset::create(size, flags);
  return made ? new idset(*std::move(made)) : none(made.error().code);
}

void idset_destroy(struct idset* idset) noexcept {
  int code = errno;
  delete idset;
  errno = code;
}

struct idset* idset_copy(const struct idset* idset) noexcept {
  return idset != nullptr ? new struct idset(*idset) : none(EINVAL);
}

size_t idset_universe_size(const struct idset* idset) noexcept { return idset != nullptr ? idset->universe : 0; }

// ---- changing ----------------------------------------------------------------

Result<void> idset::reach(std::size_t id) {
  if (id < universe) return {};
  if (!has(IDSET_FLAG_AUTOGROW)) return invalid(fmt::format("no room for id {}, only up to {}", id, universe - 1));
  if (id >= IDSET_MAX_UNIVERSE) {
    return Error{ERANGE, fmt::format("expected an id up to {}, got {}", IDSET_MAX_UNIVERSE - 1, id)};
  }
  std::size_t before = universe;
  while (universe <= id) universe = std::min(2 * universe, IDSET_MAX_UNIVERSE);
  if (has(IDSET_FLAG_INITFULL)) {
    ids.insert(static_cast<unsigned int>(before), static_cast<unsigned int>(universe - 1));
  }
  return {};
}

Result<void> idset::add(const value::Idset& others) {
  if (others.empty()) return {};
  CHECK_OK(reach(*others.last()));
  ids = ids | others;
  return {};
}

Result<void> idset::add(unsigned int first, unsigned int last) {
  CHECK_OK(reach(last));
  ids.insert(first, last);
  return {};
}

// An id beyond the universe is in the set only after the set has grown with all new ids set.
Result<void> idset::subtract(const value::Idset& others) {
  if (others.empty()) return {};
  if (has(IDSET_FLAG_INITFULL) && has(IDSET_FLAG_AUTOGROW)) CHECK_OK(reach(*others.last()));
  ids = ids - others;
  return {};
}

Result<void> idset::subtract(unsigned int first, unsigned int last) {
  if (has(IDSET_FLAG_INITFULL) && has(IDSET_FLAG_AUTOGROW)) CHECK_OK(reach(last));
  ids.remove(first, last);
  return {};
}

int idset_set(struct idset* idset, unsigned int id) noexcept { return idset_range_set(idset, id, id); }

int idset_range_set(struct idset* idset, unsigned int lo, unsigned int hi) noexcept {
  if (idset == nullptr || !is_id(lo) || !is_id(hi)) return fail(EINVAL);
  return fail_with(idset->add(std::min(lo, hi), std::max(lo, hi)));
}

int idset_clear(struct idset* idset, unsigned int id) noexcept { return idset_range_clear(idset, id, id); }

int idset_range_clear(struct idset* idset, unsigned int lo, unsigned int hi) noexcept {
  if (idset == nullptr || !is_id(lo) || !is_id(hi)) return fail(EINVAL);
  return fail_with(idset->subtract(std::min(lo, hi), std::max(lo, hi)));
}

// ---- asking ------------------------------------------------------------------

bool idset_test(const struct idset* idset, unsigned int id) noexcept {
  return idset != nullptr && idset->ids.contains(id);
}

size_t idset_count(const struct idset* idset) noexcept { return idset != nullptr ? idset->ids.size() : 0; }

bool idset_empty(const struct idset* idset) noexcept { return idset == nullptr || idset->ids.empty(); }

unsigned int idset_first(const struct idset* idset) noexcept {
  return idset != nullptr ? id_or_invalid(idset->ids.first()) : IDSET_INVALID_ID;
}

unsigned int idset_next(const struct idset* idset, unsigned int id) noexcept {
  return idset != nullptr ? id_or_invalid(idset->ids.next(id)) : IDSET_INVALID_ID;
}

unsigned int idset_last(const struct idset* idset) noexcept {
  return idset != nullptr ? id_or_invalid(idset->ids.last()) : IDSET_INVALID_ID;
}

unsigned int idset_prev(const struct idset* idset, unsigned int id) noexcept {
  return idset != nullptr && is_id(id) ? id_or_invalid(idset->ids.prev(id)) : IDSET_INVALID_ID;
}

// ---- two sets ----------------------------------------------------------------

bool idset_equal(const struct idset* a, const struct idset* b) noexcept {
  return a != nullptr && b != nullptr && a->ids == b->ids;
}

bool idset_has_intersection(const struct idset* a, const struct idset* b) noexcept {
  return a != nullptr && b != nullptr && !(a->ids & b->ids).empty();
}

struct idset* idset_union(const struct idset* a, const struct idset* b) noexcept {
  return combined(a, b, [](const value::Idset& x, const value::Idset& y) { return x | y; });
}

struct idset* idset_difference(const struct idset* a, const struct idset* b) noexcept {
  return combined(a, b, [](const value::Idset& x, const value::Idset& y) { return x - y; });
}

struct idset* idset_intersect(const struct idset* a, const struct idset* b) noexcept {
  if (b == nullptr) return none(EINVAL);
  return combined(a, b, [](const value::Idset& x, const value::Idset& y) { return x & y; });
}

int idset_add(struct idset* a, const struct idset* b) noexcept {
  return a != nullptr ? fail_with(a->add(ids_of(b))) : fail(EINVAL);
}

int idset_subtract(struct idset* a, const struct idset* b) noexcept {
  return a != nullptr ? fail_with(a->subtract(ids_of(b))) : fail(EINVAL);
}

// ---- a store of ids ----------------------------------------------------------

int idset_alloc(struct idset* idset, unsigned int* val) noexcept {
  if (idset == nullptr || val == nullptr || !idset->has(IDSET_FLAG_INITFULL)) return fail(EINVAL);
  value::Idset& free_ids = idset->ids;
  std::optional<value::Idset::Id> id;
  if (idset->has(IDSET_FLAG_ALLOC_RR) && is_id(idset->taken)) id = free_ids.next(idset->taken);
  if (!id) id = free_ids.first();
  if (!id) {
    if (fail_with(idset->reach(idset->universe)) < 0) return -1;
    id = free_ids.first();
  }
  free_ids.remove(*id);
  *val = idset->taken = *id;
  return 0;
}

void idset_free(struct idset* idset, unsigned int val) noexcept {
  if (idset != nullptr && idset->has(IDSET_FLAG_INITFULL)) idset_set(idset, val);
}

int idset_free_check(struct idset* idset, unsigned int val) noexcept {
  if (idset == nullptr || !idset->has(IDSET_FLAG_INITFULL)) return fail(EINVAL);
  return idset_test(idset, val) ? fail(EEXIST) : idset_set(idset, val);
}

// ---- idset text -------------------------------------------------------------------------
//
// <flux/idset.h>: sets from text, and back.

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr std::uint64_t kMaxListed = std::uint64_t{1} << 20;  // ids that are written one by one

int refuse(const Error& why, idset_error_t* error) {
  if (error != nullptr) std::snprintf(error->text, sizeof error->text, "%s", why.message.c_str());
  return fail(why.code);
}

std::string_view cut(const char* s, ssize_t len) {
  return {s, len < 0 ? std::strlen(s) : ::strnlen(s, static_cast<std::size_t>(len))};
}

Result<value::Idset> parse(const char* s, ssize_t len) {
  if (s == nullptr) return invalid("no text given");
  Result<value::Idset> ids = value::Idset::parse(cut(s, len));
  if (!ids) return Error{ids.error().code == ERANGE ? ERANGE : EINVAL, std::move(ids).error().message};
  if (auto last = ids->last(); last && *last >= IDSET_MAX_UNIVERSE) {
    return Error{ERANGE, fmt::format("expected ids up to {}, got {}", IDSET_MAX_UNIVERSE - 1, *last)};
  }
  return ids;
}

Result<idset> decode(const char* s, ssize_t len, ssize_t size, int flags) {
  value::Idset ids = TRY(parse(s, len));
  if (size < 0) {
    if (ids.empty() && (flags & IDSET_FLAG_AUTOGROW) == 0) return invalid("a set for no ids has no room at all");
    size = ids.empty() ? 1 : ssize_t{*ids.last()} + 1;
  }
  idset set = TRY(idset::create(static_cast<std::size_t>(size), flags));
  CHECK_OK(set.add(ids));
  return set;
}

}  // namespace

struct idset* idset_decode(const char* s) noexcept {
  return idset_decode_ex(s, -1, 0, IDSET_FLAG_AUTOGROW, nullptr);
}

struct idset* idset_ndecode(const char* s, size_t len) noexcept {
  return idset_decode_ex(s, static_cast<ssize_t>(len), 0, IDSET_FLAG_AUTOGROW, nullptr);
}

struct idset* idset_decode_ex(const char* s, ssize_t len, ssize_t size, int flags, idset_error_t* error) noexcept {
  Result<idset> set = decode(s, len, size, flags);
  if (set) return new idset(*std::move(set));
  refuse(set.error(), error);
  return nullptr;
}

bool idset_decode_empty(const char* s, ssize_t len) noexcept {
  Result<value::Idset> ids = parse(s, len);
  return ids && ids->empty();
}

int idset_decode_info(const char* s, ssize_t len, size_t* count, unsigned int* maxid,
                      idset_error_t* error) noexcept {
  Result<value::Idset> ids = parse(s, len);
  if (!ids) return refuse(ids.error(), error);
  if (count != nullptr) *count = ids->size();
  if (maxid != nullptr) *maxid = ids->last().value_or(IDSET_INVALID_ID);
  return 0;
}

int idset_decode_add(struct idset* idset, const char* s, ssize_t len, idset_error_t* error) noexcept {
  if (idset == nullptr) return refuse(invalid("no set given"), error);
  Result<value::Idset> ids = parse(s, len);
  if (!ids) return refuse(ids.error(), error);
  Result<void> added = idset->add(*ids);
  return added ? 0 : refuse(added.error(), error);
}

int idset_decode_subtract(struct idset* idset, const char* s, ssize_t len, idset_error_t* error) noexcept {
  if (idset == nullptr) return refuse(invalid("no set given"), error);
  Result<value::Idset> ids = parse(s, len);
  if (!ids) return refuse(ids.error(), error);
  Result<void> removed = idset->subtract(*ids);
  return removed ? 0 : refuse(removed.error(), error);
}

char* idset_encode(const struct idset* idset, int flags) noexcept {
  if (idset == nullptr || (flags & ~(IDSET_FLAG_BRACKETS | IDSET_FLAG_RANGE)) != 0) return none(EINVAL);
  bool ranges = (flags & IDSET_FLAG_RANGE) != 0;
  if (!ranges && idset->ids.size() > kMaxListed) return none(ENOMEM);
  std::string text = ranges ? idset->ids.str() : fmt::format("{}", fmt::join(idset->ids.ids(), ","));
  if ((flags & IDSET_FLAG_BRACKETS) != 0 && idset->ids.size() > 1) text = "[" + text + "]";
  char* copy = c_string(text);
  return copy != nullptr ? copy : none(ENOMEM);
}
