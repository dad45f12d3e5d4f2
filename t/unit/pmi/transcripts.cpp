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

#include "base/text.hpp"
#include "pmi/client.hpp"
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

// What the PMI-1 servers of others answer, servers/*.txt: the client takes each of them as meant. A line is one of
//
//   # a comment
//   ? REQUEST ARGUMENTS   what the client is asked for
//   > what it says
//   < what the server answers
//   = what is read of the answer: a value or a number
//   ! the error that is made of it
//
// Behind the last line of an exchange the session is over if the request was finalize, and only then.

namespace {

class Exchange {
 public:
  void run(const std::filesystem::path& path) {
    std::ifstream file(path);
    REQUIRE(file);
    std::string text;
    for (int number = 1; std::getline(file, text); ++number) {
      INFO(path.filename().string() << ":" << number << ": " << text);
      if (!text.empty() && text[0] != '#') take(text[0], text.substr(std::min<std::size_t>(2, text.size())));
    }
    INFO("the end of " << path.filename().string());
    check_read("");
    CHECK(session_.is_over());
  }

 private:
  void take(char sign, const std::string& text) {
    if (sign == '?') {
      check_read("");
      CHECK_FALSE(session_.is_over());
      ask(text);
    } else if (sign == '>') {
      REQUIRE(said_ == text + "\n");
    } else if (sign == '<') {
      answer(text);
    } else {
      REQUIRE((sign == '=' || sign == '!'));
      check_read(sign + (" " + text));
    }
  }

  void ask(const std::string& text) {
    std::vector<std::string_view> words = split(text, ' ');
    words.resize(3);
    const std::map<std::string_view, std::function<Result<std::string>()>> requests = {
        {"init", [&] { return session_.init(); }},
        {"get_maxes", [&] { return session_.get_maxes(); }},
        {"get_kvsname", [&] { return session_.get_kvsname(); }},
        {"put", [&] { return session_.put(words[1], words[2]); }},
        {"get", [&] { return session_.get(words[1]); }},
        {"barrier", [&] { return session_.barrier(); }},
        {"finalize", [&] { return session_.finalize(); }},
    };
    auto request = requests.find(words[0]);
    REQUIRE(request != requests.end());
    auto said = request->second();
    REQUIRE(said);
    said_ = *said;
  }

  void answer(const std::string& text) {
    auto reply = session_.receive(text + "\n");
    if (!reply) {
      read_ = "! " + reply.error().message;
      return;
    }
    REQUIRE(*reply);
    const std::string& request = (**reply).request;
    if (request == "get_maxes") {
      const auto& maxes = *session_.maxes();
      read_ = fmt::format("= {} {} {}", maxes.name, maxes.key, maxes.value);
    } else if (!(**reply).text.empty()) {
      read_ = "= " + (**reply).text;
    }
  }

  void check_read(const std::string& expected) { REQUIRE(std::exchange(read_, "") == expected); }

  ClientSession session_;
  std::string said_;
  std::string read_;  // of the last answer, and not compared yet
};

}  // namespace

TEST_CASE("client: the answers of others' servers") {
  const std::string folder = NACRE_SOURCE_DIR "/t/unit/pmi/servers";
  for (const std::string name : {"flux", "hydra-4.0", "hydra-4.1", "hydra-4.3", "hydra-5.0", "slurm"}) {
    DYNAMIC_SECTION(name) { Exchange().run(folder + "/" + name + ".txt"); }
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 6);
}
