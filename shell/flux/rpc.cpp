// SPDX-License-Identifier: Apache-2.0
//
// <flux/rpc.h>: makes and reads requests, responses and events.

#include "base/bytes.hpp"
#include "flux/flux.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace nacre::flux {

int check_kind(const flux_msg_t* msg, int type, const char** topic) {
  if (msg == nullptr) return fail(EINVAL);
  if (msg->type != type) return fail(EPROTO);
  const char* own = nullptr;
  if (flux_msg_get_topic(msg, &own) < 0) return -1;
  if (topic != nullptr) *topic = own;
  return 0;
}

}  // namespace nacre::flux

using nacre::flux::check_kind;
using nacre::flux::MsgRef;

namespace {

flux_msg_t* encode(int type, const char* topic, const void* data, size_t size) {
  if (topic == nullptr) return none(EINVAL);
  flux_msg_t* msg = flux_msg_create(type);
  flux_msg_set_topic(msg, topic);
  if (flux_msg_set_payload(msg, data, size) == 0) return msg;
  flux_msg_destroy(msg);
  return none(EINVAL);
}

flux_msg_t* encode_text(int type, const char* topic, const char* s) {
  return encode(type, topic, s, s != nullptr ? strlen(s) + 1 : 0);
}

int text_of(const flux_msg_t* msg, const char** s) {
  const char* own = nullptr;
  if (flux_msg_get_string(msg, &own) < 0) return -1;
  if (s != nullptr) *s = own;
  return 0;
}

int data_of(const flux_msg_t* msg, const void** data, size_t* len) {
  if (data == nullptr || len == nullptr) return fail(EINVAL);
  *data = msg->payload ? msg->payload->data() : nullptr;
  *len = msg->payload ? msg->payload->size() : 0;
  return 0;
}

// A response with an error counts as one.
int check_response(const flux_msg_t* msg, const char** topic) {
  if (check_kind(msg, FLUX_MSGTYPE_RESPONSE, topic) < 0) return -1;
  return msg->errnum == 0 ? 0 : fail(msg->errnum);
}

}  // namespace

// ---- requests ------------------------------------------------------------------

flux_msg_t* flux_request_encode(const char* topic, const char* s) noexcept {
  return encode_text(FLUX_MSGTYPE_REQUEST, topic, s);
}

flux_msg_t* flux_request_encode_raw(const char* topic, const void* data, size_t len) noexcept {
  return encode(FLUX_MSGTYPE_REQUEST, topic, data, len);
}

int flux_request_decode(const flux_msg_t* msg, const char** topic, const char** s) noexcept {
  return check_kind(msg, FLUX_MSGTYPE_REQUEST, topic) < 0 ? -1 : text_of(msg, s);
}

int flux_request_decode_raw(const flux_msg_t* msg, const char** topic, const void** data, size_t* len) noexcept {
  return check_kind(msg, FLUX_MSGTYPE_REQUEST, topic) < 0 ? -1 : data_of(msg, data, len);
}

int flux_request_unpack(const flux_msg_t* msg, const char** topic, const char* fmt, ...) noexcept {
  if (msg == nullptr || fmt == nullptr) return fail(EINVAL);
  if (check_kind(msg, FLUX_MSGTYPE_REQUEST, topic) < 0) return -1;
  va_list args;
  va_start(args, fmt);
  int done = flux_msg_vunpack(msg, fmt, args);
  va_end(args);
  return done;
}

// ---- responses -----------------------------------------------------------------

flux_msg_t* flux_response_encode(const char* topic, const char* s) noexcept {
  return encode_text(FLUX_MSGTYPE_RESPONSE, topic, s);
}

flux_msg_t* flux_response_encode_raw(const char* topic, const void* data, size_t len) noexcept {
  return encode(FLUX_MSGTYPE_RESPONSE, topic, data, len);
}

flux_msg_t* flux_response_encode_error(const char* topic, int errnum, const char* errstr) noexcept {
  if (errnum == 0) return none(EINVAL);
  flux_msg_t* msg = encode_text(FLUX_MSGTYPE_RESPONSE, topic, errstr);
  if (msg != nullptr) msg->errnum = errnum;
  return msg;
}

flux_msg_t* flux_response_derive(const flux_msg_t* request, int errnum) noexcept {
  const char* topic = nullptr;
  if (check_kind(request, FLUX_MSGTYPE_REQUEST, &topic) < 0) return nullptr;
  flux_msg_t* msg = encode(FLUX_MSGTYPE_RESPONSE, topic, nullptr, 0);
  msg->matchtag = request->matchtag;
  msg->flags |= request->flags & FLUX_MSGFLAG_STREAMING;
  msg->errnum = errnum;
  msg->from = request->from;
  msg->is_of_broker = request->is_of_broker;
  msg->routes = request->routes;
  msg->flags |= request->flags & FLUX_MSGFLAG_ROUTE;
  return msg;
}

int flux_response_decode(const flux_msg_t* msg, const char** topic, const char** s) noexcept {
  return check_response(msg, topic) < 0 ? -1 : text_of(msg, s);
}

int flux_response_decode_raw(const flux_msg_t* msg, const char** topic, const void** data, size_t* len) noexcept {
  if (check_response(msg, topic) < 0) return -1;
  const void* own = nullptr;
  size_t size = 0;
  data_of(msg, data != nullptr ? data : &own, len != nullptr ? len : &size);
  return 0;
}

int flux_response_decode_error(const flux_msg_t* msg, const char** errstr) noexcept {
  if (msg == nullptr || errstr == nullptr) return fail(EINVAL);
  if (msg->type != FLUX_MSGTYPE_RESPONSE) return fail(EPROTO);
  if (msg->errnum == 0 || !msg->payload) return fail(ENOENT);
  return text_of(msg, errstr);
}

// ---- events --------------------------------------------------------------------

flux_msg_t* flux_event_encode(const char* topic, const char* s) noexcept {
  return encode_text(FLUX_MSGTYPE_EVENT, topic, s);
}

flux_msg_t* flux_event_encode_raw(const char* topic, const void* data, size_t len) noexcept {
  return encode(FLUX_MSGTYPE_EVENT, topic, data, len);
}

flux_msg_t* flux_event_pack(const char* topic, const char* fmt, ...) noexcept {
  if (fmt == nullptr) return none(EINVAL);
  flux_msg_t* msg = encode(FLUX_MSGTYPE_EVENT, topic, nullptr, 0);
  if (msg == nullptr) return nullptr;
  va_list args;
  va_start(args, fmt);
  int packed = flux_msg_vpack(msg, fmt, args);
  va_end(args);
  if (packed == 0) return msg;
  flux_msg_destroy(msg);
  return none(EINVAL);
}

int flux_event_decode(const flux_msg_t* msg, const char** topic, const char** s) noexcept {
  return check_kind(msg, FLUX_MSGTYPE_EVENT, topic) < 0 ? -1 : text_of(msg, s);
}

int flux_event_decode_raw(const flux_msg_t* msg, const char** topic, const void** data, size_t* len) noexcept {
  return check_kind(msg, FLUX_MSGTYPE_EVENT, topic) < 0 ? -1 : data_of(msg, data, len);
}

int flux_event_unpack(const flux_msg_t* msg, const char** topic, const char* fmt, ...) noexcept {
  if (msg == nullptr || fmt == nullptr) return fail(EINVAL);
  if (check_kind(msg, FLUX_MSGTYPE_EVENT, topic) < 0) return -1;
  va_list args;
  va_start(args, fmt);
  int done = flux_msg_vunpack(msg, fmt, args);
  va_end(args);
  return done;
}

// <flux/rpc.h>: calls, responses, and published events.

namespace {

constexpr const char* kCallKey = "nacre::call";
constexpr const char* kPublicationKey = "nacre::publication";

// The call to which a future belongs.
struct OneCall {
  flux_t* handle;
  uint32_t matchtag;
  uint32_t nodeid;
};

void end_call(void* arg) {
  auto* call = static_cast<OneCall*>(arg);
  if (call->matchtag != FLUX_MATCHTAG_NONE) call->handle->forget(call->matchtag);
  flux_close(call->handle);
  delete call;
}

const OneCall* call_of(flux_future_t* f) { return static_cast<const OneCall*>(flux_future_aux_get(f, kCallKey)); }

// The event to which a future belongs.
struct Publication {
  flux_t* handle;
  uint32_t number;
};

void end_publication(void* arg) {
  auto* publication = static_cast<Publication*>(arg);
  publication->handle->root().publications.erase(publication->number);
  flux_close(publication->handle);
  delete publication;
}

// 0, or -1 with errno.
int send_call(flux_t* h, flux_msg_t* request, OneCall& call, flux_future_t* f) {
  if (!flux_msg_is_noresponse(request)) {
    std::optional<uint32_t> shell;
    if (h->link == nullptr) shell = h->runtime.remote().target_of(*request);
    call.matchtag = h->expect(f, shell);
    if (call.matchtag == FLUX_MATCHTAG_NONE) return fail(EBUSY);
  }
  flux_msg_set_matchtag(request, call.matchtag);
  return flux_send(h, request, 0);
}

// Takes over `request`.
flux_future_t* call(flux_t* h, flux_msg_t* request, uint32_t nodeid, int flags) {
  constexpr int kKnown = FLUX_RPC_NORESPONSE | FLUX_RPC_STREAMING;
  if (request == nullptr) return nullptr;
  MsgRef own(request);
  if (h == nullptr || (flags & ~kKnown) != 0 || flags == kKnown) return none(EINVAL);
  flux_msg_set_nodeid(request, nodeid);
  if ((flags & FLUX_RPC_STREAMING) != 0) flux_msg_set_streaming(request);
  if ((flags & FLUX_RPC_NORESPONSE) != 0) flux_msg_set_noresponse(request);
  flux_future_t* f = flux_future_create(nullptr, nullptr);
  flux_future_set_flux(f, h);
  auto* context = new OneCall{flux_incref(h), FLUX_MATCHTAG_NONE, nodeid};
  flux_future_aux_set(f, kCallKey, context, end_call);
  if (!h->is_shells_own()) {
    flux_get_reactor(h);
    if (Result<void> watched = h->watch(); !watched) h->runtime.debug(watched.error().message);
  }
  if (send_call(h, request, *context, f) == 0) {
    if (flux_msg_is_noresponse(request)) flux_future_fulfill(f, nullptr, nullptr);
    return f;
  }
  if (errno == EHOSTUNREACH) {
    h->forget(context->matchtag);
    flux_future_fulfill_error(f, EHOSTUNREACH, fmt::format("there is no shell {}, or it is lost", nodeid).c_str());
    return f;
  }
  flux_future_destroy(f);
  return nullptr;
}

int answer(flux_t* h, const flux_msg_t* request, flux_msg_t* response) {
  if (response == nullptr) return -1;
  MsgRef own(response);
  if (flux_msg_is_noresponse(request)) return 0;
  return flux_send(h, response, 0);
}

// The response to a call that was waited for.
const flux_msg_t* response_of(flux_future_t* f) {
  const void* result = nullptr;
  if (f == nullptr) return none(EINVAL);
  if (flux_future_get(f, &result) < 0) return nullptr;
  return result != nullptr ? static_cast<const flux_msg_t*>(result) : none(EPROTO);
}

// It takes requests in their order, so nothing has to wait for it.
void tell_broker(flux_t* h, const char* request, const char* topic) {
  nacre::flux::BrokerCalls& broker = h->runtime.broker();
  if (h->link != nullptr || !broker.is_there()) return;
  static_cast<void>(broker.instance().broker->call(request, {{"topic", topic}}, nullptr));
}

// Its answer has the event's number in the sequence.
flux_future_t* publish_by_broker(flux_t* h, const flux_msg& event, int flags) {
  Json payload{{"topic", event.topic}, {"flags", flags}};
  if (event.payload) {
    std::string bytes;
    append_base64(bytes, *event.payload);
    payload["payload"] = std::move(bytes);
  }
  return flux_rpc(h, "event.publish", dump_json(payload).c_str(), 0, 0);
}

flux_future_t* publish(flux_t* h, flux_msg_t* event, int flags) {
  if (event == nullptr) return nullptr;
  MsgRef own(event);
  if (h == nullptr || (flags & ~FLUX_EVENT_PRIVATE) != 0) return none(EINVAL);
  if (h->link == nullptr && h->runtime.broker().is_there()) return publish_by_broker(h, *event, flags);
  uint32_t number = ++h->root().last_event;
  flux_msg_set_seq(event, number);
  flux_future_t* f = flux_future_create(nullptr, nullptr);
  flux_future_set_flux(f, h);
  // It has its number in the sequence when it comes back, which cannot be waited for in a callback.
  bool comes_back = h->link == nullptr && !h->runtime.shell().host.loop().running();
  if (comes_back) {
    h->root().publications.emplace(number, f);
    flux_future_aux_set(f, kPublicationKey, new Publication{flux_incref(h), number}, end_publication);
  }
  // Events between two threads of this process stay there.
  int sent = h->link == nullptr ? h->runtime.announce(*event) : flux_send(h, event, 0);
  if (sent < 0) {
    flux_future_destroy(f);
    return nullptr;
  }
  if (h->link != nullptr) {
    flux_future_fulfill(f, new uint32_t(number), [](void* seq) { delete static_cast<uint32_t*>(seq); });
  } else if (!comes_back) {
    flux_future_fulfill(f, nullptr, nullptr);
  }
  return f;
}

}  // namespace

// ---- calls -----------------------------------------------------------------------

flux_future_t* flux_rpc(flux_t* h, const char* topic, const char* s, uint32_t nodeid, int flags) noexcept {
  return call(h, flux_request_encode(topic, s), nodeid, flags);
}

flux_future_t* flux_rpc_raw(flux_t* h, const char* topic, const void* data, size_t len, uint32_t nodeid,
                            int flags) noexcept {
  return call(h, flux_request_encode_raw(topic, data, len), nodeid, flags);
}

flux_future_t* flux_rpc_vpack(flux_t* h, const char* topic, uint32_t nodeid, int flags, const char* fmt,
                              va_list ap) noexcept {
  flux_msg_t* request = flux_request_encode(topic, nullptr);
  if (request == nullptr) return nullptr;
  if (flux_msg_vpack(request, fmt, ap) < 0) {
    flux_msg_destroy(request);
    return none(EINVAL);
  }
  return call(h, request, nodeid, flags);
}

flux_future_t* flux_rpc_pack(flux_t* h, const char* topic, uint32_t nodeid, int flags, const char* fmt,
                             ...) noexcept {
  va_list args;
  va_start(args, fmt);
  flux_future_t* f = flux_rpc_vpack(h, topic, nodeid, flags, fmt, args);
  va_end(args);
  return f;
}

flux_future_t* flux_rpc_message(flux_t* h, const flux_msg_t* msg, uint32_t nodeid, int flags) noexcept {
  if (nacre::flux::check_kind(msg, FLUX_MSGTYPE_REQUEST, nullptr) < 0) return none(EINVAL);
  return call(h, flux_msg_copy(msg, true), nodeid, flags);
}

int flux_rpc_get(flux_future_t* f, const char** s) {
  const flux_msg_t* response = response_of(f);
  return response != nullptr ? flux_response_decode(response, nullptr, s) : -1;
}

int flux_rpc_get_raw(flux_future_t* f, const void** data, size_t* len) {
  const flux_msg_t* response = response_of(f);
  return response != nullptr ? flux_response_decode_raw(response, nullptr, data, len) : -1;
}

int flux_rpc_get_unpack(flux_future_t* f, const char* fmt, ...) {
  if (fmt == nullptr) return fail(EINVAL);
  const flux_msg_t* response = response_of(f);
  if (response == nullptr) return -1;
  va_list args;
  va_start(args, fmt);
  int done = flux_msg_vunpack(response, fmt, args);
  va_end(args);
  return done;
}

uint32_t flux_rpc_get_matchtag(flux_future_t* f) noexcept {
  const OneCall* known = call_of(f);
  return known != nullptr ? known->matchtag : static_cast<uint32_t>(FLUX_MATCHTAG_NONE);
}

uint32_t flux_rpc_get_nodeid(flux_future_t* f) noexcept {
  const OneCall* known = call_of(f);
  return known != nullptr ? known->nodeid : static_cast<uint32_t>(FLUX_NODEID_ANY);
}

// ---- responses -------------------------------------------------------------------

int flux_respond(flux_t* h, const flux_msg_t* request, const char* s) noexcept {
  return flux_respond_raw(h, request, s, s != nullptr ? static_cast<int>(strlen(s)) + 1 : 0);
}

int flux_respond_raw(flux_t* h, const flux_msg_t* request, const void* data, int len) noexcept {
  if (h == nullptr || request == nullptr || len < 0) return fail(EINVAL);
  flux_msg_t* response = flux_response_derive(request, 0);
  if (response != nullptr && flux_msg_set_payload(response, data, static_cast<size_t>(len)) < 0) {
    flux_msg_destroy(std::exchange(response, nullptr));
  }
  return answer(h, request, response);
}

int flux_respond_pack(flux_t* h, const flux_msg_t* request, const char* fmt, ...) noexcept {
  if (h == nullptr || request == nullptr || fmt == nullptr) return fail(EINVAL);
  flux_msg_t* response = flux_response_derive(request, 0);
  if (response == nullptr) return -1;
  va_list args;
  va_start(args, fmt);
  int packed = flux_msg_vpack(response, fmt, args);
  va_end(args);
  if (packed < 0) flux_msg_destroy(std::exchange(response, nullptr));
  return answer(h, request, response);
}

int flux_respond_error(flux_t* h, const flux_msg_t* request, int errnum, const char* errstr) noexcept {
  if (h == nullptr || request == nullptr) return fail(EINVAL);
  flux_msg_t* response = flux_response_derive(request, errnum != 0 ? errnum : EINVAL);
  if (response != nullptr && errstr != nullptr) flux_msg_set_string(response, errstr);
  return answer(h, request, response);
}

// ---- events ----------------------------------------------------------------------

flux_future_t* flux_event_publish(flux_t* h, const char* topic, int flags, const char* s) noexcept {
  return publish(h, flux_event_encode(topic, s), flags);
}

flux_future_t* flux_event_publish_raw(flux_t* h, const char* topic, int flags, const void* data,
                                      size_t len) noexcept {
  return publish(h, flux_event_encode_raw(topic, data, len), flags);
}

flux_future_t* flux_event_publish_pack(flux_t* h, const char* topic, int flags, const char* fmt, ...) noexcept {
  flux_msg_t* event = flux_event_encode(topic, nullptr);
  if (event == nullptr) return nullptr;
  va_list args;
  va_start(args, fmt);
  int packed = flux_msg_vpack(event, fmt, args);
  va_end(args);
  if (packed < 0) {
    flux_msg_destroy(event);
    return none(EINVAL);
  }
  return publish(h, event, flags);
}

int flux_event_publish_get_seq(flux_future_t* f, int* seq) noexcept {
  if (call_of(f) != nullptr) return flux_rpc_get_unpack(f, "{s:i}", "seq", seq);
  const void* result = nullptr;
  if (flux_future_get(f, &result) < 0) return -1;
  if (result == nullptr) return fail(EPROTO);
  if (seq != nullptr) *seq = static_cast<int>(*static_cast<const uint32_t*>(result));
  return 0;
}

int flux_event_subscribe(flux_t* h, const char* topic) noexcept {
  if (h == nullptr || topic == nullptr) return fail(EINVAL);
  h->root().subscriptions.insert(topic);
  tell_broker(h, "event.subscribe", topic);
  return 0;
}

int flux_event_unsubscribe(flux_t* h, const char* topic) noexcept {
  if (h == nullptr || topic == nullptr) return fail(EINVAL);
  auto& subscriptions = h->root().subscriptions;
  auto it = subscriptions.find(topic);
  if (it == subscriptions.end()) return fail(ENOENT);
  subscriptions.erase(it);
  tell_broker(h, "event.unsubscribe", topic);
  return 0;
}
