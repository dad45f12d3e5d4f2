// SPDX-License-Identifier: Apache-2.0
#include "pmi/message.hpp"

#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

std::string text_of_frame(const Frame& frame) {
  const char* kind = frame.kind == Frame::Kind::line ? "line" : frame.kind == Frame::Kind::spawn ? "spawn" : "body";
  return fmt::format("{} '{}'", kind, frame.text);
}

// All whole messages, or the error.
std::vector<std::string> frames_of(Framer& framer) {
  std::vector<std::string> out;
  for (;;) {
    auto frame = framer.next();
    if (!frame) {
      out.push_back("error: " + frame.error().message);
      return out;
    }
    if (!*frame) return out;
    out.push_back(text_of_frame(**frame));
  }
}

std::vector<std::string> frames_of(std::string_view bytes) {
  Framer framer;
  framer.add(bytes);
  return frames_of(framer);
}

using Frames = std::vector<std::string>;

const std::string kBlock = "mcmd=spawn\nexecname=a\nendcmd=no\nx=endcmd\nendcmd\n";

}  // namespace

TEST_CASE("lines are cut at newlines, and what is not whole is kept") {
  Framer framer;
  framer.add("cmd=a\n\ncmd=b c\r\ncmd=");
  CHECK(frames_of(framer) == Frames{"line 'cmd=a'", "line ''", "line 'cmd=b c\r'"});
  CHECK(framer.rest() == "cmd=");
  framer.add("d\n");
  CHECK(frames_of(framer) == Frames{"line 'cmd=d'"});
  CHECK(framer.rest().empty());
}

TEST_CASE("a spawn goes on to a line of its own that says endcmd") {
  CHECK(frames_of(kBlock + "cmd=b\n") ==
        Frames{"spawn 'mcmd=spawn\nexecname=a\nendcmd=no\nx=endcmd'", "line 'cmd=b'"});
  CHECK(frames_of("mcmd=spawn\nendcmd\nmcmd=spawn\nendcmd\n") ==
        Frames{"spawn 'mcmd=spawn'", "spawn 'mcmd=spawn'"});
  CHECK(frames_of("mcmd=spawn\nendcmd").empty());
}

TEST_CASE("the same messages come out of the same bytes however they are split") {
  const std::string bytes = "cmd=a\n" + kBlock + "\n" + kBlock + "cmd=b\nmcm\nmcmd=\nendcmd\nendcmd\n";
  const Frames whole = frames_of(bytes);
  REQUIRE(whole.size() == 8);
  for (std::size_t first = 0; first <= bytes.size(); ++first) {
    for (std::size_t second = first; second <= bytes.size(); second += 3) {
      Framer framer;
      Frames found;
      for (std::string_view piece :
           {std::string_view(bytes).substr(0, first), std::string_view(bytes).substr(first, second - first),
            std::string_view(bytes).substr(second)}) {
        framer.add(piece);
        for (std::string& each : frames_of(framer)) found.push_back(std::move(each));
      }
      REQUIRE(found == whole);
    }
  }
  Framer bytewise;
  Frames found;
  for (char byte : bytes) {
    bytewise.add({&byte, 1});
    for (std::string& each : frames_of(bytewise)) found.push_back(std::move(each));
  }
  CHECK(found == whole);
}

TEST_CASE("a line has at most 65536 bytes") {
  std::string most(kMaxMessage, 'x');
  CHECK(frames_of(most + "\n") == Frames{"line '" + most + "'"});
  CHECK(frames_of(most).empty());
  CHECK(frames_of(most + "x\n") == Frames{"error: 65536 bytes without a newline"});
  CHECK(frames_of(most + "x") == Frames{"error: 65536 bytes without a newline"});
  CHECK(frames_of("cmd=a\n" + most + "x") == Frames{"line 'cmd=a'", "error: 65536 bytes without a newline"});
}

TEST_CASE("a spawn has at most a MiB") {
  const std::string start = "mcmd=spawn\n";
  auto block = [&](std::size_t size) { return start + std::string(size - start.size() - 7, 'x') + "\nendcmd"; };
  Framer framer;
  framer.add(block(kMaxSpawn) + "\n");
  auto frame = framer.next();
  REQUIRE(frame);
  CHECK((**frame).text.size() == kMaxSpawn - 7);
  const Frames error = {"error: 1048576 bytes without endcmd"};
  CHECK(frames_of(block(kMaxSpawn)).empty());
  CHECK(frames_of(block(kMaxSpawn + 1) + "\n") == error);
  CHECK(frames_of(block(kMaxSpawn + 1)) == error);
  CHECK(frames_of(start + std::string(kMaxSpawn + 1, '\n')) == error);
}

TEST_CASE("an error of a framer is for ever") {
  Framer framer;
  framer.add(std::string(kMaxMessage + 1, 'x'));
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(framer.next());
    framer.add("\ncmd=a\n");
  }
}

TEST_CASE("half a message that comes after many is found when the rest comes") {
  // Beyond this the bytes that were read are freed, and the unread half moves to the front.
  const std::string read = std::string(kMaxMessage - 1, 'x') + "\n" + std::string(kMaxMessage - 1, 'y') + "\n";
  struct Case {
    std::string half;
    std::string rest;
    std::string frame;
  };
  for (const Case& each : {Case{"cmd=a", "b\n", "line 'cmd=ab'"}, Case{"mc", "md\n", "line 'mcmd'"},
                           Case{"mcmd=spawn\nexe", "c=a\nendcmd\n", "spawn 'mcmd=spawn\nexec=a'"},
                           Case{"mcmd=spawn\nexec=a\nend", "cmd\n", "spawn 'mcmd=spawn\nexec=a'"}}) {
    Framer framer;
    framer.add(read + each.half);
    REQUIRE(frames_of(framer).size() == 2);
    CHECK(framer.rest() == each.half);
    framer.add(each.rest + "cmd=b\n");
    CHECK(frames_of(framer) == Frames{each.frame, "line 'cmd=b'"});
    CHECK(framer.rest().empty());
  }
}

TEST_CASE("after counted() each message comes after its length") {
  Framer framer;
  framer.add("cmd=init\n");
  CHECK(frames_of(framer) == Frames{"line 'cmd=init'"});
  framer.counted();
  framer.add("6     cmd=a;     0     7cmd=\nb;000001x");
  CHECK(frames_of(framer) == Frames{"body 'cmd=a;'", "body ''", "body 'cmd=\nb;'", "body 'x'"});
  CHECK(framer.rest().empty());
  const std::string bytes = framed("cmd=a;") + framed("") + framed("mcmd=spawn\n");
  for (char byte : bytes) {
    framer.add({&byte, 1});
    for (const std::string& each : frames_of(framer)) CHECK(each.starts_with("body '"));
  }
  CHECK(framer.rest().empty());
}

TEST_CASE("a length that is none is an error") {
  struct Case {
    std::string length;
    std::string error;
  };
  for (const Case& each : {Case{"cmd=in", "error: expected a length of 6 digits, got 'cmd=in'"},
                           Case{"      ", "error: expected a length of 6 digits, got '      '"},
                           Case{"-1    ", "error: expected a length of 6 digits, got '-1    '"},
                           Case{"1 2   ", "error: expected a length of 6 digits, got '1 2   '"},
                           Case{"65537 ", "error: a message of 65537 bytes; at most 65536 are allowed"},
                           Case{"999999", "error: a message of 999999 bytes; at most 65536 are allowed"}}) {
    Framer framer;
    framer.counted();
    framer.add(each.length);
    CHECK(frames_of(framer) == Frames{each.error});
  }
  Framer framer;
  framer.counted();
  framer.add("65536 " + std::string(kMaxMessage, 'x'));
  CHECK(frames_of(framer).front().size() == kMaxMessage + std::string_view("body ''").size());
}
