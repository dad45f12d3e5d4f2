// SPDX-License-Identifier: Apache-2.0
#include "group/group.hpp"

#include "group/codec.hpp"
#include "overlay/wire.hpp"

namespace nacre::group {
namespace {

// Shrunk or Grown, of the answer to a shrink or a grow.
template <typename Out>
Group::WhenAnswered when_campaign_ends(std::function<void(Result<Out>)> done) {
  return [done = std::move(done)](const Result<overlay::Entry>& answer) {
    if (!answer) return done(answer.error());
    if (const auto* refused = std::get_if<overlay::Refused>(&answer->body))
      return done(Error{EINVAL, refused->why});
    const auto& end = std::get<overlay::Campaign>(answer->body);
    done(Out{end.done, end.unconfirmed});
  };
}

}  // namespace

void Group::signal(int signum, const Targets& tasks) {
  auto number = static_cast<std::uint32_t>(signum);
  if (!tasks || tasks->empty()) return request(overlay::Signal{number, tasks}, {});
  for (value::Idset rest = *tasks; !rest.empty();)
    request(overlay::Signal{number, rest.take_first(overlay::kSplitIds)}, {});
}

void Group::shrink(const value::Idset& shells, WhenShrunk done) {
  request(overlay::Shrink{shells}, when_campaign_ends(std::move(done)));
}

void Group::grow(const value::Idset& shells, std::chrono::milliseconds wait, WhenGrown done) {
  request(overlay::Grow{shells, static_cast<std::uint64_t>(wait.count())}, when_campaign_ends(std::move(done)));
}

std::function<void(const Group::Callbacks&)> told_of(const overlay::Entry& entry, Rank self) {
  using Callbacks = Group::Callbacks;
  if (const auto* signal = std::get_if<overlay::Signal>(&entry.body)) {
    return [asked = *signal](const Callbacks& owner) {
      if (owner.on_signal) owner.on_signal(static_cast<int>(asked.number), asked.ranks);
    };
  }
  if (const auto* exec = std::get_if<overlay::Exec>(&entry.body)) {
    auto share = share_of(*exec, entry.seq, self);
    if (!share) return {};
    return [share = *std::move(share)](const Callbacks& owner) {
      if (owner.on_exec) owner.on_exec(share);
    };
  }
  const auto* end = std::get_if<overlay::Campaign>(&entry.body);
  if (end == nullptr || end->grow) return {};
  return [shrunk = value::Shrunk{end->done, end->unconfirmed}](const Callbacks& owner) {
    if (owner.on_shrunk) owner.on_shrunk(shrunk);
  };
}

}  // namespace nacre::group
