// SPDX-License-Identifier: Apache-2.0
//
// files: before any task starts, the files of the jobspec's attributes.system.files (Flux RFC 14) are put into the
// job's directory, FLUX_JOB_TMPDIR, on each node.
#include "plugins/files.hpp"

#include <sys/stat.h>

#include "archive/entry.hpp"
#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "broker/instance.hpp"
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

Result<std::string> target_of(const JsonAt& object) {
  const JsonAt data = TRY(object.at("data"));
  std::string target = TRY(data.string());
  if (target.empty() || target.find('\0') != std::string::npos)
    return data.expected("the target of a symbolic link");
  return target;
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
  auto size = TRY(object.find("size"));
  if (size && entry.type == archive::Type::file) entry.size = static_cast<std::uint64_t>(TRY(size->integer(0)));
  if (entry.type == archive::Type::symlink) entry.target = TRY(target_of(object));
  return entry;
}

// The content that is in the object itself.
Result<std::string> content_of(const JsonAt& encoding, const JsonAt& data, bool has_store) {
  const std::string form = TRY(encoding.string());
  if (form == "utf-8") return data.string();
  if (form != "base64") {
    if (has_store) return encoding.expected("utf-8, base64 or blobvec");
    return encoding.expected(form == "blobvec" ? "utf-8 or base64, as there is no content store of Flux here"
                                               : "utf-8 or base64");
  }
  auto bytes = from_base64(TRY(data.string()));
  if (!bytes) return data.error("no base64");
  return *std::move(bytes);
}

// The parts of a file whose content is in the store. Between them are holes.
struct Blobs {
  std::vector<archive::Extent> extents;
  std::vector<std::string> references;
};

Result<Blobs> blobs_of(const JsonAt& data) {
  constexpr std::size_t kMembers = 3;  // offset, size, blobref
  Blobs out;
  for (const JsonAt& each : TRY(data.elements())) {
    const std::vector<JsonAt> blob = TRY(each.elements());
    if (blob.size() != kMembers) return each.expected("[OFFSET, SIZE, BLOBREF]");
    const auto offset = static_cast<std::uint64_t>(TRY(blob[0].integer(0)));
    out.extents.push_back({offset, static_cast<std::uint64_t>(TRY(blob[1].integer(0)))});
    out.references.push_back(TRY(blob[2].string()));
    CHECK_OK(in(blob[2].path(), broker::hash_of(out.references.back())));
  }
  return out;
}

class ObjectExtraction {
 public:
  ObjectExtraction(archive::ExtractDestination&& destination, const archive::ExtractOptions& options,
                   const archive::Watch& watch, broker::ContentStore* content)
      : destination_(std::move(destination)), options_(options), watch_(watch), content_(content) {}

  Result<archive::Progress> run(const JsonAt& objects) {
    Result<void> extracted = extract_all(objects);
    if (extracted) return done_;
    if (options_.all_or_nothing && extracted.error().code != ECANCELED) destination_.undo();
    return std::move(extracted).error();
  }

 private:
  Result<void> extract_all(const JsonAt& objects) {
    if (objects.json().is_array()) {
      for (const JsonAt& each : TRY(objects.elements())) CHECK_OK(add(each, ""));
    } else {
      for (const auto& [path, each] : TRY(objects.members())) CHECK_OK(add(each, path));
    }
    return in(objects.path(), destination_.finish());
  }

  Result<void> add(const JsonAt& object, const std::string& key) {
    archive::ArchiveEntry entry = TRY(entry_of(object, key));
    if (options_.pattern && !glob_match(*options_.pattern, entry.path)) return {};
    ++done_.entries;
    if (watch_.on_entry) watch_.on_entry(entry);
    if (!goes_on()) return Error{ECANCELED, "interrupted"};
    switch (entry.type) {
      case archive::Type::directory: return in(object.path(), destination_.add_directory(entry));
      case archive::Type::symlink: return in(object.path(), destination_.add_symlink(entry));
      default: return add_file(object, key, entry);
    }
  }

  [[nodiscard]] bool goes_on() const { return !watch_.go_on || watch_.go_on(done_); }

  Result<void> add_file(const JsonAt& object, const std::string& key, archive::ArchiveEntry& entry) {
    auto encoding = TRY(object.find("encoding"));
    auto data = TRY(object.find("data"));
    const bool in_store = content_ != nullptr && data && encoding && encoding->json() == "blobvec";
    Blobs blobs;
    std::string content;
    if (in_store)
      blobs = TRY(blobs_of(*data));
    else if (data)
      content = encoding ? TRY(content_of(*encoding, *data, content_ != nullptr)) : dump_json(data->json());
    CHECK_OK(check_size(object, entry, content, blobs));
    UniqueFd file = TRY(in(object.path(), destination_.open_file(entry)));
    // An element of an array is better known by its path than by its index. Errors of the destination have the path
    // already.
    const std::string place =
        key.empty() ? fmt::format("{}: {}", object.path(), in_quotes(entry.path)) : object.path();
    Result<void> written = in(place, in_store ? copy(blobs, file.get()) : write(content, 0, file.get()));
    if (written) written = in(object.path(), destination_.close_file(std::move(file), entry));
    if (!written) destination_.discard_file(entry);
    return written;
  }

  // The size that the object states may be wrong.
  static Result<void> check_size(const JsonAt& object, archive::ArchiveEntry& entry, const std::string& content,
                                 const Blobs& blobs) {
    std::uint64_t end = content.size();
    for (const archive::Extent& each : blobs.extents) end = std::max(end, each.offset + each.size);
    const bool is_given = object.json().contains("size");
    const bool is_right = blobs.extents.empty() ? content.empty() || entry.size == end : entry.size >= end;
    if (is_given && !is_right) return object.error(fmt::format("size {}, but data of {} bytes", entry.size, end));
    if (!is_given) entry.size = end;
    return {};
  }

  Result<void> copy(const Blobs& blobs, int fd) {
    auto take = [&](std::size_t index, std::string_view bytes) -> Result<void> {
      const archive::Extent& extent = blobs.extents[index];
      if (bytes.size() == extent.size) return write(bytes, extent.offset, fd);
      return Error{EBADMSG, fmt::format("{}: the content store has {} bytes, expected {}", blobs.references[index],
                                        bytes.size(), extent.size)};
    };
    return content_->load(blobs.references, take, [this] { return goes_on(); });
  }

  Result<void> write(std::string_view bytes, std::uint64_t offset, int fd) {
    done_.bytes += bytes.size();
    if (options_.max_bytes && options_.bytes_before + done_.bytes > *options_.max_bytes)
      return Error{EFBIG, fmt::format("more content than {} bytes ({})", *options_.max_bytes, options_.limited_by)};
    const int code = write_all_at(fd, bytes, offset);
    return code == 0 ? Result<void>() : system_error(code, "cannot be written");
  }

  archive::ExtractDestination destination_;
  const archive::ExtractOptions& options_;
  const archive::Watch& watch_;
  broker::ContentStore* content_;
  archive::Progress done_;
};

}  // namespace

Result<archive::Progress> extract_objects(const JsonAt& objects, const archive::ExtractOptions& options,
                                          const archive::Watch& watch, broker::ContentStore* content) {
  auto destination =
      TRY(archive::ExtractDestination::open(options.directory, options.existing, options.all_or_nothing));
  return ObjectExtraction(std::move(destination), options, watch, content).run(objects);
}

namespace {

bool is_in_store(const Json& object) { return member_of(object, "encoding") == "blobvec"; }

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
    std::optional<broker::ContentStore> content;
    if (host_.instance() != nullptr && std::any_of(given.begin(), given.end(), is_in_store))
      content = TRY(in(files.path(), broker::ContentStore::connect(host_.instance()->broker->uri())));
    archive::ExtractOptions options;
    options.directory = *directory;
    auto extracted = extract_objects(files, options, {}, content ? &*content : nullptr);
    return extracted ? Result<void>() : std::move(extracted).error();
  }

  plugin::Host& host_;
};

}  // namespace

PluginPtr make_files(plugin::Host& host) { return std::make_unique<Files>(host); }

}  // namespace nacre::plugins
