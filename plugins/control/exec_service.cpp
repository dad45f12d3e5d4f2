// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/exec_service.hpp"

#include <utility>

namespace nacre::plugins {
namespace {

constexpr const char* kExecHold = "control.exec";

}  // namespace

Result<void> ExecService::serve() {
  if (leads()) execs_.emplace(host_, replies(), [this](std::string_view record) { return broadcast(record); });
  if (bulk::Port* port = host_.bulk()) serve_bulk(*port);
  return runner_.serve([this](std::string_view record) { return put_up(record); });
}

Execs::Replies ExecService::replies() {
  using Key = Execs::Key;
  Execs::Replies out;
  out.part = [this](Key key, Json part) {
    if (auto* server = server_()) server->answer_part(key.client, key.id, std::move(part));
  };
  out.answer = [this](Key key, const Result<Json>& value) {
    if (auto* server = server_()) server->answer(key.client, key.id, value);
  };
  out.room = [this](Key key) {
    auto* server = server_();
    return server != nullptr ? server->room(key.client, key.id) : 0;
  };
  out.put = [this](Key key, const char* stream, std::string_view data, const Json& members) {
    auto* server = server_();
    return server == nullptr || server->put(key.client, {key.id, stream, std::string(data), members});
  };
  out.grant = [this](Key key, std::size_t bytes) {
    if (auto* server = server_()) server->grant(key.client, key.id, bytes);
  };
  return out;
}

bool ExecService::broadcast(std::string_view record) {
  bulk::Port* port = host_.bulk();
  if (port != nullptr && host_.job().shells() > 1)
    return port->broadcast(bulk::down::kExecInput, record).value_or(true);  // cut off: all is over
  runner_.feed(record);
  return true;
}

Result<bool> ExecService::put_up(std::string_view record) {
  if (!leads()) {
    bulk::Port* port = host_.bulk();
    return port != nullptr ? port->put(bulk::up::kExec, record) : Result<bool>(true);
  }
  execs_->take(host_.job().shell_rank, record);
  return true;
}

void ExecService::serve_bulk(bulk::Port& port) {
  bulk::Port::Upward upward;
  upward.on_record = [this, &port](bulk::Id shell, bulk::Numbered number, std::string_view bytes) {
    if (execs_) execs_->take(shell, bytes);
    port.taken(shell, number);
  };
  upward.on_room = [this] { runner_.on_room(); };
  port.serve(bulk::up::kExec, std::move(upward));
  bulk::Port::Downward downward;
  downward.on_record = [this, &port](bulk::Numbered number, std::string_view bytes) {
    runner_.feed(bytes);
    port.consumed(number);
  };
  downward.on_room = [this] {
    if (execs_) execs_->on_broadcast_room();
  };
  port.serve(bulk::down::kExecInput, std::move(downward));
}

bool ExecService::take(ClientId client, const control::ControlRequest& request) {
  bool begins = request.action == "exec";
  if (!begins && request.action != "exec-signal" && request.action != "exec-end" && request.action != "size")
    return false;
  if (begins)
    execs_->begin({client, request.id}, request.arguments);
  else if (auto* server = server_())
    server->answer(client, request.id, execs_->control(client, request.action, request.arguments));
  return true;
}

void ExecService::end_all() {
  host_.hold(kExecHold);
  execs_->end_all([this] { static_cast<void>(host_.release(kExecHold)); });
}

}  // namespace nacre::plugins
