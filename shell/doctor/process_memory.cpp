// SPDX-License-Identifier: Apache-2.0
#include "doctor/process_memory.hpp"

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::doctor {
namespace {

constexpr std::size_t kMostHeaders = 64;     // program headers
constexpr std::size_t kMostDynamic = 128;    // entries of the dynamic section
constexpr std::size_t kMostInBucket = 4096;  // symbols with the same remainder of their hash

// How a file finds its symbols.
struct SymbolTables {
  std::uint64_t bias = 0;  // what is added to the addresses in the file
  std::uint64_t hash = 0, symbols = 0, names = 0;
};

// The loader has put addresses in place of what the file says, or not.
std::uint64_t placed(std::uint64_t value, std::uint64_t bias) { return value < bias ? value + bias : value; }

Result<std::vector<Elf64_Phdr>> program_headers(ProcessMemory& memory, std::uint64_t file,
                                                const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> out;
  std::size_t count = std::min<std::size_t>(header.e_phnum, kMostHeaders);
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(TRY(memory.at<Elf64_Phdr>(file + header.e_phoff + i * sizeof(Elf64_Phdr))));
  return out;
}

Result<SymbolTables> tables_of(ProcessMemory& memory, std::uint64_t file) {
  auto header = TRY(memory.at<Elf64_Ehdr>(file));
  bool is_elf = std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
                header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_phentsize == sizeof(Elf64_Phdr);
  if (!is_elf) return invalid("it is not loaded as an ELF file of 64 bits");
  SymbolTables out;
  std::optional<std::uint64_t> dynamic;
  for (const Elf64_Phdr& each : TRY(program_headers(memory, file, header))) {
    if (each.p_type == PT_LOAD && each.p_offset == 0) out.bias = file - each.p_vaddr;
    if (each.p_type == PT_DYNAMIC) dynamic = each.p_vaddr;
  }
  if (!dynamic) return invalid("it is not linked dynamically");
  for (std::size_t i = 0; i < kMostDynamic; ++i) {
    auto entry = TRY(memory.at<Elf64_Dyn>(out.bias + *dynamic + i * sizeof(Elf64_Dyn)));
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_GNU_HASH) out.hash = placed(entry.d_un.d_ptr, out.bias);
    if (entry.d_tag == DT_SYMTAB) out.symbols = placed(entry.d_un.d_ptr, out.bias);
    if (entry.d_tag == DT_STRTAB) out.names = placed(entry.d_un.d_ptr, out.bias);
  }
  if (out.hash == 0 || out.symbols == 0 || out.names == 0) return invalid("it has no DT_GNU_HASH");
  return out;
}

std::uint32_t hash_of(std::string_view name) {
  std::uint32_t out = 5381;
  for (char each : name) out = out * 33 + static_cast<unsigned char>(each);
  return out;
}

struct HashHeader {
  std::uint32_t buckets, first, bloom_words, bloom_shift;
};

}  // namespace

Result<void> ProcessMemory::copy(std::uint64_t address, void* to, std::size_t size) {
  if (size > kMostBytes) return invalid(fmt::format("more than {} bytes in one piece", kMostBytes));
  if (++reads_ > kMostReads) return invalid(fmt::format("more than {} pieces", kMostReads));
  return read_(address, to, size);
}

Result<std::string> ProcessMemory::bytes(std::uint64_t address, std::size_t size) {
  if (size > kMostBytes) return invalid(fmt::format("more than {} bytes in one piece", kMostBytes));
  std::string out(size, '\0');
  if (size != 0) CHECK_OK(copy(address, out.data(), size));
  return out;
}

// By pieces that end where memory may.
Result<std::string> ProcessMemory::text(std::uint64_t address, std::size_t most) {
  constexpr std::uint64_t kPiece = 64;  // bytes; a page has a whole number of them
  std::string out;
  while (out.size() < most) {
    std::size_t size = std::min<std::size_t>(kPiece - (address + out.size()) % kPiece, most - out.size());
    std::string piece = TRY(bytes(address + out.size(), size));
    std::size_t end = piece.find('\0');
    out += piece.substr(0, end);
    if (end != std::string::npos) return out;
  }
  return invalid("a text without an end");
}

// "7f0000000000-7f0000001000 r--p 00000000 08:01 42    /usr/lib/libx.so"
std::vector<LoadedFile> loaded_files(std::string_view maps,
                                     const std::function<bool(std::string_view path)>& is_wanted) {
  std::vector<LoadedFile> out;
  for (std::string_view line : split(maps, '\n')) {
    std::size_t slash = line.find(" /");
    if (slash == std::string_view::npos || line.find(" 00000000 ") > slash) continue;
    std::string_view path = line.substr(slash + 1);
    bool is_known = std::any_of(out.begin(), out.end(), [&](const LoadedFile& each) { return each.path == path; });
    if (is_known || !is_wanted(path)) continue;
    constexpr int kHexadecimal = 16;
    std::string start(line.substr(0, line.find('-')));
    out.push_back({std::string(path), std::strtoull(start.c_str(), nullptr, kHexadecimal)});
  }
  return out;
}

Result<std::uint64_t> exported_symbol(ProcessMemory& memory, std::uint64_t file, std::string_view name) {
  SymbolTables tables = TRY(tables_of(memory, file));
  auto header = TRY(memory.at<HashHeader>(tables.hash));
  if (header.buckets == 0) return std::uint64_t{0};
  std::uint64_t buckets = tables.hash + sizeof header + std::uint64_t{header.bloom_words} * sizeof(std::uint64_t);
  std::uint64_t chains = buckets + std::uint64_t{header.buckets} * sizeof(std::uint32_t);
  std::uint32_t wanted = hash_of(name);
  auto symbol =
      TRY(memory.at<std::uint32_t>(buckets + std::uint64_t{wanted % header.buckets} * sizeof(std::uint32_t)));
  if (symbol < header.first) return std::uint64_t{0};
  for (std::size_t i = 0; i < kMostInBucket; ++i, ++symbol) {
    auto hash =
        TRY(memory.at<std::uint32_t>(chains + std::uint64_t{symbol - header.first} * sizeof(std::uint32_t)));
    if ((hash | 1U) == (wanted | 1U)) {
      auto entry = TRY(memory.at<Elf64_Sym>(tables.symbols + std::uint64_t{symbol} * sizeof(Elf64_Sym)));
      std::string found = TRY(memory.bytes(tables.names + entry.st_name, name.size() + 1));
      bool is_defined = entry.st_shndx != SHN_UNDEF && entry.st_value != 0;
      if (is_defined && found.back() == '\0' && found.substr(0, name.size()) == name)
        return tables.bias + entry.st_value;
    }
    if ((hash & 1U) != 0) break;
  }
  return std::uint64_t{0};
}

}  // namespace nacre::doctor
