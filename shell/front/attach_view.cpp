// SPDX-License-Identifier: Apache-2.0
#include "front/attach_view.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "front/table.hpp"
#include "io/sink.hpp"
#include "launch/own_sockets.hpp"

namespace nacre::front {

// ---- attach view ------------------------------------------------------------------------

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
  if (options_.loop == nullptr) own_loop_ = TRY(event::Loop::create());
  loop_ = own_loop_ ? own_loop_.get() : options_.loop;
  CHECK_OK(watch_signals());
  CHECK_OK(open_sink(STDOUT_FILENO, "stdout", out_));
  if (!options_.json && !is_one_file(STDOUT_FILENO, STDERR_FILENO))
    CHECK_OK(open_sink(STDERR_FILENO, "stderr", err_));
  receives_ = TRY(event::Poll::create(*loop_, client_.receives_from(), [this](int) { exchange(); }));
  sends_ = TRY(event::Poll::create(*loop_, client_.sends_to(), [this](int) { exchange(); }));
  if (options_.input != Options::Input::none) {
    open_input();
  } else {
    begin_view();
    if (options_.followed.tail != nullptr) open_input();
  }
  await();
  return {};
}

Result<void> AttachView::watch_signals() {
  auto watch = [this](int signum, const std::function<void()>& act) -> Result<void> {
    signals_.push_back(TRY(event::SignalWatcher::create(*loop_, signum, [act](int) { act(); })));
    return {};
  };
  if (options_.follows) return pass_signals();
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

Result<void> AttachView::pass_signals() {
  for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT}) {
    if (signum == SIGHUP && ignores_signal(SIGHUP)) continue;
    signals_.push_back(TRY(event::SignalWatcher::create(*loop_, signum, [this](int each) { pass(each); })));
  }
  return {};
}

void AttachView::pass(int signum) {
  switch (passed_.on_signal(signum, event::clock_now().count(), true)) {
    case LaunchSignals::Act::pass: client_.begin("signal", {{"signal", signum}}); break;
    case LaunchSignals::Act::cancel:
    case LaunchSignals::Act::end:
      client_.begin("cancel");
      notice("interrupted twice: ending the job", "input", {{"signal", signum}});
      break;
    case LaunchSignals::Act::kill: client_.begin("signal", {{"signal", SIGKILL}}); break;
  }
  await();
}

// Called before output is shown: then the input is this process's already.
void AttachView::open_input() {
  AttachInput::Callbacks callbacks;
  callbacks.on_own = [this] {
    if (!options_.follows) begin_view();
  };
  callbacks.on_sent = [this] { await(); };
  callbacks.on_error = [this](const Error& why) {
    // The tasks may have read all that they want.
    if (!options_.follows) fail(why);
  };
  callbacks.on_notice = [this](const std::string& text, const Json& context) { notice(text, "input", context); };
  if (options_.follows) {
    input_ = std::make_unique<AttachInput>(*loop_, client_, options_.followed, std::move(callbacks));
    return;
  }
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
  end_ = End{How::ended, answer.value.value("code", 1), true, answer.value.value("report", "")};
}

void AttachView::show(const control::StreamData& data) {
  if (options_.on_report && data.stream != io::name_of(io::Stream::out) &&
      data.stream != io::name_of(io::Stream::err)) {
    options_.on_report(data.stream, data.data);
    uncredited_ += data.data.size();
    return give_credit();
  }
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
  if (auto message = part.find("message"); message != part.end() && message->is_string() && !options_.quiet) {
    std::array<std::string, 1> line{escape_controls(message->get<std::string>()) + '\n'};
    std::array<std::string_view, 1> pieces{line[0]};
    if (Result<void> written = destination(io::Stream::err).sink().write(pieces); !written) fail(written.error());
  }
  if (auto without = part.find("without"); without != part.end() && options_.without != nullptr)
    *options_.without =
        *options_.without | value::Idset::parse(without->get<std::string>()).value_or(value::Idset());
  if (auto files = part.find("files"); files != part.end() && files->is_object()) tell_files(*files);
  if (auto before = part.value("before", std::uint64_t{0}); before > 0 && options_.tells_before)
    notice(fmt::format("{} bytes of output came before", before), "before", {{"bytes", before}});
  auto missed = part.find("missed");
  if (missed == part.end() || !missed->is_object()) return;
  notice(fmt::format("{} lines, {} bytes are missing here, as they were taken too slowly",
                     missed->value("lines", std::uint64_t{0}), missed->value("bytes", std::uint64_t{0})),
         "missed", *missed);
}

// Output that goes to these files does not come here.
void AttachView::tell_files(const Json& files) {
  auto path_of = [&](io::Stream stream) {
    const Json& path = member_of(files, std::string(io::name_of(stream)).c_str());
    return path.is_string() ? escape_controls(path.get<std::string>()) : "";
  };
  const std::string out = path_of(io::Stream::out);
  const std::string err = path_of(io::Stream::err);
  if (out.empty() && err.empty()) return;
  if (out == err) return notice(fmt::format("the tasks' output goes to {}", out), "files", files);
  std::string text = out.empty() ? "" : "the tasks' stdout goes to " + out;
  if (!err.empty()) text += fmt::format("{} stderr goes to {}", out.empty() ? "the tasks'" : ", their", err);
  notice(text, "files", files);
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

// ---- attach input -----------------------------------------------------------------------

namespace {

constexpr const char* kInputStream = "stdin";
constexpr std::size_t kMostName = 255;  // bytes of who has taken the input

}  // namespace

AttachInput::AttachInput(event::Loop& loop, control::Client& client, bool takes, Callbacks callbacks)
    : loop_(loop), client_(client), callbacks_(std::move(callbacks)) {
  std::string name = fmt::format("nacre attach (pid {} on {})", ::getpid(), launch::own_host_name());
  id_ = client_.begin("input", {{"take", takes}, {"name", name}});
}

AttachInput::AttachInput(event::Loop& loop, control::Client& client, const FollowedInput& followed,
                         Callbacks callbacks)
    : loop_(loop), client_(client), callbacks_(std::move(callbacks)), followed_(followed) {
  id_ = client_.begin("input", {{"follows", true}});
}

void AttachInput::take(const control::Answer& answer) {
  if (answer.id == status_) {
    status_.reset();
    if (!answer.error) report_interrupt(answer.value);
  }
  if (answer.id != id_) return;
  if (answer.error) return callbacks_.on_error(*answer.error);
  if (answer.more) return begin(answer.value);
  reader_.reset();
  auto by = answer.value.find("taken");
  if (by != answer.value.end() && by->is_string()) taken(printable(by->get<std::string>(), kMostName));
}

void AttachInput::begin(const Json& answer) {
  if (followed_.tail != nullptr) return go_on_at(answer.value("at", std::uint64_t{0}));
  open_reader(STDIN_FILENO);
}

// Input that the former leader had, and the tasks have not, is sent once more.
void AttachInput::go_on_at(std::uint64_t at) {
  const launch::InputTail& tail = *followed_.tail;
  if (at < tail.first() || at > tail.behind()) {
    callbacks_.on_notice(
        fmt::format("standard input ends here: the shells go on at byte {}, and those from {} to {} "
                    "are here",
                    at, tail.first(), tail.behind()),
        {{"at", at}});
    client_.put_end({id_, kInputStream});
    return callbacks_.on_sent();
  }
  sent_ = at;
  send_tail();
}

void AttachInput::send_tail() {
  const launch::InputTail& tail = *followed_.tail;
  while (*sent_ < tail.behind()) {
    const std::size_t room = std::min<std::uint64_t>(client_.may_send(id_), control::kMaxStreamData);
    if (room == 0) return callbacks_.on_sent();
    const std::string_view piece = tail.piece(*sent_, room);
    client_.put({id_, kInputStream, std::string(piece), Json::object()});
    *sent_ += piece.size();
  }
  sent_.reset();
  if (!tail.has_ended()) return open_reader(followed_.input);
  client_.put_end({id_, kInputStream});
  callbacks_.on_sent();
}

void AttachInput::open_reader(int input) {
  launch::InputReader::Callbacks callbacks;
  callbacks.room = [this]() -> std::size_t {
    return std::min<std::uint64_t>(client_.may_send(id_), control::kMaxStreamData);
  };
  callbacks.on_bytes = [this](std::string_view bytes) {
    if (followed_.tail != nullptr) followed_.tail->add(bytes);
    client_.put({id_, kInputStream, std::string(bytes), Json::object()});
    callbacks_.on_sent();
  };
  callbacks.on_end = [this] {
    if (followed_.tail != nullptr) followed_.tail->end();
    client_.put_end({id_, kInputStream});
    callbacks_.on_sent();
  };
  auto reader = launch::InputReader::create(loop_, input, std::move(callbacks));
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
  if (client_.may_send(id_) == 0) return;
  if (sent_) send_tail();
  if (reader_) reader_->go_on();
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
