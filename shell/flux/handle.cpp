// SPDX-License-Identifier: Apache-2.0
//
// <flux/handle.h>: handles, and the ways of their messages.
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "flux/flux.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT
using nacre::flux::Inbox;
using nacre::flux::InboxLink;
using nacre::flux::MsgRef;
using nacre::flux::Runtime;

// ---- the runtime ---------------------------------------------------------------

namespace {

constexpr std::string_view kEvents = "flux.event";

}  // namespace

namespace nacre::flux {

Result<std::unique_ptr<Runtime>> Runtime::create(flux_shell& shell) {
  std::unique_ptr<Runtime> self(new Runtime(shell));
  self->inbox_ = TRY(Inbox::create());
  auto* reactor = new flux_reactor(shell.host.loop());
  self->handle_ = new flux_handle(*self, *self->inbox_, *self->inbox_, reactor);
  flux_reactor_decref(reactor);
  CHECK_OK(self->handle_->watch());
  self->events_ =
      shell.host.on_announcement([runtime = self.get()](std::string_view topic, std::string_view bytes) {
        if (topic == kEvents) runtime->receive(bytes);
      });
  self->remote_.begin();
  self->broker_.begin();
  return self;
}

Runtime::~Runtime() {
  for (auto& [task, process] : tasks_) delete process;
  // A future that a plugin has not destroyed holds the reactor too.
  handle_->reactor->retire();
  delete handle_;
}

// The rank of this shell, a dot, its number of this event, and the topic, with a NUL after it, and the payload.
int Runtime::announce(const flux_msg& event) {
  std::string bytes = fmt::format("{}.{}{}{}{}", shell_.host.job().shell_rank, event.seq, '\0', event.topic, '\0');
  if (event.payload) bytes += *event.payload;
  Result<void> sent = shell_.host.announce(kEvents, bytes);
  return sent ? 0 : fail(sent.error().code);
}

void Runtime::receive(std::string_view event) {
  std::size_t seq_end = event.find('\0');
  std::size_t topic_end = seq_end != event.npos ? event.find('\0', seq_end + 1) : event.npos;
  if (topic_end == event.npos) return debug("an event without a topic");
  std::string topic(event.substr(seq_end + 1, topic_end - seq_end - 1));
  std::string_view payload = event.substr(topic_end + 1);
  flux_msg_t* msg =
      flux_event_encode_raw(topic.c_str(), payload.empty() ? nullptr : payload.data(), payload.size());
  MsgRef own(msg);
  auto seq = static_cast<uint32_t>(shell_.host.messages().announcements());
  flux_msg_set_seq(msg, seq);
  published(event.substr(0, seq_end), seq);
  if (msg != nullptr && flux_send(handle_, msg, 0) == 0) return;
  shell_.host.log().log(Level::error, "", "the event {} is lost: too many wait to be handled", topic);
}

// `id`: as announce() has it. If it is one of this shell's, its future gets the sequence number.
void Runtime::published(std::string_view id, uint32_t seq) {
  std::size_t dot = id.find('.');
  if (dot == id.npos || parse_u64(id.substr(0, dot)) != std::uint64_t{shell_.host.job().shell_rank}) return;
  auto number = parse_u64(id.substr(dot + 1));
  if (!number) return;
  auto found = handle_->publications.extract(static_cast<uint32_t>(*number));
  if (!found) return;
  flux_future_fulfill(found.mapped(), new uint32_t(seq), [](void* kept) { delete static_cast<uint32_t*>(kept); });
}

flux_subprocess* Runtime::process_of(task::Task& task) {
  flux_subprocess*& process = tasks_[&task];
  if (process == nullptr) {
    process = new flux_subprocess(*this, nullptr);
    process->task = &task;
  }
  return process;
}

void Runtime::debug(const std::string& message) const { shell_.host.log().log(Level::debug, "", "{}", message); }

Result<flux_handle*> Runtime::open_link(const std::string& name) {
  std::lock_guard lock(mutex_);
  InboxLink* link = nullptr;
  for (const auto& each : links_) {
    if (each->name == name) link = each.get();
  }
  if (link == nullptr) {
    auto fresh = std::make_unique<InboxLink>();
    fresh->name = name;
    for (auto& side : fresh->sides) side = TRY(Inbox::create());
    links_.push_back(std::move(fresh));
    link = links_.back().get();
  }
  if (link->ends == 2) return Error{EADDRINUSE, fmt::format("interthread://{} has two ends already", name)};
  auto side = static_cast<std::size_t>(link->ends++);
  auto* handle = new flux_handle(*this, *link->sides[side], *link->sides[1 - side], nullptr);
  handle->link = link;
  return handle;
}

void Runtime::close_link(flux_handle& handle) {
  std::lock_guard lock(mutex_);
  if (--handle.link->ends > 0) return;
  std::erase_if(links_, [&](const auto& each) { return each.get() == handle.link; });
}

Runtime* runtime_of(flux_shell& shell) {
  if (!shell.flux) {
    Result<std::unique_ptr<Runtime>> made = Runtime::create(shell);
    if (!made) {
      shell.host.log().log(Level::error, "", "{}", made.error().message);
      return none(made.error().code);
    }
    shell.flux = *std::move(made);
  }
  return static_cast<Runtime*>(shell.flux.get());
}

flux_handle* handle_of(flux_shell& shell) {
  Runtime* runtime = runtime_of(shell);
  return runtime != nullptr ? runtime->handle() : nullptr;
}

}  // namespace nacre::flux

// ---- a handle ------------------------------------------------------------------

flux_handle::flux_handle(Runtime& of_runtime, Inbox& in, Inbox& out, flux_reactor* of_reactor)
    : runtime(of_runtime), incoming(in), outgoing(out), reactor(of_reactor) {
  flux_reactor_incref(reactor);
}

flux_handle::~flux_handle() {
  aux.clear();
  for (flux_handle* each : std::exchange(clones, {})) {  // that plugins have not closed
    each->original = nullptr;
    delete each;
  }
  if (original != nullptr) std::erase(original->clones, this);
  give_back();
  for (flux_msg_handler* each : std::exchange(handlers, {})) {
    each->handle = nullptr;
    // handlers of the shell's own handle go with it, after all code of plugins
    if (is_shells_own()) delete each;
  }
  poll_.reset();
  flux_reactor_decref(reactor);
}

Result<void> flux_handle::send(MsgRef msg) {
  if (link != nullptr) return outgoing.put(std::move(msg));
  if (msg->type == FLUX_MSGTYPE_REQUEST) {
    std::optional<uint32_t> shell = runtime.remote().target_of(*msg.get());
    if (shell) return runtime.remote().send(*shell, *msg.get());
  }
  if (msg->type == FLUX_MSGTYPE_RESPONSE && msg->from) return runtime.remote().send(*msg->from, *msg.get());
  if (is_for_broker(*msg.get())) return runtime.broker().send(*msg.get());
  return receive(std::move(msg));
}

bool flux_handle::is_for_broker(const flux_msg& msg) {
  if (!runtime.broker().is_there()) return false;
  if (msg.type == FLUX_MSGTYPE_RESPONSE) return msg.is_of_broker;
  return msg.type == FLUX_MSGTYPE_REQUEST && !runtime.remote().is_own(msg) && !handles(msg);
}

Result<void> flux_handle::receive(MsgRef msg) {
  if (link == nullptr) root().poll_->keeps_running(true);  // the loop runs on until the message has been handled
  return incoming.put(std::move(msg));
}

Result<void> flux_handle::watch() {
  bool is_served = original != nullptr && original->is_shells_own() && reactor == original->reactor;
  if (poll_ || reactor == nullptr || is_served) return {};
  if (original != nullptr && !(copy_ = UniqueFd(::dup(incoming.fd())))) return system_error(errno, "dup");
  int fd = copy_ ? copy_.get() : incoming.fd();
  poll_ = TRY(event::Poll::create(*reactor->loop, fd, [this](int) { dispatch(); }));
  poll_->keeps_running(false);
  keep_running();
  return poll_->start(event::Poll::kReadable);
}

// The shell's own has another rule: see receive().
void flux_handle::keep_running() {
  if (!poll_ || is_shells_own()) return;
  bool busy = is_busy();
  poll_->keeps_running(busy);
  if (!busy) give_back();
}

void flux_handle::forget(uint32_t matchtag) {
  root().calls.erase(matchtag);
  if (link == nullptr) runtime.broker().forget(matchtag);
  keep_running();
}

uint32_t flux_handle::expect(flux_future* call, std::optional<uint32_t> shell) {
  flux_handle& all = root();
  for (std::size_t tried = 0; tried <= all.calls.size(); ++tried) {
    if (++all.last_tag == FLUX_MATCHTAG_NONE) ++all.last_tag;
    if (all.calls.try_emplace(all.last_tag, OpenCall{this, call, shell}).second) {
      keep_running();
      return all.last_tag;
    }
  }
  return FLUX_MATCHTAG_NONE;
}

void flux_handle::fail_call(uint32_t matchtag, const Error& why) {
  auto call = calls.extract(matchtag);
  if (!call) return;
  call.mapped().handle->keep_running();
  if (call.mapped().future != nullptr)
    flux_future_fulfill_error(call.mapped().future, why.code, why.message.c_str());
}

void flux_handle::fail_calls(uint32_t shell, int code) {
  std::vector<uint32_t> tags;
  for (const auto& [tag, call] : calls) {
    if (call.shell == shell) tags.push_back(tag);
  }
  Error why{code, code == EHOSTUNREACH ? fmt::format("shell {} is lost, or cannot be reached", shell)
                                       : fmt::format("shell {} refuses requests: {}", shell, std::strerror(code))};
  for (uint32_t tag : tags) fail_call(tag, why);
}

bool flux_handle::waits_for_others() const {
  return !publications.empty() ||
         std::any_of(calls.begin(), calls.end(), [](const auto& each) { return each.second.shell.has_value(); });
}

bool flux_handle::dispatch() {
  MsgRef msg = next();
  if (link == nullptr && incoming.empty()) root().poll_->keeps_running(false);
  if (msg.get() == nullptr) return false;
  ++references;  // a handler may close the handle
  switch (msg->type) {
    case FLUX_MSGTYPE_REQUEST: deliver_request(*msg.get()); break;
    case FLUX_MSGTYPE_RESPONSE: deliver_response(*msg.get()); break;
    default: deliver_event(*msg.get()); break;
  }
  flux_close(this);
  return true;
}

void flux_handle::call(flux_msg_handler& handler, const flux_msg& msg) {
  auto* callback = handler.callback;
  auto* arg = handler.arg;
  handler.owner.run([&, mh = &handler] { callback(this, mh, &msg, arg); });
}

void flux_handle::deliver_request(const flux_msg& msg) {
  flux_msg_handler* handler = handler_for(msg);
  if (handler == nullptr) {
    const char* why = runtime.broker().is_there() ? "not offered by this shell"
                                                  : "not offered by this shell: there is no Flux broker";
    runtime.debug(fmt::format("{}: {}", msg.topic, why));
    flux_respond_error(this, &msg, ENOSYS, why);
  } else if (!handler->allows(msg)) {
    flux_respond_error(this, &msg, EPERM, nullptr);
  } else {
    call(*handler, msg);
  }
}

void flux_handle::deliver_response(const flux_msg& msg) {
  auto it = root().calls.find(msg.matchtag);
  if (it == root().calls.end()) {
    flux_msg_handler* handler = handler_for(msg);
    if (handler != nullptr) call(*handler, msg);
    return;
  }
  flux_future* future = it->second.future;
  if ((msg.flags & FLUX_MSGFLAG_STREAMING) == 0 || msg.errnum != 0) it->second.handle->forget(it->first);
  if (msg.errnum != 0) {
    const char* text = nullptr;
    if (flux_response_decode_error(&msg, &text) < 0) text = nullptr;
    flux_future_fulfill_error(future, msg.errnum, text);
  } else {
    auto drop = [](void* kept) { flux_msg_decref(static_cast<const flux_msg*>(kept)); };
    flux_future_fulfill(future, const_cast<flux_msg*>(flux_msg_incref(&msg)), drop);
  }
}

// ---- C: the handle ---------------------------------------------------------------

flux_t* flux_open_ex(const char* uri, int /*flags*/, flux_error_t* error) noexcept {
  constexpr std::string_view kInterthread = "interthread://";
  flux_shell* shell = current_shell();
  Runtime* runtime = shell != nullptr ? nacre::flux::runtime_of(*shell) : nullptr;
  std::string_view wanted = uri != nullptr ? uri : "";
  Error why{ENOSYS, "there is no Flux broker to connect to"};
  if (runtime != nullptr && runtime->broker().is_there()) {
    if (uri == nullptr || wanted == runtime->broker().instance().broker->uri())
      return flux_clone(runtime->handle());
    why.message = "a shell of an instance has a connection to its own broker only";
  }
  if (runtime != nullptr && wanted.starts_with(kInterthread)) {
    Result<flux_t*> opened = runtime->open_link(std::string(wanted.substr(kInterthread.size())));
    if (opened) return *opened;
    why = opened.error();
  }
  if (runtime != nullptr) runtime->debug("flux_open: " + why.message);
  if (error != nullptr) snprintf(error->text, sizeof error->text, "%s", why.message.c_str());
  return none(why.code);
}

flux_t* flux_open(const char* uri, int flags) noexcept { return flux_open_ex(uri, flags, nullptr); }

flux_t* flux_incref(flux_t* h) noexcept {
  if (h == nullptr) return none(EINVAL);
  ++h->references;
  return h;
}

// The shell's own handle goes with the runtime, which has the first reference.
void flux_decref(flux_t* h) noexcept {
  if (h == nullptr || --h->references > 0) return;
  if (h->is_shells_own()) {
    h->references = 1;
    return;
  }
  int saved = errno;
  flux_handle* original = h->original;
  if (original == nullptr) h->runtime.close_link(*h);
  delete h;
  flux_decref(original);
  errno = saved;
}

void flux_close(flux_t* h) noexcept { flux_decref(h); }

flux_reactor_t* flux_get_reactor(flux_t* h) noexcept {
  if (h == nullptr) return none(EINVAL);
  if (h->reactor == nullptr) h->reactor = flux_reactor_create(0);
  return h->reactor;
}

int flux_set_reactor(flux_t* h, flux_reactor_t* r) noexcept {
  if (h == nullptr || r == nullptr) return fail(EINVAL);
  if (h->reactor != nullptr) return fail(EEXIST);
  flux_reactor_incref(r);
  h->reactor = r;
  return 0;
}

int flux_aux_set(flux_t* h, const char* name, void* aux, flux_free_f destroy) noexcept {
  if (h == nullptr) return fail(EINVAL);
  Result<void> set = h->aux.set(name, aux, destroy);
  return set ? 0 : fail(set.error().code);
}

void* flux_aux_get(flux_t* h, const char* name) noexcept {
  if (h == nullptr || name == nullptr) return none(EINVAL);
  void* found = h->aux.get(name);
  return found != nullptr ? found : none(ENOENT);
}

void flux_flags_set(flux_t* h, int flags) noexcept {
  if (h != nullptr) h->flags |= flags;
}

void flux_flags_unset(flux_t* h, int flags) noexcept {
  if (h != nullptr) h->flags &= ~flags;
}

int flux_flags_get(flux_t* h) noexcept { return h != nullptr ? h->flags : 0; }

// ---- handle clone -----------------------------------------------------------------------
//
// <flux/handle.h>: clones of a handle, and which of a handle and its clones gets a message.

bool flux_handle::is_busy() {
  auto started = [](const flux_msg_handler* each) { return each->started; };
  auto mine = [this](const auto& each) { return each.second.handle == this; };
  const auto& open = root().calls;
  return std::any_of(handlers.begin(), handlers.end(), started) || std::any_of(open.begin(), open.end(), mine);
}

// This one first.
std::vector<flux_handle*> flux_handle::on_this_loop() {
  std::vector<flux_handle*> out{this};
  auto add = [&](flux_handle* other) {
    bool same = reactor != nullptr && other->reactor != nullptr && other->reactor->loop == reactor->loop;
    if (other != this && same) out.push_back(other);
  };
  add(&root());
  for (flux_handle* each : root().clones) add(each);
  return out;
}

bool flux_handle::accepts(const flux_msg& msg) {
  std::vector<flux_handle*> beside = on_this_loop();
  auto is_beside = [&](flux_handle* each) { return std::find(beside.begin(), beside.end(), each) != beside.end(); };
  if (is_beside(&root())) return true;
  if (msg.type == FLUX_MSGTYPE_RESPONSE) {
    auto call = root().calls.find(msg.matchtag);
    if (call != root().calls.end()) return is_beside(call->second.handle);
  }
  return handler_for(msg) != nullptr;
}

// What a clone does not accept is taken from the inbox all the same: its loop would not come to rest.
MsgRef flux_handle::next() {
  for (flux_handle* each : clones) each->give_back();
  for (;;) {
    MsgRef msg = incoming.take(FLUX_MATCH_ANY);
    if (msg.get() == nullptr || accepts(*msg.get())) return msg;
    held_.push_back(std::move(msg));
  }
}

void flux_handle::give_back() {
  if (held_.empty()) return;
  incoming.give_back(std::move(held_));
  held_.clear();
  if (link == nullptr && root().poll_) root().poll_->keeps_running(true);
}

// The handler made last that has this very topic, else the last one that matches.
flux_msg_handler* flux_handle::handler_for(const flux_msg& msg) {
  auto exact = [&](const flux_msg_handler* each) { return each->takes(msg) && each->topic == msg.topic; };
  auto any = [&](const flux_msg_handler* each) { return each->takes(msg); };
  flux_msg_handler* found = nullptr;
  for (flux_handle* each : on_this_loop()) {
    const auto& of_it = each->handlers;
    auto it = std::find_if(of_it.rbegin(), of_it.rend(), exact);
    if (it != of_it.rend()) return *it;
    it = std::find_if(of_it.rbegin(), of_it.rend(), any);
    if (found == nullptr && it != of_it.rend()) found = *it;
  }
  return found;
}

void flux_handle::deliver_event(const flux_msg& msg) {
  // a handler may destroy others
  auto all = [&] {
    std::vector<flux_msg_handler*> out;
    for (const flux_handle* each : on_this_loop())
      out.insert(out.end(), each->handlers.begin(), each->handlers.end());
    return out;
  };
  for (flux_msg_handler* each : all()) {
    std::vector<flux_msg_handler*> now = all();
    bool there = std::find(now.begin(), now.end(), each) != now.end();
    if (there && each->takes(msg) && each->allows(msg)) each->handle->call(*each, msg);
  }
}

flux_t* flux_clone(flux_t* orig) noexcept {
  if (orig == nullptr) return none(EINVAL);
  flux_handle& root = orig->root();
  auto* clone = new flux_handle(root.runtime, root.incoming, root.outgoing, nullptr);
  clone->link = root.link;
  clone->flags = orig->flags | FLUX_O_CLONE;
  clone->original = flux_incref(&root);
  root.clones.push_back(clone);
  return clone;
}

// ---- handle options ---------------------------------------------------------------------
//
// <flux/handle.h>: options of a handle.

namespace {

// 0, or -1 with EINVAL: `val` is no such number.
template <typename T>
int take(T& out, const void* val, size_t len) {
  if (val == nullptr || len != sizeof out) return fail(EINVAL);
  std::memcpy(&out, val, sizeof out);
  return 0;
}

template <typename T>
int give_number(T number, void* val, size_t len) {
  if (val == nullptr || len != sizeof number) return fail(EINVAL);
  std::memcpy(val, &number, sizeof number);
  return 0;
}

}  // namespace

int flux_opt_set(flux_t* h, const char* option, const void* val, size_t len) noexcept {
  if (h == nullptr || option == nullptr) return fail(EINVAL);
  std::string_view name = option;
  if (name == FLUX_OPT_TESTING_USERID) return take(h->root().testing.userid, val, len);
  if (name == FLUX_OPT_TESTING_ROLEMASK) return take(h->root().testing.rolemask, val, len);
  return fail(EINVAL);
}

int flux_opt_get(flux_t* h, const char* option, void* val, size_t len) noexcept {
  if (h == nullptr || option == nullptr) return fail(EINVAL);
  std::string_view name = option;
  if (name == FLUX_OPT_TESTING_USERID) return give_number(h->root().testing.userid, val, len);
  if (name == FLUX_OPT_TESTING_ROLEMASK) return give_number(h->root().testing.rolemask, val, len);
  if (name == FLUX_OPT_RECV_QUEUE_COUNT) return give_number(h->incoming.size(), val, len);
  if (name == FLUX_OPT_SEND_QUEUE_COUNT) return give_number(h->link != nullptr ? h->outgoing.size() : 0, val, len);
  return fail(EINVAL);
}

int flux_pollfd(flux_t* h) noexcept { return h != nullptr ? h->incoming.fd() : fail(EINVAL); }

// ---- inbox ------------------------------------------------------------------------------

namespace nacre::flux {

Result<std::unique_ptr<Inbox>> Inbox::create() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return system_error(errno, "eventfd");
  return std::unique_ptr<Inbox>(new Inbox(std::move(fd)));
}

Result<void> Inbox::put(MsgRef message, End end) {
  std::lock_guard lock(mutex_);
  if (messages_.size() == kMaxMessages) return Error{ENOBUFS, "too many messages wait to be handled"};
  if (messages_.empty()) ::eventfd_write(signal_.get(), 1);
  if (end == End::head) {
    messages_.push_front(std::move(message));
  } else {
    messages_.push_back(std::move(message));
  }
  return {};
}

MsgRef Inbox::take(const struct flux_match& match) {
  std::lock_guard lock(mutex_);
  for (auto it = messages_.begin(); it != messages_.end(); ++it) {
    if (!flux_msg_cmp(it->get(), match)) continue;
    MsgRef found = std::move(*it);
    messages_.erase(it);
    eventfd_t count = 0;
    if (messages_.empty()) ::eventfd_read(signal_.get(), &count);
    return found;
  }
  return {};
}

void Inbox::give_back(std::vector<MsgRef> taken) {
  std::lock_guard lock(mutex_);
  if (messages_.empty() && !taken.empty()) ::eventfd_write(signal_.get(), 1);
  messages_.insert(messages_.begin(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end()));
}

std::size_t Inbox::size() const {
  std::lock_guard lock(mutex_);
  return messages_.size();
}

}  // namespace nacre::flux

// ---- remote calls -----------------------------------------------------------------------

namespace nacre::flux {
namespace {

constexpr char kRequest = 'q';
constexpr char kResponse = 's';
constexpr std::size_t kHead = 1 + 3 * sizeof(std::uint32_t);

std::string bytes_of(const flux_msg& msg) {
  std::string out(1, msg.type == FLUX_MSGTYPE_REQUEST ? kRequest : kResponse);
  append_number(out, msg.matchtag);
  append_number(out, static_cast<std::uint32_t>(msg.flags));
  append_number(out, static_cast<std::uint32_t>(msg.errnum));
  out += msg.topic;
  out += '\0';
  if (msg.payload) out += *msg.payload;
  return out;
}

// An empty reference: this is no message.
MsgRef message_of(std::string_view bytes, std::uint32_t from) {
  std::size_t end = bytes.find('\0', std::min(kHead, bytes.size()));
  if (end == bytes.npos) return {};
  bool is_request = bytes[0] == kRequest;
  auto* msg = new flux_msg(is_request ? FLUX_MSGTYPE_REQUEST : FLUX_MSGTYPE_RESPONSE);
  MsgRef own(msg);
  msg->topic = bytes.substr(kHead, end - kHead);
  std::string_view payload = bytes.substr(end + 1);
  bytes.remove_prefix(1);
  msg->matchtag = take_number<std::uint32_t>(bytes);
  msg->flags = static_cast<int>(take_number<std::uint32_t>(bytes));
  msg->errnum = static_cast<int>(take_number<std::uint32_t>(bytes));
  if ((msg->flags & FLUX_MSGFLAG_PAYLOAD) != 0) msg->payload = payload;
  msg->from = from;
  msg->userid = ::getuid();
  msg->rolemask = FLUX_ROLE_OWNER;
  return own;
}

}  // namespace

void RemoteCalls::begin() {
  service_ = runtime_.shell().host.info()["service"].get<std::string>() + ".";
  plugin::ShellMessages& messages = runtime_.shell().host.messages();
  messages_ = messages.on_message([this](plugin::ShellMessages::Message& message) { receive(message); });
  unreachable_ = messages.on_unreachable(
      [this](std::uint32_t shell, int code) { runtime_.handle()->fail_calls(shell, code); });
}

std::optional<std::uint32_t> RemoteCalls::target_of(const flux_msg& request) const {
  std::uint32_t to = request.nodeid;
  bool is_here =
      to == FLUX_NODEID_ANY || to == FLUX_NODEID_UPSTREAM || to == runtime_.shell().host.job().shell_rank;
  if (is_here || !request.topic.starts_with(service_)) return std::nullopt;
  return to;
}

Result<void> RemoteCalls::send(std::uint32_t to, const flux_msg& msg) {
  plugin::Host& host = runtime_.shell().host;
  plugin::ShellMessages& messages = host.messages();
  if (to >= host.job().shells()) return Error{EHOSTUNREACH, fmt::format("there is no shell {}", to)};
  Result<void> sent = messages.send(to, bytes_of(msg));
  if (sent || msg.type == FLUX_MSGTYPE_REQUEST) return sent;
  if (sent.error().code == EHOSTUNREACH) return {};  // nobody waits for it any more
  MsgRef error(flux_response_encode_error(msg.topic.c_str(), sent.error().code, sent.error().message.c_str()));
  const_cast<flux_msg*>(error.get())->matchtag = msg.matchtag;
  static_cast<void>(messages.send(to, bytes_of(*error.get())));
  return sent;
}

void RemoteCalls::receive(plugin::ShellMessages::Message& message) {
  MsgRef msg = message_of(message.bytes, message.from);
  flux_handle& handle = *runtime_.handle();
  message.is_taken = msg.get() == nullptr || msg->type == FLUX_MSGTYPE_RESPONSE || message.is_last_offer ||
                     handle.handles(*msg.get());
  if (msg.get() == nullptr || !message.is_taken) return;
  if (msg->type == FLUX_MSGTYPE_RESPONSE) {
    auto call = handle.calls.find(msg->matchtag);
    if (call != handle.calls.end() && call->second.shell != message.from) return;
  }
  MsgRef own = MsgRef::to(msg.get());
  Result<void> put = handle.receive(std::move(msg));
  if (put) return;
  if (own->type == FLUX_MSGTYPE_RESPONSE) return handle.fail_call(own->matchtag, put.error());
  flux_respond_error(&handle, own.get(), put.error().code, put.error().message.c_str());
}

namespace {

using broker::BrokerMessage;

constexpr double kAnswerTime = 60;                                                       // seconds
constexpr int kFrames = FLUX_MSGFLAG_TOPIC | FLUX_MSGFLAG_PAYLOAD | FLUX_MSGFLAG_ROUTE;  // follow from the message

int type_of(BrokerMessage::Kind kind) {
  if (kind == BrokerMessage::Kind::request) return FLUX_MSGTYPE_REQUEST;
  return kind == BrokerMessage::Kind::response ? FLUX_MSGTYPE_RESPONSE : FLUX_MSGTYPE_EVENT;
}

BrokerMessage for_broker(const flux_msg& msg) {
  BrokerMessage out;
  const bool is_request = msg.type == FLUX_MSGTYPE_REQUEST;
  out.kind = is_request ? BrokerMessage::Kind::request : BrokerMessage::Kind::response;
  out.flags = static_cast<std::uint8_t>(msg.flags & ~kFrames);
  out.route.emplace();
  if (!is_request) out.route->assign(msg.routes.rbegin(), msg.routes.rend());
  out.topic = msg.topic;
  out.payload = msg.payload;
  out.first = is_request ? msg.nodeid : static_cast<std::uint32_t>(msg.errnum);
  out.tag = msg.matchtag;
  return out;
}

MsgRef from_broker(const BrokerMessage& message, std::uint32_t matchtag) {
  auto* msg = new flux_msg(type_of(message.kind));
  MsgRef own(msg);
  msg->flags = message.flags | FLUX_MSGFLAG_TOPIC;
  msg->topic = message.topic.value_or("");
  msg->payload = message.payload;
  if (msg->payload) msg->flags |= FLUX_MSGFLAG_PAYLOAD;
  msg->userid = message.userid;
  msg->rolemask = message.rolemask;
  msg->matchtag = matchtag;
  if (msg->type == FLUX_MSGTYPE_RESPONSE) msg->errnum = static_cast<int>(message.first);
  if (msg->type == FLUX_MSGTYPE_EVENT) msg->seq = message.first;
  if (msg->type != FLUX_MSGTYPE_REQUEST) return own;
  msg->nodeid = message.first;
  msg->flags |= FLUX_MSGFLAG_ROUTE;
  if (message.route) msg->routes.assign(message.route->rbegin(), message.route->rend());
  msg->is_of_broker = true;
  return own;
}

}  // namespace

void BrokerCalls::begin() {
  instance_ = runtime_.shell().host.instance();
  if (instance_ == nullptr) return;
  instance_->on_other_request = [this](const BrokerMessage& request) { deliver(request, request.tag); };
  instance_->on_other_event = [this](const BrokerMessage& event) { deliver(event, FLUX_MATCHTAG_NONE); };
}

BrokerCalls::~BrokerCalls() {
  if (instance_ == nullptr) return;
  instance_->on_other_request = instance_->on_other_event = nullptr;
  for (const auto& [matchtag, tag] : open_) instance_->broker->forget(tag);
}

void BrokerCalls::deliver(const BrokerMessage& message, std::uint32_t matchtag) {
  flux_handle& handle = *runtime_.handle();
  const Result<void> put = handle.receive(from_broker(message, matchtag));
  if (put) return;
  if (message.kind == BrokerMessage::Kind::response) return handle.fail_call(matchtag, put.error());
  if (message.kind == BrokerMessage::Kind::request)
    return instance_->broker->respond_error(message, put.error().code, put.error().message);
  runtime_.debug("an event of the broker is lost: too many messages wait to be handled");
}

// What it cancels it names by a matchtag, of which the broker knows its own.
void BrokerCalls::name_for_broker(BrokerMessage& request) const {
  auto payload = parse_json(request.text());
  if (!payload || !member_of(*payload, "matchtag").is_number_unsigned()) return;
  auto found = open_.find(payload->at("matchtag").get<std::uint32_t>());
  if (found == open_.end()) return;
  payload->at("matchtag") = found->second;
  request.payload = dump_json(*payload) + '\0';
}

Result<void> BrokerCalls::send(const flux_msg& msg) {
  broker::Broker& broker = *instance_->broker;
  if (broker.is_lost()) return Error{ECONNRESET, "the broker is gone"};
  const bool waits = msg.type == FLUX_MSGTYPE_REQUEST && (msg.flags & FLUX_MSGFLAG_NORESPONSE) == 0;
  if (!waits || msg.matchtag == FLUX_MATCHTAG_NONE) {
    BrokerMessage out = for_broker(msg);
    if (msg.type == FLUX_MSGTYPE_REQUEST && out.topic && out.topic->ends_with("cancel")) name_for_broker(out);
    broker.send(out);
    return {};
  }
  const std::uint32_t matchtag = msg.matchtag;
  open_[matchtag] = broker.send_request(for_broker(msg), [this, matchtag](const BrokerMessage& response) {
    if ((response.flags & BrokerMessage::kStreaming) == 0 || response.first != 0) open_.erase(matchtag);
    deliver(response, matchtag);
  });
  return {};
}

void BrokerCalls::forget(std::uint32_t matchtag) {
  auto found = open_.extract(matchtag);
  if (found) instance_->broker->forget(found.mapped());
}

bool BrokerCalls::needs_serving() const {
  return any() && (!instance_->broker->is_attached() || runtime_.shell().host.loop().running());
}

void BrokerCalls::serve(double seconds) {
  auto wanted = [this](std::uint32_t tag) {
    return std::any_of(open_.begin(), open_.end(), [&](const auto& each) { return each.second == tag; });
  };
  static_cast<void>(instance_->broker->wait_for_response(wanted, seconds));  // a lost one has failed all calls
}

Result<Json> BrokerCalls::ask(std::string_view topic, const Json& payload) {
  broker::Broker& broker = *instance_->broker;
  std::optional<Result<Json>> answer;
  const std::uint32_t tag =
      broker.call(topic, payload, [&](Result<Json> given) { answer.emplace(std::move(given)); });
  while (!answer) {
    auto waited = broker.wait_for_response([&](std::uint32_t each) { return each == tag; }, kAnswerTime);
    if (waited || answer) continue;
    broker.forget(tag);
    return waited.error();
  }
  return *std::move(answer);
}

}  // namespace nacre::flux

// <flux/handle.h>: messages that plugins send and receive themselves, their handlers, and the watcher of a handle.

// ---- messages --------------------------------------------------------------------

namespace {

// Sets the sender: the user that runs this shell, unless the handle has another one.
MsgRef signed_copy(flux_t* h, const flux_msg_t* msg) {
  if (msg->rolemask != FLUX_ROLE_NONE) return MsgRef::to(msg);
  flux_msg_t* copy = flux_msg_copy(msg, true);
  flux_msg_cred sender{::getuid(), FLUX_ROLE_OWNER | FLUX_ROLE_LOCAL};
  const flux_msg_cred& testing = h->root().testing;
  if (testing.userid != FLUX_USERID_UNKNOWN) sender.userid = testing.userid;
  if (testing.rolemask != FLUX_ROLE_NONE) sender.rolemask = testing.rolemask;
  flux_msg_set_cred(copy, sender);
  return MsgRef(copy);
}

int send(flux_t* h, MsgRef msg) {
  Result<void> sent = h->send(std::move(msg));
  return sent ? 0 : fail(sent.error().code);
}

}  // namespace

int flux_send(flux_t* h, const flux_msg_t* msg, int /*flags*/) noexcept {
  if (h == nullptr || msg == nullptr) return fail(EINVAL);
  return send(h, signed_copy(h, msg));
}

int flux_send_new(flux_t* h, flux_msg_t** msg, int flags) noexcept {
  if (h == nullptr || msg == nullptr || *msg == nullptr || (*msg)->references > 1) return fail(EINVAL);
  if (flux_send(h, *msg, flags) < 0) return -1;
  flux_msg_destroy(std::exchange(*msg, nullptr));
  return 0;
}

flux_msg_t* flux_recv(flux_t* h, struct flux_match match, int /*flags*/) noexcept {
  if (h == nullptr) return none(EINVAL);
  MsgRef msg = h->incoming.take(match);
  if (msg.get() == nullptr) return none(EAGAIN);
  return const_cast<flux_msg_t*>(msg.release());
}

int flux_requeue(flux_t* h, const flux_msg_t* msg, int flags) noexcept {
  if (h == nullptr || msg == nullptr || (flags != FLUX_RQ_HEAD && flags != FLUX_RQ_TAIL)) return fail(EINVAL);
  Result<void> put = h->incoming.put(MsgRef::to(msg), flags == FLUX_RQ_HEAD ? Inbox::End::head : Inbox::End::tail);
  return put ? 0 : fail(put.error().code);
}

int flux_pollevents(flux_t* h) noexcept {
  if (h == nullptr) return fail(EINVAL);
  return FLUX_POLLOUT | (h->incoming.empty() ? 0 : FLUX_POLLIN);
}

uint32_t flux_matchtag_alloc(flux_t* h) noexcept {
  if (h == nullptr) {
    errno = EINVAL;
    return FLUX_MATCHTAG_NONE;
  }
  uint32_t tag = h->expect(nullptr);
  if (tag == FLUX_MATCHTAG_NONE) errno = EBUSY;
  h->forget(tag);  // the response goes to a handler, by its topic or tag
  return tag;
}

void flux_matchtag_free(flux_t* h, uint32_t matchtag) noexcept {
  if (h != nullptr) h->forget(matchtag);
}

// ---- handlers --------------------------------------------------------------------

flux_msg_handler::flux_msg_handler(flux_handle* of_handle, const struct flux_match& match,
                                   flux_msg_handler_f function, void* argument)
    : handle(of_handle),
      typemask(match.typemask),
      matchtag(match.matchtag),
      topic(match.topic_glob != nullptr ? match.topic_glob : ""),
      callback(function),
      arg(argument),
      owner("message handler") {
  handle->handlers.push_back(this);
}

flux_msg_handler::~flux_msg_handler() {
  if (handle == nullptr) return;
  std::erase(handle->handlers, this);
  handle->keep_running();
}

bool flux_msg_handler::takes(const flux_msg& msg) const {
  return started && flux_msg_cmp(&msg, {typemask, matchtag, topic.c_str()});
}

bool flux_msg_handler::allows(const flux_msg& msg) const {
  return ((rolemask | FLUX_ROLE_OWNER) & msg.rolemask) != 0;
}

flux_msg_handler_t* flux_msg_handler_create(flux_t* h, const struct flux_match match, flux_msg_handler_f cb,
                                            void* arg) noexcept {
  if (h == nullptr || cb == nullptr) return none(EINVAL);
  return new flux_msg_handler(h, match, cb, arg);
}

void flux_msg_handler_destroy(flux_msg_handler_t* mh) noexcept {
  int saved = errno;
  delete mh;
  errno = saved;
}

void flux_msg_handler_start(flux_msg_handler_t* mh) noexcept {
  if (mh == nullptr || mh->handle == nullptr) return;
  mh->started = true;
  flux_get_reactor(mh->handle);
  if (Result<void> watched = mh->handle->watch(); !watched) mh->handle->runtime.debug(watched.error().message);
  mh->handle->keep_running();
}

void flux_msg_handler_stop(flux_msg_handler_t* mh) noexcept {
  if (mh == nullptr) return;
  mh->started = false;
  if (mh->handle != nullptr) mh->handle->keep_running();
}

void flux_msg_handler_allow_rolemask(flux_msg_handler_t* mh, uint32_t rolemask) noexcept {
  if (mh != nullptr) mh->rolemask |= rolemask;
}

void flux_msg_handler_deny_rolemask(flux_msg_handler_t* mh, uint32_t rolemask) noexcept {
  if (mh != nullptr) mh->rolemask = (mh->rolemask & ~rolemask) | FLUX_ROLE_OWNER;
}

int flux_msg_handler_addvec(flux_t* h, const struct flux_msg_handler_spec tab[], void* arg,
                            flux_msg_handler_t** handlers[]) noexcept {
  if (h == nullptr || tab == nullptr || handlers == nullptr) return fail(EINVAL);
  std::size_t count = 0;
  while (tab[count].cb != nullptr) ++count;
  auto** made = static_cast<flux_msg_handler_t**>(std::calloc(count + 1, sizeof(flux_msg_handler_t*)));
  if (made == nullptr) return fail(ENOMEM);
  for (std::size_t i = 0; i < count; ++i) {
    struct flux_match match {
      tab[i].typemask, FLUX_MATCHTAG_NONE, tab[i].topic_glob
    };
    made[i] = flux_msg_handler_create(h, match, tab[i].cb, arg);
    flux_msg_handler_allow_rolemask(made[i], tab[i].rolemask);
    flux_msg_handler_start(made[i]);
  }
  *handlers = made;
  return 0;
}

void flux_msg_handler_delvec(flux_msg_handler_t* handlers[]) noexcept {
  if (handlers == nullptr) return;
  for (flux_msg_handler_t** each = handlers; *each != nullptr; ++each) flux_msg_handler_destroy(*each);
  std::free(static_cast<void*>(handlers));
}

// ---- the watcher of a handle -------------------------------------------------------

namespace {

class HandleWatcher final : public flux_watcher {
 public:
  HandleWatcher(flux_reactor* r, flux_t* watched, int wanted, flux_watcher_f cb, void* data)
      : flux_watcher(r, cb, data, "handle callback"), handle(watched), events(wanted) {}
  flux_t* const handle;

 private:
  // A descriptor can be polled once, and the handle may do so itself: so this polls a copy.
  Result<void> begin() override {
    fd_ = UniqueFd(::dup(handle->incoming.fd()));
    if (!fd_) return system_error(errno, "dup");
    poll_ = TRY(event::Poll::create(*reactor->loop, fd_.get(), [this](int) { fire(FLUX_POLLIN); }));
    set_keeps_running();
    if ((events & FLUX_POLLIN) != 0) CHECK_OK(poll_->start(event::Poll::kReadable));
    if ((events & FLUX_POLLOUT) == 0) return {};
    idle_ = TRY(event::Phase::create(*reactor->loop, event::Phase::When::idle, [this] { fire(FLUX_POLLOUT); }));
    idle_->keeps_running(referenced);
    idle_->start();
    return {};
  }
  void end() override {
    poll_.reset();
    idle_.reset();
    fd_.reset();
  }
  void set_keeps_running() override {
    poll_->keeps_running(referenced);
    if (idle_) idle_->keeps_running(referenced);
  }

  int events;
  UniqueFd fd_;
  std::optional<event::Poll> poll_;
  std::optional<event::Phase> idle_;
};

}  // namespace

flux_watcher_t* flux_handle_watcher_create(flux_reactor_t* r, flux_t* h, int events, flux_watcher_f cb,
                                           void* arg) noexcept {
  if (r == nullptr || h == nullptr) return none(EINVAL);
  return new HandleWatcher(r, h, events, cb, arg);
}

flux_t* flux_handle_watcher_get_flux(flux_watcher_t* w) noexcept {
  auto* kind = dynamic_cast<HandleWatcher*>(w);
  return kind != nullptr ? kind->handle : none(EINVAL);
}
