// SPDX-License-Identifier: Apache-2.0
//
// What comes over a broker's socket: pieces make no difference, and a message that is taken is written again as it
// was.
#include "broker/message.hpp"

#include "require.hpp"

using namespace nacre;
using namespace nacre::broker;
using nacre::fuzz::require;

namespace {

// The messages, as bytes, and the error if there is one.
std::string all_of(std::string_view bytes, std::size_t piece) {
  BrokerFrames frames;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    frames.add(bytes.substr(at, piece));
    for (;;) {
      auto message = frames.next();
      if (!message) return out + message.error().message;
      if (!*message) break;
      append_framed(out, **message);
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  require(all_of(bytes, 1) == all_of(bytes, 4096), "pieces make no difference");
  if (auto message = decode(bytes)) {
    auto again = decode(encode(*message));
    require(again.has_value(), "what was decoded can be encoded");
    require(encode(*again) == encode(*message), "and is the same");
  }
  return 0;
}
