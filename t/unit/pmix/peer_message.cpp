// SPDX-License-Identifier: Apache-2.0
#include "peer_message.hpp"

#include "catch.hpp"

using namespace nacre::pmix;  // NOLINT

namespace {

PeerMessage sample() {
  PeerMessage message;
  message.kind = PeerMessage::Kind::answer;
  message.start = 3;
  message.shell = 258;
  message.to = 3;
  message.number = std::uint64_t{1} << 40 | 5;
  message.rank = 0xfffffffe;
  message.status = -46;
  message.texts = {"", "hi", std::string("\0\xff", 2)};
  return message;
}

}  // namespace

TEST_CASE("a message's bytes, as other shells read them") {
  std::string expected(
      "\x02"
      "\x00\x00\x00\x00\x00\x00\x00\x03"
      "\x00\x00\x01\x02"
      "\x00\x00\x00\x03"
      "\x00\x00\x01\x00\x00\x00\x00\x05"
      "\xff\xff\xff\xfe"
      "\xff\xff\xff\xd2"
      "\x00\x00\x00\x00"
      "\x00\x00\x00\x02hi"
      "\x00\x00\x00\x02\x00\xff",
      49);
  CHECK(encode(sample()) == expected);
}

TEST_CASE("a message is the same after its way") {
  PeerMessage message = sample();
  for (int kind = 0; kind < PeerMessage::kKinds; ++kind) {
    message.kind = static_cast<PeerMessage::Kind>(kind);
    CHECK(decode(encode(message)) == message);
  }
  CHECK(decode(encode(PeerMessage())) == PeerMessage());
}

TEST_CASE("bytes that are no message") {
  std::string bytes = encode(sample());
  PeerMessage whole = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    INFO(size);
    auto message = decode(bytes.substr(0, size));
    if (!message) continue;
    CHECK(message->texts.size() < whole.texts.size());  // cut where a text ends
    CHECK(encode(*message) == bytes.substr(0, size));
  }
  CHECK_FALSE(decode(bytes + '\0'));
  bytes[0] = static_cast<char>(PeerMessage::kKinds);
  CHECK_FALSE(decode(bytes));
  bytes = encode(sample());
  bytes[33] = '\x7f';  // the first text's length
  CHECK_FALSE(decode(bytes));
}
