// SPDX-License-Identifier: Apache-2.0
//
// Makes an archive of files. The archive appears only when it is complete: if anything fails, at any time, what was
// there before is not changed.
#pragma once

#include "archive/entry.hpp"
#include "archive/library.hpp"
#include "base/unique_fd.hpp"

namespace nacre::archive {

// Writes a tar archive in pax format (POSIX.1-2001; holes as GNU.sparse 1.0), compressed or not.

// Readers of zstd and xz notice each flipped bit; readers of the others only notice damage to the format.
enum class Compression { none, gzip, zstd, xz };
inline constexpr std::array kCompressions{Compression::none, Compression::gzip, Compression::zstd, Compression::xz};

[[nodiscard]] std::string_view name_of(Compression compression);       // "none", "gzip", ...
[[nodiscard]] std::string_view extension_of(Compression compression);  // ".tar", ".tar.gz", ".tar.zst", ".tar.xz"
[[nodiscard]] std::optional<Compression> compression_named(std::string_view name);

class Writer {
 public:
  // `library` must outlive it, and `fd` stay open. Without finish() the output is no archive.
  static Result<Writer> create(const Library& library, int fd, Compression compression);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  // For each entry: begin(); for a file write() all of its extents, in ascending order; end().
  Result<void> begin(const ArchiveEntry& entry);
  Result<void> write(std::uint64_t offset, std::string_view bytes);
  Result<void> end();
  Result<void> finish();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// The directory of the user's archives. An archive NAME is a file NAME.tar.zst, or .tar.gz, .tar.xz or .tar, and a
// name has at most one. If all nodes see the directory, they share its archives.

inline constexpr const char* kDefaultName = "main";
inline constexpr std::size_t kMaxName = 200;  // bytes of an archive's name

class ArchiveStore {
 public:
  // $NACRE_ARCHIVE_DIR, else $XDG_DATA_HOME/nacre/archives, else $HOME/.local/share/nacre/archives, as `variable`
  // returns them; an empty one counts as not set. An error if none is set, or if it is no absolute path.
  using Variable = std::function<std::optional<std::string>(const char* name)>;
  static Result<ArchiveStore> of_environment(const Variable& variable);
  explicit ArchiveStore(std::string directory) : directory_(std::move(directory)) {}

  // A name has 1 to kMaxName bytes, without '/' and control characters, and neither starts with '.' nor ends with
  // one of the extensions.
  static Result<void> check_name(std::string_view name);

  struct Found {
    std::string path;
    Compression compression = Compression::none;  // by its extension
  };
  // The archive of this name, if there is one. Two of them are an error.
  Result<std::optional<Found>> look_up(const std::string& name) const;
  // As look_up(), if the archive has to exist: otherwise ENOENT, with this directory and the archives that are
  // there.
  Result<Found> find(const std::string& name) const;
  // The names of all archives, sorted; none if there is no such directory.
  Result<std::vector<std::string>> names() const;
  Result<void> remove(const Found& found) const;

  [[nodiscard]] std::string path_of(const std::string& name, Compression compression) const;
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

// A file that appears only when it is complete: until commit() it has another name (`.NAME.tar.zst.XXXXXXXX`), and
// it is removed if commit() is never called.
class NewFile {
 public:
  // The file that will be `path`; makes the missing directories above.
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&&) = default;
  NewFile& operator=(NewFile&&) = default;
  ~NewFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  // Writes it to the disk, then gives it its name. Without `replace`, an existing file of that name is an error,
  // EEXIST.
  Result<void> commit(bool replace);

 private:
  NewFile(UniqueFd fd, std::string temporary, std::string path)
      : fd_(std::move(fd)), temporary_(std::move(temporary)), path_(std::move(path)) {}

  UniqueFd fd_;  // none: it was committed, or moved from
  std::string temporary_;
  std::string path_;
};

struct CreateOptions {
  enum class IfExists { refuse, replace, append };

  std::string directory = ".";     // the base of `paths`
  std::vector<std::string> paths;  // in the form of clean_path(); a directory includes all that is in it
  // None: that of the archive to which this appends, or else zstd.
  std::optional<Compression> compression;
  IfExists if_exists = IfExists::refuse;
};

// Errors name the path: something that is neither file, directory nor symbolic link; a link that check_symlink()
// refuses; a file with a set-user-ID or set-group-ID bit, or one that changes while it is read; a path that is in
// the archive already (directories may be); more than kMaxEntries. Returns what the archive holds, including what
// was in it before.
Result<Progress> create(const Library& library, const ArchiveStore& store, const std::string& name,
                        const CreateOptions& options, const Watch& watch);

}  // namespace nacre::archive
