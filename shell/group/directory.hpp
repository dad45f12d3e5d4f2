// SPDX-License-Identifier: Apache-2.0
//
// Where the shells of a job can be dialled. Boot knows some of it, at least the ancestors of this shell; the shells
// send each other the rest once they are linked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "transport/address.hpp"

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

}  // namespace nacre::group
