// SPDX-License-Identifier: Apache-2.0
//
// Conversations of whole jobs, transcripts/*.txt, are held again and compared word by word. A line is one of
//
//   # a comment
//   0 > what client 0 says            (a line; once it speaks PMI-2, a message)
//   0 < what it is answered
//   ! what the server asks of its owner, but for fences: the job has one node, so they end at once
//   = only 1|2                        the version that is offered; first of all, if not both
//   = clients COUNT KVSNAME           first
//   = attribute KEY VALUE
//   = spawned CLIENT KVSNAME CODES    what the owner has done
//   = failed CLIENT MESSAGE
//   = closed CLIENT
#include <filesystem>
#include <fstream>
#include <sstream>

#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

class Transcript {
 public:
  void run(const std::filesystem::path& path) {
    std::ifstream file(path);
    REQUIRE(file);
    std::string text;
    for (int number = 1; std::getline(file, text); ++number) {
      INFO(path.filename().string() << ":" << number << ": " << text);
      if (!text.empty() && text[0] != '#') take(text);
    }
    INFO("the end of " << path.filename().string());
    REQUIRE(world_);
    check_all_was_told();
  }

 private:
  void take(const std::string& text) {
    std::istringstream words(text);
    std::string who;
    std::string sign;
    words >> who;
    if (who == "!") return check_next(asked_, text.substr(2));
    if (who == "=") return act(words);
    words >> sign;
    REQUIRE((sign == ">" || sign == "<"));
    auto client = static_cast<std::uint32_t>(std::stoul(who));
    std::string rest = text.substr(who.size() + 3);
    if (sign == "<") return check_next(told_[client], rest);
    check_all_was_told();
    keep(client, world_->say(client, rest));
    collect();
  }

  static void check_next(std::vector<std::string>& found, const std::string& expected) {
    REQUIRE_FALSE(found.empty());
    REQUIRE(found.front() == expected);
    found.erase(found.begin());
  }

  void act(std::istringstream& words) {
    std::string what;
    std::string rest;
    std::uint32_t number = 0;
    words >> what;
    if (what == "attribute") {
      std::string key;
      words >> key >> std::ws;
      std::getline(words, rest);
      return world_->server.set_attribute(key, rest);
    }
    words >> number >> std::ws;
    std::getline(words, rest);
    if (what == "only") {
      only_ = number;
    } else if (what == "clients") {
      ClientGroup group = World::group_of(number);
      group.kvsname = rest;
      group.pmi1 = only_ != 2;
      group.pmi2 = only_ != 1;
      group.takes_groups = [](std::uint32_t) { return true; };  // as nacre offers
      world_.emplace(group);
    } else if (what == "spawned") {
      std::vector<int> codes;
      std::istringstream list(rest.substr(rest.find(' ') + 1));
      for (std::string code; std::getline(list, code, ',');) codes.push_back(std::stoi(code));
      world_->server.spawned(number, rest.substr(0, rest.find(' ')), codes);
    } else if (what == "failed") {
      world_->server.spawned(number, Error{ENOENT, rest}, {});
    } else {
      REQUIRE(what == "closed");
      world_->server.closed(number);
    }
    if (world_) collect();
  }

  void keep(std::uint32_t client, const std::string& lines) {
    std::istringstream all(lines);
    for (std::string line; std::getline(all, line);) told_[client].push_back(line);
  }

  // Collects the answers to all clients.
  void collect() {
    for (const Event& event : world_->server.take_events()) {
      if (std::holds_alternative<Fence>(event)) {
        exchange_.fence({}, [this](const Result<Entries>& others) { world_->server.fenced(others); });
      } else if (const auto* part = std::get_if<GroupFence>(&event)) {
        world_->server.group_fenced(part->group.name(), Entries());
      } else {
        asked_.push_back(text_of(event));
      }
    }
    std::vector<std::uint32_t> pending;
    world_->server.take_pending(pending);
    for (std::uint32_t client : pending) keep(client, world_->heard(client));
  }

  void check_all_was_told() const {
    for (const auto& [client, lines] : told_) {
      INFO("to client " << client);
      REQUIRE(lines.empty());
    }
    REQUIRE(asked_.empty());
  }

  std::uint32_t only_ = 0;
  std::optional<World> world_;
  NoExchange exchange_;
  std::map<std::uint32_t, std::vector<std::string>> told_;
  std::vector<std::string> asked_;
};

}  // namespace

TEST_CASE("transcripts") {
  std::size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator(NACRE_SOURCE_DIR "/t/unit/pmi/transcripts")) {
    Transcript().run(each.path());
    ++count;
  }
  CHECK(count == 10);
}
