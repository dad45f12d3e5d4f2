// SPDX-License-Identifier: Apache-2.0
//
// Where a Flux instance has started the shells, as its job shells: the broker's part in the job. It gets the job's
// events and exceptions, and sends input, signals and messages; see nacre-flux(7). What the tasks write goes to its
// store by the plugin `output`.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/text.hpp"
#include "broker/instance.hpp"
#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "plugins/builtins.hpp"
#include "plugins/instance/proctable.hpp"
#include "plugins/instance/rexec.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kHold = "instance";
constexpr const char* kCommit = "kvs.commit";  // requests
constexpr const char* kRaise = "job-manager.raise";
constexpr double kAfterTerm = 60;  // seconds
const std::string kEvents = "exec.eventlog";
const std::string kInput = "input";

std::string event_line(double time, std::string_view name, const Json& context) {
  return dump_json({{"timestamp", time}, {"name", name}, {"context", context}}) + '\n';
}

// ---- input ------------------------------------------------------------------------------

// The job's standard input, which clients send by requests (RFC 24), into a pipe. A request is answered once its
// bytes have room.
class InputService {
 public:
  using Request = broker::BrokerMessage;
  static constexpr std::size_t kRoom = std::size_t{1} << 20;  // bytes

  static Result<std::unique_ptr<InputService>> create(plugin::Host& host, broker::Instance& instance);

  void take(const Request& request);

 private:
  InputService(plugin::Host& host, broker::Instance& instance)
      : host_(host),
        instance_(instance),
        open_(value::Idset::range(0, static_cast<value::Idset::Id>(host.job().tasks() - 1))) {}

  Result<void> add(const Json& context);
  void write();
  void close();

  plugin::Host& host_;
  broker::Instance& instance_;
  std::optional<event::Poll> poll_;
  std::string bytes_;     // that wait
  bool ends_ = false;     // behind them
  value::Idset open_;     // the tasks whose input is not over
  bool is_file_ = false;  // which each task opens by itself
  std::deque<Request> waiting_;
};

Result<std::unique_ptr<InputService>> InputService::create(plugin::Host& host, broker::Instance& instance) {
  std::unique_ptr<InputService> self(new InputService(host, instance));
  self->poll_ = TRY(event::Poll::create(host.loop(), instance.input.get(), [of = self.get()](int events) {
    events == 0 ? of->close() : of->write();
  }));
  self->poll_->keeps_running(false);
  const Json context{
      {"version", 1}, {"encoding", {{"stdin", "UTF-8"}}}, {"count", {{"stdin", 1}}}, {"options", Json::object()}};
  instance.eventlogs->append(kInput, event_line(event::wall_clock(), "header", context));
  const Json& path = find_at(host.options().json(), Json::json_pointer("/input/stdin/path"));
  self->is_file_ = path.is_string();
  if (!self->is_file_) return self;
  const Json redirect{{"stream", "stdin"}, {"rank", "all"}, {"path", path}};
  instance.eventlogs->append(kInput, event_line(event::wall_clock(), "redirect", redirect));
  return self;
}

void InputService::take(const Request& request) {
  auto refuse = [&](const Error& why) { instance_.broker->respond_error(request, why.code, why.message); };
  if (is_file_) return refuse({ENOSYS, "the job's standard input is a file"});
  if (!instance_.input || ends_) return refuse({EPIPE, "the job's standard input has ended"});
  auto context = parse_json(request.text());
  if (!context) return refuse(context.error());
  if (auto added = add(*context); !added) return refuse(added.error());
  instance_.eventlogs->append(kInput, event_line(event::wall_clock(), "data", *context));
  waiting_.push_back(request);
  write();
}

Result<void> InputService::add(const Json& context) {
  const JsonAt at = JsonAt::root(context);
  const std::string ranks = TRY(TRY(at.at("rank")).string());
  const value::Idset to = ranks == "all" ? open_ : TRY(value::Idset::parse(ranks));
  if (!(to - open_).empty()) return Error{EPIPE, "the standard input of these tasks has ended"};
  if (TRY(at.find("data"))) {
    if (to != open_) return Error{EOPNOTSUPP, "standard input goes to all tasks for which it has not ended"};
    bytes_ += TRY(broker::data_in(at));
  }
  auto eof = TRY(at.find("eof"));
  if (!eof || !TRY(eof->boolean())) return {};
  open_ = open_ - to;
  ends_ = open_.empty();
  return ends_ ? Result<void>() : host_.announce(kInputEnd, to.str());
}

void InputService::write() {
  std::size_t sent = 0;
  while (sent < bytes_.size() && instance_.input) {
    ssize_t put = ::write(instance_.input.get(), bytes_.data() + sent, bytes_.size() - sent);
    if (put > 0) sent += static_cast<std::size_t>(put);
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0 && errno != EINTR) return close();
  }
  bytes_.erase(0, sent);
  for (; bytes_.size() < kRoom && !waiting_.empty(); waiting_.pop_front())
    instance_.broker->respond(waiting_.front(), nullptr);
  if (bytes_.empty() && ends_) return close();
  if (bytes_.empty() || !poll_->start(event::Poll::kWritable)) poll_->stop();
}

void InputService::close() {
  poll_->stop();
  instance_.input.reset();
  bytes_.clear();
  for (const Request& each : waiting_) instance_.broker->respond(each, nullptr);
  waiting_.clear();
}

// ---- instance ---------------------------------------------------------------------------

class FluxInstance final : public plugin::Plugin {
 public:
  explicit FluxInstance(plugin::Host& host) : Plugin("instance"), host_(host), instance_(host.instance()) {
    if (instance_ == nullptr) return;
    set_environment();
    if (leads()) follow_events();
    on("shell.init", [this] { return begin(); });
    on("shell.post-init", [this] { forget_keys(); });
    on("shell.start", [this] {
      enter_barrier();
      proctable_.emplace(host_, *instance_);  // all its tasks have been started
    });
    on("shell.finish", [this] {
      if (rexec_) rexec_->end_all();
    });
  }
  ~FluxInstance() override {
    if (instance_ == nullptr) return;
    rexec_.reset();
    proctable_.reset();
    listener_.reset();
    finish_eventlogs();
    instance_->broker->flush();
    if (is_attached_) instance_->broker->detach();
  }

 private:
  [[nodiscard]] bool leads() const { return host_.job().leads(); }
  [[nodiscard]] broker::Broker& broker() { return *instance_->broker; }

  void set_environment() {
    job::Environment& environment = host_.environment();
    environment.unset("FLUX_PROXY_REMOTE");
    environment.set("FLUX_URI", instance_->broker->uri());
    environment.set("FLUX_KVS_NAMESPACE", instance_->kvs_namespace);
    const std::string parent = instance_->path == "/" ? "" : instance_->path;
    environment.set("FLUX_JOB_ID_PATH", fmt::format("{}/{}", parent, host_.job().f58()));
  }

  Result<void> begin() {
    broker::Broker::Receivers receivers;
    receivers.on_request = [this](const broker::BrokerMessage& request) { take_request(request); };
    receivers.on_event = [this](const broker::BrokerMessage& event) { take_event(event); };
    receivers.on_lost = [this](const Error& why) { lose(why); };
    if (leads() && instance_->input) input_ = TRY(InputService::create(host_, *instance_));
    listener_ =
        instance_->eventlogs->notify({[this] { release(); }, [this](const Error& why) { store_failed(why); }});
    CHECK_OK(broker().attach(host_.loop(), std::move(receivers)));
    is_attached_ = true;
    broker().follow(instance_->resource_updates, [this](const Result<Json>& update) {
      if (update) resources_changed(*update);
    });
    alarm_ = TRY(event::SignalWatcher::create(host_.loop(), SIGALRM, [this](int signum) {
      if (leads()) host_.signal_tasks(signum, std::nullopt);
    }));
    alarm_->keeps_running(false);
    if (host_.job().shells() > 1) host_.hold_start(kHold);  // until the instance knows that all shells are there
    auto after_term = value::Duration::of_seconds(kAfterTerm);
    if (auto option = host_.options().at("rexec-shutdown-timeout")) after_term = TRY(job::seconds_option(*option));
    rexec_.emplace(host_, *instance_, after_term);
    enter_barrier();
    return {};
  }

  // Others have found this shell by now.
  void forget_keys() {
    if (!leads() || host_.job().shells() == 1) return;
    Json operations = Json::array({broker::unlink_of("nacre")});
    static_cast<void>(
        broker().call(kCommit, broker::commit(instance_->kvs_namespace, std::move(operations)), nullptr));
  }

  // Those of the instance's own, by which it notices a shell that does not start. No task starts before the first;
  // nacre's shells keep in step by themselves, so nothing waits for the second, which a shell enters once the first
  // is passed.
  void enter_barrier() {
    if (host_.job().shells() == 1 || barriers_++ > 0) return;
    if (instance_->barrier_out) return enter_by_line();
    const Json entry{{"id", host_.job().id.value()}, {"rank", instance_->rank}};
    broker().call_by_topic("job-exec.shell-barrier", entry,
                           [this](const Result<Json>& passed) { passed ? barrier_passed() : barrier_failed(); });
  }

  void barrier_passed() {
    if (!std::exchange(has_begun_, true)) static_cast<void>(host_.release_start(kHold));
    const bool enters_next = barriers_ > 1;
    barriers_ = 0;
    if (enters_next) enter_barrier();
  }

  void enter_by_line() {
    constexpr std::string_view kEnter = "enter\n";
    if (::write(instance_->barrier_out.get(), kEnter.data(), kEnter.size()) < 0) return;
    if (!barrier_poll_) {
      auto made = event::Poll::create(host_.loop(), instance_->barrier_in.get(), [this](int) { read_barrier(); });
      if (!made) return;
      barrier_poll_ = *std::move(made);
      barrier_poll_->keeps_running(false);
    }
    static_cast<void>(barrier_poll_->start(event::Poll::kReadable));
  }

  void read_barrier() {
    std::array<char, 64> line{};
    const ssize_t got = ::read(instance_->barrier_in.get(), line.data(), line.size());
    if (got < 0 && errno == EAGAIN) return;
    barrier_poll_->stop();
    const bool passed =
        got > 0 && std::string_view(line.data(), static_cast<std::size_t>(got)).starts_with("exit=0");
    passed ? barrier_passed() : barrier_failed();
  }

  // The instance has the reason, and ends the job.
  void barrier_failed() {
    if (!has_begun_ && !host_.ending()) host_.die(1, "", "the Flux instance does not let the job begin");
  }

  // ---- what the job tells the instance

  void follow_events() {
    follower_ = host_.events().follow([this](const Json& event) {
      const std::string name = event.value("name", "");
      const Json& context = member_of(event, "context");
      if (name == "exception") return raise(context);
      if (name == "shell.exit") return;  // the instance has its own
      instance_->eventlogs->append(kEvents, event_line(event.value("timestamp", 0.0), name, context));
    });
    ended_ = host_.on_ended([this](const Json& /*summary*/) {
      if (instance_->eventlogs->flushed()) return;
      host_.hold(kHold);
      holds_ = true;
    });
  }

  // What has been said since the leader takes nothing of others, and nobody waits for its own.
  void finish_eventlogs() {
    constexpr double kPatience = 2;  // seconds
    broker().forget(instance_->resource_updates.tag);
    static_cast<void>(instance_->eventlogs->flush(kPatience));
  }

  // It knows itself of a signal that it has sent.
  void raise(const Json& context) {
    const std::string note = context.value("note", "");
    for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM}) {
      if (note.starts_with(exits::ended_by_signal(signum, 0).message)) return;
    }
    const int severity = context.value("severity", 0);
    if (severity == 0 && std::exchange(has_raised_, true)) return;  // other shells' of the same, or what followed
    Json exception{{"id", host_.job().id.value()},
                   {"type", context.value("type", "exec")},
                   {"severity", severity},
                   {"note", note}};
    host_.hold(kRaiseHold);
    static_cast<void>(broker().call(kRaise, exception, [this](const Result<Json>& raised) {
      static_cast<void>(host_.release(kRaiseHold));
      if (!raised && !broker().is_lost())
        log(host_, *this, Level::warn, "the instance does not take an exception: {}", raised.error().message);
    }));
  }

  void release() {
    if (!instance_->eventlogs->flushed() || !std::exchange(holds_, false)) return;
    static_cast<void>(host_.release(kHold));
  }

  // What is to be said cannot go to the store any more.
  void lose(const Error& why, std::string_view what = "the Flux instance is gone") {
    host_.log().set_sink_level(kStandardErrorSink, Level::trace);
    if (!host_.ending()) host_.die(1, "", fmt::format("{} ({}): the job ends", what, why.message));
  }

  void store_failed(const Error& why) {
    lose(why, broker().is_lost() ? "the Flux instance is gone"
                                 : "the store of the Flux instance does not take the job's events");
    release();
  }

  // ---- what the instance tells the job

  void take_request(const broker::BrokerMessage& request) {
    std::string_view method = request.topic ? std::string_view(*request.topic) : "";
    if (method.starts_with(instance_->service + ".")) method.remove_prefix(instance_->service.size() + 1);
    const auto of_plugin = instance_->methods.find(method.substr(0, method.find('.')));
    if (of_plugin != instance_->methods.end()) return of_plugin->second(request);
    if (!is_allowed(request)) return broker().respond_error(request, EPERM, "this is another user's job");
    if (method == "stdin" && input_) return input_->take(request);
    if (method == "exception" && leads()) return take_exception(request);
    if (instance_->on_other_request) return instance_->on_other_request(request);
    broker().respond_error(request, ENOSYS, fmt::format("{}: nacre-shell has no such method", method));
  }

  [[nodiscard]] static bool is_allowed(const broker::BrokerMessage& request) {
    return (request.rolemask & broker::kOwner) != 0 || request.userid == ::getuid();
  }

  void take_exception(const broker::BrokerMessage& request) {
    auto context = parse_json(request.text());
    if (!context) return broker().respond_error(request, EPROTO, context.error().message);
    const std::string message = context->value("message", "");
    if (!message.empty()) log(host_, *this, Level::warn, "{}", message);
    broker().respond(request, nullptr);
  }

  void take_event(const broker::BrokerMessage& event) {
    const std::string prefix = fmt::format("shell-{}.", host_.job().id.value());
    if (instance_->on_other_event) instance_->on_other_event(event);
    if (event.topic != prefix + "kill" || !leads()) return;
    auto context = parse_json(event.text());
    const Json signum = context ? member_of(*context, "signum") : Json();
    if (!signum.is_number_integer()) {
      log(host_, *this, Level::warn, "ignoring malformed event {}: expected a number, signum", *event.topic);
    } else if (signum <= 0 || signum >= NSIG) {
      log(host_, *this, Level::warn, "{}",
          system_error(EINVAL, fmt::format("{}: signal {}", *event.topic, signum.dump())).message);
    } else {
      host_.signal_tasks(signum.get<int>(), std::nullopt);
    }
  }

  void resources_changed(const Json& update) {
    const Json& expiration = find_at(update, Json::json_pointer("/R/execution/expiration"));
    if (expiration.is_number()) host_.set_expiration(expiration.get<double>());
    plugin::Call call("shell.resource-update");
    if (auto called = host_.stack().call(call); !called)
      log(host_, *this, Level::warn, "{}", called.error().message);
  }

  static constexpr const char* kRaiseHold = "instance.raise";
  plugin::Host& host_;
  broker::Instance* instance_;
  std::unique_ptr<InputService> input_;
  std::optional<Rexec> rexec_;
  std::optional<Proctable> proctable_;
  std::optional<event::SignalWatcher> alarm_;  // which the instance sends all shells when the job's time is over
  bool is_attached_ = false;
  bool holds_ = false;
  std::optional<event::Poll> barrier_poll_;
  bool has_begun_ = false;   // the first barrier is passed
  bool has_raised_ = false;  // an exception that ends the job
  int barriers_ = 0;         // that are entered, or are to be
  broker::EventlogWriter::Listener listener_;
  std::unique_ptr<plugin::EventRecord::Follower> follower_;
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_instance(plugin::Host& host) { return std::make_unique<FluxInstance>(host); }

}  // namespace nacre::plugins
