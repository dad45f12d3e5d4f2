// SPDX-License-Identifier: Apache-2.0
#include "flux/remote_calls.hpp"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/big_endian.hpp"
#include "flux/handle.hpp"

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

}  // namespace nacre::flux
