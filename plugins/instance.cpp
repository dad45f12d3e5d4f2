// SPDX-License-Identifier: Apache-2.0
//
// If a Flux instance has started the shells as its job shells: the connection to its broker. The broker gets the
// job's events and exceptions, and sends input, signals and messages; see nacre-flux(7). The plugin `output` writes
// the tasks' output to the instance's store.
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "broker/instance.hpp"
#include "event/clock.hpp"
#include "exits/job_end.hpp"
#include "io/format.hpp"
#include "plugin/host.hpp"
#include "plugins/builtins.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kProctable = "proctable";

// Requests of the instance's owner and of the job's user, for what both may have.
bool is_allowed(const broker::BrokerMessage& request) {
  return (request.rolemask & broker::kOwner) != 0 || request.userid == ::getuid();
}

// The lists of the answer, made of rows.
Json lists_of(Json rows) {
  std::sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) { return a[0] < b[0]; });
  Json out{{"hosts", Json::array()},
           {"executables", Json::array()},
           {"ids", Json::array()},
           {"pids", Json::array()},
           {"ranks", Json::array()}};
  std::int64_t id = 0, pid = 0, rank = 0;
  auto add = [&](const char* list, std::int64_t& last, const Json& value) {
    const auto now = value.get<std::int64_t>();
    out[list].push_back(now - std::exchange(last, now));
  };
  for (const Json& row : rows) {
    add("ids", id, row[0]);
    add("pids", pid, row[1]);
    out["executables"].push_back(row[2]);
    out["hosts"].push_back(row[3]);
    add("ranks", rank, row[4]);
  }
  return out;
}

// The table of all tasks for debuggers, for clients of a Flux instance such as `flux job attach --debug`: the
// request SERVICE.proctable. The leader has the table of the whole job, other shells have that of their own tasks.
//
// The answer has five lists of an entry for each task, in the order of ranks: "hosts" and "executables", which are
// texts, and "ids" (ranks of tasks), "pids" and "ranks" (of brokers), numbers as the difference to the number
// before.
class Proctable : Noncopyable {
 public:
  // Both have to outlive it.
  Proctable(plugin::Host& host, broker::Instance& instance) : host_(host), instance_(instance) {
    instance.methods[kProctable] = [this](const Request& request) { take(request); };
  }

  ~Proctable() {
    instance_.methods.erase(kProctable);
    for (std::uint32_t tag : calls_) instance_.broker->forget(tag);
  }

 private:
  using Request = broker::BrokerMessage;
  // All tasks, while shells are asked.
  struct Gathering {
    Request request;
    Json rows;
    std::size_t missing = 0;  // shells that have not answered
    std::string failure;
  };

  void take(const Request& request) {
    if (!is_allowed(request)) return instance_.broker->respond_error(request, EPERM, "this is another user's job");
    auto asked = parse_json(request.text());
    if (asked && asked->is_object() && asked->contains("rows"))
      return instance_.broker->respond(request, {{"rows", own_rows()}});
    if (host_.job().leads()) return gather(request);
    instance_.broker->respond(request, lists_of(own_rows()));
  }

  void gather(const Request& request) {
    auto all = std::make_shared<Gathering>(Gathering{request, own_rows(), 1, ""});
    auto done = [this, all] {
      if (--all->missing > 0) return;
      if (!all->failure.empty()) return instance_.broker->respond_error(all->request, ECANCELED, all->failure);
      instance_.broker->respond(all->request, lists_of(std::move(all->rows)));
    };
    const auto& nodes = host_.job().resources.nodes;
    all->missing += nodes.size() - 1;
    for (std::size_t shell = 1; shell < nodes.size(); ++shell) {
      auto take = [all, done, shell](const Result<Json>& answer) {
        if (!answer) all->failure = fmt::format("shell {}: {}", shell, answer.error().message);
        if (answer) {
          for (const Json& row : member_of(*answer, "rows")) all->rows.push_back(row);
        }
        done();
      };
      calls_.push_back(instance_.broker->call(fmt::format("{}.{}", instance_.service, kProctable), {{"rows", true}},
                                              take, nodes[shell].broker_rank));
    }
    done();
  }

  // Rows of [rank, pid, executable, host, broker].
  [[nodiscard]] Json own_rows() const {
    Json rows = Json::array();
    for (const auto& task : host_.tasks()) {
      const auto& argv = task->command().argv;
      rows.push_back(
          {task->rank(), task->pid(), argv.empty() ? "" : argv[0], host_.job().node().hostname, instance_.rank});
    }
    return rows;
  }

  plugin::Host& host_;
  broker::Instance& instance_;
  std::vector<std::uint32_t> calls_;  // tags of all calls that were made
};

constexpr const char* kRexec = "rexec";
constexpr const char* kRexecHold = "instance.rexec";
enum RexecFlag { kStdout = 1, kStderr = 2, kChannels = 4, kWriteCredit = 8, kWaitable = 16 };

Result<std::vector<std::string>> strings_of(const JsonAt& array) {
  std::vector<std::string> out;
  for (const JsonAt& each : TRY(array.elements())) out.push_back(TRY(each.string()));
  return out;
}

// Commands beside the tasks for clients of a Flux instance, such as `flux exec --jobid`: requests to SERVICE.rexec
// (RFC 42), each shell serves those for its node.
//
//   exec    starts a command. A stream of responses has all about it up to its end, which the client's input can
//           reach by `write`; asked for without a stream it runs in the background, and its output is logged
//   write   input for a command of the same client
//   kill    a signal for a command, by its pid or label
//   list    those that run
//   wait    how a command in the background, started to be waited for, has ended
//
// Only the job's user may send them, and only in an instance of that user's own: another user's broker could claim
// anything about the sender.
class Rexec : Noncopyable {
 public:
  // Both have to outlive it. `after_term`: the time between SIGTERM and SIGKILL at the end.
  Rexec(plugin::Host& host, broker::Instance& instance, value::Duration after_term)
      : host_(host),
        instance_(instance),
        after_term_(after_term),
        is_trusted_(instance.broker->owner() == ::getuid()) {
    instance.methods[kRexec] = [this](const Request& request) { take(request); };
  }

  ~Rexec() {
    instance_.methods.erase(kRexec);
    for (Process& each : processes_) {
      if (each.child) static_cast<void>(each.child->kill(SIGKILL));
    }
  }

  // This shell's tasks have ended: commands get SIGTERM, SIGKILL after a time, and the job waits for them.
  void end_all() {
    is_over_ = true;
    remove_complete();
    if (processes_.empty()) return;
    host_.hold(kRexecHold);
    holds_ = true;
    auto timer = event::Timer::create(host_.loop(), [this] {
      for (Process& each : processes_) static_cast<void>(each.child->kill(SIGKILL));
    });
    if (timer) {
      timer_ = *std::move(timer);
      if (!after_term_.is_infinite()) timer_->start(event::Seconds(after_term_.seconds()));
    }
    for (Process& each : processes_) static_cast<void>(each.child->kill(timer_ ? SIGTERM : SIGKILL));
  }

 private:
  using Request = broker::BrokerMessage;
  struct Process {
    Request request;
    bool is_streamed = false;
    bool is_waited = false;  // by somebody; it stays after its end until then
    std::int64_t flags = 0;
    std::string label;
    std::string name;  // of its program
    std::unique_ptr<task::Subprocess> child;
    std::string input;              // input that its stdin has no room for
    bool input_ends = false;        // behind that input
    std::optional<Request> waiter;  // who waits for its end
    bool is_complete = false;
  };

  struct Wanted {
    std::vector<std::string> argv, channels;
    std::optional<std::string> cwd;
    Json environment = Json::object(), options = Json::object();

    static Result<Wanted> parse(const JsonAt& command) {
      Wanted out;
      out.argv = TRY(strings_of(TRY(command.at("cmdline"))));
      if (out.argv.empty()) return TRY(command.at("cmdline")).expected("a program and its arguments");
      if (auto cwd = TRY(command.find("cwd"))) out.cwd = TRY(cwd->string());
      if (auto channels = TRY(command.find("channels"))) out.channels = TRY(strings_of(*channels));
      for (auto [name, to] : {std::pair{"env", &out.environment}, std::pair{"opts", &out.options}}) {
        auto members = TRY(command.find(name));
        if (!members) continue;
        if (!members->json().is_object()) return members->expected("an object");
        for (const auto& [key, value] : members->json().items()) {
          if (!value.is_string()) return members->expected("strings in it");
        }
        *to = members->json();
      }
      return out;
    }
  };

  void take(const Request& request) {
    broker::Broker& broker = *instance_.broker;
    const std::size_t prefix = instance_.service.size() + std::string_view(kRexec).size() + 2;
    const std::string method = request.topic->size() > prefix ? request.topic->substr(prefix) : "";
    if (method == "disconnect") return disconnect(request);
    if (request.userid != ::getuid()) return broker.respond_error(request, EPERM, "this is another user's job");
    if (!is_trusted_)
      return broker.respond_error(request, EPERM,
                                  "the instance is another user's: nobody can start commands beside a job");
    if (method == "write") return write(request);
    if (method == "list") return list(request);
    const Result<void> done = answer(method, request);
    if (!done) broker.respond_error(request, done.error().code, done.error().message);
  }

  Result<void> answer(std::string_view method, const Request& request) {
    if (method == "exec") return exec(request);
    if (method == "kill") return kill(request);
    if (method == "wait") return wait(request);
    return Error{ENOSYS, fmt::format("rexec.{}: nacre-shell has no such method", method)};
  }

  // ---- the start -----------------------------------------------------------------------

  Result<void> exec(const Request& request) {
    if (is_over_ || host_.ending())
      return Error{ENOSYS, "the job is ending: nothing is started beside it any more"};
    const Json parsed = TRY(parse_json(request.text()));
    const JsonAt message = JsonAt::root(parsed);
    Wanted wanted = TRY(Wanted::parse(TRY(message.at("cmd"))));
    Process process;
    process.request = request;
    process.is_streamed = (request.flags & Request::kStreaming) != 0;
    process.flags = TRY(TRY(message.at("flags")).integer(0, INT32_MAX));
    process.is_waited = (process.flags & kWaitable) != 0;
    process.name = wanted.argv[0];
    if (auto label = TRY(TRY(message.at("cmd")).find("label"))) process.label = TRY(label->string());
    const bool is_known = std::any_of(processes_.begin(), processes_.end(), [&](const Process& each) {
      return !process.label.empty() && each.label == process.label;
    });
    if (is_known) return Error{EEXIST, fmt::format("a command with the label {} runs already", process.label)};
    if (process.is_streamed && process.is_waited)
      return Error{EINVAL, "who follows a command cannot ask for its end to be kept, too"};
    if (!process.is_streamed && ((process.flags & kWriteCredit) != 0 || !wanted.channels.empty()))
      return Error{EINVAL, "a command in the background has no input and no channels"};
    processes_.push_back(std::move(process));
    Result<void> started = start(processes_.back(), std::move(wanted));
    if (!started) processes_.pop_back();
    return started;
  }

  Result<void> start(Process& process, Wanted wanted) {
    task::Command command;
    command.argv = std::move(wanted.argv);
    command.env = job::Environment::over(host_.environment());
    if (!wanted.environment.empty()) {
      command.env = job::Environment();
      for (const auto& [name, value] : wanted.environment.items()) command.env.set(name, value.get<std::string>());
    }
    command.env.set("FLUX_URI", instance_.broker->uri());
    command.env.unset("FLUX_PROXY_REMOTE");
    command.setup.cwd = std::move(wanted.cwd);
    command.setup.ends_with_parent = true;
    command.channels = std::move(wanted.channels);
    for (const auto& [name, value] : wanted.options.items())
      command.stream_options[name] = value.get<std::string>();
    task::Subprocess::Options options;
    if (process.is_streamed) options.streams.emplace_back("stdin");
    task::Subprocess::Callbacks callbacks;
    callbacks.on_ready = [this, &process](const std::string& stream) { read(process, stream); };
    callbacks.on_room = [this, &process](const std::string& stream, std::size_t bytes) {
      if (stream == "stdin") give_credit(process, bytes);
    };
    callbacks.on_exit = [this, &process] { exited(process); };
    callbacks.on_complete = [this, &process] { complete(process); };
    auto started = task::Subprocess::start(host_.loop(), host_.children(), std::move(command), std::move(options),
                                           std::move(callbacks));
    if (!started) return started.error().error;
    process.child = *std::move(started);
    instance_.broker->respond(process.request, {{"type", "started"}, {"pid", process.child->pid()}});
    const task::BufferedStream* input = process.child->stream("stdin");
    if (input != nullptr) give_credit(process, input->room());
    return {};
  }

  // ---- what it writes, and its end -----------------------------------------------------

  void read(Process& process, const std::string& stream) {
    task::BufferedStream* from = process.child ? process.child->stream(stream) : nullptr;
    if (from == nullptr) return;
    if (const std::string_view bytes = from->read(); !bytes.empty()) put(process, stream, bytes, false);
    if (from->at_end() && from->unread() == 0) put(process, stream, "", true);
  }

  void put(Process& process, const std::string& stream, std::string_view bytes, bool is_end) {
    if (!process.is_streamed) {
      for (std::string_view line : split(trim(bytes), '\n')) {
        if (!line.empty())
          host_.log().log(Level::notice, kRexec, "{}[{}]: {}", process.name, process.child->pid(), line);
      }
      return;
    }
    const int flag = stream == "stdout" ? kStdout : stream == "stderr" ? kStderr : kChannels;
    if ((process.flags & flag) == 0) return;
    Json io{{"stream", stream}, {"rank", fmt::format("{}", instance_.rank)}};
    if (is_end) io["eof"] = true;
    if (!bytes.empty()) {
      const bool is_text = io::is_utf8(bytes) && bytes.find('\0') == bytes.npos;
      std::string data(is_text ? bytes : "");
      if (!is_text) append_base64(data, bytes);
      io["data"] = std::move(data);
      if (!is_text) io["encoding"] = "base64";
    }
    instance_.broker->respond(process.request,
                              {{"type", "output"}, {"pid", process.child->pid()}, {"io", std::move(io)}});
  }

  void exited(Process& process) {
    const int status = process.child->status().raw();
    if (process.is_streamed)
      instance_.broker->respond(process.request, {{"type", "finished"}, {"status", status}});
    else
      host_.log().log(Level::notice, kRexec, "{}[{}]: {}", process.name, process.child->pid(),
                      process.child->status().str());
  }

  void complete(Process& process) {
    process.is_complete = true;
    if (process.is_streamed) instance_.broker->respond_error(process.request, ENODATA, "");
    if (process.waiter) {
      instance_.broker->respond(*process.waiter, {{"status", process.child->status().raw()}});
      process.is_waited = false;
    }
    remove_complete();
  }

  void remove_complete() {
    std::erase_if(processes_,
                  [this](const Process& each) { return each.is_complete && (!each.is_waited || is_over_); });
    if (!processes_.empty() || !std::exchange(holds_, false)) return;
    timer_.reset();
    static_cast<void>(host_.release(kRexecHold));
  }

  // ---- input --------------------------------------------------------------------------

  // The command may have ended meanwhile, and nobody waits for an answer.
  void write(const Request& request) {
    auto done = [&]() -> Result<void> {
      const Json parsed = TRY(parse_json(request.text()));
      const JsonAt message = JsonAt::root(parsed);
      const auto tag = TRY(TRY(message.at("matchtag")).integer(0, UINT32_MAX));
      const JsonAt io = TRY(message.at("io"));
      auto found = std::find_if(processes_.begin(), processes_.end(), [&](const Process& each) {
        return each.is_streamed && each.request.tag == static_cast<std::uint32_t>(tag) &&
               broker::sender_of(each.request) == broker::sender_of(request);
      });
      if (found == processes_.end()) return {};
      std::string bytes;
      if (TRY(io.find("data"))) bytes = TRY(broker::data_in(io));
      const std::string stream = TRY(TRY(io.at("stream")).string());
      const auto eof = TRY(io.find("eof"));
      const bool ends = eof && TRY(eof->boolean());
      if (stream == "stdin") {
        found->input += bytes;
        found->input_ends = found->input_ends || ends;
        feed(*found);
      } else if (task::BufferedStream* channel = found->child->stream(stream)) {
        static_cast<void>(channel->write(bytes));  // it reads no more
        if (ends) channel->close();
      }
      return {};
    }();
    if (!done) host_.log().log(Level::warn, kRexec, "write: {}", done.error().message);
  }

  void feed(Process& process) {
    task::BufferedStream* input = process.child->stream("stdin");
    if (input == nullptr) return;
    if (const std::size_t size = std::min(process.input.size(), input->room()); size > 0) {
      if (!input->write(std::string_view(process.input).substr(0, size)))
        process.input.clear();  // it reads no more
      process.input.erase(0, size);
    }
    if (process.input.empty() && process.input_ends && !input->closed()) input->close();
  }

  void give_credit(Process& process, std::size_t bytes) {
    if (!process.child) return;
    feed(process);
    if ((process.flags & kWriteCredit) == 0) return;
    instance_.broker->respond(process.request, {{"type", "add-credit"}, {"channels", {{"stdin", bytes}}}});
  }

  // ---- the others ----------------------------------------------------------------------

  Result<Process*> find(const JsonAt& message) {
    const auto pid = TRY(TRY(message.at("pid")).integer(-1, INT32_MAX));
    std::optional<std::string> label;
    if (auto given = TRY(message.find("label"))) label = TRY(given->string());
    for (Process& each : processes_) {
      if (label ? each.label == *label : each.child->pid() == pid) return &each;
    }
    return Error{ESRCH, label ? fmt::format("no command has the label {}", *label)
                              : fmt::format("no command has the process {}", pid)};
  }

  Result<void> kill(const Request& request) {
    const Json parsed = TRY(parse_json(request.text()));
    const JsonAt message = JsonAt::root(parsed);
    Process* process = TRY(find(message));
    CHECK_OK(process->child->kill(static_cast<int>(TRY(TRY(message.at("signum")).integer(1, NSIG - 1)))));
    instance_.broker->respond(request, nullptr);
    return {};
  }

  Result<void> wait(const Request& request) {
    const Json parsed = TRY(parse_json(request.text()));
    Process* process = TRY(find(JsonAt::root(parsed)));
    if (!process->is_waited) return Error{EINVAL, "it was not started to be waited for"};
    if (process->waiter) return Error{EINVAL, "another client waits for it"};
    process->waiter = request;
    if (process->is_complete) complete(*process);
    return {};
  }

  void list(const Request& request) {
    Json rows = Json::array();
    for (const Process& each : processes_) {
      rows.push_back({{"pid", each.child->pid()},
                      {"cmd", each.name},
                      {"label", each.label},
                      {"state", each.child->exited() ? "Z" : "R"}});
    }
    instance_.broker->respond(request, {{"rank", instance_.rank}, {"procs", std::move(rows)}});
  }

  void disconnect(const Request& request) {
    const std::string sender = broker::sender_of(request);
    for (Process& each : processes_) {
      if (each.is_streamed && broker::sender_of(each.request) == sender)
        static_cast<void>(each.child->kill(SIGKILL));
      if (each.waiter && broker::sender_of(*each.waiter) == sender) each.waiter.reset();
    }
  }

  plugin::Host& host_;
  broker::Instance& instance_;
  const value::Duration after_term_;
  const bool is_trusted_;
  std::list<Process> processes_;
  std::optional<event::Timer> timer_;
  bool is_over_ = false, holds_ = false;
};

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

  static Result<std::unique_ptr<InputService>> create(plugin::Host& host, broker::Instance& instance) {
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

  void take(const Request& request) {
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

 private:
  InputService(plugin::Host& host, broker::Instance& instance)
      : host_(host),
        instance_(instance),
        open_(value::Idset::range(0, static_cast<value::Idset::Id>(host.job().tasks() - 1))) {}

  Result<void> add(const Json& context) {
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

  void write() {
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

  void close() {
    poll_->stop();
    instance_.input.reset();
    bytes_.clear();
    for (const Request& each : waiting_) instance_.broker->respond(each, nullptr);
    waiting_.clear();
  }

  plugin::Host& host_;
  broker::Instance& instance_;
  std::optional<event::Poll> poll_;
  std::string bytes_;     // bytes that wait
  bool ends_ = false;     // the input ends behind them
  value::Idset open_;     // the tasks whose input is not over
  bool is_file_ = false;  // a file that each task opens by itself
  std::deque<Request> waiting_;
};

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
      proctable_.emplace(host_, *instance_);  // all tasks of the job have been started
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

  // The other shells have found this one by now.
  void forget_keys() {
    if (!leads() || host_.job().shells() == 1) return;
    Json operations = Json::array({broker::unlink_of("nacre")});
    static_cast<void>(
        broker().call(kCommit, broker::commit(instance_->kvs_namespace, std::move(operations)), nullptr));
  }

  // The instance's own barriers, by which it notices a shell that does not start. No task starts before the first;
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

  // The instance has the reason for this, and ends the job.
  void barrier_failed() {
    if (!has_begun_ && !host_.ending()) host_.die(1, "", "the Flux instance does not let the job begin");
  }

  // ---- what the job tells the instance

  void follow_events() {
    follower_ = host_.events().follow([this](const Json& event) {
      const std::string name = event.value("name", "");
      const Json& context = member_of(event, "context");
      if (name == "exception") return raise(context);
      if (name == "shell.exit") return;  // the instance writes its own
      instance_->eventlogs->append(kEvents, event_line(event.value("timestamp", 0.0), name, context));
    });
    ended_ = host_.on_ended([this](const Json& /*summary*/) {
      if (instance_->eventlogs->flushed()) return;
      host_.hold(kHold);
      holds_ = true;
    });
  }

  // Sends the last events: the leader takes none of other shells any more, and nobody waits for its own.
  void finish_eventlogs() {
    constexpr double kPatience = 2;  // seconds
    broker().forget(instance_->resource_updates.tag);
    static_cast<void>(instance_->eventlogs->flush(kPatience));
  }

  // The instance knows of signals that it has sent itself.
  void raise(const Json& context) {
    const std::string note = context.value("note", "");
    for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM}) {
      if (note.starts_with(exits::ended_by_signal(signum, 0).message)) return;
    }
    const int severity = context.value("severity", 0);
    if (severity == 0 && std::exchange(has_raised_, true))
      return;  // the same exception from other shells, or a
               // consequence of it
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

  // Nothing can be sent to the store any more.
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
  std::optional<event::SignalWatcher> alarm_;  // SIGALRM, which the instance sends to all shells when the job's
                                               // time is over
  bool is_attached_ = false;
  bool holds_ = false;
  std::optional<event::Poll> barrier_poll_;
  bool has_begun_ = false;   // the first barrier is passed
  bool has_raised_ = false;  // an exception that ends the job
  int barriers_ = 0;         // barriers that are entered, or are to be entered
  broker::EventlogWriter::Listener listener_;
  std::unique_ptr<plugin::EventRecord::Follower> follower_;
  plugin::Registration ended_;
};

}  // namespace

PluginPtr make_instance(plugin::Host& host) { return std::make_unique<FluxInstance>(host); }

}  // namespace nacre::plugins
