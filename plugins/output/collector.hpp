// SPDX-License-Identifier: Apache-2.0
//
// Collects the output of the other shells on the leader, for the plugin `output`: what their OutputUplinks write
// comes out at the leader's places, and is held back while one of these is full.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bulk/port.hpp"
#include "io/batch_wire.hpp"
#include "job/job.hpp"
#include "plugins/output/routing.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class OutputCollector {
 public:
  struct Callbacks {
    std::function<void()> on_put;
    std::function<void(const value::Idset& ranks)> on_complete;  // nothing more comes of these tasks
    std::function<void()> on_ended;  // called once for each other shell: nothing more of it is waited for
    // A shell has sent records that are not valid; nothing more of it comes out.
    std::function<void(bulk::Id shell, const Error&)> on_error;
  };

  // `port`, `job` and `places` have to outlive it. It receives nothing before serve(), which calls back at once for
  // what has come already.
  OutputCollector(bulk::Port& port, const job::Job& job, OutputRouting& places, Callbacks callbacks);
  OutputCollector(const OutputCollector&) = delete;
  OutputCollector& operator=(const OutputCollector&) = delete;

  void serve();
  void go_on();                             // the places have room again
  void expect_one_more() { ++waits_for_; }  // a shell has joined the job
  void lost(bulk::Id shell);
  // A place has failed. If it was the last one of a stream, all shells are notified that the stream is not taken
  // any more.
  void look_for_closed();

 private:
  struct Origin {
    std::unique_ptr<io::BatchReader> reader;  // none: it has sent records that are not valid
    bool over = false;                        // is not waited for
  };

  [[nodiscard]] bool full() const;
  Origin& origin(bulk::Id shell);
  Result<void> check(bulk::Id shell, const io::Source& source) const;
  void take(bulk::Id shell, bulk::Numbered number, std::string_view bytes);
  void over(bulk::Id shell);
  void send_closed();

  bulk::Port& port_;
  const job::Job& job_;
  OutputRouting& places_;
  Callbacks callbacks_;
  std::map<bulk::Id, Origin> origins_;
  std::uint32_t waits_for_;  // shells
  std::vector<std::pair<bulk::Id, bulk::Numbered>> untaken_;
  std::vector<io::Stream> closed_, unsent_;
};

}  // namespace nacre::plugins
