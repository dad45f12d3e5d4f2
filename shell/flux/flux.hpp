// SPDX-License-Identifier: Apache-2.0
//
// What the handles of libflux-core that C plugins use point to, and what the functions of this folder share. The
// files follow the public headers.
//
//   flux_msg_t, flux_reactor_t, flux_watcher_t, flux_future_t, flux_msg_handler_t, flux_subprocess_t
//   flux_t             flux_handle: the shell's own, or an end of an InboxLink
//   Runtime            all of it that the plugins of one shell use
#pragma once

#include <atomic>
#include <mutex>

#include "broker/instance.hpp"
#include "capi/capi.hpp"
#include "plugin/host.hpp"
#include "task/subprocess.hpp"

// The implementation of flux_msg_t. Flux's functions change flags, references and aux items of const messages too.
struct flux_msg {
  explicit flux_msg(int of_type) : type(of_type) {}

  mutable std::atomic<int> references = 1;  // threads may pass messages to each other
  int type;
  int flags = 0;
  std::string topic;
  std::vector<std::string> routes;     // ids, the first that was pushed first
  std::optional<std::string> payload;  // text ends with its NUL
  uint32_t nodeid = FLUX_NODEID_ANY;
  int errnum = 0;
  uint32_t matchtag = FLUX_MATCHTAG_NONE;
  uint32_t seq = 0;
  uint32_t userid = FLUX_USERID_UNKNOWN;
  uint32_t rolemask = FLUX_ROLE_NONE;
  std::optional<uint32_t> from;  // a request from that other shell of the job, or a response to one
  bool is_of_broker = false;     // a request that the broker has brought, or a response to one
  mutable nacre::capi::AuxItems aux;
  mutable nacre::capi::JsonRef json;  // the payload's, once it was asked for
  mutable std::string last_error;
};

namespace nacre::flux {

// A counted reference.
class MsgRef {
 public:
  MsgRef() = default;
  explicit MsgRef(const flux_msg* taken) : msg_(taken) {}
  MsgRef(MsgRef&& other) noexcept : msg_(std::exchange(other.msg_, nullptr)) {}
  MsgRef& operator=(MsgRef&& other) noexcept {
    std::swap(msg_, other.msg_);
    return *this;
  }
  ~MsgRef() { flux_msg_decref(msg_); }
  [[nodiscard]] static MsgRef to(const flux_msg* msg) { return MsgRef(flux_msg_incref(msg)); }

  [[nodiscard]] const flux_msg* get() const { return msg_; }
  const flux_msg* operator->() const { return msg_; }
  [[nodiscard]] const flux_msg* release() { return std::exchange(msg_, nullptr); }

 private:
  const flux_msg* msg_ = nullptr;
};

// 0, or -1 with EINVAL (NULL), EPROTO (another type, or no topic). `topic` may be NULL.
int check_kind(const flux_msg_t* msg, int type, const char** topic);

}  // namespace nacre::flux

// The implementation of flux_reactor_t and flux_watcher_t.

// The shell's loop, or a plugin's own. References are counted: flux_reactor_incref(3).
struct flux_reactor : nacre::Noncopyable {
  explicit flux_reactor(nacre::event::Loop& of_shell) : loop(&of_shell) {}
  explicit flux_reactor(std::unique_ptr<nacre::event::Loop> own_loop) : own(std::move(own_loop)), loop(own.get()) {}
  ~flux_reactor() { retire(); }

  // Takes from the loop what is left on it: watchers lose the reactor and never run again, and futures are not
  // continued any more. Frees the shell's watchers: this runs after all code of plugins, so nothing else frees
  // them.
  void retire();

  std::unique_ptr<nacre::event::Loop> own;
  nacre::event::Loop* loop;
  int references = 1;
  bool stopped = false;
  bool failed = false;
  std::optional<double> epoch;  // of the loop's clock, in seconds since the Epoch; none: not used yet
  std::set<flux_watcher*> watchers;
  std::set<flux_future*> futures;  // those that wait on it, or have done so
};

namespace nacre::flux {

// The loop counts whole milliseconds, from the last one that is over: a timer that is started for this time is not
// early by any clock.
inline double never_early(double seconds) { return seconds > 0 ? seconds + 0.001 : seconds; }

}  // namespace nacre::flux

// The part of a watcher that does not depend on what it watches.
struct flux_watcher : nacre::Noncopyable {
  flux_watcher(flux_reactor* of_reactor, flux_watcher_f function, void* argument, std::string_view what);
  virtual ~flux_watcher();

  void start();
  void stop();
  void keep_running(bool keeps);
  void fire(int revents);  // has to come last, as it may destroy this

  flux_reactor* reactor;
  flux_watcher_f callback;
  void* arg;
  nacre::capi::Callback owner;
  bool active = false;
  bool referenced = true;

 private:
  friend struct flux_reactor;
  // begin() makes the underlying watcher, with `referenced` applied; end() destroys it.
  virtual nacre::Result<void> begin() = 0;
  virtual void end() = 0;
  virtual void set_keeps_running() = 0;
};

namespace nacre::flux {

// The implementation of flux_future_t. A future has two contexts: `then`, in which a continuation waits on the
// future's reactor, and `now`, while flux_future_wait_for(3) runs a loop of its own. In each it is armed at most
// once at a time. Its init function, which arranges what will fulfil it, runs at most once.

// What a future is fulfilled with.
struct Outcome {
  Outcome() = default;
  Outcome(void* value, flux_free_f function) : result(value), free_fn(function) {}
  Outcome(int code, const char* text)
      : errnum(code), message(text != nullptr ? text : ""), has_text(text != nullptr) {}
  Outcome(Outcome&& other) noexcept;
  Outcome& operator=(Outcome&&) = delete;
  ~Outcome();

  void* result = nullptr;
  flux_free_f free_fn = nullptr;
  flux_future* with = nullptr;  // a reference: that future's result is the result
  int errnum = 0;               // 0: a result
  std::string message;
  bool has_text = false;
};

}  // namespace nacre::flux

struct flux_future : nacre::Noncopyable {
  struct Context {
    flux_reactor* reactor = nullptr;
    bool begun = false;
    bool armed = false;
    std::function<void()> continuation;
    std::optional<nacre::event::Timer> soon;
    double seconds = -1;  // of `timeout`; negative: none
    std::optional<nacre::event::Timer> timeout;
  };
  enum class When { then, now };

  flux_future(flux_future_init_f init_function, void* argument);
  ~flux_future();

  [[nodiscard]] bool ready() const { return fatal.has_value() || !outcomes.empty(); }
  [[nodiscard]] const nacre::flux::Outcome& front() const { return fatal ? *fatal : outcomes.front(); }
  void fulfil(nacre::flux::Outcome outcome);
  nacre::Result<void> arm(When when, flux_reactor* reactor, std::function<void()> continuation);
  nacre::Result<void> start_timeout();                // of `then`, for its next fulfilment
  void use(Context& context, flux_reactor* reactor);  // from now on; nullptr: none
  void disarm(flux_reactor* reactor);                 // takes its timers off that reactor's loop
  [[nodiscard]] Context& context(When when) { return when == When::then ? then : now; }
  // The reactor of the context in which it is being initialised or waited for; else the one for continuations: the
  // one that was set, the handle's, or the shell's.
  [[nodiscard]] flux_reactor* current_reactor() const;

  int references = 1;
  flux_future_init_f init;
  void* init_arg;
  nacre::capi::Callback owner;
  flux_t* handle = nullptr;  // not a reference
  std::deque<nacre::flux::Outcome> outcomes;
  std::optional<nacre::flux::Outcome> fatal;
  flux_future* source = nullptr;  // a reference: the future that has fulfilled it last
  Context then;
  Context now;
  const Context* setting_up = nullptr;
  bool waiting = false;  // flux_future_wait_for(3) is running
  nacre::capi::AuxItems aux;
  // For a composite future, or one that follows another: the futures that it waits for. References.
  std::map<std::string, flux_future*, std::less<>> children;
  std::string listed;  // by flux_future_next_child()
  flux_future* previous = nullptr;
  // Called when this future is waited for: starts to wait for the children.
  std::function<void(flux_future& self, When when, flux_reactor* reactor)> begin;
  flux_future* next = nullptr;  // follows this one; not a reference: it has one to this
  bool continued = false;

 private:
  void schedule(Context& context);
  nacre::Result<void> set_soon(Context& context);
};

namespace nacre::flux {

// What plugins exchange with the broker of the Flux instance whose job shell this is: their requests that no shell
// of the job takes, requests of others for services that they offer, and events. Without an instance there is none.
class Runtime;

class BrokerCalls : Noncopyable {
 public:
  explicit BrokerCalls(Runtime& runtime) : runtime_(runtime) {}
  ~BrokerCalls();

  void begin();  // requests and events are received from now on
  [[nodiscard]] bool is_there() const { return instance_ != nullptr; }
  [[nodiscard]] broker::Instance& instance() const { return *instance_; }

  // A request, or the response to one that the broker has brought. ECONNRESET: the broker is gone.
  Result<void> send(const flux_msg& msg);
  void forget(std::uint32_t matchtag);
  // For a call that waits: waits `seconds` for responses, and puts the next one into the inbox.
  void serve(double seconds);
  // Calls are open that the shell's loop cannot be waited for with: it runs, or does not serve the broker yet.
  [[nodiscard]] bool needs_serving() const;
  [[nodiscard]] bool any() const { return !open_.empty(); }
  // Waits for the answer.
  Result<Json> ask(std::string_view topic, const Json& payload);

 private:
  void deliver(const broker::BrokerMessage& message, std::uint32_t matchtag);
  void name_for_broker(broker::BrokerMessage& request) const;

  Runtime& runtime_;
  broker::Instance* instance_ = nullptr;
  std::map<std::uint32_t, std::uint32_t> open_;  // by matchtag: the broker's
};

}  // namespace nacre::flux

namespace nacre::flux {

// The implementation of flux_t and flux_msg_handler_t: see <flux/handle.h>. The shell has one handle, whose
// messages come back to itself; others are the two ends of a Link. A clone has its original's messages.

// Messages that wait to be handled. Any thread may put one in; a descriptor wakes the reader's loop.
class Inbox {
 public:
  static constexpr std::size_t kMaxMessages = 65536;

  static Result<std::unique_ptr<Inbox>> create();

  enum class End { head, tail };
  Result<void> put(MsgRef message, End end = End::tail);  // ENOBUFS when it is full
  void give_back(std::vector<MsgRef> taken);              // to its head, in their order, whatever its limit
  // The first message that matches; an empty reference: none.
  MsgRef take(const struct flux_match& match);
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] int fd() const { return signal_.get(); }  // readable while there is a message

 private:
  explicit Inbox(UniqueFd signal) : signal_(std::move(signal)) {}

  UniqueFd signal_;  // eventfd(2)
  mutable std::mutex mutex_;
  std::deque<MsgRef> messages_;
};

// Two handles in one process, interthread://NAME: each receives what the other sends.
struct InboxLink {
  std::string name;
  std::unique_ptr<Inbox> sides[2];
  int ends = 0;  // handles that were opened and not closed: at most two
};

// Requests between the shells of a job, and their responses. A request whose topic begins with the job's service
// goes to the shell that its nodeid names. A shell that has not run shell.init keeps requests that no handler
// takes.
//
// A message is: the kind (1 byte: 'q' a request, 's' a response), matchtag, flags, errnum (4 each, the highest byte
// first), the topic and a NUL, and the payload.
class RemoteCalls {
 public:
  explicit RemoteCalls(Runtime& runtime) : runtime_(runtime) {}

  void begin();  // messages of other shells are received from now on
  // Its topic is one of the job's service.
  [[nodiscard]] bool is_own(const flux_msg& request) const { return request.topic.starts_with(service_); }
  // The rank, even if there is no such shell, of the other one that this request is for; none: it is for this one.
  [[nodiscard]] std::optional<std::uint32_t> target_of(const flux_msg& request) const;
  // Errors as of ShellMessages::send, but EHOSTUNREACH for no such shell. Of a response that is too large the other
  // shell gets the error.
  Result<void> send(std::uint32_t to, const flux_msg& msg);

 private:
  void receive(plugin::ShellMessages::Message& message);

  Runtime& runtime_;
  std::string service_;  // and a dot
  plugin::Registration messages_;
  plugin::Registration unreachable_;
};

}  // namespace nacre::flux

struct flux_msg_handler : nacre::Noncopyable {
  flux_msg_handler(flux_handle* of_handle, const struct flux_match& match, flux_msg_handler_f function,
                   void* argument);
  ~flux_msg_handler();

  [[nodiscard]] bool takes(const flux_msg& msg) const;
  [[nodiscard]] bool allows(const flux_msg& msg) const;

  flux_handle* handle;  // nullptr once the handle has gone
  int typemask;
  uint32_t matchtag;
  std::string topic;  // a glob; empty: any
  flux_msg_handler_f callback;
  void* arg;
  nacre::capi::Callback owner;
  uint32_t rolemask = FLUX_ROLE_OWNER;
  bool started = false;
};

struct flux_handle : nacre::Noncopyable {
  flux_handle(nacre::flux::Runtime& of_runtime, nacre::flux::Inbox& in, nacre::flux::Inbox& out,
              flux_reactor* of_reactor);
  ~flux_handle();

  // To the handler, future or shell that it is for.
  nacre::Result<void> send(nacre::flux::MsgRef msg);
  nacre::Result<void> receive(nacre::flux::MsgRef msg);  // to be handled from the loop. ENOBUFS: too many are
  // Passes the first message that waits to its handler; false if there is none.
  bool dispatch();
  nacre::Result<void> watch();  // the loop dispatches from now on
  // The response, which comes from here or from that other shell, will fulfil `call`. FLUX_MATCHTAG_NONE: there are
  // too many calls.
  uint32_t expect(flux_future* call, std::optional<uint32_t> shell = std::nullopt);
  void forget(uint32_t matchtag);
  void keep_running();  // if not the shell's own: while it has handlers, or calls are open
  [[nodiscard]] flux_handle& root() { return original != nullptr ? *original : *this; }
  [[nodiscard]] bool is_shells_own() const { return link == nullptr && original == nullptr; }
  // A handler takes such a request.
  [[nodiscard]] bool handles(const flux_msg& msg) { return handler_for(msg) != nullptr; }
  void fail_call(uint32_t matchtag, const nacre::Error& why);
  void fail_calls(uint32_t shell, int code);    // all that are open
  [[nodiscard]] bool waits_for_others() const;  // a call to another shell is open, or an event is under way

  int references = 1;
  flux_handle* original = nullptr;     // of a clone: a reference
  std::vector<flux_handle*> clones{};  // of an original
  nacre::flux::Runtime& runtime;
  nacre::flux::Inbox& incoming;
  nacre::flux::Inbox& outgoing;
  nacre::flux::InboxLink* link = nullptr;  // nullptr: the shell's own
  flux_reactor* reactor;                   // a reference, or nullptr
  nacre::capi::AuxItems aux;
  int flags = 0;
  std::string appname;
  // The sender of its messages: by default this user, the owner.
  flux_msg_cred testing{FLUX_USERID_UNKNOWN, FLUX_ROLE_NONE};
  std::vector<flux_msg_handler*> handlers;  // in the order in which they were made
  struct OpenCall {
    flux_handle* handle;  // that has made it
    flux_future* future;
    std::optional<uint32_t> shell;
  };
  // Used of an original, also for its clones.
  std::unordered_map<uint32_t, OpenCall> calls;             // by matchtag
  std::unordered_map<uint32_t, flux_future*> publications;  // by last_event: until the event comes back
  uint32_t last_tag = FLUX_MATCHTAG_NONE;
  uint32_t last_event = 0;
  std::multiset<std::string> subscriptions;
  std::map<std::string, std::string, std::less<>> attributes;  // those that were asked for

 private:
  [[nodiscard]] bool is_for_broker(const flux_msg& msg);
  [[nodiscard]] bool is_busy();
  [[nodiscard]] std::vector<flux_handle*> on_this_loop();  // of the original and its clones
  [[nodiscard]] bool accepts(const flux_msg& msg);
  nacre::flux::MsgRef next();
  void give_back();
  void deliver_request(const flux_msg& msg);
  void deliver_response(const flux_msg& msg);
  void deliver_event(const flux_msg& msg);
  flux_msg_handler* handler_for(const flux_msg& msg);
  void call(flux_msg_handler& handler, const flux_msg& msg);

  nacre::UniqueFd copy_;  // of the inbox's descriptor, of a clone: each is polled once
  std::optional<nacre::event::Poll> poll_;
  std::vector<nacre::flux::MsgRef> held_;  // by a clone that is busy: messages of others
};

namespace nacre::flux {

// All of libflux that the plugins of one shell use. Made when it is first needed.
class Runtime final : public capi::Extension {
 public:
  static Result<std::unique_ptr<Runtime>> create(flux_shell& shell);
  ~Runtime() override;

  [[nodiscard]] flux_shell& shell() const { return shell_; }
  [[nodiscard]] flux_handle* handle() const { return handle_; }
  Result<flux_handle*> open_link(const std::string& name);
  void close_link(flux_handle& handle);
  int announce(const flux_msg& event);  // to all shells of the job; -1 with errno
  [[nodiscard]] RemoteCalls& remote() { return remote_; }
  [[nodiscard]] BrokerCalls& broker() { return broker_; }
  void debug(const std::string& message) const;
  flux_subprocess* process_of(task::Task& task);  // the task as a subprocess; one object for each task

 private:
  explicit Runtime(flux_shell& shell) : shell_(shell), remote_(*this), broker_(*this) {}
  void receive(std::string_view event);
  void published(std::string_view id, uint32_t seq);

  flux_shell& shell_;
  std::unique_ptr<Inbox> inbox_;
  flux_handle* handle_ = nullptr;
  std::map<task::Task*, flux_subprocess*> tasks_;
  std::mutex mutex_;  // for links_: threads open them
  std::vector<std::unique_ptr<InboxLink>> links_;
  plugin::Registration events_;
  RemoteCalls remote_;
  BrokerCalls broker_;
};

// nullptr, with errno, if there is none and it cannot be made.
Runtime* runtime_of(flux_shell& shell);
flux_handle* handle_of(flux_shell& shell);

}  // namespace nacre::flux

// The implementation of flux_subprocess_t: a process that a plugin has started, or a task of the job.
struct flux_subprocess : nacre::Noncopyable {
  flux_subprocess(nacre::flux::Runtime& of_runtime, const flux_subprocess_ops_t* wanted)
      : runtime(of_runtime),
        ops(wanted != nullptr ? *wanted : flux_subprocess_ops_t{}),
        owner("subprocess callback") {}
  ~flux_subprocess();

  [[nodiscard]] nacre::task::BufferedStream* stream(std::string_view name) const;
  [[nodiscard]] pid_t pid() const { return task != nullptr ? task->pid() : process->pid(); }
  [[nodiscard]] bool exited() const;
  [[nodiscard]] const nacre::value::WaitStatus& status() const {
    return task != nullptr ? task->status() : process->status();
  }
  void on_ready(const std::string& name);
  void on_room(const std::string& name, std::size_t bytes);
  void on_exit();
  void on_complete();
  void report(flux_subprocess_state_t state);

  nacre::flux::Runtime& runtime;
  flux_subprocess_ops_t ops;
  nacre::capi::Callback owner;
  nacre::task::Task* task = nullptr;                 // else:
  std::unique_ptr<nacre::task::Subprocess> process;  // set once it runs
  pid_t started = 0;
  int calling = 0;  // callbacks that are running; ...
  // ... if one of them destroys it, it goes with the last one
  bool destroyed = false;
  std::map<std::string, std::string, std::less<>> read;  // by stream: what was last read
  nacre::capi::AuxItems aux;
};
