// SPDX-License-Identifier: Apache-2.0
//
// Asks the leader of a job for what `nacre top` shows. It never waits: the caller does, for
// Client::receives_from().
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "control/client.hpp"
#include "event/clock.hpp"
#include "front/top_model.hpp"

namespace nacre::front {

class TopFeed {
 public:
  // `with_gpus`: what the tasks use of GPUs, too.
  explicit TopFeed(control::Client client, bool with_gpus = false)
      : client_(std::move(client)), with_gpus_(with_gpus) {}

  // Sends the requests, if those before have been answered. ECONNRESET: the link has ended.
  Result<void> ask();
  // Takes what has come; returns a sample once all requests have been answered. A leader that is busy gives none.
  // ECONNRESET: the link has ended. Another error: what the leader answers is wrong.
  Result<std::optional<TopSample>> take();

  // When the requests that are open were sent, clock_now(); none: none is.
  [[nodiscard]] std::optional<event::Seconds> waiting_since() const { return waiting_since_; }
  // The job's exit code, once the leader has reported the job's end.
  [[nodiscard]] const std::optional<int>& code() const { return code_; }
  [[nodiscard]] const control::Client& client() const { return client_; }

 private:
  Result<void> take_answer(const control::Answer& answer);

  control::Client client_;
  bool with_gpus_;
  std::uint64_t status_ = 0, exits_ = 0, ps_ = 0;  // numbers of the open requests; 0: it has been answered
  bool is_busy_ = false;
  TopSample sample_;
  std::optional<event::Seconds> waiting_since_;
  std::optional<int> code_;
};

}  // namespace nacre::front
