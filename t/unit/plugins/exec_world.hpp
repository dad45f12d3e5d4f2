// SPDX-License-Identifier: Apache-2.0
//
// Commands beside the tasks: the leader's side and a shell's together, on a FakeHost of one shell. The front end is
// the test, which gives room for output, and sees what comes.
#pragma once

#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/control/execs.hpp"

namespace nacre::kit {

struct ExecWorld {
  explicit ExecWorld(std::uint32_t tasks = 4, const char* kill_timeout = "0.1s") : host(tasks) {
    REQUIRE(host.options().set_from_argument(std::string("kill-timeout=") + kill_timeout));
    host.environment().set("PATH", "/usr/bin:/bin");
    host.make_tasks();
    REQUIRE(runner.serve([this](std::string_view record) -> Result<bool> {
      records += record.size();
      execs.take(0, record);
      return true;
    }));
  }
  ExecWorld(const ExecWorld&) = delete;
  ExecWorld& operator=(const ExecWorld&) = delete;

  plugins::Execs::Replies replies() {
    plugins::Execs::Replies out;
    out.part = [this](plugins::Execs::Key key, const Json& part) {
      if (part.contains("missed")) missed += part.at("missed").at("bytes").get<std::size_t>();
      if (!part.contains("exits")) return;
      for (const Json& each : part.at("exits")) exits[key.id].push_back(each.at("record").get<std::string>());
    };
    out.answer = [this](plugins::Execs::Key key, const Result<Json>& answer) {
      CHECK(answers.emplace(key.id, answer ? "" : answer.error().message).second);
    };
    out.room = [this](plugins::Execs::Key) { return room; };
    out.put = [this](plugins::Execs::Key key, const char* stream, std::string_view data, const Json&) {
      if (room < std::max<std::size_t>(data.size(), 1)) return false;
      room -= data.size();
      streams.insert(stream);
      output[key.id] += stream != std::string("stderr") ? std::string(data) : "!" + std::string(data);
      return true;
    };
    out.grant = [this](plugins::Execs::Key, std::size_t bytes) { granted += bytes; };
    return out;
  }
  void begin(std::uint64_t id, const char* script, Json more = Json::object()) {
    more["command"] = {"sh", "-c", script};
    execs.begin({1, id}, more);
  }
  bool answered(std::uint64_t id) {
    return host.serve([&] { return answers.contains(id); });
  }

  std::size_t room = std::size_t{1} << 30;
  std::size_t granted = 0;
  std::size_t missed = 0;                                // bytes
  std::size_t records = 0;                               // bytes
  std::map<std::uint64_t, std::string> output, answers;  // by request
  std::map<std::uint64_t, std::vector<std::string>> exits;
  std::set<std::string> streams;  // on which output has come
  FakeHost host;
  plugins::ExecRunner runner{host};
  plugins::Execs execs{host, replies(), [this](std::string_view record) { return runner.feed(record), true; }};
};

}  // namespace nacre::kit
