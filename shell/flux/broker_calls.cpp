// SPDX-License-Identifier: Apache-2.0
#include "flux/broker_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "flux/handle.hpp"

namespace nacre::flux {
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
