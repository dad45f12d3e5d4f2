// SPDX-License-Identifier: Apache-2.0
//
// The processes of a namespace, of all shells that have some: this shell asks the others for theirs, and answers
// what they ask. ProcessTables puts the answers together.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "peer_message.hpp"
#include "process_map.hpp"
#include "process_tables.hpp"

namespace nacre::pmix {

class PeerTables {
 public:
  struct Calls {
    std::function<void(PeerMessage message)> send;
    std::function<void(double seconds, std::function<void()> function)> after;
    std::function<std::vector<ProcessRow>(const std::string& nspace)> rows;  // of this shell
  };

  // `processes` has to outlive this object.
  PeerTables(const ProcessMap& processes, std::uint32_t own, Calls calls)
      : processes_(processes), own_(own), calls_(std::move(calls)) {}

  // Of these shells; those that do not answer within so many seconds are left out.
  void list(const std::string& nspace, std::set<std::uint32_t> shells, double seconds, ProcessTables::Done done);
  void receive(const PeerMessage& message);  // a list or rows
  void lost(std::uint32_t shell) { tables_.lost(shell); }
  void give_up() { tables_.give_up_all(); }

 private:
  [[nodiscard]] std::vector<std::string> own_rows(const std::string& nspace) const;

  const ProcessMap& processes_;
  std::uint32_t own_;
  Calls calls_;
  ProcessTables tables_;
};

}  // namespace nacre::pmix
