// SPDX-License-Identifier: Apache-2.0
//
// Whatever comes as messages of the plugin pmix: bytes are no message, or the one encoding of it; and nodes that
// receive the same messages answer collectives, and groups, alike: who gets a part gets all that others have got
// with it. Rows of processes are none, or the same after they have been sent.
//
// The input is messages, each after a byte that says how long it is.
#include <map>
#include <memory>

#include "groups.hpp"
#include "peer_message.hpp"
#include "require.hpp"

using namespace nacre::pmix;  // NOLINT
using nacre::fuzz::require;

namespace {

const std::vector<std::vector<Rank>> kNodes = {{0, 1}, {2}, {3, 4, 5}, {}};

class Job {
 public:
  Job() {
    ProcessMap::RanksByNode ranks;
    for (std::uint32_t node = 0; node < kNodes.size(); ++node) ranks[node] = kNodes[node];
    processes_.add("home", 0, ranks);
    for (std::uint32_t node = 0; node < kNodes.size(); ++node) {
      nodes_.emplace_back(kNodes, node);
      groups_.emplace_back(processes_, node);
    }
  }

  void receive(const PeerMessage& message) {
    if (message.kind == PeerMessage::Kind::part && message.texts.size() == 2) return part(message);
    if (message.kind == PeerMessage::Kind::group && message.texts.size() == 3) return group(message);
    if (message.kind == PeerMessage::Kind::rows) rows(message);
    for (Groups& each : groups_) {
      if (message.kind == PeerMessage::Kind::leave && !message.texts.empty())
        each.give_up(message.shell, message.texts[0], message.number);
      if (message.kind == PeerMessage::Kind::ended) each.ended(message.rank);
      if (message.kind == PeerMessage::Kind::gone) each.over(message.to);
    }
    for (Collectives& each : nodes_) {
      if (message.kind == PeerMessage::Kind::ended) each.ended(message.rank);
      if (message.kind == PeerMessage::Kind::over) each.over(message.shell);
    }
  }

 private:
  static void rows(const PeerMessage& message) {
    for (const std::string& text : message.texts) {
      auto row = row_in(text);
      require(!row || row_in(text_of(*row)) == row, "a row is the same after its way");
    }
  }

  // A number may be given twice: then the later waits in place of the earlier.
  void group(const PeerMessage& message) {
    Groups::Part part = Groups::part_of(message);
    part.bytes = std::to_string(++parts_) + ";";
    auto open = std::make_shared<bool>(true);
    if (message.shell < groups_.size()) {
      groups_[message.shell].enter(part.number, [this, open](const Groups::Outcome& outcome) {
        require(*open, "an answer comes once");
        *open = false;
        bool is_there = outcome.end == Groups::End::whole || outcome.end == Groups::End::partial;
        require(is_there || (outcome.all.empty() && outcome.id == 0), "there is nothing of what is not there");
        compare(outcome.all);
        if (is_there) require(ids_.emplace(outcome.all, outcome.id).first->second == outcome.id, "one id for all");
      });
    }
    for (Groups& each : groups_) each.part(message.shell, message.texts[0], part);
    for (Groups& each : groups_) (void)each.take_notices();
  }

  // Each is told apart by its number.
  void part(const PeerMessage& message) {
    std::string mark = std::to_string(++parts_) + ";";
    auto open = std::make_shared<bool>(true);
    if (message.shell < nodes_.size()) {
      nodes_[message.shell].enter(message.texts[0], [this, open](int, const std::string& all) {
        require(*open, "an answer comes once");
        *open = false;
        compare(all);
      });
    }
    for (Collectives& each : nodes_) each.part(message.shell, message.texts[0], message.status, mark);
  }

  void compare(const std::string& all) {
    for (std::size_t at = 0; at < all.size();) {
      std::size_t end = all.find(';', at);
      auto known = answers_.emplace(all.substr(at, end - at), all);
      require(known.first->second == all, "those who are answered with a part are answered alike");
      at = end + 1;
    }
  }

  ProcessMap processes_;
  std::vector<Collectives> nodes_;
  std::vector<Groups> groups_;
  std::map<std::string, std::uint64_t> ids_;    // by what is answered with it
  std::map<std::string, std::string> answers_;  // by a part that is in it
  int parts_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  Job job;
  while (!input.empty()) {
    std::size_t length = static_cast<unsigned char>(input[0]);
    std::string_view bytes = input.substr(1, length);
    input.remove_prefix(1 + bytes.size());
    auto message = decode(bytes);
    if (!message) continue;
    require(encode(*message) == bytes, "one encoding of a message");
    job.receive(*message);
  }
  return 0;
}
