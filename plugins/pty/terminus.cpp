// SPDX-License-Identifier: Apache-2.0
#include "plugins/pty/terminus.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "io/format.hpp"

namespace nacre::plugins {
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

}  // namespace

// ---- one terminal -----------------------------------------------------------------------

class Terminus::Session {
 public:
  Session(Terminus& of, task::Task& task, Use use)
      : of_(of), task_(task), pty_(task.pty()->viewed()), use_(use), begun_(event::wall_clock()) {}
  // Of a terminal that only others have read to its end: nobody has looked since.
  ~Session() { tell_end(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Result<void> begin(event::Loop& loop);
  Result<void> take(const Request& request);
  void leave(const std::string& sender);
  // The task may have ended.
  void look();
  void end();
  void tell_end();
  void stop_waiting();
  Result<void> kill(int signum);
  void add_waiting(const Request& request) { waiting_.push_back(request); }
  [[nodiscard]] bool is_over() const { return is_over_; }
  [[nodiscard]] std::string hold() const { return fmt::format("terminus.{}", task_.rank()); }
  [[nodiscard]] Json describe() const;

 private:
  struct Client {
    Request request;
    bool writes = false;
    std::uint64_t viewer = 0;    // its number; 0: it does not read
    std::uint64_t position = 0;  // bytes of what the task has written
  };

  [[nodiscard]] broker::Broker& broker() { return *of_.instance_.broker; }
  Result<void> attach(const Request& request, const JsonAt& message);
  void type(const Request& request, std::string bytes);
  void write();
  void read();
  void deliver();
  void end_client(const Client& client, std::string_view why, int status);
  void answer_exit(const Request& request, std::string_view why, int status);
  [[nodiscard]] bool has_reader() const;
  void watch();

  Terminus& of_;
  task::Task& task_;
  task::Pty& pty_;
  Use use_;
  double begun_;
  std::map<std::string, Client> clients_;              // by sender
  std::uint64_t given_ = 0;                            // bytes that some client has had
  std::optional<event::Poll> reader_;                  // if it reads
  UniqueFd keys_;                                      // a descriptor of its own, for a watcher of its own
  std::optional<event::Poll> typing_;                  // of it
  std::deque<std::pair<Request, std::string>> typed_;  // that wait for the task, with who wants an answer
  std::size_t typed_bytes_ = 0;
  std::vector<Request> waiting_;  // for its end
  bool is_over_ = false;
};

Result<void> Terminus::Session::begin(event::Loop& loop) {
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

Json Terminus::Session::describe() const {
  return {{"id", task_.rank()},
          {"name", fmt::format("task{}", task_.rank())},
          {"clients", clients_.size()},
          {"pid", task_.pid()},
          {"exited", task_.state() == task::State::exited ? 1 : 0},
          {"ctime", begun_}};
}

// ---- what clients send

Result<void> Terminus::Session::take(const Request& request) {
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

// A later client begins where the last one has left.
Result<void> Terminus::Session::attach(const Request& request, const JsonAt& message) {
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

void Terminus::Session::leave(const std::string& sender) {
  auto client = clients_.extract(sender);
  if (!client) return;
  if (client.mapped().viewer != 0) pty_.remove_viewer(client.mapped().viewer);
  watch();
}

// It is answered once the task's terminal has taken it.
void Terminus::Session::type(const Request& request, std::string bytes) {
  typed_bytes_ += bytes.size();
  typed_.emplace_back(request, std::move(bytes));
  write();
}

void Terminus::Session::write() {
  while (!typed_.empty()) {
    auto& [request, bytes] = typed_.front();
    const ssize_t put =
        keys_ ? ::write(keys_.get(), bytes.data(), bytes.size()) : static_cast<ssize_t>(bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    const std::size_t taken = put < 0 ? bytes.size() : static_cast<std::size_t>(put);  // nothing reads it any more
    typed_bytes_ -= taken;
    bytes.erase(0, taken);
    if (!bytes.empty()) continue;
    broker().respond(request, nullptr);
    typed_.pop_front();
  }
  if (typed_.empty() || !typing_->start(event::Poll::kWritable)) typing_->stop();
}

// ---- what the task writes

bool Terminus::Session::has_reader() const {
  return std::any_of(clients_.begin(), clients_.end(), [](const auto& each) { return each.second.viewer != 0; });
}

// While no client reads it is left in the terminal, unless the task has ended and nobody is waited for.
void Terminus::Session::watch() {
  if (!reader_) return;
  const bool has_ended = task_.state() == task::State::exited;
  const bool wanted = has_reader() ? broker().unsent() < kMostForBroker : has_ended && !use_.waits;
  if (!wanted || !reader_->start(event::Poll::kReadable)) reader_->stop();
}

void Terminus::Session::read() {
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

// While the broker takes nothing it is left in the terminal, or else in what is kept.
void Terminus::Session::deliver() {
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

// ---- the end

void Terminus::Session::answer_exit(const Request& request, std::string_view why, int status) {
  broker().respond(request, {{"type", "exit"}, {"message", why}, {"status", status}});
  broker().respond_error(request, ENODATA, "");
}

void Terminus::Session::end_client(const Client& client, std::string_view why, int status) {
  answer_exit(client.request, why, status);
}

void Terminus::Session::look() {
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

void Terminus::Session::end() {
  is_over_ = true;
  typing_->stop();
  keys_.reset();
  write();
  tell_end();
  static_cast<void>(of_.host_.release(hold()));  // if it was taken
  of_.look();
}

void Terminus::Session::tell_end() {
  const int status = task_.status().raw();
  for (const auto& [sender, client] : clients_) end_client(client, "session exiting", status);
  while (!clients_.empty()) leave(clients_.begin()->first);
  for (const Request& each : std::exchange(waiting_, {})) answer_exit(each, "session exiting", status);
}

void Terminus::Session::stop_waiting() {
  use_.waits = false;
  look();
}

Result<void> Terminus::Session::kill(int signum) {
  use_.waits = false;
  if (task_.state() == task::State::exited) {
    look();
    return {};
  }
  static_cast<void>(::ioctl(pty_.master(), TIOCSIG, signum));  // to what is in the foreground, if anything is
  if (!task_.kill(signum)) return Error{ESRCH, "the task does not run"};
  return {};
}

// ---- all of them ------------------------------------------------------------------------

Terminus::Terminus(plugin::Host& host, broker::Instance& instance)
    : host_(host), instance_(instance), begun_(event::wall_clock()) {
  instance.methods[kMethods] = [this](const Request& request) { take(request); };
  // A signal for all tasks is also for a job that waits for a client only.
  signals_ = host.signal_also([this](int signum) {
    if (signum == SIGWINCH || signum == SIGCONT) return;
    for (const auto& [rank, session] : sessions_) session->stop_waiting();
  });
}

Terminus::~Terminus() { instance_.methods.erase(kMethods); }

Result<void> Terminus::open(task::Task& task, Use use) {
  auto session = std::make_unique<Session>(*this, task, use);
  CHECK_OK(session->begin(host_.loop()));
  sessions_[task.rank()] = std::move(session);
  return {};
}

void Terminus::close(const task::Task& task) {
  auto session = sessions_.extract(task.rank());
  if (session && !session.mapped()->is_over()) session.mapped()->end();
}

void Terminus::task_ended(const task::Task& task) {
  auto found = sessions_.find(task.rank());
  if (found == sessions_.end()) return;
  if (host_.ending()) return found->second->stop_waiting();
  found->second->look();
}

void Terminus::take(const Request& request) {
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

Result<Terminus::Session*> Terminus::find(std::string_view id) {
  auto rank = parse_u64(id);
  auto found = rank ? sessions_.find(static_cast<std::uint32_t>(*rank)) : sessions_.end();
  if (found == sessions_.end() || found->second->is_over())
    return Error{ENOSYS, fmt::format("terminus.{}: there is no such terminal", id)};
  return found->second.get();
}

void Terminus::list(const Request& request) {
  Json rows = Json::array();
  for (const auto& [rank, session] : sessions_) {
    if (!session->is_over()) rows.push_back(session->describe());
  }
  const Json server{
      {"service", fmt::format("{}.{}", instance_.service, kMethods)}, {"rank", instance_.rank}, {"ctime", begun_}};
  instance_.broker->respond(request, {{"sessions", std::move(rows)}, {"server", server}});
}

void Terminus::kill(const Request& request) {
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

void Terminus::kill_all(const Request& request) {
  kills_.push_back(request);
  for (const auto& [rank, session] : sessions_) {
    if (!session->is_over()) static_cast<void>(session->kill(SIGKILL));
  }
  look();
}

void Terminus::look() {
  for (const auto& [rank, session] : sessions_) {
    if (!session->is_over()) return;
  }
  for (const Request& each : std::exchange(kills_, {})) instance_.broker->respond(each, nullptr);
}

}  // namespace nacre::plugins
