// SPDX-License-Identifier: Apache-2.0
//
// A front end that sends anything: each request that is taken is answered once, and what the session sends are frames. However
// the bytes are cut, the same requests come out of them.
#include "control/session.hpp"

#include <vector>

#include "require.hpp"

using nacre::Json;
using nacre::control::ControlRequest;
using nacre::control::FrameReader;
using nacre::control::kMaxOpen;
using nacre::control::Session;
using nacre::fuzz::require;

namespace {

struct Seen {
  std::vector<std::string> requests;
  bool is_ended = false;
  std::size_t answers = 0;
};

Seen run(std::string_view bytes, std::size_t piece) {
  Seen out;
  std::vector<std::uint64_t> open;
  Session session("1", [&](const ControlRequest& request) {
    out.requests.push_back(line_of(request));
    open.push_back(request.id);
  });
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
    if ((*frame)->contains("id")) ++out.answers;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Seen whole = run(bytes, bytes.size() + 1);
  Seen cut = run(bytes, 7);
  require(whole.requests == cut.requests, "the same requests");
  require(whole.is_ended == cut.is_ended, "the same end");
  require(whole.answers == cut.answers && whole.answers >= whole.requests.size(), "an answer for each request");
  for (const std::string& each : whole.requests) {
    auto json = nacre::parse_json(each);
    require(json && nacre::control::request_of(*json).has_value(), "reads its own requests: " + each);
  }
  return 0;
}
