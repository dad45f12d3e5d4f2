// SPDX-License-Identifier: Apache-2.0
#include "front/attach_view.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <variant>

#include <fmt/format.h>

#include "base/process_start.hpp"
#include "event/clock.hpp"

namespace nacre::front {
namespace {

constexpr std::uint64_t kCredit = std::uint64_t{256} << 10;  // bytes underway
constexpr std::array kLeaveView{SIGINT, SIGTERM, SIGHUP};

bool is_one_file(int first, int second) {
  struct stat a {};
  struct stat b {};
  return ::fstat(first, &a) == 0 && ::fstat(second, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

Result<std::unique_ptr<AttachView>> AttachView::create(control::Client client, Options options) {
  std::unique_ptr<AttachView> out(new AttachView(std::move(client), std::move(options)));
  CHECK_OK(out->open());
  return out;
}

Result<void> AttachView::open() {
  loop_ = TRY(event::Loop::create());
  CHECK_OK(watch_signals());
  CHECK_OK(open_sink(STDOUT_FILENO, "stdout", out_));
  if (!options_.json && !is_one_file(STDOUT_FILENO, STDERR_FILENO))
    CHECK_OK(open_sink(STDERR_FILENO, "stderr", err_));
  receives_ = TRY(event::Poll::create(*loop_, client_.receives_from(), [this](int) { exchange(); }));
  sends_ = TRY(event::Poll::create(*loop_, client_.sends_to(), [this](int) { exchange(); }));
  if (options_.input != Options::Input::none)
    open_input();
  else
    begin_view();
  await();
  return {};
}

Result<void> AttachView::watch_signals() {
  auto watch = [this](int signum, const std::function<void()>& act) -> Result<void> {
    signals_.push_back(TRY(event::SignalWatcher::create(*loop_, signum, [act](int) { act(); })));
    return {};
  };
  for (int signum : kLeaveView) {
    CHECK_OK(watch(signum, [this, signum] {
      if (signum == SIGINT && input_ && id_ != 0 && !input_->is_taken()) return input_->interrupt();
      end_ = End{How::left};
    }));
  }
  if (options_.input == Options::Input::none || ignores_signal(SIGTSTP)) return {};
  return watch(SIGTSTP, [this] {
    if (!input_ || !input_->stop()) return;
    static_cast<void>(client_.exchange());  // the SIGINT that was passed on just before
    end_ = End{How::left};
  });
}

// Output is shown once the input is this process's.
void AttachView::open_input() {
  AttachInput::Callbacks callbacks;
  callbacks.on_own = [this] { begin_view(); };
  callbacks.on_sent = [this] { await(); };
  callbacks.on_error = [this](const Error& why) { fail(why); };
  callbacks.on_notice = [this](const std::string& text, const Json& context) { notice(text, "input", context); };
  input_ =
      std::make_unique<AttachInput>(*loop_, client_, options_.input == Options::Input::take, std::move(callbacks));
}

void AttachView::begin_view() { id_ = client_.begin("attach", options_.request, kCredit); }

Result<void> AttachView::open_sink(int fd, const std::string& name, std::unique_ptr<io::Destination>& destination) {
  io::FdSink::Callbacks callbacks;
  callbacks.on_room = [this] { give_credit(); };
  callbacks.on_error = [this](const Error& why) { fail(why); };
  auto sink = TRY(io::FdSink::create(*loop_, fd, name, {}, std::move(callbacks)));
  io::FormatOptions format;
  format.form = options_.json ? io::Form::json : io::Form::text;
  format.label = options_.label;
  destination = std::make_unique<io::Destination>(io::Format::create(format), std::move(sink), std::nullopt);
  return {};
}

io::Destination& AttachView::destination(io::Stream stream) {
  return stream == io::Stream::err && err_ ? *err_ : *out_;
}

Result<AttachView::End> AttachView::run() {
  auto is_done = [this] {
    bool is_flushed = out_->sink().flushed() && (!err_ || err_->sink().flushed());
    return failure_ || (end_ && (end_->how == How::left || is_flushed));
  };
  loop_->run_until(is_done);
  if (failure_) return *failure_;
  return *end_;
}

void AttachView::await() {
  if (end_) {
    receives_->stop();
    sends_->stop();
    return;
  }
  Result<void> started = receives_->start(event::Poll::kReadable);
  if (started && client_.has_unsent()) started = sends_->start(event::Poll::kWritable);
  if (started && !client_.has_unsent()) sends_->stop();
  if (!started) fail(started.error());
}

void AttachView::exchange() {
  Result<void> exchanged = client_.exchange();
  while (!end_ && !failure_) {
    auto frame = client_.take();
    if (!frame) return fail(in("the leader", frame.error()));
    if (!*frame) break;
    take(**std::move(frame));
  }
  if (input_) input_->go_on();
  if (!exchanged && !end_) end_ = End{How::link_lost, 0, ended_streams_ == io::kStreams.size()};
  await();
}

void AttachView::take(control::FromLeader frame) {
  if (auto* data = std::get_if<control::StreamData>(&frame)) {
    show(*data);
  } else if (std::holds_alternative<control::StreamEnd>(frame)) {
    ++ended_streams_;
  } else if (auto* answer = std::get_if<control::Answer>(&frame)) {
    if (input_) input_->take(*answer);
    if (answer->id == id_) take_answer(*answer);
  }
}

void AttachView::take_answer(const control::Answer& answer) {
  if (answer.error) return fail(*answer.error);
  if (answer.more) return take_part(answer.value);
  end_ = End{How::ended, answer.value.value("code", 1), true};
}

void AttachView::show(const control::StreamData& data) {
  auto stream = data.stream == io::name_of(io::Stream::err) ? io::Stream::err : io::Stream::out;
  auto rank = data.members.value("rank", std::uint32_t{0});
  auto [found, is_new] = sources_.try_emplace({rank, stream});
  if (is_new) found->second = {rank, stream, fmt::format("{}: ", rank)};
  io::Batch batch;
  batch.source = &found->second;
  batch.time = data.members.value("time", 0.0);
  batch.body = data.data;
  batch.continues = data.members.value("continues", false);
  batch.open = data.members.value("open", false);
  if (Result<void> shown = destination(stream).put(batch); !shown) return fail(shown.error());
  uncredited_ += data.data.size();
  give_credit();
}

void AttachView::give_credit() {
  bool is_full = out_->sink().full() || (err_ && err_->sink().full());
  if (is_full || uncredited_ < kCredit / 4) return;
  client_.grant(id_, uncredited_);
  uncredited_ = 0;
  await();
}

void AttachView::take_part(const Json& part) {
  if (auto before = part.value("before", std::uint64_t{0}); before > 0 && options_.tells_before)
    notice(fmt::format("{} bytes of output came before", before), "before", {{"bytes", before}});
  auto missed = part.find("missed");
  if (missed == part.end() || !missed->is_object()) return;
  notice(fmt::format("{} lines, {} bytes are missing here, as they were taken too slowly",
                     missed->value("lines", std::uint64_t{0}), missed->value("bytes", std::uint64_t{0})),
         "missed", *missed);
}

void AttachView::notice(const std::string& text, std::string_view event, const Json& context) {
  double now = event::wall_clock();
  Result<void> written;
  if (options_.json) {
    std::string line = dump_json({{"timestamp", now}, {"name", event}, {"context", context}}) + '\n';
    std::array<std::string_view, 1> pieces{line};
    written = out_->sink().write(pieces);
  } else if (!options_.quiet) {
    written = destination(io::Stream::err).notice("nacre attach: " + text, now);
  }
  if (!written) fail(written.error());
}

void AttachView::fail(const Error& why) {
  if (!failure_) failure_ = why;
}

}  // namespace nacre::front
