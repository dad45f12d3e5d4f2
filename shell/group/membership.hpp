// SPDX-License-Identifier: Apache-2.0
//
// What a shell has to know to become one of its job's: boot finds it out before the shells are linked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "group/directory.hpp"
#include "transport/address.hpp"
#include "transport/secret.hpp"
#include "value/jobid.hpp"

namespace nacre::group {

struct Membership {
  static constexpr std::uint32_t kDefaultArity = 16;
  static constexpr std::uint32_t kMaxShells = std::uint32_t{1} << 20;

  std::string version;  // of this program, for messages
  value::JobId job;     // the same for all shells
  Rank rank = 0;
  std::uint32_t size = 1;               // shells of the job's start
  std::uint32_t arity = kDefaultArity;  // children of a shell, at least 2; the same for all
  transport::Secret secret;
  // Has to outlive `sockets` and the listeners made of them
  std::optional<transport::SocketDirectory> socket_directory;
  std::vector<transport::BoundSocket> sockets;  // on which others dial this shell
  std::string address;  // where others dial it: addresses joined by blanks, at most 1,024 bytes
  Directory
      directory;  // has at least the addresses of this shell's ancestors; a newcomer's all of the first shells
  bool is_newcomer = false;  // joins a job that runs; `rank` is `size` or more
};

}  // namespace nacre::group
