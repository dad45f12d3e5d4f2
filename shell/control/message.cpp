// SPDX-License-Identifier: Apache-2.0
#include "control/message.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "io/format.hpp"

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

Result<StreamData> data_of(const JsonAt& at, const Json& frame) {
  StreamData out;
  out.id = TRY(id_of(at));
  out.stream = TRY(TRY(at.at("stream")).string());
  if (out.stream.empty() || out.stream.size() > kMaxStreamName)
    return TRY(at.at("stream")).expected(fmt::format("a name of 1 to {} bytes", kMaxStreamName));
  if (auto base64 = TRY(at.find("base64"))) {
    auto bytes = from_base64(TRY(base64->string()));
    if (!bytes) return base64->expected("base64");
    out.data = *std::move(bytes);
  } else {
    out.data = TRY(TRY(at.at("data")).string());
  }
  if (out.data.size() > kMaxStreamData)
    return at.error(fmt::format("data of {} bytes: expected at most {}", out.data.size(), kMaxStreamData));
  out.members = frame;
  for (const char* own : {"id", "stream", "data", "base64"}) out.members.erase(own);
  return out;
}

// Of a frame with the member "stream".
template <typename Frame>
Result<Frame> of_stream(const JsonAt& at, const Json& frame) {
  auto eof = TRY(at.find("eof"));
  if (!eof || !TRY(eof->boolean())) return Frame(TRY(data_of(at, frame)));
  StreamEnd out{TRY(id_of(at)), TRY(TRY(at.at("stream")).string())};
  return Frame(std::move(out));
}

Result<std::uint64_t> bytes_of(const JsonAt& credit) {
  return static_cast<std::uint64_t>(TRY(credit.integer(0, static_cast<std::int64_t>(kMaxCredit))));
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
  if (request.credit > 0) out["credit"] = request.credit;
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

std::string line_of(const StreamData& data) {
  std::string out = fmt::format("{{\"id\":{},\"stream\":", data.id);
  io::append_json_string(out, data.stream);
  if (io::is_utf8(data.data)) {
    out += ",\"data\":";
    io::append_json_string(out, data.data);
  } else {
    out += ",\"base64\":\"";
    append_base64(out, data.data);
    out += '"';
  }
  if (data.members.empty()) return out += "}\n";
  return out.append(",").append(dump_json(data.members), 1).append("\n");  // without its brace
}

std::string line_of(const StreamEnd& end) {
  return line_of_json({{"id", end.id}, {"stream", end.stream}, {"eof", true}});
}

std::string line_of(const StreamCredit& credit) {
  return line_of_json({{"id", credit.id}, {"credit", credit.bytes}});
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
  if (auto credit = TRY(at.find("credit"))) out.credit = TRY(bytes_of(*credit));
  out.arguments.erase("credit");
  return out;
}

Result<FromLeader> from_leader(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  if (!frame.contains("id")) return FromLeader(TRY(event_of(at)));
  if (frame.contains("stream")) return of_stream<FromLeader>(at, frame);
  if (auto credit = TRY(at.find("credit"))) return FromLeader(StreamCredit{TRY(id_of(at)), TRY(bytes_of(*credit))});
  return FromLeader(TRY(answer_of(at)));
}

Result<FromFrontEnd> from_front_end(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  if (frame.contains("do")) return FromFrontEnd(TRY(request_of(frame)));
  if (frame.contains("stream")) return of_stream<FromFrontEnd>(at, frame);
  if (auto credit = TRY(at.find("credit")))
    return FromFrontEnd(StreamCredit{TRY(id_of(at)), TRY(bytes_of(*credit))});
  return FromFrontEnd(TRY(request_of(frame)));
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
