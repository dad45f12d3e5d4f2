// SPDX-License-Identifier: Apache-2.0
//
// What front ends send to the commands beside the tasks while these run, and the terminals that they join.
#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/big_endian.hpp"
#include "plugins/control/execs.hpp"
#include "plugins/control/terminal_size.hpp"

namespace nacre::plugins {

// ---- terminals -----------------------------------------------------------------------------

void Execs::join(Key key, const Json& arguments) {
  if (Result<void> can = check_room(); !can) return replies_.answer(key, can.error());
  auto exec = joining(JsonAt::root(arguments), host_.job());
  if (!exec) return replies_.answer(key, exec.error());
  execs_[key] = *std::move(exec);
  order(key);
}

Result<Execs::Exec> Execs::joining(const JsonAt& arguments, const job::Job& job) {
  JsonAt pty = TRY(arguments.at("pty"));
  Exec out;
  out.command.pty = TRY(terminal_size_of(pty));
  out.command.joins = out.command.has_input = true;
  out.command.window = kTerminalWindow;
  auto rank = TRY(TRY(pty.at("rank")).integer(0, UINT32_MAX));
  Json ranks{{"ranks", fmt::format("{}", rank)}};
  out.wanted = TRY(ExecTargets::read(JsonAt::root(ranks), job));
  return out;
}

Result<void> Execs::check_pty(const Exec& exec, std::uint64_t targets) {
  if (exec.detaches) return invalid("pty: a command that is left when it has started has no terminal");
  if (targets == 1) return {};
  return invalid(
      fmt::format("pty: a terminal is that of one command, and {} are asked for: name one host (-w), rank (-r) or "
                  "shell (--shells)",
                  targets));
}

Result<Json> Execs::resize(std::uint64_t client, const JsonAt& arguments) {
  winsize size = TRY(terminal_size_of(arguments));
  Exec& exec = *TRY(find(client, TRY(arguments.at("request"))));
  if (!exec.command.pty) return Error{ENOTTY, "this request has no terminal"};
  if (exec.number == 0)
    exec.size = size;
  else
    notify({.number = exec.number, .size = size});
  return Json::object();
}

// ---- input ---------------------------------------------------------------------------------

// Once all have started: before, a shell would not know whose input it is. The slowest decides.
void Execs::grant_input(Key key, Exec& exec) {
  if (!exec.command.has_input || exec.is_gone) return;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [target, of] : exec.targets) {
    if (!of.is_started) return;
    least = std::min(least, of.input);
  }
  if (exec.targets.empty()) return;
  std::uint64_t may = least + kExecInputWindow;
  if (may <= exec.granted) return;
  replies_.grant(key, may - exec.granted);
  exec.granted = may;
}

void Execs::input(Key key, std::string_view stream, std::string_view bytes) {
  auto found = execs_.find(key);
  if (found == execs_.end() || !found->second.command.has_input) return;
  Exec& exec = found->second;
  if (stream != (exec.command.pty ? kTerminalStream : "stdin")) return;
  if (bytes.empty()) exec.input.emplace_back();
  for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kExecChunk)))
    exec.input.emplace_back(bytes.substr(0, kExecChunk));
  broadcast_input(exec);
}

void Execs::broadcast_input(Exec& exec) {
  if (exec.number == 0) return;
  while (!exec.input.empty()) {
    std::string record;
    append_number(record, exec.number);
    if (!broadcast_(record + exec.input.front())) return;
    exec.input.pop_front();
  }
}

void Execs::on_broadcast_room() {
  for (auto& [key, exec] : execs_) broadcast_input(exec);
}

}  // namespace nacre::plugins
