// SPDX-License-Identifier: Apache-2.0
//
// The processes of a namespace, as a client asks for them: this shell knows those that it has, the others are
// asked. One that does not answer in time, or is lost, is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "peer_message.hpp"

namespace nacre::pmix {

struct ProcessRow {
  Rank rank = 0;
  std::int32_t pid = 0;
  std::uint8_t state = 0;  // a pmix_proc_state_t
  std::int32_t exit_code = 0;
  std::string command;

  bool operator==(const ProcessRow&) const = default;
};

// Numbers and the command, with a space between them: "3 4711 2 0 ./a.out".
std::string text_of(const ProcessRow& row);
std::optional<ProcessRow> row_in(std::string_view text);

class ProcessTables {
 public:
  using Rows = std::map<Rank, ProcessRow>;
  using Done = std::function<void(const Rows& rows)>;

  // Returns the number of the question, for the shells that are asked.
  std::uint64_t ask(std::set<std::uint32_t> shells, Done done);
  void answered(std::uint32_t shell, std::uint64_t number, const std::vector<std::string>& rows);
  void lost(std::uint32_t shell);
  void give_up(std::uint64_t number);  // nothing if it has been answered
  void give_up_all();

 private:
  struct Table {
    std::set<std::uint32_t> asked;
    Rows rows;
    Done done;
  };
  std::map<std::uint64_t, Table> tables_;
  std::uint64_t last_ = 0;
};

}  // namespace nacre::pmix
