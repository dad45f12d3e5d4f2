// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/execs.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "exits/record.hpp"
#include "job/options.hpp"
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
  command->joins = false;  // to join is another request
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

// If the request names nothing in particular, shells that are lost or have left are left out.
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
  if (exec.number == 0) return;  // ended once it has a number
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

// All targets with output are granted more together with one that has got half of its window.
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

// From here on its output is dropped, and it does not end with this leader.
void Execs::detach(Key key, Exec& exec) {
  for (const auto& [target, of] : exec.targets) {
    if (!of.is_started) return;
  }
  ExecNotice notice;
  notice.number = exec.number;
  notice.drops = true;
  notify(notice);
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

// Called once all targets have started, as until then a shell does not know the order that the input is for. The
// slowest target decides how much is granted.
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
  if (leads()) lead();
  if (bulk::Port* port = host_.bulk()) serve_bulk(*port);
  return runner_.serve([this](std::string_view record) { return put_up(record); });
}

void ExecService::lead() {
  execs_.emplace(host_, replies(), [this](std::string_view record) { return broadcast(record); });
  for (auto [shell, as_planned] : gone_) execs_->shell_gone(shell, as_planned);
}

void ExecService::shell_gone(std::uint32_t shell, bool as_planned) {
  gone_.emplace_back(shell, as_planned);
  if (execs_) execs_->shell_gone(shell, as_planned);
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
    return port->broadcast(bulk::down::kExecInput, record).value_or(true);  // false on an error: this shell is cut
                                                                            // off, and all is over
  runner_.feed(record);
  return true;
}

Result<bool> ExecService::put_up(std::string_view record) {
  if (!leads()) {
    bulk::Port* port = host_.bulk();
    return port != nullptr ? port->put(bulk::up::kExec, record) : Result<bool>(true);
  }
  if (execs_) execs_->take(host_.job().shell_rank, record);
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

// ---- exec runner ------------------------------------------------------------------------

namespace {

// All processes that a command starts have this in their environment, so that they are found when the command ends.
constexpr const char* kMark = "NACRE_EXEC_ID";
constexpr const char* kTaskPid = "NACRE_TASK_PID";  // of the task that the command runs beside
constexpr event::Seconds kAfterKill{1};             // after that, open streams are not waited for
constexpr std::array kOutputs{"stdout", "stderr", "pty"};
constexpr int kGivenUp = 3;                                    // a stage
constexpr std::uint64_t kInputStep = std::uint64_t{32} << 10;  // bytes, after which the leader gets a report

std::string end_of(const exits::Record& record, std::string_view why = {}) {
  return why.empty() ? record.str() : fmt::format("{}\n{}", record.str(), why);
}

}  // namespace

Result<void> ExecRunner::serve(Put put) {
  put_ = std::move(put);
  auto grace = TRY(job::kill_timeout(host_.options()));
  if (!grace.is_infinite()) grace_ = event::Seconds(grace.seconds());
  ordered_ = host_.on_exec([this](const value::ExecShare& share) {
    if (share.kind == value::ExecOrder::Kind::tool) receive(share);
  });
  noticed_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic != kExecTopic) return;
    if (auto notice = ExecNotice::parse(bytes)) take(*notice);
  });
  return {};
}

// ---- what is started -----------------------------------------------------------------------

task::Task* ExecRunner::task_of(std::uint32_t rank) {
  for (const auto& task : host_.tasks()) {
    if (task->rank() == rank) return task.get();
  }
  return nullptr;
}

void ExecRunner::receive(const value::ExecShare& share) {
  Order& order = orders_[share.number];
  auto command = ExecCommand::parse(share.command);
  std::vector<std::uint32_t> targets = share.ranks.ids();
  bool is_of_shell = targets.empty();
  if (is_of_shell) targets.push_back(host_.job().shell_rank);
  for (std::uint32_t target : targets) {
    task::Task* task = is_of_shell ? nullptr : task_of(target);
    if (command && (is_of_shell || task != nullptr)) {
      start(share.number, order, *command, target, task);
      continue;
    }
    Process& process = order.processes.emplace_back();
    process.target = target;
    std::string why = command ? fmt::format("task {} is not of this shell", target) : command.error().message;
    process.failure = end_of(exits::Record::not_started(task::kExitNotExecutable), why);
  }
  pump();
}

// The task's working directory may have been removed since.
task::Command ExecRunner::command_of(std::uint64_t number, const ExecCommand& wanted, task::Task* task) const {
  task::Command out;
  out.argv = wanted.argv;
  out.env = job::Environment::over(task != nullptr ? task->command().env : host_.environment());
  out.env.set(kMark, fmt::format("{}", number));
  if (task != nullptr) {
    // the task's connection, which only the task may use
    for (const char* name : {"PMI_FD", "PMI_PORT", "PMI_ID"}) out.env.unset(name);
    out.env.set(kTaskPid, fmt::format("{}", task->pid()));
    out.setup.cpus = task->command().setup.cpus;
    out.setup.is_pretended = task->command().setup.is_pretended;
    out.setup.cwd = task->command().setup.cwd;
  }
  for (const auto& [name, value] : wanted.env) out.env.set(name, value);
  if (wanted.cwd) out.setup.cwd = wanted.cwd;
  out.setup.ends_with_parent = true;
  for (const char* stream : kOutputs) {
    out.stream_options[std::string(stream) + "_LINE_BUFFER"] = "false";
    out.stream_options[std::string(stream) + "_BUFSIZE"] = "64K";
  }
  out.stream_options["pty_BUFSIZE"] = fmt::format("{}", kExecInputWindow);  // its buffer also holds the input
  return out;
}

void ExecRunner::start(std::uint64_t number, Order& order, const ExecCommand& command, std::uint32_t target,
                       task::Task* task) {
  Process& process = order.processes.emplace_back();
  process.target = target;
  process.may_write = command.window;
  if (command.joins && task != nullptr) return join(number, command, *task, process);
  task::Subprocess::Options options;
  options.pty = command.pty;
  if (command.has_input) options.streams.emplace_back("stdin");
  task::Subprocess::Callbacks callbacks;
  callbacks.on_ready = [this](const std::string&) { pump_in_stream(); };
  callbacks.on_room = [this](const std::string&, std::size_t) { pump_in_stream(); };
  callbacks.on_complete = [this] { pump(); };
  auto started = task::Subprocess::start(host_.loop(), host_.children(), command_of(number, command, task),
                                         std::move(options), std::move(callbacks));
  if (started) {
    process.child = *std::move(started);
    return send(number, target, ExecRecord::What::started);
  }
  process.failure = end_of(exits::Record::not_started(started.error().exit_code), started.error().error.message);
}

void ExecRunner::join(std::uint64_t number, const ExecCommand& command, const task::Task& task, Process& process) {
  JoinedTerminal::Callbacks callbacks;
  callbacks.on_change = [this] { pump_in_stream(); };
  callbacks.on_taken = [this] { pump_in_stream(); };
  auto joined = JoinedTerminal::join(host_.loop(), task, command.pty.value_or(winsize{}), kExecInputWindow,
                                     std::move(callbacks));
  if (joined) {
    process.joined = *std::move(joined);
    return send(number, process.target, ExecRecord::What::started);
  }
  process.failure = joined.error().code == ESRCH
                        ? end_of(exits::Record::of(task.status()))
                        : end_of(exits::Record::not_started(task::kExitNotExecutable), joined.error().message);
}

// ---- what the leader sends about it later -----------------------------------------------------------

void ExecRunner::take(const ExecNotice& notice) {
  auto found = orders_.find(notice.number);
  if (found == orders_.end()) return;
  Order& order = found->second;
  for (const auto& [target, bytes] : notice.may_write) {
    for (Process& each : order.processes) {
      if (each.target == target) each.may_write = std::max(each.may_write, bytes);
    }
  }
  if (notice.signum != 0) kill(order, notice.signum);
  if (notice.size) resize(order, *notice.size);
  order.drops = order.drops || notice.drops;
  if (notice.ends && order.stage == 0) end(notice.number, order);
  pump();
}

void ExecRunner::leader_lost() {
  for (auto& [number, order] : orders_) {
    if (!std::exchange(order.drops, true) && order.stage == 0) end(number, order);
  }
  pump();
}

void ExecRunner::feed(std::string_view bytes) {
  if (bytes.size() < sizeof(std::uint64_t)) return;
  auto found = orders_.find(take_number<std::uint64_t>(bytes));
  if (found == orders_.end()) return;
  for (Process& each : found->second.processes) {
    task::BufferedStream* input = each.input();
    if (input == nullptr) continue;
    if (bytes.empty() && hang_up(found->second)) break;
    if (bytes.empty())
      input->close();
    else
      static_cast<void>(input->write(bytes));  // EPIPE: it reads no more; there is room for the whole window
  }
  pump();
}

task::BufferedStream* ExecRunner::Process::input() const {
  if (joined) return &joined->keys();
  if (!child) return nullptr;
  return child->stream(child->pty() != nullptr ? "pty" : "stdin");
}

void ExecRunner::kill(const Order& order, int signum) {
  for (const Process& each : order.processes) {
    if (each.child) static_cast<void>(each.child->kill(signum));  // the process may have ended
  }
}

// The last thing that is done with the order, which may be over then.
bool ExecRunner::hang_up(const Order& order) {
  for (const Process& each : order.processes) {
    if (!each.child || each.child->pty() == nullptr) continue;
    each.child->hang_up();  // there is only one target
    return true;
  }
  return false;
}

void ExecRunner::resize(const Order& order, const winsize& size) {
  for (const Process& each : order.processes) {
    if (each.joined) each.joined->resize(size);
    task::Pty* pty = each.child ? each.child->pty() : nullptr;
    if (pty != nullptr && pty->master() >= 0) static_cast<void>(pty->set_size(size));
  }
}

// Processes that have left the process group, or whose group's leader has ended. If a terminal is about to be hung
// up, the kernel only signals the session's leader: other processes in the foreground get SIGHUP here.
ExecRunner::Signals ExecRunner::signals_of_marked(std::uint64_t number, const Order& order, int signum) {
  Signals out;
  std::set<pid_t> leaders, groups, foreground;
  for (const Process& each : order.processes) {
    if (!each.child || each.child->exited()) continue;
    leaders.insert(each.child->pid());
    task::Pty* pty = each.child->pty();
    if (pty == nullptr || pty->master() < 0)
      groups.insert(each.child->pid());
    else
      foreground.insert({each.child->pid(), ::tcgetpgrp(pty->master())});
  }
  std::string mark = fmt::format("{}={}", kMark, number) + '\0';
  for (pid_t pid : event::Children::descendants()) {
    auto environment = read_file(fmt::format("/proc/{}/environ", pid));
    if (!environment || leaders.contains(pid)) continue;
    std::size_t at = environment->find(mark);
    bool is_marked = at != std::string::npos && (at == 0 || (*environment)[at - 1] == '\0');
    pid_t group = ::getpgid(pid);
    if (is_marked && !groups.contains(group)) out.emplace_back(pid, foreground.contains(group) ? SIGHUP : signum);
  }
  return out;
}

void ExecRunner::send_all(const Signals& signals) {
  for (auto [pid, signum] : signals) ::kill(pid, signum);
}

// The command itself gets its signal first: once a process that it waits for has ended, it may exit before it gets
// one.
void ExecRunner::end(std::uint64_t number, Order& order) {
  auto timer = event::Timer::create(host_.loop(), [this, number] { go_on_ending(number); });
  if (timer) {
    order.timer = *std::move(timer);
    if (grace_) order.timer->start_grace(*grace_);
  }
  order.stage = timer ? 1 : 2;
  int signum = timer ? SIGTERM : SIGKILL;
  // Found before any process is ended, as the search goes on below those that are.
  Signals others = signals_of_marked(number, order, signum);
  if (timer && hang_up(order)) return send_all(others);
  kill(order, signum);
  kill(order, SIGCONT);  // a stopped process takes the SIGTERM only once it runs
  send_all(others);
}

void ExecRunner::go_on_ending(std::uint64_t number) {
  auto found = orders_.find(number);
  if (found == orders_.end()) return;
  Order& order = found->second;
  if (++order.stage < kGivenUp) {
    send_all(signals_of_marked(number, order, SIGKILL));
    kill(order, SIGKILL);
    order.timer->start(kAfterKill);
    return;
  }
  for (Process& each : order.processes) each.given_up = true;
  pump();
}

// ---- the way up ----------------------------------------------------------------------------

void ExecRunner::send(std::uint64_t number, std::uint32_t target, ExecRecord::What what, std::string_view body) {
  unsent_.push_back(ExecRecord{what, number, target, body}.str());
}

void ExecRunner::pump() {
  if (put_) pump_.run([this] { return step(); });
}

void ExecRunner::pump_in_stream() {
  in_stream_ = true;
  pump();
  in_stream_ = false;
}

bool ExecRunner::step() {
  if (unsent_.empty()) return queue_some();
  if (cut_off_) {
    unsent_.clear();
    return true;
  }
  std::string record = std::move(unsent_.front());
  unsent_.pop_front();
  Result<bool> sent = put_(record);
  if (!sent) {  // the shell ends, and with it all that it has started
    cut_off_ = true;
    return true;
  }
  if (*sent) return true;
  unsent_.push_front(std::move(record));
  return false;
}

bool ExecRunner::queue_some() {
  bool found = false;
  for (auto order = orders_.begin(); order != orders_.end();) {
    auto& processes = order->second.processes;
    for (auto each = processes.begin(); each != processes.end();) {
      if (queue_output(order->first, order->second, *each)) {
        found = true;
        ++each;
      } else if (queue_end(order->first, order->second, *each)) {
        found = true;
        each = processes.erase(each);
      } else {
        ++each;
      }
    }
    order = processes.empty() ? orders_.erase(order) : std::next(order);
  }
  return found;
}

bool ExecRunner::queue_output(std::uint64_t number, const Order& order, Process& process) {
  using What = ExecRecord::What;
  if (queue_input(number, process)) return true;
  if (process.joined) return queue_joined(number, order, process);
  if (!process.child) return false;
  for (const char* name : kOutputs) {
    What what = std::string_view(name) == "stderr" ? What::err : What::out;
    task::BufferedStream* stream = process.child->stream(name);
    if (stream == nullptr || stream->unread() == 0) continue;
    if (order.drops || process.given_up) {
      static_cast<void>(stream->read());
      return true;
    }
    std::uint64_t most = std::min<std::uint64_t>(kExecChunk, process.may_write - process.written);
    if (most == 0) continue;
    std::string_view bytes = stream->read(most);
    process.written += bytes.size();
    send(number, process.target, what, bytes);
    return true;
  }
  return false;
}

bool ExecRunner::queue_input(std::uint64_t number, Process& process) {
  task::BufferedStream* input = process.input();
  if (input == nullptr) return false;
  std::uint64_t taken = input->taken();
  bool is_all = taken == input->written();
  if (taken <= process.input_reported || !(is_all || taken >= process.input_reported + kInputStep)) return false;
  process.input_reported = taken;
  send(number, process.target, ExecRecord::What::input_taken, fmt::format("{}", taken));
  return true;
}

bool ExecRunner::queue_joined(std::uint64_t number, const Order& order, Process& process) {
  using What = ExecRecord::What;
  std::uint64_t most = std::min<std::uint64_t>(kExecChunk, process.may_write - process.written);
  if (order.drops || most == 0) return false;
  if (std::uint64_t missed = process.joined->missed(); missed > 0)
    send(number, process.target, What::missed, fmt::format("{}", missed));
  std::string_view bytes = process.joined->read(most);
  if (bytes.empty()) return false;
  process.written += bytes.size();
  send(number, process.target, What::out, bytes);
  return true;
}

bool ExecRunner::queue_end(std::uint64_t number, const Order& order, const Process& process) {
  using What = ExecRecord::What;
  if (process.joined) {
    if (in_stream_ || !(process.joined->ended() || order.drops)) return false;
    send(number, process.target, What::exited, end_of(exits::Record::of(process.joined->status())));
    return true;
  }
  if (!process.child) {
    send(number, process.target, What::exited, process.failure);
    return true;
  }
  if (in_stream_) return false;  // the end of the stream calls by itself
  const task::Subprocess& child = *process.child;
  bool is_read = true;
  for (const char* name : kOutputs) {
    task::BufferedStream* stream = child.stream(name);
    if (stream != nullptr && stream->unread() > 0) is_read = false;
  }
  if (!(child.complete() && is_read) && !process.given_up) return false;
  value::WaitStatus status = child.exited() ? child.status() : value::WaitStatus::killed(SIGKILL);
  send(number, process.target, What::exited, end_of(exits::Record::of(status)));
  return true;
}

// ---- joined terminal --------------------------------------------------------------------

Result<std::unique_ptr<JoinedTerminal>> JoinedTerminal::join(event::Loop& loop, const task::Task& task,
                                                             const winsize& size, std::size_t typed_ahead,
                                                             Callbacks callbacks) {
  if (task.pty() == nullptr)
    return Error{ENOTTY, fmt::format("task {} has no terminal: run the job with --pty", task.rank())};
  std::unique_ptr<JoinedTerminal> out(new JoinedTerminal(task, std::move(callbacks)));
  if (task.state() != task::State::running || out->pty_.master() < 0)
    return Error{ESRCH, fmt::format("task {} has ended", task.rank())};
  // A descriptor of its own, as the loop watches each for one reader or writer only.
  UniqueFd typed(::fcntl(out->pty_.master(), F_DUPFD_CLOEXEC, 3));
  if (!typed) return system_error(errno, "cannot share a terminal");
  task::BufferedStream::Options options;
  options.readable = false;
  options.writable = true;
  options.buffer_size = typed_ahead;
  task::BufferedStream::Callbacks of_keys;
  of_keys.on_room = [raw = out.get()](std::size_t) { raw->callbacks_.on_taken(); };
  out->keys_ = TRY(task::BufferedStream::create(loop, std::move(typed), options, std::move(of_keys)));
  std::string_view kept = out->unread();
  out->position_ = out->pty_.written() - kept.size();
  out->viewer_ = out->pty_.add_viewer(size, [raw = out.get()] { raw->change(); });
  return out;
}

JoinedTerminal::~JoinedTerminal() {
  if (viewer_ != 0) pty_.remove_viewer(viewer_);
}

// While this object has the terminal open, the task would not be hung up.
void JoinedTerminal::change() {
  if (pty_.master() < 0) keys_->hang_up();
  auto on_change = callbacks_.on_change;
  on_change();
}

std::string_view JoinedTerminal::read(std::size_t most) {
  std::string_view bytes = unread().substr(0, most);
  position_ += bytes.size();
  return bytes;
}

std::uint64_t JoinedTerminal::missed() {
  std::uint64_t at = pty_.written() - unread().size();
  return at - std::exchange(position_, at);
}

bool JoinedTerminal::ended() const {
  return pty_.ended() && unread().empty() && task_.state() == task::State::exited;
}

}  // namespace nacre::plugins
