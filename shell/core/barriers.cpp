// SPDX-License-Identifier: Apache-2.0
#include "core/barriers.hpp"

#include <memory>
#include <utility>

#include "base/invariant.hpp"

namespace nacre::core {

void Barriers::wait(const std::function<bool()>& done) {
  host_.loop().run_until([&] { return done() || host_.ending(); });
}

void Barriers::pass(const std::string& name) {
  begin(name);
  process_.group->enter(name, [this, name](const Result<void>& passed) { note_passed(name, passed); });
  wait([&] { return has_passed(name); });
}

std::optional<plugin::Gathered> Barriers::gather(const std::string& name, std::string mine) {
  begin(name);
  // Kept by both: it may be released when nobody waits here any more.
  auto given = std::make_shared<std::optional<plugin::Gathered>>();
  process_.group->gather(name, std::move(mine), [this, name, given](Result<plugin::Gathered> all) {
    note_passed(name, all ? Result<void>() : Result<void>(all.error()));
    if (all) *given = *std::move(all);
  });
  wait([&] { return has_passed(name); });
  return *given;
}

std::optional<std::int64_t> Barriers::sum_last(const std::string& name, std::int64_t mine) {
  return pass_last(name, &group::Group::sum_with_all, mine);
}

std::optional<std::int64_t> Barriers::max_last(const std::string& name, std::int64_t mine) {
  return pass_last(name, &group::Group::max_with_all, mine);
}

std::optional<std::int64_t> Barriers::pass_last(const std::string& name, Count count, std::int64_t mine) {
  begin(name);
  std::optional<std::int64_t> out;
  ((*process_.group).*count)(name, mine, [&, name](const Result<std::int64_t>& all) {
    note_passed(name, all ? Result<void>() : Result<void>(all.error()));
    if (all) out = *all;
  });
  host_.loop().run_until([&] { return has_passed(name); });
  return out;
}

bool Barriers::has_passed(const std::string& name) const {
  auto entered = passed_.find(name);
  return entered != passed_.end() && entered->second;
}

void Barriers::begin(const std::string& name) {
  passed_[name] = false;
  process_.timeline.add(timeline::Kind::enters, name);
  if (host_.job().shells() > 1) host_.log().log(Level::trace, "", "{} barrier: waits for the other shells", name);
}

void Barriers::note_passed(const std::string& name, const Result<void>& passed) {
  INVARIANT(passed_.contains(name));
  passed_[name] = true;
  if (passed) process_.timeline.add(timeline::Kind::passes, name);
  if (passed && host_.job().shells() > 1) host_.log().log(Level::trace, "", "{} barrier: all have come", name);
  // That this shell is cut off comes by itself, too.
  if (!passed && !process_.end.is_cut_off()) {
    host_.log().log(Level::debug, "", "{} barrier: {}", name, passed.error().message);
  }
}

}  // namespace nacre::core
