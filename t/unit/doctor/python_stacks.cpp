// SPDX-License-Identifier: Apache-2.0
//
// The functions of Python, from made-up memory: what is there, what is torn, what is none.
#include "doctor/python_stacks.hpp"

#include "catch.hpp"

#include "python_memory.hpp"

using namespace nacre;
using doctor::LoadedFile;
using doctor::python_line;
using doctor::PythonStacks;
using doctor::StackFrame;
using kit::PythonMemory;

namespace {

constexpr std::uint64_t k3_11 = 0x030b02f0, k3_12 = 0x030c01f0, k3_13 = 0x030d00f0;

std::string why_not(const PythonMemory& memory) {
  auto read = doctor::python_stacks(memory.reader(), memory.files());
  return read ? "read" : read.error().message;
}

// A module that calls Trainer.step, at its third instruction.
struct Program : PythonMemory {
  explicit Program(std::uint64_t version) : PythonMemory(version) {
    module = function(text("<module>"), text("/home/me/train.py"), 1);
    step = function(text("Trainer.step"), text("/home/me/train.py"), 20);
    outer = frame(module, 2, 0);
    inner = frame(step, 4, outer);
    main = add_thread(7, inner);
  }
  std::uint64_t module, step, outer, inner, main;
};

const std::vector<StackFrame> kBoth{{"Trainer.step", "/home/me/train.py", 0, 22},
                                    {"<module>", "/home/me/train.py", 0, 2}};

}  // namespace

TEST_CASE("the functions of a program in Python 3.11, 3.12 and 3.13, with their files and lines") {
  for (std::uint64_t version : {k3_11, k3_12, k3_13}) {
    Program program(version);
    auto read = doctor::python_stacks(program.reader(), program.files());
    REQUIRE(read);
    CHECK(read->threads == std::vector<doctor::ThreadStack>{{7, true, kBoth}});
    CHECK(read->lock_holder == 0);
    CHECK_FALSE(read->may_have_more);
    CHECK(doctor::comparable(read->threads[0].frames, "") ==
          std::vector<std::string>{"<module> (train.py:2)", "Trainer.step (train.py:22)"});
    CHECK(doctor::comparable(read->threads[0].frames, "", true) ==
          std::vector<std::string>{"<module> (train.py:2)", "Trainer.step (train.py)"});
    CHECK(doctor::script_place(read->threads[0].frames) == "/home/me/train.py:22");
  }
}

TEST_CASE("threads of Python, and which of them has the interpreter's lock") {
  for (std::uint64_t version : {k3_11, k3_12, k3_13}) {
    Program program(version);
    std::uint64_t other = program.add_thread(9, program.frame(program.step, 0, 0));
    program.add_thread(10, 0);  // it runs no function of Python
    program.lock_held_by(other);
    auto read = doctor::python_stacks(program.reader(), program.files());
    REQUIRE(read);
    REQUIRE(read->threads.size() == 2);
    CHECK(read->threads[0] == doctor::ThreadStack{9, false, {{"Trainer.step", "/home/me/train.py", 0, 20}}});
    CHECK(read->threads[1].is_main);
    CHECK(read->lock_holder == 9);
  }
}

TEST_CASE("frames that stand for functions in C are not shown") {
  Program program(k3_12);
  program.put(program.main + 56, program.room(32));
  std::uint64_t shim = program.frame(program.module, 0, program.inner, 3);
  std::uint64_t at = program.frame(program.step, 2, shim);
  std::uint64_t cframe = program.room(32);
  program.put(cframe, at);
  program.put(program.main + 56, cframe);
  auto read = doctor::python_stacks(program.reader(), program.files());
  REQUIRE(read);
  REQUIRE(read->threads[0].frames.size() == 3);
  CHECK(read->threads[0].frames[0].line == 21);
}

TEST_CASE("names that are not of ASCII") {
  PythonMemory memory(k3_11);
  std::string wide("\x61\x00\xac\x20", 4);
  std::string widest("\x00\xf6\x01\x00", 4);
  std::uint64_t function = memory.function(memory.text("\xe9t\xe9", 1), memory.text(wide, 2), 1);
  std::uint64_t other = memory.function(memory.text(widest, 4), memory.text(std::string(2000, 'x')), 1);
  memory.add_thread(1, memory.frame(function, 0, memory.frame(other, 0, 0)));
  auto read = doctor::python_stacks(memory.reader(), memory.files());
  REQUIRE(read);
  CHECK(read->threads[0].frames[0].function == "\u00e9t\u00e9");
  CHECK(read->threads[0].frames[0].module == "a\u20ac");
  CHECK(read->threads[0].frames[1].function == "\U0001f600");
  CHECK(read->threads[0].frames[1].module.size() == PythonStacks::kMostCharacters);
}

TEST_CASE("what changes while it is read is not reported") {
  Program program(k3_11);
  std::uint64_t looks = 0;
  std::uint64_t cframe = 0;
  REQUIRE(program.copy(program.main + 56, &cframe, sizeof cframe));
  std::uint64_t one = program.frame(program.step, 2, program.outer);
  // At each look the innermost function is another one.
  auto read = doctor::python_stacks(
      [&](std::uint64_t address, void* to, std::size_t size) {
        if (address == cframe + 8) program.put(cframe + 8, ++looks % 2 == 0 ? one : program.inner);
        return program.copy(address, to, size);
      },
      program.files());
  REQUIRE(read);
  CHECK(looks == 2 * PythonStacks::kMostTries);
  CHECK(read->threads[0].frames == std::vector<StackFrame>{kBoth[1]});
  // At one look there is no function at all where it points to.
  int reads = 0;
  program.put(cframe + 8, program.inner);
  auto later = doctor::python_stacks(
      [&](std::uint64_t address, void* to, std::size_t size) -> Result<void> {
        if (address == program.inner && ++reads == 1) return invalid("no memory");
        return program.copy(address, to, size);
      },
      program.files());
  REQUIRE(later);
  CHECK(reads == 3);
  // Nothing of it stays.
  std::uint64_t alone = program.frame(program.step, 2, 0);
  auto none = doctor::python_stacks(
      [&](std::uint64_t address, void* to, std::size_t size) {
        if (address == cframe + 8) program.put(cframe + 8, ++looks % 2 == 0 ? alone : program.inner);
        return program.copy(address, to, size);
      },
      program.files());
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "its functions change faster than they can be read");
  // Another thread is read nevertheless.
  program.add_thread(9, program.frame(program.module, 2, 0));
  auto other = doctor::python_stacks(
      [&](std::uint64_t address, void* to, std::size_t size) {
        if (address == cframe + 8) program.put(cframe + 8, ++looks % 2 == 0 ? alone : program.inner);
        return program.copy(address, to, size);
      },
      program.files());
  REQUIRE(other);
  CHECK(other->threads.size() == 1);
  CHECK(other->unread.at(7) == "its functions change faster than they can be read");
}

TEST_CASE("a place that is not in the function was read at another moment") {
  Program program(k3_11);
  program.put(program.inner + program.of().instruction, program.step + program.of().instructions + 1000);
  auto read = doctor::python_stacks(program.reader(), program.files());
  REQUIRE(read);
  CHECK(read->threads[0].frames == std::vector<StackFrame>{kBoth[1]});
  program.put(program.inner + program.of().instruction, program.step + program.of().instructions - 2);
  read = doctor::python_stacks(program.reader(), program.files());
  REQUIRE(read);
  CHECK(read->threads[0].frames[0].line == 20);  // it is about to begin
}

TEST_CASE("a chain that goes in a circle, and one that is too long") {
  Program program(k3_11);
  program.put(program.outer + program.of().previous, program.inner);
  CHECK(why_not(program) == "it is in more than 2048 functions");
  Program threads(k3_11);
  threads.put(threads.main + 8, threads.main);
  auto read = doctor::python_stacks(threads.reader(), threads.files());
  REQUIRE(read);
  CHECK(read->threads.size() == PythonStacks::kMostThreads);
  CHECK(read->may_have_more);
  Program interpreters(k3_11);
  interpreters.put(interpreters.interpreter(), interpreters.interpreter());
  read = doctor::python_stacks(interpreters.reader(), interpreters.files());
  REQUIRE(read);
  CHECK(read->threads.size() == PythonStacks::kMostInterpreters);
  CHECK(read->may_have_more);
}

TEST_CASE("a table of lines that is too long, and more pieces than are read") {
  PythonMemory memory(k3_11);
  std::uint64_t name = memory.text("generated");
  std::uint64_t function = memory.function(name, name, 7, std::string(PythonStacks::kMostLineTable + 1, '\x80'));
  memory.add_thread(1, memory.frame(function, 4, 0));
  auto read = doctor::python_stacks(memory.reader(), memory.files());
  REQUIRE(read);
  CHECK(read->threads[0].frames[0].line == 7);
  // Of each of many threads as many functions as there may be.
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < PythonStacks::kMostDepth; ++i) at = memory.frame(function, 4, at);
  for (std::uint64_t i = 0; i < PythonStacks::kMostThreads; ++i) memory.add_thread(2 + i, at);
  CHECK(why_not(memory) == "more than 100000 pieces");
}

TEST_CASE("threads that begin while they are read are looked at again") {
  Program program(k3_11);
  int looks = 0;
  auto read = doctor::python_stacks(
      [&](std::uint64_t address, void* to, std::size_t size) {
        if (address == program.main + 16) program.put(address, ++looks == 1 ? 1 : program.interpreter());
        return program.copy(address, to, size);
      },
      program.files());
  REQUIRE(read);
  CHECK(looks == 2);
  CHECK(read->threads[0].frames == kBoth);
}

TEST_CASE("what is none is said") {
  CHECK(why_not(PythonMemory(k3_11)) == "none of its threads runs a function of Python");
  CHECK(why_not(Program(0x030e00f0)) == "it is Python 3.14, and only 3.11, 3.12 and 3.13 are known");
  Program later(k3_13);
  later.put(later.runtime() + 8, std::uint64_t{0x030e00f0});
  CHECK(why_not(later) == "it is Python 3.14, and only 3.11, 3.12 and 3.13 are known");
  later.put(later.runtime() + 8, k3_13);
  later.put(later.runtime() + 48 + 16, std::uint64_t{1} << 40);
  CHECK(why_not(later) == "its layout is none of Python 3.13");
  Program code(k3_11);
  code.put(code.step + 8, code.room(64));
  CHECK(why_not(code) == "no memory");
  std::uint64_t type = code.room(64);
  code.put(type + 24, code.bytes("function"));
  code.put(code.step + 8, type);
  CHECK(why_not(code) == "what it executes is no function, as far as it can be read");
  Program changed(k3_11);
  changed.put(changed.main + 16, std::uint64_t{1});
  CHECK(why_not(changed) == "its threads change while they are read");
  auto read = doctor::python_stacks(changed.reader(), {});
  REQUIRE_FALSE(read);
  CHECK(read.error().message == "it has no interpreter of Python that exports _PyRuntime");
  read = doctor::python_stacks(changed.reader(), {{"/usr/bin/python3", changed.runtime()}});
  REQUIRE_FALSE(read);
  CHECK(read.error().message == "it is not loaded as an ELF file of 64 bits");
}

TEST_CASE("lines of a function, by each kind of entry") {
  // 2 bytes of one line, then kinds 10, 11, 12, 13 with +70, 14 with -3, 15 for 16 bytes, and 0.
  std::string table("\x80\x01\xd0\x01\x01\xd8\x01\x01\xe0\x01\x01\xe8\x4c\x02\xf0\x07\x01\x01\x01\xff\x80\x01", 22);
  auto at = [&](std::uint64_t place) { return python_line(table, 10, place); };
  CHECK(at(0) == 10U);
  CHECK(at(2) == 10U);
  CHECK(at(4) == 11U);
  CHECK(at(6) == 13U);
  CHECK(at(8) == 83U);
  CHECK(at(11) == 80U);
  CHECK(at(12) == 0U);
  CHECK(at(27) == 0U);
  CHECK(at(28) == 80U);
  CHECK_FALSE(at(30));
  CHECK_FALSE(python_line("", 1, 0));
  CHECK(python_line("\xe8", 5, 0) == 5U);            // its number is cut
  CHECK(python_line("\xf0\x07", 1, 0) == 0U);        // before the file
  CHECK(python_line(std::string(3, '\x7f'), 1, 9));  // none of it begins an entry
}

TEST_CASE("files that a process has loaded, by its maps") {
  auto files = doctor::loaded_files(
      "00400000-0041f000 r--p 00000000 08:01 1   /usr/bin/python3.11\n"
      "0041f000-006d2000 r-xp 0001f000 08:01 1   /usr/bin/python3.11\n"
      "7f0000000000-7f0000001000 r--p 00000000 08:01 2   /opt/my env/libpython3.12.so.1.0 (deleted)\n"
      "7f0000002000-7f0000003000 r--p 00000000 08:01 3   /usr/lib/libc.so.6\n"
      "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0   [stack]\n7ffc00000000-7f",
      doctor::may_be_python);
  CHECK(files == std::vector<LoadedFile>{{"/usr/bin/python3.11", 0x400000},
                                         {"/opt/my env/libpython3.12.so.1.0 (deleted)", 0x7f0000000000}});
  CHECK(doctor::loaded_files("", doctor::may_be_python).empty());
}
