// SPDX-License-Identifier: Apache-2.0
#include "front/srun_errors.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "value/wait_status.hpp"

namespace nacre::front {
namespace {

constexpr std::string_view kError = "srun: error: ";

bool take_front(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

struct ShellsEnd {
  value::Idset shells;
  std::string_view how;
};

// Of "srun: error: HOSTS: task N: HOW" or "srun: error: HOSTS: tasks N-M,...: HOW"; none: it is no such line.
std::optional<ShellsEnd> end_in(std::string_view line) {
  if (!take_front(line, kError)) return {};
  std::size_t hosts = line.find(": ");
  if (hosts == 0 || hosts == std::string_view::npos || line.find(' ') < hosts) return {};
  line.remove_prefix(hosts);
  if (!take_front(line, ": task ") && !take_front(line, ": tasks ")) return {};
  std::size_t end = line.find(": ");
  auto shells = value::Idset::parse(line.substr(0, end));
  if (end == std::string_view::npos || !shells || shells->empty()) return {};
  return ShellsEnd{*std::move(shells), line.substr(end + 2)};
}

// How one ends that a signal has ended, or that has handled it: strsignal(3)'s words, or an exit code.
std::optional<int> signal_of(std::string_view how) {
  for (int signum : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    std::string_view name = ::sigdescr_np(signum);
    if (how == name || how == fmt::format("{} (core dumped)", name) ||
        how == fmt::format("Exited with exit code {}", value::kSignalBase + signum))
      return signum;
  }
  return std::nullopt;
}

}  // namespace

bool SrunErrors::may_be_kept() const {
  auto begins_alike = [this](std::string_view front) {
    return front.starts_with(line_) || std::string_view(line_).starts_with(front);
  };
  if (ends_step_) return begins_alike("srun: ") || begins_alike("slurmstepd: ");
  return begins_alike(kError);
}

// Of a line that has ended: whether it is kept.
bool SrunErrors::take_line() {
  auto end = end_in(std::string_view(line_).substr(0, line_.size() - 1));
  if (!end && !(ends_step_ && may_be_kept())) return false;
  if (end) ended_.insert(end->shells);
  if (end && !signal_) signal_ = signal_of(end->how);
  if (!keeps_ && !ends_step_) return false;
  if (kept_.size() + line_.size() <= kMaxKept) kept_ += line_;
  return true;
}

std::string SrunErrors::take(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    std::size_t end = bytes.find('\n');
    std::string_view piece = bytes.substr(0, end == std::string_view::npos ? end : end + 1);
    bytes.remove_prefix(piece.size());
    if (passes_line_) {
      out += piece;
      passes_line_ = end == std::string_view::npos;
      continue;
    }
    line_ += piece;
    bool is_whole = end != std::string_view::npos;
    if (!is_whole && may_be_kept() && line_.size() <= kMaxLine) break;
    if (!is_whole || !take_line()) out += line_;
    passes_line_ = !is_whole;
    line_.clear();
  }
  return out;
}

bool labels_lines(const std::vector<std::string>& arguments) {
  if (std::getenv("SLURM_LABELIO") != nullptr) return true;
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const std::string& each) { return each == "-l" || each == "--label"; });
}

}  // namespace nacre::front
