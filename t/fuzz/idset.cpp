// SPDX-License-Identifier: Apache-2.0
//
// An idset that parses is shown as text that parses to the very same set.
#include "value/idset.hpp"

#include "require.hpp"

using nacre::fuzz::require;
using nacre::value::Idset;

namespace {

constexpr std::uint64_t kMaxExpanded = 1 << 12;  // ids that are looked at one by one

void require_same(const Idset& set, const std::string& text) {
  auto again = Idset::parse(text);
  require(again.has_value(), "parses: " + text);
  require(*again == set, "same set: " + text);
  require(again->str() == set.str(), "same text: " + text);
}

void require_ranges(const Idset& set) {
  std::uint64_t count = 0;
  const Idset::Range* before = nullptr;
  for (const Idset::Range& each : set.ranges()) {
    require(each.first <= each.last && each.last <= Idset::kMaxId, "a range of ids");
    require(!before || each.first > before->last + 1, "ranges neither overlap nor touch");
    count += std::uint64_t{each.last} - each.first + 1;
    before = &each;
  }
  require(set.size() == count, "size is what the ranges hold");
}

void require_algebra(const Idset& set) {
  Idset rest = Idset::range(0, Idset::kMaxId) - set;
  require_ranges(rest);
  require((rest & set).empty(), "a set and what it lacks share nothing");
  require((rest | set) == Idset::range(0, Idset::kMaxId), "a set and what it lacks are all");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  auto set = Idset::parse({reinterpret_cast<const char*>(data), size});
  if (!set) {
    require(set.error().message.starts_with("idset"), set.error().message);
    return 0;
  }
  require_ranges(*set);
  require_same(*set, set->str());
  require_same(*set, set->str(true));
  require_algebra(*set);
  if (set->size() <= kMaxExpanded) require(Idset::of(set->ids()) == *set, "same set from its ids");
  return 0;
}
