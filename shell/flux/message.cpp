// SPDX-License-Identifier: Apache-2.0
//
// <flux/message.h>.

#include "flux/flux.hpp"

#include <flux/msglist.h>

#include "base/text.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

constexpr int kAllFlags = 0xff;

bool is_type(int type) {
  return type == FLUX_MSGTYPE_REQUEST || type == FLUX_MSGTYPE_RESPONSE || type == FLUX_MSGTYPE_EVENT ||
         type == FLUX_MSGTYPE_CONTROL;
}

// Sets a field that only messages of these types have.
template <typename T>
int set(flux_msg_t* msg, int types, T flux_msg::*field, T value) {
  if (msg == nullptr) return fail(EINVAL);
  if ((msg->type & types) == 0) return fail(EINVAL);
  msg->*field = value;
  return 0;
}

template <typename T>
int get(const flux_msg_t* msg, int types, T flux_msg::*field, T* value) {
  if (msg == nullptr) return fail(EINVAL);
  if ((msg->type & types) == 0) return fail(EPROTO);
  if (value != nullptr) *value = msg->*field;
  return 0;
}

int failed(const flux_msg_t* msg, int code, std::string why) {
  msg->last_error = std::move(why);
  return fail(code);
}

}  // namespace

// ---- matching ------------------------------------------------------------------

struct flux_match flux_match_init(int typemask, uint32_t matchtag, const char* topic_glob) noexcept {
  return {typemask, matchtag, topic_glob};
}

int flux_match_asprintf(struct flux_match* m, const char* fmt, ...) noexcept {
  if (m == nullptr || fmt == nullptr) return fail(EINVAL);
  va_list args;
  va_start(args, fmt);
  std::optional<std::string> text = format(fmt, args);
  va_end(args);
  if (!text) return fail(EINVAL);
  m->topic_glob = c_string(*text);
  return m->topic_glob != nullptr ? 0 : fail(ENOMEM);
}

void flux_match_free(struct flux_match m) noexcept { std::free(const_cast<char*>(m.topic_glob)); }

bool flux_msg_cmp_matchtag(const flux_msg_t* msg, uint32_t matchtag) noexcept {
  return msg != nullptr && (msg->type & (FLUX_MSGTYPE_REQUEST | FLUX_MSGTYPE_RESPONSE)) != 0 &&
         msg->matchtag == matchtag;
}

bool flux_msg_cmp(const flux_msg_t* msg, struct flux_match match) noexcept {
  if (msg == nullptr) return false;
  if (match.typemask != 0 && (msg->type & match.typemask) == 0) return false;
  if (match.matchtag != FLUX_MATCHTAG_NONE && !flux_msg_cmp_matchtag(msg, match.matchtag)) return false;
  if (match.topic_glob == nullptr || *match.topic_glob == '\0') return true;
  return (msg->flags & FLUX_MSGFLAG_TOPIC) != 0 && glob_match(match.topic_glob, msg->topic);
}

// ---- creation and end ----------------------------------------------------------

flux_msg_t* flux_msg_create(int type) noexcept { return is_type(type) ? new flux_msg(type) : none(EINVAL); }

flux_msg_t* flux_msg_copy(const flux_msg_t* msg, bool payload) noexcept {
  if (msg == nullptr) return none(EINVAL);
  auto* copy = new flux_msg(msg->type);
  copy->flags = msg->flags;
  copy->topic = msg->topic;
  copy->routes = msg->routes;
  copy->nodeid = msg->nodeid;
  copy->errnum = msg->errnum;
  copy->matchtag = msg->matchtag;
  copy->seq = msg->seq;
  copy->userid = msg->userid;
  copy->rolemask = msg->rolemask;
  copy->from = msg->from;
  copy->is_of_broker = msg->is_of_broker;
  if (payload) {
    copy->payload = msg->payload;
  } else {
    copy->flags &= ~FLUX_MSGFLAG_PAYLOAD;
  }
  return copy;
}

const flux_msg_t* flux_msg_incref(const flux_msg_t* msg) noexcept {
  if (msg == nullptr) return none(EINVAL);
  ++msg->references;
  return msg;
}

void flux_msg_decref(const flux_msg_t* msg) noexcept {
  if (msg == nullptr || --msg->references > 0) return;
  int saved = errno;
  delete msg;
  errno = saved;
}

void flux_msg_destroy(flux_msg_t* msg) noexcept { flux_msg_decref(msg); }

int flux_msg_aux_set(const flux_msg_t* msg, const char* name, void* aux, flux_free_f destroy) noexcept {
  if (msg == nullptr) return fail(EINVAL);
  Result<void> done = msg->aux.set(name, aux, destroy);
  return done ? 0 : fail(done.error().code);
}

void* flux_msg_aux_get(const flux_msg_t* msg, const char* name) noexcept {
  if (msg == nullptr || name == nullptr) return none(EINVAL);
  void* found = msg->aux.get(name);
  return found != nullptr ? found : none(ENOENT);
}

// ---- type, flags, topic --------------------------------------------------------

int flux_msg_get_type(const flux_msg_t* msg, int* type) noexcept {
  if (msg == nullptr) return fail(EINVAL);
  if (type != nullptr) *type = msg->type;
  return 0;
}

int flux_msg_set_type(flux_msg_t* msg, int type) noexcept {
  if (msg == nullptr || !is_type(type)) return fail(EINVAL);
  msg->type = type;
  return 0;
}

const char* flux_msg_typestr(int type) noexcept {
  switch (type) {
    case FLUX_MSGTYPE_REQUEST: return "request";
    case FLUX_MSGTYPE_RESPONSE: return "response";
    case FLUX_MSGTYPE_EVENT: return "event";
    case FLUX_MSGTYPE_CONTROL: return "control";
    default: return "unknown";
  }
}

bool flux_msg_has_flag(const flux_msg_t* msg, int flag) noexcept {
  return msg != nullptr && (msg->flags & flag) != 0;
}

int flux_msg_set_flag(flux_msg_t* msg, int flag) noexcept {
  constexpr int kExclusive = FLUX_MSGFLAG_STREAMING | FLUX_MSGFLAG_NORESPONSE;
  if (msg == nullptr || (flag & ~kAllFlags) != 0 || (flag & kExclusive) == kExclusive) return fail(EINVAL);
  if ((flag & kExclusive) != 0) msg->flags &= ~kExclusive;
  msg->flags |= flag;
  return 0;
}

int flux_msg_clear_flag(flux_msg_t* msg, int flag) noexcept {
  if (msg == nullptr || (flag & ~kAllFlags) != 0) return fail(EINVAL);
  msg->flags &= ~flag;
  return 0;
}

int flux_msg_set_private(flux_msg_t* msg) noexcept { return flux_msg_set_flag(msg, FLUX_MSGFLAG_PRIVATE); }
int flux_msg_set_streaming(flux_msg_t* msg) noexcept { return flux_msg_set_flag(msg, FLUX_MSGFLAG_STREAMING); }
int flux_msg_set_noresponse(flux_msg_t* msg) noexcept { return flux_msg_set_flag(msg, FLUX_MSGFLAG_NORESPONSE); }
bool flux_msg_is_private(const flux_msg_t* msg) noexcept { return flux_msg_has_flag(msg, FLUX_MSGFLAG_PRIVATE); }
bool flux_msg_is_streaming(const flux_msg_t* msg) noexcept {
  return flux_msg_has_flag(msg, FLUX_MSGFLAG_STREAMING);
}
bool flux_msg_is_noresponse(const flux_msg_t* msg) noexcept {
  return flux_msg_has_flag(msg, FLUX_MSGFLAG_NORESPONSE);
}

int flux_msg_set_topic(flux_msg_t* msg, const char* topic) noexcept {
  if (msg == nullptr) return fail(EINVAL);
  msg->topic = topic != nullptr ? topic : "";
  msg->flags = topic != nullptr ? msg->flags | FLUX_MSGFLAG_TOPIC : msg->flags & ~FLUX_MSGFLAG_TOPIC;
  return 0;
}

int flux_msg_get_topic(const flux_msg_t* msg, const char** topic) noexcept {
  if (msg == nullptr || topic == nullptr) return fail(EINVAL);
  if ((msg->flags & FLUX_MSGFLAG_TOPIC) == 0) return fail(EPROTO);
  *topic = msg->topic.c_str();
  return 0;
}

// ---- payload -------------------------------------------------------------------

int flux_msg_set_payload(flux_msg_t* msg, const void* buf, size_t size) noexcept {
  if (msg == nullptr || (buf == nullptr) != (size == 0)) return fail(EINVAL);
  msg->json = JsonRef();
  if (buf == nullptr) {
    msg->payload.reset();
    msg->flags &= ~FLUX_MSGFLAG_PAYLOAD;
  } else {
    msg->payload.emplace(static_cast<const char*>(buf), size);
    msg->flags |= FLUX_MSGFLAG_PAYLOAD;
  }
  return 0;
}

int flux_msg_get_payload(const flux_msg_t* msg, const void** buf, size_t* size) noexcept {
  if (msg == nullptr) return fail(EINVAL);
  if (!msg->payload) return fail(EPROTO);
  if (buf != nullptr) *buf = msg->payload->data();
  if (size != nullptr) *size = msg->payload->size();
  return 0;
}

bool flux_msg_has_payload(const flux_msg_t* msg) noexcept { return msg != nullptr && msg->payload.has_value(); }

int flux_msg_set_string(flux_msg_t* msg, const char* s) noexcept {
  return flux_msg_set_payload(msg, s, s != nullptr ? std::strlen(s) + 1 : 0);
}

int flux_msg_get_string(const flux_msg_t* msg, const char** s) noexcept {
  if (msg == nullptr) return fail(EINVAL);
  if (msg->payload && (msg->payload->empty() || msg->payload->back() != '\0')) return fail(EPROTO);
  if (s != nullptr) *s = msg->payload ? msg->payload->c_str() : nullptr;
  return 0;
}

int flux_msg_vpack(flux_msg_t* msg, const char* fmt, va_list ap) noexcept {
  if (msg == nullptr || fmt == nullptr || *fmt == '\0') return fail(EINVAL);
  Result<JsonRef> packed = pack(fmt, ap);
  if (!packed) return failed(msg, EINVAL, packed.error().message);
  if (!json_is_object(packed->get())) return failed(msg, EINVAL, "the payload is no object");
  char* text = json_dumps(packed->get(), JSON_COMPACT);
  if (text == nullptr) return failed(msg, EINVAL, "the payload cannot be written as text");
  msg->last_error.clear();
  int set = flux_msg_set_string(msg, text);
  std::free(text);
  return set;
}

int flux_msg_pack(flux_msg_t* msg, const char* fmt, ...) noexcept {
  va_list args;
  va_start(args, fmt);
  int done = flux_msg_vpack(msg, fmt, args);
  va_end(args);
  return done;
}

int flux_msg_vunpack(const flux_msg_t* msg, const char* fmt, va_list ap) noexcept {
  const char* text = nullptr;
  if (msg == nullptr || fmt == nullptr || *fmt == '\0') return fail(EINVAL);
  if (!msg->json) {
    if (flux_msg_get_string(msg, &text) < 0 || text == nullptr)
      return failed(msg, EPROTO, "there is no JSON payload");
    json_error_t why;
    msg->json = JsonRef(json_loads(text, JSON_ALLOW_NUL, &why));
    if (!msg->json || !json_is_object(msg->json.get())) {
      msg->json = JsonRef();
      return failed(msg, EPROTO, "the payload is no JSON object");
    }
  }
  if (Result<void> done = unpack(msg->json.get(), fmt, ap); !done) return failed(msg, EPROTO, done.error().message);
  msg->last_error.clear();
  return 0;
}

int flux_msg_unpack(const flux_msg_t* msg, const char* fmt, ...) noexcept {
  va_list args;
  va_start(args, fmt);
  int done = flux_msg_vunpack(msg, fmt, args);
  va_end(args);
  return done;
}

const char* flux_msg_last_error(const flux_msg_t* msg) noexcept {
  return msg != nullptr ? msg->last_error.c_str() : "msg object is NULL";
}

// ---- the other fields ----------------------------------------------------------

int flux_msg_set_nodeid(flux_msg_t* msg, uint32_t nodeid) noexcept {
  return set(msg, FLUX_MSGTYPE_REQUEST, &flux_msg::nodeid, nodeid);
}
int flux_msg_get_nodeid(const flux_msg_t* msg, uint32_t* nodeid) noexcept {
  return get(msg, FLUX_MSGTYPE_REQUEST, &flux_msg::nodeid, nodeid);
}
int flux_msg_set_errnum(flux_msg_t* msg, int errnum) noexcept {
  return set(msg, FLUX_MSGTYPE_RESPONSE, &flux_msg::errnum, errnum);
}
int flux_msg_get_errnum(const flux_msg_t* msg, int* errnum) noexcept {
  return get(msg, FLUX_MSGTYPE_RESPONSE, &flux_msg::errnum, errnum);
}
int flux_msg_set_matchtag(flux_msg_t* msg, uint32_t matchtag) noexcept {
  return set(msg, FLUX_MSGTYPE_REQUEST | FLUX_MSGTYPE_RESPONSE, &flux_msg::matchtag, matchtag);
}
int flux_msg_get_matchtag(const flux_msg_t* msg, uint32_t* matchtag) noexcept {
  return get(msg, FLUX_MSGTYPE_REQUEST | FLUX_MSGTYPE_RESPONSE, &flux_msg::matchtag, matchtag);
}
int flux_msg_set_seq(flux_msg_t* msg, uint32_t seq) noexcept {
  return set(msg, FLUX_MSGTYPE_EVENT, &flux_msg::seq, seq);
}
int flux_msg_get_seq(const flux_msg_t* msg, uint32_t* seq) noexcept {
  return get(msg, FLUX_MSGTYPE_EVENT, &flux_msg::seq, seq);
}
int flux_msg_set_userid(flux_msg_t* msg, uint32_t userid) noexcept {
  return set(msg, FLUX_MSGTYPE_ANY, &flux_msg::userid, userid);
}
int flux_msg_get_userid(const flux_msg_t* msg, uint32_t* userid) noexcept {
  return get(msg, FLUX_MSGTYPE_ANY, &flux_msg::userid, userid);
}
int flux_msg_set_rolemask(flux_msg_t* msg, uint32_t rolemask) noexcept {
  return set(msg, FLUX_MSGTYPE_ANY, &flux_msg::rolemask, rolemask);
}
int flux_msg_get_rolemask(const flux_msg_t* msg, uint32_t* rolemask) noexcept {
  return get(msg, FLUX_MSGTYPE_ANY, &flux_msg::rolemask, rolemask);
}

// ---- the sender ----------------------------------------------------------------

int flux_msg_set_cred(flux_msg_t* msg, struct flux_msg_cred cred) noexcept {
  if (flux_msg_set_userid(msg, cred.userid) < 0) return -1;
  return flux_msg_set_rolemask(msg, cred.rolemask);
}

int flux_msg_get_cred(const flux_msg_t* msg, struct flux_msg_cred* cred) noexcept {
  if (msg == nullptr || cred == nullptr) return fail(EINVAL);
  *cred = {msg->userid, msg->rolemask};
  return 0;
}

int flux_msg_cred_authorize(struct flux_msg_cred cred, uint32_t userid) noexcept {
  if ((cred.rolemask & FLUX_ROLE_OWNER) != 0) return 0;
  bool user = (cred.rolemask & FLUX_ROLE_USER) != 0 && cred.userid != FLUX_USERID_UNKNOWN && cred.userid == userid;
  return user ? 0 : fail(EPERM);
}

int flux_msg_authorize(const flux_msg_t* msg, uint32_t userid) noexcept {
  struct flux_msg_cred cred {};
  if (flux_msg_get_cred(msg, &cred) < 0) return -1;
  return flux_msg_cred_authorize(cred, userid);
}

bool flux_msg_is_local(const flux_msg_t* msg) noexcept {
  return msg != nullptr && (msg->rolemask & FLUX_ROLE_LOCAL) != 0;
}

// ---- message routes ---------------------------------------------------------------------
//
// <flux/message.h>: the routes of a message.

namespace {

constexpr std::size_t kShownOfId = 8;  // characters in flux_msg_route_string(3)

// 0, or -1 with EINVAL (NULL) or EPROTO (without routes).
int check_routes(const flux_msg_t* msg) {
  if (msg == nullptr) return fail(EINVAL);
  return (msg->flags & FLUX_MSGFLAG_ROUTE) != 0 ? 0 : fail(EPROTO);
}

}  // namespace

void flux_msg_route_enable(flux_msg_t* msg) noexcept {
  if (msg != nullptr) msg->flags |= FLUX_MSGFLAG_ROUTE;
}

void flux_msg_route_disable(flux_msg_t* msg) noexcept {
  if (msg == nullptr) return;
  msg->flags &= ~FLUX_MSGFLAG_ROUTE;
  msg->routes.clear();
}

void flux_msg_route_clear(flux_msg_t* msg) noexcept {
  if (msg != nullptr) msg->routes.clear();
}

int flux_msg_route_push(flux_msg_t* msg, const char* id) noexcept {
  if (id == nullptr) return fail(EINVAL);
  if (check_routes(msg) < 0) return -1;
  msg->routes.emplace_back(id);
  return 0;
}

int flux_msg_route_delete_last(flux_msg_t* msg) noexcept {
  if (check_routes(msg) < 0) return -1;
  if (!msg->routes.empty()) msg->routes.pop_back();
  return 0;
}

const char* flux_msg_route_first(const flux_msg_t* msg) noexcept {
  return msg != nullptr && !msg->routes.empty() ? msg->routes.front().c_str() : nullptr;
}

const char* flux_msg_route_last(const flux_msg_t* msg) noexcept {
  return msg != nullptr && !msg->routes.empty() ? msg->routes.back().c_str() : nullptr;
}

int flux_msg_route_count(const flux_msg_t* msg) noexcept {
  return check_routes(msg) < 0 ? -1 : static_cast<int>(msg->routes.size());
}

char* flux_msg_route_string(const flux_msg_t* msg) noexcept {
  if (check_routes(msg) < 0) return nullptr;
  std::string out;
  for (const std::string& each : msg->routes) {
    if (!out.empty()) out += '!';
    out += each.substr(0, kShownOfId);
  }
  return c_string(out);
}

bool flux_msg_route_match_first(const flux_msg_t* msg1, const flux_msg_t* msg2) noexcept {
  const char *first = flux_msg_route_first(msg1), *second = flux_msg_route_first(msg2);
  if (first == nullptr || second == nullptr) return first == second;
  return std::string_view(first) == second;
}

// ---- msglist ----------------------------------------------------------------------------
//
// <flux/msglist.h>.

using nacre::flux::MsgRef;

struct flux_msglist {
  static constexpr std::size_t kBeforeFirst = SIZE_MAX;  // one more is 0

  std::deque<MsgRef> messages;
  std::size_t cursor = 0;

  [[nodiscard]] const flux_msg_t* at_cursor() const {
    return cursor < messages.size() ? messages[cursor].get() : nullptr;
  }
};

struct flux_msglist* flux_msglist_create() noexcept {
  return new flux_msglist;
}
void flux_msglist_destroy(struct flux_msglist* l) noexcept { delete l; }

int flux_msglist_append(struct flux_msglist* l, const flux_msg_t* msg) noexcept {
  if (l == nullptr || msg == nullptr) return fail(EINVAL);
  l->messages.push_back(MsgRef::to(msg));
  return 0;
}

int flux_msglist_push(struct flux_msglist* l, const flux_msg_t* msg) noexcept {
  if (l == nullptr || msg == nullptr) return fail(EINVAL);
  l->messages.push_front(MsgRef::to(msg));
  return 0;
}

const flux_msg_t* flux_msglist_pop(struct flux_msglist* l) noexcept {
  if (l == nullptr || l->messages.empty()) return nullptr;
  const flux_msg_t* msg = l->messages.front().release();
  l->messages.pop_front();
  return msg;
}

int flux_msglist_count(struct flux_msglist* l) noexcept {
  return l != nullptr ? static_cast<int>(l->messages.size()) : fail(EINVAL);
}

const flux_msg_t* flux_msglist_first(struct flux_msglist* l) noexcept {
  if (l == nullptr) return nullptr;
  l->cursor = 0;
  return l->at_cursor();
}

const flux_msg_t* flux_msglist_next(struct flux_msglist* l) noexcept {
  if (l == nullptr || (l->cursor >= l->messages.size() && l->cursor != flux_msglist::kBeforeFirst)) return nullptr;
  ++l->cursor;
  return l->at_cursor();
}

const flux_msg_t* flux_msglist_last(struct flux_msglist* l) noexcept {
  if (l == nullptr || l->messages.empty()) return nullptr;
  l->cursor = l->messages.size() - 1;
  return l->at_cursor();
}

// The next message takes its place, so the cursor goes back by one: flux_msglist_next() then returns that message.
void flux_msglist_delete(struct flux_msglist* l) noexcept {
  if (l == nullptr || l->at_cursor() == nullptr) return;
  l->messages.erase(l->messages.begin() + static_cast<std::ptrdiff_t>(l->cursor));
  --l->cursor;
}
