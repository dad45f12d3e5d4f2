// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/execs.hpp"

#include <algorithm>
#include <csignal>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "plugins/control/exec_wire.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kTargetsInPart = 2048;  // far below a frame's limit

constexpr event::Seconds kSlow{1};  // a front end that takes nothing does not hold up the job's end for longer

std::string hosts_of(const job::Job& job, const value::Idset& shells) {
  std::string out;
  for (std::uint32_t shell : shells.ids()) out += (out.empty() ? "" : ", ") + host_of(job, shell);
  return out;
}

}  // namespace

// ---- requests ------------------------------------------------------------------------------

void Execs::begin(Key key, const Json& arguments) {
  if (Result<void> can = check_room(); !can) return replies_.answer(key, can.error());
  auto command = ExecCommand::parse(dump_json(arguments));
  if (command && command->argv.empty()) command = invalid("command: expected a command");
  if (!command) return replies_.answer(key, command.error());
  command->joins = false;  // that is another request
  auto wanted = ExecTargets::read(JsonAt::root(arguments), host_.job());
  if (!wanted) return replies_.answer(key, wanted.error());
  Exec exec;
  exec.detaches = arguments.value("detach", Json()) == true;
  exec.command = *std::move(command);
  exec.wanted = *std::move(wanted);
  std::uint64_t count = 0;
  for (const auto& [shell, ranks] : exec.wanted.shares) count += std::max<std::uint64_t>(ranks.size(), 1);
  exec.command.window = std::clamp(kExecOutput / count, kLeastExecWindow, kMostExecWindow);
  if (exec.command.pty) {
    if (Result<void> can = check_pty(exec, count); !can) return replies_.answer(key, can.error());
    exec.command.has_input = true;
    exec.command.window = kTerminalWindow;
  }
  execs_[key] = std::move(exec);
  order(key);
}

Result<void> Execs::check_room() const {
  if (is_over_ || host_.ending()) return Error{ESRCH, "the job is ending: nothing is started beside it any more"};
  if (execs_.size() < kMaxExecs) return {};
  return Error{EBUSY,
               fmt::format("{} commands run beside this job, which is the limit: wait for one of them, or end it",
                           kMaxExecs)};
}

// What is lost, or has left, is left out where nothing in particular was asked for.
void Execs::order(Key key) {
  Exec& exec = execs_.at(key);
  if (exec.wanted.is_all) {
    for (std::uint32_t shell : left_) exec.wanted.shares.erase(shell);
    for (std::uint32_t shell : lost_) {
      if (exec.wanted.shares.erase(shell) > 0) exec.lost.insert(shell);
    }
  }
  value::ExecOrder order;
  order.shares = exec.wanted.shares;
  order.command = exec.command.text();
  order.strict = true;
  order.kind = value::ExecOrder::Kind::tool;
  auto registration =
      host_.exec(std::move(order), [this, key](const Result<value::ExecAnswer>& answer) { ordered(key, answer); });
  if (auto found = execs_.find(key); found != execs_.end()) found->second.order = std::move(registration);
}

void Execs::ordered(Key key, const Result<value::ExecAnswer>& answer) {
  auto found = execs_.find(key);
  if (found == execs_.end()) return;
  Exec& exec = found->second;
  if (!answer) return finish(key, answer.error());
  if (!answer->lost.empty()) {
    for (std::uint32_t shell : answer->lost.ids()) {
      if (!left_.contains(shell)) lost_.insert(shell);
    }
    if (exec.wanted.is_all && answer->lost.size() < exec.wanted.shares.size()) return order(key);
    return finish(key, Error{EHOSTUNREACH, why_not_started(answer->lost)});
  }
  exec.number = answer->number;
  by_number_[exec.number] = key;
  for (const auto& [shell, ranks] : exec.wanted.shares) {
    if (ranks.empty()) exec.targets[shell].shell = shell;
    for (std::uint32_t rank : ranks.ids()) exec.targets[rank] = {.shell = shell, .is_rank = true};
  }
  describe(key, exec);
  if (exec.ends) end(exec, exec.is_gone);
  if (auto size = std::exchange(exec.size, std::nullopt)) notify({.number = exec.number, .size = size});
  pump(key);
}

std::string Execs::why_not_started(const value::Idset& shells) const {
  bool one = shells.size() == 1;
  auto left = static_cast<std::uint64_t>(
      std::count_if(left_.begin(), left_.end(), [&](std::uint32_t each) { return shells.contains(each); }));
  std::string_view how = left == 0               ? (one ? "is lost" : "are lost")
                         : left == shells.size() ? (one ? "has left the job" : "have left the job")
                                                 : "are lost, or have left the job";
  return fmt::format("nothing is started, as {} {}: leave {} out with -x", hosts_of(host_.job(), shells), how,
                     one ? "it" : "them");
}

Json Execs::members_of(std::uint32_t target, const Target& of) const {
  Json out{{"shell", of.shell}, {"host", host_of(host_.job(), of.shell)}};
  if (of.is_rank) out["rank"] = target;
  return out;
}

void Execs::describe(Key key, const Exec& exec) {
  Json rows = Json::array();
  for (const auto& [target, of] : exec.targets) {
    if (rows.size() == kTargetsInPart) replies_.part(key, {{"targets", std::exchange(rows, Json::array())}});
    rows.push_back(members_of(target, of));
  }
  Json lost = Json::array();
  for (std::uint32_t shell : exec.lost) lost.push_back(host_of(host_.job(), shell));
  replies_.part(key, {{"targets", std::move(rows)}, {"lost", std::move(lost)}});
}

Result<Json> Execs::control(std::uint64_t client, const std::string& action, const Json& arguments) {
  JsonAt at = JsonAt::root(arguments);
  if (action == "size") return resize(client, at);
  Exec& exec = *TRY(find(client, TRY(at.at("exec"))));
  if (exec.command.joins) return Error{EINVAL, "this request has started nothing"};
  if (action == "exec-end") {
    end(exec, false);
    return Json::object();
  }
  ExecNotice notice;
  notice.number = exec.number;
  notice.signum = static_cast<int>(TRY(TRY(at.at("signal")).integer(1, SIGRTMAX)));
  if (exec.number == 0) return Error{EAGAIN, "the command is not started yet"};
  notify(notice);
  return Json::object();
}

Result<Execs::Exec*> Execs::find(std::uint64_t client, const JsonAt& id) {
  auto number = static_cast<std::uint64_t>(TRY(id.integer(1, INT64_MAX)));
  auto found = execs_.find({client, number});
  if (found == execs_.end()) return Error{ESRCH, fmt::format("no command runs of request {} of this link", number)};
  return &found->second;
}

void Execs::end(Exec& exec, bool drops) {
  exec.ends = true;
  if (exec.number == 0) return;  // it is done once it has a number
  ExecNotice notice;
  notice.number = exec.number;
  notice.ends = true;
  notice.drops = drops;
  notify(notice);
}

void Execs::notify(const ExecNotice& notice) {
  Result<void> sent = host_.announce(kExecTopic, notice.text());
  if (!sent) host_.log().log(Level::warn, "control", "{}", sent.error().message);
}

void Execs::gone(std::uint64_t client) {
  std::vector<Key> theirs;
  for (auto& [key, exec] : execs_) {
    bool goes_on = exec.detaches && exec.is_gone;
    if (key.client == client && !goes_on) theirs.push_back(key);
  }
  leave(theirs);
}

void Execs::leave(const std::vector<Key>& keys) {
  for (Key key : keys) {
    auto found = execs_.find(key);
    if (found == execs_.end()) continue;
    found->second.is_gone = true;
    end(found->second, true);
    pump(key);
  }
}

void Execs::end_all(std::function<void()> done) {
  is_over_ = true;
  if (execs_.empty()) return done();
  when_over_ = std::move(done);
  if (auto looks = event::Timer::create(host_.loop(), [this] { leave_slow(); })) {
    looks_ = *std::move(looks);
    looks_->start(kSlow, kSlow);
  }
  std::vector<Key> all;
  for (const auto& [key, exec] : execs_) all.push_back(key);
  for (Key key : all) {
    if (auto found = execs_.find(key); found != execs_.end()) end(found->second, found->second.is_gone);
  }
}

// ---- what the shells send ------------------------------------------------------------------

void Execs::take(std::uint32_t shell, std::string_view bytes) {
  auto record = ExecRecord::parse(bytes);
  if (!record) return;
  auto key = by_number_.find(record->number);
  if (key == by_number_.end()) return;
  Exec& exec = execs_.at(key->second);
  auto target = exec.targets.find(record->target);
  if (target == exec.targets.end() || target->second.shell != shell) return;
  using What = ExecRecord::What;
  switch (record->what) {
    case What::started: target->second.is_started = true; break;
    case What::out:
    case What::err:
      exec.pieces.push_back({record->target,
                             exec.command.pty            ? kTerminalStream
                             : record->what == What::out ? "stdout"
                                                         : "stderr",
                             std::string(record->body)});
      break;
    case What::missed: exec.pieces.push_back({record->target, nullptr, std::string(record->body), true}); break;
    case What::exited: exec.pieces.push_back({record->target, nullptr, std::string(record->body)}); break;
    case What::input_taken: target->second.input = parse_u64(record->body).value_or(0); break;
  }
  pump(key->second);
}

void Execs::shell_gone(std::uint32_t shell, bool as_planned) {
  (as_planned ? left_ : lost_).insert(shell);
  std::vector<Key> concerned;
  for (auto& [key, exec] : execs_) {
    for (const auto& [target, of] : exec.targets) {
      if (of.shell == shell) exec.pieces.push_back({target, nullptr, exits::Record::lost().str()});
    }
    concerned.push_back(key);
  }
  for (Key key : concerned) pump(key);
}

// ---- what goes on to the front end ---------------------------------------------------------

void Execs::pump(Key key) {
  auto found = execs_.find(key);
  if (found == execs_.end() || found->second.number == 0) return;
  Exec& exec = found->second;
  if (!exec.pump.run([&] { return step(key, exec); })) return;
  grant_input(key, exec);
  if (exec.detaches && !exec.is_gone) detach(key, exec);
  if (!exec.targets.empty() || !exec.pieces.empty()) return;
  finish(key, Json::object());
}

bool Execs::step(Key key, Exec& exec) {
  if (exec.pieces.empty()) return false;
  if (exec.pieces.front().stream != nullptr) return put_piece(key, exec);
  Piece piece = std::move(exec.pieces.front());
  exec.pieces.pop_front();
  if (!piece.is_missed)
    put_end(key, exec, piece);
  else if (!exec.is_gone)
    replies_.part(key, {{"missed", {{"bytes", parse_u64(piece.bytes).value_or(0)}}}});
  return true;
}

bool Execs::put_piece(Key key, Exec& exec) {
  Piece& piece = exec.pieces.front();
  auto of = exec.targets.find(piece.target);
  std::size_t size = piece.bytes.size();
  if (!exec.is_gone && of != exec.targets.end()) {
    if (std::size_t room = replies_.room(key); room > 0) size = std::min(size, room);
    if (!replies_.put(key, piece.stream, std::string_view(piece.bytes).substr(0, size),
                      members_of(piece.target, of->second)))
      return false;
  }
  exec.is_slow = false;
  std::uint32_t target = piece.target;
  piece.bytes.erase(0, size);
  if (piece.bytes.empty()) exec.pieces.pop_front();
  note_taken(exec, target, size);
  return true;
}

void Execs::put_end(Key key, Exec& exec, const Piece& piece) {
  auto of = exec.targets.find(piece.target);
  if (of == exec.targets.end()) return;
  Json row = members_of(piece.target, of->second);
  std::size_t line = piece.bytes.find('\n');
  row["record"] = piece.bytes.substr(0, line);
  if (line != std::string::npos) row["message"] = piece.bytes.substr(line + 1);
  exec.targets.erase(of);
  if (!exec.is_gone) replies_.part(key, {{"exits", Json::array({std::move(row)})}});
}

// All that have got something go with the one that has got half of its window.
void Execs::note_taken(Exec& exec, std::uint32_t target, std::size_t bytes) {
  auto of = exec.targets.find(target);
  if (of == exec.targets.end()) return;
  of->second.taken += bytes;
  if (of->second.taken - of->second.announced < exec.command.window / 2) return;
  ExecNotice notice;
  notice.number = exec.number;
  for (auto& [each, state] : exec.targets) {
    if (state.taken == state.announced) continue;
    state.announced = state.taken;
    notice.may_write.emplace_back(each, state.taken + exec.command.window);
  }
  notify(notice);
}

// From here on its output is dropped.
void Execs::detach(Key key, Exec& exec) {
  for (const auto& [target, of] : exec.targets) {
    if (!of.is_started) return;
  }
  replies_.answer(key, Json::object());
  exec.is_gone = true;
}

void Execs::finish(Key key, const Result<Json>& answer) {
  auto taken = execs_.extract(key);
  if (!taken) return;
  by_number_.erase(taken.mapped().number);
  if (!taken.mapped().is_gone) replies_.answer(key, answer);
  if (!execs_.empty() || !when_over_) return;
  looks_.reset();
  std::exchange(when_over_, nullptr)();
}

void Execs::leave_slow() {
  std::vector<Key> slow;
  for (auto& [key, exec] : execs_) {
    if (exec.pieces.empty() || exec.is_gone) continue;
    if (std::exchange(exec.is_slow, true)) slow.push_back(key);
  }
  leave(slow);
}

// ---- execs input ------------------------------------------------------------------------
//
// What front ends send to the commands beside the tasks while these run, and the terminals that they join.

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

// ---- exec service -----------------------------------------------------------------------

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
