// SPDX-License-Identifier: Apache-2.0
//
// <flux/handle.h>: messages that plugins send and receive themselves, their handlers, and the watcher of a handle.
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "flux/handle.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT
using nacre::flux::Inbox;
using nacre::flux::MsgRef;

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
