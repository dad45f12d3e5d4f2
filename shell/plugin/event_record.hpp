// SPDX-License-Identifier: Apache-2.0
//
// The events that this shell has posted to the job's eventlog, for their followers. An event is as in Flux RFC 18:
// {"timestamp", "name", "context"}.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fwd.hpp"

namespace nacre::plugin {

class EventRecord {
 public:
  class Follower {
   public:
    Follower(EventRecord& record, std::function<void(const Json&)> on_event)
        : record_(record), on_event_(std::move(on_event)) {
      record_.followers_.push_back(this);
    }
    ~Follower() { std::erase(record_.followers_, this); }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

   private:
    friend class EventRecord;
    EventRecord& record_;
    std::function<void(const Json&)> on_event_;
  };

  // Notifies the followers. They may come, but not go, meanwhile.
  void add(Json event) {
    events_.push_back(std::move(event));
    for (std::size_t i = 0; i < followers_.size(); ++i) followers_[i]->on_event_(events_.back());
  }
  [[nodiscard]] const std::vector<Json>& events() const { return events_; }
  // Follows the events from the next one on, as long as the Follower lives.
  [[nodiscard]] std::unique_ptr<Follower> follow(std::function<void(const Json&)> on_event) {
    return std::make_unique<Follower>(*this, std::move(on_event));
  }

 private:
  std::vector<Json> events_;
  std::vector<Follower*> followers_;
};

}  // namespace nacre::plugin
