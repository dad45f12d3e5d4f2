// SPDX-License-Identifier: Apache-2.0
#include "line_writer.hpp"

#include <unistd.h>

#include <utility>

#include <fmt/format.h>

#include "base/file.hpp"

namespace nacre::plugins {

Result<void> LineWriter::add(Source& source, std::string_view bytes) {
  std::size_t newline = bytes.rfind('\n');
  if (newline != std::string_view::npos) {
    std::string_view lines = bytes.substr(0, newline + 1);
    bytes.remove_prefix(newline + 1);
    if (source.partial.empty()) {
      CHECK_OK(put(source, lines));
    } else {
      source.partial += lines;
      CHECK_OK(put(source, std::exchange(source.partial, {})));
    }
  }
  source.partial += bytes;
  if (source.partial.size() > kMaxLine) return put(source, std::exchange(source.partial, {}));
  return {};
}

Result<void> LineWriter::end(Source& source) {
  bool unfinished = !source.partial.empty() || (midline_ && owner_ == &source);
  if (unfinished && !source.label.empty()) source.partial += '\n';
  if (!source.partial.empty()) CHECK_OK(put(source, std::exchange(source.partial, {})));
  if (owner_ == &source) owner_ = nullptr;
  return {};
}

Result<void> LineWriter::put(const Source& source, std::string_view text) {
  bool continues = midline_ && owner_ == &source;
  if (midline_ && !continues) CHECK_OK(write("\n"));
  midline_ = text.back() != '\n';
  owner_ = &source;
  if (source.label.empty()) return write(text);
  labelled_.clear();
  while (!text.empty()) {
    std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    if (!std::exchange(continues, false)) labelled_ += source.label;
    labelled_ += text.substr(0, size);
    text.remove_prefix(size);
  }
  return write(labelled_);
}

Result<void> LineWriter::write(std::string_view text) {
  int code = write_all(fd_, text);
  if (code == 0) return {};
  return system_error(code, fmt::format("cannot write {}", fd_ == STDERR_FILENO ? "stderr" : "stdout"));
}

}  // namespace nacre::plugins
