// SPDX-License-Identifier: Apache-2.0
//
// A job of one shell: each collective is complete once it is entered.
#pragma once

#include "group/directory.hpp"
#include "group/group.hpp"
#include "overlay/entry.hpp"

namespace nacre::group {

class Alone final : public Group {
 public:
  // `rank`: that of the only shell that takes part; not 0 if others were left out. `first_order`: the number of the
  // first order that is given.
  explicit Alone(Rank rank, std::uint64_t first_order = 1) : rank_(rank), next_order_(first_order) {}

  [[nodiscard]] const Callbacks& callbacks() const { return callbacks_; }

  void serve(Callbacks callbacks) override { callbacks_ = std::move(callbacks); }
  // Makes it when it is first asked for.
  Result<const transport::Secret*> secret() override;
  void enter(std::string_view /*barrier*/, std::function<void(Result<void>)> done) override { done({}); }
  void sum_with_all(std::string_view /*barrier*/, std::int64_t mine, WhenCounted done) override { done(mine); }
  void max_with_all(std::string_view /*barrier*/, std::int64_t mine, WhenCounted done) override { done(mine); }
  void gather(std::string_view name, std::string mine, WhenGathered done) override;
  void gather_up_to(Rank /*last*/, std::string_view name, std::string mine, WhenGathered done) override {
    gather(name, std::move(mine), std::move(done));
  }
  [[nodiscard]] Rank last_come_with(Rank rank) const override { return rank; }
  void raise(const JobException& exception) override;
  void request(overlay::RequestBody body, WhenAnswered done) override;
  Result<void> announce(std::string_view topic, std::string_view bytes) override;
  void exec(value::ExecOrder order, WhenOrdered done) override;
  void tasks_started(const value::Idset& tasks) override;
  void tasks_ended(const Ended& ended) override;
  bulk::Port* bulk() override { return nullptr; }
  void close_bulk() override {}
  void wait_for_silent(std::chrono::milliseconds /*bound*/) override {}
  void suspect(Rank /*rank*/) override {}
  void give_up_absent() override {}
  void give_up_silent() override {}
  void leave(int code, std::function<void(std::optional<int>)> done) override { done(code); }

 private:
  Rank rank_;
  std::optional<transport::Secret> secret_;
  Callbacks callbacks_;
  std::uint64_t next_order_;
};

// What one shell sends to all shells of its job, itself included: a topic and bytes. All receive the same in the
// same order, as it goes through the job's log, in pieces (doc/protocol.md, "What the shells say").

inline constexpr std::size_t kAnnouncedPiece = std::size_t{256} << 10;  // bytes
inline constexpr std::size_t kMaxAnnounced = std::size_t{64} << 20;     // bytes of one announcement

// The topic of an announcement that is for the group itself (Group::give_up_silent).
inline constexpr std::string_view kGiveUpSilent = "group.give-up-silent";

struct Announcement {
  std::string topic;
  std::string bytes;
};

// The events to request, one right after the other. EMSGSIZE beyond kMaxAnnounced.
Result<std::vector<overlay::Event>> pieces_of(std::string_view topic, std::string_view bytes, Rank origin);

// Joins the pieces of all shells.
class Announcements {
 public:
  // None: more pieces have to come, this is no piece, or the announcement began before this shell came.
  std::optional<Announcement> take(const overlay::Event& piece);

 private:
  std::map<Rank, std::string> begun_;  // by origin
};

}  // namespace nacre::group
