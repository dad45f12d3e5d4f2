// SPDX-License-Identifier: Apache-2.0
#include "io/folder.hpp"

#include "base/invariant.hpp"
#include "value/idset.hpp"

namespace nacre::io {

void Folder::add(const Batch& batch, const Emit& emit) {
  std::string joined;
  std::string_view all = batch.joined(joined);
  while (!all.empty()) {
    std::size_t size = std::min(all.find('\n'), all.size() - 1) + 1;
    add_line(batch.source->stream, batch.source->rank, batch.time, all.substr(0, size), emit);
    all.remove_prefix(size);
  }
}

void Folder::add_line(Stream stream, std::uint32_t rank, double time, std::string_view line, const Emit& emit) {
  std::uint64_t& last = last_[{stream, rank}];
  std::uint64_t found = first_ + lines_.size();
  auto next = by_text_.upper_bound({line, stream, last});
  if (next != by_text_.end() && std::get<0>(*next) == line && std::get<1>(*next) == stream) {
    found = std::get<2>(*next);
  } else {
    lines_.push_back({stream, time, std::string(line), {}});
    by_text_.emplace(lines_.back().text, stream, found);
    bytes_ += line.size() + kLineCost;
  }
  if (last < first_) ++ahead_.at(static_cast<std::size_t>(stream));
  last = found;
  lines_[found - first_].ranks.push_back(rank);
  emit_complete(emit);
  while (bytes_ > kWindow) emit_front(emit);
}

void Folder::end(const Source& source, const Emit& emit) {
  auto index = static_cast<std::size_t>(source.stream);
  auto last = last_.find({source.stream, source.rank});
  if (last != last_.end()) {
    if (last->second >= first_) --ahead_.at(index);
    last_.erase(last);
  }
  if (live_.at(index) > 0) --live_.at(index);
  emit_complete(emit);
}

void Folder::expire(double time, const Emit& emit) {
  while (!lines_.empty() && lines_.front().time + kDelay <= time) emit_front(emit);
}

std::optional<double> Folder::deadline() const {
  if (lines_.empty()) return std::nullopt;
  return lines_.front().time + kDelay;
}

void Folder::emit_complete(const Emit& emit) {
  while (!lines_.empty()) {
    auto index = static_cast<std::size_t>(lines_.front().stream);
    if (ahead_.at(index) < live_.at(index)) return;
    emit_front(emit);
  }
}

void Folder::emit_front(const Emit& emit) {
  Line& line = lines_.front();
  by_text_.erase({line.text, line.stream, first_});
  INVARIANT(bytes_ >= line.text.size() + kLineCost);
  bytes_ -= line.text.size() + kLineCost;
  for (std::uint32_t rank : line.ranks) {
    auto last = last_.find({line.stream, rank});
    if (last != last_.end() && last->second == first_) --ahead_.at(static_cast<std::size_t>(line.stream));
  }
  std::string names = names_ ? names_(line.ranks) : value::Idset::of(line.ranks).str(true);
  Source source{line.ranks.front(), line.stream, std::move(names) + ": "};
  if (line.text.back() != '\n') line.text += '\n';
  emit({&source, line.time, {}, line.text, false, false});
  lines_.pop_front();
  ++first_;
}

}  // namespace nacre::io
