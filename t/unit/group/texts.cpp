// SPDX-License-Identifier: Apache-2.0
//
// The bytes of an exception's note, and of the first words on a link.
#include "catch.hpp"

#include "group/codec.hpp"
#include "group/first_words.hpp"

using namespace nacre::group;  // NOLINT
using nacre::exits::Record;
using nacre::value::WaitStatus;

TEST_CASE("the texts of an exception's note") {
  CHECK(encode(JobException{"exec", 0, "m", std::nullopt, 7}).note == R"({"message":"m","origin":7})");
  JobException full{"exec", 0, "it \"fails\"", 300, 7, true};
  full.task = nacre::exits::TaskEnd{3, Record::of(WaitStatus::killed(9))};
  CHECK(encode(full).note ==
        R"({"exit_code":44,"message":"it \"fails\"","of_shell":true,"origin":7,"task":{"rank":3,"record":"s)"
        R"(9"}})");
  CHECK(decode(encode(full)).task == full.task);
  // Wrong members are ignored.
  JobException odd = decode(overlay::ExceptionEntry{
      "exec", 0, R"({"message":1,"origin":"x","of_shell":2,"task":{"rank":1},"exit_code":3})"});
  CHECK(odd.origin == 0);
  CHECK_FALSE(odd.of_shell);
  CHECK_FALSE(odd.task);
  CHECK(odd.exit_code == 3);
}

TEST_CASE("the text of the first words") {
  FirstWords words;
  words.version = "1.2";
  words.protocol = 9;
  words.from = 1;
  words.to = 2;
  CHECK(words.text() == R"({"from":1,"nacre":"1.2","protocol":9,"to":2})");
  CHECK(FirstWords::parse(words.text()).value().text() == words.text());
  auto why = [](const char* text) {
    auto read = FirstWords::parse(text);
    return read ? "fine" : read.error().message;
  };
  CHECK(why(R"({"nacre":"1","protocol":1,"from":0,"to":1,"later":[]})") == "fine");
  CHECK(why(R"({"nacre":"1","protocol":1,"from":-1,"to":1})") ==
        "first words.from: expected an integer from 0 to 4294967294, got -1");
  CHECK(why(R"({"nacre":"1","protocol":1,"to":1})") == "first words: missing key 'from'");
  CHECK(why("x").starts_with("first words: not JSON"));
  CHECK(why(fmt::format(R"({{"nacre":"{}","protocol":1,"from":0,"to":1}})", std::string(257, 'x')).c_str()) ==
        "first words: the version is too long");
}
