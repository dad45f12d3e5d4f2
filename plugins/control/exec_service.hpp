// SPDX-License-Identifier: Apache-2.0
//
// Commands beside the tasks (`nacre exec`), as one shell has them: it runs what it is ordered to (ExecRunner); on
// the leader front ends ask for them (Execs). Both are connected here to the bulk data between shells and to the
// server of front ends.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "control/server.hpp"
#include "plugin/host.hpp"
#include "plugins/control/exec_runner.hpp"
#include "plugins/control/execs.hpp"

namespace nacre::plugins {

class ExecService {
 public:
  using ClientId = control::ControlServer::ClientId;

  // `server`: of front ends; null while there is none.
  ExecService(plugin::Host& host, std::function<control::ControlServer*()> server)
      : host_(host), server_(std::move(server)), runner_(host) {}

  // In shell.init: from here on this shell runs what it is ordered to.
  Result<void> serve();

  void task_ended() { runner_.task_ended(); }  // of this shell

  // ---- on the leader, after serve()
  // False: the request is about something else, and is not answered.
  bool take(ClientId client, const control::ControlRequest& request);
  void data(ClientId client, const control::StreamData& data) {
    execs_->input({client, data.id}, data.stream, data.data);
  }
  void end(ClientId client, const control::StreamEnd& end) { execs_->input({client, end.id}, end.stream, {}); }
  void room(ClientId client, std::uint64_t id) { execs_->on_room({client, id}); }
  // A viewer of a task's terminal: `attach` with `pty`.
  void join(ClientId client, const control::ControlRequest& request) {
    execs_->join({client, request.id}, request.arguments);
  }
  void gone(ClientId client) { execs_->gone(client); }
  void shell_gone(std::uint32_t shell, bool as_planned) { execs_->shell_gone(shell, as_planned); }
  // The tasks have ended. The job waits until the commands have ended, too, and have reported how.
  void end_all();

 private:
  [[nodiscard]] bool leads() const { return host_.job().shell_rank == 0; }
  Execs::Replies replies();
  bool broadcast(std::string_view record);
  Result<bool> put_up(std::string_view record);
  void serve_bulk(bulk::Port& port);

  plugin::Host& host_;
  std::function<control::ControlServer*()> server_;
  ExecRunner runner_;
  std::optional<Execs> execs_;  // of the leader
};

}  // namespace nacre::plugins
