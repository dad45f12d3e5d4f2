// SPDX-License-Identifier: Apache-2.0
//
// The memory of a made-up process that runs Python: an ELF file that exports _PyRuntime, and behind that one
// interpreter with threads, functions and texts, as CPython 3.11, 3.12 and 3.13 have them.
#pragma once

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/python_stacks.hpp"

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

  // A str whose characters are of ASCII; `width`: bytes of one, if they are of others.
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
  // A function that begins in a line, and goes to the next one with each instruction but the first.
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
  // At so many bytes of its instructions, called by another one; 0: by none.
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

  // With the names _PyRuntime and Py_Version in one bucket.
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

  // What 3.13 says of its layout.
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
