// SPDX-License-Identifier: Apache-2.0
//
// The talk with a manager that speaks PMI-1 over PMI_FD, as Hydra, Flux, Slurm's mpi/pmi2 and nacre-shell itself do: how many
// shells there are, which one this is, and keys for each other. It comes before the loop, so its calls wait.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "boot/allocation.hpp"
#include "pmi/client.hpp"

namespace nacre::boot {

class PmiSession {
 public:
  // Seconds that the manager may take to answer; in barrier(), that the slowest shell may take.
  static constexpr double kTimeout = 60;

  // Takes over the descriptor that the variable PMI_FD names, and says init. An error names the variable that is missing
  // or wrong, or what the manager has said.
  static Result<PmiSession> open(const Variables& variables, double timeout = kTimeout);

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  // The process that has made the connection, which Hydra's proxies are; none: it is on another host, or not a socket.
  [[nodiscard]] std::optional<pid_t> server() const;

  // Why what is waited for cannot come, if that is known by now: then the manager is told to end all its processes. It may kill this
  // one before more can be logged.
  using Doubt = std::function<std::optional<Error>()>;
  static constexpr double kDoubtEach = 0.5;  // seconds of waiting before `doubt` is asked, and asked again

  Result<void> put(std::string_view key, std::string_view value);
  Result<void> barrier(const Doubt& doubt = {});
  Result<std::string> get(std::string_view key);
  Result<void> finalize();

  // A value that may be longer than what one key holds here: it goes under KEY.0, KEY.1 and so on. Bytes of any kind.
  Result<void> put_long(std::string_view key, std::string_view value);
  Result<std::string> get_long(std::string_view key);

 private:
  PmiSession(UniqueFd fd, std::uint32_t rank, std::uint32_t size, double timeout)
      : fd_(std::move(fd)), rank_(rank), size_(size), timeout_(timeout) {}
  Result<pmi::ClientSession::Reply> ask(const Result<std::string>& request, const Doubt& doubt = {});
  Result<void> send(std::string_view bytes, double until) const;
  Result<void> wait_for_answer(double until, const Doubt& doubt);
  Result<void> wait_for(short events, double until) const;

  UniqueFd fd_;
  std::uint32_t rank_;
  std::uint32_t size_;
  double timeout_;
  pmi::ClientSession session_;
};

}  // namespace nacre::boot
