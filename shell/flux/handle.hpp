// SPDX-License-Identifier: Apache-2.0
//
// The implementation of flux_t and flux_msg_handler_t: see <flux/handle.h>. The shell has one handle, whose
// messages come back to itself; others are the two ends of a Link. A clone has its original's messages.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.hpp"
#include "flux/broker_calls.hpp"
#include "flux/message.hpp"
#include "flux/reactor.hpp"
#include "plugin/host.hpp"

namespace nacre::flux {

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
class Runtime;

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

class Runtime;
}  // namespace nacre::flux

struct flux_msg_handler {
  flux_msg_handler(flux_handle* of_handle, const struct flux_match& match, flux_msg_handler_f function,
                   void* argument);
  ~flux_msg_handler();
  flux_msg_handler(const flux_msg_handler&) = delete;
  flux_msg_handler& operator=(const flux_msg_handler&) = delete;

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

struct flux_handle {
  flux_handle(nacre::flux::Runtime& of_runtime, nacre::flux::Inbox& in, nacre::flux::Inbox& out,
              flux_reactor* of_reactor);
  ~flux_handle();
  flux_handle(const flux_handle&) = delete;
  flux_handle& operator=(const flux_handle&) = delete;

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
  // Of an original, for its clones too.
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
