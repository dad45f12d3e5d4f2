// SPDX-License-Identifier: Apache-2.0
#include "boot/index_keys.hpp"

#include "base/print.hpp"
#include "event/clock.hpp"
#include "group/first_words.hpp"
#include "transport/dialer.hpp"
#include "value/idset.hpp"
#include "value/wait_status.hpp"
#include "wire/json.hpp"

namespace nacre::boot {

using group::Rank;

// What a shell says first.
struct IndexHello {
  std::string version;
  std::uint32_t protocol = 0;
  Rank index = 0;
  std::uint32_t size = 0;
  std::map<std::string, std::string> values;
};

struct IndexQuestion {
  Rank owner = 0;
  std::string key;
};

struct IndexAnswer {
  std::string error;
  std::string value = {};
  bool again = false;
  std::string leader = {};  // addresses, joined by blanks
};

void fields(auto& io, wire::Of<IndexHello> auto& m) {
  io.has("version", m.version);
  io.has("protocol", m.protocol);
  io.has("index", m.index);
  io.has("size", m.size);
  io.has("values", m.values);
}

void fields(auto& io, wire::Of<IndexQuestion> auto& m) {
  io.has("owner", m.owner);
  io.has("key", m.key);
}

void fields(auto& io, wire::Of<IndexAnswer> auto& m) {
  io.may_have("error", m.error);
  io.may_have("value", m.value);
  io.may_have("again", m.again);
  io.may_have("leader", m.leader);
}

namespace {

// The name of the secret in TLS: links of a job, whose secret is another, cannot be taken for these.
constexpr const char* kIdentity = "nacre-pods";
constexpr event::Seconds kToWaitSilently{10};  // then a line says for whom
constexpr event::Seconds kToAsk{10};           // for each of the others, once all have come
constexpr event::Seconds kUntilOthersAreAsked{2};
constexpr event::Seconds kToAskAnother{1};  // shell 0, one after the other
constexpr event::Seconds kToKnowSecret{2};  // for whoever has this host's port
constexpr event::Seconds kToResolve{10};
constexpr event::Seconds kToConnect{1};  // a connection to a pod that begins meanwhile would come no sooner
constexpr double kFirstPause = 0.05;     // seconds between two attempts to reach shell 0
constexpr double kLongestPause = 0.5;
constexpr double kLongestPauseNear = 0.2;
constexpr std::size_t kMaxRemarks = 4;  // of those that were turned away

// The loop of a shell that has none yet, until a time or a signal.
class Waiting {
 public:
  static Result<std::unique_ptr<Waiting>> create(double seconds) {
    std::unique_ptr<Waiting> out(new Waiting);
    out->loop_ = TRY(event::Loop::create());
    out->until_ = event::clock_now().count() + seconds;
    out->wake_ = TRY(event::Timer::create(*out->loop_, [] {}));
    return out;
  }

  // Until here a signal has the action that it had before.
  Result<void> watch_signals() {
    for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      auto take = [this](int each) { signal_ = each; };
      watchers_.push_back(TRY(event::SignalWatcher::create(*loop_, signum, take)));
      watchers_.back().keeps_running(false);
    }
    return {};
  }

  [[nodiscard]] event::Loop& loop() { return *loop_; }
  [[nodiscard]] std::optional<int> signal() const { return signal_; }
  [[nodiscard]] bool is_late() const { return event::clock_now().count() >= until_; }

  // Whether it is done, before the time is over, or a signal has come. `most`: no longer than this.
  bool wait(const std::function<bool()>& done, std::optional<double> most = {}) {
    const double now = event::clock_now().count();
    const double until = most ? std::min(until_, now + *most) : until_;
    wake_->start(event::Seconds(std::max(0.0, until - now)));
    loop_->run_until([&] { return signal_ || done() || event::clock_now().count() >= until; });
    wake_->stop();
    return !signal_ && done();
  }

  // More time, for what others do at once.
  void extend(event::Seconds by) { until_ = std::max(until_, event::clock_now().count() + by.count()); }

 private:
  Waiting() = default;
  std::unique_ptr<event::Loop> loop_;
  double until_ = 0;
  std::optional<event::Timer> wake_;
  std::vector<event::SignalWatcher> watchers_;
  std::optional<int> signal_;
};

Error interrupted(int signum, std::string_view for_whom) {
  return Error{ECANCELED, fmt::format("ended by {} while it waited for {}", value::signal_name(signum), for_whom)};
}

// Where it is about the secrets.
Error with_secret_file(const Error& why, std::string_view file) {
  if (why.message.find("secret") == std::string::npos) return why;
  return Error{why.code, fmt::format("{} (the secret of this one is that of {})", why.message, file)};
}

// ---- who comes to shell 0 ------------------------------------------------------------------

Result<void> check_place(const IndexHello& hello, const Pod& pod) {
  if (hello.size != pod.size)
    return invalid(
        fmt::format("this shell is one of {}, and shell 0 of {} by {}: all pods have to be given the same number",
                    hello.size, pod.size, pod.size_source));
  if (hello.index < pod.size) return {};
  return invalid(fmt::format("index {} is not below the number of pods, {}", hello.index, pod.size));
}

class Door {
 public:
  struct Callbacks {
    // An error turns it away; with EAGAIN it comes again. "": it gets an answer by answer(). Else the addresses of
    // who leads.
    std::function<Result<std::string>(const IndexHello& hello, const std::string& peer)> on_hello;
    std::function<Result<std::string>(const IndexQuestion& question)> on_question;
    std::function<void(Rank index)> on_gone;  // one that was not turned away
    std::function<void(const std::string& who)> on_turned_away;
  };

  static Result<std::unique_ptr<Door>> open(event::Loop& loop, IndexGroup group, Callbacks callbacks) {
    const std::uint16_t port = group.pod.leader.port;
    auto socket = transport::BoundSocket::tcp("", port);
    if (!socket && socket.error().code == EADDRINUSE)
      return Error{EADDRINUSE,
                   fmt::format("port {} is taken on this host: is there another shell with index 0, or another "
                               "program? NACRE_PORT gives all pods another one",
                               port)};
    if (!socket) return Error(socket.error());
    std::unique_ptr<Door> out(new Door(std::move(callbacks), std::move(group.version), group.secret_file));
    out->credentials_ = TRY(transport::Credentials::create(kIdentity, std::move(group.secret)));
    transport::Listener::Callbacks events;
    events.on_link = [door = out.get()](transport::OwnedLink link) { door->add(std::move(link)); };
    events.on_refused = [door = out.get()](const Error& why) { door->note_refused(why); };
    transport::Listener::Options options;
    out->listener_ =
        TRY(transport::Listener::create(loop, *out->credentials_, *std::move(socket), options, std::move(events)));
    return out;
  }

  // All that have come get this answer, or those of this index. Returns how many.
  std::size_t answer(const IndexAnswer& answer, std::optional<Rank> index = {}) {
    std::size_t out = 0;
    for (auto& [id, guest] : guests_) {
      if (!guest.index || (index && guest.index != index)) continue;
      if (send(guest, answer)) ++out;
      if (!answer.error.empty()) guest.link->finish();
    }
    return out;
  }

  [[nodiscard]] bool is_empty() const { return guests_.empty(); }

 private:
  struct Guest {
    transport::OwnedLink link;
    std::optional<Rank> index;
  };

  Door(Callbacks callbacks, std::string version, std::string secret_file)
      : callbacks_(std::move(callbacks)), version_(std::move(version)), secret_file_(std::move(secret_file)) {}

  void add(transport::OwnedLink link) {
    const std::uint64_t id = ++last_;
    transport::Link::Callbacks events;
    events.on_frame = [this, id](std::string_view frame) { take(id, frame); };
    events.on_closed = [this, id](const std::optional<Error>&) { drop(id); };
    transport::Link* to = link.get();
    guests_[id] = {std::move(link), std::nullopt};
    to->serve(std::move(events));
  }

  void drop(std::uint64_t id) {
    auto found = guests_.find(id);
    if (found == guests_.end()) return;
    std::optional<Rank> index = found->second.index;
    guests_.erase(found);
    if (index && callbacks_.on_gone) callbacks_.on_gone(*index);
  }

  // False: it has gone, and is dropped.
  static bool send(Guest& guest, const IndexAnswer& answer) {
    return guest.link->send(wire::to_text(answer)).has_value();
  }

  void take(std::uint64_t id, std::string_view frame) {
    Guest& guest = guests_.at(id);
    if (!guest.index) {
      if (Result<void> taken = greet(guest, frame); !taken) turn_away(guest, taken.error());
      return;
    }
    auto question = wire::from_text<IndexQuestion>(frame);
    Result<std::string> value =
        question ? callbacks_.on_question(*question) : Result<std::string>(question.error());
    send(guest, value ? IndexAnswer{"", *value} : IndexAnswer{value.error().message});
  }

  // It may get its answer before this returns.
  Result<void> greet(Guest& guest, std::string_view frame) {
    IndexHello hello = TRY(wire::from_text<IndexHello>(frame));
    if (hello.protocol != group::kProtocol)
      return invalid(
          fmt::format("shell 0 is of nacre {} and speaks protocol {}, this shell is of {} and speaks {}: "
                      "the same version has to be in all images",
                      version_, group::kProtocol, in_quotes(hello.version), hello.protocol));
    guest.index = hello.index;
    Result<std::string> leader = callbacks_.on_hello(hello, guest.link->peer());
    if (leader && leader->empty()) return {};
    guest.index.reset();
    if (!leader) return leader.error();
    send(guest, {"", "", true, *leader});
    guest.link->finish();
    return {};
  }

  void turn_away(Guest& guest, const Error& why) {
    const bool comes_again = why.code == EAGAIN;
    send(guest, {why.message, "", comes_again});
    guest.link->finish();
    if (callbacks_.on_turned_away && !comes_again)
      callbacks_.on_turned_away(fmt::format("{}: {}", guest.link->peer(), why.message));
  }

  // Other programs that only look whether the port is open are nobody's concern.
  void note_refused(const Error& why) {
    if (why.code != EACCES || !callbacks_.on_turned_away) return;
    callbacks_.on_turned_away(with_secret_file(why, secret_file_).message);
  }

  Callbacks callbacks_;
  std::string version_, secret_file_;
  std::unique_ptr<transport::Credentials> credentials_;
  std::map<std::uint64_t, Guest> guests_;
  std::uint64_t last_ = 0;
  std::unique_ptr<transport::Listener> listener_;
};

// ---- who calls --------------------------------------------------------------------------------

// Calls shells at the port that all know, one at a time.
class Caller {
 public:
  using Addresses = std::vector<transport::Address>;

  // `waiting` has to outlive it.
  static Result<std::unique_ptr<Caller>> create(Waiting& waiting, const IndexGroup& group) {
    std::unique_ptr<Caller> out(new Caller(waiting, group));
    out->credentials_ = TRY(transport::Credentials::create(kIdentity, group.secret.copy()));
    return out;
  }

  void put(std::string_view key, std::string_view value) { hello_.values[std::string(key)] = value; }

  // EACCES: it has another secret. EAGAIN: the time is over, a signal has come, or `stop` says so.
  Result<void> dial(Addresses where, const std::function<bool()>& stop = {},
                    event::Seconds handshake = transport::HandshakeLimits().time) {
    std::optional<Result<transport::OwnedLink>> done;
    transport::Dialer::Options options;
    options.time = kToConnect;
    options.lookup = kToResolve;
    options.handshake.time = handshake;
    auto dialer = TRY(transport::Dialer::create(waiting_.loop(), *credentials_, std::move(where), options,
                                                [&done](auto result) { done.emplace(std::move(result)); }));
    waiting_.wait([&] { return done || (stop && stop()); });
    if (!done) return Error{EAGAIN, "no connection"};
    if (!*done && done->error().code == EACCES) return with_secret_file(done->error(), secret_file_);
    link_ = TRY(*std::move(done));
    closed_ = false;
    transport::Link::Callbacks events;
    events.on_frame = [this](std::string_view frame) { take(frame); };
    events.on_closed = [this](const std::optional<Error>&) { closed_ = true; };
    link_->serve(std::move(events));
    return {};
  }

  // Says who this shell is.
  Result<IndexAnswer> greet(const std::function<bool()>& stop = {}) {
    answer_.reset();
    CHECK_OK(link_->send(wire::to_text(hello_)));
    return await({}, stop);
  }

  Result<IndexAnswer> ask(const IndexQuestion& question) {
    answer_.reset();
    CHECK_OK(link_->send(wire::to_text(question)));
    return await(kToAsk.count(), {});
  }

  void hang_up() { link_.reset(); }

  // Where the answer says that the leader is.
  static Addresses leader_of(const IndexAnswer& answer) {
    Addresses out;
    for (std::string_view each : split(answer.leader, ' ')) {
      auto address = transport::Address::parse(each);
      if (address && !address->is_unix()) out.push_back(*std::move(address));
    }
    return out;
  }

 private:
  Caller(Waiting& waiting, const IndexGroup& group) : waiting_(waiting), secret_file_(group.secret_file) {
    hello_.version = group.version;
    hello_.protocol = group::kProtocol;
    hello_.index = group.pod.index;
    hello_.size = group.pod.size;
  }

  void take(std::string_view frame) {
    auto answer = wire::from_text<IndexAnswer>(frame);
    answer_ = answer ? *std::move(answer) : IndexAnswer{answer.error().message};
  }

  Result<IndexAnswer> await(std::optional<double> most, const std::function<bool()>& stop) {
    waiting_.wait([&] { return answer_ || closed_ || (stop && stop()); }, most);
    if (answer_ && !waiting_.signal()) return *std::move(answer_);
    return Error{ECONNRESET, closed_ ? "it has ended before all pods had come" : "not all pods have come"};
  }

  Waiting& waiting_;
  std::string secret_file_;
  IndexHello hello_;
  std::unique_ptr<transport::Credentials> credentials_;
  std::optional<IndexAnswer> answer_;
  bool closed_ = false;
  transport::OwnedLink link_;
};

// The pods that are neither the first one nor this one, in turn, as far as their names are known.
class OtherPods {
 public:
  explicit OtherPods(const Pod& pod) : pod_(pod), at_(pod.index) {}  // has to outlive it

  // Empty: there is none.
  [[nodiscard]] Caller::Addresses next() {
    at_ = at_ + 1 < pod_.size ? at_ + 1 : 1;
    if (at_ == pod_.index) at_ = at_ + 1 < pod_.size ? at_ + 1 : 1;
    const std::string name = at_ == pod_.index ? "" : name_of_pod(pod_, at_);
    if (name.empty()) return {};
    return {{name, pod_.leader.port, ""}};
  }

 private:
  const Pod& pod_;
  std::uint32_t at_;
};

// ---- shell 0 -------------------------------------------------------------------------------

class KeptHere final : public IndexKeys {
 public:
  static Result<std::unique_ptr<IndexKeys>> open(IndexGroup group) {
    std::unique_ptr<KeptHere> out(new KeptHere(std::move(group)));
    out->waiting_ = TRY(Waiting::create(out->pod_.timeout));
    Result<void> opened = out->open_door();
    if (!opened && opened.error().code != EADDRINUSE) return opened.error();
    if (!opened) out->taken_ = opened.error();
    return std::unique_ptr<IndexKeys>(std::move(out));
  }

  [[nodiscard]] std::uint32_t rank() const override { return 0; }
  [[nodiscard]] std::uint32_t size() const override { return pod_.size; }
  [[nodiscard]] bool resolves_names() const override { return false; }
  [[nodiscard]] std::optional<int> ended_by() const override { return waiting_->signal(); }
  [[nodiscard]] std::string take_late() override { return std::move(late_); }

  Result<void> put(std::string_view key, std::string_view value) override {
    shells_[0].values[std::string(key)] = value;
    return {};
  }

  Result<void> barrier() override {
    CHECK_OK(waiting_->watch_signals());
    if (taken_) CHECK_OK(ask_holder());
    if (late_.empty()) CHECK_OK(wait_for_others());
    if (!late_.empty()) {
      door_.reset();
      return Error{EISCONN, "the job runs already"};
    }
    if (is_complete() && !waiting_->signal()) {
      is_complete_ = true;
      waiting_->extend(kToAsk);
      door_->answer({});
      return {};
    }
    Error why = waiting_->signal() ? interrupted(*waiting_->signal(), missing()) : came_not();
    if (!door_) return why;
    door_->answer({"shell 0: " + why.message});
    waiting_->extend(kToAsk);
    waiting_->wait([this] { return door_->is_empty(); }, kToConnect.count());
    return why;
  }

  Result<std::string> get(std::uint32_t owner, std::string_view key) override {
    auto shell = shells_.find(owner);
    if (shell != shells_.end()) {
      auto value = shell->second.values.find(std::string(key));
      if (value != shell->second.values.end()) return value->second;
    }
    return Error{ENOENT, fmt::format("shell {} has no key {}", owner, in_quotes(key))};
  }

  Result<void> finish() override {
    waiting_->extend(kToAsk);
    waiting_->wait([this] { return door_->is_empty(); }, kToAsk.count());
    if (waiting_->signal()) return interrupted(*waiting_->signal(), "the others to begin");
    door_.reset();
    return {};
  }

 private:
  struct Shell {
    std::map<std::string, std::string> values;
    std::string peer;
  };

  explicit KeptHere(IndexGroup group) : group_(std::move(group)), pod_(group_.pod), others_(pod_) { shells_[0]; }

  Result<void> open_door() {
    Door::Callbacks events;
    events.on_hello = [this](const IndexHello& hello, const std::string& peer) -> Result<std::string> {
      CHECK_OK(take(hello, peer));
      return "";
    };
    events.on_question = [this](const IndexQuestion& question) { return get(question.owner, question.key); };
    events.on_gone = [this](Rank index) { forget(index); };
    events.on_turned_away = [this](const std::string& who) { remark(who); };
    door_ = TRY(Door::open(waiting_->loop(), group_.copy(), std::move(events)));
    return {};
  }

  [[nodiscard]] bool is_complete() const { return shells_.size() == pod_.size; }
  [[nodiscard]] bool is_over() const { return is_complete() || waiting_->signal() || waiting_->is_late(); }

  // This pod may have come again, and the job run under another leader: one of the others knows it.
  Result<void> wait_for_others() {
    const double begun = event::clock_now().count();
    bool has_told = false;
    double until = kUntilOthersAreAsked.count();
    while (!is_over() && late_.empty()) {
      waiting_->wait([this] { return is_complete(); }, until);
      until = kToAskAnother.count();
      if (is_over()) return {};
      if (!has_told && event::clock_now().count() - begun >= kToWaitSilently.count()) {
        has_told = true;
        print_err("nacre-shell[0]: waiting for {} of {} on port {}\n", missing(), pod_.size, pod_.leader.port);
      }
      const bool is_known = !leader_.empty();
      Caller::Addresses where = is_known ? std::exchange(leader_, {}) : others_.next();
      if (where.empty()) continue;
      auto answer = call(std::move(where), transport::HandshakeLimits().time);
      if (answer) CHECK_OK(take(*answer));
      if (answer && !leader_.empty()) until = kFirstPause;
    }
    return {};
  }

  // Pods that share this host's network have one port. If the job runs its leader has it, who takes this pod.
  Result<void> ask_holder() {
    while (late_.empty() && !is_over()) {
      Caller::Addresses where = std::exchange(leader_, {});
      if (where.empty()) where = {pod_.leader};
      auto answer = call(std::move(where), kToKnowSecret);
      if (!answer && open_door()) return {};  // it has ended
      if (!answer) return *taken_;
      CHECK_OK(take(*answer));
      if (late_.empty()) waiting_->wait([] { return false; }, kLongestPause);
    }
    return {};
  }

  Result<IndexAnswer> call(Caller::Addresses where, event::Seconds handshake) {
    if (!caller_) caller_ = TRY(Caller::create(*waiting_, group_));
    auto stop = [this] { return is_complete(); };
    Result<void> dialled = caller_->dial(std::move(where), stop, handshake);
    Result<IndexAnswer> out = dialled ? caller_->greet(stop) : Result<IndexAnswer>(dialled.error());
    caller_->hang_up();
    return out;
  }

  // An error: this pod is turned away.
  Result<void> take(const IndexAnswer& answer) {
    if (!answer.error.empty() && !answer.again) return Error{EPROTO, answer.error};
    late_ = answer.value;
    if (auto leader = Caller::leader_of(answer); !leader.empty()) leader_ = std::move(leader);
    return {};
  }

  Result<void> take(const IndexHello& hello, const std::string& peer) {
    if (is_complete_) return invalid(fmt::format("index {} has come already, and the job has begun", hello.index));
    CHECK_OK(check_place(hello, pod_));
    auto [shell, is_new] = shells_.try_emplace(hello.index, Shell{hello.values, peer});
    if (is_new) return {};
    return invalid(
        fmt::format("index {} is there twice: {} has it already; each pod needs an index of its own by {}",
                    hello.index, hello.index == 0 ? "shell 0" : shell->second.peer, pod_.index_source));
  }

  void forget(Rank index) {
    if (!is_complete_) shells_.erase(index);
  }

  void remark(const std::string& who) {
    if (remarks_.size() == kMaxRemarks) return;
    remarks_.push_back(who);
    print_err("nacre-shell[0]: turned away: {}\n", who);
  }

  [[nodiscard]] std::string missing() const {
    value::Idset out;
    for (Rank each = 0; each < pod_.size; ++each) {
      if (!shells_.contains(each)) out.insert(each);
    }
    return fmt::format("shell{} {}", out.size() == 1 ? "" : "s", out.short_str());
  }

  [[nodiscard]] Error came_not() const {
    return Error{ETIMEDOUT,
                 fmt::format("{} of {} did not come to port {} within {} s{}{}; do these pods run, and with the "
                             "same command? NACRE_TIMEOUT gives more time",
                             missing(), pod_.size, pod_.leader.port, pod_.timeout,
                             remarks_.empty() ? "" : "; turned away: ", fmt::join(remarks_, "; "))};
  }

  IndexGroup group_;
  const Pod& pod_;  // of that
  OtherPods others_;
  std::map<Rank, Shell> shells_;  // those that have come
  bool is_complete_ = false;
  std::vector<std::string> remarks_;
  std::optional<Error> taken_;  // the port is
  Caller::Addresses leader_;    // of a job that runs already, as another pod says
  std::string late_;
  std::unique_ptr<Waiting> waiting_;
  std::unique_ptr<Door> door_;
  std::unique_ptr<Caller> caller_;
};

// ---- the others ----------------------------------------------------------------------------

class KeptThere final : public IndexKeys {
 public:
  static Result<std::unique_ptr<IndexKeys>> open(const IndexGroup& group) {
    std::unique_ptr<KeptThere> out(new KeptThere(group.pod));
    out->waiting_ = TRY(Waiting::create(group.pod.timeout));
    out->caller_ = TRY(Caller::create(*out->waiting_, group));
    return std::unique_ptr<IndexKeys>(std::move(out));
  }

  [[nodiscard]] std::uint32_t rank() const override { return pod_.index; }
  [[nodiscard]] std::uint32_t size() const override { return pod_.size; }
  [[nodiscard]] bool resolves_names() const override { return false; }
  [[nodiscard]] std::optional<int> ended_by() const override { return waiting_->signal(); }

  [[nodiscard]] std::string take_late() override { return std::move(late_); }

  Result<void> put(std::string_view key, std::string_view value) override {
    caller_->put(key, value);
    return {};
  }

  // Again and again: a name may not be known yet, and the first pod may come late, or anew.
  Result<void> barrier() override {
    CHECK_OK(waiting_->watch_signals());
    begun_ = event::clock_now().count();
    bool has_told = false;
    for (double pause = kFirstPause;;) {
      const bool is_first = choose_whom();
      Result<void> come = try_once(is_first);
      if (!late_.empty()) return Error{EISCONN, "the job runs already"};
      if (come || is_refused_) return come;
      if (waiting_->signal()) return interrupted(*waiting_->signal(), subject());
      note(come.error(), is_first);
      if (waiting_->is_late()) return not_reached(last_.value_or(come.error()));
      if (!has_told && last_ && has_waited(kToWaitSilently)) {
        has_told = true;
        print_err("nacre-shell[{}]: waiting for {}: {}\n", pod_.index, subject(), reason_of(*last_));
      }
      waiting_->wait([] { return false; }, whom_.empty() ? pause : kFirstPause);
      const bool is_near = come.error().code == ECONNREFUSED;  // its pod is there, and begins soon
      pause = std::min(pause * 1.5, is_near ? kLongestPauseNear : kLongestPause);
    }
  }

  Result<std::string> get(std::uint32_t owner, std::string_view key) override {
    waiting_->extend(kToAsk);
    IndexAnswer answer = TRY(caller_->ask({owner, std::string(key)}));
    if (!answer.error.empty()) return Error{EPROTO, "shell 0: " + answer.error};
    return answer.value;
  }

  Result<void> finish() override {
    caller_->hang_up();
    return {};
  }

 private:
  explicit KeptThere(Pod pod) : pod_(std::move(pod)), others_(pod_) {}

  [[nodiscard]] std::string subject() const {
    return fmt::format("shell 0 at {} (by {})", pod_.leader.text(), pod_.leader_source);
  }

  // In the words of people, with what the system says.
  static std::string reason_of(const Error& why) {
    if (why.code == EHOSTUNREACH && why.message.find("cannot find the address") != std::string::npos)
      return "name not known: " + why.message;
    if (why.code == ECONNREFUSED) return "connection refused: is the first pod there, and does it run nacre?";
    return why.message;
  }

  [[nodiscard]] Error not_reached(const Error& why) const {
    return Error{ETIMEDOUT, fmt::format("{} did not begin the job within {} s: {}; NACRE_TIMEOUT gives more time",
                                        subject(), pod_.timeout, reason_of(why))};
  }

  [[nodiscard]] bool has_waited(event::Seconds so_long) const {
    return event::clock_now().count() - begun_ >= so_long.count();
  }

  // The first pod; the leader, where another one has said who that is; and after a while the others by turns, as
  // the job may run, and the first pod be lost. True: it is the first one.
  bool choose_whom() {
    if (!whom_.empty()) return false;
    asks_other_ = !asks_other_ && has_waited(kUntilOthersAreAsked);
    if (asks_other_) whom_ = others_.next();
    if (!whom_.empty()) return false;
    whom_ = {pod_.leader};
    return true;
  }

  Result<void> try_once(bool is_first) {
    Result<void> dialled = caller_->dial(std::exchange(whom_, {}));
    is_refused_ = is_first && !dialled && dialled.error().code == EACCES;
    CHECK_OK(dialled);
    waiting_->extend(event::Seconds(pod_.timeout) + kToAsk);  // it says itself when its time is over
    IndexAnswer answer = TRY(caller_->greet());
    late_ = std::move(answer.value);
    whom_ = Caller::leader_of(answer);
    is_refused_ = !answer.error.empty() && !answer.again;
    if (!answer.error.empty()) return Error{EPROTO, answer.error};
    if (answer.again) return Error{EPROTO, "the job has another leader"};
    return {};
  }

  // Why it has not come so far. An attempt that the end of the time has cut says nothing.
  void note(const Error& why, bool is_first) {
    const bool is_cut = waiting_->is_late() && why.code == EAGAIN && last_;
    if (!is_cut && (is_first || why.code == EPROTO)) last_ = why;
  }

  Pod pod_;
  OtherPods others_;
  double begun_ = 0;
  Caller::Addresses whom_;  // to ask next
  bool asks_other_ = false;
  std::optional<Error> last_;  // why it is not there yet
  bool is_refused_ = false;    // another attempt would be no better
  std::string late_;
  std::unique_ptr<Waiting> waiting_;
  std::unique_ptr<Caller> caller_;
};

// ---- latecomers ------------------------------------------------------------------------------

class LatePods final : public Latecomers {
 public:
  static Result<std::unique_ptr<Latecomers>> open(event::Loop& loop, IndexGroup group) {
    auto out = std::make_unique<LatePods>();
    Door::Callbacks events;
    events.on_hello = [late = out.get(), pod = group.pod](const IndexHello& hello,
                                                          const std::string&) -> Result<std::string> {
      CHECK_OK(check_place(hello, pod));
      return late->on_come_(hello.index);
    };
    events.on_question = [](const IndexQuestion&) {
      return invalid("the job has begun: nothing can be asked for");
    };
    out->door_ = TRY(Door::open(loop, std::move(group), std::move(events)));
    return std::unique_ptr<Latecomers>(std::move(out));
  }

  void serve(OnCome on_come) override { on_come_ = std::move(on_come); }

  Result<void> give(Rank index, const Result<std::string>& lines) override {
    auto answered = door_->answer(lines ? IndexAnswer{"", *lines} : IndexAnswer{lines.error().message}, index);
    if (answered > 0) return {};
    return Error{ENOENT, fmt::format("the pod with index {} has gone again", index)};
  }

 private:
  OnCome on_come_ = [](Rank) { return Error{EAGAIN, "the job is being started without it"}; };
  std::unique_ptr<Door> door_;
};

}  // namespace

Result<std::unique_ptr<IndexKeys>> open_index_keys(IndexGroup group) {
  return group.pod.index == 0 ? KeptHere::open(std::move(group)) : KeptThere::open(group);
}

Result<std::unique_ptr<Latecomers>> Latecomers::answer(event::Loop& loop, IndexGroup group) {
  return LatePods::open(loop, std::move(group));
}

}  // namespace nacre::boot
