// SPDX-License-Identifier: Apache-2.0
//
// files: what the jobspec has in attributes.system.files (Flux RFC 14) is in the job's directory, FLUX_JOB_TMPDIR,
// of each node before any task starts. Source of the format: Flux RFC 37, an object by path or an array of file
// system objects.
//
// Not taken are files whose content is in the content store of a Flux instance (encoding blobvec). Nothing outside
// of that directory is made, through whatever symbolic links there are in it.
#include <sys/stat.h>

#include <fmt/format.h>

#include "archive/extract.hpp"
#include "archive/path.hpp"
#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "plugins/builtins.hpp"

namespace nacre::plugins {
namespace {

constexpr mode_t kPermissions = 0777;
constexpr std::int64_t kMaxMode = 0177777;

Result<archive::Type> type_of(const JsonAt& mode, std::int64_t bits) {
  switch (bits & S_IFMT) {
    case S_IFREG: return archive::Type::file;
    case S_IFDIR: return archive::Type::directory;
    case S_IFLNK: return archive::Type::symlink;
    default: return mode.error(fmt::format("{:#o} is the mode of no file, directory or symbolic link", bits));
  }
}

Result<std::string> path_of(const JsonAt& place, const std::string& text) {
  std::string path = TRY(in(place.path(), archive::clean_path(text)));
  if (path.empty() || path.find('\0') != std::string::npos) return place.error("expected a path in an archive");
  return path;
}

Result<archive::ArchiveEntry> entry_of(const JsonAt& object, const std::string& key) {
  archive::ArchiveEntry entry;
  auto path = TRY(object.find("path"));
  if (!path && key.empty()) return object.at("path").error();
  entry.path = TRY(path_of(path.value_or(object), path ? TRY(path->string()) : key));
  JsonAt mode = TRY(object.at("mode"));
  std::int64_t bits = TRY(mode.integer(0, kMaxMode));
  entry.type = TRY(type_of(mode, bits));
  if ((bits & (S_ISUID | S_ISGID)) != 0 && entry.type == archive::Type::file)
    return mode.error(fmt::format("{:#o}: refused: a set-user-ID or set-group-ID bit", bits));
  entry.mode = static_cast<mode_t>(bits) & kPermissions;
  entry.mtime = {0, UTIME_NOW};
  if (auto time = TRY(object.find("mtime"))) entry.mtime = {TRY(time->integer(0)), 0};
  return entry;
}

// The content of a regular file.
Result<std::string> content_of(const JsonAt& object) {
  auto encoding = TRY(object.find("encoding"));
  auto data = TRY(object.find("data"));
  if (!data) return std::string();
  if (!encoding) return dump_json(data->json());
  std::string form = TRY(encoding->string());
  if (form == "utf-8") return data->string();
  if (form != "base64")
    return encoding->expected(form == "blobvec" ? "utf-8 or base64, as there is no content store of Flux here"
                                                : "utf-8 or base64");
  auto bytes = from_base64(TRY(data->string()));
  if (!bytes) return data->error("no base64");
  return *std::move(bytes);
}

Result<void> add_file(const JsonAt& object, archive::ArchiveEntry& entry,
                      archive::ExtractDestination& destination) {
  std::string content = TRY(content_of(object));
  entry.size = content.size();
  if (auto size = TRY(object.find("size"))) entry.size = static_cast<std::uint64_t>(TRY(size->integer(0)));
  if (entry.size != content.size() && !content.empty())
    return object.error(fmt::format("size {}, but data of {} bytes", entry.size, content.size()));
  UniqueFd file = TRY(in(object.path(), destination.open_file(entry)));
  if (int code = write_all(file.get(), content); code != 0) {
    destination.discard_file(entry);
    return system_error(code, object.path());
  }
  return in(object.path(), destination.close_file(std::move(file), entry));
}

Result<void> add(const JsonAt& object, const std::string& key, archive::ExtractDestination& destination) {
  archive::ArchiveEntry entry = TRY(entry_of(object, key));
  switch (entry.type) {
    case archive::Type::directory: return in(object.path(), destination.add_directory(entry));
    case archive::Type::symlink:
      entry.target = TRY(TRY(object.at("data")).string());
      if (entry.target.empty() || entry.target.find('\0') != std::string::npos)
        return TRY(object.at("data")).expected("the target of a symbolic link");
      return in(object.path(), destination.add_symlink(entry));
    default: return add_file(object, entry, destination);
  }
}

class Files final : public plugin::Plugin {
 public:
  explicit Files(plugin::Host& host) : Plugin("files"), host_(host) {
    on("shell.init", [this] { return extract(); });
  }

 private:
  Result<void> extract() {
    static const Json::json_pointer kPlace("/attributes/system/files");
    const Json& given = find_at(host_.job().spec.document, kPlace);
    if (given.is_null()) return {};
    JsonAt files = JsonAt::root(given, "attributes.system.files");
    auto directory = host_.environment().get("FLUX_JOB_TMPDIR");
    if (!directory) return files.error("there is no FLUX_JOB_TMPDIR to put them into");
    auto destination = TRY(archive::ExtractDestination::open(std::string(*directory), archive::Existing::refuse));
    if (files.json().is_array()) {
      for (const JsonAt& each : TRY(files.elements())) CHECK_OK(add(each, "", destination));
    } else {
      for (const auto& [path, each] : TRY(files.members())) CHECK_OK(add(each, path, destination));
    }
    return in(files.path(), destination.finish());
  }

  plugin::Host& host_;
};

}  // namespace

PluginPtr make_files(plugin::Host& host) { return std::make_unique<Files>(host); }

}  // namespace nacre::plugins
