// SPDX-License-Identifier: Apache-2.0
#include "front/attach_input.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "front/table.hpp"
#include "launch/own_sockets.hpp"

namespace nacre::front {
namespace {

constexpr const char* kInputStream = "stdin";
constexpr std::size_t kMostName = 255;  // bytes of who has taken the input

}  // namespace

AttachInput::AttachInput(event::Loop& loop, control::Client& client, bool takes, Callbacks callbacks)
    : loop_(loop), client_(client), callbacks_(std::move(callbacks)) {
  std::string name = fmt::format("nacre attach (pid {} on {})", ::getpid(), launch::own_host_name());
  id_ = client_.begin("input", {{"take", takes}, {"name", name}});
}

void AttachInput::take(const control::Answer& answer) {
  if (answer.id == status_) {
    status_.reset();
    if (!answer.error) report_interrupt(answer.value);
  }
  if (answer.id != id_) return;
  if (answer.error) return callbacks_.on_error(*answer.error);
  if (answer.more) return begin();
  reader_.reset();
  auto by = answer.value.find("taken");
  if (by != answer.value.end() && by->is_string()) taken(printable(by->get<std::string>(), kMostName));
}

void AttachInput::begin() {
  launch::InputReader::Callbacks callbacks;
  callbacks.room = [this]() -> std::size_t {
    return std::min<std::uint64_t>(client_.may_send(id_), control::kMaxStreamData);
  };
  callbacks.on_bytes = [this](std::string_view bytes) {
    client_.put({id_, kInputStream, std::string(bytes), Json::object()});
    callbacks_.on_sent();
  };
  callbacks.on_end = [this] {
    client_.put_end({id_, kInputStream});
    callbacks_.on_sent();
  };
  auto reader = launch::InputReader::create(loop_, STDIN_FILENO, std::move(callbacks));
  if (!reader) return callbacks_.on_error(reader.error());
  reader_ = *std::move(reader);
  callbacks_.on_own();
}

void AttachInput::taken(const std::string& by) {
  is_taken_ = true;
  callbacks_.on_notice(fmt::format("the job's standard input is that of {} from now on; this only watches", by),
                       {{"taken", by}});
}

void AttachInput::go_on() {
  if (reader_ && client_.may_send(id_) > 0) reader_->go_on();
}

void AttachInput::interrupt() {
  switch (signals_.on_signal(SIGINT, event::clock_now().count(), true)) {
    case LaunchSignals::Act::pass:
      if (signals_.ended_by()) return;
      client_.begin("signal", {{"signal", SIGINT}});
      status_ = client_.begin("status");
      break;
    case LaunchSignals::Act::cancel:
    case LaunchSignals::Act::end:
      client_.begin("cancel");
      callbacks_.on_notice("interrupted twice: ending the job", {{"signal", SIGTERM}});
      break;
    case LaunchSignals::Act::kill: client_.begin("signal", {{"signal", SIGKILL}}); break;
  }
  callbacks_.on_sent();
}

void AttachInput::report_interrupt(const Json& status) {
  auto running = status.value("running", std::uint64_t{0});
  callbacks_.on_notice(exits::JobEnd::interrupt_text(running, true), {{"signal", SIGINT}, {"running", running}});
}

bool AttachInput::stop() {
  if (!is_taken_ && signals_.leaves(event::clock_now().count())) return true;
  std::raise(SIGSTOP);
  return false;
}

}  // namespace nacre::front
