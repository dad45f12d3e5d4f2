// SPDX-License-Identifier: Apache-2.0
//
// The functions of Python, from made-up memory: whole, torn and wrong.
#include "doctor/python_stacks.hpp"

#include <elf.h>

#include "catch.hpp"

// The memory of a made-up process that runs Python: an ELF file that exports _PyRuntime, and behind that one
// interpreter with threads, functions and texts, as CPython 3.11, 3.12 and 3.13 have them.

namespace nacre::kit {

class PythonMemory {
 public:
  // Offsets that differ between the versions.
  struct Offsets {
    std::uint64_t interpreters, next_interpreter, threads, tid, cframe, frame_of, code, previous, instruction,
        owner, first_line, instructions, others;
  };
  static const Offsets& offsets(std::uint64_t version) {
    static const std::map<std::uint64_t, Offsets> kOffsets{
        {0x030b02f0, {40, 0, 16, 160, 56, 8, 32, 48, 56, 69, 72, 184, 72}},
        {0x030c01f0, {40, 0, 72, 144, 56, 0, 0, 8, 56, 70, 68, 192, 56}},
        {0x030d00f0, {632, 7264, 7344, 160, 0, 72, 0, 8, 56, 70, 68, 200, 56}}};
    auto found = kOffsets.find(version);
    return found == kOffsets.end() ? kOffsets.begin()->second : found->second;
  }

  explicit PythonMemory(std::uint64_t version) : version_(version), of_(offsets(version)) {
    runtime_ = room(kRuntime);
    interpreter_ = room(kInterpreter);
    code_type_ = room(64);
    put(code_type_ + 24, bytes("code\0"));
    put(runtime_ + of_.interpreters, interpreter_);
    if (of_.cframe == 0) publish();
    file_ = elf();
  }

  template <typename T>
  void put(std::uint64_t address, const T& value) {
    auto piece = --pieces_.upper_bound(address);
    std::memcpy(piece->second.data() + (address - piece->first), &value, sizeof value);
  }
  [[nodiscard]] std::uint64_t room(std::size_t size) {
    std::uint64_t out = next_;
    size = (size + 63) & ~std::size_t{63};  // memory does not end in the middle of a text
    next_ += (size + 0x1fff) & ~std::uint64_t{0xfff};
    pieces_[out] = std::string(size, '\0');
    return out;
  }
  [[nodiscard]] std::uint64_t bytes(std::string_view text) {
    std::uint64_t out = room(text.size() + 1);
    pieces_[out].replace(0, text.size(), text);
    return out;
  }

  // A str of ASCII characters; `width`: the bytes of each character, if it is of others.
  [[nodiscard]] std::uint64_t text(std::string_view characters, unsigned width = 0) {
    std::uint64_t ascii = version_ < 0x030c0000 ? 48 : 40;
    std::uint64_t at = width == 0 ? ascii : of_.others;
    std::uint64_t out = room(at + characters.size() + 4);
    std::uint64_t count = characters.size() / (width == 0 ? 1 : width);
    put(out + 16, count);
    put(out + 32, std::uint32_t{1U << 5 | (width == 0 ? 1U << 2 | 1U << 6 : width << 2)});
    pieces_[out].replace(at, characters.size(), characters);
    return out;
  }
  // A function that begins in a line; each instruction but the first is on the next line.
  [[nodiscard]] std::uint64_t function(std::uint64_t name, std::uint64_t file, std::int32_t first_line,
                                       std::string table = std::string("\x80\x00\xd8\x00\x00\xd8\x00\x00", 8)) {
    std::uint64_t lines = room(32 + table.size());
    put(lines + 16, std::uint64_t{table.size()});
    pieces_[lines].replace(32, table.size(), table);
    std::uint64_t out = room(256);
    put(out + 8, code_type_);
    put(out + 112, file);
    put(out + 128, name);
    put(out + 136, lines);
    put(out + of_.first_line, first_line);
    return out;
  }
  // A frame at the byte `at` of the function's instructions; `caller`: the frame that called it, 0: none.
  [[nodiscard]] std::uint64_t frame(std::uint64_t function, std::uint64_t at, std::uint64_t caller,
                                    std::uint8_t owner = 0) {
    std::uint64_t out = room(80);
    put(out + of_.code, function);
    put(out + of_.previous, caller);
    put(out + of_.instruction, function + of_.instructions + at);
    put(out + of_.owner, owner);
    return out;
  }
  // The newest one comes first.
  std::uint64_t add_thread(std::uint64_t tid, std::uint64_t frame) {
    std::uint64_t out = room(512);
    put(out + 8, threads_);
    put(out + 16, interpreter_);
    put(out + of_.tid, tid);
    std::uint64_t at = out;
    if (of_.cframe != 0) put(out + of_.cframe, at = room(32));
    put(at + of_.frame_of, frame);
    put(interpreter_ + of_.threads, out);
    return threads_ = out;
  }
  void lock_held_by(std::uint64_t thread) {
    std::uint64_t lock = runtime_ + 360;
    if (version_ >= 0x030c0000) lock = room(64);
    if (version_ >= 0x030d0000) put(interpreter_ + 16, lock);
    if (version_ >> 16 == 0x030c) put(interpreter_ + 384, lock);
    put(lock + 8, thread);
    put(lock + 16, std::int32_t{1});
  }

  [[nodiscard]] std::vector<doctor::LoadedFile> files() const { return {{"/usr/bin/python3", file_}}; }
  [[nodiscard]] const std::map<std::uint64_t, std::string>& pieces() const { return pieces_; }
  [[nodiscard]] const Offsets& of() const { return of_; }
  [[nodiscard]] std::uint64_t runtime() const { return runtime_; }
  [[nodiscard]] std::uint64_t interpreter() const { return interpreter_; }

  Result<void> copy(std::uint64_t address, void* to, std::size_t size) const {
    auto piece = pieces_.upper_bound(address);
    if (piece == pieces_.begin()) return invalid("no memory");
    --piece;
    std::uint64_t at = address - piece->first;
    if (at > piece->second.size() || piece->second.size() - at < size) return invalid("no memory");
    std::memcpy(to, piece->second.data() + at, size);
    return {};
  }
  [[nodiscard]] doctor::ReadMemory reader() const {
    return [this](std::uint64_t address, void* to, std::size_t size) { return copy(address, to, size); };
  }

 private:
  static constexpr std::size_t kRuntime = 1024;
  static constexpr std::size_t kInterpreter = 7400;

  // The ELF file, with the names _PyRuntime and Py_Version in one bucket.
  std::uint64_t elf() {
    auto hash_of = [](std::string_view name) {
      std::uint32_t out = 5381;
      for (char each : name) out = out * 33 + static_cast<unsigned char>(each);
      return out;
    };
    std::uint64_t out = room(0x400);
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phoff = sizeof header;
    header.e_phnum = 2;
    put(out, header);
    Elf64_Phdr load{}, dynamic{};
    load.p_type = PT_LOAD;
    dynamic.p_type = PT_DYNAMIC;
    dynamic.p_vaddr = 0x100;
    put(out + sizeof header, load);
    put(out + sizeof header + sizeof load, dynamic);
    put(out + 0x100, Elf64_Dyn{DT_GNU_HASH, {0x180}});  // as the loader leaves it, or not
    put(out + 0x110, Elf64_Dyn{DT_SYMTAB, {out + 0x200}});
    put(out + 0x120, Elf64_Dyn{DT_STRTAB, {out + 0x300}});
    put(out + 0x130, Elf64_Dyn{DT_NULL, {0}});
    put(out + 0x180, std::uint32_t{1});  // buckets
    put(out + 0x184, std::uint32_t{1});  // the first symbol
    put(out + 0x188, std::uint32_t{1});  // words of the filter
    put(out + 0x198, std::uint32_t{1});  // the bucket: it begins with that symbol
    put(out + 0x19c, hash_of("Py_Version") & ~1U);
    put(out + 0x1a0, hash_of("_PyRuntime") | 1U);
    std::uint64_t version = room(8);
    put(version, version_);
    Elf64_Sym symbol{};
    symbol.st_shndx = 1;
    symbol.st_name = 1;
    symbol.st_value = version - out;
    put(out + 0x200 + sizeof symbol, symbol);
    symbol.st_name = 12;
    symbol.st_value = runtime_ - out;
    put(out + 0x200 + 2 * sizeof symbol, symbol);
    pieces_[out].replace(0x301, 21, std::string_view("Py_Version\0_PyRuntime", 21));
    return out;
  }

  // Writes the description that 3.13 has of its layout.
  void publish() {
    std::memcpy(pieces_[runtime_].data(), "xdebugpy", 8);
    const std::vector<std::uint64_t> kNumbers{
        version_, 0,   0,    0,    632,                                     // the runtime
        0,        0,   7264, 7344, 0,   0,  0,   0, 16, 32,  0, 48, 40,     // an interpreter
        0,        0,   8,    16,   72,  0,  160, 0, 0,                      // a thread
        0,        8,   0,    56,   0,   70,                                 // a function that is called
        0,        112, 0,    128,  136, 68, 0,   0, 0,  200,                // a function
        0,        8,   0,    24,   0,   0,                                  // objects and types
        0,        0,   0,    0,    0,   0,  0,   0, 0,  0,   0, 0,  0,  0,  // tuples, lists, dicts, numbers
        0,        16,  32,                                                  // bytes
        0,        32,  16,   40};                                           // texts
    for (std::size_t i = 0; i < kNumbers.size(); ++i) put(runtime_ + 8 + i * 8, kNumbers[i]);
  }

  std::uint64_t version_;
  Offsets of_;
  std::map<std::uint64_t, std::string> pieces_;  // by address
  std::uint64_t next_ = 0x10000;
  std::uint64_t runtime_ = 0, interpreter_ = 0, code_type_ = 0, file_ = 0, threads_ = 0;
};

}  // namespace nacre::kit

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
    program.add_thread(10, 0);  // the thread runs no function of Python
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
  // Each look finds another innermost function.
  auto read = doctor::python_stacks(
      [&](std::uint64_t address, void* to, std::size_t size) {
        if (address == cframe + 8) program.put(cframe + 8, ++looks % 2 == 0 ? one : program.inner);
        return program.copy(address, to, size);
      },
      program.files());
  REQUIRE(read);
  CHECK(looks == 2 * PythonStacks::kMostTries);
  CHECK(read->threads[0].frames == std::vector<StackFrame>{kBoth[1]});
  // At one look the pointer leads to no function.
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
  // No frame of it stays.
  std::uint64_t alone = program.frame(program.step, 2, 0);
  const auto changing = [&](std::uint64_t address, void* to, std::size_t size) {
    if (address == cframe + 8) program.put(cframe + 8, ++looks % 2 == 0 ? alone : program.inner);
    return program.copy(address, to, size);
  };
  auto none = doctor::python_stacks(changing, program.files());
  REQUIRE_FALSE(none);
  CHECK(none.error().message == "its functions change faster than they can be read");
  // Another thread is still read.
  program.add_thread(9, program.frame(program.module, 2, 0));
  auto other = doctor::python_stacks(changing, program.files());
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
  CHECK(read->threads[0].frames[0].line == 20);  // the function is about to begin
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
  // Each of many threads has the largest number of functions.
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
