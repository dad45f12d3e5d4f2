// SPDX-License-Identifier: Apache-2.0
//
// A PmiDoctor, and the tasks that it looks at.
#pragma once

#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/pmi/doctor.hpp"

namespace nacre::plugins {

inline pmi::ClientGroup group_of(kit::FakeHost& host) {
  pmi::ClientGroup group;
  group.kvsname = "kvs";
  group.size = static_cast<std::uint32_t>(host.job().tasks());
  for (const auto& task : host.tasks()) group.ranks.push_back(task->rank());
  return group;
}

inline PmiOptions reporting_after(double seconds) {
  PmiOptions options;
  options.hang_report = value::Duration::of_seconds(seconds);
  return options;
}

// The doctor of one shell, whose tasks run and are clients of a server. They have no processes: what they do is
// "gone".
struct Practice {
  explicit Practice(kit::FakeHost& of_host, PmiOptions pmi_options = {}, bool with_pmi = true,
                    const std::map<std::size_t, pid_t>& pids = {})
      : host(of_host), options(pmi_options) {
    host.start_tasks(pids);
    server.emplace(group_of(host), names);
    doctor.emplace(host, plugin, options, with_pmi ? &*server : nullptr);
    REQUIRE(doctor->watch());
  }
  // Goes on as the shell does once all have got this far.
  void begin() {
    doctor->all_listen();
    REQUIRE(doctor->tasks_started());
  }

  void say(std::uint32_t client, std::string_view line) { server->receive(client, fmt::format("{}\n", line)); }
  void join(std::uint32_t client) { say(client, "cmd=init pmi_version=1 pmi_subversion=1"); }
  void enter(std::uint32_t client) { say(client, "cmd=barrier_in"); }

  // What was said at this level since the last call.
  std::vector<std::string> said(std::string_view level = "notice") {
    std::vector<std::string> out;
    std::string start = fmt::format("{} pmi: ", level);
    for (const std::string& text : host.logged) {
      if (text.starts_with(start)) out.push_back(text.substr(start.size()));
    }
    host.logged.clear();
    return out;
  }
  // Sends SIGUSR2 to this process, and lets the shell handle it.
  void signal() {
    bool seen = false;
    auto watcher = event::SignalWatcher::create(host.loop(), SIGUSR2, [&](int) { seen = true; }).value();
    ::raise(SIGUSR2);
    REQUIRE(host.serve([&] { return seen; }));
  }
  // Lets this much time go by on its loop.
  void pass(double seconds) {
    bool over = false;
    auto timer = event::Timer::create(host.loop(), [&] { over = true; }).value();
    timer.start(event::Seconds(seconds));
    REQUIRE(host.serve([&] { return over; }));
  }

  kit::FakeHost& host;
  plugin::Plugin plugin{"pmi"};
  PmiOptions options;
  pmi::Names names;
  std::optional<pmi::Server> server;
  std::optional<PmiDoctor> doctor;
};

}  // namespace nacre::plugins
