// SPDX-License-Identifier: Apache-2.0
#include "front/exec_run.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/print.hpp"
#include "event/clock.hpp"
#include "front/table.hpp"

namespace nacre::front {
namespace {

constexpr std::uint64_t kExecCredit = std::uint64_t{1} << 20;  // bytes of output that are on their way
constexpr int kSignalCode = 128;                               // and the signal's number
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

}  // namespace

Result<int> ExecRun::run() {
  CHECK_OK(watch_signals());
  reads_input_ = request_.input;
  id_ = client_.begin("exec", request_.arguments, kExecCredit);
  while (!is_over_) CHECK_OK(wait());
  if (refused_) return *refused_;
  if (output_) output_->finish();
  report();
  CHECK_OK(flush_out());
  return code();
}

Result<void> ExecRun::watch_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signum : kSignals) ::sigaddset(&set, signum);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  return signals_ ? Result<void>() : system_error(errno, "cannot wait for signals");
}

// Milliseconds, as poll(2) has them; -1: for ever.
int ExecRun::milliseconds_left() const {
  std::optional<double> left;
  auto earlier = [&](double seconds) { left = std::min(left.value_or(seconds), std::max(seconds, 0.0)); };
  if (deadline_) earlier(deadline_->count() - event::clock_now().count());
  if (auto due = output_ ? output_->deadline() : std::nullopt) earlier(*due - event::wall_clock());
  if (!left) return -1;
  constexpr double kMilliseconds = 1000;
  constexpr double kMost = 3600 * kMilliseconds;
  return static_cast<int>(std::min(*left * kMilliseconds + 1, kMost));
}

Result<void> ExecRun::wait() {
  bool wants_input = reads_input_ && (!held_input_.empty() || client_.may_send(id_) > 0);
  std::array<pollfd, 4> polled{{{client_.receives_from(), POLLIN, 0},
                                {client_.has_unsent() ? client_.sends_to() : -1, POLLOUT, 0},
                                {signals_.get(), POLLIN, 0},
                                {wants_input && held_input_.empty() ? STDIN_FILENO : -1, POLLIN, 0}}};
  if (::poll(polled.data(), polled.size(), milliseconds_left()) < 0 && errno != EINTR)
    return system_error(errno, "cannot wait");
  if (polled[2].revents != 0) CHECK_OK(take_signals());
  if (wants_input && (polled[3].revents != 0 || !held_input_.empty())) CHECK_OK(read_input());
  if (deadline_ && event::clock_now() >= *deadline_) {
    deadline_.reset();
    end(exits::Record::Kind::over_time);
  }
  Result<void> exchanged = client_.exchange();
  CHECK_OK(take_frames());
  if (output_) output_->expire(event::wall_clock());
  CHECK_OK(flush_out());
  if (is_over_ || exchanged) return {};
  Error why = exchanged.error();
  why.message = "the leader has gone, and what was started with it: " + why.message;
  return why;
}

Result<void> ExecRun::take_frames() {
  while (auto frame = TRY(client_.take())) {
    if (auto* answer = std::get_if<control::Answer>(&*frame))
      CHECK_OK(take(*answer));
    else if (auto* data = std::get_if<control::StreamData>(&*frame))
      CHECK_OK(take(*data));
  }
  return {};
}

Result<void> ExecRun::take(const control::Answer& answer) {
  if (answer.id != id_) return {};  // of exec-end or exec-signal: what was started may have ended before
  if (answer.error) {
    refused_ = *answer.error;
    is_over_ = true;
    return {};
  }
  if (answer.more) return in("what the leader answers", take_part(answer.value));
  is_over_ = true;
  return {};
}

Result<void> ExecRun::take_part(const Json& part) {
  JsonAt at = JsonAt::root(part);
  if (auto targets = TRY(at.find("targets"))) {
    for (const JsonAt& each : TRY(targets->elements())) {
      ExecTarget target;
      target.shell = static_cast<std::uint32_t>(TRY(TRY(each.at("shell")).integer(0, UINT32_MAX)));
      target.host = printable(TRY(TRY(each.at("host")).string()), 255);
      if (auto rank = TRY(each.find("rank")))
        target.rank = static_cast<std::uint32_t>(TRY(rank->integer(0, UINT32_MAX)));
      index_[{target.shell, target.rank}] = targets_.size();
      targets_.push_back(std::move(target));
    }
  }
  if (auto lost = TRY(at.find("lost"))) {  // the last part with targets
    using Mode = ExecOutput::Mode;
    Mode mode = request_.json ? Mode::json : request_.mode.value_or(targets_.size() > 1 ? Mode::lines : Mode::raw);
    output_.emplace(mode, std::exchange(targets_, {}));
    if (request_.limit) deadline_ = event::clock_now() + *request_.limit;
    auto hosts = TRY(lost->strings());
    for (std::string& each : hosts) each = printable(each, 255);
    if (!hosts.empty() && !request_.quiet)
      print_err("nacre exec: not on {}, which the job has lost\n", fmt::join(hosts, ", "));
  }
  if (auto exits = TRY(at.find("exits"))) {
    for (const JsonAt& each : TRY(exits->elements())) CHECK_OK(take_exit(each.json()));
  }
  return {};
}

std::optional<std::size_t> ExecRun::index_of(const Json& members) const {
  auto number = [&](const char* name) -> std::optional<std::uint32_t> {
    auto found = members.find(name);
    if (found == members.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<std::uint32_t>();
  };
  auto found = index_.find({number("shell").value_or(UINT32_MAX), number("rank")});
  if (!output_ || found == index_.end()) return std::nullopt;
  return found->second;
}

Result<void> ExecRun::take_exit(const Json& row) {
  auto index = index_of(row);
  JsonAt at = JsonAt::root(row);
  auto record = TRY(exits::Record::parse(TRY(TRY(at.at("record")).string())));
  std::string why;
  if (auto message = TRY(at.find("message"))) why = printable(TRY(message->string()), 1024);
  if (!index) return at.error("of no target");
  using Kind = exits::Record::Kind;
  bool has_failed = record.kind() != Kind::ended || !record.status()->success();
  if (ended_as_ && record.kind() == Kind::ended && has_failed)
    record = *ended_as_ == Kind::over_time ? exits::Record::over_time(*record.status())
                                           : exits::Record::victim(record.status());
  auto target = static_cast<value::Idset::Id>(*index);
  output_->end(*index, event::wall_clock());
  outcomes_.add(value::Idset::range(target, target), record);
  if (request_.json) {
    Json context = row;
    context["record"] = record.str();
    print_out("{}\n", dump_json({{"timestamp", event::wall_clock()}, {"name", "exits"}, {"context", context}}));
  }
  if (has_failed) failures_[{record.str(), why}].insert(target);
  if (has_failed && request_.kill_on_failure) end(Kind::victim);
  return {};
}

Result<void> ExecRun::take(const control::StreamData& data) {
  auto index = index_of(data.members);
  if (data.id != id_ || !index) return {};
  io::Stream stream = data.stream == "stderr" ? io::Stream::err : io::Stream::out;
  output_->add(*index, stream, data.data, event::wall_clock());
  CHECK_OK(flush_out());
  client_.grant(id_, std::max<std::uint64_t>(data.data.size(), 1));
  return {};
}

// The first one ends what was started; after a second one nobody waits for that any more.
Result<void> ExecRun::take_signals() {
  signalfd_siginfo got{};
  while (::read(signals_.get(), &got, sizeof got) == sizeof got) {
    auto signum = static_cast<int>(got.ssi_signo);
    if (std::exchange(interrupted_, signum) != 0)
      return Error{ECANCELED, "interrupted: what was started is being ended, and is not waited for"};
    end(exits::Record::Kind::victim);
  }
  return {};
}

void ExecRun::end(exits::Record::Kind why) {
  if (std::exchange(ended_as_, ended_as_.value_or(why))) return;
  client_.begin("exec-end", {{"exec", id_}}, 0);
}

Result<void> ExecRun::read_input() {
  if (held_input_.empty()) {
    std::string buffer(std::min<std::uint64_t>(client_.may_send(id_), std::size_t{32} << 10), '\0');
    if (buffer.empty()) return {};
    ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
    if (got <= 0) {
      reads_input_ = false;
      client_.put_end({id_, "stdin"});
      return got == 0 ? Result<void>() : system_error(errno, "standard input");
    }
    held_input_ = buffer.substr(0, static_cast<std::size_t>(got));
  }
  if (client_.put({id_, "stdin", held_input_, Json::object()})) held_input_.clear();
  return {};
}

// Those that have failed alike together.
void ExecRun::report() {
  if (request_.quiet || request_.json || !output_) return;
  static_cast<void>(flush_out());
  for (const auto& [how, targets] : failures_) {
    auto record = exits::Record::parse(how.first);
    std::string what = how.second;
    using Kind = exits::Record::Kind;
    if (record && record->kind() == Kind::lost) what = "lost";
    if (record && record->status() && record->kind() != Kind::not_started) what = record->status()->str();
    if (record && record->kind() == Kind::over_time) what = "over the time limit: " + what;
    if (record && record->kind() == Kind::victim) what = "ended: " + what;
    print_err("nacre exec: {}: {}\n", output_->names(targets), what);
  }
}

int ExecRun::code() const {
  if (interrupted_ != 0) return kSignalCode + interrupted_;
  return exits::Policy(request_.policy, 0).code(outcomes_);
}

}  // namespace nacre::front
