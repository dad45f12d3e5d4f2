// SPDX-License-Identifier: Apache-2.0
#include "record/other_policy.hpp"

#include <algorithm>

namespace nacre::record {
namespace {

Result<exits::Record> record_at(const JsonAt& at) {
  auto record = exits::Record::parse(TRY(at.string()));
  if (!record) return at.error(record.error().message);
  return record;
}

// The records of all tasks. Only which rank is `main` matters: ranks that were left out, as they are many, may be
// any others.
Result<exits::Outcomes> outcomes_of(const EntryEnd& end, bool needs_ranks) {
  exits::Outcomes out;
  value::Idset::Id unknown = value::Idset::kMaxId;
  for (const JsonAt& each : TRY(JsonAt::root(end.exits, "exits").elements())) {
    JsonAt record = TRY(each.at("record"));
    if (record.json() == "others") return invalid("the job's tasks have ended in more ways than were recorded");
    auto ranks = TRY(each.find("ranks"));
    if (!ranks && needs_ranks) return invalid("which task has ended how was too long to be recorded");
    value::Idset set =
        ranks ? TRY(value::Idset::parse(TRY(ranks->string()))) : value::Idset::range(unknown, unknown);
    if (!ranks) --unknown;
    out.add(set, TRY(record_at(record)));
  }
  return out;
}

}  // namespace

Result<int> code_by(exits::Policy::Kind kind, const EntryEnd& end) {
  using Kind = exits::Policy::Kind;
  if (end.vanished) return invalid("its leader has gone, so how its tasks have ended is not known");
  if (end.rule.is_null()) return invalid("an older nacre has recorded its end");
  JsonAt rule = JsonAt::root(end.rule, "rule");
  if (auto fixed = TRY(rule.find("fixed")); fixed && TRY(fixed->boolean())) return end.code;
  auto main = static_cast<value::Idset::Id>(TRY(TRY(rule.at("main")).integer(0, value::Idset::kMaxId)));
  auto ok = TRY(rule.find("ok"));
  exits::Policy policy(kind, main, ok ? TRY(value::Idset::parse(TRY(ok->string()))) : value::Idset());
  int least = 0;
  if (auto at = TRY(rule.find("least"))) least = static_cast<int>(TRY(at->integer(0, 1)));
  int code = 0;
  if (kind == Kind::first) {
    if (auto first = TRY(rule.find("first"))) code = policy.code_of(TRY(record_at(*first)));
  } else {
    bool needs_ranks = kind == Kind::main || kind == Kind::main_and_all;
    code = policy.code(TRY(outcomes_of(end, needs_ranks)));
  }
  return std::max(code, least);
}

}  // namespace nacre::record
