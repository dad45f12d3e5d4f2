// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "exits/notice.hpp"

namespace nacre::exits {
namespace {

using value::Idset;

constexpr std::string_view kWhere = "notice";

// Unites all sets at once: the cost of each union is the size of both sets.
Idset ranks_of(const Notice& notice) {
  std::vector<Idset::Range> all;
  for (const auto& [name, ranks] : notice.classes)
    all.insert(all.end(), ranks.ranges().begin(), ranks.ranges().end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Idset out;
  for (const Idset::Range& each : all) out.insert(each.first, each.last);
  return out;
}

}  // namespace

Result<void> NoticeMap::take(const Notice& part) {
  Idset named = ranks_of(part);
  CHECK_OK(in(kWhere, check(part, named)));
  if (!parts_) {
    parts_ = part;
    named_ = std::move(named);
  } else {
    named_ = named_ | named;
    for (const auto& [name, ranks] : part.classes) {
      Idset& all = parts_->classes[name];
      all = all | ranks;
    }
  }
  if (part.more) return {};
  Result<void> whole = in(kWhere, complete());
  parts_.reset();
  return whole;
}

Result<void> NoticeMap::check(const Notice& part, const Idset& named) const {
  if (ended_ && !part.base) return invalid("it comes after the last one");
  if (!parts_) {
    if (part.base || part.seq == seq_ + 1) return {};
    return invalid(fmt::format("seq: expected {}, got {}", seq_ + 1, part.seq));
  }
  const Notice& before = *parts_;
  bool follows = part.seq == before.seq && part.base == before.base && part.rest == before.rest &&
                 part.done == before.done && part.tasks == before.tasks;
  if (!follows) return invalid(fmt::format("expected another part of message {}", before.seq));
  if (!(named & named_).empty()) return invalid("x: has ranks of another part");
  return {};
}

Result<void> NoticeMap::complete() {
  const Notice& whole = *parts_;
  Idset known = whole.base ? Idset() : ranks_;
  if (!(named_ & known).empty()) return invalid("x: has ranks whose record has come before");
  Notice::Classes records = whole.base ? Notice::Classes() : records_;
  Notice::Classes fresh = whole.classes;
  if (whole.tasks > 0)
    fresh[whole.rest] = Idset::range(0, static_cast<Idset::Id>(whole.tasks - 1)) - known - named_;
  known = known | named_ | fresh[whole.rest];
  if (auto none = fresh.extract(std::string(kNoRecord))) known = known - none.mapped();
  for (const auto& [name, ranks] : fresh) {
    if (!ranks.empty()) records[name] = records[name] | ranks;
  }
  if (known.size() != whole.done)
    return invalid(fmt::format("done: expected {}, got {}", known.size(), whole.done));
  records_ = std::move(records);
  ranks_ = std::move(known);
  seq_ = whole.seq;
  ended_ = whole.end;
  return {};
}

}  // namespace nacre::exits
