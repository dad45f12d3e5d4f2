// SPDX-License-Identifier: Apache-2.0
#include "archive/extract.hpp"

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::archive {
namespace {

class Extraction {
 public:
  Extraction(Reader& reader, ExtractDestination&& destination, const ExtractOptions& options, const Watch& watch)
      : reader_(reader), destination_(std::move(destination)), options_(options), watch_(watch) {}

  Result<Progress> run() {
    Result<void> extracted = extract_all();
    if (extracted) return done_;
    if (options_.all_or_nothing && extracted.error().code != ECANCELED) destination_.undo();
    return std::move(extracted).error();
  }

 private:
  template <typename T>
  Result<T> here(Result<T> result) const {
    return in(reader_.name(), std::move(result));
  }

  Result<void> extract_all() {
    while (std::optional<ArchiveEntry> entry = TRY(reader_.next())) {
      if (options_.pattern && !glob_match(*options_.pattern, entry->path)) continue;
      ++done_.entries;
      if (watch_.on_entry) watch_.on_entry(*entry);
      CHECK_OK(go_on());
      CHECK_OK(extract(*entry));
    }
    return here(destination_.finish());
  }

  Result<void> go_on() const {
    if (!watch_.go_on || watch_.go_on(done_)) return {};
    return here(Result<void>(Error{ECANCELED, "interrupted"}));
  }

  Result<void> extract(const ArchiveEntry& entry) {
    switch (entry.type) {
      case Type::directory: return here(destination_.add_directory(entry));
      case Type::symlink: return here(destination_.add_symlink(entry));
      case Type::hard_link: return here(destination_.add_hard_link(entry));
      case Type::file: break;
    }
    UniqueFd file = TRY(here(destination_.open_file(entry)));
    Result<void> copied = copy(entry, file.get());
    if (copied) copied = here(destination_.close_file(std::move(file), entry));
    if (!copied) destination_.discard_file(entry);
    return copied;
  }

  Result<void> copy(const ArchiveEntry& entry, int fd) {
    while (std::optional<Reader::Block> block = TRY(reader_.next_block())) {
      done_.bytes += block->bytes.size();
      if (options_.max_bytes && options_.bytes_before + done_.bytes > *options_.max_bytes) {
        return here(
            Result<void>(Error{EFBIG, fmt::format("{}: more content than {} bytes ({})", in_quotes(entry.path),
                                                  *options_.max_bytes, options_.limited_by)}));
      }
      if (int code = write_all_at(fd, block->bytes, block->offset); code != 0) {
        return here(Result<void>(system_error(code, in_quotes(entry.path))));
      }
      CHECK_OK(go_on());
    }
    return {};
  }

  Reader& reader_;
  ExtractDestination destination_;
  const ExtractOptions& options_;
  const Watch& watch_;
  Progress done_;
};

}  // namespace

Result<Progress> extract(Reader& reader, const ExtractOptions& options, const Watch& watch) {
  ExtractDestination destination = TRY(in(
      "cannot extract to", ExtractDestination::open(options.directory, options.existing, options.all_or_nothing)));
  return Extraction(reader, std::move(destination), options, watch).run();
}

}  // namespace nacre::archive
