// SPDX-License-Identifier: Apache-2.0
//
// The session with a manager that has a PMI-1 server on PMI_FD, such as Hydra, Flux, Slurm's mpi/pmi2 and
// nacre-shell itself: it gives the number of shells, this shell's rank, and keys for the shells to exchange. It
// comes before the loop, so its calls wait.
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
  // Seconds that the manager, or in barrier() the slowest shell, may take.
  static constexpr double kTimeout = 60;

  // Takes over the descriptor that the variable PMI_FD names, and sends init. An error names the variable that is
  // missing or wrong, or has the manager's message.
  static Result<PmiSession> open(const Variables& variables, double timeout = kTimeout);

  [[nodiscard]] std::uint32_t rank() const { return rank_; }
  [[nodiscard]] std::uint32_t size() const { return size_; }

  // The process that has made the connection, such as Hydra's proxy; none: it is on another host, or this is no
  // socket.
  [[nodiscard]] std::optional<pid_t> server() const;

  // Returns why the barrier can never end, if that is known: then the manager is asked to end all its processes,
  // which may kill this one before it can log more.
  using Doubt = std::function<std::optional<Error>()>;
  static constexpr double kDoubtEach = 0.5;  // seconds of waiting before each call of `doubt`

  Result<void> put(std::string_view key, std::string_view value);
  Result<void> barrier(const Doubt& doubt = {});
  Result<std::string> get(std::string_view key);
  Result<void> finalize();

  // Puts a value that may be longer than one key can hold, under KEY.0, KEY.1 and so on. It may have any bytes.
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
