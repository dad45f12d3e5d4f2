// SPDX-License-Identifier: Apache-2.0
#include "front/bundle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "archive/store.hpp"
#include "archive/writer.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "cli/interrupts.hpp"
#include "record/shareable.hpp"

namespace nacre::front {
namespace {

constexpr mode_t kMode = 0600;
constexpr const char* kManifest = "MANIFEST.json";

struct Tail {
  std::string text;
  std::uint64_t whole = 0;  // bytes of the file
};

Result<Tail> tail_of(const std::string& path, std::size_t most) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return system_error(errno, path);
  struct stat info {};
  if (::fstat(file.get(), &info) < 0) return system_error(errno, path);
  if (!S_ISREG(info.st_mode)) return invalid(path + ": is no file, so nothing of it is kept");
  Tail out;
  out.whole = static_cast<std::uint64_t>(info.st_size);
  std::uint64_t from = out.whole > most ? out.whole - most : 0;
  out.text.resize(most);
  std::size_t size = 0;
  while (size < most) {
    ssize_t got = ::pread(file.get(), out.text.data() + size, most - size, static_cast<off_t>(from + size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  out.text.resize(size);
  return out;
}

std::string pretty(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace) + '\n'; }

}  // namespace

void Bundle::add(const std::string& path, std::string text) {
  if (text.empty()) return;
  files_.push_back({path, std::move(text), "", 0});
}

void Bundle::add_json(const std::string& path, const Json& value) { add(path, pretty(value)); }

void Bundle::add_tail(const std::string& path, const std::string& file) {
  auto tail = tail_of(file, kMostTail);
  if (!tail) return lacks(path, tail.error().message);
  if (tail->text.empty()) return lacks(path, file + ": is empty");
  files_.push_back({path, record::text_without_secrets(tail->text), file, tail->whole});
}

void Bundle::lacks(const std::string& what, const std::string& why) { lacks_.emplace_back(what, why); }

Result<Bundle::Written> Bundle::write(const std::string& path, bool replaces, Json about) const {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond RLIMIT_FSIZE is an error then
  cli::Interrupts interrupts;
  std::error_code failed;
  std::filesystem::path target = std::filesystem::absolute(path, failed);
  if (failed) return system_error(failed.value(), path);
  struct stat info {};
  if (!replaces && ::lstat(target.c_str(), &info) == 0)
    return Error{EEXIST, fmt::format("{}: exists already; --force replaces it", path)};
  if (::stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return invalid(fmt::format("{}: is no file: expected the name of one that can be made or replaced", path));
  if (::stat(target.parent_path().c_str(), &info) < 0)
    return system_error(errno, "cannot write to " + target.parent_path().native());

  Written out;
  Json files = Json::array();
  for (const File& each : files_) {
    Json file{{"path", each.path}, {"bytes", each.text.size()}};
    if (!each.of.empty()) file["of"] = {{"path", each.of}, {"bytes", each.whole}};
    files.push_back(std::move(file));
    ++out.files;
    out.bytes += each.text.size();
  }
  Json missing = Json::array();
  for (const auto& [what, why] : lacks_) missing.push_back({{"what", what}, {"why", why}});
  about["files"] = std::move(files);
  about["missing"] = std::move(missing);
  std::string manifest = pretty(about);

  auto library = TRY(archive::Library::load());
  archive::NewFile file = TRY(archive::NewFile::create(target));
  if (::fchmod(file.fd(), kMode) < 0) return system_error(errno, path);
  auto writer = TRY(in(path, archive::Writer::create(library, file.fd(), archive::Compression::zstd)));
  auto put = [&](const std::string& name, std::string_view text) -> Result<void> {
    if (auto signum = interrupts.pending()) return Error{ECANCELED, "interrupted"};
    archive::ArchiveEntry entry;
    entry.path = folder_ + "/" + name;
    entry.mode = kMode;
    entry.size = text.size();
    ::clock_gettime(CLOCK_REALTIME, &entry.mtime);
    CHECK_OK(in(path, writer.begin(entry)));
    CHECK_OK(in(path, writer.write(0, text)));
    return in(path, writer.end());
  };
  CHECK_OK(put(kManifest, manifest));
  for (const File& each : files_) CHECK_OK(put(each.path, each.text));
  CHECK_OK(in(path, writer.finish()));
  if (interrupts.pending()) return Error{ECANCELED, "interrupted"};
  auto committed = file.commit(replaces);
  if (!committed && committed.error().code == EEXIST)
    return Error{EEXIST, fmt::format("{}: exists already; --force replaces it", path)};
  CHECK_OK(std::move(committed));
  return out;
}

}  // namespace nacre::front
