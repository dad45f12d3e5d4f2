// SPDX-License-Identifier: Apache-2.0
//
// pty: pseudo-terminals for tasks. A bare `pty` gives each task one, captured; or it is an object:
//
//   ranks        an idset of task ranks (RFC 22), a rank, or "all"; all by default, with `interactive` task 0 alone
//   capture      what the task writes goes where its stdout goes; the default, unless `interactive`
//   interactive  task 0's is connected to the terminal on which the shell was started; in a Flux instance to the
//                clients that attach, the first of which the job waits for
//
// Output that is neither captured nor goes to the terminal is read and dropped: a task must not block because
// nobody reads.
#include "plugins/pty/pty.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "broker/instance.hpp"
#include "event/clock.hpp"
#include "io/format.hpp"
#include "io/terminal.hpp"
#include "plugin/host.hpp"
#include "plugins/builtins.hpp"
#include "plugins/output/options.hpp"
#include "task/pty.hpp"
#include "task/task.hpp"

namespace nacre::plugins {
namespace {

Result<value::Idset> read_ranks(const JsonAt& option, std::uint64_t tasks) {
  constexpr const char* kWanted = R"(an idset of task ranks, a rank, or "all")";
  const Json& json = option.json();
  // On the command line the brackets of an idset look like an array.
  std::string text = json.is_string() ? json.get<std::string>() : dump_json(json);
  if (text == "all") return value::Idset::range(0, static_cast<value::Idset::Id>(tasks - 1));
  bool number = json.is_number_unsigned() || json.is_array();
  auto set = number || json.is_string() ? value::Idset::parse(text) : Result<value::Idset>(value::Idset());
  if (!set || set->empty()) return option.expected(kWanted);
  if (*set->last() >= tasks) return option.error(fmt::format("the job has no task {}", *set->last()));
  return set;
}

}  // namespace

Result<PtyOptions> PtyOptions::read(const job::Options& options, std::uint64_t tasks) {
  PtyOptions out;
  auto option = options.at("pty");
  if (!option) return out;
  auto all = value::Idset::range(0, static_cast<value::Idset::Id>(tasks - 1));
  if (!option->json().is_object()) {
    Result<bool> on = options.flag("pty");
    if (!on) return option->expected(R"(on or off, or {"ranks": IDSET, "capture": BOOL, "interactive": BOOL})");
    if (*on) out.ranks = all;
    out.captures = *on;
    return out;
  }
  CHECK_OK(option->only_keys({"ranks", "capture", "interactive"}));
  out.interactive = TRY(options.flag("pty.interactive"));
  out.captures = options.find("pty.capture") == nullptr ? !out.interactive : TRY(options.flag("pty.capture"));
  if (auto ranks = options.at("pty.ranks")) {
    out.ranks = TRY(read_ranks(*ranks, tasks));
  } else if (!out.interactive) {
    out.ranks = all;
  }
  if (out.interactive) out.ranks.insert(0);
  return out;
}

namespace {

constexpr const char* kMethods = "terminus";
constexpr std::size_t kRead = 4096;                             // bytes: as many as a pty gives at once
constexpr std::size_t kMostTyped = std::size_t{4} << 20;        // bytes that wait for a task
constexpr std::size_t kMostForBroker = std::size_t{256} << 10;  // bytes for a broker that takes none

// Bytes as a message of type "data".
Json data_of(std::string_view bytes) {
  Json out{{"type", "data"}};
  const bool is_text = io::is_utf8(bytes) && bytes.find('\0') == bytes.npos;
  std::string text(is_text ? bytes : "");
  if (!is_text) append_base64(text, bytes);
  out["data"] = std::move(text);
  if (!is_text) out["encoding"] = "base64";
  return out;
}

Result<winsize> size_of(const JsonAt& message) {
  const JsonAt size = TRY(message.at("winsize"));
  winsize out{};
  out.ws_row = static_cast<unsigned short>(TRY(TRY(size.at("rows")).integer(1, UINT16_MAX)));
  out.ws_col = static_cast<unsigned short>(TRY(TRY(size.at("cols")).integer(1, UINT16_MAX)));
  return out;
}

// Tasks' terminals for clients of a Flux instance, such as `flux job attach`: requests to SERVICE.terminus.
//
//   ID           to the terminal of task ID: attach (a stream of what comes from there, up to its exit), data,
//                resize, detach; a client has to be attached for all others
//   list         the terminals
//   kill         a signal for the programs on one; with "wait" it is answered once that has ended
//   kill-server  SIGKILL for all of them; it is answered once they have ended
//
// Only the job's user may send them.
class Terminus : Noncopyable {
 public:
  // Both have to outlive it.
  Terminus(plugin::Host& host, broker::Instance& instance)
      : host_(host), instance_(instance), begun_(event::wall_clock()) {
    instance.methods[kMethods] = [this](const Request& request) { take(request); };
    // A signal for all tasks is also for a job that only waits for a client.
    signals_ = host.signal_also([this](int signum) {
      if (signum == SIGWINCH || signum == SIGCONT) return;
      for (const auto& [rank, session] : sessions_) session->stop_waiting();
    });
  }

  ~Terminus() { instance_.methods.erase(kMethods); }

  struct Use {
    bool waits = false;  // the job does not end before a client has had what the task wrote
    bool reads = false;  // nobody else reads the terminal: the task's output waits there for a client
  };

  // The terminal of a task, which has to outlive this object, from here on. The callers make sure that the task has
  // one.
  Result<void> open(task::Task& task, Use use) {
    auto session = std::make_unique<Session>(*this, task, use);
    CHECK_OK(session->begin(host_.loop()));
    sessions_[task.rank()] = std::move(session);
    return {};
  }

  void task_ended(const task::Task& task) {
    auto found = sessions_.find(task.rank());
    if (found == sessions_.end()) return;
    if (host_.ending()) return found->second->stop_waiting();
    found->second->look();
  }

  // The task starts again with another terminal: clients of this one are told its end, if it has one.
  void close(const task::Task& task) {
    auto session = sessions_.extract(task.rank());
    if (session && !session.mapped()->is_over()) session.mapped()->end();
  }

 private:
  using Request = broker::BrokerMessage;

  class Session : Noncopyable {
   public:
    Session(Terminus& of, task::Task& task, Use use)
        : of_(of), task_(task), pty_(task.pty()->viewed()), use_(use), begun_(event::wall_clock()) {}
    // For a terminal that only others have read to its end: nobody has looked since.
    ~Session() { tell_end(); }

    Result<void> begin(event::Loop& loop) {
      keys_ = UniqueFd(::fcntl(pty_.master(), F_DUPFD_CLOEXEC, 3));
      if (!keys_) return system_error(errno, "cannot share a terminal");
      typing_ = TRY(event::Poll::create(loop, keys_.get(), [this](int) { write(); }));
      typing_->keeps_running(false);
      pty_.keep();
      if (use_.waits) of_.host_.hold(hold());
      if (!use_.reads) return {};
      reader_ = TRY(event::Poll::create(loop, pty_.master(), [this](int) { read(); }));
      reader_->keeps_running(false);
      return {};
    }

    // ---- what clients send

    Result<void> take(const Request& request) {
      const Json parsed = TRY(parse_json(request.text()));
      const JsonAt message = JsonAt::root(parsed);
      const std::string type_of_it = TRY(TRY(message.at("type")).string());
      if (type_of_it == "attach") return attach(request, message);
      auto client = clients_.find(broker::sender_of(request));
      if (client == clients_.end()) return Error{ENOENT, "this client is not attached"};
      if (type_of_it == "data") {
        std::string bytes = TRY(broker::data_in(message));
        if (typed_bytes_ + bytes.size() > kMostTyped) return Error{ENOBUFS, "the task does not read what is typed"};
        if (client->second.writes) {
          type(request, std::move(bytes));
          return {};
        }
      } else if (type_of_it == "resize") {
        const winsize size = TRY(size_of(message));
        if (client->second.viewer != 0) pty_.resize_viewer(client->second.viewer, size);
      } else if (type_of_it == "detach") {
        end_client(client->second, "Client requested detach", 0);
        leave(client->first);
      } else {
        return Error{ENOSYS, fmt::format("{}: a terminal has no such request", type_of_it)};
      }
      broker().respond(request, nullptr);
      return {};
    }

    void leave(const std::string& sender) {
      auto client = clients_.extract(sender);
      if (!client) return;
      if (client.mapped().viewer != 0) pty_.remove_viewer(client.mapped().viewer);
      watch();
    }

    // The task may have ended.
    void look() {
      if (is_over_ || task_.state() != task::State::exited) return;
      if (task_.is_given_up()) {
        reader_.reset();
        pty_.hang_up();
      }
      watch();
      const bool all_given = !has_reader() || given_ == pty_.written();
      if (is_over_ || use_.waits || !pty_.ended() || !all_given) return;
      end();
    }

    void end() {
      is_over_ = true;
      typing_->stop();
      keys_.reset();
      write();
      tell_end();
      static_cast<void>(of_.host_.release(hold()));  // if it was taken
      of_.look();
    }

    void tell_end() {
      const int status = task_.status().raw();
      for (const auto& [sender, client] : clients_) end_client(client, "session exiting", status);
      while (!clients_.empty()) leave(clients_.begin()->first);
      for (const Request& each : std::exchange(waiting_, {})) answer_exit(each, "session exiting", status);
    }

    void stop_waiting() {
      use_.waits = false;
      look();
    }

    Result<void> kill(int signum) {
      use_.waits = false;
      if (task_.state() == task::State::exited) {
        look();
        return {};
      }
      static_cast<void>(::ioctl(pty_.master(), TIOCSIG, signum));  // to what is in the foreground, if anything is
      if (!task_.kill(signum)) return Error{ESRCH, "the task does not run"};
      return {};
    }

    void add_waiting(const Request& request) { waiting_.push_back(request); }
    [[nodiscard]] bool is_over() const { return is_over_; }
    [[nodiscard]] std::string hold() const { return fmt::format("terminus.{}", task_.rank()); }

    [[nodiscard]] Json describe() const {
      return {{"id", task_.rank()},
              {"name", fmt::format("task{}", task_.rank())},
              {"clients", clients_.size()},
              {"pid", task_.pid()},
              {"exited", task_.state() == task::State::exited ? 1 : 0},
              {"ctime", begun_}};
    }

   private:
    struct Client {
      Request request;
      bool writes = false;
      std::uint64_t viewer = 0;    // its number; 0: it does not read
      std::uint64_t position = 0;  // bytes of what the task has written
    };

    [[nodiscard]] broker::Broker& broker() { return *of_.instance_.broker; }

    // A new client begins where the last one has left.
    Result<void> attach(const Request& request, const JsonAt& message) {
      const std::string sender = broker::sender_of(request);
      if (clients_.contains(sender)) return Error{EEXIST, "this client is attached already"};
      const std::string mode = TRY(TRY(message.at("mode")).string());
      if (mode != "rw" && mode != "ro" && mode != "wo") return TRY(message.at("mode")).expected("rw, ro or wo");
      winsize size{};
      if (mode == "rw") size = TRY(size_of(message));
      Client& client = clients_[sender];
      client.request = request;
      client.writes = mode != "ro";
      broker().respond(request, {{"type", "attach"}});
      if (mode != "wo") {
        use_.waits = false;
        client.position = given_;
        client.viewer = pty_.add_viewer(size, [this] { deliver(); });
        deliver();
      }
      watch();
      look();
      return {};
    }

    // Answered once the task's terminal has taken the bytes.
    void type(const Request& request, std::string bytes) {
      typed_bytes_ += bytes.size();
      typed_.emplace_back(request, std::move(bytes));
      write();
    }

    void write() {
      while (!typed_.empty()) {
        auto& [request, bytes] = typed_.front();
        const ssize_t put =
            keys_ ? ::write(keys_.get(), bytes.data(), bytes.size()) : static_cast<ssize_t>(bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0 && errno == EAGAIN) break;
        const std::size_t taken =
            put < 0 ? bytes.size() : static_cast<std::size_t>(put);  // nobody reads it any more
        typed_bytes_ -= taken;
        bytes.erase(0, taken);
        if (!bytes.empty()) continue;
        broker().respond(request, nullptr);
        typed_.pop_front();
      }
      if (typed_.empty() || !typing_->start(event::Poll::kWritable)) typing_->stop();
    }

    void read() {
      std::array<char, kRead> bytes;
      const ssize_t got = ::read(pty_.master(), bytes.data(), bytes.size());
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (got > 0) {
        pty_.note({bytes.data(), static_cast<std::size_t>(got)});
        return watch();
      }
      reader_.reset();
      pty_.note_end();
      look();
    }

    // While the broker takes nothing, output stays in the terminal, or in what is kept.
    void deliver() {
      for (auto& [sender, client] : clients_) {
        if (client.viewer == 0) continue;
        if (broker().unsent() >= kMostForBroker) {
          broker().when_sent([this] {
            deliver();
            watch();
          });
          return;
        }
        const std::string_view bytes = pty_.kept_from(client.position);
        client.position = pty_.written();
        if (!bytes.empty()) broker().respond(client.request, data_of(bytes));
      }
      if (has_reader()) given_ = pty_.written();
      look();
    }

    void end_client(const Client& client, std::string_view why, int status) {
      answer_exit(client.request, why, status);
    }

    // ---- the end

    void answer_exit(const Request& request, std::string_view why, int status) {
      broker().respond(request, {{"type", "exit"}, {"message", why}, {"status", status}});
      broker().respond_error(request, ENODATA, "");
    }

    // ---- what the task writes

    [[nodiscard]] bool has_reader() const {
      return std::any_of(clients_.begin(), clients_.end(),
                         [](const auto& each) { return each.second.viewer != 0; });
    }

    // While no client reads, output stays in the terminal, unless the task has ended and nobody is waited for.
    void watch() {
      if (!reader_) return;
      const bool has_ended = task_.state() == task::State::exited;
      const bool wanted = has_reader() ? broker().unsent() < kMostForBroker : has_ended && !use_.waits;
      if (!wanted || !reader_->start(event::Poll::kReadable)) reader_->stop();
    }

    Terminus& of_;
    task::Task& task_;
    task::Pty& pty_;
    Use use_;
    double begun_;
    std::map<std::string, Client> clients_;              // by sender
    std::uint64_t given_ = 0;                            // bytes that some client has got
    std::optional<event::Poll> reader_;                  // set if it reads
    UniqueFd keys_;                                      // a descriptor of its own, as it has its own watcher
    std::optional<event::Poll> typing_;                  // watches keys_
    std::deque<std::pair<Request, std::string>> typed_;  // bytes that wait for the task, with the request that is
                                                         // answered then
    std::size_t typed_bytes_ = 0;
    std::vector<Request> waiting_;  // for its end
    bool is_over_ = false;
  };

  void take(const Request& request) {
    broker::Broker& broker = *instance_.broker;
    if (request.userid != ::getuid()) return broker.respond_error(request, EPERM, "this is another user's job");
    const std::size_t prefix = instance_.service.size() + std::string_view(kMethods).size() + 2;
    const std::string method = request.topic->size() > prefix ? request.topic->substr(prefix) : "";
    if (method == "list") return list(request);
    if (method == "kill") return kill(request);
    if (method == "kill-server") return kill_all(request);
    if (method == "disconnect") {
      for (const auto& [rank, session] : sessions_) session->leave(broker::sender_of(request));
      return;
    }
    auto session = find(method);
    const Result<void> taken = session ? (*session)->take(request) : session.error();
    if (!taken) broker.respond_error(request, taken.error().code, taken.error().message);
  }

  void kill(const Request& request) {
    auto killed = [&]() -> Result<Session*> {
      const Json parsed = TRY(parse_json(request.text()));
      const JsonAt message = JsonAt::root(parsed);
      auto* session = TRY(find(fmt::format("{}", TRY(TRY(message.at("id")).integer(0, UINT32_MAX)))));
      const int signum = static_cast<int>(TRY(TRY(message.at("signal")).integer(1, NSIG - 1)));
      const auto wait = TRY(message.find("wait"));
      if (!wait || TRY(wait->integer(0, 1)) == 0) {
        CHECK_OK(session->kill(signum));
        return nullptr;
      }
      session->add_waiting(request);
      CHECK_OK(session->kill(signum));
      return session;
    }();
    if (!killed) return instance_.broker->respond_error(request, killed.error().code, killed.error().message);
    if (*killed == nullptr) instance_.broker->respond(request, nullptr);
  }

  void kill_all(const Request& request) {
    kills_.push_back(request);
    for (const auto& [rank, session] : sessions_) {
      if (!session->is_over()) static_cast<void>(session->kill(SIGKILL));
    }
    look();
  }

  void list(const Request& request) {
    Json rows = Json::array();
    for (const auto& [rank, session] : sessions_) {
      if (!session->is_over()) rows.push_back(session->describe());
    }
    const Json server{{"service", fmt::format("{}.{}", instance_.service, kMethods)},
                      {"rank", instance_.rank},
                      {"ctime", begun_}};
    instance_.broker->respond(request, {{"sessions", std::move(rows)}, {"server", server}});
  }

  Result<Session*> find(std::string_view id) {
    auto rank = parse_u64(id);
    auto found = rank ? sessions_.find(static_cast<std::uint32_t>(*rank)) : sessions_.end();
    if (found == sessions_.end() || found->second->is_over())
      return Error{ENOSYS, fmt::format("terminus.{}: there is no such terminal", id)};
    return found->second.get();
  }

  void look() {
    for (const auto& [rank, session] : sessions_) {
      if (!session->is_over()) return;
    }
    for (const Request& each : std::exchange(kills_, {})) instance_.broker->respond(each, nullptr);
  }

  plugin::Host& host_;
  broker::Instance& instance_;
  double begun_;
  std::map<std::uint32_t, std::unique_ptr<Session>> sessions_;  // by rank; sessions that are over stay
  std::vector<Request> kills_;                                  // requests that wait for the end of all
  plugin::Registration signals_;
};

}  // namespace

// ---- relay ------------------------------------------------------------------------------
//
// Moves bytes between a task's pty and the shell's terminal, both ways, as long as both exist. Nothing is read from
// one side while the other takes nothing: a slow terminal stops the task, and a task that does not read stops the
// input.

class PtyRelay : Noncopyable {
 public:
  enum class End {
    task,      // all that the task wrote has come out
    terminal,  // the terminal has gone: the pty is hung up
  };

  // Both have to live until `on_end`, which is called once. `on_end` may destroy them, but not the relay.
  static Result<std::unique_ptr<PtyRelay>> start(event::Loop& loop, task::Pty& pty, io::Terminal& terminal,
                                                 std::function<void(End)> on_end) {
    std::unique_ptr<PtyRelay> relay(new PtyRelay(pty, terminal, std::move(on_end)));
    CHECK_OK(relay->watch(loop));
    CHECK_OK(relay->watch_signals(loop));
    relay->resize();  // the size may have changed since the pty was made
    return relay;
  }

  // Copies all that the task writes to `fd`, a pipe. If its reader is slow it also stops the task.
  Result<void> copy_to(event::Loop& loop, UniqueFd fd) {
    copier_.poll = TRY(event::Poll::create(loop, fd.get(), [this](int events) { copy_ready(events); }));
    copy_fd_ = std::move(fd);
    return {};
  }

  // Ends the relay as if the terminal had gone, although the task has not ended; call it before `on_end`.
  void hang_up() { finish(End::terminal); }

 private:
  static constexpr std::size_t kBuffer = std::size_t{16} << 10;  // bytes, each way

  struct Buffer {
    std::array<char, kBuffer> bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
    [[nodiscard]] bool empty() const { return begin == end; }
  };
  struct Watched {
    std::optional<event::Poll> poll;
    int events = 0;
  };
  enum class Moved { some, later, ended };

  PtyRelay(task::Pty& pty, io::Terminal& terminal, std::function<void(End)> on_end)
      : pty_(pty), terminal_(terminal), on_end_(std::move(on_end)) {}

  Result<void> watch(event::Loop& loop) {
    task_.poll = TRY(event::Poll::create(loop, pty_.master(), [this](int events) { task_ready(events); }));
    input_.poll = TRY(event::Poll::create(loop, terminal_.input(), [this](int events) { input_ready(events); }));
    output_.poll = TRY(event::Poll::create(loop, terminal_.output(), [this](int events) { output_ready(events); }));
    CHECK_OK(await(task_, event::Poll::kReadable));
    return await(input_, event::Poll::kReadable);
  }

  Result<void> watch_signals(event::Loop& loop) {
    auto watch = [&](int signum, std::function<void(int)> received) -> Result<void> {
      signals_.push_back(TRY(event::SignalWatcher::create(loop, signum, std::move(received))));
      signals_.back().keeps_running(false);
      return {};
    };
    CHECK_OK(watch(SIGWINCH, [this](int) { resize(); }));
    CHECK_OK(watch(SIGTSTP, [this](int) { terminal_.suspend(); }));
    CHECK_OK(watch(SIGHUP, [this](int) { look_for_terminal(); }));
    return watch(SIGCONT, [this](int) {
      static_cast<void>(terminal_.resume());  // the terminal may have gone; then its input ends
      resize();
    });
  }

  // An error of a descriptor, 0, shows up in its next read or write.
  void task_ready(int events) {
    if (events == 0) task_.events = 0;
    if (drain(pty_.master(), in_) == Moved::ended) in_.begin = in_.end;  // it will never be read
    if (out_.empty() && copy_.empty() && !task_ended_) read_task();
    go_on();
  }

  void input_ready(int events) {
    if (events == 0) input_.events = 0;
    if (in_.empty() && fill(terminal_.input(), in_) == Moved::ended) return finish(End::terminal);
    if (drain(pty_.master(), in_) == Moved::ended) in_.begin = in_.end;
    go_on();
  }

  void output_ready(int events) {
    if (events == 0) output_.events = 0;
    go_on();
  }

  void copy_ready(int events) {
    if (events == 0) copier_.events = 0;
    go_on();
  }

  void read_task() {
    Moved moved = fill(pty_.master(), out_);
    task_ended_ = moved == Moved::ended;
    if (moved != Moved::some) return;
    if (copy_fd_) copy_ = out_;
    pty_.note({out_.bytes.data(), out_.end});
  }

  // The reader of the copy is gone.
  void end_copy() {
    copy_.begin = copy_.end;
    copier_ = {};
    copy_fd_.reset();
  }

  void go_on() {
    if (drain(copy_fd_.get(), copy_) == Moved::ended) end_copy();
    if (drain(terminal_.output(), out_) == Moved::ended) return finish(End::terminal);
    bool all_out = out_.empty() && copy_.empty();
    if (all_out && task_ended_) return finish(End::task);
    int from_task = all_out ? event::Poll::kReadable : 0;
    bool watched = await(task_, from_task | (in_.empty() ? 0 : event::Poll::kWritable)) &&
                   await(input_, in_.empty() ? event::Poll::kReadable : 0) &&
                   await(output_, out_.empty() ? 0 : event::Poll::kWritable) &&
                   await(copier_, copy_.empty() ? 0 : event::Poll::kWritable);
    if (!watched) finish(End::terminal);
  }

  void finish(End end) {
    for (Watched* each : {&task_, &input_, &output_}) each->poll.reset();
    end_copy();
    signals_.clear();
    pty_.note_end();
    if (end == End::terminal) pty_.hang_up();
    on_end_(end);
  }

  void resize() {
    winsize size{};
    if (pty_.master() < 0 || ::ioctl(terminal_.output(), TIOCGWINSZ, &size) < 0) return;
    static_cast<void>(pty_.set_size(size, true));
  }

  // While the task takes no input the terminal is not read, so its end has to be looked for.
  void look_for_terminal() {
    winsize size{};
    if (::ioctl(terminal_.input(), TIOCGWINSZ, &size) < 0) finish(End::terminal);
  }

  static Moved fill(int fd, Buffer& buffer) {
    ssize_t got = ::read(fd, buffer.bytes.data(), buffer.bytes.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Moved::later;
    if (got <= 0) return Moved::ended;
    buffer.begin = 0;
    buffer.end = static_cast<std::size_t>(got);
    return Moved::some;
  }

  static Moved drain(int fd, Buffer& buffer) {
    if (buffer.empty()) return Moved::some;
    ssize_t written = ::write(fd, buffer.bytes.data() + buffer.begin, buffer.end - buffer.begin);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return Moved::later;
    if (written < 0) return Moved::ended;
    buffer.begin += static_cast<std::size_t>(written);
    return Moved::some;
  }

  Result<void> await(Watched& watched, int events) {
    if (std::exchange(watched.events, events) == events) return {};
    if (events != 0) return watched.poll->start(events);
    watched.poll->stop();
    return {};
  }

  task::Pty& pty_;
  io::Terminal& terminal_;
  std::function<void(End)> on_end_;
  Buffer out_;   // to the terminal
  Buffer copy_;  // a copy of out_, to copy_fd_
  Buffer in_;    // to the task
  bool task_ended_ = false;
  Watched task_, input_, output_, copier_;
  UniqueFd copy_fd_;
  std::vector<event::SignalWatcher> signals_;
};

// ---- pty --------------------------------------------------------------------------------

namespace {

constexpr winsize kDefaultSize{24, 80, 0, 0};  // used if the shell is on no terminal
constexpr const char* kSessionVariable = "FLUX_TERMINUS_SESSION";
constexpr std::size_t kPtyRead = 4096;  // bytes: as many as a pty gives at once

class PtyPlugin final : public plugin::Plugin {
 public:
  explicit PtyPlugin(plugin::Host& host) : Plugin("pty"), host_(host) {
    on("shell.init", [this] { return read(); });
    on("shell.post-init", [this] { return open_all(); });
    on("task.init", [this] { return prepare(*host_.current_task()); });
    on("task.fork", [this] { return begin(*host_.current_task()); });
    on("task.exit", [this] {
      const task::Task& task = *host_.current_task();
      if (task.is_given_up() && on_terminal(task) && terminal_) relay_->hang_up();
      if (terminus_) terminus_->task_ended(task);
    });
  }

 private:
  Result<void> read() {
    options_ = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
    had_first_ = !host_.tasks().empty() && host_.tasks()[0]->rank() == 0;
    if (!options_.ranks.empty()) host_.start_after_all();
    if (host_.instance() != nullptr) serve_clients();
    return {};
  }

  void serve_clients() {
    host_.environment().set(kSessionVariable, "0");
    if (options_.ranks.empty()) return;
    terminus_.emplace(host_, *host_.instance());
    if (!options_.interactive || !host_.job().leads()) return;
    host_.add_event_context("shell.init", {{"pty", "terminus.0"}});
    if (options_.captures) host_.add_event_context("shell.init", {{"capture", 1}});
  }

  [[nodiscard]] bool is_interactive(const task::Task& task) const {
    return options_.interactive && task.rank() == 0;
  }
  // An instance has clients in place of the terminal; and a shell to which the task has moved has no terminal.
  [[nodiscard]] bool on_terminal(const task::Task& task) const {
    return is_interactive(task) && !terminus_ && had_first_;
  }

  Result<void> check_terminal() {
    bool here = !host_.tasks().empty() && on_terminal(*host_.tasks()[0]);
    if (!here || io::at_terminal()) return {};
    return invalid(
        "pty.interactive: standard input or output is not a terminal (start it on one, or leave it out)");
  }

  static Result<std::unique_ptr<task::Pty>> open() {
    return task::Pty::open(io::terminal_size().value_or(kDefaultSize));
  }

  // Opens all terminals early, so that it is known before any task starts if a node has no more.
  Result<void> open_all() {
    CHECK_OK(check_terminal());
    for (const auto& task : host_.tasks()) {
      if (options_.ranks.contains(task->rank())) opened_[task->rank()] = TRY(in(task_name(*task), open()));
    }
    return {};
  }

  static std::string task_name(const task::Task& task) { return fmt::format("task {}", task.rank()); }

  Result<void> prepare(task::Task& task) {
    if (!options_.ranks.contains(task.rank())) return {};
    auto opened = opened_.extract(task.rank());
    auto pty = opened ? std::move(opened.mapped()) : TRY(open());
    if (!output_) output_ = TRY(OutputOptions::read(host_.options()));
    bool printed = !output_->ranks || output_->ranks->contains(task.rank());
    const bool has_moved = is_interactive(task) && !terminus_ && !had_first_;  // then its output has no other place
    pty->set_captured((options_.captures || has_moved) && printed);
    if (on_terminal(task)) {
      // The task's stdout is the terminal as well; only if stdout goes to a file there is something to capture.
      pty->set_captured(pty->captured() && output_->streams[0].has(OutputType::file));
      CHECK_OK(prepare_joined(task, *pty));
    } else if (!pty->captured() && (has_moved || !is_interactive(task))) {
      dropped_[task.local_id()];
    }
    if (terminus_) {
      terminus_->close(task);
      task.command().env.set(kSessionVariable, fmt::format("{}", task.rank()));
    }
    task.set_pty(std::move(pty));
    return {};
  }

  Result<void> prepare_joined(task::Task& task, task::Pty& pty) {
    job::Environment& env = task.command().env;
    const char* terminal = std::getenv("TERM");
    if (terminal != nullptr && !env.get("TERM")) env.set("TERM", terminal);
    // It also gets the terminal's keys, such as erase and interrupt.
    if (auto modes = io::terminal_modes()) CHECK_OK(pty.set_modes(*modes));
    if (!pty.captured()) return {};
    Pipe pipe = TRY(make_pipe(O_CLOEXEC));
    copy_ = std::move(pipe.write);
    split_ = pty.split(std::move(pipe.read));
    return {};
  }

  Result<void> begin(task::Task& task) {
    if (task.pty() == nullptr) return {};
    if (on_terminal(task)) return join(*task.pty());
    if (terminus_) {
      const bool waits = is_interactive(task);
      CHECK_OK(terminus_->open(task, {.waits = waits, .reads = waits && !task.pty()->captured()}));
    }
    auto dropped = dropped_.find(task.local_id());
    if (dropped == dropped_.end()) return {};
    auto& poll = dropped->second;
    poll = TRY(event::Poll::create(host_.loop(), task.pty()->master(), [&task, &poll](int) { drop(task, poll); }));
    return poll->start(event::Poll::kReadable);
  }

  static void drop(const task::Task& task, std::optional<event::Poll>& poll) {
    std::array<char, kPtyRead> bytes;
    ssize_t got = ::read(task.pty()->master(), bytes.data(), bytes.size());
    if (got > 0) return task.pty()->note({bytes.data(), static_cast<std::size_t>(got)});
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    poll.reset();
    task.pty()->note_end();
  }

  Result<void> join(task::Pty& pty) {
    terminal_ = TRY(in("pty.interactive", io::Terminal::borrow(&host_.children())));
    auto on_end = [this](PtyRelay::End end) { leave(end); };
    relay_ = TRY(PtyRelay::start(host_.loop(), split_ ? *split_ : pty, *terminal_, on_end));
    if (copy_) CHECK_OK(relay_->copy_to(host_.loop(), std::move(copy_)));
    host_.hold(name());
    return {};
  }

  void leave(PtyRelay::End end) {
    terminal_.reset();
    if (end == PtyRelay::End::terminal) log(host_, *this, Level::debug, "the terminal has gone: task 0 is hung up");
    if (Result<void> released = host_.release(name()); !released) {
      log(host_, *this, Level::error, "{}", released.error().message);
    }
  }

  plugin::Host& host_;
  PtyOptions options_;
  std::optional<OutputOptions> output_;                                    // read for the first task with a pty
  std::unordered_map<std::uint32_t, std::optional<event::Poll>> dropped_;  // by local id; terminals that are read,
                                                                           // and whose output is dropped
  std::unordered_map<std::uint32_t, std::unique_ptr<task::Pty>> opened_;   // by rank, until the task has it
  UniqueFd copy_;                                                          // until the relay has it
  std::unique_ptr<task::Pty> split_;
  std::unique_ptr<io::Terminal> terminal_;
  std::unique_ptr<PtyRelay> relay_;
  std::optional<Terminus> terminus_;
  bool had_first_ = false;  // task 0 was here at the start
};

}  // namespace

PluginPtr make_pty(plugin::Host& host) { return std::make_unique<PtyPlugin>(host); }

}  // namespace nacre::plugins
