// SPDX-License-Identifier: Apache-2.0
#include "pmi/message.hpp"
#include "world.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::pmi;  // NOLINT

namespace {

// "COMMAND|KEY|VALUE|KEY|VALUE", or the error.
std::string text_of(const Result<PmiMessage>& message) {
  if (!message) return "error: " + message.error().message;
  std::string out(message->command());
  for (const PmiMessage::Field& each : message->fields()) out += fmt::format("|{}|{}", each.key, each.value);
  return out;
}

std::string line_text(std::string_view text) { return text_of(PmiMessage::parse_line(text)); }
std::string spawn_text(std::string_view text) { return text_of(PmiMessage::parse_spawn(text)); }
std::string body_text(std::string_view text) { return text_of(PmiMessage::parse_body(text)); }

}  // namespace

TEST_CASE("a line is a command and words") {
  CHECK(line_text("cmd=get_maxes") == "get_maxes");
  CHECK(line_text("cmd=init pmi_version=1 pmi_subversion=1") == "init|pmi_version|1|pmi_subversion|1");
  CHECK(line_text(" \tcmd=get   kvsname=a\tkey=b= \r") == "get|kvsname|a|key|b=");
  CHECK(line_text("cmd=get flag key= cmd=other") == "get|flag||key||cmd|other");
  CHECK(line_text("key=b cmd=get kvsname=a") == "get|key|b|kvsname|a");
}

TEST_CASE("value and message go on to the end of the line, as they are") {
  CHECK(line_text("cmd=put key=a value= b  c=d \r") == "put|key|a|value| b  c=d \r");
  CHECK(line_text("cmd=put key=a value=") == "put|key|a|value|");
  CHECK(line_text("cmd=put key=a value") == "put|key|a|value|");
  CHECK(line_text("cmd=abort exitcode=1 message=a\\ b cmd=x") == "abort|exitcode|1|message|a\\ b cmd=x");
  CHECK(line_text("cmd=put values=a b=c") == "put|values|a|b|c");
}

TEST_CASE("a line without a command is an error that shows it") {
  CHECK(line_text("") == "error: expected cmd=NAME, got an empty message");
  CHECK(line_text("cmd=") == "error: expected cmd=NAME, got 'cmd='");
  CHECK(line_text("cmd") == "error: expected cmd=NAME, got 'cmd'");
  CHECK(line_text("GET / HTTP/1.1") == "error: expected cmd=NAME, got 'GET / HTTP/1.1'");
  CHECK(line_text("\x01\x7f") == "error: expected cmd=NAME, got '\\x01\\x7f'");
  CHECK(line_text("value=x cmd=get") == "error: expected cmd=NAME, got 'value=x cmd=get'");
  CHECK(line_text("cmd=get =x") == "error: a field without a name, in 'cmd=get =x'");
  CHECK(line_text(std::string(5000, 'x')) == "error: expected cmd=NAME, got '" + std::string(40, 'x') + "'");
}

TEST_CASE("a spawn is a field a line, with whatever blanks") {
  CHECK(spawn_text("mcmd=spawn\nexecname=./a b\narg1=x=y z\nflag") == "spawn|execname|./a b|arg1|x=y z|flag|");
  CHECK(spawn_text("mcmd=spawn") == "spawn");
  CHECK(spawn_text("mcmd=other\na=b") == "error: expected cmd=NAME, got 'mcmd=other\\x0aa=b'");
  CHECK(spawn_text("mcmd=spawn\n\na=b") == "error: mcmd=spawn: expected KEY=VALUE, got ''");
  CHECK(spawn_text("mcmd=spawn\n=b") == "error: mcmd=spawn: expected KEY=VALUE, got '=b'");
}

TEST_CASE("a message of PMI-2 is fields after its command, with ';' doubled where it is meant") {
  CHECK(body_text("cmd=kvs-put;key=a;value=b=c d\n;") == "kvs-put|key|a|value|b=c d\n");
  CHECK(body_text("cmd=kvs-put;key=a;value=b") == "kvs-put|key|a|value|b");
  CHECK(body_text("cmd=kvs-put;value=;") == "kvs-put|value|");
  CHECK(body_text("cmd=a;x=1;;2;;;;3;y=4;") == "a|x|1;2;;3|y|4");
  CHECK(body_text("cmd=a;x=;;;y=;;;") == "a|x|;|y|;");
  CHECK(body_text("cmd=a;k;;ey=b;flag;") == "a|k;ey|b|flag|");
  CHECK(body_text("cmd=a;cmd=b;") == "a|cmd|b");
}

TEST_CASE("what a message of PMI-2 cannot be") {
  CHECK(body_text("") == "error: expected cmd=NAME, got an empty message");
  CHECK(body_text(";") == "error: a field without a name, in ';'");
  CHECK(body_text("cmd=;") == "error: expected cmd=NAME, got 'cmd=;'");
  CHECK(body_text("key=a;cmd=kvs-get;") == "error: expected cmd=NAME, got 'key=a;cmd=kvs-get;'");
  CHECK(body_text("cmd=a;=b;key=abcde;") == "error: a field without a name, in 'cmd=a;=b;key=abcde;'");
  CHECK(body_text(std::string("\0\1", 2)) == "error: expected cmd=NAME, got '\\x00\\x01'");
}

TEST_CASE("six stray bytes at the end of a message of PMI-2 do no harm") {
  // What MPICH 4.0's own client sends: it also counts the length.
  const std::string real = "cmd=kvs-put;key=a;value=b;";
  const std::string meant = "kvs-put|key|a|value|b";
  CHECK(body_text(real + std::string(6, '\0')) == meant + "|" + std::string(6, '\0') + "|");
  CHECK(body_text(real + "=abcd;") == meant);
  CHECK(body_text(real + "=abcde") == meant);
  CHECK(body_text(real + "a;=bcd") == meant + "|a|");
  CHECK(body_text(real + ";abcde") == meant);
  CHECK(body_text(real + ";;;cde") == meant);
  CHECK(body_text(real + "=abcdef") == "error: a field without a name, in 'cmd=kvs-put;key=a;value=b;=abcdef'");
  CHECK(body_text("cmd=put;value=abc;;de;") == "put|value|abc;de");
  CHECK(body_text("cmd=put;value=;;abcd;") == "put|value|;abcd");
}

TEST_CASE("fields are asked for by name, the first of it counts") {
  auto message = PmiMessage::parse_line("cmd=get key=a key=b empty= n=-7 m=1x");
  REQUIRE(message);
  CHECK(message->find("key") == "a");
  CHECK_FALSE(message->find("none"));
  CHECK_FALSE(message->find("cmd"));
  CHECK(message->word("key").value() == "a");
  CHECK(message->text("empty").value().empty());
  CHECK(message->word("empty").error().message == "get: the field 'empty' is empty");
  CHECK(message->word("none").error().message == "get: no field 'none'");
  CHECK(message->text("none").error().message == "get: no field 'none'");
  CHECK(message->integer("n").value() == -7);
  CHECK(message->integer("m").error().message == "get: m: expected a number, got '1x'");
  CHECK(message->integer("none").error().message == "get: no field 'none'");
}

TEST_CASE("what a BodyWriter writes is what parse_body reads") {
  std::string out = "before";
  BodyWriter(out, "a-response").add("x", "1;2;;").add("n", -5).flag("yes", true).flag("no", false).finish();
  CHECK(out == "before49    cmd=a-response;x=1;;2;;;;;n=-5;yes=TRUE;no=FALSE;");
  CHECK(body_text(std::string_view(out).substr(12)) == "a-response|x|1;2;;|n|-5|yes|TRUE|no|FALSE");
  std::string longest;
  BodyWriter(longest, "a").add("x", std::string(99986, 'x')).finish();
  CHECK(longest.starts_with("99995 cmd=a;x=xxx"));
}

TEST_CASE("unescape") {
  CHECK(unescape("a\\ b\\\\c\\") == "a b\\c\\");
  CHECK(unescape("").empty());
  CHECK(unescape("plain") == "plain");
}

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
