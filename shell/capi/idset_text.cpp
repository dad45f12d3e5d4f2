// SPDX-License-Identifier: Apache-2.0
//
// <flux/idset.h>: sets from text, and back.
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
