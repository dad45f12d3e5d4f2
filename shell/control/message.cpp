// SPDX-License-Identifier: Apache-2.0
#include "control/message.hpp"

#include <fmt/format.h>

namespace nacre::control {
namespace {

std::string line_of_json(const Json& json) { return dump_json(json) + '\n'; }

Result<std::uint64_t> id_of(const JsonAt& at) {
  return static_cast<std::uint64_t>(TRY(TRY(at.at("id")).integer(1, static_cast<std::int64_t>(kMaxId))));
}

Result<Answer> answer_of(const JsonAt& at) {
  Answer out;
  out.id = TRY(id_of(at));
  if (auto error = TRY(at.find("error"))) {
    auto code = static_cast<int>(TRY(TRY(error->at("code")).integer(1, INT32_MAX)));
    std::string message = TRY(TRY(error->at("message")).string());
    out.error = Error{code, std::move(message)};
    return out;
  }
  out.value = TRY(at.at("ok")).json();
  if (auto more = TRY(at.find("more"))) out.more = TRY(more->boolean());
  return out;
}

Result<ControlEvent> event_of(const JsonAt& at) {
  ControlEvent out;
  out.timestamp = TRY(TRY(at.at("timestamp")).number());
  out.name = TRY(TRY(at.at("name")).string());
  if (auto context = TRY(at.find("context"))) {
    if (!context->json().is_object()) return context->expected("an object");
    out.context = context->json();
  }
  return out;
}

}  // namespace

std::string line_of(const ControlHello& hello) {
  Json out{{"nacre", hello.version}, {"control", kProtocol}};
  if (hello.error) out["error"] = *hello.error;
  return line_of_json(out);
}

std::string line_of(const ControlRequest& request) {
  Json out = request.arguments;
  out["id"] = request.id;
  out["do"] = request.action;
  return line_of_json(out);
}

std::string line_of(const Answer& answer) {
  Json out{{"id", answer.id}};
  if (answer.error)
    out["error"] = {{"code", answer.error->code > 0 ? answer.error->code : EINVAL},
                    {"message", answer.error->message}};
  else
    out["ok"] = answer.value;
  if (answer.more) out["more"] = true;
  return line_of_json(out);
}

std::string line_of(const ControlEvent& event) {
  return line_of_json({{"timestamp", event.timestamp}, {"name", event.name}, {"context", event.context}});
}

Result<ControlHello> hello_of(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  ControlHello out;
  out.version = TRY(TRY(at.at("nacre")).string());
  auto protocol = TRY(TRY(at.at("control")).integer(1, INT32_MAX));
  if (auto error = TRY(at.find("error"))) out.error = TRY(error->string());
  if (protocol == kProtocol) return out;
  return Error{EPROTONOSUPPORT, fmt::format("it is of nacre {} and speaks protocol {} of control, this is {}: the "
                                            "same version has to be installed on all hosts",
                                            out.version, protocol, kProtocol)};
}

Result<ControlRequest> request_of(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  ControlRequest out;
  out.id = TRY(id_of(at));
  out.action = TRY(TRY(at.at("do")).string());
  out.arguments = frame;
  out.arguments.erase("id");
  out.arguments.erase("do");
  return out;
}

Result<std::variant<Answer, ControlEvent>> from_leader(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  if (frame.contains("id")) return std::variant<Answer, ControlEvent>(TRY(answer_of(at)));
  return std::variant<Answer, ControlEvent>(TRY(event_of(at)));
}

Result<std::optional<Json>> FrameReader::next() {
  std::size_t newline = unread_.find('\n', std::max(begin_, looked_));
  if (newline == std::string::npos) {
    unread_.erase(0, begin_);
    begin_ = 0;
    looked_ = unread_.size();
    if (unread_.size() >= kMaxFrame)
      return Error{EMSGSIZE, fmt::format("a line is longer than {} bytes", kMaxFrame)};
    return std::optional<Json>();
  }
  std::string_view line = std::string_view(unread_).substr(begin_, newline - begin_);
  if (line.size() >= kMaxFrame) return Error{EMSGSIZE, fmt::format("a line is longer than {} bytes", kMaxFrame)};
  auto json = parse_json(line);
  if (!json) return in("a line is no JSON", std::move(json).error());
  if (!json->is_object()) return invalid("a line is no JSON object");
  begin_ = looked_ = newline + 1;
  return std::optional<Json>(*std::move(json));
}

}  // namespace nacre::control
