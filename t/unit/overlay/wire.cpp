// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <fstream>

#include "catch.hpp"

#include "overlay/wire.hpp"
#include "samples.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

namespace {

Bytes cbor(const std::string& json) {
  Bytes out;
  Json::to_cbor(Json::parse(json), out);
  return out;
}

std::string why(std::string_view bytes) {
  auto decoded = decode(bytes);
  return decoded ? "taken" : decoded.error().message;
}

}  // namespace

TEST_CASE("what is encoded is decoded, of every kind of message") {
  for (const Sample& each : samples()) {
    INFO(each.json);
    auto bytes = encode(each.message);
    REQUIRE(bytes);
    auto decoded = decode(*bytes);
    REQUIRE(decoded);
    CHECK(*decoded == each.message);
    CHECK(encode(*decoded).value() == *bytes);
  }
}

TEST_CASE("there is a sample of each kind of message, of entry and of request") {
  std::set<std::size_t> messages, entries, requests;
  for (const Sample& each : samples()) {
    const Body& body = each.message.body;
    messages.insert(body.index());
    if (const auto* entry = std::get_if<Entry>(&body)) entries.insert(entry->body.index());
    if (const auto* request = std::get_if<Request>(&body)) requests.insert(request->body.index());
  }
  CHECK(messages.size() == std::variant_size_v<Body>);
  CHECK(entries.size() == std::variant_size_v<EntryBody>);
  CHECK(requests.size() == std::variant_size_v<RequestBody>);
}

TEST_CASE("the example of doc/protocol.md") {
  const char bytes[] =
      "\xa7\x64\x62\x75\x73\x79\x60\x68\x63\x6f\x6d\x70\x6c\x65\x74\x65\x00\x63\x6a\x6f\x62\x18\x4d"
      "\x66\x6e\x75\x6d\x62\x65\x72\x01\x66\x73"
      "\x74\x61\x62\x6c\x65\x00"
      "\x64\x74\x65\x72\x6d\x03\x64\x74\x79\x70\x65\x64\x62\x65\x61\x74";
  CHECK(encode({77, 3, Beat{1, 0, {}}}).value() == Bytes(bytes, sizeof bytes - 1));
}

TEST_CASE("a message that ends too early or goes on is refused, wherever that is") {
  for (const Sample& each : samples()) {
    Bytes bytes = encode(each.message).value();
    for (std::size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(decode(bytes.substr(0, size)));
    CHECK_FALSE(decode(bytes + '\0'));
  }
}

TEST_CASE("an error names the message, the field and why") {
  CHECK(why(cbor(R"({"job":1,"term":1,"type":"beat","number":1,"busy":""})")) == "beat: stable: is not there");
  CHECK(why(cbor(R"({"job":1,"term":1,"type":"beat","number":-1,"stable":0,"busy":""})")) ==
        "beat: number: expected a number from 0, got number");
  CHECK(why(cbor(R"({"job":1,"term":1,"type":"beat","number":1,"stable":0,"busy":"","complete":0,"x":1})")) ==
        "beat: 1 fields that are not known");
  CHECK(why(cbor(R"({"job":1,"term":1,"type":"shout"})")) == "shout: type: 'shout' is not known");
  CHECK(why(cbor(R"({"term":1,"type":"beat"})")) == "beat: job: is not there");
  CHECK(why(cbor(R"([1])")) == "message: expected a map, got array");
  CHECK(why(cbor(R"({"job":1,"term":1,"type":"bye","why":"moved","text":"a\nb"})")) ==
        "bye: text: 'a\\x0ab' is not all printable ASCII");
  CHECK(
      why(cbor(
              R"({"job":1,"term":1,"type":"request","request":{"origin":0,"number":1},"kind":"shrink","leave":"3-1"})"))
          .starts_with("request: leave: "));
  CHECK(
      why(cbor(
          R"({"job":1,"term":1,"type":"request","request":{"origin":0,"number":1},"kind":"shrink","leave":"3-3"})")) ==
      "request: leave: the idset '3-3' is not in its shortest form");
  CHECK(why(cbor(R"({"job":1,"term":1,"type":"request","request":{"origin":0},"kind":"end","code":0})")) ==
        "request: request: number: is not there");
}

TEST_CASE("only one encoding of a value is taken") {
  CHECK(why("\x18\x05") == "CBOR: byte 1: a number in more bytes than it needs");
  CHECK(why(std::string_view("\x19\x00\xff", 3)) == "CBOR: byte 1: a number in more bytes than it needs");
  CHECK(why("\xa2\x61\x62\x01\x61\x61\x01") == "CBOR: byte 6: keys that do not ascend");
  CHECK(why("\xa2\x61\x61\x01\x61\x61\x01") == "CBOR: byte 6: keys that do not ascend");
  CHECK(why("\xa1\x01\x01") == "CBOR: byte 1: a key that is no text");
  CHECK(why("\xbf\xff") == "CBOR: byte 1: a length that is not given");
  CHECK(why("\xf6") == "CBOR: byte 1: a value of a kind that is not used");
  CHECK(why("\xfa????") == "CBOR: byte 5: a value of a kind that is not used");
  CHECK(why("\x05\x05") == "CBOR: byte 1: bytes after the end");
  CHECK(why("") == "CBOR: byte 0: the end of the frame in the middle of a value");
}

TEST_CASE("nesting is refused before it costs a stack") {
  CHECK(why(Bytes(8, '\x81') + '\x01').starts_with("message: "));
  CHECK(why(Bytes(9, '\x81') + '\x01') == "CBOR: byte 9: too deep");
  CHECK(why(Bytes(kMaxFrame, '\x81')) == "CBOR: byte 9: too deep");
}

TEST_CASE("messages and fields have limits") {
  Message message{1, 1, Entry{1, {}, Event{"e", Bytes(kMaxData, 'x')}}};
  REQUIRE(encode(message));
  CHECK(decode(encode(message).value()).value() == message);
  std::get<Event>(std::get<Entry>(message.body).body).data += 'x';
  CHECK(why(encode(message).value()) == "entry: data: 524289 bytes; at most 524288");
  std::get<Event>(std::get<Entry>(message.body).body).data.assign(kMaxFrame, 'x');
  auto over = encode(message);
  REQUIRE_FALSE(over);
  CHECK(over.error().code == EMSGSIZE);
  CHECK(decode(Bytes(kMaxFrame + 1, '\0')).error().code == EMSGSIZE);
  Message text{1, 1, Bye{Farewell::refused, std::string(kMaxText + 1, 'x')}};
  CHECK(why(encode(text).value()) == "bye: text: 1025 bytes; at most 1024");
}

// decode.py was written from doc/protocol.md alone; it has to read the bytes that this writes.

TEST_CASE("a second decoder, written from the page, reads every message") {
  char path[] = "/tmp/nacre-vectors-XXXXXX";
  int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  close(fd);
  std::ofstream file(path);
  for (const Sample& each : samples()) {
    const Bytes frame = encode(each.message).value();
    for (unsigned char byte : frame) file << fmt::format("{:02x}", byte);
    file << ' ' << Json::parse(each.json).dump() << '\n';
  }
  file.close();
  int code = std::system(fmt::format("python3 {}/t/unit/overlay/decode.py {}", NACRE_SOURCE_DIR, path).c_str());
  std::remove(path);
  CHECK(code == 0);
}
