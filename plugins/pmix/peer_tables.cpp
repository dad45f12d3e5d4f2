// SPDX-License-Identifier: Apache-2.0
#include "peer_tables.hpp"

#include <algorithm>
#include <utility>

namespace nacre::pmix {

std::vector<std::string> PeerTables::own_rows(const std::string& nspace) const {
  std::vector<std::string> out;
  for (const ProcessRow& row : calls_.rows(nspace)) out.push_back(text_of(row));
  return out;
}

void PeerTables::list(const std::string& nspace, std::set<std::uint32_t> shells, double seconds,
                      ProcessTables::Done done) {
  const bool reaches_out = std::any_of(shells.begin(), shells.end(), [this](auto each) { return each != own_; });
  const std::uint64_t number = tables_.ask(std::move(shells), std::move(done));
  if (reaches_out) {
    calls_.send({.kind = PeerMessage::Kind::list, .number = number, .texts = {nspace}});
    return calls_.after(seconds, [this, number] { tables_.give_up(number); });
  }
  tables_.answered(own_, number, own_rows(nspace));
  tables_.give_up(number);
}

void PeerTables::receive(const PeerMessage& message) {
  if (message.kind == PeerMessage::Kind::rows) {
    if (message.to == own_) tables_.answered(message.shell, message.number, message.texts);
    return;
  }
  const std::string& nspace = message.texts[0];
  if (processes_.nodes_of(nspace).count(own_) == 0) return;
  std::vector<std::string> rows = own_rows(nspace);
  if (message.shell == own_) return tables_.answered(own_, message.number, rows);
  calls_.send(
      {.kind = PeerMessage::Kind::rows, .to = message.shell, .number = message.number, .texts = std::move(rows)});
}

}  // namespace nacre::pmix
