// SPDX-License-Identifier: Apache-2.0
//
// <flux/rpc.h>: makes and reads requests, responses and events.
#include "flux/message.hpp"

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
