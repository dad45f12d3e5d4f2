// SPDX-License-Identifier: Apache-2.0
#include "group/open_calls.hpp"

#include <utility>

namespace nacre::group {
namespace {

Result<value::ExecAnswer> answer_to_order(const overlay::Entry& entry) {
  const auto* refused = std::get_if<overlay::Refused>(&entry.body);
  if (refused == nullptr) return value::ExecAnswer{entry.seq, {}};
  if (refused->members.empty()) return Error{EMSGSIZE, refused->why};
  return value::ExecAnswer{0, refused->members};
}

// Takes `key` out of `open`, and has what waits for it called with `answer`.
void finish(DeferredCalls& deferred, auto& open, const auto& key, auto answer) {
  auto found = open.extract(key);
  if (!found) return;
  deferred.add(
      [done = std::move(found.mapped()), answer = std::move(answer)]() mutable { done(std::move(answer)); });
}

void fail(DeferredCalls& deferred, auto& open, const Error& why) {
  for (auto& [key, done] : std::exchange(open, {})) deferred.add([why, done = std::move(done)] { done(why); });
}

}  // namespace

void OpenCalls::answer(overlay::Released& released) {
  finish(deferred_, collectives_, released.name, Result<overlay::Value>(std::move(released.value)));
}

void OpenCalls::answer(const overlay::Entry& entry) {
  finish(deferred_, orders_, entry.request.number, answer_to_order(entry));
  if (const auto* refused = std::get_if<overlay::Refused>(&entry.body)) {
    finish(deferred_, shrinks_, entry.request.number, Result<value::Shrunk>(Error{EINVAL, refused->why}));
    finish(deferred_, grows_, entry.request.number, Result<value::Grown>(Error{EINVAL, refused->why}));
  }
  const auto* end = std::get_if<overlay::Campaign>(&entry.body);
  if (end == nullptr) return;
  if (end->grow)
    finish(deferred_, grows_, entry.request.number,
           Result<value::Grown>(value::Grown{end->done, end->unconfirmed}));
  else
    finish(deferred_, shrinks_, entry.request.number,
           Result<value::Shrunk>(value::Shrunk{end->done, end->unconfirmed}));
}

void OpenCalls::fail_collectives(const Error& why) { fail(deferred_, collectives_, why); }

void OpenCalls::fail_requests(const Error& why) {
  fail(deferred_, orders_, why);
  fail(deferred_, shrinks_, why);
  fail(deferred_, grows_, why);
}

}  // namespace nacre::group
