// SPDX-License-Identifier: Apache-2.0
//
// While a handler of a plugin runs this shell handles nothing else, and the others would count it as lost. A thread
// notices that, and sends busy beats on the shell's links until the handler returns (rule 16 of doc/protocol.md).
// It also writes a line to stderr about a handler that takes long.
//
// What the thread uses of a link is Link::send_beside(). While no handler runs it waits, without a timer.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/current_call.hpp"
#include "base/result.hpp"
#include "transport/link.hpp"
#include "value/link.hpp"

namespace nacre::group {

class KeepAlive {
 public:
  static constexpr std::int64_t kFirstLine = 10'000;  // milliseconds; when a handler counts as one that takes long
  static constexpr std::int64_t kNextLine = 600'000;  // milliseconds between two lines about the same call

  // `beat`: the message for a link of this side; called in the thread. There are two in each interval. One object
  // lives at a time in a process.
  static Result<std::unique_ptr<KeepAlive>> create(std::chrono::milliseconds interval,
                                                   std::function<std::string(value::Side)> beat);
  ~KeepAlive();
  KeepAlive(const KeepAlive&) = delete;
  KeepAlive& operator=(const KeepAlive&) = delete;

  // As long as it lives, beats go out on the link, which has to live longer.
  class Share {
   public:
    Share() = default;
    Share(KeepAlive& owner, transport::Link& link, value::Side side);

   private:
    struct Leave {
      transport::Link* link;
      void operator()(KeepAlive* owner) const { owner->remove(link); }
    };
    std::unique_ptr<KeepAlive, Leave> owner_;
  };

 private:
  KeepAlive(std::chrono::milliseconds interval, std::function<std::string(value::Side)> beat)
      : interval_(interval), beat_(std::move(beat)) {}
  void remove(transport::Link* link);
  void begun();
  static void* serve(void* self);
  void run();
  bool look();
  // A call about which there was a line. Times are of CallPage::clock().
  struct LongCall {
    CallPage::Place place;
    std::string plugin;
    std::string topic;
    std::int64_t since = 0;
    std::int64_t next_line = 0;
  };
  void report(const CallPage& page);
  void report_return();

  const std::chrono::milliseconds interval_;  // of beats
  const std::function<std::string(value::Side)> beat_;
  std::optional<pthread_t> thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<transport::Link*, value::Side> links_;
  bool waits_ = false;  // for a call to begin
  bool ending_ = false;
  std::optional<LongCall> reported_;  // of the thread
};

}  // namespace nacre::group
