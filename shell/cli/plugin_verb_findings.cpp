// SPDX-License-Identifier: Apache-2.0
#include "cli/plugin_verb_findings.hpp"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/nearest.hpp"
#include "base/text.hpp"

namespace nacre::cli {
namespace {

// As nacre-shell-plugins(7) lists them.
constexpr std::array kCalled = {"shell.init",          "shell.post-init", "task.init",
                                "task.exec",           "task.fork",       "shell.start",
                                "task.exit",           "shell.finish",    "shell.tasks-complete",
                                "shell.exit",          "shell.log",       "shell.log-setlevel",
                                "hwloc.xml",           "hwloc.cores",     "shell.lost",
                                "job.tasks-exited",    "job.report",      "job.listed",
                                "output.open",         "pmi.connected",   "report.note",
                                "shell.processes-left"};
constexpr std::array kNotCalled = {"shell.connect", "shell.resource-update", "shell.reconnect"};
constexpr std::array kFamilies = {"taskmap.", "mustache.render."};
constexpr std::array kRealms = {"shell.", "task."};  // all topics that begin so are known
constexpr std::size_t kMisspelt = 2;                 // edits, at most

struct Nearest {
  std::string topic;
  std::size_t edits = SIZE_MAX;
};

Nearest nearest(const std::string& topic) {
  Nearest best;
  auto consider = [&](std::string name, std::size_t edits) {
    if (edits < best.edits) best = {std::move(name), edits};
  };
  for (const char* each : kCalled) consider(each, edit_distance(topic, each));
  for (std::string_view family : kFamilies) {
    std::string front = topic.substr(0, topic.rfind('.') + 1);
    if (!front.empty()) consider(std::string(family) + topic.substr(front.size()), edit_distance(front, family));
  }
  return best;
}

template <typename List>
bool any_matches(const List& list, const std::string& topic) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) {
    return topic == each || (is_glob(topic) && glob_match(topic, each));
  });
}

template <typename List>
bool any_begins(const List& list, const std::string& topic) {
  return std::any_of(list.begin(), list.end(), [&](const char* each) { return topic.starts_with(each); });
}

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
  if (any_matches(kCalled, topic) || any_begins(kFamilies, topic)) return std::nullopt;
  if (any_matches(kNotCalled, topic)) {
    return Finding{false, fmt::format("listens to {}, which this version never calls", in_quotes(topic)),
                   "no harm is done"};
  }
  if (is_glob(topic) && !any_begins(kRealms, topic)) {
    return Finding{false, fmt::format("listens to {}, which matches no topic of the shell", in_quotes(topic)),
                   "right only if a plugin calls such topics"};
  }
  Nearest best = nearest(topic);
  if (best.edits <= kMisspelt || any_begins(kRealms, topic)) {
    return Finding{true, fmt::format("listens to {}, which no shell ever calls", in_quotes(topic)),
                   fmt::format("did you mean {}?", in_quotes(best.topic))};
  }
  return Finding{false, fmt::format("listens to {}, which is no topic of the shell", in_quotes(topic)),
                 "right only if a plugin calls it"};
}

std::optional<Finding> judge_object(std::string_view file, std::string_view program) {
  auto header = header_of(file);
  if (!header) return Finding{true, "is neither an ELF object nor named *.lua", "build it with cc -shared -fPIC"};
  auto own = header_of(program);
  if (own && kind_of(*header) != kind_of(*own)) {
    return Finding{true, fmt::format("is built for {}, this shell for {}", kind_of(*header), kind_of(*own)),
                   "build it on this machine"};
  }
  if (header->type != ET_DYN) {
    return Finding{true,
                   header->type == ET_REL ? "is an object file, not a shared object" : "is not a shared object",
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
