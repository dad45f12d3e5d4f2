// SPDX-License-Identifier: Apache-2.0
//
// A process group over real socket pairs, whose processes do not really run: what its clients send, how they end,
// and what the host is asked for then.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include "catch.hpp"

#include "fake_host.hpp"
#include "fake_pmi.hpp"
#include "plugins/pmi/departures.hpp"

namespace nacre::plugins {

class PmiClients {
 public:
  // The client with number N has the rank `first_rank` + N, of a job of `size` ranks; 0: of as many as there are
  // clients.
  explicit PmiClients(std::uint32_t clients, PmiOptions pmi_options = {}, std::uint32_t first_rank = 0,
                      std::uint32_t size = 0)
      : options(pmi_options), processes(clients), ends(clients) {
    pmi::ClientGroup facts;
    facts.kvsname = "kvs";
    facts.size = size != 0 ? size : clients;
    facts.ranks.resize(clients);
    std::iota(facts.ranks.begin(), facts.ranks.end(), first_rank);
    PmiGroup::Callbacks callbacks = departures.callbacks();
    callbacks.on_spawn = [this](const pmi::SpawnRequest& request) {
      if (on_spawn) on_spawn(request);
    };
    callbacks.on_wait = [](bool) {};
    group.emplace(host.loop(), std::move(facts), names, exchange, std::move(callbacks));
    departures.attach(*group);
    for (std::uint32_t client = 0; client < clients; ++client) {
      ends[client] = group->open(client).value();
      REQUIRE(group->start(client));
    }
  }
  PmiClients(const PmiClients&) = delete;
  PmiClients& operator=(const PmiClients&) = delete;

  // Writes the line, and lets the shell's side read it.
  void say(std::uint32_t client, std::string_view line) {
    write(client, line);
    group->drain(client);
  }
  // Only writes the line: the shell has not read it yet.
  void write(std::uint32_t client, std::string_view line) {
    std::string text = fmt::format("{}\n", line);
    REQUIRE(::send(ends[client].get(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  // The answers to the client, without the last newline; "" if there are none.
  std::string heard(std::uint32_t client) {
    char buffer[4096];
    ssize_t size = ::recv(ends[client].get(), buffer, sizeof buffer, MSG_DONTWAIT);
    std::string text(buffer, size > 0 ? static_cast<std::size_t>(size) : 0);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  std::string ask(std::uint32_t client, std::string_view line) {
    heard(client);
    say(client, line);
    return heard(client);
  }
  void join(std::uint32_t client) {
    REQUIRE(ask(client, kInit) == "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
  }
  void join_all() {
    for (std::uint32_t client = 0; client < ends.size(); ++client) join(client);
  }
  void finalize(std::uint32_t client) { REQUIRE(ask(client, "cmd=finalize") == "cmd=finalize_ack rc=0"); }
  // The client enters the barrier, which is over for it once it has passed().
  void enter(std::uint32_t client) {
    heard(client);
    say(client, "cmd=barrier_in");
  }
  bool passed(std::uint32_t client) { return heard(client) == "cmd=barrier_out rc=0"; }
  std::string dead(std::uint32_t client) {
    std::string answer = ask(client, "cmd=get kvsname=kvs key=PMI_dead_processes");
    constexpr std::string_view kFound = "cmd=get_result rc=0 value=";
    return answer == kFound ? "none" : answer.starts_with(kFound) ? answer.substr(kFound.size()) : answer;
  }

  // Closes its connection; the process goes on.
  void leave(std::uint32_t client) {
    ends[client].reset();
    group->drain(client);
  }
  // The process ends, and its connection with it.
  void exit(std::uint32_t client, const value::WaitStatus& status) {
    ends[client].reset();
    processes.running[client] = false;
    departures.exited(client, status);
  }
  void exit(std::uint32_t client, int code) { exit(client, value::WaitStatus::exited(code)); }
  void die(std::uint32_t client, int signum) { exit(client, value::WaitStatus::killed(signum)); }

  // "CODE: MESSAGE" of each exception, all of which end the job; without the text about fault-tolerance.
  std::vector<std::string> raised() const {
    std::vector<std::string> out;
    for (const plugin::RaisedException& each : host.exceptions) {
      REQUIRE(each.type == "exec");
      REQUIRE(each.severity == 0);
      REQUIRE(each.status);
      std::string message = each.message;
      constexpr std::string_view kRemedy = "; the job ends (-o fault-tolerance lets the others go on)";
      if (message.ends_with(kRemedy)) message.replace(message.size() - kRemedy.size(), kRemedy.size(), "!");
      out.push_back(fmt::format("{}: {}", each.status->job_code(), message));
    }
    return out;
  }
  // The messages of a level.
  std::vector<std::string> logged(std::string_view level) const {
    std::vector<std::string> out;
    std::string start = fmt::format("{} pmi: ", level);
    for (const std::string& text : host.logged) {
      if (text.starts_with(start)) out.push_back(text.substr(start.size()));
    }
    return out;
  }

  static constexpr std::string_view kInit = "cmd=init pmi_version=1 pmi_subversion=1";

  std::function<void(const pmi::SpawnRequest&)> on_spawn;
  kit::FakeHost host;
  plugin::Plugin plugin{"pmi"};
  PmiOptions options;
  FakeProcesses processes;
  pmi::Names names;
  FakeExchange exchange;
  PmiDepartures departures{host, plugin, options, processes};
  std::optional<PmiGroup> group;
  std::vector<UniqueFd> ends;  // by client
};

}  // namespace nacre::plugins
