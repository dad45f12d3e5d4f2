// SPDX-License-Identifier: Apache-2.0
//
// A front end that sends anything: each request that is taken is answered once, the data that is taken stays within
// its credit, and what the session sends are frames. However the bytes are cut, the same requests and data come out
// of them.
#include "control/session.hpp"

#include "require.hpp"

using nacre::Json;
using nacre::control::ControlRequest;
using nacre::control::FrameReader;
using nacre::control::kMaxOpen;
using nacre::control::Session;
using nacre::control::StreamData;
using nacre::control::StreamEnd;
using nacre::fuzz::require;

namespace {

constexpr std::size_t kGranted = 8;  // bytes, of each request

struct Seen {
  std::vector<std::string> requests, streams;
  std::size_t data = 0;  // bytes
  bool is_ended = false;
  std::size_t answers = 0;
};

Seen run(std::string_view bytes, std::size_t piece) {
  Seen out;
  std::vector<std::uint64_t> open;
  std::size_t granted = 0;
  Session::Callbacks callbacks;
  Session* self = nullptr;
  callbacks.on_request = [&](const ControlRequest& request) {
    out.requests.push_back(line_of(request));
    open.push_back(request.id);
    self->grant(request.id, kGranted);
    granted += kGranted;
    std::size_t room = self->room(request.id);
    require(room <= request.credit, "no more is sent than may be");
    require(self->put({request.id, "out", std::string(room, 'x')}) == (room > 0), "takes what it has room for");
  };
  callbacks.on_data = [&](const StreamData& data) {
    out.streams.push_back(line_of(data));
    out.data += data.data.size();
    require(out.data <= granted, "no more data is taken than was granted");
  };
  callbacks.on_end = [&](const StreamEnd& end) { out.streams.push_back(line_of(end)); };
  Session session("1", std::move(callbacks));
  self = &session;
  require(session.receive("{\"nacre\":\"1\",\"control\":1}\n").has_value(), "takes a hello");
  while (!bytes.empty() && !out.is_ended) {
    out.is_ended = !session.receive(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  require(open.size() <= kMaxOpen, "no more requests are open than may be");
  for (std::uint64_t id : open) session.answer(id, Json(id));
  FrameReader reader;
  reader.append(session.output());
  for (;;) {
    auto frame = reader.next();
    require(frame.has_value(), "sends frames");
    if (!*frame) break;
    if ((*frame)->contains("ok") || (*frame)->contains("error")) ++out.answers;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Seen whole = run(bytes, bytes.size() + 1);
  Seen cut = run(bytes, 7);
  require(whole.requests == cut.requests, "the same requests");
  require(whole.streams == cut.streams, "the same data");
  require(whole.is_ended == cut.is_ended, "the same end");
  require(whole.answers == cut.answers && whole.answers >= whole.requests.size(), "an answer for each request");
  for (const std::string& each : whole.requests) {
    auto json = nacre::parse_json(each);
    require(json && nacre::control::request_of(*json).has_value(), "reads its own requests: " + each);
  }
  for (const std::string& each : whole.streams) {
    auto json = nacre::parse_json(each);
    require(json && nacre::control::from_front_end(*json).has_value(), "reads its own frames: " + each);
  }
  return 0;
}
