// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/viewers.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace nacre::plugins {

Result<Scrollback::Wanted> Viewers::read(const Json& arguments, std::uint64_t tasks) {
  Scrollback::Wanted out;
  JsonAt at = JsonAt::root(arguments);
  if (auto ranks = TRY(at.find("ranks"))) {
    auto named = value::Idset::parse(TRY(ranks->string()));
    if (!named) return ranks->error(named.error().message);
    if (auto last = named->last(); last && *last >= tasks)
      return invalid(fmt::format("no rank {}: the job has ranks 0-{}", *last, tasks - 1));
    out.ranks = *std::move(named);
  }
  if (auto streams = TRY(at.find("streams"))) {
    out.streams = {};
    for (const std::string& each : TRY(streams->strings())) {
      auto found = std::find_if(io::kStreams.begin(), io::kStreams.end(),
                                [&](io::Stream stream) { return io::name_of(stream) == each; });
      if (found == io::kStreams.end()) return streams->expected("stdout, stderr");
      out.streams.at(static_cast<std::size_t>(*found)) = true;
    }
  }
  if (auto tail = TRY(at.find("tail")); tail && tail->json() != "all") {
    if (tail->json() == "none")
      out.lines = 0;
    else if (tail->json().is_number())
      out.lines = static_cast<std::uint64_t>(TRY(tail->integer(0, static_cast<std::int64_t>(kMaxTail))));
    else
      return tail->expected("a number of lines, all or none");
  }
  if (auto since = TRY(at.find("since"))) out.since = TRY(since->number());
  return out;
}

void Viewers::attach(ClientId client, const control::ControlRequest& request, std::uint64_t tasks) {
  auto wanted = read(request.arguments, tasks);
  if (!wanted) return link_.answer(client, request.id, wanted.error());
  Key key{client, request.id};
  auto least = static_cast<std::size_t>(std::clamp<std::uint64_t>(request.credit, 1, control::kMaxStreamData));
  auto viewer = std::make_unique<Viewer>(kept_, *std::move(wanted), least);
  link_.part(client, request.id, {{"before", viewer->reader.before()}, {"tasks", tasks}});
  if (serve(key, *viewer)) viewers_.emplace(key, std::move(viewer));
}

void Viewers::has_room(ClientId client, std::uint64_t id) {
  auto found = viewers_.find({client, id});
  if (found == viewers_.end()) return;
  found->second->waits = false;
  if (!serve(found->first, *found->second)) viewers_.erase(found);
}

void Viewers::gone(ClientId client) {
  std::erase_if(viewers_, [client](const auto& each) { return each.first.first == client; });
}

void Viewers::put(const io::Batch& batch) {
  kept_.put(batch);
  serve_all();
}

void Viewers::all_out() {
  is_all_out_ = true;
  serve_all();
}

void Viewers::ended(int code) {
  is_all_out_ = true;
  if (!code_) code_ = code;
  serve_all();
}

void Viewers::serve_all() {
  std::erase_if(viewers_, [this](const auto& each) { return !serve(each.first, *each.second); });
}

bool Viewers::serve(const Key& key, Viewer& viewer) {
  const auto& [client, id] = key;
  while (!viewer.waits && !viewer.has_all) {
    auto piece = next(key, viewer);
    if (piece) {
      viewer.waits = !send(key, viewer, *piece);
      continue;
    }
    if (!is_all_out_) return true;
    viewer.has_all = true;
    report_missed(key, viewer);
    for (io::Stream stream : io::kStreams) link_.put_end(client, {id, std::string(io::name_of(stream))});
  }
  if (!viewer.has_all) return true;
  if (!code_) code_ = link_.code_of_tasks();
  if (!code_) return true;
  link_.answer(client, id, Json{{"code", *code_}});
  return false;
}

// What there is room for, unless that cuts a line that only has to wait.
std::optional<Scrollback::Piece> Viewers::next(const Key& key, Viewer& viewer) {
  std::size_t room = std::min(link_.room(key.first, key.second), control::kMaxStreamData);
  auto piece = viewer.reader.next(std::max(room, viewer.least));
  if (!piece || piece->text.size() <= room || room == 0) return piece;
  auto shorter = viewer.reader.next(room);
  return shorter->text.back() == '\n' || room >= viewer.least ? shorter : piece;
}

bool Viewers::send(const Key& key, Viewer& viewer, const Scrollback::Piece& piece) {
  const auto& [client, id] = key;
  if (link_.room(client, id) >= piece.text.size()) report_missed(key, viewer);
  control::StreamData data{
      id, std::string(io::name_of(piece.stream)), piece.text, {{"rank", piece.rank}, {"time", piece.time}}};
  if (piece.continues) data.members["continues"] = true;
  if (piece.open) data.members["open"] = true;
  if (!link_.put(client, data)) return false;
  viewer.reader.pass(piece);
  return true;
}

// Where they are missing: before what follows.
void Viewers::report_missed(const Key& key, Viewer& viewer) {
  Scrollback::Missed missed = viewer.reader.missed();
  if (missed.bytes == 0) return;
  link_.part(key.first, key.second, {{"missed", {{"lines", missed.lines}, {"bytes", missed.bytes}}}});
}

}  // namespace nacre::plugins
