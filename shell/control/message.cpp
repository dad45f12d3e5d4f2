// SPDX-License-Identifier: Apache-2.0
#include "control/message.hpp"

#include "base/bytes.hpp"
#include "io/format.hpp"
#include "wire/json.hpp"

namespace nacre::control {
namespace {

std::string line_of_json(const Json& json) { return dump_json(json) + '\n'; }

constexpr wire::Between kId{1, static_cast<std::int64_t>(kMaxId)};
constexpr wire::Between kBytes{0, static_cast<std::int64_t>(kMaxCredit)};

Result<std::uint64_t> id_of(const JsonAt& at) {
  return static_cast<std::uint64_t>(TRY(TRY(at.at("id")).integer(kId.least, kId.most)));
}

// One without a code gets one.
constexpr wire::Object kFailure{[](auto& io, auto& m) {
  int code = m.code > 0 ? m.code : EINVAL;
  io.has("code", code, wire::Between{1, INT32_MAX});
  io.has("message", m.message);
  if constexpr (wire::kReads<decltype(io)>) m.code = code;
}};

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

// The data or the end that a frame with the member "stream" has.
template <typename Frame>
Result<Frame> of_stream(const JsonAt& at, const Json& frame) {
  auto eof = TRY(at.find("eof"));
  if (!eof || !TRY(eof->boolean())) return Frame(TRY(data_of(at, frame)));
  StreamEnd out{TRY(id_of(at)), TRY(TRY(at.at("stream")).string())};
  return Frame(std::move(out));
}

}  // namespace

void fields(auto& io, wire::Of<ControlHello> auto& m) {
  int protocol = kProtocol;
  io.has("nacre", m.version);
  io.has("control", protocol, wire::Between{1, INT32_MAX});
  io.may_have("error", m.error);
  io.require(protocol == kProtocol, [&] {
    return Error{EPROTONOSUPPORT,
                 fmt::format("it is of nacre {} and speaks protocol {} of control, this is {}: the "
                             "same version has to be installed on all hosts",
                             m.version, protocol, kProtocol)};
  });
}

void fields(auto& io, wire::Of<Answer> auto& m) {
  io.has("id", m.id, kId);
  io.may_have("error", m.error, kFailure);
  if (!m.error) io.has("ok", m.value);
  io.may_have("more", m.more);
}

void fields(auto& io, wire::Of<ControlEvent> auto& m) {
  io.has("timestamp", m.timestamp);
  io.has("name", m.name);
  io.may_lack("context", m.context, wire::kAnObject);
}

void fields(auto& io, wire::Of<StreamCredit> auto& m) {
  io.has("id", m.id, kId);
  io.has("credit", m.bytes, kBytes);
}

std::string line_of(const ControlHello& hello) { return line_of_json(wire::to_json(hello)); }

std::string line_of(const ControlRequest& request) {
  Json out = request.arguments;
  out["id"] = request.id;
  out["do"] = request.action;
  if (request.credit > 0) out["credit"] = request.credit;
  return line_of_json(out);
}

std::string line_of(const Answer& answer) { return line_of_json(wire::to_json(answer)); }

std::string line_of(const ControlEvent& event) { return line_of_json(wire::to_json(event)); }

std::string line_of(const StreamData& data) {
  std::string out = fmt::format("{{\"id\":{},\"stream\":", data.id);
  static_cast<void>(io::append_json_string(out, data.stream));
  const std::size_t before = out.size();
  out += ",\"data\":";
  if (!io::append_json_string(out, data.data)) {
    out.resize(before);
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

std::string line_of(const StreamCredit& credit) { return line_of_json(wire::to_json(credit)); }

Result<ControlHello> hello_of(const Json& frame) { return wire::from_json<ControlHello>(frame); }

Result<ControlRequest> request_of(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  ControlRequest out;
  out.id = TRY(id_of(at));
  out.action = TRY(TRY(at.at("do")).string());
  out.arguments = frame;
  out.arguments.erase("id");
  out.arguments.erase("do");
  if (auto credit = TRY(at.find("credit"))) CHECK_OK(kBytes.read(*credit, out.credit));
  out.arguments.erase("credit");
  return out;
}

Result<FromLeader> from_leader(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  if (!frame.contains("id")) return FromLeader(TRY(wire::from_json<ControlEvent>(frame)));
  if (frame.contains("stream")) return of_stream<FromLeader>(at, frame);
  if (frame.contains("credit")) return FromLeader(TRY(wire::from_json<StreamCredit>(frame)));
  return FromLeader(TRY(wire::from_json<Answer>(frame)));
}

Result<FromFrontEnd> from_front_end(const Json& frame) {
  JsonAt at = JsonAt::root(frame);
  if (frame.contains("do")) return FromFrontEnd(TRY(request_of(frame)));
  if (frame.contains("stream")) return of_stream<FromFrontEnd>(at, frame);
  if (frame.contains("credit")) return FromFrontEnd(TRY(wire::from_json<StreamCredit>(frame)));
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
