// SPDX-License-Identifier: Apache-2.0
//
// One `nacre exec`, from its request to its exit code: it passes output and input on, and ends the commands on
// Ctrl-C, when the time is over, or when one of them fails.
#pragma once

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "control/client.hpp"
#include "exits/outcomes.hpp"
#include "exits/policy.hpp"
#include "front/exec_output.hpp"

namespace nacre::front {

struct ExecRequest {
  Json arguments;                        // of the request
  std::optional<ExecOutput::Mode> mode;  // none: raw for one target, lines for several
  bool json = false;
  bool quiet = false;
  bool input = false;
  bool kill_on_failure = false;
  std::optional<event::Seconds> limit;
  exits::Policy::Kind policy = exits::Policy::Kind::max;
};

class ExecRun {
 public:
  ExecRun(control::Client client, ExecRequest request) : client_(std::move(client)), request_(std::move(request)) {}
  // The exit code.
  Result<int> run();

 private:
  Result<void> watch_signals();
  Result<void> wait();
  Result<void> take_frames();
  Result<void> take(const control::Answer& answer);
  Result<void> take_part(const Json& part);
  Result<void> take_exit(const Json& row);
  Result<void> take(const control::StreamData& data);
  Result<void> take_signals();
  Result<void> read_input();
  void end(exits::Record::Kind why);
  [[nodiscard]] int milliseconds_left() const;
  [[nodiscard]] std::optional<std::size_t> index_of(const Json& members) const;
  void report();
  [[nodiscard]] int code() const;

  control::Client client_;
  ExecRequest request_;
  std::uint64_t id_ = 0;
  UniqueFd signals_;
  std::vector<ExecTarget> targets_;                                                      // while they come
  std::map<std::pair<std::uint32_t, std::optional<std::uint32_t>>, std::size_t> index_;  // by shell and rank
  std::optional<ExecOutput> output_;
  exits::Outcomes outcomes_;                                              // by index
  std::map<std::pair<std::string, std::string>, value::Idset> failures_;  // record and why: indices
  std::optional<exits::Record::Kind> ended_as_;  // they have been ended: how those count that run
  std::optional<event::Seconds> deadline_;
  int interrupted_ = 0;  // the signal
  std::string held_input_;
  bool reads_input_ = false;
  bool is_over_ = false;
  std::optional<Error> refused_;
};

}  // namespace nacre::front
