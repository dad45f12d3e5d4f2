// SPDX-License-Identifier: Apache-2.0
#include "broker/message.hpp"

#include "catch.hpp"

using namespace nacre;
using namespace nacre::broker;
using namespace std::string_literals;

namespace {

BrokerMessage request() {
  BrokerMessage out;
  out.route = std::vector<std::string>{"b", "a"};
  out.topic = "kvs.lookup";
  out.payload = std::string("{}\0", 3);
  out.flags = BrokerMessage::kStreaming;
  out.userid = 1001;
  out.rolemask = kOwner;
  out.first = 3;
  out.tag = 0x01020304;
  return out;
}

void check_same(const BrokerMessage& got, const BrokerMessage& wanted) {
  CHECK(got.kind == wanted.kind);
  CHECK(got.flags == wanted.flags);
  CHECK(got.route == wanted.route);
  CHECK(got.topic == wanted.topic);
  CHECK(got.payload == wanted.payload);
  CHECK(got.userid == wanted.userid);
  CHECK(got.rolemask == wanted.rolemask);
  CHECK(got.first == wanted.first);
  CHECK(got.tag == wanted.tag);
}

}  // namespace

TEST_CASE("A message of a broker has the frames of RFC 3") {
  const std::string bytes = encode(request());
  const std::string wanted = "\1b\1a\0\12kvs.lookup\3{}\0\24\x8e\1\1\x4b\0\0\3\xe9\0\0\0\1\0\0\0\3\1\2\3\4"s;
  CHECK(bytes == wanted);
  check_same(*decode(bytes), request());
}

TEST_CASE("A message of a broker without topic, payload and route is its last frame alone") {
  BrokerMessage event;
  event.kind = BrokerMessage::Kind::event;
  event.first = 7;
  CHECK(encode(event).size() == 21);
  check_same(*decode(encode(event)), event);
}

TEST_CASE("A frame of a broker's message from 255 bytes on has five bytes of size") {
  BrokerMessage message = request();
  for (std::size_t size : {254, 255, 256, 100000}) {
    message.payload = std::string(size, 'x');
    const std::string bytes = encode(message);
    CHECK(bytes.size() == 16 + (size < 255 ? 1 : 5) + size + 21);
    check_same(*decode(bytes), message);
  }
}

TEST_CASE("What is no message of a broker is refused") {
  const std::string good = encode(request());
  auto why = [](const std::string& bytes) { return decode(bytes).error().message; };
  CHECK(why("") == "a message of the broker: its last frame is not as in RFC 3");
  CHECK(why(good.substr(0, good.size() - 1)) == "a message of the broker: a frame is longer than the message");
  std::string other = good;
  other[other.size() - 20] = 0;
  CHECK(why(other) == "a message of the broker: its last frame is not as in RFC 3");
  other = good;
  other[other.size() - 18] = 3;  // no kind
  CHECK(why(other) == "a message of the broker: its last frame is not as in RFC 3");
  other = good;
  other[other.size() - 17] &= ~0x02;  // no payload
  CHECK(why(other) == "a message of the broker: it has more frames than its flags say");
  CHECK(why(good.substr(5)) == "a message of the broker: its route has no end");
  BrokerMessage bare;
  bare.topic = "attr.get";
  other = encode(bare);
  other[other.size() - 17] |= 0x02;  // a payload
  CHECK(why(other) == "a message of the broker: a frame is missing");
}

TEST_CASE("Messages come out of a broker's bytes in whatever pieces they come") {
  std::string bytes;
  for (int i = 0; i < 5; ++i) append_framed(bytes, request());
  for (std::size_t piece : {1, 7, 1000}) {
    BrokerFrames frames;
    int count = 0;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      frames.add(std::string_view(bytes).substr(at, piece));
      while (auto message = *frames.next()) {
        check_same(*message, request());
        ++count;
      }
    }
    CHECK(count == 5);
  }
}

TEST_CASE("Other bytes on a broker's socket are an error") {
  BrokerFrames frames;
  frames.add("HTTP/1.1 400 Bad Request\r\n");
  CHECK(frames.next().error().message == "a message of the broker: it does not begin as one");
  std::string bytes;
  append_framed(bytes, request());
  bytes[4] = 0x7f;
  BrokerFrames large;
  large.add(bytes);
  CHECK(large.next().error().message == "a message of the broker: 2130706473 bytes, more than 1073741824");
}

TEST_CASE("The text of a broker's message has no NUL at its end") {
  CHECK(request().text() == "{}");
  CHECK(BrokerMessage().text().empty());
}
