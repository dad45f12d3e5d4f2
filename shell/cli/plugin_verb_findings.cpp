// SPDX-License-Identifier: Apache-2.0
#include "cli/plugin_verb_findings.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/topics.hpp"

namespace nacre::cli {
namespace {

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_386: return "i386";
    case EM_X86_64: return "x86-64";
    case EM_ARM: return "ARM";
    case EM_AARCH64: return "AArch64";
    case EM_PPC64: return "PowerPC 64";
    case EM_S390: return "S/390";
    case EM_RISCV: return "RISC-V";
    default: return fmt::format("machine {}", machine);
  }
}

// The headers of 32-bit and 64-bit objects begin with the same fields.
struct Header {
  unsigned char ident[EI_NIDENT];
  std::uint16_t type;
  std::uint16_t machine;
};

std::optional<Header> header_of(std::string_view file) {
  Header header{};
  if (file.size() < sizeof header || !file.starts_with(ELFMAG)) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  return header;
}

std::string kind_of(const Header& header) {
  unsigned machine = header.machine;
  bool swapped = header.ident[EI_DATA] != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB);
  if (swapped) machine = (machine >> 8 | machine << 8) & 0xffff;
  return fmt::format("{}, {} bits{}", machine_name(machine), header.ident[EI_CLASS] == ELFCLASS32 ? 32 : 64,
                     swapped ? ", other byte order" : "");
}

std::vector<std::string> open_calls(std::string_view trace, std::string* last) {
  std::vector<std::string> open;
  for (std::string_view line : split(trace, '\n')) {
    if (line.starts_with("> ")) open.emplace_back(line.substr(2));
    if (!line.starts_with("< ")) continue;
    // If the tracing itself has failed the end of a call may be missing: the end of the call around it closes it.
    auto begun = std::find(open.rbegin(), open.rend(), line.substr(2));
    if (begun == open.rend()) continue;
    open.erase(begun.base() - 1, open.end());
    if (last != nullptr) *last = line.substr(2);
  }
  return open;
}

}  // namespace

std::optional<Finding> judge_topic(const std::string& topic) {
  job::TopicJudgement judged = job::judge_topic(topic);
  std::string listens = fmt::format("listens to {}, which ", in_quotes(topic));
  switch (judged.kind) {
    case job::TopicJudgement::Kind::called: return std::nullopt;
    case job::TopicJudgement::Kind::never_called:
      return Finding{false, listens + "this version never calls", "no harm is done"};
    case job::TopicJudgement::Kind::misspelt:
      return Finding{true, listens + "no shell ever calls", judged.advice()};
    case job::TopicJudgement::Kind::matches_none:
      return Finding{false, listens + "matches no topic of the shell", "right only if a plugin calls such topics"};
    case job::TopicJudgement::Kind::unknown: break;
  }
  return Finding{false, listens + "is no topic of the shell", "right only if a plugin calls it"};
}

std::optional<Finding> judge_object(std::string_view file, std::string_view program) {
  auto header = header_of(file);
  if (!header)
    return Finding{true, "is no plugin: neither an ELF object nor named *.lua", "build it with cc -shared -fPIC"};
  auto own = header_of(program);
  if (own && kind_of(*header) != kind_of(*own)) {
    return Finding{true, fmt::format("is built for {}, this shell for {}", kind_of(*header), kind_of(*own)),
                   "build it on this machine"};
  }
  if (header->type != ET_DYN) {
    return Finding{true,
                   header->type == ET_REL ? "is no plugin: an object file, not a shared object"
                                          : "is no plugin: not a shared object",
                   "link it with cc -shared"};
  }
  return std::nullopt;
}

std::vector<Finding> missing_in(std::string_view trace) {
  constexpr std::string_view kSymbol = "undefined symbol: ";
  constexpr std::string_view kNotFound = " => not found";
  std::vector<Finding> libraries;
  std::vector<Finding> symbols;
  for (std::string_view line : split(trace, '\n')) {
    std::string_view text = trim(line);
    if (text.ends_with(kNotFound)) {
      text.remove_suffix(kNotFound.size());
      libraries.push_back({true, fmt::format("needs the library {}, which is not found", text),
                           "install it, or set its directory with -Wl,-rpath when linking"});
    } else if (text.starts_with(kSymbol)) {
      text.remove_prefix(kSymbol.size());
      symbols.push_back({true, fmt::format("undefined symbol {}", text.substr(0, text.find_first_of("\t ,"))),
                         "neither nacre-shell nor a library that it is linked with has it"});
    }
  }
  return libraries.empty() ? symbols : libraries;  // the missing symbols may be in the missing libraries
}

bool uses_environ(std::string_view trace, const std::string& object) {
  std::string from = fmt::format("binding file {} [", object);
  for (std::string_view line : split(trace, '\n')) {
    if (line.find(from) == line.npos) continue;
    if (line.find("symbol `environ'") != line.npos || line.find("symbol `__environ'") != line.npos) return true;
  }
  return false;
}

std::optional<std::string> open_call(std::string_view trace) {
  std::vector<std::string> open = open_calls(trace, nullptr);
  return open.empty() ? std::nullopt : std::optional(open.back());
}

std::string last_call(std::string_view trace) {
  std::string last;
  static_cast<void>(open_calls(trace, &last));
  return last;
}

std::optional<Crash> crash_in(std::string_view output) {
  constexpr std::string_view kCrashed = " crashed in ";
  for (std::string_view line : split(output, '\n')) {
    std::size_t at = line.rfind(kCrashed);
    // A shell that knows its rank prints it: nacre-shell[0].
    bool is_shells = line.starts_with("nacre-shell: plugin '") || line.starts_with("nacre-shell[0]: plugin '");
    if (!is_shells || at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + kCrashed.size());
    std::size_t open = rest.rfind(" (");
    if (open == std::string_view::npos || !rest.ends_with(')')) continue;
    return Crash{std::string(rest.substr(0, open)), std::string(rest.substr(open + 2, rest.size() - open - 3))};
  }
  return std::nullopt;
}

std::string reason_in(std::string_view output) {
  std::string_view first;
  std::string_view last;
  std::string_view final;
  for (std::string_view line : split(output, '\n')) {
    if (line.starts_with("nacre-shell: ")) final = line.substr(line.find(' ') + 1);
    if (!line.starts_with("nacre-shell[")) continue;
    for (std::string_view level : {"]: error: ", "]: fatal: "}) {
      std::size_t at = line.find(level);
      if (at == std::string_view::npos) continue;
      last = line.substr(at + level.size());
      if (first.empty()) first = last;
    }
  }
  std::string reason;
  for (std::string_view each : {first, last == first ? "" : last, final}) {
    if (!each.empty()) reason += fmt::format("{}{}", reason.empty() ? "" : "; ", each);
  }
  return reason;
}

}  // namespace nacre::cli
