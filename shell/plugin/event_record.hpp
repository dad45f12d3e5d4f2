// SPDX-License-Identifier: Apache-2.0
//
// The events that this shell has posted to the job's eventlog, for those that follow them. An event is that of Flux
// RFC 18: {"timestamp", "name", "context"}.
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
    Follower(EventRecord& record, std::function<void(const Json&)> told) : record_(record), told_(std::move(told)) {
      record_.followers_.push_back(this);
    }
    ~Follower() { std::erase(record_.followers_, this); }
    Follower(const Follower&) = delete;
    Follower& operator=(const Follower&) = delete;

   private:
    friend class EventRecord;
    EventRecord& record_;
    std::function<void(const Json&)> told_;
  };

  // Tells the followers. They may come, but not go, meanwhile.
  void add(Json event) {
    events_.push_back(std::move(event));
    for (std::size_t i = 0; i < followers_.size(); ++i) followers_[i]->told_(events_.back());
  }
  [[nodiscard]] const std::vector<Json>& events() const { return events_; }
  // From the next one on; until the follower goes.
  [[nodiscard]] std::unique_ptr<Follower> follow(std::function<void(const Json&)> told) {
    return std::make_unique<Follower>(*this, std::move(told));
  }

 private:
  std::vector<Json> events_;
  std::vector<Follower*> followers_;
};

}  // namespace nacre::plugin
