// SPDX-License-Identifier: Apache-2.0
#include "doctor/python_stacks.hpp"

#include <elf.h>

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

// The loader may have replaced the file's value by an address, or not.
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

// Reads pieces that end where memory may end.
Result<std::string> ProcessMemory::text(std::uint64_t address, std::size_t most) {
  constexpr std::uint64_t kPiece = 64;  // bytes; a page has a whole number of them
  std::string out;
  while (out.size() < most) {
    std::size_t size = std::min<std::size_t>(kPiece - (address + out.size()) % kPiece, most - out.size());
    std::string piece = TRY(bytes(address + out.size(), size));
    std::size_t length = ::strnlen(piece.data(), size);
    out.append(piece, 0, length);
    if (length < size) return out;
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

namespace {

// ---- layouts ----------------------------------------------------------------------------

// Where an interpreter keeps what is read here, in bytes from the beginning of each structure.
struct Layout {
  struct {
    std::uint16_t interpreters;  // the first one
    std::uint16_t gil;           // 0: each interpreter has a pointer to its own
  } runtime;
  struct {
    std::uint16_t next, threads, gil;
  } interpreter;
  struct {
    std::uint16_t holder, locked;
  } gil;  // both 0: there is none
  struct {
    std::uint16_t next, interpreter, tid;
    std::uint16_t cframe;  // 0: `frame` is in the thread itself
    std::uint16_t frame;
  } thread;
  struct {
    std::uint16_t code, previous, instruction, owner;
    std::uint8_t c_owner;  // of a frame that stands for a function in C
  } frame;
  struct {
    std::uint16_t file, name, table, first_line, instructions;
  } code;
  struct {
    std::uint16_t type, type_name;
  } object;
  struct {
    std::uint16_t size, bytes;
  } bytes;
  struct {
    std::uint16_t length, state, ascii, others;  // the characters of a text of ASCII, and of others
  } text;
};

constexpr std::uint8_t kNoOwner = 255;

// By offsetof() with the headers in Include/internal of CPython 3.11.2 and 3.12.1 (Py_BUILD_CORE), for 64 bits.
// In all releases of a minor version they are the same.
constexpr Layout k3_11{.runtime = {40, 360},
                       .interpreter = {0, 16, 0},
                       .gil = {8, 16},
                       .thread = {8, 16, 160, 56, 8},
                       .frame = {32, 48, 56, 69, kNoOwner},
                       .code = {112, 128, 136, 72, 184},
                       .object = {8, 24},
                       .bytes = {16, 32},
                       .text = {16, 32, 48, 72}};
constexpr Layout k3_12{.runtime = {40, 0},
                       .interpreter = {0, 72, 384},
                       .gil = {8, 16},
                       .thread = {8, 16, 144, 56, 0},
                       .frame = {0, 8, 56, 70, 3},
                       .code = {112, 128, 136, 68, 192},
                       .object = {8, 24},
                       .bytes = {16, 32},
                       .text = {16, 32, 40, 56}};

constexpr std::uint64_t version_of(std::uint64_t hex) { return hex >> 16; }  // 0x030b02f0: 0x030b

// What 3.13 says of itself at the beginning of _PyRuntime: _Py_DebugOffsets, in
// Include/internal/pycore_runtime.h. It is the same in all releases of 3.13, and not that of later ones.
struct PublishedLayout {
  char cookie[8];
  std::uint64_t version, free_threaded;
  struct {
    std::uint64_t size, finalizing, interpreters_head;
  } runtime;
  struct {
    std::uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil, gil, gil_enabled,
        gil_locked, gil_holder;
  } interpreter;
  struct {
    std::uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status;
  } thread;
  struct {
    std::uint64_t size, previous, executable, instr_ptr, localsplus, owner;
  } frame;
  struct {
    std::uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
        localspluskinds, co_code_adaptive;
  } code;
  struct {
    std::uint64_t size, ob_type;
  } object;
  struct {
    std::uint64_t size, tp_name, tp_repr, tp_flags;
  } type;
  struct {
    std::uint64_t size, ob_item, ob_size;
  } tuple, list;
  struct {
    std::uint64_t size, ma_keys, ma_values;
  } dict;
  struct {
    std::uint64_t size, ob_fval;
  } number;
  struct {
    std::uint64_t size, lv_tag, ob_digit;
  } integer;
  struct {
    std::uint64_t size, ob_size, ob_sval;
  } bytes;
  struct {
    std::uint64_t size, state, length, asciiobject_size;
  } text;
};
constexpr std::string_view kCookie = "xdebugpy";

Result<Layout> layout_of(const PublishedLayout& of) {
  constexpr std::uint64_t kUtf8 = 16;  // bytes of the pointer and the length that other texts have behind
  bool fits = true;
  auto offset = [&](std::uint64_t value) {
    constexpr std::uint64_t kMost = 60'000;
    fits = fits && value <= kMost;
    return static_cast<std::uint16_t>(value);
  };
  Layout out{};
  out.runtime.interpreters = offset(of.runtime.interpreters_head);
  out.interpreter = {offset(of.interpreter.next), offset(of.interpreter.threads_head),
                     offset(of.interpreter.ceval_gil)};
  if (of.free_threaded == 0)
    out.gil = {offset(of.interpreter.gil_holder - of.interpreter.gil),
               offset(of.interpreter.gil_locked - of.interpreter.gil)};
  out.thread = {offset(of.thread.next), offset(of.thread.interp), offset(of.thread.native_thread_id), 0,
                offset(of.thread.current_frame)};
  out.frame = {offset(of.frame.executable), offset(of.frame.previous), offset(of.frame.instr_ptr),
               offset(of.frame.owner), 3};
  out.code = {offset(of.code.filename), offset(of.code.qualname), offset(of.code.linetable),
              offset(of.code.firstlineno), offset(of.code.co_code_adaptive)};
  out.object = {offset(of.object.ob_type), offset(of.type.tp_name)};
  out.bytes = {offset(of.bytes.ob_size), offset(of.bytes.ob_sval)};
  out.text = {offset(of.text.length), offset(of.text.state), offset(of.text.asciiobject_size),
              offset(of.text.asciiobject_size + kUtf8)};
  if (!fits) return invalid("its layout is none of Python 3.13");
  return out;
}

Error unknown_version(std::uint64_t hex) {
  return invalid(fmt::format("it is Python {}.{}, and only 3.11, 3.12 and 3.13 are known", hex >> 24 & 0xff,
                             hex >> 16 & 0xff));
}

// ---- one process --------------------------------------------------------------------------

// What is known of a function, independent of what it does at the moment.
struct Code {
  std::string name, file, table;
  std::uint32_t first_line = 0;
  std::uint64_t instructions = 0;  // their address
};

struct Frame {
  std::uint64_t address = 0, code = 0, instruction = 0;

  // As far as it does not change from moment to moment.
  [[nodiscard]] bool is_same(const Frame& other, bool is_innermost) const {
    return address == other.address && code == other.code && (is_innermost || instruction == other.instruction);
  }
};

class Interpreters {
 public:
  Interpreters(ProcessMemory& memory, std::uint64_t runtime, const Layout& layout)
      : memory_(memory), runtime_(runtime), layout_(layout) {}

  Result<PythonStacks> read() {
    PythonStacks out;
    std::uint64_t each = TRY(pointer(runtime_ + layout_.runtime.interpreters));
    std::uint64_t holder = 0;
    for (std::size_t i = 0; each != 0; ++i, each = TRY(pointer(each + layout_.interpreter.next))) {
      if (i == PythonStacks::kMostInterpreters) {
        out.may_have_more = true;
        break;
      }
      if (holder == 0) holder = TRY(holder_of_lock(each));
      CHECK_OK(read_threads(each, holder, out));
    }
    if (!out.threads.empty()) return out;
    return invalid(out.unread.empty() ? "none of its threads runs a function of Python"
                                      : out.unread.begin()->second);
  }

 private:
  Result<std::uint64_t> pointer(std::uint64_t address) { return memory_.at<std::uint64_t>(address); }

  // The thread state; 0: none.
  Result<std::uint64_t> holder_of_lock(std::uint64_t interpreter) {
    if (layout_.gil.holder == 0) return std::uint64_t{0};
    std::uint64_t lock = runtime_ + layout_.runtime.gil;
    if (layout_.runtime.gil == 0) lock = TRY(pointer(interpreter + layout_.interpreter.gil));
    if (lock == 0 || TRY(memory_.at<std::int32_t>(lock + layout_.gil.locked)) != 1) return std::uint64_t{0};
    return pointer(lock + layout_.gil.holder);
  }

  // The newest thread comes first; the main thread, of the interpreter that comes last, comes last.
  Result<void> read_threads(std::uint64_t interpreter, std::uint64_t holder, PythonStacks& out) {
    std::uint64_t each = TRY(pointer(interpreter + layout_.interpreter.threads));
    for (ThreadStack& stack : out.threads) stack.is_main = false;
    for (std::size_t i = 0; each != 0; ++i) {
      if (i == PythonStacks::kMostThreads) {
        out.may_have_more = true;
        break;
      }
      if (TRY(pointer(each + layout_.thread.interpreter)) != interpreter)
        return invalid("its threads change while they are read");
      auto tid = TRY(pointer(each + layout_.thread.tid));
      std::uint64_t next = TRY(pointer(each + layout_.thread.next));
      ThreadStack stack{static_cast<std::int64_t>(tid), next == 0, {}};
      auto frames = stable_frames(each);
      if (!frames) out.unread[stack.tid] = frames.error().message;
      if (frames && !frames->empty()) {
        stack.frames = *std::move(frames);
        out.threads.push_back(std::move(stack));
      }
      if (each == holder) out.lock_holder = static_cast<std::int64_t>(tid);
      each = next;
    }
    return {};
  }

  // The innermost first: those that two looks have found. Data that was not read at one moment may be anything.
  Result<std::vector<StackFrame>> stable_frames(std::uint64_t thread) {
    Result<std::vector<StackFrame>> out = invalid("its functions change faster than they can be read");
    for (int tries = 0; tries < PythonStacks::kMostTries; ++tries) {
      bool is_stable = false;
      auto found = frames_by_two_looks(thread, is_stable);
      if (found || !out) out = std::move(found);
      if (is_stable) break;
    }
    return out;
  }

  Result<std::vector<StackFrame>> frames_by_two_looks(std::uint64_t thread, bool& is_stable) {
    std::vector<Frame> before = TRY(frames_of(thread));
    std::vector<StackFrame> out;
    std::size_t torn = 0;  // functions up to one that was not read at one moment
    for (const Frame& each : before) {
      auto frame = TRY(named(each));
      out.push_back(frame.value_or(StackFrame()));
      if (!frame) torn = out.size();
    }
    std::vector<Frame> now = TRY(frames_of(thread));
    std::size_t same = std::min(count_same(before, now), before.size() - torn);
    is_stable = same == before.size() && same == now.size();
    if (same == 0 && !is_stable) return invalid("its functions change faster than they can be read");
    out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(same));
    return out;
  }

  // From the outermost on.
  static std::size_t count_same(const std::vector<Frame>& before, const std::vector<Frame>& now) {
    std::size_t out = 0;
    while (out < before.size() && out < now.size()) {
      const Frame& a = before[before.size() - 1 - out];
      const Frame& b = now[now.size() - 1 - out];
      bool is_innermost = out + 1 == before.size() && out + 1 == now.size();
      if (!a.is_same(b, is_innermost)) break;
      ++out;
    }
    return out;
  }

  // The innermost first.
  Result<std::vector<Frame>> frames_of(std::uint64_t thread) {
    std::uint64_t holder = thread;
    if (layout_.thread.cframe != 0) holder = TRY(pointer(thread + layout_.thread.cframe));
    std::uint64_t at = holder == 0 ? 0 : TRY(pointer(holder + layout_.thread.frame));
    std::vector<Frame> out;
    const auto& of = layout_.frame;
    std::size_t size = std::max({of.code, of.previous, of.instruction}) + sizeof(std::uint64_t);
    size = std::max<std::size_t>(size, of.owner + 1);
    for (std::size_t depth = 0; at != 0; ++depth) {
      if (depth == PythonStacks::kMostDepth)
        return invalid(fmt::format("it is in more than {} functions", PythonStacks::kMostDepth));
      std::string bytes = TRY(memory_.bytes(at, size));
      auto field = [&](std::size_t offset) {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes.data() + offset, sizeof value);
        return value;
      };
      bool is_of_c = of.c_owner != kNoOwner && static_cast<std::uint8_t>(bytes[of.owner]) == of.c_owner;
      if (!is_of_c) out.push_back({at, field(of.code), field(of.instruction)});
      at = field(of.previous);
    }
    return out;
  }

  // None: the place is not in the function, so they were read at different moments.
  Result<std::optional<StackFrame>> named(const Frame& frame) {
    constexpr std::uint64_t kInstruction = 2;  // bytes; it is before the first one when the function begins
    const Code* code = TRY(code_at(frame.code));
    StackFrame out{code->name, code->file, 0, code->first_line};
    if (frame.instruction + kInstruction == code->instructions || code->table.empty()) return std::optional(out);
    if (frame.instruction < code->instructions) return std::optional<StackFrame>();
    auto line = python_line(code->table, code->first_line, frame.instruction - code->instructions);
    if (!line) return std::optional<StackFrame>();
    if (*line != 0) out.line = *line;
    return std::optional(out);
  }

  Result<const Code*> code_at(std::uint64_t address) {
    auto known = codes_.find(address);
    if (known != codes_.end()) return &known->second;
    std::uint64_t type = TRY(pointer(address + layout_.object.type));
    if (!code_types_.contains(type)) {
      constexpr std::size_t kMostTypeName = 64;
      std::string name = TRY(memory_.text(TRY(pointer(type + layout_.object.type_name)), kMostTypeName));
      if (name != "code") return invalid("what it executes is no function, as far as it can be read");
      code_types_.insert(type);
    }
    Code out;
    const auto& of = layout_.code;
    out.name = TRY(text_at(TRY(pointer(address + of.name))));
    out.file = TRY(text_at(TRY(pointer(address + of.file))));
    auto first = TRY(memory_.at<std::int32_t>(address + of.first_line));
    out.first_line = static_cast<std::uint32_t>(std::max(first, 0));
    std::uint64_t table = TRY(pointer(address + of.table));
    std::uint64_t size = TRY(pointer(table + layout_.bytes.size));
    if (size > PythonStacks::kMostLineTable) size = 0;  // of a generated function: its first line is shown
    out.table = TRY(memory_.bytes(table + layout_.bytes.bytes, size));
    out.instructions = address + of.instructions;
    return &codes_.emplace(address, std::move(out)).first->second;
  }

  // A str, in UTF-8; a long one is cut.
  Result<std::string> text_at(std::uint64_t address) {
    const auto& of = layout_.text;
    auto length = TRY(memory_.at<std::uint64_t>(address + of.length));
    auto state = TRY(memory_.at<std::uint32_t>(address + of.state));
    std::uint32_t width = state >> 2 & 7;  // bytes of a character
    bool is_compact = (state >> 5 & 1) != 0;
    bool is_ascii = (state >> 6 & 1) != 0;
    if (!is_compact || (width != 1 && width != 2 && width != 4)) return invalid("a name of it is no text");
    std::size_t count = std::min<std::size_t>(length, PythonStacks::kMostCharacters);
    std::string bytes = TRY(memory_.bytes(address + (is_ascii ? of.ascii : of.others), count * width));
    std::string out;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint32_t character = 0;
      std::memcpy(&character, bytes.data() + i * width, width);
      add_utf8(character, out);
    }
    return out;
  }

  static void add_utf8(std::uint32_t character, std::string& out) {
    constexpr std::uint32_t kMost = 0x10ffff;
    constexpr std::uint32_t kRest = 0x3f;
    auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
    if (character < 0x80) return add(character);
    if (character > kMost) return add('?');
    if (character < 0x800) {
      add(0xc0 | character >> 6);
    } else if (character < 0x10000) {
      add(0xe0 | character >> 12);
      add(0x80 | (character >> 6 & kRest));
    } else {
      add(0xf0 | character >> 18);
      add(0x80 | (character >> 12 & kRest));
      add(0x80 | (character >> 6 & kRest));
    }
    add(0x80 | (character & kRest));
  }

  ProcessMemory& memory_;
  std::uint64_t runtime_;
  Layout layout_;
  std::map<std::uint64_t, Code> codes_;  // by address
  std::set<std::uint64_t> code_types_;
};

Result<Layout> layout_at(ProcessMemory& memory, std::uint64_t file, std::uint64_t runtime) {
  auto published = TRY(memory.at<PublishedLayout>(runtime));
  if (std::string_view(published.cookie, sizeof published.cookie) == kCookie) {
    if (version_of(published.version) == 0x030d) return layout_of(published);
    return unknown_version(published.version);
  }
  std::uint64_t at = TRY(exported_symbol(memory, file, "Py_Version"));
  if (at == 0) return invalid("it is a Python before 3.11, and only 3.11, 3.12 and 3.13 are known");
  auto version = TRY(memory.at<std::uint64_t>(at));
  if (version_of(version) == 0x030b) return k3_11;
  if (version_of(version) == 0x030c) return k3_12;
  return unknown_version(version);
}

// ---- lines --------------------------------------------------------------------------------

// Reads numbers of 6 bits a byte, the least first; bit 6: there is more of it.
std::uint32_t number_at(std::string_view table, std::size_t& at) {
  std::uint32_t out = 0;
  for (unsigned shift = 0; at < table.size(); shift += 6) {
    auto byte = static_cast<unsigned char>(table[at++]);
    if (shift < 32) out |= static_cast<std::uint32_t>(byte & 0x3f) << shift;
    if ((byte & 0x40) == 0) break;
  }
  return out;
}

// The lowest bit is the sign.
std::int32_t signed_number_at(std::string_view table, std::size_t& at) {
  std::uint32_t number = number_at(table, at);
  auto size = static_cast<std::int32_t>(number >> 1);
  return (number & 1) != 0 ? -size : size;
}

}  // namespace

// Entries that follow each other: a byte with bit 7, its kind in 4 bits and how many instructions it is for in
// 3, then bytes without bit 7 (Objects/locations.md of CPython).
std::optional<std::uint32_t> python_line(std::string_view table, std::uint32_t first_line, std::uint64_t at) {
  enum : unsigned { kOneLine = 10, kTwoLines = 12, kNoColumns = 13, kLong = 14, kNone = 15 };
  constexpr std::uint64_t kInstruction = 2;  // bytes
  std::int64_t line = first_line;
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < table.size();) {
    auto first = static_cast<unsigned char>(table[i++]);
    unsigned kind = first >> 3 & 15U;
    if (kind == kLong || kind == kNoColumns) line += signed_number_at(table, i);
    if (kind >= kOneLine && kind <= kTwoLines) line += kind - kOneLine;
    while (i < table.size() && (static_cast<unsigned char>(table[i]) & 0x80U) == 0) ++i;
    end += ((first & 7U) + 1) * kInstruction;
    if (at >= end) continue;
    constexpr std::int64_t kMost = 100'000'000;
    return kind == kNone || line < 0 || line > kMost ? 0 : static_cast<std::uint32_t>(line);
  }
  return std::nullopt;
}

bool may_be_python(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("python") || name.starts_with("libpython3.");
}

Result<PythonStacks> python_stacks(const ReadMemory& read, const std::vector<LoadedFile>& files) {
  constexpr int kMostLooks = 3;  // at threads that begin and end meanwhile
  ProcessMemory memory(read);
  Error why = invalid("it has no interpreter of Python that exports _PyRuntime");
  for (const LoadedFile& each : files) {
    auto runtime = exported_symbol(memory, each.at, "_PyRuntime");
    if (!runtime) why = runtime.error();
    if (!runtime || *runtime == 0) continue;
    Layout layout = TRY(layout_at(memory, each.at, *runtime));
    auto found = Interpreters(memory, *runtime, layout).read();
    for (int tries = 1; !found && tries < kMostLooks; ++tries)
      found = Interpreters(memory, *runtime, layout).read();
    return found;
  }
  return why;
}

}  // namespace nacre::doctor
