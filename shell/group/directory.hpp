// SPDX-License-Identifier: Apache-2.0
//
// Where the shells of a job can be dialled. Boot knows some of it, at least the ancestors of this shell; the shells
// send each other the rest once they are linked.
#pragma once

#include "transport/address.hpp"
#include "transport/secret.hpp"
#include "value/jobid.hpp"

namespace nacre::group {

using Rank = std::uint32_t;  // of a shell; 0 is the leader

class Directory {
 public:
  // For shells without a known address: where they are by agreement (transport/address.hpp). May return none.
  using Otherwise = std::function<std::vector<transport::Address>(Rank)>;

  // Addresses joined by blanks, the best first. An error names the one that is not valid.
  Result<void> set(Rank rank, std::string_view addresses);
  void set(Rank rank, std::vector<transport::Address> addresses) { known_[rank] = std::move(addresses); }
  void set_otherwise(Otherwise otherwise) { otherwise_ = std::move(otherwise); }

  // Empty: unknown.
  [[nodiscard]] std::vector<transport::Address> find(Rank rank) const;

 private:
  std::map<Rank, std::vector<transport::Address>> known_;
  Otherwise otherwise_;
};

// What a shell has to know to become one of its job's: boot finds it out before the shells are linked.
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
  Directory directory;  // has at least the addresses of this shell's ancestors; a newcomer's has those of all first
                        // shells
  bool is_newcomer = false;  // joins a job that runs; `rank` is `size` or more
  // For a newcomer of a job that may change its leader: who leads. `directory` has the leader.
  std::optional<Rank> leader = std::nullopt;
};

}  // namespace nacre::group
