// SPDX-License-Identifier: Apache-2.0
#include "front/attach_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "base/print.hpp"
#include "base/text.hpp"

namespace nacre::front {
namespace {

constexpr std::size_t kFilePiece = std::size_t{64} << 10;

std::optional<UniqueFd> file_of(const record::JobList& list, const record::Listed& job) {
  for (const record::EntryDirectory& each : list.directories) {
    if (auto file = each.read_output(job.entry.id)) return std::move(*file);
  }
  return std::nullopt;
}

// Where the last `lines` lines of the file begin, which has `size` bytes.
Result<std::int64_t> start_of_lines(int fd, std::int64_t size, std::uint64_t lines) {
  std::string buffer(kFilePiece, '\0');
  std::uint64_t found = 0;
  for (std::int64_t end = size; end > 0;) {
    std::int64_t begin = std::max<std::int64_t>(end - static_cast<std::int64_t>(kFilePiece), 0);
    ssize_t got = ::pread(fd, buffer.data(), static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) return got < 0 ? system_error(errno, "pread") : Error{EIO, "the file became shorter"};
    for (std::int64_t at = end - 1; at >= begin; --at) {
      bool is_end = buffer[static_cast<std::size_t>(at - begin)] == '\n' && at != size - 1;
      if (is_end && ++found == lines) return at + 1;
    }
    end = begin;
  }
  return 0;
}

class LinesOfJson {
 public:
  void add(std::string_view bytes) {
    line_ += bytes;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
      print(std::string_view(line_).substr(begin, end - begin));
    line_.erase(0, begin);
  }
  void end() {
    if (!line_.empty()) print(line_);
  }

 private:
  static void print(std::string_view line) {
    print_out("{}\n", dump_json({{"stream", "terminal"}, {"data", line}}));
  }

  std::string line_;
};

}  // namespace

Result<bool> show_kept_output(const record::JobList& list, const record::Listed& job, const KeptOutput& how) {
  auto file = file_of(list, job);
  if (!file) return false;
  std::int64_t size = ::lseek(file->get(), 0, SEEK_END);
  std::int64_t at = 0;
  if (how.lines && *how.lines == 0) return true;
  if (how.lines) at = TRY(start_of_lines(file->get(), size, *how.lines));
  std::string buffer(kFilePiece, '\0');
  LinesOfJson lines;
  for (;;) {
    ssize_t got = ::pread(file->get(), buffer.data(), buffer.size(), at);
    if (got < 0) return system_error(errno, "the job's file of output");
    if (got == 0) break;
    at += got;
    std::string_view piece = std::string_view(buffer).substr(0, static_cast<std::size_t>(got));
    if (how.json)
      lines.add(piece);
    else
      print_out(piece);
    CHECK_OK(flush_out());
  }
  lines.end();
  CHECK_OK(flush_out());
  return true;
}

}  // namespace nacre::front
